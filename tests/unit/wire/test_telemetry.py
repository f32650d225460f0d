from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, METRICS
from trnfleet.errors import WireError
from trnfleet.wire.telemetry import (
    Head,
    Sample,
    decode_sample,
    decode_samples,
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
    names = [metric.name for metric in CHIP_METRICS]
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
    for metric, codes in split_codes([sample.codes for sample in samples], CHIP_METRICS):
        assert np.array_equal(codes, feed.columns[metric.name][:16]), metric.name
    sample = decode_sample(dump(encode_instance(HEAD, PATH, None, feed.columns, 2)))
    assert not sample.is_chip
    for metric, codes in split_codes([sample.codes], INSTANCE_METRICS):
        assert codes[0] == feed.columns[metric.name][2]


def test_absent_and_null_are_not_available(feed: Feed) -> None:
    """A missing or null metric is the top code, never 0."""
    value = chip_object(feed)
    del value["power_w"]
    value["tflops"] = None
    value["nc_util_pct"][3] = None
    got = {
        m.name: codes[0]
        for m, codes in split_codes([decode_sample(dump(value)).codes], CHIP_METRICS)
    }
    assert got["power_w"] == 65_535
    assert got["tflops"] == 65_535
    assert got["nc_util_pct"][3] == 255
    assert got["nc_util_pct"][2] != 255


CHANGES: list[dict[str, Any]] = [
    {"v": 2},
    {"v": None},
    {"boot": ""},
    {"boot": 1},
    {"seq": -1},
    {"seq": 1.5},
    {"seq": True},
    {"seq": 2**64},
    {"ts": "yesterday"},
    {"ts": 5},
    {"ts": "2026-01-05T00:00:00"},
    {"chip": "5"},
    {"chip": -1},
    {"chip": 5_000},
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


@pytest.mark.parametrize("change", CHANGES)
def test_a_message_without_its_identity_is_refused(feed: Feed, change: dict[str, Any]) -> None:
    """A message without a certain subject is refused as a whole."""
    with pytest.raises(WireError):
        decode_sample(dump({**chip_object(feed), **change}))


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
    there, here = (
        {m.name: codes[0] for m, codes in split_codes([decode_sample(each).codes], CHIP_METRICS)}
        for each in (good, changed)
    )
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
    assert plain(decode_samples([changed] * 9)[4]) == plain(sample)


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
    assert len(sample.codes) == sum(metric.width for metric in CHIP_METRICS)


def test_many_are_decoded_as_each_alone(feed: Feed) -> None:
    """A batch of right, partial and wrong objects decodes like each alone."""
    good = [value for _, value in encode_chips(HEAD, PATH, "pre", feed.columns, slice(0, 16))] + [
        encode_instance(HEAD, PATH, None, feed.columns, row) for row in range(4)
    ]
    limits = [
        {"power_w": watts}
        for watts in (0, 6553.4, 6553.45, 6553.5, 0.04, 0.05, 2**70, 1e300, -0.0, -1e-9)
    ]
    counters = [
        {"exec_completed": count} for count in (2**53 + 1, 2**64 - 2, 2**64 - 1, 2**64, -1, 0, 1.0)
    ]
    lanes: list[Any] = ["12345678", [None] * 8, [0.25] * 8, [0.75] * 8, {}, None]
    odd: list[dict[str, Any]] = [{"nc_util_pct": each} for each in lanes]
    odd += [
        {"power_w": None},
        {"power_w": None, "nc_util_pct": [None, *[0.5] * 6, None]},
        {"links_up": None},
    ]
    doubtful = [change for change, _ in DOUBTFUL]
    changed = [{**good[0], **change} for change in (*CHANGES, *doubtful, *limits, *counters, *odd)]
    payloads = [dump(value) for value in (*good, *changed)] + [b"", b"{}", b"[]", b"{}{}", b"\xff"]
    assert [plain(each) for each in decode_samples(payloads)] == [
        alone(payload) for payload in payloads
    ]


@given(values=st.lists(st.floats(allow_nan=False) | st.integers(), min_size=8, max_size=8))
def test_any_values_of_many(values: list[float]) -> None:
    """Any numbers in many objects decode to the same codes or errors as alone."""
    made = chip_object(Feed(ultraservers(1)))
    payloads = [dump({**made, "tflops": value, "hbm_used_bytes": value}) for value in values]
    assert [plain(each) for each in decode_samples(payloads)] == [
        alone(payload) for payload in payloads
    ]


def plain(got: Sample | WireError) -> tuple[object, ...]:
    """Return the decoded sample or the error's text in comparable form."""
    return (
        (str(got),) if isinstance(got, WireError) else (*got[:3], *map(int, got.codes), *got.doubts)
    )


def alone(payload: bytes) -> tuple[object, ...]:
    try:
        return plain(decode_sample(payload))
    except WireError as error:
        return plain(error)
