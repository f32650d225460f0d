"""Extensions of Capacity Blocks: whether and by how many days a block can be extended.

A refusal names the nearest valid choice. `why_not_extendable` knows the published rules alone, for
monitors without a ledger; the others also know the other reservations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import DAY_NS
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.rules import MOST_EXTENSIONS, Rule, RuleViolation, utc
from trnfleet.domain.reservations.states import EXTENDABLE, BlockState, ReservationState
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.occupancy import Occupancy

_EXTENDABLE = frozenset(state.value for state in EXTENDABLE)


def why_not_extendable(
    state: BlockState | ReservationState,
    start_ns: int,
    end_ns: int,
    now_ns: int,
    *,
    is_pending: bool,
) -> str:
    """Return the reason why a block cannot be extended now.

    Empty if these rules allow it.

    Args:
        state: The block's.
        start_ns: Its start.
        end_ns: Its end, with all extensions that are paid.
        now_ns: The instant to answer for.
        is_pending: Whether the payment of an extension is pending.
    """
    if state.value not in _EXTENDABLE:
        return state.value
    if is_pending:
        return "payment pending"
    if now_ns < end_ns - rules.EXTENSION_EARLIEST_S * NS_PER_S:
        return "not before 56 d to the end"
    if now_ns >= end_ns - rules.EXTENSION_LATEST_S * NS_PER_S:
        return "less than 1 h left"
    if rules.days_of(start_ns, end_ns) >= rules.MOST_DAYS:
        return f"{rules.MOST_DAYS} d is the most"
    return ""


def check_extendable(block: Block, now_ns: int) -> None:
    """Raise if a block cannot be extended now by any number of days.

    Raises:
        RuleViolation: it is in another state, it is too early or too late, or a payment is pending.
    """
    if block.state not in EXTENDABLE:
        raise RuleViolation(
            Rule.EXTENSION_STATE,
            f"{block.id} is {block.state.value}; active and scheduled blocks can be extended",
        )
    if block.pending is not None:
        raise RuleViolation(
            Rule.EXTENSION_PENDING,
            f"the payment of the last extension of {block.id} is pending until"
            f" {utc(block.pending.pay_by_ns)}",
        )
    opens_ns = block.end_ns - rules.EXTENSION_EARLIEST_S * NS_PER_S
    closes_ns = block.end_ns - rules.EXTENSION_LATEST_S * NS_PER_S
    if len(block.extensions) >= MOST_EXTENSIONS:
        raise ConfigError(
            f"{block.id} has {MOST_EXTENSIONS} extensions already, failed ones included"
        )
    if now_ns < opens_ns:
        raise RuleViolation(
            Rule.EXTENSION_TOO_EARLY,
            f"{block.id} can be extended from 56 days before its end on: {utc(opens_ns)}",
        )
    if now_ns >= closes_ns:
        raise RuleViolation(
            Rule.EXTENSION_TOO_LATE,
            f"{block.id} could be extended until an hour before its end: {utc(closes_ns)}",
        )


def check_longer(block: Block, days: int, occupancy: Occupancy) -> None:
    """Raise if a block cannot last a number of further days.

    Raises:
        RuleViolation: with the most that it can.
    """
    problem = why_not_longer(block, days, occupancy)
    if problem is None:
        return
    rule, text = problem
    shorter = (length for length in reversed(rules.DURATIONS) if length < days)
    fits = next(
        (option for option in shorter if why_not_longer(block, option, occupancy) is None), None
    )
    near = (
        "it cannot be extended any more"
        if fits is None
        else f"{counted(fits, 'more day')} would fit"
    )
    raise RuleViolation(rule, f"{text}; {near}")


def why_not_longer(block: Block, days: int, occupancy: Occupancy) -> tuple[Rule, str] | None:
    """Return the rule against further days, and an explanation; None if allowed."""
    end_ns = block.end_ns + days * DAY_NS
    total = rules.days_of(block.start_ns, end_ns)
    if total > rules.MOST_DAYS:
        return (
            Rule.EXTENSION_TOTAL,
            f"{block.id} would last {total} days, {rules.MOST_DAYS} are the most",
        )
    if occupancy.busy(block.end_ns, end_ns, but=block.id)[list(block.places)].any():
        text = f"another block follows on instances of {block.id} within {days} days after its end"
        return Rule.CAPACITY, text
    excess = occupancy.too_many(len(block.places), block.end_ns, end_ns, but=block.id)
    return (Rule.ACCOUNT_SIZE, excess) if excess else None
