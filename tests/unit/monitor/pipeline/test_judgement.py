from __future__ import annotations

from dataclasses import dataclass, replace

from support.monitor.feed import Feed, SilentSource, ultraservers
from support.monitor.hosts import Hosts

from trnfleet.domain.severity import Severity
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.pipeline.health import ADVICE, Recent, judge
from trnfleet.services.files.rules import load_rules


def test_alerts_and_problems_of_one_name_give_one_advice() -> None:
    """A shipped rule on pipeline or publishers has the runbook of its namesake problem."""
    rules = {rule.name: rule.runbook for rule in load_rules(("pipeline",))}
    assert {name: ADVICE[name] for name in rules} == rules


def test_an_overload_is_one_problem() -> None:
    """Lag and losses during an overload are part of it.

    Afterwards they are separate problems.
    """
    calm = Hosts(1).health()
    busy = replace(
        calm,
        counts=PipelineCounts(lost=40, shed=30),
        recent=Recent(lost=40, shed=30),
        lag_s=2.5,
        overloaded_s=9.0,
    )
    warnings = [each for each in judge(busy) if each.severity is not Severity.INFO]
    assert [each.name for each in warnings] == ["monitor-overloaded"]
    assert "30 messages left out here and 40 ticks lost within 1 min" in warnings[0].text
    after = {
        each.name
        for each in judge(replace(busy, overloaded_s=0.0))
        if each.severity is Severity.WARNING
    }
    assert after == {"monitor-overloaded", "messages-lost", "lag"}


@dataclass
class Recorder:
    """A recorder without problems until its disk is full."""

    problem: str = ""


async def test_a_recorder_that_has_stopped_is_a_problem_and_an_alert_with_its_reason() -> None:
    """Within two seconds; live values and their rules go on."""
    feed = Feed(ultraservers(1))
    recorder = Recorder()
    rules = load_rules(("pipeline",))
    feed.monitor = Monitor(SilentSource(), "demo", clock=feed.clock, rules=rules, recorder=recorder)
    feed.describe()
    for _ in range(3):
        await feed.clock.advance(1.0)
        feed.tick()
    assert feed.monitor.alerts.active() == []
    assert not feed.monitor.pipeline().problems
    recorder.problem = "No space left on device"
    for _ in range(2):
        await feed.clock.advance(1.0)
        feed.tick()
    (problem,) = feed.monitor.pipeline().problems
    assert problem.text == "what comes is not recorded any more: No space left on device"
    (alert,) = feed.monitor.alerts.active()
    assert (alert.name, alert.cause) == ("recording-stopped", "recorder: No space left on device")
