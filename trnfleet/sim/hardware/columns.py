"""Columns of wire codes: chunks of a fleet that fit the cache, the ends of its links, and codes with noise.

Noise is made from integers alone, a base and a mask of random bits, so that the bits agree on every machine.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.hardware import topology
from trnfleet.domain.metrics import BY_NAME, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.domain.metrics import Metric

    Columns = dict[str, NDArray[Any]]

CHUNK_INSTANCES = 1_024
"""Instances of 16 chips whose columns and noise fit a core's second-level cache: measured, see tests/bench."""

LANES = len(topology.DIRECTIONS)
"""Link lanes of a chip."""
NOISE_SHIFT = 5
"""Noise is even over 1/32 to 1/16 of the value (plus or minus 1.6 to 3.1 %): assumed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive instances of one type."""

    instances: slice
    chips: int
    """Chips of each instance."""
    rows: slice
    """Chip rows."""
    type_index: int
    views: Columns
    """The chip columns' rows as (instances, lanes of all chips), in place."""
    gather: NDArray[np.intp] | None
    """For each receiving lane of a group of instances, the sending lane; None where there are no links."""
    group: int
    """Instances of a group: an UltraServer's, or 1."""


def cut(layout: Layout, columns: Columns, own: range) -> Iterator[Chunk]:
    """Yield the instances `own` in chunks of one instance type, in order; a chunk holds whole UltraServers.

    Args:
        layout: The whole fleet.
        columns: Of the whole fleet.
        own: Consecutive instances, beginning and ending where an UltraServer does.
    """
    if not own:
        return
    kinds = layout.instance_type[own.start : own.stop]
    edges = [own.start, *(np.flatnonzero(np.diff(kinds)) + own.start + 1).tolist(), own.stop]
    for begin, end in itertools.pairwise(edges):
        index = int(layout.instance_type[begin])
        kind = layout.types[index]
        group = 4 if kind.z_links else 1
        gather = None if kind.links_mask == 0 else gather_lanes(kind.grid, group)
        for first in range(begin, end, CHUNK_INSTANCES):
            last = min(first + CHUNK_INSTANCES, end)
            rows = slice(int(layout.chip_start[first]), int(layout.chip_start[last]))
            views = {
                name: column[rows].reshape(last - first, -1)
                for name, column in columns.items()
                if BY_NAME[name].scope is Scope.CHIP
            }
            yield Chunk(slice(first, last), kind.chips, rows, index, views, gather, group)


def gather_lanes(grid: topology.Grid, instances: int) -> NDArray[np.intp]:
    """Return for each receiving lane of a group of instances the lane that sends to it.

    Lanes are (instance x chips + chip) x 6 + direction; a lane without a link stands for itself.
    """
    lanes = np.arange(instances * grid.chips * LANES, dtype=np.intp)
    for instance in range(instances):
        for chip in range(grid.chips):
            row = instance * grid.chips + chip
            for direction in range(topology.Z_PREV):
                sender = instance * grid.chips + grid.neighbour(chip, direction)
                lanes[row * LANES + direction] = sender * LANES + topology.OPPOSITE[direction]
            if instances > 1:
                for direction in (topology.Z_PREV, topology.Z_NEXT):
                    other = topology.ring_neighbour(instance, direction, instances)
                    sender = other * grid.chips + chip
                    lanes[row * LANES + direction] = sender * LANES + topology.OPPOSITE[direction]
    return lanes


def to_codes(metric: Metric, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the codes nearest to values in the metric's unit (not negative)."""
    scaled = values * metric.steps_per_unit if metric.steps_per_unit else values / metric.scale
    return np.floor(scaled + 0.5).astype(np.int64)


def noisy(
    codes: NDArray[np.int64], limit: NDArray[np.int64] | int, *, least: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (base, mask): base + (random bits & mask) varies around `codes` and lies in 0 to `limit`.

    Args:
        codes: What the mean shall be.
        limit: The highest code allowed.
        least: Bits of the mask that are set even for codes near 0.
    """
    mask = codes >> NOISE_SHIFT
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> shift
    mask |= least
    base = np.minimum(codes - (mask >> 1), limit - mask)
    return np.maximum(base, 0), mask


def table(
    metric: Metric, values: NDArray[np.int64], missing: NDArray[np.bool_] | None, *, fill: int, copies: int
) -> NDArray[Any]:
    """Return rows of `copies` times the lanes of `values`, in the metric's type, `fill` where a lane is missing."""
    if missing is not None:
        values = np.where(missing, fill, values)
    return np.tile(values, (1, copies)).astype(metric.dtype)
