"""Preroll: the messages a reader needs from before a moment to start there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import RecordedMessages, Stored


def preroll(recording: RecordedMessages, at_ns: int) -> Iterator[Stored]:
    """Yield the newest keyframe's messages, and all later ones from before a moment.

    Messages of the keyframe's own instant may be part of it or not; applying state twice is
    harmless.
    """
    keyframe = recording.keyframe(at_ns)
    if keyframe is not None:
        yield from keyframe.state
    begin_ns = recording.start_ns if keyframe is None else keyframe.time_ns
    yield from recording.read(min(begin_ns, at_ns) - 1, at_ns - 1)
