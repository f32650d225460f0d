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
    """A chip's object has its identity, then the metric table's names, vectors as arrays in table order."""
    got = json.loads(dump(chip_object(feed)))
    assert got["ts"] == "2026-01-05T00:00:00.250Z"
    assert [got[key] for key in ("cluster", "ultraserver", "instance", "chip", "job", "seq")] == [
        *PATH.split("/"), 0, "pre", 5,
    ]  # fmt: skip
    names = [metric.name for metric in CHIP_METRICS]
    assert list(got)[-len(names) :] == names
    assert len(got["nc_util_pct"]) == 8
    assert not any(isinstance(value, dict) for value in got.values())


def test_round_trip_gives_the_same_codes(feed: Feed) -> None:
    """What is decoded are the codes that were encoded, for every chip and instance metric."""
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
    """A metric that is missing or null is the top code, never 0."""
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
        {"v": 2}, {"v": None}, {"boot": ""}, {"boot": 1}, {"seq": -1}, {"seq": 1.5}, {"seq": True}, {"seq": 2**64},
        {"ts": "yesterday"}, {"ts": 5}, {"ts": "2026-01-05T00:00:00"}, {"chip": "5"}, {"chip": -1}, {"chip": 5_000},
        {"power_w": "1"}, {"power_w": True}, {"power_w": -1}, {"power_w": 1e9}, {"power_w": [1]}, {"exec_completed": 1.5},
        {"nc_util_pct": 5}, {"nc_util_pct": [1] * 7}, {"nc_util_pct": [1] * 7 + ["x"]}, {"links_up": 300},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_bad_values(feed: Feed, change: dict[str, Any]) -> None:
    """A value of a wrong type or out of range is a WireError."""
    with pytest.raises(WireError):
        decode_sample(dump({**chip_object(feed), **change}))


@given(payload=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes(payload: bytes) -> None:
    """Whatever bytes come, only WireError is raised."""
    with pytest.raises(WireError):
        decode_sample(payload)


@given(name=st.sampled_from([metric.name for metric in METRICS]), value=st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=9), max_leaves=9,
))  # fmt: skip
def test_any_value(name: str, value: object) -> None:
    """Whatever JSON stands for a metric, decoding gives codes or WireError."""
    feed = Feed(ultraservers(1))
    try:
        sample = decode_sample(dump({**chip_object(feed), name: value}))
    except WireError:
        return
    assert len(sample.codes) == sum(metric.width for metric in CHIP_METRICS)


def test_many_are_decoded_as_each_alone(feed: Feed) -> None:
    """A batch of right, partial and wrong objects of chips and instances gives what each of them gives alone."""
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
    changed = [{**good[0], **change} for change in (*CHANGES, *limits, *counters, *odd)]
    payloads = [dump(value) for value in (*good, *changed)] + [b"", b"{}", b"[]", b"{}{}", b"\xff"]
    assert [plain(each) for each in decode_samples(payloads)] == [
        alone(payload) for payload in payloads
    ]


@given(values=st.lists(st.floats(allow_nan=False) | st.integers(), min_size=8, max_size=8))
def test_any_values_of_many(values: list[float]) -> None:
    """Whatever numbers stand for a metric of each of many, all get the codes or the errors that they get alone."""
    made = chip_object(Feed(ultraservers(1)))
    payloads = [dump({**made, "tflops": value, "hbm_used_bytes": value}) for value in values]
    assert [plain(each) for each in decode_samples(payloads)] == [
        alone(payload) for payload in payloads
    ]


def plain(got: Sample | WireError) -> tuple[object, ...]:
    """Return what was decoded, or the words of the error, as something that can be compared."""
    return (str(got),) if isinstance(got, WireError) else (*got[:3], *map(int, got.codes))


def alone(payload: bytes) -> tuple[object, ...]:
    try:
        return plain(decode_sample(payload))
    except WireError as error:
        return plain(error)
