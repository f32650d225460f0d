from __future__ import annotations

from trnfleet.monitor.pipeline.problem import ADVICE
from trnfleet.services.files.rules import load_rules


def test_alerts_and_problems_of_one_name_give_one_advice() -> None:
    """A shipped rule about the pipeline or publishers has the runbook of the problem of its name."""
    rules = {rule.name: rule.runbook for rule in load_rules(("pipeline",))}
    assert {name: ADVICE[name] for name in rules} == rules
