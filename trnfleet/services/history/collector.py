"""Collection of history: what a monitor knows, as rows of minutes, events and alerts.

Every message counts once: before a second one of a topic is applied, what is in the store is added to the minutes. So a sample is
taken about once a publishing period, however many messages that has.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.minutes import MINUTE_NS
from trnfleet.monitor.minutes.minutes import Minutes
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.history.job_minutes import JobMinutes
from trnfleet.wire.topics import VALUES, build_topic

if TYPE_CHECKING:
    from trnfleet.domain.minutes import MinuteRows
    from trnfleet.wire.ports import Envelope

NS_PER_US = 1_000


class ClosedMinute(NamedTuple):
    """A minute that is over."""

    minute: int
    """Since 1970."""
    parts: tuple[MinuteRows, ...]
    """Its chips, each once."""
    jobs: list[tuple[Any, ...]]
    """Rows of `JOB_MINUTES`."""


class News(NamedTuple):
    """What has happened."""

    minute: int
    """The fleet's present minute since 1970."""
    events: list[tuple[Any, ...]]
    """Rows of `EVENTS`."""
    alerts: list[tuple[Any, ...]]
    """Rows of `ALERTS`."""


class HistoryMonitor(Monitor):
    """A monitor that shows each message to a collector."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.collector: Collector | None = None
        self._values = tuple(build_topic(self.fleet_name, each, "", self.root) for each in VALUES)
        self._came: set[str] = set()
        """Topics of telemetry and roll-ups that have come since the last sample."""

    def apply_messages(self, batch: list[Envelope]) -> None:
        """Apply a batch, and take a sample before the second message of any topic."""
        collector = self.collector
        if collector is None:
            super().apply_messages(batch)
            return
        came, first = self._came, 0
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
        super().apply_messages(batch[first:])


class Collector:
    """The rows of history of one monitor."""

    def __init__(self, monitor: HistoryMonitor) -> None:
        """Begin to collect from a monitor, which calls `take` from now on."""
        self._monitor = monitor
        self._minutes = Minutes()
        self._jobs = JobMinutes()
        self._events_seen = monitor.events.received
        self._alerts_seen = monitor.alerts.happened
        monitor.collector = self

    @property
    def late(self) -> int:
        """Samples of chips that came for a minute that was returned already."""
        return self._minutes.late

    @property
    def samples(self) -> int:
        """Samples of chips so far."""
        return self._minutes.samples

    def take(self) -> None:
        """Add what has come since the last sample."""
        monitor, ingest = self._monitor, self._monitor.ingest
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
            self._jobs.take(moment.time_ns // MINUTE_NS, ingest.jobs.values())

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
        for minute, parts in itertools.groupby(rows, key=lambda each: each.minute):
            jobs = self._jobs.close(minute)
            made.append(ClosedMinute(minute, tuple(parts), jobs.get(minute, [])))
        return made

    def news(self) -> News:
        """Return the events and transitions of alerts since the last call."""
        monitor = self._monitor
        events = monitor.events.since(self._events_seen)
        self._events_seen = monitor.events.received
        alerts = monitor.alerts
        fresh = min(alerts.happened - self._alerts_seen, len(alerts.history))
        self._alerts_seen = alerts.happened
        transitions = list(itertools.islice(reversed(alerts.history), fresh))[::-1]
        return News(
            monitor.moment().time_ns // MINUTE_NS,
            [
                (
                    each.ts_ns // NS_PER_US, each.severity.value, each.source, each.name, each.path,
                    each.job or None, each.nrt, each.text,
                )
                for each in events
            ],
            [
                (
                    each.at_ns // NS_PER_US, each.kind, each.alert.rule.name, each.alert.severity.value,
                    address_of(each.alert), each.alert.job or None, each.alert.since_ns // NS_PER_US,
                    each.summary, each.alert.fingerprint,
                )
                for each in transitions
            ],
        )  # fmt: skip  # rows
