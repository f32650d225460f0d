"""The lead-in of the demo's simulator, as a recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.simulation import Recorder

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.errors import ConfigError
from trnfleet.record.read.recording import Recording
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.lead_in import (
    MOST_CHIPS,
    SETTLING_TICKS,
    LeadIn,
    lead_in_ticks,
)
from trnfleet.services.simulator.run import Run
from trnfleet.sim.publish.service import Simulation
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.sim.engine import Engine
    from trnfleet.wire.ports import Stored

WALL_NS = 1_767_600_000_250_000_000
BOOT = "00112233aabbccdd"


def fleet(instances: int = 2, **rest: Any) -> FleetFile:
    cluster = {"name": "c", "instances": [{"type": "trn2.48xlarge", "count": instances}]}
    job = {"kind": "training", "name": "train", "on": ["c/standalone/trn2-0001"]}
    return validate(
        {"name": "f", "clusters": [cluster], "jobs": [job]} | rest, FleetFile, "fleet.toml"
    )


class Demo:
    """A simulator without listeners, and its lead-in."""

    def __init__(
        self, path: Path, ticks: int, *, speed: float = 1.0, wall_ns: int = WALL_NS
    ) -> None:
        model = fleet()
        run = Run(path, model, None, None, 7, 1.0, speed, None)

        def make() -> Engine:
            return make_engine(run, model, lead_in=ticks + SETTLING_TICKS)

        self.clock = ManualClock(wall_ns, 100.0)
        self.publisher = Recorder(self.clock)
        self.simulation = Simulation(
            make(),
            self.publisher,
            clock=self.clock,
            client_id="sim-1",
            boot=BOOT,
            speed=speed,
            first_seq=ticks,
        )
        self.lead_in = LeadIn(
            self.simulation,
            make,
            run,
            path,
            clock=self.clock,
            client_id="sim-1",
            boot=BOOT,
            root="trnfleet",
        )

    async def run(self) -> None:
        """Publish a few ticks, and record beside them."""
        recording = asyncio.create_task(self.lead_in.run())
        publishing = asyncio.create_task(self.simulation.run(ticks=3))
        for _ in range(8):
            await self.clock.advance(0.5)
        await recording
        await publishing


def files(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def read(path: Path) -> list[Stored]:
    recording = Recording.open([path])
    try:
        return list(recording.read(recording.start_ns - 1, recording.end_ns))
    finally:
        recording.close()


@pytest.mark.parametrize(
    ("period_s", "ticks"), [(1.0, 300), (0.1, 300), (2.0, 150), (60.0, 5), (299.0, 1), (301.0, 0)]
)
def test_it_has_five_minutes_and_300_ticks_at_most(period_s: float, ticks: int) -> None:
    assert lead_in_ticks(fleet(), period_s) == ticks


def test_a_large_fleet_has_none() -> None:
    assert lead_in_ticks(fleet(MOST_CHIPS // 16), 1.0) == 300
    assert lead_in_ticks(fleet(MOST_CHIPS // 16 + 1), 1.0) == 0


@pytest.mark.parametrize("speed", [1.0, 20.0])
async def test_its_messages_lie_before_the_start(tmp_path: Path, speed: float) -> None:
    """Each wall clock tick has its frames and jobs at its time.

    The last one is a period before tick 0.
    """
    path = tmp_path / "lead-in.mcap"
    await Demo(path, 20, speed=speed).run()
    assert files(tmp_path) == [path.name]
    stored = read(path)
    times = {each.time_ns for each in stored}
    assert times == {WALL_NS + number * NS_PER_S for number in range(-20, 0)}
    of = [parse_topic(each.envelope.topic).topic_class for each in stored]
    assert of.count(TopicClass.TELEMETRY) == 20 * 2
    assert of.count(TopicClass.JOB) == 20
    assert of[:3] == [TopicClass.PUBLISHER, TopicClass.NODE, TopicClass.NODE]


async def test_the_first_tick_does_not_wait_for_it(tmp_path: Path) -> None:
    """Tick 0 goes out at the start, and the recording is begun after it."""
    demo = Demo(tmp_path / "lead-in.mcap", 20)
    recording = asyncio.create_task(demo.lead_in.run())
    publishing = asyncio.create_task(demo.simulation.run(ticks=1))
    await demo.clock.advance(0.0)
    assert demo.simulation.published == 1
    assert {at_s for at_s, _ in demo.publisher.of(TopicClass.TELEMETRY)} == {100.0}
    assert not files(tmp_path)
    recording.cancel()
    await publishing


async def test_what_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """With a missing folder nothing is recorded, and nothing is raised."""
    demo = Demo(tmp_path / "gone" / "lead-in.mcap", 2)
    await demo.run()
    assert demo.simulation.published == 3
    assert not files(tmp_path)


async def test_what_is_half_made_is_deleted(tmp_path: Path) -> None:
    """A recording is deleted if it cannot be moved to its place."""
    path = tmp_path / "lead-in.mcap"
    (path / "something").mkdir(parents=True)
    demo = Demo(path, 2)
    await demo.run()
    assert demo.simulation.published == 3
    assert files(tmp_path) == [path.name]


async def test_files_that_are_wrong_by_now_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace that was deleted since the start: the simulator goes on without a lead-in."""
    demo = Demo(tmp_path / "lead-in.mcap", 2)

    def make() -> Engine:
        raise ConfigError("load.csv: No such file or directory")

    monkeypatch.setattr(demo.lead_in, "_make", make)
    await demo.run()
    assert demo.simulation.published == 3
    assert not files(tmp_path)


async def test_there_is_none_before_1970(tmp_path: Path) -> None:
    """No message can have such a time: the simulator goes on without a lead-in."""
    demo = Demo(tmp_path / "lead-in.mcap", 20, wall_ns=19 * NS_PER_S)
    await demo.run()
    assert demo.simulation.published == 3
    assert not files(tmp_path)
