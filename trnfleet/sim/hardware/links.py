"""Slow or broken NeuronLinks: the traffic of their lanes and of their rings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.hardware.topology import LinkEnd
from trnfleet.domain.links import link_end, neighbour
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.hardware.columns import LANES
from trnfleet.sim.jobs.activity import AXES, LINK_CEILING
from trnfleet.sim.placement import IDLE, Placement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import InstanceType
    from trnfleet.domain.layout import Layout


@dataclass(frozen=True, slots=True)
class SlowLink:
    """One link with less than its bandwidth."""

    job: int
    """The job on both of its ends, or `IDLE`."""
    chip: int
    """Row of the chip at its first end."""
    direction: int
    """Link lane of that chip."""
    axis: str
    """Activity column of its traffic."""
    is_between: bool
    """Whether it leads to another instance."""
    capacity: float
    """Remaining share of its bandwidth; 0 is down."""
    lanes: tuple[int, ...]
    """Its ends as chip row x `LANES` + lane. Two, or one if the other end is a switch."""
    companions: tuple[int, ...]
    """Ends of the links with the rest of its traffic. These are its ring's others, or the chip's
    other ports. Empty for a link that is down: traffic without a link is rerouted, or stops."""
    is_unused: bool = False
    """Whether it is up, but unused by its job while another link is down."""

    @staticmethod
    def at(
        layout: Layout,
        placement: Placement,
        chip: int,
        direction: int,
        capacity: float,
        *,
        is_unused: bool = False,
    ) -> SlowLink:
        """Return the link at a lane of a chip.

        Raises:
            ValueError: the chip has no such link.
        """
        instance = int(layout.instance_of_chip[chip])
        kind = layout.type_of(instance)
        if link_end(layout, chip, direction) is None:
            raise ValueError(f"a {kind.name} has no link {direction} at chip {chip}")
        ends, around = _ends(layout, kind, chip, direction)
        owners = {int(placement.job_of_instance[layout.instance_of_chip[row]]) for row, _ in ends}
        job = owners.pop() if len(owners) == 1 else IDLE
        lanes = tuple(row * LANES + lane for row, lane in ends)
        others = {row * LANES + lane for row, lane in around} - set(lanes)
        return SlowLink(
            job=job,
            chip=chip,
            direction=direction,
            axis=kind.lanes[direction].axis,
            is_between=kind.is_between(direction),
            capacity=capacity,
            lanes=lanes,
            companions=tuple(sorted(others))
            if job != IDLE and capacity > 0 and not is_unused
            else (),
            is_unused=is_unused,
        )

    @property
    def rows(self) -> tuple[int, ...]:
        """Chip rows of its ends."""
        return tuple(lane // LANES for lane in self.lanes)

    def carried(self, need: float) -> float:
        """Return the share of its usual traffic; the rest goes the other way round its ring.

        All of it where the link has room.

        Args:
            need: Share of reachable bandwidth that its job needs on a link of its axis.
        """
        if self.capacity == 0 or self.is_unused:
            return 0.0
        if self.job == IDLE or need <= self.capacity:
            return 1.0
        return self.capacity / min(need, balanced_pace(self.capacity))


def balanced_pace(capacity: float) -> float:
    """Return the pace of collectives over a ring with one slow link.

    `capacity` is the link's remaining share of bandwidth. Derived: a part f of the slow link's
    traffic goes directly and the rest the other way round, so that both need equal time: f /
    capacity = 2 - f.
    """
    return (1.0 + capacity) / 2.0


class Patches(NamedTuple):
    """Lanes of single links with values different from their cohort's; sorted by lane."""

    lanes: NDArray[np.int64]
    """Chip row x `LANES` + lane."""
    factor: NDArray[np.float64]
    """Factor on the cohort's traffic."""
    limit: NDArray[np.float64]
    """Wire code that the lane cannot exceed."""


def find_patches(
    layout: Layout, links: Sequence[SlowLink], link_need: NDArray[np.float64]
) -> Patches:
    """Return the lanes with traffic changed by slow links.

    Args:
        layout: The fleet.
        links: Its slow links.
        link_need: For each job and axis of `activity.AXES`, the share of reachable bandwidth that
            its busiest phase needs; shape (jobs, axes).
    """
    touched = [
        (lane, number, own)
        for number, link in enumerate(links)
        for own, lanes in ((1, link.lanes), (0, link.companions))
        for lane in lanes
    ]
    lane, link, is_own = np.array(touched, np.int64).reshape(-1, 3).T
    lanes, place = np.unique(lane, return_inverse=True)
    factor = np.ones(len(lanes))
    limit = np.full(len(lanes), np.inf)
    needs = [link_need[slow_link.job, AXES.index(slow_link.axis)] for slow_link in links]
    share = np.array(
        [slow_link.carried(need) for slow_link, need in zip(links, needs, strict=True)], np.float64
    )[link]
    np.multiply.at(factor, place, np.where(is_own == 1, share, 2.0 - share))
    peak = np.array([_peak(layout, slow_link) for slow_link in links], np.float64)
    peak = peak / BY_NAME["link_tx_bytes_per_s"].scale * LINK_CEILING
    left = np.array([slow_link.capacity for slow_link in links], np.float64)[link]
    np.minimum.at(limit, place, np.floor(peak[link] * np.where(is_own == 1, left, 1.0)))
    return Patches(lanes, factor, limit)


def _ends(
    layout: Layout, kind: InstanceType, chip: int, lane: int
) -> tuple[list[LinkEnd], list[LinkEnd]]:
    """Return the ends of a link, and the ends of all links sharing its traffic."""
    near = LinkEnd(chip, lane)
    far = neighbour(layout, chip, lane)
    if far is None:
        inside = len(kind.topology.lanes)
        ports = range(inside, len(kind.lanes)) if kind.is_between(lane) else range(inside)
        return [near], [LinkEnd(chip, port) for port in ports]
    end = link_end(layout, chip, lane)
    back = lane if end is None else end.lane
    rows = [chip, *_walk(layout, chip, lane)]
    if neighbour(layout, rows[-1], lane) is None:
        # A line is open at its ends: the rest of it lies the other way.
        rows += _walk(layout, chip, back)
    around = [LinkEnd(row, way) for row in rows for way in (lane, back)]
    return [near, LinkEnd(far, back)], [
        other for other in around if link_end(layout, *other) is not None
    ]


def _walk(layout: Layout, chip: int, lane: int) -> Iterator[int]:
    """Yield the chips after a chip along a lane.

    Ends at the line's end or before the chip itself.
    """
    row = neighbour(layout, chip, lane)
    while row is not None and row != chip:
        yield row
        row = neighbour(layout, row, lane)


def _peak(layout: Layout, link: SlowLink) -> float:
    figure = layout.type_of(int(layout.instance_of_chip[link.chip])).lane_bytes_per_s(
        link.direction
    )
    return 0.0 if figure is None else figure.value
