"""Rows of one layout in another: which nodes are the same, and the ranges of rows that move together."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout, Rows

_MOST_MOVES = 256
"""Ranges of rows that are moved one by one."""


def numbers_in(layout: Layout, other: Layout, level: Level) -> NDArray[np.int64]:
    """Return for each node of a level its number in another layout; -1 where that has none at the same address."""
    if level is Level.FLEET:
        return np.zeros(1, np.int64)
    if level is Level.CHIP:
        owner, first = layout.instance_of_chip, layout.chip_start[:-1]
        there = numbers_in(layout, other, Level.INSTANCE)[owner]
        numbers = np.arange(layout.chips) - first[owner] + other.chip_start[there]
        return np.where((there >= 0) & (numbers < other.chip_start[there + 1]), numbers, -1)
    paths, index = {
        Level.CLUSTER: (layout.clusters, other.cluster_index),
        Level.ULTRASERVER: (layout.ultraservers, other.ultraserver_index),
        Level.INSTANCE: (layout.instances, other.instance_index),
    }[level]
    return np.fromiter(map(index.get, paths, itertools.repeat(-1)), np.int64, len(paths))


def same_instances(layout: Layout, other: Layout) -> NDArray[np.int64]:
    """Return for each instance its number in another layout; -1 where that has none of its type at the same address."""
    numbers = numbers_in(layout, other, Level.INSTANCE)
    if other.instances and (layout.has_rolled or other.has_rolled):
        # Its chip rows come or go.
        numbers[(numbers >= 0) & (other.is_rolled[numbers] != layout.is_rolled)] = -1
    if other.instances:
        names = {kind.name: number for number, kind in enumerate(layout.types)}
        types = np.array([names.get(kind.name, -1) for kind in other.types])
        numbers[types[other.instance_type[numbers]] != layout.instance_type] = -1
    return numbers


def moves(numbers: NDArray[np.int64]) -> Iterator[tuple[Rows, Rows]]:
    """Yield rows with the rows where they were, without those that are new.

    Few instances come or go at a time, so that a million rows are a few ranges, which are copied at the speed of memory; many ranges are
    one list of rows.

    Args:
        numbers: For each row, the former one or -1.
    """
    breaks = np.flatnonzero((np.diff(numbers) != 1) | (numbers[:-1] < 0)) + 1
    if len(breaks) > _MOST_MOVES:
        kept = np.flatnonzero(numbers >= 0)
        yield kept, numbers[kept]
        return
    for first, stop in itertools.pairwise([0, *breaks.tolist(), len(numbers)]):
        was = int(numbers[first]) if stop > first else -1
        if was >= 0:
            yield slice(first, stop), slice(was, was + stop - first)
