from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.alert_messages import notification
from support.processes.waiting import running

from trnfleet.clock import ManualClock
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError
from trnfleet.errors import ConfigError
from trnfleet.export.receiver import Receiver
from trnfleet.services.watch.receivers import Deliveries, make_receivers
from trnfleet.tasks import Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

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
