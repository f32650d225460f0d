"""Keyframes: all retained state, the newest telemetry per topic, and when to write one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.record.format.envelopes import OTHER
from trnfleet.wire.topics import DEFAULT_ROOT, RETAINED, VALUES, TopicClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import Envelope

EVERY_NS = 10 * NS_PER_S
"""Time between two keyframes where they cost little."""
AT_LATEST_NS = 60 * NS_PER_S
"""Longest time between two keyframes, regardless of their size."""
WORTH = 10
"""Data between two keyframes as a multiple of their size. Bounds the cost of keyframes."""
MOST_VALUES_BYTES = 32 * 2**20
"""Newest telemetry beyond this is left out."""
MOST_STATE_BYTES = 256 * 2**20
"""Most retained state in a keyframe. Topics first seen beyond this are left out."""
_OVERHEAD_BYTES = 64
"""Bytes of an entry beside its data: the message's head and time."""


class Repeat(NamedTuple):
    """A message repeated in a keyframe."""

    time_ns: int
    data: bytes
    """As `envelopes.pack` made it."""


class KeyframeTracker:
    """Content of a keyframe at this moment: the newest message per topic.

    Ordered by receipt.
    """

    def __init__(
        self,
        values_bytes: int = MOST_VALUES_BYTES,
        state_bytes: int = MOST_STATE_BYTES,
        root: str = DEFAULT_ROOT,
    ) -> None:
        # Root, version and fleet come before the class.
        self._class_at = root.count("/") + 3
        self._state: dict[str, Repeat] = {}
        self._values: dict[str, Repeat] = {}
        self._state_bytes = 0
        self._values_bytes = 0
        self._most_values_bytes = values_bytes
        self._most_state_bytes = state_bytes
        self.has_values = True
        """Whether the newest telemetry is stored. False for the rest of the recording once it was
        too large."""

    def __len__(self) -> int:
        return len(self._state) + len(self._values)

    def __iter__(self) -> Iterator[Repeat]:
        yield from self._state.values()
        yield from self._values.values()

    @property
    def size_bytes(self) -> int:
        """Bytes of a keyframe, about."""
        return self._state_bytes + self._values_bytes

    def add(self, channel: str, time_ns: int, envelope: Envelope, data: bytes) -> None:
        """Add a message of a channel.

        `data` is the packed envelope.
        """
        if channel in VALUES:
            if self.has_values:
                self._add_value(envelope, Repeat(time_ns, data))
        elif channel in RETAINED or (
            channel == OTHER and (envelope.retain or envelope.topic in self._state)
        ):
            self._add_state(envelope, Repeat(time_ns, data))

    def _add_value(self, envelope: Envelope, repeat: Repeat) -> None:
        self._drop_value(envelope.topic)
        self._values[envelope.topic] = repeat
        self._values_bytes += len(repeat.data) + _OVERHEAD_BYTES
        if self._values_bytes > self._most_values_bytes:
            self.has_values = False
            self._values.clear()
            self._values_bytes = 0

    def _drop_value(self, topic: str) -> None:
        former = self._values.pop(topic, None)
        if former is not None:
            self._values_bytes -= len(former.data) + _OVERHEAD_BYTES

    def forget(self, now_ns: int) -> None:
        """Drop telemetry older than `AT_LATEST_NS` without a descriptor."""
        until_ns = now_ns - AT_LATEST_NS
        old = itertools.takewhile(lambda pair: pair[1].time_ns < until_ns, self._values.items())
        for topic, _ in list(old):
            parts = topic.split("/", self._class_at + 1)
            parts[self._class_at] = TopicClass.NODE.value
            node = "/".join(parts)
            # A chip's telemetry is described by its instance's descriptor.
            if node not in self._state and node.rpartition("/")[0] not in self._state:
                self._drop_value(topic)

    def _add_state(self, envelope: Envelope, repeat: Repeat) -> None:
        former = self._state.pop(envelope.topic, None)
        if former is not None:
            self._state_bytes -= len(former.data) + _OVERHEAD_BYTES
        if envelope.payload and (former is not None or self._state_bytes < self._most_state_bytes):
            self._state[envelope.topic] = repeat
            self._state_bytes += len(repeat.data) + _OVERHEAD_BYTES


def is_due(since_ns: int, since_bytes: int, keyframe_bytes: int) -> bool:
    """Return whether a keyframe is due.

    Args:
        since_ns: Time since the last one.
        since_bytes: Data since the last one.
        keyframe_bytes: Size of one now.
    """
    if since_ns >= AT_LATEST_NS:
        return True
    return since_ns >= EVERY_NS and since_bytes >= WORTH * keyframe_bytes
