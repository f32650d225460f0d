"""Preroll: the messages from before a moment that a reader needs to start there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import RecordedMessages, Stored


def preroll(recording: RecordedMessages, at_ns: int) -> Iterator[Stored]:
    """Yield the newest keyframe's messages, and all from then on that came before a moment.

    What came in the instant of the keyframe may or may not be part of it; taking state twice does no harm.
    """
    keyframe = recording.keyframe(at_ns)
    if keyframe is not None:
        yield from keyframe.state
    begin_ns = recording.start_ns if keyframe is None else keyframe.time_ns
    yield from recording.read(min(begin_ns, at_ns) - 1, at_ns - 1)
