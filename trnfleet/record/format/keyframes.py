"""Keyframes: all retained state and the newest telemetry of every topic, and when to write one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.record.format.envelopes import OTHER
from trnfleet.wire.topics import RETAINED, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import Envelope

EVERY_NS = 10 * NS_PER_S
"""Time between two keyframes where they cost little."""
AT_LATEST_NS = 60 * NS_PER_S
"""Longest time between two keyframes, whatever they cost."""
WORTH = 10
"""Data between two keyframes as a multiple of their size, so that they cost little."""
MOST_VALUES_BYTES = 32 * 2**20
"""Newest telemetry beyond this is left out."""
MOST_STATE_BYTES = 256 * 2**20
"""Retained state beyond this is left out: topics that were not yet known then."""
_OVERHEAD_BYTES = 64
"""Bytes of an entry beside its data: the message's head and time."""


class Repeat(NamedTuple):
    """A message that a keyframe repeats."""

    time_ns: int
    data: bytes
    """As `envelopes.pack` made it."""


class KeyframeTracker:
    """The content of a keyframe at this moment: each topic's newest message, in order of receipt."""

    def __init__(
        self, values_bytes: int = MOST_VALUES_BYTES, state_bytes: int = MOST_STATE_BYTES
    ) -> None:
        self._state: dict[str, Repeat] = {}
        self._values: dict[str, Repeat] = {}
        self._state_bytes = 0
        self._values_bytes = 0
        self._most_values_bytes = values_bytes
        self._most_state_bytes = state_bytes
        self.has_values = True
        """Whether the newest telemetry is kept; once it was too large it is not, for the rest of the recording."""

    def __len__(self) -> int:
        return len(self._state) + len(self._values)

    def __iter__(self) -> Iterator[Repeat]:
        yield from self._state.values()
        yield from self._values.values()

    @property
    def size_bytes(self) -> int:
        """Bytes of a keyframe, about."""
        return self._state_bytes + self._values_bytes

    def take(self, channel: str, time_ns: int, envelope: Envelope, data: bytes) -> None:
        """Take in a message of a channel, which `data` holds packed."""
        if channel in VALUES:
            if self.has_values:
                self._take_value(envelope, Repeat(time_ns, data))
        elif channel in RETAINED or (
            channel == OTHER and (envelope.retain or envelope.topic in self._state)
        ):
            self._take_state(envelope, Repeat(time_ns, data))

    def _take_value(self, envelope: Envelope, repeat: Repeat) -> None:
        former = self._values.pop(envelope.topic, None)
        if former is not None:
            self._values_bytes -= len(former.data) + _OVERHEAD_BYTES
        self._values[envelope.topic] = repeat
        self._values_bytes += len(repeat.data) + _OVERHEAD_BYTES
        if self._values_bytes > self._most_values_bytes:
            self.has_values = False
            self._values.clear()
            self._values_bytes = 0

    def _take_state(self, envelope: Envelope, repeat: Repeat) -> None:
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
        keyframe_bytes: What one takes now.
    """
    if since_ns >= AT_LATEST_NS:
        return True
    return since_ns >= EVERY_NS and since_bytes >= WORTH * keyframe_bytes
