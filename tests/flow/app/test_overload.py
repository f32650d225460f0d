"""Overload of the app by stopping its process.

Every message is accounted for, and only the pipeline has alerts.
"""

from __future__ import annotations

import asyncio
import re
import signal
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone
from support.processes.terminal import Terminal
from support.processes.waiting import running

from trnfleet.transport.mqtt import MqttPublisher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

HELD_TICKS = 3_000
"""Ticks with more frames than the sockets' buffers and the broker's queue."""
ACCOUNT = re.compile(
    r"published ([\d,]+) by sequence numbers = ([\d,]+) came \+ ([\d,]+) came late \+ ([\d,]+) lost"
    r" \+ ([\d,]+) shed"
)


async def test_what_a_stopped_app_did_not_take_is_counted_and_nothing_is_called_silent(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """Received, lost and shed messages on the screen add up to the published ones.

    All chips are live again, and no alert of the fleet has fired.
    """
    broker = mosquitto_with("max_queued_messages 100")
    feed = Feed(standalone(2))
    feed.scatter()
    sent = 0
    publisher = MqttPublisher(broker.url, client_id="p")

    async def tick(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            messages = feed.telemetry()
            sent += len(messages)
            await publisher.publish(messages)

    options = ("--broker", str(broker.url), "--name", feed.fleet, "--past", "0")
    with Terminal("monitor", *options, rows=60, XDG_STATE_HOME=str(tmp_path)) as app:
        await asyncio.to_thread(app.wait_for, "msg/s")
        publisher.on_connect(feed.announcements)
        async with running(publisher.run()):
            await publisher.wait_connected(5)
            await asyncio.to_thread(app.wait_for, "2 instances")
            await tick(1)
            await asyncio.to_thread(app.wait_for, "all live")
            app.process.send_signal(signal.SIGSTOP)
            await tick(HELD_TICKS)
            app.process.send_signal(signal.SIGCONT)
            app.send("9t")
            found: tuple[int, ...] = ()
            for _ in range(40):
                # The next message of a topic tells what was lost before it, and may find the queue
                # still full.
                await tick(1)
                await asyncio.sleep(0.6)
                if account := ACCOUNT.search(" ".join(app.text.split())):
                    found = tuple(int(each.replace(",", "")) for each in account.groups())
                    if found[0] >= sent - 2 and found[0] == sum(found[1:]):
                        break
            published, came, _, lost, _ = found
            assert published == sum(found[1:])
            assert sent - 2 <= published <= sent
            assert lost > 0
            assert came > 0
            app.send("8")
            await tick(1)
            text = await asyncio.to_thread(app.wait_for, "all live", "[8 Alerts]")
            assert not [each for each in ("silent", "offline", "stale") if each in text]
            assert app.end(keys="q") == 0
