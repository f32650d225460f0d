"""Copies of mutable objects, for snapshots.

Each mutable class of the monitor has a method `copy`. It copies its own containers and shares
immutable objects: messages, descriptors, events, layouts, rules.
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
