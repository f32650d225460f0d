"""Division of a fleet among simulators: runs of whole UltraServers.

A standalone instance counts as one UltraServer. Every shard simulates the jobs and faults of the
whole fleet, at little cost, and generates telemetry only for its own instances. So a shard's values
equal those of a whole run.
"""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node


class Shard(NamedTuple):
    """One of several parts."""

    number: int = 1
    """1 to `of`."""
    of: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether it is the only part."""
        return self.of == 1


WHOLE = Shard()


def own_instances(layout: Layout, shard: Shard) -> range:
    """Return the instances of a shard as consecutive rows.

    Empty if there are more shards than UltraServers.
    """
    starts: list[int] = []
    for number in range(len(layout.ultraservers)):
        covered = layout.instance_range(Node(Level.ULTRASERVER, number))
        starts.extend(covered if layout.is_standalone[number] else (covered.start,))
    starts.append(len(layout.instances))
    units = len(starts) - 1
    return range(
        starts[units * (shard.number - 1) // shard.of], starts[units * shard.number // shard.of]
    )


def owns(layout: Layout, own: range, path: str) -> bool:
    """Return whether the shard with instances `own` publishes for an address.

    It does if it has the address's first instance.
    """
    node = layout.find(path)
    first = 0 if node is None else layout.instance_range(node).start
    return first in own
