"""Shortcuts of passes over large fleets, compared with plain loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.alert_bench import AlertBench
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME, METRICS, Aggregate, Metric, Scope
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.findings import HBM_FULL, HOT_C, THROTTLE_PCT, find
from trnfleet.monitor.store.rollup import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable


ALIKE = ultraservers(129)
MIXED = [
    *ultraservers(127),
    *standalone(4, "trn1.32xlarge"),
    ("uc2/standalone/small-1", "trn2.3xlarge"),
]
COMPARED = (
    "link_tx_bytes_per_s",
    "power_util_pct",
    "temperature_c",
    "links_up",
    "health",
    "mem_ecc_corrected",
    "host_power_w",
    "vcpu_util_pct",
    "exec_latency_p99_s",
)
PLAIN: dict[Aggregate, Callable[[np.ndarray], float]] = {
    Aggregate.SUM: np.sum,
    Aggregate.MEAN: np.mean,
    Aggregate.MAX: np.max,
    Aggregate.OR: lambda values: float(np.bitwise_or.reduce(values.astype(int))),
    Aggregate.AND: lambda values: float(np.bitwise_and.reduce(values.astype(int))),
}


def scatter(bench: AlertBench, seed: int, missing: float = 0.0) -> None:
    """Set every metric to random values, with a share not available."""
    random = np.random.default_rng(seed)
    for metric in METRICS:
        column = bench.store.columns[metric.name]
        column[...] = random.integers(1, min(metric.top, 2_500), column.shape)
        column[random.random(column.shape) < missing] = metric.top


def nodes(bench: AlertBench, level: Level, scope: Scope) -> list[np.ndarray]:
    """Return the chips, or instances, of each node of a level."""
    layout = bench.layout
    chips = [
        np.array(layout.chip_range(Node(level, number))) for number in range(layout.count(level))
    ]
    return (
        chips
        if scope is Scope.CHIP
        else [np.unique(layout.instance_of_chip[rows]) for rows in chips]
    )


def check(bench: AlertBench) -> None:
    """Compare a pass with a loop over all nodes.

    Live children of a node count, or all if none is live.
    """
    store = bench.store
    rollups = bench.rollups
    finish(rollups.passes(store))
    live = store.chip_state == Freshness.LIVE
    parts = {
        (level, scope): nodes(bench, level, scope)
        for level in LEVELS
        for scope in (Scope.CHIP, Scope.INSTANCE)
    }
    is_alive = np.array([live[rows].any() for rows in parts[Level.INSTANCE, Scope.CHIP]])
    for name in COMPARED:
        metric: Metric = BY_NAME[name]
        if metric.scope is Scope.CHIP:
            counts = live
            values = store.chip_values(metric, slice(None))
            usable = ~np.isnan(values)
        else:
            counts = is_alive
            values = store.values(metric, slice(None))
            usable = ~np.isnan(values) & (store.instance_fresh | ~is_alive)
        for level in LEVELS:
            wanted = []
            covered = []
            for rows in parts[level, metric.scope]:
                taken = rows[counts[rows]] if counts[rows].any() else rows
                taken = taken[usable[taken]]
                wanted.append(PLAIN[metric.aggregate](values[taken]) if len(taken) else np.nan)
                covered.append(len(taken))
            assert rollups.value(name, level) == pytest.approx(wanted, nan_ok=True), (name, level)
            assert rollups.covered(name, level).tolist() == covered, (name, level)
    for level in LEVELS:
        states = [
            np.bincount(store.chip_state[rows], minlength=len(Freshness)).tolist()
            for rows in parts[level, Scope.CHIP]
        ]
        assert rollups.states(level).tolist() == states, level


@pytest.mark.parametrize("instances", [ALIKE, MIXED], ids=["alike", "mixed"])
def test_what_is_kept_while_all_chips_live_is_that_of_every_pass(
    instances: list[tuple[str, str]],
) -> None:
    """States and coverage follow the chips.

    All live, one or an instance silent, live again, and in another layout.
    """
    bench = AlertBench(instances, ())
    scatter(bench, 1)
    check(bench)
    bench.silence(17)
    check(bench)
    bench.silence(17, Freshness.LIVE)
    scatter(bench, 2, missing=0.01)
    check(bench)
    bench.store.instance_fresh[3] = False
    check(bench)
    bench.silence(bench.rows("uc1/us-0007/trn2u-0007-2"), Freshness.OFFLINE)
    check(bench)
    bench.silence(slice(None), Freshness.LIVE)
    # As many instances in other places: what was kept fits in size only.
    bench.arrange([*instances[4:], *ultraservers(1, "uc3")])
    scatter(bench, 3)
    check(bench)
    bench.store.instance_fresh[3] = True
    check(bench)


def test_nothing_is_kept_of_another_layout_without_instances() -> None:
    """A fleet has its own figures after it disappeared and returned."""
    bench = AlertBench(ALIKE, ())
    scatter(bench, 1)
    check(bench)
    bench.arrange([])
    finish(bench.rollups.passes(bench.store))
    assert bench.rollups.states(Level.FLEET).sum() == 0
    assert find(bench.store, bench.rollups).total == 0
    bench.arrange(ALIKE[:-4])
    scatter(bench, 2)
    check(bench)


def plain_findings(bench: AlertBench) -> set[tuple[str, str]]:
    """Return kind and chip of every finding on one live chip, from all values."""
    store, layout, found = bench.store, bench.layout, set()

    def values(name: str) -> np.ndarray:
        return store.values(BY_NAME[name], slice(None))

    sizes = np.array(
        [layout.type_of(number).chip.hbm_bytes.value for number in range(len(layout.instances))]
    )
    up, wanted = (
        np.nan_to_num(values("links_up"), nan=255).astype(int),
        layout.chip_links_mask.astype(int),
    )
    kinds = {
        "unhealthy": values("health") > 0,
        "uncorrected": (values("mem_ecc_uncorrected") > 0) | (values("sram_ecc_uncorrected") > 0),
        "link down": up & wanted != wanted,
        "throttled": values("throttle_pct") >= THROTTLE_PCT,
        "hot": values("temperature_c") >= HOT_C,
        "HBM full": values("hbm_used_bytes") >= HBM_FULL * sizes[layout.instance_of_chip],
    }
    for kind, flags in kinds.items():
        chips = np.flatnonzero(flags & (store.chip_state == Freshness.LIVE))
        found |= {(kind, layout.path(Node(Level.CHIP, chip))) for chip in chips.tolist()}
    return found


@pytest.mark.parametrize("instances", [ALIKE, MIXED], ids=["alike", "mixed"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_one_unusual_chip_of_many_is_found(
    instances: list[tuple[str, str]], is_missing: bool
) -> None:
    """One unusual live chip among many is found.

    Also at a limit, beside missing codes or silent chips. Only if no chip reaches a limit do the
    fleet's figures suffice.
    """
    bench = AlertBench(instances, ())
    chips = bench.layout.chips
    store = bench.store
    bench.silence(5)
    cases = (
        ("health", 1.0),
        ("mem_ecc_uncorrected", 1.0),
        ("sram_ecc_uncorrected", 1.0),
        ("links_up", 0.0),
        ("throttle_pct", THROTTLE_PCT),
        ("temperature_c", HOT_C),
        ("hbm_used_bytes", 0.98),
    )
    for name, value in cases:
        column = store.columns[name]
        metric = BY_NAME[name]
        usual = column.copy()
        for chip, expected in ((None, 0), (5, 0), (20, 1), (chips - 2, 1)):
            column[:] = usual
            if is_missing:
                column[3], column[32:48] = metric.top, metric.top
            if chip is not None:
                kind = bench.layout.type_of(int(bench.layout.instance_of_chip[chip])).chip
                column[chip] = metric.code_of(
                    value * kind.hbm_bytes.value if name == "hbm_used_bytes" else value
                )
            finish(bench.rollups.passes(store))
            shown = find(store, bench.rollups).shown
            found = {(each.kind, each.path) for each in shown if each.kind != "silent"}
            assert found == plain_findings(bench)
            assert len(found) == expected, (name, chip)
            assert [each.path for each in shown if each.kind == "silent"] == [
                bench.layout.path(Node(Level.CHIP, 5))
            ]
        column[:] = usual
