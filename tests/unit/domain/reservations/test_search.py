from __future__ import annotations

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    TRN1,
    TRN2,
    TRN2U,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
    refused,
    small,
)

from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search import SearchRequest


def test_offerings_come_earliest_first_and_six_at_most() -> None:
    """At most six offerings are returned, the soonest start first.

    The soonest start has a shorter and a longer one; then comes each end of a day, zone by zone.
    """
    got = [
        (each.start_ns, each.end_ns, each.zone)
        for each in small().offerings(SearchRequest(1, TRN2))
    ]
    soonest_ns = at("2026-01-05 10:30")
    end_ns = at("2026-01-05 11:30")
    spans = [(soonest_ns, end_ns), (soonest_ns, end_ns + DAY_NS), (end_ns, end_ns + DAY_NS)]
    assert got == [(*span, zone) for span in spans for zone in "ab"]
    _, *others = ledger_of(pool_of((TRN2, "a", 1))).offerings(SearchRequest(1, TRN2))
    assert [each.start_ns for each in others] == [
        soonest_ns,
        *(end_ns + day * DAY_NS for day in range(4)),
    ]


def test_offerings_end_at_half_past_eleven() -> None:
    """Offerings that start at once have a partial first day.

    All end at 11:30 UTC. The partial day replaces a whole one or is added.
    """
    shorter, longer, *others = small().offerings(SearchRequest(2, TRN2, zone="a"))
    assert (shorter.end_ns - shorter.start_ns, longer.end_ns - longer.start_ns) == (
        25 * HOUR_NS,
        49 * HOUR_NS,
    )
    assert {each.end_ns - each.start_ns for each in others} == {2 * DAY_NS}


def test_only_what_is_free_is_offered_longer() -> None:
    """Before another block only the shorter offering is made.

    If the gap is too short for one, the longer.
    """
    ledger = ledger_of(pool_of((TRN2, "a", 1)))
    buy(ledger, SearchRequest(7, TRN2, starts_from_ns=at("2026-01-06 11:30")))
    soonest = SearchRequest(1, TRN2, ends_by_ns=at("2026-01-07 11:30"))
    assert [(each.end_ns - each.start_ns) // HOUR_NS for each in ledger.offerings(soonest)] == [
        1,
        25,
        24,
    ]
    buy(ledger, SearchRequest(1, TRN2, starts_from_ns=at("2026-01-05 11:30")))
    assert [(each.end_ns - each.start_ns) // HOUR_NS for each in ledger.offerings(soonest)] == [1]
    late = ledger_of(pool_of((TRN2, "a", 1)), at("2026-01-05 10:15"))
    assert late.offerings(SearchRequest(1, TRN2))[0].end_ns == at("2026-01-06 11:30")


def test_what_is_held_is_not_offered() -> None:
    """A block from another one's end on is offered, and none that overlaps it."""
    ledger = small()
    held = buy(ledger, SearchRequest(3, TRN2, 2, starts_from_ns=at("2026-01-07 11:30")))
    spans = [(each.start_ns, each.end_ns) for each in ledger.offerings(SearchRequest(2, TRN2, 2))]
    assert [pair for pair in spans if pair[0] < held.end_ns] == [
        (at("2026-01-05 10:30"), at("2026-01-06 11:30")),
        (at("2026-01-05 10:30"), held.start_ns),
        (at("2026-01-05 11:30"), held.start_ns),
    ]
    assert spans[3][0] == held.end_ns


@pytest.mark.parametrize(
    ("search_request", "said"),
    [
        (
            SearchRequest(4, TRN2, 2, ends_by_ns=at("2026-01-10 11:30")),
            "; 3 days from 2026-01-05 10:30 UTC on would fit",
        ),
        (
            SearchRequest(1, TRN2, 3, ends_by_ns=at("2026-01-09 11:30")),
            "; 2 instances from 2026-01-05 10:30 UTC on would fit",
        ),
        (SearchRequest(1, TRN2, 64), "; 2 instances from 2026-01-05 10:30 UTC on would fit"),
        (
            SearchRequest(14, TRN2, 2, ends_by_ns=at("2026-02-04 11:30")),
            "; 3 days from 2026-01-05 10:30 UTC on would fit",
        ),
        (SearchRequest(1, TRN1, 2), "; 1 instance from 2026-01-05 10:30 UTC on would fit"),
    ],
)
def test_the_nearest_that_fits_is_named(search_request: SearchRequest, said: str) -> None:
    """If nothing is free, the longest shorter time is named, else the most instances."""
    ledger = ledger_of(pool_of((TRN2, "a", 2), (TRN2, "b", 1), (TRN1, "b", 1)))
    enter(ledger, TRN2, (0, 1), "2026-01-07 11:30", "2026-02-04 11:30")
    text = refused(Rule.CAPACITY, lambda: ledger.offerings(search_request))
    assert text.endswith(said)


def test_an_ultraserver_has_no_part() -> None:
    """Where no UltraServer is free a shorter time is named, and never fewer instances."""
    ledger = small()
    enter(ledger, TRN2U, (0, 1, 2, 3), "2026-01-01 11:30", "2026-02-26 11:30")
    buy(ledger, SearchRequest(1, ultraservers=1, starts_from_ns=at("2026-02-28 11:30")))
    text = refused(
        Rule.CAPACITY,
        lambda: ledger.offerings(
            SearchRequest(7, ultraservers=1, ends_by_ns=at("2026-03-04 11:30"))
        ),
    )
    assert text.endswith(
        "an UltraServer is not free for 7 days; 3 days from 2026-03-01 11:30 UTC on would fit"
    )
    text = refused(
        Rule.CAPACITY,
        lambda: ledger.offerings(
            SearchRequest(1, ultraservers=1, ends_by_ns=at("2026-02-26 11:30"))
        ),
    )
    assert text.endswith("nor is less of it or a shorter time")


def test_no_partial_day_is_named_that_is_too_short() -> None:
    """45 minutes before the end of the day are not suggested: they are not sold."""
    ledger = ledger_of(pool_of((TRN2, "a", 1)), at("2026-01-05 10:15"))
    buy(ledger, SearchRequest(7, TRN2, starts_from_ns=at("2026-01-05 11:30")))
    text = refused(
        Rule.CAPACITY,
        lambda: ledger.offerings(SearchRequest(2, TRN2, ends_by_ns=at("2026-01-12 11:30"))),
    )
    assert text.endswith(
        "1 x trn2.48xlarge is not free for 2 days, nor is less of it or a shorter time"
    )
