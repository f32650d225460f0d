"""The instances that blocks are made of: their types, zones and UltraServers as columns, and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.reservations.rules import SOLD_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


@dataclass(frozen=True, slots=True)
class Pool:
    """Instances as arrays of shape (instances,)."""

    instance_type: NDArray[np.str_]
    zone: NDArray[np.str_]
    ultraserver: NDArray[np.int64]
    """Number of the UltraServer that each belongs to; -1 where it stands alone."""
    taken: NDArray[np.bool_] | None = None
    """Instances that are never sold as blocks, because they are in use on demand; None for none."""
    sold: tuple[str, ...] = SOLD_TYPES
    """Instance types that are sold as blocks, there or not."""

    @staticmethod
    def of(
        layout: Layout,
        zones: Mapping[str, str],
        taken: NDArray[np.bool_] | None = None,
        sold: Iterable[str] = SOLD_TYPES,
    ) -> Pool:
        """Return a fleet's.

        Args:
            layout: The fleet's.
            zones: Availability Zone of each cluster.
            taken: Instances that are in use on demand; shape (instances,).
            sold: Instance types that are sold as blocks.
        """
        count = len(layout.instances)
        number = np.searchsorted(layout.ultraserver_start, np.arange(count), side="right") - 1
        cluster = np.searchsorted(layout.cluster_start, number, side="right") - 1
        return Pool(
            np.array([kind.name for kind in layout.types])[layout.instance_type],
            np.array([zones[name] for name in layout.clusters])[cluster],
            np.where(layout.is_standalone[number], -1, number),
            taken,
            tuple(sold),
        )

    def __len__(self) -> int:
        return len(self.ultraserver)

    def types(self) -> list[str]:
        """Return the instance types that there are."""
        kinds: list[str] = np.unique(self.instance_type).tolist()
        return kinds

    def zones(self, kind: str) -> list[str]:
        """Return the zones that have instances of a type."""
        zones: list[str] = np.unique(self.zone[self.instance_type == kind]).tolist()
        return zones

    def choose(
        self, kind: str, zone: str, count: int, busy: NDArray[np.bool_], *, ultraserver: bool
    ) -> tuple[int, ...] | None:
        """Return the first instances that are not busy, next to each other where there are such; None if too few are free.

        Args:
            kind: Instance type.
            zone: Availability Zone.
            count: How many; an UltraServer's are all of one.
            busy: Which may not be taken; shape (instances,).
            ultraserver: Whether whole UltraServers are looked for, or instances that stand alone.
        """
        return self.choose_from(self.sellable(kind, zone, ultraserver=ultraserver), count, busy)

    def sellable(self, kind: str, zone: str, *, ultraserver: bool) -> NDArray[np.int64]:
        """Return the numbers of the instances of a kind and zone that may be sold at all, ascending."""
        fitting = (
            (self.instance_type == kind)
            & (self.zone == zone)
            & ((self.ultraserver >= 0) == ultraserver)
        )
        if self.taken is not None:
            fitting &= ~self.taken
        return np.flatnonzero(fitting)

    def choose_from(
        self, rows: NDArray[np.int64], count: int, busy: NDArray[np.bool_]
    ) -> tuple[int, ...] | None:
        """Return what `choose` does, of what `sellable` has given, which holds for good."""
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
