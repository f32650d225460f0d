"""CBOR from the wire or from a file: bounded, strict decoding."""

from __future__ import annotations

import io
from typing import Any

import cbor2

from trnfleet.errors import WireError

_TAGS_WITH_MEANING = (
    0,
    1,
    2,
    3,
    4,
    5,
    25,
    28,
    29,
    30,
    35,
    36,
    37,
    100,
    256,
    258,
    260,
    261,
    1004,
    43000,
    55799,
)
"""Tags that cbor2 would convert into objects. Among them are regular expressions and big numbers:
they can take minutes. None is used here."""


def decode_cbor(data: bytes | memoryview, max_depth: int) -> Any:
    """Decode one CBOR item, exactly as long as the data.

    Args:
        data: The item's bytes.
        max_depth: How deep it may be nested.

    Raises:
        WireError: it is not CBOR, of indefinite length, has a key twice, a tag with a meaning or
            bytes behind it.
    """
    stream = io.BytesIO(data)
    decoder = cbor2.CBORDecoder(
        stream,
        semantic_decoders=_REFUSED,
        max_depth=max_depth,
        allow_indefinite=False,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    )
    try:
        decoded = decoder.decode()
    except Exception as error:  # any error of a foreign decoder means the same
        raise WireError(f"not CBOR: {type(error).__name__}") from error
    if stream.tell() != len(data):
        raise WireError("not CBOR: bytes after its end")
    return decoded


def _refuse_tag(*_: Any) -> Any:
    raise ValueError("a tag that nothing of ours has")


_REFUSED = dict.fromkeys(_TAGS_WITH_MEANING, _refuse_tag)
