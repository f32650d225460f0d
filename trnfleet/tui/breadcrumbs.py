"""The line below the header: the path to the present place, and the views; pure functions without a widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.widgets.cells import Parts, fit, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.notifications import Notice

BETWEEN = " > "
_NOTICE_FROM = 48
"""Cells from which an event's words make sense; for fewer, the views' titles and the beginning of the way go."""


def crumbs(address: str, room: int) -> Parts:
    """Return an address as a way from the fleet down, without its beginning where there is little room."""
    segments = ["fleet", *(plain(segment) for segment in address.split("/") if segment)]
    shown = segments
    while len(shown) > 1 and _width(shown, len(shown) < len(segments)) > room:
        shown = shown[1:]
    parts: Parts = [(" … > " if len(shown) < len(segments) else " ", theme.GHOST)]
    for number, segment in enumerate(shown):
        is_last = number == len(shown) - 1
        parts.append((segment, theme.STRONG if is_last else theme.QUIET))
        if not is_last:
            parts.append((BETWEEN, theme.GHOST))
    return parts


def tabs(views: Iterable[tuple[str, str]], active: str, *, short: bool = False, bare: bool = False) -> Parts:
    """Return (key, title) of the views, the active one marked by brackets as well as by colour.

    Args:
        views: Key and title of each.
        active: Title of the one on the screen.
        short: Whether the others' titles go.
        bare: Whether all titles go.
    """
    parts: Parts = []
    for key, title in views:
        is_active = title == active
        text = key if bare or (short and not is_active) else f"{key} {title}"
        parts.append((f"[{text}]" if is_active else f" {text} ", theme.LINK if is_active else theme.QUIET))
    return parts


def breadcrumbs(
    address: str,
    views: list[tuple[str, str]],
    active: str,
    width: int,
    event: Event | Notice | None = None,
    picked: str = "",
) -> Parts:
    """Return the whole line: the way on the left, the views on the right, and between them news for a while.

    Args:
        address: Where one is.
        views: Key and title of each view.
        active: Title of the one on the screen.
        width: Of the line, in cells.
        event: The notice that is shown for a while.
        picked: Words about the highlighted reservation; shown while there is no notice.
    """
    right = tabs(views, active)
    way = crumbs(address, width)
    is_tight = event is not None and width < width_of(right) + width_of(way) + _NOTICE_FROM
    if width < width_of(right) + 24 or is_tight:
        right = tabs(views, active, short=True, bare=event is not None or width < 60)
    room = width - width_of(right) - 2
    if event is None:
        left = crumbs(address, room)
        if picked and width_of(left) + len(picked) + 2 > room:
            right = tabs(views, active, short=True, bare=True)
            room = width - width_of(right) - 2
            # The highlight may shorten the path to its end, as a notice may.
            least = len(address.rpartition("/")[2]) + 5
            left = crumbs(address, max(min(room, least), room - len(picked) - 2))
        if picked and width_of(left) + 14 < room:
            left.append((f"  {fit(picked, room - width_of(left) - 2).rstrip()}", theme.LINK))
    else:
        # A notice may shorten the path to its end, which the views show once more.
        left = crumbs(address, max(min(room, len(address.rpartition("/")[2]) + 5), room - _NOTICE_FROM))
        left += notice(event, width - width_of(left) - width_of(right) - 1)
    return [*left, (" " * max(1, width - width_of(left) - width_of(right)), theme.BASE), *right]


def notice(event: Event | Notice, room: int) -> Parts:
    """Return an event or alert in at most `room` cells: its severity as a sign, where it happened and what it is."""
    glyph, style = theme.SEVERITY_GLYPH[event.severity], theme.SEVERITY_STYLE[event.severity]
    where = last_segments(plain(event.path))
    text = f"{glyph} {where + ': ' if where else ''}{plain(event.text)}"
    if room < 12:
        return []
    return [("  ", theme.BASE), (fit(text, room - 2).rstrip(), style)]


def _width(segments: list[str], is_cut: bool) -> int:
    return sum(map(len, segments)) + len(BETWEEN) * (len(segments) - 1) + (5 if is_cut else 1)
