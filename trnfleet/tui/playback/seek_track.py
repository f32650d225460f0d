"""A playback at one moment, and the bar that shows where in its recording that is: cells, times, marks; pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.severity import Severity
from trnfleet.tui import theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from trnfleet.monitor.replay.marks import Mark
    from trnfleet.monitor.replay.playback import Mode, Playback
    from trnfleet.tui.widgets.cells import Parts

    Marked = dict[int, tuple[str, Style]]
    """Sign and style by cell of the bar."""

HERE, KNOWN, UNKNOWN, NOT_YET = "┃", "─", "┄", " "
"""Where one is, what has been looked through, what has not, and what is yet to come: told by shape, not by colour alone."""
ALERT_GLYPH = theme.SEVERITY_GLYPH
EVENT_GLYPH = {Severity.CRITICAL: "!", Severity.WARNING: "▵", Severity.INFO: "·"}
"""Events have smaller signs than alerts of the same severity."""
RESOLVED_GLYPH = "○"
SIGNS = (
    (" ".join(ALERT_GLYPH.values()), "An alert begins to fire"),
    (RESOLVED_GLYPH, "An alert is resolved"),
    (" ".join(EVENT_GLYPH.values()), "An event"),
    (HERE, "Where you are"),
    (UNKNOWN, "Not looked through yet"),
    ("≈", "Alerts are not yet what they were then"),
)
"""What the bar's signs mean, for the help."""
_SURVEY_LAG_NS = 3 * NS_PER_S
"""What lies between the present and the last look at it, which nobody needs to be told of."""
_STEPS = 16
"""Steps of the scale in a span, at least, where the present goes on."""
_ALERT_RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 5}
_EVENT_RANK = {Severity.CRITICAL: 2, Severity.WARNING: 3, Severity.INFO: 6}
_RESOLVED_RANK = 4
"""The lowest rank of a cell is drawn."""


class Seek(NamedTuple):
    """A playback at one moment, as far as the seek bar tells of it."""

    mode: Mode
    is_live_possible: bool
    rate: float
    reached_rate: float
    loops: bool
    seeking: bool
    is_exact: bool
    alerts_since_ns: int | None
    position_ns: int
    start_ns: int
    end_ns: int
    surveyed_ns: int

    @staticmethod
    def of(playback: Playback) -> Seek:
        """Read a playback."""
        return Seek(
            playback.mode,
            playback.is_live_possible,
            playback.rate,
            playback.reached_rate,
            playback.loops,
            playback.seeking,
            playback.is_exact,
            playback.alerts_since_ns,
            playback.position_ns,
            playback.start_ns,
            playback.end_ns,
            playback.surveyed_ns,
        )

    @property
    def span_ns(self) -> int:
        """How much there is."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def scale_ns(self) -> int:
        """How much the bar's cells stand for: of a file all there is; with a present that goes on, up to a sixteenth more.

        It grows in steps, so that marks stand still for a while instead of creeping, each at its own moment.
        """
        if not self.is_live_possible:
            return self.span_ns
        step_ns = NS_PER_S << max(0, (self.span_ns // (_STEPS * NS_PER_S)).bit_length() - 1)
        return -(-self.span_ns // step_ns) * step_ns

    @property
    def behind_s(self) -> float:
        """Seconds from the place to the end."""
        return max(0, self.end_ns - self.position_ns) / NS_PER_S


def cell_of(time_ns: int, seek: Seek, cells: int) -> int:
    """Return the cell of the bar for a time: the first for its begin, the last for the end of its scale."""
    if seek.span_ns <= 0 or cells <= 1:
        return 0
    share = (min(max(time_ns, seek.start_ns), seek.end_ns) - seek.start_ns) / seek.scale_ns
    return round(share * (cells - 1))


def time_at(cell: int, seek: Seek, cells: int) -> int:
    """Return the time of a cell of the bar; what lies beyond its ends is the end."""
    if cells <= 1:
        return seek.start_ns
    if cell >= cell_of(seek.end_ns, seek, cells):
        return seek.end_ns
    return seek.start_ns + seek.scale_ns * max(cell, 0) // (cells - 1)


def mark_look(mark: Mark) -> tuple[int, str, Style]:
    """Return a mark's rank (the lowest is drawn where several share a cell), its sign and its style."""
    if mark.kind == "resolved":
        return _RESOLVED_RANK, RESOLVED_GLYPH, theme.BAR_SEEK_QUIET
    style = theme.SEEK_SEVERITY[mark.severity]
    if mark.kind == "alert":
        return _ALERT_RANK[mark.severity], ALERT_GLYPH[mark.severity], style
    return _EVENT_RANK[mark.severity], EVENT_GLYPH[mark.severity], style


def marked_cells(marks: Sequence[Mark], seek: Seek, cells: int) -> Marked:
    """Return sign and style of the cells of the bar in which something happened: of the worst in each."""
    found: dict[int, tuple[int, str, Style]] = {}
    for mark in marks:
        if seek.start_ns <= mark.time_ns <= seek.end_ns:
            cell, look = cell_of(mark.time_ns, seek, cells), mark_look(mark)
            if cell not in found or look[0] < found[cell][0]:
                found[cell] = look
    return {cell: (glyph, style) for cell, (_, glyph, style) in found.items()}


def track(seek: Seek, cells: int, marked: Marked) -> Parts:
    """Return the bar itself: what is behind and ahead, how far it has been looked through, marks, and where one is."""
    here = cell_of(seek.position_ns, seek, cells)
    is_known = seek.end_ns - seek.surveyed_ns <= _SURVEY_LAG_NS
    known = cells if is_known else cell_of(seek.surveyed_ns, seek, cells)
    last = cell_of(seek.end_ns, seek, cells)
    parts: Parts = []
    for cell in range(cells):
        if cell == here:
            text, style = HERE, theme.BAR_SEEK_STRONG
        elif cell in marked:
            text, style = marked[cell]
        else:
            text = NOT_YET if cell > last else KNOWN if cell <= known else UNKNOWN
            style = theme.BAR_SEEK_DONE if cell < here else theme.BAR_SEEK_QUIET
        if parts and parts[-1][1] is style:
            parts[-1] = (parts[-1][0] + text, style)
        else:
            parts.append((text, style))
    return parts
