"""Recordings made by hand: envelopes with known times, and files of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope, Stored
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START_NS = 1_767_571_200_000_000_000
NS_PER_S = 1_000_000_000
ABOUT = About(
    id="r1",
    fleets=("demo",),
    broker="mqtt://127.0.0.1:1883",
    started="2026-01-05T00:00:00Z",
    seed=7,
)


def at(seconds: float) -> int:
    """Return the time so long after the begin."""
    return START_NS + round(seconds * NS_PER_S)


def value(number: int, seconds: float, size: int = 200) -> Stored:
    """Return a telemetry message of one of eight topics.

    Its payload has its number and compresses badly.
    """
    noise = (b"%d" % (number * 2_654_435_761 % 2**32)) * (size // 8)
    topic = build_topic("demo", TopicClass.TELEMETRY, f"uc1/us-{number % 8:04d}")
    return Stored(
        at(seconds), Envelope(topic, b"%08d" % number + noise[:size], 0, False, CONTENT_TYPE_CBOR)
    )


def state(topic_class: TopicClass, path: str, text: str, seconds: float) -> Stored:
    """Return a message of retained state; an empty text clears it."""
    topic = build_topic("demo", topic_class, path)
    return Stored(at(seconds), Envelope(topic, text.encode(), 1, True, CONTENT_TYPE_JSON))


def ticks(count: int, every_s: float = 0.1, *, size: int = 200) -> list[Stored]:
    """Return telemetry at even distances."""
    return [value(number, number * every_s, size) for number in range(count)]


def write(
    path: Path, messages: Iterable[Stored], about: About = ABOUT, **options: int | None
) -> RecordingWriter:
    """Write a finished recording; return its writer."""
    writer = RecordingWriter(path, about, **options)  # type: ignore[arg-type]  # options are numbers here
    for time_ns, envelope in messages:
        writer.write(time_ns, envelope)
    writer.close()
    return writer


def read(*paths: Path) -> list[Stored]:
    """Return all messages of a recording."""
    recording = Recording.open(paths)
    try:
        return list(recording.all())
    finally:
        recording.close()
