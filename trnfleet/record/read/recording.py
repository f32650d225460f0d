"""A recording to be read: one file or several, as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError
from trnfleet.record.format.envelopes import CHANNELS, OTHER
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS, RecordLimits
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.statistics import collect_statistics
from trnfleet.record.read.timeline import Timeline
from trnfleet.record.read.verify import verify_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from trnfleet.record.format.metadata import About
    from trnfleet.record.read.reader import Recovery
    from trnfleet.record.read.statistics import RecordingStatistics, TopicCount
    from trnfleet.wire.ports import Keyframe, Stored


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
        if len(paths) > limits.parts:
            raise ConfigError(
                f"{len(paths)} files are over the limit of {limits.parts} for one recording"
            )
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
    def recoveries(self) -> list[Recovery]:
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
