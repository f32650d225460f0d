from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.alert_bench import CHIP, AlertBench, News, hot
from support.monitor.feed import ultraservers
from support.monitor.rules import rule_of

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.flapping import FLAPS_FROM, QUIET_NS
from trnfleet.domain.alerts.states import AlertState
from trnfleet.monitor.alerting.book import Book
from trnfleet.monitor.alerting.lifecycle import Course
from trnfleet.monitor.alerting.published import Hearsay
from trnfleet.monitor.alerting.silences import Quieting

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert

QUICK = rule_of()


def begin(*, detects_flapping: bool = True) -> tuple[Book, Hearsay, Course]:
    book = Book("demo")
    hearsay = Hearsay(book)
    return book, hearsay, Course(book, hearsay, Quieting(), detects_flapping=detects_flapping)


def told(book: Book) -> list[tuple[str, int]]:
    return [(each.kind, each.at_ns) for each in book.history]


def times(alert: Alert) -> tuple[int, int | None, int | None]:
    return alert.since_ns, alert.fired_ns, alert.resolved_ns


def test_what_fires_ends_in_the_book() -> None:
    """It is told once that it fires, however often that is seen, and once that it is over."""
    book, _, course = begin()
    alert = book.open(QUICK, CHIP, 1)
    course.fire(alert, 1, 2)
    course.fire(alert, 1, 3)
    assert (alert.state, times(alert)) == (AlertState.FIRING, (1, 2, None))
    assert course.end(alert, 5)
    assert (alert.state, times(alert)) == (AlertState.RESOLVED, (1, 2, 5))
    assert told(book) == [("firing", 2), ("resolved", 5)]
    assert (book.active, list(book.resolved)) == ({}, [alert])


def test_what_is_pending_ends_without_a_word() -> None:
    book, _, course = begin()
    alert = book.open(QUICK, CHIP, 1)
    course.wait(alert, 2)
    assert alert.state is AlertState.PENDING
    assert course.end(alert, 3)
    assert (book.active, list(book.resolved), told(book)) == ({}, [], [])


def test_what_has_only_pending_members_left_resolves_and_goes_on() -> None:
    """What is remembered of it is as it was when it resolved; the alert itself is pending since then."""
    book, _, course = begin()
    alert = book.open(QUICK, CHIP, 1)
    course.fire(alert, 1, 2)
    course.wait(alert, 5)
    assert (alert.state, times(alert)) == (AlertState.PENDING, (5, None, None))
    assert book.active == {alert.fingerprint: alert}
    (was,) = book.resolved
    assert was is not alert
    assert (was.state, times(was)) == (AlertState.RESOLVED, (1, 2, 5))


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_fires_on_a_word_is_held_unless_its_target_is_gone(is_gone: bool) -> None:
    book, hearsay, course = begin()
    alert = book.open(QUICK, CHIP, 1)
    course.fire(alert, 1, 2)
    hearsay.hold(alert.fingerprint)
    assert course.end(alert, 3, is_gone=is_gone) == is_gone
    assert hearsay.holds(alert.fingerprint) == (not is_gone)
    assert (alert.state is AlertState.RESOLVED) == is_gone


@pytest.mark.parametrize("detects_flapping", [False, True])
def test_what_begins_often_flaps_where_that_is_looked_for(*, detects_flapping: bool) -> None:
    book, _, course = begin(detects_flapping=detects_flapping)
    for second in range(FLAPS_FROM):
        alert = book.open(QUICK, CHIP, 10 * second)
        course.fire(alert, 10 * second, 10 * second)
        ended = course.end(alert, 10 * second + 5)
    assert ended == (not detects_flapping)
    assert alert.is_flapping == detects_flapping
    assert ("flapping" in dict(told(book))) == detects_flapping


def flap(bench: AlertBench, times: int) -> list[News]:
    news = []
    for _ in range(times):
        hot(bench)
        news += bench.tick(10)
        hot(bench, value=20.0)
        news += bench.tick(10)
    return news


def test_what_flaps_is_held_until_it_is_quiet() -> None:
    """From the fourth time on it is told as flapping and not as resolved; once it has been quiet for long, it resolves."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    news = flap(bench, FLAPS_FROM + 3)

    assert [each.kind for each in news] == ["firing", "resolved"] * (FLAPS_FROM - 1) + ["firing", "flapping"]
    alert = bench.only()
    assert (alert.is_flapping, alert.times, alert.state) == (True, FLAPS_FROM, AlertState.FIRING)

    quiet_s = QUIET_NS // NS_PER_S
    assert bench.tick(quiet_s - 1) == []
    assert [each.kind for each in bench.tick(1)] == ["resolved"]
    assert not bench.alerts.active()


def test_what_flaps_stays_so_over_a_new_layout() -> None:
    """A fleet that grows does not end what is held."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    flap(bench, FLAPS_FROM)
    assert bench.only().is_flapping

    bench.arrange(ultraservers(3))

    assert bench.tick() == []
    assert bench.only().target == CHIP
    assert [each.kind for each in bench.tick(QUIET_NS // NS_PER_S)] == ["resolved"]


def test_what_flaps_when_time_goes_back() -> None:
    """A time that goes back by a day does not hold an alert for a day."""
    bench = AlertBench(ultraservers(1), (QUICK,))
    flap(bench, FLAPS_FROM)

    bench.tick(-86_400, flow=1)
    bench.tick(QUIET_NS // NS_PER_S)

    assert not bench.alerts.active()
