"""Samples of one figure for the nodes on a screen of a large fleet.

In such a fleet not all nodes can be stored. Memory and work are bounded by the size of a screen. A
node is recorded from its first view until some minutes after the last one, so that scrolling back
finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.address import Level
    from trnfleet.domain.layout import Layout

    Read = Callable[[Level, NDArray[np.int64]], NDArray[np.float64]]

MOST_GLANCED = 256
"""Most recorded nodes: more than twice the rows of the tallest readable screen."""
SAMPLES = 320
"""Samples per node: the widest sparkline, and the window of its first mean."""


class Glances:
    """Samples of viewed nodes, by path."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        """Row in `_values` of each path, the one looked at longest ago first."""
        self._looked: dict[str, int] = {}
        self._values: NDArray[np.float32] | None = None
        """Paths x samples, each sample at its number modulo the length. None before the first view.
        """
        self._free = list(range(MOST_GLANCED))
        self._numbers_of: Layout | None = None
        self._numbers: dict[Level, tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None
        """Slots and node numbers of each level."""

    def __len__(self) -> int:
        """Return how many nodes are kept."""
        return len(self._slots)

    def __contains__(self, path: object) -> bool:
        return path in self._slots

    @property
    def nbytes(self) -> int:
        """Bytes of the samples."""
        return 0 if self._values is None else self._values.nbytes

    def look(self, path: str, samples: int) -> None:
        """Keep a node for the next minutes.

        Args:
            path: Its address.
            samples: Samples taken so far.
        """
        slot = self._slots.pop(path, None)
        if slot is None:
            if self._values is None:
                self._values = np.full((MOST_GLANCED, SAMPLES), np.nan, np.float32)
            if not self._free:
                self._drop(next(iter(self._slots)))
            slot = self._free.pop()
            self._values[slot] = np.nan
            self._numbers = None
        self._slots[path] = slot
        self._looked[path] = samples

    def push(self, layout: Layout, left_out: Iterable[Level], read: Read, samples: int) -> None:
        """Record a sample of each node.

        Args:
            layout: The present layout.
            left_out: Levels with records of their own.
            read: Returns the figure of nodes of a level.
            samples: Samples before this one.
        """
        if self._values is None:
            return
        for path in [path for path, at in self._looked.items() if samples - at > SAMPLES]:
            self._drop(path)
        if self._numbers is None or layout is not self._numbers_of:
            self._find(layout)
        column = samples % SAMPLES
        self._values[:, column] = np.nan
        for level, (slots, numbers) in (self._numbers or {}).items():
            if level not in left_out:
                self._values[slots, column] = read(level, numbers)

    def skip(self, first: int, seconds: int) -> None:
        """Leave a gap of seconds without samples, from a sample number on."""
        if self._values is not None:
            self._values[:, np.arange(first, first + min(seconds, SAMPLES)) % SAMPLES] = np.nan

    def renumber(self, by: int) -> None:
        """Raise every sample number because earlier samples were prepended."""
        if self._values is not None:
            self._values = np.roll(self._values, by % SAMPLES, axis=1)
        self._looked = {path: at + by for path, at in self._looked.items()}

    def series(self, path: str, samples: int) -> NDArray[np.float32]:
        """Return the samples of a node, oldest first, up to the newest.

        Empty if the node is not recorded.
        """
        slot = self._slots.get(path)
        if slot is None or self._values is None:
            return np.zeros(0, np.float32)
        count = min(samples, SAMPLES)
        rolled: NDArray[np.float32] = np.roll(self._values[slot], -(samples % SAMPLES))
        return rolled[SAMPLES - count :]

    def _drop(self, path: str) -> None:
        self._free.append(self._slots.pop(path))
        del self._looked[path]
        self._numbers = None

    def _find(self, layout: Layout) -> None:
        places: dict[Level, tuple[list[int], list[int]]] = {}
        for path, slot in self._slots.items():
            node = layout.find(path)
            if node is not None:
                slots, numbers = places.setdefault(node.level, ([], []))
                slots.append(slot)
                numbers.append(node.number)
        self._numbers_of = layout
        self._numbers = {
            level: (np.array(slots, np.int64), np.array(numbers, np.int64))
            for level, (slots, numbers) in places.items()
        }
