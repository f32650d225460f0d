"""Targets of faults: patterns, ranges and random choices, resolved against a layout."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level, format_chip, parse_chip
from trnfleet.domain.faults.fault import Fault, FaultScope, Links
from trnfleet.domain.layout import Layout, Node
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.domain.hardware.catalogue import InstanceType

MOST_TARGETS = 4_096
"""Most targets of one fault at once."""

_RANDOM = re.compile(r"random\((\d{1,5})\)(?: of (\S+))?")
_LEVELS = {
    FaultScope.CHIP: Level.CHIP,
    FaultScope.LINK: Level.CHIP,
    FaultScope.INSTANCE: Level.INSTANCE,
    FaultScope.RACK: Level.INSTANCE,
    FaultScope.ULTRASERVER: Level.ULTRASERVER,
    FaultScope.CLUSTER: Level.CLUSTER,
}
_NAMES = {
    FaultScope.CHIP: "a chip, such as {}/chip05",
    FaultScope.LINK: "a chip and a direction, such as {}/chip05:east",
    FaultScope.INSTANCE: "an instance, such as {}",
    FaultScope.RACK: "an instance of the rack, such as {}",
    FaultScope.ULTRASERVER: "an UltraServer, such as {}",
    FaultScope.CLUSTER: "a cluster, such as {}",
}


class Target(NamedTuple):
    """A chip, link, instance, rack, UltraServer or cluster hit by a fault."""

    node: Node
    direction: int = -1
    """Link lane of the chip of `node`; -1 where the target is no link."""

    def address(self, layout: Layout) -> str:
        """Return it as a user would write it."""
        path = layout.path(self.node)
        if self.direction < 0:
            return path
        names = layout.lane_names_of(int(layout.instance_of_chip[self.node.number]))
        return f"{path}:{names[self.direction]}"


def resolve(
    layout: Layout, fault: Fault, text: str, draw: Callable[[int, int], list[int]]
) -> list[Target]:
    """Return the targets named by a text.

    Args:
        layout: The fleet.
        fault: Row of the table.
        text: An address of the scope's level, with `*` and `?` within segments;
            `uc1/us-0001..us-0004` for siblings; `random(2)`, or `random(2) of PATTERN`. A link's
            direction is after a colon; omitted or `*`, it is drawn. With several chips, chips
                without
            such a link are left out.
        draw: Draws a number of different numbers below a limit, ascending.

    Raises:
        ConfigError: no target or too many have that address; the message names the nearest.
    """
    scope = fault.scope
    chosen = _RANDOM.fullmatch(text.strip())
    pattern = chosen[2] if chosen else text.strip()
    way = ""
    if scope is FaultScope.LINK and pattern:
        pattern, _, way = pattern.partition(":")
    numbers: Sequence[int]
    if chosen and pattern is None and scope is not FaultScope.ULTRASERVER:
        numbers = range(layout.count(_LEVELS[scope]))
    else:
        # Standalone segments are numbered among the UltraServers and are none: these are looked
        # through.
        numbers = _matching(layout, scope, "*" if pattern is None else pattern)
        if not numbers and pattern is not None:
            raise ConfigError(f"target {text!r}: {_hint(layout, scope, pattern)}")
    if scope is FaultScope.LINK and len(numbers) > 1:
        linked = _with_links(layout, numbers, fault.links, way)
        if not linked:
            raise _no_link(layout, numbers[0], fault.links, way, text)
        numbers = linked
    if chosen:
        numbers = [
            numbers[place] for place in draw(_count_of(chosen[1], len(numbers), text), len(numbers))
        ]
    if len(numbers) > MOST_TARGETS:
        raise _too_many(text, len(numbers))
    nodes = [Node(_LEVELS[scope], int(number)) for number in numbers]
    if scope is not FaultScope.LINK:
        return [Target(node) for node in nodes]
    return [Target(node, _lane(layout, node, fault.links, way, text, draw)) for node in nodes]


def _count_of(digits: str, count: int, text: str) -> int:
    requested = int(digits)
    if requested > MOST_TARGETS:
        raise _too_many(text, requested)
    if not 1 <= requested <= count:
        raise ConfigError(f"target {text!r}: 1 to {count:,} are there to choose from")
    return requested


def _too_many(text: str, count: int) -> ConfigError:
    return ConfigError(f"target {text!r} names {count:,} things; at most {MOST_TARGETS:,} at once")


def _matching(layout: Layout, scope: FaultScope, pattern: str) -> Sequence[int]:
    """Return the numbers of the nodes at a scope's level with matching addresses."""
    level = _LEVELS[scope]
    if ".." in pattern:
        return _in_range(layout, level, pattern)
    if pattern == "*":
        pattern = "/".join("*" * level)
    segments = pattern.split("/")
    if len(segments) != level:
        return ()
    if not any(mark in pattern for mark in "*?["):
        node = layout.find(pattern)
        return (
            ()
            if node is None or node.level is not level or _is_no_ultraserver(layout, node)
            else (node.number,)
        )
    if level is Level.CHIP:
        return _chips(layout, "/".join(segments[:3]), segments[3])
    names = {
        Level.CLUSTER: layout.clusters,
        Level.ULTRASERVER: layout.ultraservers,
        Level.INSTANCE: layout.instances,
    }[level]
    matches = _matcher(segments)
    return [
        number
        for number, name in enumerate(names)
        if matches(name) and not _is_no_ultraserver(layout, Node(level, number))
    ]


def _is_no_ultraserver(layout: Layout, node: Node) -> bool:
    return node.level is Level.ULTRASERVER and bool(layout.is_standalone[node.number])


def _chips(layout: Layout, instance: str, chip: str) -> list[int]:
    exact = parse_chip(chip)
    most = max((kind.chips for kind in layout.types), default=0)
    places = [
        place
        for place in range(most)
        if (place == exact if exact is not None else fnmatch.fnmatchcase(format_chip(place), chip))
    ]
    owners = np.array(_matching(layout, FaultScope.INSTANCE, instance), np.int64)
    first = layout.chip_start[owners]
    last = layout.chip_start[owners + 1]
    rows = first[:, None] + np.array(places, np.int64)
    numbers: list[int] = rows[rows < last[:, None]].tolist()
    return numbers


def _in_range(layout: Layout, level: Level, text: str) -> Sequence[int]:
    covered = layout.find_instances(text)
    if covered is None or level not in {Level.INSTANCE, Level.ULTRASERVER}:
        return ()
    if level is Level.INSTANCE:
        return covered
    numbers = {layout.parent(Node(Level.INSTANCE, instance)).number for instance in covered}
    return sorted(number for number in numbers if not layout.is_standalone[number])


def _matcher(segments: Sequence[str]) -> Callable[[str], bool]:
    patterns = [re.compile(fnmatch.translate(segment)) for segment in segments]

    def matches(name: str) -> bool:
        return all(
            pattern.match(part) for pattern, part in zip(patterns, name.split("/"), strict=True)
        )

    return matches


def lanes_of(kind: InstanceType, links: Links) -> list[int]:
    """Return the link lanes of a type's chips: within the instance, between instances, or both."""
    return [
        lane
        for lane in range(len(kind.lanes))
        if links is Links.ALL or kind.is_between(lane) == (links is Links.BETWEEN_INSTANCES)
    ]


def _with_links(layout: Layout, chips: Sequence[int], links: Links, way: str) -> list[int]:
    """Return the chips with such a link, named `way` if the type has it."""
    asked = []
    for kind, names in zip(layout.types, layout.lane_names, strict=True):
        lanes = lanes_of(kind, links)
        named = [lane for lane in lanes if names[lane] == way]
        asked.append((sum(1 << lane for lane in named), sum(1 << lane for lane in lanes)))
    masks = np.array(asked, np.uint8).reshape(-1, 2)
    mask = masks[:, 0] if masks[:, 0].any() else masks[:, 1]
    rows = np.asarray(chips, np.int64)
    types = layout.instance_type[layout.instance_of_chip[rows]]
    linked: list[int] = rows[layout.chip_links_mask[rows] & mask[types] != 0].tolist()
    return linked


def _no_link(layout: Layout, chip: int, links: Links, way: str, text: str) -> ConfigError:
    instance = int(layout.instance_of_chip[chip])
    which = way if way in layout.lane_names_of(instance) else links.value
    return ConfigError(
        f"target {text!r}: a {layout.type_of(instance).name} has no NeuronLink {which}".rstrip()
    )


def _lane(
    layout: Layout,
    node: Node,
    links: Links,
    way: str,
    text: str,
    draw: Callable[[int, int], list[int]],
) -> int:
    instance = int(layout.instance_of_chip[node.number])
    mask = int(layout.chip_links_mask[node.number])
    there = [lane for lane in lanes_of(layout.type_of(instance), links) if mask >> lane & 1]
    if not there:
        raise _no_link(layout, node.number, links, "", text)
    if way in {"", "*"}:
        return there[draw(1, len(there))[0]]
    names = layout.lane_names_of(instance)
    names_there = [names[lane] for lane in there]
    if way not in names_there:
        raise ConfigError(
            f"target {text!r}: no such link {way!r} for this fault: {nearest(way, names_there)}"
        )
    return names.index(way)


def _hint(layout: Layout, scope: FaultScope, pattern: str) -> str:
    """Return a hint for a target without any match."""
    level = _LEVELS[scope]
    real = [
        path for number, path in enumerate(layout.ultraservers) if not layout.is_standalone[number]
    ]
    known = {
        Level.CLUSTER: list(layout.clusters),
        Level.ULTRASERVER: real[:4_000],
        Level.INSTANCE: list(layout.instances[:4_000]),
        Level.CHIP: list(layout.instances[:4_000]),
    }[level]
    if not known:
        return f"the fleet has no {scope.value}"
    node = layout.find(pattern)
    if node is not None and Level.CLUSTER <= node.level < level:
        article = "an" if scope in {FaultScope.INSTANCE, FaultScope.ULTRASERVER} else "a"
        return (
            f"{pattern} is above {article} {scope.value}; all below it:"
            f" {pattern}{'/*' * (level - node.level)}"
        )
    if len(pattern.split("/")) != level or "*" in pattern:
        return f"no {scope.value} has such an address; name {_NAMES[scope].format(known[0])}"
    if level is not Level.CHIP:
        return f"no {scope.value} is there: {nearest(pattern, known)}"
    instance, _, chip = pattern.rpartition("/")
    node = layout.find(instance)
    if node is None:
        return (
            f"no {scope.value} is there: {nearest(pattern, [f'{path}/{chip}' for path in known])}"
        )
    last = format_chip(len(layout.children(node)) - 1)
    return f"{instance} has the chips chip00 to {last}"
