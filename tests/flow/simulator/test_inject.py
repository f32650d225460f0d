"""Commands to a running simulator over a real Mosquitto: effects, replies, refusals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.paths import ROOT
from support.processes.programs import Program, run
from support.processes.waiting import running, take_until

from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.errors import BrokerError
from trnfleet.services.session import BrokerSession
from trnfleet.services.simulator.client import Command, send_command
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.wire.ports import Envelope, MessageProperties

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

PREFIX = "trnfleet/v1/demo"
CHIP = "uc1/us-0001/trn2u-0001-2/chip05"
OTHER = "uc1/us-0001/trn2u-0001-2/chip06"
SENTINEL = "uc1/us-0002/trn2u-0002-1/chip01"


def simulate(mosquitto: MosquittoProcess, folder: Path, *more: str) -> Program:
    options = (
        "--broker",
        str(mosquitto.url),
        "--fleet",
        "demo",
        "--seed",
        "7",
        "--client-id",
        "sim-1",
    )
    return Program(folder, "simulate", *options, *more)


@pytest.fixture
def willing(mosquitto: MosquittoProcess, tmp_path: Path) -> Iterator[Program]:
    with simulate(mosquitto, tmp_path, "--allow-commands") as program:
        wait_until_it_listens(mosquitto)
        yield program


def wait_until_it_listens(mosquitto: MosquittoProcess) -> None:
    """Repeat a command until a simulator replies.

    A command before its subscription is lost.
    """
    until = time.monotonic() + 60
    asking = (
        "inject",
        "--active",
        "--broker",
        str(mosquitto.url),
        "--name",
        "demo",
        "--timeout",
        "2s",
    )
    while (answer := run(*asking)).returncode != 0:
        assert time.monotonic() < until, answer.stderr


def inject(mosquitto: MosquittoProcess, *arguments: str) -> Any:
    return run(
        "inject", *arguments, "--broker", str(mosquitto.url), "--timeout", "20s", "--name", "demo"
    )


def command(**change: Any) -> bytes:
    """Return a good command as bytes, changed."""
    good = {
        "id": "c-1",
        "client": "probe",
        "action": "inject",
        "target": CHIP,
        "args": {"fault": "chip_throttle"},
        "expires": format_rfc3339(SystemClock().wall_ns() + 30 * NS_PER_S),
    }
    return json.dumps(good | change).encode()


class Wire:
    """All messages of a simulator and its commanders, in order, and a way to publish."""

    def __init__(self, source: MqttSource, publisher: MqttPublisher) -> None:
        self._source = source
        self._publisher = publisher
        self.heard: list[Envelope] = []

    async def hear(self, enough: Any, within_s: float = 30) -> None:
        """Listen until what was heard is enough."""
        first = len(self.heard)
        if not enough(self.heard):
            taken = await take_until(
                self._source, lambda new: enough(self.heard[:first] + new), within_s
            )
            self.heard = self.heard[:first] + taken

    async def say(self, payload: bytes, path: str = "fleet", *, retain: bool = False) -> None:
        """Publish a command."""
        await self._publisher.publish([Envelope(f"{PREFIX}/command/{path}", payload, 1, retain)])

    async def wait_for_ticks(self, count: int = 1) -> None:
        """Listen until a chip has published `times` more messages."""
        known = len(self.of(f"telemetry/{SENTINEL}"))
        await self.hear(lambda heard: len(of(heard, f"telemetry/{SENTINEL}")) >= known + count)

    async def finish(self) -> None:
        """Cause one more fault, and wait until it shows.

        Earlier commands have had their effect then.
        """
        await self.say(command(id="last", target=SENTINEL))
        await self.hear(lambda heard: begun(heard, SENTINEL))
        await self.wait_for_ticks(2)

    def of(self, below: str) -> list[dict[str, Any]]:
        """Return the messages on a topic and below it."""
        return of(self.heard, below)


def of(heard: list[Envelope], below: str) -> list[dict[str, Any]]:
    topic = f"{PREFIX}/{below}"
    return [
        json.loads(each.payload)
        for each in heard
        if each.topic == topic or each.topic.startswith(topic + "/")
    ]


def begun(heard: list[Envelope], path: str, fault: str = "chip_throttle") -> list[dict[str, Any]]:
    """Return the events of a fault's start at a path."""
    return [event for event in of(heard, f"event/{path}") if event["name"] == fault]


@pytest.fixture
async def wire(mosquitto: MosquittoProcess) -> AsyncIterator[Wire]:
    source = MqttSource(mosquitto.url, [("#", 1)])
    publisher = MqttPublisher(mosquitto.url, client_id="probe")
    async with running(source.run(), publisher.run()):
        await source.wait_connected(5)
        await publisher.wait_connected(5)
        yield Wire(source, publisher)


async def test_the_effect_is_on_the_wire_within_two_periods(
    mosquitto: MosquittoProcess, willing: Program, wire: Wire
) -> None:
    """The chip's second message after the reply shows the fault, and an event reports it."""
    assert willing.process.poll() is None
    await wire.wait_for_ticks()
    before = wire.of(f"telemetry/{CHIP}")[-1]["links_up"]
    answers = await send_command(
        BrokerSession(mosquitto.url),
        "demo",
        Command("inject", f"{CHIP}:east", {"fault": "link_down", "for_s": 300.0}),
        timeout_s=20,
    )
    assert [(answer.simulator, answer.ok) for answer in answers] == [("sim-1", True)]
    assert "link_down" in answers[0].reason
    assert CHIP in answers[0].reason
    await wire.hear(lambda heard: of(heard, "reply"))
    answered = next(number for number, each in enumerate(wire.heard) if "/reply/" in each.topic)
    await wire.hear(lambda heard: len(of(heard[answered:], f"telemetry/{CHIP}")) >= 2)
    after = [message["links_up"] for message in of(wire.heard[answered:], f"telemetry/{CHIP}")]
    assert before not in after[1:2], (before, after)
    assert begun(wire.heard, CHIP, "link_down")


def test_inject_says_what_was_done(mosquitto: MosquittoProcess, willing: Program) -> None:
    """The command finds the only fleet, prints simulator and effect, and exits with 0.

    As text or as JSON.
    """
    assert willing.process.poll() is None
    first = inject(mosquitto, "chip_throttle", CHIP, "--for", "5m")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.count("\n") == 1
    assert "sim-1" in first.stdout
    assert "chip_throttle" in first.stdout
    found = run("inject", "link_down", f"{OTHER}:east", "--json", "--broker", str(mosquitto.url))
    assert found.returncode == 0, found.stderr
    (answer,) = json.loads(found.stdout)
    assert (answer["simulator"], answer["ok"]) == ("sim-1", True)
    listed = inject(mosquitto, "--list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "chip_throttle" in {fault["name"] for fault in json.loads(listed.stdout)["faults"]}
    assert "command_carried_out" in willing.output


async def test_without_leave_it_is_refused(
    mosquitto: MosquittoProcess, tmp_path: Path, wire: Wire
) -> None:
    """A simulator without --allow-commands refuses in one line, and does nothing."""
    with simulate(mosquitto, tmp_path):
        await wire.wait_for_ticks()
        refused = await asyncio.to_thread(inject, mosquitto, "chip_throttle", CHIP)
        assert refused.returncode == 1
        assert "--allow-commands" in refused.stderr
        assert refused.stderr.count("\n") == 1
        await wire.wait_for_ticks(2)
        assert begun(wire.heard, CHIP) == []


def test_unknown_faults_and_targets_name_the_nearest(
    mosquitto: MosquittoProcess, willing: Program
) -> None:
    """An unknown fault is refused before sending, a target by the simulator.

    Both name the nearest.
    """
    assert willing.process.poll() is None
    fault = run("inject", "chip_throtle", CHIP, "--broker", "mqtt://127.0.0.1:1")
    assert fault.returncode == 2
    assert "did you mean 'chip_throttle'" in fault.stderr
    target = inject(mosquitto, "chip_throttle", "uc1/us-0001/trn2u-0001-22/chip05")
    assert target.returncode == 1
    assert "trn2u-0001-2" in target.stderr
    assert target.stderr.count("\n") == 1


async def test_the_simulator_knows_its_faults_too(willing: Program, wire: Wire) -> None:
    """A client without checks receives the nearest fault from the simulator."""
    assert willing.process.poll() is None
    await wire.wait_for_ticks()
    await wire.say(command(args={"fault": "chip_throtle"}))
    await wire.hear(lambda heard: of(heard, "reply/probe"))
    (reply,) = wire.of("reply/probe")
    assert not reply["ok"]
    assert "did you mean 'chip_throttle'" in reply["reason"]


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_expired_repeated_and_retained_commands_do_nothing(
    mosquitto: MosquittoProcess, tmp_path: Path, wire: Wire, protocol: str
) -> None:
    """A command has at most one effect.

    An expired or retained one has none.
    """
    await wire.say(command(id="retained", target=OTHER), retain=True)
    with simulate(mosquitto, tmp_path, "--allow-commands", "--mqtt", protocol) as simulator:
        await asyncio.to_thread(wait_until_it_listens, mosquitto)
        now_ns = SystemClock().wall_ns()
        await wire.say(
            command(id="expired", target=OTHER, expires=format_rfc3339(now_ns - NS_PER_S))
        )
        await wire.say(
            command(id="endless", target=OTHER, expires=format_rfc3339(now_ns + 7_200 * NS_PER_S))
        )
        for _ in range(3):
            await wire.say(command(id="once"))
        await wire.finish()
        assert len(begun(wire.heard, CHIP)) == 1
        assert begun(wire.heard, OTHER) == []
        replies = {reply["id"]: reply for reply in wire.of("reply/probe")}
        assert {name: reply["ok"] for name, reply in replies.items()} == {
            "expired": False,
            "endless": False,
            "once": True,
            "last": True,
        }
        assert "expired" in replies["expired"]["reason"]
        assert len(wire.of("reply/probe/once")) == 1
        assert '"retained"' in simulator.output


async def test_nothing_is_published_outside_reply(willing: Program, wire: Wire) -> None:
    """Ids and clients leading elsewhere get no reply.

    Garbage is counted and stops nothing.
    """
    assert willing.process.poll() is None
    await wire.wait_for_ticks()
    for change in (
        {"id": "../../telemetry/escaped"},
        {"id": "escaped/deeper"},
        {"client": "../publisher/escaped"},
        {"client": "escaped\u0000"},
        {"client": "#"},
        {"id": "\u202e\u001b[2Jescaped"},
    ):
        await wire.say(command(target=OTHER, **change))
    await wire.say(b"\xff" * 100)
    await wire.say(b"x" * 100_000)
    await wire.finish()
    assert begun(wire.heard, OTHER) == []
    published = [each.topic for each in wire.heard if "/command/" not in each.topic]
    assert not any("escaped" in topic for topic in published)
    assert [topic for topic in published if "/reply/" in topic] == [f"{PREFIX}/reply/probe/last"]
    assert all(line.isascii() and line.isprintable() for line in willing.output.splitlines())


def test_mosquitto_rr_asks_and_is_answered(
    willing: Program, mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """The documentation's shell example is carried out and answered on its response topic."""
    assert willing.process.poll() is None
    page = (ROOT / "docs" / "wire.md").read_text()
    (example,) = re.findall(r"```sh\n([^`]*mosquitto_rr [^`]*)```", page)
    # The client's own settings have the broker; the options behind show what it gets.
    address = f"-h {mosquitto.url.host}\n-p {mosquitto.url.port}\n"
    (tmp_path / "mosquitto_rr").write_text(address)
    shown = "-D publish correlation-data c-42 -F '%t %D %p'"
    answer = subprocess.run(
        ["sh", "-c", f"{example.rstrip()} {shown}"],
        env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    topic, correlation, payload = answer.stdout.split(" ", 2)
    assert (topic, correlation) == (f"{PREFIX}/reply/rr/any", "c-42")
    assert json.loads(payload)["ok"] is True


async def test_a_command_that_comes_too_late_is_let_go_by_the_broker(
    mosquitto: MosquittoProcess,
) -> None:
    """A command has an MQTT 5 expiry, and response topic and id beside its payload."""
    source = MqttSource(mosquitto.url, [(f"{PREFIX}/command/#", 1)])
    async with running(source.run()):
        await source.wait_connected(5)
        with pytest.raises(BrokerError, match="no simulator"):
            await send_command(
                BrokerSession(mosquitto.url), "demo", Command("rebirth"), timeout_s=0.3
            )
        (taken,) = await take_until(source, bool)
    asked = json.loads(taken.payload)
    assert taken.properties == MessageProperties(
        (), f"{PREFIX}/reply/{asked['client']}/{asked['id']}", asked["id"].encode(), 1
    )


async def test_nobody_answers(mosquitto: MosquittoProcess) -> None:
    """Without a simulator the command ends with one line about the missing reply."""
    with pytest.raises(BrokerError, match=r"no simulator of fleet 'demo' answered within 0\.3 s"):
        await send_command(
            BrokerSession(mosquitto.url),
            "demo",
            Command("rebirth"),
            timeout_s=0.3,
        )


def test_nobody_to_ask(mosquitto: MosquittoProcess) -> None:
    """No answer and no broker are each explained in one line, with exit status 1."""
    silent = run(
        "inject",
        "chip_throttle",
        CHIP,
        "--broker",
        str(mosquitto.url),
        "--name",
        "demo",
        "--timeout",
        "300ms",
    )
    assert silent.returncode == 1
    assert silent.stderr.count("\n") == 1
    assert "no simulator" in silent.stderr
    nothing = run(
        "inject", "chip_throttle", CHIP, "--broker", "mqtt://127.0.0.1:1", "--name", "demo"
    )
    assert nothing.returncode == 1
    assert "refused" in nothing.stderr
