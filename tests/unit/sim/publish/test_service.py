from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.simulation import BOOT, WALL_NS, SimulationRun

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.fleet import Publishing
from trnfleet.errors import ConfigError
from trnfleet.sim.ids import ec2_id
from trnfleet.sim.publish.state import new_boot, will_envelope
from trnfleet.sim.rng import Rng
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import Descriptor, JobMessage, PublisherMessage, decode_message
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

    Job = Callable[..., dict[str, Any]]


@pytest.fixture
def jobs(training: Job, inference: Job) -> list[dict[str, Any]]:
    return [training(on=["c/us-0001"]), inference()]


@pytest.fixture
def stage(make_engine: Callable[..., Engine], jobs: list[dict[str, Any]]) -> SimulationRun:
    return SimulationRun(make_engine(*jobs, ultraservers=1))


async def test_ticks_go_out_on_an_absolute_schedule(stage: SimulationRun) -> None:
    """One tick is published per period from the start.

    Each is dated by the wall clock and numbered by its topic from 0.
    """
    await stage.run(10.0, ticks=4)
    telemetry = stage.publisher.of(TopicClass.TELEMETRY)
    assert len(telemetry) == 4 * 6 * 17
    topics = {envelope.topic for _, envelope in telemetry}
    assert len(topics) == 6 * 17
    samples = [(at_s, decode_sample(envelope.payload)) for at_s, envelope in telemetry]
    for number in range(4):
        part = samples[number * 102 : (number + 1) * 102]
        assert {at_s for at_s, _ in part} == {100.0 + number}
        assert {sample.head.seq for _, sample in part} == {number}
        assert {sample.head.ts_ns for _, sample in part} == {WALL_NS + number * 10**9}
        assert {sample.head.boot for _, sample in part} == {BOOT}
    assert stage.simulation.published == 4
    assert stage.simulation.overruns == 0
    for _, envelope in telemetry:
        assert (envelope.qos, envelope.retain, envelope.content_type) == (
            0,
            False,
            CONTENT_TYPE_JSON,
        )
        assert parse_topic(envelope.topic).path == decode_sample(envelope.payload).path


async def test_state_is_announced_first_retained_and_complete(stage: SimulationRun) -> None:
    """Online and a descriptor per instance come first, offline at the end.

    In between, each tick has telemetry and a message per job.
    """
    await stage.run(10.0, ticks=3)
    envelopes = [envelope for _, envelope in stage.publisher.sent]
    classes = [parse_topic(envelope.topic).topic_class for envelope in envelopes]
    assert classes[:7] == [TopicClass.PUBLISHER] + [TopicClass.NODE] * 6
    assert classes[-1] is TopicClass.PUBLISHER
    assert classes.count(TopicClass.JOB) == 6
    for envelope, topic_class in zip(envelopes, classes, strict=True):
        if topic_class is not TopicClass.TELEMETRY:
            assert (envelope.qos, envelope.retain, envelope.content_type) == (
                1,
                True,
                CONTENT_TYPE_JSON,
            )
    online, offline = (decode_message(envelopes[at].payload, PublisherMessage) for at in (0, -1))
    assert (online.client, online.state, online.boot) == ("sim-1", "online", BOOT)
    assert offline.state == "offline"
    assert envelopes[-1] == will_envelope("f", "sim-1", BOOT)
    described = decode_message(envelopes[1].payload, Descriptor)
    assert described.path == "c/standalone/trn2-0001"
    assert described.publisher == "sim-1"
    assert described.period_s == 1.0
    assert parse_rfc3339(described.clock.epoch) == WALL_NS
    assert [(each.path, each.type, each.lnc) for each in described.instances] == [
        ("c/standalone/trn2-0001", "trn2.48xlarge", 2)
    ]
    assert re.fullmatch(r"i-0[0-9a-f]{16}", described.instances[0].ec2_id or "")


@pytest.mark.usefixtures("even_steps")
async def test_jobs_say_where_they_run_and_how_they_fare(stage: SimulationRun) -> None:
    """Figures of a job's kind are numbers, the others null."""
    await stage.run(5.0, ticks=1)
    train, serve = (
        decode_message(envelope.payload, JobMessage)
        for _, envelope in stage.publisher.of(TopicClass.JOB)
    )
    assert (train.job, train.kind, train.state, train.on) == (
        "train",
        "training",
        "running",
        ("c/us-0001",),
    )
    assert train.steps_per_s == pytest.approx(1 / 8, rel=0.03)
    assert train.mfu == pytest.approx(0.40)
    assert (train.model, train.dtype, serve.flops_per_token) == (None, "bf16", None)
    assert train.flops_per_token is not None
    assert train.tokens_per_s is not None
    assert train.flops_per_token * train.tokens_per_s == pytest.approx(0.40 * 64 * 667e12)
    assert train.ttft_s is train.tpot_s is None
    assert serve.tokens_per_s
    assert serve.ttft_s
    assert serve.mfu is serve.step_time_s is serve.steps_per_s is None


async def test_a_new_connection_gets_all_state_while_it_runs(stage: SimulationRun) -> None:
    """A new connection announces all state during the run, and nothing before or after.

    So offline stays.
    """
    assert not list(stage.publisher.announce())
    task = asyncio.create_task(stage.simulation.run())
    await stage.clock.advance(2.5)
    classes = [parse_topic(envelope.topic).topic_class for envelope in stage.publisher.announce()]
    assert classes == [TopicClass.PUBLISHER] + [TopicClass.NODE] * 6 + [TopicClass.JOB] * 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert stage.publisher.sent[-1][1] == will_envelope("f", "sim-1", BOOT)
    assert not list(stage.publisher.announce())


async def test_descriptors_are_repeated_within_a_minute(stage: SimulationRun) -> None:
    """Each comes again within 60 s, spread over the ticks."""
    await stage.run(61.0)
    repeated = stage.publisher.of(TopicClass.NODE)[6:]
    assert sorted({envelope.topic for _, envelope in repeated}) == sorted(
        {envelope.topic for _, envelope in stage.publisher.of(TopicClass.NODE)[:6]}
    )
    assert len(repeated) == 6
    assert len({at_s for at_s, _ in repeated}) == 6


async def test_many_jobs_take_turns(make_engine: Callable[..., Engine], training: Job) -> None:
    """More than 64 jobs are all in the first tick.

    Each is published again within 10 s.
    """
    many = [training(name=f"job-{n}", on=[f"c/standalone/trn2-{n:04d}"]) for n in range(1, 81)]
    stage = SimulationRun(
        make_engine(*many, instances=80),
        publishing=Publishing(format="cbor", granularity="instance"),
    )
    await stage.run(10.5)
    times = [at_s - 100.0 for at_s, _ in stage.publisher.of(TopicClass.JOB)]
    later = [envelope.topic for _, envelope in stage.publisher.of(TopicClass.JOB)[80:]]
    assert times[:80] == [0.0] * 80
    assert len(later) == len(set(later)) == 80
    assert {times.count(second) for second in range(1, 11)} == {8}


async def test_a_duration_ends_the_run(stage: SimulationRun) -> None:
    """Three seconds are three ticks: at 0, 1 and 2."""
    await stage.run(10.0, duration_s=3.0)
    assert stage.simulation.published == 3


async def test_a_late_machine_leaves_ticks_out_and_counts_them(stage: SimulationRun) -> None:
    """Numbers go on by one, times say the truth, and the schedule is kept."""
    task = asyncio.create_task(stage.simulation.run(ticks=6))
    await stage.clock.advance(1.5)
    stage.publisher.stall_s = 3.6
    await stage.clock.advance(10.0)
    await task
    heads = [
        decode_sample(envelope.payload).head
        for _, envelope in stage.publisher.of(TopicClass.TELEMETRY)
    ]
    seen = sorted({(head.seq, (head.ts_ns - WALL_NS) / 1e9) for head in heads})
    # Tick 2 takes until 5.6; tick 3 is late by 2.6 s, so that tick 5 is next, and tick 6 is on
    # time.
    assert seen == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 5.0), (4, 6.0), (5, 7.0)]
    assert stage.simulation.overruns == 2
    assert stage.simulation.published == 6


async def test_a_slow_announcement_is_no_overrun(stage: SimulationRun) -> None:
    """The first tick waits until everything is announced and has the time of then."""
    stage.publisher.stall_s = 3.6
    await stage.run(10.0, ticks=2)
    heads = [
        decode_sample(envelope.payload).head
        for _, envelope in stage.publisher.of(TopicClass.TELEMETRY)
    ]
    assert sorted({(head.seq, (head.ts_ns - WALL_NS) // 10**9) for head in heads}) == [
        (0, 3),
        (1, 4),
    ]
    assert stage.simulation.overruns == 0


async def test_many_messages_are_spread_over_the_period(make_engine: Callable[..., Engine]) -> None:
    """Hundreds of messages are sent in slices every 20 ms.

    All of them are sent within 70 % of the period.
    """
    stage = SimulationRun(make_engine(instances=40))
    await stage.run(1.9, ticks=2)
    telemetry = stage.publisher.of(TopicClass.TELEMETRY)
    assert len(telemetry) == 2 * 40 * 17
    for tick in range(2):
        times = [at_s - 100.0 - tick for at_s, _ in telemetry[tick * 680 : (tick + 1) * 680]]
        assert max(times) <= 0.7
        assert max(times) > 0.5
        bursts = [times.count(at_s) for at_s in set(times)]
        assert max(bursts) <= 20


async def test_frames_of_blocks(
    make_engine: Callable[..., Engine], jobs: list[dict[str, Any]]
) -> None:
    """A block's frame decodes by its descriptor to the rows of its UltraServers."""
    engine = make_engine(*jobs, ultraservers=3, instances=1)
    options = Publishing(format="cbor", granularity="block", block_ultraservers=2)
    stage = SimulationRun(engine, publishing=options, root="lab/fleets")
    await stage.run(5.0, ticks=1)
    sent = [envelope for _, envelope in stage.publisher.sent]
    assert all(envelope.topic.startswith("lab/fleets/v1/f/") for envelope in sent)
    descriptors = {
        message.path: message
        for message in (
            decode_message(envelope.payload, Descriptor)
            for envelope in sent
            if "/node/" in envelope.topic
        )
    }
    assert list(descriptors) == ["c/standalone/trn2-0001", "c/block-0001", "c/block-0002"]
    frames = [envelope for envelope in sent if "/telemetry/" in envelope.topic]
    assert len(frames) == 3
    row = 0
    for envelope in frames:
        assert (envelope.content_type, envelope.qos, envelope.retain) == (
            CONTENT_TYPE_CBOR,
            0,
            False,
        )
        described = descriptors[parse_topic(envelope.topic, "lab/fleets").path]
        count = len(described.instances)
        frame = FrameDecoder(described.columns, count * 16, count).decode(envelope.payload)
        assert frame.revision == described.revision
        assert (frame.chip["power_w"] == engine.columns["power_w"][row : row + count * 16]).all()
        row += count * 16
    assert row == 13 * 16
    assert stage.simulation.messages_per_tick == 3


def test_oversize_units_are_refused_at_the_start(make_engine: Callable[..., Engine]) -> None:
    """The largest allowed block fits; under a lower limit the message names the remedy."""
    engine = make_engine(instances=0, ultraservers=16)
    options = Publishing(format="cbor", granularity="block", block_ultraservers=16)
    SimulationRun(engine, publishing=options)
    with pytest.raises(
        ConfigError, match=r"frame of c/block-0001 has \d+ bytes, over the limit of 65536"
    ):
        SimulationRun(
            engine, publishing=options, limits=replace(DEFAULT_LIMITS, payload_bytes=65_536)
        )
    with pytest.raises(ConfigError, match=r"descriptor of c/block-0001"):
        SimulationRun(
            engine, publishing=options, limits=replace(DEFAULT_LIMITS, payload_bytes=4_096)
        )


def test_ids_are_plausible_and_follow_from_seed_and_path() -> None:
    """EC2 ids have 17 digits and repeat; boots of live runs never do."""
    assert re.fullmatch(r"i-0[0-9a-f]{16}", ec2_id(Rng(1).token, "c/us-0001/a"))
    assert ec2_id(Rng(1).token, "c/us-0001/a") == ec2_id(Rng(1).token, "c/us-0001/a")
    assert (
        len({ec2_id(Rng(1).token, "a"), ec2_id(Rng(2).token, "a"), ec2_id(Rng(1).token, "b")}) == 3
    )
    assert new_boot() != new_boot()
    assert json.loads(will_envelope("f", "sim-1", BOOT).payload)["state"] == "offline"
