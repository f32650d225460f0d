"""Loss by sequence numbers: of frames and JSON, of several fleets and boots."""

from __future__ import annotations

import json

import pytest

from trnfleet.errors import WireError
from trnfleet.services.files.sequence_gaps import SequenceGaps, json_head
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope


def telemetry(seq: int, fleet: str = "demo", boot: str = "b1") -> Envelope:
    """Return telemetry of one chip."""
    payload = json.dumps({"v": 1, "boot": boot, "seq": seq, "power_w": [1.0]}).encode()
    return Envelope(f"trnfleet/v1/{fleet}/telemetry/uc1/a/b/chip00", payload, 0, False, CONTENT_TYPE_JSON)


def test_gaps_are_counted_by_fleet() -> None:
    """Each boot of a publisher begins afresh; what comes late after all was not lost."""
    gaps = SequenceGaps("trnfleet")
    gaps.take([telemetry(seq) for seq in (5, 6, 9)])
    assert gaps.lost == 2
    gaps.take([telemetry(8), telemetry(0, boot="b2"), telemetry(100, "other"), telemetry(104, "other")])
    assert (gaps.lost_of("demo"), gaps.lost_of("other"), gaps.lost_of("none")) == (1, 3, 0)
    assert gaps.lost == 4


def test_what_is_no_telemetry_counts_as_nothing() -> None:
    gaps = SequenceGaps("trnfleet")
    nonsense = [b"", b"{", b"[]", b'{"seq": -1, "boot": "b"}', b'{"seq": 3}']
    gaps.take([telemetry(1)._replace(payload=payload) for payload in nonsense])
    gaps.take([Envelope("home/lamp", b"on"), Envelope("trnfleet/v1/demo/event/-", b"{}")])
    assert gaps.lost == 0


def test_the_head_is_not_taken_from_within_a_value() -> None:
    """Text of a value that looks like a key is none, and of two the parser decides."""
    assert json_head(b'{"boot":"b","seq":7}') == ("b", 7)
    assert json_head(json.dumps({"job": '"seq": 3,', "boot": "b", "seq": 7}).encode()) == ("b", 7)
    assert json_head(b'{"x": {"seq": 3, "boot": "c"}, "boot": "b", "seq": 7}') == ("b", 7)
    with pytest.raises(WireError):
        json_head(b'{"boot": 1, "seq": 7}')
