"""The list of findings: what an operator should look at first, with a cursor that the heat map follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from trnfleet.domain.quantities import count
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.view import View
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from textual import events

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.findings import Finding, Findings
    from trnfleet.tui.widgets.cells import Parts

_ADDRESS_SHARE = 0.5
"""Of the width, at most, for addresses."""


def title(findings: Findings, room: int = 80) -> Parts:
    """Return the list's head: how many there are, and how many of them can be seen here."""
    shown, total = len(findings.shown), findings.total
    parts: Parts = [(" Needs a look ", theme.STRONG)]
    if total:
        amount = count(total) if shown == total else f"the first {count(shown)} of {count(total)}"
        parts.append((amount[: max(0, room)], theme.QUIET))
    return parts


class WorstList(LineView):
    """Findings, one a line; the cursor stays on its finding while others come and go."""

    HELP_TITLE = "Fleet: findings"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "previous finding"),
        Binding("down,j", "move(1)", "next finding"),
        Binding("pageup", "page(-1)", "page up"),
        Binding("pagedown", "page(1)", "page down"),
        Binding("home,g", "move(-1000000)", "first finding"),
        Binding("end,G", "move(1000000)", "last finding"),
        Binding("enter", "enter", "go to the finding's place"),
    ]

    class Pointed(Message):
        """The cursor is on a finding at another address."""

        def __init__(self, address: str) -> None:
            super().__init__()
            self.address = address

    def __init__(self, monitor: FleetState, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = monitor
        self._chosen: Finding | None = None
        self._row = 0

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor."""
        shown = self.monitor.findings.shown
        return shown[self._row] if self._row < len(shown) else None

    def tick(self, limit: int | None = None) -> int:
        """Keep the cursor on its finding, then paint what changed."""
        shown = self.monitor.findings.shown
        if self._chosen is not None and self.finding != self._chosen:
            self._row = _row_of(shown, self._chosen, self._row)
            self._chosen = self.finding
        self.set_extent(0, len(shown))
        return super().tick(limit)

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return the findings in the window."""
        shown = self.monitor.findings.shown
        if not shown:
            if not self.monitor.store.layout.instances:
                return [text_line([(" no telemetry yet", theme.GHOST)], width)]
            return [text_line([(" nothing needs a look", theme.QUIET)], width)]
        # Until the list is laid out again it is scrolled to where a longer one ended.
        top = max(0, min(top, len(shown) - height))
        visible = shown[top : top + height]
        most = int(width * _ADDRESS_SHARE)
        addresses = [shortened(plain(finding.path), most) for finding in visible]
        room = max(map(len, addresses))
        made: list[Line] = []
        for number, (finding, address) in enumerate(zip(visible, addresses, strict=True)):
            selected = self.has_focus and top + number == self._row
            glyph = theme.SEVERITY_GLYPH[finding.severity]
            what = plain(finding.what) + (f", {count(finding.chips)} chips" if finding.chips > 1 else "")
            body = theme.SELECTED if selected else theme.BASE
            made.append(
                text_line(
                    [
                        (">" if selected else " ", body),
                        (
                            f"{glyph} ",
                            theme.SELECTED if selected else theme.SEVERITY_STYLE[finding.severity],
                        ),
                        (f"{address.ljust(room)}  ", body),
                        (what, theme.SELECTED_QUIET if selected else theme.QUIET),
                    ],
                    width,
                    theme.SELECTED_QUIET if selected else theme.BASE,
                )
            )
        return made

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        shown = self.monitor.findings.shown
        if not shown:
            return
        self._row = min(max(self._row + step, 0), len(shown) - 1)
        self._point()

    def action_page(self, step: int) -> None:
        """Move the cursor by what is visible."""
        self.action_move(step * max(1, self.size.height - 1))

    def action_enter(self) -> None:
        """Go where the finding is."""
        if self.finding is not None:
            self.post_message(View.Open(self.finding.path))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the finding under the pointer; go there on the second click."""
        row = self.top + event.y
        if row < len(self.monitor.findings.shown):
            self._row = row
            self._point()
            if event.chain == 2:
                self.action_enter()

    def on_focus(self) -> None:
        """Show the cursor, and where it points to."""
        if self.finding is not None:
            self._point()
        else:
            self.tick()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.tick()

    def _point(self) -> None:
        self._chosen = self.finding
        top, height = self.top, max(1, self.scrollable_content_region.height)
        if self._row < top:
            self.scroll_to(y=self._row, animate=False, force=True)
        elif self._row >= top + height:
            self.scroll_to(y=self._row - height + 1, animate=False, force=True)
        self.tick()
        if self._chosen is not None:
            self.post_message(self.Pointed(self._chosen.path))


def _row_of(shown: tuple[Finding, ...], chosen: Finding, row: int) -> int:
    """Return where a finding is now, or where the cursor was if it is gone."""
    for number, finding in enumerate(shown):
        if finding.identity == chosen.identity:
            return number
    return max(0, min(row, len(shown) - 1))
