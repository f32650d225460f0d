"""Divisions of a fleet's instances: racks, UltraServers, jobs or reservations, with power caps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.power import FLEET, Racks, chip_watts, power_key
from trnfleet.monitor.reservations.table import HOLDS_NOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.store import Store

    Floats = NDArray[np.float64]

RACKS = "rack"
ULTRASERVERS = "UltraServer"
JOBS = "job"
RESERVATIONS = "reservation"
GROUPS = (RACKS, ULTRASERVERS, JOBS, RESERVATIONS)


@dataclass(frozen=True)
class PowerGroups:
    """A division of a fleet's instances."""

    kind: str
    """One of `GROUPS`."""
    layout: Layout
    number_of: NDArray[np.int64]
    """Group of each instance."""
    size: int
    label: Callable[[int], str]
    """Returns a group's place: an address, or the name of a job or reservation."""
    order: NDArray[np.intp]
    """Instances by group."""
    starts: NDArray[np.intp]
    """First instance of each group in `order`, and their number at the end."""

    @staticmethod
    def make(
        kind: str,
        layout: Layout,
        number_of: NDArray[np.int64],
        size: int,
        label: Callable[[int], str],
    ) -> PowerGroups:
        """Return the groups with their members."""
        order = np.argsort(number_of, kind="stable")
        starts = np.searchsorted(number_of[order], np.arange(size + 1))
        return PowerGroups(kind, layout, number_of, size, label, order, starts)

    def members(self, group: int) -> NDArray[np.intp]:
        """Return a group's instances."""
        return self.order[self.starts[group] : self.starts[group + 1]]

    def find(self, place: str) -> int | None:
        """Return the row of a place; the last for the fleet, None if unknown."""
        return self.size if place == FLEET else self._rows.get(place)

    @cached_property
    def places(self) -> list[str]:
        """Labels of all groups."""
        return [*map(self.label, range(self.size))]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {place: row for row, place in enumerate(self.places)}

    @cached_property
    def _has(self) -> NDArray[np.intp]:
        """Groups with instances."""
        return np.flatnonzero(np.diff(self.starts))

    def _folded(self, fold: np.ufunc, ordered: NDArray[Any]) -> NDArray[Any]:
        """Return one value per group with instances, of values in `order` along the last axis."""
        return fold.reduceat(ordered, self.starts[self._has], axis=-1)

    def sums(self, values: NDArray[np.floating]) -> Floats:
        """Return sums of instances' values for each group and, last, for the fleet.

        NaN if all are NaN; earlier axes stay.
        """
        sums = np.full((*values.shape[:-1], self.size + 1), np.nan)
        if values.size:
            ordered = values[..., self.order]
            known = ~np.isnan(ordered)
            total = self._folded(np.add, np.where(known, ordered, 0.0))
            some = self._folded(np.logical_or, known)
            sums[..., self._has] = np.where(some, total, np.nan)
            sums[..., -1] = np.where(some.any(axis=-1), total.sum(axis=-1), np.nan)
        return sums

    def highest(self, values: Floats) -> Floats:
        """Return the largest value of each group and, last, of the fleet; NaN without one."""
        most = np.full(self.size + 1, np.nan)
        if values.size:
            most[self._has] = self._folded(np.fmax, values[self.order])
            most[-1] = np.fmax.reduce(values)
        return most


def racks_of(layout: Layout) -> PowerGroups:
    """Return the racks; a standalone instance and an UltraServer without known chips are one."""
    racks = Racks.of(layout)

    def label(rack: int) -> str:
        first = int(racks.start[rack])
        return layout.instances[first] if layout.members[first] > 1 else racks.label(rack)

    return PowerGroups.make(RACKS, layout, racks.of_instance.astype(np.int64), len(racks), label)


def groups_of(
    kind: str, store: Store, jobs: Jobs, reservations: Iterable[Reservation]
) -> PowerGroups:
    """Return the groups of a kind.

    Instances without a job or reservation are the last group.
    """
    layout = store.layout
    if kind == RACKS:
        return racks_of(layout)
    if kind == ULTRASERVERS:
        names = layout.ultraservers
        rows = layout.ultraserver_of_instance
        return PowerGroups.make(kind, layout, rows, len(names), names.__getitem__)
    if kind == JOBS:
        names = (*jobs.placed, "no job")
        numbers = store.job_of.astype(np.int64)
    else:
        held = [
            reservation
            for reservation in reservations
            if reservation.message.state.value in HOLDS_NOW
        ]
        names = (*(reservation.message.id for reservation in held), "no reservation")
        numbers = np.full(len(layout.instances), -1, np.int64)
        for number, reservation in enumerate(held):
            for run in reservation.rows:
                numbers[run.start : run.stop] = number
    rest = len(names) - 1
    numbers = np.where((numbers < 0) | (numbers >= rest), rest, numbers)
    return PowerGroups.make(kind, layout, numbers, len(names), names.__getitem__)


class CappedPlaces:
    """Power of capped places as shares of their caps; their instances are read once."""

    def __init__(self) -> None:
        self._rows: tuple[object, dict[str, NDArray[np.intp]]] | None = None

    def find(
        self,
        places: Collection[str],
        store: Store,
        jobs: Jobs,
        reservations: Sequence[Reservation],
    ) -> Mapping[str, NDArray[np.intp]]:
        """Return the instances of each cap's place; none of one that is not there now."""
        blocks = [(row.message.id, row.rows) for row in reservations]
        state = id(store.layout), jobs.placements, blocks, [*places]
        if self._rows is None or self._rows[0] != state:
            rows: dict[str, NDArray[np.intp]] = {}
            for kind in GROUPS if places else ():
                groups = groups_of(kind, store, jobs, reservations)
                for place in places:
                    row = groups.find(place)
                    if row is not None:
                        members = groups.order if row == groups.size else groups.members(row)
                        rows.setdefault(place, members)
            self._rows = state, rows
        return self._rows[1]

    def used(
        self,
        caps: Mapping[str, float],
        averages: Averages,
        store: Store,
        jobs: Jobs,
        reservations: Sequence[Reservation],
    ) -> dict[str, float | None]:
        """Return the mean of the last seconds in percent of each cap; None if unknown."""
        if not caps:
            # Most fleets have none, and this is asked in each pass.
            return {}
        key = power_key(lambda names: store.announces(names, slice(None)))
        if key is None or not averages.rollups.ready or averages.generation != store.generation:
            return dict.fromkeys(caps)
        covered = averages.covered(key, Level.INSTANCE).astype(np.float64)
        watts = chip_watts(key, averages.shares(key), covered, store.layout)
        rows = self.find(caps, store, jobs, reservations)
        shares = {
            place: 100.0 * float(np.nansum(watts[rows[place]])) / cap_w
            for place, cap_w in caps.items()
            if place in rows and not np.isnan(watts[rows[place]]).all()
        }
        return {place: shares.get(place) for place in caps}
