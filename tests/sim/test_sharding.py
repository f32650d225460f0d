from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.simulation import SimulationRun
from support.sim.tick_lines import stdout_lines

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, Publishing
from trnfleet.domain.scenario import Scenario
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.publish.telemetry import Include
from trnfleet.sim.sharding import Shard, own_instances, owns
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

PARTS = 4
FLEET: dict[str, Any] = {
    "name": "f",
    "clusters": [
        {
            "name": "c",
            "ultraservers": [{"count": 5}],
            "instances": [
                {"type": "trn2.48xlarge", "count": 3},
                {"type": "trn2.3xlarge", "count": 2, "first": 101},
            ],
        }
    ],
    "jobs": [
        {"kind": "training", "name": "across", "on": ["c/us-0001..us-0003"], "step_time_s": 2.3},
        {"kind": "inference", "name": "serve", "on": ["c/standalone/trn2-0001..trn2-0002"]},
    ],
}
SCENARIO: dict[str, Any] = {
    "title": "Something of everything",
    "faults": [
        {"fault": "straggler", "target": "c/us-0002/trn2u-0002-1/chip03", "at": 2},
        {"fault": "ecc_corrected_storm", "target": "c/us-0004/*/chip05", "at": 1},
        {
            "fault": "rack_overheat",
            "target": "c/us-0001/trn2u-0001-0",
            "at": 1,
            "for": "10m",
            "magnitude": 45.0,
        },
        {"fault": "agent_silent", "target": "c/us-0005/trn2u-0005-2", "at": 3, "for": 4},
        {"fault": "runtime_crash", "target": "c/us-0003/trn2u-0003-3/chip09", "at": 6},
    ],
}


def make(shard: Shard, period_s: float = 5.0) -> Engine:
    fleet = validate(FLEET, FleetFile, "fleet.toml")
    scenario = validate(SCENARIO, Scenario, "scenario.toml")
    return Engine(fleet, 11, period_s, to_ns(fleet.start), scenario=scenario, shard=shard)


def shards() -> Iterator[Engine]:
    return (make(Shard(number, PARTS)) for number in range(1, PARTS + 1))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 10, 40])
def test_shards_cover_every_instance_once(count: int) -> None:
    """Any number of shards covers the fleet without gaps or a cut UltraServer."""
    layout = make(Shard()).layout
    parts = [own_instances(layout, Shard(number, count)) for number in range(1, count + 1)]
    assert [instance for part in parts for instance in part] == list(range(len(layout.instances)))
    assert all(_begins_whole(layout, part.start) for part in parts)
    assert sum(1 for part in parts if not part) == max(0, count - 10)


def _begins_whole(layout: Layout, instance: int) -> bool:
    return (
        instance == len(layout.instances)
        or layout.instances[instance].endswith(("-0",))
        or "standalone" in layout.instances[instance]
    )


def test_an_event_belongs_to_the_shard_with_its_first_instance() -> None:
    """Every address belongs to one shard, the fleet's own to the first."""
    layout = make(Shard()).layout
    parts = [own_instances(layout, Shard(number, PARTS)) for number in range(1, PARTS + 1)]
    for path in ("", "c", "c/us-0003", "c/us-0003/trn2u-0003-2", "c/standalone/trn2-0003/chip07"):
        assert sum(owns(layout, part, path) for part in parts) == 1
    assert owns(layout, parts[0], "")


def test_lines_of_shards_are_those_of_the_whole() -> None:
    """The merged, sorted lines of four shards equal the whole run's byte for byte.

    This includes telemetry, events and jobs.
    """
    kinds = set(Include)
    whole = sorted(stdout_lines(make(Shard()), ticks=40, include=kinds))
    merged = sorted(
        line for engine in shards() for line in stdout_lines(engine, ticks=40, include=kinds)
    )
    assert len(whole) > 40 * 300
    assert any(b'"severity"' in line for line in whole)
    assert merged == whole


async def _published(engine: Engine, publishing: Publishing) -> list[tuple[str, bytes]]:
    stage = SimulationRun(engine, publishing=publishing)
    await stage.run(200.0, ticks=16)
    return [
        (envelope.topic, envelope.payload)
        for _, envelope in stage.publisher.of(TopicClass.TELEMETRY)
    ]


@pytest.mark.parametrize(
    "publishing",
    [
        Publishing(),
        Publishing(format="cbor", granularity="instance"),
        Publishing(format="cbor", granularity="ultraserver"),
    ],
    ids=["chip", "instance", "ultraserver"],
)
async def test_messages_of_shards_are_those_of_the_whole(publishing: Publishing) -> None:
    """Topics and payloads of four shards equal the whole run's, in JSON and frames.

    Byte for byte.
    """
    whole = Counter(await _published(make(Shard()), publishing))
    merged = Counter([each for engine in shards() for each in await _published(engine, publishing)])
    assert merged == whole


async def _decoded(engine: Engine) -> dict[tuple[int, str, str], NDArray[Any]]:
    """Return a run's blocks as values by tick, instance and metric.

    A chip metric has the values of all the instance's chips.
    """
    stage = SimulationRun(
        engine, publishing=Publishing(format="cbor", granularity="block", block_ultraservers=2)
    )
    await stage.run(200.0, ticks=16)
    described = {
        parse_topic(envelope.topic).path: decode_message(envelope.payload, Descriptor)
        for _, envelope in stage.publisher.of(TopicClass.NODE)
    }
    types = {kind.name: kind for kind in engine.layout.types}
    values: dict[tuple[int, str, str], NDArray[Any]] = {}
    for _, envelope in stage.publisher.of(TopicClass.TELEMETRY):
        spec = described[parse_topic(envelope.topic).path]
        chips = [types[each.type].chips for each in spec.instances]
        frame = FrameDecoder(spec.columns, sum(chips), len(chips)).decode(envelope.payload)
        for number, each in enumerate(spec.instances):
            rows = slice(sum(chips[:number]), sum(chips[: number + 1]))
            for name, column in frame.chip.items():
                values[frame.head.seq, each.path, name] = column[rows]
            for name, column in frame.instance.items():
                values[frame.head.seq, each.path, name] = column[number]
    return values


async def test_blocks_of_shards_hold_what_the_whole_holds() -> None:
    """Blocks are cut elsewhere by shards, under names of their own; decoded they are equal."""
    whole = await _decoded(make(Shard()))
    merged: dict[tuple[int, str, str], NDArray[Any]] = {}
    for engine in shards():
        part = await _decoded(engine)
        assert not merged.keys() & part.keys()
        merged |= part
    assert merged.keys() == whole.keys()
    assert all(np.array_equal(merged[key], whole[key]) for key in whole)
