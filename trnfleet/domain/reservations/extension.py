"""Whether a Capacity Block can be extended, for whoever only sees it: the published rules, without a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.rules import NS_PER_S
from trnfleet.domain.reservations.states import EXTENDABLE

if TYPE_CHECKING:
    from trnfleet.domain.reservations.states import BlockState, ReservationState

_EXTENDABLE = frozenset(state.value for state in EXTENDABLE)


def why_not_extendable(
    state: BlockState | ReservationState, start_ns: int, end_ns: int, now_ns: int, *, is_pending: bool
) -> str:
    """Return why a block cannot be extended now, in a few words; empty where it can, as far as these rules tell.

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
