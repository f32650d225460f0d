"""Cases of the table of brokers.

Each does one thing with a broker, and fails otherwise.

A case's result is the text of its cell, such as the protocol version; empty is a plain pass.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from typing import TYPE_CHECKING, NamedTuple

from support.processes.proxy import TcpProxy
from support.processes.waiting import eventually, running, take_until

from lab.brokers.stage import CHIPS, FLEET, Stage
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.errors import TrnfleetError
from trnfleet.services.files.rules import load_rules
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trnfleet.monitor.monitor import Monitor


INSTANCE = "uc1/us-0001/trn2u-0001-2"
FAULT = "nic_down"
RULE = "efa-link-down"


class Case(NamedTuple):
    """A case of the table."""

    name: str
    title: str
    run: Callable[[Stage], Awaitable[str]]


async def version(stage: Stage) -> str:
    """A client trying MQTT 5 first finds the broker's version."""
    source = MqttSource(stage.broker.url, [("none/#", 0)], password=stage.broker.password)
    async with running(source.run()):
        await source.wait_connected(15)
        assert source.status.protocol == stage.broker.speaks
        return source.status.protocol


async def late_monitor(stage: Stage) -> str:
    """A late monitor has all chips, jobs and publishers."""
    began = time.monotonic()
    async with stage.monitor() as (_, monitor):
        await eventually(lambda: is_whole(monitor), 20)
        return f"{time.monotonic() - began:.0f} s"


def is_whole(monitor: Monitor) -> bool:
    """Return whether all of the demo is known and live.

    A broker may send any part of the retained state last.
    """
    summary = monitor.summary()
    return (
        summary.live_chips == summary.chips == CHIPS
        and summary.undescribed_chips == summary.undescribed_paths == 0
        and summary.jobs >= 3
        and summary.publishers_online >= 1
    )


async def late_reservations(stage: Stage) -> str:
    """A late monitor has the reservations.

    They change seldom.
    """
    async with stage.monitor() as (_, monitor):
        await eventually(lambda: monitor.summary().reservations >= 1, 10)
    return ""


async def will(stage: Stage) -> str:
    """The last will of a killed simulator marks its chips offline."""
    with stage.program("simulate", "--fleet", "lab", "--client-id", "dies") as simulator:
        async with stage.monitor(fleet="lab") as (_, monitor):
            await eventually(lambda: monitor.summary().live_chips == 1, 20)
            simulator.process.kill()
            killed = time.monotonic()
            await eventually(lambda: monitor.summary().offline_chips == 1, 10)
            seconds = time.monotonic() - killed
            await eventually(lambda: monitor.summary().publishers_online == 0, 5)
            return f"after {seconds:.0f} s"


async def silent_publisher(stage: Stage) -> str:
    """A client's last will is published once it is silent for longer than its keepalive.

    Its connection stays open.
    """
    url = stage.broker.url
    password = stage.broker.password
    source = MqttSource(url, [("silent/#", 1)], password=password)
    async with running(source.run()):
        await source.wait_connected(15)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            user = None if url.user is None or password is None else (url.user, password.reveal())
            writer.write(connect_packet("silent", ("silent/will", b"gone"), 1, user))
            assert (await reader.readexactly(4))[3] == 0
            began = time.monotonic()
            assert [each.payload for each in await take_until(source, bool, 12)] == [b"gone"]
            return f"after {time.monotonic() - began:.0f} s"
        finally:
            writer.close()


def connect_packet(
    client_id: str, will: tuple[str, bytes], keepalive_s: int, user: tuple[str, str] | None
) -> bytes:
    """Return a CONNECT of MQTT 3.1.1 with a last will at QoS 1."""
    fields = [
        client_id.encode(),
        will[0].encode(),
        will[1],
        *(each.encode() for each in user or ()),
    ]
    flags = 0x0E | (0xC0 if user else 0)
    body = b"\x00\x04MQTT\x04" + bytes([flags]) + keepalive_s.to_bytes(2, "big")
    body += b"".join(len(each).to_bytes(2, "big") + each for each in fields)
    return bytes([0x10, len(body)]) + body


async def life(stage: Stage) -> str:
    """Status, record and info have the whole fleet.

    A replay to the broker is a normal fleet.
    """
    recording = str(stage.folder / "recorded.mcap")
    status, _ = await asyncio.gather(
        stage.run("status", "--name", FLEET, "--json", "--wait", "15s"),
        stage.done("record", recording, "--duration", "3s", "--name", FLEET),
    )
    facts = json.loads(status.stdout)
    assert (facts["chips"], facts["undescribed_chips"], facts["undescribed_paths"]) == (CHIPS, 0, 0)
    information = json.loads(await stage.done("info", recording, "--json", at_broker=False))
    assert information["fleets"][0]["chips"] == CHIPS
    with stage.program("replay", recording, "--as", "again", "--loop"):
        async with stage.monitor(fleet="again") as (_, monitor):
            await eventually(lambda: monitor.summary().live_chips == CHIPS, 20)
    return ""


async def operate(stage: Stage) -> str:
    """A command gets its reply.

    A fault's alert fires, and its ack appears in all monitors.
    """
    fingerprint = fingerprint_of(FLEET, RULE, INSTANCE)
    with stage.program("watch", "--name", FLEET) as watch:
        async with stage.monitor() as (_, first), stage.monitor() as (_, second):
            await eventually(lambda: "leader" in watch.output, 30)
            await stage.done("inject", FAULT, INSTANCE, "--name", FLEET)
            for monitor in (first, second):
                await eventually(lambda: fingerprint in monitor.ingest.alert_messages, 20)  # noqa: B023  used at once
            await stage.done("ack", fingerprint, "--name", FLEET, "--note", "seen")
            for monitor in (first, second):
                await eventually(lambda: monitor.alerts.silences.has_ack(fingerprint), 10)  # noqa: B023  as above
    return ""


async def late_acknowledgement(stage: Stage) -> str:
    """A late monitor evaluating the rules itself knows an earlier acknowledgement."""
    fingerprint = fingerprint_of(FLEET, RULE, INSTANCE)
    async with stage.monitor(rules=load_rules(())) as (_, monitor):
        await eventually(lambda: monitor.alerts.silences.has_ack(fingerprint), 10)
    return ""


async def silence(stage: Stage) -> str:
    """A silence appears in a monitor at once, and in a late one."""
    async with stage.monitor() as (_, monitor):
        await stage.done(
            *("silence", "add", "alertname=none", "--for", "1h", "--why", "x", "--yes"),
            *("--name", FLEET, "--wait", "1s"),
        )
        await eventually(lambda: monitor.alerts.silences.count()[1] == 1, 10)
    async with stage.monitor() as (_, monitor):
        await eventually(lambda: monitor.alerts.silences.count()[1] == 1, 8)
    assert "alertname" in await stage.done("silence", "list", "--name", FLEET, "--wait", "1s")
    return ""


async def refused_write(stage: Stage) -> str:
    """A forbidden write is not done, and the command reports it."""
    assert stage.broker.has_users, "it knows no users"
    async with stage.monitor(fleet="other") as (_, monitor):
        ended = await stage.run(
            *("silence", "add", "alertname=refused", "--for", "1h", "--why", "x", "--yes"),
            *("--name", "other", "--wait", "1s"),
            url=stage.broker.viewer_url,
        )
        assert ended.returncode in {1, 4}, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
        assert monitor.alerts.silences.count()[1] == 0
        if "refuses" in ended.stderr:
            return "refused"
        return "not confirmed" if "not confirmed" in ended.stderr else "connection ended"


async def oversize(stage: Stage) -> str:
    """A message of 3 MB is skipped by readers.

    They receive later ones.
    """
    password = stage.broker.password
    source = MqttSource(stage.broker.url, [("large/#", 1)], password=password)
    publisher = MqttPublisher(
        stage.broker.url, client_id="large", password=password, max_payload_bytes=2**24
    )
    async with running(source.run(), publisher.run()):
        await source.wait_connected(15)
        await publisher.wait_connected(15)
        await publisher.publish([Envelope("large/a", b"x" * 3_000_000, 1)])
        await eventually(lambda: publisher.status.connected, 10)
        await publisher.publish([Envelope("large/b", b"after", 1)])
        taken = await take_until(source, bool, 10)
        assert [each.payload for each in taken] == [b"after"]
        assert source.status.connects == 1
        return "skipped" if source.status.oversize else "not delivered"


async def slow_consumer(stage: Stage) -> str:
    """A reader stalled behind a flood has the newest message afterwards."""
    password = stage.broker.password
    publisher = MqttPublisher(stage.broker.url, client_id="flood", password=password)
    with TcpProxy(stage.broker.port) as proxy:
        url = stage.broker.url
        source = MqttSource(
            dataclasses.replace(url, port=proxy.port), [("flood/#", 0)], password=password
        )
        async with running(source.run(), publisher.run()):
            await source.wait_connected(15)
            await publisher.wait_connected(15)
            proxy.is_held = True
            await publisher.publish(Envelope(f"flood/{n % 16}", b"x" * 4_000) for n in range(4_000))
            proxy.mend()
            until = time.monotonic() + 15
            while True:
                # What was full when the flood ended drops also what comes right after it.
                await publisher.publish([Envelope("flood/newest", b"")])
                if source.waiting and any(
                    each.topic == "flood/newest" for each in await source.take()
                ):
                    break
                assert time.monotonic() < until, "the newest message never came"
                await asyncio.sleep(0.1)
            lost = 4_000 - source.status.received
            return f"{lost:,} of 4,000 lost" if lost > 0 else "nothing lost"


async def half_open(stage: Stage) -> str:
    """The keepalive finds a dead connection, and the client reconnects."""
    password = stage.broker.password
    with TcpProxy(stage.broker.port) as proxy:
        url = dataclasses.replace(stage.broker.url, port=proxy.port)
        source = MqttSource(url, [("half/#", 1)], password=password, keepalive_s=1)
        publisher = MqttPublisher(stage.broker.url, client_id="half", password=password)
        async with running(source.run(), publisher.run()):
            await source.wait_connected(15)
            await publisher.wait_connected(15)
            proxy.is_held = True
            held = time.monotonic()
            await eventually(lambda: not source.status.connected, 10)
            found_s = time.monotonic() - held
            proxy.mend()
            await eventually(lambda: source.status.connected, 15)
            until = time.monotonic() + 15
            while not source.waiting:
                # On a busy machine a connection with so short a keepalive may be lost once more.
                assert time.monotonic() < until, "nothing comes over the new connection"
                await publisher.publish([Envelope("half/a", b"back", 1)])
                await asyncio.sleep(0.1)
            return f"after {found_s:.0f} s"


async def restart(stage: Stage) -> str:
    """Simulator and monitor return after a broker crash.

    A late monitor then has all, too.
    """
    async with stage.monitor() as (source, monitor):
        await eventually(lambda: is_whole(monitor), 40)
        await asyncio.to_thread(stage.broker.restart)
        began = time.monotonic()
        await eventually(lambda: source.status.connects > 1, 60)
        before = monitor.counts.messages
        await eventually(lambda: monitor.counts.messages > before + CHIPS and is_whole(monitor), 60)
        seconds = time.monotonic() - began
    async with stage.monitor() as (_, monitor):
        await eventually(lambda: is_whole(monitor), 40)
    return f"{seconds:.0f} s"


async def kept(stage: Stage) -> str:
    """Operators' messages survive a broker crash without a watch."""
    async with stage.monitor() as (_, monitor):
        await eventually(lambda: monitor.alerts.silences.count()[1] == 1, 5)
    return ""


CASES = (
    Case("version", "version spoken by itself", version),
    Case("late-monitor", "a late monitor has 192 of 192 chips, and the jobs", late_monitor),
    Case("late-reservations", "it has the reservations", late_reservations),
    Case("life", "status, record, replay to the broker", life),
    Case("operate", "inject and its reply; watch; an acknowledgement in two monitors", operate),
    Case("late-acknowledgement", "an acknowledgement in a late monitor", late_acknowledgement),
    Case("silence", "a silence in two monitors, one of them late", silence),
    Case("will", "last will of a killed simulator", will),
    Case(
        "silent-publisher",
        "last will of a client that stays silent, keepalive 1 s",
        silent_publisher,
    ),
    Case("refused-write", "a write that a user has no right to", refused_write),
    Case("oversize", "a message of 3 MB", oversize),
    Case("slow-consumer", "a reader that stops reading in a flood", slow_consumer),
    Case("half-open", "a reader's half-open connection, keepalive 1 s", half_open),
    Case("restart", "broker killed and started again", restart),
    Case("kept", "silences after that", kept),
)
AT_THE_END = frozenset(
    {"late-reservations", "late-acknowledgement", "slow-consumer", "restart", "kept"}
)
"""Cases run alone, after all others, in their order."""


class Result(NamedTuple):
    """What came of a case."""

    passed: bool
    text: str
    """What it returned, or why it failed."""


async def play(stage: Stage) -> dict[str, Result]:
    """Run all cases, most of them at once, and return results by name."""
    results: dict[str, Result] = {}
    turn = asyncio.Semaphore(stage.broker.at_once)

    async def run(case: Case) -> None:
        try:
            async with turn, asyncio.timeout(240):
                results[case.name] = Result(True, await case.run(stage))
        except (AssertionError, TimeoutError, TrnfleetError) as error:
            results[case.name] = Result(False, f"{type(error).__name__}: {error}")

    await asyncio.gather(*(run(case) for case in CASES if case.name not in AT_THE_END))
    for case in CASES:
        if case.name in AT_THE_END:
            await run(case)
    return results
