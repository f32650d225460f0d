"""Chunks of several files: the remains of a dropped one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.record.files import ABOUT, NS_PER_S, at, ticks, write

from trnfleet.record.format.envelopes import CHANNELS, KEYFRAME
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS
from trnfleet.record.format.records import ChunkEntry
from trnfleet.record.read.reader import GrowingPart, PartReader
from trnfleet.record.read.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path


def test_a_reader_that_reads_on_leaves_nothing_of_a_dropped_file(tmp_path: Path) -> None:
    """A read in progress gets all of a dropped file, and caches no chunk."""
    messages = ticks(40)
    write(tmp_path / "a.mcap", messages)
    whole = PartReader(tmp_path / "a.mcap")
    part = GrowingPart(tmp_path / "a.mcap", ABOUT, CHANNELS)
    timeline = Timeline(DEFAULT_RECORD_LIMITS)
    for entry in whole.entries:
        timeline.append(part, entry)
    assert [slot.entry for slot in timeline.chunks()] == list(whole.entries)
    assert len(whole.entries) > 4

    reading = timeline.read(at(-1), at(1_000))
    found = [next(reading)]
    assert timeline._cache
    timeline.drop(part)
    found += reading

    assert found == messages
    assert not timeline._cache
    assert (timeline._cache_bytes, timeline.chunks()) == (0, [])
    part.close()
    whole.close()


def hours(count: int) -> list[ChunkEntry]:
    """Return chunks of a second, as from a live buffer of 192 chips.

    Each eleventh is a keyframe.
    """
    repeats = list(CHANNELS).index(KEYFRAME) + 1
    found = []
    offset = 1_000
    for number in range(count):
        start_ns = at(number) + number * 7_919 % 4_000_000
        length = 27_000 + number * 7_919 % 3_000
        end_ns = (
            start_ns if number % 11 == 0 else start_ns + 900_000_000 + number * 104_729 % 5_000_000
        )
        channels = (repeats,) if number % 11 == 0 else (1, 2)
        found.append(
            ChunkEntry(
                start_ns, end_ns, offset, length, 500, "zstd", length - 57, 150_000, channels
            )
        )
        offset += length + 500
    return found


def test_all_places_of_hours_are_found(tmp_path: Path) -> None:
    write(tmp_path / "a.mcap", ticks(1))
    part = GrowingPart(tmp_path / "a.mcap", ABOUT, CHANNELS)
    timeline = Timeline(DEFAULT_RECORD_LIMITS)
    entries = hours(2 * 3_900)
    for entry in entries:
        timeline.append(part, entry)
    assert [slot.entry for slot in timeline.chunks()] == entries
    assert (timeline.start_ns, timeline.end_ns) == (entries[1].start_ns, entries[-2].end_ns)
    part.close()


def test_the_newest_whole_keyframe_is_found_beyond_damaged_ones(tmp_path: Path) -> None:
    """From run to run towards the begin, also where the oldest file goes meanwhile."""
    for name, begin in (("a", 0), ("b", 40)):
        write(
            tmp_path / f"{name}.mcap",
            [each._replace(time_ns=each.time_ns + begin * NS_PER_S) for each in ticks(400)],
        )
    wholes = [PartReader(tmp_path / f"{name}.mcap") for name in "ab"]
    parts = [GrowingPart(whole.path, ABOUT, CHANNELS) for whole in wholes]
    timeline = Timeline(DEFAULT_RECORD_LIMITS)
    for whole, part in zip(wholes, parts, strict=True):
        for entry in whole.entries:
            timeline.append(part, entry)
    keyframes = [
        entry
        for entry in wholes[1].entries
        if entry.channels == (list(CHANNELS).index(KEYFRAME) + 1,)
    ]
    assert len(keyframes) > 2
    for entry in keyframes[1:]:
        with (tmp_path / "b.mcap").open("r+b") as file:
            file.seek(entry.offset + 60)
            file.write(b"\xff" * 20)
    found = timeline.keyframe(at(100))
    assert found is not None
    assert found.time_ns == keyframes[0].start_ns
    timeline.drop(parts[0])
    assert timeline.keyframe(at(100)) == found
    timeline.drop(parts[1])
    assert timeline.keyframe(at(100)) is None
    for reader in (*wholes, *parts):
        reader.close()
