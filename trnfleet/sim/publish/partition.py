"""Partition of a fleet into topics: the instances and chips of each path.

They share one descriptor and its frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import ConfigError
from trnfleet.sim.sharding import WHOLE, Shard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.fleet import Publishing

GRANULARITIES = {"json": ("chip",), "cbor": ("ultraserver", "instance", "block")}
"""Parts of a fleet per message, by format; the first is the default."""


class PublishedUnit(NamedTuple):
    """Consecutive instances, with their chips, published on one path."""

    path: str
    instances: slice
    chips: slice
    """Chip rows."""


def granularity_of(publishing: Publishing) -> str:
    """Return the granularity of messages.

    Raises:
        ConfigError: the format has no messages of that kind.
    """
    valid = GRANULARITIES[publishing.format]
    chosen = publishing.granularity or valid[0]
    if chosen not in valid:
        raise ConfigError(
            f"publish.granularity = {chosen!r}: format {publishing.format!r} publishes by"
            f" {' or '.join(sorted(valid))}"
        )
    return chosen


def partition(
    layout: Layout, publishing: Publishing, own: range | None = None, shard: Shard = WHOLE
) -> list[PublishedUnit]:
    """Cut a fleet, or a shard's instances of it, into units, in row order.

    JSON's units are instances; their descriptors cover their chips' topics. Standalone instances
    are always separate units. A shard's blocks have its number in their names, because they may be
    cut elsewhere than the whole fleet's.

    Raises:
        ConfigError: format and granularity do not go together.
    """
    granularity = granularity_of(publishing)
    own = range(len(layout.instances)) if own is None else own
    if granularity in ("chip", "instance"):
        return [_instance(layout, number) for number in own]
    size = publishing.block_ultraservers if granularity == "block" else 0
    label = "block" if shard.is_whole else f"block-{shard.number}of{shard.of}"
    return [
        unit
        for number in range(len(layout.clusters))
        for unit in _of_cluster(layout, number, own, size, label)
    ]


def _of_cluster(
    layout: Layout, cluster: int, own: range, block: int, label: str
) -> Iterator[PublishedUnit]:
    """Yield a cluster's units: UltraServers, or blocks of `block` UltraServers if not 0."""
    members = range(int(layout.cluster_start[cluster]), int(layout.cluster_start[cluster + 1]))
    joined: list[int] = []
    for number in members:
        covered = layout.instance_range(Node(Level.ULTRASERVER, number))
        if layout.is_standalone[number]:
            yield from (_instance(layout, instance) for instance in covered if instance in own)
        elif covered.start in own:
            joined.append(number)
    if not block:
        for number in joined:
            covered = layout.instance_range(Node(Level.ULTRASERVER, number))
            yield _unit(layout, layout.ultraservers[number], covered.start, covered.stop)
        return
    for place, runs in enumerate(_blocks(joined, block), start=1):
        first = int(layout.ultraserver_start[runs[0]])
        last = int(layout.ultraserver_start[runs[-1] + 1])
        yield _unit(layout, f"{layout.clusters[cluster]}/{label}-{place:04d}", first, last)


def _blocks(numbers: list[int], size: int) -> Iterator[list[int]]:
    """Yield runs of at most `size` consecutive numbers."""
    if not numbers:
        return
    gaps = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(np.array(numbers, np.int64), gaps):
        for first in range(0, len(run), size):
            yield run[first : first + size].tolist()


def _instance(layout: Layout, number: int) -> PublishedUnit:
    return _unit(layout, layout.instances[number], number, number + 1)


def _unit(layout: Layout, path: str, first: int, last: int) -> PublishedUnit:
    chips = slice(int(layout.chip_start[first]), int(layout.chip_start[last]))
    return PublishedUnit(path, slice(first, last), chips)
