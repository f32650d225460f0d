"""Capacity Blocks over a real Mosquitto: purchase to expiry, commands and refusals."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.programs import Program, run
from support.processes.waiting import running

from trnfleet.services.session import BrokerSession
from trnfleet.services.simulator.client import Command, Reply, send_command
from trnfleet.transport.mqtt import MqttSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.wire.ports import Envelope

pytestmark = pytest.mark.broker

EXPECTED = Path(__file__).parent / "expected" / "reservation-life.json"
FLEET = """
name = "blocks"
[[clusters]]
name = "uc1"
instances = [{ type = "trn2.48xlarge", count = 1 }]
[publish]
format = "cbor"
granularity = "instance"
"""
BLOCK = ("--instance-type", "trn2.48xlarge", "--days", "1", "--from", "2026-01-06T05:00:00Z")


@pytest.fixture
def demo(mosquitto: MosquittoProcess, tmp_path: Path) -> Iterator[Program]:
    options = ("--broker", str(mosquitto.url), "--fleet", "demo", "--start", "2026-01-05T09:00:00Z")
    with Program(tmp_path, "simulate", *options, "--allow-commands") as program:
        yield program


def reserve(mosquitto: MosquittoProcess, *arguments: str) -> CompletedProcess[str]:
    return run("reserve", *arguments, "--broker", str(mosquitto.url), "--timeout", "20s")


def as_json(result: CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


async def extend(mosquitto: MosquittoProcess, block_id: str) -> str:
    """Extend a block by a day and return the answer.

    Faster than a command's start, since an hour is a second here.
    """

    async def asked(action: str, **args: str | float) -> Reply:
        request = Command(action, "", dict(args))
        (answer,) = await send_command(
            BrokerSession(mosquitto.url), "blocks", request, timeout_s=20.0
        )
        assert answer.ok, answer.reason
        return answer

    offered = await asked("reserve_extension_offerings", block=block_id, days=1.0)
    (offering,) = offered.result["offerings"]
    return (await asked("reserve_extend", offering=offering["id"])).reason


def check_times(told: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Compare reported times with expected ones."""
    before: datetime | None = None
    for each, wanted in zip(told, expected, strict=True):
        at = datetime.fromisoformat(each["ts"])
        if "after_s" in wanted:
            assert before is not None
            assert at - before == timedelta(seconds=wanted["after_s"]), each
        elif wanted["at"] is not None:
            assert each["ts"] == wanted["at"], each
        assert before is None or at >= before
        before = at


async def test_a_life_from_purchase_to_expiry(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """Every state and event of a block's life comes once, in order, in time.

    Bought, delivered, extended, warned of, terminated and expired.
    """
    wanted = json.loads(EXPECTED.read_text())
    fleet = tmp_path / "blocks.toml"
    fleet.write_text(FLEET)
    options = ("--fleet", str(fleet), "--speed", "3600", "--start", "2026-01-05T18:00:00Z")
    topics = [("trnfleet/v1/blocks/reservation/#", 1), ("trnfleet/v1/blocks/event/#", 1)]
    source = MqttSource(mosquitto.url, topics)
    states: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []

    def sort(batch: list[Envelope]) -> None:
        for envelope in batch:
            message = json.loads(envelope.payload)
            (states if "/reservation/" in envelope.topic else events).append(message)

    async def until(state: str) -> None:
        async with asyncio.timeout(60):
            while not any(each["state"] == state for each in states):
                sort(await source.take())

    async with running(source.run()):
        await source.wait_connected(10)
        with Program(
            tmp_path, "simulate", "--broker", str(mosquitto.url), *options, "--allow-commands"
        ) as program:
            bought = await asyncio.to_thread(reserve, mosquitto, "buy", *BLOCK, "--yes", "--json")
            assert as_json(bought)["start"] == wanted["start"]
            await until("active")
            extended = await extend(mosquitto, states[0]["id"])
            assert "until 2026-01-07 11:30 UTC" in extended
            await until("expired")
            assert program.end() == 0
    assert len({each["id"] for each in states}) == 1
    assert [each["change"] for each in states] == list(range(len(wanted["states"])))
    told = [
        (
            each["state"],
            each["end"],
            each["extensions"][-1]["state"] if each["extensions"] else None,
        )
        for each in states
    ]
    assert told == [(each["state"], each["end"], each["extension"]) for each in wanted["states"]]
    check_times(states, wanted["states"])
    assert [(each["name"], each["detail_type"]) for each in events] == [
        (each["name"], each["detail_type"]) for each in wanted["events"]
    ]
    check_times(events, wanted["events"])
    assert {each["reservation"] for each in events} == {states[0]["id"]}


def test_planning_on_the_demo(mosquitto: MosquittoProcess, demo: Program) -> None:
    """Blocks are listed, offered, bought only with --yes, and extended, each with JSON."""
    assert demo.process.poll() is None
    listed = as_json(reserve(mosquitto, "list", "--json"))
    assert sorted(each["state"] for each in listed) == ["active"] * 5 + [
        "payment-pending",
        "scheduled",
    ]
    everything = as_json(reserve(mosquitto, "list", "--all", "--json"))
    assert [each["state"] for each in everything].count("expired") == 1
    wanted = ("--ultraserver", "--days", "7")
    offered = as_json(reserve(mosquitto, "offerings", *wanted, "--json"))
    assert len(offered) == 6
    assert {each["ultraserver_type"] for each in offered} == {"u-trn2x64"}
    # The days' end at which a block of the demo ends is the earliest start.
    assert {each["hours"] for each in offered} == {168.0}
    assert len({each["fee"] for each in offered}) == 1
    dry = reserve(mosquitto, "buy", *wanted)
    assert dry.stdout.startswith("would buy, with --yes:")
    assert len(as_json(reserve(mosquitto, "list", "--json"))) == 7
    bought = as_json(reserve(mosquitto, "buy", offered[1]["id"], "--yes", "--json"))
    assert (bought["state"], bought["fee"], bought["start"]) == (
        "payment-pending",
        offered[1]["fee"],
        offered[1]["start"],
    )
    block = next(each["id"] for each in listed if each["on"] == ["uc1/standalone/trn2-0003"])
    assert "would extend" in reserve(mosquitto, "extend", block, "--days", "2").stdout
    assert reserve(mosquitto, "extend", block, "--days", "2", "--yes").returncode == 0
    shown = reserve(mosquitto, "show", block).stdout
    assert "payment-pending: until" in shown
    assert "trn2.48xlarge" in reserve(mosquitto, "list").stdout


def test_reports(mosquitto: MosquittoProcess, demo: Program) -> None:
    """Status reports used and idle capacity; usage sums it over a period, as CSV."""
    assert demo.process.poll() is None
    broker = ("--broker", str(mosquitto.url))
    told = run("status", *broker, "--reservations", "--json")
    assert told.returncode in {0, 3}, told.stderr
    by_place = {
        tuple(each["on"]): each for each in json.loads(told.stdout) if each["state"] == "active"
    }
    assert len(by_place) == 5
    assert by_place["uc1/us-0001",]["used"] == 4
    idle = by_place["uc1/standalone/trn2-0004",]
    assert (idle["is_idle"], idle["idle_per_h"]) == (True, "35.7600")
    shown = run("status", *broker, "--reservations").stdout
    assert "▲ idle" in shown
    report = run("usage", *broker, "--for", "4s", "--every", "2s", "--id", idle["id"])
    lines = list(csv.DictReader(io.StringIO(report.stdout)))
    assert [line["reservation"] for line in lines] == [idle["id"]] * 2
    assert all(float(line["used_instance_h"]) == 0 < float(line["idle_fee"]) for line in lines)
    assert "0.00 used (0.0%)" in report.stderr
    causes = run("usage", *broker, "--for", "4s", "--by", "cause")
    shares = [float(line["pct"]) for line in csv.DictReader(io.StringIO(causes.stdout))]
    jobs = {line["job"] for line in csv.DictReader(io.StringIO(causes.stdout))}
    assert sum(shares) == pytest.approx(100.0 * len(jobs), abs=0.1)
    assert "idle reserved" in causes.stdout
    assert causes.stderr.startswith("goodput ")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("--instance-type", "trn2.48xlarge", "--days", "15"), "duration-in-days-then-weeks"),
        (
            ("--instance-type", "trn2.48xlarge", "--days", "1", "--instances", "65"),
            "at-most-64-instances-a-block",
        ),
        (("--instance-type", "trn2u.48xlarge", "--days", "1"), "sold-as-ultraserver"),
        (("--instance-type", "trn1n.32xlarge", "--days", "1"), "sold-as-capacity-block"),
        (
            ("--ultraserver", "--days", "1", "--from", "2026-06-01T00:00:00Z"),
            "starts-within-8-weeks",
        ),
        (("--ultraserver", "--days", "1", "--zone", "us-east-2b,us-east-2c"), "single-zone"),
    ],
)
def test_beyond_the_rules(
    mosquitto: MosquittoProcess, demo: Program, arguments: tuple[str, ...], rule: str
) -> None:
    """A purchase against the rules ends with status 1 and one line.

    It names the rule and the remedy.
    """
    assert demo.process.poll() is None
    refused = reserve(mosquitto, "buy", *arguments, "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"trnfleet: {rule}: ")
    assert refused.stderr.count("\n") == 1


def test_buying_has_to_be_allowed(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """Without --allow-commands offerings are told, and nothing is sold."""
    options = ("--broker", str(mosquitto.url), "--fleet", "demo", "--start", "2026-01-05T09:00:00Z")
    wanted = ("--ultraserver", "--days", "7")
    with Program(tmp_path, "simulate", *options):
        assert len(as_json(reserve(mosquitto, "offerings", *wanted, "--json"))) == 6
        refused = reserve(mosquitto, "buy", *wanted, "--yes")
    assert refused.returncode == 1
    assert "--allow-commands" in refused.stderr
