"""What is slow or broken: chips that withhold peak, NeuronLinks that are slow or down.

Owns the fleet file's entries about them, when each is active, and what follows for jobs, chips and links. It knows
nothing of time beyond the seconds that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain import topology
from trnfleet.domain.address import Level
from trnfleet.domain.fleet import Inference, chip_at, link_ends
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.errors import ConfigError
from trnfleet.sim.phases import LINK_CEILING
from trnfleet.sim.placement import IDLE, Cohorts, Placement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile, Link, Straggler
    from trnfleet.sim.workloads import JobTick

DETOUR_PACE = 0.5
"""Pace of collectives on a ring that has lost a link: the other way round carries both halves (derived)."""
DECODE_COLLECTIVES = 0.15
"""Share of a decode step spent in collectives, which a slow link stretches: assumed."""

_LANES = len(topology.DIRECTIONS)
_AXES = ("columns", "columns", "rows", "rows", "z", "z")
"""Column of the activity table for each direction."""
_INTRASERVER = 1 << HEALTH_BITS.index("link_intraserver")
_INTERSERVER = 1 << HEALTH_BITS.index("link_interserver")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the file, resolved."""

    from_s: float
    until_s: float
    job: int
    """The job that it slows, or `IDLE`."""
    replica: tuple[int, ...]
    """For an inference job the instances of the replica that it slows, else empty."""
    chip: int
    """Row of the chip, or of the chip at the first end of the link."""
    pace: float
    """Share of its peak that the chip, or of its bandwidth that the link, is left with."""
    direction: int = -1
    """Direction of the link at its first end; -1 for a chip."""
    lanes: tuple[int, int] = (0, 0)
    """Both ends of the link as chip row x 6 + direction."""
    companions: tuple[int, ...] = ()
    """The ends of the other links of its ring, which carry what it cannot."""


class Patches(NamedTuple):
    """Lanes of single links that differ from their cohort's; sorted by lane."""

    lanes: NDArray[np.int64]
    """Chip row x 6 + direction."""
    factor: NDArray[np.float64]
    """What the cohort's traffic is multiplied by."""
    limit: NDArray[np.float64]
    """Wire code that the lane cannot exceed."""


@dataclass(slots=True)
class Paces:
    """What is slow at present."""

    compute: NDArray[np.float64]
    """For each job, its slowest chip's share of peak (1 for inference, whose replicas go each their own way)."""
    link: NDArray[np.float64]
    """For each job, its slowest link's share of bandwidth."""
    cohort: NDArray[np.float64]
    """For each cohort, the pace of its replica."""
    capacity: NDArray[np.float64]
    """For each job, the share of its replicas' throughput that is left."""


class Degradation:
    """All that the file says is slow or broken, and what of it is active."""

    def __init__(self, layout: Layout, fleet: FleetFile, placement: Placement) -> None:
        """Resolve the entries.

        Raises:
            ConfigError: an address or a link does not exist, or two entries are active on the same thing at a time.
        """
        self._layout = layout
        self._placement = placement
        self._inference = {
            number: job.chips_per_replica
            for number, job in enumerate(fleet.jobs)
            if isinstance(job, Inference)
        }
        self._entries = [
            *(self._straggler(number, each) for number, each in enumerate(fleet.stragglers)),
            *(self._link(number, each) for number, each in enumerate(fleet.links)),
        ]
        self._refuse_overlaps(self._entries[: len(fleet.stragglers)], "stragglers")
        self._refuse_overlaps(self._entries[len(fleet.stragglers) :], "links")
        self._from_s = np.array([entry.from_s for entry in self._entries])
        self._until_s = np.array([entry.until_s for entry in self._entries])
        self._active: NDArray[np.bool_] | None = None
        self._links: list[Entry] = []
        self._patch_lanes = np.zeros(0, np.int64)
        self._contributions = np.zeros((0, 3), np.int64)
        self.paces = Paces(*(np.ones(len(fleet.jobs)) for _ in range(4)))

    @property
    def apart(self) -> Iterable[int]:
        """Instances that need a cohort of their own, because their replica slows alone."""
        return (instance for entry in self._entries for instance in entry.replica)

    def update(self, now_s: float, cohorts: Cohorts) -> bool:
        """Find what is active `now_s` seconds after the start (`from_s` included, `until_s` not).

        Returns:
            Whether that differs from the last time, or this is the first time.
        """
        active = (self._from_s <= now_s) & (now_s < self._until_s)
        if self._active is not None and np.array_equal(active, self._active):
            return False
        self._active = active
        entries = [
            entry for entry, is_active in zip(self._entries, active.tolist(), strict=True) if is_active
        ]
        self._links = [entry for entry in entries if entry.direction >= 0]
        self.paces = self._slow(entries, cohorts)
        self._index_patches()
        return True

    def mark(self, columns: dict[str, NDArray[np.unsignedinteger]]) -> None:
        """Write what `update` found active into `throttle_pct`, `links_up` and `health`, over what was there."""
        active = [] if self._active is None else self._active.tolist()
        throttle, links_up, health = columns["throttle_pct"], columns["links_up"], columns["health"]
        for entry in self._entries:
            for row in self._rows(entry):
                throttle[row] = 0
                links_up[row] = self._layout.links_mask[self._layout.instance_of_chip[row]]
                health[row] = 0
        for entry, is_active in zip(self._entries, active, strict=True):
            if is_active and entry.direction < 0:
                throttle[entry.chip] = BY_NAME["throttle_pct"].code_of(100.0 * (1.0 - entry.pace))
            elif is_active and entry.pace == 0:
                bit = _INTRASERVER if entry.direction < topology.Z_PREV else _INTERSERVER
                for lane in entry.lanes:
                    row, direction = divmod(lane, _LANES)
                    links_up[row] &= 0xFF ^ (1 << direction)
                    health[row] |= bit

    def patches(self, tick: JobTick) -> Patches:
        """Return the lanes whose traffic differs from their cohort's in a tick."""
        carried = np.array([_carried(entry, tick) for entry in self._links])
        metric = BY_NAME["link_tx_bytes_per_s"]
        factor = np.ones(len(self._patch_lanes))
        limit = np.full(len(self._patch_lanes), np.inf)
        if len(self._contributions):
            place, link, is_own = self._contributions.T
            share = carried[link]
            np.multiply.at(factor, place, np.where(is_own == 1, share, 2.0 - share))
            peak = np.array([self._peak(entry) for entry in self._links]) / metric.scale * LINK_CEILING
            left = np.array([entry.pace for entry in self._links])
            np.minimum.at(limit, place, np.floor(peak[link] * np.where(is_own == 1, left[link], 1.0)))
        return Patches(self._patch_lanes, factor, limit)

    def _peak(self, entry: Entry) -> float:
        chip = self._layout.type_of(int(self._layout.instance_of_chip[entry.chip])).chip
        if entry.direction >= topology.Z_PREV and chip.z_link_bytes_per_s is not None:
            return chip.z_link_bytes_per_s.value
        return chip.link_bytes_per_s.value

    def _slow(self, entries: list[Entry], cohorts: Cohorts) -> Paces:
        jobs = len(self._placement.chips)
        paces = Paces(np.ones(jobs), np.ones(jobs), np.ones(len(cohorts.job)), np.ones(jobs))
        replicas: dict[tuple[int, tuple[int, ...]], float] = {}
        for entry in entries:
            is_link = entry.direction >= 0
            pace = (entry.pace or DETOUR_PACE) if is_link else entry.pace
            if entry.job == IDLE:
                continue
            if entry.job in self._inference:
                if is_link:
                    pace = 1.0 / (1.0 - DECODE_COLLECTIVES + DECODE_COLLECTIVES / pace)
                key = (entry.job, entry.replica)
                replicas[key] = min(replicas.get(key, 1.0), pace)
            else:
                of_kind = paces.link if is_link else paces.compute
                of_kind[entry.job] = min(of_kind[entry.job], pace)
        for (job, instances), pace in replicas.items():
            paces.capacity[job] -= (1.0 - pace) * self._inference[job] / float(self._placement.chips[job])
            for instance in instances:
                cohort = cohorts.of_instance[instance]
                paces.cohort[cohort] = min(paces.cohort[cohort], pace)
        return paces

    def _index_patches(self) -> None:
        """Note which lanes the active links touch, and how often."""
        touched = [
            (lane, number, own)
            for number, entry in enumerate(self._links)
            for own, lanes in ((1, entry.lanes), (0, entry.companions))
            for lane in lanes
        ]
        self._patch_lanes = np.array(sorted({lane for lane, _, _ in touched}), np.int64)
        place = {lane: number for number, lane in enumerate(self._patch_lanes.tolist())}
        self._contributions = np.array(
            [(place[lane], number, own) for lane, number, own in touched], np.int64
        ).reshape(-1, 3)

    def _rows(self, entry: Entry) -> list[int]:
        return [entry.chip] if entry.direction < 0 else [lane // _LANES for lane in entry.lanes]

    def _straggler(self, number: int, given: Straggler) -> Entry:
        key = f"stragglers[{number}]"
        until_s = _until(key, given)
        chip = self._chip(f"{key}.chip", given.chip)
        instance = int(self._layout.instance_of_chip[chip])
        job = int(self._placement.job_of_instance[instance])
        return Entry(
            given.from_s, until_s, job, self._replica(job, chip), chip, 1.0 - given.throttle_pct / 100.0
        )

    def _link(self, number: int, given: Link) -> Entry:
        key = f"links[{number}]"
        until_s = _until(key, given)
        chip = self._chip(f"{key}.chip", given.chip)
        direction = topology.DIRECTIONS.index(given.direction)
        try:
            near, far = link_ends(self._layout, chip, direction)
        except ValueError as error:
            raise ConfigError(f"{key}.direction = {given.direction!r}: {error}") from error
        owners = [
            int(self._placement.job_of_instance[self._layout.instance_of_chip[row]]) for row in (near, far)
        ]
        job = owners[0] if owners[0] == owners[1] else IDLE
        back = topology.OPPOSITE[direction]
        ring = self._ring(near, direction)
        lanes = (near * _LANES + direction, far * _LANES + back)
        around = {row * _LANES + way for row in ring for way in (direction, back)}
        return Entry(
            given.from_s, until_s, job, self._replica(job, chip), near, given.capacity, direction, lanes,
            tuple(sorted(around - set(lanes))) if job != IDLE else (),
        )  # fmt: skip  # in the fields' order

    def _chip(self, key: str, path: str) -> int:
        try:
            return chip_at(self._layout, path, key)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _ring(self, chip: int, direction: int) -> list[int]:
        """Return the chips of the ring that leaves `chip` in `direction`."""
        ring = [chip]
        while (following := link_ends(self._layout, ring[-1], direction)[1]) != chip:
            ring.append(following)
        return ring

    def _replica(self, job: int, chip: int) -> tuple[int, ...]:
        """Return the instances of the replica of an inference job that a chip is part of."""
        size = self._inference.get(job)
        if size is None:
            return ()
        members = np.flatnonzero(self._placement.job_of_instance == job)
        sizes = np.diff(self._layout.chip_start)[members]
        first = np.cumsum(sizes) - sizes
        instance = int(self._layout.instance_of_chip[chip])
        place = int(first[members == instance][0]) + chip - int(self._layout.chip_start[instance])
        begin = place // size * size
        return tuple(members[(first < begin + size) & (first + sizes > begin)].tolist())

    def _refuse_overlaps(self, entries: list[Entry], key: str) -> None:
        """Refuse two entries for the same chip, or the same link from either end, at the same time."""
        last: dict[tuple[int, ...], tuple[int, float]] = {}
        for number, entry in sorted(enumerate(entries), key=lambda pair: pair[1].from_s):
            place = (entry.chip,) if entry.direction < 0 else tuple(sorted(entry.lanes))
            other, until_s = last.get(place, (-1, 0.0))
            if other >= 0 and entry.from_s < until_s:
                path = self._layout.path(Node(Level.CHIP, entry.chip))
                raise ConfigError(
                    f"{key}[{number}].from_s = {entry.from_s:g}: {key}[{other}] is active on {path} at that time"
                )
            last[place] = (number, entry.until_s)


def _until(key: str, given: Straggler | Link) -> float:
    if given.until_s is None:
        return float("inf")
    if given.until_s <= given.from_s:
        raise ConfigError(f"{key}.until_s = {given.until_s:g}: must be after from_s, {given.from_s:g}")
    return given.until_s


def _carried(entry: Entry, tick: JobTick) -> float:
    """Return what share of its part of a tick's traffic a link can carry."""
    if entry.pace == 0 or entry.job == IDLE:
        return 0.0 if entry.pace == 0 else 1.0
    asked, time = tick.link_work(entry.job, _AXES[entry.direction])
    total = float(asked.sum())
    if total <= 0:
        return 1.0
    return float(np.minimum(asked, LINK_CEILING * entry.pace * time).sum()) / total
