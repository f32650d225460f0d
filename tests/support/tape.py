"""A recording in memory: the port `Tape` over a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnfleet.wire.ports import Keyframe, Stored


class MemoryTape:
    """Messages in order, and keyframes where a test puts some."""

    def __init__(self, messages: Sequence[Stored], keyframes: Sequence[Keyframe] = ()) -> None:
        self._messages = list(messages)
        self._keyframes = list(keyframes)
        self.reads: list[int] = []
        """Where reading began, each time."""

    @property
    def start_ns(self) -> int:
        """Time of the oldest message."""
        return self._messages[0].time_ns

    @property
    def end_ns(self) -> int:
        """Time of the newest message."""
        return self._messages[-1].time_ns

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment."""
        return max(
            (each for each in self._keyframes if each.time_ns <= at_ns),
            key=lambda each: each.time_ns,
            default=None,
        )

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns`."""
        self.reads.append(after_ns)
        yield from (each for each in self._messages if after_ns < each.time_ns <= until_ns)
