"""Descriptors missing in a recording with their telemetry.

The broker may have withheld them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.monitor.ingest.missing import MissingState
from trnfleet.services.files.sequence_gaps import instance_path
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.wire.ports import Envelope
    from trnfleet.wire.topics import Topic

MOST_TOPICS = 262_144
"""Telemetry topics whose descriptors are known to have arrived."""


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
        self._missing = MissingState(DEFAULT_LIMITS.undescribed_paths)
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
                self._missing.found(TopicClass.NODE, envelope.topic)
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
