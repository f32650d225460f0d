"""Mean utilisation of reservations over the last seconds: the figure that every row, title and headline has.

`Reservation.util_pct` is that of the newest pass, which says what is in use now. This one is read when it is shown, of the means that
the rest of the screen is made of, so that a reservation and the UltraServer that it is have one value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.store.averages import Averages

_UTIL = "nc_util_pct"


class MeanUse:
    """The utilisation of reservations in one moment's means."""

    def __init__(self, averages: Averages, generation: int) -> None:
        """Take a moment; nothing is computed before the first question.

        Args:
            averages: The means.
            generation: The layout generation that reservations have their rows of.
        """
        self._averages = averages
        self._is_known = averages.rollups.ready and averages.generation == generation
        self._sums: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def seconds(self) -> float:
        """Seconds of the fleet's time that the means are over; 0 where they are of the newest pass alone."""
        return self._averages.seconds

    def is_of(self, averages: Averages, generation: int) -> bool:
        """Return whether it is of these means and this layout."""
        return averages is self._averages and generation == self._averages.generation

    def util_pct(self, reservation: Reservation) -> float | None:
        """Return the mean utilisation of its live instances; None where nothing of it is live, or it is not active."""
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
        """Return totals and counts of the instances before each row, those that are live as a whole."""
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
