from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    PAID_NS,
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

from trnfleet.domain.reservations import extension
from trnfleet.domain.reservations.extension import why_not_extendable
from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.reservations.states import BlockState, ExtensionState
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.ledger import Ledger

END_NS = at("2026-01-20 11:30")


def active(days: int = 7, **market: Any) -> tuple[Ledger, Block]:
    """Return a ledger at the start of a two-instance block.

    It ends on 20 January.
    """
    start_ns = END_NS - days * DAY_NS
    ledger = ledger_of(pool_of((TRN2, "a", 4), ultraservers=["a"]), start_ns, **market)
    paid = ExtensionState.PAYMENT_SUCCEEDED
    block = ledger.make(TRN2, (4, 5), start_ns, END_NS, paid, start_ns - 7 * DAY_NS)
    ledger.set_up([block])
    return ledger, block


def extend(ledger: Ledger, block: Block, days: int) -> Block:
    return ledger.extend(ledger.extension_offerings(block.id, days)[0].id)


def test_an_extension_begins_at_the_end() -> None:
    """An extension adds whole days at the block's end, for the same instances and price."""
    ledger, block = active()
    (offering,) = ledger.extension_offerings(block.id, 7)
    assert (offering.block_id, offering.start_ns, offering.end_ns) == (
        block.id,
        END_NS,
        END_NS + 7 * DAY_NS,
    )
    assert offering.fee == block.fee


@pytest.mark.parametrize("off_ns", [-1, 0, 1])
def test_until_an_hour_before_the_end(off_ns: int) -> None:
    """An hour before the end no extension is possible, even with an old offering."""
    ledger, block = active()
    ledger.advance(END_NS - HOUR_NS - MINUTE_NS)
    offering = ledger.extension_offerings(block.id, 1)[0]
    ledger.advance(END_NS - HOUR_NS + off_ns)
    if off_ns < 0:
        assert ledger.extend(offering.id).pending is not None
        return
    for call in (
        lambda: ledger.extend(offering.id),
        lambda: ledger.extension_offerings(block.id, 1),
    ):
        text = refused(Rule.EXTENSION_TOO_LATE, call)
        assert text.endswith("until an hour before its end: 2026-01-20 10:30 UTC")


@pytest.mark.parametrize("state", list(BlockState))
def test_in_which_states(state: BlockState) -> None:
    """Active and scheduled blocks can be extended; the six other states are refused by name."""
    ledger, block = active()
    offering = ledger.extension_offerings(block.id, 1)[0]
    ledger.blocks[block.id] = replace(block, state=state)
    if state in {BlockState.ACTIVE, BlockState.SCHEDULED}:
        assert ledger.extension_offerings(block.id, 1)
        assert ledger.extend(offering.id).pending is not None
        return
    for call in (
        lambda: ledger.extension_offerings(block.id, 1),
        lambda: ledger.extend(offering.id),
    ):
        text = refused(Rule.EXTENSION_STATE, call)
        assert f"{block.id} is {state.value}; active and scheduled blocks can be extended" in text


def test_one_payment_at_a_time() -> None:
    """A pending payment prevents another extension until it is settled."""
    ledger, block = active()
    offering = ledger.extension_offerings(block.id, 1)[0]
    other = ledger.extension_offerings(block.id, 2)[0]
    ledger.extend(offering.id)
    ledger.advance(ledger.now_ns + PAID_NS - 1)
    for call in (lambda: ledger.extension_offerings(block.id, 1), lambda: ledger.extend(other.id)):
        text = refused(Rule.EXTENSION_PENDING, call)
        assert f"of {block.id} is pending until 2026-01-13 23:30 UTC" in text
    ledger.advance(ledger.now_ns + 1)
    assert ledger.blocks[block.id].end_ns == END_NS + DAY_NS
    text = refused(Rule.OFFERING, lambda: ledger.extend(other.id))
    assert "ends at another time by now" in text
    assert extend(ledger, block, 1).pending is not None


@pytest.mark.parametrize(
    ("before_end_ns", "window_ns"),
    [
        (3 * DAY_NS, 12 * HOUR_NS),
        (12 * HOUR_NS + 35 * MINUTE_NS + 1, 12 * HOUR_NS),
        (12 * HOUR_NS + 35 * MINUTE_NS, 12 * HOUR_NS),
        (12 * HOUR_NS + 35 * MINUTE_NS - 1, 12 * HOUR_NS - 1),
        (HOUR_NS + 1, 25 * MINUTE_NS + 1),
    ],
)
def test_the_payment_window(before_end_ns: int, window_ns: int) -> None:
    """An unpaid extension fails after 12 hours or 35 minutes before the end.

    Whichever is first.
    """
    ledger, block = active(failing_payments=1.0)
    ledger.advance(END_NS - before_end_ns)
    pending = extend(ledger, block, 1).pending
    assert pending is not None
    assert pending.pay_by_ns == ledger.now_ns + window_ns
    changes = ledger.advance(pending.pay_by_ns - 1)
    assert ledger.blocks[block.id].pending is not None
    assert "extension_payment_failed" not in [change.kind.value for change, _ in changes]
    ((change, after),) = ledger.advance(pending.pay_by_ns)
    assert change.kind.value == "extension_payment_failed"
    assert (after.end_ns, after.fee, after.held_until_ns) == (END_NS, block.fee, END_NS)
    assert after.extensions[0].state is ExtensionState.PAYMENT_FAILED


@pytest.mark.parametrize(
    ("payment_s", "arrives"), [(1_500.0, True), (1_501.0, False), (1_502.0, False)]
)
def test_a_payment_35_minutes_before_the_end_is_too_late(payment_s: float, arrives: bool) -> None:
    """A payment 35 minutes before the end fails; one a second earlier counts."""
    ledger, block = active(payment_s=payment_s)
    ledger.advance(END_NS - HOUR_NS - SECOND_NS)
    extend(ledger, block, 1)
    ledger.advance(END_NS - 35 * MINUTE_NS)
    assert (ledger.blocks[block.id].end_ns == END_NS + DAY_NS) is arrives


def test_a_paid_extension_puts_the_end_off() -> None:
    """Warning, termination and expiry move to the new end.

    Fee and end count the extension once it is paid.
    """
    ledger, block = active()
    offering = ledger.extension_offerings(block.id, 1)[0]
    ledger.extend(offering.id)
    got = [(change.kind.value, change.time_ns) for change, _ in ledger.advance(END_NS + DAY_NS)]
    assert got == [
        ("extension_paid", END_NS - 7 * DAY_NS + PAID_NS),
        ("expiration_warning", END_NS + DAY_NS - 40 * MINUTE_NS),
        ("interruption_warning", END_NS + DAY_NS - 32 * MINUTE_NS),
        ("terminating", END_NS + DAY_NS - 30 * MINUTE_NS),
        ("expired", END_NS + DAY_NS),
    ]
    after = ledger.blocks[block.id]
    assert after.fee == block.fee + offering.fee
    assert after.reservation_id == block.reservation_id


def test_a_warned_block_is_warned_again_of_its_new_end() -> None:
    """A block extended after the warning continues, and is warned before its new end."""
    ledger, block = active(payment_s=1_300.0)
    ledger.advance(END_NS - HOUR_NS - 1)
    extend(ledger, block, 1)
    kinds = [change.kind.value for change, _ in ledger.advance(END_NS + DAY_NS)]
    later = ["expiration_warning", "interruption_warning", "terminating", "expired"]
    assert kinds == ["expiration_warning", "extension_paid", *later]


def test_instances_that_were_warned_are_warned_again_before_the_new_end() -> None:
    """With an earlier warning, a later paid extension moves the termination.

    It has a warning of its own.
    """
    ledger, block = active(payment_s=1_300.0, interruption_before_termination_s=600.0)
    ledger.advance(END_NS - HOUR_NS - 1)
    extend(ledger, block, 1)
    got = [(change.kind.value, change.time_ns) for change, _ in ledger.advance(END_NS + DAY_NS)]
    warned = [when_ns for kind, when_ns in got if kind == "interruption_warning"]
    assert warned == [END_NS - 40 * MINUTE_NS, END_NS + DAY_NS - 40 * MINUTE_NS]
    assert [kind for kind, _ in got].count("terminating") == 1


def test_a_payment_at_the_warning_s_instant_comes_before_it() -> None:
    """An extension paid at the warning's instant cancels it."""
    ledger, block = active(payment_s=1_500.0)
    ledger.advance(END_NS - 40 * MINUTE_NS - 1_500 * SECOND_NS)
    extend(ledger, block, 1)
    kinds = [change.kind.value for change, _ in ledger.advance(END_NS - 40 * MINUTE_NS)]
    assert kinds == ["extension_paid"]


def test_a_scheduled_block_can_be_extended_and_delivered_meanwhile() -> None:
    """An extension of a future block is paid after its delivery, and counts."""
    start_ns = at("2026-01-06 11:30")
    ledger = ledger_of(pool_of((TRN2, "a", 1)), payment_s=43_000.0)
    block = buy(ledger, SearchRequest(1, TRN2, starts_from_ns=start_ns))
    ledger.advance(start_ns - HOUR_NS)
    extend(ledger, block, 2)
    kinds = [change.kind.value for change, _ in ledger.advance(start_ns + DAY_NS - HOUR_NS)]
    assert kinds == ["delivered", "extension_paid"]
    assert ledger.blocks[block.id].end_ns == start_ns + 3 * DAY_NS


def test_an_extension_is_paid_while_the_block_is_unavailable() -> None:
    """A payment is settled also while instances are down."""
    ledger, block = active()
    extend(ledger, block, 1)
    ledger.report_health(block.id, 2, impaired=False)
    ledger.advance(ledger.now_ns + PAID_NS)
    after = ledger.blocks[block.id]
    assert (after.state, after.end_ns) == (BlockState.UNAVAILABLE, END_NS + DAY_NS)


@pytest.mark.parametrize(
    ("has", "days", "says"),
    [
        (168, 14, ""),
        (168, 13, ""),
        (168, 21, "would last 189 days, 182 are the most; 14 more days would fit"),
        (175, 7, ""),
        (175, 8, "would last 183 days, 182 are the most; 7 more days would fit"),
        (182, 1, "would last 183 days, 182 are the most; it cannot be extended any more"),
        (14, 168, ""),
        (14, 175, "would last 189 days, 182 are the most; 168 more days would fit"),
    ],
)
def test_182_days_in_all(has: int, days: int, says: str) -> None:
    """A block lasts 182 days with all extensions; the refusal names the longest possible."""
    ledger, block = active(has)
    ledger.advance(END_NS - DAY_NS)
    if not says:
        assert extend(ledger, block, days).held_until_ns == END_NS + days * DAY_NS
        return
    text = refused(Rule.EXTENSION_TOTAL, lambda: ledger.extension_offerings(block.id, days))
    assert text.endswith(says)


def test_a_partial_first_day_counts_among_182() -> None:
    """A partial first day counts as one of the 182 days, however short."""
    ledger = ledger_of(pool_of((TRN2, "a", 1)), at("2026-01-05 09:00"))
    block = buy(ledger, SearchRequest(182, TRN2))
    assert block.start_ns == at("2026-01-05 09:30")
    ledger.advance(block.end_ns - DAY_NS)
    refused(Rule.EXTENSION_TOTAL, lambda: ledger.extension_offerings(block.id, 1))


def test_many_small_extensions() -> None:
    """There is no limit but 182 days to how often a block is extended."""
    ledger, block = active(1, payment_s=0.0)
    for _ in range(181):
        extend(ledger, block, 1)
        ledger.advance(ledger.now_ns + DAY_NS - HOUR_NS // 4)
    after = ledger.blocks[block.id]
    assert (len(after.extensions), after.end_ns - after.start_ns) == (181, 182 * DAY_NS)
    refused(Rule.EXTENSION_TOTAL, lambda: ledger.extension_offerings(block.id, 1))


def test_failed_extensions_do_not_pile_up_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a block's extensions is limited, failed ones included."""
    monkeypatch.setattr(extension, "MOST_EXTENSIONS", 2)
    ledger, block = active(payment_window_s=600.0, payment_s=300.0)
    for _ in range(2):
        extend(ledger, block, 1)
        ledger.advance(ledger.now_ns + 600 * SECOND_NS)
    with pytest.raises(ConfigError, match="has 2 extensions already"):
        ledger.extension_offerings(block.id, 1)


@pytest.mark.parametrize(
    ("gap", "days", "fits"), [(3, 3, 3), (3, 4, 3), (1, 2, 1), (20, 21, 14), (0, 1, 0), (3, 28, 3)]
)
def test_another_block_follows(gap: int, days: int, fits: int) -> None:
    """An extension ends by the start of the next block on its instances.

    The refusal names the valid choice.
    """
    ledger, block = active()
    later_ns = END_NS + gap * DAY_NS
    # Of the four instances none is left, so that it lies on the block's.
    buy(ledger, SearchRequest(1, TRN2, 4, starts_from_ns=later_ns, ends_by_ns=later_ns + DAY_NS))
    if days == fits:
        assert extend(ledger, block, days).held_until_ns == later_ns
        return
    text = refused(Rule.CAPACITY, lambda: ledger.extension_offerings(block.id, days))
    near = (
        f"{fits} more day{'s' * (fits > 1)} would fit" if fits else "it cannot be extended any more"
    )
    assert text.endswith(
        f"another block follows on instances of {block.id} within {days} days after its end; {near}"
    )


def test_an_extension_that_is_sold_meanwhile() -> None:
    """An extension is refused if another block was bought after the end meanwhile."""
    ledger, block = active()
    offering = ledger.extension_offerings(block.id, 1)[0]
    buy(ledger, SearchRequest(1, TRN2, 4, starts_from_ns=END_NS))
    text = refused(Rule.CAPACITY, lambda: ledger.extend(offering.id))
    assert text.endswith("by now; look for extensions again")


@pytest.mark.parametrize("search_request", [SearchRequest(1, TRN2, 4), SearchRequest(1, TRN2, 3)])
def test_what_a_pending_extension_holds_is_not_sold(search_request: SearchRequest) -> None:
    """A bought extension reserves its time; after a failed payment it is for sale again."""
    ledger, block = active(payment_s=43_200.0)
    during = search_request._replace(starts_from_ns=END_NS, ends_by_ns=END_NS + DAY_NS)
    stale = ledger.offerings(during)[0]
    extend(ledger, block, 1)
    refused(Rule.CAPACITY, lambda: ledger.offerings(during))
    refused(Rule.CAPACITY, lambda: ledger.buy(stale.id))
    assert ledger.offerings(during._replace(instances=2))
    ledger.advance(ledger.now_ns + 12 * HOUR_NS)
    assert ledger.blocks[block.id].extensions[0].state is ExtensionState.PAYMENT_FAILED
    assert ledger.offerings(during)


def test_an_extension_offering_lasts_a_day() -> None:
    """An extension can be bought for less than a day after it was looked for."""
    ledger, block = active()
    offering = ledger.extension_offerings(block.id, 1)[0]
    ledger.advance(ledger.now_ns + DAY_NS)
    refused(Rule.OFFERING, lambda: ledger.extend(offering.id))


def test_an_ultraserver_is_extended_until_it_is_terminated_earlier() -> None:
    """If UltraServers terminate before payments end, a later payment cancels the termination."""
    ledger = ledger_of(
        pool_of(ultraservers=["a"]), ultraserver_termination_before_end_s=3_600.0, payment_s=1_000.0
    )
    block = enter(ledger, TRN2U, (0, 1, 2, 3), "2026-01-04 11:30", "2026-01-06 11:30")
    ledger.advance(block.end_ns - HOUR_NS - 1)
    extend(ledger, block, 1)
    kinds = [change.kind.value for change, _ in ledger.advance(block.end_ns)]
    assert kinds == ["terminating", "extension_paid"]
    assert ledger.blocks[block.id].is_usable
    assert ledger.now_ns > NOW_NS


def test_a_later_look_sees_the_same_extension() -> None:
    """An extension's id does not depend on the time of the search.

    So shards agree. Another attempt has its own.
    """
    (early, block), (late, _) = active(payment_s=43_200.0), active(payment_s=43_200.0)
    late.advance(late.now_ns + MINUTE_NS)
    offering = early.extension_offerings(block.id, 1)[0]
    assert late.extension_offerings(block.id, 1)[0] == offering
    pending = early.extend(offering.id).pending
    assert pending is not None
    early.advance(pending.pay_by_ns)
    assert early.blocks[block.id].extensions[-1].state is ExtensionState.PAYMENT_FAILED
    assert early.extension_offerings(block.id, 1)[0].id != offering.id


def why(
    before_end_ns: int,
    *,
    state: BlockState = BlockState.ACTIVE,
    days: int = 7,
    is_pending: bool = False,
) -> str:
    return why_not_extendable(
        state, END_NS - days * DAY_NS, END_NS, END_NS - before_end_ns, is_pending=is_pending
    )


@pytest.mark.parametrize(
    ("before_end_ns", "allowed"),
    [
        (56 * DAY_NS + 1, False),
        (56 * DAY_NS, True),
        (56 * DAY_NS - 1, True),
        (HOUR_NS + 1, True),
        (HOUR_NS, False),
        (HOUR_NS - 1, False),
    ],
)
def test_the_window(before_end_ns: int, allowed: bool) -> None:
    """Extensions are possible from 56 days (included) to an hour (excluded) before the end."""
    assert (not why(before_end_ns, days=100)) is allowed


@pytest.mark.parametrize("state", BlockState)
def test_states(state: BlockState) -> None:
    """Active and scheduled blocks can be extended, others cannot and say their state."""
    assert why(DAY_NS, state=state) == (
        "" if state in {BlockState.ACTIVE, BlockState.SCHEDULED} else state.value
    )


def test_a_pending_payment_and_the_longest_block() -> None:
    """While a payment is pending nothing more can be bought; nor beyond 182 days."""
    assert why(DAY_NS, is_pending=True) == "payment pending"
    assert why(DAY_NS, days=181) == ""
    assert why(DAY_NS, days=182) == "182 d is the most"
