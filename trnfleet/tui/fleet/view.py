"""The Fleet view: heat map, legend, what is selected, the worst things and the jobs beside it.

It says in words what the map shows in colours, and shares lines of output out among its widgets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container

from trnfleet.domain.quantities import with_unit
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.fleet.findings import FindingsList, title
from trnfleet.tui.fleet.heatmap import HeatMap
from trnfleet.tui.fleet.heatmap_pixels import Trust, is_count
from trnfleet.tui.fleet.heatmap_style import MISSING_GLYPH, OFFLINE_GLYPH, PARTLY_GLYPH, STALE_GLYPH
from trnfleet.tui.fleet.jobs import JobList
from trnfleet.tui.fleet.trends import LEAST_ROWS, MOST_ROWS, Trends
from trnfleet.tui.format.alerts import tally_text, worst_of
from trnfleet.tui.metric_display import SELECTION
from trnfleet.tui.view import View
from trnfleet.tui.widgets.bar import Bar, justified
from trnfleet.tui.widgets.cells import Parts, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.state.context import UiContext

MAP_EVERY_S = 0.25
"""Seconds between two repaints of the map for new values; keys repaint it at once."""
TRUST_WORDS = {
    Trust.LIVE: "live",
    Trust.PARTLY: "partly silent",
    Trust.STALE: "stale: last known value",
    Trust.OFFLINE: "offline",
    Trust.UNKNOWN: "not heard yet",
    Trust.NOTHING: "",
}


class FleetView(View):
    """The first thing the eye meets."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,tab", "switch", "between heat map and findings"),
    ]

    def __init__(self, context: UiContext) -> None:
        super().__init__(context)
        self.map = HeatMap(context, id="map")
        self.findings = FindingsList(self.monitor, id="findings")
        self.jobs = JobList(context, id="jobs")
        self.trends = Trends(self.monitor, id="trends")
        self._map_side = Container(id="map-side")
        self._lent_rows = 0
        self._legend = Bar(id="legend")
        self._selection = Bar(id="selection")
        self._findings_head = Bar(id="findings-head")
        self._jobs_head = Bar(id="jobs-head")
        self._mapped_s = -math.inf
        self._mapped = (-1, -1, -1)
        """Revisions of store, roll-ups and alerts that the map shows."""

    def compose(self) -> ComposeResult:
        with self._map_side:
            yield self._legend
            yield self.map
            yield self.trends
            yield self._selection
        with Container(id="list-side"):
            yield self._findings_head
            yield self.findings
            yield self._jobs_head
            yield self.jobs

    def on_mount(self) -> None:
        self._write()

    @property
    def place(self) -> str:
        """What the map's cursor is on, or the finding that it follows, which may be deeper than the map shows."""
        finding = self.findings.picked if self.findings.has_focus else None
        return self.map.place if finding is None else finding.path

    def show_place(self, address: str) -> None:
        self.map.show_place(address)
        self._write()

    def take_focus(self) -> None:
        """The keys are the map's."""
        self.map.focus(scroll_visible=False)

    def renew(self) -> None:
        """Paint the map at the next tick: another monitor is shown."""
        self._mapped, self._mapped_s = (-1, -1, -1), -math.inf

    def tick(self, allowance: int) -> int:
        """Paint what changed: lists first, which are short, then the map, which is not painted every time."""
        self._share_space()
        store, rollups = self.monitor.store, self.monitor.rollups
        mark = store.revision, rollups.revision, self.context.alerts.revision
        if mark == self._mapped:
            # Nothing here shows an age.
            return 0
        painted = self.findings.tick(allowance) + self.jobs.tick(allowance)
        now_s = self.clock.monotonic_s()
        if allowance > painted and now_s - self._mapped_s >= MAP_EVERY_S:
            self._mapped_s, self._mapped = now_s, mark
            painted += self.map.tick(allowance - painted)
            if self._lent_rows and allowance > painted:
                painted += self.trends.tick(allowance - painted)
            self._write()
        return painted

    def on_resize(self) -> None:
        """Divide the space again, once the map knows its size."""
        self.call_after_refresh(self._share_space)

    def _share_space(self) -> None:
        """Lend the rows that the map leaves empty to the trends, or take them back."""
        # Legend and selection take a row each.
        rows = self._map_side.size.height - 2
        if rows <= 0 or not self.map.grid.groups:
            return
        self.map.give_room(rows)
        spare = min(MOST_ROWS, rows - self.map.zoom.extent(self.map.grid)[1])
        lent = spare if spare >= LEAST_ROWS and self.monitor.history.samples else 0
        if lent != self._lent_rows:
            self._lent_rows = lent
            self.trends.styles.height = lent
            self.trends.display = lent > 0

    def action_switch(self) -> None:
        """Move the focus between map and findings."""
        if self.map.has_focus and self.findings.region.height:
            self.findings.focus(scroll_visible=False)
        else:
            self.map.focus(scroll_visible=False)

    @on(View.Moved)
    def _moved(self) -> None:
        self._share_space()
        self._write()

    @on(FindingsList.Changed)
    def _pointed(self, message: FindingsList.Changed) -> None:
        message.stop()
        finding = self.findings.picked
        if finding is not None:
            self.map.show_place(finding.path)
            self._write()
            self.post_message(View.Moved(finding.path))

    def _write(self) -> None:
        self._legend.show(lambda width: [legend(self.map, width)])
        alerts = self.context.alerts.touching(self.map.place)
        self._selection.show(lambda width: [selection(self.map, width, alerts)])
        self._findings_head.show(lambda width: [title(self.monitor.findings, width - 15)])
        jobs = len(self.monitor.ingest.jobs)
        # The head's columns are those of the lines below it, which a scroll bar may make narrower.
        self._jobs_head.show(lambda _width: [self.jobs.head(jobs)])


def legend(heat: HeatMap, width: int) -> Parts:
    """Return the map's head: the field, its scale from end to end, and what a pixel is."""
    field, (low, high) = heat.field, heat.scale()
    parts: Parts = [(f" {field.title} ", theme.STRONG), (f" {end_text(low, field.unit)} ", theme.QUIET)]
    if heat.ink.digits:
        parts.append(("01234567", theme.BASE))
    else:
        wide = 2 if width < 100 else 3
        parts.extend((" " * wide, Style(bgcolor=color)) for color in theme.RAMP)
    parts.append((f" {end_text(high, field.unit)}", theme.QUIET))
    total = ", events in all" if is_count(field) and heat.zoom.chips > 1 else ""
    right: Parts = [(f"1 pixel = {heat.zoom.title}{total} ", theme.QUIET)]
    marks = f"{STALE_GLYPH} stale  {PARTLY_GLYPH} partly  {OFFLINE_GLYPH} offline  {MISSING_GLYPH} n/a   "
    if width_of(parts) + width_of(right) + len(marks) + 2 <= width:
        right.insert(0, (marks, theme.GHOST))
    return justified(parts, right, width, theme.BASE)


def end_text(value: float, unit: str) -> str:
    """Return a value at an end of the scale: a round number, so without tenths."""
    if unit in {"%", "degC"}:
        return with_unit(value, unit).replace(".0 ", " ")
    return with_unit(value, unit)


def selection(heat: HeatMap, width: int, alerts: Sequence[AlertWithStatus] = ()) -> Parts:
    """Return what the cursor is on: its address, its value, whether that is live, alerts, and more where there is room.

    Args:
        heat: The map.
        width: Cells.
        alerts: Alerts there.
    """
    if not heat.grid.groups:
        return []
    value, trust = heat.reading(heat.field)
    place = plain(heat.place)
    if heat.zoom.unit is None:
        place += " and its neighbours"
    shown = with_unit(value, heat.field.unit)
    words = TRUST_WORDS[Trust(trust)]
    parts: Parts = [
        (" [ ] ", theme.QUIET),
        (place, theme.STRONG),
        (f"  {heat.field.title} {shown}", theme.LINK),
    ]
    if width_of(parts) > width:
        parts[1] = (place.partition("/")[2] or place, theme.STRONG)
    parts.append((f"  {words}", theme.QUIET if trust == Trust.LIVE else theme.BAR_ALERT))
    if alerts:
        parts.append((f"  {tally_text([*alerts])}", theme.SEVERITY_STYLE[worst_of([*alerts])]))
    for field in SELECTION:
        if field is heat.field:
            continue
        text = f"  {field.title} {with_unit(heat.reading(field)[0], field.unit)}"
        if width_of(parts) + len(text) > width:
            break
        parts.append((text, theme.QUIET))
    return parts
