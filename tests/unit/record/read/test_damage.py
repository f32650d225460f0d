"""Damaged, hostile or foreign files: sound parts are read, the rest refused by name.

Nothing in them is trusted.
"""

from __future__ import annotations

import random
import struct
import time
import zlib
from typing import TYPE_CHECKING

import pytest
import zstandard
from mcap.opcode import Opcode
from mcap.writer import CompressionType, Writer
from support.record.files import ABOUT, at, read, state, ticks, value, write

from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.record.format.envelopes import pack
from trnfleet.record.format.limits import RecordLimits
from trnfleet.record.format.metadata import PROFILE
from trnfleet.record.format.records import CHUNK_HEAD, HEAD, MAGIC, U64
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.part import PartFile
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from pathlib import Path

MUTATIONS = 2_000


def chunk(compression: bytes, data: bytes, size: int, *, crc: int = 0) -> bytes:
    """Return a chunk's record."""
    head = (
        CHUNK_HEAD.pack(at(0), at(1), size, crc, len(compression))
        + compression
        + U64.pack(len(data))
    )
    return HEAD.pack(Opcode.CHUNK, len(head) + len(data)) + head + data


def unfinished(path: Path, *records: bytes) -> Path:
    """Write a file with our head and these records."""
    part = PartFile(path, ABOUT)
    part.abandon()
    path.write_bytes(path.read_bytes() + b"".join(records))
    return path


def use(path: Path) -> None:
    """Use a file in every possible way."""
    recording = Recording.open([path])
    try:
        times = [stored.time_ns for stored in recording.all()]
        assert times == sorted(times)
        recording.keyframe(recording.end_ns)
        recording.keyframe(recording.start_ns)
        recording.statistics()
        assert all(count > 0 for count in recording.counts.values())
        recording.verify()
        assert all(recovery.text().startswith(str(path)) for recovery in recording.recoveries)
    finally:
        recording.close()


def refusal(path: Path) -> str:
    """Use a file, and return the one-line refusal with its name.

    Empty if accepted.
    """
    try:
        use(path)
    except TrnfleetError as error:
        why = str(error)
    else:
        return ""
    assert why.startswith(f"{path}: ")
    assert "\n" not in why
    return why


def test_a_damaged_chunk_is_left_out_and_counted(tmp_path: Path) -> None:
    """One flipped byte costs one chunk; `verify` says where, and the rest is read."""
    path = tmp_path / "a.mcap"
    write(path, ticks(100))
    part = PartReader(path)
    hit = part.entries[5]
    part.close()
    data = bytearray(path.read_bytes())
    data[hit.offset + hit.length - 20] ^= 0xFF
    path.write_bytes(data)
    recording = Recording.open([path])

    found = list(recording.all())

    assert found == [each for each in ticks(100) if not hit.start_ns <= each.time_ns <= hit.end_ns]
    assert recording.damaged == 1
    assert recording.is_finished
    (problem,) = recording.verify()
    assert f"a.mcap: at byte {hit.offset}: chunk" in problem
    recording.close()


def test_a_damaged_keyframe_gives_the_one_before(tmp_path: Path) -> None:
    """Seeking goes on from an older keyframe."""
    path = tmp_path / "a.mcap"
    write(path, ticks(500))
    part = PartReader(path)
    keyframe = next(number for number, name in part.channels.items() if name == "keyframe")
    hit = [entry for entry in part.entries if entry.channels == (keyframe,)][-1]
    part.close()
    data = bytearray(path.read_bytes())
    data[hit.offset + hit.length - 5] ^= 0xFF
    path.write_bytes(data)

    recording = Recording.open([path])
    found = recording.keyframe(at(50))
    recording.close()

    assert found is not None
    assert at(29) < found.time_ns < hit.start_ns


def test_a_large_keyframe_is_whole_or_not_used(tmp_path: Path) -> None:
    """It takes several chunks; where one of them is damaged, the keyframe before it holds."""
    path = tmp_path / "a.mcap"
    jobs = [
        state(TopicClass.JOB, f"j{number:03d}", f"{number:05d}" * 2_000, number / 100)
        for number in range(300)
    ]
    write(path, [*jobs, *(value(number, 4 + number) for number in range(100))])
    part = PartReader(path)
    repeats = next(number for number, name in part.channels.items() if name == "keyframe")
    chunks = [
        entry for entry in part.entries if entry.channels == (repeats,) and entry.start_ns > at(10)
    ]
    part.close()
    assert len(chunks) >= 3
    assert len({entry.start_ns for entry in chunks}) == 1
    recording = Recording.open([path])
    whole = recording.keyframe(at(200))
    before = recording.keyframe(chunks[0].start_ns - 1)
    recording.close()
    assert whole is not None
    assert before is not None
    assert [each for each in whole.state if "/job/" in each.envelope.topic] == jobs
    data = bytearray(path.read_bytes())
    data[chunks[1].offset + chunks[1].length - 9] ^= 0x55
    path.write_bytes(data)

    recording = Recording.open([path])

    assert recording.keyframe(at(200)) == before
    recording.close()


def test_a_byte_that_still_decodes_is_found_by_its_checksum(tmp_path: Path) -> None:
    """In an uncompressed chunk only the checksum shows a changed payload."""
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream, compression=CompressionType.NONE)
        writer.start(PROFILE, "x")
        channel = writer.register_channel("telemetry", "cbor", 0)
        writer.add_message(channel, at(0), pack(value(7, 0).envelope), at(0))
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    assert read(path) == [value(7, 0)]
    path.write_bytes(path.read_bytes().replace(b"00000007", b"00000008"))
    recording = Recording.open([path])

    assert list(recording.all()) == []
    assert recording.damaged == 1
    assert any("checksum does not agree" in problem for problem in recording.verify())
    recording.close()


@pytest.mark.parametrize("place", ["crc", "footer", "entry"])
def test_an_index_that_does_not_hold_is_dropped(tmp_path: Path, place: str) -> None:
    """With a damaged index the file is walked: everything is there, and it says so."""
    path = tmp_path / "a.mcap"
    write(path, ticks(300))
    data = bytearray(path.read_bytes())
    (summary_at,) = struct.unpack_from("<Q", data, len(data) - 8 - 20)
    if place == "crc":
        data[summary_at + 200] ^= 1
    elif place == "footer":
        struct.pack_into("<QQI", data, len(data) - 28, 2**60, 2**60, 0)
    else:
        # The chunk's place is moved and the checksum made to fit: only the check against the file
        # can tell.
        entry_at = summary_at
        while data[entry_at] != Opcode.CHUNK_INDEX:
            entry_at += HEAD.size + HEAD.unpack_from(data, entry_at)[1]
        struct.pack_into("<Q", data, entry_at + 9 + 16, 2**40)
        crc = zlib.crc32(bytes(data[summary_at : len(data) - 12]))
        struct.pack_into("<I", data, len(data) - 12, crc)
    path.write_bytes(data)

    recording = Recording.open([path])

    assert list(recording.all()) == ticks(300)
    assert not recording.is_finished
    assert "its index is damaged" in recording.recoveries[0].text()
    assert recording.counts["telemetry"] == 300
    recording.close()


@pytest.mark.parametrize(
    ("compression", "data", "size"),
    [
        (b"zstd", zstandard.compress(bytes(200 * 2**20)), 200 * 2**20),
        (b"zstd", zstandard.compress(bytes(200 * 2**20)), 2**20),
        (b"zstd", zstandard.compress(bytes(60 * 2**20)), 60 * 2**20),
        (b"zstd", b"", 2**63),
        (b"zstd", b"nonsense", 100),
        (b"lz4", b"nonsense", 100),
        (b"", b"x" * 50, 49),
        (b"brotli", b"x" * 50, 50),
    ],
)
def test_a_bomb_is_not_decompressed(
    tmp_path: Path, compression: bytes, data: bytes, size: int
) -> None:
    """Chunks beyond the limits count as damaged, quickly.

    Sound messages are read.
    """
    whole = tmp_path / "whole.mcap"
    write(whole, ticks(5))
    part = PartReader(whole)
    sound = b"".join(part.raw(entry) for entry in part.entries)
    part.close()
    path = unfinished(tmp_path / "a.mcap", chunk(compression, data, size), sound)
    began = time.process_time()

    recording = Recording.open([path])
    found = list(recording.all())

    assert found == ticks(5)
    assert recording.damaged == 1
    assert time.process_time() - began < 0.5
    recording.close()


def test_a_frame_that_says_no_size_is_decompressed_up_to_the_limit(tmp_path: Path) -> None:
    """A stream longer than the chunk's stated size is cut off there."""
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    path = unfinished(
        tmp_path / "a.mcap", chunk(b"zstd", compressor.compress(bytes(100 * 2**20)), 2**20)
    )
    began = time.process_time()

    recording = Recording.open([path])

    assert list(recording.all()) == []
    assert recording.damaged == 1
    assert time.process_time() - began < 0.5
    recording.close()


def test_mutated_files_raise_nothing_unexpected(tmp_path: Path) -> None:
    """2,000 mutations of files: read or refused in one line, and never for long.

    Of whole and unfinished ones.
    """
    messages = [state(TopicClass.JOB, "j", "{}", 0), *(value(n, 0.1 + n / 4) for n in range(24))]
    write(tmp_path / "a.mcap", messages)
    with (tmp_path / "foreign.mcap").open("wb") as stream:
        foreign = Writer(stream, chunk_size=300, compression=CompressionType.LZ4)
        foreign.start(PROFILE, "x")
        channel = foreign.register_channel("telemetry", "cbor", 0)
        for number in range(20):
            foreign.add_message(
                channel, at(number), b"\xa2\x65topic\x61t\x67payload\x41x" * 3, at(number)
            )
        foreign.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    originals = [(tmp_path / name).read_bytes() for name in ("a.mcap", "foreign.mcap")]
    originals.append(originals[0][: len(originals[0]) * 2 // 3])
    chance = random.Random(9)  # noqa: S311  no secret
    path = tmp_path / "m.mcap"
    slowest = 0.0
    opened = 0

    for _ in range(MUTATIONS):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.choice((1, 1, 2, 8))):
            where = chance.randrange(len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[where] = chance.randrange(256)
            elif kind == 1:
                data[where : where + 8] = struct.pack(
                    "<Q", chance.choice((0, 2**63, 2**64 - 1, 2**31))
                )
            elif kind == 2:
                del data[where : where + chance.randrange(1, 200)]
            else:
                data[where:where] = data[where // 2 : where // 2 + chance.randrange(1, 200)]
            if len(data) < 2:
                break
        path.write_bytes(data)
        began = time.process_time()
        opened += refusal(path) == ""
        slowest = max(slowest, time.process_time() - began)

    assert slowest < 1.0
    assert opened > MUTATIONS // 4


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty; nothing was recorded"),
        (b"\x89MC", "ends within its header"),
        (MAGIC, "ends within its header"),
        (b'{"ts":"2026"}\n' * 100, "is not MCAP"),
        (MAGIC + b"\x01" + b"\xff" * 8, "its header is damaged"),
        (MAGIC + b"\x02" + struct.pack("<Q", 8) + bytes(8), "its header is damaged"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    """An invalid file is refused with its name and the reason."""
    path = tmp_path / "a.mcap"
    path.write_bytes(data)

    with pytest.raises(ConfigError, match=f"{path}: .*{why}"):
        Recording.open([path])


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """The system's own reason is said."""
    with pytest.raises(ConfigError, match=r"none\.mcap: cannot be read: No such file"):
        Recording.open([tmp_path / "none.mcap"])
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Recording.open([tmp_path])
    with pytest.raises(ConfigError, match="no recording was named"):
        Recording.open([])


def test_another_profile_and_a_newer_schema_are_refused(tmp_path: Path) -> None:
    """MCAP files of other programs and of future ones are named as such."""
    for name, profile, schema in (("ros", "ros2", "1.0"), ("new", PROFILE, "2.0")):
        with (tmp_path / f"{name}.mcap").open("wb") as stream:
            writer = Writer(stream)
            writer.start(profile, "x")
            writer.add_metadata(PROFILE, {"schema": schema})
            writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types

    with pytest.raises(ConfigError, match=r"ros\.mcap: is MCAP of profile 'ros2'"):
        Recording.open([tmp_path / "ros.mcap"])
    with pytest.raises(ConfigError, match=r"new\.mcap: the recording has schema 2\.0"):
        Recording.open([tmp_path / "new.mcap"])


def test_a_recording_without_messages_is_refused(tmp_path: Path) -> None:
    """Finished or not, there is nothing to play."""
    write(tmp_path / "a.mcap", [])
    unfinished(tmp_path / "b.mcap")

    with pytest.raises(ConfigError, match=r"a\.mcap: nothing was recorded"):
        Recording.open([tmp_path / "a.mcap"])
    with pytest.raises(ConfigError, match=r"b\.mcap: nothing was recorded: was not finished"):
        Recording.open([tmp_path / "b.mcap"])


def test_a_limit_bounds_chunks(tmp_path: Path) -> None:
    """More chunks than a recording may have are not read."""
    write(tmp_path / "a.mcap", ticks(100))

    recording = Recording.open([tmp_path / "a.mcap"], RecordLimits(chunks=5))
    assert "more chunks" in recording.recoveries[0].why
    assert len(list(recording.all())) < 30
    recording.close()


def test_the_index_may_not_lie_about_counts(tmp_path: Path) -> None:
    """`verify` reads the messages and compares them with the statistics."""
    path = tmp_path / "a.mcap"
    write(path, ticks(64))
    assert read(path) == ticks(64)
    recording = Recording.open([path])
    assert recording.verify() == []
    recording.parts[0]._known_counts = {2: 63}

    assert any(
        "the index counts 63 messages of telemetry, there are 64" in each
        for each in recording.verify()
    )
    recording.close()
