"""Grouping: active targets of a rule become one alert, at their deepest common address.

Rows are sorted by address, so a group is a run of neighbouring rows. No member is an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.rules import Group, Rule
from trnfleet.domain.alerts.signals import LANES, LEVEL_OF, Scope
from trnfleet.domain.layout import FLEET_NODE, Layout, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.alerts.status import Track


class AlertGroups(NamedTuple):
    """The alerts of one rule at an instant, one row each.

    All arrays have the shape (groups,).
    """

    ids: NDArray[np.int64]
    """Ascending; `target_of` returns their targets."""
    firing: NDArray[np.bool_]
    members: NDArray[np.int64]
    """Firing members; pending ones if none fires."""
    chips: NDArray[np.int64]
    since_ns: NDArray[np.int64]
    """Since when the first member's condition has been fulfilled."""
    fired_ns: NDArray[np.int64]
    """When enough members had begun to fire; meaningless if they do not."""
    values: NDArray[np.float64]
    """The most extreme value; NaN without one."""
    worst: NDArray[np.int64]
    """Row of the member that has it."""
    first: NDArray[np.int64]
    """Row of the first member."""
    last: NDArray[np.int64]
    silent: NDArray[np.bool_]
    """Whether nothing is known of any member."""

    def __len__(self) -> int:
        return len(self.ids)


_NONE = np.zeros(0, np.int64)
_FLAGS = np.zeros(0, np.bool_)
NO_GROUPS = AlertGroups(
    _NONE, _FLAGS, _NONE, _NONE, _NONE, _NONE, np.zeros(0), _NONE, _NONE, _NONE, _FLAGS
)
"""The alerts of most rules at most instants."""


def group(rule: Rule, track: Track, layout: Layout) -> AlertGroups:
    """Return the alerts that a rule's active targets make.

    Args:
        rule: The rule; its scope has addresses.
        track: Its active targets.
        layout: Where they are.
    """
    rows = track.rows
    if not len(rows):
        return NO_GROUPS
    ids = group_ids(rule, rows, layout)
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    fires = track.firing
    sizes = np.diff(np.r_[starts, len(ids)])
    firing_members = np.add.reduceat(fires, starts, dtype=np.int64)
    firing = firing_members >= rule.least_members
    counts = fires | np.repeat(~firing, sizes)
    sign = -1.0 if rule.below is not None else 1.0
    far = np.where(counts & ~np.isnan(track.values), sign * track.values, -np.inf)
    farthest = np.maximum.reduceat(far, starts)
    at_worst = np.flatnonzero(counts & (far == np.repeat(farthest, sizes)))
    worst = rows[at_worst[np.searchsorted(at_worst, starts)]]
    counted = np.flatnonzero(counts)
    spots = np.searchsorted(counted, starts)
    ends = np.r_[spots[1:], len(counted)]
    late = np.int64(2**62)
    fired_ns = np.where(fires, track.fired_ns, late)
    if rule.least_members > 1:
        fired_ns = fired_ns[np.lexsort((fired_ns, np.repeat(starts, sizes)))]
        begun_ns = fired_ns[np.minimum(starts + rule.least_members, starts + sizes) - 1]
    else:
        begun_ns = np.minimum.reduceat(fired_ns, starts)
    groups = AlertGroups(
        ids=ids[starts],
        firing=firing,
        members=np.where(firing, firing_members, sizes),
        chips=_chips(rule.scope, rows, counts, starts, layout),
        since_ns=np.minimum.reduceat(np.where(counts, track.since_ns, late), starts),
        fired_ns=begun_ns,
        values=np.where(np.isinf(farthest), np.nan, sign * farthest),
        worst=worst,
        first=rows[counted[spots]],
        last=rows[counted[ends - 1]],
        silent=np.logical_and.reduceat(track.silent | ~counts, starts),
    )
    if rule.least_members == 1:
        return groups
    enough = sizes >= rule.least_members
    return AlertGroups(*(column[enough] for column in groups))


def group_ids(rule: Rule, rows: NDArray[np.int64], layout: Layout) -> NDArray[np.int64]:
    """Return the group of each target, ascending with the rows."""
    kind = rule.grouping
    level = LEVEL_OF[rule.scope]
    if kind is Group.FLEET:
        return np.zeros(len(rows), np.int64)
    chips = rows // len(LANES[rule.scope]) if rule.scope in LANES else rows
    if kind is Group.NONE or (kind is Group.CHIP and level is Level.CHIP):
        return rows if kind is Group.NONE else chips
    if level is Level.ULTRASERVER:
        ultraservers = rows
        instances = layout.ultraserver_start[rows]
    else:
        instances = layout.instance_of_chip[chips].astype(np.int64) if level is Level.CHIP else rows
        ultraservers = layout.ultraserver_of_instance[instances]
    if kind is Group.INSTANCE:
        return instances
    if kind is Group.CLUSTER:
        clusters: NDArray[np.int64] = (
            np.searchsorted(layout.cluster_start, ultraservers, side="right") - 1
        )
        return clusters
    # What stands alone has no UltraServer to be grouped by: each instance is a group of its own.
    alone = layout.is_standalone[ultraservers]
    place = np.where(alone, instances - layout.ultraserver_start[ultraservers] + 1, 0)
    ids: NDArray[np.int64] = ultraservers * _ids_per_ultraserver(layout) + place
    return ids


def _ids_per_ultraserver(layout: Layout) -> int:
    """Return the numbers for an UltraServer and for each instance of a standalone segment."""
    return len(layout.instances) + 1


def target_of(rule: Rule, group_id: int, layout: Layout) -> str:
    """Return the target of a group: an address."""
    kind = rule.grouping
    if kind is Group.NONE:
        return row_name(rule.scope, group_id, layout)
    if kind is Group.ULTRASERVER:
        ultraserver, place = divmod(group_id, _ids_per_ultraserver(layout))
        if place:
            return layout.instances[int(layout.ultraserver_start[ultraserver]) + place - 1]
        return layout.ultraservers[ultraserver]
    level = {
        Group.CHIP: Level.CHIP,
        Group.INSTANCE: Level.INSTANCE,
        Group.CLUSTER: Level.CLUSTER,
    }.get(kind)
    return "" if level is None else layout.path(Node(level, group_id))


def find_group(rule: Rule, target: str, layout: Layout) -> int | None:
    """Return the group of a target.

    None if not in the layout.
    """
    kind = rule.grouping
    if kind is Group.NONE:
        return find_row(rule.scope, target, layout)
    node = layout.find(target)
    if node is None or kind is Group.FLEET:
        return None if node is None else 0
    if kind is not Group.ULTRASERVER:
        return node.number if node.level is rule.group_level else None
    if node.level is Level.INSTANCE:
        above = layout.parent(node).number
        place = node.number - int(layout.ultraserver_start[above]) + 1
        return above * _ids_per_ultraserver(layout) + place if layout.is_standalone[above] else None
    if node.level is Level.ULTRASERVER and not layout.is_standalone[node.number]:
        return node.number * _ids_per_ultraserver(layout)
    return None


def row_name(scope: Scope, row: int, layout: Layout) -> str:
    """Return a target's address; links have their direction behind a colon, cores are segments."""
    if scope not in LANES:
        return layout.path(Node(LEVEL_OF[scope], row))
    chip, lane = divmod(row, len(LANES[scope]))
    mark = ":" if scope is Scope.LINK else "/"
    return f"{layout.path(Node(Level.CHIP, chip))}{mark}{_lanes(scope, chip, layout)[lane]}"


def find_row(scope: Scope, name: str, layout: Layout) -> int | None:
    """Return the row of a target's address.

    None if not in the layout.
    """
    path = name
    lane = ""
    if scope in LANES:
        path, _, lane = name.rpartition(":" if scope is Scope.LINK else "/")
    node = layout.find(path) if path else FLEET_NODE
    if node is None or node.level is not LEVEL_OF[scope]:
        return None
    if scope not in LANES:
        return node.number
    lanes = _lanes(scope, node.number, layout)
    return node.number * len(LANES[scope]) + lanes.index(lane) if lane in lanes else None


def _lanes(scope: Scope, chip: int, layout: Layout) -> tuple[str, ...]:
    """Return the names of a chip's lanes."""
    if scope is not Scope.LINK:
        return LANES[scope]
    return layout.lane_names_of(int(layout.instance_of_chip[chip]))


def _chips(
    scope: Scope,
    rows: NDArray[np.int64],
    counts: NDArray[np.bool_],
    starts: NDArray[np.intp],
    layout: Layout,
) -> NDArray[np.int64]:
    """Return how many chips the counted members of each group are, or have."""
    if LEVEL_OF[scope] is Level.CHIP:
        chips = rows // len(LANES[scope]) if scope in LANES else rows
        if scope in LANES:
            # Members of one chip are neighbours: each chip counts at the first counting one of a
            # group.
            counted = np.flatnonzero(counts)
            groups = np.searchsorted(starts, counted, side="right")
            new = np.r_[True, (np.diff(chips[counted]) != 0) | (np.diff(groups) != 0)]
            weights = np.zeros(len(rows), np.int64)
            weights[counted[new]] = 1
        else:
            weights = counts.astype(np.int64)
    else:
        first = rows
        last = rows + 1
        if LEVEL_OF[scope] is Level.ULTRASERVER:
            first = layout.ultraserver_start[rows]
            last = layout.ultraserver_start[rows + 1]
        weights = np.where(counts, layout.chip_start[last] - layout.chip_start[first], 0)
    total: NDArray[np.int64] = np.add.reduceat(weights, starts)
    return total


def covered_chips(rule: Rule, track: Track, layout: Layout) -> NDArray[np.bool_] | None:
    """Return a flag per chip: covered by a firing target of the rule.

    None if none fires.
    """
    rows = track.rows[track.firing]
    if not len(rows):
        return None
    covered = np.zeros(layout.chips, np.bool_)
    level = LEVEL_OF[rule.scope]
    if level is Level.CHIP:
        covered[rows // len(LANES[rule.scope]) if rule.scope in LANES else rows] = True
    else:
        for row in rows.tolist():
            chips = layout.chip_range(Node(level, row))
            covered[chips.start : chips.stop] = True
    return covered


def each_alone(track: Track) -> AlertGroups:
    """Return the alerts of targets with names: each its own."""
    if not len(track):
        return NO_GROUPS
    ones = np.ones(len(track), np.int64)
    return AlertGroups(
        track.rows.copy(),
        track.firing,
        ones,
        ones * 0,
        track.since_ns.copy(),
        track.fired_ns.copy(),
        track.values.copy(),
        track.rows,
        track.rows,
        track.rows,
        track.silent.copy(),
    )


def changed(before: AlertGroups | None, now: AlertGroups) -> list[int]:
    """Return the positions of changed groups.

    All positions if the set of groups changed or none are known yet.
    """
    if not len(now.ids):
        return []
    if before is None or len(before.ids) != len(now.ids) or not np.array_equal(before.ids, now.ids):
        return list(range(len(now.ids)))
    differs = np.zeros(len(now.ids), np.bool_)
    for one, other in zip(before[1:], now[1:], strict=True):
        differs |= (one != other) & ~(_is_nan(one) & _is_nan(other))
    places: list[int] = np.flatnonzero(differs).tolist()
    return places


def _is_nan(values: NDArray[np.generic]) -> NDArray[np.bool_]:
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
