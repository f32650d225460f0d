"""Inhibition with source and target seen at different times."""

from __future__ import annotations

import itertools

import pytest
from support.monitor.alert_bench import CHIP, HOST, AlertBench, hot
from support.monitor.feed import ultraservers
from support.monitor.rules import rules_of

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish


def amid(bench: AlertBench, slices: int, power_w: float, temperature_c: float) -> bool:
    """Evaluate a second in which a chip's values arrive after some slices.

    Return whether they arrived during the evaluation.
    """
    bench.now_s += 1
    bench.flow_s += 1
    evaluation = bench.alerts.evaluate(bench.readings(), bench.jobs)
    stepped = sum(1 for _ in itertools.islice(evaluation, slices))
    bench.set("power_w", power_w, bench.rows(CHIP))
    hot(bench, value=temperature_c)
    bench.store.revision += 1
    finish(evaluation)
    return stepped == slices


@pytest.mark.parametrize("for_s", [0, 3])
def test_messages_amid_an_evaluation_part_no_alert_from_its_inhibitor(for_s: int) -> None:
    """Messages during an evaluation never expose an alert without its inhibitor.

    This holds at its start and its end.
    """
    rules = rules_of(
        {
            "name": "dead",
            "scope": "chip",
            "severity": "critical",
            "figure": "power_w",
            "below": 10,
            "for": f"{for_s}s",
            "summary": "dead",
            "inhibits": ["hot"],
        },
        {
            "name": "hot",
            "scope": "chip",
            "severity": "warning",
            "figure": "temperature_c",
            "above": 90,
            "for": f"{for_s}s",
            "summary": "hot",
        },
    )
    places = 0
    for slices in itertools.count(1):
        bench = AlertBench(ultraservers(1), rules)
        bench.set("power_w", 400)
        bench.tick()
        is_amid = amid(bench, slices, power_w=0, temperature_c=95)
        places += is_amid
        fired_s = []
        for second in range(for_s + 4):
            by_name = {
                alert.name: alert for alert in bench.alerts.active() if alert.fired_ns is not None
            }
            if "hot" in by_name:
                assert by_name["hot"].inhibited_by == by_name["dead"].fingerprint
                fired_s.append(second)
            bench.tick()
        assert fired_s[0] <= for_s + 1
        assert by_name.keys() == {"dead", "hot"}

        amid(bench, slices, power_w=400, temperature_c=20)
        assert all(alert.inhibited_by for alert in bench.alerts.active() if alert.name == "hot")
        bench.tick()
        assert bench.alerts.active() == []
        if not is_amid:
            break
    assert places > 2


def test_an_inhibition_that_ends_amid_messages_ends_with_the_next_evaluation() -> None:
    """A steady message flow delays neither alerts nor the end of inhibitions."""
    dead = {
        "scope": "chip",
        "severity": "critical",
        "figure": "power_w",
        "below": 10,
        "summary": "dead",
    }
    warm = {
        "scope": "chip",
        "severity": "warning",
        "figure": "temperature_c",
        "above": 90,
        "summary": "hot",
    }
    bench = AlertBench(
        ultraservers(1),
        rules_of({"name": "dead", **dead, "inhibits": ["hot"]}, {"name": "hot", **warm}),
    )
    bench.set("power_w", 400)
    seen = []
    for power_w in (400, 400, 0, 0, 400, 400, 400):
        amid(bench, 1, power_w=power_w, temperature_c=95)
        (alert,) = [each for each in bench.alerts.active() if each.name == "hot"]
        seen.append((alert.fired_ns is not None, bool(alert.inhibited_by)))
    told = (True, False)
    inhibited = (True, True)
    assert seen == [(False, False), told, inhibited, inhibited, inhibited, told, told]


SILENT = rules_of(
    {
        "name": "silent",
        "scope": "instance",
        "severity": "critical",
        "absent": True,
        "for": "5s",
        "summary": "silent",
        "inhibits": ["*"],
    },
    {
        "name": "chips-silent",
        "scope": "chip",
        "severity": "critical",
        "absent": True,
        "for": "5s",
        "group": "instance",
        "summary": "chips silent",
    },
)


@pytest.mark.parametrize("comes_whole", [True, False])
def test_a_host_whose_chips_come_back_one_after_the_other(*, comes_whole: bool) -> None:
    """An evaluation between a host's messages reports no other chips.

    Chips still missing are reported a second later.
    """
    bench = AlertBench(ultraservers(1), SILENT)
    bench.tick()
    chips = bench.rows(HOST)
    bench.silence(chips)
    bench.play(10)

    seen = []
    for second in range(4):
        live = (
            slice(chips.start, chips.stop)
            if comes_whole and second
            else slice(chips.start, chips.start + 8)
        )
        bench.silence(live, Freshness.LIVE)
        bench.tick()
        seen.append({alert.name: bench.alerts.status(alert) for alert in bench.alerts.active()})

    inhibited = {"chips-silent": AlertStatus.INHIBITED}
    fires = {"chips-silent": AlertStatus.FIRING}
    assert seen == ([inhibited, {}, {}, {}] if comes_whole else [inhibited, fires, fires, fires])
