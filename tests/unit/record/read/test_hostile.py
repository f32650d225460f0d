"""Hostile files: forged names, lengths and amounts."""

from __future__ import annotations

import dataclasses
import os
import struct
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard
from mcap.records import Channel, Header, Metadata
from mcap.writer import Writer

from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format.envelopes import MAX_NS, pack, unpack
from trnfleet.record.format.limits import DEFAULT_RECORD_LIMITS
from trnfleet.record.format.metadata import PROFILE, About
from trnfleet.record.format.records import MAGIC, MESSAGE_HEAD, ChunkEntry, to_bytes
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.part import DELETED
from trnfleet.record.write.writer import RecordingError, RecordingWriter
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.record.format.decoding import Messages

ABOUT = About(id="a", fleets=("demo",))
EVENT = Envelope("trnfleet/v1/demo/event/uc1", b"{}", 1)
START_NS = 1_767_600_000_000_000_000
NOBODY = "\x1b]0;x\x07\u202e"


def unfinished(path: Path, *chunks: tuple[int, list[tuple[int, int, bytes]]]) -> Path:
    """Write a file without an index.

    Each chunk has its stated end, and its messages (time, channel, data).
    """
    head = [
        Header("trnfleet", "x"),
        Metadata("trnfleet", ABOUT.to_metadata()),
        Channel(1, "event", "cbor", {}, 0),
    ]
    file = MAGIC + to_bytes(head)
    for end_ns, messages in chunks:
        content = b"".join(
            MESSAGE_HEAD.pack(5, 22 + len(data), channel, 0, time_ns, 0) + data
            for time_ns, channel, data in messages
        )
        data = zstandard.compress(content)
        begin_ns = messages[0][0]
        fields = struct.pack("<QQQII", begin_ns, end_ns, len(content), zlib.crc32(content), 4)
        fields += b"zstd" + struct.pack("<Q", len(data)) + data
        file += struct.pack("<BQ", 6, len(fields)) + fields
        for channel in {channel for _, channel, _ in messages}:
            places = struct.pack("<HIQQ", channel, 16, begin_ns, 0)
            file += struct.pack("<BQ", 7, len(places)) + places
    path.write_bytes(file)
    return path


def test_times_at_the_ends_of_time_are_kept(tmp_path: Path) -> None:
    """A message of 1970 is written, and impossible times are replaced by the limits."""
    path = tmp_path / "a.mcap"
    writer = RecordingWriter(path, ABOUT)
    for time_ns in (-5, 0, MAX_NS, MAX_NS + 5):
        writer.write(time_ns, EVENT)
        writer.flush()
    writer.close()

    recording = Recording.open([path])
    assert [stored.time_ns for stored in recording.all()] == [0, 1, MAX_NS, MAX_NS]
    assert recording.verify() == []


def test_names_that_no_fleet_has_are_not_believed() -> None:
    """What reaches a terminal or a topic as a fleet's name or root is one."""
    data = dataclasses.replace(ABOUT, fleets=("demo", NOBODY, "a/b", ""), root=NOBODY).to_metadata()

    about = About.from_metadata(data)

    assert about.fleets == ("demo",)
    assert about.root == "trnfleet"


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    """Nobody waits for a pipe's writer or for a device's end."""
    pipe = tmp_path / "pipe.mcap"
    os.mkfifo(pipe)
    for path in (pipe, type(pipe)("/dev/zero")):
        with pytest.raises(ConfigError, match="is a pipe or a device"):
            PartReader(path)


def test_a_topic_is_no_longer_than_mqtt_allows() -> None:
    """Topics are kept by the million, so that each must be of a bounded length."""
    longest = EVENT._replace(topic="t" * 65_535)
    assert unpack(pack(longest)) == longest
    with pytest.raises(WireError, match="65536 characters"):
        unpack(pack(EVENT._replace(topic="t" * 65_536)))


@pytest.mark.parametrize("limit", [{"topics": 5}, {"topic_chars": 500}], ids=str)
def test_statistics_bound_the_topics(tmp_path: Path, limit: dict[str, int]) -> None:
    """Topics beyond the limit are counted together: a small file may have 64 GB of them."""
    path = tmp_path / "a.mcap"
    writer = RecordingWriter(path, ABOUT)
    for number in range(10):
        writer.write(START_NS + number, EVENT._replace(topic=f"other/{number}/{'x' * 92}"))
    writer.close()

    limits = dataclasses.replace(DEFAULT_RECORD_LIMITS, **limit)
    statistics = Recording.open([path], limits).statistics()

    assert (len(statistics.topics), statistics.uncounted, statistics.messages) == (5, 5, 10)


def test_a_chunk_of_too_many_messages_is_left_out(tmp_path: Path) -> None:
    """Each message takes 200 bytes of memory, however small it is."""
    path = unfinished(
        tmp_path / "a.mcap", (START_NS + 9, [(START_NS + n, 1, pack(EVENT)) for n in range(10)])
    )
    few = Recording.open([path], dataclasses.replace(DEFAULT_RECORD_LIMITS, messages=9))
    assert (list(few.all()), few.damaged) == ([], 1)


def test_names_of_channels_are_cut(tmp_path: Path) -> None:
    """65,536 channels with names of 1 MiB fit into a small file, compressed."""
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start(PROFILE, "x")
        channel = writer.register_channel("x" * 100_000, "cbor", 0)
        writer.add_message(channel, START_NS, pack(EVENT), START_NS)
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    os.truncate(path, path.stat().st_size - 10)
    recording = Recording.open([path])

    assert len(list(recording.all())) == 1
    names = recording.parts[0].channels.values()
    assert [len(name) for name in names] == [DEFAULT_LIMITS.text_chars]


def test_small_overlapping_chunks_are_not_all_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of a few bytes takes kilobytes while it is read beside others."""
    chunk = (START_NS + 9, [(START_NS, 1, pack(EVENT)), (START_NS + 9, 1, pack(EVENT))])
    path = unfinished(tmp_path / "a.mcap", *[chunk] * 20)
    limits = dataclasses.replace(DEFAULT_RECORD_LIMITS, overlap_bytes=4 * 2**20, cache_bytes=0)
    recording = Recording.open([path], limits)
    opened: list[object] = []
    read_messages = recording.parts[0].messages

    def read(entry: ChunkEntry) -> Messages:
        opened.append(entry)
        return read_messages(entry)

    monkeypatch.setattr(recording.parts[0], "messages", read)

    messages = recording.all()
    next(messages)

    assert len(opened) == 4
    assert len(list(messages)) == 39


def test_overlapping_chunks_share_a_bound(tmp_path: Path) -> None:
    """Of chunks with the same stated time, a bounded number is read side by side.

    The bound is in bytes. Nothing is lost.
    """
    chunk = (START_NS + 9, [(START_NS + n, 1, pack(EVENT)) for n in range(10)])
    path = unfinished(tmp_path / "a.mcap", *[chunk] * 12)
    recording = Recording.open([path], dataclasses.replace(DEFAULT_RECORD_LIMITS, overlap_bytes=1))

    times = [stored.time_ns for stored in recording.all()]

    assert len(times) == 120
    assert times == sorted(times)
    # One chunk at a time: only the first is in order, the rest is held at its end.
    assert times[9:] == [START_NS + 9] * 111


def test_a_chunk_beyond_the_end_of_time_is_no_chunk(tmp_path: Path) -> None:
    """A damaged time does not make a recording 500 years long."""
    message = [(START_NS, 1, pack(EVENT))]
    path = unfinished(tmp_path / "a.mcap", (START_NS, message), (2**64 - 1, message))

    recording = Recording.open([path])

    assert (recording.start_ns, recording.end_ns, recording.damaged) == (START_NS, START_NS, 1)


def test_the_walk_tells_each_chunk_its_channels(tmp_path: Path) -> None:
    """Chunks of many channels are walked as quickly as others, and know them all."""
    many = [(START_NS, channel, b"") for channel in range(1, 20_000)]
    path = unfinished(
        tmp_path / "a.mcap", (START_NS, many), (START_NS + 1, [(START_NS + 1, 7, b"")])
    )

    entries = PartReader(path).entries

    assert [entry.channels for entry in entries] == [tuple(range(1, 20_000)), (7,)]


def test_a_recording_that_somebody_deletes_ends(tmp_path: Path) -> None:
    """Recording ends when its file is deleted."""
    path = tmp_path / "a.mcap"
    writer = RecordingWriter(path, ABOUT)
    writer.write(START_NS, EVENT)
    writer.flush()
    path.unlink()
    writer.write(START_NS + 1, EVENT)
    with pytest.raises(RecordingError, match=DELETED):
        writer.flush()
