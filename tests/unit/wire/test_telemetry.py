from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.metrics import BY_NAME, CHIP_METRICS, METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.wire.telemetry import (
    Head,
    decode_sample,
    dump,
    encode_chips,
    encode_instance,
    split_codes,
)

PATH = "uc1/us-0001/trn2u-0001-0"
HEAD = Head("boot", 5, 1_767_571_200_250_000_000)


@pytest.fixture
def feed() -> Feed:
    made = Feed(ultraservers(1))
    made.scatter()
    return made


def chip_object(feed: Feed) -> dict[str, Any]:
    return next(iter(encode_chips(HEAD, PATH, "pre", feed.columns, slice(0, 16))))[1]


def test_chip_object_is_flat_and_named_by_the_table(feed: Feed) -> None:
    """A chip's object has its identity, then the metric table's names.

    Vectors are arrays in table order.
    """
    got = json.loads(dump(chip_object(feed)))
    assert got["ts"] == "2026-01-05T00:00:00.250Z"
    assert [got[key] for key in ("cluster", "ultraserver", "instance", "chip", "job", "seq")] == [
        *PATH.split("/"),
        0,
        "pre",
        5,
    ]
    names = [name for name in feed.columns if BY_NAME[name].scope is Scope.CHIP]
    assert list(got)[-len(names) :] == names
    assert len(got["nc_util_pct"]) == 8
    assert not any(isinstance(value, dict) for value in got.values())


def test_round_trip_gives_the_same_codes(feed: Feed) -> None:
    """Decoded codes equal the encoded ones, for every chip and instance metric."""
    feed.columns["power_w"][3] = 65_535
    samples = [
        decode_sample(dump(value))
        for _, value in encode_chips(HEAD, PATH, None, feed.columns, slice(0, 16))
    ]
    for metric, codes in split_codes(samples):
        column = feed.columns.get(metric.name, metric.blank(64))
        assert np.array_equal(codes, column[:16]), metric.name
    sample = decode_sample(dump(encode_instance(HEAD, PATH, None, feed.columns, 2)))
    assert not sample.is_chip
    for metric, codes in split_codes([sample]):
        assert codes[0] == feed.columns.get(metric.name, metric.blank(4))[2]


def test_absent_and_null_are_not_available(feed: Feed) -> None:
    """A missing or null metric is the top code, never 0."""
    value = chip_object(feed)
    del value["power_w"]
    value["tflops"] = None
    value["nc_util_pct"][3] = None
    got = codes_of(dump(value))
    assert got["power_w"] == 65_535
    assert got["tflops"] == 65_535
    assert got["nc_util_pct"][3] == 255
    assert got["nc_util_pct"][2] != 255


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"v": 2}, "v: must be 1, not 2"),
    ({"v": None}, "v: must be a whole number, not None"),
    ({"boot": ""}, "boot: must have at least 1 characters, not 0"),
    ({"boot": 1}, "boot: must be text, not 1"),
    ({"seq": -1}, "seq: must be at least 0, not -1"),
    ({"seq": 1.5}, "seq: must be a whole number, not 1.5"),
    ({"seq": True}, "seq: must be a whole number, not True"),
    ({"seq": 2**64}, "seq: must be at most 9223372036854775807, not a number of over 64 bits"),
    ({"ts": "yesterday"}, "ts: not a time with its zone, .*, not 'yesterday'"),
    ({"ts": 5}, "ts: must be text, not 5"),
    ({"ts": "2026-01-05T00:00:00"}, "ts: not a time with its zone, .*, not '2026-01-05T00:00:00'"),
    ({"ts": "1969-12-31T23:59:59Z"}, "ts: a time outside the years 1970 to 2199, not '1969"),
    ({"instance": 5}, "instance: must be text, not 5"),
    ({"chip": "5"}, "chip: must be a whole number, not '5'"),
    ({"chip": -1}, "chip: must be at least 0, not -1"),
    ({"chip": 5_000}, "chip: must be at most 999, not 5000"),
]
DOUBTFUL: list[tuple[dict[str, Any], str]] = [
    ({"power_w": "1"}, "power_w must be a number, not '1'"),
    ({"power_w": True}, "power_w must be a number, not True"),
    ({"power_w": -1}, "power_w must be from 0 to 6553.4, not -1"),
    ({"power_w": 1e9}, "power_w must be from 0 to 6553.4, not 1000000000.0"),
    ({"power_w": [1]}, "power_w must be a number"),
    ({"exec_completed": 1.5}, "exec_completed must be a whole number, not 1.5"),
    ({"nc_util_pct": 5}, "nc_util_pct must be a list of 8 numbers, not 5"),
    ({"nc_util_pct": [1] * 7}, "nc_util_pct must be a list of 8 numbers"),
    ({"nc_util_pct": [1] * 7 + ["x"]}, "nc_util_pct must be a number, not 'x'"),
    ({"nc_util_pct": [1] * 7 + [4294967295]}, "nc_util_pct must be from 0 to 101, not 4294967295"),
    ({"nc_util_pct": [1] * 7 + [102]}, "nc_util_pct must be from 0 to 101, not 102"),
    ({"links_up": 300}, "links_up must be from 0 to 254, not 300"),
    ({"temp_c": 60.0}, "temp_c: did you mean temperature_c?"),
    ({"power": 300}, "power: did you mean power_w?"),
    ({"nc_util": [1] * 8}, "nc_util: did you mean nc_util_pct?"),
    ({"fan_rpm": 900}, "fan_rpm: unknown metric"),
    ({"host_power_w": 900}, "host_power_w: a metric of instances, not of chips"),
    ({"\u202e": 1}, "'\\u202e': unknown metric"),
]


@pytest.mark.parametrize(("change", "text"), CHANGES)
def test_a_message_without_its_identity_is_refused(
    feed: Feed, change: dict[str, Any], text: str
) -> None:
    """A message without a certain subject is refused as a whole.

    The refusal names the field, the limit and the value, also among doubtful values.
    """
    for doubtful in ({}, {"power_w": -1, "fan_rpm": 900}):
        with pytest.raises(WireError, match=f"Telemetry {text}"):
            decode_sample(dump({**chip_object(feed), **doubtful, **change}))


@pytest.mark.parametrize("name", ["v", "boot", "seq", "ts", "cluster", "ultraserver", "instance"])
def test_a_message_has_all_of_its_identity(feed: Feed, name: str) -> None:
    """The refusal names the missing field."""
    message = chip_object(feed)
    del message[name]
    with pytest.raises(WireError, match=f"Telemetry {name}: is missing"):
        decode_sample(dump(message))


@pytest.mark.parametrize(("change", "text"), DOUBTFUL)
def test_a_value_that_cannot_be_one_takes_no_other_with_it(
    feed: Feed, change: dict[str, Any], text: str
) -> None:
    """An invalid value is not available and named; the rest of the message counts.

    It is named with its limit or the nearest metric, alone and among many.
    """
    good = dump(chip_object(feed))
    changed = dump({**chip_object(feed), **change})
    sample = decode_sample(changed)
    (doubt,) = sample.doubts
    assert doubt.text == text
    there = codes_of(good)
    here = codes_of(changed)
    for metric in CHIP_METRICS:
        if metric.name not in change:
            assert np.array_equal(there[metric.name], here[metric.name])
        else:
            lanes = change[metric.name] if isinstance(change[metric.name], list) else [None]
            bad = (
                [number for number, lane in enumerate(lanes) if lane != 1]
                if len(lanes) == metric.width
                else slice(None)
            )
            assert (np.atleast_1d(here[metric.name])[bad] == metric.top).all()


def test_notes_of_a_publisher_are_no_metrics(feed: Feed) -> None:
    """A text or an object under a private key is not read as a metric."""
    assert not decode_sample(
        dump({**chip_object(feed), "rack": "B", "note": {"a": 1}, "ok": True})
    ).doubts


@given(payload=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes(payload: bytes) -> None:
    """Whatever bytes come, only WireError is raised."""
    with pytest.raises(WireError):
        decode_sample(payload)


@given(
    name=st.sampled_from([metric.name for metric in METRICS]),
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=9),
        max_leaves=9,
    ),
)
def test_any_value(name: str, value: object) -> None:
    """Any JSON for a metric decodes to codes or raises WireError."""
    feed = Feed(ultraservers(1))
    try:
        sample = decode_sample(dump({**chip_object(feed), name: value}))
    except WireError:
        return
    for metric, codes in split_codes([sample]):
        assert codes.shape == ((1, metric.width) if metric.is_vector else (1,))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        *(
            ({"power_w": watts}, code)
            for watts, code in (
                (0, 0),
                (-0.0, 0),
                (0.04, 0),
                (0.06, 1),
                (6553.4, 65_534),
                (6553.45, 65_534),
                (6553.5, None),
                (2**70, None),
                (1e300, None),
                (-1e-9, None),
            )
        ),
        *(
            ({"exec_completed": count}, code)
            for count, code in (
                (0, 0),
                (2**53 + 1, 2**53 + 1),
                (2**63, 2**63),
                (2**64 - 2, 2**64 - 2),
                (2**64 - 1, None),
                (2**64, None),
                (-1, None),
                (1.0, None),
            )
        ),
    ],
)
def test_the_ends_of_a_metrics_range(
    feed: Feed, change: dict[str, float], code: int | None
) -> None:
    """A value within half a step of the range has the nearest code; others are in doubt."""
    ((name, value),) = change.items()
    payload = dump({**chip_object(feed), name: value})
    assert len(decode_sample(payload).doubts) == (code is None)
    metric = BY_NAME[name]
    assert int(codes_of(payload)[name]) == (metric.top if code is None else code)


def test_a_number_beyond_a_float_is_in_doubt(feed: Feed) -> None:
    """An overflowing number takes no other value with it."""
    payload = dump({**chip_object(feed), "power_w": None}).replace(
        b'"power_w":null', b'"power_w":1e999'
    )
    (doubt,) = decode_sample(payload).doubts
    assert doubt.text == "power_w must be from 0 to 6553.4, not inf"


@pytest.mark.parametrize("chip", ['"chip":null', '"\\u0063hip":null', '"job":"\\"chip\\""'])
def test_an_instance_is_recognised_by_its_chip(feed: Feed, chip: str) -> None:
    """A message without a chip's number is an instance's, however it is written."""
    payload = dump(encode_instance(HEAD, PATH, None, feed.columns, 2))
    sample = decode_sample(payload.replace(b'"job":null', chip.encode()))
    assert not sample.is_chip
    assert not sample.doubts


def test_a_row_of_codes_does_not_depend_on_others(feed: Feed) -> None:
    """Codes of many messages, whole and partial, equal those of each alone."""
    good = [value for _, value in encode_chips(HEAD, PATH, "pre", feed.columns, slice(0, 16))]
    changes: list[dict[str, Any]] = [change for change, _ in DOUBTFUL]
    changes += [
        {"nc_util_pct": None},
        {"nc_util_pct": [None] * 8},
        {"nc_util_pct": [None, *[0.5] * 6, None], "power_w": None},
        {"links_up": None},
    ]
    payloads = [dump(value) for value in (*good, *({**good[0], **change} for change in changes))]
    together = {
        metric.name: codes for metric, codes in split_codes([*map(decode_sample, payloads)])
    }
    for number, payload in enumerate(payloads):
        for name, alone in codes_of(payload).items():
            assert np.array_equal(together[name][number], alone), name


def codes_of(payload: bytes) -> dict[str, Any]:
    """Return the codes of one message by metric."""
    return {metric.name: codes[0] for metric, codes in split_codes([decode_sample(payload)])}
