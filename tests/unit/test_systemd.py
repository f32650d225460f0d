"""A service's reports to systemd over real sockets: readiness, status, watchdog, end."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from support.processes.notify_socket import NotifySocket

from trnfleet.clock import ManualClock
from trnfleet.errors import ConfigError
from trnfleet.systemd import (
    LINK_STILL_S,
    STILL_S,
    ServiceManager,
    Work,
    link_works,
    read_credential,
)
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WATCHDOG = {"WATCHDOG_USEC": "8000000", "WATCHDOG_PID": str(os.getpid())}


class Loop:
    """A loop that works while `goes_on`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.goes_on = True
        self._last = 0.0

    def progress(self) -> float:
        if self.goes_on:
            self._last = self._clock.monotonic_s()
        return self._last


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[NotifySocket]:
    with NotifySocket(tmp_path) as found:
        yield found


async def told(clock: ManualClock, channel: NotifySocket, seconds: int) -> list[str]:
    """Return the reports within a time.

    The socket's queue is short.
    """
    lines: list[str] = []
    for _ in range(seconds):
        await clock.advance(1)
        lines += channel.read()
    return lines


def manager(clock: ManualClock, channel: NotifySocket, **environ: str) -> ServiceManager:
    return ServiceManager(clock, {"NOTIFY_SOCKET": channel.address, **environ})


@pytest.mark.parametrize("is_abstract", [False, True])
async def test_a_service_reports_readiness_status_and_end(
    tmp_path: Path, is_abstract: bool
) -> None:
    """Status lines have no line breaks of theirs, and come only where they change."""
    with NotifySocket(None if is_abstract else tmp_path) as channel:
        clock = ManualClock()
        lines = ["begins", "begins", "leads\nREADY=0"]
        service = manager(clock, channel)
        task = asyncio.create_task(
            service.run((), lambda: lines[0] if len(lines) == 1 else lines.pop(0))
        )
        await clock.advance(20)
        task.cancel()
        await asyncio.wait([task])
        first, second, third, *rest = channel.read()
        assert (first, second) == ("READY=1", "STATUS=begins")
        assert third.startswith("STATUS=leads")
        assert "READY=0" in third
        assert rest == ["STOPPING=1"]


async def test_the_watchdog_is_fed_only_while_every_loop_goes_on(channel: NotifySocket) -> None:
    """A loop hanging for `STILL_S` stops the watchdog's feeding, despite other loops.

    Feeding resumes with the loop.
    """
    clock = ManualClock()
    loops = [Loop(clock), Loop(clock)]
    works = [Work(str(number), each.progress) for number, each in enumerate(loops)]
    task = asyncio.create_task(manager(clock, channel, **WATCHDOG).run(works, lambda: "x"))
    assert (await told(clock, channel, 8)).count("WATCHDOG=1") >= 4
    loops[1].goes_on = False
    await told(clock, channel, int(STILL_S) + 4)
    assert await told(clock, channel, 60) == []
    loops[1].goes_on = True
    assert "WATCHDOG=1" in await told(clock, channel, 8)
    task.cancel()


async def test_a_loop_without_work_does_not_hang(channel: NotifySocket) -> None:
    clock = ManualClock()
    works = [Work("messages", lambda: 0, lambda: True)]
    task = asyncio.create_task(manager(clock, channel, **WATCHDOG).run(works, lambda: "x"))
    assert (await told(clock, channel, 10 * int(STILL_S))).count("WATCHDOG=1") > 100
    task.cancel()


async def test_a_connection_that_is_tried_again_and_again_does_not_hang(
    channel: NotifySocket,
) -> None:
    """A missing broker causes no restart.

    A connection neither up nor tried does.
    """
    clock, status = ManualClock(), LinkStatus()
    task = asyncio.create_task(
        manager(clock, channel, **WATCHDOG).run(link_works("x", [status]), lambda: "x")
    )
    for _ in range(10):
        status.attempts += 1
        assert (await told(clock, channel, 30)).count("WATCHDOG=1") >= 14
    await told(clock, channel, int(LINK_STILL_S))
    assert await told(clock, channel, 30) == []
    status.connected = True
    assert "WATCHDOG=1" in await told(clock, channel, 4)
    task.cancel()


@pytest.mark.parametrize(
    "environ",
    [{}, {"WATCHDOG_USEC": "8000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}],
)
async def test_without_a_watchdog_for_this_process_none_is_fed(
    channel: NotifySocket, environ: dict[str, str]
) -> None:
    clock = ManualClock()
    task = asyncio.create_task(manager(clock, channel, **environ).run((), lambda: "x"))
    assert await told(clock, channel, 60) == ["READY=1", "STATUS=x"]
    task.cancel()


async def test_programs_that_a_service_starts_know_nothing_of_the_manager(
    channel: NotifySocket,
) -> None:
    """A program of `watch --exec` must neither report readiness nor feed the watchdog."""
    environ = {"NOTIFY_SOCKET": channel.address, "HOME": "/", **WATCHDOG}
    assert ServiceManager(ManualClock(), environ).is_there
    assert environ == {"HOME": "/"}


async def test_without_a_manager_nobody_is_told(tmp_path: Path) -> None:
    """A missing manager is no error.

    A returning one receives all missed reports.
    """
    clock = ManualClock()
    await ServiceManager(clock, {}).run((), lambda: "x")
    with NotifySocket(tmp_path) as channel:
        away = tmp_path / "away"
        address = channel.address
        (tmp_path / channel.address.rpartition("/")[2]).rename(away)
        task = asyncio.create_task(manager(clock, channel).run((), lambda: "x"))
        assert await told(clock, channel, 10) == []
        away.rename(address)
        assert await told(clock, channel, 10) == ["READY=1", "STATUS=x"]
        task.cancel()


def test_a_credential_is_read_from_the_folder_of_the_service(tmp_path: Path) -> None:
    """Systemd's own files may be readable by a group.

    A missing one is empty.
    """
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert read_credential("mqtt-password", environ) == ""
    assert read_credential("mqtt-password", {}) == ""
    (tmp_path / "mqtt-password").write_text("s3cret\n", encoding="utf-8")
    (tmp_path / "mqtt-password").chmod(0o440)
    assert read_credential("mqtt-password", environ) == "s3cret"
    (tmp_path / "mqtt-password").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="credential mqtt-password: it is not UTF-8"):
        read_credential("mqtt-password", environ)
