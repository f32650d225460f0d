"""From envelopes to the store: every message to whoever takes it, and descriptors to the layout that shows them.

Nothing that comes in can stop it: what does not decode is counted, logged with its topic, and dropped. It knows
nothing of brokers, live or replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.failures import guard
from trnfleet.monitor.ingest import layout as rows
from trnfleet.monitor.ingest import messages
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError, refuse
from trnfleet.monitor.ingest.sequence import Pipeline
from trnfleet.monitor.ingest.telemetry import TelemetryBatch
from trnfleet.monitor.ingest.topics import Topics
from trnfleet.monitor.ingest.waiting import Waiting
from trnfleet.monitor.reservations.table import Reservations
from trnfleet.monitor.sources.clocks import Timebase
from trnfleet.monitor.sources.descriptors import Described, Descriptors
from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.store.events import Events
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.monitor.store.store import Store
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.topics import DEFAULT_ROOT, Topic, TopicClass, parse_topic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.topics import TopicState
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.messages import JobMessage
    from trnfleet.wire.ports import Envelope


class Ingest:
    """Applies batches of envelopes of one fleet to a store."""

    def __init__(
        self,
        fleet_name: str,
        *,
        root: str = DEFAULT_ROOT,
        limits: Limits = DEFAULT_LIMITS,
        alerts: Alerts | None = None,
    ) -> None:
        self.fleet_name = fleet_name
        self.alerts = Alerts(fleet_name) if alerts is None else alerts
        self.told: dict[str, AlertMessage] = {}
        """What a `watch` says of alerts, by fingerprint."""
        self.store = Store()
        self.counts = Pipeline()
        self.descriptors = Descriptors()
        self.publishers = Publishers()
        self.timebase = Timebase()
        self.topics = Topics(self.descriptors, self.publishers, self.timebase)
        self.events = Events()
        self.reservations = Reservations()
        self.jobs_revision = 0
        """Goes up when a job comes, goes or moves."""
        self.lag_s = 0.0
        """Largest lag, as their sources' clocks tell it, among the messages of the last batch that had any; wall seconds."""
        self._root = root
        self._limits = limits
        self._jobs = Jobs()
        self._waiting = Waiting()
        self._layout_due = False

    @property
    def jobs(self) -> dict[str, JobMessage]:
        """The jobs by name, in the order by which rows of the store name them."""
        return self._jobs.by_name

    @property
    def layout_due(self) -> bool:
        """Whether descriptors have come that the layout does not show yet."""
        return self._layout_due

    def apply(self, batch: list[Envelope], now_s: float, wall_ns: int) -> None:
        """Apply envelopes in order.

        Args:
            batch: What the source gave.
            now_s: Monotonic seconds, which freshness goes by.
            wall_ns: Wall clock, which the lag of sources without a date of their own goes by.
        """
        telemetry = TelemetryBatch(self.store, self.counts, self._limits, now_s)
        lags_s: list[float] = []
        topics = self.topics.states
        for envelope in batch:
            try:
                topic = topics.get(envelope.topic)
                if topic is None:
                    topic = self._other(envelope, now_s)
                    if topic is None:
                        continue
                if topic.descriptor is None:
                    # Held back only while a layout is due: without one there is nothing that it could wait for.
                    if not (self._layout_due and self._waiting.hold(envelope)):
                        self.counts.undescribed += 1
                    continue
                head = telemetry.take(topic, envelope)
                if head is not None and topic.clock is not None:
                    lags_s.append(topic.clock.take(head.ts_ns, now_s, wall_ns))
            except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
                refuse(self.counts, envelope, error)
        with guard(self.counts, "telemetry"):
            telemetry.finish()
        if lags_s:
            self.lag_s = max(lags_s)
        self.store.revision += 1

    def rebuild(self, now_s: float, wall_ns: int, *, layout: bool = True, at_once: bool = False) -> None:
        """Bring layout and job placement up to date with descriptors and jobs; apply what waited for that.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            layout: Whether the layout may change now.
            at_once: Whether jobs are placed even if that was done a moment ago.
        """
        if self._layout_due and layout:
            self._layout_due = False
            self._rebuild_layout(now_s)
            self._apply_waiting(now_s, wall_ns)
        if self._jobs.place(self.store, now_s, at_once=at_once):
            self.jobs_revision += 1

    def publisher_online(self) -> NDArray[np.bool_]:
        """Return whether each numbered publisher is online, and True at the end for an unknown one."""
        return self.publishers.online()

    def _other(self, envelope: Envelope, now_s: float) -> TopicState | None:
        """Handle what is not telemetry of a known topic; return the topic's state where it is telemetry of a new one."""
        topic = parse_topic(envelope.topic, self._root)
        if topic.fleet != self.fleet_name:
            return None
        if topic.topic_class is TopicClass.TELEMETRY:
            if len(self.topics.states) >= self._limits.topics:
                raise RejectedError(f"more than {self._limits.topics} telemetry topics")
            return self.topics.add(envelope.topic, topic.path, self.store.layout)
        if topic.topic_class is TopicClass.NODE:
            self._descriptor(topic.path, envelope.payload)
        else:
            self._statement(topic, envelope, now_s)
        return None

    def _statement(self, topic: Topic, envelope: Envelope, now_s: float) -> None:
        path, payload, limits = topic.path, envelope.payload, self._limits
        if topic.topic_class is TopicClass.JOB:
            messages.take_job(self._jobs, path, payload, limits)
        elif topic.topic_class is TopicClass.EVENT:
            messages.take_event(self.events, path, envelope, limits, now_s)
        elif topic.topic_class is TopicClass.PUBLISHER:
            messages.take_publisher(self.publishers, self.timebase, path, payload, limits)
        elif topic.topic_class is TopicClass.RESERVATION:
            messages.take_reservation(self.reservations, path, payload, limits)
        elif topic.topic_class is TopicClass.ALERT:
            messages.take_alert(self.told, self.alerts, path, payload, limits)
        elif topic.topic_class is TopicClass.ACK:
            messages.take_ack(self.alerts.quieting, path, payload, limits)
        elif topic.topic_class is TopicClass.SILENCE:
            messages.take_silence(self.alerts.quieting, path, payload, limits)
        # Commands and replies are between clients and simulators; a recording of all topics has them, too.

    def _descriptor(self, path: str, payload: bytes) -> None:
        """Take a descriptor; where it changes no hardware it takes effect at once, else with the next layout."""
        limits, descriptors, layout = self._limits, self.descriptors, self.store.layout
        if not payload:
            if descriptors.remove(path):
                self._layout_due = True
            return
        known = descriptors.get(path)
        if known is not None and known.mark == hash(payload):
            # Descriptors are repeated every minute; one that has not changed is not parsed again.
            return
        described = Described.of(payload, limits)
        if described.path != path:
            raise MisplacedError("the descriptor's path is not its topic's")
        others = descriptors.instances - (len(known.instances) if known else 0)
        if others + len(described.instances) > limits.fleet_instances:
            raise RejectedError(f"over {limits.fleet_instances} instances")
        if descriptors.size_bytes + len(described.rest) > limits.descriptors_bytes:
            raise RejectedError(f"over {limits.descriptors_bytes} bytes of descriptors")
        descriptors.put(described)
        former = known.boot if known is not None and known.publisher == described.publisher else None
        publisher = self.publishers.number(
            described.publisher, described.boot, limit=limits.publishers, former_boot=former
        )
        if described.same_hardware(known) and all(
            each in layout.instance_index for each in described.instances
        ):
            rows.describe(self.store, described, self.publishers)
            self.topics.bind(layout, below=path)
        else:
            self._layout_due = True
        if publisher is None:
            # The instances are shown all the same; only whether their publisher is there is not known.
            raise RejectedError(f"more than {limits.publishers} publishers")

    def _rebuild_layout(self, now_s: float) -> None:
        """Forget what no descriptor needs any more, then show all that is described."""
        descriptors = self.descriptors
        self.topics.forget_undescribed()
        self.publishers.keep({(each.publisher, each.boot) for each in descriptors})
        self.timebase.keep({each.clock for each in descriptors})
        rows.lay_out(self.store, descriptors, self.publishers, now_s)
        self.topics.bind(self.store.layout)

    def _apply_waiting(self, now_s: float, wall_ns: int) -> None:
        """Apply what was held back for the layout, as far as it is described now."""
        waiting, topics = self._waiting.release(), self.topics.states
        ready = [
            each for each in waiting if each.topic in topics and topics[each.topic].descriptor is not None
        ]
        self.counts.undescribed += len(waiting) - len(ready)
        if ready:
            self.apply(ready, now_s, wall_ns)
