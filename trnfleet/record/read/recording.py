"""A recording to be read: one file or several, as one."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format.envelopes import (
    CHANNELS,
    KEYFRAME,
    OTHER,
    KeyframeBound,
    channel_namer,
    unpack,
    unpack_repeat,
)
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS, RecordLimits
from trnfleet.record.format.schema import SCHEMA
from trnfleet.record.read.reader import FileRecovery, PartReader
from trnfleet.record.read.timeline import Timeline
from trnfleet.wire.topics import VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from trnfleet.record.format.decoding import Messages
    from trnfleet.record.format.metadata import About
    from trnfleet.record.format.records import ChunkEntry
    from trnfleet.wire.ports import Keyframe, Stored


_MISSED_PERIODS = 3
"""No telemetry for more periods than this is a gap."""
_MOST_GAPS = 1_000


@dataclass(slots=True)
class TopicCount:
    """Counts of one topic or class."""

    messages: int = 0
    payload_bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0
    longest_gap_ns: int = 0
    """The longest time between two messages."""

    def add(self, time_ns: int, size: int) -> None:
        """Count a message."""
        if self.messages:
            self.longest_gap_ns = max(self.longest_gap_ns, time_ns - self.last_ns)
        else:
            self.first_ns = time_ns
        self.messages += 1
        self.payload_bytes += size
        self.last_ns = time_ns


@dataclass(slots=True)
class RecordingStatistics:
    """Counts by topic and by class, with gaps."""

    topics: dict[str, TopicCount] = field(default_factory=dict)
    """By topic; at most as many as the limits say."""
    classes: dict[str, TopicCount] = field(default_factory=dict)
    """By channel: the class's name, or `other`."""
    messages: int = 0
    payload_bytes: int = 0
    uncounted: int = 0
    """Messages on topics beyond the limit."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Start and end (ns) of times without any telemetry, in order.

    Only gaps longer than three periods count, and only the 1,000 longest are listed.
    """
    period_ns: int = 0
    """Usual distance of telemetry on a topic: the median over the topics. 0 without telemetry."""


def collect_statistics(
    messages: Iterable[Stored], root: str, limits: RecordLimits
) -> RecordingStatistics:
    """Return a recording's statistics."""
    statistics = RecordingStatistics()
    channel_of = channel_namer(root)
    pauses: list[tuple[int, int, int]] = []
    telemetry: list[TopicCount] = []
    chars = 0
    for time_ns, envelope in messages:
        size = len(envelope.payload)
        channel = channel_of(envelope.topic)
        statistics.messages += 1
        statistics.payload_bytes += size
        class_count = statistics.classes.get(channel)
        if class_count is None:
            class_count = statistics.classes[channel] = TopicCount()
        if channel in VALUES and class_count.messages:
            _note_pause(pauses, class_count.last_ns, time_ns)
        class_count.add(time_ns, size)
        topic = statistics.topics.get(envelope.topic)
        if topic is None:
            chars += len(envelope.topic)
            if len(statistics.topics) >= limits.topics or chars > limits.topic_chars:
                statistics.uncounted += 1
                continue
            topic = statistics.topics[envelope.topic] = TopicCount()
            if channel in VALUES:
                telemetry.append(topic)
        topic.add(time_ns, size)
    periods = [_period(count) for count in telemetry if count.messages > 2]
    statistics.period_ns = round(median(periods)) if periods else 0
    shortest = _MISSED_PERIODS * max(statistics.period_ns, 1)
    statistics.gaps = sorted(
        (begin, end) for length, begin, end in pauses if periods and length > shortest
    )
    return statistics


def _note_pause(pauses: list[tuple[int, int, int]], begin_ns: int, end_ns: int) -> None:
    """Keep a pause (length, begin, end) if it is among the longest."""
    pause = (end_ns - begin_ns, begin_ns, end_ns)
    if len(pauses) < _MOST_GAPS:
        heapq.heappush(pauses, pause)
    elif pause > pauses[0]:
        heapq.heapreplace(pauses, pause)


def _period(topic: TopicCount) -> float:
    """Return the mean distance of a topic's messages.

    The longest is left out: it may be a gap.
    """
    return (topic.last_ns - topic.first_ns - topic.longest_gap_ns) / (topic.messages - 2)


_MOST_PROBLEMS = 20
"""Problems listed for a file; the rest is only counted."""


def verify_part(part: PartReader) -> list[str]:
    """Return the defects of a file, a line each.

    Empty if sound.
    """
    check = _Check(part)
    check.run()
    problems = check.problems
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], f"{part.path}: and {more} more like these"]
    return problems


class _Check:
    """One pass over a file."""

    def __init__(self, part: PartReader) -> None:
        self._part = part
        self._last_ns = 0
        self._counts: dict[str, int] = {}
        self._bound: KeyframeBound | None = None
        self._repeats = 0
        self.problems: list[str] = []

    def run(self) -> None:
        """Look at everything."""
        part = self._part
        if part.recovery is not None:
            self._say(part.recovery.text().removeprefix(f"{part.path}: "))
        if not part.about.id:
            self._say(f"says nothing of itself: metadata of schema {SCHEMA} is missing")
        if part.skipped:
            self._say(f"{part.skipped} records make no sense")
        for entry in part.entries:
            try:
                messages = part.messages(entry)
            except WireError as error:
                self._say(f"at byte {entry.offset}: {error}")
                self._bound = None
            else:
                self._look_at(entry, messages)
        if part.recovery is None and not part.damaged:
            counts = part.counts()
            for name in sorted(counts.keys() | self._counts.keys()):
                if counts.get(name, 0) != self._counts.get(name, 0):
                    self._say(
                        f"the index counts {counts.get(name, 0)} messages of {name}, there are"
                        f" {self._counts.get(name, 0)}"
                    )

    def _say(self, problem: str) -> None:
        self.problems.append(f"{self._part.path}: {problem}")

    def _look_at(self, entry: ChunkEntry, messages: Messages) -> None:
        part = self._part
        items = messages.items
        where = f"at byte {entry.offset}"
        if not messages.was_sorted:
            self._say(f"{where}: messages are not in the order of their times")
        if items and (items[0].time_ns, items[-1].time_ns) != (entry.start_ns, entry.end_ns):
            self._say(f"{where}: the index has other times than the messages")
        numbers = tuple(sorted({item.channel for item in items}))
        if entry.channels is not None and tuple(sorted(entry.channels)) != numbers:
            self._say(f"{where}: the index has other channels than the messages")
        data = memoryview(messages.data)
        for item in items:
            name = part.channel_name(item.channel)
            self._counts[name] = self._counts.get(name, 0) + 1
            if name not in CHANNELS:
                self._say(f"{where}: a message is on a channel that recordings do not have")
            try:
                if name == KEYFRAME:
                    self._look_at_repeat(where, data[item.begin : item.end])
                    continue
                unpack(data[item.begin : item.end], part.major)
            except WireError as error:
                self._say(f"{where}: {error}")
            if item.time_ns < self._last_ns:
                self._say(f"{where}: a message is earlier than the one before it")
            self._last_ns = max(self._last_ns, item.time_ns)

    def _look_at_repeat(self, where: str, data: memoryview) -> None:
        repeat = unpack_repeat(data, self._part.major)
        if not isinstance(repeat, KeyframeBound):
            self._repeats += 1
            return
        if not repeat.end:
            self._bound = repeat
            self._repeats = 0
            return
        if self._bound is not None and not self._bound.repeats == repeat.repeats == self._repeats:
            self._say(
                f"{where}: a keyframe should have {self._bound.repeats} messages and has"
                f" {self._repeats}"
            )
        self._bound = None


class Recording:
    """A recording of one or several files, ordered by start.

    There may be gaps between them.
    """

    def __init__(
        self, parts: Sequence[PartReader], limits: RecordLimits = DEFAULT_RECORD_LIMITS
    ) -> None:
        """Join open parts; see `open`."""
        self.parts = sorted(parts, key=_begin_of)
        self._timeline = Timeline(limits)
        self._timeline.fill(self.parts)
        self._limits = limits
        self._statistics: RecordingStatistics | None = None

    @classmethod
    def open(cls, paths: Sequence[Path], limits: RecordLimits = DEFAULT_RECORD_LIMITS) -> Recording:
        """Open files as one recording.

        Raises:
            ConfigError: one cannot be read, is not MCAP, has another profile or a newer schema, or
                there is nothing in it.
        """
        if not paths:
            raise ConfigError("no recording was named")
        parts: list[PartReader] = []
        try:
            parts.extend(PartReader(path, limits) for path in paths)
            recording = cls(parts, limits)
            recording._refuse_nothing()
        except ConfigError:
            for part in parts:
                part.close()
            raise
        return recording

    def _refuse_nothing(self) -> None:
        """Refuse files without messages.

        Raises:
            ConfigError: there is no message.
        """
        if self._timeline.is_empty:
            why = self.recoveries[0].why if self.recoveries else "it ended before the first message"
            raise ConfigError(f"{self.parts[0].path}: nothing was recorded: {why}")

    @property
    def abouts(self) -> list[About]:
        """Metadata of each part."""
        return [part.about for part in self.parts]

    @property
    def fleets(self) -> tuple[str, ...]:
        """Fleets named in the parts, each once."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.about.fleets))

    @property
    def root(self) -> str:
        """Root of the topics."""
        return self.parts[0].about.root

    @property
    def is_finished(self) -> bool:
        """Whether every part has a sound index."""
        return all(part.is_finished for part in self.parts)

    @property
    def recoveries(self) -> list[FileRecovery]:
        """Results of recovering the parts without an index."""
        return [part.recovery for part in self.parts if part.recovery is not None]

    @property
    def damaged(self) -> int:
        """Chunks left out so far: damaged or beyond the limits."""
        return sum(part.damaged for part in self.parts)

    @property
    def unread(self) -> int:
        """Malformed messages read so far, each counted once."""
        return self._timeline.unread

    @property
    def counts(self) -> dict[str, int]:
        """Messages by channel, without empty channels.

        `keyframe` counts repeats for seeking.
        """
        counts: dict[str, int] = {}
        for part in self.parts:
            for name, count in part.counts().items():
                known = name if name in CHANNELS else OTHER
                counts[known] = counts.get(known, 0) + count
        return {name: counts[name] for name in CHANNELS if counts.get(name)}

    @property
    def file_bytes(self) -> int:
        """Size of all files."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def start_ns(self) -> int:
        """Time of the first message."""
        return self._timeline.start_ns

    @property
    def end_ns(self) -> int:
        """Time of the last message."""
        return self._timeline.end_ns

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment, from any part.

        None without one.
        """
        return self._timeline.keyframe(at_ns)

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns` in order.

        Damaged chunks are left out and counted.
        """
        return self._timeline.read(after_ns, until_ns)

    def all(self) -> Iterator[Stored]:
        """Yield every message in order."""
        return self._timeline.read(self.start_ns - 1, self.end_ns)

    def topics(self) -> dict[str, TopicCount]:
        """Return message counts by topic.

        Reads all of the recording once.
        """
        return self.statistics().topics

    def statistics(self, tap: Callable[[Stored], None] | None = None) -> RecordingStatistics:
        """Return statistics by topic and class, with gaps.

        Reads all of the recording once.

        Args:
            tap: Called with every message, in the same pass. With it the recording is read each
                time.
        """
        if self._statistics is None or tap is not None:
            messages = self.all() if tap is None else _tapped(self.all(), tap)
            self._statistics = collect_statistics(messages, self.root, self._limits)
        return self._statistics

    def verify(self) -> list[str]:
        """Return the defects, a line each.

        Empty if sound.

        An unfinished file is a defect.
        """
        return [problem for part in self.parts for problem in verify_part(part)]

    def close(self) -> None:
        """Close the files."""
        for part in self.parts:
            part.close()


def _begin_of(part: PartReader) -> tuple[int, str, int]:
    return (
        min((entry.start_ns for entry in part.entries), default=0),
        part.about.id,
        part.about.part,
    )


def _tapped(messages: Iterator[Stored], tap: Callable[[Stored], None]) -> Iterator[Stored]:
    for stored in messages:
        tap(stored)
        yield stored
