"""Loss by sequence numbers: of frames and JSON, of several fleets and boots."""

from __future__ import annotations

import contextlib
import json
import random

import cbor2
import pytest

from trnfleet.errors import WireError
from trnfleet.services.files.sequence_gaps import SequenceGaps
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.telemetry import json_head


def telemetry(seq: int, fleet: str = "demo", boot: str = "b1") -> Envelope:
    """Return telemetry of one chip."""
    payload = json.dumps({"v": 1, "boot": boot, "seq": seq, "power_w": [1.0]}).encode()
    return Envelope(
        f"trnfleet/v1/{fleet}/telemetry/uc1/a/b/chip00", payload, 0, False, CONTENT_TYPE_JSON
    )


def test_gaps_are_counted_by_fleet() -> None:
    """Each boot of a publisher begins afresh; what comes late after all was not lost."""
    gaps = SequenceGaps("trnfleet")
    gaps.take([telemetry(seq) for seq in (5, 6, 9)])
    assert gaps.lost == 2
    gaps.take(
        [telemetry(8), telemetry(0, boot="b2"), telemetry(100, "other"), telemetry(104, "other")]
    )
    assert (gaps.lost_of("demo"), gaps.lost_of("other"), gaps.lost_of("none")) == (1, 3, 0)
    assert gaps.lost == 4


def test_what_came_as_backlog_is_not_lost() -> None:
    """Backlog of another boot, or outside of the gap, fills nothing."""
    gaps = SequenceGaps("trnfleet")
    gaps.take([telemetry(seq) for seq in (5, 200)])
    late = [telemetry(seq, boot=boot) for boot, seq in (("b1", 7), ("b1", 7), ("b1", 9), ("b2", 8))]
    gaps.take([each._replace(topic=each.topic.replace("telemetry", "backlog")) for each in late])
    assert (gaps.lost_of("demo"), gaps.filled_of("demo")) == (192, 2)


@pytest.mark.parametrize("is_frame", [False, True])
def test_what_was_left_out_of_a_past_is_not_lost(*, is_frame: bool) -> None:
    """Ticks left out of a thinned past are declared, in JSON and in frames.

    Only further missing ones are lost.
    """
    gaps = SequenceGaps("trnfleet")
    for seq, shed in ((0, 0), (3, 2), (6, 2), (9, 1), (10, 0)):
        kept = telemetry(seq)._replace(shed=shed)
        if is_frame:
            head = {"boot": "b1", "ts": 1}
            payload = cbor2.dumps(head)[1:] + cbor2.dumps("seq") + b"\x1b" + seq.to_bytes(8, "big")
            kept = kept._replace(payload=b"\xa3" + payload, content_type=CONTENT_TYPE_CBOR)
        gaps.take([kept])
    assert gaps.lost == 1


def test_what_is_no_telemetry_counts_as_nothing() -> None:
    gaps = SequenceGaps("trnfleet")
    nonsense = [b"", b"{", b"[]", b'{"seq": -1, "boot": "b"}', b'{"seq": 3}']
    gaps.take([telemetry(1)._replace(payload=payload) for payload in nonsense])
    gaps.take([Envelope("home/lamp", b"on"), Envelope("trnfleet/v1/demo/event/-", b"{}")])
    assert gaps.lost == 0


def test_topics_of_hosts_that_are_gone_take_little_memory() -> None:
    """The default limit of topics is 500,000, and each takes a kilobyte."""
    most = SequenceGaps("trnfleet").parse.cache_info().maxsize
    assert most is not None
    assert most <= 40_000


def test_the_head_is_not_taken_from_within_a_value() -> None:
    """Value text that looks like a key is not one.

    Of two keys the parser decides.
    """
    assert json_head(b'{"boot":"b","seq":7}') == ("b", 7)
    assert json_head(json.dumps({"job": '"seq": 3,', "boot": "b", "seq": 7}).encode()) == ("b", 7)
    assert json_head(b'{"x": {"seq": 3, "boot": "c"}, "boot": "b", "seq": 7}') == ("b", 7)
    with pytest.raises(WireError):
        json_head(b'{"boot": 1, "seq": 7}')


def frame(chance: random.Random, seq: int) -> bytes:
    """Return the head of a frame, sometimes in an unusual form.

    It may have another order, boot or form of number, or be torn or damaged.
    """
    boot = cbor2.dumps("boot") + cbor2.dumps(chance.choice(["b1", "b1", "b1", "b1", "b2"]))
    wide = chance.random() < 0.9
    number = cbor2.dumps("seq") + (b"\x1b" + seq.to_bytes(8, "big") if wide else cbor2.dumps(seq))
    fields = [boot, number] if chance.random() < 0.9 else [number, boot]
    payload = bytes([0xA0 + 3]) + b"".join([*fields, cbor2.dumps("ts"), cbor2.dumps(1)])
    dice = chance.random()
    if dice < 0.05:
        return payload[: chance.randrange(len(payload))]
    if dice < 0.1:
        at = chance.randrange(len(payload))
        return payload[:at] + bytes([chance.randrange(256)]) + payload[at + 1 :]
    return payload


@pytest.mark.parametrize("seed", range(3))
def test_frames_that_begin_as_before_count_as_frames_that_are_read_as_a_whole(seed: int) -> None:
    """Counts from cached heads equal counts from each message by itself."""
    chance = random.Random(seed)  # noqa: S311  messages, nothing secret
    gaps = SequenceGaps("trnfleet")
    each = SequenceGaps("trnfleet")
    seq = 0
    for _ in range(2_000):
        seq = max(0, seq + chance.choice([1, 1, 1, 1, 2, 5, 0, -1, -3]))
        topic = f"trnfleet/v1/demo/telemetry/uc1/standalone/trn2-{chance.randrange(3):04d}"
        content_type = chance.choice([CONTENT_TYPE_CBOR] * 8 + [None, CONTENT_TYPE_JSON])
        message = Envelope(topic, frame(chance, seq), 0, False, content_type)
        gaps.take([message])
        with contextlib.suppress(WireError):
            each.add(each.parse(topic), message)
        assert gaps._counts == each._counts
    assert gaps.lost > 100
