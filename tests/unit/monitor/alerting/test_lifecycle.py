from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.alert_bench import CHIP, HOST, AlertBench, News, hot
from support.monitor.feed import ultraservers
from support.monitor.rules import rule_of

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.flapping import FLAPS_FROM, QUIET_NS
from trnfleet.domain.alerts.status import AlertState
from trnfleet.monitor.alerting.inputs import Instant
from trnfleet.monitor.alerting.lifecycle import AlertLifecycle
from trnfleet.monitor.alerting.published import PublishedAlerts
from trnfleet.monitor.alerting.silences import Silences
from trnfleet.monitor.alerting.store import AlertStore

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert

QUICK = rule_of()


def test_one_alert_a_rule_and_target() -> None:
    """An active alert is reopened with its original start."""
    store = AlertStore("demo")
    alert = store.open(QUICK, CHIP, 1)
    assert store.open(QUICK, CHIP, 2) is alert
    assert store.open(QUICK, HOST, 2) is not alert
    assert (alert.state, alert.since_ns) == (AlertState.PENDING, 1)
    assert store.find(alert.fingerprint) is alert
    assert len(list(store.all())) == 2


def test_an_alert_is_labelled_with_the_job_that_runs_there() -> None:
    store = AlertStore("demo")
    alert = store.open(QUICK, CHIP, 1)
    before = alert.labels
    alert.job = "train"
    store.relabel(alert)
    assert alert.labels == {**before, "job": "train"}
    assert "job" not in before


def begin(*, detects_flapping: bool = True) -> tuple[AlertStore, PublishedAlerts, AlertLifecycle]:
    store = AlertStore("demo")
    published = PublishedAlerts(store)
    return (
        store,
        published,
        AlertLifecycle(store, published, Silences(), detects_flapping=detects_flapping),
    )


def at(now_ns: int) -> Instant:
    return Instant(now_ns, now_ns)


def told(store: AlertStore) -> list[tuple[str, int]]:
    return [(each.kind, each.at_ns) for each in store.history]


def times(alert: Alert) -> tuple[int, int | None, int | None]:
    return alert.since_ns, alert.fired_ns, alert.resolved_ns


def test_what_has_only_pending_members_left_resolves_and_goes_on() -> None:
    """An alert with only pending members left resolves and is pending again.

    The stored copy has the state at the time it resolved.
    """
    store, _, lifecycle = begin()
    alert = store.open(QUICK, CHIP, 1)
    lifecycle.fire(alert, 1, 2, at(2))
    lifecycle.wait(alert, at(5))
    assert (alert.state, times(alert)) == (AlertState.PENDING, (5, None, None))
    assert store.active == {alert.fingerprint: alert}
    (was,) = store.resolved
    assert was is not alert
    assert (was.state, times(was)) == (AlertState.RESOLVED, (1, 2, 5))


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_fires_on_a_word_is_held_unless_its_target_is_gone(is_gone: bool) -> None:
    store, published, lifecycle = begin()
    alert = store.open(QUICK, CHIP, 1)
    lifecycle.fire(alert, 1, 2, at(2))
    published.hold(alert.fingerprint)
    assert lifecycle.end(alert, at(3), is_gone=is_gone) == is_gone
    assert published.holds(alert.fingerprint) == (not is_gone)
    assert (alert.state is AlertState.RESOLVED) == is_gone


@pytest.mark.parametrize("detects_flapping", [False, True])
def test_what_begins_often_flaps_where_that_is_looked_for(*, detects_flapping: bool) -> None:
    store, _, lifecycle = begin(detects_flapping=detects_flapping)
    for second in range(FLAPS_FROM):
        alert = store.open(QUICK, CHIP, 10 * second)
        lifecycle.fire(alert, 10 * second, 10 * second, at(10 * second))
        ended = lifecycle.end(alert, at(10 * second + 5))
    assert ended == (not detects_flapping)
    assert alert.is_flapping == detects_flapping
    assert ("flapping" in dict(told(store))) == detects_flapping


def flap(bench: AlertBench, times: int) -> list[News]:
    news = []
    for _ in range(times):
        hot(bench)
        news += bench.tick(10)
        hot(bench, value=20.0)
        news += bench.tick(10)
    return news


def test_what_flaps_is_held_until_it_is_quiet() -> None:
    """From the fourth start an alert flaps instead of resolving, until a long quiet."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    news = flap(bench, FLAPS_FROM + 3)

    assert [each.kind for each in news] == ["firing", "resolved"] * (FLAPS_FROM - 1) + [
        "firing",
        "flapping",
    ]
    alert = bench.only()
    assert (alert.is_flapping, alert.times, alert.state) == (True, FLAPS_FROM, AlertState.FIRING)

    quiet_s = QUIET_NS // NS_PER_S
    assert bench.tick(quiet_s - 1) == []
    assert [each.kind for each in bench.tick(1)] == ["resolved"]
    assert not bench.alerts.active()


def test_what_flaps_stays_so_over_a_new_layout() -> None:
    """A growing fleet does not end a held flapping alert."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    flap(bench, FLAPS_FROM)
    assert bench.only().is_flapping

    bench.arrange(ultraservers(3))

    assert bench.tick() == []
    assert bench.only().target == CHIP
    assert [each.kind for each in bench.tick(QUIET_NS // NS_PER_S)] == ["resolved"]


def test_what_flaps_when_time_goes_back() -> None:
    """A step back by a day does not hold a flapping alert for a day."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    flap(bench, FLAPS_FROM)

    bench.tick(-86_400, flow=1)
    bench.tick(QUIET_NS // NS_PER_S)

    assert not bench.alerts.active()
