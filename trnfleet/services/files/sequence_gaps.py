"""Loss of telemetry by sequence numbers, without descriptors.

The counts are the same while recording and from the file.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from typing import TYPE_CHECKING

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.errors import WireError
from trnfleet.monitor.ingest.sequence import SequenceTracker
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.wire.frame_head import is_cbor, seq_at
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.telemetry import telemetry_head
from trnfleet.wire.topics import Topic, TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST_TOPICS = DEFAULT_LIMITS.topics
"""Most followed topics of telemetry, and boots of publishers."""
CACHED_TOPICS = 2**15
"""Most topics whose parts stay in memory: 1 KB each, also of hosts that are gone."""


class SequenceGaps:
    """Ticks of telemetry that never came, by fleet."""

    def __init__(self, root: str) -> None:
        """Count from now on.

        Args:
            root: First part of the topics.
        """
        self._root = root
        self._counts: dict[str, PipelineCounts] = {}
        """By fleet."""
        self._filled: Counter[str] = Counter()
        """Lost ticks that came as backlog, by fleet."""
        self._trackers: dict[tuple[str, str], dict[tuple[str, str], SequenceTracker]] = {}
        """By fleet and path of the instance, then by topic and boot id."""
        self._boots = 0
        """Trackers of all instances."""
        self._heads: dict[str, tuple[bytes, SequenceTracker, PipelineCounts]] = {}
        """The part of the last frame before its sequence number, and the trackers, by topic."""
        # What is no topic of ours raises, and is not kept: it may be of any length.
        self.parse = functools.lru_cache(CACHED_TOPICS)(functools.partial(parse_topic, root=root))

    @property
    def lost(self) -> int:
        """Ticks lost in all fleets."""
        return sum(self.lost_of(fleet) for fleet in self._counts)

    def filled_of(self, fleet: str) -> int:
        """Return the ticks of one fleet that came as backlog; they are not lost."""
        return self._filled[fleet]

    def lost_of(self, fleet: str) -> int:
        """Return the ticks lost of one fleet."""
        return max(0, self._counts[fleet].lost) if fleet in self._counts else 0

    def take(self, batch: Iterable[Envelope]) -> None:
        """Count messages of any kind.

        Other than readable telemetry counts as nothing.
        """
        heads = self._heads
        for envelope in batch:
            known = heads.get(envelope.topic)
            if known is not None:
                head, tracker, counts = known
                payload = envelope.payload
                at = len(head)
                if (
                    payload.startswith(head)
                    and len(payload) >= at + 8
                    and envelope.content_type != CONTENT_TYPE_JSON
                ):
                    # As its topic's frames before it up to the number, which a host's all are.
                    tracker.accept(
                        int.from_bytes(payload[at : at + 8], "big"), counts, envelope.shed
                    )
                    continue
            with contextlib.suppress(WireError):
                self.add(self.parse(envelope.topic), envelope)

    def add(self, topic: Topic, envelope: Envelope) -> None:
        """Count a message with its parsed topic.

        A cleared descriptor ends the counting of its instance.

        Raises:
            WireError: it is telemetry without boot or seq.
        """
        if topic.topic_class is TopicClass.NODE and not envelope.payload:
            self._forget(topic)
        is_backlog = topic.topic_class is TopicClass.BACKLOG
        if not (is_backlog or topic.topic_class is TopicClass.TELEMETRY) or not envelope.payload:
            return
        boot, seq = telemetry_head(envelope)
        path = instance_path(topic.path)
        trackers = self._trackers.get((topic.fleet, path), {})
        if is_backlog:
            live = build_topic(topic.fleet, TopicClass.TELEMETRY, topic.path, self._root)
            known = trackers.get((live, boot))
            if known is not None and known.mend(seq, self._counts[topic.fleet]):
                self._filled[topic.fleet] += 1
            return
        tracker = trackers.get((envelope.topic, boot))
        if tracker is None:
            if self._boots >= MOST_TOPICS:
                return
            self._boots += 1
            tracker = trackers[envelope.topic, boot] = SequenceTracker()
            self._trackers[topic.fleet, path] = trackers
        counts = self._counts.setdefault(topic.fleet, PipelineCounts())
        tracker.accept(seq, counts, envelope.shed)
        if is_cbor(envelope) and (at := seq_at(envelope.payload)) is not None:
            self._heads[envelope.topic] = envelope.payload[:at], tracker, counts

    def _forget(self, node: Topic) -> None:
        trackers = self._trackers.pop((node.fleet, node.path), {})
        self._boots -= len(trackers)
        for name, _ in trackers:
            self._heads.pop(name, None)


def instance_path(path: str) -> str:
    """Return the path of the descriptor of a telemetry topic's path.

    A chip is described with its instance.
    """
    return address.parent(path) if address.level_of(path) is Level.CHIP else path
