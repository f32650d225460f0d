from __future__ import annotations

import pytest

from trnfleet.domain.reservations.extension import why_not_extendable
from trnfleet.domain.reservations.rules import DAY_NS, NS_PER_S
from trnfleet.domain.reservations.states import BlockState

END_NS = 1_000 * DAY_NS
HOUR_NS = 3_600 * NS_PER_S


def why(
    before_end_ns: int, *, state: BlockState = BlockState.ACTIVE, days: int = 7, is_pending: bool = False
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
    """A block can be extended from 56 days before its end, included, until an hour before it, excluded."""
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
