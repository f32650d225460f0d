"""Inhibition across a restart of a watch.

An inhibited alert is notified only when the evaluation requires it.
"""

from __future__ import annotations

import msgspec
import pytest
from support.monitor.alert_bench import CHIP, AlertBench, hot
from support.monitor.feed import ultraservers
from support.monitor.rules import rules_of

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.published import SETTLED_AFTER_NS
from trnfleet.wire.alerts import AlertMessage

RULES = rules_of(
    {
        "name": "straggler",
        "scope": "chip",
        "severity": "warning",
        "figure": "temperature_c",
        "above": 80,
        "for": "10s",
        "keep_firing_for": "3s",
        "group": "instance",
        "summary": "straggler",
        "inhibits": ["throttled"],
    },
    {
        "name": "throttled",
        "scope": "chip",
        "severity": "warning",
        "figure": "temperature_c",
        "above": 90,
        "summary": "hot",
    },
)
HOST = CHIP.rpartition("/")[0]
SETTLED_S = SETTLED_AFTER_NS // NS_PER_S
STRAGGLER = fingerprint_of("demo", "straggler", HOST)
THROTTLED = fingerprint_of("demo", "throttled", CHIP)


def said(
    bench: AlertBench, rule: str, target: str, inhibited_by: str | None = None
) -> AlertMessage:
    """Return the former watch's message of a firing alert."""
    return AlertMessage(
        fingerprint=fingerprint_of("demo", rule, target),
        rule=rule,
        severity=Severity.WARNING,
        state="firing",
        target=target,
        summary=rule,
        since=format_rfc3339(bench.now_ns - 1_140 * NS_PER_S),
        fired=format_rfc3339(bench.now_ns - 1_130 * NS_PER_S),
        inhibited_by=inhibited_by,
        watch="watch-1",
    )


def restarted(*, late: bool = False) -> AlertBench:
    """Return a restarted watch with both alerts, received before or after its first evaluation."""
    bench = AlertBench(ultraservers(1), RULES, adopts=True)
    hot(bench)
    if late:
        bench.tick()
    bench.alerts.remember(said(bench, "throttled", CHIP, STRAGGLER))
    bench.alerts.remember(said(bench, "straggler", HOST))
    return bench


def statuses(bench: AlertBench, seconds: int) -> set[AlertStatus]:
    """Return the statuses of the inhibited alert, second by second."""
    found = set()
    for _ in range(seconds):
        bench.tick()
        alert = bench.alerts.find(THROTTLED)
        assert alert is not None
        found.add(bench.alerts.status(alert))
    return found


def test_what_was_inhibited_is_so_from_the_start() -> None:
    """An inhibited alert stays inhibited from the start and after the first evaluations."""
    bench = restarted()
    alert = bench.alerts.find(THROTTLED)
    assert alert is not None
    assert bench.alerts.status(alert) is AlertStatus.INHIBITED
    assert statuses(bench, 60) == {AlertStatus.INHIBITED}


def test_alerts_that_come_in_late_are_inhibited() -> None:
    """Retained messages after the first evaluation inhibit from the next one."""
    assert statuses(restarted(late=True), 60) == {AlertStatus.INHIBITED}


def test_it_ends_with_the_inhibiting_alert() -> None:
    """When an unseen inhibitor resolves, the next evaluation notifies the inhibited alert."""
    rules = rules_of(
        {
            "name": "straggler",
            "scope": "chip",
            "severity": "warning",
            "figure": "power_w",
            "above": 400,
            "for": "10s",
            "keep_firing_for": "3s",
            "group": "instance",
            "summary": "straggler",
            "inhibits": ["throttled"],
        },
        {
            "name": "throttled",
            "scope": "chip",
            "severity": "warning",
            "figure": "temperature_c",
            "above": 90,
            "summary": "hot",
        },
    )
    bench = AlertBench(ultraservers(1), rules, adopts=True)
    hot(bench)
    bench.alerts.remember(said(bench, "throttled", CHIP, STRAGGLER))
    bench.alerts.remember(said(bench, "straggler", HOST))
    assert statuses(bench, 4) == {AlertStatus.INHIBITED}
    straggler = bench.alerts.find(STRAGGLER)
    assert straggler is not None
    assert straggler.resolved_ns == bench.now_ns
    assert statuses(bench, 1) == {AlertStatus.FIRING}


def test_nobody_mutes_what_fires_here() -> None:
    """An alert firing here for a while is not inhibited by another watch's message."""
    bench = AlertBench(ultraservers(1), RULES[1:], adopts=True)
    hot(bench)
    bench.play(SETTLED_S + 1)
    bench.alerts.remember(said(bench, "throttled", CHIP, STRAGGLER))
    assert statuses(bench, 2) == {AlertStatus.FIRING}


@pytest.mark.parametrize("inhibitor", ["e" * 16, STRAGGLER])
def test_an_inhibitor_that_nobody_knows_counts_for_a_while(inhibitor: str) -> None:
    """An unknown inhibitor counts for a while: retained messages arrive in any order."""
    rules = RULES[1:]
    bench = AlertBench(ultraservers(1), rules, adopts=True)
    hot(bench)
    bench.alerts.remember(said(bench, "throttled", CHIP, inhibitor))
    assert statuses(bench, SETTLED_S + 1) == {AlertStatus.INHIBITED}
    assert statuses(bench, 1) == {AlertStatus.FIRING}


def test_a_screen_evaluates_for_itself() -> None:
    """Only a watch inherits alerts; a new screen shows its own."""
    bench = AlertBench(ultraservers(1), RULES)
    hot(bench)
    bench.alerts.remember(said(bench, "throttled", CHIP, STRAGGLER))
    assert statuses(bench, 1) == {AlertStatus.FIRING}


COUNTED = rules_of(
    {
        "name": "uncorrectable",
        "scope": "chip",
        "severity": "critical",
        "figure": "mem_ecc_uncorrected",
        "increase_over": "60s",
        "above": 0,
        "group": "instance",
        "summary": "errors",
        "inhibits": ["throttled"],
    },
    RULES[1].model_dump(mode="json", exclude_unset=True),
)
UNCORRECTABLE = fingerprint_of("demo", "uncorrectable", HOST)


@pytest.mark.parametrize(
    ("chips", "worst", "status"),
    [
        (1, CHIP, AlertStatus.INHIBITED),
        (3, f"{HOST}/chip01", AlertStatus.INHIBITED),
        (1, f"{HOST}/chip01", AlertStatus.FIRING),
    ],
)
def test_what_is_taken_over_inhibits_what_is_new(
    chips: int, worst: str, status: AlertStatus
) -> None:
    """A held alert covers its only chip, or its whole target if it has several."""
    bench = AlertBench(ultraservers(1), COUNTED, adopts=True)
    message = msgspec.structs.replace(said(bench, "uncorrectable", HOST), chips=chips, worst=worst)
    bench.alerts.remember(message)
    hot(bench)

    assert statuses(bench, 55) == {status}
    (alert,) = [each for each in bench.alerts.active() if each.name == "throttled"]
    assert alert.inhibited_by == (UNCORRECTABLE if status is AlertStatus.INHIBITED else "")
    bench.play(8)
    assert statuses(bench, 1) == {AlertStatus.FIRING}


def test_what_is_taken_over_about_a_job_inhibits_what_is_new() -> None:
    """A held alert about a name covers only this name."""
    rules = rules_of(
        {
            "name": "hung",
            "scope": "job",
            "severity": "critical",
            "figure": "state",
            "equals": "hung",
            "keep_firing_for": "20s",
            "summary": "hung",
            "inhibits": ["running"],
        },
        {
            "name": "running",
            "scope": "job",
            "severity": "warning",
            "figure": "state",
            "equals": "running",
            "summary": "runs",
        },
    )
    bench = AlertBench(ultraservers(1), rules, adopts=True)
    bench.alerts.remember(said(bench, "hung", "llm-1"))
    bench.job("llm-1", HOST)
    bench.job("llm-2", HOST)

    bench.play(10)

    hung = fingerprint_of("demo", "hung", "llm-1")
    inhibited_by = {
        alert.target: alert.inhibited_by
        for alert in bench.alerts.active()
        if alert.name == "running"
    }
    assert inhibited_by == {"llm-1": hung, "llm-2": ""}
    bench.play(15)
    assert [alert.inhibited_by for alert in bench.alerts.active()] == ["", ""]


def test_what_is_taken_over_goes_from_one_inhibitor_to_the_next() -> None:
    """When a host's silence ends, an earlier error still inhibits its failed executions."""
    rules = rules_of(
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
            "name": "uncorrectable",
            "scope": "chip",
            "severity": "critical",
            "figure": "mem_ecc_uncorrected",
            "increase_over": "60s",
            "above": 0,
            "group": "instance",
            "summary": "errors",
            "inhibits": ["failed"],
        },
        {
            "name": "failed",
            "scope": "chip",
            "severity": "warning",
            "figure": "exec_errors",
            "increase_over": "60s",
            "above": 0,
            "group": "instance",
            "summary": "failed",
        },
    )
    bench = AlertBench(ultraservers(1), rules, adopts=True)
    silent = fingerprint_of("demo", "silent", HOST)
    bench.alerts.remember(said(bench, "silent", HOST))
    for name in ("uncorrectable", "failed"):
        message = said(bench, name, HOST, silent)
        bench.alerts.remember(msgspec.structs.replace(message, chips=1, worst=CHIP))

    seen: dict[str, set[str | None]] = {}
    for _ in range(30):
        bench.tick()
        for alert in bench.alerts.active():
            seen.setdefault(alert.name, set()).add(alert.inhibited_by or None)

    assert seen["failed"] == {silent, UNCORRECTABLE}
    assert seen["uncorrectable"] == {silent, None}
    assert [alert.name for alert in bench.alerts.active()] == ["uncorrectable", "failed"]
