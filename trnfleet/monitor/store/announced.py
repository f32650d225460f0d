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

METRIC_BITS = np.uint64(1) << np.arange(len(METRICS), dtype=np.uint64)
"""The bit of each metric, in the order of the metric table."""
_BITS = {metric.name: int(bit) for metric, bit in zip(METRICS, METRIC_BITS, strict=True)}


def bits_of(names: Iterable[str]) -> int:
    """Return metrics as a bit mask, in the order of the metric table; other names are ignored."""
    bits = 0
    for name in names:
        bits |= _BITS.get(name, 0)
    return bits


class Announced(NamedTuple):
    """How many chips and instances of a fleet announce which metrics."""

    kinds: NDArray[np.uint64] = np.zeros(0, np.uint64)
    """Different bit masks; with hostile sources as many as instances."""
    instances_of: NDArray[np.int64] = np.zeros(0, np.int64)
    """Instances of each kind."""
    chips_of: NDArray[np.int64] = np.zeros(0, np.int64)

    @staticmethod
    def read(bits: NDArray[np.uint64], layout: Layout) -> Announced:
        """Return the counts of a layout, from the bit mask of each instance."""
        if len(bits) and (bits == bits[0]).all():
            # The usual case, without a sort of all.
            return Announced(
                bits[:1].copy(), np.array([len(bits)]), layout.sizes.sum(keepdims=True)
            )
        unique = np.unique(bits, return_inverse=True)
        chips = np.bincount(unique[1], layout.sizes, len(unique[0])).astype(np.int64)
        return Announced(unique[0], np.bincount(unique[1], minlength=len(unique[0])), chips)

    @staticmethod
    def one(bits: int) -> Announced:
        """Return the counts of a single chip."""
        return Announced(np.array([bits], np.uint64), np.ones(1, np.int64), np.ones(1, np.int64))

    @property
    def key(self) -> tuple[bytes, ...]:
        """The counts in a form to compare."""
        return tuple(array.tobytes() for array in self)

    def knows(self, names: Iterable[str]) -> bool:
        """Return whether any source announces all of these metrics; True without instances."""
        return not len(self.kinds) or bool(self._has(names).any())

    def chips(self, names: Iterable[str]) -> int:
        """Return the number of chips with all of these metrics."""
        return int(self.chips_of[self._has(names)].sum())

    def instances(self, names: Iterable[str]) -> int:
        """Return the number of instances with all of these metrics."""
        return int(self.instances_of[self._has(names)].sum())

    def _has(self, names: Iterable[str]) -> NDArray[np.bool_]:
        needed = np.uint64(bits_of(names))
        has: NDArray[np.bool_] = (self.kinds & needed) == needed
        return has


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
    # Power's share of its maximum is power, too.
    has_share = announced.chips(["power_util_pct"]) > announced.chips(["power_w"])
    for word, name in _ABSENT if len(announced.kinds) else ():
        shown = "watts" if name == "power_w" and has_share else word
        known.setdefault(announced.chips([name]), []).append(shown)
    parts = []
    for number, words in sorted(known.items()):
        names = ", ".join(words)
        if not number:
            parts.append(f"not known here: {names}")
        elif number < chips:
            parts.append(f"known for {number:,} of {counted(chips, 'chip')}: {names}")
    return "; ".join(parts)
