"""Collection of history: a monitor's state as rows of minutes, events and alerts.

Every message counts once: before a second message of a topic is applied, the store's values are
added to the minutes. So a sample is added about once a publishing period, however many messages it
has.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.clock import NS_PER_US
from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.metrics import JOB_FIGURES, LASTING_JOB_FIGURES
from trnfleet.monitor.minutes.minutes import Minutes
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.history.backlog import BacklogMinutes
from trnfleet.wire.topics import VALUES, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.address import Names
    from trnfleet.domain.goodput import PaidRow
    from trnfleet.domain.minutes import MinuteRows
    from trnfleet.monitor.alerting.store import AlertTransition
    from trnfleet.monitor.store.events import Event
    from trnfleet.wire.messages import JobMessage
    from trnfleet.wire.ports import Envelope


class ClosedMinute(NamedTuple):
    """A minute that is over."""

    minute: int
    """Since 1970."""
    parts: tuple[MinuteRows, ...]
    """Its chips, each once."""
    jobs: list[tuple[Any, ...]]
    """Rows of `JOB_MINUTES`."""


class News(NamedTuple):
    """Events and alerts."""

    minute: int
    """The fleet's present minute since 1970."""
    events: list[tuple[Any, ...]]
    """Rows of `EVENTS`."""
    alerts: list[tuple[Any, ...]]
    """Rows of `ALERTS`."""


class HistoryMonitor(Monitor):
    """A monitor with a collector for each message."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.collector: Collector | None = None
        self._values = tuple(
            build_topic(self.fleet_name, topic_class, "", self.root) for topic_class in VALUES
        )
        self._backlog = build_topic(self.fleet_name, TopicClass.BACKLOG, "", self.root)
        self._came: set[str] = set()
        """Topics of telemetry and roll-ups received since the last sample."""

    def apply_messages(self, batch: list[Envelope]) -> None:
        """Apply a batch, and add a sample before the second message of any topic."""
        collector = self.collector
        if collector is None:
            super().apply_messages(batch)
            return
        came = self._came
        first = 0
        backlog: list[tuple[str, Envelope]] = []
        for number, envelope in enumerate(batch):
            topic = envelope.topic
            if topic in came:
                if number > first:
                    super().apply_messages(batch[first:number])
                collector.take()
                came.clear()
                first = number
            if topic.startswith(self._values):
                came.add(topic)
            elif topic.startswith(self._backlog):
                backlog.append((topic.removeprefix(self._backlog), envelope))
        super().apply_messages(batch[first:])
        if backlog:
            collector.backlog.add(backlog)


class Collector:
    """The rows of history of one monitor."""

    def __init__(self, monitor: HistoryMonitor) -> None:
        """Begin to collect from a monitor.

        It calls `take` from now on.
        """
        self._monitor = monitor
        self._minutes = Minutes()
        self.backlog = BacklogMinutes(monitor)
        self._jobs = JobMinutes()
        self._events: list[Event] = []
        self._transitions: list[AlertTransition] = []
        self._events_seen = monitor.events.received
        self._alerts_seen = monitor.alerts.happened
        monitor.goodput.ledger = []
        monitor.collector = self

    @property
    def late(self) -> int:
        """Chip samples received after their minute was returned."""
        return self._minutes.late

    @property
    def samples(self) -> int:
        """Samples of chips so far."""
        return self._minutes.samples

    def take(self) -> None:
        """Add the messages since the last sample."""
        monitor = self._monitor
        ingest = self._monitor.ingest
        moment = monitor.moment()
        samples = self._minutes.samples
        self._minutes.take(
            monitor.store,
            now_s=monitor.clock.monotonic_s(),
            speed=moment.speed,
            job_of=monitor.store.job_of,
            jobs=ingest.job_table.placed,
        )
        if self._minutes.samples > samples:
            silent = ingest.job_table.last_known
            live = [job for name, job in ingest.jobs.items() if name not in silent]
            self._jobs.take(moment.time_ns // MINUTE_NS, live, ingest.names)
        # The monitor keeps few of them: a minute of a large fleet may have more.
        self._events += monitor.events.since(self._events_seen)
        self._events_seen = monitor.events.received
        alerts = monitor.alerts
        fresh = min(alerts.happened - self._alerts_seen, len(alerts.history))
        self._transitions += itertools.islice(alerts.history, len(alerts.history) - fresh, None)
        self._alerts_seen = alerts.happened

    def close(self, *, at_end: bool = False) -> list[ClosedMinute]:
        """Return the minutes that are over, oldest first.

        Args:
            at_end: Whether no more will come.
        """
        self.take()
        monitor = self._monitor
        rows = self._minutes.close(
            monitor.clock.monotonic_s(), monitor.store.usual_period_s, at_end=at_end
        )
        made = []
        for minute, parts in itertools.groupby(rows, key=lambda row: row.minute):
            jobs = self._jobs.close(minute)
            made.append(ClosedMinute(minute, tuple(parts), jobs.get(minute, [])))
        return made

    def paid(self, *, at_end: bool = False) -> list[PaidRow]:
        """Return the rows of paid time of the minutes that are over, each once.

        Args:
            at_end: Whether no more will come. The minute that has begun is over then.
        """
        goodput = self._monitor.goodput
        if at_end:
            goodput.book()
        rows = goodput.ledger or []
        over = [row for row in rows if at_end or row.booked < goodput.minute]
        goodput.ledger = rows[len(over) :]
        return over

    def news(self) -> News:
        """Return the events and transitions of alerts since the last call."""
        events = self._events
        transitions = self._transitions
        self._events = []
        self._transitions = []
        return News(
            self._monitor.moment().time_ns // MINUTE_NS,
            [
                (
                    event.ts_ns // NS_PER_US,
                    event.severity.value,
                    event.source,
                    event.name,
                    event.path,
                    event.job or None,
                    event.nrt,
                    event.text,
                )
                for event in events
            ],
            [
                (
                    change.at_ns // NS_PER_US,
                    change.kind,
                    change.alert.rule.name,
                    change.alert.severity.value,
                    address_of(change.alert),
                    change.alert.job or None,
                    change.alert.since_ns // NS_PER_US,
                    change.summary,
                    change.alert.fingerprint,
                )
                for change in transitions
            ],
        )


@dataclass(slots=True)
class _Job:
    kind: str = ""
    state: str = ""
    display_name: str | None = None
    samples: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class JobMinutes:
    """The minutes that are open."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, _Job]] = {}

    def take(self, minute: int, jobs: Iterable[JobMessage], names: Names) -> None:
        """Add the jobs as they are now to a minute since 1970."""
        known = self._open.setdefault(minute, {})
        for message in jobs:
            job = known.setdefault(message.job, _Job())
            job.kind = message.kind
            job.state = message.state
            job.display_name = names.jobs.get(message.job)
            job.samples += 1
            for name in JOB_FIGURES:
                value = getattr(message, name)
                if value is None:
                    continue
                if name in LASTING_JOB_FIGURES:
                    job.sums[name] = value
                    job.counts[name] = 1
                else:
                    job.sums[name] = job.sums.get(name, 0.0) + value
                    job.counts[name] = job.counts.get(name, 0) + 1

    def close(self, until: int) -> dict[int, list[tuple[Any, ...]]]:
        """Return the rows of the minutes up to one, by minute, and forget them."""
        made: dict[int, list[tuple[Any, ...]]] = {}
        for minute in sorted(minute for minute in self._open if minute <= until):
            made[minute] = [
                (
                    minute * 60_000_000,
                    name,
                    job.kind,
                    job.state,
                    job.samples,
                    *(
                        job.sums[key] / job.counts[key] if key in job.sums else None
                        for key in JOB_FIGURES
                    ),
                    job.display_name,
                )
                for name, job in self._open.pop(minute).items()
            ]
        return made
