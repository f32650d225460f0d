"""Targets: what a click on a part of a line asks for. They are in the styles of texts, so that whatever draws a text need not know of them."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import NamedTuple

from rich.style import Style
from textual.message import Message


class TargetKind(enum.Enum):
    """Kinds of what a part of a line leads to."""

    VIEW = enum.auto()
    """A view, by its title."""
    PLACE = enum.auto()
    """An address, in the view where it is usually shown."""
    JOB = enum.auto()
    """A job that has no place, by its name."""
    FLEET = enum.auto()
    """The alerts of another fleet, by its name."""
    KEY = enum.auto()
    """What a key does, by its name in bindings."""


class Target(NamedTuple):
    """What a click on a part of a line asks for."""

    kind: TargetKind
    value: str


_TARGET = "target"


@lru_cache(maxsize=1024)
def linked(style: Style, target: Target) -> Style:
    """Return a style whose text asks for a target when it is clicked; it looks the same."""
    return style + Style(meta={_TARGET: (target.kind.name, target.value)})


def target_of(style: Style) -> Target | None:
    """Return the target of a style from `linked`; None for any other."""
    found = style.meta.get(_TARGET)
    return None if found is None else Target(TargetKind[found[0]], found[1])


class Pressed(Message):
    """A text was clicked that has a target."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
