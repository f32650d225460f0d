from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.monitor.alert_bench import CHIP, HOST, AlertBench
from support.monitor.feed import standalone, ultraservers
from support.monitor.rules import rule_of

from trnfleet.domain.alerts.conditions import REFERENCES, WINDOWS, Condition
from trnfleet.domain.alerts.signals import FIGURES, LANES, LEVEL_OF, Form, Scope
from trnfleet.domain.metrics import BY_NAME, METRICS, Kind
from trnfleet.monitor.alerting.conditions import row_condition
from trnfleet.monitor.alerting.conditions.row_condition import count_of
from trnfleet.monitor.alerting.conditions.rows import RowSearch, evaluation_of
from trnfleet.monitor.alerting.conditions.windows import Counters
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish

MIXED = [*ultraservers(2), *standalone(2), ("uc1/standalone/small-1", "trn2.3xlarge")]


def scattered(seed: int, instances: list[tuple[str, str]] = MIXED) -> AlertBench:
    """Return a fleet with values all over, some not available, some chips silent."""
    bench = AlertBench(instances, ())
    random = np.random.default_rng(seed)
    for metric in METRICS:
        column = bench.store.columns[metric.name]
        top = 200 if metric.kind is not Kind.BITMASK else min(metric.top, 1024)
        column[:] = random.integers(0, top, column.shape)
        column[random.random(column.shape) < 0.05] = metric.top
    bench.set("hbm_used_bytes", random.uniform(0, 2e11, bench.layout.chips))
    bench.silence(np.flatnonzero(random.random(bench.layout.chips) < 0.1))
    bench.silence(bench.rows("uc1/us-0002/trn2u-0002-1"), Freshness.OFFLINE)
    bench.job("train", "uc1/us-0001", step_time_s=3.0, ideal_step_s=2.0)
    bench.job("tune", "uc1/us-0002/trn2u-0002-0..trn2u-0002-2")
    bench.store.chip_ts_ns[:] = bench.now_ns
    return bench


def found(bench: AlertBench, rule: Any) -> dict[int, float]:
    last = finish(RowSearch(rule, Counters()).search(bench.readings()))
    assert last.rows.tolist() == sorted(last.rows.tolist())
    return dict(zip(last.rows.tolist(), last.values.tolist(), strict=True))


def slow(bench: AlertBench, scope: Scope, figure: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of all targets and their known flags."""
    readings = bench.readings()
    every = np.arange(count_of(bench.layout, scope))
    return readings.values(scope, figure, every), readings.is_known(scope, every)


NUMBERS = [
    (scope, figure.name)
    for scope in LEVEL_OF
    for figure in FIGURES[scope].values()
    if figure.form is Form.NUMBER
]


@pytest.mark.parametrize(("scope", "figure"), NUMBERS, ids=str)
@pytest.mark.parametrize("instances", [MIXED, ultraservers(2)], ids=["mixed", "alike"])
def test_a_quick_look_finds_what_a_slow_one_does(
    scope: Scope, figure: str, instances: list[tuple[str, str]]
) -> None:
    """For every figure and scope, codes match the same targets as values do.

    Limits above, below and equal are tested.
    """
    bench = scattered(3, instances)
    values, known = slow(bench, scope, figure)
    if scope is Scope.ULTRASERVER:
        # Standalone segments are no UltraServers.
        known &= ~bench.layout.is_standalone
    some = values[known & ~np.isnan(values)]
    if not len(some):
        pytest.skip("nothing is known of it in this fleet")
    for limit in (float(np.median(some)), float(some.max()), -1.0, 0.0, 0.5):
        for comparison, fits in (
            ("above", values > limit),
            ("below", values < limit),
            ("equals", values == limit),
        ):
            keys: dict[str, Any] = {"above": None, comparison: limit}
            rule = rule_of(scope=scope.value, figure=figure, group="none", **keys)
            expected = np.flatnonzero(fits & known).tolist()
            got = found(bench, rule)
            assert list(got) == expected, (comparison, limit)
            assert list(got.values()) == values[expected].tolist()


def test_slices_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in slices finds the same, with a turn for others after each slice."""
    bench = scattered(3)
    rule = rule_of(figure="tflops_per_w", above=0.5)
    whole = found(bench, rule)
    monkeypatch.setattr(row_condition, "ROWS_A_SLICE", 17)

    slices = sum(1 for _ in RowSearch(rule, Counters()).search(bench.readings()))

    assert found(bench, rule) == pytest.approx(whole)
    assert slices == math.ceil(bench.layout.chips / 17) - 1


@pytest.mark.parametrize("scope", ["chip", "instance"])
def test_bits_of_a_mask(scope: str) -> None:
    """Any named bit matches; other bits and unavailable values do not."""
    bench = AlertBench(ultraservers(1), ())
    bench.store.columns["health"][:5] = [0, 1, 2, 3, BY_NAME["health"].top]
    rule = rule_of(scope=scope, figure="health", above=None, has=["sram", "link_efa"])

    assert list(found(bench, rule)) == ([2, 3] if scope == "chip" else [0])


def test_silence() -> None:
    """Stale and offline chips are silent.

    An instance or UltraServer is silent if no chip is live and any is silent.
    """
    bench = AlertBench(ultraservers(2), ())
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.silence(slice(0, 64))
    bench.silence(3, Freshness.OFFLINE)
    bench.silence(63, Freshness.UNKNOWN)
    bench.silence(slice(64, 128), Freshness.UNKNOWN)
    bench.now_s = bench.flow_s = 7.0
    absent = {"figure": None, "above": None, "absent": True}

    assert list(found(bench, rule_of(**absent))) == list(range(63))
    assert found(bench, rule_of(scope="instance", **absent)) == dict.fromkeys(range(4), 7.0)
    assert found(bench, rule_of(scope="ultraserver", **absent)) == {0: 7.0}


def test_silence_of_what_holds_chips_lasts_since_the_last_of_them_was_heard() -> None:
    """A silent node's age is of its own newest chip, at any size.

    Live neighbours do not change it.
    """
    bench = AlertBench(
        [*ultraservers(3), ("uc1/standalone/small-1", "trn2.3xlarge"), *standalone(1)], ()
    )
    layout = bench.store.layout
    bench.store.chip_ts_ns[:] = bench.now_ns - 5 * 10**9
    us = bench.rows("uc1/us-0002")
    small = bench.rows("uc1/standalone/small-1")
    for rows in (us, small):
        bench.silence(rows)
    bench.store.chip_ts_ns[[us.start + 20, small.start]] = bench.now_ns - np.array([2, 3]) * 10**9
    bench.now_s = bench.flow_s = 7.0
    absent = {"figure": None, "above": None, "absent": True}
    instances = {int(layout.instance_of_chip[row]) for row in np.r_[us, small]}
    expected = dict.fromkeys(sorted(instances), 12.0)
    expected[int(layout.instance_of_chip[us.start + 20])] = 9.0
    expected[int(layout.instance_of_chip[small.start])] = 10.0
    assert found(bench, rule_of(scope="instance", **absent)) == expected
    assert found(bench, rule_of(scope="ultraserver", **absent)) == {
        layout.ultraserver_index["uc1/us-0002"]: 9.0
    }


def test_what_a_link_has_is_looked_at_where_there_is_one() -> None:
    """A standalone instance has no Z links, so they are not down."""
    bench = AlertBench(MIXED, ())
    rule = rule_of(scope="link", figure="link_up", above=None, equals=0.0)
    assert found(bench, rule) == {}

    chip = bench.rows("uc1/standalone/trn2-0001").start
    bench.store.columns["links_up"][chip] &= 0b111011
    assert found(bench, rule) == {chip * 6 + 2: 0.0}
    assert LANES[Scope.LINK][2] == "west"


def test_a_chip_is_held_against_its_job() -> None:
    """Only live chips of the same job are peers; too few give no result."""
    bench = AlertBench(ultraservers(3), ())
    bench.set("throttle_pct", 2.0)
    bench.set("throttle_pct", 20.0, [5, 70, 130])
    bench.set("throttle_pct", 50.0, slice(8, 24))
    bench.silence(slice(8, 24))
    bench.job("train", "uc1/us-0001")
    bench.job("tune", "uc1/us-0002")
    rule = rule_of(figure="throttle_pct", minus_median_of="job", above=8)

    assert found(bench, rule) == {5: 18.0, 70: 18.0}
    bench.silence(slice(LEAST_PEERS, 64))
    bench.set("throttle_pct", 20.0, 1)
    assert 1 in found(bench, rule)
    bench.silence(slice(LEAST_PEERS - 1, 64))
    assert list(found(bench, rule)) == [70]


def test_a_link_is_held_against_its_instance() -> None:
    """A link is compared with the same direction of other chips at the same instant.

    An incomplete tick has no stragglers.
    """
    bench = AlertBench(ultraservers(1), ())
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.set("link_tx_bytes_per_s", 40e9)
    bench.set("link_tx_bytes_per_s", 10e9, (3, 1))
    rule = rule_of(
        scope="link",
        figure="link_tx_bytes_per_s",
        share_of_median_of="instance",
        above=None,
        below=0.7,
    )

    assert found(bench, rule) == {3 * 6 + 1: 0.25}
    bench.store.chip_ts_ns[:16] -= 1_000
    bench.store.chip_ts_ns[:2] += 1_000
    assert found(bench, rule) == {}


def test_links_of_a_chip_that_is_less_busy_are_no_slow_links() -> None:
    """A link is slow only if the other links of its chip are not.

    Chips of an instance may serve different requests.
    """
    bench = AlertBench(ultraservers(1), ())
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.set("link_tx_bytes_per_s", 40e9)
    for chip in range(4, 8):
        bench.set("link_tx_bytes_per_s", 16e9, chip)
    bench.set("link_tx_bytes_per_s", 6.4e9, (5, 2))
    rule = rule_of(
        scope="link",
        figure="link_tx_bytes_per_s",
        share_of_median_of="instance",
        above=None,
        below=0.85,
    )
    assert found(bench, rule) == {5 * 6 + 2: pytest.approx(0.4, abs=0.01)}


def test_a_slow_link_is_found_beside_busier_chips() -> None:
    """The choice by least and largest values finds every slow link of the medians."""
    bench = AlertBench(ultraservers(1), ())
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.set("link_tx_bytes_per_s", 10e9)
    bench.set("link_tx_bytes_per_s", 3e9, (0, 0))
    for lane in range(1, 6):
        bench.set("link_tx_bytes_per_s", 20e9, (5, lane))
    rule = rule_of(
        scope="link",
        figure="link_tx_bytes_per_s",
        share_of_median_of="instance",
        above=None,
        below=0.5,
    )
    assert found(bench, rule) == {0: pytest.approx(0.3, abs=0.01)}


def test_all_conditions_hold_of_the_same_target() -> None:
    """`also` narrows the matches of the first condition, chip by chip."""
    bench = AlertBench(ultraservers(1), ())
    bench.set("temperature_c", 95.0, [1, 2, 3])
    bench.set("power_w", 400.0, [2, 3, 4])
    bench.store.columns["health"][3] = 1
    both = [{"figure": "power_w", "above": 300.0}]

    assert list(found(bench, rule_of(also=both))) == [2, 3]
    assert list(found(bench, rule_of(also=[*both, {"figure": "health", "has": ["hbm"]}]))) == [3]


def test_counters_of_chips_add_up() -> None:
    """An instance's increase is the sum of its chips; a rate is per second."""
    bench = AlertBench(
        ultraservers(1),
        (
            rule_of(name="chips", figure="exec_errors", above=3, increase_over="10s"),
            rule_of(
                name="hosts", scope="instance", figure="exec_errors", above=6, increase_over="10s"
            ),
            rule_of(
                name="rates", scope="ultraserver", figure="exec_errors", above=0.69, rate_over="10s"
            ),
        ),
    )
    bench.set("exec_errors", 100.0)
    bench.tick()
    bench.set("exec_errors", 104.0, 0)
    bench.set("exec_errors", 103.0, 1)
    bench.tick()

    values = {(alert.name, alert.target[-2:]): alert.value for alert in bench.alerts.active()}
    assert values == {("chips", "00"): 4.0, ("hosts", "-0"): 7.0, ("rates", "01"): 0.7}
    assert {(each.at_s, each.kind) for each in bench.play(12)} == {(12.0, "resolved")}


@pytest.mark.parametrize(
    ("scope", "figure", "row"),
    [
        ("chip", "exec_errors", 19),
        ("instance", "exec_errors", 1),
        ("instance", "efa_retransmits", 1),
    ],
)
def test_a_counter_itself_is_compared(scope: str, figure: str, row: int) -> None:
    """A counter counts from the first evaluation on, wherever it stands."""
    bench = AlertBench(ultraservers(1), ())
    bench.set(figure, 5.0, 19 if len(bench.store.columns[figure]) > 19 else 1)
    rule = rule_of(scope=scope, figure=figure, above=None, total_above=4)

    assert found(bench, rule) == {row: 5.0}


def test_a_counter_that_stands_still() -> None:
    """A chip stands still from its last change on, or from the first look, in any layout.

    A chip whose counter is not available does not.
    """
    rule = rule_of(figure="exec_completed", above=None, unchanged_for="5s", group="none")
    bench = AlertBench(ultraservers(2)[4:], (rule,))
    counter = bench.store.columns["exec_completed"]
    counter[3] = BY_NAME["exec_completed"].top
    assert bench.play(5) == []
    counter[:2] += 1
    assert len(bench.tick()) == 61

    bench.arrange(ultraservers(2))
    assert bench.play(4) == []
    chips = [f"uc1/us-0002/trn2u-0002-0/chip0{row}" for row in range(2)]
    assert [news.target for news in bench.tick()] == chips
    assert len(bench.tick()) == 64


def test_a_rate_of_events_is_told_as_one() -> None:
    """The value is the compared one: events per second."""
    rule = rule_of(figure="events", named=["xid"], above=0.15, rate_over="10s")
    bench = AlertBench(ultraservers(1), (rule,))
    for _ in range(2):
        bench.tell("xid", CHIP)
    bench.tick()
    assert bench.only().value == pytest.approx(0.2)


@pytest.mark.parametrize("of", ["job", "instance"])
def test_a_share_of_what_is_no_column_is_compared_as_one(of: str) -> None:
    """One link down is a quarter of a median of four."""
    bench = AlertBench(ultraservers(1), ())
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.store.columns["links_up"][:16] = 0b110000
    bench.store.columns["links_up"][3] = 0b111110
    bench.job("train", HOST)
    rule = rule_of(figure="links_down", above=None, below=0.5, share_of_median_of=of)

    assert found(bench, rule) == {3: 0.25}


def test_a_share_that_equals_its_limit_is_found_where_all_are_alike() -> None:
    """Chips of a uniform instance have a share of 1 of its median."""
    bench = AlertBench(ultraservers(1), ())
    bench.set("power_w", 300.0)
    bench.store.chip_ts_ns[:] = bench.now_ns
    rule = rule_of(figure="power_w", above=None, equals=1.0, share_of_median_of="instance")

    assert found(bench, rule) == dict.fromkeys(range(bench.layout.chips), 1.0)


@pytest.mark.parametrize("scope", LEVEL_OF)
def test_every_window_and_reference_is_evaluated(scope: Scope) -> None:
    """Every row of the domain's tables for scopes with addresses has an evaluation here."""
    keys: list[dict[str, Any]] = [
        {key: "1m"} for key, row in WINDOWS.items() if scope in row.scopes
    ]
    keys += [{key: of} for (key, of), row in REFERENCES.items() if scope in row.scopes]
    for given in keys:
        condition = Condition.model_validate({"figure": "any", "above": 1.0, **given})
        assert evaluation_of(scope, condition, Counters()).figure == "any"


@pytest.mark.parametrize(("figure", "code"), [("health", 1), ("links_up", 0b111101)])
def test_one_chip_of_a_healthy_fleet_is_found(figure: str, code: int) -> None:
    """Roll-ups of instances lead to the chip, but not to one not heard."""
    rules = {
        "health": rule_of(figure="health", has=["hbm"], above=None),
        "links_up": rule_of(scope="link", figure="link_up", above=None, equals=0.0),
    }
    bench = AlertBench(ultraservers(2), ())
    assert not found(bench, rules[figure])
    bench.store.columns[figure][37] = code
    assert list(found(bench, rules[figure])) == [37 if figure == "health" else 37 * 6 + 1]
    bench.silence([37])
    assert not found(bench, rules[figure])


@pytest.mark.parametrize(
    ("scope", "figure"),
    [(Scope.CHIP, "tflops"), (Scope.CHIP, "hbm_used_pct"), (Scope.CORE, "nc_util_pct")],
    ids=str,
)
def test_the_ends_of_a_column_say_whether_anything_can_be_found(scope: Scope, figure: str) -> None:
    """Limits at and one step beyond a column's ends match correctly in repeated evaluations.

    This holds with and without missing codes.
    """
    bench = AlertBench(ultraservers(129), ())
    random = np.random.default_rng(6)
    name = "hbm_used_bytes" if figure == "hbm_used_pct" else figure
    column = bench.store.columns[name]
    top = BY_NAME[name].top
    column[...] = random.integers(60, 120, column.shape)
    column[7], column[8] = 120, 60
    values, _ = slow(bench, scope, figure)
    least = float(values.min())
    most = float(values.max())
    for keys in ({"above": most}, {"above": None, "below": least}, {"above": None, "equals": most}):
        search = RowSearch(
            rule_of(scope=scope.value, figure=figure, group="none", **keys), Counters()
        )
        for code, beside in (
            (100, 100),
            (121, 100),
            (121, 100),
            (59, 100),
            (100, 100),
            (top, 100),
            (121, top),
            (top, top),
            (59, top),
            (100, 100),
        ):
            column[-1], column[3] = code, beside
            values, known = slow(bench, scope, figure)
            fits = (
                values > most
                if keys["above"]
                else values < least
                if "below" in keys
                else values == most
            )
            got = finish(search.search(bench.readings()))
            assert got.rows.tolist() == np.flatnonzero(fits & known).tolist(), (keys, code)
            assert ("equals" in keys) or bool(len(got.rows)) == (
                code == (121 if keys["above"] else 59)
            )
