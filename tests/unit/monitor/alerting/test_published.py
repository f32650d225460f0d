from __future__ import annotations

import msgspec
import pytest
from support.monitor.alert_bench import CHIP, HOST, AlertBench, hot
from support.monitor.feed import ultraservers
from support.monitor.rules import rule_of

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.alerts.flapping import QUIET_NS
from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.published import GONE_AFTER_NS, PublishedAlerts
from trnfleet.monitor.alerting.store import AlertStore
from trnfleet.wire.alerts import AlertMessage

HOT = rule_of(**{"for": "2s", "keep_firing_for": "2s", "clear": 80})


def said(
    bench: AlertBench, *, target: str = CHIP, state: str = "firing", since_s: float = -100.0
) -> AlertMessage:
    """Return a `watch`'s message of an alert."""
    return msgspec.convert(
        {
            "fingerprint": fingerprint_of("demo", "hot", target),
            "rule": "hot",
            "severity": Severity.WARNING,
            "state": state,
            "target": target,
            "summary": "hot",
            "since": format_rfc3339(bench.now_ns + round(since_s * NS_PER_S)),
            "fired": format_rfc3339(bench.now_ns + round((since_s + 2) * NS_PER_S)),
            "watch": "watch-1",
        },
        AlertMessage,
    )


def test_a_screen_that_starts_late_shows_the_same_age() -> None:
    """A published alert fires as soon as it is seen here, with the `watch`'s start."""
    bench = AlertBench(ultraservers(1), (HOT,))
    bench.alerts.remember(said(bench))
    start_ns = bench.now_ns
    assert not bench.alerts.active()

    hot(bench)
    bench.play(4)

    alert = bench.only()
    assert (alert.state, alert.since_ns, alert.fired_ns) == (
        AlertState.FIRING,
        start_ns - 100 * NS_PER_S,
        start_ns - 98 * NS_PER_S,
    )


def test_a_watch_that_starts_again_goes_on() -> None:
    """A restarted watch fires former alerts as last known, until their targets were visible."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=True)
    other = f"{HOST}/chip01"
    for target in (CHIP, other):
        bench.alerts.remember(said(bench, target=target))
    assert [alert.state for alert in bench.alerts.active()] == [AlertState.FIRING] * 2

    hot(bench)
    news = bench.play(10)

    assert [(each.kind, each.target) for each in news if each.target == other] == [
        ("resolved", other)
    ]
    alert = bench.only()
    assert (alert.target, alert.is_silent) == (CHIP, False)
    assert alert.fired_ns == bench.now_ns - 10 * NS_PER_S - 98 * NS_PER_S


def test_what_is_taken_over_has_its_labels() -> None:
    """A silence for job or rack covers an inherited alert before it is seen here."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=True)
    message = msgspec.structs.replace(said(bench), labels={"job": "train"}, rack="rack-a")
    bench.alerts.remember(message)

    labels = bench.only().labels

    assert (labels["job"], labels["rack"]) == ("train", "uc1/us-0001/rack-a")


@pytest.mark.parametrize("adopts", [True, False])
def test_what_is_taken_over_and_ends_at_once_resolves(adopts: bool) -> None:
    """A published alert resolves as usual even if wrong here for less than `for`."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=adopts)
    bench.alerts.remember(said(bench))
    hot(bench)
    bench.tick()
    assert bench.only().state is AlertState.FIRING

    hot(bench, value=20.0)

    assert [each.kind for each in bench.play(6)] == ["resolved"]
    assert not bench.alerts.active()


def test_what_is_taken_over_flapping_and_never_seen_resolves_once_it_was_quiet() -> None:
    """A new `watch` ends an inherited flapping alert after a quiet time."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=True)
    bench.alerts.remember(msgspec.structs.replace(said(bench), flapping=True))
    quiet_s = QUIET_NS // NS_PER_S

    assert bench.play(quiet_s) == []
    assert [each.kind for each in bench.play(20)] == ["resolved"]
    assert not bench.alerts.active()


COUNTED = rule_of(figure="mem_ecc_uncorrected", increase_over="60s", above=0, keep_firing_for="2s")


def test_an_increase_that_was_not_heard_here_is_held_for_its_window() -> None:
    """A standby cut off during errors holds their alert for the rule's window."""
    bench = AlertBench(ultraservers(1), (COUNTED,), adopts=True)
    bench.alerts.remember(said(bench))

    # For as long as that of an error just before this watch began: its window, and what the rule
    # keeps firing for.
    assert bench.play(61) == []
    assert bench.only().state is AlertState.FIRING
    assert [each.kind for each in bench.play(6)] == ["resolved"]


def test_an_increase_is_held_no_longer_than_it_is_published() -> None:
    """The leader's resolution ends an alert held here."""
    bench = AlertBench(ultraservers(1), (COUNTED,), adopts=True)
    message = said(bench)
    bench.alerts.remember(message)
    assert bench.play(20) == []

    bench.alerts.forget(message.fingerprint)

    assert [each.kind for each in bench.play(4)] == ["resolved"]


def test_what_nobody_describes_any_more_resolves() -> None:
    """A leftover alert of a removed chip ends after a while."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=True)
    bench.alerts.remember(said(bench, target="uc9/us-0001/trn2u-0001-0/chip00"))

    assert bench.play(GONE_AFTER_NS // NS_PER_S) == []
    assert [each.kind for each in bench.play(3)] == ["resolved"]


@pytest.mark.parametrize("change", ["rule", "fingerprint", "resolved", "forgotten"])
def test_what_is_not_to_be_taken_over(change: str) -> None:
    """Alerts of other rules or fleets, resolved and cleared ones are not inherited."""
    bench = AlertBench(ultraservers(1), (HOT,), adopts=True)
    message = said(bench, state="resolved" if change == "resolved" else "firing")
    if change == "rule":
        message = msgspec.structs.replace(message, rule="other")
    elif change == "fingerprint":
        message = msgspec.structs.replace(message, fingerprint="0" * 16)
    bench.alerts.remember(message)
    if change == "forgotten":
        bench.alerts.forget(message.fingerprint)
        bench.play(4)

    assert not bench.alerts.active()


def test_times_are_those_that_were_said_and_are_not_of_later() -> None:
    """An alert published as firing later, or withdrawn, has no published times."""
    bench = AlertBench(ultraservers(1), ())
    message = said(bench, since_s=-10.0)
    published = PublishedAlerts(AlertStore("demo"))
    assert not published.take(message)
    since_ns = bench.now_ns - 10 * NS_PER_S
    fired_ns = bench.now_ns - 8 * NS_PER_S
    assert published.times(message.fingerprint, fired_ns) == (since_ns, fired_ns)
    assert published.times(message.fingerprint, fired_ns - 1) is None
    published.forget(message.fingerprint)
    assert published.times(message.fingerprint, bench.now_ns) is None


def test_what_is_taken_over_is_held_until_it_is_seen() -> None:
    """An inherited alert is stored as published, until its own condition replaces it."""
    bench = AlertBench(ultraservers(1), ())
    store = AlertStore("demo")
    published = PublishedAlerts(store, (HOT,))
    message = said(bench)
    assert published.take(message)
    alert = store.active[message.fingerprint]
    assert (alert.state, alert.target, alert.is_silent) == (AlertState.FIRING, CHIP, True)
    assert not published.take(message)
    assert published.holds(message.fingerprint)
    published.confirm(message.fingerprint)
    assert not published.holds(message.fingerprint)
    assert published.times(message.fingerprint, bench.now_ns) is not None
    published.end(message.fingerprint)
    assert published.times(message.fingerprint, bench.now_ns) is None
