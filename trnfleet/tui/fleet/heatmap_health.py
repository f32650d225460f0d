"""Health of the chips on the map, as one rank per chip.

The rank combines problems, freshness and use. A cell with several chips shows the worst. Severity
comes from problems that are neither acknowledged nor silenced, as in the header's badge, so map and
list agree. The others have the glyph of their severity on a calm tile. A silent chip has its mark
of silence, in the colour of a problem's severity. This module draws nothing.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import LEVEL_OF
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout, Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.problems.places import instances_of, place_of
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT
from trnfleet.monitor.store.fields import Field
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.tui.state.alerts import MOST_MEMBERS, AlertSnapshot
from trnfleet.tui.theme.palettes import LOAD_STEPS as LOADS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.tui.fleet.heatmap_grid import MapGrid

HEALTH = Field(
    "map_health",
    "health",
    "",
    "Problems, freshness and use: the worst of the chips that a cell stands for",
    (),
    lambda _parts, figure: figure,
)
"""The map's first field. It is not a figure, so no other view has it."""

_UTIL = "nc_util_pct"


class MapHealth(enum.IntEnum):
    """Health of a chip, in ascending order of importance."""

    NOTHING = 0
    """No chip at this place."""
    MISSING = enum.auto()
    IDLE = enum.auto()
    RESERVED_IDLE = enum.auto()
    NORMAL = enum.auto()
    HANDLED_WARNING = enum.auto()
    """Acknowledged or silenced."""
    HANDLED_CRITICAL = enum.auto()
    VICTIM = enum.auto()
    """Stopped by a cause elsewhere."""
    STALE = enum.auto()
    OFFLINE = enum.auto()
    WARNING = enum.auto()
    STALE_WARNING = enum.auto()
    OFFLINE_WARNING = enum.auto()
    CRITICAL = enum.auto()
    STALE_CRITICAL = enum.auto()
    OFFLINE_CRITICAL = enum.auto()


WORDS = {
    MapHealth.NOTHING: "",
    MapHealth.MISSING: "not heard yet",
    MapHealth.IDLE: "idle",
    MapHealth.RESERVED_IDLE: "idle, reserved",
    MapHealth.NORMAL: "normal",
    MapHealth.HANDLED_WARNING: "warning, handled",
    MapHealth.HANDLED_CRITICAL: "critical, handled",
    MapHealth.VICTIM: "stopped by a problem elsewhere",
    MapHealth.STALE: "stale",
    MapHealth.OFFLINE: "offline",
    MapHealth.WARNING: "warning",
    MapHealth.STALE_WARNING: "warning, stale",
    MapHealth.OFFLINE_WARNING: "warning, offline",
    MapHealth.CRITICAL: "critical",
    MapHealth.STALE_CRITICAL: "critical, stale",
    MapHealth.OFFLINE_CRITICAL: "critical, offline",
}

STATES = len(MapHealth) + LOADS
"""Number of states: the healths, and the levels of load above normal health."""


def health_of(state: int) -> MapHealth:
    """Return the health of a state."""
    return MapHealth(state if state <= MapHealth.NORMAL else max(MapHealth.NORMAL, state - LOADS))


def state_of(health: MapHealth) -> int:
    """Return the state of a health, without a load."""
    return health + LOADS * (health > MapHealth.NORMAL)


_OF_STATE = np.zeros(len(Freshness), np.int8)
_OF_STATE[list(Freshness)] = [
    MapHealth.NORMAL,
    MapHealth.STALE,
    MapHealth.OFFLINE,
    MapHealth.MISSING,
    MapHealth.MISSING,
]
HANDLED = len(Severity)
"""Added to the rank of a severity if the problem is acknowledged or silenced."""
VICTIM = Severity.INFO.rank
"""Rank of a chip whose job a problem stopped elsewhere. Info marks nothing, so its rank is free."""
NO_RANK = HANDLED + len(Severity)
"""Of a chip without a problem: above every rank."""
_RAISED = np.tile(np.arange(len(MapHealth), dtype=np.int8), (NO_RANK + 1, 1))
"""Health by the rank of the worst problem and the health without one. Info marks nothing."""
for _severity, _marks in (
    (Severity.WARNING, (MapHealth.WARNING, MapHealth.STALE_WARNING, MapHealth.OFFLINE_WARNING)),
    (Severity.CRITICAL, (MapHealth.CRITICAL, MapHealth.STALE_CRITICAL, MapHealth.OFFLINE_CRITICAL)),
):
    _RAISED[_severity.rank, MapHealth.MISSING : MapHealth.NORMAL + 1] = _marks[0]
    _RAISED[_severity.rank, MapHealth.STALE], _RAISED[_severity.rank, MapHealth.OFFLINE] = _marks[
        1:
    ]
_RAISED[HANDLED + Severity.WARNING.rank, MapHealth.IDLE : MapHealth.NORMAL + 1] = (
    MapHealth.HANDLED_WARNING
)
_RAISED[HANDLED + Severity.CRITICAL.rank, MapHealth.IDLE : MapHealth.NORMAL + 1] = (
    MapHealth.HANDLED_CRITICAL
)
_RAISED[VICTIM, MapHealth.MISSING : MapHealth.NORMAL + 1] = MapHealth.VICTIM


class Ranks(NamedTuple):
    """The rank of the worst problem of every place of one layout; `NO_RANK` for none."""

    instances: NDArray[np.int8]
    """Worst problem of each instance as a whole (all of its chips); shape (instances,)."""
    worst: NDArray[np.int8]
    """The same, including problems of some of its chips."""
    chips: NDArray[np.int64]
    """Chips that have problems of their own, ascending."""
    chip_ranks: NDArray[np.int8]

    def of_chips(self, rows: NDArray[np.int64], owner: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return the ranks of some chips.

        `owner` is the instance of each.
        """
        ranks = self.instances[owner]
        if len(self.chips):
            at = np.minimum(np.searchsorted(self.chips, rows), len(self.chips) - 1)
            ranks = np.where(self.chips[at] == rows, np.minimum(ranks, self.chip_ranks[at]), ranks)
        return ranks


class HealthValues:
    """Health of the chips of the fleet on screen.

    As of its last pass and the last reading of alerts.
    """

    def __init__(self, monitor: FleetState, alerts: AlertSnapshot) -> None:
        self._monitor = monitor
        self._alerts = alerts
        self._ranks: tuple[Hashable, Ranks] = (
            None,
            _ranks(EMPTY_LAYOUT, (), np.zeros(0, np.int32)),
        )
        self._utils: tuple[Averages | None, NDArray[np.float64]] = (None, np.zeros(0))

    def window(
        self, grid: MapGrid, side: int, x: NDArray[np.int64], y: NDArray[np.int64]
    ) -> NDArray[np.int8]:
        """Return the worst state of each pixel at pixel columns `x` by rows `y`.

        Among normal chips it is the busiest. A pixel is `side` chips wide.
        """
        if side >= grid.tile:
            return self._of_instances(grid, side, x, y)
        inside = np.arange(side)
        across, down = (np.add.outer(side * axis, inside).ravel() for axis in (x, y))
        healths = self._at(grid.chips_at(across, down))
        worst: NDArray[np.int8] = healths.reshape(len(y), side, len(x), side).max(axis=(1, 3))
        return worst

    def of_chips(self, rows: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the `MapHealth` of some chips."""
        store = self._monitor.store
        owner = store.layout.instance_of_chip[rows]
        health = _OF_STATE[store.chip_state[rows]]
        maybe = np.flatnonzero(health == MapHealth.NORMAL)
        if len(maybe):
            util = store.chip_values(BY_NAME[_UTIL], rows[maybe])
            maybe = maybe[util <= IDLE_BELOW_PCT]
            maybe = maybe[self._may_idle(owner[maybe].astype(np.int64))]
            health[maybe] = self._unused()[owner[maybe]]
        raised: NDArray[np.int8] = _RAISED[self._ranked().of_chips(rows, owner), health]
        return raised

    def _at(self, chips: NDArray[np.int64]) -> NDArray[np.int8]:
        healths = np.zeros(chips.shape, np.int8)
        there = chips >= 0
        rows = chips[there]
        owner = self._monitor.store.layout.instance_of_chip[rows].astype(np.int64)
        share = np.ones(len(rows))
        rollups = self._monitor.rollups
        if rollups.ready and rollups.generation == self._monitor.store.generation:
            util = self._monitor.store.chip_values(BY_NAME[_UTIL], rows)
            mean = rollups.mean(_UTIL, Level.INSTANCE, owner)
            np.divide(util, mean, out=share, where=mean > IDLE_BELOW_PCT)
        healths[there] = self._with_load(self.of_chips(rows), owner, share)
        return healths

    def _with_load(
        self,
        health: NDArray[np.int8],
        instances: NDArray[np.int64],
        share: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int8]:
        """Return the states of some healths: normal ones have a load.

        It is the instance's mean of some seconds, because single steps of a training swing, times
        the chip's present share of its instance.
        """
        states = health + np.int8(LOADS) * (health > MapHealth.NORMAL)
        normal = np.flatnonzero(health == MapHealth.NORMAL)
        utils = self._mean_utils()
        if utils is not None:
            util = utils[instances[normal]]
            util = util if share is None else util * share[normal]
            load = np.clip(np.nan_to_num(util) * LOADS // 100, 0, LOADS - 1) + 1
            states[normal] += np.where(np.isnan(util), 0, load).astype(np.int8)
        return states

    def _of_instances(
        self, grid: MapGrid, side: int, x: NDArray[np.int64], y: NDArray[np.int64]
    ) -> NDArray[np.int8]:
        """Return the worst state of pixels that have whole instances."""
        place, shape = grid.pixels_of_pieces(side)
        in_window = np.zeros(shape, np.bool_)
        in_window[np.ix_(y, x)] = True
        pieces = np.flatnonzero(in_window.ravel()[place])
        worst = np.zeros(shape, np.int8)
        np.maximum.at(worst.ravel(), place[pieces], self._worst(grid.piece_instance[pieces]))
        return worst[np.ix_(y, x)]

    def _worst(self, instances: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return the worst state of the chips of some instances."""
        rollups = self._monitor.rollups
        if not rollups.ready or rollups.generation != self._monitor.store.generation:
            return np.full(len(instances), MapHealth.MISSING, np.int8)
        states = rollups.states(Level.INSTANCE)[instances] > 0
        idle = np.flatnonzero(rollups.mean(_UTIL, Level.INSTANCE, instances) <= IDLE_BELOW_PCT)
        idle = idle[self._may_idle(instances[idle])]
        health = np.full(len(states), MapHealth.NORMAL, np.int8)
        health[idle] = self._unused()[instances[idle]]
        health[~states[:, Freshness.LIVE]] = MapHealth.MISSING
        health[states[:, Freshness.STALE]] = MapHealth.STALE
        health[states[:, Freshness.OFFLINE]] = MapHealth.OFFLINE
        return self._with_load(_RAISED[self._ranked().worst[instances], health], instances)

    def _mark(self) -> Hashable:
        revision = self._monitor.revision
        return revision.source, self._monitor.store.generation, self._alerts.revision

    def _may_idle(self, instances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the chips of each instance may be called idle.

        Instances may repeat. Between two training steps every chip is idle for a moment; its
        instance, averaged over some seconds, is not.
        """
        free: NDArray[np.bool_] = self._monitor.store.job_of[instances] < 0
        utils = self._mean_utils()
        if utils is not None:
            held = np.flatnonzero(~free)
            free[held] = utils[instances[held]] <= IDLE_BELOW_PCT
        return free

    def _mean_utils(self) -> NDArray[np.float64] | None:
        """Return the mean utilisation of each instance over some seconds.

        None before the first sample of this layout. It is kept for a pass: the map, the line of the
        selection and each key need it.
        """
        averages = self._monitor.averages
        if not averages.rollups.ready or averages.generation != self._monitor.store.generation:
            return None
        if self._utils[0] is not averages or not averages.samples:
            self._utils = averages, averages.mean(_UTIL, Level.INSTANCE)
        return self._utils[1]

    def _unused(self) -> NDArray[np.int8]:
        """Return the health of an idle chip, by instance."""
        monitor = self._monitor
        unused = np.full(len(monitor.store.layout.instances), MapHealth.IDLE, np.int8)
        for reservation in monitor.reservations.table():
            # Of a reservation that holds nothing at present, use is not known.
            for run in reservation.rows if reservation.used is not None else ():
                unused[run.start : run.stop] = MapHealth.RESERVED_IDLE
        return unused

    def _ranked(self) -> Ranks:
        mark = self._mark()
        if self._ranks[0] != mark:
            self._ranks = mark, self._marked(self._monitor.store.layout)
        return self._ranks[1]

    def _marked(self, layout: Layout) -> Ranks:
        """Return the ranks of chips and instances from the problems."""
        rows: list[tuple[int, int, int]] = []
        for problem in self._alerts.problems.all:
            if problem.severity is Severity.INFO:
                continue
            rank = problem.severity.rank + (0 if problem.is_loud else HANDLED)
            causes = list(self._nodes_of(problem, layout))
            victims = list(self._victims(problem, layout))
            placed = _placed(problem)
            deepest = max((LEVEL_OF[alert.rule.scope] for alert in placed), default=Level.FLEET)
            for alert in placed:
                # Of what stopped a job, the narrowest place is the cause.
                is_cause = not victims or LEVEL_OF[alert.rule.scope] is deepest
                (causes if is_cause else victims).extend(self._members(alert, layout))
            place = layout.find(problem.place.address)
            if not causes and place is not None and place.level >= Level.INSTANCE:
                # A job that failed by itself has no cause elsewhere: its place is all of it.
                is_part = place.level is Level.CHIP or len(victims) > 1
                causes += [place] if is_part else []
            rows.extend((node.level, node.number, rank) for node in causes)
            stopped = VICTIM if causes and problem.is_loud else rank
            rows.extend((node.level, node.number, stopped) for node in victims)
        return _ranks(layout, rows, layout.instance_of_chip)

    def _nodes_of(self, problem: Problem, layout: Layout) -> Iterable[Node]:
        """Return a problem's places apart from its alerts and jobs: link and findings."""
        place = problem.place
        if place.lane:
            ends = (place.address, place.other_end.rpartition(":")[0])
            yield from filter(None, map(layout.find, filter(None, ends)))
        if not problem.alerts:
            yield from filter(
                None,
                (
                    layout.find(finding.path)
                    for finding in problem.findings
                    if finding.path and finding.kind != "job"
                ),
            )

    def _victims(self, problem: Problem, layout: Layout) -> Iterable[Node]:
        """Yield the instances of the jobs that a problem stopped."""
        for job in problem.jobs:
            known = self._monitor.ingest.jobs.get(job.job)
            if job.state in JOBS_DOWN and known is not None:
                for path in known.on:
                    for number in layout.find_instances(path) or ():
                        yield Node(Level.INSTANCE, number)

    def _members(self, alert: Alert, layout: Layout) -> list[Node]:
        """Return the nodes of an alert.

        Its whole place if all chips there are affected, else its members.
        """
        place = place_of(alert)
        node = layout.find(place.address)
        if node is None:
            return []
        if node.level is Level.CHIP or LEVEL_OF[alert.rule.scope] is node.level:
            return [node]
        is_one = node.level > Level.ULTRASERVER or (
            node.level is Level.ULTRASERVER and not layout.is_standalone[node.number]
        )
        numbers = list(instances_of(place, layout)) if is_one else []
        whole = [Node(Level.INSTANCE, number) for number in numbers]
        if whole and alert.chips >= np.diff(layout.chip_start)[numbers].sum():
            return whole
        if alert.members <= MOST_MEMBERS:
            members = self._monitor.alerts.members(alert, alert.members)
            nodes = [layout.find(_address(name)) for name, _, fires in members if fires]
            if nodes:
                return [member for member in nodes if member is not None]
        # A watch publishes no members. A group of hardware is marked at its worst member.
        worst = layout.find(_address(alert.worst)) if alert.worst else None
        return whole or ([] if worst is None else [worst])


def _address(member: str) -> str:
    return member.partition(":")[0]


def _placed(problem: Problem) -> list[Alert]:
    return [
        held.alert
        for held in problem.alerts
        if (held.status is AlertStatus.FIRING) is problem.is_loud
        and held.alert.rule.scope in LEVEL_OF
    ]


def _ranks(
    layout: Layout, nodes: Iterable[tuple[int, int, int]], owner_of: NDArray[np.int32]
) -> Ranks:
    """Return ranks from level, number and rank of nodes."""
    rows = np.array(list(nodes), np.int64).reshape(-1, 3)
    instances = np.full(len(layout.instances), NO_RANK, np.int8)
    here = rows[rows[:, 0] == Level.INSTANCE]
    np.minimum.at(instances, here[:, 1], here[:, 2].astype(np.int8))
    for number, rank in rows[rows[:, 0] == Level.ULTRASERVER][:, 1:].tolist():
        start, stop = layout.ultraserver_start[number : number + 2]
        np.minimum(instances[start:stop], rank, out=instances[start:stop])
    single = rows[rows[:, 0] == Level.CHIP]
    chips, inverse = np.unique(single[:, 1], return_inverse=True)
    chip_ranks = np.full(len(chips), NO_RANK, np.int8)
    np.minimum.at(chip_ranks, inverse, single[:, 2].astype(np.int8))
    worst = instances.copy()
    if len(chips):
        np.minimum.at(worst, owner_of[chips], chip_ranks)
    return Ranks(instances, worst, chips, chip_ranks)
