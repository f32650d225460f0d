"""Steps of monitor time by an hour, forward and back, in every state between evaluations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.monitor.alert_bench import HOST, AlertBench, hot, kinds
from support.monitor.feed import ultraservers
from support.monitor.rules import rule_of

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.flapping import FLAPS_FROM, QUIET_NS
from trnfleet.domain.alerts.signals import Scope

STEPS_S = pytest.mark.parametrize("step_s", [-3_600.0, -5.0, 3_600.0])

EVENTS: dict[str, Any] = {
    "name": "retires",
    "scope": "instance",
    "figure": "events",
    "named": ["retirement"],
    "above": 0,
    "increase_over": "60s",
}
COUNTER: dict[str, Any] = {
    "name": "counts",
    "figure": "mem_ecc_uncorrected",
    "above": 3,
    "increase_over": "60s",
}
CHANGES: dict[str, Any] = {
    "name": "changes",
    "scope": "publisher",
    "figure": "state",
    "above": 0,
    "changes_over": "60s",
}
PAST: dict[str, Any] = {
    "name": "slow",
    "scope": "job",
    "figure": "step_time_s",
    "share_of_median_of": "past",
    "past": "10m",
    "above": 1.2,
}


def step(bench: AlertBench, step_s: float) -> list[Any]:
    """Let the clock step within one second."""
    return bench.tick(1.0 + step_s, flow=1.0)


def begin(bench: AlertBench, rule: dict[str, Any]) -> None:
    """Fulfil a rule's condition between the second of two evaluations and the next."""
    bench.named[Scope.PUBLISHER] = {"a": {"state": "online"}}
    bench.tick()
    bench.tick()
    if rule is EVENTS:
        bench.tell("retirement", HOST)
    bench.set("mem_ecc_uncorrected", 9.0, slice(0, 1))
    bench.named[Scope.PUBLISHER]["a"]["state"] = "offline"


@STEPS_S
@pytest.mark.parametrize("rule", [EVENTS, COUNTER, CHANGES], ids=lambda rule: rule["name"])
def test_a_window_goes_on_over_a_step(rule: dict[str, Any], step_s: float) -> None:
    """Changes stay in a window for as long as without the step."""
    bench = AlertBench(ultraservers(1), (rule_of(**rule),))
    begin(bench, rule)
    assert [each.kind for each in bench.tick()] == ["firing"]

    assert step(bench, step_s) == []
    # A change leaves with the value before it.
    assert bench.play(57 if rule is CHANGES else 58) == []
    assert [each.kind for each in bench.tick()] == ["resolved"]


@STEPS_S
def test_what_is_usual_stays_known_over_a_step(step_s: float) -> None:
    bench = AlertBench(ultraservers(1), (rule_of(**PAST),))
    bench.job("train", HOST)
    bench.jobs["train"] = msgspec.structs.replace(bench.jobs["train"], step_time_s=2.0)
    bench.play(30)

    step(bench, step_s)

    assert bench.alerts.usual("step_time_s", "train") == 2.0


@STEPS_S
def test_for_and_keep_firing_for_go_on_over_a_step(step_s: float) -> None:
    """`for` and `keep_firing_for` last as long as without the step.

    No alert begins later than now.
    """
    rule = rule_of(**{"for": "20s", "keep_firing_for": "20s"})
    bench = AlertBench(ultraservers(1), (rule,))
    hot(bench)
    bench.play(10)
    assert step(bench, step_s) == []
    assert bench.play(9) == []
    (fired,) = bench.tick()
    assert (fired.kind, fired.at_s) == ("firing", bench.now_s)

    hot(bench, value=20.0)
    bench.play(10)
    assert step(bench, step_s) == []
    assert bench.only().fired_ns is not None
    assert bench.play(9) == []
    assert [each.kind for each in bench.tick()] == ["resolved"]


@STEPS_S
def test_for_goes_on_over_a_step_without_a_connection(step_s: float) -> None:
    """The time without one is left out, and the step only once."""
    bench = AlertBench(ultraservers(1), (rule_of(**{"for": "20s"}),))
    hot(bench)
    bench.play(10)
    bench.is_cut_off = True
    bench.play(3)
    step(bench, step_s)
    bench.play(3)
    bench.is_cut_off = False

    assert bench.play(10) == []
    assert kinds(bench.tick()) == [(bench.now_s, "firing", bench.only().target)]


@STEPS_S
def test_flapping_goes_on_over_a_step(step_s: float) -> None:
    """Flapping counts starts before a step, and ends after the same quiet time."""
    bench = AlertBench(ultraservers(1), (rule_of(),))

    def flap() -> list[str]:
        hot(bench)
        news = bench.tick(10)
        hot(bench, value=20.0)
        return [each.kind for each in [*news, *bench.tick(10)]]

    assert [flap() for _ in range(FLAPS_FROM - 1)] == [["firing", "resolved"]] * (FLAPS_FROM - 1)
    step(bench, step_s)
    assert flap() == ["firing", "flapping"]
    step(bench, step_s)
    assert bench.tick(QUIET_NS // NS_PER_S - 2) == []
    assert [each.kind for each in bench.tick()] == ["resolved"]
