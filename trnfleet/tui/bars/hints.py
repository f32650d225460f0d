"""Keys with what they do, as parts of a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui.help import key_of
from trnfleet.tui.widgets.cells import width_of
from trnfleet.tui.widgets.targets import Target, TargetKind, linked

if TYPE_CHECKING:
    from rich.style import Style

    from trnfleet.tui.widgets.cells import Parts

Hints = tuple[tuple[str, str], ...]
"""Keys with what they do, the most important first; several keys of one hint have a space between them."""


def hint_parts(hints: Hints, room: int, key_style: Style, style: Style) -> Parts:
    """Return as many hints as fit, the first ones first; each key is pressed by a click.

    Args:
        hints: The keys.
        room: Cells.
        key_style: Of the keys.
        style: Of what they do, and of the space between.
    """
    parts: Parts = []
    for keys, what in hints:
        more: Parts = []
        for number, key in enumerate(keys.split(" ")):
            target = Target(TargetKind.KEY, key_of(key))
            more.append((" " * bool(number), style))
            more.append((key, linked(key_style, target)))
        more.append(
            (f" {what}  ", linked(style, Target(TargetKind.KEY, key_of(keys.partition(" ")[0]))))
        )
        if width_of(parts) + width_of(more) > room:
            break
        parts += more
    return parts
