"""A recording as NDJSON, in the format of the simulator's stdout.

Frames are decoded, JSON passes through. This module owns the order of the lines: a tick's
telemetry, events, reservations, jobs. On the wire jobs come after the telemetry, so a tick waits
until the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import SIMULATED, Scope
from trnfleet.errors import WireError
from trnfleet.record.read.player import preroll
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import Frame, Unit
from trnfleet.wire.messages import Descriptor, JobMessage, decode_message, parse_json_object
from trnfleet.wire.ndjson import is_plain, to_plain_json
from trnfleet.wire.rollups import is_rollup
from trnfleet.wire.telemetry import decode_sample, dump, encode_chips, encode_instance
from trnfleet.wire.topics import Topic, TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trnfleet.wire.ports import Envelope, RecordedMessages

MOST_HELD_BYTES = 64 * 2**20
"""Most payload bytes waiting for a tick's jobs. Beyond this, lines are written with the known jobs.
"""
_ORDER = (TopicClass.TELEMETRY, TopicClass.EVENT, TopicClass.RESERVATION, TopicClass.JOB)
_NAMES = {
    "telemetry": TopicClass.TELEMETRY,
    "events": TopicClass.EVENT,
    "jobs": TopicClass.JOB,
    "reservations": TopicClass.RESERVATION,
}


class _PendingFrame(NamedTuple):
    unit: Unit
    frame: Frame


class _Placed(NamedTuple):
    ts: str
    on: tuple[str, ...]


class NdjsonLines:
    """NDJSON lines of one fleet's messages."""

    def __init__(self, root: str, fleet: str, kinds: Collection[str] = ("telemetry",)) -> None:
        """Bind to a fleet and the kinds of lines to write.

        Args:
            root: First part of the topics.
            fleet: The fleet's name.
            kinds: Of telemetry, events, jobs and reservations.
        """
        self._root = root
        self._fleet = fleet
        self._kinds = {_NAMES[kind] for kind in kinds}
        self._units: dict[str, Unit] = {}
        self._marks: dict[str, int] = {}
        """Hash of each unit's descriptor, to recognise repetitions."""
        self._jobs: dict[str, _Placed] = {}
        self._layout: Layout | None = None
        """Of all units; None where it is due."""
        self._job_of: dict[str, str] | None = None
        """Job per instance. None if it must be computed again."""
        self._held: dict[TopicClass, list[bytes | _PendingFrame]] = {
            topic_class: [] for topic_class in _ORDER
        }
        self._held_bytes = 0
        self._first: dict[str, bytes] = {}
        """Newest version of each reservation received before any telemetry."""
        self._last: dict[str, bytes] = {}
        """The newest message of each reservation: repetitions are not written again."""
        self._tick_ns = -1
        self.left_out = 0
        """Messages without a line."""
        self.problem = ""
        """The reason of the first of them."""

    def lines(self, recording: RecordedMessages, from_ns: int, to_ns: int) -> Iterator[bytes]:
        """Yield the lines of a part of a recording, with line ends.

        Both moments are included.
        """
        for stored in preroll(recording, from_ns):
            self._learn(stored.envelope)
        for stored in recording.read(from_ns - 1, to_ns):
            yield from self.take(stored.envelope)
        yield from self.flush()

    def take(self, envelope: Envelope) -> Iterator[bytes]:
        """Add a message.

        If it begins a tick, yield the lines of the tick before.
        """
        topic = self._topic(envelope.topic)
        if topic is None:
            return
        try:
            self._learn_state(topic, envelope.payload)
            if topic.topic_class is TopicClass.TELEMETRY:
                if envelope.payload:
                    yield from self._telemetry(topic, envelope)
            elif topic.topic_class in self._kinds and envelope.payload:
                self._other(topic, envelope)
                if self._held_bytes > MOST_HELD_BYTES:
                    yield from self.flush()
        except WireError as error:
            self._leave_out(f"{envelope.topic}: {error}")

    def flush(self) -> Iterator[bytes]:
        """Yield the waiting lines."""
        self._held[TopicClass.RESERVATION][:0] = self._first.values()
        self._first = {}
        for topic_class in _ORDER:
            held, self._held[topic_class] = self._held[topic_class], []
            for pending in held:
                if isinstance(pending, bytes):
                    yield pending + b"\n"
                else:
                    yield from self._frame_lines(pending)
        self._held_bytes = 0

    def _learn(self, envelope: Envelope) -> None:
        """Take in state from before the first line."""
        topic = self._topic(envelope.topic)
        if topic is not None:
            try:
                self._learn_state(topic, envelope.payload)
            except WireError as error:
                self._leave_out(f"{envelope.topic}: {error}")
            if topic.topic_class is TopicClass.RESERVATION:
                self._last[topic.path] = envelope.payload

    def _topic(self, text: str) -> Topic | None:
        try:
            topic = parse_topic(text, self._root)
        except WireError:
            return None
        return topic if topic.fleet == self._fleet else None

    def _learn_state(self, topic: Topic, payload: bytes) -> None:
        """Store described instances and the jobs on them.

        Raises:
            WireError: the payload does not fit its topic.
        """
        if topic.topic_class is TopicClass.NODE:
            self._learn_unit(topic.path, payload)
        elif topic.topic_class is TopicClass.JOB:
            self._learn_job(topic.path, payload)

    def _learn_job(self, path: str, payload: bytes) -> None:
        if payload:
            job = decode_message(payload, JobMessage)
            self._jobs[path] = _Placed(job.ts, job.on)
        else:
            self._jobs.pop(path, None)
        self._job_of = None

    def _learn_unit(self, path: str, payload: bytes) -> None:
        mark = hash(payload)
        if self._marks.get(path) == mark:
            # Descriptors are repeated every minute. An unchanged one is not parsed again.
            return
        if payload and is_rollup(payload):
            # Roll-ups are no lines: they have no chips.
            return
        if payload:
            descriptor = decode_message(payload, Descriptor)
            if descriptor.path != path:
                raise WireError("the descriptor's path is not its topic's")
            self._units[path], self._marks[path] = Unit.of(descriptor), mark
        else:
            self._units.pop(path, None)
            self._marks.pop(path, None)
        self._layout = self._job_of = None

    def _telemetry(self, topic: Topic, envelope: Envelope) -> Iterator[bytes]:
        payload = envelope.payload
        held: bytes | _PendingFrame
        if is_cbor(envelope):
            unit = self._units.get(topic.path)
            if unit is None:
                raise WireError("a frame without its descriptor")
            frame = unit.decode(payload)
            ts_ns = frame.head.ts_ns
            held = _PendingFrame(unit, frame)
        else:
            sample = decode_sample(payload)
            ts_ns = sample.head.ts_ns
            held = _one_line(payload)
        if ts_ns > self._tick_ns or self._held_bytes > MOST_HELD_BYTES:
            if self._tick_ns >= 0:
                yield from self.flush()
            self._tick_ns = max(ts_ns, self._tick_ns)
        # Who wants no telemetry still gets the rest by its ticks.
        if TopicClass.TELEMETRY in self._kinds:
            self._held[TopicClass.TELEMETRY].append(held)
            self._held_bytes += len(payload)

    def _other(self, topic: Topic, envelope: Envelope) -> None:
        line = _one_line(envelope.payload)
        if topic.topic_class is TopicClass.RESERVATION:
            if self._last.get(topic.path) == envelope.payload:
                return
            self._last[topic.path] = envelope.payload
            if self._tick_ns < 0 or topic.path in self._first:
                self._first[topic.path] = line
                return
        if topic.topic_class is TopicClass.JOB and self._tick_ns < 0:
            # State from before the first tick, which the tick repeats.
            return
        self._held[topic.topic_class].append(line)
        self._held_bytes += len(line)

    def _frame_lines(self, held: _PendingFrame) -> Iterator[bytes]:
        unit, frame = held
        columns = unit.codes(frame)
        rows = {Scope.CHIP: unit.chips[-1], Scope.INSTANCE: len(unit.instances)}
        for metric in SIMULATED:
            if metric.name not in columns:
                columns[metric.name] = metric.blank(rows[metric.scope])
        job_of = self._placement()
        for number, (path, _) in enumerate(unit.instances):
            job = job_of.get(path)
            yield dump(encode_instance(frame.head, path, job, columns, number)) + b"\n"
            chips = slice(unit.chips[number], unit.chips[number + 1])
            for _, sample in encode_chips(frame.head, path, job, columns, chips):
                yield dump(sample) + b"\n"

    def _placement(self) -> dict[str, str]:
        """Return the job by instance."""
        if self._layout is None:
            instances = dict(pair for unit in self._units.values() for pair in unit.instances)
            self._layout = Layout.of(instances.items())
        if self._job_of is None:
            self._job_of = {}
            # If two jobs claim an instance, the later message wins: an earlier run's may still be
            # retained.
            for job, placed in sorted(self._jobs.items(), key=lambda pair: pair[1].ts):
                for target in placed.on:
                    for number in self._layout.find_instances(target) or ():
                        self._job_of[self._layout.instances[number]] = job
        return self._job_of

    def _leave_out(self, problem: str) -> None:
        self.left_out += 1
        self.problem = self.problem or problem


def _one_line(payload: bytes) -> bytes:
    """Return a JSON object as one line of text, safe for terminals.

    Raises:
        WireError: it is no JSON object.
    """
    data = parse_json_object(payload)
    return payload if is_plain(payload) else to_plain_json(data)
