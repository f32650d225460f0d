from __future__ import annotations

from typing import Any

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    PAID_NS,
    SECOND_NS,
    TRN2,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
    small,
)

from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.reservations.states import BlockState

# Payment


@pytest.mark.parametrize(
    ("window_s", "state", "at_ns"),
    [
        (43_200.0, "scheduled", 300 * SECOND_NS),
        (300.0, "payment-failed", 300 * SECOND_NS),
        (301.0, "scheduled", 300 * SECOND_NS),
        (299.0, "payment-failed", 299 * SECOND_NS),
        (0.0, "payment-failed", 0),
    ],
)
def test_a_payment_arrives_within_its_window_or_not_at_all(
    window_s: float, state: str, at_ns: int
) -> None:
    """A payment before the window's end counts; at its end or later it has failed."""
    ledger = small(payment_window_s=window_s)
    block = buy(ledger, SearchRequest(1, TRN2))
    assert ledger.next_change_ns() == NOW_NS + at_ns
    if at_ns:
        assert ledger.advance(NOW_NS + at_ns - 1) == []
        assert ledger.blocks[block.id].state is BlockState.PAYMENT_PENDING
    ((change, after),) = ledger.advance(NOW_NS + at_ns)
    assert (after.state, after.changed_ns, change.time_ns) == (
        state,
        NOW_NS + at_ns,
        NOW_NS + at_ns,
    )


@pytest.mark.parametrize(
    ("from_ns", "pay_by_ns"),
    [
        (30 * MINUTE_NS, 30 * MINUTE_NS),
        (12 * HOUR_NS - MINUTE_NS, 12 * HOUR_NS - MINUTE_NS),
        (12 * HOUR_NS, 12 * HOUR_NS),
        (12 * HOUR_NS + MINUTE_NS, 12 * HOUR_NS),
    ],
)
def test_the_payment_window(from_ns: int, pay_by_ns: int) -> None:
    """A block is paid within 12 hours and before it starts, or fails.

    A failed block is free again.
    """
    ledger = small(failing_payments=1.0)
    block = buy(ledger, SearchRequest(2, ultraservers=1, starts_from_ns=NOW_NS + from_ns))
    assert block.pay_by_ns == NOW_NS + pay_by_ns
    assert ledger.next_change_ns() == block.pay_by_ns
    assert ledger.advance(block.pay_by_ns - 1) == []
    ((change, after),) = ledger.advance(block.pay_by_ns)
    assert (change.kind, after.state) == (ChangeKind.PAYMENT_FAILED, BlockState.PAYMENT_FAILED)
    assert ledger.next_change_ns() is None
    assert (
        ledger.offerings(SearchRequest(2, ultraservers=1))[0].start_ns
        == ledger.now_ns + 30 * MINUTE_NS
    )


def test_some_payments_fail_by_the_seed() -> None:
    """A share of payments fails, the same ones whenever the seed is the same."""

    def failed(seed: int) -> list[bool]:
        ledger = ledger_of(pool_of((TRN2, "a", 200)), seed=seed, failing_payments=0.5)
        for _ in range(100):
            buy(ledger, SearchRequest(1, TRN2, starts_from_ns=at("2026-01-08 11:30")))
        ledger.advance(NOW_NS + DAY_NS)
        return [block.state is BlockState.PAYMENT_FAILED for block in ledger.blocks.values()]

    assert failed(1) == failed(1)
    assert failed(1) != failed(2)
    assert 30 < sum(failed(1)) < 70


# A life


@pytest.mark.parametrize(
    ("search_request", "market", "warned_ns", "terminated_ns"),
    # The interruption warning comes 2 minutes before the termination, unless the market says
    # otherwise.
    [
        (SearchRequest(1, TRN2), {}, 40 * MINUTE_NS, 30 * MINUTE_NS),
        (SearchRequest(1, ultraservers=1), {}, 40 * MINUTE_NS, 30 * MINUTE_NS),
        (
            SearchRequest(1, ultraservers=1),
            {"ultraserver_termination_before_end_s": 3_600.0},
            40 * MINUTE_NS,
            60 * MINUTE_NS,
        ),
        (
            SearchRequest(1, TRN2),
            {"ultraserver_termination_before_end_s": 3_600.0},
            40 * MINUTE_NS,
            30 * MINUTE_NS,
        ),
        (SearchRequest(1, TRN2), {"termination_before_end_s": 0.0}, 40 * MINUTE_NS, 0),
        (SearchRequest(1, TRN2), {"warning_before_end_s": 1_800.0}, 30 * MINUTE_NS, 30 * MINUTE_NS),
        (
            SearchRequest(1, TRN2),
            {"warning_before_end_s": 0.0, "termination_before_end_s": 0.0},
            0,
            0,
        ),
        (SearchRequest(1, TRN2), {"warning_before_end_s": 0.5}, SECOND_NS // 2, 30 * MINUTE_NS),
        (
            SearchRequest(1, TRN2),
            {"interruption_before_termination_s": 0.0},
            40 * MINUTE_NS,
            30 * MINUTE_NS,
        ),
        (
            SearchRequest(1, TRN2),
            {"interruption_before_termination_s": 900.0},
            40 * MINUTE_NS,
            30 * MINUTE_NS,
        ),
    ],
)
def test_a_block_s_life(
    search_request: SearchRequest, market: dict[str, Any], warned_ns: int, terminated_ns: int
) -> None:
    """Each change comes at its exact instant.

    Warnings and termination as long before the end as set.
    """
    ledger = small(**market)
    block = buy(ledger, search_request._replace(starts_from_ns=at("2026-01-06 11:30")))
    assert ledger.terminates_ns(block) == block.end_ns - terminated_ns
    lead_ns = round(market.get("interruption_before_termination_s", 120.0) * SECOND_NS)
    ending = [
        (block.end_ns - warned_ns, "expiration_warning"),
        (block.end_ns - terminated_ns - lead_ns, "interruption_warning"),
        (block.end_ns - terminated_ns, "terminating"),
    ]
    expected = [
        (NOW_NS + PAID_NS, "paid"),
        (block.start_ns, "delivered"),
        *sorted(ending, key=lambda pair: pair[0]),
        (block.end_ns, "expired"),
    ]
    got = []
    for when_ns in sorted({pair[0] for pair in expected}):
        assert ledger.next_change_ns() == when_ns
        assert ledger.advance(when_ns - 1) == []
        got += [(change.time_ns, change.kind.value) for change, _ in ledger.advance(when_ns)]
    assert got == expected
    assert ledger.next_change_ns() is None
    assert ledger.blocks[block.id].changes == 7


def test_a_warning_longer_than_the_block_comes_with_its_delivery() -> None:
    """A warning due before the block's start comes right after the delivery.

    Time never goes back.
    """
    ledger = small(warning_before_end_s=86_400.0, termination_before_end_s=7_200.0)
    block = buy(ledger, SearchRequest(1, TRN2))
    assert block.end_ns - block.start_ns == HOUR_NS
    got = [(change.kind.value, change.time_ns) for change, _ in ledger.advance(block.start_ns)]
    assert got == [
        ("paid", NOW_NS + PAID_NS),
        ("delivered", block.start_ns),
        ("expiration_warning", block.start_ns),
        ("interruption_warning", block.start_ns),
        ("terminating", block.start_ns),
    ]
    assert ledger.next_change_ns() == block.end_ns


def test_what_was_missed_is_due_now() -> None:
    """The next change is never before now."""
    ledger = small(warning_before_end_s=86_400.0)
    enter(ledger, TRN2, (4,), "2026-01-04 11:30", "2026-01-06 11:30")
    due_ns = ledger.next_change_ns()
    assert due_ns is not None
    assert due_ns >= NOW_NS


def test_one_block_ends_before_the_next_begins() -> None:
    """Of two successive blocks on the same instances, the end of the first comes first."""
    ledger = small()
    follower = buy(ledger, SearchRequest(1, ultraservers=1, starts_from_ns=at("2026-01-07 11:30")))
    first = buy(
        ledger,
        SearchRequest(
            2, ultraservers=1, ends_by_ns=follower.start_ns, starts_from_ns=at("2026-01-05 11:30")
        ),
    )
    got = [(change.block_id, change.kind.value) for change, _ in ledger.advance(follower.start_ns)]
    assert got[-2:] == [(first.id, "expired"), (follower.id, "delivered")]
