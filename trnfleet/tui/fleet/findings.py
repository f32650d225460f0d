"""The list of findings: what an operator should look at first, with a cursor that the heat map follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from trnfleet.domain.quantities import count
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.view import View
from trnfleet.tui.widgets.cursor_list import RowList
from trnfleet.tui.widgets.line_view import Line, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

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


class FindingsList(RowList["tuple[str, str, str]", "Finding"]):
    """Findings, one a line; the cursor is shown while the list has the keys."""

    HELP_TITLE = "Fleet: findings"
    DEFAULT_CSS = "FindingsList { scrollbar-gutter: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "enter", "go to the finding's place"),
    ]

    def __init__(self, monitor: FleetState, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.monitor = monitor

    def key_of(self, row: Finding) -> tuple[str, str, str]:
        """Return what stays while words and figures change."""
        return row.identity

    def tick(self, limit: int | None = None) -> int:
        """Take the monitor's findings, then paint what changed."""
        if self.rows is not self.monitor.findings.shown:
            self.put(self.monitor.findings.shown)
        return super().tick(limit)

    def empty_lines(self) -> Sequence[tuple[str, Style]]:
        if not self.monitor.store.layout.instances:
            return [(" no telemetry yet", theme.GHOST)]
        return [(" nothing needs a look", theme.QUIET)]

    def row_lines(self, rows: range, width: int) -> list[Line]:
        """Return the lines of findings, whose addresses share a column as wide as the longest of them."""
        most = int(width * _ADDRESS_SHARE)
        findings = [self.rows[number] for number in rows]
        addresses = [shortened(plain(finding.path), most) for finding in findings]
        room = max(map(len, addresses))
        made: list[Line] = []
        for number, finding, address in zip(rows, findings, addresses, strict=True):
            selected = self.has_focus and number == self.row
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

    def action_enter(self) -> None:
        if self.picked is not None:
            self.post_message(View.Open(self.picked.path))

    def on_mount(self) -> None:
        """Take what there is, so that the first picture has it."""
        self.put(self.monitor.findings.shown)

    def on_focus(self) -> None:
        """Show the cursor, and where it points to."""
        self.put(self.monitor.findings.shown)
        if self.picked is not None:
            self.point(self.row)
        else:
            self.tick()

    def on_blur(self) -> None:
        self.tick()
