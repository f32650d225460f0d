from __future__ import annotations

import json
from typing import Any

import pytest
from support.feed import Feed, ultraservers

from trnfleet.errors import WireError
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import (
    Descriptor,
    JobMessage,
    PublisherMessage,
    decode_message,
    encode_message,
    parse_json_object,
)

GOOD = json.loads(Feed(ultraservers(1)).announcements()[1].payload)


def test_descriptor_round_trip() -> None:
    """A descriptor comes back as it was."""
    descriptor = decode_message(json.dumps(GOOD).encode(), Descriptor)
    assert decode_message(encode_message(descriptor), Descriptor) == descriptor
    assert descriptor.instances[0].type == "trn2u.48xlarge"


def test_unknown_fields_are_ignored() -> None:
    """A later minor version may add fields."""
    assert decode_message(json.dumps({**GOOD, "new": {"a": 1}}).encode(), Descriptor).path == GOOD["path"]


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"path": "a b"},
        {"path": "a/b/c/d/e/f"},
        {"period_s": 0},
        {"period_s": "1"},
        {"period_s": float("inf")},
        {"revision": -1},
        {"revision": True},
        {"instances": []},
        {"instances": [{"path": "uc1/x", "type": "trn2.48xlarge"}]},
        {"instances": [{"path": "uc1/x/\u202e", "type": "trn2.48xlarge"}]},
        {"instances": GOOD["instances"] * 2_000},
        {"columns": [{"name": "x", "type": "f32", "scale": 1, "width": 1}]},
        {"columns": [{"name": "x", "type": "u8", "scale": 0, "width": 1}]},
        {"publisher": "x" * 65},
    ],
)
def test_bad_descriptors(change: dict[str, Any]) -> None:
    """What breaks a rule is a WireError that does not repeat the input."""
    with pytest.raises(WireError) as caught:
        decode_message(json.dumps({**GOOD, **change}).encode(), Descriptor)
    assert len(str(caught.value)) < 300
    assert "\u202e" not in str(caught.value)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"v":1' + b"9" * 5_000 + b"}",
        b'"\\ud800"',
        b"null",
        b"{",
        b'{"v": NaN}',
        b"x" * 200_000,
    ],
    ids=range(9),
)
@pytest.mark.parametrize("model", [Descriptor, JobMessage, PublisherMessage])
def test_garbage(payload: bytes, model: Any) -> None:
    """Whatever bytes come, decoding raises WireError and nothing else."""
    with pytest.raises(WireError):
        decode_message(payload, model)
    with pytest.raises(WireError):
        parse_json_object(payload)


def test_size_limit_comes_first() -> None:
    """A message over the limit is refused before it is parsed."""
    with pytest.raises(WireError, match="over the limit of 10"):
        decode_message(b"x" * 11, Descriptor, Limits(payload_bytes=10))
