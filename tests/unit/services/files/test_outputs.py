"""Outputs of a recorder: replaceable files, and line readers that stop or leave."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from trnfleet.cli.output import stdout_bytes
from trnfleet.clock import ManualClock
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.record.format.metadata import About
from trnfleet.record.write.part import PartFile
from trnfleet.services.files import outputs
from trnfleet.services.files.outputs import LineSink, Sink, find_former, make_sink, remove_former
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

START_NS = 1_767_600_000_000_000_000
LAMP = Envelope("home/lamp", b"on", received_s=5.0)


def part(path: Path, number: int) -> Path:
    PartFile(path, About(id="a", part=number)).finish()
    return path


def lines_into(path: Path) -> Sink:
    """Return what writes lines into a file."""
    return make_sink(path, About(id="a"), ManualClock(START_NS, 5.0), is_ndjson=True)


@pytest.mark.parametrize("name", ["a.mcap", "a.ndjson"])
def test_a_recording_is_its_owners_alone(tmp_path: Path, name: str) -> None:
    """A recording is private to its owner, whatever the umask is."""
    former = os.umask(0)
    try:
        file = tmp_path / name
        if name.endswith("mcap"):
            part(file, 1)
        else:
            lines_into(file).close()
    finally:
        os.umask(former)
    assert file.stat().st_mode & 0o777 == 0o600


def test_parts_are_replaced(tmp_path: Path) -> None:
    """An earlier recording's parts are found, and stay until they are removed."""
    parts = [part(tmp_path / f"night-000{number}.mcap", number) for number in (1, 2)]
    other = part(tmp_path / "nights-0001.mcap", 1)
    night = tmp_path / "night.mcap"

    with pytest.raises(ConfigError, match="is there already"):
        find_former(night, is_split=True, overwrite=False)
    former = find_former(night, is_split=True, overwrite=True)

    assert former == parts
    assert all(each.exists() for each in parts)
    remove_former(former)
    assert list(tmp_path.iterdir()) == [other]


@pytest.mark.parametrize("name", ["night-20260105.mcap", "night-2026.mcap"])
@pytest.mark.parametrize("is_recording", [True, False])
def test_what_only_looks_like_a_part_is_not_replaced(
    name: str, is_recording: bool, tmp_path: Path
) -> None:
    """A day's recording, or a user's own file, is not a part.

    Then nothing is replaced.
    """
    file = tmp_path / name
    if is_recording:
        part(file, 1)
    else:
        file.write_text("mine")
    with pytest.raises(ConfigError, match=f"{name}: not part"):
        find_former(tmp_path / "night.mcap", is_split=True, overwrite=True)


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    """A special file such as /dev/null is not deleted, even with --overwrite."""
    pipe = tmp_path / "night.mcap"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="not a regular file"):
        find_former(pipe, is_split=False, overwrite=True)


def test_lines_are_in_the_file_at_the_end(tmp_path: Path) -> None:
    """Queued lines are written when the sink is closed."""
    file = tmp_path / "a.ndjson"
    sink = lines_into(file)
    sink.start()
    for second in range(3):
        sink.take([LAMP, LAMP._replace(received_s=5.0 + second)])
    sink.close()
    status = sink.status
    assert [json.loads(line)["topic"] for line in file.read_text().splitlines()] == [
        "home/lamp"
    ] * 6
    assert (status.messages, status.lost, status.parts, status.length_s) == (6, 0, 1, 2.0)
    assert (status.payload_bytes, status.file_bytes) == (12, file.stat().st_size)


@pytest.mark.parametrize("room", [0, 150, 10_000])
def test_a_full_disk_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """An incomplete line is cut off.

    Each message counts once, as written or lost.
    """
    file, left, write = tmp_path / "a.ndjson", room, os.write

    def fill_up(descriptor: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[:left])
        left -= written
        return written

    monkeypatch.setattr(os, "write", fill_up)
    sink = lines_into(file)
    sink.start()
    for _ in range(10):
        sink.take([LAMP] * 20)
    sink.close()
    status, text = sink.status, file.read_text()
    assert status.failed == "No space left on device"
    assert text == "" or text.endswith("\n")
    assert [json.loads(line)["topic"] for line in text.splitlines()] == [
        "home/lamp"
    ] * status.messages
    assert room - len(text) < 120
    assert (status.file_bytes, status.messages + status.lost) == (len(text), 200)


def test_durable_lines_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name, and what was written, at the end at the latest; else nothing is."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    file, clock = tmp_path / "a.ndjson", ManualClock(START_NS, 5.0)
    sink = make_sink(file, About(id="a"), clock, is_ndjson=True, durable=True)
    assert len(synced) == 1
    sink.start()
    sink.take([LAMP])
    sink.close()
    assert synced[-1] == file.stat().st_size > 0
    del synced[:]
    plain = lines_into(tmp_path / "b.ndjson")
    plain.start()
    plain.take([LAMP])
    plain.close()
    assert not synced


def test_a_file_on_a_full_disk_is_no_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is a failure (1), an invalid folder is wrong use (2)."""

    def fail(number: int) -> None:
        def refuse(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "open", refuse)

    fail(errno.ENOSPC)
    with pytest.raises(TrnfleetError, match="cannot be made: No space left on device") as full:
        lines_into(tmp_path / "a.ndjson")
    assert not isinstance(full.value, ConfigError)
    fail(errno.EACCES)
    with pytest.raises(ConfigError, match="cannot be made: Permission denied"):
        lines_into(tmp_path / "a.ndjson")


def test_lines_go_into_a_file_where_stdout_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines go into a file with stdout closed (`>&-`).

    Stdout as the target is refused.
    """
    monkeypatch.setattr(sys, "stdout", None)
    sink = lines_into(tmp_path / "a.ndjson")
    sink.start()
    sink.close()
    with pytest.raises(ConfigError, match="stdout is closed"):
        stdout_bytes()


def test_a_reader_that_does_not_read_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines beyond the queue count as lost.

    The wait at the end is limited.
    """
    monkeypatch.setattr(outputs, "END_S", 0.05)
    reader, writer = os.pipe()
    try:
        sink = LineSink(writer, ManualClock(START_NS, 5.0), queue_bytes=400_000)
        sink.start()
        for _ in range(10):
            sink.take([LAMP._replace(payload=b"x" * 100_000)])
        sink.close()
        assert (sink.status.messages, sink.status.lost, sink.status.failed) == (0, 10, "")
    finally:
        os.close(reader)


async def test_a_reader_that_leaves_ends_it() -> None:
    """A closed pipe ends the output, as with any program."""
    reader, writer = os.pipe()
    clock = ManualClock(START_NS, 5.0)
    sink = LineSink(writer, clock)
    os.close(reader)
    sink.start()
    sink.take([LAMP])
    with pytest.raises(BrokenPipeError):
        sink.close()
    with pytest.raises(BrokenPipeError):
        await sink.failed()
