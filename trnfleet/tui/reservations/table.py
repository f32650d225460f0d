"""The table of reservations, one per line.

The cursor stays on its reservation; the table has an order and a filter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.filters.language import EVERYTHING
from trnfleet.monitor.reservations.means import MeanUse
from trnfleet.monitor.store.averages import Averages
from trnfleet.tui import theme
from trnfleet.tui.format.jobs import jobs_on
from trnfleet.tui.format.reservations import (
    ReservationPlan,
    is_ended,
    is_waiting,
    state_text,
    what_text,
)
from trnfleet.tui.format.reservations import row as parts_of
from trnfleet.tui.keys import bind
from trnfleet.tui.view import View
from trnfleet.tui.widgets.cells import Parts, fit
from trnfleet.tui.widgets.cursor_list import RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style
    from textual.binding import BindingType

    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.tui.state.context import UiContext

NEXT_EVENT, IDLE_COST, UTILISATION, ID = SORTS = ("next event", "idle cost", "utilisation", "id")
"""Orders cycled with `s`; the first is the monitor's."""
NOTHING = (
    " Nothing is reserved here. Reservations come from",
    "",
    "   the simulated fleet's file   [[blocks]], as in config/fleets/demo.toml",
    "   a purchase in the simulator  trnfleet reserve buy --help",
    "   a real AWS account           trnfleet bridge --help",
)
"""Text for an empty table."""
NOT_FOUND = "Nothing that is reserved matches. Esc clears the filter."
RESERVATION_COLUMNS = Columns(
    (
        Column("id"),
        Column("state"),
        Column("idle", Kind.NUMBER, "$/h", ("idle_cost", "cost")),
        Column("util", Kind.NUMBER, "%", ("utilisation",)),
        Column("ends", Kind.DURATION),
        Column("type", aliases=("instance_type",)),
        Column("zone"),
        Column("instances", Kind.NUMBER),
        Column("used", Kind.NUMBER),
        Column("at", Kind.PLACE),
    )
)
"""Columns for filters of reservations; `ends` counts from now."""


class ReservationRow(NamedTuple):
    """A reservation as a filter sees it."""

    reservation: Reservation
    util_pct: float | None = None
    """Its mean utilisation over the last seconds."""

    def value(self, column: str) -> str | float | None:
        reservation = self.reservation
        message = reservation.message
        values: dict[str, str | float | None] = {
            "id": message.id,
            "state": message.state.value,
            "idle": None if reservation.idle_per_h is None else float(reservation.idle_per_h),
            "util": self.util_pct,
            # What has ended does not end any more.
            "ends": None
            if is_ended(reservation) or (reservation.to_end_s or 0) < 0
            else reservation.to_end_s,
            "type": message.instance_type,
            "zone": message.zone,
            "instances": message.instances,
            "used": reservation.used,
            "at": reservation.on[0].partition("..")[0] if reservation.on else "",
        }
        return values[column]

    def has(self, part: str) -> bool:
        return part in "\n".join(texts_of(self.reservation)).lower()


class ReservationTable(RowList[str, "Reservation"]):
    """Reservations, one a line."""

    HELP_TITLE = "Reservations"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "enter", "highlight its part of the fleet in every view"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._highlight = context.highlight
        self._frame = context.frame
        self._use = MeanUse(Averages(), -1)
        self.wanted = EVERYTHING
        """The filter."""
        self.order = NEXT_EVENT
        """One of `SORTS`."""

    def key_of(self, row: Reservation) -> str:
        return row.message.id

    def choose(self, reservation_id: str) -> None:
        """Put the cursor on a reservation without reporting it."""
        self._key = reservation_id
        self.sync()
        self.reveal()

    def tick(self) -> None:
        self.sync()
        super().tick()

    def sync(self) -> None:
        """Read the table, and keep the cursor on its reservation, from the first one on."""
        table = self._monitor.reservations.table()
        query = self.wanted
        use = self.use
        left = table
        if query:
            left = [
                reservation
                for reservation in table
                if query.keeps(ReservationRow(reservation, use.util_pct(reservation)))
            ]
        self.rows = ordered(left, self.order, use)
        super().sync()
        if self._key is None:
            self._key = self._kept_key(self.row)

    @property
    def use(self) -> MeanUse:
        """The mean utilisation of reservations, from the means on the screen."""
        averages = self._frame.averages
        generation = self._monitor.store.generation
        if not self._use.is_of(averages, generation):
            self._use = MeanUse(averages, generation)
        return self._use

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        texts = (f" {NOT_FOUND}",) if self.wanted else NOTHING
        return [(fit(text, self.line_width), theme.QUIET) for text in texts]

    def parts_of(self, row: Reservation, width: int, *, selected: bool) -> Parts:
        highlighted = self._highlight.reservation_id
        return parts_of(
            row,
            ReservationPlan.for_width(width),
            self.use.util_pct(row),
            self._alerts.worst_on(row.rows),
            self.jobs_of(row),
            selected=selected,
            picked=row.message.id == highlighted,
        )

    def jobs_of(self, row: Reservation) -> str:
        """Return the jobs on its instances."""
        if is_ended(row) or is_waiting(row) or not row.rows:
            return ""
        return jobs_on(self._monitor, np.concatenate([*map(np.asarray, row.rows)]))

    def action_enter(self) -> None:
        if self.picked is not None:
            self.post_message(View.PickReservation(self.picked.message.id))


def texts_of(reservation: Reservation) -> tuple[str, ...]:
    """Return all texts of a reservation searched by a filter."""
    message = reservation.message
    return (
        message.id,
        message.state.value,
        state_text(reservation),
        what_text(reservation),
        message.instance_type,
        message.zone,
        *reservation.on,
        *message.ec2_ids,
    )


def ordered(table: list[Reservation], order: str, use: MeanUse) -> list[Reservation]:
    """Return reservations in one of `SORTS`; ended and unknown ones come last."""
    if order == IDLE_COST:
        return sorted(
            table, key=lambda reservation: (is_ended(reservation), -(reservation.idle_per_h or 0))
        )
    if order == UTILISATION:
        utils = {reservation.message.id: use.util_pct(reservation) for reservation in table}
        return sorted(
            table,
            key=lambda reservation: (
                is_ended(reservation),
                math.inf if (util := utils[reservation.message.id]) is None else util,
            ),
        )
    if order == ID:
        return sorted(table, key=lambda reservation: reservation.message.id)
    return list(table)
