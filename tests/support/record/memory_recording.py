"""Recordings in memory: the port `RecordedMessages` over a list."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from trnfleet.wire.ports import Envelope, Keyframe, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


STATE_CLASSES = {"node", "job", "reservation", "alert", "ack", "silence", "publisher"}


class MemoryRecording:
    """Messages in order, and keyframes where a test puts some."""

    def __init__(self, messages: Sequence[Stored] = (), keyframes: Sequence[Keyframe] = ()) -> None:
        self.stored = list(messages)
        self.keyframes = list(keyframes)
        self.reads: list[int] = []
        """Where reading began, each time."""

    @property
    def start_ns(self) -> int:
        """Time of the oldest message."""
        return self.stored[0].time_ns

    @property
    def end_ns(self) -> int:
        """Time of the newest message."""
        return self.stored[-1].time_ns

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment."""
        place = bisect.bisect_right(self.keyframes, at_ns, key=lambda each: each.time_ns)
        return self.keyframes[place - 1] if place else None

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns`."""
        self.reads.append(after_ns)
        begin, end = (
            bisect.bisect_right(self.stored, time_ns, key=lambda each: each.time_ns)
            for time_ns in (after_ns, until_ns)
        )
        yield from self.stored[begin:end]


class KeyframedRecording(MemoryRecording):
    """A growing recording with a keyframe before the first message of every `every_s` seconds."""

    def __init__(self, *, every_s: float = 10.0, root: str = "trnfleet") -> None:
        super().__init__()
        self._every_ns = round(every_s * 1e9)
        self._root = root
        self._state: dict[str, Stored] = {}
        self._values: dict[str, Stored] = {}
        self._due_ns = 0

    def put(self, time_ns: int, envelopes: list[Envelope]) -> None:
        """Record what came at a time."""
        if self.stored and time_ns >= self._due_ns:
            state = [*self._state.values(), *self._values.values()]
            self.keyframes.append(Keyframe(self.stored[-1].time_ns, state, has_values=True))
            self._due_ns = time_ns + self._every_ns
        for envelope in envelopes:
            stored = Stored(time_ns, envelope)
            self.stored.append(stored)
            kind = envelope.topic.split("/")[self._root.count("/") + 3]
            if kind == "telemetry":
                self._values[envelope.topic] = stored
            elif kind in STATE_CLASSES:
                if envelope.payload:
                    self._state[envelope.topic] = stored
                else:
                    self._state.pop(envelope.topic, None)

    def cut(self, before_ns: int) -> None:
        """Forget what came before a time."""
        self.stored = [each for each in self.stored if each.time_ns >= before_ns]
        self.keyframes = [each for each in self.keyframes if each.time_ns >= before_ns]
