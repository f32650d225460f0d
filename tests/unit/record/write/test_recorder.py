"""Recording while the fleet runs: batches are soon in the file, callers never wait."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.record.files import ABOUT, NS_PER_S, START_NS, read, ticks

from trnfleet.clock import ManualClock
from trnfleet.errors import ConfigError
from trnfleet.record.read.recording import Recording
from trnfleet.record.write import recorder as recorder_module
from trnfleet.record.write.recorder import Recorder
from trnfleet.record.write.tapped_source import TappedSource
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def envelopes(count: int, first_s: float = 100.0) -> list[Envelope]:
    """Return telemetry received at 10 Hz from a monotonic moment on."""
    return [
        stored.envelope._replace(received_s=first_s + n / 10)
        for n, stored in enumerate(ticks(count))
    ]


def make(path: Path, **options: Any) -> Recorder:
    return Recorder(path, ABOUT, clock=ManualClock(START_NS, 100.0), **options)


def told(recorder: Recorder, condition: Callable[[], bool]) -> bool:
    """Wait up to five seconds for a condition in the thread, and return it."""
    with recorder._wake:
        return recorder._wake.wait_for(condition, 5)


def test_what_is_taken_is_recorded_with_the_wall_clocks_begin(tmp_path: Path) -> None:
    """Times are the wall clock at the begin and the monotonic clock since."""
    recorder = make(tmp_path / "a.mcap")
    recorder.start()
    batch = envelopes(300)
    for begin in range(0, 300, 20):
        recorder.take(batch[begin : begin + 20])
    recorder.close()
    recorder.close()

    found = read(tmp_path / "a.mcap")
    assert [each.envelope for each in found] == [each._replace(received_s=0.0) for each in batch]
    assert [each.time_ns for each in found] == pytest.approx(
        [START_NS + n * NS_PER_S // 10 for n in range(300)], abs=99
    )
    status = recorder.status
    assert (status.messages, status.lost, status.failed, status.parts) == (300, 0, "", 1)
    assert status.payload_bytes == sum(len(each.payload) for each in batch)
    assert status.file_bytes == (tmp_path / "a.mcap").stat().st_size
    assert (status.first_ns, status.last_ns) == (found[0].time_ns, found[-1].time_ns)


def test_the_wall_clock_may_step(tmp_path: Path) -> None:
    """An hour back in the middle leaves the recording in order and its times right."""
    clock = ManualClock(START_NS, 100.0)
    recorder = Recorder(tmp_path / "a.mcap", ABOUT, clock=clock)
    recorder.start()
    recorder.take(envelopes(10))
    clock.step_wall(-3_600)
    recorder.take(envelopes(10, 101.0))
    recorder.close()

    times = [each.time_ns for each in read(tmp_path / "a.mcap")]
    assert times == pytest.approx([START_NS + n * NS_PER_S // 10 for n in range(20)], abs=99)


def test_a_quiet_line_is_in_the_file_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing needs to come after a message for it to be written."""
    monkeypatch.setattr(recorder_module, "FLUSHED_AFTER_S", 0.05)
    recorder = make(tmp_path / "a.mcap")
    recorder.start()
    recorder.take(envelopes(3))

    assert told(recorder, lambda: recorder._flushed == 1)

    assert len(read(tmp_path / "a.mcap")) == 3
    recorder.close()


def test_what_does_not_fit_into_the_queue_is_counted(tmp_path: Path) -> None:
    """A thread that is behind costs messages, never memory; they are counted one by one."""
    recorder = make(tmp_path / "a.mcap", queue_bytes=10_000)
    for begin in range(0, 100, 10):
        recorder.take(envelopes(100)[begin : begin + 10])
    recorder.start()
    recorder.close()

    kept = len(read(tmp_path / "a.mcap"))
    assert 15 < kept < 30
    assert recorder.status.lost == 100 - kept
    recorder.take(envelopes(5))
    assert recorder.status.lost == 105 - kept


def test_a_message_that_is_too_large_is_lost_alone(tmp_path: Path) -> None:
    """It is counted; the recording goes on."""
    recorder = make(tmp_path / "a.mcap")
    recorder.start()
    recorder.take([Envelope("big", bytes(17 * 2**20), received_s=100.0), *envelopes(2)])
    recorder.close()

    assert (recorder.status.lost, recorder.status.messages, recorder.status.failed) == (1, 2, "")


def test_a_file_that_exists_is_refused_at_once(tmp_path: Path) -> None:
    """Before anything is taken."""
    (tmp_path / "a.mcap").write_bytes(b"")

    with pytest.raises(ConfigError, match="exists already"):
        make(tmp_path / "a.mcap")


async def test_a_full_disk_is_told_within_a_second_and_stops_nobody(tmp_path: Path) -> None:
    """On a full disk `failed` returns, the status has the reason, and messages are counted.

    The file can be read.
    """
    clock = ManualClock(START_NS, 100.0)
    recorder = Recorder(tmp_path / "a.mcap", ABOUT, clock=clock)
    recorder.start()
    waiting = asyncio.create_task(recorder.failed())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, limits[1]))
    taken = 0
    is_written = True
    try:
        while is_written and taken < 1_000:
            await clock.advance(1.0)
            assert not waiting.done()
            now_s = clock.monotonic_s()
            recorder.take([Envelope("t", os.urandom(5_000), received_s=now_s) for _ in range(20)])
            taken += 20
            is_written = recorder.flush(5)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, former)
    assert not is_written
    await clock.advance(1.0)
    assert waiting.done()
    recorder.take([Envelope("t", b"x", received_s=clock.monotonic_s())])
    recorder.close()

    status = recorder.status
    assert status.failed == "File too large"
    recording = Recording.open([tmp_path / "a.mcap"])
    found = sum(1 for _ in recording.all())
    recording.close()
    assert found == status.messages
    assert status.messages + status.lost == taken + 1


class ListSource:
    """A source of a few batches."""

    def __init__(self, *batches: list[Envelope]) -> None:
        self.status = LinkStatus(broker="here")
        self._batches = list(batches)

    async def take(self) -> list[Envelope]:
        """Return the next batch, then nothing for good."""
        return self._batches.pop(0) if self._batches else []

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


async def test_a_tapped_source_gives_everything_on(tmp_path: Path) -> None:
    """The caller gets all messages, and the recording has the same."""
    recorder = make(tmp_path / "a.mcap")
    source = TappedSource(ListSource(envelopes(3), envelopes(2, 101.0)), recorder)
    recorder.start()

    taken = [await source.take() for _ in range(3)]
    recorder.close()

    assert taken == [envelopes(3), envelopes(2, 101.0), []]
    assert source.status.broker == "here"
    assert recorder.status.messages == 5


def test_a_durable_recording_is_synced_every_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long-waiting messages are synced at once, then every second, and at the end.

    A recording that is not durable is never synced.
    """
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    clock = ManualClock(START_NS, 100.0)
    recorder = Recorder(tmp_path / "a.mcap", ABOUT, clock=clock, durable=True)
    # The name of the file, in its folder.
    assert len(synced) == 1
    recorder.start()
    status, given = recorder.status, envelopes(60)
    for number, begin in enumerate(range(0, 60, 20)):
        # The thread begins when both are asked for, so that it syncs what it flushed.
        with recorder._wake:
            recorder.take(given[begin : begin + 20])
            assert recorder.flush(5)
        assert status.syncs == number + 1
        assert synced[-1] == (tmp_path / "a.mcap").stat().st_size
        assert status.file_bytes == recorder._synced_bytes
        asyncio.run(clock.advance(1.0))
    recorder.close()
    assert synced[-1] == (tmp_path / "a.mcap").stat().st_size
    assert status.syncs == 3
    del synced[:]
    plain = make(tmp_path / "b.mcap")
    plain.start()
    plain.take(given)
    plain.close()
    assert not synced


def test_a_disk_that_fails_to_sync_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed sync ends a durable recording with the reason."""
    recorder = make(tmp_path / "a.mcap", durable=True)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    recorder.start()
    recorder.take(envelopes(20))
    assert told(recorder, lambda: bool(recorder.status.failed))
    recorder.close()
    assert recorder.status.failed == "Input/output error"
