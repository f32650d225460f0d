"""The instances available to blocks: types, zones and UltraServers as columns.

It also chooses among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.reservations.rules import SOLD_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


class OfferingKind(NamedTuple):
    """Instances that are sold as one."""

    instance_type: str
    instances: int
    is_ultraserver: bool

    def __str__(self) -> str:
        return (
            "an UltraServer" if self.is_ultraserver else f"{self.instances} x {self.instance_type}"
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """Instances as arrays of shape (instances,)."""

    instance_type: NDArray[np.str_]
    zone: NDArray[np.str_]
    ultraserver: NDArray[np.int64]
    """UltraServer number per instance; -1 for a standalone one."""
    on_demand: NDArray[np.bool_] | None = None
    """Instances never sold as blocks, because they are in use on demand. None if all may be."""
    sold: tuple[str, ...] = SOLD_TYPES
    """Instance types sold as blocks, present or not."""

    @staticmethod
    def of(
        layout: Layout,
        zones: Mapping[str, str],
        on_demand: NDArray[np.bool_] | None = None,
        sold: Iterable[str] = SOLD_TYPES,
    ) -> Pool:
        """Return a fleet's pool.

        Args:
            layout: The fleet's.
            zones: Availability Zone of each cluster.
            on_demand: Instances in use on demand; shape (instances,).
            sold: Instance types sold as blocks.
        """
        count = len(layout.instances)
        number = np.searchsorted(layout.ultraserver_start, np.arange(count), side="right") - 1
        cluster = np.searchsorted(layout.cluster_start, number, side="right") - 1
        return Pool(
            np.array([kind.name for kind in layout.types])[layout.instance_type],
            np.array([zones[name] for name in layout.clusters])[cluster],
            np.where(layout.is_standalone[number], -1, number),
            on_demand,
            tuple(sold),
        )

    def __len__(self) -> int:
        return len(self.ultraserver)

    def types(self) -> list[str]:
        """Return the existing instance types."""
        kinds: list[str] = np.unique(self.instance_type).tolist()
        return kinds

    def zones(self, kind: str) -> list[str]:
        """Return the zones with instances of a type."""
        zones: list[str] = np.unique(self.zone[self.instance_type == kind]).tolist()
        return zones

    def choose(
        self, kind: str, zone: str, count: int, busy: NDArray[np.bool_], *, ultraserver: bool
    ) -> tuple[int, ...] | None:
        """Return the first free instances, adjacent if possible; None if too few are free.

        Args:
            kind: Instance type.
            zone: Availability Zone.
            count: Number of instances; an UltraServer's are all of one.
            busy: Mask of unavailable instances; shape (instances,).
            ultraserver: Whether to choose whole UltraServers or standalone instances.
        """
        return self.choose_from(self.sellable(kind, zone, ultraserver=ultraserver), count, busy)

    def sellable(self, kind: str, zone: str, *, ultraserver: bool) -> NDArray[np.int64]:
        """Return the numbers of the instances of a kind and zone for sale, ascending."""
        fitting = (
            (self.instance_type == kind)
            & (self.zone == zone)
            & ((self.ultraserver >= 0) == ultraserver)
        )
        if self.on_demand is not None:
            fitting &= ~self.on_demand
        return np.flatnonzero(fitting)

    def choose_from(
        self, rows: NDArray[np.int64], count: int, busy: NDArray[np.bool_]
    ) -> tuple[int, ...] | None:
        """Return the result of `choose` for rows of `sellable`.

        Rows of `sellable` never change.
        """
        free = rows[~busy[rows]]
        if len(free) < count:
            return None
        if self.ultraserver[free[0]] >= 0:
            _, firsts, counts = np.unique(
                self.ultraserver[free], return_index=True, return_counts=True
            )
            whole = np.flatnonzero(counts == count)
            if not len(whole):
                return None
            first = int(firsts[whole[0]])
        else:
            together = np.flatnonzero(
                free[count - 1 :] - free[: len(free) - count + 1] == count - 1
            )
            first = int(together[0]) if len(together) else 0
        return tuple(free[first : first + count].tolist())
