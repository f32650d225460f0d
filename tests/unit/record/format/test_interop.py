"""The `mcap` package's own reader reads our files, and we read what its writer makes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import cbor2
import pytest
from mcap.reader import NonSeekingReader, make_reader
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType, IndexType, Writer
from support.record.files import ABOUT, at, read, state, ticks, value, write

from trnfleet.record.format.envelopes import KeyframeBound, pack, pack_bound, pack_repeat, unpack
from trnfleet.record.format.metadata import PROFILE
from trnfleet.record.read.recording import Recording
from trnfleet.wire.ports import Stored
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MESSAGES = [
    state(TopicClass.JOB, "j1", "{}", 0),
    *(value(number, 0.1 + number / 20) for number in range(900)),
]


def test_the_mcap_packages_reader_reads_ours(tmp_path: Path) -> None:
    """By index and as a stream, with all checksums: the same messages, metadata and statistics."""
    path = tmp_path / "a.mcap"
    write(path, MESSAGES)

    with path.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        header = reader.get_header()
        summary = reader.get_summary()
        found = [(channel.topic, message) for _, channel, message in reader.iter_messages()]
        metadata = list(reader.iter_metadata())
        late = list(reader.iter_messages(topics=["telemetry"], starting_at=at(40)))
    streamed = [
        m for _, _, m in NonSeekingReader(io.BytesIO(path.read_bytes()), True).iter_messages()
    ]
    records = list(StreamReader(io.BytesIO(path.read_bytes()), validate_crcs=True).records)

    assert (header.profile, header.library) == ("trnfleet", "trnfleet")
    played = [Stored(m.log_time, unpack(m.data)) for topic, m in found if topic != "keyframe"]
    assert played == MESSAGES
    assert len(streamed) == len(found)
    assert {type(record).__name__ for record in records} >= {
        "Message",
        "ChunkIndex",
        "Statistics",
        "Footer",
    }
    assert [(each.name, each.metadata) for each in metadata] == [("trnfleet", ABOUT.to_metadata())]
    assert [message.log_time for _, _, message in late] == [
        s.time_ns for s in MESSAGES if s.time_ns >= at(40)
    ]
    assert summary is not None
    assert summary.statistics is not None
    assert summary.statistics.message_count == len(found)
    assert all(channel.message_encoding == "cbor" for channel in summary.channels.values())
    assert [m.sequence for topic, m in found if topic == "telemetry"] == list(range(900))


def foreign(
    path: Path, messages: Sequence[Stored], *, keyframe: bool = False, **options: Any
) -> None:
    """Write a file by the mcap package's writer, with our channels."""
    with path.open("wb") as stream:
        writer = Writer(stream, **options)
        writer.start(PROFILE, "another program")
        writer.add_metadata(PROFILE, ABOUT.to_metadata())
        channels = {
            name: writer.register_channel(name, "cbor", 0)
            for name in ("keyframe", "job", "telemetry")
        }
        for number, (time_ns, envelope) in enumerate(messages):
            if keyframe and number == len(messages) // 2:
                former = messages[number - 1].time_ns
                for data in (
                    pack_bound(KeyframeBound(1, True, end=False)),
                    pack_repeat(pack(messages[0].envelope), messages[0].time_ns),
                    pack_bound(KeyframeBound(1, True, end=True)),
                ):
                    writer.add_message(channels["keyframe"], former, data, former)
            channel = channels["job" if "/job/" in envelope.topic else "telemetry"]
            writer.add_message(channel, time_ns, pack(envelope), time_ns)
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": CompressionType.LZ4},
        {"compression": CompressionType.NONE},
        {"use_chunking": False},
        {"chunk_size": 2_000},
        {"chunk_size": 2_000, "index_types": IndexType.NONE},
        {"chunk_size": 2_000, "index_types": IndexType.CHUNK},
        {"chunk_size": 2_000, "index_types": IndexType.MESSAGE},
        {"use_statistics": False, "use_summary_offsets": False},
        {"repeat_channels": False, "chunk_size": 2_000},
        {"enable_crcs": False},
        {"enable_data_crcs": True},
    ],
)
def test_files_of_the_mcap_packages_writer_are_read(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """However they are chunked, compressed and indexed: all messages, counts and keyframes."""
    path = tmp_path / "a.mcap"
    foreign(path, MESSAGES, keyframe=True, **options)

    recording = Recording.open([path])

    assert list(recording.all()) == MESSAGES
    assert recording.abouts == [ABOUT]
    assert recording.counts == {"telemetry": 900, "job": 1, "keyframe": 3}
    keyframe = recording.keyframe(at(40))
    assert keyframe is not None
    assert keyframe.time_ns == MESSAGES[len(MESSAGES) // 2 - 1].time_ns
    assert keyframe.state == [MESSAGES[0]]
    assert recording.keyframe(at(1)) is None
    assert list(recording.read(at(20), at(21))) == [
        s for s in MESSAGES if at(20) < s.time_ns <= at(21)
    ]
    recording.close()


@pytest.mark.parametrize("size", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("options", [{}, {"use_chunking": False}, {"index_types": IndexType.NONE}])
def test_unfinished_files_of_the_mcap_packages_writer_are_read(
    tmp_path: Path, options: dict[str, Any], size: float
) -> None:
    """What is whole of them is played."""
    path = tmp_path / "a.mcap"
    foreign(path, MESSAGES, chunk_size=2_000, **options)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * size)])

    found = read(path)

    assert 50 < len(found) < len(MESSAGES)
    assert found == MESSAGES[: len(found)]


@pytest.mark.parametrize("options", [{}, {"use_chunking": False}])
def test_messages_out_of_order_are_put_in_order(tmp_path: Path, options: dict[str, Any]) -> None:
    """Within a chunk and across chunks."""
    path = tmp_path / "a.mcap"
    shuffled = [*ticks(400)[::2], *ticks(400)[1::2]]
    foreign(path, shuffled[::-1], chunk_size=20_000, **options)

    assert read(path) == ticks(400)


def test_more_overlap_than_is_read_at_once_keeps_times_from_falling(tmp_path: Path) -> None:
    """With too much overlap every message comes, and times never fall."""
    path = tmp_path / "a.mcap"
    foreign(
        path, [each for start in range(40) for each in ticks(4_000)[start::40]], chunk_size=2_000
    )

    found = read(path)

    assert sorted(each.envelope.payload for each in found) == [
        each.envelope.payload for each in ticks(4_000)
    ]
    times = [each.time_ns for each in found]
    assert times == sorted(times)


def test_a_keyframe_that_lacks_a_message_is_not_used(tmp_path: Path) -> None:
    """Its bounds say how many there are."""
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start(PROFILE, "x")
        repeats, values = (
            writer.register_channel(name, "cbor", 0) for name in ("keyframe", "telemetry")
        )
        for end in (False, True):
            writer.add_message(repeats, at(0), pack_bound(KeyframeBound(1, True, end=end)), at(0))
        writer.add_message(values, at(1), pack(value(1, 1).envelope), at(1))
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    recording = Recording.open([path])

    assert recording.keyframe(at(2)) is None
    assert list(recording.all()) == [value(1, 1)]
    assert any("a keyframe should have 1 messages and has 0" in each for each in recording.verify())
    recording.close()


def test_messages_that_are_no_envelopes_are_left_out(tmp_path: Path) -> None:
    """Each is counted; the ones beside it are played."""
    path = tmp_path / "a.mcap"
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start(PROFILE, "x")
        channel = writer.register_channel("telemetry", "cbor", 0)
        for number, data in enumerate([pack(value(0, 0).envelope), b"{}", cbor2.dumps([1]), b""]):
            writer.add_message(channel, at(number), data, at(number))
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    recording = Recording.open([path])

    assert [each.envelope for each in recording.all()] == [value(0, 0).envelope]
    assert recording.unread == 3
    assert len(recording.verify()) == 4
    recording.close()
