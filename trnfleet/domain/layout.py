"""A fleet's hierarchy as index arithmetic over sorted rows, without an object per chip.

Instances are sorted by address, their chips follow each other, and every level above is a range of
the level below. A node is a pair (level, number): chip numbers are rows of the chip columns,
instance numbers rows of the instance columns. A layout never changes; a changed fleet gets a new
one. The ends of links are in `links`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import STANDALONE, Level
from trnfleet.domain.hardware.catalogue import (
    InstanceType,
    Totals,
    UltraServerType,
    find_instance_type,
    present_instance,
    totals,
    ultraserver_type_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    Rows: TypeAlias = slice | NDArray[np.int64]


class Node(NamedTuple):
    """A node: its level and its number there, from 0 in address order."""

    level: Level
    number: int


FLEET_NODE = Node(Level.FLEET, 0)
NO_ROLLUPS: Mapping[str, int] = MappingProxyType({})
_MOST_REMEMBERED = 20_000
"""Most addresses with cached chips. Published alerts may name ever new ones."""


@dataclass(frozen=True)
class Layout:
    """Paths and ranges of a fleet; build it with `Layout.of`."""

    clusters: tuple[str, ...]
    ultraservers: tuple[str, ...]
    """Paths `cluster/ultraserver`; `cluster/standalone` for standalone instances."""
    instances: tuple[str, ...]
    """Paths `cluster/ultraserver/instance`, sorted."""
    instance_type: NDArray[np.int16]
    """Index into `types` for each instance."""
    types: tuple[InstanceType, ...]
    cluster_start: NDArray[np.int64]
    """First UltraServer of each cluster, and the number of UltraServers at the end."""
    ultraserver_start: NDArray[np.int64]
    """First instance of each UltraServer, and the number of instances at the end."""
    chip_start: NDArray[np.int64]
    """First chip row of each instance, and the number of chips at the end."""
    is_standalone: NDArray[np.bool_]
    """For each entry of `ultraservers`, whether it is a `standalone` segment."""
    lane_names: tuple[tuple[str, ...], ...]
    """For each entry of `types`, the names of a chip's link lanes."""
    members: NDArray[np.int64]
    """Number of instances per instance row. 1 if its chips are described, or for an instance known
    from roll-ups only. A row of an UltraServer known from roll-ups has the UltraServer's path and
    its number of instances."""
    is_rolled: NDArray[np.bool_]
    """Instance rows known from roll-ups only. Such a row has one chip row without values, not a
    real chip."""

    @staticmethod
    def of(
        instances: Iterable[tuple[str, str]],
        lane_names: Mapping[str, tuple[str, ...]] | None = None,
        rolled: Mapping[str, int] = NO_ROLLUPS,
    ) -> Layout:
        """Build the layout of a fleet.

        Args:
            instances: Instance paths with the names of their types, in any order, without
                duplicates.
            lane_names: Names of link lanes by instance type, where they differ from the
                catalogue's.
            rolled: Number of instances by path, for paths known from roll-ups only. A whole
                UltraServer has its own path.

        Raises:
            ConfigError: an instance type is not in the hardware catalogue.
        """
        given = list(instances)
        keys = [address.sort_key(path) for path, _ in given]
        rows = [given[place] for place in sorted(range(len(given)), key=keys.__getitem__)]
        paths = [path for path, _ in rows]
        kinds = [kind for _, kind in rows]
        type_names = sorted(set(kinds))
        types = tuple(find_instance_type(name) for name in type_names)
        type_index = {name: index for index, name in enumerate(type_names)}
        clusters: list[str] = []
        ultraservers: list[str] = []
        cluster_start: list[int] = []
        ultraserver_start: list[int] = []
        below = "/"
        for number, path in enumerate(paths):
            if path.startswith(below):
                continue
            ultraserver = path.rpartition("/")[0]
            if path in rolled and "/" not in ultraserver:
                ultraserver = path
            below = ultraserver + "/"
            cluster = ultraserver.partition("/")[0]
            if not clusters or cluster != clusters[-1]:
                cluster_start.append(len(ultraservers))
                clusters.append(cluster)
            ultraserver_start.append(number)
            ultraservers.append(ultraserver)
        instance_type = np.fromiter(map(type_index.__getitem__, kinds), np.int16, len(kinds))
        chips = np.array([kind.chips for kind in types], dtype=np.int64)[instance_type]
        members = np.ones(len(rows), np.int64)
        is_rolled = np.zeros(len(rows), np.bool_)
        if rolled:
            of_rolled = np.fromiter(
                map(rolled.get, paths, itertools.repeat(0)), np.int64, len(rows)
            )
            is_rolled = of_rolled > 0
            members[is_rolled] = of_rolled[is_rolled]
            chips[is_rolled] = 1
        return Layout(
            clusters=tuple(clusters),
            ultraservers=tuple(ultraservers),
            instances=tuple(paths),
            instance_type=instance_type,
            types=types,
            cluster_start=np.array([*cluster_start, len(ultraservers)], dtype=np.int64),
            ultraserver_start=np.array([*ultraserver_start, len(paths)], dtype=np.int64),
            chip_start=np.concatenate([np.zeros(1, np.int64), np.cumsum(chips)]),
            is_standalone=np.array(
                [path.endswith("/" + STANDALONE) for path in ultraservers], dtype=np.bool_
            ),
            lane_names=tuple((lane_names or {}).get(kind.name, kind.lane_names) for kind in types),
            members=members,
            is_rolled=is_rolled,
        )

    @property
    def chips(self) -> int:
        """Chip rows."""
        return int(self.chip_start[-1])

    @cached_property
    def has_rolled(self) -> bool:
        """Whether any row is known from roll-ups only."""
        return bool(self.is_rolled.any())

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Chips in hardware per instance row, including chips without rows."""
        rows = np.diff(self.chip_start)
        if not self.has_rolled:
            return rows
        of_types = np.array([kind.chips for kind in self.types], np.int64)
        return np.where(self.is_rolled, self.members * of_types[self.instance_type], rows)

    @property
    def chip_count(self) -> int:
        """Chips of the fleet, in hardware."""
        return int(self.sizes.sum()) if self.has_rolled else self.chips

    @property
    def instance_count(self) -> int:
        """Instances of the fleet, in hardware."""
        return int(self.members.sum())

    def chips_below(self, node: Node) -> int:
        """Return how many chips are below a node (1 for a chip), in hardware."""
        if node.level is Level.CHIP:
            return 1
        covered = self.instance_range(node)
        return int(self.sizes[covered.start : covered.stop].sum())

    def is_rolled_up(self, node: Node) -> bool:
        """Return whether a node is known from roll-ups only, without chips to show."""
        covered = self.instance_range(node)
        return bool(self.is_rolled[covered.start : covered.stop].all())

    @cached_property
    def instance_index(self) -> dict[str, int]:
        """Index of each instance by its path."""
        return {path: index for index, path in enumerate(self.instances)}

    @cached_property
    def ultraserver_index(self) -> dict[str, int]:
        """Index of each UltraServer (and standalone segment) by its path."""
        return {path: index for index, path in enumerate(self.ultraservers)}

    @cached_property
    def cluster_index(self) -> dict[str, int]:
        """Index of each cluster by its path."""
        return {path: index for index, path in enumerate(self.clusters)}

    @cached_property
    def instance_of_chip(self) -> NDArray[np.int32]:
        """Instance index of each chip row."""
        return np.repeat(np.arange(len(self.instances), dtype=np.int32), np.diff(self.chip_start))

    @cached_property
    def ultraserver_of_instance(self) -> NDArray[np.int64]:
        """UltraServer (or standalone segment) of each instance."""
        return np.repeat(np.arange(len(self.ultraservers)), np.diff(self.ultraserver_start))

    @cached_property
    def domain_of_instance(self) -> NDArray[np.int64]:
        """NeuronLink domain number per instance.

        Equal within an UltraServer; a standalone instance has its own.
        """
        group = self.ultraserver_of_instance
        return np.where(self.is_standalone[group], -1 - np.arange(len(group)), group)

    @cached_property
    def chips_per_instance(self) -> int:
        """Chips of every instance where all have the same number, else 0."""
        sizes = np.diff(self.chip_start)
        return int(sizes[0]) if len(sizes) and bool((sizes == sizes[0]).all()) else 0

    @cached_property
    def most_chips(self) -> int:
        """Chips of the largest instance; 0 for an empty fleet."""
        return max((kind.chips for kind in self.types), default=0)

    @cached_property
    def chip_links_mask(self) -> NDArray[np.uint8]:
        """Bits of `links_up` per chip when all its links are up."""
        if not self.has_uneven_links.any():
            return self.links_mask[self.instance_of_chip]
        masks = [np.array(kind.chip_masks, np.uint8) for kind in self.types]
        table = np.zeros((len(masks), self.most_chips), np.uint8)
        for row, mask in zip(table, masks, strict=True):
            row[: len(mask)] = mask
        place = np.arange(self.chips) - np.repeat(self.chip_start[:-1], np.diff(self.chip_start))
        return table[self.instance_type[self.instance_of_chip], place]

    @cached_property
    def uniform_links_mask(self) -> int | None:
        """The one value of `chip_links_mask` where all chips have the same, else None."""
        masks = {mask for kind in self.types for mask in kind.chip_masks}
        return masks.pop() if len(masks) == 1 else None

    @cached_property
    def links_mask(self) -> NDArray[np.uint8]:
        """Bits of `links_up` common to all chips of an instance when all links are up.

        One value per instance.
        """
        if not len(self.instances):
            return np.zeros(0, np.uint8)
        masks = np.array(
            [np.bitwise_and.reduce(kind.chip_masks) for kind in self.types], dtype=np.uint8
        )
        return masks[self.instance_type]

    @cached_property
    def has_uneven_links(self) -> NDArray[np.bool_]:
        """Whether chips of an instance differ in links, per instance.

        They do at the ends of a line.
        """
        uneven = np.array([len(set(kind.chip_masks)) > 1 for kind in self.types], np.bool_)
        return uneven[self.instance_type] if len(self.instances) else np.zeros(0, np.bool_)

    @cached_property
    def between_mask(self) -> NDArray[np.uint8]:
        """For each chip, the bits of `links_up` of its links to other instances."""
        masks = np.array([kind.between_mask for kind in self.types], dtype=np.uint8)
        return masks[self.instance_type[self.instance_of_chip]]

    @property
    def ultraserver_count(self) -> int:
        """UltraServers, without standalone segments."""
        return int(np.count_nonzero(~self.is_standalone))

    def type_of(self, instance: int) -> InstanceType:
        """Return the instance type of an instance index."""
        return self.types[int(self.instance_type[instance])]

    def totals(self) -> Totals:
        """Return the totals of the fleet's hardware."""
        weighted = np.bincount(self.instance_type, self.members, minlength=len(self.types))
        counts: list[int] = weighted.astype(np.int64).tolist()
        joined: dict[str, int] = {}
        for first in self.ultraserver_start[:-1][~self.is_standalone].tolist():
            name = self.types[int(self.instance_type[first])].name
            joined[name] = joined.get(name, 0) + 1
        ultraservers = {
            kind.name: count
            for name, count in joined.items()
            if (kind := ultraserver_type_of(name))
        }
        return totals(
            {kind.name: count for kind, count in zip(self.types, counts, strict=True)}, ultraservers
        )

    def ultraserver_type(self, ultraserver: int) -> UltraServerType | None:
        """Return the type of an UltraServer by its first instance.

        None for a standalone segment.
        """
        if self.is_standalone[ultraserver]:
            return None
        return ultraserver_type_of(self.type_of(int(self.ultraserver_start[ultraserver])).name)

    def rack_of(self, instance: int) -> str:
        """Return the name of an instance's rack, such as `rack-b`; empty if unknown.

        Racks follow from the order of an UltraServer's instances, so all of them must be described.
        """
        group = int(self.ultraserver_of_instance[instance])
        kind = self.ultraserver_type(group)
        start, end = self.ultraserver_start[group : group + 2].tolist()
        types = self.instance_type[start:end]
        if kind is None or end - start != kind.instances or (types != types[0]).any():
            return ""
        return kind.racks[kind.rack_of(instance - start)]

    @cached_property
    def racks(self) -> tuple[str, ...]:
        """Rack address per instance, such as `uc1/us-0001/rack-b`; empty if unknown."""
        names = map(self.rack_of, range(len(self.instances)))
        return tuple(
            f"{path.rpartition('/')[0]}/{name}" if name else ""
            for path, name in zip(self.instances, names, strict=True)
        )

    def lane_names_of(self, instance: int) -> tuple[str, ...]:
        """Return the names of the link lanes of an instance's chips."""
        return self.lane_names[int(self.instance_type[instance])]

    def count(self, level: Level) -> int:
        """Return the number of nodes of a level.

        Cores are not counted: they depend on the chip.
        """
        return {
            Level.FLEET: 1,
            Level.CLUSTER: len(self.clusters),
            Level.ULTRASERVER: len(self.ultraservers),
            Level.INSTANCE: len(self.instances),
            Level.CHIP: self.chips,
        }[level]

    def children(self, node: Node) -> range:
        """Return the indices of a node's children at the next level.

        A chip's children are its physical cores.
        """
        level, index = node
        if level is Level.FLEET:
            return range(len(self.clusters))
        if level is Level.CLUSTER:
            return _range(self.cluster_start, index)
        if level is Level.ULTRASERVER:
            below = _range(self.ultraserver_start, index)
            # A row of roll-ups has the UltraServer's path, and is no instance of it.
            has_row = self.has_rolled and self.instances[below.start] == self.ultraservers[index]
            return range(below.start + has_row, below.stop)
        if level is Level.INSTANCE:
            below = _range(self.chip_start, index)
            return range(below.start, below.start) if self.is_rolled[index] else below
        return range(self.type_of(int(self.instance_of_chip[index])).chip.neuroncores)

    def instance_range(self, node: Node) -> range:
        """Return the instances of a node at instance level or above."""
        level, index = node
        if level is Level.FLEET:
            return range(len(self.instances))
        if level is Level.CLUSTER:
            groups = _range(self.cluster_start, index)
            return range(
                int(self.ultraserver_start[groups.start]), int(self.ultraserver_start[groups.stop])
            )
        if level is Level.ULTRASERVER:
            return _range(self.ultraserver_start, index)
        if level is Level.INSTANCE:
            return range(index, index + 1)
        owner = int(self.instance_of_chip[index])
        return range(owner, owner + 1)

    def find_instances(self, target: str) -> range | None:
        """Return the instances at an address or a range of siblings; None if unknown.

        Levels: cluster to instance. A range `uc1/us-0001..us-0008` includes both ends.
        """
        first, dots, last = target.partition("..")
        ends = [first, f"{address.parent(first)}/{last}"] if dots else [first]
        covered: list[range] = []
        for end in ends:
            node = self.find(end)
            if node is None or not Level.CLUSTER <= node.level <= Level.INSTANCE:
                return None
            covered.append(self.instance_range(node))
        return range(covered[0].start, covered[-1].stop)

    def chip_range(self, node: Node) -> range:
        """Return the chip rows below a node (the chip itself for a chip)."""
        if node.level is Level.CHIP:
            return range(node.number, node.number + 1)
        covered = self.instance_range(node)
        return range(int(self.chip_start[covered.start]), int(self.chip_start[covered.stop]))

    def chips_at(self, path: str) -> range:
        """Return the chip rows below an address; empty if unknown.

        Memoised: the same addresses are looked up again and again.
        """
        known = self._chips_at.get(path)
        if known is None:
            node = self.find(path)
            known = range(0) if node is None else self.chip_range(node)
            if len(self._chips_at) < _MOST_REMEMBERED:
                self._chips_at[path] = known
        return known

    @cached_property
    def _chips_at(self) -> dict[str, range]:
        return {}

    def chips_of(self, instances: Rows) -> Rows:
        """Return the chip rows of instances, in their order.

        A slice if the instances are a slice.
        """
        if isinstance(instances, slice):
            return slice(
                int(self.chip_start[instances.start]), int(self.chip_start[instances.stop])
            )
        return self.chip_rows(instances)

    def chip_rows(self, instances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chip rows of some instances, in their order."""
        starts = self.chip_start[instances]
        sizes = self.chip_start[instances + 1] - starts
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        rows: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
        return rows

    def parent(self, node: Node) -> Node:
        """Return the node one level up; the fleet is its own parent."""
        level, index = node
        if level is Level.CHIP:
            return Node(Level.INSTANCE, int(self.instance_of_chip[index]))
        if level is Level.INSTANCE:
            return Node(Level.ULTRASERVER, int(self.ultraserver_of_instance[index]))
        if level is Level.ULTRASERVER:
            return Node(
                Level.CLUSTER, int(np.searchsorted(self.cluster_start, index, side="right")) - 1
            )
        return FLEET_NODE

    def path(self, node: Node) -> str:
        """Return a node's address; the fleet's is empty."""
        level, index = node
        if level is Level.FLEET:
            return ""
        if level is Level.CLUSTER:
            return self.clusters[index]
        if level is Level.ULTRASERVER:
            return self.ultraservers[index]
        if level is Level.INSTANCE:
            return self.instances[index]
        owner = int(self.instance_of_chip[index])
        return f"{self.instances[owner]}/{address.format_chip(index - int(self.chip_start[owner]))}"

    def find(self, path: str) -> Node | None:
        """Return the node at an address, at most chip level; None if unknown.

        A core's address returns its chip.
        """
        if not path:
            return FLEET_NODE
        segments = path.split("/")
        depth = len(segments)
        index: int | None
        if depth == Level.CLUSTER:
            index = self.cluster_index.get(path)
            return None if index is None else Node(Level.CLUSTER, index)
        if depth == Level.ULTRASERVER:
            index = self.ultraserver_index.get(path)
            return None if index is None else Node(Level.ULTRASERVER, index)
        index = self.instance_index.get("/".join(segments[:3]))
        if index is None:
            segments[2] = present_instance(segments[2])
            index = self.instance_index.get("/".join(segments[:3]))
        if index is None or depth == Level.INSTANCE:
            return None if index is None else Node(Level.INSTANCE, index)
        chip = address.parse_chip(segments[3])
        rows = self.children(Node(Level.INSTANCE, index))
        if chip is None or chip >= len(rows) or depth > Level.CORE:
            return None
        return Node(Level.CHIP, rows.start + chip)


def _range(starts: NDArray[np.int64], index: int) -> range:
    return range(int(starts[index]), int(starts[index + 1]))


EMPTY_LAYOUT = Layout.of(())
"""The layout of an unknown fleet."""


def spans_of(layout: Layout, places: Iterable[int]) -> Iterator[str]:
    """Yield instances, ascending, as addresses and ranges of siblings."""
    rows: NDArray[np.int64] = np.fromiter(places, np.int64)
    for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
        first = layout.instances[run[0]]
        last = layout.instances[run[-1]]
        if len(run) == 1:
            yield first
        elif first.rpartition("/")[0] == last.rpartition("/")[0]:
            yield f"{first}..{last.rpartition('/')[2]}"
        else:
            yield from (layout.instances[row] for row in run.tolist())


def whole_spans_of(layout: Layout, places: NDArray[np.int64]) -> Iterator[str]:
    """Yield instances, ascending, like `spans_of`, but whole UltraServers by their own address."""
    inside = np.zeros(len(layout.instances), np.bool_)
    inside[places] = True
    starts = layout.ultraserver_start[:-1].astype(np.intp)
    whole = np.logical_and.reduceat(inside, starts) & ~layout.is_standalone
    groups = np.flatnonzero(whole)
    for run in np.split(groups, np.flatnonzero(np.diff(groups) != 1) + 1) if len(groups) else ():
        first, last = (layout.ultraservers[number] for number in (run[0], run[-1]))
        if first.rpartition("/")[0] != last.rpartition("/")[0]:
            yield from (layout.ultraservers[number] for number in run.tolist())
        else:
            yield first if len(run) == 1 else f"{first}..{last.rpartition('/')[2]}"
    owner = np.searchsorted(layout.ultraserver_start, places, side="right") - 1
    rest = places[~whole[owner]]
    if len(rest):
        yield from spans_of(layout, rest.tolist())
