"""The state of a fleet that views read: the live monitor's, or that of a moment of the past, behind one interface.

A view keeps a `FleetState` and never the monitor in it, so that going back in time is an exchange in one place
(`LiveOrPast.at`). A `Monitor` is a `FleetState`, too, where no past is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.message_rate import MessageRate
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.reservations.table import Reservations
    from trnfleet.monitor.revision import MonitorRevision
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.history import History
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.monitor.summary import RackPower, Summary
    from trnfleet.wire.ports import LinkStatus

T = TypeVar("T")


class FleetState(Protocol):
    """The state of one fleet at a moment, as views read it."""

    @property
    def revision(self) -> MonitorRevision:
        """Revisions of its parts; its `source` differs after an exchange of the monitor."""

    @property
    def fleet_name(self) -> str:
        """Name of the fleet."""

    @property
    def pue(self) -> float:
        """Power usage effectiveness of the site."""

    @property
    def clock(self) -> Clock:
        """The clock of the data: it stands still while a past is paused."""

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
        """Findings, the worst first."""

    @property
    def ingest(self) -> Ingest:
        """Descriptors, jobs, publishers."""

    @property
    def counts(self) -> PipelineCounts:
        """Counts of the way from publishers to the store."""

    @property
    def events(self) -> Events:
        """Events of publishers."""

    @property
    def reservations(self) -> Reservations:
        """Reserved capacity."""

    @property
    def alerts(self) -> Alerts:
        """Rules and their alerts."""

    @property
    def link(self) -> LinkStatus:
        """State of the connection."""

    @property
    def averages(self) -> Averages:
        """Means over the last seconds."""

    @property
    def message_rate(self) -> MessageRate:
        """The rate of telemetry messages."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""

    @property
    def on_pass(self) -> list[Callable[[], None]]:
        """Called at the end of each pass of the monitor that is shown."""

    def summary(self) -> Summary:
        """Return the fleet in a few figures."""

    def pipeline(self) -> PipelineHealth:
        """Return publishers, brokers, losses, lag and clocks."""

    def racks(self) -> list[RackPower]:
        """Return the power of every rack."""

    def moment(self) -> Moment:
        """Return the fleet's time."""


class _Of(Generic[T]):
    """A property of the monitor that is shown at present."""

    def __init__(self, read: Callable[[Monitor], T]) -> None:
        self._read = read

    @overload
    def __get__(self, state: None, _owner: type[LiveOrPast]) -> _Of[T]: ...

    @overload
    def __get__(self, state: LiveOrPast, _owner: type[LiveOrPast]) -> T: ...

    def __get__(self, state: LiveOrPast | None, _owner: type[LiveOrPast]) -> Any:
        return self if state is None else self._read(state.at)


class LiveOrPast:
    """A `FleetState` whose monitor may be exchanged for another one of the same fleet."""

    def __init__(self, monitor: Monitor) -> None:
        self._at = monitor
        self._exchanges = 0

    @property
    def at(self) -> Monitor:
        """The monitor that is shown."""
        return self._at

    @at.setter
    def at(self, monitor: Monitor) -> None:
        if monitor is not self._at:
            self._at = monitor
            self._exchanges += 1

    @property
    def revision(self) -> MonitorRevision:
        """Revisions of its parts; never those of a monitor that was shown before."""
        return self._at.revision._replace(source=self._exchanges)

    fleet_name = _Of(lambda monitor: monitor.fleet_name)
    pue = _Of(lambda monitor: monitor.pue)
    clock = _Of(lambda monitor: monitor.clock)
    store = _Of(lambda monitor: monitor.store)
    rollups = _Of(lambda monitor: monitor.rollups)
    history = _Of(lambda monitor: monitor.history)
    findings = _Of(lambda monitor: monitor.findings)
    ingest = _Of(lambda monitor: monitor.ingest)
    counts = _Of(lambda monitor: monitor.counts)
    events = _Of(lambda monitor: monitor.events)
    reservations = _Of(lambda monitor: monitor.reservations)
    alerts = _Of(lambda monitor: monitor.alerts)
    link = _Of(lambda monitor: monitor.link)
    averages = _Of(lambda monitor: monitor.averages)
    message_rate = _Of(lambda monitor: monitor.message_rate)
    ended = _Of(lambda monitor: monitor.ended)
    on_pass = _Of(lambda monitor: monitor.on_pass)
    summary = _Of(lambda monitor: monitor.summary)
    pipeline = _Of(lambda monitor: monitor.pipeline)
    racks = _Of(lambda monitor: monitor.racks)
    moment = _Of(lambda monitor: monitor.moment)
