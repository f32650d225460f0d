"""Search for problems: keys, places, owners, jobs, findings, and cost in an alert storm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.domain.alerts.subsystems import subsystem_of
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.search import MOST_ALERTS
from trnfleet.monitor.problems.state import problems_of
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.alerts import AckMessage, SilenceMessage

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import Problems

NOW_NS = 1_767_600_000 * NS_PER_S
RULES = {rule.name: rule for rule in load_rules()}


def firing(
    name: str, target: str, place: str = "", *, ago_s: float = 60.0, **changed: Any
) -> Alert:
    """Return an alert of a shipped rule."""
    rule = RULES[name]
    alert = Alert(
        rule,
        target,
        fingerprint_of("demo", name, target),
        state=AlertState.FIRING,
        since_ns=NOW_NS - round(ago_s * NS_PER_S),
        fired_ns=NOW_NS - round(ago_s * NS_PER_S),
        chips=1,
        place=place or target,
        subsystem=subsystem_of(rule),
        figure=rule.figure or "",
        labels=labels_of("demo", rule, target),
    )
    for field, value in changed.items():
        setattr(alert, field, value)
    return alert


def fleet() -> Feed:
    feed = Feed(ultraservers(2) + standalone(2))
    feed.jobs = {"pretrain": ("uc1/us-0001",), "finetune": ("uc1/standalone/trn2-0001..trn2-0002",)}
    feed.describe()
    feed.tick()
    return feed


def found(feed: Feed, *alerts: Alert, rules: Any = None) -> Problems:
    silences = feed.monitor.alerts.silences
    active = [AlertWithStatus(each, silences.status(each, NOW_NS)) for each in alerts]
    return problems_of(
        feed.monitor, active, rules=tuple(RULES.values()) if rules is None else rules, now_ns=NOW_NS
    )


def test_a_slow_job_is_at_its_cause() -> None:
    """A slow job's problem is at its alert's named cause, even if nothing fires there."""
    chip = "uc1/standalone/trn2-0002/chip11"
    slow = firing(
        "job-slow", "finetune", "uc1/standalone/trn2-0001", cause=f"{chip} (throttled)", value=1.15
    )
    problems = found(fleet(), slow)
    assert [each.place.address for each in problems.all] == [chip]
    assert texts.impact_text(problems.all[0], NOW_NS) == "hits finetune step +15 %"
    straggler = firing("straggler", "uc1/standalone/trn2-0002", chip, worst=chip)
    joined = found(fleet(), slow, straggler)
    assert [each.key for each in joined.all] == ["power-cooling uc1/standalone/trn2-0002"]
    assert joined.all[0].alerts[0].alert is straggler


def test_a_job_that_failed_is_not_the_fault_of_a_power_limit() -> None:
    """A power limit does not end a job: a lost link does.

    Before the link's alert fires, it is the chip named by the job's alert.
    """
    chip = "uc1/us-0001/trn2u-0001-1/chip08"
    capped = firing("rack-event", "uc1/us-0001", chips=32, ago_s=300.0)
    failed = firing("job-failed", "pretrain", cause=f"{chip} (execution_failed)")
    errors = firing("exec-errors", "uc1/us-0001/trn2u-0001-1", chip, worst=chip)
    link = firing("link-down", "uc1/us-0001/trn2u-0001-1", worst=f"{chip}:z_next")
    feed = fleet()
    feed.states = {"pretrain": "failed"}
    feed.describe()
    for alerts, place in (
        ([errors], "trn2u-0001-1/chip08"),
        ([link], "trn2u-0001-1/chip08:z_next ↔"),
    ):
        first, other = found(feed, capped, failed, *alerts).all
        assert texts.place_text(first.place).startswith(place)
        assert [each.job for each in first.jobs] == ["pretrain"]
        assert (other.severity, other.jobs) == (Severity.WARNING, ())


def test_a_job_that_failed_is_not_the_fault_of_a_slow_link() -> None:
    """A slow link ends no job and impairs no block.

    The chip with failed executions has the job, and comes first.
    """
    slow_at = "uc1/us-0001/trn2u-0001-1/chip06:south"
    slow = firing("link-degraded", "uc1/us-0001/trn2u-0001-1", slow_at, worst=slow_at, ago_s=90.0)
    chip = "uc1/us-0001/trn2u-0001-2/chip09"
    failed = firing("job-failed", "pretrain", cause=f"{chip} (link_down)")
    errors = firing("exec-errors", "uc1/us-0001/trn2u-0001-2", chip, worst=chip)
    impaired = firing("interconnect-impaired", "cb-1")
    feed = fleet()
    feed.states = {"pretrain": "failed"}
    feed.describe()
    first, *others = found(feed, slow, failed, errors, impaired).all
    assert first.place.address == chip
    assert [each.job for each in first.jobs] == ["pretrain"]
    (link,) = (each for each in others if each.place.lane)
    assert (link.severity, link.jobs) == (Severity.WARNING, ())


def test_a_job_that_starts_has_no_pace() -> None:
    """The figure of an unresolved job-slow alert is from steps before the failure."""
    slow = firing("job-slow", "pretrain", value=1.52)
    feed = fleet()
    for state, impact in (
        ("running", "hits pretrain step +52 %"),
        ("starting", "hits pretrain starting"),
    ):
        feed.states = {"pretrain": state}
        feed.describe()
        assert [texts.impact_text(each, NOW_NS) for each in found(feed, slow).all] == [impact]


def test_a_hang_is_at_the_chip_that_its_job_names() -> None:
    chip = "uc1/us-0001/trn2u-0001-1/chip03"
    busy = firing("nc-busy-no-progress", "uc1/us-0001", ago_s=20.0, chips=64, job="pretrain")
    hung = firing("job-hung", "pretrain", ago_s=5.0)
    assert texts.place_text(found(fleet(), hung, busy).all[0].place) == "us-0001"
    hung.cause = f"{chip} (hang_collectives)"
    (problem,) = found(fleet(), hung, busy).all
    assert problem.place.address == chip
    assert texts.text_of(problem).startswith("job hung")


def test_an_instance_that_is_stopped_for_a_fault_names_the_fault() -> None:
    instance = "uc1/us-0001/trn2u-0001-2"
    silent = firing("instance-silent", instance, ago_s=20.0, chips=16)
    ecc = firing("hbm-uncorrectable", instance, f"{instance}/chip04", value=1.0)
    ecc.inhibited_by = silent.fingerprint
    (problem,) = found(fleet(), silent, ecc).all
    assert texts.text_of(problem) == "silent; before: 1 uncorrectable HBM error"
    assert texts.age_text(problem, NOW_NS) == "1m"
    ecc.fired_ns = NOW_NS - 10 * NS_PER_S
    (problem,) = found(fleet(), silent, ecc).all
    assert texts.text_of(problem) == "silent"


def test_a_device_that_is_down_is_the_cause_of_lost_packets() -> None:
    instance = "uc1/standalone/trn2-0001"
    down = firing("efa-link-down", instance, f"{instance}/chip00")
    lost = firing("efa-retransmits", instance, chips=16, value=24.9)
    (problem,) = found(fleet(), down, lost).all
    assert texts.text_of(problem) == "EFA device down"
    assert problem.place.address == instance


def test_a_link_is_as_old_as_its_own_alert() -> None:
    """EC2's status of the reservation can be older, of another link."""
    end = "uc1/us-0001/trn2u-0001-0/chip12:z_next"
    down = firing("link-down", "uc1/us-0001/trn2u-0001-0", end, ago_s=10.0, worst=end, members=1)
    feed = fleet()
    impaired = firing("interconnect-impaired", "cb-1", "uc1/us-0001", inhibited_by=down.fingerprint)
    (problem,) = found(feed, down, impaired).all
    assert texts.age_text(problem, NOW_NS) == "10s"


def test_a_flapping_problem_says_that_it_comes_and_goes() -> None:
    """Flapping alerts last ten minutes, so their figures may be outdated."""
    chip = "uc1/us-0001/trn2u-0001-2/chip09"
    straggler = firing(
        "straggler", "uc1/us-0001/trn2u-0001-2", chip, worst=chip, value=35.0, is_flapping=True
    )
    slow = firing("job-slow", "pretrain", cause=f"{chip} (straggler)", value=1.5, is_flapping=True)
    (problem,) = found(fleet(), straggler, slow).all
    assert texts.text_of(problem).endswith(" (flapping)")
    # It stands for both.
    assert texts.second_line(problem, 0).endswith("  2 alerts")
    assert texts.impact_text(problem, NOW_NS) == "hits pretrain"


def test_subsystems_at_one_place_are_problems_of_their_own() -> None:
    """A memory error in a hot rack is not hidden by the heat."""
    hot = firing("overheated", "uc1/us-0001", rack="rack-b", chips=32)
    errors = firing(
        "hbm-uncorrectable", "uc1/us-0001/trn2u-0001-2", "uc1/us-0001/trn2u-0001-2/chip03"
    )
    cold_rack = firing("straggler", "uc1/us-0001/trn2u-0001-0", "uc1/us-0001/trn2u-0001-0/chip01")
    problems = found(fleet(), hot, errors, cold_rack)
    assert [(each.severity, texts.place_text(each.place)) for each in problems.all] == [
        (Severity.CRITICAL, "trn2u-0001-2/chip03"),
        (Severity.WARNING, "us-0001 rack B"),
        (Severity.WARNING, "trn2u-0001-0/chip01"),
    ]


def test_both_ends_of_a_link_are_one_place() -> None:
    near = firing(
        "link-down", "uc1/us-0001/trn2u-0001-0", worst="uc1/us-0001/trn2u-0001-0/chip12:z_next"
    )
    far = firing(
        "link-down", "uc1/us-0001/trn2u-0001-1", worst="uc1/us-0001/trn2u-0001-1/chip12:z_prev"
    )
    other = firing(
        "link-down", "uc1/us-0001/trn2u-0001-2", worst="uc1/us-0001/trn2u-0001-2/chip09:east"
    )
    problems = found(fleet(), near, far, other)
    first = problems.find(near.fingerprint)
    assert first is not None
    assert first is problems.find(far.fingerprint)
    assert first.place.lane == "z_next"
    assert first.place.other_end == "uc1/us-0001/trn2u-0001-1/chip12:z_prev"
    assert len(problems.all) == 2
    silent = firing("instance-silent", "uc1/us-0001/trn2u-0001-1")
    assert len(found(fleet(), near, silent).all) == 1


def test_acknowledged_and_silenced_ones_have_an_owner() -> None:
    feed = fleet()
    silences = feed.monitor.alerts.silences
    hot = firing("overheated", "uc1/us-0001")
    errors = firing("ecc-rate", "uc1/us-0002/trn2u-0002-1")
    slow = firing(
        "job-slow", "pretrain", cause="uc1/us-0001/trn2u-0001-0/chip00 (overheated)", value=1.21
    )
    until = format_rfc3339(NOW_NS + 7_200 * NS_PER_S)
    at = format_rfc3339(NOW_NS - NS_PER_S)
    silences.put_ack(AckMessage(fingerprint=hot.fingerprint, owner="ana", at=at, until=until))
    silences.put_silence(
        SilenceMessage(
            id="s1",
            matchers=('alertname="ecc-rate"',),
            starts=at,
            until=until,
            who="bo",
            why="known",
        )
    )
    problems = found(feed, hot, errors)
    assert [each.status for each in problems.all] == [AlertStatus.ACKED, AlertStatus.SILENCED]
    assert [texts.owner_text(each, NOW_NS) for each in problems.all] == [
        "acknowledged ana 2h00 left",
        "silenced bo 2h00 left",
    ]
    assert [each.key for each in problems.listed] == ["power-cooling uc1/us-0001"]
    counts = problems.counts()
    assert (counts.firing, counts.acknowledged, counts.silenced) == (0, 1, 1)
    # A new alert of the same cause is nobody's yet; the owner of the cause stays named.
    again = found(feed, hot, errors, slow)
    assert again.all[0].is_loud
    assert again.all[0].owner == "ana"


def test_findings_fill_in_where_no_rule_looks() -> None:
    feed = fleet()
    feed.set("temperature_c", 96.0, slice(0, 16))
    feed.set("mem_ecc_uncorrected", 1, 70)
    feed.tick()
    without = found(feed, rules=())
    assert {(texts.place_text(each.place), each.text) for each in without.all} == {
        ("trn2-0001", "16 chips hot"),
        ("trn2u-0001-2/chip06", "1 uncorrected HBM errors"),
    }
    # A rule about temperature decides; nothing fires about the error, so it stays.
    assert [each.text for each in found(feed).all] == ["1 uncorrected HBM errors"]
    alert = firing(
        "hbm-uncorrectable", "uc1/us-0001/trn2u-0001-2", "uc1/us-0001/trn2u-0001-2/chip06"
    )
    (problem,) = found(feed, alert).all
    assert problem.alerts


def test_pending_alerts_are_apart() -> None:
    waiting = firing("overheated", "uc1/us-0001", state=AlertState.PENDING, fired_ns=None)
    problems = found(fleet(), waiting)
    assert not problems.all
    assert [each.alert for each in problems.pending] == [waiting]


def test_a_storm_of_alerts_is_bounded() -> None:
    """Of 5,000 alerts the first are grouped, the rest is counted."""
    feed = fleet()
    names = [f"uc1/us-{number:05d}" for number in range(5_000)]
    storm = [firing("overheated", name) for name in names]
    active = [AlertWithStatus(each, AlertStatus.FIRING) for each in storm]
    problems = problems_of(feed.monitor, active, rules=tuple(RULES.values()), now_ns=NOW_NS)
    assert len(problems.all) == MOST_ALERTS
    assert problems.left_out == 5_000 - MOST_ALERTS


def test_texts_of_the_wire_are_printable() -> None:
    strange = firing("job-failed", "a\x1b[31mb", cause="", job="a\x1b[31mb", text="fail\x07ed")
    (problem,) = found(fleet(), strange).all
    assert texts.line(problem, NOW_NS).isprintable()


def test_a_problem_of_the_pipeline_is_at_what_causes_it() -> None:
    """A pipeline problem is at a broker, a publisher or the recorder.

    None is an address for Enter. Without a cause it is at the fleet.
    """
    feed = fleet()
    for cause, place in (
        ("broker mqtt://10.0.0.7:1883: Connection refused", "broker mqtt://10.0.0.7:1883"),
        ("publisher agent-07", "publisher agent-07"),
        ("recorder: No space left on device", "recorder"),
        ("", "fleet"),
    ):
        (problem,) = found(feed, firing("connection-lost", "pipeline", cause=cause)).listed
        assert problem.place.address == ""
        assert texts.place_text(problem.place) == place
