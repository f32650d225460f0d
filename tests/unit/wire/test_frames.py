from __future__ import annotations

from dataclasses import replace
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import Feed, ultraservers

import trnfleet.wire.frames as frames_module
from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.errors import WireError
from trnfleet.wire.frames import FrameDecoder, FrameEncoder, is_known, to_store_codes
from trnfleet.wire.messages import STANDARD_COLUMNS, ColumnSpec

PATH = "uc1/us-0001"


def encoder(feed: Feed, revision: int = 0) -> FrameEncoder:
    return FrameEncoder(
        PATH,
        "boot",
        revision=revision,
        columns=feed.columns,
        chips=slice(0, 64),
        instances=slice(0, 4),
    )


def decoder() -> FrameDecoder:
    return FrameDecoder(STANDARD_COLUMNS, 64, 4)


@pytest.fixture
def feed() -> Feed:
    made = Feed(ultraservers(1))
    made.scatter()
    return made


@pytest.fixture
def reader() -> FrameDecoder:
    return decoder()


def test_frames_carry_every_column(reader: FrameDecoder, feed: Feed) -> None:
    """The first frame and, by its template, later ones give the codes that were encoded."""
    frames = encoder(feed)
    for seq in range(3):
        feed.scatter(seed=seq)
        frame = reader.decode(frames.encode(seq, 1_000 + seq))
        assert frame.head == ("boot", seq, 1_000 + seq)
        assert (frame.path, frame.revision) == (PATH, 0)
        for name, column in feed.columns.items():
            arrays = frame.chip if BY_NAME[name].scope is Scope.CHIP else frame.instance
            assert np.array_equal(arrays[name], column), name
    assert len(reader.templates) == 1


def test_an_ultraserver_frame_is_small(feed: Feed) -> None:
    """64 chips take at most 96 bytes each, and names and head."""
    assert len(encoder(feed).encode(0, 0)) < 64 * 96 + 1_500


@pytest.mark.parametrize("metrics", [1, 23, 24, 255, 256, 300])
def test_any_number_of_metrics_goes_into_a_frame(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, metrics: int
) -> None:
    """A metric table of any length makes a readable frame and template."""
    power = BY_NAME["power_w"]
    table = tuple(replace(power, name=f"power_{number}_w") for number in range(metrics))
    monkeypatch.setattr(frames_module, "CHIP_METRICS", table)
    feed.columns |= {metric.name: feed.columns["power_w"] for metric in table}
    specs = tuple(map(ColumnSpec.of, table))
    rest = tuple(column for column in STANDARD_COLUMNS if column.per is Scope.INSTANCE)
    frames = encoder(feed)
    reader = FrameDecoder(specs + rest, 64, 4)
    for seq in range(2):
        payload = frames.encode(seq, 0)
        assert list(cbor2.loads(payload)["chip"]) == [metric.name for metric in table]
        assert np.array_equal(reader.decode(payload).chip[table[-1].name], feed.columns["power_w"])


def test_other_encoders_are_read_too(reader: FrameDecoder, feed: Feed) -> None:
    """A frame with the same content in another CBOR form is parsed in full."""
    ours = encoder(feed).encode(7, 8)
    reader.decode(ours)
    data = cbor2.loads(ours)
    theirs = cbor2.dumps(dict(reversed(data.items())))
    assert theirs != ours
    frame = reader.decode(theirs)
    assert frame.head == ("boot", 7, 8)
    assert np.array_equal(frame.chip["power_w"], feed.columns["power_w"])


def test_a_changed_boot_is_not_mistaken(reader: FrameDecoder, feed: Feed) -> None:
    """A template learned from one boot does not hide another."""
    reader.decode(encoder(feed).encode(0, 0))
    other = FrameEncoder(
        PATH, "taob", revision=0, columns=feed.columns, chips=slice(0, 64), instances=slice(0, 4)
    )
    assert reader.decode(other.encode(0, 0)).head.boot == "taob"


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"path": 1},
        {"boot": ""},
        {"boot": "x" * 65},
        {"seq": -1},
        {"seq": 2**63},
        {"ts": "x"},
        {"rev": None},
        {"chip": 5},
        {"chip": {"power_w": 1}},
        {"chip": {"power_w": cbor2.CBORTag(69, b"123")}},
        {"chip": {"power_w": cbor2.CBORTag(64, bytes(128))}},
        {"chip": {"power_w": cbor2.CBORTag(81, bytes(128))}},
        {"instance": []},
        {"instance": {}},
    ],
)
def test_bad_frames(feed: Feed, change: dict[str, Any]) -> None:
    """A frame that contradicts its descriptor is a WireError."""
    data = cbor2.loads(encoder(feed).encode(0, 0))
    with pytest.raises(WireError):
        decoder().decode(cbor2.dumps({**data, **change}))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damage(data: st.DataObject) -> None:
    """A damaged or cut frame decodes or raises WireError, with and without a template."""
    feed = Feed(ultraservers(1))
    payload = bytearray(encoder(feed).encode(3, 4))
    reader = decoder()
    if data.draw(st.booleans()):
        reader.decode(bytes(payload))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    for damaged in (bytes(payload), bytes(payload[:cut]), bytes(payload) + b"\x00"):
        try:
            frame = reader.decode(damaged)
        except WireError:
            continue
        assert frame.head.seq >= 0


@pytest.mark.parametrize("name", [b"uc1/us-0001", b"boot"])
def test_a_damaged_name_is_refused_with_and_without_a_template(
    reader: FrameDecoder, feed: Feed, name: bytes
) -> None:
    """A path or boot in invalid UTF-8 is undecodable, with and without a template."""
    payload = encoder(feed).encode(3, 4)
    reader.decode(payload)
    value = payload.rindex(name, 0, payload.index(b"chip"))
    damaged = payload[:value] + b"\xff" + payload[value + 1 :]
    for each in (reader, decoder()):
        with pytest.raises(WireError, match="not CBOR"):
            each.decode(damaged)


@given(payload=st.binary(max_size=200))
def test_any_bytes(payload: bytes) -> None:
    """Whatever bytes come, only WireError is raised."""
    with pytest.raises(WireError):
        decoder().decode(payload)


def test_deep_nesting_is_refused() -> None:
    """A payload of nested arrays does not end the reader."""
    with pytest.raises(WireError):
        decoder().decode(b"\x81" * 100_000)


def test_foreign_columns_are_converted() -> None:
    """Another type, scale or width becomes the table's codes.

    Missing lanes are not available.
    """
    watts = ColumnSpec(name="power_w", type="u32", scale=1.0, width=1)
    got = to_store_codes(watts, np.array([412, 2**32 - 1], np.uint32))
    assert got.tolist() == [4_120, BY_NAME["power_w"].top]
    two_cores = ColumnSpec(name="nc_util_pct", type="u8", scale=1.0, width=2)
    got = to_store_codes(two_cores, np.array([[50, 255]], np.uint8))
    assert got.tolist() == [[100, 255, 255, 255, 255, 255, 255, 255]]
    assert is_known(two_cores)
    assert not is_known(ColumnSpec(name="new_metric", type="u8", scale=1.0, width=1))


@pytest.mark.parametrize("tag", [0, 1, 2, 4, 5, 28, 30, 35, 36, 37, 258, 260, 1004])
def test_tags_that_a_frame_does_not_have(tag: int) -> None:
    """The CBOR library creates no objects: a regular expression alone could last a minute."""
    pattern = "(?i)" + "[\u0100-\uffff]" * 3_000
    with pytest.raises(WireError):
        decoder().decode(cbor2.dumps({"x": cbor2.CBORTag(tag, pattern if tag == 35 else [1, 2])}))


@pytest.mark.parametrize(
    "payload", [b"\xbf\xff", b"\xa2\x61a\x01\x61a\x02", b"\xa1\x01\x01", b"\x81" * 20]
)
def test_forms_that_a_frame_does_not_have(payload: bytes) -> None:
    """Indefinite lengths, duplicate or non-text keys, and deep nesting are refused."""
    with pytest.raises(WireError):
        decoder().decode(payload)


def test_padding_is_not_kept(reader: FrameDecoder, feed: Feed) -> None:
    """A frame with much besides its values is read, but has no template."""
    data = cbor2.loads(encoder(feed).encode(0, 0))
    frame = reader.decode(cbor2.dumps({**data, "padding": bytes(100_000)}))
    assert np.array_equal(frame.chip["power_w"], feed.columns["power_w"])
    assert not reader.templates


def test_topics_share_what_was_learned(reader: FrameDecoder, feed: Feed) -> None:
    """A frame of another path uses the same template, with its own path."""
    reader.decode(encoder(feed).encode(0, 0))
    other = FrameEncoder(
        "uc1/us-0777",
        "boot",
        revision=0,
        columns=feed.columns,
        chips=slice(0, 64),
        instances=slice(0, 4),
    )
    frame = reader.decode(other.encode(5, 6))
    assert (frame.path, frame.head) == ("uc1/us-0777", ("boot", 5, 6))
    assert len(reader.templates) == 1


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (cbor2.CBORTag(70, bytes(2 * 64)), "power_w is not of the type u16"),
        (cbor2.CBORTag(69, bytes(2 * 63)), "power_w has 126 bytes, not 64 rows of 1"),
        (cbor2.CBORTag(81, bytes(2 * 64)), "power_w is not a typed array"),
        (bytes(2 * 64), "power_w is not a typed array"),
    ],
)
def test_an_array_is_what_its_column_says(feed: Feed, array: object, why: str) -> None:
    """Also where it has as many bytes as the column, and all others are there."""
    data = cbor2.loads(encoder(feed).encode(0, 0))
    data["chip"]["power_w"] = array
    with pytest.raises(WireError, match=why):
        decoder().decode(cbor2.dumps(data))


def test_templates_are_bounded(reader: FrameDecoder, feed: Feed) -> None:
    """Frames of ever another length make room for each other."""
    lengths = set()
    for number in range(1, 100):
        path = "uc1/us-" + "0" * max(1, number - 50)
        boot = "b" * min(50, number)
        chips = slice(0, 64)
        instances = slice(0, 4)
        frame = FrameEncoder(
            path, boot, revision=0, columns=feed.columns, chips=chips, instances=instances
        )
        payload = frame.encode(0, 0)
        assert reader.decode(payload).path == path
        lengths.add(len(payload))
        assert 1 <= len(reader.templates) <= 64
    assert len(lengths) > 64
