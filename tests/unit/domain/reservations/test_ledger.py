from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.sim.capacity_account import (
    MINUTE_NS,
    NOW_NS,
    PAID_NS,
    TRN1,
    TRN2,
    at,
    buy,
    ledger_of,
    pool_of,
    refused,
    small,
)

from trnfleet.domain.reservations import ledger as ledgers
from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search_request import SearchRequest
from trnfleet.domain.reservations.states import BlockState, InterconnectStatus
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.ledger import Ledger

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
    rule, text = refused(lambda: large().offerings(SearchRequest(1, TRN2, 65)))
    assert rule is Rule.BLOCK_SIZE
    assert text.endswith("not 65; 64 would fit")


def test_256_instances_are_held_at_most() -> None:
    """256 instances can be bought for the same time.

    The 257th is refused, with the numbers.
    """
    ledger = large()
    fill(ledger, 64, 64, 64, 63)
    start_ns, end_ns = at("2026-01-05 11:30"), at("2026-01-06 11:30")
    two = SearchRequest(1, TRN2, 2, starts_from_ns=start_ns, ends_by_ns=end_ns)
    rule, text = refused(lambda: ledger.offerings(two))
    assert rule is Rule.ACCOUNT_SIZE
    assert "2 more instances beside 255 would be more than 256 at a time" in text
    assert text.endswith("1 instance from 2026-01-05 11:30 UTC on would fit")
    buy(ledger, two._replace(instances=1))
    rule, text = refused(lambda: ledger.offerings(two._replace(instances=1)))
    assert rule is Rule.ACCOUNT_SIZE
    assert "1 more instance beside 256" in text
    rule, _ = refused(
        lambda: ledger.offerings(two._replace(instance_type=None, instances=None, ultraservers=1))
    )
    assert rule is Rule.ACCOUNT_SIZE


@pytest.mark.parametrize(("there", "is_refused"), [(252, False), (253, True)])
def test_an_ultraserver_counts_as_four(there: int, is_refused: bool) -> None:
    """An UltraServer needs room for all of its four instances, and no fewer are named."""
    ledger = large()
    fill(ledger, 64, 64, 64, there - 192)
    search_request = SearchRequest(
        1, ultraservers=1, starts_from_ns=at("2026-01-05 11:30"), ends_by_ns=at("2026-01-06 11:30")
    )
    if is_refused:
        rule, text = refused(lambda: ledger.offerings(search_request))
        assert rule is Rule.ACCOUNT_SIZE
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
    rule, text = refused(lambda: ledger.offerings(two_days))
    assert rule is Rule.ACCOUNT_SIZE
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
    rule, text = refused(lambda: ledger.buy(offering.id))
    assert rule is Rule.ACCOUNT_SIZE
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
        assert refused(lambda: ledger.buy(offering.id))[0] is Rule.ACCOUNT_SIZE
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
    rule, text = refused(lambda: ledger.extend(offering.id))
    assert rule is Rule.ACCOUNT_SIZE
    assert text.endswith(f"{said} by now; look for extensions again")
    rule, text = refused(lambda: ledger.extension_offerings(block.id, 3))
    assert rule is Rule.ACCOUNT_SIZE
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


@pytest.mark.parametrize(("off_ns", "is_refused"), [(-1, False), (0, False), (1, True)])
def test_what_is_bought_starts_30_minutes_ahead(off_ns: int, is_refused: bool) -> None:
    """An offering is refused once its start is less than 30 minutes ahead."""
    ledger = small()
    offering = ledger.offerings(SearchRequest(2, TRN2, starts_from_ns=NOW_NS + 40 * MINUTE_NS))[0]
    ledger.advance(NOW_NS + 10 * MINUTE_NS + off_ns)
    if is_refused:
        rule, text = refused(lambda: ledger.buy(offering.id))
        assert rule is Rule.STARTS_TOO_SOON
        assert (
            "starts at 2026-01-05 10:40 UTC, and the earliest start is 2026-01-05 10:41 UTC by now"
            in text
        )
    else:
        assert ledger.buy(offering.id).start_ns == NOW_NS + 40 * MINUTE_NS


def test_what_is_sold_meanwhile() -> None:
    """The same instances are not sold twice; the refusal advises to search again."""
    ledger = small()
    search_request = SearchRequest(1, ultraservers=1)
    ours, theirs = (
        ledger.offerings(search_request)[0],
        ledger.offerings(search_request._replace(days=7))[0],
    )
    ledger.buy(theirs.id)
    rule, text = refused(lambda: ledger.buy(ours.id))
    assert rule is Rule.CAPACITY
    assert "has been sold meanwhile; look for offerings again" in text


def test_a_ledger_s_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is full sells nothing."""
    monkeypatch.setattr(ledgers, "MOST_BLOCKS", 1)
    ledger = small()
    buy(ledger, SearchRequest(1, TRN2))
    with pytest.raises(ConfigError, match="the ledger has 1 blocks already"):
        buy(ledger, SearchRequest(1, TRN2))


def test_blocks_cannot_be_cancelled() -> None:
    """A cancellation is refused with the block's end.

    For an unknown block with the nearest one.
    """
    ledger = small()
    block = buy(ledger, SearchRequest(1, TRN2))
    rule, text = refused(lambda: ledger.cancel(block.id))
    assert rule is Rule.NOT_CANCELLABLE
    assert f"{block.id} is paid up front, and lasts until 2026-01-05 11:30 UTC" in text
    rule, text = refused(lambda: ledger.cancel(block.id[:-1]))
    assert rule is Rule.NO_SUCH_BLOCK
    assert f"did you mean '{block.id}'?" in text


def test_a_refusal_names_a_dozen_blocks_at_most() -> None:
    """An unknown block is refused with the nearest, or with the number of blocks."""
    ledger = ledger_of(pool_of((TRN2, "a", 13)))
    for number in range(13):
        rule, text = refused(lambda: ledger.cancel("nothing"))
        assert rule is Rule.NO_SUCH_BLOCK
        assert all(block_id in text for block_id in ledger.blocks)
        assert text.endswith("there is none to choose from") is (number == 0)
        buy(ledger, SearchRequest(1, TRN2))
    assert refused(lambda: ledger.cancel("nothing"))[1].endswith(
        "no block 'nothing': there are 13; list them first"
    )


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
