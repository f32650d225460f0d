"""Lines of the chip view's panels: titles, gauges and values with alert marks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.quantities import NOT_AVAILABLE
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui import theme
from trnfleet.tui.chip.marks import Part
from trnfleet.tui.widgets import sparks
from trnfleet.tui.widgets.cells import bar, fit, right

if TYPE_CHECKING:
    from rich.style import Style

    from trnfleet.tui.chip.marks import PartMark
    from trnfleet.tui.chip.reading import ChipFacts
    from trnfleet.tui.widgets.cells import FixedParts

CELL_S = 5
"""Seconds averaged in a cell of a chart."""


class Ink(NamedTuple):
    """Styles of a panel: for live values, or all dim."""

    base: Style
    strong: Style
    quiet: Style
    fill: Style
    chart: Style
    spark: Style
    is_live: bool

    @staticmethod
    def of(freshness: Freshness) -> Ink:
        if freshness is Freshness.LIVE:
            return Ink(
                theme.BASE,
                theme.STRONG,
                theme.QUIET,
                theme.FILL,
                theme.CHART,
                theme.SPARK,
                is_live=True,
            )
        dim = theme.STATE_STYLE[Freshness.STALE]
        return Ink(dim, dim, theme.GHOST, theme.FILL_DIM, theme.GHOST, theme.GHOST, is_live=False)

    def value(self, value: float, style: Style | None = None) -> Style:
        """Return the style of a value: as passed if available, else faint."""
        if math.isnan(value):
            return theme.GHOST
        return style if style is not None and self.is_live else self.base


def title_line(
    facts: ChipFacts,
    name: str,
    figure: str,
    width: int,
    spark: str | None = None,
    of: tuple[str, ...] = (),
) -> FixedParts:
    """Return a panel's first line: name, a rule or a field's history, and main figure.

    An alert about one of the metrics in `of` marks the figure.
    """
    ink = Ink.of(facts.freshness)
    style = ink.value(math.nan) if figure == NOT_AVAILABLE else ink.strong
    mark = next(
        (facts.marks[part] for metric in of if (part := Part(Scope.CHIP, metric)) in facts.marks),
        None,
    )
    if mark is not None:
        figure = noted(f"{mark.glyph}{figure}", mark, width - len(name) - 3)
        style = mark.style
    room = width - len(name) - len(figure) - 2
    if spark is None or room < 6 or not len(facts.series[spark]):
        return (name + " ", ink.strong), ("─" * max(0, room) + " ", theme.RULE), (figure, style)
    field = BY_KEY[spark]
    high = field.peak(facts.chip) if field.peak else 1.0
    series = facts.series[spark]
    # The figure beside it says how much; the line says which way it goes.
    text = sparks.spark(sparks.bucket(series, room - 2, CELL_S, facts.samples), field.low, high)
    return (name + "  ", ink.strong), (text + "  ", ink.spark), (figure, style)


def gauge_line(
    ink: Ink,
    label: str,
    value: float,
    share: float,
    text: str,
    width: int,
    label_width: int,
    note: str = "",
    text_width: int = 10,
    *,
    warns: bool = False,
    mark: PartMark | None = None,
) -> FixedParts:
    """Return a line of label, bar and value.

    A value that warns has a glyph and a colour, unless an alert marks the line.
    """
    warns = warns and ink.is_live
    if warns and mark is None:
        text = theme.SEVERITY_GLYPH[Severity.WARNING] + text.strip()
    if mark is not None and mark.note:
        # What was done about it takes the place of the bar's end.
        text_width = min(width - label_width - len(note) - 1, text_width + len(mark.note) + 2)
        text = noted(text.strip(), mark, text_width)
    warns = warns and (mark is None or not mark.note)
    room = max(1, width - label_width - text_width - len(note))
    return (
        line_name(label, label_width, mark, ink),
        *bar(share, room, theme.FILL_WARNING if warns else ink.fill),
        (
            right(text, text_width),
            ink.value(value, theme.SEVERITY_STYLE[Severity.WARNING] if warns else None),
        ),
        (note, ink.quiet),
    )


def figure_line(
    ink: Ink, label: str, text: str, style: Style, mark: PartMark | None, width: int
) -> FixedParts:
    """Return a line of a label and a value."""
    room = max(1, width - 14)
    if mark is not None:
        text = noted(text, mark, room)
        style = mark.style if ink.is_live else style
    return line_name(label, 14, mark, ink), (right(text, room), style)


def line_name(label: str, cells: int, mark: PartMark | None, ink: Ink) -> tuple[str, Style]:
    """Return the name of a line, preceded by its alert's glyph."""
    if mark is None:
        return fit(f" {label}", cells), ink.quiet
    return fit(f"{mark.glyph}{label}", cells), mark.style


def noted(text: str, mark: PartMark, room: int) -> str:
    """Return a value, preceded by its alert's handling if there is room."""
    if not mark.note:
        return text
    for note in (mark.note, mark.note.partition(" ")[0]):
        if len(note) + 2 + len(text) <= room:
            return f"{note}  {text}"
    return text
