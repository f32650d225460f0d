"""Choices within a recording: the part to read, and the fleet."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.moments import find_moment, is_move
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.wire.messages import PublisherMessage, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trnfleet.record.read.recording import Recording
    from trnfleet.wire.ports import RecordedMessages

FAREWELL_S = 5.0
"""Seconds at the end of a recording in which publishers say goodbye. Shards of one simulator need a
second or two."""


def part_of(recording: Recording, begin: str | None, end: str | None) -> tuple[int, int]:
    """Return the first and last instant (ns) from `begin` to `end`.

    None stands for the recording's own.

    Raises:
        ConfigError: it lies outside the recording, or ends before it begins.
    """
    first = recording.start_ns
    last = recording.end_ns
    span = f"the recording is from {format_rfc3339(first)} to {format_rfc3339(last)}"
    from_ns = first if begin is None else find_moment(begin, first, last)
    to_ns = last
    if end is not None:
        # A time of day is the next one after the given begin, `+90s` is after the recording's own.
        to_ns = find_moment(end, first if is_move(end) else max(first, from_ns), last, is_end=True)
    for option, text, instant in (("--from", begin, from_ns), ("--to", end, to_ns)):
        # What was written with milliseconds may be meant to be the very end.
        if not first - NS_PER_S <= instant <= last + NS_PER_S:
            raise ConfigError(f"{option} {text}: {span}")
    from_ns = min(max(from_ns, first), last)
    to_ns = min(max(to_ns, first), last)
    if from_ns > to_ns:
        raise ConfigError(f"--from {begin} is after --to {end}; {span}")
    return from_ns, to_ns


def last_alive_ns(recording: RecordedMessages, root: str, fleet: str) -> int:
    """Return the last instant (ns) before a fleet's publishers said goodbye, or the end.

    A recorder outlives the fleet by a moment, and the last picture would show only offline chips. A
    goodbye before another publisher, or the recording, goes on is part of the story.
    """
    end_ns = recording.end_ns
    keyframe = recording.keyframe(end_ns)
    after_ns = recording.start_ns - 1 if keyframe is None else keyframe.time_ns
    states: dict[str, tuple[bool, int]] = {}
    for stored in itertools.chain(
        () if keyframe is None else keyframe.state, recording.read(after_ns, end_ns)
    ):
        envelope = stored.envelope
        try:
            topic = parse_topic(envelope.topic, root)
            if (
                topic.topic_class is not TopicClass.PUBLISHER
                or topic.fleet != fleet
                or not envelope.payload
            ):
                continue
            message = decode_message(envelope.payload, PublisherMessage)
        except WireError:
            continue
        if message.role == "telemetry":
            states[message.client] = message.state == "online", stored.time_ns
    farewells = [
        time_ns for _, time_ns in states.values() if time_ns >= end_ns - FAREWELL_S * NS_PER_S
    ]
    if not farewells or any(is_online for is_online, _ in states.values()):
        return end_ns
    return max(recording.start_ns, min(farewells) - 1)


def shown_part_of(
    recording: Recording, fleet: str, begin: str | None, end: str | None
) -> tuple[int, int]:
    """Return the first and last instant (ns) of the part shown in the app.

    It ends with the fleet unless `end` is set.

    Raises:
        ConfigError: it lies outside the recording, or ends before it begins.
    """
    from_ns, to_ns = part_of(recording, begin, end)
    if end is None:
        to_ns = max(from_ns, min(to_ns, last_alive_ns(recording, recording.root, fleet)))
    return from_ns, to_ns


def fleets_in(topics: Iterable[str], root: str) -> tuple[str, ...]:
    """Return the fleets of topics, sorted; a topic of another program has none."""
    fleets: set[str] = set()
    for topic in topics:
        try:
            fleets.add(parse_topic(topic, root).fleet)
        except WireError:
            continue
    return tuple(sorted(fleets))


def fleets_of(recording: Recording) -> tuple[str, ...]:
    """Return the fleets named in a recording, or those of its topics."""
    return recording.fleets or fleets_in(recording.topics(), recording.root)


def fleet_of(recording: Recording, name: str | None, file: str) -> str:
    """Return the fleet to read: the given one, or the only one.

    Raises:
        ConfigError: there is none, or several and no name, or none of that name.
    """
    fleets = fleets_of(recording)
    if name is None and len(fleets) == 1:
        # Another one may have come later: what is in force at the end says so, and what came since.
        last = recording.keyframe(recording.end_ns)
        since_ns = recording.start_ns - 1 if last is None else last.time_ns
        rest = recording.read(since_ns, recording.end_ns)
        topics = {
            stored.envelope.topic
            for part in ((last.state if last else ()), rest)
            for stored in part
        }
        fleets = tuple(sorted({*fleets, *fleets_in(topics, recording.root)}))
    if name is not None and name not in fleets:
        # It names those that were there when it began.
        fleets = (*fleets, *fleets_in(recording.topics(), recording.root))
    if not fleets:
        raise ConfigError(f"{file}: no fleet in it; trnfleet info {file} lists its topics")
    try:
        return choose_fleet(fleets, name)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def choose_fleet(fleets: Collection[str], name: str | None) -> str:
    """Return the given fleet, or the only one of `fleets`.

    Raises:
        ConfigError: there are several and no name, or none of that name; the message does not name
            the file.
    """
    if name is None and len(fleets) > 1:
        raise ConfigError(f"several fleets in it: name one with --name; {nearest('', fleets)}")
    if name is not None and name not in fleets:
        raise ConfigError(f"no fleet {name!r} in it: {nearest(name, set(fleets))}")
    return next(iter(fleets)) if name is None else name


def left_out_text(damaged_chunks: int, senseless_messages: int) -> str:
    """Return the unusable part of a recording as read so far.

    Empty for nothing.
    """
    parts = [
        f"{count:,} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (damaged_chunks, "damaged chunk"),
            (senseless_messages, "senseless message"),
        )
        if count
    ]
    return f"left out: {' and '.join(parts)}" if parts else ""
