"""Blocks older than the ledger: checks that they are possible, and their present state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.blocks import Change, ChangeKind, apply
from trnfleet.domain.reservations.rules import NS_PER_S, Rule, RuleViolation, utc, whole_minute_ns
from trnfleet.domain.reservations.states import HOLDING, BlockState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.occupancy import Occupancy
    from trnfleet.domain.reservations.payments import BlockSchedule

_HELD = HOLDING | {BlockState.EXPIRED}
"""States of a block with, or formerly with, its instances for all its time."""


def check_dates(start_ns: int, end_ns: int, created_ns: int) -> None:
    """Raise if a block cannot have been bought for a time.

    Raises:
        RuleViolation: no block has that time, or could be bought then.
    """
    if start_ns >= end_ns or not rules.is_end(end_ns):
        raise RuleViolation(
            Rule.DATES,
            f"a block ends at 11:30 UTC, after its start; {utc(start_ns)} to {utc(end_ns)} is no"
            " time of one",
        )
    days = rules.days_of(start_ns, end_ns)
    if days > rules.MOST_DAYS:
        raise RuleViolation(
            Rule.DURATION,
            f"a block lasts {rules.MOST_DAYS} days at most, not {days}; {rules.MOST_DAYS}"
            " would fit",
        )
    soonest_ns = created_ns + rules.EARLIEST_START_S * NS_PER_S
    latest_ns = created_ns + rules.LATEST_START_S * NS_PER_S
    bought = f"a block that is bought at {utc(created_ns)}"
    if start_ns < soonest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_SOON,
            f"{bought} starts at {utc(whole_minute_ns(soonest_ns))} at the earliest, not at"
            f" {utc(start_ns)}",
        )
    if start_ns > latest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_LATE,
            f"{bought} starts at {utc(latest_ns)} at the latest, not at {utc(start_ns)}",
        )


def check_free(places: Sequence[int], start_ns: int, end_ns: int, occupancy: Occupancy) -> None:
    """Raise if other blocks hold a block's instances at the time, or have held them.

    Raises:
        RuleViolation: another block has one of them, or there are too many in all.
    """
    if occupancy.busy(start_ns, end_ns, states=_HELD)[list(places)].any():
        raise RuleViolation(Rule.CAPACITY, "another block holds one of its instances at the time")
    excess = occupancy.too_many(len(places), start_ns, end_ns, states=_HELD)
    if excess:
        raise RuleViolation(Rule.ACCOUNT_SIZE, excess)


def present_state(block: Block, schedule: BlockSchedule, now_ns: int, *, is_paid: bool) -> Block:
    """Return a block bought before in its present state, as changed by time alone."""
    if not is_paid:
        steps = [(min(block.pay_by_ns, now_ns), ChangeKind.PAYMENT_FAILED)]
    else:
        ending = [
            (schedule.warns_ns(block), ChangeKind.EXPIRATION_WARNING),
            (schedule.interrupts_ns(block), ChangeKind.INTERRUPTION_WARNING),
            (schedule.terminates_ns(block), ChangeKind.TERMINATING),
            (block.end_ns, ChangeKind.EXPIRED),
        ]
        later = [(max(when_ns, block.start_ns), kind) for when_ns, kind in ending]
        steps = [
            (min(schedule.arrives_ns(block.created_ns), block.start_ns, now_ns), ChangeKind.PAID),
            (block.start_ns, ChangeKind.DELIVERED),
            *sorted(later, key=lambda step: step[0]),
        ]
    past = {block.id: block}
    for when_ns, kind in steps:
        if when_ns <= now_ns:
            apply(past, Change(when_ns, kind, block.id))
    return past[block.id]
