"""From envelopes to the store: binds topics to rows, checks identity and sequence, decodes in batches.

Nothing that comes in can stop it: what does not decode is counted, logged with its topic, and dropped. It knows
nothing of brokers, live or replay.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet import logs
from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.alerts import Alerts
from trnfleet.monitor.described import Described, Descriptors
from trnfleet.monitor.events import Events
from trnfleet.monitor.publishers import Publishers
from trnfleet.monitor.reservations import Reservations
from trnfleet.monitor.silence import speaking
from trnfleet.monitor.store import Store
from trnfleet.monitor.timebase import Timebase
from trnfleet.monitor.tracking import Pipeline, SequenceTracker, Verdict
from trnfleet.wire.alerts import AckMessage, AlertMessage, SilenceMessage
from trnfleet.wire.frames import FrameDecoder, is_known, to_store_codes
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ColumnSpec,
    EventMessage,
    JobMessage,
    PublisherMessage,
    decode_message,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.telemetry import Head, Sample, decode_sample, split_codes
from trnfleet.wire.topics import DEFAULT_ROOT, FLEET_PATH, TopicClass, parse_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.publishers import PublisherState
    from trnfleet.monitor.timebase import SourceClock

log = logs.get_logger(__name__)

MOST_DECODERS = 1_000
PLACE_EVERY_S = 1.0
"""Jobs are placed on instances at most so often."""
LOGGED_OF_A_KIND = 100
"""So many refused messages of a kind are logged one by one, later ones each time that many more have come."""
WAITING_MESSAGES = 10_000
WAITING_BYTES = 64 * 2**20
"""What is held back at most until the layout of its descriptor stands."""

_CHIP_NAMES = tuple(metric.name for metric in CHIP_METRICS)
_INSTANCE_NAMES = tuple(metric.name for metric in INSTANCE_METRICS)
_MAP_HEADS = range(0xA0, 0xC0)
"""First bytes that CBOR maps begin with; JSON objects begin with an opening brace, 0x7B."""


@dataclass(slots=True, eq=False)
class TopicState:
    """A telemetry topic: its sequence, and where its rows are in the present layout."""

    path: str
    tracker: SequenceTracker = field(default_factory=SequenceTracker)
    descriptor: Described | None = None
    """None until a descriptor covers the topic."""
    former_boot: str = ""
    """The publisher's start before the present one."""
    clock: SourceClock | None = None
    publisher: int = -1
    """Number of the publisher's start that the descriptor names."""
    decoder: FrameDecoder | None = None
    chips: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    instances: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    is_chip: bool = False
    chip_count: int = 0
    same_chip: tuple[str, ...] = ()
    """Chip columns of its frames that are as the metric table has them, and are copied as they are."""
    same_instance: tuple[str, ...] = ()
    foreign: tuple[ColumnSpec, ...] = ()
    """Columns of another type, scale or width, which are converted; what the table does not know is left out."""

    def __deepcopy__(self, memo: dict[int, Any]) -> TopicState:
        """Return a copy that counts on its own; all but its sequence and its source's clock is exchanged, never changed."""
        twin = TopicState(self.path, copy.copy(self.tracker), self.descriptor, self.former_boot)
        twin.clock = copy.deepcopy(self.clock, memo)
        twin.publisher, twin.decoder = self.publisher, self.decoder
        twin.chips, twin.instances = self.chips, self.instances
        twin.is_chip, twin.chip_count = self.is_chip, self.chip_count
        twin.same_chip, twin.same_instance, twin.foreign = self.same_chip, self.same_instance, self.foreign
        return twin


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
        self.events = Events()
        self.reservations = Reservations()
        self.jobs: dict[str, JobMessage] = {}
        self.jobs_revision = 0
        """Goes up when a job comes, goes or moves."""
        self.lag_s = 0.0
        """Largest lag, as their sources' clocks tell it, among the messages of the last batch that had any; wall seconds."""
        self._root = root
        self._limits = limits
        self._topics: dict[str, TopicState] = {}
        self._covered_by: dict[str, list[TopicState]] = {}
        """Telemetry topics by the path of the descriptor that covers them."""
        self._decoders: dict[tuple[tuple[ColumnSpec, ...] | None, int, int], FrameDecoder] = {}
        self._waiting: list[Envelope] = []
        self._waiting_bytes = 0
        self._layout_due = False
        self._placement_due = False
        self._placed_s = -PLACE_EVERY_S
        self._job_places = 0

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
        samples: list[tuple[TopicState, Sample]] = []
        lags_s: list[float] = []
        topics = self._topics
        for envelope in batch:
            try:
                topic = topics.get(envelope.topic)
                if topic is None:
                    topic = self._other(envelope, now_s)
                    if topic is None:
                        continue
                if topic.descriptor is None:
                    self._hold(envelope)
                    continue
                head = self._telemetry(topic, envelope, samples, now_s)
            except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
                self._refuse("undecodable", envelope, error)
                continue
            if head is not None and topic.clock is not None:
                lags_s.append(topic.clock.take(head.ts_ns, now_s, wall_ns))
        if samples:
            self._apply_samples(samples, now_s)
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
            self._placement_due = at_once = True
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            known = {topic for topic, state in self._topics.items() if state.descriptor is not None}
            ready = [each for each in waiting if each.topic in known]
            self.counts.undescribed += len(waiting) - len(ready)
            if ready:
                self.apply(ready, now_s, wall_ns)
        if self._placement_due and (at_once or now_s - self._placed_s >= PLACE_EVERY_S):
            self._placement_due = False
            self._placed_s = now_s
            self._place_jobs()

    def publisher_online(self) -> NDArray[np.bool_]:
        """Return whether each numbered publisher is online, and True at the end for an unknown one."""
        return self.publishers.online()

    # Telemetry

    def _telemetry(
        self, topic: TopicState, envelope: Envelope, samples: list[tuple[TopicState, Sample]], now_s: float
    ) -> Head | None:
        payload = envelope.payload
        if envelope.retain:
            # Whoever kept it, nobody knows for how long: it is no news.
            self._refuse("rejected", envelope, WireError("retained telemetry"))
            return None
        if len(payload) > self._limits.payload_bytes:
            raise WireError(
                f"telemetry of {len(payload)} bytes is over the limit of {self._limits.payload_bytes}"
            )
        if _is_cbor(envelope):
            return self._frame(topic, envelope, now_s)
        sample = decode_sample(payload, self._limits)
        if sample.path != topic.path or sample.is_chip != topic.is_chip:
            self._refuse("misplaced", envelope, WireError("identity in the payload is not the topic's"))
            return None
        if not self._is_newest(topic, sample.head):
            return None
        samples.append((topic, sample))
        self.counts.messages += 1
        return sample.head

    def _frame(self, topic: TopicState, envelope: Envelope, now_s: float) -> Head | None:
        descriptor, decoder = topic.descriptor, topic.decoder
        if descriptor is None or decoder is None:
            raise WireError("a frame for a single chip")
        frame = decoder.decode(envelope.payload, self._limits)
        if frame.path != topic.path:
            self._refuse("misplaced", envelope, WireError("identity in the payload is not the topic's"))
            return None
        if not self._is_newest(topic, frame.head):
            return None
        if frame.revision != descriptor.revision:
            self.counts.undescribed += 1
            return None
        store = self.store
        columns = store.columns
        chips, instances = speaking(frame.chip, topic.chips), speaking(frame.instance, topic.instances)
        for name in topic.same_chip:
            columns[name][chips.rows] = chips.of(frame.chip[name])
        for name in topic.same_instance:
            columns[name][instances.rows] = instances.of(frame.instance[name])
        for column in topic.foreign:
            rows, values = (chips, frame.chip) if column.per is Scope.CHIP else (instances, frame.instance)
            columns[column.name][rows.rows] = rows.of(to_store_codes(column, values[column.name]))
        store.chip_seen_s[chips.rows] = now_s
        store.chip_ts_ns[chips.rows] = frame.head.ts_ns
        store.instance_seen_s[instances.rows] = now_s
        store.publisher_of[topic.instances] = topic.publisher
        self.counts.messages += 1
        self.counts.chips += topic.chip_count if chips.mask is None else int(chips.mask.sum())
        return frame.head

    def _is_newest(self, topic: TopicState, head: Head) -> bool:
        """Say whether a message is of the described start and newer than what has come; count it where it is not."""
        if topic.descriptor is None or head.boot != topic.descriptor.boot:
            if head.boot == topic.former_boot:
                self.counts.late += 1
            else:
                self.counts.undescribed += 1
            return False
        return topic.tracker.accept(head.seq, self.counts) is Verdict.NEWEST

    def _apply_samples(self, samples: list[tuple[TopicState, Sample]], now_s: float) -> None:
        """Write JSON samples into the columns, all of a batch at once; a later sample of a row wins."""
        store = self.store
        for is_chip, metrics in ((True, CHIP_METRICS), (False, INSTANCE_METRICS)):
            newest = {id(topic): (topic, sample) for topic, sample in samples if sample.is_chip is is_chip}
            if not newest:
                continue
            chosen = list(newest.values())
            places = np.array([_first(topic.chips if is_chip else topic.instances) for topic, _ in chosen])
            codes = {
                metric.name: each
                for metric, each in split_codes([sample.codes for _, sample in chosen], metrics)
            }
            told = speaking(codes, places)
            for name, each in codes.items():
                store.columns[name][told.rows] = told.of(each)
            if is_chip:
                store.chip_seen_s[told.rows] = now_s
                store.chip_ts_ns[told.rows] = told.of(
                    np.array([sample.head.ts_ns for _, sample in chosen], np.int64)
                )
                store.publisher_of[store.layout.instance_of_chip[places]] = [
                    topic.publisher for topic, _ in chosen
                ]
                self.counts.chips += len(chosen) if told.mask is None else int(told.mask.sum())
            else:
                store.instance_seen_s[told.rows] = now_s

    def _hold(self, envelope: Envelope) -> None:
        """Keep telemetry that came before its descriptor took effect, while a rebuild is due; else count it."""
        room = self._waiting_bytes + len(envelope.payload) <= WAITING_BYTES
        if self._layout_due and room and len(self._waiting) < WAITING_MESSAGES:
            self._waiting.append(envelope)
            self._waiting_bytes += len(envelope.payload)
        else:
            self.counts.undescribed += 1

    # Everything that is not telemetry of a known topic

    def _other(self, envelope: Envelope, now_s: float) -> TopicState | None:
        """Handle state messages; return the topic's state where it is telemetry, new or not."""
        topic = parse_topic(envelope.topic, self._root)
        if topic.fleet != self.fleet_name:
            return None
        if topic.topic_class is TopicClass.TELEMETRY:
            if len(self._topics) >= self._limits.topics:
                self._refuse(
                    "rejected", envelope, WireError(f"more than {self._limits.topics} telemetry topics")
                )
                return None
            state = self._topics[envelope.topic] = TopicState(topic.path)
            self._covered_by.setdefault(_covering(topic.path), []).append(state)
            self._bind(state)
            return state
        if topic.topic_class is TopicClass.NODE:
            self._descriptor(topic.path, envelope)
        elif topic.topic_class is TopicClass.JOB:
            self._job(topic.path, envelope)
        elif topic.topic_class is TopicClass.EVENT:
            self._event(topic.path, envelope, now_s)
        elif topic.topic_class is TopicClass.PUBLISHER:
            self._publisher(topic.path, envelope)
        elif topic.topic_class is TopicClass.RESERVATION:
            self._reservation(topic.path, envelope)
        elif topic.topic_class is TopicClass.ALERT:
            self._alert(topic.path, envelope)
        elif topic.topic_class is TopicClass.ACK:
            self._ack(topic.path, envelope)
        elif topic.topic_class is TopicClass.SILENCE:
            self._silence(topic.path, envelope)
        else:
            raise WireError(f"a {topic.topic_class.value} is not for a monitor")
        return None

    def _descriptor(self, path: str, envelope: Envelope) -> None:
        if not envelope.payload:
            if self.descriptors.remove(path):
                self._layout_due = True
            return
        known = self.descriptors.get(path)
        if known is not None and known.mark == hash(envelope.payload):
            # Descriptors are repeated every minute; one that has not changed is not parsed again.
            return
        described = Described.of(envelope.payload, self._limits)
        if described.path != path:
            self._refuse("misplaced", envelope, WireError("the descriptor's path is not its topic's"))
            return
        others = self.descriptors.instances - (len(known.instances) if known else 0)
        if others + len(described.instances) > self._limits.fleet_instances:
            self._refuse("rejected", envelope, WireError(f"over {self._limits.fleet_instances} instances"))
            return
        if self.descriptors.size_bytes + len(described.rest) > self._limits.descriptors_bytes:
            limit = self._limits.descriptors_bytes
            self._refuse("rejected", envelope, WireError(f"over {limit} bytes of descriptors"))
            return
        self.descriptors.put(described)
        former = known.boot if known is not None and known.publisher == described.publisher else None
        self._number_publisher(described.publisher, described.boot, envelope, former)
        index = self.store.layout.instance_index
        if described.same_hardware(known) and all(path in index for path in described.instances):
            self._describe_rows(described)
            for state in self._covered_by.get(path, ()):
                self._bind(state)
        else:
            self._layout_due = True

    def _job(self, name: str, envelope: Envelope) -> None:
        known = self.jobs.get(name)
        if not envelope.payload:
            gone = self.jobs.pop(name, None)
            if gone is not None:
                self._job_places -= len(gone.on)
                self._placement_due = True
            return
        job = decode_message(envelope.payload, JobMessage, self._limits)
        if job.job != name:
            self._refuse("misplaced", envelope, WireError("the job's name is not its topic's"))
            return
        if known is None and len(self.jobs) >= self._limits.jobs:
            self._refuse("rejected", envelope, WireError(f"more than {self._limits.jobs} jobs"))
            return
        places = self._job_places + len(job.on) - (len(known.on) if known else 0)
        if places > self._limits.job_places:
            self._refuse("rejected", envelope, WireError(f"jobs name over {self._limits.job_places} places"))
            return
        self._job_places = places
        self.jobs[name] = job
        if known is None or known.on != job.on:
            self._placement_due = True

    def _event(self, path: str, envelope: Envelope, now_s: float) -> None:
        if envelope.retain:
            self._refuse("rejected", envelope, WireError("a retained event"))
            return
        event = decode_message(envelope.payload, EventMessage, self._limits)
        if (event.path or FLEET_PATH) != path:
            self._refuse("misplaced", envelope, WireError("the event's path is not its topic's"))
            return
        self.events.add(event, now_s)

    def _reservation(self, name: str, envelope: Envelope) -> None:
        if not envelope.payload:
            self.reservations.remove(name)
            return
        message = decode_message(envelope.payload, ReservationMessage, self._limits)
        if message.id != name:
            self._refuse("misplaced", envelope, WireError("the reservation's id is not its topic's"))
        elif name not in self.reservations and len(self.reservations) >= self._limits.reservations:
            limit = self._limits.reservations
            self._refuse("rejected", envelope, WireError(f"more than {limit} reservations"))
        elif self.reservations.places_with(message) > self._limits.reservation_places:
            limit = self._limits.reservation_places
            self._refuse("rejected", envelope, WireError(f"reservations name over {limit} places"))
        else:
            self.reservations.put(message)

    def _alert(self, fingerprint: str, envelope: Envelope) -> None:
        if not envelope.payload:
            self.told.pop(fingerprint, None)
            self.alerts.forget(fingerprint)
            return
        message = decode_message(envelope.payload, AlertMessage, self._limits)
        if message.fingerprint != fingerprint:
            self._refuse("misplaced", envelope, WireError("the alert's fingerprint is not its topic's"))
        elif fingerprint not in self.told and len(self.told) >= self._limits.alerts:
            self._refuse("rejected", envelope, WireError(f"more than {self._limits.alerts} alerts"))
        else:
            try:
                self.alerts.remember(message)
            except (ValueError, OverflowError):
                raise WireError("AlertMessage: not a time with its zone") from None
            self.told[fingerprint] = message

    def _ack(self, fingerprint: str, envelope: Envelope) -> None:
        quieting = self.alerts.quieting
        if not envelope.payload:
            quieting.remove_ack(fingerprint)
            return
        message = decode_message(envelope.payload, AckMessage, self._limits)
        if message.fingerprint != fingerprint:
            self._refuse(
                "misplaced", envelope, WireError("the acknowledgement's fingerprint is not its topic's")
            )
        elif quieting.count()[0] >= self._limits.acks and not quieting.has_ack(fingerprint):
            self._refuse("rejected", envelope, WireError(f"more than {self._limits.acks} acknowledgements"))
        else:
            quieting.put_ack(message)

    def _silence(self, silence_id: str, envelope: Envelope) -> None:
        quieting = self.alerts.quieting
        if not envelope.payload:
            quieting.remove_silence(silence_id)
            return
        message = decode_message(envelope.payload, SilenceMessage, self._limits)
        if message.id != silence_id:
            self._refuse("misplaced", envelope, WireError("the silence's id is not its topic's"))
        elif quieting.count()[1] >= self._limits.silences and quieting.silence(silence_id) is None:
            self._refuse("rejected", envelope, WireError(f"more than {self._limits.silences} silences"))
        else:
            quieting.put_silence(message)

    def _publisher(self, client: str, envelope: Envelope) -> None:
        if not envelope.payload:
            # A cleared message says nothing any more, so nothing is offline by it.
            self.publishers.clear(client)
            return
        message = decode_message(envelope.payload, PublisherMessage, self._limits)
        if message.client != client:
            self._refuse("misplaced", envelope, WireError("the publisher's name is not its topic's"))
            return
        if message.role == "watch":
            # It publishes no telemetry: whether it is there says nothing of what is known.
            return
        state = self._number_publisher(client, message.boot, envelope)
        if state is not None and self.publishers.say(state, online=message.state == "online"):
            # Another start may have begun its time anew.
            self.timebase.restart(client)

    def _number_publisher(
        self, client: str, boot: str, envelope: Envelope, former_boot: str | None = None
    ) -> PublisherState | None:
        limit = self._limits.publishers
        state = self.publishers.number(client, boot, limit=limit, former_boot=former_boot)
        if state is None:
            self._refuse("rejected", envelope, WireError(f"more than {limit} publishers"))
        return state

    def _refuse(self, kind: str, envelope: Envelope, error: Exception) -> None:
        count = getattr(self.counts, kind) + 1
        setattr(self.counts, kind, count)
        is_expected = isinstance(error, WireError)
        said = str(error) if is_expected else type(error).__name__
        self.counts.last_problem = f"{envelope.topic[:200]}: {said}"
        if count <= LOGGED_OF_A_KIND or count % LOGGED_OF_A_KIND == 0:
            # A flood of refused messages must not become a flood of log lines.
            log.warning(
                "message_refused",
                kind=kind,
                count=count,
                topic=envelope.topic[:200],
                error=said,
                exc_info=None if is_expected else error,
            )

    # Layout, binding, placement

    def _rebuild_layout(self, now_s: float) -> None:
        self._forget_unused()
        types: dict[str, str] = {}
        # Where two describe the same instance, the one with the narrower path knows better.
        widest_first = sorted(
            self.descriptors,
            key=lambda described: (described.path.count("/"), "/block-" not in described.path),
        )
        for described in widest_first:
            types.update(zip(described.instances, described.types, strict=True))
        store = self.store
        layout = Layout.of(types.items())
        store.replace_layout(layout)
        store.described_s[np.isinf(store.described_s)] = now_s
        for described in widest_first:
            self._describe_rows(described)
        for state in self._topics.values():
            self._bind(state)
        log.info(
            "layout_rebuilt", chips=layout.chips, instances=len(layout.instances), generation=store.generation
        )

    def _forget_unused(self) -> None:
        """Drop topics without a descriptor and publishers' starts that nobody needs, and number the rest anew."""
        covered = {path: states for path, states in self._covered_by.items() if self.descriptors.get(path)}
        kept = {id(state) for states in covered.values() for state in states}
        self._topics = {topic: state for topic, state in self._topics.items() if id(state) in kept}
        self._covered_by = covered
        self.publishers.keep({(each.publisher, each.boot) for each in self.descriptors})
        self.timebase.keep({each.clock for each in self.descriptors})
        # Rows get their publisher from the descriptors, and then from whoever writes them.
        self.store.publisher_of[:] = -1

    def _describe_rows(self, described: Described) -> None:
        """Write what a descriptor says into its instances' rows."""
        store = self.store
        rows = np.array([store.layout.instance_index[path] for path in described.instances])
        store.period_s[rows] = described.period_s
        publisher = self.publishers.find(described.publisher, described.boot)
        if publisher is not None:
            # Two may describe the same instance, one of them long gone: the one that lives has it.
            is_online = self.publishers.is_online(publisher)
            store.publisher_of[rows if is_online else rows[store.publisher_of[rows] < 0]] = publisher.number
        if described.columns is not STANDARD_COLUMNS:
            self._blank_columns(described, rows)

    def _blank_columns(self, described: Described, rows: NDArray[np.int64]) -> None:
        """Make what a descriptor does not announce not available, so that no former value is drawn as live."""
        names = {column.name for column in described.columns if is_known(column)}
        chips = self.store.layout.chip_rows(rows)
        for metric in (*CHIP_METRICS, *INSTANCE_METRICS):
            if metric.name not in names:
                self.store.columns[metric.name][chips if metric.scope is Scope.CHIP else rows] = metric.top

    def _bind(self, state: TopicState) -> None:
        """Find the descriptor that covers a topic, and the rows that it means."""
        layout = self.store.layout
        state.is_chip = address.level_of(state.path) is Level.CHIP
        descriptor = self.descriptors.get(_covering(state.path))
        before, state.descriptor = state.descriptor, None
        if descriptor is None:
            return
        if before is None or before.boot != descriptor.boot:
            # Another start counts from 0; and what came while nothing described the topic is not lost.
            state.former_boot = before.boot if before else state.former_boot
            state.tracker = SequenceTracker()
        publisher = self.publishers.find(descriptor.publisher, descriptor.boot)
        state.clock = self.timebase.clock(descriptor.clock, descriptor.period_s)
        state.publisher = -1 if publisher is None else publisher.number
        rows = [layout.instance_index.get(path, -1) for path in descriptor.instances]
        if min(rows) < 0:
            return
        if state.is_chip:
            node = layout.find(state.path)
            if node is None or len(rows) != 1 or layout.parent(node).number != rows[0]:
                return
            state.chips, state.chip_count = slice(node.number, node.number + 1), 1
        else:
            state.instances = _as_slice(np.array(rows))
            chips = np.concatenate(
                [np.arange(layout.chip_start[row], layout.chip_start[row + 1]) for row in rows]
            )
            state.chips, state.chip_count = _as_slice(chips), len(chips)
            state.decoder = self._decoder(descriptor, len(chips), len(rows))
            if before is not descriptor:
                _sort_columns(state, descriptor)
        state.descriptor = descriptor

    def _decoder(self, descriptor: Described, chips: int, instances: int) -> FrameDecoder:
        """Return the decoder of frames of that form, which topics share: what one has learned serves all."""
        columns = descriptor.columns
        key = (None if columns is STANDARD_COLUMNS else columns, chips, instances)
        decoder = self._decoders.get(key)
        if decoder is None:
            if len(self._decoders) >= MOST_DECODERS:
                self._decoders.clear()
            decoder = self._decoders[key] = FrameDecoder(columns, chips, instances)
        return decoder

    def _place_jobs(self) -> None:
        store = self.store
        store.job_of[:] = -1
        # Where two jobs claim an instance, the one told of last has it: a former run's may still be retained.
        for number, job in sorted(enumerate(self.jobs.values()), key=lambda pair: pair[1].ts):
            for target in job.on:
                # A job may be known before the hardware it runs on; placement is done again with the layout.
                covered = store.layout.find_instances(target)
                if covered:
                    store.job_of[covered.start : covered.stop] = number
        self.jobs_revision += 1
        store.revision += 1


def _sort_columns(state: TopicState, descriptor: Described) -> None:
    """Tell the columns that can be copied from those that must be converted."""
    columns = descriptor.columns
    if columns is STANDARD_COLUMNS:
        state.same_chip, state.same_instance, state.foreign = _CHIP_NAMES, _INSTANCE_NAMES, ()
        return
    known = [column for column in columns if is_known(column)]
    same = [column for column in known if column in STANDARD_COLUMNS]
    state.same_chip = tuple(column.name for column in same if column.per is Scope.CHIP)
    state.same_instance = tuple(column.name for column in same if column.per is Scope.INSTANCE)
    state.foreign = tuple(column for column in known if column not in STANDARD_COLUMNS)


def _is_cbor(envelope: Envelope) -> bool:
    """Tell the encoding by the MQTT 5 content type, or by the first byte where there is none."""
    if envelope.content_type == CONTENT_TYPE_CBOR:
        return True
    if envelope.content_type == CONTENT_TYPE_JSON:
        return False
    return bool(envelope.payload) and envelope.payload[0] in _MAP_HEADS


def _covering(path: str) -> str:
    """Return the path of the descriptor that covers a telemetry topic's path: a chip's is its instance's."""
    return address.parent(path) if address.level_of(path) is Level.CHIP else path


def _first(rows: slice | NDArray[np.int64]) -> int:
    return int(rows.start) if isinstance(rows, slice) else int(rows[0])


def _as_slice(rows: NDArray[Any]) -> slice | NDArray[np.int64]:
    """Return consecutive rows as a slice, which writes without a copy of the index."""
    if len(rows) and bool((np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows.astype(np.int64)
