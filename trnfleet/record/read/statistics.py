"""Statistics of a recording, by topic and class, from reading all of it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from trnfleet.record.format.envelopes import channel_namer
from trnfleet.wire.topics import VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.record.format.limits import RecordLimits
    from trnfleet.wire.ports import Stored

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

    def take(self, time_ns: int, size: int) -> None:
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
        of_class = statistics.classes.get(channel)
        if of_class is None:
            of_class = statistics.classes[channel] = TopicCount()
        if channel in VALUES and of_class.messages:
            _note_pause(pauses, of_class.last_ns, time_ns)
        of_class.take(time_ns, size)
        topic = statistics.topics.get(envelope.topic)
        if topic is None:
            chars += len(envelope.topic)
            if len(statistics.topics) >= limits.topics or chars > limits.topic_chars:
                statistics.uncounted += 1
                continue
            topic = statistics.topics[envelope.topic] = TopicCount()
            if channel in VALUES:
                telemetry.append(topic)
        topic.take(time_ns, size)
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
