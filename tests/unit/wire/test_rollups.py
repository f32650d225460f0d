"""Frames of roll-ups: round trip, and refusal of values beyond their rows."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from trnfleet.domain.goodput import TimeCause
from trnfleet.errors import WireError
from trnfleet.wire.messages import ClockSpec, decode_message, encode_message
from trnfleet.wire.rollups import (
    BLOCK_ROWS,
    COUNTERS,
    SEVERITIES,
    STATES,
    TOTALS,
    CellPaidTime,
    RollupDescriptor,
    RollupForm,
    RollupFrame,
    RollupRow,
    decode_rollup,
    decode_rollup_head,
    encode_rollup,
    is_rollup,
)
from trnfleet.wire.telemetry import Head

PATH = "uc1/cell-a/0000"
HEAD = Head("b00t", 7, 1_767_571_200_000_000_000)
_SECONDS = {cause.key: 1e6 + cause for cause in TimeCause}
PAID = CellPaidTime(lasts_s=3_600.0, seconds=_SECONDS, usd=_SECONDS, unpriced_s=0.5)


def descriptor(rows: int = 2) -> RollupDescriptor:
    return RollupDescriptor(
        path=PATH,
        publisher="relay-1",
        boot=HEAD.boot,
        revision=3,
        period_s=1.0,
        clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
        cell="cell-a",
        rows=tuple(
            RollupRow(path=f"uc1/us-{number:04}", type="trn2u.48xlarge", instances=4)
            for number in range(rows)
        ),
    )


def frame(rows: int = 2) -> RollupFrame:
    states = np.zeros((rows, STATES), np.uint16)
    states[:, 0], states[:, 1] = 60, 4
    return RollupFrame(
        HEAD,
        np.arange(len(TOTALS) * rows, dtype=np.float32).reshape(len(TOTALS), rows),
        np.full((len(COUNTERS), rows), 2.0**24 + 1),
        np.full((len(TOTALS) + len(COUNTERS), rows), 4, np.uint16),
        states,
        np.zeros((rows, len(SEVERITIES)), np.uint16),
        ["trn2u-0-1/chip05"] * rows,
    )


def decoded(payload: bytes, rows: int = 2) -> RollupFrame:
    fields, head, _ = decode_rollup_head(payload)
    return decode_rollup(fields, head, RollupForm.of(descriptor(rows)))


def test_a_frame_is_read_as_it_was_written() -> None:
    """Counters keep what float32 would round."""
    written = frame()
    read = decoded(encode_rollup(PATH, 3, written))
    assert read.head == HEAD
    for name in ("totals", "counters", "covered", "states", "alerts"):
        assert np.array_equal(getattr(read, name), getattr(written, name))
    assert list(read.worst) == list(written.worst)


def test_paid_time_is_optional_and_checked() -> None:
    """An older relay has none; a newer one may have more."""
    assert decoded(encode_rollup(PATH, 3, frame())).paid is None
    assert decoded(encode_rollup(PATH, 3, frame()._replace(paid=PAID))).paid == PAID
    fields, head, _ = decode_rollup_head(encode_rollup(PATH, 3, frame()._replace(paid=PAID)))
    form = RollupForm.of(descriptor())
    assert decode_rollup({**fields, "paid": {**fields["paid"], "more": 1}}, head, form).paid == PAID
    for wrong in (
        1,
        {},
        {**fields["paid"], "lasts_s": -1.0},
        {**fields["paid"], "usd": {"a": "b"}},
    ):
        with pytest.raises(WireError, match="paid is no paid time"):
            decode_rollup({**fields, "paid": wrong}, head, form)


def test_the_largest_block_fits_a_message() -> None:
    """Frame and descriptor of a whole block fit AWS IoT Core's 128 KB."""
    longest = frame(BLOCK_ROWS)._replace(worst=["i" * 64 + "/chip15"] * BLOCK_ROWS, paid=PAID)
    assert len(encode_rollup(PATH, 3, longest)) < 131_072
    assert len(encode_message(descriptor(BLOCK_ROWS))) < 131_072


def test_a_descriptor_is_told_from_one_of_telemetry() -> None:
    payload = encode_message(descriptor())
    assert is_rollup(payload)
    assert is_rollup(payload.replace(b'"kind":"rollup"', b'"kind" : "rollup"'))
    assert not is_rollup(b'{"v":1,"path":"uc1/us-0001","publisher":"sim"}')
    assert decode_message(payload, RollupDescriptor) == descriptor()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"totals": np.full((len(TOTALS), 2), np.nan, np.float32)}, "not finite"),
        ({"states": np.full((2, STATES), 64, np.uint16)}, "as many chips as its rows have"),
        (
            {"covered": np.full((len(TOTALS) + len(COUNTERS), 2), 65, np.uint16)},
            "covers more than its rows have",
        ),
        ({"worst": ["chip00"]}, "not a list of 2 addresses"),
        ({"worst": ["chip00", "\x1b[2J"]}, "not a list of 2 addresses"),
        ({"worst": ["chip00", "chip01\nchip02"]}, "not a list of 2 addresses"),
        ({"worst": ["chip00", 1]}, "not a list of 2 addresses"),
        (
            {"totals": np.full((len(TOTALS), 2), -1.0, np.float32)},
            f"{TOTALS[0]} is nothing that its rows",
        ),
        (
            {"totals": np.full((len(TOTALS), 2), 3e38, np.float32)},
            f"{TOTALS[0]} is nothing that its rows",
        ),
        (
            {"counters": np.full((len(COUNTERS), 2), -1.0)},
            f"{COUNTERS[0]} is nothing that its rows",
        ),
        ({"alerts": np.zeros((3, len(SEVERITIES)), np.uint16)}, "alerts has 18 bytes, not 12"),
    ],
)
def test_what_says_more_than_its_rows_have_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(WireError, match=why):
        decoded(encode_rollup(PATH, 3, frame()._replace(**change)))  # type: ignore[arg-type]  # that is what is tested


def test_a_row_outside_its_cluster_is_refused() -> None:
    other = msgspec.structs.replace(descriptor(), path="uc2/cell-a/0000")
    with pytest.raises(WireError, match="of another cluster"):
        RollupForm.of(other)


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (("uc1/us-1", "uc1/us-1/i-1"), "a row of an UltraServer and one of an instance in it"),
        (("uc1/standalone",), "instances outside UltraServers have a row each"),
        (("uc1/us-1", "uc1/us-1"), "two rows of the same path"),
    ],
)
def test_rows_that_would_count_hardware_twice_are_refused(paths: tuple[str, ...], why: str) -> None:
    rows = [{"path": each, "type": "trn2u.48xlarge", "instances": 1} for each in paths]
    payload = json.dumps(json.loads(encode_message(descriptor())) | {"rows": rows}).encode()
    with pytest.raises(WireError, match=why):
        decode_message(payload, RollupDescriptor)
