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


class Fact(NamedTuple):
    """A fact with its name."""

    name: str
    words: str
    style: Style | None = None
    """None for that of text."""


def fact_lines(facts: list[Fact], width: int, height: int) -> list[FixedParts]:
    """Return facts below each other, each in as many lines as it needs, at most `height` in all.

    Where not all fit, the later ones are left out, and long ones are cut to two lines.
    """
    room = max(1, width - NAME - 3)
    most = _MOST_LINES
    if sum(_lines_of(fact, room, most) for fact in facts) > height:
        most = 2
    made: list[FixedParts] = []
    name_cells = max(NAME, *(len(fact.name) for fact in facts[:1])) if facts else NAME
    for fact in facts:
        texts = wrapped(
            fact.words, max(1, width - name_cells - 3), _lines_of(fact, max(1, width - name_cells - 3), most)
        )
        for number, text in enumerate(texts):
            is_sign = fact.name[:1] in theme.SEVERITY_GLYPH.values()
            name_style = _sign_style(fact.name) if is_sign else theme.QUIET
            made.append(
                (
                    (f" {fit('' if number else fact.name, name_cells)} ", name_style),
                    (text, fact.style or theme.BASE),
                )
            )
        if len(made) >= height:
            break
    return made[:height]


def _lines_of(fact: Fact, room: int, most: int) -> int:
    """Return the lines that a fact takes: some words are broken before the line is full."""
    for lines in range(1, most):
        if "…" not in wrapped(fact.words, room, lines)[-1] or not fact.words:
            return lines
    return most


def _sign_style(text: str) -> Style:
    severity = next(each for each, glyph in theme.SEVERITY_GLYPH.items() if text.startswith(glyph))
    return theme.SEVERITY_STYLE[severity]
