from __future__ import annotations

from trnfleet.domain.reservations.states import (
    ENDED,
    EXTENDABLE,
    HOLDING,
    NEXT_BLOCK_STATES,
    BlockState,
    ReservationState,
)

BLOCK_STATES = [
    "payment-pending",
    "payment-failed",
    "scheduled",
    "active",
    "unavailable",
    "expired",
    "cancelled",
    "failed",
]


def test_block_states_are_the_api_s() -> None:
    """A block has the API's eight states, each also a Capacity Reservation's."""
    assert sorted(BlockState) == sorted(BLOCK_STATES)
    assert {state.value for state in BlockState} <= {state.value for state in ReservationState}


def test_every_state_has_its_followers() -> None:
    """The table has a row for every state."""
    assert set(NEXT_BLOCK_STATES) == set(BlockState)


def test_every_state_holds_or_has_ended() -> None:
    """A block either has its instances reserved or has ended; only the end is final."""
    assert set(BlockState) == HOLDING | ENDED
    assert not HOLDING & ENDED
    assert {state for state, after in NEXT_BLOCK_STATES.items() if not after} == ENDED


def test_active_and_scheduled_blocks_can_be_extended() -> None:
    """As EC2 publishes it."""
    assert {"active", "scheduled"} == EXTENDABLE


def test_no_state_follows_itself_or_comes_twice() -> None:
    """A change of state is to another state, and payment is never pending again."""
    for state, after in NEXT_BLOCK_STATES.items():
        assert state not in after
        assert BlockState.PAYMENT_PENDING not in after


def test_every_block_can_come_to_every_other_state() -> None:
    """From a pending payment every other state can be reached."""
    reached = {BlockState.PAYMENT_PENDING}
    for _ in BlockState:
        reached |= {each for state in reached for each in NEXT_BLOCK_STATES[state]}
    assert reached == set(BlockState)
