"""Heads of telemetry, read without its descriptor."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trnfleet.errors import WireError
from trnfleet.wire.frame_head import boot_span, frame_head, is_cbor
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope

values = st.recursive(
    st.integers()
    | st.binary(max_size=300)
    | st.text(max_size=40)
    | st.floats()
    | st.booleans()
    | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("payload", "content_type", "expected"),
    [
        (b"\xa8", None, True),
        (b"{}", None, False),
        (b"", None, False),
        (b" {}", None, False),
        (b"{}", CONTENT_TYPE_CBOR, True),
        (b"\xa8", CONTENT_TYPE_JSON, False),
        (b"\xb9\x00\x08", "text/plain", True),
    ],
)
def test_the_content_type_or_the_first_byte_identifies_a_frame(
    payload: bytes, content_type: str | None, expected: bool
) -> None:
    """Where the broker speaks MQTT 3.1.1 there is no content type."""
    assert is_cbor(Envelope("t", payload, content_type=content_type)) is expected


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda key: key not in {"boot", "seq"}), values, max_size=8
    ),
    st.text(min_size=1, max_size=16),
    st.integers(0, 2**64 - 1),
)
@example({"path": "uc1/a/coldboot"}, "b" * 64, 0)
def test_the_head_is_found_among_whatever_else(others: dict[str, Any], boot: str, seq: int) -> None:
    """Before, between and behind other keys, with values of any form."""
    pairs = list(others.items())
    for place in range(len(pairs) + 1):
        frame = cbor2.dumps(
            {**dict(pairs[:place]), "seq": seq, **dict(pairs[place:]), "boot": boot}
        )
        assert frame_head(frame) == (boot, seq)
        assert frame[boot_span(frame)].decode() == boot


@given(
    st.binary(max_size=80)
    | st.binary(max_size=40).map(lambda rest: cbor2.dumps({"path": "a"}) + rest)
)
def test_what_is_no_frame_is_refused(payload: bytes) -> None:
    """Arbitrary bytes raise WireError; nothing is read outside of them."""
    for find in (boot_span, frame_head):
        try:
            find(payload)
        except WireError:
            continue
        span = boot_span(payload)
        assert 0 < span.start < span.stop <= len(payload)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "torn"),
        (cbor2.dumps([1]), "not a frame"),
        (cbor2.dumps({1: 2}), "a key that is not text"),
        (cbor2.dumps({"seq": 1}), "without boot or seq"),
        (cbor2.dumps({"boot": "b", "seq": -1}), "seq is not a number"),
        (cbor2.dumps({"boot": "b" * 65, "seq": 1}), "not text of 1 to 64 bytes"),
        (b"\xa1\x64boot\x63ab", "not text of 1 to 64 bytes"),
        (
            cbor2.dumps({**{str(number): 0 for number in range(1_024)}, "boot": "b", "seq": 1}),
            "without boot or seq",
        ),
        (cbor2.dumps({"x": [0] * 2_000, "boot": "b", "seq": 1}), "more than 1024 items"),
        (b"\xbf\x64boot\x61b\xff", "indefinite length"),
    ],
)
def test_why_a_head_is_not_found(payload: bytes, reason: str) -> None:
    """In one line."""
    with pytest.raises(WireError, match=reason):
        frame_head(payload)
