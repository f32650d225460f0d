"""Metrics that sources announce: the columns of their descriptors.

A metric without a column can never have a value there. Views give it no room, and a rule on it
does not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.metrics import METRICS
from trnfleet.domain.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

_BITS = {metric.name: 1 << number for number, metric in enumerate(METRICS)}


def bits_of(names: Iterable[str]) -> int:
    """Return metrics as a bit mask, in the order of the metric table; other names are ignored."""
    bits = 0
    for name in names:
        bits |= _BITS.get(name, 0)
    return bits


class _Alike(NamedTuple):
    """Instances with the same columns."""

    bits: int
    instances: int
    chips: int


class Announced(NamedTuple):
    """How many chips and instances of a fleet announce which metrics."""

    parts: tuple[_Alike, ...] = ()

    @staticmethod
    def read(bits: NDArray[np.uint64], layout: Layout) -> Announced:
        """Return the counts of a layout, from the bit mask of each instance."""
        if not len(bits):
            return Announced()
        # A sort of all is for fleets with several kinds of sources.
        kinds = bits[:1] if (bits == bits[0]).all() else np.unique(bits)
        same = [(kind, bits == kind) for kind in kinds]
        return Announced(
            tuple(
                _Alike(int(kind), int(is_same.sum()), int(layout.sizes[is_same].sum()))
                for kind, is_same in same
            )
        )

    @staticmethod
    def one(bits: int) -> Announced:
        """Return the counts of a single chip."""
        return Announced((_Alike(bits, 1, 1),))

    def knows(self, names: Iterable[str]) -> bool:
        """Return whether any source announces all of these metrics; True without instances."""
        return not self.parts or self.instances(names) > 0

    def chips(self, names: Iterable[str]) -> int:
        """Return the number of chips with all of these metrics."""
        needed = bits_of(names)
        return sum(part.chips for part in self.parts if part.bits & needed == needed)

    def instances(self, names: Iterable[str]) -> int:
        """Return the number of instances with all of these metrics."""
        needed = bits_of(names)
        return sum(part.instances for part in self.parts if part.bits & needed == needed)


_ABSENT = (
    ("power", "power_w"),
    ("temperature", "temperature_c"),
    ("FLOP/s", "tflops"),
    ("HBM bandwidth", "hbm_read_bytes_per_s"),
    ("link traffic", "link_tx_bytes_per_s"),
    ("engines", "engine_util_pct"),
    ("health", "health"),
    ("EFA", "efa_tx_bytes_per_s"),
)
"""Words for metrics that a screen lacks where no source knows them."""


def unknown_text(announced: Announced, chips: int) -> str:
    """Return which figures sources do not know, in words; empty for none.

    Args:
        announced: What the sources know.
        chips: Chips in all.
    """
    known: dict[int, list[str]] = {}
    for word, name in _ABSENT if announced.parts else ():
        known.setdefault(announced.chips([name]), []).append(word)
    parts = []
    for number, words in sorted(known.items()):
        names = ", ".join(words)
        if not number:
            parts.append(f"not known here: {names}")
        elif number < chips:
            parts.append(f"known for {number:,} of {counted(chips, 'chip')}: {names}")
    return "; ".join(parts)
