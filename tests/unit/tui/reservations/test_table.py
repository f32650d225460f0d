"""What a filter leaves of the reservations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.tui.format.test_reservations import made

from trnfleet.domain.filters.language import parse
from trnfleet.tui.reservations.table import RESERVATION_COLUMNS, ReservationRow

if TYPE_CHECKING:
    from trnfleet.monitor.reservations.table import Reservation


def matches(reservation: Reservation, pattern: str) -> bool:
    return parse(pattern, RESERVATION_COLUMNS).keeps(ReservationRow(reservation))


@pytest.mark.parametrize(
    "pattern",
    [
        "89ABC",
        "active",
        "trn2.48",
        "us-east-2b",
        "!us-west",
        "! ",
        "",
        "!",
        "state=active & ends>1h",
    ],
)
def test_the_filter_leaves(pattern: str) -> None:
    """Any part of id, state, type, zone or place is enough, in either case; `!` turns it round."""
    assert matches(made(), pattern)


def test_the_filter_hides() -> None:
    """What says nothing of the pattern is hidden, and so is what says it where `!` stands before it."""
    assert not matches(made(), "us-west")
    assert not matches(made(), "!active")
    assert matches(made(message={"on": ("uc1/us-0001",)}, is_idle=True), "US-0001")
    assert matches(made(is_idle=True), "idle")
