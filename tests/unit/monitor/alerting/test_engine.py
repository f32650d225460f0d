from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support.monitor.alert_bench import CHIP, HOST, US, AlertBench, hot, kinds
from support.monitor.feed import standalone, ultraservers
from support.monitor.rules import rule_of, rules_of

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import LayoutChanged

HOT = rule_of(**{"for": "2s", "keep_firing_for": "2s", "clear": 80})
QUICK = rule_of()


def test_the_course_of_an_alert() -> None:
    """An alert is pending, fires after `for`, and resolves; each is reported once.

    It resolves when `clear` is reached and `keep_firing_for` is over.
    """
    bench = AlertBench(ultraservers(1), (HOT,))
    hot(bench)
    assert bench.tick() == []
    assert (bench.only().state, bench.only().target) == (AlertState.PENDING, CHIP)

    assert kinds(bench.play(4)) == [(3.0, "firing", CHIP)]
    alert = bench.only()
    assert (alert.since_ns, alert.fired_ns) == (
        bench.now_ns - 4 * NS_PER_S,
        bench.now_ns - 2 * NS_PER_S,
    )
    assert (alert.value, alert.members, alert.chips, alert.worst, alert.place) == (
        95.0,
        1,
        1,
        CHIP,
        CHIP,
    )

    hot(bench, value=81.0)
    assert bench.play(3) == []
    assert bench.only().value == 81.0
    hot(bench, value=80.0)
    assert kinds(bench.play(4)) == [(11.0, "resolved", CHIP)]
    assert bench.alerts.active() == []
    assert bench.alerts.find(alert.fingerprint) is alert
    assert [each.kind for each in bench.alerts.history] == ["firing", "resolved"]


def test_what_is_pending_is_never_told() -> None:
    """An alert with a recovery before `for` is over is never reported."""
    bench = AlertBench(ultraservers(1), (HOT,))
    hot(bench)
    bench.tick()
    hot(bench, value=20.0)

    assert bench.play(3) == []
    assert bench.alerts.active() == []
    assert bench.alerts.happened == 0


def test_a_dead_ultraserver_is_one_alert() -> None:
    """The 64 silent chips of an UltraServer are one alert with number, place and duration."""
    silent = rule_of(
        name="silent", figure=None, above=None, absent=True, group="ultraserver", **{"for": "5s"}
    )
    bench = AlertBench(ultraservers(3), (silent,))
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.silence(bench.rows("uc1/us-0002"))

    news = bench.play(10)

    assert kinds(news) == [(6.0, "firing", "uc1/us-0002")]
    alert = bench.only()
    assert (alert.members, alert.chips, alert.place, alert.value) == (64, 64, "uc1/us-0002", 10.0)
    assert len(bench.alerts.members(alert, most=100)) == 64
    assert len(bench.alerts.members(alert, most=10)) == 10


def test_groups_that_follow_their_members() -> None:
    """A group is one alert: members come and go silently, the last one ends it.

    Its place follows the members.
    """
    bench = AlertBench(ultraservers(2), (rule_of(group="ultraserver", **{"for": "2s"}),))
    hot(bench)
    bench.play(3)
    hot(bench, f"{HOST}/chip03", 99.0)
    hot(bench, f"{US}/trn2u-0001-2/chip01", 97.0)
    assert bench.tick() == []
    alert = bench.only()
    assert (alert.members, alert.worst, alert.place) == (1, CHIP, CHIP)
    assert [fires for _, _, fires in bench.alerts.members(alert, most=64)] == [True, False, False]

    assert bench.play(2) == []
    assert (alert.members, alert.worst, alert.value) == (3, f"{HOST}/chip03", 99.0)
    assert alert.place == US
    hot(bench, HOST, 20.0)
    assert bench.tick() == []
    assert (alert.members, alert.place) == (1, f"{US}/trn2u-0001-2/chip01")
    hot(bench, US, 20.0)
    assert kinds(bench.tick()) == [(8.0, "resolved", US)]


@pytest.mark.parametrize("group", [None, "instance", "ultraserver"])
def test_the_label_of_a_rack(group: str | None) -> None:
    """An alert has a rack label while all members are in one rack.

    The layout of the whole UltraServer must be known.
    """
    bench = AlertBench([*ultraservers(1), *standalone(1)], (rule_of(group=group),))
    hot(bench, f"{US}/trn2u-0001-3")
    bench.tick()
    assert {each.labels.get("rack") for each in bench.alerts.active()} == {f"{US}/rack-b"}

    hot(bench, f"{US}/trn2u-0001-0")
    bench.tick()
    racks = {None} if group == "ultraserver" else {f"{US}/rack-a", f"{US}/rack-b"}
    assert {each.labels.get("rack") for each in bench.alerts.active()} == racks

    # Without all four the order of the others does not tell where they stand.
    bench.arrange(ultraservers(1)[1:])
    bench.tick()
    assert {each.labels.get("rack") for each in bench.alerts.active()} == {None}


def test_chips_of_a_dead_instance_are_not_told() -> None:
    """An alert is inhibited if another covers all its members, otherwise reported."""
    rules = rules_of(
        {
            "name": "dead",
            "scope": "instance",
            "severity": "critical",
            "absent": True,
            "for": "2s",
            "summary": "dead",
            "inhibits": ["*"],
        },
        {
            "name": "hot",
            "scope": "chip",
            "severity": "warning",
            "figure": "temperature_c",
            "above": 90,
            "summary": "hot",
        },
    )
    bench = AlertBench(ultraservers(1), rules)
    other = f"{US}/trn2u-0001-1/chip07"
    hot(bench, CHIP)
    hot(bench, other)
    bench.tick()
    bench.silence(bench.rows(HOST))
    bench.play(4)

    by_target = {alert.target: alert for alert in bench.alerts.active()}
    dead = by_target[HOST]
    assert by_target[CHIP].inhibited_by == dead.fingerprint
    assert bench.alerts.status(by_target[CHIP]) is AlertStatus.INHIBITED
    assert by_target[CHIP].is_silent
    assert by_target[other].inhibited_by == ""
    assert bench.alerts.counts()._asdict() == {
        "critical": 1,
        "warning": 1,
        "info": 0,
        "acked": 0,
        "silenced": 0,
        "inhibited": 1,
        "pending": 0,
    }

    bench.silence(bench.rows(HOST), Freshness.LIVE)
    bench.play(2)
    assert by_target[CHIP].inhibited_by == ""
    assert bench.alerts.status(by_target[CHIP]) is AlertStatus.FIRING


def test_an_alert_that_is_only_partly_covered_is_told() -> None:
    """A group with one member outside the dead instance is not inhibited."""
    rules = rules_of(
        {
            "name": "dead",
            "scope": "instance",
            "severity": "critical",
            "absent": True,
            "summary": "dead",
            "inhibits": ["hot"],
        },
        {
            "name": "hot",
            "scope": "chip",
            "severity": "warning",
            "figure": "temperature_c",
            "above": 90,
            "summary": "hot",
            "group": "ultraserver",
        },
    )
    bench = AlertBench(ultraservers(1), rules)
    hot(bench, CHIP)
    hot(bench, f"{US}/trn2u-0001-1/chip07")
    bench.tick()
    bench.silence(bench.rows(HOST))
    bench.tick()

    (alert,) = [each for each in bench.alerts.active() if each.name == "hot"]
    assert alert.inhibited_by == ""
    bench.silence(bench.rows(US))
    bench.tick()
    assert alert.inhibited_by


HUNG = rule_of(
    name="hung",
    scope="job",
    figure="state",
    above=None,
    equals=["hung", "failed"],
    summary="{target} is {value}",
)


def test_the_cause_of_a_job() -> None:
    """A publisher's event about a chip just before is reported as the job's cause."""
    bench = AlertBench(ultraservers(2), (HUNG,))
    bench.job("train", US)
    bench.tick()
    bench.tell("xid", f"{HOST}/chip04", job="train")
    bench.tell("other", "uc1/us-0002/trn2u-0002-0", job="else")
    bench.tick()
    bench.job("train", US, state="hung")

    assert kinds(bench.tick()) == [(3.0, "firing", "train")]
    alert = bench.only()
    assert (alert.text, alert.job, alert.place) == ("hung", "train", f"{HOST}/chip04")
    assert alert.cause == f"{HOST}/chip04 (xid)"
    assert bench.alerts.history[-1].summary.startswith("train is hung")


def test_what_slows_a_job_down_is_not_the_cause_of_its_end() -> None:
    """A lost link ends a job, not an earlier power limit."""
    bench = AlertBench(ultraservers(2), (HUNG,))
    bench.job("train", US)
    bench.tick()
    bench.tell("power_cap", HOST, job="train", severity=Severity.WARNING)
    bench.tick()
    bench.tell("link_down", f"{HOST}/chip04", job="train")
    bench.job("train", US, state="failed")
    bench.tick()
    assert bench.only().cause == f"{HOST}/chip04 (link_down)"


def test_a_cause_has_no_figure_of_another_moment() -> None:
    """A cause is named without its figure: it changes and would contradict the alert."""
    hot_rule = rule_of(
        name="hot", scope="chip", figure="temperature_c", above=90, summary="{worst} {value}"
    )
    bench = AlertBench(ultraservers(2), (hot_rule, HUNG))
    bench.job("train", US)
    hot(bench, CHIP)
    bench.tick()
    bench.job("train", US, state="hung")
    bench.tick()
    (hung,) = [each for each in bench.alerts.active() if each.name == "hung"]
    assert hung.cause == f"{CHIP} (hot)"


def test_a_job_that_goes_from_bad_to_worse_is_the_same_alert() -> None:
    """Another bad state is the same alert; a removed job has none."""
    bench = AlertBench(ultraservers(1), (HUNG,))
    bench.job("train", US, state="hung")
    bench.tick()
    bench.job("train", US, state="failed")
    assert bench.tick() == []
    assert bench.only().text == "failed"

    bench.jobs.clear()
    assert kinds(bench.tick()) == [(3.0, "resolved", "train")]


def test_a_storm_loses_nothing() -> None:
    """A thousand alerts at one instant are a thousand firing, and a thousand resolved."""
    bench = AlertBench(ultraservers(16), (QUICK,))
    chips = np.arange(0, 1_000)
    bench.set("temperature_c", 95.0, chips)

    news = bench.tick()

    assert [each.kind for each in news] == ["firing"] * 1_000
    assert len({each.target for each in news}) == 1_000
    assert bench.alerts.counts().firing == 1_000
    assert len(bench.alerts.active()) == 1_000
    bench.set("temperature_c", 20.0)
    assert [each.kind for each in bench.tick()] == ["resolved"] * 1_000
    assert bench.alerts.happened == 2_000


def test_alerts_survive_a_new_layout() -> None:
    """A layout with moved rows preserves an alert; removal of its instance ends it."""
    bench = AlertBench(ultraservers(2), (HOT,))
    target = "uc1/us-0002/trn2u-0002-1/chip03"
    hot(bench, target)
    bench.play(4)
    alert = bench.only()

    bench.arrange([*standalone(3, cluster="uc0"), *ultraservers(2)])
    assert bench.play(3) == []
    assert bench.only() is alert
    assert (alert.target, alert.worst, alert.members) == (target, target, 1)

    bench.arrange(ultraservers(1))
    assert kinds(bench.tick()) == [(7.0, "resolved", target)]


def test_a_pending_alert_survives_a_new_layout() -> None:
    """A pending alert fires at the same time despite a new layout."""
    bench = AlertBench(ultraservers(2), (HOT,))
    hot(bench, "uc1/us-0002")
    bench.tick()
    bench.arrange([*standalone(1, cluster="uc0"), *ultraservers(2)])

    assert {each.at_s for each in bench.play(4)} == {3.0}


def test_time_that_goes_back() -> None:
    """A firing alert survives a step back in time; new ones start there."""
    bench = AlertBench(ultraservers(1), (HOT,))
    bench.tick(10_000)
    hot(bench)
    bench.play(4)

    bench.tick(-5_000, flow=1)

    alert = bench.only()
    assert alert.state is AlertState.FIRING
    assert alert.since_ns <= bench.now_ns
    assert alert.fired_ns is not None
    assert alert.fired_ns <= bench.now_ns
    hot(bench, value=20.0)
    assert [each.kind for each in bench.play(4)] == ["resolved"]


def test_a_leap_that_nobody_watched_is_no_time() -> None:
    """A jump of an hour counts neither for `for` nor as silence."""
    rules = (
        rule_of(**{"for": "10s"}),
        rule_of(name="silent", figure=None, above=None, absent=True, **{"for": "10s"}),
    )
    bench = AlertBench(ultraservers(1), rules)
    bench.tick()
    hot(bench)
    bench.silence(bench.rows(f"{HOST}/chip09"))
    bench.play(3)

    assert bench.tick(3_600, flow=1) == []
    news = bench.play(8)

    assert {(each.rule, each.at_s - 3_603) for each in news} == {
        ("hot", 9.0 - 1),
        ("silent", 9.0 - 1),
    }


def test_alerts_in_the_order_in_which_they_matter() -> None:
    """Firing before pending, then by severity, the newest first."""
    rules = (
        rule_of(name="warm", severity="info", above=50),
        rule_of(name="late", severity="critical", **{"for": "1h"}),
        rule_of(name="burns", severity="critical"),
    )
    bench = AlertBench(ultraservers(1), rules)
    hot(bench)
    bench.tick()
    hot(bench, f"{HOST}/chip01")
    bench.tick()

    shown = [(alert.name, alert.target[-2:]) for alert in bench.alerts.active()]
    assert shown == [
        ("burns", "01"),
        ("burns", "00"),
        ("warm", "01"),
        ("warm", "00"),
        ("late", "01"),
        ("late", "00"),
    ]


def test_events_are_counted_over_a_window() -> None:
    """A rule on events fires at the event's target for its window, despite other events."""
    rule = rule_of(
        name="retires",
        scope="instance",
        figure="events",
        named=["retirement"],
        above=0,
        increase_over="10s",
    )
    bench = AlertBench(ultraservers(1), (rule,))
    bench.tick()
    bench.tell("retirement", HOST)
    bench.tell("other", f"{US}/trn2u-0001-1")

    assert kinds(bench.tick()) == [(2.0, "firing", HOST)]
    assert kinds(bench.play(12)) == [(12.0, "resolved", HOST)]


def test_targets_with_names_come_and_go() -> None:
    """Publishers fire as offline; forgetting one ends its alert, and its name may return."""
    rule = rule_of(name="offline", scope="publisher", figure="state", above=None, equals="offline")
    bench = AlertBench(ultraservers(1), (rule,))
    bench.named[Scope.PUBLISHER] = {"a": {"state": "offline"}, "b": {"state": "online"}}
    assert kinds(bench.tick()) == [(1.0, "firing", "a")]

    del bench.named[Scope.PUBLISHER]["a"]
    assert kinds(bench.tick()) == [(2.0, "resolved", "a")]
    bench.named[Scope.PUBLISHER] = {"b": {"state": "offline"}, "a": {"state": "offline"}}
    assert sorted(kinds(bench.tick())) == [(3.0, "firing", "a"), (3.0, "firing", "b")]


def test_a_figure_that_nobody_can_say_holds_an_alert() -> None:
    """An alert of an unknown target goes on by default, and ends with `resolve`."""
    rules = (
        rule_of(name="slow", scope="job", figure="step_time_s", above=1.0),
        rule_of(
            name="slow-known", scope="job", figure="step_time_s", above=1.0, when_silent="resolve"
        ),
    )
    bench = AlertBench(ultraservers(1), rules)
    bench.job("train", US)
    bench.jobs["train"] = msgspec.structs.replace(bench.jobs["train"], step_time_s=2.0)
    assert len(bench.tick()) == 2

    bench.jobs["train"] = msgspec.structs.replace(bench.jobs["train"], step_time_s=None)
    assert [(each.rule, each.kind) for each in bench.tick()] == [("slow-known", "resolved")]
    assert bench.only().is_silent


def test_a_fleet_without_instances_or_rules_has_no_alerts() -> None:
    """A fleet without instances or rules is evaluated without alerts or errors."""
    assert AlertBench([], (HOT,)).play(2) == []
    assert AlertBench(ultraservers(1), ()).play(2) == []


def test_a_layout_that_changes_in_the_middle_leaves_no_alert_out() -> None:
    """The next evaluation repeats one interrupted by a layout change.

    This holds even if nothing else has changed.
    """
    rule = rule_of(name="offline", scope="publisher", figure="state", above=None, equals="offline")
    bench = AlertBench(ultraservers(1), (rule,))
    bench.named[Scope.PUBLISHER] = {f"p{number}": {"state": "offline"} for number in range(500)}
    evaluation = bench.alerts.evaluate(bench.readings(), bench.jobs)
    while not bench.alerts.active():
        next(evaluation)
    bench.arrange(ultraservers(2))
    with pytest.raises(LayoutChanged):
        next(evaluation)
    assert 0 < len(bench.alerts.active()) < 500

    bench.play(2)

    assert len(bench.alerts.active()) == 500


def test_a_job_has_the_cause_of_its_own_alert_or_of_one_that_asks_about_it() -> None:
    """None while it does not fire, nor from other alerts where it runs."""
    failed = rule_of(name="failed", scope="job", figure="state", above=None, equals="failed")
    slow = {"figure": "job_slowdown", "above": 1.1}
    straggler = rule_of(name="straggler", also=[slow], **{"for": "2s"})
    bench = AlertBench(ultraservers(1), (HOT, straggler, failed))
    bench.job("train", US, step_time_s=2.0, ideal_step_s=1.0)
    hot(bench)
    bench.play(2)
    assert bench.alerts.job_causes() == {}
    bench.play(3)
    assert {alert.name for alert in bench.alerts.active()} == {HOT.name, "straggler"}
    assert bench.alerts.job_causes() == {"train": f"{CHIP} (straggler)"}
    bench.tell("device_lost", f"{HOST}/chip01", job="train", severity=Severity.CRITICAL)
    bench.job("train", US, state="failed")
    bench.play(1)
    assert bench.alerts.job_causes() == {"train": f"{HOST}/chip01 (device_lost)"}
