"""Keys and their functions, as parts of a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.tui.keys import first_key, key_label
from trnfleet.tui.widgets.cells import Parts, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from rich.style import Style


Hints = tuple[tuple[str, str], ...]
"""Names of keys and their functions, the most important first. Several keys of one hint are
separated by a space."""


def hint_parts(hints: Hints, room: int, key_style: Style, style: Style) -> Parts:
    """Return the first hints that fit.

    A click presses the key.

    Args:
        hints: The keys.
        room: Cells.
        key_style: Of the keys.
        style: Of what they do, and of the space between.
    """
    parts: Parts = []
    for keys, what in hints:
        more: Parts = []
        for number, name in enumerate(keys.split(" ")):
            target = ClickTarget(TargetKind.KEY, first_key(name))
            more.append((" " * bool(number), style))
            more.append((key_label(name), linked(key_style, target)))
        first = ClickTarget(TargetKind.KEY, first_key(keys.partition(" ")[0]))
        more.append((f" {what}  ", linked(style, first)))
        if width_of(parts) + width_of(more) > room:
            break
        parts += more
    return parts
