"""What a typed filter leaves of a fleet: a part of an address, or with `!` before it everything without that part.

An instance's address holds those of what it is in, so that matching instances are enough; chips are looked at by their
number within the instance, and only where the pattern names a chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level, format_chip
from trnfleet.tui.widgets.text_filter import TextFilter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

_CHIP = "chip"


@dataclass(frozen=True)
class Selection:
    """The instances and chips that a filter leaves."""

    chips: NDArray[np.int64]
    """How many chips of each instance are left; an instance with none is hidden."""
    some: NDArray[np.bool_]
    """For each instance, whether only its chips `numbers` are left."""
    numbers: NDArray[np.int64]
    """Chip numbers within an instance, sorted."""
    depth: Level
    """The level that was searched."""

    @property
    def matches(self) -> int:
        """How many instances (or chips, where the pattern names one) are left."""
        return int(self.chips.sum() if self.depth is Level.CHIP else np.count_nonzero(self.chips))


def select(layout: Layout, pattern: str) -> Selection | None:
    """Return what a pattern leaves of a layout; None for an empty pattern, which leaves everything.

    Case does not matter. Instances whose address has the pattern are left whole.
    """
    text, inverse = TextFilter.of(pattern)
    if not text:
        return None
    sizes = np.diff(layout.chip_start)
    whole = np.array([text in path.lower() for path in layout.instances], dtype=np.bool_)
    before, chip, after = text.rpartition(_CHIP)
    if not chip:
        left = ~whole if inverse else whole
        return Selection(
            np.where(left, sizes, 0), np.zeros(len(sizes), np.bool_), np.zeros(0, np.int64), Level.INSTANCE
        )
    place, slash, _core = after.partition("/")
    named = [
        number
        for number in range(int(sizes.max(initial=0)))
        if (format_chip(number)[4:] == place if slash else format_chip(number)[4:].startswith(place))
    ]
    fits = np.array([f"{path.lower()}/".endswith(before) for path in layout.instances], dtype=np.bool_)
    if inverse:
        named = [number for number in range(int(sizes.max(initial=0))) if number not in named]
    numbers = np.array(named, dtype=np.int64)
    some = fits & ~whole
    rest = ~whole if inverse else whole
    chips = np.where(some, np.searchsorted(numbers, sizes), np.where(rest, sizes, 0))
    return Selection(chips, some, numbers, Level.CHIP)
