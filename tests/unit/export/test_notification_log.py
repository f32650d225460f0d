from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.alert_messages import BEGIN_NS, alert_message, fingerprint

from trnfleet.clock import NS_PER_S, ManualClock, parse_rfc3339
from trnfleet.domain.durations import DAY_S
from trnfleet.export.notification_log import (
    REFRESHED_EVERY_S,
    FiringAlert,
    NotificationLog,
    Now,
)
from trnfleet.export.receiver import RESOLVED_FOR_S, Receiver

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from trnfleet.export.notification import Notification
    from trnfleet.wire.alerts import AlertMessage


class Ear(Receiver):
    """A receiver that stores notifications and confirms them on request."""

    def __init__(self, name: str = "webhook", *, repeats: bool = False, room: int = 10_000) -> None:
        super().__init__(name, ManualClock())
        self.repeats = repeats
        self.room = room
        self.heard: list[Notification] = []
        self.kept: list[Notification] = []
        self.stood_by = 0

    def notify(self, notifications: Sequence[Notification]) -> int:
        taken = notifications[: self.room]
        self.heard += taken
        return len(taken)

    def refresh(self, notification: Notification) -> None:
        self.kept.append(notification)

    def end_leadership(self, own: Container[str] = ()) -> None:
        del own
        self.stood_by += 1

    async def run(self) -> None:
        raise AssertionError("never run here")

    def states(self) -> list[tuple[str, str]]:
        return [(each.message.state, each.fingerprint[-1]) for each in self.heard]

    def confirm_all(self) -> None:
        for each in self.heard:
            self.confirm(each)


class LogBench:
    """A notification log with numbered alerts, at seconds."""

    def __init__(self, *ears: Ear, client: str = "watch-1") -> None:
        self.notification_log = NotificationLog("demo", client, ears)
        self.wall_ahead_s = 0
        """Seconds our wall clock is ahead of the fleet's time, the correct one."""
        self.resolved: dict[str, int] = {}

    def now(self, at_s: float) -> Now:
        at_ns = BEGIN_NS + round(at_s * NS_PER_S)
        wall_ns = at_ns + self.wall_ahead_s * NS_PER_S
        return Now(at_ns, 1.0, is_wall=True, wall_ns=wall_ns, mono_s=at_s)

    def step(self, at_s: float, *numbers: int, fired_s: float = 0.0, **how: Any) -> None:
        given = {"is_quiet": False, "is_unseen": False, "urgent": "", "figures": 0, **how}
        change = {key: given.pop(key) for key in list(given) if key in {"value", "labels", "cause"}}
        firing = [
            FiringAlert(
                fingerprint(each),
                BEGIN_NS + round(fired_s * NS_PER_S),
                describe=lambda each=each: alert_message(each, fired_s, **change),  # type: ignore[misc]
                **given,
            )
            for each in numbers
        ]
        self.notification_log.step(firing, self.resolved.get, self.now(at_s))

    def published(self) -> dict[str, AlertMessage | None]:
        return dict(self.notification_log.take_changes())


@pytest.fixture
def bench(ear: Ear) -> LogBench:
    return LogBench(ear)


@pytest.fixture
def ear() -> Ear:
    return Ear()


def test_an_alert_is_told_once_and_its_end_once(bench: LogBench, ear: Ear) -> None:
    """A receiver gets each start and end once; delivered states are retained."""
    bench.step(1, 1)
    bench.step(2, 1)
    assert ear.states() == [("firing", "1")]
    message = bench.published()[fingerprint(1)]
    assert message is not None
    assert (message.state, message.told) == ("firing", {})
    ear.confirm_all()
    message = bench.published()[fingerprint(1)]
    assert message is not None
    assert message.told == {"webhook": "firing@2026-01-05T08:00:00.000Z"}
    bench.resolved[fingerprint(1)] = BEGIN_NS + 3 * NS_PER_S
    bench.step(4)
    bench.step(5)
    assert ear.states() == [("firing", "1"), ("resolved", "1")]
    assert ear.heard[1].ends_ns == BEGIN_NS + 3 * NS_PER_S
    assert bench.notification_log.ended == [fingerprint(1)]
    ear.confirm_all()
    message = bench.published()[fingerprint(1)]
    assert message is not None
    assert (message.resolved, message.told) == (
        "2026-01-05T08:00:03.000Z",
        {"webhook": "resolved@2026-01-05T08:00:00.000Z"},
    )


def test_the_next_beginning_is_told_again(bench: LogBench, ear: Ear) -> None:
    """An alert that comes back is another notification."""
    bench.step(1, 1)
    bench.step(2)
    bench.step(10, 1, fired_s=9)
    assert ear.states() == [("firing", "1"), ("resolved", "1"), ("firing", "1")]


def test_a_late_word_on_what_is_over_is_no_beginning(bench: LogBench, ear: Ear) -> None:
    """A late message about a resolved alert is no start.

    A condition seen again is one.
    """
    bench.step(1, 1)
    bench.step(2)
    bench.step(3, 1, is_unseen=True)
    assert len(ear.heard) == 2
    bench.step(5, 1)
    assert ear.states()[2:] == [("firing", "1")]
    assert ear.heard[2].message.fired == "2026-01-05T08:00:05.000Z"


def test_a_quiet_alert_notifies_when_it_no_longer_is(bench: LogBench, ear: Ear) -> None:
    """A silenced or inhibited alert is published without notification.

    Its end goes only to receivers that know of it.
    """
    bench.step(1, 1, 2, is_quiet=True)
    assert set(bench.published()) == {fingerprint(1), fingerprint(2)}
    assert ear.heard == []
    bench.step(2, 2, is_quiet=True)
    assert ear.heard == []
    bench.step(3, 2)
    assert ear.states() == [("firing", "2")]


def test_what_is_told_and_then_silenced_has_its_end_told(bench: LogBench, ear: Ear) -> None:
    """A receiver that was notified of firing is notified of the resolution, silenced or not."""
    bench.step(1, 1)
    bench.step(2, 1, is_quiet=True)
    bench.step(3)
    assert ear.states() == [("firing", "1"), ("resolved", "1")]


def test_figures_are_refreshed_now_and_then() -> None:
    """A new value is published after `REFRESHED_EVERY_S`, a new cause at once.

    Labels stay: they identify it for others.
    """
    bench = LogBench()
    bench.step(1, 1, value=40.0)
    bench.published()
    bench.step(2, 1, figures=1, value=41.0)
    bench.step(1 + REFRESHED_EVERY_S - 0.001, 1, figures=2, value=42.0)
    assert bench.published() == {}
    bench.step(1 + REFRESHED_EVERY_S, 1, figures=2, value=42.0, labels={"alertname": "other"})
    message = bench.published()[fingerprint(1)]
    assert message is not None
    assert message.value == 42.0
    assert message.labels["target"] == "uc1/us-0001/i-1"
    bench.step(1.5 + REFRESHED_EVERY_S, 1, figures=2, urgent="x", value=42.0, cause="a chip")
    message = bench.published()[fingerprint(1)]
    assert message is not None
    assert message.cause == "a chip"


@pytest.mark.parametrize("client", ["watch-1", "watch-2"])
def test_a_new_leader_repeats_nothing_and_loses_nothing(ear: Ear, client: str) -> None:
    """A restarted or new leader sends only unrecorded states, and changes since then."""
    bench = LogBench(ear, client=client)
    fired = "firing@2026-01-05T08:00:00.000Z"
    retained = [
        alert_message(1, told={"webhook": fired}),
        alert_message(2, told={}),
        alert_message(3, told={"webhook": fired}),
        alert_message(
            4, state="resolved", resolved="2026-01-05T08:00:03.000Z", told={"webhook": fired}
        ),
        alert_message(
            5,
            state="resolved",
            resolved="2026-01-05T08:00:03.000Z",
            told={"webhook": fired.replace("firing", "resolved")},
        ),
    ]
    bench.notification_log.take_over(retained, bench.now(10))
    assert ear.heard == []
    bench.step(11, 1, 2, 6)
    assert sorted(ear.states()) == [
        ("firing", "2"),
        ("firing", "6"),
        ("resolved", "3"),
        ("resolved", "4"),
    ]
    published = bench.published()
    assert {each.watch for each in published.values() if each is not None} == {client}


def test_a_receiver_that_repeats_is_given_what_it_knows() -> None:
    """After a restart Alertmanager gets repeats of known alerts; standby stops them."""
    ear = Ear("alertmanager", repeats=True)
    bench = LogBench(ear)
    told = {"alertmanager": "firing@2026-01-05T08:00:00.000Z"}
    bench.notification_log.take_over([alert_message(1, told=told)], bench.now(10))
    bench.step(11, 1)
    bench.step(12, 1)
    assert ear.heard == []
    assert [each.fingerprint for each in ear.kept] == [fingerprint(1)]
    bench.step(30, 1, figures=5, value=50.0)
    assert ear.kept[-1].message.value == 50.0
    bench.notification_log.end_leadership(bench.now(31))
    assert ear.stood_by == 1


def test_what_is_over_is_cleared(bench: LogBench, ear: Ear) -> None:
    """A resolved alert is cleared after 15 min, later if a receiver owes its end.

    In the end it is cleared in any case.
    """
    bench.step(0, 1, 2)
    ear.confirm_all()
    bench.step(1, 2)
    ear.confirm(ear.heard[-1])
    bench.step(2)
    bench.published()
    bench.step(1 + RESOLVED_FOR_S - 0.001)
    assert bench.published() == {}
    bench.step(2 + RESOLVED_FOR_S)
    assert bench.published() == {fingerprint(1): None}
    bench.step(2 + DAY_S)
    assert bench.published() == {fingerprint(2): None}
    assert len(bench.notification_log) == 0


def test_what_there_is_no_room_for_is_counted_and_offered_again() -> None:
    """A full receiver gets firing alerts once it has room; each is counted once."""
    ear = Ear(room=1)
    bench = LogBench(ear)
    bench.step(1, 1, 2, 3)
    assert (len(ear.heard), ear.tally.dropped) == (1, 2)
    ear.room = 0
    bench.step(2, 1, 2, 3)
    assert ear.tally.dropped == 2
    ear.room = 10
    bench.step(3, 1, 2, 3)
    assert sorted(ear.states()) == [("firing", "1"), ("firing", "2"), ("firing", "3")]


def test_wall_clock_of_a_simulated_fleet() -> None:
    """A fleet with its own fast time has alerts in wall-clock time.

    Never in the future.
    """
    now = Now(1_000 * NS_PER_S, 10.0, is_wall=False, wall_ns=BEGIN_NS, mono_s=0.0)
    assert now.to_wall(900 * NS_PER_S) == BEGIN_NS - 10 * NS_PER_S
    assert now.to_wall(1_100 * NS_PER_S) == BEGIN_NS
    wall = now._replace(fleet_ns=BEGIN_NS, speed=1.0, is_wall=True)
    assert wall.to_wall(parse_rfc3339("2100-01-01T00:00:00Z")) == BEGIN_NS


@pytest.mark.parametrize("step_s", [3_600, -3_600])
def test_a_wall_clock_that_is_set_moves_no_alert(bench: LogBench, ear: Ear, step_s: int) -> None:
    """Receivers get times of our clock, before and after it was set.

    By these they find out how wrong it is.
    """
    bench.step(1, 1)
    bench.wall_ahead_s = step_s
    bench.step(10, 1, 2, fired_s=5)
    bench.resolved = {fingerprint(each): BEGIN_NS + 20 * NS_PER_S for each in (1, 2)}
    bench.step(21)
    bench.wall_ahead_s = 0
    bench.step(22, 3, fired_s=22)
    bench.step(31)
    told = [(each.fingerprint[-1], each.starts_ns, each.ends_ns) for each in ear.heard]
    at = [
        None if each is None else BEGIN_NS + each * NS_PER_S
        for each in (0, 5 + step_s, step_s, 20 + step_s, 22, 31, None)
    ]
    assert told == [
        ("1", at[0], None),
        ("2", at[1], None),
        ("1", at[2], at[3]),
        ("2", at[1], at[3]),
        ("3", at[4], None),
        ("3", at[4], at[5]),
    ]


def test_what_others_left_may_come_late(bench: LogBench, ear: Ear) -> None:
    """A late retained alert is accepted; its own echo is not."""
    fired = {"webhook": "firing@2026-01-05T08:00:00.000Z"}
    bench.notification_log.take_late(
        [
            alert_message(1, told=fired, watch="watch-9"),
            alert_message(2, told=fired, watch="watch-1"),
        ],
        bench.now(1),
    )
    assert len(bench.notification_log) == 1
    bench.step(2)
    assert ear.states() == [("resolved", "1")]


def test_an_end_is_for_who_may_know_of_the_beginning(ear: Ear) -> None:
    """The next leader ends an alert notified but not recorded, once.

    The former leader vanished before it recorded the delivery.
    """
    keeps = Ear("alertmanager", repeats=True)
    bench = LogBench(keeps, ear)
    bench.notification_log.take_over([alert_message(1, watch="watch-9")], bench.now(1))
    bench.step(2)
    bench.step(3)
    assert (keeps.states(), ear.states()) == ([("resolved", "1")], [])
    keeps.confirm_all()
    bench.step(4)
    assert len(keeps.heard) == 1


def test_rules_that_are_not_looked_at_stay_as_they_are(bench: LogBench, ear: Ear) -> None:
    """A step for some rules starts and ends only their alerts."""
    bench.step(1, 1)
    log = bench.notification_log
    now = bench.now(2)
    log.step([], bench.resolved.get, now, only={"another"})
    assert ear.states() == [("firing", "1")]
    log.step([], bench.resolved.get, now, only={"another", alert_message(1, 0.0).rule})
    ear.confirm_all()
    log.notify_receivers()
    assert ear.states()[-1] == ("resolved", "1")


def test_a_leader_again_offers_what_was_not_confirmed(bench: LogBench, ear: Ear) -> None:
    """Unconfirmed notifications are offered again, confirmed ones are not.

    Another watch led meanwhile.
    """
    bench.step(1, 1, 2)
    ear.confirm(ear.heard[0])
    ear.heard.clear()
    bench.notification_log.end_leadership(bench.now(2))
    bench.notification_log.take_over([], bench.now(2))
    bench.step(3, 1, 2)
    assert ear.states() == [("firing", "2")]


def test_what_only_this_watch_knows_ends_with_its_leadership() -> None:
    """A reported lost connection is over once another watch leads.

    Alerts of the fleet are the leader's.
    """
    ear = Ear("alertmanager", repeats=True)
    bench = LogBench(ear)
    bench.step(1, 1)
    ear.confirm_all()
    rule = ear.heard[0].message.rule

    bench.notification_log.end_leadership(bench.now(5), {"other"})
    assert ear.states() == [("firing", "1")]
    bench.notification_log.end_leadership(bench.now(6), {rule})
    bench.notification_log.end_leadership(bench.now(7), {rule})
    assert ear.states() == [("firing", "1"), ("resolved", "1")]
    assert ear.heard[1].ends_ns == BEGIN_NS + 6 * NS_PER_S


def test_what_is_in_the_log_is_not_taken_late(bench: LogBench, ear: Ear) -> None:
    """Another watch's message about a known alert changes nothing."""
    bench.step(1, 1)
    ear.confirm_all()
    bench.notification_log.take_late([alert_message(1, told={}, watch="watch-9")], bench.now(2))
    bench.step(3, 1)
    assert len(ear.heard) == 1


@pytest.mark.parametrize("resolved_s", [-5, 60])
def test_an_end_lies_between_the_beginning_and_now(
    bench: LogBench, ear: Ear, resolved_s: int
) -> None:
    """An end outside this range, as after a clock step, becomes the present."""
    bench.step(1, 1)
    bench.resolved = {fingerprint(1): BEGIN_NS + resolved_s * NS_PER_S}
    bench.step(21)
    assert (ear.heard[-1].message.state, ear.heard[-1].ends_ns) == (
        "resolved",
        BEGIN_NS + 21 * NS_PER_S,
    )


def test_an_end_moves_with_the_wall_clock() -> None:
    """An end before a clock step, reported after it, is in the new time."""
    ear = Ear(room=0)
    bench = LogBench(ear)
    bench.notification_log.take_over(
        [alert_message(1, told={"webhook": "firing@2026-01-05T08:00:00.000Z"})], bench.now(1)
    )
    bench.resolved = {fingerprint(1): BEGIN_NS + 2 * NS_PER_S}
    bench.step(3)
    bench.wall_ahead_s = 3_600
    ear.room = 10
    bench.step(4)
    assert [(each.starts_ns, each.ends_ns) for each in ear.heard] == [
        (BEGIN_NS + 3_600 * NS_PER_S, BEGIN_NS + 3_602 * NS_PER_S)
    ]


def test_an_end_that_was_missed_is_made_up_for(bench: LogBench, ear: Ear) -> None:
    """A receiver that missed an end gets the next one, even of a silenced alert."""
    bench.step(1, 1)
    ear.confirm_all()
    ear.room = 0
    bench.step(2)
    ear.room = 10
    bench.step(3, 1, fired_s=3, is_quiet=True)
    bench.step(4)
    assert ear.states() == [("firing", "1"), ("resolved", "1")]
