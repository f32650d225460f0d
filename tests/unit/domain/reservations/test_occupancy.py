from __future__ import annotations

import pytest
from support.sim.capacity_account import DAY_NS, TRN2, TRN2U, at, enter, ledger_of, pool_of

from trnfleet.domain.reservations.occupancy import Occupancy
from trnfleet.domain.reservations.pool import OfferingKind
from trnfleet.domain.reservations.states import HOLDING, BlockState

DAY = at("2026-01-07 11:30")
"""End of the first block and start of the last."""


def held() -> tuple[Occupancy, list[str]]:
    """Return four instances and an UltraServer with blocks.

    4 and 5 are held until `DAY`, 4 from then on, 6 all the time.
    """
    ledger = ledger_of(pool_of((TRN2, "a", 4), ultraservers=["a"]))
    made = [
        enter(ledger, TRN2, (4, 5), "2026-01-04 11:30", "2026-01-07 11:30"),
        enter(ledger, TRN2, (6,), "2026-01-04 11:30", "2026-01-11 11:30"),
        enter(ledger, TRN2, (4,), "2026-01-07 11:30", "2026-01-09 11:30"),
    ]
    return Occupancy(ledger.pool, ledger.blocks), [block.id for block in made]


@pytest.mark.parametrize(
    ("start_ns", "end_ns", "busy", "most"),
    [
        (DAY - DAY_NS, DAY, [4, 5, 6], 3),
        (DAY, DAY + DAY_NS, [4, 6], 2),
        (DAY - 1, DAY + 1, [4, 5, 6], 3),
        (DAY + 2 * DAY_NS, DAY + 3 * DAY_NS, [6], 1),
        (DAY + 4 * DAY_NS, DAY + 5 * DAY_NS, [], 0),
    ],
)
def test_what_is_held_in_a_time(start_ns: int, end_ns: int, busy: list[int], most: int) -> None:
    """Instances count from their block's start until before its end.

    Of successive blocks, the most at one instant.
    """
    occupancy, _ = held()
    assert occupancy.busy(start_ns, end_ns).nonzero()[0].tolist() == busy
    assert occupancy.held(start_ns, end_ns) == most


def test_a_block_can_be_left_out() -> None:
    """A query for a block excludes that block."""
    occupancy, (first, *_) = held()
    assert occupancy.busy(DAY - 1, DAY, but=first).nonzero()[0].tolist() == [6]
    assert occupancy.held(DAY - 1, DAY, but=first) == 1


def test_only_blocks_of_some_states_count() -> None:
    """An expired block holds nothing, unless its state is requested."""
    ledger = ledger_of(pool_of((TRN2, "a", 1)), at("2026-01-05 10:00"))
    enter(ledger, TRN2, (0,), "2025-12-01 11:30", "2025-12-08 11:30")
    occupancy = Occupancy(ledger.pool, ledger.blocks)
    during = at("2025-12-02 11:30"), at("2025-12-03 11:30")
    assert occupancy.held(*during) == 0
    assert occupancy.held(*during, states=HOLDING | {BlockState.EXPIRED}) == 1


@pytest.mark.parametrize(
    ("count", "said"), [(253, ""), (254, "254 more instances beside 3 would be more than 256")]
)
def test_256_at_a_time(count: int, said: str) -> None:
    """Up to 256 in all are not too many; one more is, with the numbers."""
    text = held()[0].too_many(count, DAY - 1, DAY)
    assert text == (f"{said} at a time" if said else "")


def test_what_is_free_is_chosen() -> None:
    """Free instances are chosen, and none where too few are left."""
    ledger = ledger_of(pool_of((TRN2, "a", 2), ultraservers=["a"]))
    occupancy = Occupancy(ledger.pool, ledger.blocks)
    one = OfferingKind(TRN2, 1, is_ultraserver=False)
    two = OfferingKind(TRN2, 2, is_ultraserver=False)
    assert occupancy.choose(two, "a", DAY, DAY + DAY_NS) == (4, 5)
    enter(ledger, TRN2, (4,), "2026-01-07 11:30", "2026-01-08 11:30")
    assert occupancy.choose(two, "a", DAY, DAY + DAY_NS) is None
    assert occupancy.choose(one, "a", DAY, DAY + DAY_NS) == (5,)
    assert occupancy.choose(
        OfferingKind(TRN2U, 4, is_ultraserver=True), "a", DAY, DAY + DAY_NS
    ) == (
        0,
        1,
        2,
        3,
    )
