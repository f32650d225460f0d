"""The highlighted reservation: one for all views, an id and never rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.text import plain
from trnfleet.tui.format.reservations import PICKED, is_ended

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.reservations.table import Reservation


class Highlight:
    """The highlighted reservation; none if `reservation_id` is empty."""

    def __init__(self, monitor: FleetState) -> None:
        self.reservation_id = ""
        self._monitor = monitor

    @property
    def reservation(self) -> Reservation | None:
        """The reservation as of the monitor's last pass.

        None without a highlight, or if it is no longer known.
        """
        return self._monitor.reservations.find(self.reservation_id)

    def mask(self) -> NDArray[np.bool_] | None:
        """Return a mask of the present layout's highlighted instances; None without a highlight."""
        reservation = self.reservation
        if reservation is None:
            return None
        mask = np.zeros(len(self._monitor.store.layout.instances), np.bool_)
        for run in reservation.rows:
            mask[run.start : run.stop] = True
        return mask

    def words(self) -> str:
        """Return the text about the highlight for every view, with the key to end it.

        Empty without a highlight.
        """
        picked = self.reservation
        if picked is None:
            return ""
        instances = sum(map(len, picked.rows))
        noun = "instance" if instances == 1 else "instances"
        amount = f"{instances:,} {noun}" if instances else "place not known"
        return f"{PICKED} {plain(picked.message.id, 24)} ({amount})  u: clear"

    def place(self) -> str:
        """Return the first address of the highlight; empty (the fleet) if unknown."""
        return (
            ""
            if self.reservation is None
            else place_of(self.reservation, self._monitor.store.layout)
        )


def holders(table: list[Reservation], layout: Layout, place: str) -> list[str]:
    """Return the ids of reservations that hold a place or part of it.

    Active ones come first; ended ones are left out.
    """
    covered = layout.find_instances("/".join(place.split("/")[: Level.INSTANCE]))
    if not covered:
        return []
    return [
        reservation.message.id
        for reservation in table
        if not is_ended(reservation)
        and any(run.start < covered.stop and covered.start < run.stop for run in reservation.rows)
    ]


def place_of(reservation: Reservation, layout: Layout) -> str:
    """Return the first existing address of a reservation; empty (the fleet) if unknown."""
    for path in reservation.on[:1]:
        first = path.partition("..")[0]
        if layout.find(first) is not None:
            return first
    first_row = reservation.rows[0].start if reservation.rows else -1
    return layout.instances[first_row] if 0 <= first_row < len(layout.instances) else ""


def places_text(reservation: Reservation) -> str:
    """Return the part of the fleet held by a reservation, in words."""
    return ", ".join(plain(place, 80) for place in reservation.on) or "its place is not known"
