"""Retained messages that no reader may fall over: the app, a watch, a status and a replay, as users run them."""

from __future__ import annotations

import asyncio
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
    feed.publisher, feed.boot = "evil", "evil-1"
    return feed


def hostile() -> list[Envelope]:
    """Return a payment due at no time, a clock as fast as no clock, what it sends, and an event before the year 1."""
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
    """Published before and while they run, the messages are refused, named and counted, and the fleet is shown."""
    broker = ("--broker", str(mosquitto.url), "--name", "demo")
    log_file = tmp_path / "app.log"
    asyncio.run(_publish(mosquitto))
    with (
        Program(tmp_path, "simulate", "--broker", str(mosquitto.url), "--fleet", "demo"),
        Program(tmp_path, "watch", *broker) as watch,
        Terminal("monitor", *broker, "--log-file", str(log_file)) as terminal,
    ):
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
    assert (
        "Descriptor clock.speed: Input should be less than or equal to 1000000, not 1e+300"
        in logged
    )
    assert "EventMessage ts: " in logged


def test_a_recording_with_them_is_played(tmp_path: Path) -> None:
    """A recording that holds them is played in the app to its end, with the fleet that is in it, too."""
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
