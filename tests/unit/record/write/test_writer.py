"""Files of a recording's writer: chunks, keyframes, splits and limits."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import signal
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from support.record.files import ABOUT, NS_PER_S, START_NS, at, read, state, ticks, value, write

from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.record.format.keyframes import AT_LATEST_NS, KeyframeTracker, is_due
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.part import PartFile
from trnfleet.record.write.writer import CHUNK_BYTES, RecordingError, RecordingWriter
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope, MessageProperties, Stored
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path


def chunks(path: Path) -> list[tuple[int, int, int]]:
    """Return start, end and size of the chunks with messages."""
    recording = Recording.open([path])
    (part,) = recording.parts
    keyframe = next(number for number, name in part.channels.items() if name == "keyframe")
    found = [(e.start_ns, e.end_ns, e.size) for e in part.entries if e.channels != (keyframe,)]
    recording.close()
    return found


@pytest.fixture
def writer(tmp_path: Path) -> RecordingWriter:
    return RecordingWriter(tmp_path / "a.mcap", ABOUT)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """All messages come back in order with their times, and the file has its origin."""
    messages = ticks(500)
    messages.insert(7, state(TopicClass.JOB, "j1", '{"id":"j1"}', 0.65))
    messages.insert(9, Stored(at(0.75), Envelope("some/other/topic", b"\x00\xff", 2, False, None)))

    writer = write(tmp_path / "a.mcap", messages)

    assert read(tmp_path / "a.mcap") == messages
    assert writer.messages == len(messages)
    assert writer.bytes_written == (tmp_path / "a.mcap").stat().st_size
    recording = Recording.open([tmp_path / "a.mcap"])
    assert recording.abouts == [ABOUT]
    assert recording.is_finished
    assert recording.verify() == []
    assert {name: n for name, n in recording.counts.items() if name != "keyframe"} == {
        "telemetry": 500,
        "job": 1,
        "other": 1,
    }
    recording.close()


def test_the_same_calls_make_the_same_bytes(tmp_path: Path) -> None:
    """No clock, no chance."""
    first = write(tmp_path / "a.mcap", ticks(800)).parts[0].read_bytes()

    assert write(tmp_path / "b.mcap", ticks(800)).parts[0].read_bytes() == first


def test_chunks_are_cut_by_time_and_by_size(tmp_path: Path) -> None:
    """A chunk spans less than 500 ms and holds about 1 MiB at most."""
    write(tmp_path / "slow.mcap", ticks(200, 0.06))
    write(tmp_path / "fast.mcap", ticks(2_000, 0.0001, size=4_000))

    assert all(end - start < NS_PER_S // 2 for start, end, _ in chunks(tmp_path / "slow.mcap"))
    sizes = [size for _, _, size in chunks(tmp_path / "fast.mcap")]
    assert len(sizes) == 8
    assert all(CHUNK_BYTES <= size < CHUNK_BYTES + 10_000 for size in sizes[:-1])


def test_a_file_keeps_little_of_each_chunk(tmp_path: Path) -> None:
    """A day of 170,000 chunks has all of them in its index, with their times."""
    part = PartFile(tmp_path / "a.mcap", ABOUT)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for second in range(1, 2_001):
            part.add(1, at(second), at(second), b"x")
            part.cut()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    part.finish()

    assert (after - before) / 2_000 < 250
    reader = PartReader(tmp_path / "a.mcap")
    assert (reader.is_finished, reader.counts()) == (True, {"node": 2_000})
    assert [(each.start_ns, each.end_ns) for each in reader.entries] == [
        (at(n), at(n)) for n in range(1, 2_001)
    ]
    reader.close()


def test_a_chunk_ends_between_two_times(tmp_path: Path) -> None:
    """Messages of one time are in one chunk: reading up to a time is complete."""
    messages = [value(number, number // 300, 4_000) for number in range(1_500)]

    write(tmp_path / "a.mcap", messages)

    found = chunks(tmp_path / "a.mcap")
    assert [(start, end) for start, end, _ in found] == [
        (at(second), at(second)) for second in range(5)
    ]
    assert read(tmp_path / "a.mcap") == messages


def test_a_chunk_of_one_time_is_bounded(tmp_path: Path) -> None:
    """Many messages of one time are cut at last; all of them are read."""
    messages = [value(number, 0, 4_000) for number in range(3_000)]

    write(tmp_path / "a.mcap", messages)

    sizes = [size for _, _, size in chunks(tmp_path / "a.mcap")]
    assert len(sizes) == 3
    assert max(sizes) < 4 * CHUNK_BYTES + 10_000
    assert read(tmp_path / "a.mcap") == messages


def test_a_part_has_at_least_as_much_data_as_the_keyframe_it_begins_with(tmp_path: Path) -> None:
    """Splits smaller than the state do not make a file of every message."""
    heavy = [
        Stored(at(0), Envelope(f"trnfleet/v1/demo/job/j{n}", random.Random(n).randbytes(20_000)))  # noqa: S311
        for n in range(20)
    ]

    parts = write(
        tmp_path / "a.mcap", [*heavy, *ticks(400, size=2_000)[1:]], split_bytes=50_000
    ).parts

    assert 2 <= len(parts) <= 4
    assert len(read(*parts)) == 419


def test_time_that_falls_is_held(tmp_path: Path) -> None:
    """A recording is in order even if its input is not."""
    write(tmp_path / "a.mcap", [value(0, 5), value(1, 3), value(2, 6)])

    assert [stored.time_ns for stored in read(tmp_path / "a.mcap")] == [at(5), at(5), at(6)]


def test_what_follows_a_flush_is_later(writer: RecordingWriter, tmp_path: Path) -> None:
    """A reader at the end of the file misses no later message."""
    for number in range(3):
        writer.write(at(1), value(number, 1).envelope)
        writer.flush()
    writer.close()

    assert [stored.time_ns for stored in read(tmp_path / "a.mcap")] == [at(1), at(1) + 1, at(1) + 2]


def test_what_is_cut_is_in_the_file_at_once(writer: RecordingWriter, tmp_path: Path) -> None:
    """Nothing waits in buffers of the process."""
    for time_ns, envelope in ticks(20):
        writer.write(time_ns, envelope)
    writer.flush()

    recording = Recording.open([tmp_path / "a.mcap"])

    assert list(recording.all()) == ticks(20)
    assert not recording.is_finished
    recording.close()
    writer.close()


def test_a_file_that_exists_is_never_touched(tmp_path: Path) -> None:
    """Existing files, earlier parts and missing folders are refused by name."""
    (tmp_path / "a.mcap").write_bytes(b"mine")
    (tmp_path / "night-0007.mcap").write_bytes(b"mine")

    with pytest.raises(ConfigError, match=r"a\.mcap: exists already"):
        RecordingWriter(tmp_path / "a.mcap", ABOUT)
    with pytest.raises(ConfigError, match=r"night-0007\.mcap: exists already"):
        RecordingWriter(tmp_path / "night.mcap", ABOUT, split_bytes=2**20)
    with pytest.raises(ConfigError, match=r"none.b\.mcap: cannot be made: No such file"):
        RecordingWriter(tmp_path / "none" / "b.mcap", ABOUT)
    assert (tmp_path / "a.mcap").read_bytes() == b"mine"


def test_splits_by_time_and_size_are_whole_recordings(tmp_path: Path) -> None:
    """Each part begins with a keyframe and is finished; together they are what was written."""
    messages = [state(TopicClass.NODE, "uc1", "{}", 0), *ticks(2_000, 0.01, size=2_000)[1:]]

    by_time = write(tmp_path / "time.mcap", messages, split_ns=7 * NS_PER_S // 2).parts
    by_size = write(tmp_path / "size.mcap", messages, split_bytes=20_000).parts

    assert [path.name for path in by_time] == [f"time-{number:04d}.mcap" for number in range(1, 7)]
    assert len(by_size) > 3
    assert all(path.stat().st_size < 40_000 for path in by_size)
    for parts in (by_time, by_size):
        assert read(*parts) == messages
        for number, path in enumerate(parts, 1):
            recording = Recording.open([path])
            assert recording.verify() == []
            assert recording.abouts[0].part == number
            keyframe = recording.keyframe(recording.start_ns - 1)
            assert keyframe is not None
            assert len(keyframe.state) == (0 if number == 1 else 9)
            recording.close()


def test_old_parts_are_deleted(tmp_path: Path) -> None:
    """With `keep` older parts are deleted.

    Others' files are not touched.
    """
    other = tmp_path / "night.mcap"
    other.write_bytes(b"mine")

    writer = write(
        tmp_path / "night.mcap", ticks(600, 0.1), split_ns=5 * NS_PER_S, keep_ns=20 * NS_PER_S
    )

    assert sorted(tmp_path.glob("night-*.mcap")) == writer.parts
    assert 4 <= len(writer.parts) <= 6
    kept = read(*writer.parts)
    assert kept[0].time_ns <= at(40)
    assert kept == ticks(600, 0.1)[-len(kept) :]
    assert other.read_bytes() == b"mine"


def keyframe_times(path: Path) -> list[float]:
    """Return the times of all keyframes, in seconds from the begin."""
    recording = Recording.open([path])
    found: list[float] = []
    moment = recording.end_ns
    while (keyframe := recording.keyframe(moment)) is not None:
        found.append((keyframe.time_ns - START_NS) / NS_PER_S)
        moment = keyframe.time_ns - 1
    recording.close()
    return found[::-1]


def test_keyframes_come_every_ten_seconds_where_they_cost_little(tmp_path: Path) -> None:
    """Plenty of data: every 10 s. Little data beside much state: every 60 s."""
    heavy = [state(TopicClass.JOB, f"j{number}", "x" * 10_000, 0) for number in range(20)]
    write(tmp_path / "much.mcap", ticks(5_900, 0.02))
    write(tmp_path / "little.mcap", [*heavy, *(value(n, 0.001 + n) for n in range(200))])

    assert keyframe_times(tmp_path / "much.mcap")[1:] == pytest.approx(
        [10 * n for n in range(1, 12)], abs=1
    )
    assert keyframe_times(tmp_path / "little.mcap")[1:] == pytest.approx([60, 120, 180], abs=3)
    assert is_due(10 * NS_PER_S, 1_000, 100)
    assert not is_due(10 * NS_PER_S, 999, 100)
    assert not is_due(10 * NS_PER_S - 1, 1_000, 100)
    assert is_due(60 * NS_PER_S, 0, 100)


def test_a_keyframe_holds_what_holds(writer: RecordingWriter, tmp_path: Path) -> None:
    """A keyframe has each retained or telemetry topic's newest message, by time.

    It has nothing else.
    """
    other = Envelope("weather", b"rain", 0, True, None)
    messages = [
        state(TopicClass.NODE, "uc1", "old", 0),
        state(TopicClass.JOB, "gone", "{}", 1),
        state(TopicClass.EVENT, "uc1", "event", 2),
        Stored(at(3), Envelope("news", b"x", 0, False, None)),
        Stored(at(3.5), other),
        state(TopicClass.NODE, "uc1", "new", 4),
        state(TopicClass.JOB, "gone", "", 5),
        state(TopicClass.COMMAND, "fleet", "{}", 5.5),
        *(
            value(number, 6 + place / 10)
            for place, number in enumerate((*range(8), 10, 9, 8, *range(11, 16)))
        ),
    ]
    for time_ns, envelope in [*messages, value(16, 70)]:
        writer.write(time_ns, envelope)
    writer.close()

    recording = Recording.open([tmp_path / "a.mcap"])
    keyframe = recording.keyframe(at(71))
    recording.close()

    assert keyframe is not None
    assert keyframe.has_values
    assert keyframe.time_ns == at(7.5)
    assert keyframe.state == [Stored(at(3.5), other), messages[5], *messages[-8:]]


def test_keyframes_are_not_played(tmp_path: Path) -> None:
    """Repeats are for seeking; reading gives every message once."""
    write(tmp_path / "a.mcap", ticks(1_000, 0.05))

    assert read(tmp_path / "a.mcap") == ticks(1_000, 0.05)
    assert len(keyframe_times(tmp_path / "a.mcap")) == 6


def test_telemetry_that_is_too_large_is_left_out_of_keyframes() -> None:
    """State stays; values go, and the tracker says so and forgets them."""
    tracker = KeyframeTracker(values_bytes=10_000)
    tracker.add("job", 1, Envelope("j", b"x"), b"job")
    for number in range(100):
        tracker.add("telemetry", number, Envelope(f"t{number}", b"x"), bytes(1_000))

    assert not tracker.has_values
    assert [repeat.data for repeat in tracker] == [b"job"]
    assert tracker.size_bytes < 200


def test_telemetry_that_nothing_describes_is_forgotten() -> None:
    """Undescribed telemetry is forgotten after a minute; a described host's values stay."""
    tracker = KeyframeTracker()
    begin = "trnfleet/v1/demo"
    for path in ("uc1/standalone/here", "uc1/standalone/gone"):
        tracker.add("node", 1, Envelope(f"{begin}/node/{path}", b"x", 1, retain=True), b"state")
        for topic in (f"{begin}/telemetry/{path}", f"{begin}/telemetry/{path}/chip01"):
            tracker.add("telemetry", 1, Envelope(topic, b"x"), b"value")
    gone = Envelope(f"{begin}/node/uc1/standalone/gone", b"", 1, retain=True)
    tracker.add("node", 2, gone, b"")
    tracker.forget(AT_LATEST_NS)
    assert len(tracker) == 5
    tracker.add(
        "telemetry", AT_LATEST_NS, Envelope(f"{begin}/telemetry/uc1/us-0001", b"x"), b"value"
    )
    tracker.forget(2 + AT_LATEST_NS)
    assert len(tracker) == 4
    size = tracker.size_bytes
    tracker.forget(2 * AT_LATEST_NS + 1)
    assert len(tracker) == 3
    assert tracker.size_bytes < size


def test_a_message_over_the_limit_is_refused_and_the_recording_goes_on(
    writer: RecordingWriter, tmp_path: Path
) -> None:
    """What nobody could read again is not written."""
    writer.write(*value(1, 0))
    with pytest.raises(TrnfleetError, match=r"message of 17\d+ bytes on 'big' is over the limit"):
        writer.write(at(1), Envelope("big", bytes(17 * 2**20)))
    writer.write(*value(2, 2))
    writer.close()

    assert read(tmp_path / "a.mcap") == [value(1, 0), value(2, 2)]


def fill_up(path: Path, room: int) -> tuple[RecordingWriter, RecordingError, int]:
    """Write until the file cannot grow, and return writer, error and message count."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = RecordingWriter(path, ABOUT)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    number = 0
    try:
        while True:
            stored = Stored(at(number / 100), Envelope("t", os.urandom(2_000)))
            try:
                writer.write(*stored)
            except RecordingError as error:
                return writer, error, number
            number += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


def test_a_full_disk_ends_the_recording_where_it_can_be_read(tmp_path: Path) -> None:
    """On a full disk all but the last half second is there.

    The error names file and reason, and further writes are refused.
    """
    writer, error, written = fill_up(tmp_path / "a.mcap", 1_000_000)

    assert str(error) == f"{tmp_path / 'a.mcap'}: the recording ends here: File too large"
    assert error.reason == "File too large"
    recording = Recording.open([tmp_path / "a.mcap"])
    assert (
        written - 102 <= sum(1 for _ in recording.all()) == writer.messages == written - writer.lost
    )
    assert recording.is_finished
    assert recording.damaged == 0
    recording.close()
    with pytest.raises(TrnfleetError, match="the recording ends here: File too large"):
        writer.write(*value(1, 1_000))
    writer.close()


def mixed(seed: int) -> list[Stored]:
    """Return messages of all kinds, many of one time, most of them telemetry.

    Some are too large.
    """
    rng = random.Random(seed)  # noqa: S311  not for secrets
    fleets = ["demo", "telemetry", *(f"f{number}" for number in range(9))]
    frames = [
        b"\xa3bts\x1b" + each + rng.randbytes(rng.choice((3, 200, 2_000)))
        for each in (bytes(8), b"\xff" * 8, b"\x18\x80" + bytes(6), b"\x18")
    ]
    samples = [
        b'{"ts":"2026-01-05T00:00:01Z"}',
        b'{"ts":"soon"}',
        b'{"ts":"bts\x1b01234567"}',
        b"",
        b"no telemetry",
    ]
    messages = []
    for number in range(1_500):
        fleet = rng.choice(fleets) if number % 50 == 0 else "demo"
        path = rng.choice(("uc1/us-0001", "uc1/us-0002/i1", "", "x" * 300))
        is_frame = rng.random() < 0.8
        messages.append(
            Stored(
                at(number // 100 * 0.3),
                Envelope(
                    build_topic(
                        fleet,
                        rng.choices(
                            tuple(TopicClass),
                            [9 if each == "telemetry" else 0.1 for each in TopicClass],
                        )[0],
                        path,
                    ),
                    rng.choice(frames if is_frame else samples),
                    int(rng.random() < 0.02),
                    retain=rng.random() < 0.02,
                    content_type=rng.choice((CONTENT_TYPE_CBOR, None)),
                    shed=rng.choice((0, 4)),
                    properties=MessageProperties(expiry_s=9) if rng.random() < 0.02 else None,
                ),
            )
        )
    for number in (320, 330, 700):
        time_ns, envelope = messages[number]
        messages[number] = Stored(time_ns, envelope._replace(payload=bytes(17 * 2**20)))
    messages[-700:-700] = [value(number, 2.4, 4_000) for number in range(3_000)]
    return messages


@pytest.mark.parametrize("options", [{}, {"values_bytes": 4_000}, {"split_bytes": 2**20}])
def test_many_at_once_make_the_same_bytes(tmp_path: Path, options: dict[str, int]) -> None:
    """Messages of one time have the same bytes as single writes.

    Oversized ones are counted.
    """
    messages = mixed(3)
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    writers = [
        RecordingWriter(tmp_path / each / "a.mcap", ABOUT, **options)  # type: ignore[arg-type]  # numbers here
        for each in ("one", "many")
    ]
    one, many = writers
    for time_ns, envelope in messages:
        with contextlib.suppress(TrnfleetError):
            one.write(time_ns, envelope)
    for time_ns, of_time in itertools.groupby(messages, lambda stored: stored.time_ns):
        many.write_many(time_ns, [envelope for _, envelope in of_time])
    for writer in writers:
        writer.close()

    assert [part.read_bytes() for part in many.parts] == [part.read_bytes() for part in one.parts]
    assert (many.messages, many.left_out) == (one.messages, 3) == (len(messages) - 3, 3)


def test_many_at_once_end_with_the_disk(tmp_path: Path) -> None:
    """On a full disk each message is in the file or counted as lost.

    Further writes are refused with the reason.
    """
    writer, error, _ = fill_up(tmp_path / "a.mcap", 300_000)

    for batch in ([value(1, 90).envelope] * 3, [state(TopicClass.JOB, "j1", "{}", 91).envelope]):
        with pytest.raises(RecordingError, match=error.reason):
            writer.write_many(at(90), batch)
    assert writer.left_out == 0
