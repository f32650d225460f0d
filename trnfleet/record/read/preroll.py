"""Preroll: the messages from before a moment that a reader needs to start there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import Stored, Tape


def preroll(tape: Tape, at_ns: int) -> Iterator[Stored]:
    """Yield the newest keyframe's messages, and all from then on that came before a moment.

    What came in the instant of the keyframe may or may not be part of it; taking state twice does no harm.
    """
    keyframe = tape.keyframe(at_ns)
    if keyframe is not None:
        yield from keyframe.state
    begin_ns = tape.start_ns if keyframe is None else keyframe.time_ns
    yield from tape.read(min(begin_ns, at_ns) - 1, at_ns - 1)
