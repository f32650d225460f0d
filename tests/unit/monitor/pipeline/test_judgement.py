from __future__ import annotations

from dataclasses import replace

from support.monitor.hosts import Hosts

from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.pipeline.health import Recent
from trnfleet.monitor.pipeline.judgement import judge
from trnfleet.monitor.pipeline.problem import ADVICE
from trnfleet.services.files.rules import load_rules


def test_alerts_and_problems_of_one_name_give_one_advice() -> None:
    """A shipped rule about the pipeline or publishers has the runbook of the problem of its name."""
    rules = {rule.name: rule.runbook for rule in load_rules(("pipeline",))}
    assert {name: ADVICE[name] for name in rules} == rules


def test_an_overload_is_one_problem() -> None:
    """Lag and losses while the monitor does not keep up are its consequences, and problems of their own once it does."""
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
        each.name for each in judge(replace(busy, overloaded_s=0.0)) if each.severity is Severity.WARNING
    }
    assert after == {"monitor-overloaded", "messages-lost", "lag"}
