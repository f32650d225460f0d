from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    SECOND_NS,
    TRN1,
    TRN2,
    TRN2U,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
)

from trnfleet.domain.reservations import ledger as ledgers
from trnfleet.domain.reservations.asking import Asked
from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.reservations.rules import Refusal, Rule, utc
from trnfleet.domain.reservations.states import BlockState, InterconnectStatus
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.ledger import Ledger

PAID_NS = 300 * SECOND_NS
LIFE = ["paid", "delivered", "expiration_warning", "terminating", "expired"]


def refused(call: Callable[[], object]) -> tuple[Rule, str]:
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.rule, str(caught.value)


def small(**market: Any) -> Ledger:
    return ledger_of(pool_of((TRN2, "a", 2), (TRN2, "b", 1), ultraservers=["a"]), **market)


def large() -> Ledger:
    return ledger_of(pool_of((TRN2, "a", 300), ultraservers=["a", "a"]))


def fill(ledger: Ledger, *counts: int, days: int = 1) -> list[Block]:
    """Buy blocks of so many instances that all start at the next end of a day."""
    first_ns = at("2026-01-05 11:30")
    return [buy(ledger, Asked(days, TRN2, count, starts_from_ns=first_ns)) for count in counts]


# What is offered


def test_offerings_come_earliest_first_and_six_at_most() -> None:
    """Six offerings are returned where there are more: the soonest start, then each end of a day, zone by zone."""
    got = [(each.start_ns, each.zone) for each in small().offerings(Asked(1, TRN2))]
    starts = [at("2026-01-05 10:30"), at("2026-01-05 11:30"), at("2026-01-06 11:30")]
    assert got == [(start, zone) for start in starts for zone in "ab"]


def test_offerings_end_at_half_past_eleven() -> None:
    """An offering that starts at once has a partial first day, and all end at 11:30 UTC."""
    first, *others = small().offerings(Asked(2, TRN2, zone="a"))
    assert first.end_ns - first.start_ns == 25 * HOUR_NS
    assert {each.end_ns - each.start_ns for each in others} == {2 * DAY_NS}


def test_what_is_held_is_not_offered() -> None:
    """A block that begins when another ends is offered, and none that would overlap it by any time."""
    ledger = small()
    held = buy(ledger, Asked(3, TRN2, 2, starts_from_ns=at("2026-01-07 11:30")))
    spans = [(each.start_ns, each.end_ns) for each in ledger.offerings(Asked(2, TRN2, 2))]
    assert [pair for pair in spans if pair[0] < held.end_ns] == [
        (at("2026-01-05 10:30"), at("2026-01-06 11:30")),
        (at("2026-01-05 11:30"), held.start_ns),
    ]
    assert spans[2][0] == held.end_ns


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            Asked(4, TRN2, 2, ends_by_ns=at("2026-01-10 11:30")),
            "; 3 days from 2026-01-05 10:30 UTC on would fit",
        ),
        (
            Asked(1, TRN2, 3, ends_by_ns=at("2026-01-09 11:30")),
            "; 2 instances from 2026-01-05 10:30 UTC on would fit",
        ),
        (Asked(1, TRN2, 64), "; 2 instances from 2026-01-05 10:30 UTC on would fit"),
        (
            Asked(14, TRN2, 2, ends_by_ns=at("2026-02-04 11:30")),
            "; 3 days from 2026-01-05 10:30 UTC on would fit",
        ),
        (Asked(1, TRN1, 2), "; 1 instances from 2026-01-05 10:30 UTC on would fit"),
    ],
)
def test_the_nearest_that_fits_is_named(asked: Asked, told: str) -> None:
    """Where nothing is free, the longest shorter time is named, or where there is none the most instances."""
    ledger = ledger_of(pool_of((TRN2, "a", 2), (TRN2, "b", 1), (TRN1, "b", 1)))
    enter(ledger, TRN2, (0, 1), "2026-01-07 11:30", "2026-02-04 11:30")
    rule, text = refused(lambda: ledger.offerings(asked))
    assert rule is Rule.CAPACITY
    assert text.endswith(told)


def test_an_ultraserver_has_no_part() -> None:
    """Where no UltraServer is free a shorter time is named, and never fewer instances."""
    ledger = small()
    enter(ledger, TRN2U, (0, 1, 2, 3), "2026-01-01 11:30", "2026-02-26 11:30")
    buy(ledger, Asked(1, ultraservers=1, starts_from_ns=at("2026-02-28 11:30")))
    rule, text = refused(
        lambda: ledger.offerings(Asked(7, ultraservers=1, ends_by_ns=at("2026-03-04 11:30")))
    )
    assert rule is Rule.CAPACITY
    assert text.endswith(
        "an UltraServer is not free for 7 days; 3 days from 2026-03-01 11:30 UTC on would fit"
    )
    rule, text = refused(
        lambda: ledger.offerings(Asked(1, ultraservers=1, ends_by_ns=at("2026-02-26 11:30")))
    )
    assert text.endswith("nor is less of it or a shorter time")


def test_no_partial_day_is_named_that_is_too_short() -> None:
    """45 minutes before the end of the day are not named as the day that is left: nobody could buy them."""
    ledger = ledger_of(pool_of((TRN2, "a", 1)), at("2026-01-05 10:15"))
    buy(ledger, Asked(7, TRN2, starts_from_ns=at("2026-01-05 11:30")))
    rule, text = refused(lambda: ledger.offerings(Asked(2, TRN2, ends_by_ns=at("2026-01-12 11:30"))))
    assert rule is Rule.CAPACITY
    assert text.endswith("1 x trn2.48xlarge is not free for 2 days, nor is less of it or a shorter time")


# 64 a block, 256 in all


def test_64_instances_are_a_block() -> None:
    """64 instances are offered where there are so many; 65 are refused whatever there is."""
    assert large().offerings(Asked(1, TRN2, 64))[0].instances == 64
    rule, text = refused(lambda: large().offerings(Asked(1, TRN2, 65)))
    assert rule is Rule.BLOCK_SIZE
    assert text.endswith("not 65; 64 would fit")


def test_256_instances_are_held_at_most() -> None:
    """256 instances can be bought for the same time; the 257th is refused, with the numbers."""
    ledger = large()
    fill(ledger, 64, 64, 64, 63)
    start_ns, end_ns = at("2026-01-05 11:30"), at("2026-01-06 11:30")
    two = Asked(1, TRN2, 2, starts_from_ns=start_ns, ends_by_ns=end_ns)
    rule, text = refused(lambda: ledger.offerings(two))
    assert rule is Rule.ACCOUNT_SIZE
    assert "2 more instances beside 255 would be more than 256 at a time" in text
    assert text.endswith("1 instances from 2026-01-05 11:30 UTC on would fit")
    buy(ledger, two._replace(instances=1))
    rule, text = refused(lambda: ledger.offerings(two._replace(instances=1)))
    assert rule is Rule.ACCOUNT_SIZE
    assert "1 more instances beside 256" in text
    rule, _ = refused(
        lambda: ledger.offerings(two._replace(instance_type=None, instances=None, ultraservers=1))
    )
    assert rule is Rule.ACCOUNT_SIZE


@pytest.mark.parametrize(("there", "is_refused"), [(252, False), (253, True)])
def test_an_ultraserver_counts_as_four(there: int, is_refused: bool) -> None:
    """An UltraServer needs room for all of its four instances, and no fewer are named."""
    ledger = large()
    fill(ledger, 64, 64, 64, there - 192)
    asked = Asked(1, ultraservers=1, starts_from_ns=at("2026-01-05 11:30"), ends_by_ns=at("2026-01-06 11:30"))
    if is_refused:
        rule, text = refused(lambda: ledger.offerings(asked))
        assert rule is Rule.ACCOUNT_SIZE
        assert text.endswith("nor is less of it or a shorter time")
    else:
        assert ledger.offerings(asked)


def test_blocks_at_other_times_do_not_add_up() -> None:
    """Blocks that follow each other are counted by the instant: 256 on one day and 256 on the next are possible."""
    ledger = large()
    fill(ledger, 64, 64, 64, 64)
    next_day = Asked(1, TRN2, 64, starts_from_ns=at("2026-01-06 11:30"))
    for _ in range(4):
        assert buy(ledger, next_day).start_ns == at("2026-01-06 11:30")
    two_days = Asked(2, TRN2, 1, ends_by_ns=at("2026-01-07 11:30"))
    rule, text = refused(lambda: ledger.offerings(two_days))
    assert rule is Rule.ACCOUNT_SIZE
    assert text.endswith("1 days from 2026-01-05 10:30 UTC on would fit")
    # Two blocks one after the other, and one beside both: what is held at one instant counts.
    other = large()
    fill(other, 64, 64, 64)
    for start in ("2026-01-05 11:30", "2026-01-06 11:30"):
        buy(other, Asked(1, TRN2, 60, starts_from_ns=at(start)))
    assert other.offerings(
        Asked(2, TRN2, 4, starts_from_ns=at("2026-01-05 11:30"), ends_by_ns=at("2026-01-07 11:30"))
    )


def test_what_was_offered_is_held_against_256_when_it_is_bought() -> None:
    """An offering is refused when others were bought meanwhile, with the number that is still possible."""
    ledger = large()
    offering = ledger.offerings(Asked(1, TRN2, 64, starts_from_ns=at("2026-01-05 11:30")))[0]
    fill(ledger, 64, 64, 64, 60)
    rule, text = refused(lambda: ledger.buy(offering.id))
    assert rule is Rule.ACCOUNT_SIZE
    assert text.endswith(
        "64 more instances beside 252 would be more than 256 at a time; 4 instances would fit"
    )
    assert len(ledger.offerings(Asked(1, TRN2, 4, starts_from_ns=offering.start_ns))) > 0


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_the_256th_instance_is_sold_and_the_257th_is_not(more: int, is_refused: bool) -> None:
    """What was offered is bought up to 256 instances in all, and not for one more."""
    ledger = large()
    offering = ledger.offerings(Asked(1, TRN2, 64, starts_from_ns=at("2026-01-05 11:30")))[0]
    fill(ledger, 64, 64, 64, *[1] * more)
    if is_refused:
        assert refused(lambda: ledger.buy(offering.id))[0] is Rule.ACCOUNT_SIZE
    else:
        assert ledger.buy(offering.id).offering == offering


def test_an_extension_is_held_against_256_when_it_is_offered_and_bought() -> None:
    """A block is not extended over 256 instances in all, also where there was room when it was looked for."""
    ledger = ledger_of(pool_of((TRN1, "a", 64), (TRN2, "a", 200)))
    block = buy(ledger, Asked(1, TRN1, 64, starts_from_ns=at("2026-01-05 11:30")))
    ledger.advance(NOW_NS + PAID_NS)
    offering = ledger.extension_offerings(block.id, 3)[0]
    for start, counts in (("2026-01-06 11:30", (64, 64, 64)), ("2026-01-08 11:30", (1,))):
        for count in counts:
            buy(ledger, Asked(3, TRN2, count, starts_from_ns=at(start)))
    told = "64 more instances beside 193 would be more than 256 at a time"
    rule, text = refused(lambda: ledger.extend(offering.id))
    assert rule is Rule.ACCOUNT_SIZE
    assert text.endswith(f"{told} by now; look for extensions again")
    rule, text = refused(lambda: ledger.extension_offerings(block.id, 3))
    assert rule is Rule.ACCOUNT_SIZE
    assert text.endswith(f"{told}; 2 more days would fit")
    longer = ledger.extension_offerings(block.id, 2)[0]
    assert ledger.extend(longer.id).held_until_ns == at("2026-01-08 11:30")


# Buying


def test_what_is_bought_awaits_its_payment() -> None:
    """A purchase makes a block at once, which holds its instances while its payment is pending."""
    ledger = small()
    offering = ledger.offerings(Asked(1, ultraservers=1))[0]
    block = ledger.buy(offering.id)
    assert (block.state, block.fee, block.offering) == (BlockState.PAYMENT_PENDING, offering.fee, offering)
    assert (block.created_ns, block.changed_ns, block.changes) == (NOW_NS, NOW_NS, 1)
    assert block.offering.ultraserver_type == "u-trn2x64"
    assert block.places == (0, 1, 2, 3)
    assert block.id.startswith("cb-0")
    assert len(block.id) == len("cb-") + 17
    assert block.id != block.reservation_id.replace("cr-", "cb-")
    assert list(ledger.blocks) == [block.id]
    assert ledger.changes[-1].made == block


@pytest.mark.parametrize(("off_ns", "is_refused"), [(-1, False), (0, True), (1, True)])
def test_an_offering_lasts_a_day(off_ns: int, is_refused: bool) -> None:
    """An offering can be bought for less than a day after it was looked for."""
    ledger = small()
    offering = ledger.offerings(Asked(1, TRN2, starts_from_ns=at("2026-01-07 11:30")))[0]
    ledger.advance(NOW_NS + DAY_NS + off_ns)
    if is_refused:
        rule, text = refused(lambda: ledger.buy(offering.id))
        assert rule is Rule.OFFERING
        assert "was on offer until 2026-01-06 10:00 UTC; look again" in text
    else:
        assert ledger.buy(offering.id).created_ns == NOW_NS + DAY_NS + off_ns


@pytest.mark.parametrize(("off_ns", "is_refused"), [(-1, False), (0, False), (1, True)])
def test_what_is_bought_starts_30_minutes_ahead(off_ns: int, is_refused: bool) -> None:
    """An offering that was looked for in time is refused once its start is less than 30 minutes ahead."""
    ledger = small()
    offering = ledger.offerings(Asked(2, TRN2, starts_from_ns=NOW_NS + 40 * MINUTE_NS))[0]
    ledger.advance(NOW_NS + 10 * MINUTE_NS + off_ns)
    if is_refused:
        rule, text = refused(lambda: ledger.buy(offering.id))
        assert rule is Rule.STARTS_TOO_SOON
        assert "starts at 2026-01-05 10:40 UTC, and the earliest start is 2026-01-05 10:41 UTC by now" in text
    else:
        assert ledger.buy(offering.id).start_ns == NOW_NS + 40 * MINUTE_NS


def test_what_is_sold_meanwhile() -> None:
    """The same instances are not sold twice: the second who buys is told to look again."""
    ledger = small()
    asked = Asked(1, ultraservers=1)
    ours, theirs = ledger.offerings(asked)[0], ledger.offerings(asked._replace(days=7))[0]
    ledger.buy(theirs.id)
    rule, text = refused(lambda: ledger.buy(ours.id))
    assert rule is Rule.CAPACITY
    assert "has been sold meanwhile; look for offerings again" in text


@pytest.mark.parametrize("offering", ["cbo-1", "", "cbeo-0123456789abcdef0", "x" * 500])
def test_what_was_never_offered(offering: str) -> None:
    """An unknown offering is refused by its name, whatever it is to be bought as."""
    ledger = small()
    for call in (ledger.buy, ledger.extend):
        rule, text = refused(lambda call=call: call(offering))  # type: ignore[misc]
        assert rule is Rule.OFFERING
        assert f"{offering!r} is not on offer" in text


def test_an_extension_is_no_block_and_a_block_no_extension() -> None:
    """An offering of a block does not extend one, and an extension's buys no block."""
    ledger = small()
    offering = ledger.offerings(Asked(1, TRN2))[0]
    block = ledger.buy(offering.id)
    ledger.advance(NOW_NS + PAID_NS)
    longer = ledger.extension_offerings(block.id, 1)[0]
    assert refused(lambda: ledger.extend(offering.id))[0] is Rule.OFFERING
    assert refused(lambda: ledger.buy(longer.id))[0] is Rule.OFFERING


def test_old_offerings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many offerings are remembered and no more; the oldest goes first."""
    monkeypatch.setattr(ledgers, "MOST_OFFERED", 6)
    ledger = small()
    first = ledger.offerings(Asked(1, TRN2))
    ledger.buy(first[5].id)
    ledger.offerings(Asked(7, ultraservers=1))
    assert refused(lambda: ledger.buy(first[4].id))[0] is Rule.OFFERING


def test_a_ledger_has_room_for_so_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that is full sells nothing."""
    monkeypatch.setattr(ledgers, "MOST_BLOCKS", 1)
    ledger = small()
    buy(ledger, Asked(1, TRN2))
    with pytest.raises(ConfigError, match="the ledger has 1 blocks already"):
        buy(ledger, Asked(1, TRN2))


def test_blocks_cannot_be_cancelled() -> None:
    """To cancel is refused with the end until which it lasts; of an unknown block, with the one that is meant."""
    ledger = small()
    block = buy(ledger, Asked(1, TRN2))
    rule, text = refused(lambda: ledger.cancel(block.id))
    assert rule is Rule.NOT_CANCELLABLE
    assert f"{block.id} is paid up front, and lasts until 2026-01-05 11:30 UTC" in text
    rule, text = refused(lambda: ledger.cancel(block.id[:-1]))
    assert rule is Rule.NO_SUCH_BLOCK
    assert f"did you mean '{block.id}'?" in text


def test_a_refusal_names_a_dozen_blocks_at_most() -> None:
    """An unknown block is told from those that there are, or how many there are where a line has no room for them."""
    ledger = ledger_of(pool_of((TRN2, "a", 13)))
    for number in range(13):
        rule, text = refused(lambda: ledger.cancel("nothing"))
        assert rule is Rule.NO_SUCH_BLOCK
        assert all(block_id in text for block_id in ledger.blocks)
        assert text.endswith("there is none to choose from") is (number == 0)
        buy(ledger, Asked(1, TRN2))
    assert refused(lambda: ledger.cancel("nothing"))[1].endswith(
        "no block 'nothing': there are 13; list them first"
    )


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
def test_a_payment_arrives_within_its_window_or_not_at_all(window_s: float, state: str, at_ns: int) -> None:
    """A payment that arrives before the window closes counts; one at its end, or after, has failed by then."""
    ledger = small(payment_window_s=window_s)
    block = buy(ledger, Asked(1, TRN2))
    assert ledger.next_change_ns() == NOW_NS + at_ns
    if at_ns:
        assert ledger.advance(NOW_NS + at_ns - 1) == []
        assert ledger.blocks[block.id].state is BlockState.PAYMENT_PENDING
    ((change, after),) = ledger.advance(NOW_NS + at_ns)
    assert (after.state, after.changed_ns, change.time_ns) == (state, NOW_NS + at_ns, NOW_NS + at_ns)


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
    """A block is paid within 12 hours, and before it starts; then it has failed, and what it held is free again."""
    ledger = small(failing_payments=1.0)
    block = buy(ledger, Asked(2, ultraservers=1, starts_from_ns=NOW_NS + from_ns))
    assert block.pay_by_ns == NOW_NS + pay_by_ns
    assert ledger.next_change_ns() == block.pay_by_ns
    assert ledger.advance(block.pay_by_ns - 1) == []
    ((change, after),) = ledger.advance(block.pay_by_ns)
    assert (change.kind, after.state) == (ChangeKind.PAYMENT_FAILED, BlockState.PAYMENT_FAILED)
    assert ledger.next_change_ns() is None
    assert ledger.offerings(Asked(2, ultraservers=1))[0].start_ns == ledger.now_ns + 30 * MINUTE_NS


def test_some_payments_fail_and_the_seed_says_which() -> None:
    """A share of payments fails, the same ones whenever the seed is the same."""

    def failed(seed: int) -> list[bool]:
        ledger = ledger_of(pool_of((TRN2, "a", 200)), seed=seed, failing_payments=0.5)
        for _ in range(100):
            buy(ledger, Asked(1, TRN2, starts_from_ns=at("2026-01-08 11:30")))
        ledger.advance(NOW_NS + DAY_NS)
        return [block.state is BlockState.PAYMENT_FAILED for block in ledger.blocks.values()]

    assert failed(1) == failed(1)
    assert failed(1) != failed(2)
    assert 30 < sum(failed(1)) < 70


# A life


@pytest.mark.parametrize(
    ("asked", "market", "warned_ns", "terminated_ns"),
    [
        (Asked(1, TRN2), {}, 40 * MINUTE_NS, 30 * MINUTE_NS),
        (Asked(1, ultraservers=1), {}, 40 * MINUTE_NS, 30 * MINUTE_NS),
        (
            Asked(1, ultraservers=1),
            {"ultraserver_termination_before_end_s": 3_600.0},
            40 * MINUTE_NS,
            60 * MINUTE_NS,
        ),
        (Asked(1, TRN2), {"ultraserver_termination_before_end_s": 3_600.0}, 40 * MINUTE_NS, 30 * MINUTE_NS),
        (Asked(1, TRN2), {"termination_before_end_s": 0.0}, 40 * MINUTE_NS, 0),
        (Asked(1, TRN2), {"warning_before_end_s": 1_800.0}, 30 * MINUTE_NS, 30 * MINUTE_NS),
        (Asked(1, TRN2), {"warning_before_end_s": 0.0, "termination_before_end_s": 0.0}, 0, 0),
        (Asked(1, TRN2), {"warning_before_end_s": 0.5}, SECOND_NS // 2, 30 * MINUTE_NS),
    ],
)
def test_a_block_s_life(asked: Asked, market: dict[str, Any], warned_ns: int, terminated_ns: int) -> None:
    """Each change comes at its instant and not a nanosecond before, warning and termination as long before the end as set."""
    ledger = small(**market)
    block = buy(ledger, asked._replace(starts_from_ns=at("2026-01-06 11:30")))
    assert ledger.terminates_ns(block) == block.end_ns - terminated_ns
    expected = [
        (NOW_NS + PAID_NS, "paid"),
        (block.start_ns, "delivered"),
        *sorted(
            [(block.end_ns - warned_ns, "expiration_warning"), (block.end_ns - terminated_ns, "terminating")],
            key=lambda pair: pair[0],
        ),
        (block.end_ns, "expired"),
    ]
    got = []
    for when_ns in sorted({pair[0] for pair in expected}):
        assert ledger.next_change_ns() == when_ns
        assert ledger.advance(when_ns - 1) == []
        got += [(change.time_ns, change.kind.value) for change, _ in ledger.advance(when_ns)]
    assert got == expected
    assert ledger.next_change_ns() is None
    assert ledger.blocks[block.id].changes == 6


def test_states_change_at_start_and_end() -> None:
    """A block is active from its start on, and expired from its end on."""
    ledger = small()
    block = buy(ledger, Asked(1, TRN2, starts_from_ns=at("2026-01-06 11:30")))
    states = []
    for when_ns in (block.start_ns - 1, block.start_ns, block.end_ns - 1, block.end_ns):
        ledger.advance(when_ns)
        states.append(ledger.blocks[block.id].state.value)
    assert states == ["scheduled", "active", "active", "expired"]


def test_a_warning_longer_than_the_block_comes_with_its_delivery() -> None:
    """Where warning is due before the block begins, it comes right after the delivery, and time is not turned back."""
    ledger = small(warning_before_end_s=86_400.0, termination_before_end_s=7_200.0)
    block = buy(ledger, Asked(1, TRN2))
    assert block.end_ns - block.start_ns == HOUR_NS
    got = [(change.kind.value, change.time_ns) for change, _ in ledger.advance(block.start_ns)]
    assert got == [
        ("paid", NOW_NS + PAID_NS),
        ("delivered", block.start_ns),
        ("expiration_warning", block.start_ns),
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
    """At the instant at which one block follows another on its instances, the end of the first comes first."""
    ledger = small()
    follower = buy(ledger, Asked(1, ultraservers=1, starts_from_ns=at("2026-01-07 11:30")))
    first = buy(
        ledger, Asked(2, ultraservers=1, ends_by_ns=follower.start_ns, starts_from_ns=at("2026-01-05 11:30"))
    )
    got = [(change.block_id, change.kind.value) for change, _ in ledger.advance(follower.start_ns)]
    assert got[-2:] == [(first.id, "expired"), (follower.id, "delivered")]


def test_time_does_not_run_backwards() -> None:
    """A ledger stands still where it is told so, and refuses to go back."""
    ledger = small()
    assert ledger.advance(NOW_NS) == []
    with pytest.raises(ValueError, match="is before that"):
        ledger.advance(NOW_NS - 1)
    assert ledger.now_ns == NOW_NS


# Health


def begun(asked: Asked) -> tuple[Ledger, str]:
    ledger = small()
    block = buy(ledger, asked)
    ledger.advance(block.start_ns)
    return ledger, block.id


def test_health_is_told_when_it_changes() -> None:
    """Unavailable instances and impaired links are changes when they come, when they become others, and when they go."""
    ledger, block_id = begun(Asked(1, ultraservers=1))

    def report(unavailable: int, *, impaired: bool) -> list[str]:
        return [
            change.kind.value for change, _ in ledger.report_health(block_id, unavailable, impaired=impaired)
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
    ledger, block_id = begun(Asked(1, TRN2))
    assert ledger.report_health(block_id, 0, impaired=True) == []
    ledger.report_health(block_id, 1, impaired=True)
    block = ledger.blocks[block_id]
    assert (block.state, block.interconnect) == (BlockState.UNAVAILABLE, None)


@pytest.mark.parametrize("unavailable", [-1, 5])
def test_health_of_what_is_not_there(unavailable: int) -> None:
    """A report about more instances than a block has, or fewer than none, is an error."""
    ledger, block_id = begun(Asked(1, ultraservers=1))
    with pytest.raises(ValueError, match=f"has 4 instances; {unavailable} cannot be"):
        ledger.report_health(block_id, unavailable, impaired=False)


def test_an_unavailable_block_ends_as_others_do() -> None:
    """A block without instances is warned of, terminated and expired in time, and nothing is unavailable after it."""
    ledger, block_id = begun(Asked(1, ultraservers=1))
    ledger.report_health(block_id, 4, impaired=True)
    end_ns = ledger.blocks[block_id].end_ns
    assert [change.kind.value for change, _ in ledger.advance(end_ns)] == LIFE[2:]
    block = ledger.blocks[block_id]
    assert (block.state, block.unavailable, block.interconnect) == (BlockState.EXPIRED, 0, None)
    assert ledger.report_health(block_id, 4, impaired=True) == []


def test_a_block_that_has_not_begun_has_no_health() -> None:
    """Reports before the delivery change nothing."""
    ledger = small()
    block = buy(ledger, Asked(1, ultraservers=1))
    assert ledger.report_health(block.id, 4, impaired=True) == []
    ledger.advance(NOW_NS + PAID_NS)
    assert ledger.report_health(block.id, 4, impaired=True) == []
    assert ledger.blocks[block.id].state is BlockState.SCHEDULED


def test_ids_follow_from_the_seed() -> None:
    """The same purchases with the same seed give the same ids, with another seed others."""

    def ids(seed: int) -> list[str]:
        ledger = ledger_of(pool_of((TRN2, "a", 3)), seed=seed)
        return [buy(ledger, Asked(1, TRN2)).id for _ in range(3)]

    assert ids(1) == ids(1)
    assert not set(ids(1)) & set(ids(2))
    assert len(set(ids(1))) == 3


def test_an_offering_s_id_stands_for_its_price() -> None:
    """What is looked for again at the same instant at another price is another offering, and the first keeps its own."""
    ledger = ledger_of(pool_of((TRN2, "a", 4)))
    cheap = ledger.offerings(Asked(1, TRN2))[0]
    buy(ledger, Asked(7, TRN2, 2))
    dear = ledger.offerings(Asked(1, TRN2))[0]
    assert dear.fee.amount > cheap.fee.amount
    assert dear.id != cheap.id
    assert ledger.buy(cheap.id).fee == cheap.fee
    assert utc(cheap.start_ns) == utc(dear.start_ns)
