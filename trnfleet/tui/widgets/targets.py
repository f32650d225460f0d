"""Targets: the requests of clicks on parts of a line.

They are in the styles of texts, so that code drawing a text need not know them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from rich.style import Style
from textual.message import Message


class TargetKind(enum.Enum):
    """Kinds of targets."""

    VIEW = enum.auto()
    """A view, by its title."""
    PLACE = enum.auto()
    """An address, in the view where it is usually shown."""
    JOB = enum.auto()
    """A job without a place, by its name."""
    FLEET = enum.auto()
    """The alerts of another fleet, by its name."""
    KEY = enum.auto()
    """A key's action, by its name in bindings."""


class ClickTarget(NamedTuple):
    """The request of a click on a part of a line."""

    kind: TargetKind
    value: str


_TARGET = "target"


@lru_cache(maxsize=1024)
def linked(style: Style, target: ClickTarget) -> Style:
    """Return a style with a target for clicks on its text.

    It looks the same.
    """
    return style + Style(meta={_TARGET: (target.kind.name, target.value)})


def target_of(style: Style) -> ClickTarget | None:
    """Return the target of a style from `linked`; None for any other."""
    pair = style.meta.get(_TARGET)
    return None if pair is None else ClickTarget(TargetKind[pair[0]], pair[1])


@dataclass
class Pressed(Message):
    """A text was clicked that has a target."""

    target: ClickTarget
