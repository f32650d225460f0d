"""Interface of a fleet's state for views: the live monitor's, or a past moment's.

A view refers to a `FleetState`, never to its monitor, so `LiveOrPast.at` alone switches to the
past. A `Monitor` is a `FleetState`, too, where no past is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.domain.site import Site
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.goodput import Goodput
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.pipeline.traffic import MessageRate
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

LOADING = "loading"
"""More data of the moment shown is being loaded."""


class FleetState(Protocol):
    """The state of one fleet at a moment, as views read it."""

    @property
    def revision(self) -> MonitorRevision:
        """Revisions of its parts; its `source` differs after an exchange of the monitor."""

    @property
    def fleet_name(self) -> str:
        """Name of the fleet."""

    @property
    def site(self) -> Site:
        """Facts and limits that a person sets."""

    @property
    def caps(self) -> dict[str, float]:
        """Power caps in watts by place."""

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
    def goodput(self) -> Goodput:
        """Paid time by cause and job."""

    @property
    def alerts(self) -> Alerts:
        """Rules and their alerts."""

    @property
    def incomplete(self) -> str:
        """Missing events and alerts: `LOADING`, or since when they exist.

        Empty if complete.
        """

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
        """Called at the end of each pass of the monitor shown."""

    def job_age_s(self, name: str) -> float | None:
        """Return how long ago a job's chips were last heard; None while any is live."""

    def summary(self) -> Summary:
        """Return the fleet in a few figures."""

    def pipeline(self) -> PipelineHealth:
        """Return publishers, brokers, losses, lag and clocks."""

    def racks(self) -> list[RackPower]:
        """Return the power of every rack."""

    def moment(self) -> Moment:
        """Return the fleet's time."""


class _Of(Generic[T]):
    """A property of the monitor shown at present."""

    def __init__(self, read: Callable[[Monitor], T]) -> None:
        self._read = read

    @overload
    def __get__(self, state: None, _owner: type[LiveOrPast]) -> _Of[T]: ...

    @overload
    def __get__(self, state: LiveOrPast, _owner: type[LiveOrPast]) -> T: ...

    def __get__(self, state: LiveOrPast | None, _owner: type[LiveOrPast]) -> Any:
        return self if state is None else self._read(state.at)


class LiveOrPast:
    """A `FleetState` with an exchangeable monitor of the same fleet."""

    def __init__(self, monitor: Monitor) -> None:
        self._at = monitor
        self._exchanges = 0
        self.read_incomplete: Callable[[], str] = str
        """Returns the missing data of the moment shown. Set by the code that exchanges the
        monitors."""

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
        """Revisions of its parts.

        Never equal to an earlier monitor's.
        """
        return self._at.revision._replace(source=self._exchanges)

    @property
    def incomplete(self) -> str:
        """Missing events and alerts."""
        return self.read_incomplete()

    fleet_name = _Of(lambda monitor: monitor.fleet_name)
    site = _Of(lambda monitor: monitor.site)
    caps = _Of(lambda monitor: monitor.caps)
    clock = _Of(lambda monitor: monitor.clock)
    store = _Of(lambda monitor: monitor.store)
    rollups = _Of(lambda monitor: monitor.rollups)
    history = _Of(lambda monitor: monitor.history)
    findings = _Of(lambda monitor: monitor.findings)
    ingest = _Of(lambda monitor: monitor.ingest)
    counts = _Of(lambda monitor: monitor.counts)
    events = _Of(lambda monitor: monitor.events)
    reservations = _Of(lambda monitor: monitor.reservations)
    goodput = _Of(lambda monitor: monitor.goodput)
    alerts = _Of(lambda monitor: monitor.alerts)
    link = _Of(lambda monitor: monitor.link)
    averages = _Of(lambda monitor: monitor.averages)
    message_rate = _Of(lambda monitor: monitor.message_rate)
    ended = _Of(lambda monitor: monitor.ended)
    on_pass = _Of(lambda monitor: monitor.on_pass)
    job_age_s = _Of(lambda monitor: monitor.job_age_s)
    summary = _Of(lambda monitor: monitor.summary)
    pipeline = _Of(lambda monitor: monitor.pipeline)
    racks = _Of(lambda monitor: monitor.racks)
    moment = _Of(lambda monitor: monitor.moment)
