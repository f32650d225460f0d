"""Details of reservations.

All of them in one line, and the one under the cursor at the foot and at length.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.quantities import count
from trnfleet.domain.severity import Severity
from trnfleet.monitor.reservations.table import NEAR_END_S, Reservation
from trnfleet.monitor.summary import reserved
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.format.alerts import alerts_line, tally_text
from trnfleet.tui.format.reservations import (
    countdown,
    extension_text,
    fee_of,
    is_ended,
    is_impaired,
    is_waiting,
    money,
    unused_texts,
    what_text,
)
from trnfleet.tui.reservations.timeline import LABEL, TimelineView, used_by_cell
from trnfleet.tui.state.highlight import places_text
from trnfleet.tui.view import in_steps
from trnfleet.tui.widgets.bar import justified
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.tui.widgets.line_view import Line, LineView, blank_line, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.reservations.table import ReservationTable
    from trnfleet.tui.state.alerts import AlertSnapshot
    from trnfleet.tui.state.context import UiContext
    from trnfleet.wire.reservations import ExtensionSpec

_NEAR_H = round(NEAR_END_S / 3_600)
_CHART_ROWS = 6
_LEAST_CHARTED = 6
"""Least timeline cells with use for a chart. Fewer would be a column or two and show no course."""


def summary(
    table: list[Reservation], shown: int, order: str, pattern: str, note: str, width: int
) -> Parts:
    """Return a summary of all reservations in one line.

    States that need an action and idle cost come first.

    Args:
        table: All known reservations.
        shown: Number of matches of the filter.
        order: The sort order.
        pattern: The filter, empty for none.
        note: Shown instead, empty for none.
        width: Cells of the line.
    """
    critical, warning = (
        theme.SEVERITY_STYLE[severity] for severity in (Severity.CRITICAL, Severity.WARNING)
    )
    current = [
        reservation for reservation in table if reservation.is_current and not is_ended(reservation)
    ]
    # Those that have ended are listed for a while; the tab does not count them either.
    held = reserved(table)["reservations"]
    parts: Parts = [(f" {count(held)} reserved", theme.STRONG)]
    bad = sum(
        is_impaired(reservation) or bool(reservation.message.unavailable) for reservation in current
    )
    if bad:
        parts.append((f"  ✖ {bad} impaired or out", critical))
    near = sum(reservation.is_near_end for reservation in current)
    if near:
        parts.append((f"  ▲ {near} ending within {_NEAR_H} h", warning))
    idle = idle_texts(current)
    if idle:
        parts.append((f"  ▲ {' + '.join(idle)}/h idle", warning))
    ended = f"  {count(len(table) - held)} ended" if len(table) > held else ""
    # What needs nobody goes first where there is no room for all.
    if ended and width_of(parts) + len(ended) <= width:
        parts.insert(1, (ended, theme.QUIET))
    if table and not bad and not near and not idle:
        parts.append(("  nothing idle, nothing ending soon", theme.QUIET))
    if note:
        parts = [(f" {note}", warning)]
    right: Parts = []
    if pattern:
        right = [(f"/{plain(pattern, 30)} ", theme.LINK), (f"{count(shown)} found  ", theme.QUIET)]
    by: Parts = [(f"sort: {order} ", theme.QUIET)]
    has_room = width_of(parts) + width_of(right) + width_of(by) < width
    return justified(parts, [*right, *by] if has_room else right, width, theme.BASE)


def idle_texts(table: list[Reservation]) -> list[str]:
    """Return the cost of idle instances by currency, such as `43.81 USD`."""
    amounts: dict[str, Decimal] = {}
    for reservation in table:
        if reservation.idle_per_h:
            currency = reservation.message.currency
            amounts[currency] = amounts.get(currency, Decimal(0)) + reservation.idle_per_h
    return [money(amounts[currency], currency) for currency in sorted(amounts)]


def foot(
    chosen: Reservation | None,
    width: int,
    silent: Sequence[str] = (),
    alerts: Sequence[AlertWithStatus] = (),
) -> list[Parts]:
    """Return two lines about the chosen reservation: identity, then alerts and due dates.

    Args:
        chosen: The reservation; None for none.
        width: Cells.
        silent: Its instances without telemetry.
        alerts: Alerts of it and of its instances.
    """
    if chosen is None:
        return []
    message = chosen.message
    where = places_text(chosen)
    first = f" {plain(message.id, 64)}  {what_text(chosen)} in {plain(message.zone, 40)}: {where}"
    if not chosen.is_current:
        first = f" as last known, its publisher is gone: {first}"
    words = [f"alerts: {tally_text([*alerts])}"] if alerts else []
    words += unused_texts(chosen, silent)
    words += due_words(chosen)
    if chosen.ends_ns is not None:
        words.append(f"{_minute(chosen.starts_ns)} to {_minute(chosen.ends_ns)} UTC")
    if chosen.fee_per_h is not None:
        words.append(f"{money(chosen.fee_per_h, message.currency)}/h")
    if message.fee is not None:
        words.append(f"fee {money(fee_of(chosen), message.currency)}")
    if chosen.mean_util_pct is not None:
        words.append(f"mean use {chosen.mean_util_pct:.1f} %")
    second = ""
    for word in words:
        if second and len(second) + 2 + len(word) > width:
            break
        second += f"  {word}" if second else f" {word}"
    return [[(fit(first, width), theme.HEAD_STRONG)], [(fit(second, width), theme.HEAD)]]


def alerts_of(board: AlertSnapshot, reservation: Reservation) -> list[AlertWithStatus]:
    """Return the unhandled alerts of a reservation, then its instances' alerts."""
    own = board.of_reservation(reservation.message.id)
    return [*own, *board.on_instances(reservation.rows)]


def due_words(reservation: Reservation) -> list[str]:
    """Return the next due dates, and whether an extension is possible."""
    words = []
    due_s = _until_s(reservation)
    if due_s is not None and due_s >= 0:
        words.append(f"payment due in {countdown(due_s)}")
    until_s = reservation.to_termination_s
    if until_s is not None and not is_waiting(reservation) and not is_ended(reservation):
        words.append(
            f"terminates in {countdown(until_s)}" if until_s >= 0 else "is being terminated"
        )
    extension = extension_text(reservation)
    if extension:
        words.append(extension if reservation.can_extend else f"extension {extension}")
    return words


def facts(reservation: Reservation, silent: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return all known facts of a reservation as name and text.

    Args:
        reservation: The reservation.
        silent: Its instances without telemetry.
    """
    message = reservation.message
    currency = message.currency
    lines = [
        (
            "capacity",
            (f"{what_text(reservation)} in {plain(message.zone, 40)}: {places_text(reservation)}"),
        ),
        ("term", _span_text(reservation)),
    ]
    due = due_words(reservation)
    if due:
        lines.append(("ends" if _until_s(reservation) is None else "due", ", ".join(due)))
    costs = [
        f"fee {money(fee_of(reservation), currency)}",
        f"{money(reservation.fee_per_h, currency)}/h",
    ]
    if reservation.idle_per_h is not None:
        costs.append(f"{money(reservation.idle_per_h, currency)}/h idle")
    lines.append(("costs", ", ".join(costs)))
    used = reservation.used
    known = [] if used is None else [f"{used} of {message.instances} instances"]
    if words := known + unused_texts(reservation, silent):
        lines.append(("used", ", ".join(words)))
    if message.unavailable:
        fail = "instance fails its" if message.unavailable == 1 else "instances fail their"
        lines.append(("out", f"{message.unavailable} {fail} status check"))
    if message.interconnect is not None:
        # EC2's word: what telemetry says of the links is among the alerts.
        lines.append(("EC2 says", f"interconnect {message.interconnect.value}"))
    lines.extend(("extension", _extension_words(extension)) for extension in message.extensions)
    if message.reservation_ids:
        lines.append(
            (
                "reservation",
                ", ".join(plain(reservation_id, 64) for reservation_id in message.reservation_ids),
            )
        )
    origin = "EC2" if message.origin == "ec2" else "a simulator"
    lines.append(
        ("source", origin if reservation.is_current else f"{origin}, which is gone: as last known")
    )
    return lines


class ReservationDetails(LineView, can_focus=False):
    """The chosen reservation at length.

    Its use is charted below the timeline and at its scale, next to all known facts.
    """

    def __init__(self, context: UiContext, table: ReservationTable, timeline: TimelineView) -> None:
        super().__init__()
        self._monitor = context.monitor
        self._alerts = context.alerts
        self._table = table
        self._timeline = timeline

    @property
    def rows_wanted(self) -> int:
        """Rows needed for the chosen reservation and its chart, in steps.

        Steps keep the lines below in place.
        """
        chosen = self._table.picked
        if chosen is None:
            return 0
        rows = 2 + len(facts(chosen)) + bool(self._table.jobs_of(chosen))
        rows += 0 if self._used(chosen) is None else 2 + _CHART_ROWS
        return in_steps(rows)

    def _used(self, chosen: Reservation) -> NDArray[np.float64] | None:
        """Return the use in each cell of the timeline.

        None if there are too few cells to show a course.
        """
        used_pct = used_by_cell(self._timeline.watched(chosen.message.id), self._timeline.window())
        return used_pct if np.count_nonzero(~np.isnan(used_pct)) >= _LEAST_CHARTED else None

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        chosen = self._table.picked
        if chosen is None:
            return []
        room = max(0, width - LABEL)
        critical = theme.SEVERITY_STYLE[Severity.CRITICAL]
        silent = self._monitor.reservations.without_telemetry(chosen)
        bad = {"out"} | ({"EC2 says"} if is_impaired(chosen) else set())
        lines: list[tuple[str, Parts]] = [
            (name, [(fit(words, room), critical if name in bad else theme.BASE)])
            for name, words in facts(chosen, silent)
        ]
        if jobs := self._table.jobs_of(chosen):
            lines.insert(1, ("jobs", [(fit(jobs, room), theme.BASE)]))
        alerts = alerts_of(self._alerts, chosen)
        if alerts:
            lines.insert(
                0, ("alerts", alerts_line(alerts, self._alerts.now_ns, room, with_place=True))
            )
        # A blank line stands before each, and a title above the chart.
        used_pct = self._used(chosen)
        has_room = height >= 1 + len(lines) + 2 + _CHART_ROWS
        made = _chart(chosen, used_pct, width) if used_pct is not None and has_room else []
        made.append(blank_line(width))
        for name, words in lines:
            made.append(text_line([(fit(f" {name}", LABEL), theme.QUIET), *words], width))
        return made


def _chart(chosen: Reservation, used_pct: NDArray[np.float64], width: int) -> list[Line]:
    """Return how a reservation was used in each cell of the timeline above."""
    rows = plot.area(used_pct, 0.0, 100.0, _CHART_ROWS)
    title = f" use of {plain(chosen.message.id, 64)}, % of its NeuronCores"
    made = [blank_line(width), text_line([(title, theme.QUIET)], width)]
    for number, text in enumerate(rows):
        scale = {0: "100 ", _CHART_ROWS - 1: "0 "}.get(number, "")
        made.append(text_line([(scale.rjust(LABEL), theme.GHOST), (text, theme.CHART)], width))
    return made


def _extension_words(extension: ExtensionSpec) -> str:
    fee = money(Decimal(extension.fee), extension.currency)
    return f"to {_minute(parse_rfc3339(extension.end))} UTC, {fee}, {extension.state.value}"


def _span_text(reservation: Reservation) -> str:
    begin = _minute(reservation.starts_ns)
    if reservation.ends_ns is None:
        return f"from {begin} UTC until it is cancelled"
    hours = (reservation.ends_ns - reservation.starts_ns) / (3_600 * NS_PER_S)
    days = f"{hours / 24:.1f}".removesuffix(".0")
    return f"{begin} to {_minute(reservation.ends_ns)} UTC, {days} d"


def _until_s(reservation: Reservation) -> float | None:
    """Return the seconds until a pending payment fails; None where none is pending."""
    if reservation.pays_ns is None:
        return None
    return (reservation.pays_ns - reservation.starts_ns) / NS_PER_S + reservation.to_start_s


def _minute(instant_ns: int) -> str:
    return format_rfc3339(instant_ns)[:16].replace("T", " ")
