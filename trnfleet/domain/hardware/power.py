"""Racks and facilities: which instances share a rack, and what power adds up to on the way to the meter.

Pure arithmetic over arrays; it knows neither jobs nor telemetry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

Watts = TypeVar("Watts", float, "NDArray[np.float64]")

INSTANCES_PER_RACK = 2
"""Instances of an UltraServer in one rack: published, 64 chips in two racks."""
RACK_NAMES = ("rack-a", "rack-b")
"""Names of an UltraServer's racks, in the order of its instances."""
PUE = 1.14
"""Power usage effectiveness: published, AWS's global figure for 2025 (1.15 for 2023 and 2024, 1.04 at the best site)."""


def rack_of(place: int) -> int:
    """Return the rack, 0 or 1, of the instance at `place` (0 to 3) of an UltraServer's ring.

    Derived: the Neuron driver elects each node a neighbour in the same rack and one in the other (neuron_pelect.c), the
    ring is 0-1-2-3, and node 2 lies diagonally opposite of node 0; so 0 and 1 share a rack, and 2 and 3 do.
    """
    return place // INSTANCES_PER_RACK


@dataclass(frozen=True)
class Racks:
    """A fleet's racks, in the order of its instances; build it with `Racks.of`.

    A standalone instance counts as a rack of its own: assumed, since nothing says what stands beside it. An UltraServer
    of which some instances are not known is divided by the order of the others.
    """

    layout: Layout
    start: NDArray[np.intp]
    """First instance of each rack, and the number of instances at the end."""

    @staticmethod
    def of(layout: Layout) -> Racks:
        """Divide a fleet's instances among racks."""
        count = len(layout.instances)
        sizes = np.diff(layout.ultraserver_start)
        place = np.arange(count) - np.repeat(layout.ultraserver_start[:-1], sizes)
        alone = np.repeat(layout.is_standalone, sizes)
        first = np.flatnonzero(alone | (place % INSTANCES_PER_RACK == 0))
        return Racks(layout, np.append(first, count).astype(np.intp))

    def __len__(self) -> int:
        """Return how many racks there are."""
        return len(self.start) - 1

    @property
    def of_instance(self) -> NDArray[np.intp]:
        """The rack of each instance; shape (instances,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def label(self, rack: int) -> str:
        """Return a rack's name: `uc1/us-0001/rack-a`, or a standalone instance's own path."""
        first = int(self.start[rack])
        group = int(np.searchsorted(self.layout.ultraserver_start, first, side="right")) - 1
        if self.layout.is_standalone[group]:
            return self.layout.instances[first]
        place = first - int(self.layout.ultraserver_start[group])
        return f"{self.layout.ultraservers[group]}/{RACK_NAMES[rack_of(place)]}"

    def total(self, of_instance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each rack's sum of its instances' values; NaN counts as nothing, unless a rack has only NaN."""
        if not len(self):
            return np.zeros(0)
        missing = np.isnan(of_instance)
        sums: NDArray[np.float64] = np.add.reduceat(np.where(missing, 0.0, of_instance), self.start[:-1])
        return np.where(np.logical_and.reduceat(missing, self.start[:-1]), np.nan, sums)


def instance_w(
    layout: Layout, chip_w: NDArray[np.float64], host_w: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the IT power of each instance: its chips and its host.

    Args:
        layout: The fleet.
        chip_w: Power of each chip, W, NaN where it is not known; shape (chips,).
        host_w: Power of each host without its chips, W, NaN where it is not known; shape (instances,).

    Returns:
        Watts of what is known; NaN where neither host nor any chip is.
    """
    if not len(host_w):
        return np.zeros(0)
    starts = layout.chip_start[:-1].astype(np.intp)
    missing = np.isnan(chip_w)
    chips: NDArray[np.float64] = np.add.reduceat(np.where(missing, 0.0, chip_w), starts)
    nothing = np.logical_and.reduceat(missing, starts) & np.isnan(host_w)
    return np.where(nothing, np.nan, chips + np.nan_to_num(host_w))


def rack_power_w(
    layout: Layout, instance_power_w: NDArray[np.float64]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the name and the IT power of every rack, in the order of the instances.

    A caller that asks often for the same layout keeps `Racks.of(layout)` and asks that.
    """
    racks = Racks.of(layout)
    return [racks.label(number) for number in range(len(racks))], racks.total(instance_power_w)


def facility_w(it_w: Watts, pue: float = PUE) -> Watts:
    """Return what a facility draws for IT power: cooling and the losses of conversion come on top."""
    return it_w * pue
