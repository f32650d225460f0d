"""The frame: roll-ups, means and summary of one pass for every widget of a paint.

The app reads a frame at the beginning of a paint. Header, titles, rows and lines are made of it,
including parts repainted later by a key. Outside of an app, the frame is the newest pass. Values of
single chips are read from the store, within one paint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.summary import Summary


class Frame:
    """One pass of the monitor that is shown."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._averages: Averages | None = None
        self._summary: Summary | None = None
        self._source = -1

    def take(self) -> None:
        """Take the newest pass."""
        self._averages, self._summary = self._monitor.averages, self._monitor.summary()
        self._source = self._monitor.revision.source

    @property
    def averages(self) -> Averages:
        """Means over the last seconds."""
        return (
            self._averages
            if self._averages is not None and self._is_of_shown
            else self._monitor.averages
        )

    @property
    def rollups(self) -> Rollups:
        """Roll-ups of the pass."""
        return self.averages.rollups

    @property
    def summary(self) -> Summary:
        """The fleet in a few figures."""
        return (
            self._summary
            if self._summary is not None and self._is_of_shown
            else self._monitor.summary()
        )

    @property
    def _is_of_shown(self) -> bool:
        """Whether the frame is of the monitor shown.

        Layouts of two monitors may have the same generation.
        """
        return self._source == self._monitor.revision.source
