"""How a fleet is cut into topics: which instances and chips the descriptor and the frames of each path cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.fleet import Publishing

GRANULARITIES = {"json": ("chip",), "cbor": ("ultraserver", "instance", "block")}
"""What one message can cover in each format; the first is the default."""


class Unit(NamedTuple):
    """What publishes on a path: consecutive instances with their chips."""

    path: str
    instances: slice
    chips: slice
    """Chip rows."""


def granularity_of(publishing: Publishing) -> str:
    """Return what one message covers.

    Raises:
        ConfigError: the format has no messages of that kind.
    """
    valid = GRANULARITIES[publishing.format]
    chosen = publishing.granularity or valid[0]
    if chosen not in valid:
        raise ConfigError(
            f"publish.granularity = {chosen!r}: format {publishing.format!r} publishes by {' or '.join(sorted(valid))}"
        )
    return chosen


def partition(layout: Layout, publishing: Publishing) -> list[Unit]:
    """Cut a fleet into units, in the order of its rows.

    JSON's units are instances, whose descriptors cover their chips' topics. Standalone instances are always units
    of their own.

    Raises:
        ConfigError: format and granularity do not go together.
    """
    granularity = granularity_of(publishing)
    if granularity in ("chip", "instance"):
        return [_instance(layout, number) for number in range(len(layout.instances))]
    size = publishing.block_ultraservers if granularity == "block" else 0
    return [unit for number in range(len(layout.clusters)) for unit in _of_cluster(layout, number, size)]


def _of_cluster(layout: Layout, cluster: int, block: int) -> Iterator[Unit]:
    """Yield a cluster's units: UltraServers, or blocks of `block` of them where that is not 0."""
    members = range(int(layout.cluster_start[cluster]), int(layout.cluster_start[cluster + 1]))
    joined = [number for number in members if not layout.is_standalone[number]]
    for number in members:
        if layout.is_standalone[number]:
            covered = layout.instance_range(Node(Level.ULTRASERVER, number))
            yield from (_instance(layout, instance) for instance in covered)
    if not block:
        for number in joined:
            covered = layout.instance_range(Node(Level.ULTRASERVER, number))
            yield _unit(layout, layout.ultraservers[number], covered.start, covered.stop)
        return
    for place, runs in enumerate(_blocks(joined, block), start=1):
        first = int(layout.ultraserver_start[runs[0]])
        last = int(layout.ultraserver_start[runs[-1] + 1])
        yield _unit(layout, f"{layout.clusters[cluster]}/block-{place:04d}", first, last)


def _blocks(numbers: list[int], size: int) -> Iterator[list[int]]:
    """Yield runs of at most `size` consecutive numbers."""
    gaps = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(np.array(numbers, np.int64), gaps):
        for first in range(0, len(run), size):
            yield run[first : first + size].tolist()


def _instance(layout: Layout, number: int) -> Unit:
    return _unit(layout, layout.instances[number], number, number + 1)


def _unit(layout: Layout, path: str, first: int, last: int) -> Unit:
    chips = slice(int(layout.chip_start[first]), int(layout.chip_start[last]))
    return Unit(path, slice(first, last), chips)
