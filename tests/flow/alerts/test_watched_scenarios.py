"""Alerts of each scenario on the broker, with simulator, Mosquitto and watch as processes.

The scenarios run in parallel at fifteen times the speed, in coarse ticks: three without telemetry
are silence, and a busy machine must not seem silent. An instant is exact to two evaluations of the
watch. Every scenario is played in memory in test_alert_scenarios, and so is a day without faults.
The suite plays a few of them here, and `make long` the others and the day.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.processes.mosquitto import MISSING, MosquittoProcess
from support.processes.programs import Program
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.config import shipped_names
from trnfleet.transport.embedded import mosquitto_program
from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.messages import decode_message

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

EXPECTED = Path(__file__).parent / "expected"
SPEED = 15.0
EVALUATION_S = 1.0
"""The longest time between two evaluations, of the wall clock; most come after 0.2 s."""
LISTENS_S = 60.0
"""Simulated time of a watch's first learning."""
START = "2026-01-05T09:00:00Z"
LEARNS = frozenset({"job-slow", "efa-cliff"})
"""Rules comparing a job with its own past. A watch learns it sooner by evaluating between ticks,
and later on a busy machine."""
LEARNING_S = 150.0
AT_ONCE = 4 * (os.cpu_count() or 1)
DAY = "a simulated day"
IN_THE_SUITE = ("inference-day", "job-crash", "rack-overheat")
"""A day with a surge, a failing job, and inhibiting alerts. At this speed on a busy machine a watch
learns too little of the game day's jobs to go on reporting them as slow."""


class Play(NamedTuple):
    """How a scenario is played."""

    scenario: str
    seconds: float
    """Simulated."""
    period_s: float
    """Wall."""
    speed: float
    start: str = START


def plays() -> dict[str, Play]:
    """Return how each scenario is played."""
    made = {DAY: Play("steady-training", 86_400, 0.15, 2_000)}
    for name in shipped_names("scenarios"):
        expected = json.loads((EXPECTED / f"{name}.json").read_text())
        if name == "inference-day":
            made[name] = Play(name, 86_400, 0.2, 300 / 0.2, "2026-07-14T00:00:00Z")
        else:
            # A straggler that comes for 20 s and goes must be seen.
            speed, seconds = (
                (SPEED / 2, 460) if name == "straggler-hunt" else (SPEED, expected["seconds"])
            )
            made[name] = Play(name, seconds, expected["coarse_tick_s"] / speed, speed)
    return made


class Heard(NamedTuple):
    """How an alert fired and resolved, seconds after the start."""

    rule: str
    target: str
    fires: float
    resolves: float | None


def scenarios() -> list[object]:
    """Return the shipped scenarios, marked long if not in the suite."""
    names = shipped_names("scenarios")
    return [
        name if name in IN_THE_SUITE else pytest.param(name, marks=pytest.mark.long)
        for name in names
    ]


def selected(request: pytest.FixtureRequest) -> set[str]:
    """Return the scenarios of the selected tests in this module."""
    here = [item for item in request.session.items if item.path == Path(__file__)]
    calls = [
        item.callspec
        for item in here
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    named = {str(call.params["name"]) for call in calls}
    return named | {DAY for item in here if not hasattr(item, "callspec")}


@pytest.fixture(scope="module")
def heard(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[Heard]]]:
    """Play the selected tests' scenarios, and return each one's alerts on the broker."""
    if mosquitto_program() is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("watched")
    broker = MosquittoProcess(folder)
    broker.start()
    try:
        yield asyncio.run(_play_all(broker, folder, selected(request)))
    finally:
        broker.kill()


async def _play_all(
    broker: MosquittoProcess, folder: Path, names: set[str]
) -> dict[str, list[Heard]]:
    turns = asyncio.Semaphore(AT_ONCE)
    collected: dict[str, dict[tuple[str, str], AlertMessage]] = {}

    async def collect(source: MqttSource) -> None:
        while batch := await source.take():
            for envelope in batch:
                if envelope.payload:
                    message = decode_message(envelope.payload, AlertMessage)
                    collected.setdefault(envelope.topic.split("/")[2], {})[
                        message.fingerprint, message.fired
                    ] = message

    async def play(number: int, each: Play) -> list[Heard]:
        async with turns:
            fleet = f"played-{number}"
            await _play(broker, folder, fleet, each)
            start_ns = parse_rfc3339(each.start)
            return sorted(
                Heard(
                    message.rule,
                    message.target,
                    (parse_rfc3339(message.fired) - start_ns) / NS_PER_S,
                    (
                        None
                        if message.resolved is None
                        else (parse_rfc3339(message.resolved) - start_ns) / NS_PER_S
                    ),
                )
                for message in collected.get(fleet, {}).values()
            )

    source = MqttSource(broker.url, [("trnfleet/v1/+/alert/#", 1)])
    async with running(source.run(), collect(source)):
        await source.wait_connected(10)
        # The longest first, so that none is left over at the end.
        wanted = {name: play for name, play in plays().items() if name in names}
        order = sorted(wanted.items(), key=lambda pair: -pair[1].seconds / pair[1].speed)
        results = await asyncio.gather(
            *(play(number, each) for number, (_, each) in enumerate(order))
        )
    return {name: result for (name, _), result in zip(order, results, strict=True)}


async def _play(broker: MosquittoProcess, folder: Path, fleet: str, each: Play) -> None:
    """Run a watch, and a simulator to the end of its play.

    The watch is ended before the simulator's goodbye matters.
    """
    to = ("--broker", str(broker.url), "--name", fleet)
    ticks = round(each.seconds / (each.period_s * each.speed))
    with Program(folder, "watch", *to) as watch:
        for _ in range(300):
            if "watching" in watch.output:
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(2.5)
        simulate = (
            "simulate",
            *to,
            "--scenario",
            each.scenario,
            "--seed",
            "7",
            "--format",
            "cbor",
            "--granularity",
            "instance",
            "--period",
            f"{each.period_s}s",
            "--speed",
            str(each.speed),
            "--start",
            each.start,
            "--duration",
            f"{ticks * each.period_s}s",
            "--client-id",
            f"sim-{fleet}",
        )
        with Program(folder, *simulate) as simulator:
            await asyncio.to_thread(simulator.process.wait)
        await asyncio.to_thread(watch.end)


@pytest.mark.long
def test_a_day_without_faults_is_quiet(heard: dict[str, list[Heard]]) -> None:
    """A simulated day of steady training makes no notification until the simulator leaves."""
    day = plays()[DAY]
    assert [each for each in heard[DAY] if each.fires < day.seconds] == []


@pytest.mark.parametrize("name", scenarios())
def test_watched_scenario(heard: dict[str, list[Heard]], name: str) -> None:
    """Name, target, first firing and end of each alert fit within two evaluations."""
    expected = json.loads((EXPECTED / f"{name}.json").read_text())
    played = plays()[name]
    tolerance_s = 2 * EVALUATION_S * played.speed
    until_s = played.seconds - tolerance_s
    left = list(heard[name])
    missed: list[dict[str, Any]] = []
    for row in expected["coarse_alerts"]:
        hit = next((each for each in left if fits(row, each, tolerance_s, until_s)), None)
        if hit is not None:
            left.remove(hit)
        elif (
            row["fires"] < until_s
            and not is_open(row["rule"], row["fires"])
            and not is_short(row, tolerance_s)
            and not any(has_begun(row, each) for each in left)
        ):
            missed.append(row)
    surplus = [each for each in left if each.fires < until_s and not is_open(each.rule, each.fires)]
    assert (missed, surplus) == ([], []), heard[name]


def is_short(row: dict[str, Any], tolerance_s: float) -> bool:
    """Return whether an alert can come and go between two evaluations of a busy machine."""
    return row["resolves"] is not None and row["resolves"] - row["fires"] < tolerance_s


def is_open(rule: str, fires: float) -> bool:
    """Return whether an alert may or may not fire.

    True in the first minutes for rules learning a job's usual values.
    """
    return rule in LEARNS and fires < LEARNING_S


def has_begun(row: dict[str, Any], heard: Heard) -> bool:
    """Return whether an alert fires already, since a job's usual values were learned late."""
    return (
        (row["rule"], row["target"]) == (heard.rule, heard.target)
        and is_open(heard.rule, heard.fires)
        and (heard.resolves is None or heard.resolves > row["fires"])
    )


def fits(row: dict[str, Any], heard: Heard, tolerance_s: float, until_s: float) -> bool:
    """Return whether an alert is the expected one.

    It has the same rule and target, at about the same instants.
    """
    if (row["rule"], row["target"]) != (heard.rule, heard.target):
        return False
    learns_s = LISTENS_S if row["rule"] in LEARNS else 0.0
    listens_s = LISTENS_S if row["fires"] == 0 else 0.0
    off_s = heard.fires - row["fires"]
    if not -(learns_s + tolerance_s) <= off_s <= tolerance_s + max(learns_s, listens_s):
        return False
    if row["resolves"] is None or row["resolves"] > until_s:
        return heard.resolves is None or heard.resolves > until_s
    return heard.resolves is not None and abs(heard.resolves - row["resolves"]) <= tolerance_s
