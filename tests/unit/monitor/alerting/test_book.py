from __future__ import annotations

import copy

from support.monitor.alert_bench import CHIP, HOST
from support.monitor.rules import rule_of

from trnfleet.domain.alerts.states import AlertState
from trnfleet.monitor.alerting.book import Book

RULE = rule_of()


def test_one_alert_a_rule_and_target() -> None:
    """What is active is opened again, with the time at which it began."""
    book = Book("demo")
    alert = book.open(RULE, CHIP, 1)
    assert book.open(RULE, CHIP, 2) is alert
    assert book.open(RULE, HOST, 2) is not alert
    assert (alert.state, alert.since_ns) == (AlertState.PENDING, 1)
    assert book.find(alert.fingerprint) is alert
    assert len(list(book.all())) == 2


def test_an_alert_is_labelled_with_the_job_that_runs_there() -> None:
    book = Book("demo")
    alert = book.open(RULE, CHIP, 1)
    before = alert.labels
    alert.job = "train"
    book.relabel(alert)
    assert alert.labels == {**before, "job": "train"}
    assert "job" not in before


def test_a_copy_goes_on_on_its_own_with_what_is_active() -> None:
    """Its history and its news are about its own alerts; what is over it shares."""
    book = Book("demo")
    over, goes_on = book.open(RULE, CHIP, 1), book.open(RULE, HOST, 1)
    for alert in (over, goes_on):
        alert.state = AlertState.FIRING
        book.tell("firing", alert, 1)
    over.state = AlertState.RESOLVED
    del book.active[over.fingerprint]
    book.resolved.append(over)

    twin = copy.deepcopy(book)

    assert vars(twin).keys() == vars(book).keys()
    mine = twin.active[goes_on.fingerprint]
    assert mine is not goes_on
    assert [each.alert for each in twin.history] == [over, mine]
    assert [each.alert for each in twin.news] == [over, mine]
    assert twin.resolved[0] is over
    twin.tell("resolved", mine, 2)
    assert (len(book.history), len(book.news), book.happened) == (2, 2, 2)
    assert (twin.history.maxlen, twin.resolved.maxlen) == (book.history.maxlen, book.resolved.maxlen)
