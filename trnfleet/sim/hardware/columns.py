"""Columns of wire codes: cache-sized chunks of a fleet, link ends, and codes with noise.

Noise of lanes is computed from integers alone, a base and the sum of two fields of random bits, so
that the bits agree on every machine. Noise of metrics with one value per chip is in `variation`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trnfleet.domain.hardware.topology import MOST_LANES
from trnfleet.domain.metrics import BY_NAME, Metric, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import InstanceType
    from trnfleet.domain.layout import Layout

    Columns = dict[str, NDArray[Any]]

    Int = TypeVar("Int", np.int32, np.int64)

CHUNK_INSTANCES = 1_024
"""Instances with columns and noise that fit a core's second-level cache. Measured with 16 chips
each, see lab/bench."""

LANES = MOST_LANES
"""Link lanes of a chip in the per-link columns."""
LEAST_NOISE_CHIPS = 16
"""Chips for which an instance has random words at least. A part of the meaning of a seed: they
follow from the instance's number, so that its chips' noise does not depend on the types of the
others, unless one of these has more chips."""
NOISE_SHIFT = {np.uint8: 4, np.uint16: 5}
"""Shift of a lane's value to its noise range, by code type. Noise is within 1/16 to 1/8 of the
value for 8-bit codes (coarse steps), and 1/32 to 1/16 for 16-bit codes. It is a triangle around the
value with a standard deviation of 1.3 to 2.6 and of 0.6 to 1.3 %: assumed."""


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
    """Sending lane of each receiving lane of a group of instances; None without links."""
    group: int
    """Instances of a group: an UltraServer's, or 1."""
    unlinked: NDArray[np.intp]
    """Lanes without a link present on other chips, as at the ends of a line."""


def cut(layout: Layout, columns: Columns, own: range) -> Iterator[Chunk]:
    """Yield the instances `own` in chunks of one instance type, in order.

    A chunk consists of whole UltraServers.

    Args:
        layout: The whole fleet.
        columns: Of the whole fleet.
        own: Consecutive instances, from an UltraServer's begin to an UltraServer's end.
    """
    if not own:
        return
    kinds = layout.instance_type[own.start : own.stop]
    edges = [own.start, *(np.flatnonzero(np.diff(kinds)) + own.start + 1).tolist(), own.stop]
    for begin, end in itertools.pairwise(edges):
        index = int(layout.instance_type[begin])
        kind = layout.types[index]
        group = 1 if kind.between is None else kind.between.members
        gather = gather_lanes(kind) if kind.lanes else None
        unlinked = _unlinked(kind)
        step = CHUNK_INSTANCES // group * group
        for first in range(begin, end, step):
            last = min(first + step, end)
            rows = slice(int(layout.chip_start[first]), int(layout.chip_start[last]))
            views = {
                name: column[rows].reshape(last - first, -1)
                for name, column in columns.items()
                if BY_NAME[name].scope is Scope.CHIP
            }
            yield Chunk(slice(first, last), kind.chips, rows, index, views, gather, group, unlinked)


def noise_chips(layout: Layout) -> int:
    """Return the number of chips with random words per instance.

    Rounded up to whole blocks of the generator.
    """
    return -(-max(layout.most_chips, 1) // LEAST_NOISE_CHIPS) * LEAST_NOISE_CHIPS


def gather_lanes(kind: InstanceType) -> NDArray[np.intp]:
    """Return the sending lane of each receiving lane of an instance or UltraServer.

    Lanes are (instance x chips + chip) x `LANES` + lane; a lane without a link refers to itself.
    """
    inside = kind.topology
    between = kind.between
    chips = kind.chips
    instances = 1 if between is None else between.members
    lanes = np.arange(instances * chips * LANES, dtype=np.intp)
    for instance, chip in itertools.product(range(instances), range(chips)):
        row = instance * chips + chip
        for lane, end in enumerate(inside.ends[chip]):
            if end is not None:
                lanes[row * LANES + lane] = (instance * chips + end.member) * LANES + end.lane
        for lane, end in enumerate(between.ends[instance] if between else (), len(inside.lanes)):
            if end is not None:
                lanes[row * LANES + lane] = (
                    (end.member * chips + chip) * LANES + len(inside.lanes) + end.lane
                )
    return lanes


def _unlinked(kind: InstanceType) -> NDArray[np.intp]:
    every = (1 << len(kind.lanes)) - 1
    return np.array(
        [
            chip * LANES + lane
            for chip, mask in enumerate(kind.chip_masks)
            for lane in range(LANES)
            if (every & ~mask) >> lane & 1
        ],
        np.intp,
    )


def to_codes(
    metric: Metric, values: NDArray[np.float64], dtype: type[np.signedinteger[Any]] = np.int64
) -> NDArray[Any]:
    """Return the codes nearest to values in the metric's unit (not negative)."""
    scaled = values * metric.steps_per_unit if metric.steps_per_unit else values / metric.scale
    return (scaled + 0.5).astype(dtype)


def noisy(
    codes: NDArray[Int], limit: NDArray[Int] | int, dtype: type[np.unsignedinteger[Any]]
) -> tuple[NDArray[Int], NDArray[Int]]:
    """Return (base, field) for noise around `codes`.

    Base + the two `fields` of random bits lies in 0 to `limit`.

    Args:
        codes: The mean; of 16 bits at most, if the integers have 32.
        limit: The highest code allowed.
        dtype: The lanes' type; a field has half its bits.
    """
    width = np.iinfo(dtype).bits
    field = codes >> NOISE_SHIFT[dtype]
    for shift in (1, 2, 4, 8) if codes.itemsize == 4 else (1, 2, 4, 8, 16):
        field |= field >> shift
    field = np.minimum(field >> 1, (1 << width // 2) - 1)
    base = np.minimum(codes - field, limit - 2 * field)
    return np.maximum(base, 0), field


def add_noise(
    codes: NDArray[Any], field: NDArray[Any], noise: NDArray[Any], scratch: NDArray[Any]
) -> None:
    """Add the sum of two fields of random bits to codes.

    Two even distributions give a triangle.

    Args:
        codes: The bases, in place.
        field: Masks of the fields.
        noise: Random bits, overwritten.
        scratch: As large as the codes, overwritten.
    """
    half = codes.dtype.itemsize * 4
    np.bitwise_and(noise, field, out=scratch)
    np.add(codes, scratch, out=codes)
    np.right_shift(noise, half, out=noise)
    np.bitwise_and(noise, field, out=noise)
    np.add(codes, noise, out=codes)


def copies(lanes: NDArray[Any], count: int) -> NDArray[Any]:
    """Return rows of `count` times the lanes of each row."""
    row_bytes = lanes.shape[1] * lanes.itemsize
    # Repeating words is much quicker than repeating rows.
    word = next((size for size in (8, 4, 2) if row_bytes % size == 0), 0)
    if not word:
        return np.repeat(lanes[:, None], count, axis=1).reshape(len(lanes), count * lanes.shape[1])
    words = np.ascontiguousarray(lanes).view(f"u{word}")
    wide = np.empty((len(lanes), count, words.shape[1]), words.dtype)
    for place in range(count):
        wide[:, place] = words
    return wide.view(lanes.dtype).reshape(len(lanes), count * lanes.shape[1])
