"""The reservations that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.tui.format.test_reservations import made

from trnfleet.domain.filters.language import parse
from trnfleet.domain.reservations.states import ReservationState
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
    """Any part of id, state, type, zone or place matches, in either case; `!` inverts."""
    assert matches(made(), pattern)


def test_what_has_ended_does_not_end_soon() -> None:
    """`ends<24h` matches only future ends."""
    assert matches(made(to_end_s=3_600.0), "ends<24h")
    assert not matches(made(to_end_s=-3_600.0), "ends<24h")
    assert not matches(
        made(message={"state": ReservationState.EXPIRED}, to_end_s=-3_600.0), "ends<24h"
    )


def test_the_filter_hides() -> None:
    """Reservations without the pattern are hidden.

    With `!`, reservations with it are.
    """
    assert not matches(made(), "us-west")
    assert not matches(made(), "!active")
    assert matches(made(message={"on": ("uc1/us-0001",)}, is_idle=True), "US-0001")
    assert matches(made(is_idle=True), "idle")
