from __future__ import annotations

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    SECOND_NS,
    TRN1,
    TRN2,
    TRN2U,
    at,
    pool_of,
    refused,
)

from trnfleet.domain.layout import Layout
from trnfleet.domain.reservations.pool import Pool
from trnfleet.domain.reservations.rules import Rule, utc
from trnfleet.domain.reservations.search import (
    SearchRequest,
    offering_kind_of,
    spans_of,
    starts_of,
    zones_of,
)

POOL = pool_of((TRN2, "a", 3), (TRN2, "b", 1), (TRN1, "b", 2), ultraservers=["a", "c"])
SOONEST_NS = NOW_NS + 30 * MINUTE_NS
LATEST_NS = NOW_NS + 56 * DAY_NS


def test_no_ultraserver_where_there_is_none() -> None:
    """An UltraServer is not looked for in a fleet without one."""
    text = refused(
        Rule.INSTANCE_TYPE,
        lambda: offering_kind_of(SearchRequest(1, ultraservers=1), pool_of((TRN2, "a", 1))),
    )
    assert f"no {TRN2U} here" in text


def test_zones_are_those_of_the_type() -> None:
    """Without a zone all zones with the type are searched, in order.

    Else that zone alone.
    """
    kind = offering_kind_of(SearchRequest(1, TRN2), POOL)
    assert zones_of(SearchRequest(1, TRN2), kind, POOL) == ["a", "b"]
    assert zones_of(SearchRequest(1, TRN2, zone="b"), kind, POOL) == ["b"]


@pytest.mark.parametrize(
    ("now_off_ns", "start"),
    [
        (0, "2026-01-05 10:30"),
        (1, "2026-01-05 10:31"),
        (MINUTE_NS - 1, "2026-01-05 10:31"),
        (MINUTE_NS, "2026-01-05 10:31"),
    ],
)
def test_the_soonest_start_is_a_whole_minute(now_off_ns: int, start: str) -> None:
    """The default start is the first whole minute 30 minutes ahead."""
    assert starts_of(SearchRequest(1), NOW_NS + now_off_ns)[0] == at(start)


@pytest.mark.parametrize(
    ("off_ns", "first_ns"),
    [(0, SOONEST_NS), (1, SOONEST_NS + MINUTE_NS), (SECOND_NS, SOONEST_NS + MINUTE_NS)],
)
def test_a_start_30_minutes_ahead(off_ns: int, first_ns: int) -> None:
    """A start 30 minutes ahead is valid; blocks then start at the next whole minute."""
    assert starts_of(SearchRequest(1, starts_from_ns=SOONEST_NS + off_ns), NOW_NS) == (
        first_ns,
        LATEST_NS,
    )


@pytest.mark.parametrize("off_ns", [-1, -DAY_NS])
def test_a_start_too_soon(off_ns: int) -> None:
    """A nanosecond less than 30 minutes ahead is too soon; the suggested start is not."""
    search_request = SearchRequest(1, starts_from_ns=SOONEST_NS + off_ns)
    text = refused(Rule.STARTS_TOO_SOON, lambda: starts_of(search_request, NOW_NS))
    assert f"not at {utc(SOONEST_NS + off_ns)}; 2026-01-05 10:30 UTC would fit" in text


def test_what_is_named_instead_of_a_start_too_soon_is_late_enough() -> None:
    """Between two minutes the later one is suggested; it is not too soon itself."""
    now_ns = NOW_NS + SECOND_NS
    text = refused(
        Rule.STARTS_TOO_SOON, lambda: starts_of(SearchRequest(1, starts_from_ns=NOW_NS), now_ns)
    )
    assert "2026-01-05 10:31 UTC would fit" in text
    assert starts_of(SearchRequest(1, starts_from_ns=at("2026-01-05 10:31")), now_ns)[0] == at(
        "2026-01-05 10:31"
    )


def test_a_start_8_weeks_ahead() -> None:
    """8 weeks ahead is the latest start; a nanosecond more is refused."""
    assert starts_of(SearchRequest(2, starts_from_ns=LATEST_NS), NOW_NS) == (LATEST_NS, LATEST_NS)
    text = refused(
        Rule.STARTS_TOO_LATE,
        lambda: starts_of(SearchRequest(2, starts_from_ns=LATEST_NS + 1), NOW_NS),
    )
    assert text.endswith("not at 2026-03-02 10:01 UTC; 2026-03-02 10:00 UTC is the latest")


@pytest.mark.parametrize(("minutes", "expected"), [(60, True), (59, False), (61, True), (1, False)])
def test_the_shortest_partial_day(minutes: int, expected: bool) -> None:
    """A partial day is sold alone from an hour on.

    With another day after it, however short it is.
    """
    start_ns = at("2026-01-06 11:30") - minutes * MINUTE_NS
    assert (
        (start_ns, at("2026-01-06 11:30")) in spans_of(SearchRequest(1), start_ns, LATEST_NS)
    ) is expected
    assert (start_ns, at("2026-01-07 11:30")) in spans_of(SearchRequest(2), start_ns, LATEST_NS)


def test_spans_go_on_from_day_to_day() -> None:
    """After the first start come the ends of days up to the last start, included.

    All end at 11:30 UTC.
    """
    spans = spans_of(SearchRequest(2), SOONEST_NS, at("2026-01-07 11:30"))
    assert spans == [
        (SOONEST_NS, at("2026-01-06 11:30")),
        (SOONEST_NS, at("2026-01-07 11:30")),
        (at("2026-01-05 11:30"), at("2026-01-07 11:30")),
        (at("2026-01-06 11:30"), at("2026-01-08 11:30")),
        (at("2026-01-07 11:30"), at("2026-01-09 11:30")),
    ]
    assert spans_of(SearchRequest(2), SOONEST_NS, at("2026-01-07 11:30") - 1) == spans[:-1]
    assert (
        spans_of(SearchRequest(2, ends_by_ns=at("2026-01-08 11:30")), SOONEST_NS, LATEST_NS)
        == spans[:4]
    )
    # What ends too late is left out alone.
    assert (
        spans_of(SearchRequest(2, ends_by_ns=at("2026-01-06 11:30")), SOONEST_NS, LATEST_NS)
        == spans[:1]
    )


def test_a_pool_knows_each_cluster_s_zone() -> None:
    """Instances have their cluster's type and zone, and know their UltraServer."""
    layout = Layout.of(
        [
            *((f"uc1/us-0001/trn2u-0001-{place}", TRN2U) for place in range(4)),
            ("uc1/standalone/trn2-0001", TRN2),
            ("uc2/standalone/trn2-0001", TRN2),
        ]
    )
    pool = Pool.of(layout, {"uc1": "a", "uc2": "b"})
    rows = {path: number for number, path in enumerate(layout.instances)}
    us = [rows[f"uc1/us-0001/trn2u-0001-{place}"] for place in range(4)]
    alone = rows["uc1/standalone/trn2-0001"], rows["uc2/standalone/trn2-0001"]
    assert len({int(pool.ultraserver[row]) for row in us}) == 1
    assert pool.ultraserver[us[0]] >= 0
    assert [int(pool.ultraserver[row]) for row in alone] == [-1, -1]
    assert [str(pool.zone[row]) for row in alone] == ["a", "b"]
    assert pool.zones(TRN2) == ["a", "b"]
    assert pool.zones(TRN2U) == ["a"]


def test_instances_next_to_each_other_are_taken_first() -> None:
    """The first sufficient run of free instances is chosen, else the first free ones."""
    pool = pool_of((TRN2, "a", 8))
    busy = pool.ultraserver >= 0
    busy[[1, 5]] = True
    assert pool.choose(TRN2, "a", 3, busy, ultraserver=False) == (2, 3, 4)
    assert pool.choose(TRN2, "a", 4, busy, ultraserver=False) == (0, 2, 3, 4)
    assert pool.choose(TRN2, "a", 7, busy, ultraserver=False) is None
    assert pool.choose(TRN2, "b", 1, busy, ultraserver=False) is None


def test_ultraservers_are_taken_whole() -> None:
    """An UltraServer with a held instance is not for sale; the next one is."""
    pool = pool_of(ultraservers=["a", "a", "b"])
    busy = pool.ultraserver < 0
    busy[3] = True
    assert pool.choose(TRN2U, "a", 4, busy, ultraserver=True) == (4, 5, 6, 7)
    busy[7] = True
    assert pool.choose(TRN2U, "a", 4, busy, ultraserver=True) is None
    assert pool.choose(TRN2U, "b", 4, busy, ultraserver=True) == (8, 9, 10, 11)


def test_what_is_in_use_on_demand_is_not_sold() -> None:
    """Instances that are taken are never chosen."""
    pool = pool_of((TRN2, "a", 3))
    taken = pool.ultraserver >= 0
    taken[0] = True
    pool = Pool(pool.instance_type, pool.zone, pool.ultraserver, taken)
    assert pool.choose(TRN2, "a", 2, pool.ultraserver >= 0, ultraserver=False) == (1, 2)
    assert pool.choose(TRN2, "a", 3, pool.ultraserver >= 0, ultraserver=False) is None


def test_hours_are_what_was_seen() -> None:
    """A day from 03:30 on has 8 or 32 hours, from 11:30 on 24.

    As in seen offerings.
    """
    start_ns = at("2026-01-06 03:30")
    spans = spans_of(SearchRequest(1), start_ns, at("2026-01-06 11:30"))
    assert [(end - start) // HOUR_NS for start, end in spans] == [8, 32, 24]


@pytest.mark.parametrize(
    ("days", "hours"), [(14, [13 * 24 + 8, 14 * 24 + 8]), (182, [181 * 24 + 8])]
)
def test_what_is_longer_keeps_to_182_days(days: int, hours: list[int]) -> None:
    """A block may exceed 14 days by a partial day, but never 182."""
    start_ns = at("2026-01-06 03:30")
    assert [
        (end - start) // HOUR_NS for start, end in spans_of(SearchRequest(days), start_ns, start_ns)
    ] == hours
