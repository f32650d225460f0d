"""The line of tabs: all views by their keys, in fixed cells.

Tabs move only if the terminal's width changes. Pure functions.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui import theme
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.style import Style

    from trnfleet.tui.widgets.cells import Parts

COUNT_ROOM = 4
"""Cells of a count: a colon, and at most three characters."""


class Tab(NamedTuple):
    """A view as the tabs know it."""

    key: str
    title: str
    short: str
    """Title in little room."""
    has_count: bool = False


class TabCount(NamedTuple):
    """The number at a tab."""

    number: int | None
    """None if not yet known."""
    style: Style | None = None
    """Colour of a severity. None for the text colour."""


class TabForm(enum.Enum):
    """How much of each tab is shown.

    It depends on width alone, so that tabs do not move.
    """

    WIDE = enum.auto()
    FULL = enum.auto()
    SHORT = enum.auto()
    KEYS = enum.auto()
    """Keys alone, with the title of the active one behind all of them."""


def form_for(tabs: Sequence[Tab], width: int) -> TabForm:
    """Return the longest form that fits a width."""
    counts = sum(COUNT_ROOM for tab in tabs if tab.has_count)
    frame = 2 * len(tabs) + counts
    full, short = (
        sum(len(name) for name in names)
        for names in ([tab.title for tab in tabs], [tab.short for tab in tabs])
    )
    for form, room in (
        (TabForm.WIDE, full + frame + 2 * len(tabs)),
        (TabForm.FULL, full + frame + len(tabs) + 1),
        (TabForm.SHORT, short + frame + len(tabs) + 1),
    ):
        if room <= width:
            return form
    return TabForm.KEYS


def tabs_line(
    tabs: Sequence[Tab], active: str, counts: Mapping[str, TabCount], width: int
) -> Parts:
    """Return the tabs, the active one in brackets.

    Args:
        tabs: All of them.
        active: Title of the view on the screen.
        counts: Numbers by title; 0 is not shown, but has its room.
        width: Cells.
    """
    form = form_for(tabs, width)
    if form is TabForm.KEYS:
        return _keys(tabs, active, width)
    gap = " " if form is TabForm.WIDE else ""
    parts: Parts = []
    is_open = False
    for tab in tabs:
        is_active = tab.title == active
        name = tab.short if form is TabForm.SHORT else tab.title
        target = ClickTarget(TargetKind.VIEW, tab.title)
        # Neighbours share a cell for the bracket of one of them.
        edge = "[" if is_active else "]" if is_open and not gap else " "
        parts.append((edge, theme.LINK))
        parts.append((f"{tab.key} ", linked(theme.LINK if is_active else theme.STRONG, target)))
        parts.append((name, linked(theme.LINK if is_active else theme.BASE, target)))
        is_open = is_active
        if tab.has_count:
            counted = _count(counts.get(tab.title), is_active=is_active, target=target)
            is_open = is_active and not any(text == "]" for text, _ in counted)
            parts += counted
        if gap:
            parts.append(("]" if is_open else " ", theme.LINK))
    if not gap:
        parts.append(("]" if is_open else " ", theme.LINK))
    return parts


def count_text(number: int) -> str:
    """Return a number in at most three characters."""
    if number < 1_000:
        return str(number)
    return f"{number // 1_000}k" if number < 100_000 else "99k"


def _count(count: TabCount | None, *, is_active: bool, target: ClickTarget) -> Parts:
    """Return a number in its room.

    The closing bracket of the active tab follows if there is room.
    """
    parts: Parts = []
    left = COUNT_ROOM
    if count is not None and count.number != 0:
        text = ":?" if count.number is None else f":{count_text(count.number)}"
        style = count.style or (theme.LINK if is_active else theme.STRONG)
        parts.append((text, linked(style, target)))
        left -= len(text)
    if is_active and left:
        parts.append(("]", theme.LINK))
        left -= 1
    return [*parts, (" " * left, linked(theme.BASE, target))]


def _keys(tabs: Sequence[Tab], active: str, width: int) -> Parts:
    parts: Parts = []
    was_active = False
    for tab in tabs:
        is_active = tab.title == active
        parts.append(("[" if is_active else "]" if was_active else " ", theme.LINK))
        style = theme.LINK if is_active else theme.STRONG
        parts.append((tab.key, linked(style, ClickTarget(TargetKind.VIEW, tab.title))))
        was_active = is_active
    parts.append(("]" if was_active else " ", theme.LINK))
    used = 2 * len(tabs) + 1
    if used + 1 + len(active) <= width:
        parts.append((f" {active}", theme.LINK))
    return parts
