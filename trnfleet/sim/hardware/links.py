"""NeuronLinks that are slow or down: what their lanes, and those of the rings that they are part of, carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.fleet import link_ends
from trnfleet.domain.hardware import topology
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.jobs.activity import LINK_CEILING
from trnfleet.sim.placement import IDLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Placement

LANES = len(topology.DIRECTIONS)
_AXES = ("columns", "columns", "rows", "rows", "z", "z")
"""Column of the activity table for each direction."""


@dataclass(frozen=True, slots=True)
class SlowLink:
    """One link with less than its bandwidth."""

    job: int
    """The job on both of its ends, or `IDLE`."""
    chip: int
    """Row of the chip at its first end."""
    direction: int
    """From there."""
    capacity: float
    """Share of its bandwidth that is left; 0 is down."""
    lanes: tuple[int, int]
    """Both ends as chip row x 6 + direction."""
    companions: tuple[int, ...]
    """The ends of the other links of its ring, which carry what it cannot."""

    @staticmethod
    def of(layout: Layout, placement: Placement, chip: int, direction: int, capacity: float) -> SlowLink:
        """Return the link that leaves a chip in a direction.

        Raises:
            ValueError: the chip has no such link.
        """
        near, far = link_ends(layout, chip, direction)
        owners = [int(placement.job_of_instance[layout.instance_of_chip[row]]) for row in (near, far)]
        job = owners[0] if owners[0] == owners[1] else IDLE
        back = topology.OPPOSITE[direction]
        ring = [near]
        while (following := link_ends(layout, ring[-1], direction)[1]) != near:
            ring.append(following)
        lanes = (near * LANES + direction, far * LANES + back)
        around = {row * LANES + way for row in ring for way in (direction, back)}
        companions = tuple(sorted(around - set(lanes))) if job != IDLE else ()
        return SlowLink(job, near, direction, capacity, lanes, companions)

    @property
    def rows(self) -> tuple[int, int]:
        """Chip rows of both ends."""
        return self.lanes[0] // LANES, self.lanes[1] // LANES

    def carried(self, tick: JobTick) -> float:
        """Return what share of its part of a tick's traffic it can carry."""
        if self.capacity == 0 or self.job == IDLE:
            return 0.0 if self.capacity == 0 else 1.0
        demand, time = tick.link_work(self.job, _AXES[self.direction])
        total = float(demand.sum())
        if total <= 0:
            return 1.0
        return float(np.minimum(demand, LINK_CEILING * self.capacity * time).sum()) / total


class Patches(NamedTuple):
    """Lanes of single links that differ from their cohort's; sorted by lane."""

    lanes: NDArray[np.int64]
    """Chip row x 6 + direction."""
    factor: NDArray[np.float64]
    """What the cohort's traffic is multiplied by."""
    limit: NDArray[np.float64]
    """Wire code that the lane cannot exceed."""


class LinkPatches:
    """Finds the lanes that slow links change."""

    def __init__(self, layout: Layout, links: Sequence[SlowLink]) -> None:
        """Note which lanes the links touch, and how often."""
        self._links = links
        touched = [
            (lane, number, own)
            for number, link in enumerate(links)
            for own, lanes in ((1, link.lanes), (0, link.companions))
            for lane in lanes
        ]
        self._lanes = np.array(sorted({lane for lane, _, _ in touched}), np.int64)
        place = {lane: number for number, lane in enumerate(self._lanes.tolist())}
        self._contributions = np.array(
            [(place[lane], number, own) for lane, number, own in touched], np.int64
        ).reshape(-1, 3)
        self._peak = np.array([_peak(layout, link) for link in links])

    def of(self, tick: JobTick) -> Patches:
        """Return the lanes whose traffic differs from their cohort's in a tick."""
        factor = np.ones(len(self._lanes))
        limit = np.full(len(self._lanes), np.inf)
        if len(self._contributions):
            carried = np.array([link.carried(tick) for link in self._links])
            place, link, is_own = self._contributions.T
            share = carried[link]
            np.multiply.at(factor, place, np.where(is_own == 1, share, 2.0 - share))
            peak = self._peak / BY_NAME["link_tx_bytes_per_s"].scale * LINK_CEILING
            left = np.array([each.capacity for each in self._links])
            np.minimum.at(limit, place, np.floor(peak[link] * np.where(is_own == 1, left[link], 1.0)))
        return Patches(self._lanes, factor, limit)


def _peak(layout: Layout, link: SlowLink) -> float:
    chip = layout.type_of(int(layout.instance_of_chip[link.chip])).chip
    if link.direction >= topology.Z_PREV and chip.z_link_bytes_per_s is not None:
        return chip.z_link_bytes_per_s.value
    return chip.link_bytes_per_s.value
