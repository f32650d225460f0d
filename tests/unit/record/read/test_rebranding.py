"""Recorded payloads as a replay rewrites them."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from support.monitor.feed import Feed, standalone

from trnfleet.record.read.rebranding import Rebranding
from trnfleet.wire.frame_head import frame_head
from trnfleet.wire.frames import FrameDecoder, FrameEncoder
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope

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
