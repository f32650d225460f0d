from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    PAID_NS,
    SECOND_NS,
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

from trnfleet.domain.reservations import ledger as offers
from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search import SearchRequest
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
    text = refused(rule, lambda: ledger.make(TRN2, (0,), start_ns, end_ns, paid, bought_ns))
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
    refused(Rule.STARTS_TOO_SOON, lambda: there(START_NS, "pending", START_NS))


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
        text = refused(Rule.CAPACITY, lambda: make(1, 2))
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
            text = refused(Rule.ACCOUNT_SIZE, lambda: enter(ledger, TRN2, last, start, end))  # noqa: B023  called at once
            assert text.endswith("65 more instances beside 192 would be more than 256 at a time")


def test_what_is_there_is_not_sold_and_can_be_extended() -> None:
    """Entered blocks reserve their instances like bought ones."""
    ledger = ledger_of(pool_of((TRN2, "b", 2)))
    block = enter(ledger, TRN2, (0,), "2026-01-04 11:30", "2026-01-11 11:30")
    assert buy(ledger, SearchRequest(7, TRN2, starts_from_ns=at("2026-01-05 11:30"))).places == (1,)
    during = SearchRequest(
        1, TRN2, ends_by_ns=at("2026-01-11 11:30"), starts_from_ns=at("2026-01-05 11:30")
    )
    refused(Rule.CAPACITY, lambda: ledger.offerings(during))
    assert ledger.extend(ledger.extension_offerings(block.id, 1)[0].id).held_until_ns == at(
        "2026-01-12 11:30"
    )


def test_ids_do_not_depend_on_the_time() -> None:
    """The same blocks have the same ids whenever the ledger is opened."""
    first = there(START_NS)[1]
    second = there(END_NS)[1]
    assert (first.id, first.reservation_id) == (second.id, second.reservation_id)
    assert replace(first, id="").offering.id == second.offering.id


@pytest.mark.parametrize("offering", ["cbo-1", "", "cbeo-0123456789abcdef0", "x" * 500])
def test_what_was_never_offered(offering: str) -> None:
    """An unknown offering is refused by its name, whatever it is to be bought as."""
    ledger = small()
    for call in (ledger.buy, ledger.extend):
        text = refused(Rule.OFFERING, lambda call=call: call(offering))  # type: ignore[misc]
        assert f"{offering!r} is not on offer" in text


def test_an_extension_is_no_block_and_a_block_no_extension() -> None:
    """An offering of a block does not extend one, and an extension's buys no block."""
    ledger = small()
    offering = ledger.offerings(SearchRequest(1, TRN2))[0]
    block = ledger.buy(offering.id)
    ledger.advance(NOW_NS + PAID_NS)
    longer = ledger.extension_offerings(block.id, 1)[0]
    refused(Rule.OFFERING, lambda: ledger.extend(offering.id))
    refused(Rule.OFFERING, lambda: ledger.buy(longer.id))


def test_old_offerings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of remembered offerings is limited; the oldest goes first."""
    monkeypatch.setattr(offers, "MOST_OFFERED", 6)
    ledger = small()
    first = ledger.offerings(SearchRequest(1, TRN2))
    ledger.buy(first[5].id)
    ledger.offerings(SearchRequest(7, ultraservers=1))
    refused(Rule.OFFERING, lambda: ledger.buy(first[4].id))


def test_an_offering_s_id_stands_for_its_price() -> None:
    """A search at the same price returns the same offering; after a revision another one."""
    revised = {"at": datetime(2026, 1, 5, 12, tzinfo=UTC), "prices": {TRN2: "40"}}
    ledger = ledger_of(pool_of((TRN2, "a", 4)), revisions=(revised,))
    search_request = SearchRequest(1, TRN2, starts_from_ns=at("2026-01-07 11:30"))
    cheap = ledger.offerings(search_request)[0]
    buy(ledger, SearchRequest(7, TRN2, 2))
    assert ledger.offerings(search_request)[0] == cheap
    ledger.advance(at("2026-01-05 12:00"))
    dear = ledger.offerings(search_request)[0]
    assert dear.fee.amount > cheap.fee.amount
    assert dear.id != cheap.id
    assert ledger.buy(dear.id).fee == dear.fee


LIFE = ["paid", "delivered", "expiration_warning", "interruption_warning", "terminating", "expired"]


def large() -> Ledger:
    return ledger_of(pool_of((TRN2, "a", 300), ultraservers=["a", "a"]))


def fill(ledger: Ledger, *counts: int, days: int = 1) -> list[Block]:
    """Buy blocks of these sizes that all start at the next end of a day."""
    first_ns = at("2026-01-05 11:30")
    return [
        buy(ledger, SearchRequest(days, TRN2, count, starts_from_ns=first_ns)) for count in counts
    ]


# 64 a block, 256 in all


def test_64_instances_are_a_block() -> None:
    """64 instances are offered where the pool has them; 65 are always refused."""
    assert large().offerings(SearchRequest(1, TRN2, 64))[0].instances == 64
    text = refused(Rule.BLOCK_SIZE, lambda: large().offerings(SearchRequest(1, TRN2, 65)))
    assert text.endswith("not 65; 64 would fit")


def test_256_instances_are_held_at_most() -> None:
    """256 instances can be bought for the same time.

    The 257th is refused, with the numbers.
    """
    ledger = large()
    fill(ledger, 64, 64, 64, 63)
    start_ns, end_ns = at("2026-01-05 11:30"), at("2026-01-06 11:30")
    two = SearchRequest(1, TRN2, 2, starts_from_ns=start_ns, ends_by_ns=end_ns)
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.offerings(two))
    assert "2 more instances beside 255 would be more than 256 at a time" in text
    assert text.endswith("1 instance from 2026-01-05 11:30 UTC on would fit")
    buy(ledger, two._replace(instances=1))
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.offerings(two._replace(instances=1)))
    assert "1 more instance beside 256" in text
    refused(
        Rule.ACCOUNT_SIZE,
        lambda: ledger.offerings(two._replace(instance_type=None, instances=None, ultraservers=1)),
    )


@pytest.mark.parametrize(("there", "is_refused"), [(252, False), (253, True)])
def test_an_ultraserver_counts_as_four(there: int, is_refused: bool) -> None:
    """An UltraServer needs room for all of its four instances, and no fewer are named."""
    ledger = large()
    fill(ledger, 64, 64, 64, there - 192)
    search_request = SearchRequest(
        1, ultraservers=1, starts_from_ns=at("2026-01-05 11:30"), ends_by_ns=at("2026-01-06 11:30")
    )
    if is_refused:
        text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.offerings(search_request))
        assert text.endswith("nor is less of it or a shorter time")
    else:
        assert ledger.offerings(search_request)


def test_blocks_at_other_times_do_not_add_up() -> None:
    """Blocks count by the instant.

    256 on one day and 256 on the next are possible.
    """
    ledger = large()
    fill(ledger, 64, 64, 64, 64)
    next_day = SearchRequest(1, TRN2, 64, starts_from_ns=at("2026-01-06 11:30"))
    for _ in range(4):
        assert buy(ledger, next_day).start_ns == at("2026-01-06 11:30")
    two_days = SearchRequest(2, TRN2, 1, ends_by_ns=at("2026-01-07 11:30"))
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.offerings(two_days))
    assert text.endswith("1 day from 2026-01-05 10:30 UTC on would fit")
    # Two blocks one after the other, and one beside both: what is held at one instant counts.
    other = large()
    fill(other, 64, 64, 64)
    for start in ("2026-01-05 11:30", "2026-01-06 11:30"):
        buy(other, SearchRequest(1, TRN2, 60, starts_from_ns=at(start)))
    assert other.offerings(
        SearchRequest(
            2, TRN2, 4, starts_from_ns=at("2026-01-05 11:30"), ends_by_ns=at("2026-01-07 11:30")
        )
    )


def test_what_was_offered_is_held_against_256_when_it_is_bought() -> None:
    """An offering is refused if others were bought meanwhile, with the possible number."""
    ledger = large()
    offering = ledger.offerings(SearchRequest(1, TRN2, 64, starts_from_ns=at("2026-01-05 11:30")))[
        0
    ]
    fill(ledger, 64, 64, 64, 60)
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.buy(offering.id))
    assert text.endswith(
        "64 more instances beside 252 would be more than 256 at a time; 4 instances would fit"
    )
    assert len(ledger.offerings(SearchRequest(1, TRN2, 4, starts_from_ns=offering.start_ns))) > 0


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_the_256th_instance_is_sold_and_the_257th_is_not(more: int, is_refused: bool) -> None:
    """Offerings are sold up to 256 instances in all, and not for one more."""
    ledger = large()
    offering = ledger.offerings(SearchRequest(1, TRN2, 64, starts_from_ns=at("2026-01-05 11:30")))[
        0
    ]
    fill(ledger, 64, 64, 64, *[1] * more)
    if is_refused:
        refused(Rule.ACCOUNT_SIZE, lambda: ledger.buy(offering.id))
    else:
        assert ledger.buy(offering.id).offering == offering


def test_an_extension_is_held_against_256_when_it_is_offered_and_bought() -> None:
    """An extension over 256 instances in all is refused, even with room at the search."""
    ledger = ledger_of(pool_of((TRN1, "a", 64), (TRN2, "a", 200)))
    block = buy(ledger, SearchRequest(1, TRN1, 64, starts_from_ns=at("2026-01-05 11:30")))
    ledger.advance(NOW_NS + PAID_NS)
    offering = ledger.extension_offerings(block.id, 3)[0]
    for start, counts in (("2026-01-06 11:30", (64, 64, 64)), ("2026-01-08 11:30", (1,))):
        for count in counts:
            buy(ledger, SearchRequest(3, TRN2, count, starts_from_ns=at(start)))
    said = "64 more instances beside 193 would be more than 256 at a time"
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.extend(offering.id))
    assert text.endswith(f"{said} by now; look for extensions again")
    text = refused(Rule.ACCOUNT_SIZE, lambda: ledger.extension_offerings(block.id, 3))
    assert text.endswith(f"{said}; 2 more days would fit")
    longer = ledger.extension_offerings(block.id, 2)[0]
    assert ledger.extend(longer.id).held_until_ns == at("2026-01-08 11:30")


# Buying


def test_what_is_bought_awaits_its_payment() -> None:
    """A purchase creates a block at once and reserves its instances during the payment."""
    ledger = small()
    offering = ledger.offerings(SearchRequest(1, ultraservers=1))[0]
    block = ledger.buy(offering.id)
    assert (block.state, block.fee, block.offering) == (
        BlockState.PAYMENT_PENDING,
        offering.fee,
        offering,
    )
    assert (block.created_ns, block.changed_ns, block.changes) == (NOW_NS, NOW_NS, 1)
    assert block.offering.ultraserver_type == "u-trn2x64"
    assert block.places == (0, 1, 2, 3)
    assert block.id.startswith("cb-0")
    assert len(block.id) == len("cb-") + 17
    assert block.id != block.reservation_id.replace("cr-", "cb-")
    assert list(ledger.blocks) == [block.id]
    assert ledger.changes[-1].made == block


def test_blocks_cannot_be_cancelled() -> None:
    """A cancellation is refused with the block's end.

    For an unknown block with the nearest one.
    """
    ledger = small()
    block = buy(ledger, SearchRequest(1, TRN2))
    text = refused(Rule.NOT_CANCELLABLE, lambda: ledger.cancel(block.id))
    assert f"{block.id} is paid up front, and lasts until 2026-01-05 11:30 UTC" in text
    text = refused(Rule.NO_SUCH_BLOCK, lambda: ledger.cancel(block.id[:-1]))
    assert f"did you mean '{block.id}'?" in text


def test_a_refusal_names_some_blocks() -> None:
    """An unknown block is refused with the blocks to choose from."""
    ledger = ledger_of(pool_of((TRN2, "a", 3)))
    for number in range(3):
        text = refused(Rule.NO_SUCH_BLOCK, lambda: ledger.cancel("nothing"))
        assert all(block_id in text for block_id in ledger.blocks)
        assert text.endswith("there are none") is (number == 0)
        buy(ledger, SearchRequest(1, TRN2))


def test_time_does_not_run_backwards() -> None:
    """A ledger may stay at an instant, and refuses to go back."""
    ledger = small()
    assert ledger.advance(NOW_NS) == []
    with pytest.raises(ValueError, match="is before that"):
        ledger.advance(NOW_NS - 1)
    assert ledger.now_ns == NOW_NS


# Health


def begun(search_request: SearchRequest) -> tuple[Ledger, str]:
    ledger = small()
    block = buy(ledger, search_request)
    ledger.advance(block.start_ns)
    return ledger, block.id


def test_health_is_a_change_when_it_differs() -> None:
    """Unavailable instances and impaired links are changes when they come, differ and go."""
    ledger, block_id = begun(SearchRequest(1, ultraservers=1))

    def report(unavailable: int, *, impaired: bool) -> list[str]:
        return [
            change.kind.value
            for change, _ in ledger.report_health(block_id, unavailable, impaired=impaired)
        ]

    assert report(0, impaired=False) == []
    assert report(3, impaired=True) == ["instances_unavailable", "interconnect_impaired"]
    assert report(3, impaired=True) == []
    assert ledger.blocks[block_id].state is BlockState.ACTIVE
    assert report(4, impaired=True) == ["instances_unavailable"]
    assert ledger.blocks[block_id].state is BlockState.UNAVAILABLE
    assert report(1, impaired=False) == ["instances_unavailable", "interconnect_ok"]
    block = ledger.blocks[block_id]
    assert (block.state, block.unavailable, block.interconnect) == (
        BlockState.ACTIVE,
        1,
        InterconnectStatus.OK,
    )
    assert report(0, impaired=False) == ["instances_available"]


def test_instances_that_stand_alone_have_no_links_to_lose() -> None:
    """A block without an UltraServer is never impaired; without its instance it is unavailable."""
    ledger, block_id = begun(SearchRequest(1, TRN2))
    assert ledger.report_health(block_id, 0, impaired=True) == []
    ledger.report_health(block_id, 1, impaired=True)
    block = ledger.blocks[block_id]
    assert (block.state, block.interconnect) == (BlockState.UNAVAILABLE, None)


@pytest.mark.parametrize("unavailable", [-1, 5])
def test_health_of_what_is_not_there(unavailable: int) -> None:
    """More unavailable instances than a block has, or a negative number, is an error."""
    ledger, block_id = begun(SearchRequest(1, ultraservers=1))
    with pytest.raises(ValueError, match=f"has 4 instances; {unavailable} cannot be"):
        ledger.report_health(block_id, unavailable, impaired=False)


def test_an_unavailable_block_ends_as_others_do() -> None:
    """An unavailable block is warned, terminated and expired in time.

    Nothing is unavailable after it.
    """
    ledger, block_id = begun(SearchRequest(1, ultraservers=1))
    ledger.report_health(block_id, 4, impaired=True)
    end_ns = ledger.blocks[block_id].end_ns
    assert [change.kind.value for change, _ in ledger.advance(end_ns)] == LIFE[2:]
    block = ledger.blocks[block_id]
    assert (block.state, block.unavailable, block.interconnect) == (BlockState.EXPIRED, 0, None)
    assert ledger.report_health(block_id, 4, impaired=True) == []


def test_a_block_that_has_not_begun_has_no_health() -> None:
    """Reports before the delivery change nothing."""
    ledger = small()
    block = buy(ledger, SearchRequest(1, ultraservers=1))
    assert ledger.report_health(block.id, 4, impaired=True) == []
    ledger.advance(NOW_NS + PAID_NS)
    assert ledger.report_health(block.id, 4, impaired=True) == []
    assert ledger.blocks[block.id].state is BlockState.SCHEDULED


def test_ids_follow_from_the_seed() -> None:
    """The same purchases with the same seed give the same ids, with another seed others."""

    def ids(seed: int) -> list[str]:
        ledger = ledger_of(pool_of((TRN2, "a", 3)), seed=seed)
        return [buy(ledger, SearchRequest(1, TRN2)).id for _ in range(3)]

    assert ids(1) == ids(1)
    assert not set(ids(1)) & set(ids(2))
    assert len(set(ids(1))) == 3
