from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.simulation import BOOT, WALL_NS, SimulationRun

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, Publishing
from trnfleet.domain.scenario import Scenario
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.sharding import Shard
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAD_IN = 24
STRAGGLER = "c/us-0002/trn2u-0002-0/chip04"
FLEET: dict[str, Any] = {
    "name": "f",
    "clusters": [{"name": "c", "ultraservers": [{"count": 2}]}],
    "jobs": [
        {"kind": "training", "name": "train", "on": ["c/us-0001"], "step_time_s": 2.3},
        {"kind": "inference", "name": "serve", "on": ["c/us-0002"]},
    ],
    "stragglers": [{"chip": STRAGGLER, "slower_pct": 20.0}],
    "blocks": [{"on": ["c/us-0001"], "days": 14, "ends_after_days": 0}],
}
SCENARIO: dict[str, Any] = {
    "title": "Two faults",
    "faults": [
        {
            "fault": "ecc_corrected_storm",
            "target": "c/us-0001/trn2u-0001-0/chip05",
            "at": 0,
            "for": "20s",
        },
        {"fault": "runtime_crash", "target": "c/us-0001/trn2u-0001-3/chip09", "at": 3},
    ],
    "rates": {"acceleration": 40_000},
}
END = 30
"""Ticks after the start that are looked at."""


def engine(lead_in: int, *, shard: Shard | None = None, period_s: float = 1.0) -> Engine:
    fleet = validate(FLEET, FleetFile, "fleet.toml")
    scenario = validate(SCENARIO, Scenario, "scenario.toml")
    return Engine(
        fleet,
        7,
        period_s,
        to_ns(fleet.start),
        scenario=scenario,
        shard=Shard(1, 1) if shard is None else shard,
        lead_in=lead_in,
    )


def test_faults_begin_where_they_do_without_one() -> None:
    """A lead-in changes no fault or its second, and has no event before the start.

    Faults come from a scenario, a fleet file and rates.
    """
    with_one, without = engine(LEAD_IN), engine(0)
    for number in range(-LEAD_IN, 0):
        tick = with_one.step()
        assert (tick.number, tick.events, tick.allocations) == (number, (), ())
        assert tick.ts_ns == without.time_ns(0) + number * 10**9
    found, expected = (
        [event for _ in range(END) for event in each.step().events] for each in (with_one, without)
    )

    def faults(events: list[Any]) -> list[tuple[float, str, str]]:
        return [(each.time_s, each.path, each.name) for each in events if each.source != "job"]

    assert len(faults(expected)) > 4
    assert faults(found) == faults(expected)
    assert with_one.now_s == without.now_s == END - 1


def test_what_is_there_from_second_0_on_is_not_there_before() -> None:
    """A straggler without a begin is busier than its peers from tick 0 on, and not before."""
    made = engine(LEAD_IN)
    row = made.layout.find(STRAGGLER)
    assert row is not None
    busier = []
    for _ in range(LEAD_IN + 2):
        made.step()
        own = made.columns["engine_util_pct"][row.number - 4 : row.number + 1].sum(axis=1)
        busier.append(float(own[4] / np.median(own)))
    assert max(busier[:LEAD_IN]) < 1.1 < busier[-1]
    assert [block.state for block in made.account.blocks] == [
        block.state for block in _begun().account.blocks
    ]


def _begun() -> Engine:
    made = engine(0)
    made.step()
    return made


def test_the_fleet_is_in_operation_before_the_start() -> None:
    """Load, power and steps advance from tick to tick before the start."""
    made = engine(LEAD_IN)
    tokens = []
    powers = []
    steps = []
    for _ in range(LEAD_IN):
        tick = made.step()
        tokens.append(float(tick.figures["tokens_per_s"][1]))
        powers.append(made.columns["power_w"].copy())
        steps.append(int(made.columns["exec_completed"][0]))
    assert len(set(tokens)) == LEAD_IN
    assert all((first != second).any() for first, second in itertools.pairwise(powers))
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]


def test_a_shard_makes_its_part_of_the_same_lead_in() -> None:
    """Two shards' columns equal the whole fleet's bit by bit, before and after the start."""
    whole = engine(LEAD_IN)
    shards = [engine(LEAD_IN, shard=Shard(part, 2)) for part in (1, 2)]
    for _ in range(LEAD_IN + 3):
        whole.step()
        for each in shards:
            each.step()
    for name, column in whole.columns.items():
        parts: list[NDArray[Any]] = []
        for each in shards:
            rows = each.own
            if len(column) != len(whole.layout.instances):
                rows = range(
                    *(int(whole.layout.chip_start[edge]) for edge in (rows.start, rows.stop))
                )
            parts.append(each.columns[name][rows.start : rows.stop])
        np.testing.assert_array_equal(np.concatenate(parts), column, name)


def test_time_is_set_before_its_first_step_only() -> None:
    """A live run dates tick 0; after a step of the lead-in the date stands."""
    made = engine(LEAD_IN, period_s=2.0)
    assert made.now_s == -LEAD_IN * 2.0
    made.restart_at(WALL_NS)
    made.step()
    assert made.now_s == -LEAD_IN * 2.0
    assert made.time_ns(-LEAD_IN) == WALL_NS - LEAD_IN * 2 * 10**9
    with pytest.raises(RuntimeError, match="already made a step"):
        made.restart_at(WALL_NS)


async def test_the_same_publisher_goes_on_live() -> None:
    """Frames of the lead-in and live samples share one boot, without a gap.

    Numbers and times continue; tick 0 is published at once at the start.
    """
    stage = SimulationRun(engine(3), first_seq=3, publishing=Publishing(format="json"))
    await stage.run(5.0, ticks=2)
    twin = engine(3)
    twin.restart_at(stage.engine.start_ns)
    before = SimulationRun(twin, publishing=Publishing(format="cbor", granularity="instance"))
    heads = []
    for number, messages in before.simulation.live_through(3):
        classes = [parse_topic(each.topic).topic_class for each in messages]
        # Announced once, and with every tick its frames and jobs.
        assert classes.count(TopicClass.PUBLISHER) == (number == -3)
        assert classes.count(TopicClass.NODE) >= (8 if number == -3 else 0)
        assert classes.count(TopicClass.JOB) == 2
        frames = [
            each for each in messages if parse_topic(each.topic).topic_class is TopicClass.TELEMETRY
        ]
        assert len(frames) == 8
        head = FrameDecoder(STANDARD_COLUMNS, 16, 1).decode(frames[0].payload).head
        heads.append((head.boot, head.seq, head.ts_ns))
    path = parse_topic(stage.publisher.of(TopicClass.TELEMETRY)[0][1].topic).path
    for at_s, envelope in stage.publisher.of(TopicClass.TELEMETRY):
        if parse_topic(envelope.topic).path == path:
            head = decode_sample(envelope.payload).head
            heads.append((head.boot, head.seq, head.ts_ns))
            assert at_s == 100.0 + head.seq - 3
    assert stage.simulation.began_ns == WALL_NS
    assert heads == [(BOOT, 3 + number, WALL_NS + number * 10**9) for number in range(-3, 2)]
    assert not before.publisher.sent
    assert stage.simulation.published == 2


def test_a_step_through_all_of_it_ends_about_where_single_ticks_do() -> None:
    """One long step ends with about the steps, heat and counters of single ticks."""
    one = engine(60 + LEAD_IN)
    each = engine(60 + LEAD_IN)
    one.step(60 + LEAD_IN)
    each.step(60)
    for _ in range(LEAD_IN):
        each.step()
    first = one.step()
    second = each.step()
    np.testing.assert_allclose(
        first.figures["steps_completed"][0], second.figures["steps_completed"][0], atol=1
    )
    for name, tolerance in (
        ("temperature_c", 20),
        ("exec_completed", 400),
        ("mem_ecc_corrected", 0),
    ):
        np.testing.assert_allclose(
            one.columns[name].astype(np.float64),
            each.columns[name].astype(np.float64),
            atol=tolerance,
            err_msg=name,
        )
