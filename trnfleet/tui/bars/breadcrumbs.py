"""The line below the tabs: the path to the place, and temporary news.

Pure functions without a widget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from trnfleet.domain.address import NO_NAMES, Names
from trnfleet.monitor.store.events import Event
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.bars.tour import Tour, tour_parts, tour_width
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.view import ALERTS, EVENTS
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from trnfleet.tui.notifications import AlertNotice

BETWEEN = " > "
_NOTICE_FROM = 48
"""Fewest cells for a readable event. With fewer, the path loses its beginning."""
_LEAST_NOTICE = 12


def crumbs(address: str, room: int, root: str = "fleet", shown: Names = NO_NAMES) -> Parts:
    """Return an address as a path from the fleet, without its beginning in little room.

    Each segment but the last links to its place.
    """
    segments = address.split("/") if address else []
    paths = ("/".join(segments[: number + 1]) for number in range(len(segments)))
    names = [plain(root, 32), *map(shown.segment, paths)]
    first = 0
    while first < len(names) - 1 and _width(names[first:], first > 0) > room:
        first += 1
    parts: Parts = [(" … > " if first else " ", theme.GHOST)]
    for number in range(first, len(names)):
        is_last = number == len(names) - 1
        above = "/".join(segments[:number])
        style = (
            theme.STRONG if is_last else linked(theme.QUIET, ClickTarget(TargetKind.PLACE, above))
        )
        parts.append((names[number], style))
        if not is_last:
            parts.append((BETWEEN, theme.GHOST))
    return parts


def breadcrumbs(
    address: str,
    width: int,
    event: Event | AlertNotice | Tour | None = None,
    picked: str = "",
    root: str = "fleet",
    names: Names = NO_NAMES,
) -> Parts:
    """Return the whole line: the path, and behind it news, the highlight or the tour.

    Args:
        address: What is shown.
        width: Of the line, in cells.
        event: The notice, or the tour, that is shown for a while.
        picked: Words about the highlighted reservation; shown while there is no notice.
        root: What the fleet is called.
        names: Display names.
    """
    tour_cells = 0
    if isinstance(event, Tour):
        tour_cells = 0 if picked or event.is_over else tour_width()
        event = None
    beside = _NOTICE_FROM if event is not None else len(picked) + 2 if picked else tour_cells
    # Text beside the path may shorten the path to its end. The view repeats the end.
    least = cell_len(names.segment(address)) + 5
    parts = crumbs(address, max(min(width, least), width - beside) - 1, root, names)
    room = width - width_of(parts)
    if event is not None:
        return [*parts, *notice(event, room - 1, names)]
    if picked and room > _LEAST_NOTICE:
        parts.append((f"  {fit(picked, room - 2).rstrip()}", theme.LINK))
    if tour_cells:
        parts += tour_parts(room)
    return parts


def notice(event: Event | AlertNotice, room: int, names: Names = NO_NAMES) -> Parts:
    """Return an event or alert in at most `room` cells: sign, place and text.

    It links to the place of an event, or to the list with it.
    """
    if room < _LEAST_NOTICE:
        return []
    glyph = theme.SEVERITY_GLYPH[event.severity]
    style = theme.SEVERITY_STYLE[event.severity]
    where = last_segments(plain(names.address(event.path)))
    if not isinstance(event, Event) and event.fleet:
        where = f"{plain(event.fleet)} {where}".rstrip()
    text = f"{glyph} {where + ': ' if where else ''}{plain(event.text)}"
    if not isinstance(event, Event):
        target = (
            ClickTarget(TargetKind.FLEET, event.fleet)
            if event.fleet
            else ClickTarget(TargetKind.VIEW, ALERTS)
        )
    elif event.path:
        target = ClickTarget(TargetKind.PLACE, event.path)
    else:
        target = ClickTarget(TargetKind.VIEW, EVENTS)
    return [("  ", theme.BASE), (fit(text, room - 2).rstrip(), linked(style, target))]


def _width(segments: list[str], is_cut: bool) -> int:
    return sum(map(cell_len, segments)) + len(BETWEEN) * (len(segments) - 1) + (5 if is_cut else 1)
