"""Hostile retained messages against the app, a watch, a status and a replay."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import START_NS, Feed, ultraservers
from support.processes.programs import Program, run
from support.processes.terminal import Terminal
from support.processes.waiting import running
from support.record.files import write

from trnfleet.clock import NS_PER_S
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.wire.ports import Envelope, Stored
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

NODE = "uc9/us-0001/trn2u-0001-0"


def _feed() -> Feed:
    feed = Feed([(NODE, "trn2u.48xlarge")])
    feed.publisher = "evil"
    feed.boot = "evil-1"
    return feed


def hostile() -> list[Envelope]:
    """Return a payment without a due time, an impossible clock, and an old event.

    The event is from before the year 1. The clock also has telemetry.
    """
    feed = _feed()
    online, descriptor = feed.announcements()
    data: dict[str, Any] = json.loads(descriptor.payload)
    data["clock"]["speed"] = 1e300
    reservation = feed.reservation("cb-x", NODE, type="capacity-block", pay_by="soon")
    event = json.loads(feed.event().payload) | {
        "ts": "0001-01-01T00:00:00+23:59",
        "severity": "critical",
    }
    return [
        online,
        descriptor._replace(payload=json.dumps(data).encode()),
        reservation,
        *feed.telemetry(),
        Envelope(build_topic("demo", TopicClass.EVENT, "fleet"), json.dumps(event).encode(), qos=1),
    ]


async def _publish(mosquitto: MosquittoProcess) -> None:
    publisher = MqttPublisher(mosquitto.url, client_id="evil")
    async with running(publisher.run()):
        await publisher.wait_connected(10)
        await publisher.publish(hostile())


@pytest.mark.broker
def test_the_app_a_watch_and_a_status_outlive_them(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """The messages are refused, named and counted, and the fleet is shown.

    They come before and during the run.
    """
    broker = ("--broker", str(mosquitto.url), "--name", "demo")
    log_file = tmp_path / "app.log"
    with contextlib.ExitStack() as stack:
        simulate = ("simulate", "--broker", str(mosquitto.url), "--fleet", "demo")
        stack.enter_context(Program(tmp_path, *simulate)).wait_for("publishing")
        asyncio.run(_publish(mosquitto))
        watch = stack.enter_context(Program(tmp_path, "watch", *broker))
        monitor = ("monitor", *broker, "--log-file", str(log_file))
        terminal = stack.enter_context(Terminal(*monitor, XDG_STATE_HOME=str(tmp_path)))
        terminal.wait_for("192", "all live", "undecodable 2")
        asyncio.run(_publish(mosquitto))
        terminal.wait_for("undecodable 5")
        for key in "123459":
            terminal.send(key)
            time.sleep(0.2)
        status = run("status", *broker, "--wait", "10s")
        assert "192 of 192 chips live" in status.stdout
        assert "2 undecodable" in status.stdout
        assert watch.process.poll() is None
        assert watch.end(signal.SIGTERM) in {0, 143}
        assert "Traceback" not in watch.output
        assert terminal.end(keys="q") == 0
    logged = log_file.read_text()
    assert "cb-x" in logged
    assert "ReservationMessage pay_by: not a time with its zone" in logged
    assert "Descriptor clock.speed: must be at most 1000000, not 1e+300" in logged
    assert "EventMessage ts: " in logged


def test_a_recording_with_them_is_played(tmp_path: Path) -> None:
    """A recording with them plays to its end in the app, with its fleet."""
    feed = Feed(ultraservers(1))
    feed.scatter()
    messages = [*feed.announcements(), *hostile()]
    stored = [Stored(START_NS, each) for each in messages]
    for second in range(4):
        time_ns = START_NS + second * NS_PER_S
        stored += [Stored(time_ns, each) for each in feed.telemetry(ts_ns=time_ns)]
    file = tmp_path / "hostile.mcap"
    write(file, stored)
    with Terminal("replay", str(file), "--log-file", str(tmp_path / "app.log")) as terminal:
        terminal.wait_for("64 live, 1 path not described")
        for key in "123459":
            terminal.send(key)
            time.sleep(0.2)
        assert terminal.end(keys="q") == 0
    assert "Traceback" not in (tmp_path / "app.log").read_text()
