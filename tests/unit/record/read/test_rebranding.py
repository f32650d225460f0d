"""Recorded payloads as a replay rewrites them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import cbor2
import pytest
from support.monitor.feed import Feed, standalone
from support.record.memory_recording import MemoryRecording
from support.sim.simulation import Recorder

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.record.read.player import Player
from trnfleet.record.read.rebranding import Rebranding, ReplayNumbering
from trnfleet.wire.frame_head import frame_head, with_seq
from trnfleet.wire.frames import FrameDecoder, FrameEncoder
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Callable


START_NS = 1_767_600_000_000_000_000


def frame(seq: int, boot: str = "b1", topic: str = "t") -> Envelope:
    payload = cbor2.dumps({"v": 1, "path": "p", "boot": boot, "seq": seq, "ts": 5})
    return Envelope(topic, payload, content_type=CONTENT_TYPE_CBOR)


def sample(seq: int, boot: str = "b1", topic: str = "t") -> Envelope:
    payload = f'{{"v": 1, "seq": {seq}, "boot": "{boot}", "job": null}}'.encode()
    return Envelope(topic, payload, content_type=CONTENT_TYPE_JSON)


def seq_of(envelope: Envelope) -> int:
    if envelope.content_type == CONTENT_TYPE_CBOR:
        return frame_head(envelope.payload)[1]
    number: int = json.loads(envelope.payload)["seq"]
    return number


def test_boots_are_cached_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording may name another one with each message."""
    monkeypatch.setattr("trnfleet.record.read.rebranding.MOST_TOPICS", 10)
    rebranding = Rebranding("trnfleet", nonce="n")
    for number in range(50):
        rebranding._boot(f"b{number}".encode())
    assert rebranding._boot.cache_info().currsize <= 10


@pytest.mark.parametrize("make", [frame, sample])
@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        pytest.param([(0, 0), (1, 0), (4, 0)], [0, 1, 4], id="nothing left out"),
        pytest.param([(8, 0), (12, 3), (16, 3), (17, 0)], [8, 9, 10, 11], id="thinned"),
        pytest.param([(8, 7), (12, 3)], [1, 2], id="from the first on"),
        pytest.param([(8, 0), (14, 3), (16, 1)], [8, 11, 12], id="two lost, too"),
        pytest.param([(2, 9)], [0], id="more than there were"),
        pytest.param(
            [(1_000, 0), (70_000, 68_999), (70_001, 0)], [1_000, 1_001, 1_002], id="shorter"
        ),
    ],
)
def test_what_was_left_out_is_no_gap(
    make: Callable[..., Envelope], recorded: list[tuple[int, int]], replayed: list[int]
) -> None:
    renumbering = ReplayNumbering()
    made = [renumbering.renumber(make(seq)._replace(shed=shed)) for seq, shed in recorded]
    assert [seq_of(each) for each in made] == replayed
    assert not any(each.shed for each in made[1:])


@pytest.mark.parametrize("make", [frame, sample])
def test_each_topic_and_boot_has_its_own(make: Callable[..., Envelope]) -> None:
    renumbering = ReplayNumbering()
    for message, number in (
        (make(5)._replace(shed=4), 1),
        (make(5, topic="u"), 5),
        (make(6), 2),
        (make(0, "b2"), 0),
        (make(3, "b2")._replace(shed=2), 1),
    ):
        assert seq_of(renumbering.renumber(message)) == number


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b'{"seq": 5}', b"\xa1", b"\xff", cbor2.dumps({"boot": "b"})]
)
@pytest.mark.parametrize("content_type", [CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, None])
def test_what_has_no_number_stays(payload: bytes, content_type: str | None) -> None:
    envelope = Envelope("t", payload, content_type=content_type, shed=3)
    assert ReplayNumbering().renumber(envelope) == envelope


@pytest.mark.parametrize("seq", [0, 23, 24, 255, 256, 65_536, 2**32, 2**62])
def test_a_number_keeps_its_bytes(seq: int) -> None:
    before = frame(seq).payload
    for less in {0, seq // 2, seq}:
        after = with_seq(before, less)
        assert (len(after), frame_head(after)) == (len(before), ("b1", less))
        assert cbor2.loads(after) == cbor2.loads(before) | {"seq": less}


async def test_a_reader_of_a_replayed_thinned_past_counts_what_was_lost_alone() -> None:
    """Two of three ticks are left out, and one was lost before it was recorded."""
    feed = Feed(standalone(2))
    recorded = [(0, each) for each in feed.announcements()]
    for tick in range(13):
        feed.scatter()
        recorded += [
            (tick, each._replace(shed=2 if 0 < tick < 10 else 1 if tick == 12 else 0))
            for each in feed.telemetry()
            if tick % 3 == 0
        ]
    stored = [Stored(START_NS + at_s * NS_PER_S, each) for at_s, each in recorded]
    clock = ManualClock(5_000, 100.0)
    publisher = Recorder(clock)
    reader = Feed(standalone(2))
    player = Player(MemoryRecording(stored), clock, root="trnfleet", speed=100.0)
    player.attach(publisher)
    playing = asyncio.create_task(player.run(), name="player")
    await clock.advance(1.0)
    await asyncio.wait_for(playing, 5)
    # MQTT has no place for what was left out.
    sent = [each._replace(shed=0) for _, each in publisher.sent]
    reader.monitor.apply([each for each in sent if each.retain and b"offline" not in each.payload])
    reader.monitor.compute()
    reader.monitor.apply([each for each in sent if not each.retain])
    counts = reader.monitor.counts
    assert (counts.accepted, counts.lost, counts.passed_over) == (10, 2, 0)


@pytest.mark.parametrize("kind", ["command", "reply", "backlog"])
def test_messages_of_another_time_are_not_replayed(kind: str) -> None:
    """Requests, their replies, and telemetry that came late."""
    rebranding = Rebranding("trnfleet", nonce="n")
    for name, replayed in ((kind, False), ("telemetry", True)):
        topic = f"trnfleet/v1/demo/{name}/uc1/standalone/trn2-0001"
        assert rebranding.takes(topic, rebranding.topic_of(topic)) is replayed


BOOT = "00112233aabbccdd"


def marked(kind: str, path: str, payload: bytes, content_type: str | None = None) -> bytes:
    """Return a payload as a replay has it."""
    rebranding = Rebranding("trnfleet", nonce="n")
    envelope = Envelope(f"trnfleet/v1/demo/{kind}/{path}", payload, content_type=content_type)
    return rebranding.rebrand(envelope, rebranding.topic_of(envelope.topic)).payload


def online(boot: str = BOOT) -> str:
    """Return a replay's boot id for another one."""
    made = marked("publisher", "sim", json.dumps({"boot": boot, "state": "online"}).encode())
    replaced: str = json.loads(made)["boot"]
    return replaced


@pytest.mark.parametrize(
    "path", ["uc1/standalone/coldboot-1", "uc1/standalone/coldboots-1", "dboot/bootdboot/d"]
)
@pytest.mark.parametrize("content_type", [None, CONTENT_TYPE_CBOR])
def test_a_frame_gets_its_boot_whatever_its_path(path: str, content_type: str | None) -> None:
    """A frame's boot id changes and nothing else.

    Even if its path ends like the key.
    """
    feed = Feed(standalone(1))
    feed.scatter()
    encoder = FrameEncoder(
        path, BOOT, revision=3, columns=feed.columns, chips=slice(0, 16), instances=slice(0, 1)
    )
    frame = encoder.encode(7, 8)

    other = marked("telemetry", path, frame, content_type)

    assert other == frame.replace(BOOT.encode(), online().encode())
    decoded = FrameDecoder(STANDARD_COLUMNS, 16, 1).decode(other)
    assert (decoded.path, decoded.head.boot, decoded.revision) == (path, online(), 3)


def test_a_descriptor_under_a_lease_gets_the_boot_of_its_relay() -> None:
    """A leased descriptor has its relay's new boot.

    With the recorded one it would be void.
    """
    forwarded = {"cell": "cell-a", "relay": "relay-1", "boot": "44556677"}
    payload = json.dumps({"boot": BOOT, "forwarded": forwarded}).encode()
    made = json.loads(marked("node", "uc1/us-0001/trn2u-0001-0", payload))
    assert (made["boot"], made["forwarded"]) == (online(), forwarded | {"boot": online("44556677")})


def test_a_frame_of_another_encoder_gets_its_boot() -> None:
    """Wherever in the map it stands."""
    frame = {
        "chip": {"x": cbor2.CBORTag(64, b"\x64boot\x61x")},
        "seq": 5,
        "path": "uc1/a/b",
        "boot": BOOT,
    }
    other = marked("telemetry", "uc1/a/b", cbor2.dumps(frame))
    assert cbor2.loads(other) == frame | {"boot": online()}
    assert frame_head(other) == (online(), 5)


@pytest.mark.parametrize("frame", [{}, {"boot": 7}, {"boot": ""}, {"boot": "x" * 65}, {7: "boot"}])
def test_what_has_no_boot_stays_as_it_is(frame: dict[Any, Any]) -> None:
    """Refusing it is the reader's task."""
    payload = cbor2.dumps(frame)
    assert marked("telemetry", "uc1/a/b", payload) == payload
    assert marked("telemetry", "uc1/a/b", payload[:-1], CONTENT_TYPE_CBOR) == payload[:-1]


def test_the_content_type_tells_the_encoding() -> None:
    """As everywhere else."""
    payload = b"\xa0" + json.dumps({"boot": BOOT}).encode()
    assert marked("telemetry", "uc1/a/b", payload, CONTENT_TYPE_JSON) == payload.replace(
        BOOT.encode(), online().encode()
    )
