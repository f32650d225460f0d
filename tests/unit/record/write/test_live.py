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
from trnfleet.record.write.live import (
    LESS_AFTER_S,
    MOST_LEFT_OUT,
    RATE_OVER_S,
    LiveBuffer,
    Thinning,
)
from trnfleet.record.write.orphaned_buffers import LOCK_NAME, FolderLock, delete_orphaned_buffers
from trnfleet.wire.limits import Limits
from trnfleet.wire.ports import Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


TOPICS = [f"t/{number}" for number in range(40)]


class Fed:
    """A fleet with one message a second per topic, thinned."""

    def __init__(self, most_per_s: int) -> None:
        self.thinning = Thinning(lambda topic: topic.startswith("t/"), most_per_s)
        self.now_s = 100.0
        self.gives_way = False

    def second(self, topics: int = len(TOPICS), filled: float = 0.0) -> list[Envelope]:
        """Return the stored messages of a second, in batches of ten."""
        kept: list[Envelope] = []
        for begin in range(0, topics, 10):
            batch = [
                Envelope(topic, b"%d" % self.now_s, received_s=self.now_s + begin / 100)
                for topic in TOPICS[begin:][:10]
            ]
            kept += self.thinning.keep(
                batch,
                filled,
                lambda at_s: START_NS + round(at_s * NS_PER_S),
                gives_way=self.gives_way,
            )
        self.now_s += 1.0
        return kept

    def seconds(
        self, count: float, topics: int = len(TOPICS), filled: float = 0.0
    ) -> list[Envelope]:
        """Return what is kept of some seconds."""
        return [each for _ in range(int(count)) for each in self.second(topics, filled)]


def test_all_is_kept_of_what_can_be_followed() -> None:
    """At a low rate all messages are stored, and shed counts stay as they are."""
    fed = Fed(most_per_s=45)
    assert len(fed.seconds(60)) == 60 * len(TOPICS)
    assert fed.thinning.one_in == 1


def test_of_more_a_part_of_each_topic_is_kept_and_says_what_is_missing() -> None:
    """All topics are thinned alike, in different ticks, and every message is counted."""
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 1)
    assert fed.thinning.one_in == 3
    fed.seconds(3)
    seconds = [fed.second() for _ in range(30)]
    assert all(0 < len(kept) < len(TOPICS) for kept in seconds)
    for topic in TOPICS:
        of_topic = [each for kept in seconds for each in kept if each.topic == topic]
        times = [int(each.payload) for each in of_topic]
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == [3] * 9
        assert {each.shed for each in of_topic} == {2}


def test_what_was_left_out_before_it_came_here_is_part_of_it() -> None:
    """Ticks shed by a late monitor count as left out in the next message."""
    fed = Fed(most_per_s=10)
    fed.seconds(RATE_OVER_S + 1)
    fed.now_s += RATE_OVER_S
    fed.thinning.keep([Envelope("other", b"", received_s=fed.now_s)], 0.0, int)
    assert fed.thinning.one_in == 4
    fed.thinning.keep([Envelope("t/x", b"0", shed=3, received_s=fed.now_s)], 0.0, int)
    kept: list[Envelope] = []
    for tick, shed in ((1, 0), (3, 1), (4, 0), (10, 5), (11, 0), (13, 1), (14, 0)):
        message = Envelope("t/x", b"%d" % tick, shed=shed, received_s=fed.now_s)
        kept += fed.thinning.keep([message], 0.0, int)
    assert [(int(each.payload), each.shed) for each in kept] == [(4, 3), (10, 5), (14, 3)]


def test_state_and_events_are_always_kept() -> None:
    """Retained messages, QoS 1 and other classes are never thinned, whatever the topic."""
    fed = Fed(most_per_s=1)
    fed.seconds(2 * RATE_OVER_S)
    state = [
        Envelope(TOPICS[0], b"state", retain=True, received_s=fed.now_s),
        Envelope(TOPICS[1], b"event", 1, received_s=fed.now_s),
        Envelope("other", b"other", received_s=fed.now_s),
    ] * 3
    kept = fed.thinning.keep(state, 0.0, int)
    assert [each.payload for each in kept] == [each.payload for each in state]


def test_a_queue_that_fills_up_thins_whatever_the_rate() -> None:
    """Thinning doubles each second with a half-full queue, up to a limit.

    It ends by halves afterwards.
    """
    fed = Fed(most_per_s=1_000)
    fed.seconds(3, filled=0.6)
    assert fed.thinning.one_in == 8
    fed.seconds(20, filled=0.6)
    assert fed.thinning.one_in == MOST_LEFT_OUT
    fed.seconds(LESS_AFTER_S + 3 * RATE_OVER_S)
    assert fed.thinning.one_in == MOST_LEFT_OUT // 2


def test_much_more_than_can_be_kept_is_thinned_within_two_seconds() -> None:
    """A large fleet is thinned before its rate is known; an allowed burst is not."""
    fed = Fed(most_per_s=5)
    fed.seconds(2)
    assert fed.thinning.one_in == 4
    fed.seconds(RATE_OVER_S)
    assert fed.thinning.one_in == 8
    fed = Fed(most_per_s=10)
    fed.second()
    assert fed.thinning.one_in == 1


def test_a_reader_that_sheds_much_keeps_less_of_the_past() -> None:
    """Thinning doubles each second while a reader sheds: values come before the past.

    Not at a low rate.
    """
    for most_per_s, expected in ((39, 16), (160, 1)):
        fed = Fed(most_per_s)
        for _ in range(4):
            fed.thinning.keep(
                [Envelope("t/0", b"", shed=9, received_s=fed.now_s)] * 40,
                0.0,
                lambda _at_s: START_NS,
            )
            fed.now_s += 1.0
        assert fed.thinning.one_in == expected, most_per_s


def test_it_gives_way_to_what_is_more_urgent() -> None:
    """While giving way, thinning is strongest for too much telemetry, and none otherwise.

    Afterwards it is as before at once.
    """
    fed = Fed(most_per_s=45)
    fed.gives_way = True
    assert len(fed.seconds(20)) == 20 * len(TOPICS), "all can be followed"
    fed = Fed(most_per_s=30)
    fed.seconds(RATE_OVER_S + 1)
    assert fed.thinning.one_in == 2
    fed.gives_way = True
    kept = fed.seconds(2 * MOST_LEFT_OUT)
    assert fed.thinning.one_in == MOST_LEFT_OUT
    assert len(kept) == pytest.approx(2 * len(TOPICS), abs=len(TOPICS) // 2)
    fed.gives_way = False
    fed.second()
    assert fed.thinning.one_in == 2
    ends = [START_NS + round(at_s * NS_PER_S) for at_s in (104.5, 106.5, fed.now_s)]
    assert [fed.thinning.at(each) for each in ends] == [2, MOST_LEFT_OUT, 2]


def test_what_was_left_out_comes_again_bit_by_bit() -> None:
    """Topics switch to less thinning over some seconds, and none is forgotten."""
    fed = Fed(most_per_s=30)
    fed.seconds(RATE_OVER_S + 1)
    fed.gives_way = True
    fed.seconds(MOST_LEFT_OUT // 2)
    fed.gives_way = False
    by_second = [fed.second() for _ in range(20)]
    assert max(map(len, by_second)) < len(TOPICS)
    assert {each.topic for second in by_second for each in second} == set(TOPICS)
    kept = [(each.topic, int(each.payload), each.shed) for second in by_second for each in second]
    for topic in TOPICS:
        times = [(at_s, shed) for each, at_s, shed in kept if each == topic]
        assert all(
            later - former == shed + 1 for (former, _), (later, shed) in itertools.pairwise(times)
        ), "every message that is not there is accounted for"


def test_it_ends_when_less_comes_for_long_and_says_what_was_left_out_last() -> None:
    """Thinning ends late and by halves, without oscillation.

    The time of each change is known afterwards.
    """
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 1)
    began_s = fed.now_s
    fed.seconds(LESS_AFTER_S / 2, topics=10)
    assert fed.thinning.one_in == 3
    kept = fed.seconds(2 * (LESS_AFTER_S + 2 * RATE_OVER_S), topics=10)
    assert fed.thinning.one_in == 1
    last = [each for each in kept if each.topic == TOPICS[0]]
    times = [int(each.payload) for each in last]
    gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(times)]
    assert gaps == [each.shed for each in last[1:]]
    at = [
        fed.thinning.at(START_NS + round(second * NS_PER_S)) for second in (99, began_s, fed.now_s)
    ]
    assert at == [1, 3, 1]


def test_batches_pass_unchanged_after_thinning() -> None:
    """Once every topic has been stored without thinning, none is looked up any more."""
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 3)
    fed.seconds(LESS_AFTER_S + 2 * RATE_OVER_S, topics=10)
    assert fed.thinning.one_in == 1
    assert len(fed.second()) == len(TOPICS)
    batch = [Envelope(TOPICS[39], b"", received_s=fed.now_s)]
    assert fed.thinning.keep(batch, 0.0, int) is batch


def test_no_more_topics_are_known_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invented topics are limited, and active topics' messages are all counted."""
    monkeypatch.setattr(live, "DEFAULT_LIMITS", Limits(topics=100))
    fed = Fed(most_per_s=15)
    fed.seconds(RATE_OVER_S + 3)
    kept: list[Envelope] = []
    for number in range(30):
        made_up = [Envelope(f"t/{number}/{each}", b"", received_s=fed.now_s) for each in range(50)]
        fed.thinning.keep(made_up, 0.0, int)
        kept += [each for each in fed.second() if each.topic == TOPICS[0]]
        assert len(fed.thinning._left_out) <= 100
    times = [int(each.payload) for each in kept]
    gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(times)]
    assert gaps == [each.shed for each in kept[1:]]


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
    buffer = LiveBuffer(tmp_path / "past" / "demo-1", ABOUT, clock=clock, disk_bytes=2**30)
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
    buffer = LiveBuffer(
        tmp_path / "past" / "demo-1", ABOUT, clock=ManualClock(START_NS, 100.0), disk_bytes=2**30
    )
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
    buffer = LiveBuffer(
        tmp_path / "file" / "x", ABOUT, clock=ManualClock(START_NS, 100.0), disk_bytes=2**30
    )
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
    lock.acquire()
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
    second = LiveBuffer(
        tmp_path / "past" / "demo-1", ABOUT, clock=ManualClock(START_NS, 100.0), disk_bytes=2**30
    )
    second.start()

    assert second.status.failed
    second.close()
    fill(buffer, 0, 10)
    assert numbers(buffer.read(0, buffer.end_ns)) == list(range(10))
