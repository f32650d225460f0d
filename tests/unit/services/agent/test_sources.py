"""Child processes and files that are read on and on."""

from __future__ import annotations

import functools
import sys
import threading
from typing import IO, TYPE_CHECKING

from support.processes.waiting import eventually, running

from trnfleet.clock import ManualClock, SystemClock
from trnfleet.errors import ConfigError
from trnfleet.services.agent.sources import (
    BACKOFF_S,
    MOST_WAITING,
    ChildSource,
    FileSource,
    ItemSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.clock import Clock


def lines(stream: IO[bytes]) -> Iterator[str]:
    return (line.decode().strip() for line in stream)


def child(*arguments: str, clock: Clock | None = None, quiet_s: float = 0.0) -> ChildSource[str]:
    return ChildSource(
        "child",
        lines,
        clock=clock or SystemClock(),
        wake=lambda: None,
        command=lambda: [sys.executable, "-c", *arguments],
        quiet_s=quiet_s,
    )


async def test_a_child_that_ends_is_named_with_its_last_words() -> None:
    """It is started again after a second, and works again with its next item."""
    clock = ManualClock()
    source = child(
        "import sys; print('item'); print('one\\ntwo\\n', file=sys.stderr); sys.exit(3)",
        clock=clock,
    )
    async with running(source.run()):
        await eventually(lambda: source.problem)
        assert source.problem == "ended with exit status 3: two"
        assert source.drain() == ["item"]

        await clock.advance(BACKOFF_S[0])
        await eventually(lambda: source.count == 2)


async def test_the_wait_before_a_restart_grows() -> None:
    starts = 0

    def command() -> list[str]:
        nonlocal starts
        starts += 1
        raise ConfigError("it is not installed")

    clock = ManualClock()
    source: ChildSource[str] = ChildSource(
        "child", lines, clock=clock, wake=lambda: None, command=command
    )
    async with running(source.run()):
        for seconds in (1, 2, 4, 8, 16, 30, 30):
            await clock.advance(seconds - 0.5)
            before = starts
            await clock.advance(0.5)
            assert starts == before + 1
    assert source.problem == "it is not installed"


async def test_a_child_that_writes_nothing_is_ended() -> None:
    source = child("import time; time.sleep(60)", quiet_s=0.3)
    async with running(source.run()):
        await eventually(lambda: source.problem)
    assert source.problem == "wrote nothing for 300 ms"


async def test_a_child_that_may_be_quiet_works_while_it_runs() -> None:
    """As a journal that was started again, and in which nothing happens."""
    source = child("import time; time.sleep(60)")
    source.problem = "ended with exit status 1"
    async with running(source.run()):
        await eventually(lambda: not source.problem)


async def test_a_childs_own_children_end_with_it() -> None:
    """They would write beside the next child, and hold a thread each."""
    clock = ManualClock()
    code = "import subprocess; subprocess.Popen(['sleep', '60'])"
    threads = threading.active_count()
    source = child(code, clock=clock)
    async with running(source.run()):
        for seconds in (1, 2, 4):
            await eventually(lambda: source.problem)
            source.problem = ""
            await eventually(lambda: threading.active_count() <= threads)
            await clock.advance(seconds)


async def test_a_child_ends_with_its_source() -> None:
    source = child("import os, time; print(os.getpid(), flush=True); time.sleep(60)")
    async with running(source.run()):
        await eventually(lambda: source.count)
        assert source.drain() == [str(source.pid)]
    assert source.pid == 0


async def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    """Also behind a rotation; it need not be there at first."""
    path = tmp_path / "documents"
    source: FileSource[str] = FileSource(
        "file", lines, clock=ManualClock(), wake=lambda: None, path=str(path)
    )
    path.write_text("one\n")
    async with running(source.run()):
        await eventually(lambda: source.count == 1)
        with path.open("a") as file:
            file.write("two\n")
        await eventually(lambda: source.count == 2)
        path.rename(tmp_path / "documents.1")
        path.write_text("three\n")
        await eventually(lambda: source.count == 3)
    assert source.drain() == ["one", "two", "three"]


async def test_content_of_before_is_one_old_item(tmp_path: Path) -> None:
    """It happened before, and only its newest item is the present state."""
    path = tmp_path / "documents"
    path.write_text("one\ntwo\nthree\nfo")
    source: FileSource[str] = FileSource(
        "file", lines, clock=ManualClock(), wake=lambda: None, path=str(path)
    )
    async with running(source.run()):
        await eventually(lambda: source.count)
        assert (source.drain(), source.old) == (["three"], "three")
        with path.open("a") as file:
            file.write("ur\n")
        await eventually(lambda: source.count == 2)
    assert (source.drain(), source.old) == (["four"], "three")


async def test_a_child_whose_output_is_not_read_is_ended() -> None:
    """As where its reader fails, or it closes its output and goes on."""

    def bad(stream: IO[bytes]) -> Iterator[str]:
        raise ValueError(f"no item: {stream.readline()!r}")

    code = "import os, time; print('x', flush=True); os.close(1); time.sleep(60)"
    for parse, reason in (
        (bad, "not read: ValueError: no item: b'x\\n'"),
        (lines, "closed its output"),
    ):
        source = child(code)
        source._parse = parse
        async with running(source.run()):
            await eventually(functools.partial(getattr, source, "problem"))
        assert source.problem == reason


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "documents"
    source: FileSource[str] = FileSource(
        "file", lines, clock=ManualClock(), wake=lambda: None, path=str(path)
    )
    async with running(source.run()):
        await eventually(lambda: source.problem)
    assert source.problem == f"{path}: No such file or directory"


def test_items_that_nobody_reads_are_bounded_and_counted() -> None:
    source: ItemSource[str] = ItemSource("child", lines, clock=ManualClock(), wake=lambda: None)
    for number in range(MOST_WAITING + 2):
        source._add(str(number))

    assert source.dropped == 2
    assert source.drain()[0] == "2"
