"""The watchdog of a watch: fed while messages, passes, elections and connections go on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.alert_messages import notification
from support.monitor.queue_source import QueueSource
from support.processes.notify_socket import NotifySocket
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError, ReceiverErrors
from trnfleet.errors import ConfigError
from trnfleet.export.receiver import Receiver
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.watch.identity import Connections
from trnfleet.services.watch.receivers import Deliveries, make_receivers
from trnfleet.services.watch.run import WatchHealth
from trnfleet.services.watch.service import Role
from trnfleet.systemd import STILL_S, ServiceManager
from trnfleet.tasks import Ending
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.export.notification import Notification


class Outlet(Receiver):
    """A receiver that raises its current error, if any, and accepts everything else."""

    def __init__(self, name: str, clock: ManualClock, error: Exception | None = None) -> None:
        super().__init__(name, clock)
        self.error = error
        self.runs = 0

    def notify(self, notifications: Sequence[Notification]) -> int:
        self.tally.delivered += len(notifications)
        return len(notifications)

    async def run(self) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error
        self.tally.last_error = ""
        await self.clock.sleep(1e6)


async def test_a_receiver_fails_alone_and_is_run_again() -> None:
    """The watch continues whatever a receiver raises.

    The receiver is named while it fails, and run again after growing pauses.
    """
    clock = ManualClock()
    ending = Ending()
    broken = Outlet("stdout", clock, OSError(28, "disk full"))
    sound = Outlet("webhook", clock)
    deliveries = Deliveries([broken, sound], clock, ending)
    async with running(deliveries.run(broken)), running(deliveries.run(sound)):
        await clock.advance(2.5)
        assert broken.errors().first == (ReceiverError("stdout", "alerts", "", "disk full"),)
        assert (broken.runs, sound.runs, sound.notify([notification(1)])) == (2, 1, 1)
        broken.error = ZeroDivisionError()
        await clock.advance(1)
        assert broken.errors().first[0].reason == "internal error: ZeroDivisionError"
        broken.error = None
        await clock.advance(4)
        assert broken.errors() == NO_ERRORS
    assert (ending.asked, deliveries.problem) == (False, "")


@pytest.mark.parametrize("others", [0, 1])
async def test_a_closed_pipe_ends_a_watch_without_another_receiver(others: int) -> None:
    """Its reader does not come back; beside another receiver it is run again."""
    clock = ManualClock()
    ending = Ending()
    closed = Outlet("stdout", clock, BrokenPipeError(32, "gone"))
    deliveries = Deliveries([closed, *[Outlet("exec", clock)] * others], clock, ending)
    async with running(deliveries.run(closed)):
        await clock.advance(1.5)
    assert closed.runs == 2
    assert ending.asked == (not others)
    assert deliveries.problem == ("" if others else "nobody can be notified: stdout: gone")


async def test_a_full_disk_is_retried_by_a_watch_without_another_receiver() -> None:
    """Space may come back: the line is written then, and the watch goes on."""
    clock = ManualClock()
    ending = Ending()
    full = Outlet("stdout", clock, OSError(28, "No space left on device"))
    deliveries = Deliveries([full], clock, ending)
    async with running(deliveries.run(full)):
        await clock.advance(4)
        assert full.runs == 3
        full.error = None
        await clock.advance(4)
        assert full.errors() == NO_ERRORS
    assert (ending.asked, deliveries.problem) == (False, "")


def test_a_closed_stdout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor may be a socket's by now."""
    monkeypatch.setattr("sys.__stdout__", None)
    with pytest.raises(ConfigError, match="stdout is closed"):
        make_receivers((), (), (), ManualClock(), stdout=True)


class Scene:
    """A running monitor, beside an election that continues while `elects`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.source = QueueSource()
        self.monitor = Monitor(self.source, "demo", clock=self.clock)
        self.errors = NO_ERRORS
        self.service: Any = SimpleNamespace(
            role=Role.LEADER, leader="", firing=2, elections=0, receiver_errors=lambda: self.errors
        )
        links: list[Any] = [
            SimpleNamespace(status=LinkStatus(connected=True), waiting=0) for _ in range(3)
        ]
        self.connections = Connections(*links)
        self.elects = True

    def health(self) -> WatchHealth:
        return WatchHealth(self.service, self.monitor, self.connections)

    async def elect(self) -> None:
        while True:
            self.service.elections += self.elects
            await self.clock.sleep(0.1)

    async def fed(self, channel: NotifySocket, seconds: int) -> int:
        """Return how often the watchdog was fed within a time."""
        channel.read()
        lines: list[str] = []
        for _ in range(seconds):
            await self.clock.advance(1)
            lines += channel.read()
        return lines.count("WATCHDOG=1")


@pytest.mark.parametrize("hanging", ["passes", "elections", "messages"])
async def test_the_watchdog_is_fed_until_a_part_of_the_watch_hangs(
    tmp_path: Path, hanging: str
) -> None:
    """The event loop and the other parts go on all the while."""
    scene = Scene()
    health = scene.health()
    with NotifySocket(tmp_path) as channel:
        environ = {"NOTIFY_SOCKET": channel.address, "WATCHDOG_USEC": "8000000"}
        manager = ServiceManager(scene.clock, environ)
        monitor = asyncio.create_task(scene.monitor.run())
        others = [
            asyncio.create_task(scene.elect()),
            asyncio.create_task(manager.run(health.works(), health.status)),
        ]
        assert await scene.fed(channel, int(2 * STILL_S)) >= STILL_S - 1
        if hanging == "passes":
            monitor.cancel()
        elif hanging == "elections":
            scene.elects = False
        else:
            vars(scene.connections.source)["waiting"] = 1
        await scene.fed(channel, int(STILL_S) + 4)
        assert await scene.fed(channel, int(STILL_S)) == 0
        for each in (monitor, *others):
            each.cancel()


def test_the_status_says_what_the_watch_does() -> None:
    scene = Scene()
    health = scene.health()
    assert health.status() == "leader; 0 chips, 2 firing alerts"
    scene.errors = ReceiverErrors.of(1, [ReceiverError("stdout", "alerts", "", "disk full")])
    assert health.status() == "leader; 0 chips, 2 firing alerts; stdout: alerts: disk full"
    scene.errors = NO_ERRORS
    scene.service.role = Role.STANDBY
    scene.service.leader = "trnfleet-watch-1"
    assert health.status() == "standby, trnfleet-watch-1 leads; 0 chips, 2 firing alerts"
    scene.service.role = Role.DISCONNECTED
    assert health.status() == "listening for other watches"
    vars(scene.connections.peers)["status"] = LinkStatus(last_error="connection refused")
    assert health.status() == "no connection: connection refused"
