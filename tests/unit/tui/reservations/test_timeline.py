from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from unit.tui.format.test_reservations import made

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.reservations.states import ExtensionState, ReservationState
from trnfleet.monitor.reservations.usage import HOUR_NS, UsageHour
from trnfleet.tui.reservations import timeline
from trnfleet.tui.reservations.timeline import (
    AHEAD,
    CELLS_S,
    ENDED,
    EXTENDED,
    FAILED,
    NOW,
    SCHEDULED,
    UNKNOWN,
    UNPAID,
    TimelineWindow,
    Watched,
)
from trnfleet.tui.theme.glyphs import twin
from trnfleet.tui.widgets.cells import text_of
from trnfleet.wire.reservations import ExtensionSpec

DAY_NS = 86_400 * NS_PER_S
NOW_NS = 20_454 * DAY_NS + 10 * HOUR_NS
"""2026-01-01 10:00 UTC."""
HOURLY = CELLS_S.index(3_600)
NEVER_WATCHED = Watched.from_hours(())


def window(pan: int = 0, zoom: int = HOURLY, cells: int = 40) -> TimelineWindow:
    return TimelineWindow.around(NOW_NS, zoom, pan, cells)


def glyphs(start_h: float, end_h: float, hours: tuple[UsageHour, ...] = (), **message: Any) -> str:
    """Return the characters of a block with a start and end in hours from now."""
    reservation = made(
        message=message,
        starts_ns=NOW_NS + round(start_h * HOUR_NS),
        ends_ns=NOW_NS + round(end_h * HOUR_NS),
    )
    return "".join(timeline.glyphs(reservation, Watched.from_hours(hours), window()))


def test_now_has_its_place() -> None:
    """Now stands three tenths from the left, and moves against the pan."""
    assert window().now_cell == 12
    assert window(pan=5).now_cell == 7
    assert window(pan=-40).now_cell == 52
    assert TimelineWindow.around(NOW_NS + HOUR_NS - 1, HOURLY, 0, 40).begin_ns == window().begin_ns


@pytest.mark.parametrize("zoom", range(len(CELLS_S)))
def test_cells_are_half_open(zoom: int) -> None:
    """An instant's cell begins at or before it, the next cell after it."""
    view = window(zoom=zoom)
    for instant in (view.begin_ns, view.begin_of(3) - 1, view.begin_of(3), NOW_NS):
        cell = view.cell_of(instant)
        assert view.begin_of(cell) <= instant < view.begin_of(cell + 1)


def test_past_and_future_of_an_active_block() -> None:
    """An unwatched past differs from the future.

    The cells are those of [start, end).
    """
    drawn = glyphs(-3, 2)
    assert drawn.strip() == UNKNOWN * 4 + AHEAD
    assert drawn.index(UNKNOWN) == 9
    assert glyphs(-3, 2 + 1e-9).strip() == UNKNOWN * 4 + AHEAD * 2


def test_watched_hours_are_drawn_by_their_use() -> None:
    """Watched hours show their utilisation, others stay unknown."""
    hours = (
        UsageHour(NOW_NS - 2 * HOUR_NS, 3_600.0, 100.0, 1.0),
        UsageHour(NOW_NS - HOUR_NS, 60.0, 0.0, 0.0),
        UsageHour(NOW_NS, 60.0, 50.0, 1.0),
    )
    assert glyphs(-3, 2, hours).strip() == f"{UNKNOWN}▇▁▄{AHEAD}"


def test_cells_of_many_hours_weigh_them_by_how_long_they_were_watched() -> None:
    """A cell of four hours has the mean of the watched time.

    An unwatched cell is unknown.
    """
    hours = (
        UsageHour(NOW_NS - 6 * HOUR_NS, 3_600.0, 90.0, 1.0),
        UsageHour(NOW_NS - 5 * HOUR_NS, 1_800.0, 30.0, 1.0),
        UsageHour(NOW_NS - 500 * HOUR_NS, 3_600.0, 1.0, 1.0),
        UsageHour(NOW_NS, 0.0, 50.0, 1.0),
    )
    view = window(zoom=CELLS_S.index(14_400))
    used = timeline.used_by_cell(Watched.from_hours(hours), view)
    assert used[view.cell_of(NOW_NS - 6 * HOUR_NS)] == pytest.approx(70.0)
    assert np.isnan(used).sum() == view.cells - 1


def test_cells_of_minutes_share_their_hour() -> None:
    """Each quarter of a watched hour has the hour's value.

    The hour before is unknown.
    """
    hours = (UsageHour(NOW_NS - HOUR_NS, 3_600.0, 40.0, 1.0),)
    view = window(zoom=CELLS_S.index(900))
    used = timeline.used_by_cell(Watched.from_hours(hours), view)
    first = view.cell_of(NOW_NS - HOUR_NS)
    assert np.flatnonzero(~np.isnan(used)).tolist() == [first, first + 1, first + 2, first + 3]
    assert np.isnan(timeline.used_by_cell(NEVER_WATCHED, view)).all()


@pytest.mark.parametrize(
    ("state", "glyph"),
    [
        (ReservationState.SCHEDULED, SCHEDULED),
        (ReservationState.PAYMENT_PENDING, UNPAID),
        (ReservationState.PAYMENT_FAILED, FAILED),
        (ReservationState.CANCELLED, FAILED),
        (ReservationState.EXPIRED, ENDED),
    ],
)
def test_states_have_their_own_characters(state: ReservationState, glyph: str) -> None:
    """Scheduled, unpaid, failed and ended blocks differ in characters, not in colour alone."""
    assert set(glyphs(-3, 0, state=state)) == {" ", glyph}


def test_an_extension_that_is_not_paid() -> None:
    """A pending extension is drawn as unpaid, behind the end.

    A failed one is not drawn.
    """

    def drawn(state: ExtensionState) -> str:
        start, end = (format_rfc3339(NOW_NS + hours * HOUR_NS) for hours in (2, 4))
        spec = ExtensionSpec(id="e", state=state, bought=start, start=start, end=end, fee="1.00")
        return glyphs(0, 2, extensions=(spec,)).strip()

    assert drawn(ExtensionState.PAYMENT_PENDING) == UNKNOWN + AHEAD + UNPAID * 2
    assert drawn(ExtensionState.PAYMENT_FAILED) == UNKNOWN + AHEAD


def test_an_extension_that_is_paid() -> None:
    """A paid extension is drawn differently from the block, from its first full cell on."""
    start, end = (format_rfc3339(NOW_NS + round(hours * HOUR_NS)) for hours in (2.5, 5))
    spec = ExtensionSpec(
        id="e",
        state=ExtensionState.PAYMENT_SUCCEEDED,
        bought=start,
        start=start,
        end=end,
        fee="1.00",
    )
    assert glyphs(0, 5, extensions=(spec,)).strip() == UNKNOWN + AHEAD * 2 + EXTENDED * 2
    waits = glyphs(1, 5, state=ReservationState.SCHEDULED, extensions=(spec,))
    assert waits.strip() == SCHEDULED * 2 + EXTENDED * 2


def test_ends_are_written_beside_the_line() -> None:
    """The end is written behind the block, or an arrow points to it.

    Nothing covers the now-line.
    """

    def said(start_h: float, end_h: float, pan: int = 0) -> str:
        reservation = made(
            starts_ns=NOW_NS + round(start_h * HOUR_NS), ends_ns=NOW_NS + round(end_h * HOUR_NS)
        )
        return text_of(timeline.line(reservation, NEVER_WATCHED, window(pan), selected=False))[13:]

    assert said(-3, 1.5).rstrip().endswith(f"{AHEAD} 01-01 11:30")
    assert said(100, 124).endswith("01-05 14:00 ▸")
    assert said(-124, -100, pan=-10).startswith("◂ 12-28 06:00")
    assert said(-124, -100)[12] == NOW
    assert ":" not in said(-5, -3)
    assert ":" not in said(-3, 24)
    assert "9992" in said(24 * 365 * 7_972, 24 * 365 * 7_973)


def test_times_beyond_the_calendar_do_no_harm() -> None:
    """A window or end beyond the calendar is drawn without text."""
    far = TimelineWindow.around(400_000 * 365 * DAY_NS, HOURLY, 0, 40)
    assert timeline.axis(far)[0].strip() == ""
    reservation = made(starts_ns=NOW_NS, ends_ns=10**22)
    assert AHEAD in text_of(timeline.line(reservation, NEVER_WATCHED, window(), selected=False))
    assert len(text_of(timeline.line(reservation, NEVER_WATCHED, far, selected=False))) == 40 + 13


def test_what_lies_outside_is_not_drawn() -> None:
    """A block outside the window leaves its line empty.

    One extending beyond it fills the line to the edge.
    """
    assert glyphs(-500, -400).strip() == ""
    assert glyphs(400, 500).strip() == ""
    assert len(glyphs(-500, 500).strip()) == 40


def test_the_axis_names_days_and_hours() -> None:
    """Midnights have their date, hours theirs if cells are short.

    The mark of now is in its cell.
    """
    labels, ticks = timeline.axis(window())
    assert len(labels) == len(ticks) == 40
    assert ticks.index("▼") == 12
    assert labels.index("01-02") == 12 + 14
    assert labels.index("12:00") == 12 + 2
    far, _ = timeline.axis(window(zoom=CELLS_S.index(14_400)))
    assert "01-02" in far
    assert ":" not in far
    # Dates of neighbouring days have room between them, or every other one is left out.
    assert all(len(each.strip()) == 5 for each in re.split(r" {2,}", far.strip())), far


def test_the_now_line_crosses_empty_lines() -> None:
    """Where nothing is, the now-line shows; where a block is, its own character does."""
    later = made(starts_ns=NOW_NS + 3 * HOUR_NS, ends_ns=NOW_NS + 5 * HOUR_NS)
    text = text_of(timeline.line(later, NEVER_WATCHED, window(), selected=False))
    assert text[timeline.LABEL + 12] == NOW
    current = made(starts_ns=NOW_NS - HOUR_NS, ends_ns=NOW_NS + HOUR_NS)
    text = text_of(timeline.line(current, NEVER_WATCHED, window(), selected=True))
    assert text.startswith(">cb-")
    assert text[timeline.LABEL + 12] == UNKNOWN


def test_marks_differ_in_ascii_too() -> None:
    """The legend's marks stay distinct on a terminal without UTF-8."""
    marks = (UNKNOWN, AHEAD, EXTENDED, SCHEDULED, UNPAID, ENDED, FAILED)
    assert len({twin(mark) for mark in marks}) == len(marks)
