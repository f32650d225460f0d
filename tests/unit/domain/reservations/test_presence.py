from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    SECOND_NS,
    TRN2,
    TRN2U,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
    refused,
)

from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search_request import SearchRequest
from trnfleet.domain.reservations.states import BlockState, ExtensionState, InterconnectStatus

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.ledger import Ledger

END_NS = at("2026-01-10 11:30")
START_NS = END_NS - 7 * DAY_NS
BOUGHT_NS = START_NS - 2 * DAY_NS
ULTRA = (0, 1, 2, 3)


def there(
    now_ns: int, payment: str = "succeeded", bought_ns: int = BOUGHT_NS, **market: Any
) -> tuple[Ledger, Block]:
    ledger = ledger_of(pool_of((TRN2, "b", 3), ultraservers=["a"]), now_ns, **market)
    return ledger, ledger.make(
        TRN2U, ULTRA, START_NS, END_NS, ExtensionState(f"payment-{payment}"), bought_ns
    )


@pytest.mark.parametrize(
    ("now_ns", "state", "changes", "changed_ns"),
    [
        (BOUGHT_NS, "scheduled", 2, BOUGHT_NS),
        (START_NS - 1, "scheduled", 2, BOUGHT_NS + 300 * SECOND_NS),
        (START_NS, "active", 3, START_NS),
        (END_NS - 40 * MINUTE_NS - 1, "active", 3, START_NS),
        (END_NS - 40 * MINUTE_NS, "active", 4, END_NS - 40 * MINUTE_NS),
        (END_NS - 32 * MINUTE_NS, "active", 5, END_NS - 32 * MINUTE_NS),
        (END_NS - 30 * MINUTE_NS, "active", 6, END_NS - 30 * MINUTE_NS),
        (END_NS - 1, "active", 6, END_NS - 30 * MINUTE_NS),
        (END_NS, "expired", 7, END_NS),
        (END_NS + 300 * DAY_NS, "expired", 7, END_NS),
    ],
)
def test_a_paid_block_is_as_it_would_have_become(
    now_ns: int, state: str, changes: int, changed_ns: int
) -> None:
    """An entered block has the state reached by now, with the same number of changes."""
    _, block = there(now_ns)
    assert (block.state, block.changes, block.changed_ns) == (state, changes, changed_ns)
    assert (block.warned, block.interrupting, block.terminating) == (
        changes >= 4,
        changes >= 5,
        changes >= 6,
    )
    assert block.interconnect is (InterconnectStatus.OK if state == "active" else None)
    assert (block.created_ns, block.start_ns, block.end_ns) == (BOUGHT_NS, START_NS, END_NS)


@pytest.mark.parametrize(
    "now_ns",
    [START_NS - 1, START_NS, END_NS - 40 * MINUTE_NS, END_NS - 30 * MINUTE_NS, END_NS - 1, END_NS],
)
@pytest.mark.parametrize(
    "market",
    [
        {},
        {"ultraserver_termination_before_end_s": 3_600.0},
        {"warning_before_end_s": 0.0},
        {"warning_before_end_s": 0.0, "ultraserver_termination_before_end_s": 0.0},
        {"warning_before_end_s": 86_400.0},
        {"interruption_before_termination_s": 86_400.0},
    ],
)
def test_a_block_entered_late_goes_on_as_one_entered_early(
    now_ns: int, market: dict[str, Any]
) -> None:
    """A block becomes the same whether entered early or late."""
    early, block = there(BOUGHT_NS + HOUR_NS, **market)
    early.set_up([block])
    early.advance(now_ns)
    late, block = there(now_ns, **market)
    late.set_up([block])
    assert late.blocks == early.blocks
    assert late.next_change_ns() == early.next_change_ns()
    early.advance(END_NS)
    late.advance(END_NS)
    assert late.blocks == early.blocks


def test_an_unpaid_block_fails_in_the_end() -> None:
    """A pending payment waits until its window closes, and never arrives."""
    ledger, block = there(BOUGHT_NS, "pending")
    ledger.set_up([block])
    assert (block.state, block.pay_by_ns) == (BlockState.PAYMENT_PENDING, BOUGHT_NS + 12 * HOUR_NS)
    assert ledger.advance(block.pay_by_ns - 1) == []
    ledger.advance(block.pay_by_ns)
    assert ledger.blocks[block.id].state is BlockState.PAYMENT_FAILED


def test_a_block_whose_payment_failed_failed_when_its_window_closed() -> None:
    """A failed payment failed when its window closed, at the latest now."""
    assert there(START_NS, "failed")[1].changed_ns == BOUGHT_NS + 12 * HOUR_NS
    _, block = there(BOUGHT_NS + 1, "failed")
    assert (block.state, block.changes, block.changed_ns) == (
        BlockState.PAYMENT_FAILED,
        2,
        BOUGHT_NS + 1,
    )


def test_entered_blocks_are_changes_of_now() -> None:
    """Entered blocks are created at the ledger's instant, so that changes stay in order."""
    ledger = ledger_of(pool_of((TRN2, "b", 2)))
    enter(ledger, TRN2, (1,), "2026-01-04 11:30", "2026-01-11 11:30")
    enter(ledger, TRN2, (0,), "2025-12-01 11:30", "2025-12-08 11:30")
    assert [change.time_ns for change in ledger.changes] == [NOW_NS, NOW_NS]
    assert [block.state.value for block in ledger.blocks.values()] == ["active", "expired"]


def test_a_block_is_entered_once() -> None:
    """Two blocks made before either is entered have the same id: an error."""
    ledger, block = there(START_NS)
    with pytest.raises(ValueError, match="cannot be made"):
        ledger.set_up([block, block])
    assert len(ledger.blocks) == 1


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "bought_ns", "rule"),
    [
        (START_NS, END_NS + 1, BOUGHT_NS, Rule.DATES),
        (START_NS, END_NS - 1, BOUGHT_NS, Rule.DATES),
        (END_NS, END_NS, BOUGHT_NS, Rule.DATES),
        (END_NS + DAY_NS, END_NS, BOUGHT_NS, Rule.DATES),
        (START_NS - 1, START_NS + 182 * DAY_NS, BOUGHT_NS, Rule.DURATION),
        (START_NS, START_NS + 182 * DAY_NS, BOUGHT_NS, None),
        (START_NS, END_NS, START_NS - 30 * MINUTE_NS, None),
        (START_NS, END_NS, START_NS - 30 * MINUTE_NS + 1, Rule.STARTS_TOO_SOON),
        (START_NS, END_NS, START_NS + 1, Rule.STARTS_TOO_SOON),
        (START_NS, END_NS, START_NS - 56 * DAY_NS, None),
        (START_NS, END_NS, START_NS - 56 * DAY_NS - 1, Rule.STARTS_TOO_LATE),
    ],
)
def test_what_cannot_have_been_bought(
    start_ns: int, end_ns: int, bought_ns: int, rule: Rule | None
) -> None:
    """A block that no rule would have let anybody buy is refused with the rule."""
    ledger = ledger_of(pool_of((TRN2, "b", 3)), START_NS + HOUR_NS)
    paid = ExtensionState.PAYMENT_SUCCEEDED
    if rule is None:
        assert ledger.make(TRN2, (0,), start_ns, end_ns, paid, bought_ns).end_ns == end_ns
        return
    got, text = refused(lambda: ledger.make(TRN2, (0,), start_ns, end_ns, paid, bought_ns))
    assert got is rule
    assert text.startswith(f"{rule.value}: ")


def test_nothing_was_bought_after_now() -> None:
    """A purchase in the future is an error."""
    assert there(BOUGHT_NS)[1].created_ns == BOUGHT_NS
    with pytest.raises(ValueError, match="which is yet to come"):
        there(BOUGHT_NS - 1)


def test_a_pending_block_has_not_begun() -> None:
    """A payment is pending only before the start: half an hour, or more."""
    assert (
        there(START_NS - 30 * MINUTE_NS, "pending", START_NS - 30 * MINUTE_NS)[1].pay_by_ns
        == START_NS
    )
    rule, _ = refused(lambda: there(START_NS, "pending", START_NS))
    assert rule is Rule.STARTS_TOO_SOON


@pytest.mark.parametrize("first", ["active", "scheduled", "expired", "pending"])
@pytest.mark.parametrize(
    ("off_days", "overlaps"), [(-1, True), (0, True), (1, True), (2, False), (-7, False)]
)
def test_entered_blocks_do_not_overlap(first: str, off_days: int, overlaps: bool) -> None:
    """No instance is in two blocks at a time, whatever their states.

    One may follow another.
    """
    starts = {
        "active": "2026-01-04",
        "scheduled": "2026-01-20",
        "expired": "2025-12-01",
        "pending": "2026-01-20",
    }
    start_ns = at(f"{starts[first]} 11:30")
    ledger = ledger_of(pool_of((TRN2, "b", 3)))
    paid = ExtensionState.PAYMENT_SUCCEEDED
    payment = ExtensionState.PAYMENT_PENDING if first == "pending" else paid
    bought_ns = NOW_NS if first == "pending" else start_ns - 30 * DAY_NS
    block = ledger.make(TRN2, (0, 1), start_ns, start_ns + 2 * DAY_NS, payment, bought_ns)
    assert block.state.value.endswith(first)
    ledger.set_up([block])
    later_ns = start_ns + off_days * DAY_NS

    def make(*places: int) -> Block:
        days = 7 if off_days == -7 else 3 if off_days < 0 else 1
        return ledger.make(
            TRN2, places, later_ns, later_ns + days * DAY_NS, paid, start_ns - 40 * DAY_NS
        )

    assert make(2).places == (2,)
    if overlaps:
        rule, text = refused(lambda: make(1, 2))
        assert rule is Rule.CAPACITY
        assert text.endswith("another block holds one of its instances at the time")
    else:
        assert make(1, 2).places == (1, 2)


def test_a_block_that_was_never_paid_overlaps_nothing() -> None:
    """A failed payment leaves the instances to others, whichever was bought first."""
    for order in (["failed", "succeeded"], ["succeeded", "failed"]):
        ledger = ledger_of(pool_of((TRN2, "b", 1)))
        for payment in order:
            enter(ledger, TRN2, (0,), "2026-01-04 11:30", "2026-01-11 11:30", payment)
        assert len(ledger.blocks) == 2


@pytest.mark.parametrize("count", [64, 65])
def test_256_instances_in_all_are_entered(count: int) -> None:
    """A file's blocks have at most 256 instances at a time, past ones included."""
    for start in ("2026-01-04 11:30", "2025-12-01 11:30"):
        ledger = ledger_of(pool_of((TRN2, "b", 300)))
        end = start.replace("-04 ", "-05 ").replace("-01 ", "-02 ")
        for first in (0, 64, 128):
            enter(ledger, TRN2, range(first, first + 64), start, end)
        last = range(192, 192 + count)
        if count == 64:
            enter(ledger, TRN2, last, start, end)
        else:
            rule, text = refused(lambda: enter(ledger, TRN2, last, start, end))  # noqa: B023  called at once
            assert rule is Rule.ACCOUNT_SIZE
            assert text.endswith("65 more instances beside 192 would be more than 256 at a time")


def test_what_is_there_is_not_sold_and_can_be_extended() -> None:
    """Entered blocks reserve their instances like bought ones."""
    ledger = ledger_of(pool_of((TRN2, "b", 2)))
    block = enter(ledger, TRN2, (0,), "2026-01-04 11:30", "2026-01-11 11:30")
    assert buy(ledger, SearchRequest(7, TRN2, starts_from_ns=at("2026-01-05 11:30"))).places == (1,)
    during = SearchRequest(
        1, TRN2, ends_by_ns=at("2026-01-11 11:30"), starts_from_ns=at("2026-01-05 11:30")
    )
    assert refused(lambda: ledger.offerings(during))[0] is Rule.CAPACITY
    assert ledger.extend(ledger.extension_offerings(block.id, 1)[0].id).held_until_ns == at(
        "2026-01-12 11:30"
    )


def test_ids_do_not_depend_on_the_time() -> None:
    """The same blocks have the same ids whenever the ledger is opened."""
    first = there(START_NS)[1]
    second = there(END_NS)[1]
    assert (first.id, first.reservation_id) == (second.id, second.reservation_id)
    assert replace(first, id="").offering.id == second.offering.id
