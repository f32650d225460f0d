"""Envelopes as the messages of a recording."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.record.files import START_NS

from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format import schema
from trnfleet.record.format.envelopes import (
    KeyframeBound,
    channel_namer,
    pack,
    pack_bound,
    pack_repeat,
    source_ns,
    unpack,
    unpack_repeat,
)
from trnfleet.record.format.metadata import About
from trnfleet.wire.ports import Envelope, MessageProperties

envelopes = st.builds(
    Envelope,
    topic=st.text(min_size=1, max_size=300),
    payload=st.binary(max_size=70_000),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    content_type=st.none() | st.text(max_size=60),
    received_s=st.just(0.0),
    shed=st.just(0) | st.integers(0, 2**32 - 1),
    link=st.just(0),
    properties=st.none()
    | st.builds(
        MessageProperties,
        user=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=3).map(tuple),
        response_topic=st.none() | st.text(max_size=30),
        correlation=st.none() | st.binary(max_size=30),
        expiry_s=st.none() | st.integers(0, 2**32 - 1),
    ),
)


@given(envelopes)
def test_an_envelope_survives(envelope: Envelope) -> None:
    """All fields of an envelope come back, whatever their content.

    Topic, payload, QoS, retain flag, content type, properties and the shed count.
    """
    assert unpack(pack(envelope)) == envelope


@given(envelopes, st.integers(0, 2**63 - 1))
def test_a_repeat_survives_with_its_time(envelope: Envelope, time_ns: int) -> None:
    """A keyframe's message has the envelope's time of receipt."""
    assert unpack_repeat(pack_repeat(pack(envelope), time_ns)) == (time_ns, envelope)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("content_type", [None, "application/json", "etopic`"])
def test_an_envelope_is_packed_as_any_encoder_does(size: int, content_type: str | None) -> None:
    """A message has the bytes of a CBOR encoder, whatever the length of its parts."""
    for topic in ("t", "é" * 11 + "tt", "t" * min(size + 1, 65_535)):
        envelope = Envelope(
            topic, b"p" * size, size % 3, retain=bool(size % 2), content_type=content_type
        )
        fields = {"topic": topic, "qos": envelope.qos, "retain": envelope.retain}
        named = {} if content_type is None else {"content_type": content_type}
        assert pack(envelope) == cbor2.dumps({**fields, **named, "payload": envelope.payload})


def test_a_keyframes_bounds_survive() -> None:
    """Both ends of a keyframe say how many messages it has."""
    for bound in (KeyframeBound(0, True, end=False), KeyframeBound(70_000, False, end=True)):
        assert unpack_repeat(pack_bound(bound)) == bound


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused_in_one_way(data: bytes) -> None:
    """Invalid bytes raise a WireError and nothing else."""
    for read in (unpack, unpack_repeat):
        try:
            read(data)
        except WireError:
            continue


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": b""},
        {"topic": "", "payload": b""},
        {"topic": "t", "payload": "text"},
        {"topic": "t", "payload": b"", "qos": 3},
        {"topic": "t", "payload": b"", "qos": True},
        {"topic": "t", "payload": b"", "retain": 1},
        {"topic": "t", "payload": b"", "content_type": 7},
        [1, 2],
        cbor2.CBORTag(35, "(a+)+$"),
    ],
)
def test_a_map_that_is_no_envelope_is_refused(fields: object) -> None:
    """A missing or invalid field, and tags for objects, are refused."""
    with pytest.raises(WireError):
        unpack(cbor2.dumps(fields))


@pytest.mark.parametrize(
    "properties",
    [
        [],
        {"user": "site"},
        {"user": [["site"]]},
        {"user": [["site", 1]]},
        {"response_topic": b"a"},
        {"correlation": "a"},
        {"expiry_s": -1},
        {"expiry_s": True},
        {"expiry_s": 2**32},
    ],
)
def test_properties_that_are_none_are_refused(properties: object) -> None:
    """Each has the type that MQTT gives it."""
    with pytest.raises(WireError, match="message has impossible properties"):
        unpack(cbor2.dumps({"topic": "t", "payload": b"", "properties": properties}))


@pytest.mark.parametrize("behind", [b"\x00", cbor2.dumps({"topic": "t", "payload": b""})])
def test_a_message_with_something_behind_it_is_refused(behind: bytes) -> None:
    """A message with trailing bytes is refused: it may be damaged."""
    with pytest.raises(WireError, match="message is not CBOR: bytes after its end"):
        unpack(cbor2.dumps({"topic": "t", "payload": b""}) + behind)


def test_a_key_that_is_there_twice_is_refused() -> None:
    """Nobody knows which of the two was meant."""
    data = cbor2.dumps({"topic": "t", "payload": b"", "topic2": "u"}).replace(
        b"\x66topic2", b"\x65topic"
    )
    with pytest.raises(WireError, match="message is not CBOR"):
        unpack(data)


def test_unknown_keys_of_a_newer_minor_are_left_out() -> None:
    """Keys of a later minor version are ignored."""
    data = cbor2.dumps({"topic": "t", "payload": b"x", "user": {"a": [1, 2]}})

    assert unpack(data) == Envelope("t", b"x")


def test_a_former_major_is_brought_to_the_present(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered migration turns the map of the former version into the present one."""
    monkeypatch.setitem(schema.MIGRATIONS, 0, lambda old: {"topic": old["t"], "payload": old["p"]})

    assert unpack(cbor2.dumps({"t": "a/b", "p": b"x"}), major=0) == Envelope("a/b", b"x")
    assert schema.read_major("0.3", "f.mcap") == 0


def test_versions_that_cannot_be_read_are_refused() -> None:
    """A newer minor is read; an unreadable version is refused by name.

    A newer major, one without a migration, and nonsense.
    """
    assert schema.read_major("1.9", "f.mcap") == 1
    with pytest.raises(ConfigError, match=r"f\.mcap: .*schema 2\.0.* up to 1"):
        schema.read_major("2.0", "f.mcap")
    with pytest.raises(ConfigError, match="no longer reads"):
        schema.read_major("0.9", "f.mcap")
    with pytest.raises(ConfigError, match="not a version"):
        schema.read_major("one", "f.mcap")


@pytest.mark.parametrize(
    ("topic", "channel"),
    [
        ("trnfleet/v1/demo/telemetry/uc1/us-0001", "telemetry"),
        ("trnfleet/v1/demo/publisher/sim", "publisher"),
        ("trnfleet/v1/demo/telemetry", "other"),
        ("trnfleet/v1/demo/weather/uc1", "other"),
        ("trnfleet/v2/demo/telemetry/uc1", "other"),
        ("elsewhere/v1/demo/telemetry/uc1", "other"),
    ],
)
def test_a_topic_has_the_channel_of_its_class(topic: str, channel: str) -> None:
    """Foreign topics have the channel `other`."""
    assert channel_namer("trnfleet")(topic) == channel


def test_a_payload_tells_its_own_time() -> None:
    """Frames and JSON telemetry name their time; what does not has the time of receipt."""
    frame = cbor2.dumps({"v": "1.0", "boot": "b", "seq": 1, "ts": START_NS})

    assert source_ns(frame, 5) == START_NS
    assert source_ns(b'{"ts":"2026-01-05T00:00:00.000Z","v":"1.0"}', 5) == START_NS
    for payload in (
        b"",
        b'{"ts":"yesterday"}',
        b'{"ts":"2026',
        b"\x62ts\x1b\xff",
        b"\x62ts\x1b" + b"\xff" * 8,
    ):
        assert source_ns(payload, 5) == 5


@given(
    st.builds(
        About,
        id=st.text(max_size=20),
        part=st.integers(1, 9_999),
        fleets=st.lists(st.from_regex(r"\A[A-Za-z0-9_-]{1,20}\Z"), max_size=4).map(tuple),
        filters=st.lists(st.text(max_size=20), max_size=4).map(tuple),
        broker=st.text(max_size=20),
        started=st.text(max_size=20),
        seed=st.none() | st.integers(0, 2**63),
        note=st.text(max_size=50),
    )
)
def test_what_a_recording_says_of_itself_survives(about: About) -> None:
    """Metadata is texts by name, and gives the same again."""
    data = about.to_metadata()

    assert all(isinstance(text, str) for text in data.values())
    assert About.from_metadata(data) == about


def test_senseless_metadata_says_nothing() -> None:
    """Invalid metadata are ignored."""
    about = About.from_metadata(
        {"part": "-1", "fleets": "[[[", "filters": '{"a": 1}', "seed": "x", "id": "a"}
    )

    assert about == About(id="a", version="")
