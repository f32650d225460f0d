"""The recorder: all messages from a broker, written to a crash-safe file."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from trnfleet.clock import NS_PER_S, Clock, format_rfc3339
from trnfleet.domain.quantities import size_text
from trnfleet.errors import BrokerError, TrnfleetError, WireError
from trnfleet.monitor.ingest.missing import MissingState
from trnfleet.monitor.slices import GATHER_S
from trnfleet.record.format.metadata import About
from trnfleet.record.format.schema import SCHEMA
from trnfleet.record.write.part import DELETED
from trnfleet.services.files.outputs import Sink, find_former, make_sink, remove_former
from trnfleet.services.files.recordings import fleets_in
from trnfleet.services.files.sequence_gaps import MOST_TOPICS, SequenceGaps, instance_path
from trnfleet.services.session import ANSWER_S, CONNECT_LIMIT_S, BatchReader, BrokerSession
from trnfleet.systemd import ServiceManager, Work, link_works
from trnfleet.tasks import Ending, background, run_until
from trnfleet.transport.inbox import InboxLimits
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.topics import Topic, TopicClass, build_topic, class_hint, filter_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.wire.ports import Envelope, LinkStatus

PROGRESS_EVERY_S = 1.0
QUEUE_MESSAGES = 400_000
QUEUE_BYTES = 256 * 2**20
"""Bytes of waiting messages. More than elsewhere: a recorder must survive a pause of some seconds
without loss."""


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """The topics to record, and the files to record into."""

    file: Path
    filters: tuple[str, ...]
    """Topic filters."""
    duration_s: float | None = None
    split_bytes: int | None = None
    """Size at which another file begins."""
    split_s: float | None = None
    """Time after which another file begins."""
    keep_s: float | None = None
    """Age at which files of the recording are deleted."""
    is_ndjson: bool = False
    """Whether to write lines as mosquitto_sub does, instead of a recording."""
    overwrite: bool = False
    durable: bool = False
    """Whether to sync the file to disk every second."""
    stdout: BinaryIO | None = None
    """Stream to write lines to instead of the file."""


class RecordProgress(NamedTuple):
    """Totals of a recording, so far or at its end."""

    messages: int
    file_bytes: int
    lost: int
    """Telemetry ticks that never arrived, by sequence numbers, as `trnfleet info` counts them."""
    dropped: int
    """Messages received but not written: too large, or too many. Telemetry among them also counts
    as lost."""
    length_s: float
    """Time from the first message to the last."""
    parts: int
    interruptions: int


class RecordReporter(Protocol):
    """Receiver of progress while recording."""

    def began(self, request: RecordRequest) -> None:
        """Report that recording has begun."""

    def heard_nothing(self, hint: str) -> None:
        """Report that nothing has arrived yet, and a possible reason."""

    def progressed(self, progress: RecordProgress, elapsed_s: float) -> None:
        """Report the totals after `elapsed_s`; called every `PROGRESS_EVERY_S`."""

    def disconnected(self, reason: str) -> None:
        """Report a lost connection."""

    def reconnected(self, after_s: float) -> None:
        """Report that the connection is back."""


class RecordingFailedError(TrnfleetError):
    """Failure to write; `progress` has the totals until then."""

    def __init__(self, reason: str, progress: RecordProgress, *, is_readable: bool) -> None:
        super().__init__(reason)
        self.progress = progress
        self.is_readable = is_readable
        """Whether the recording can be read."""


async def record(
    session: BrokerSession, request: RecordRequest, reporter: RecordReporter
) -> RecordProgress:
    """Record until a signal or the duration ends it, and return the totals.

    Raises:
        BrokerError: the broker cannot be reached, or nothing came.
        BrokenPipeError: the reader of the lines has closed the pipe.
        ConfigError: the file exists or cannot be created.
        RecordingFailedError: writing failed.
    """
    is_split = bool(request.split_bytes or request.split_s)
    former = (
        []
        if request.stdout
        else find_former(request.file, is_split=is_split, overwrite=request.overwrite)
    )
    clock = session.clock
    ending = Ending()
    manager = ServiceManager(clock)
    source = session.source(
        # Telemetry is published at QoS 0 and comes so; what is published at QoS 1 must not be lost.
        ((topic_filter, 1) for topic_filter in request.filters),
        limits=InboxLimits(messages=QUEUE_MESSAGES, size_bytes=QUEUE_BYTES),
    )
    with ending.on_signals():
        async with background(source=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            first = await BatchReader(source, clock, limit_s=ANSWER_S).next()
            about = About(
                schema=SCHEMA,
                id=secrets.token_hex(8),
                fleets=fleets_in((envelope.topic for envelope in first), session.root),
                root=session.root,
                broker=str(dataclasses.replace(session.url, user=None)),
                filters=request.filters,
                started=format_rfc3339(clock.wall_ns()),
            )
            # Former files are kept until there is something to record.
            remove_former(former)
            sink = make_sink(
                request.file,
                about,
                clock,
                stdout=request.stdout,
                is_ndjson=request.is_ndjson,
                split_bytes=request.split_bytes,
                split_ns=_ns(request.split_s),
                keep_ns=_ns(request.keep_s),
                durable=request.durable,
            )
            gaps = SequenceGaps(session.root)
            missing = MissingDescriptors(session.root, gaps.parse)
            reporter.began(request)
            if not first and (hint := await _why_nothing(session, request.filters)):
                reporter.heard_nothing(hint)
            try:
                sink.start()
                _write_batch(sink, gaps, first)
                missing.take(first)
                work = _write_until_end(request, source, sink, gaps, missing, clock, reporter)
                works = _works(source, sink)
                async with background(
                    service_manager=manager.run(
                        works, lambda: _status(source.status, _progress(source, sink, gaps))
                    )
                ):
                    await run_until(ending, work)
                    if source.waiting:
                        _write_batch(sink, gaps, await source.take())
            finally:
                sink.close()
    progress = _progress(source, sink, gaps)
    if sink.status.failed:
        raise RecordingFailedError(
            sink.status.failed, progress, is_readable=sink.status.failed != DELETED
        )
    if not progress.messages:
        hint = await _why_nothing(session, request.filters)
        raise BrokerError(f"{session.url}: nothing was recorded: {hint or 'no message came'}")
    return progress


async def _why_nothing(session: BrokerSession, filters: Sequence[str]) -> str:
    """Return hints on wrong names in the filters.

    Empty if all are right or unknown.
    """
    hints = [class_hint(topic_filter, session.root) for topic_filter in filters]
    fleets = {filter_parts(topic_filter, session.root)[0] for topic_filter in filters} - {""}
    if fleets:
        # It loads NumPy, which a recorder does without.
        from trnfleet.services.discovery import nearest_fleet  # noqa: PLC0415

        hints += [await nearest_fleet([session], fleet) for fleet in sorted(fleets)]
    return "; ".join(dict.fromkeys(hint for hint in hints if hint))


async def _write_until_end(
    request: RecordRequest,
    source: MqttSource,
    sink: Sink,
    gaps: SequenceGaps,
    missing: MissingDescriptors,
    clock: Clock,
    reporter: RecordReporter,
) -> None:
    """Record until the duration is over or writing fails."""

    async def receive() -> None:
        while True:
            batch = await source.take()
            _write_batch(sink, gaps, batch)
            missing.take(batch)
            source.request_retained(missing.due(clock.monotonic_s()))
            await clock.sleep(GATHER_S)

    async def at_duration() -> None:
        if request.duration_s is not None:
            await clock.sleep(request.duration_s)
        else:
            await asyncio.Event().wait()

    async with background(
        receive=receive(), progress=_report_progress(source, sink, gaps, clock, reporter)
    ):
        ends = {asyncio.ensure_future(at_duration()), asyncio.ensure_future(sink.failed())}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in ends:
                task.cancel()


def _write_batch(sink: Sink, gaps: SequenceGaps, batch: Sequence[Envelope]) -> None:
    """Write a batch and count the gaps in the written part.

    Messages that do not fit are missing at its end.
    """
    dropped = sink.status.lost
    sink.take(batch)
    gaps.take(batch[: len(batch) - (sink.status.lost - dropped)])


async def _report_progress(
    source: MqttSource, sink: Sink, gaps: SequenceGaps, clock: Clock, reporter: RecordReporter
) -> None:
    """Report totals, and changes of the connection."""
    began_s = clock.monotonic_s()
    was_connected = True
    lost_s = 0.0
    while True:
        await clock.sleep(PROGRESS_EVERY_S)
        now_s = clock.monotonic_s()
        status = source.status
        if status.connected != was_connected:
            was_connected = status.connected
            if was_connected:
                reporter.reconnected(now_s - lost_s)
            else:
                lost_s = status.changed_s
                reporter.disconnected(status.last_error)
        reporter.progressed(_progress(source, sink, gaps), now_s - began_s)


def _works(source: MqttSource, sink: Sink) -> list[Work]:
    """Return the vital loops: receiving, writing, and each connection."""
    link = source.status
    return [
        Work("messages", lambda: link.received - source.waiting, lambda: not source.waiting),
        Work("writing", lambda: sink.status.messages, lambda: sink.is_drained),
        *link_works("connection", link.parts or (link,)),
    ]


def _status(link: LinkStatus, progress: RecordProgress) -> str:
    """Return the totals in one line, or why there is no connection."""
    state = "" if link.connected else f"no connection: {link.last_error}; "
    return (
        f"{state}{progress.messages:,} messages, {size_text(progress.file_bytes)}, lost"
        f" {progress.lost:,}"
    )


def _progress(source: MqttSource, sink: Sink, gaps: SequenceGaps) -> RecordProgress:
    link = source.status
    status = sink.status
    return RecordProgress(
        status.messages,
        status.file_bytes,
        gaps.lost,
        link.dropped + link.oversize + status.lost,
        status.length_s,
        status.parts,
        max(0, link.connects - 1),
    )


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NS_PER_S)


class MissingDescriptors:
    """The topics of missing descriptors, in all fleets."""

    def __init__(self, root: str, parse: Callable[[str], Topic]) -> None:
        """Begin with none.

        Args:
            root: First part of the topics.
            parse: Takes a topic apart, or raises `WireError`.
        """
        self._root = root
        self._parse = parse
        self._missing = MissingState(DEFAULT_LIMITS.undescribed)
        self._described: dict[str, list[str]] = {}
        """Topics of telemetry with its descriptor, by the topic of the descriptor."""
        self._settled: set[str] = set()
        """The same topics of telemetry."""

    def take(self, batch: Iterable[Envelope]) -> None:
        """Look at messages of any kind."""
        for envelope in batch:
            if envelope.topic in self._settled:
                continue
            try:
                topic = self._parse(envelope.topic)
            except WireError:
                continue
            if topic.topic_class is TopicClass.NODE:
                self._missing.note_arrival(TopicClass.NODE, envelope.topic)
                if not envelope.payload:
                    self._settled.difference_update(self._described.pop(envelope.topic, ()))
                elif len(self._described) < MOST_TOPICS:
                    self._described.setdefault(envelope.topic, [])
            elif topic.topic_class is TopicClass.TELEMETRY:
                self._look_at(envelope.topic, topic)

    def due(self, now_s: float) -> list[str]:
        """Return the topics to request now.

        Args:
            now_s: Monotonic seconds.
        """
        return [topic for _, topic in self._missing.due(now_s)]

    def _look_at(self, name: str, topic: Topic) -> None:
        node = build_topic(topic.fleet, TopicClass.NODE, instance_path(topic.path), self._root)
        if node not in self._described:
            self._missing.hear(TopicClass.NODE, node)
        elif len(self._settled) < MOST_TOPICS:
            self._settled.add(name)
            self._described[node].append(name)
