"""Mean utilisation of reservations over the last seconds, for rows, titles and headlines.

`Reservation.util_pct` is from the newest pass: current use. The mean is computed on display, from
the same means as the rest of the screen, so that a reservation and the same UltraServer have one
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.freshness import Freshness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.store.averages import Averages

_UTIL = "nc_util_pct"


class MeanUse:
    """The utilisation of reservations in one moment's means."""

    def __init__(self, averages: Averages, generation: int) -> None:
        """Store the means of a moment.

        Nothing is computed before the first read.

        Args:
            averages: The means.
            generation: The layout generation of the reservations' rows.
        """
        self._averages = averages
        self._is_known = averages.rollups.ready and averages.generation == generation
        self._sums: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def seconds(self) -> float:
        """Seconds of fleet time covered by the means.

        0 if only the newest pass is used.
        """
        return self._averages.seconds

    def is_of(self, averages: Averages, generation: int) -> bool:
        """Return whether it is of these means and this layout."""
        return averages is self._averages and generation == self._averages.generation

    def util_pct(self, reservation: Reservation) -> float | None:
        """Return the mean utilisation of the live instances.

        None if none is live, or if the reservation is not active.
        """
        if reservation.util_pct is None or not self._is_known:
            return None
        totals, counts = self._totals()
        last = len(totals) - 1
        runs = [(min(run.start, last), min(run.stop, last)) for run in reservation.rows]
        count = sum(counts[stop] - counts[start] for start, stop in runs)
        return (
            float(sum(totals[stop] - totals[start] for start, stop in runs) / count)
            if count
            else None
        )

    def _totals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return cumulative totals and counts of fully live instances before each row."""
        if self._sums is None:
            rollups = self._averages.rollups
            live = rollups.states(Level.INSTANCE)[:, Freshness.LIVE] == rollups.layout.sizes
            total, count = (
                np.where(live, part, 0.0) for part in self._averages.parts(_UTIL, Level.INSTANCE)
            )
            self._sums = (
                np.concatenate([[0.0], np.cumsum(total)]),
                np.concatenate([[0.0], np.cumsum(count)]),
            )
        return self._sums
