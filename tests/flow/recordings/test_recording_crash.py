"""Recordings after a crash: killed at any moment or cut at any byte.

They can be read and report the loss.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.record.files import at, read, state, value, write

from trnfleet.errors import ConfigError
from trnfleet.record.read.reader import PartReader
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.wire.ports import Stored

KILLS = 50
SIDE_BY_SIDE = 5
CUTS = 300
"""Of a finished file, and as many of an unfinished one."""
RATE = 200
LOST_AT_MOST_S = 1.0

LAUNCHER = f"""
import gc, json, os, sys, time
from pathlib import Path
from trnfleet.clock import SystemClock
from trnfleet.record.format.metadata import About
from trnfleet.record.write.recorder import Recorder
from trnfleet.wire.ports import Envelope

def record(path):
    clock = SystemClock()
    recorder = Recorder(Path(path), About(id="crash", fleets=("demo",)), clock=clock)
    recorder.start()
    number, began = 0, time.monotonic()
    while True:
        batch = []
        while number <= (time.monotonic() - began) * {RATE}:
            topic = f"trnfleet/v1/demo/telemetry/uc1/us-{{number % 8:04d}}"
            batch.append(Envelope(topic, b"%012d" % number + bytes(500), 0, False, None, time.monotonic()))
            number += 1
        recorder.take(batch)
        # The killed process has printed what the file must have: number and time of what it has handed over.
        sys.stdout.write(f"{{number - 1}} {{time.monotonic()}}\\n")
        sys.stdout.flush()
        time.sleep(0.01)

gc.freeze()
while line := sys.stdin.readline():
    path, *streams = json.loads(line)
    if not streams:
        os.waitpid(path, 0)
        print("ended", flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        for number, name in enumerate(streams, 1):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
        record(path)
    print(pid, flush=True)
"""  # noqa: E501
"""Forks a recording process for each path, with files for its output and errors. One start takes
0.2 s of processor time."""


class Recorders:
    """Processes that record until they are killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launcher = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def record_and_kill(self, path: Path, after_s: float) -> tuple[list[tuple[int, float]], str]:
        """Record for a while, kill -9, and return the messages (number, time) and the output."""
        output = path.with_suffix(".out")
        errors = path.with_suffix(".err")
        pid = int(self._ask([str(path), str(output), str(errors)]))
        until_s = time.monotonic() + 20
        while not output.exists() or "\n" not in output.read_text():
            assert time.monotonic() < until_s, errors.read_text()
            time.sleep(0.005)
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        self._ask([pid])
        said = output.read_text().splitlines(keepends=True)
        told = [
            (int(n), float(t)) for n, t in (line.split() for line in said if line.endswith("\n"))
        ]
        return told, errors.read_text()

    def _ask(self, request: list[object]) -> str:
        assert self._launcher.stdin is not None
        assert self._launcher.stdout is not None
        with self._lock:
            self._launcher.stdin.write(json.dumps(request) + "\n")
            self._launcher.stdin.flush()
            return self._launcher.stdout.readline()

    def close(self) -> None:
        """End the process that others are forked from."""
        self._launcher.communicate(timeout=20)


def test_a_recording_that_is_killed_at_any_moment_lacks_its_last_second_at_most(
    tmp_path: Path,
) -> None:
    """50 kills: all but the last second is there, in order.

    The file is marked as unfinished.
    """
    moments = random.Random(6)  # noqa: S311  no secret
    delays = [moments.uniform(0.02, 2.5) for _ in range(KILLS)]
    paths = [tmp_path / f"{number:02d}.mcap" for number in range(KILLS)]
    with contextlib.closing(Recorders()) as recorders, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = list(pool.map(recorders.record_and_kill, paths, delays))

    read_back = 0
    for path, (told, error) in zip(paths, runs, strict=True):
        assert error == ""
        killed_s = told[-1][1]
        due = [number for number, time_s in told if time_s <= killed_s - LOST_AT_MOST_S]
        if not due:
            # It was killed within its first second: there may be nothing in it, which is then said.
            with contextlib.suppress(ConfigError):
                Recording.open([path]).close()
            continue
        recording = Recording.open([path])
        numbers = [int(envelope.payload[:12]) for _, envelope in recording.all()]
        (recovery,) = recording.recoveries
        read_back += 1
        assert numbers == list(range(len(numbers)))
        assert numbers[-1] >= due[-1]
        assert not recording.is_finished
        assert recording.damaged == 0
        assert "was not finished" in recovery.text()
        assert f"recovered {len(numbers)} messages" in recovery.text()
        recording.close()
    assert read_back > KILLS // 2


@pytest.fixture(scope="module")
def messages() -> list[Stored]:
    """A minute of telemetry with some state."""
    result = [state(TopicClass.JOB, f"j{number}", f"job {number}", 0) for number in range(3)]
    result += [value(number, 0.01 + number * 0.1) for number in range(600)]
    return result


def chunk_ends(path: Path) -> list[tuple[int, int]]:
    """Return each data chunk's end in the file and the time of its last message."""
    part = PartReader(path)
    keyframe = next(number for number, name in part.channels.items() if name == "keyframe")
    ends = [(e.offset + e.length, e.end_ns) for e in part.entries if e.channels != (keyframe,)]
    part.close()
    return ends


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_recording_cut_at_any_byte_lacks_no_more_than_the_torn_chunk(
    tmp_path: Path, messages: list[Stored], is_finished: bool
) -> None:
    """300 cuts: all whole chunks are there, and the torn bytes are reported."""
    path = tmp_path / "whole.mcap"
    if is_finished:
        write(path, messages)
    else:
        writer = RecordingWriter(
            path, PartReader(write(tmp_path / "x.mcap", messages).parts[0]).about
        )
        for time_ns, envelope in messages:
            writer.write(time_ns, envelope)
        writer.flush()
        writer._part.abandon()
    data = path.read_bytes()
    ends = chunk_ends(path)
    cuts = random.Random(8)  # noqa: S311  no secret
    torn = tmp_path / "torn.mcap"

    for size in [
        *(cuts.randrange(len(data)) for _ in range(CUTS)),
        len(data) - 1,
        ends[0][0],
        ends[-1][0],
    ]:
        torn.write_bytes(data[:size])
        whole_ns = max((end_ns for end, end_ns in ends if end <= size), default=0)
        expected = [stored for stored in messages if stored.time_ns <= whole_ns]
        if not expected:
            with pytest.raises(ConfigError, match=r"torn\.mcap: .*(nothing was recorded|header)"):
                Recording.open([torn])
            continue
        recording = Recording.open([torn])
        assert list(recording.all()) == expected
        (recovery,) = recording.recoveries
        assert recovery.end_ns == whole_ns
        assert recovery.messages == len(expected)
        past = max(end for end, _ in ends if end <= size)
        assert size - recovery.lost_bytes >= past
        assert recovery.text().startswith(f"{torn}: ")
        keyframe = recording.keyframe(recording.end_ns)
        assert keyframe is not None
        assert keyframe.time_ns <= whole_ns
        recording.close()


def test_a_torn_recording_says_how_much_is_torn(tmp_path: Path, messages: list[Stored]) -> None:
    """The bytes behind the last whole record are counted."""
    path = tmp_path / "whole.mcap"
    write(path, messages)
    end, end_ns = chunk_ends(path)[5]
    torn = tmp_path / "torn.mcap"
    torn.write_bytes(path.read_bytes()[: chunk_ends(path)[6][0] - 7])
    recording = Recording.open([torn])

    (recovery,) = recording.recoveries

    assert recovery.end_ns == end_ns == recording.end_ns
    assert 0 < recovery.lost_bytes < torn.stat().st_size - end
    assert f"the last {recovery.lost_bytes} bytes are torn and lost" in recovery.text()
    assert read(torn) == [stored for stored in messages if stored.time_ns <= end_ns]
    assert recording.start_ns == at(0)
    recording.close()
