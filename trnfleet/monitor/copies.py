"""Copies of mutable objects, for snapshots.

Each class of the monitor that changes has a method `copy`, which copies the containers that it owns and shares what never
changes: messages, descriptors, events, layouts, rules.
"""

from __future__ import annotations

import copy
from typing import TypeVar

T = TypeVar("T")


def copied(original: T, **replaced: object) -> T:
    """Return a shallow copy of an object with some attributes replaced.

    Raises:
        AttributeError: it has no such attribute.
    """
    twin = copy.copy(original)
    for name, value in replaced.items():
        getattr(original, name)
        setattr(twin, name, value)
    return twin
