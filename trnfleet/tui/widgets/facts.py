"""Facts with their names, below each other: the details of an alert or an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import MOST_LINES, FixedParts, fit, wrapped

if TYPE_CHECKING:
    from rich.style import Style

NAME = 12
"""Cells of a fact's name."""
_SIGN_FROM = 4
"""Least lines for spending one on the facts left out."""


class Fact(NamedTuple):
    """A fact with its name."""

    name: str
    words: str
    style: Style | None = None
    """None for that of text."""


def fact_lines(facts: list[Fact], width: int, height: int) -> list[FixedParts]:
    """Return facts below each other, at most `height` lines in all.

    If not all fit, quiet ones at the end are left out, then long ones are cut to no less than two
    lines. The last line names all further omissions.
    """
    name_cells = max(NAME, *(len(fact.name) for fact in facts[:1])) if facts else NAME
    room = max(1, width - name_cells - 3)
    heights = [(fact, _lines_of(fact, room, MOST_LINES)) for fact in facts]
    told = [lines for fact, lines in heights if fact.style != theme.QUIET]
    most = next(
        (
            most
            for most in range(MOST_LINES, 2, -1)
            if sum(min(lines, most) for lines in told) <= height
        ),
        2,
    )
    made, shown = _laid_out(heights, most, name_cells, room, height)
    if height >= _SIGN_FROM and any(fact.style != theme.QUIET for fact in facts[shown:]):
        made, shown = _laid_out(heights, most, name_cells, room, height - 1)
        names = ", ".join(fact.name for fact in facts[shown:] if fact.style != theme.QUIET)
        made.append(
            ((f" {'…':{name_cells}} ", theme.QUIET), (fit(names, room).rstrip(), theme.QUIET))
        )
    return made


def _laid_out(
    heights: list[tuple[Fact, int]], most: int, name_cells: int, room: int, height: int
) -> tuple[list[FixedParts], int]:
    """Return the lines of the facts within a height, and the number of these facts.

    None is longer than `most` or the rest of the height.
    """
    made: list[FixedParts] = []
    shown = 0
    for fact, lines in heights:
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
    """Return the number of lines of a fact.

    Some words break before the line is full.
    """
    for lines in range(1, most):
        if "…" not in wrapped(fact.words, room, lines)[-1] or not fact.words:
            return lines
    return most


def _sign_style(text: str) -> Style:
    severity = next(
        level for level, glyph in theme.SEVERITY_GLYPH.items() if text.startswith(glyph)
    )
    return theme.SEVERITY_STYLE[severity]
