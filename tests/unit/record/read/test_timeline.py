"""Chunks of several files: what is kept of one that goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.record.files import ABOUT, at, ticks, write

from trnfleet.record.format.envelopes import CHANNELS
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS
from trnfleet.record.read.reader import GrowingPart, PartReader
from trnfleet.record.read.timeline import Timeline

if TYPE_CHECKING:
    from pathlib import Path


def test_a_reader_that_reads_on_leaves_nothing_of_a_dropped_file(tmp_path: Path) -> None:
    """It gets all of the file, and no chunk of it stays to be taken for another's."""
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
