"""Racks and facilities: instances per rack, and the power of chips, instances, racks and sites.

Pure arithmetic over arrays; it knows neither jobs nor telemetry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trnfleet.domain.hardware.catalogue import ultraserver_type_of
from trnfleet.domain.site import PUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

    Floats = NDArray[np.float64]

FLEET = "fleet"
"""The place of the fleet's own cap."""
J_PER_KWH = 3.6e6
POWER_W = "power_w"
POWER_SHARE = "power_util_pct"
"""Share of a chip's range above its background power: all that a real host knows."""
Watts = TypeVar("Watts", float, "NDArray[np.float64]")


@dataclass(frozen=True)
class Racks:
    """A fleet's racks, in the order of its instances; build it with `Racks.of`.

    A standalone instance counts as a rack of its own (assumed, because its neighbours are unknown).
    An UltraServer with some instances unknown is divided by the order of the others.
    """

    layout: Layout
    start: NDArray[np.intp]
    """First instance of each rack, and the number of instances at the end."""

    @staticmethod
    def of(layout: Layout) -> Racks:
        """Divide a fleet's instances among racks, by their UltraServer types."""
        count = len(layout.instances)
        sizes = np.diff(layout.ultraserver_start)
        place = np.arange(count) - np.repeat(layout.ultraserver_start[:-1], sizes)
        alone = np.repeat(layout.is_standalone, sizes)
        in_rack = np.array([_instances_per_rack(kind.name) for kind in layout.types], np.int64)
        first = np.flatnonzero(alone | (place % in_rack[layout.instance_type] == 0))
        return Racks(layout, np.append(first, count).astype(np.intp))

    def __len__(self) -> int:
        """Number of racks."""
        return len(self.start) - 1

    @property
    def of_instance(self) -> NDArray[np.intp]:
        """The rack of each instance; shape (instances,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def label(self, rack: int) -> str:
        """Return a rack's name: `uc1/us-0001/rack-a`, or its first instance's path.

        The path names a standalone instance, and an UltraServer with instances of several types or
        more instances than its type has: descriptors of several publishers can cause that.
        """
        first = int(self.start[rack])
        group = int(np.searchsorted(self.layout.ultraserver_start, first, side="right")) - 1
        kind = self.layout.ultraserver_type(group)
        start, end = self.layout.ultraserver_start[group : group + 2].tolist()
        types = self.layout.instance_type[start:end]
        if kind is None or end - start > kind.instances or (types != types[0]).any():
            return self.layout.instances[first]
        return f"{self.layout.ultraservers[group]}/{kind.racks[kind.rack_of(first - start)]}"

    def total(self, of_instance: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each rack's sum of its instances' values.

        NaN counts as 0; a rack with only NaN is NaN.
        """
        if not len(self):
            return np.zeros(0)
        missing = np.isnan(of_instance)
        sums: NDArray[np.float64] = np.add.reduceat(
            np.where(missing, 0.0, of_instance), self.start[:-1]
        )
        return np.where(np.logical_and.reduceat(missing, self.start[:-1]), np.nan, sums)


def _instances_per_rack(instance_type: str) -> int:
    kind = ultraserver_type_of(instance_type)
    return 1 if kind is None else kind.instances_per_rack


def facility_w(it_w: Watts, pue: float = PUE) -> Watts:
    """Return the power of a facility: IT power, cooling and the losses of conversion."""
    return it_w * pue


def power_key(knows: Callable[[list[str]], bool]) -> str | None:
    """Return the metric that watts come from; None where no source publishes power."""
    return next((name for name in (POWER_W, POWER_SHARE) if knows([name])), None)


def chip_watts(key: str, totals: Floats, covered: Floats, layout: Layout) -> Floats:
    """Return the watts of each instance's chips.

    Args:
        key: The metric of `power_key`.
        totals: Its totals by instance.
        covered: The chips in them.
        layout: The instances.
    """
    if key == POWER_W:
        return totals
    base_w = of_types(layout, "power_background_w")
    return base_w * covered + (of_types(layout, "power_max_w") - base_w) * totals / 100.0


def of_types(layout: Layout, name: str) -> Floats:
    """Return a figure of the catalogue for one chip of each instance."""
    values = np.array([getattr(kind.chip, name).value for kind in layout.types], np.float64)
    return values[layout.instance_type]
