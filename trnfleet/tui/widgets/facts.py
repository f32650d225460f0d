"""Facts with their names, below each other: the details of an alert or an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import FixedParts, fit, wrapped

if TYPE_CHECKING:
    from rich.style import Style

NAME = 12
"""Cells of a fact's name."""
_MOST_LINES = 6
"""Lines of one fact, such as what to do."""
_SIGN_FROM = 4
"""Lines from which one of them tells what is left out."""


class Fact(NamedTuple):
    """A fact with its name."""

    name: str
    words: str
    style: Style | None = None
    """None for that of text."""


def fact_lines(facts: list[Fact], width: int, height: int) -> list[FixedParts]:
    """Return facts below each other, each in as many lines as it needs, at most `height` in all.

    Where not all fit, quiet ones at the end are left out, then long ones are cut, to two lines at the least. What is left out
    beyond that is named in the last line.
    """
    name_cells = max(NAME, *(len(fact.name) for fact in facts[:1])) if facts else NAME
    room = max(1, width - name_cells - 3)
    wanted = [(fact, _lines_of(fact, room, _MOST_LINES)) for fact in facts]
    told = [lines for fact, lines in wanted if fact.style != theme.QUIET]
    most = next(
        (
            most
            for most in range(_MOST_LINES, 2, -1)
            if sum(min(each, most) for each in told) <= height
        ),
        2,
    )
    made, shown = _laid_out(wanted, most, name_cells, room, height)
    if height >= _SIGN_FROM and any(fact.style != theme.QUIET for fact in facts[shown:]):
        made, shown = _laid_out(wanted, most, name_cells, room, height - 1)
        names = ", ".join(fact.name for fact in facts[shown:] if fact.style != theme.QUIET)
        made.append(
            ((f" {'…':{name_cells}} ", theme.QUIET), (fit(names, room).rstrip(), theme.QUIET))
        )
    return made


def _laid_out(
    wanted: list[tuple[Fact, int]], most: int, name_cells: int, room: int, height: int
) -> tuple[list[FixedParts], int]:
    """Return the lines of the facts that begin within a height, none longer than `most` or the rest of it, and how many facts these are."""
    made: list[FixedParts] = []
    shown = 0
    for fact, lines in wanted:
        if len(made) >= height:
            break
        shown += 1
        is_sign = fact.name[:1] in theme.SEVERITY_GLYPH.values()
        name_style = _sign_style(fact.name) if is_sign else theme.QUIET
        for number, text in enumerate(
            wrapped(fact.words, room, min(lines, most, height - len(made)))
        ):
            name = "" if number else fact.name
            made.append(
                ((f" {fit(name, name_cells)} ", name_style), (text, fact.style or theme.BASE))
            )
    return made, shown


def _lines_of(fact: Fact, room: int, most: int) -> int:
    """Return the lines that a fact takes: some words are broken before the line is full."""
    for lines in range(1, most):
        if "…" not in wrapped(fact.words, room, lines)[-1] or not fact.words:
            return lines
    return most


def _sign_style(text: str) -> Style:
    severity = next(each for each, glyph in theme.SEVERITY_GLYPH.items() if text.startswith(glyph))
    return theme.SEVERITY_STYLE[severity]
