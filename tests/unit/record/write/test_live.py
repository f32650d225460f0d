"""The live buffer: bounded, read while it grows, saved, and deleted at the end."""

from __future__ import annotations

import itertools
import os
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.record.files import ABOUT, NS_PER_S, START_NS, read, write

from trnfleet.clock import ManualClock
from trnfleet.errors import ConfigError
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.record.write import live
from trnfleet.record.write.live import LiveBuffer
from trnfleet.record.write.orphaned_buffers import LOCK_NAME, FolderLock, delete_orphaned_buffers
from trnfleet.record.write.thinning import Thinning
from trnfleet.wire.ports import Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY_NS = 86_400 * NS_PER_S


def batch(first: int, count: int, size: int = 3_000) -> list[Envelope]:
    """Return numbered, incompressible telemetry at 10 Hz."""
    return [
        Envelope(
            f"trnfleet/v1/demo/telemetry/uc1/us-{n % 8:04d}",
            b"%08d" % n + os.urandom(size),
            received_s=100.0 + n / 10,
        )
        for n in range(first, first + count)
    ]


def numbers(found: Iterator[tuple[int, Envelope]]) -> list[int]:
    return [int(envelope.payload[:8]) for _, envelope in found]


def moment(number: float) -> int:
    return START_NS + round(number * NS_PER_S / 10)


@pytest.fixture
def buffer(tmp_path: Path) -> Iterator[LiveBuffer]:
    """A buffer of 8 MiB of disk, begun."""
    made = LiveBuffer(
        tmp_path / "past" / "demo-1",
        ABOUT,
        clock=ManualClock(START_NS, 100.0),
        memory_bytes=8 * 2**20,
        disk_bytes=8 * 2**20,
    )
    made.start()
    yield made
    made.close()


def fill(buffer: LiveBuffer, first: int, count: int) -> None:
    """Hand over, as fast as the thread takes it."""
    for begin in range(first, first + count, 100):
        buffer.take(batch(begin, min(100, first + count - begin)))
        assert buffer._thread.flush(5)


def test_it_is_read_while_it_grows(buffer: LiveBuffer) -> None:
    """Messages can be read half a second later.

    A keyframe has the state before.
    """
    assert (buffer.start_ns, buffer.end_ns, buffer.window_s) == (0, 0, 0)
    assert buffer.keyframe(moment(0)) is None
    assert list(buffer.read(0, moment(1_000))) == []
    fill(buffer, 0, 300)

    assert (buffer.start_ns, buffer.end_ns) == (moment(0), moment(299))
    assert buffer.window_s == pytest.approx(29.9)
    assert numbers(buffer.read(moment(99), moment(299))) == list(range(100, 300))
    keyframe = buffer.keyframe(moment(250))
    assert keyframe is not None
    assert sorted(int(each.envelope.payload[:8]) for each in keyframe.state) == list(
        range(
            (keyframe.time_ns - START_NS) * 10 // NS_PER_S - 7,
            (keyframe.time_ns - START_NS) * 10 // NS_PER_S + 1,
        )
    )
    fill(buffer, 300, 100)
    assert numbers(buffer.read(moment(299), moment(999))) == list(range(300, 400))


async def test_a_silence_is_kept_too(tmp_path: Path) -> None:
    """Without messages the end advances.

    Later ones are read after the silence.
    """
    clock = ManualClock(START_NS, 100.0)
    buffer = LiveBuffer(tmp_path / "past" / "demo-1", ABOUT, clock=clock)
    buffer.start()
    await clock.advance(5.0)
    assert buffer.end_ns == 0
    fill(buffer, 0, 51)
    assert buffer.end_ns == moment(50)
    await clock.advance(60.0)
    assert buffer.end_ns == START_NS + 64 * NS_PER_S
    assert buffer.window_s == 64.0
    assert numbers(buffer.read(moment(40), buffer.end_ns)) == list(range(41, 51))
    buffer.take(batch(651, 1))
    before_ns = buffer.end_ns
    assert buffer._thread.flush(5)
    assert numbers(buffer.read(before_ns, moment(651))) == [651]
    buffer._thread.fail("No space left on device")
    await clock.advance(60.0)
    assert buffer.end_ns == moment(651)
    buffer.close()


def test_more_than_it_can_follow_is_thinned_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load part of each topic's messages is stored, with left-out counts.

    State is complete.
    """
    monkeypatch.setattr(live, "Thinning", partial(Thinning, most_per_s=5))
    buffer = LiveBuffer(tmp_path / "past" / "demo-1", ABOUT, clock=ManualClock(START_NS, 100.0))
    buffer.start()
    came = batch(0, 400, 20)
    state = Envelope("trnfleet/v1/demo/node/uc1", b"00000000", 1, retain=True, received_s=100.0)
    for begin in range(0, 400, 10):
        buffer.take(
            [*came[begin : begin + 10], state._replace(received_s=came[begin + 9].received_s)]
        )
    assert buffer._thread.flush(5)
    kept = [each.envelope for each in buffer.read(0, moment(1_000))]
    telemetry = [each for each in kept if not each.retain]
    assert len(kept) - len(telemetry) == 40
    assert (buffer.one_in(moment(0)), buffer.one_in(moment(399))) == (1, 3)
    assert 100 < len(telemetry) < 250
    for topic in {each.topic for each in came}:
        places = [int(each.payload[:8]) // 8 for each in telemetry if each.topic == topic]
        gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(places)]
        sheds = [each.shed for each in telemetry if each.topic == topic][1:]
        assert all(gap <= shed for gap, shed in zip(gaps, sheds, strict=True))
        assert sum(sheds) - sum(gaps) < 3
    buffer.close()


def test_reading_asks_for_the_present(buffer: LiveBuffer) -> None:
    """Reading beyond the end makes the thread write.

    The next call finds the messages.
    """
    buffer.take(batch(0, 2))
    assert not list(buffer.read(0, moment(1_000)))
    thread = buffer._thread
    with thread._wake:
        assert thread._wake.wait_for(lambda: thread._flushed == thread._taken, 5)
    assert numbers(buffer.read(0, moment(1_000))) == [0, 1]
    assert buffer.end_ns == moment(1)


def test_reading_piece_by_piece_up_to_the_end_misses_nothing(buffer: LiveBuffer) -> None:
    """A player following a growing buffer's end gets every message once."""
    looks = threading.Semaphore(0)

    def feed() -> None:
        for begin in range(0, 2_000, 20):
            buffer.take(batch(begin, 20, 200))
            looks.acquire()

    feeding = threading.Thread(target=feed)
    feeding.start()
    seen: list[int] = []
    position = 0
    while len(seen) < 2_000:
        until = min(buffer.end_ns, position + 20 * NS_PER_S) if position else buffer.end_ns
        list(buffer.read(until, until + 1))
        seen += numbers(buffer.read(position, until))
        position = until
        looks.release()
    feeding.join()

    assert seen == list(range(2_000))


def test_disk_and_window_are_bounded(tmp_path: Path, buffer: LiveBuffer) -> None:
    """The oldest is deleted; the rest is whole and begins with a keyframe.

    The disk share is never exceeded.
    """
    for begin in range(0, 6_000, 500):
        fill(buffer, begin, 500)
        used = sum(path.stat().st_size for path in (tmp_path / "past" / "demo-1").iterdir())
        assert used <= 8 * 2**20

    kept = numbers(buffer.read(0, buffer.end_ns))
    assert kept == list(range(kept[0], 6_000))
    assert 1_500 < len(kept) < 3_000
    assert buffer.status.lost == 0
    assert (buffer.start_ns, buffer.end_ns) == (moment(kept[0]), moment(5_999))
    keyframe = buffer.keyframe(buffer.start_ns)
    assert keyframe is not None
    assert len(keyframe.state) == 8
    assert buffer.keyframe(moment(10)) is None


def test_who_reads_what_is_deleted_reads_to_the_end(buffer: LiveBuffer) -> None:
    """A read goes on over a part deleted meanwhile."""
    fill(buffer, 0, 1_000)
    reading = buffer.read(0, moment(999))
    first = next(reading)
    fill(buffer, 1_000, 4_000)

    assert buffer.start_ns > moment(999)
    assert [int(first.envelope.payload[:8]), *numbers(reading)] == list(range(1_000))


def before(path: Path, first: int, count: int) -> PartReader:
    """Return a recording of numbered telemetry before the buffer's."""
    write(path, [Stored(moment(n), batch(n, 1)[0]) for n in range(first, first + count)])
    part = PartReader(path)
    path.unlink()
    return part


def test_what_was_there_before_is_read_and_saved_with_it(
    tmp_path: Path, buffer: LiveBuffer
) -> None:
    """An earlier recording comes before the buffer, with its messages and state."""
    fill(buffer, 0, 30)
    assert buffer.backfill(before(tmp_path / "before.mcap", -40, 40))
    assert buffer.start_ns == moment(-40)
    assert buffer.window_s == pytest.approx(6.9)
    fill(buffer, 30, 30)
    assert numbers(buffer.read(moment(-3), moment(2))) == [-2, -1, 0, 1, 2]
    assert numbers(buffer.read(moment(-41), moment(59))) == list(range(-40, 60))
    keyframe = buffer.keyframe(moment(-10))
    assert keyframe is not None
    assert moment(-41) <= keyframe.time_ns <= moment(-10)
    assert buffer.save(tmp_path / "saved.mcap") == 100
    assert numbers(iter(read(tmp_path / "saved.mcap"))) == list(range(-40, 60))
    buffer.close()
    assert list(tmp_path.iterdir()) == [tmp_path / "past", tmp_path / "saved.mcap"]


def test_what_was_there_before_is_the_first_that_goes(tmp_path: Path, buffer: LiveBuffer) -> None:
    """An earlier recording is dropped first, or refused if there is no room left."""
    part = before(tmp_path / "before.mcap", -700, 700)
    assert buffer.backfill(part)
    assert 2 * 2**20 < part.size_bytes < 3 * 2**20
    fill(buffer, 0, 1_000)
    assert buffer.start_ns == moment(-700)
    read_on = buffer.read(moment(-701), moment(0))
    assert numbers(itertools.islice(read_on, 1)) == [-700]
    fill(buffer, 1_000, 1_000)
    assert buffer.status.file_bytes < 8 * 2**20
    assert buffer.start_ns == moment(0)
    assert numbers(read_on)[-1] == 0
    assert not buffer.backfill(before(tmp_path / "again.mcap", -700, 700))


def test_what_was_there_before_may_end_after_the_buffer_begins(
    tmp_path: Path, buffer: LiveBuffer
) -> None:
    """An overlapping chunk of it hides nothing from reading piece by piece.

    It begins within the buffer's first one.
    """
    fill(buffer, 0, 4)
    assert buffer.backfill(before(tmp_path / "before.mcap", -9, 12))
    pieces = [numbers(buffer.read(moment(n - 1), moment(n))) for n in range(-9, 4)]
    assert pieces == [*([n] for n in range(-9, 0)), [0, 0], [1, 1], [2, 2], [3]]
    keyframe = buffer.keyframe(moment(0))
    assert keyframe is not None
    assert keyframe.time_ns <= moment(0)


def test_what_was_there_before_comes_while_the_disk_fills(
    tmp_path: Path, buffer: LiveBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes waits until it is there, then drops it like any other."""
    timeline, thread = buffer._timeline, buffer._thread
    prepend = timeline.prepend

    def prepend_slowly(part: PartReader) -> None:
        buffer.take(batch(1_400, 600))
        thread.flush(0.5)
        prepend(part)

    monkeypatch.setattr(timeline, "prepend", prepend_slowly)
    fill(buffer, 0, 1_400)
    assert buffer.backfill(before(tmp_path / "before.mcap", -700, 700))
    assert thread.flush(5)
    assert buffer.start_ns == moment(0)
    fill(buffer, 2_000, 2_000)
    kept = numbers(buffer.read(0, moment(4_000)))
    assert kept == list(range(kept[0], 4_000))


def test_it_can_be_saved_as_a_recording(tmp_path: Path, buffer: LiveBuffer) -> None:
    """The buffer is saved as one finished, sound file while recording goes on."""
    fill(buffer, 0, 4_000)
    kept = list(buffer.read(0, buffer.end_ns))
    buffer.take(batch(4_000, 10))

    saved = buffer.save(tmp_path / "saved.mcap")

    assert saved == len(kept) + 10
    recording = Recording.open([tmp_path / "saved.mcap"])
    assert list(recording.all())[: len(kept)] == kept
    assert recording.is_finished
    assert recording.verify() == []
    assert recording.counts["telemetry"] == saved
    keyframe = recording.keyframe(recording.start_ns)
    assert keyframe is not None
    assert len(keyframe.state) == 8
    recording.close()
    with pytest.raises(ConfigError, match=r"saved\.mcap: exists already"):
        buffer.save(tmp_path / "saved.mcap")


def test_there_may_be_nothing_to_save(tmp_path: Path, buffer: LiveBuffer) -> None:
    """Then no file is made."""
    with pytest.raises(ConfigError, match="nothing to save"):
        buffer.save(tmp_path / "saved.mcap")
    assert not (tmp_path / "saved.mcap").exists()


@pytest.mark.parametrize("keep", [False, True])
def test_it_is_gone_at_the_end_unless_it_is_to_stay(
    tmp_path: Path, buffer: LiveBuffer, keep: bool
) -> None:
    """Folder and all; or finished parts."""
    fill(buffer, 0, 600)
    buffer.close(keep=keep)
    buffer.close(keep=keep)

    parts = sorted((tmp_path / "past").glob("demo-1/*.mcap"))
    assert bool(parts) == keep == (tmp_path / "past" / "demo-1").exists()
    if keep:
        assert len(read(*parts)) == 600


def test_a_folder_that_cannot_be_made_stops_nobody(tmp_path: Path) -> None:
    """The status says why; taking, reading and closing go on."""
    (tmp_path / "file").write_bytes(b"")
    buffer = LiveBuffer(tmp_path / "file" / "x", ABOUT, clock=ManualClock(START_NS, 100.0))
    buffer.take(batch(0, 5))
    buffer.start()
    buffer.take(batch(5, 5))

    assert buffer.status.failed == "Not a directory"
    assert buffer.status.lost == 10
    assert list(buffer.read(0, moment(100))) == []
    assert buffer.keyframe(moment(100)) is None
    buffer.close()


def leave(parent: Path, name: str, written_ns: int) -> Path:
    """Make a folder as a crash leaves it."""
    folder = parent / name
    folder.mkdir(parents=True)
    for file in (LOCK_NAME, "live-0001.mcap"):
        (folder / file).write_bytes(b"")
        os.utime(folder / file, ns=(written_ns, written_ns))
    return folder


def test_leftovers_of_crashes_are_deleted(tmp_path: Path) -> None:
    """All but the newest, and that one after a day; live processes keep their folders."""
    old = leave(tmp_path, "demo-1", START_NS)
    newer = leave(tmp_path, "demo-2", START_NS + NS_PER_S)
    alive = leave(tmp_path, "demo-3", START_NS)
    lock = FolderLock(alive)
    lock.take()
    foreign = leave(tmp_path, "mine", START_NS)
    (foreign / "diary.txt").write_bytes(b"")
    (tmp_path / "empty").mkdir()

    assert delete_orphaned_buffers(tmp_path, START_NS + DAY_NS) == 1
    assert not old.exists()
    assert newer.exists()
    assert delete_orphaned_buffers(tmp_path, START_NS + DAY_NS + NS_PER_S) == 0
    assert delete_orphaned_buffers(tmp_path, START_NS + DAY_NS + NS_PER_S + 1) == 1
    assert not newer.exists()
    assert alive.exists()
    assert foreign.exists()
    lock.release()
    assert delete_orphaned_buffers(tmp_path / "none", START_NS) == 0


def test_a_folder_belongs_to_one_buffer(tmp_path: Path, buffer: LiveBuffer) -> None:
    """A second one does not write into it."""
    second = LiveBuffer(tmp_path / "past" / "demo-1", ABOUT, clock=ManualClock(START_NS, 100.0))
    second.start()

    assert second.status.failed
    second.close()
    fill(buffer, 0, 10)
    assert numbers(buffer.read(0, buffer.end_ns)) == list(range(10))
