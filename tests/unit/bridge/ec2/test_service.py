"""The bridge in time: readings, repetitions, failures and its goodbye."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest
from support.ec2_account import INTERRUPTION, NOW, NOW_NS, block, line, made, reading
from support.memory_bus import MemoryBus
from support.sim.simulation import Recorder

from trnfleet.bridge.ec2 import service
from trnfleet.bridge.ec2.client import Reading, RequestsThrottled
from trnfleet.bridge.ec2.service import Bridge, serve
from trnfleet.clock import ManualClock
from trnfleet.errors import CloudError
from trnfleet.wire.messages import REPEAT_S
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable


class Account:
    """Readings and failures in order; the last one goes on."""

    def __init__(self, *answers: Reading | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    def read(self) -> Reading:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read without a thread, so only the manual clock applies."""

    async def inline(call: Callable[[], Reading]) -> Reading:
        return call()

    monkeypatch.setattr(service, "in_thread", inline)


class Served:
    """A bridge serving within the `with` block, with a manual clock."""

    def __init__(
        self, account: Account, *, interval_s: float = 60.0, bridge: Bridge | None = None
    ) -> None:
        self.clock = ManualClock(NOW_NS, 100.0)
        self.recorder = Recorder(self.clock)
        self._work = serve(
            bridge or made(), self.recorder, account.read, clock=self.clock, interval_s=interval_s
        )

    def payloads(self, kind: TopicClass) -> list[dict[str, Any]]:
        return [json.loads(envelope.payload) for _, envelope in self.recorder.of(kind)]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work)
        await self.clock.advance(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_NS)


async def test_it_announces_repeats_and_says_goodbye() -> None:
    """The bridge publishes its presence and readings, repeated each minute.

    It goes offline at the end.
    """
    account = Account(reading())
    async with Served(account) as served:
        for minute in range(4):
            assert account.asked == minute + 1
            assert len(served.payloads(TopicClass.RESERVATION)) == minute + 1
            await served.clock.advance(REPEAT_S)
    presence = [each["state"] for each in served.payloads(TopicClass.PUBLISHER)]
    assert (presence[0], presence[-1]) == ("online", "offline")
    assert {each["change"] for each in served.payloads(TopicClass.RESERVATION)} == {0}


async def test_it_repeats_each_minute_however_seldom_it_reads() -> None:
    """With an hour between two readings everything is still repeated each minute."""
    account = Account(reading())
    async with Served(account, interval_s=3_600.0) as served:
        await served.clock.advance(10 * REPEAT_S)
    assert account.asked == 1
    assert len(served.payloads(TopicClass.RESERVATION)) == 11


@pytest.mark.parametrize("state", ["active", "unavailable"])
async def test_the_warning_comes_on_time_however_seldom_it_reads(state: str) -> None:
    """The warning comes at its second, not with the next reading, and once."""
    account = Account(
        reading(blocks=[block(state, EndDate=NOW + timedelta(minutes=40, seconds=90))])
    )
    async with Served(account, interval_s=3_600.0) as served:
        await served.clock.advance(89.999)
        assert served.payloads(TopicClass.EVENT) == []
        await served.clock.advance(0.001)
        (event,) = served.payloads(TopicClass.EVENT)
        assert (event["name"], event["ts"]) == (
            "capacity_block_expiration_warning",
            "2026-01-05T09:01:30.000Z",
        )
        await served.clock.advance(3_600)
    assert len(served.payloads(TopicClass.EVENT)) == 1


async def test_failures_later_leave_what_was_told() -> None:
    """EC2's failures after the first reading end nothing, and clear nothing."""
    account = Account(
        reading(), RequestsThrottled("EC2: Throttling"), CloudError("gone"), reading()
    )
    async with Served(account, bridge=made(forget=True)) as served:
        await served.clock.advance(600)
    assert account.asked > 3
    states = {each["state"] for each in served.payloads(TopicClass.RESERVATION)}
    assert states == {"active"}


async def test_patience_doubles_up_to_a_quarter_of_an_hour() -> None:
    """Under throttling the pauses double up to a limit; one success resets them."""
    account = Account(*[RequestsThrottled("EC2: Throttling")] * 7, reading())
    async with Served(account) as served:
        for number, pause_s in enumerate((120, 240, 480, 900, 900, 900, 900, 60, 60), 1):
            assert account.asked == number
            await served.clock.advance(pause_s - 0.001)
            assert account.asked == number
            await served.clock.advance(0.001)


@pytest.mark.parametrize(
    "failure", [CloudError("no credentials"), RequestsThrottled("EC2: Throttling")]
)
async def test_a_first_reading_that_fails_is_an_error(
    clock: ManualClock, failure: CloudError
) -> None:
    """A failing only reading, throttled or not, ends with the reason and a goodbye."""
    recorder = Recorder(clock)
    with pytest.raises(CloudError, match=str(failure)):
        await serve(
            made(), recorder, Account(failure).read, clock=clock, interval_s=60.0, once=True
        )
    assert json.loads(recorder.sent[-1][1].payload)["state"] == "offline"


async def test_once_is_once(clock: ManualClock) -> None:
    """With `once` there is one reading."""
    account = Account(reading())
    await serve(made(), Recorder(clock), account.read, clock=clock, interval_s=60.0, once=True)
    assert account.asked == 1


@pytest.mark.parametrize("once", [True, False])
async def test_eventbridge_s_events_are_followed_to_their_end(
    clock: ManualClock, once: bool
) -> None:
    """Lines are read after the first reading, blank ones skipped.

    At their end the bridge continues to read EC2, or ends with `once`.
    """
    recorder = Recorder(clock)
    lines = [INTERRUPTION, b"\n", line(), b""]
    account = Account(reading())
    work = serve(
        made(),
        recorder,
        account.read,
        clock=clock,
        interval_s=60.0,
        once=once,
        next_line=lambda: lines.pop(0),
    )
    task = asyncio.create_task(work)
    await clock.advance(0)
    await clock.advance(120)
    assert task.done() is once
    assert account.asked == (1 if once else 3)
    names = [json.loads(envelope.payload)["name"] for _, envelope in recorder.of(TopicClass.EVENT)]
    assert names == ["capacity_block_interruption_warning", "capacity_block_expiration_warning"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert json.loads(recorder.sent[-1][1].payload)["state"] == "offline"


async def test_a_broker_that_forgets_is_told_again(clock: ManualClock) -> None:
    """After a reconnect all state is published again.

    A killed bridge is offline by its will.
    """
    bus = MemoryBus(clock)
    bridge = made()
    publisher = bus.publisher("bridge-1", will=bridge.presence("offline"))
    publisher.on_connect(bridge.announce)
    publisher.connect()
    work = serve(bridge, publisher, Account(reading()).read, clock=clock, interval_s=60.0)
    task = asyncio.create_task(work)
    await clock.advance(1)
    before = bus.retained
    assert sorted(before) == [
        "trnfleet/v1/prod/publisher/bridge-1",
        "trnfleet/v1/prod/reservation/cb-0123456789abcdef0",
    ]
    bus.disconnect()
    assert bus.retained == {}
    bus.reconnect()
    assert bus.retained == before
    publisher.die()
    assert b'"offline"' in bus.retained["trnfleet/v1/prod/publisher/bridge-1"].payload
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
