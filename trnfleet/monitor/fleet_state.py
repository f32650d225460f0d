"""What is looked at: the present, or a moment of the past, behind one interface that views read.

Views keep a `Shown` and never the monitor in it, so that going back in time is an exchange in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.monitor import Monitor, RackPower, Summary
    from trnfleet.monitor.pipeline import PipelineCounts
    from trnfleet.monitor.reservations.table import Reservations
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.history import History
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import LinkStatus

APART = 1_000_000_000
"""Distance of the revisions of one exchange from those of the next; more than any monitor makes in years."""


class FleetState(Protocol):
    """What is known of one fleet at a moment, as views read it."""

    @property
    def turn(self) -> int:
        """Goes up with every exchange for another monitor."""

    @property
    def fleet_name(self) -> str:
        """Which fleet."""

    @property
    def pue(self) -> float:
        """Power usage effectiveness of the site."""

    @property
    def clock(self) -> Clock:
        """The time that data goes by: it stands while a past is paused."""

    @property
    def store(self) -> Store:
        """The newest values."""

    @property
    def rollups(self) -> Rollups:
        """Sums and means of every level."""

    @property
    def history(self) -> History:
        """Samples for charts."""

    @property
    def findings(self) -> Findings:
        """What needs a look."""

    @property
    def ingest(self) -> Ingest:
        """What came in: descriptors, jobs, publishers."""

    @property
    def counts(self) -> PipelineCounts:
        """What went wrong on the way here."""

    @property
    def events(self) -> Events:
        """What publishers have told."""

    @property
    def reservations(self) -> Reservations:
        """What is reserved."""

    @property
    def alerts(self) -> Alerts:
        """What rules say."""

    @property
    def link(self) -> LinkStatus:
        """How the connection fares."""

    @property
    def message_rate(self) -> float:
        """Telemetry messages a second."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""

    def summary(self) -> Summary:
        """Return the fleet in a few figures."""

    def racks(self) -> list[RackPower]:
        """Return the power of every rack."""

    def moment(self) -> Moment:
        """Return what time it is for the fleet."""


class Shown:
    """A monitor that may be exchanged for another one of the same fleet.

    Every exchange makes all revisions higher than any that were shown before; a layout is told from another by its identity.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._at = monitor
        self.turn = 0
        """Goes up with every exchange."""

    @property
    def at(self) -> Monitor:
        """What is looked at now."""
        return self._at

    @at.setter
    def at(self, monitor: Monitor) -> None:
        if monitor is self._at:
            return
        self._at = monitor
        self.turn += 1
        _renumber(monitor, self.turn * APART)

    @property
    def fleet_name(self) -> str:
        """Which fleet."""
        return self._at.fleet_name

    @property
    def pue(self) -> float:
        """Power usage effectiveness of the site."""
        return self._at.pue

    @property
    def clock(self) -> Clock:
        """The time that data goes by."""
        return self._at.clock

    @property
    def store(self) -> Store:
        """The newest values."""
        return self._at.store

    @property
    def rollups(self) -> Rollups:
        """Sums and means of every level."""
        return self._at.rollups

    @property
    def history(self) -> History:
        """Samples for charts."""
        return self._at.history

    @property
    def findings(self) -> Findings:
        """What needs a look."""
        return self._at.findings

    @property
    def ingest(self) -> Ingest:
        """What came in."""
        return self._at.ingest

    @property
    def counts(self) -> PipelineCounts:
        """What went wrong on the way here."""
        return self._at.counts

    @property
    def events(self) -> Events:
        """What publishers have told."""
        return self._at.events

    @property
    def reservations(self) -> Reservations:
        """What is reserved."""
        return self._at.reservations

    @property
    def alerts(self) -> Alerts:
        """What rules say."""
        return self._at.alerts

    @property
    def link(self) -> LinkStatus:
        """How the connection fares."""
        return self._at.link

    @property
    def message_rate(self) -> float:
        """Telemetry messages a second."""
        return self._at.message_rate

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self._at.ended

    def summary(self) -> Summary:
        """Return the fleet in a few figures."""
        return self._at.summary()

    def racks(self) -> list[RackPower]:
        """Return the power of every rack."""
        return self._at.racks()

    def moment(self) -> Moment:
        """Return what time it is for the fleet."""
        return self._at.moment()


def _renumber(monitor: Monitor, base: int) -> None:
    """Lift everything by which views tell what they have drawn above all that was shown before."""
    store, rollups = monitor.store, monitor.rollups
    store.revision = base + store.revision % APART
    rollups.revision = base + rollups.revision % APART
    jobs = monitor.ingest.job_table
    jobs.placements = base + jobs.placements % APART
    monitor.alerts.revision = base + monitor.alerts.revision % APART
    monitor.alerts.silences.revision = base + monitor.alerts.silences.revision % APART
    monitor.reservations.revision = base + monitor.reservations.revision % APART
