from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.block_fleets import DAY_S, END_S, TRAINING, ULTRASERVER, demo, engine_of, small
from support.sim.simulation import BOOT, SimulationRun
from support.sim.tick_lines import stdout_lines

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.reservations.rules import RuleViolation
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.reservations.states import BlockState, InterconnectStatus
from trnfleet.errors import ConfigError
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.publish.telemetry import Include, ShardMessages
from trnfleet.sim.reservations.messages import answer
from trnfleet.sim.sharding import Shard
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block


def states(engine: Engine) -> list[str]:
    return [block.state.value for block in engine.account.blocks]


def events_of(engine: Engine, ticks: int) -> list[tuple[float, str]]:
    """Return times and names of block and job events in a number of ticks."""
    events = [event for _ in range(ticks) for event in engine.step().events]
    return [(event.time_s, event.name) for event in events if event.source in {"ec2", "job"}]


def block_on(engine: Engine, place: str) -> Block:
    return next(each for each in engine.account.blocks if engine.account.on(each) == (place,))


def state_of(engine: Engine, job: int, ticks: int = 1) -> int:
    return [int(engine.step().states[job]) for _ in range(ticks)][-1]


def test_the_demo_opens_with_blocks_in_many_states() -> None:
    """At the start there are active, expired, scheduled and unpaid blocks.

    Their jobs' instances are in use.
    """
    engine = engine_of(demo())
    engine.begin()
    assert states(engine) == [
        "active",
        "active",
        "active",
        "active",
        "expired",
        "active",
        "scheduled",
        "payment-pending",
    ]
    account = engine.account
    assert [account.launched(block) for block in account.blocks] == [4, 4, 2, 1, 0, 0, 0, 0]
    assert block_on(engine, "uc1/us-0001").end_ns == to_ns(demo().start) + round(END_S * NS_PER_S)


@pytest.mark.parametrize("period_s", [40.0, 3_600.0, 20_000.0])
def test_a_block_s_end_comes_in_order_at_its_time(period_s: float) -> None:
    """Warning, termination, the job's end and expiry have one event each, on time.

    Ticks may have any length.
    """
    engine = engine_of(demo(), period_s)
    ticks = int(END_S / period_s) + 2
    assert [pair for pair in events_of(engine, ticks) if pair[0] <= END_S] == [
        (END_S - 2_400, "capacity_block_expiration_warning"),
        *[(END_S - 1_920, "capacity_block_interruption_warning")] * 4,
        (END_S - 1_800, "capacity_block_terminating"),
        (END_S - 1_800, "job_ended"),
        (END_S, "capacity_block_expired"),
    ]


def test_chips_are_idle_from_termination_on() -> None:
    """Jobs in a block end at EC2's termination; its chips draw idle power.

    Other chips go on.
    """
    engine = engine_of(demo(), 300.0)
    power = {}
    for number in range(26):
        engine.step()
        power[number] = engine.columns["power_w"].astype(float).reshape(12, 16).mean(1)
    rows = {path: number for number, path in enumerate(engine.layout.instances)}
    first = rows["uc1/us-0001/trn2u-0001-0"]
    other = rows["uc1/us-0002/trn2u-0002-0"]
    assert power[25][first] < 0.5 * power[20][first]
    assert power[25][other] > 0.8 * power[20][other]
    assert engine.account.launched(block_on(engine, "uc1/us-0001")) == 0


def test_a_job_waits_for_its_block() -> None:
    """A job on a future block starts, with its ramp, at the block's begin."""
    fleet = small({**ULTRASERVER, "ends_after_days": 8}, jobs=(TRAINING,))
    engine = engine_of(fleet, 600.0)
    begin_s = END_S + DAY_S
    got = events_of(engine, int(begin_s / 600) + 2)
    assert got == [(begin_s, "capacity_block_delivered"), (begin_s, "job_started")]


def test_a_job_begins_again_with_the_next_block() -> None:
    """A following block on the same instances restarts the job at its own begin."""
    later = {"on": ["uc1/us-0001"], "days": 1, "ends_after_days": 2}
    engine = engine_of(small(ULTRASERVER, later, jobs=(TRAINING,)), 1_800.0)
    got = [pair for pair in events_of(engine, 3 * 48) if pair[1].startswith("job_")]
    begin_s = END_S + DAY_S
    assert got == [
        (END_S - 1_800, "job_ended"),
        (begin_s, "job_started"),
        (begin_s + DAY_S - 1_800, "job_ended"),
    ]


def test_a_job_over_two_blocks_needs_both() -> None:
    """A job ends with the first of its blocks, while the other goes on."""
    job = {"kind": "training", "name": "train", "on": ["uc1/standalone/trn2-0001..trn2-0002"]}
    blocks = [
        {"on": ["uc1/standalone/trn2-0001"], "days": 1, "ends_after_days": 0},
        {"on": ["uc1/standalone/trn2-0002"], "days": 7, "ends_after_days": 3},
    ]
    engine = engine_of(small(*blocks, jobs=(job,)), 600.0)
    assert (END_S - 1_800, "job_ended") in events_of(engine, 16)
    assert states(engine) == ["expired", "active"]


def test_a_job_s_own_times_hold_within_its_block() -> None:
    """A job with its own end ends before its block.

    Its event has that time.
    """
    engine = engine_of(small(ULTRASERVER, jobs=({**TRAINING, "ends_at_s": 1_000.0},)), 600.0)
    assert events_of(engine, 4) == [(1_000.0, "job_ended")]


def test_what_is_bought_is_delivered_to_idle_instances() -> None:
    """An UltraServer is sold again after its block's end, and its job restarts."""
    engine = engine_of(small(ULTRASERVER, jobs=(TRAINING,)), 600.0)
    engine.step()
    ledger = engine.account.ledger
    offering = ledger.offerings(SearchRequest(1, ultraservers=1))[0]
    with pytest.raises(RuleViolation, match=f"not on offer; did you mean '{offering.id}'"):
        answer(engine.account, "reserve_offering", {"offering": offering.id[:-1]}, "boot-1")
    _, found = answer(engine.account, "reserve_offering", {"offering": offering.id}, "boot-1")
    assert [each["id"] for each in found["offerings"]] == [offering.id]
    assert len(ledger.blocks) == 1
    said, result = answer(engine.account, "reserve_buy", {"offering": offering.id}, "boot-1")
    assert result["reservation"]["id"] in said
    assert result["reservation"]["state"] == "payment-pending"
    got = events_of(engine, 20)
    assert got == [
        (0.0, "capacity_block_purchased"),
        (300.0, "capacity_block_paid"),
        (END_S - 2_400, "capacity_block_expiration_warning"),
        *[(END_S - 1_920, "capacity_block_interruption_warning")] * 4,
        (END_S - 1_800, "capacity_block_terminating"),
        (END_S - 1_800, "job_ended"),
        (END_S, "capacity_block_expired"),
        (END_S, "capacity_block_delivered"),
        (END_S, "job_started"),
    ]


def test_an_answer_says_when_prices_change() -> None:
    """Offerings have the time of the next price revision, if known."""
    revised = {"at": datetime(2026, 2, 1, tzinfo=UTC), "prices": {"trn2.48xlarge": "40"}}
    for market, until in (({}, None), ({"revisions": [revised]}, "2026-02-01T00:00:00.000Z")):
        engine = engine_of(small(market=market))
        engine.begin()
        _, found = answer(
            engine.account, "reserve_offerings", {"days": 1.0, "ultraservers": 1.0}, "boot-1"
        )
        assert found.get("prices_until") == until


def test_an_extension_keeps_the_job_running() -> None:
    """A block that is extended in time neither warns nor terminates at its former end."""
    engine = engine_of(small(ULTRASERVER, jobs=(TRAINING,)), 600.0)
    engine.step()
    block = engine.account.blocks[0]
    offering = engine.account.ledger.extension_offerings(block.id, 1)[0]
    answer(engine.account, "reserve_extend", {"offering": offering.id}, "boot-1")
    assert events_of(engine, 20) == [
        (0.0, "capacity_block_extension_purchased"),
        (300.0, "capacity_block_extension_paid"),
    ]
    assert engine.account.blocks[0].end_ns == block.end_ns + DAY_S * NS_PER_S


@pytest.mark.parametrize(
    ("fault", "target", "impaired"),
    [
        ("link_down", "uc1/us-0001/trn2u-0001-0/chip05:east", True),
        ("z_link_down", "uc1/us-0001/trn2u-0001-0/chip05:z_next", True),
        ("ultraserver_split", "uc1/us-0001", True),
        ("link_degraded", "uc1/us-0001/trn2u-0001-0/chip05:east", False),
        ("straggler", "uc1/us-0001/trn2u-0001-0/chip05", False),
    ],
)
def test_lost_links_impair_the_interconnect(fault: str, target: str, impaired: bool) -> None:
    """A link down or a split impairs an UltraServer block's interconnect until it ends."""
    engine = engine_of(small(ULTRASERVER), 10.0)
    engine.step()
    engine.inject(fault, target, lasts_s=400.0)
    first = engine.step()
    names = [event.name for event in first.events if event.name.startswith("capacity_block")]
    assert names == (["capacity_block_interconnect_impaired"] if impaired else [])
    expected = InterconnectStatus.IMPAIRED if impaired else InterconnectStatus.OK
    assert engine.account.blocks[0].interconnect is expected
    for _ in range(60):
        engine.step()
    assert engine.account.blocks[0].interconnect is InterconnectStatus.OK


def test_an_instance_that_is_down_is_unavailable() -> None:
    """Instances that are down count as unavailable.

    A block with all of them down is unavailable itself, until they are back.
    """
    block = {"on": ["uc1/standalone/trn2-0001"], "days": 7, "ends_after_days": 3}
    engine = engine_of(small(ULTRASERVER, block), 10.0)
    engine.step()
    for target in ("uc1/us-0001/trn2u-0001-2", "uc1/standalone/trn2-0001"):
        engine.inject("instance_reboot", target)
    seen = []
    for _ in range(100):
        engine.step()
        seen.append([(each.state, each.unavailable) for each in engine.account.blocks])
    assert [(BlockState.ACTIVE, 1), (BlockState.UNAVAILABLE, 1)] in seen
    assert seen[-1] == [(BlockState.ACTIVE, 0), (BlockState.ACTIVE, 0)]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (
            [{"on": ["uc1/us-0002"], "days": 1, "ends_after_days": 0}],
            "no UltraServer or instance at",
        ),
        (
            [{"on": ["uc1/us-0001/trn2u-0001-0"], "days": 1, "ends_after_days": 0}],
            "one whole UltraServer",
        ),
        (
            [
                {
                    "on": ["uc1/standalone/trn2-0001", "uc2/standalone/trn2-0001"],
                    "days": 1,
                    "ends_after_days": 0,
                }
            ],
            "one type and one cluster",
        ),
        (
            [
                {
                    "on": ["uc1/standalone/trn2-0001", "uc1/standalone/trn1-0001"],
                    "days": 1,
                    "ends_after_days": 0,
                }
            ],
            "one type and one cluster",
        ),
        (
            [
                {"on": ["uc1/standalone/trn2-0001..trn2-0002"], "days": 7, "ends_after_days": 0},
                {"on": ["uc1/standalone/trn2-0002"], "days": 1, "ends_after_days": 0},
            ],
            r"blocks\.1.*another block holds one of its instances",
        ),
        ([{"on": ["uc1/us-0001"], "days": 15, "ends_after_days": 0}], "14 or 21 would fit"),
        (
            [{"on": ["uc2/standalone/trn1n-0001"], "days": 1, "ends_after_days": 0}],
            (
                r"blocks\.0\.on = 'uc2/standalone/trn1n-0001': sold-as-capacity-block:"
                r" trn1n\.32xlarge is not sold .*did you mean 'trn1\.32xlarge'"
            ),
        ),
    ],
)
def test_blocks_that_cannot_be(blocks: list[dict[str, Any]], message: str) -> None:
    """A fleet file's block that is none is refused with its key and the reason."""
    with pytest.raises(ConfigError, match=message):
        engine_of(small(*blocks)).begin()


def test_instances_on_demand_are_not_for_sale() -> None:
    """Instances with a job but no block are not offered; the other zone's are."""
    job = {"kind": "training", "name": "train", "on": ["uc1/standalone/trn2-0001..trn2-0003"]}
    engine = engine_of(small(jobs=(job,)))
    engine.begin()
    offered = engine.account.ledger.offerings(SearchRequest(1, "trn2.48xlarge"))
    assert {each.zone for each in offered} == {"us-east-2a"}


def test_one_shard_publishes_each_block() -> None:
    """Shards publish every block once, with the same numbered changes as the whole."""

    def lines(shard: Shard) -> list[bytes]:
        engine = engine_of(demo(), 3_600.0, shard=shard)
        kinds = (Include.RESERVATIONS, Include.EVENTS)
        return list(stdout_lines(engine, ticks=6, include=kinds))

    whole = lines(Shard())
    merged = [line for number in range(1, 4) for line in lines(Shard(number, 3))]
    assert sorted(merged) == sorted(whole)
    assert len([line for line in whole if b'"zone"' in line]) == 8 + 4
    assert len([line for line in whole if b'"instance-id"' in line]) == 4


def test_the_same_start_gives_the_same_ids() -> None:
    """Blocks of the file have the same ids after a restart at another time.

    So retained messages are replaced.
    """
    ids = []
    for day in ("2026-01-05", "2026-03-17"):
        fleet = demo().model_copy(
            update={"start": demo().start.fromisoformat(f"{day}T17:00:00+00:00")}
        )
        engine = engine_of(fleet)
        engine.begin()
        ids.append([block.id for block in engine.account.blocks])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 8


def test_messages_say_what_a_block_is() -> None:
    """A block's message has EC2's names and figures, its place, and the count of changes."""
    engine = engine_of(demo())
    tick = engine.step()
    messages = ShardMessages(engine, "boot-1")
    assert list(messages.reservations(tick)) == []
    by_path = {message.on: message for message in messages.all_reservations()}
    message = by_path["uc1/us-0001",]
    assert (message.ultraserver_type, message.instance_type, message.instances) == (
        "u-trn2x64",
        "trn2u.48xlarge",
        4,
    )
    assert (message.launched, message.unavailable, message.interconnect) == (4, 0, "ok")
    assert (message.start, message.end, message.terminates) == (
        "2025-12-22T11:30:00.000Z",
        "2026-01-05T11:30:00.000Z",
        "2026-01-05T11:00:00.000Z",
    )
    # 14 days of four instances at the price that was seen.
    assert (message.fee, message.currency) == ("48061.44", "USD")
    assert message.boot == "boot-1"
    pending = next(each for each in by_path.values() if each.state == "payment-pending")
    assert pending.pay_by == format_rfc3339(to_ns(demo().start) + 12 * 3_600 * NS_PER_S)


@pytest.mark.parametrize(
    ("action", "args", "said"),
    [
        ("reserve_offerings", {}, "needs the argument 'days'"),
        ("reserve_offerings", {"days": 1.5}, "days must be a whole number"),
        ("reserve_offerings", {"days": True}, "days must be a whole number"),
        ("reserve_offerings", {"days": 1e300}, "days must be a whole number"),
        ("reserve_offerings", {"days": float("nan")}, "days must be a whole number"),
        ("reserve_offerings", {"days": float("-inf")}, "days must be a whole number"),
        ("reserve_offerings", {"days": 1.0, "instance_type": 3.0}, "instance_type must be text"),
        ("reserve_offerings", {"days": 1.0, "starts_from": "soon"}, "starts_from must be a time"),
        (
            "reserve_offerings",
            {"days": 1.0, "starts_from": "2026-01-06T00:00:00"},
            "starts_from must be a time",
        ),
        ("reserve_offering", {}, "needs the argument 'offering'"),
        ("reserve_offering", {"offering": "cbo-1"}, "not on offer; look for offerings first"),
        ("reserve_buy", {}, "needs the argument 'offering'"),
        ("reserve_buy", {"offering": "cbo-1"}, "not on offer"),
        ("reserve_extend", {"offering": "cbo-1"}, "not on offer"),
        ("reserve_extension_offerings", {"block": "cb-1", "days": 1.0}, "no block 'cb-1'"),
        ("reserve_extension_offerings", {"days": 1.0}, "needs the argument 'block'"),
    ],
)
def test_requests_that_make_no_sense(action: str, args: dict[str, Any], said: str) -> None:
    """A request with missing, wrong or unknown arguments is refused with their names."""
    engine = engine_of(demo())
    engine.begin()
    with pytest.raises(ConfigError, match=said):
        answer(engine.account, action, args, "boot-1")


def test_a_fleet_without_blocks_publishes_no_reservations() -> None:
    """Without blocks there are no changes, and telemetry is the same."""
    engine = engine_of(small())
    assert engine.step().allocations == ()
    assert list(ShardMessages(engine, "b").all_reservations()) == []
    assert np.isfinite(engine.now_s)


def reservations_of(stage: SimulationRun) -> list[dict[str, Any]]:
    return [
        json.loads(envelope.payload) for _, envelope in stage.publisher.of(TopicClass.RESERVATION)
    ]


async def test_reservations_are_announced_and_published_once() -> None:
    """All blocks are published, retained, before the first tick; then only changes, in order."""
    stage = SimulationRun(engine_of(demo(), 3_600.0), speed=3_600.0, is_dated=True)
    await stage.run(6.0, ticks=4)
    events_of = reservations_of(stage)
    assert len({each["id"] for each in events_of[:8]}) == 8
    first = events_of[0]["id"]
    assert [(each["id"], each["state"], each["change"]) for each in events_of[8:]] == [
        (first, "active", 3),
        (first, "active", 4),
        (first, "active", 5),
        (first, "expired", 6),
    ]
    assert {each["boot"] for each in events_of} == {BOOT}
    for _, envelope in stage.publisher.of(TopicClass.RESERVATION):
        assert (envelope.qos, envelope.retain) == (1, True)
    again = [
        envelope for envelope in stage.publisher.announce() if "/reservation/" in envelope.topic
    ]
    assert again == []


async def test_a_jump_publishes_every_state_and_no_event() -> None:
    """A jump publishes each of its changes once as state, without events."""
    stage = SimulationRun(engine_of(demo(), 60.0), is_dated=True, speed=60.0)
    task = asyncio.create_task(stage.simulation.run(ticks=4))
    await stage.clock.advance(1.5)
    assert "events in between are not published" in stage.simulation.jump(3 * 3_600.0)
    await stage.clock.advance(5)
    await task
    changes = [(each["state"], each["change"]) for each in reservations_of(stage)[8:]]
    assert changes == [("active", 3), ("active", 4), ("active", 5), ("expired", 6)]
    names = [
        json.loads(envelope.payload)["name"] for _, envelope in stage.publisher.of(TopicClass.EVENT)
    ]
    assert not [name for name in names if name.startswith("capacity_block")]


async def test_a_purchase_is_published_with_the_next_tick() -> None:
    """A purchase by command is a message and an event of the next tick."""
    stage = SimulationRun(engine_of(small(), 60.0), is_dated=True, speed=60.0)
    task = asyncio.create_task(stage.simulation.run(ticks=8))
    await stage.clock.advance(0.5)
    _, found = stage.simulation.reserve("reserve_offerings", {"days": 1.0, "ultraservers": 1.0})
    done, result = stage.simulation.reserve(
        "reserve_buy", {"offering": found["offerings"][0]["id"]}
    )
    assert result["reservation"]["id"] in done
    assert reservations_of(stage) == []
    await stage.clock.advance(8)
    await task
    assert [each["state"] for each in reservations_of(stage)] == ["payment-pending", "scheduled"]
    answered = json.loads(json.dumps(result["reservation"]))
    assert reservations_of(stage)[0] | {"v": 1} == answered
