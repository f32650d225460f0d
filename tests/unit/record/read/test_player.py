"""The player against a recording in memory and a clock that is turned by hand."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import Feed, standalone
from support.record.memory_recording import MemoryRecording
from support.sim.simulation import Recorder

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.errors import ConfigError
from trnfleet.record.read import player
from trnfleet.record.read.player import Player, ReadAhead
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, Keyframe, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def messages(count: int | None, size: int = 1) -> Iterator[Stored]:
    numbers = itertools.count() if count is None else range(count)
    return (Stored(number, Envelope("a", b"x" * size)) for number in numbers)


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "read-ahead"]


async def gone() -> None:
    """Wait until no thread of ours is left."""
    async with asyncio.timeout(5):
        while threads():
            await asyncio.to_thread(threads()[0].join, 1.0) if threads() else None


@pytest.mark.parametrize(
    "count", [0, 1, player.BATCH, player.BATCH * 3 + 1, player.MOST_MESSAGES * 2]
)
async def test_everything_comes_in_order(count: int) -> None:
    """Whatever the number, each message comes once."""
    found = [each.time_ns async for batch in ReadAhead(messages(count)).batches() for each in batch]
    assert found == list(range(count))
    await gone()


async def test_it_reads_no_more_than_fits() -> None:
    """An endless recording is read within the limits, further on demand, and ends."""
    for size, most in ((1, player.MOST_MESSAGES), (2**20, player.MOST_BYTES // 2**20)):
        taken = itertools.count()
        counted = (each for each, _ in zip(messages(None, size), taken, strict=False))
        async with contextlib.aclosing(ReadAhead(counted).batches()) as batches:
            first = await anext(batches)
            assert len(first) == player.BATCH
        await gone()
        assert next(taken) <= most + 3 * player.BATCH


async def test_an_error_of_the_recording_is_raised_where_it_is_read() -> None:
    """What was read before comes first."""

    def failing() -> Iterator[Stored]:
        yield from messages(player.BATCH)
        raise ConfigError("torn")

    batches = ReadAhead(failing()).batches()
    assert len(await anext(batches)) == player.BATCH
    with pytest.raises(ConfigError, match="torn"):
        await anext(batches)
    await gone()


START_NS = 1_767_600_000_000_000_000
BOOT = "00112233aabbccdd"


def state(kind: str, path: str, fleet: str = "demo", **fields: Any) -> Envelope:
    payload = json.dumps(fields, separators=(",", ":")).encode() if fields else b""
    return Envelope(f"trnfleet/v1/{fleet}/{kind}/{path}", payload, 1, False, CONTENT_TYPE_JSON)


def telemetry(seq: int, fleet: str = "demo", path: str = "uc1/us-0001/a") -> Envelope:
    payload = json.dumps({"v": 1, "boot": BOOT, "seq": seq}).encode()
    return Envelope(
        f"trnfleet/v1/{fleet}/telemetry/{path}", payload, content_type=CONTENT_TYPE_JSON
    )


ONLINE = state("publisher", "sim-1", v=1, client="sim-1", state="online", boot=BOOT)
NODE = state(
    "node", "uc1", v=1, boot=BOOT, period_s=2.0, clock={"epoch": "e", "speed": 3.0}, replay=False
)


def recording_of(
    *messages: tuple[float, Envelope], keyframes: tuple[Keyframe, ...] = ()
) -> MemoryRecording:
    return MemoryRecording(
        [Stored(START_NS + round(at_s * NS_PER_S), envelope) for at_s, envelope in messages],
        keyframes,
    )


class Scene:
    """A player on its recording, with its published messages and their times."""

    def __init__(self, recording: MemoryRecording, **options: Any) -> None:
        self.clock = ManualClock(5_000, 100.0)
        self.publisher = Recorder(self.clock)
        nonces = itertools.count()
        given: dict[str, Any] = {
            "root": "trnfleet",
            "nonce": lambda: f"run-{next(nonces)}",
            **options,
        }
        self.player = Player(recording, self.clock, **given)
        self.player.attach(self.publisher)

    async def play(self, seconds: float) -> None:
        task = asyncio.create_task(self.player.run())
        await self.clock.advance(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def times(self, kind: str = "telemetry") -> list[float]:
        return [at_s - 100.0 for at_s, each in self.publisher.sent if f"/{kind}/" in each.topic]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        sent = [
            each for _, each in self.publisher.sent if f"/{kind}/" in each.topic and each.payload
        ]
        return [json.loads(each.payload) for each in sent]


async def test_messages_go_out_at_their_distance_over_the_speed() -> None:
    """At four times the speed, messages come after a quarter of their time.

    They are at 1, 2.5 and 4 s.
    """
    messages = [(at_s, telemetry(seq)) for seq, at_s in enumerate((0.0, 1.0, 2.5, 4.0))]
    scene = Scene(recording_of(*messages), speed=4.0)
    await scene.play(10.0)
    assert scene.times() == pytest.approx([0.0, 0.25, 0.625, 1.0])


async def test_lateness_does_not_add_up() -> None:
    """After a stall of 3 s only the messages due meanwhile are late."""
    scene = Scene(recording_of(*((float(seq), telemetry(seq)) for seq in range(7))))
    scene.publisher.stall_s = 2.5
    await scene.play(10.0)
    assert scene.times() == pytest.approx([0.0, 2.5, 2.5, 3.0, 4.0, 5.0, 6.0])
    assert scene.player.latest_s == pytest.approx(1.5)


async def test_a_replay_is_marked_as_one() -> None:
    """Descriptors are marked, with the replay's period and clock.

    They are retained even if they were not recorded so.
    """
    scene = Scene(recording_of((0.0, NODE), (1.0, telemetry(0))), speed=4.0)
    await scene.play(5.0)
    [node] = scene.payloads("node")
    assert (node["replay"], node["period_s"], node["clock"]) == (
        True,
        0.5,
        {"epoch": "e", "speed": 12.0},
    )
    assert all(
        each.retain and each.qos == 1 for _, each in scene.publisher.sent if "/node/" in each.topic
    )
    assert not any(each.retain for _, each in scene.publisher.sent if "/telemetry/" in each.topic)


async def test_boot_ids_are_new_in_every_loop_and_agree() -> None:
    """Descriptor, publisher, telemetry and event have the same new boot id per loop.

    It is as long as the recorded one.
    """
    event = state("event", "uc1", v=1, id=f"{BOOT}-7", text="boot")
    scene = Scene(
        recording_of((0.0, NODE), (0.0, ONLINE), (1.0, telemetry(0)), (2.0, event)), loops=True
    )
    await scene.play(3.5)
    boots = [each["boot"] for kind in ("node", "telemetry") for each in scene.payloads(kind)]
    events = [each["id"] for each in scene.payloads("event")]
    online = [each["boot"] for each in scene.payloads("publisher") if each["state"] == "online"]
    assert boots == [*online, *online]
    assert events == [f"{online[0]}-7"]
    assert len({BOOT, *online}) == 3
    assert {len(boot) for boot in boots} == {16}


async def test_frames_carry_the_new_boot_and_are_otherwise_the_same() -> None:
    """In a CBOR frame nothing but the boot id's bytes changes."""
    feed = Feed(standalone(1))
    feed.scatter()
    [frame] = feed.telemetry()
    scene = Scene(recording_of((0.0, frame)))
    await scene.play(1.0)
    [sent] = [each for _, each in scene.publisher.sent if "/telemetry/" in each.topic]
    changed = [
        place
        for place, pair in enumerate(zip(frame.payload, sent.payload, strict=True))
        if len({*pair}) > 1
    ]
    at = frame.payload.index(feed.boot.encode())
    assert changed
    assert at <= changed[0] <= changed[-1] < at + len(feed.boot)


async def test_it_begins_with_the_state_of_the_moment() -> None:
    """From the middle on, the newest state per topic is first, without cleared state.

    Earlier messages are left out.
    """
    old = state("job", "a", v=1, job="a", state="starting")
    new = state("job", "a", v=1, job="a", state="running")
    gone = state("job", "b", v=1, job="b", state="running")
    recording = recording_of(
        (0.0, old),
        (0.0, gone),
        (1.0, telemetry(0)),
        (2.0, new),
        (2.0, state("job", "b")),
        (4.0, telemetry(1)),
    )
    scene = Scene(recording, from_ns=START_NS + 3 * NS_PER_S)
    await scene.play(5.0)
    assert [each["state"] for each in scene.payloads("job")] == ["running"]
    assert scene.times() == pytest.approx([1.0])


async def test_it_reads_on_from_the_keyframe() -> None:
    """State comes from the newest keyframe, and nothing before it is read."""
    job = state("job", "a", v=1, job="a", state="running")
    keyframe = Keyframe(START_NS + 2 * NS_PER_S, [Stored(START_NS, job)], has_values=False)
    recording = recording_of(
        (0.0, job),
        (1.0, telemetry(0)),
        (3.0, telemetry(1)),
        (4.0, telemetry(2)),
        keyframes=(keyframe,),
    )
    scene = Scene(recording, from_ns=START_NS + 3 * NS_PER_S)
    await scene.play(5.0)
    assert len(scene.payloads("job")) == 1
    assert [each["seq"] for each in scene.payloads("telemetry")] == [1, 2]
    assert min(recording.reads) >= keyframe.time_ns - 1


async def test_a_reconnect_repeats_the_state_of_now() -> None:
    """A connect announces the state of the replay's present time.

    Nothing before it runs.
    """
    job = state("job", "a", v=1, job="a", state="starting")
    changed = state("job", "a", v=1, job="a", state="running")
    scene = Scene(recording_of((0.0, ONLINE), (0.0, job), (2.0, changed), (9.0, telemetry(0))))
    assert list(scene.publisher.announce()) == []
    task = asyncio.create_task(scene.player.run())
    await scene.clock.advance(3.0)
    announced = {
        each.topic.rsplit("/", 2)[1]: json.loads(each.payload)
        for each in scene.publisher.announce()
    }
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert announced["job"]["state"] == "running"
    assert announced["publisher"]["state"] == "online"


async def test_publishers_are_gone_at_the_end() -> None:
    """At its end a replay publishes offline for every publisher.

    A will covers the first.

    Also when cancelled.
    """
    other = state("publisher", "sim-2", v=1, client="sim-2", state="online", boot="b" * 16)
    scene = Scene(recording_of((0.0, ONLINE), (0.3, other), (9.0, telemetry(0))))
    will = scene.player.will()
    assert will is not None
    await scene.play(2.0)
    last = {each["client"]: each for each in scene.payloads("publisher")}
    assert {name: each["state"] for name, each in last.items()} == {
        "sim-1": "offline",
        "sim-2": "offline",
    }
    assert json.loads(will.payload) == last["sim-1"]
    assert will.retain


async def test_another_loop_clears_what_it_does_not_have() -> None:
    """A job begun later is cleared when the replay begins again."""
    later = state("job", "late", v=1, job="late", state="running")
    scene = Scene(recording_of((0.0, ONLINE), (1.0, later), (2.0, telemetry(0))), loops=True)
    await scene.play(2.5)
    jobs = [each for _, each in scene.publisher.sent if "/job/" in each.topic]
    assert [bool(each.payload) for each in jobs] == [True, False]


async def test_another_name_leaves_out_what_goes_by_the_name() -> None:
    """--as changes the fleet's name in topics, without alerts, acks and silences.

    Other fleets are left out, too.
    """
    recording = recording_of(
        (0.0, NODE),
        (0.0, state("alert", "0" * 16, v=1)),
        (0.0, state("silence", "s", v=1)),
        (1.0, telemetry(0)),
        (1.0, telemetry(0, fleet="other")),
    )
    scene = Scene(recording, fleet="demo", name="again", to_root="site/x")
    await scene.play(5.0)
    assert sorted(each.topic for _, each in scene.publisher.sent) == [
        "site/x/v1/again/node/uc1",
        "site/x/v1/again/telemetry/uc1/us-0001/a",
    ]


async def test_commands_are_never_replayed() -> None:
    """A recorded request or reply is never sent again, whatever the filter."""
    recording = recording_of(
        (0.0, state("command", "uc1", v=1)), (0.0, state("reply", "a/b", v=1)), (1.0, telemetry(0))
    )
    scene = Scene(recording, is_replayed=lambda _: True)
    await scene.play(5.0)
    assert [each.topic.split("/")[3] for _, each in scene.publisher.sent] == ["telemetry"]


async def test_what_is_like_ours_elsewhere_is_never_replayed() -> None:
    """Topics like ours under another root, or with an odd path, are not replayed.

    A request is one there, too, and telemetry could not be marked.
    """
    roots = ("elsewhere", "a/b", "trnfleet/v1/x")
    likes = [
        f"{root}/v1/prod/{kind}/x"
        for root in roots
        for kind in ("command", "reply", "node", "telemetry")
    ]
    odd = [
        "v1/prod/command/x",
        "trnfleet/v1/prod/command/uc1/*",
        "trnfleet/v1/demo/command/a/b/c/d/e/f/g/h",
    ]
    unspeakable = ["$SYS/x", "a/+/b", "a/#", "a\0b", "t" * 65_536]
    others = ["home/lamp", "v1/command", "trnfleet/v2/demo/command/x"]
    scene = Scene(
        recording_of(
            *[(0.1, Envelope(topic, b"1")) for topic in (*likes, *odd, *unspeakable, *others)],
            (1.0, ONLINE),
        )
    )

    await scene.play(2.0)

    assert [
        each.topic for _, each in scene.publisher.sent if "publisher" not in each.topic
    ] == others


@pytest.mark.parametrize(("wanted", "count"), [(lambda topic: topic.endswith("b"), 1), (None, 2)])
async def test_a_filter_goes_by_recorded_topics(
    wanted: Callable[[str], bool] | None, count: int
) -> None:
    """What is not wanted is passed over."""
    recording = recording_of((0.0, telemetry(0)), (1.0, telemetry(0, path="uc1/us-0001/b")))
    scene = Scene(recording, is_replayed=wanted, name="again")
    await scene.play(5.0)
    assert len(scene.publisher.sent) == count


async def test_a_part_ends_where_it_is_told_to() -> None:
    """Both ends of a part belong to it."""
    scene = Scene(
        recording_of(*((float(seq), telemetry(seq)) for seq in range(6))),
        from_ns=START_NS + 2 * NS_PER_S,
        to_ns=START_NS + 4 * NS_PER_S,
    )
    await scene.play(9.0)
    assert [each["seq"] for each in scene.payloads("telemetry")] == [2, 3, 4]


async def test_a_monitor_takes_two_loops_for_two_starts() -> None:
    """Every tick of the second loop is new, not a duplicate or late."""
    feed = Feed(standalone(1))
    messages = [(0.0, each) for each in feed.announcements()]
    messages += [(float(seq), each) for seq in range(3) for each in feed.telemetry()]
    scene = Scene(recording_of(*messages), loops=True)
    await scene.play(3.5)
    monitor = Feed(standalone(1)).monitor
    for _, envelope in scene.publisher.sent:
        monitor.apply([envelope])
        monitor.compute()
    counts = monitor.counts
    assert (counts.messages, counts.chips) == (5, 5 * 16)
    assert (
        counts.duplicates,
        counts.late,
        counts.lost,
        counts.undescribed,
        counts.undecodable,
    ) == (
        0,
        0,
        0,
        0,
        0,
    )
