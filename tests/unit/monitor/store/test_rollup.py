from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME, CHIP_METRICS, Aggregate, Kind
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import LayoutChanged, finish
from trnfleet.monitor.store import fields, instance_rollup
from trnfleet.monitor.store.rollup import LEVELS

MIXED = [
    *ultraservers(3),
    *standalone(2),
    ("uc1/standalone/small-1", "trn2.3xlarge"),
    *ultraservers(2, "uc2"),
]


def ready() -> Feed:
    feed = Feed(MIXED)
    feed.scatter(4)
    feed.describe()
    feed.tick()
    return feed


def expected(feed: Feed, name: str, node: Node, only: np.ndarray | None = None) -> float:
    """Roll up with a plain loop over chips."""
    rows = np.array(feed.monitor.store.layout.chip_range(node))
    if only is not None:
        rows = rows[only[rows]]
    return expected_of(feed, name, rows)


def expected_of(feed: Feed, name: str, rows: np.ndarray) -> float:
    """Return the aggregate of the available values of some chips."""
    metric = next(each for each in CHIP_METRICS if each.name == name)
    values = feed.monitor.store.chip_values(metric, rows)
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan")
    if metric.aggregate is Aggregate.SUM:
        return float(values.sum())
    if metric.aggregate is Aggregate.MEAN:
        return float(values.mean())
    if metric.aggregate is Aggregate.MAX:
        return float(values.max())
    bits = values.astype(int)
    return float(
        np.bitwise_or.reduce(bits)
        if metric.aggregate is Aggregate.OR
        else np.bitwise_and.reduce(bits)
    )


def check(feed: Feed, only: np.ndarray | None = None) -> None:
    for metric in CHIP_METRICS:
        for level in LEVELS:
            got = feed.monitor.rollups.value(metric.name, level)
            want = [expected(feed, metric.name, Node(level, n), only) for n in range(len(got))]
            assert got == pytest.approx(want, nan_ok=True), (metric.name, level)


def test_every_metric_at_every_level() -> None:
    """Roll-ups of a mixed fleet equal a loop over its chips."""
    check(ready())


def test_missing_values_are_skipped() -> None:
    """A missing value is skipped and not counted in the coverage."""
    feed = ready()
    power = feed.columns["power_w"]
    power[5] = power[70] = 65_535
    feed.columns["temperature_c"][:16] = 65_535
    feed.tick()
    check(feed)
    covered = feed.monitor.rollups.covered("power_w", Level.FLEET)
    assert covered[0] == feed.layout.chips - 2
    assert np.isnan(feed.monitor.rollups.value("temperature_c", Level.INSTANCE)[0])


async def test_stale_chips_take_no_part_while_others_live() -> None:
    """Totals are of live chips; a node without any keeps its last values."""
    feed = ready()
    await feed.advance(5)
    live = ["uc1/us-0001/trn2u-0001-0", "uc2/us-0001/trn2u-0001-3"]
    feed.tick(live)
    store = feed.monitor.store
    rollups = feed.monitor.rollups
    alive = store.chip_state == Freshness.LIVE
    assert int(alive.sum()) == 32
    assert rollups.value("power_w", Level.FLEET)[0] == pytest.approx(
        expected(feed, "power_w", Node(Level.FLEET, 0), alive)
    )
    dead = store.layout.ultraserver_index["uc1/us-0002"]
    assert rollups.value("power_w", Level.ULTRASERVER)[dead] == pytest.approx(
        expected(feed, "power_w", Node(Level.ULTRASERVER, dead))
    )
    states = rollups.states(Level.FLEET)[0]
    assert states[Freshness.LIVE] == 32
    assert states[Freshness.STALE] == feed.layout.chips - 32


def counting(feed: Feed, node: Node) -> list[int]:
    """Return the chips included in a node.

    Chips of live children count, or of all if none is live.
    """
    layout = feed.monitor.store.layout
    live = feed.monitor.store.chip_state == Freshness.LIVE
    if node.level is Level.CHIP:
        return [node.number]
    below = [Node(Level(node.level + 1), number) for number in layout.children(node)]
    alive = [each for each in below if live[np.array(layout.chip_range(each))].any()]
    return [chip for each in alive or below for chip in counting(feed, each)]


@pytest.mark.parametrize("instances", [MIXED, ultraservers(6)], ids=["mixed", "alike"])
@pytest.mark.parametrize(
    ("missing", "silent"),
    [(0.0, "none"), (0.01, "none"), (0.0, "chips"), (0.01, "chips"), (0.6, "instances")],
)
def test_roll_ups_are_those_of_a_plain_loop(
    instances: list[tuple[str, str]], missing: float, silent: str
) -> None:
    """Roll-ups equal a plain loop for any missing, stale or offline values.

    Both for raw codes and value by value.
    """
    feed = Feed(instances)
    feed.scatter(4)
    feed.describe()
    feed.tick()
    random = np.random.default_rng(11)
    store = feed.monitor.store
    chips = store.layout.chips
    for number, metric in enumerate(CHIP_METRICS):
        column = store.columns[metric.name]
        column[...] = random.integers(0, 100, column.shape)
        column[random.random(column.shape) < missing] = metric.top
        if number % 4 == 0:
            # A host that lacks a metric lacks all of it.
            column[: chips // 2 if missing < 0.5 else chips] = metric.top
    if silent != "none":
        state = Freshness.STALE if silent == "chips" else Freshness.OFFLINE
        store.chip_state[random.random(chips) < 0.1] = state
        for number in (0, 2, 5):
            store.chip_state[16 * number : 16 * number + 16] = state
    if silent == "instances":
        store.chip_state[: chips // 2] = Freshness.OFFLINE
    finish(feed.monitor.rollups.passes(store))
    rollups = feed.monitor.rollups
    layout = store.layout
    chosen = {
        level: [
            np.array(counting(feed, Node(level, number))) for number in range(layout.count(level))
        ]
        for level in LEVELS
    }
    for metric in CHIP_METRICS:
        known = ~np.isnan(store.chip_values(metric, slice(None)))
        for level in LEVELS:
            got = rollups.value(metric.name, level)
            covered = rollups.covered(metric.name, level)
            only = chosen[level]
            want = [expected_of(feed, metric.name, rows) for rows in only]
            assert got == pytest.approx(want, nan_ok=True), (metric.name, level)
            assert covered.tolist() == [int(known[rows].sum()) for rows in only], (
                metric.name,
                level,
            )
    for level in LEVELS:
        for number in range(layout.count(level)):
            rows = np.array(layout.chip_range(Node(level, number)))
            states = [int((store.chip_state[rows] == state).sum()) for state in Freshness]
            assert rollups.states(level)[number].tolist() == states


def test_a_pass_yields_and_notices_a_new_layout() -> None:
    """A pass runs in slices.

    If its layout is replaced, the former results stay.
    """
    feed = ready()
    rollups = feed.monitor.rollups
    revision = rollups.revision
    going = rollups.passes(feed.monitor.store)
    assert sum(1 for _ in rollups.passes(feed.monitor.store)) > len(CHIP_METRICS) / 2
    next(going)
    feed.monitor.store.replace_layout(feed.monitor.store.layout)
    with pytest.raises(LayoutChanged):
        next(going)
    assert rollups.revision == revision + 1


@pytest.mark.parametrize("lanes", [2_000_000, 64])
def test_what_all_chips_have_alike_is_rolled_up_as_anything_else(
    lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns of one value are rolled up like any other.

    In one slice or several, the same or another value in each, and with one differing chip later.
    """
    monkeypatch.setattr(instance_rollup, "ROWS_A_SLICE", lanes)
    feed = Feed(ultraservers(6))
    feed.scatter(4)
    feed.describe()
    feed.tick()
    store = feed.monitor.store
    rollups = feed.monitor.rollups
    halves = np.arange(store.layout.chips) < store.layout.chips // 2
    for links, errors in (
        (63, 0),
        (31, 0),
        (np.where(halves, 63, 31), 0),
        (63, np.where(halves, 0, 3)),
    ):
        store.columns["links_up"][:] = links
        for name in ("exec_errors", "mem_ecc_corrected", "throttle_pct", "health"):
            store.columns[name][:] = errors
        finish(rollups.passes(store))
        check(feed)
    feed.monitor.store.columns["exec_errors"][5] = 9
    finish(rollups.passes(store))
    check(feed)


def test_values_of_one_revision_are_rolled_up_once() -> None:
    """A pass computes only for a new store revision, or for an owner without one."""
    feed = ready()
    store, rollups = feed.monitor.store, feed.monitor.rollups

    def warmest() -> float:
        return float(rollups.value("temperature_c", Level.FLEET)[0])

    feed.monitor.compute()
    before, revision = warmest(), rollups.revision
    store.columns["temperature_c"][0] += 500
    feed.monitor.compute()
    assert (warmest(), rollups.revision) == (before, revision + 1)
    finish(rollups.passes(store))
    after = warmest()
    assert after > before
    store.columns["temperature_c"][0] -= 500
    going = rollups.passes(store, store.revision)
    next(going)
    store.revision += 1
    finish(going)
    assert warmest() == before
    store.columns["temperature_c"][0] += 500
    feed.monitor.compute()
    assert warmest() == after


@pytest.mark.parametrize("lanes", [2_000_000, 64])
@pytest.mark.parametrize("instances", [[*ultraservers(6)], MIXED])
def test_missing_codes_count_for_nothing_however_they_lie(
    lanes: int, instances: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing codes do not count at any place.

    A chip, a lane, an instance, an UltraServer or all, beside the largest codes and beside zeros.
    """
    monkeypatch.setattr(instance_rollup, "ROWS_A_SLICE", lanes)
    feed = Feed(instances)
    feed.scatter(4)
    feed.describe()
    feed.tick()
    store = feed.monitor.store
    rollups = feed.monitor.rollups
    names = (
        "nc_util_pct",
        "tflops",
        "temperature_c",
        "link_tx_bytes_per_s",
        "link_rx_bytes_per_s",
        "links_up",
        "exec_errors",
    )
    for largest in (False, True):
        for name in names:
            metric = BY_NAME[name]
            column = store.columns[name]
            if largest and metric.wire != "u32":
                column[16:48] = metric.top - 1
            elif largest:
                column[:] = 0
            column[3] = column[16:32] = metric.top
            if metric.is_vector:
                column[70:90, 2] = metric.top
        finish(rollups.passes(store))
        check(feed)
    for name in names:
        store.columns[name][:] = BY_NAME[name].top
    finish(rollups.passes(store))
    check(feed)


def test_a_chip_that_falls_silent_and_comes_back_changes_what_counts() -> None:
    """The basis of all metrics is cached only while the same chips are live."""
    feed = ready()
    store = feed.monitor.store
    rollups = feed.monitor.rollups
    for state in (Freshness.STALE, Freshness.STALE, Freshness.LIVE):
        store.chip_state[5] = state
        finish(rollups.passes(store))
        live = store.chip_state == Freshness.LIVE
        assert rollups.states(Level.FLEET)[0, Freshness.LIVE] == live.sum()
        check(feed, live)


@pytest.mark.parametrize("field", fields.FIELDS, ids=lambda field: field.key)
def test_fields_agree_between_levels(field: fields.Field) -> None:
    """A field has values at every level, and totals add up.

    An instance of one chip has its chip's value.
    """
    feed = ready()
    monitor = feed.monitor
    store, rollups = monitor.store, monitor.rollups
    small = store.layout.instance_index["uc1/standalone/small-1"]
    chip = int(store.layout.chip_start[small])
    for values in (field.values, field.per_chip):
        one = values(store, rollups, Level.INSTANCE, np.array([small]))
        assert one == pytest.approx(
            values(store, rollups, Level.CHIP, np.array([chip])), nan_ok=True
        )
        for level in LEVELS:
            assert len(values(store, rollups, level, None)) == store.layout.count(level)
    if not field.is_ratio:
        total = field.values(store, rollups, Level.FLEET, None)[0]
        chips = field.values(store, rollups, Level.CHIP, None)
        assert total == pytest.approx(chips.sum(), nan_ok=True)
    low, high = field.scale(store.layout)
    assert low < high


def test_derived_figures() -> None:
    """MFU, HBM share and TFLOPS/W follow from the metrics and the catalogue."""
    feed = ready()
    feed.set("tflops", 333.5)
    feed.set("power_w", 400.0)
    feed.set("hbm_read_bytes_per_s", 1.0e12)
    feed.set("hbm_write_bytes_per_s", 0.45e12)
    feed.tick()
    summary = feed.monitor.summary()
    assert summary.mfu_pct == pytest.approx(50.0)
    assert summary.hbm_bw_util_pct == pytest.approx(50.0)
    assert summary.tflops_per_w == pytest.approx(0.834, rel=1e-3)
    assert summary.power_w == pytest.approx(400.0 * feed.layout.chips)


def test_bit_masks_are_no_fields() -> None:
    """Bit masks have no sum or mean to show."""
    shown = {field.key for field in fields.FIELDS}
    assert not shown & {metric.name for metric in CHIP_METRICS if metric.kind is Kind.BITMASK}


async def test_an_instances_own_values_must_be_fresh() -> None:
    """Stale own values of an instance are not added to totals.

    Even if its chips are live.
    """
    feed = Feed(ultraservers(1), json=True)
    feed.scatter()
    feed.describe()
    feed.tick()
    assert feed.monitor.summary().host_power_w == pytest.approx(8_000)
    for _ in range(5):
        await feed.clock.advance(1)
        feed.monitor.apply(
            [
                each
                for each in feed.telemetry()
                if "trn2u-0001-0" not in each.topic or "chip" in each.topic
            ]
        )
        feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 64
    assert feed.monitor.summary().host_power_w == pytest.approx(6_000)


async def test_peaks_are_those_of_what_lives() -> None:
    """A mixed fleet's share of peak is of the chips included in the value."""
    feed = Feed([*standalone(1), *standalone(1, "trn1.32xlarge")])
    feed.scatter()
    feed.set("tflops", 333.5)
    feed.describe()
    feed.tick()
    await feed.advance(10)
    feed.tick(["uc1/standalone/trn2-0001"])
    assert feed.monitor.summary().mfu_pct == pytest.approx(50.0)


def test_large_counters_do_not_wrap() -> None:
    """Sums of 64-bit counters pass 64 bits."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.columns["exec_completed"][:] = 2**63
    feed.tick()
    assert feed.monitor.rollups.value("exec_completed", Level.FLEET)[0] == pytest.approx(
        64 * 2.0**63
    )
