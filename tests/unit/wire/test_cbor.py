"""CBOR of others, within bounds."""

from __future__ import annotations

import cbor2
import pytest

from trnfleet.errors import WireError
from trnfleet.wire.cbor import decode_cbor


def test_what_is_cbor_is_decoded() -> None:
    """Views too."""
    data = {"a": [1, b"x", None], "b": cbor2.CBORTag(64, b"yz")}
    assert decode_cbor(cbor2.dumps(data)) == data
    assert decode_cbor(memoryview(cbor2.dumps("text"))) == "text"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",
        cbor2.dumps({"a": 1})[:-1],
        cbor2.dumps({"a": 1}) + b"\xf6",
        b"\xa2\x61a\x01\x61a\x02",
        b"\x9f\x01\xff",
        b"\x81" * 17 + b"\x01",
        cbor2.dumps(cbor2.CBORTag(35, "(a+)+$")),
        cbor2.dumps([cbor2.CBORTag(2, b"\xff" * 20)]),
    ],
)
def test_what_is_not_plain_and_whole_is_refused(data: bytes) -> None:
    """Torn, trailing, indefinite, too deep, tagged or duplicate-key data is refused.

    Only tags with a meaning are refused.
    """
    with pytest.raises(WireError, match=r"^not CBOR: "):
        decode_cbor(data)
