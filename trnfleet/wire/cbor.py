"""CBOR from the wire or from a file: bounded, strict decoding."""

from __future__ import annotations

import io
from typing import Any

import cbor2
import numpy as np

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


_MAX_DEPTH = 16
"""How deep an item may be nested."""
TYPED_ARRAYS: dict[int, np.dtype[Any]] = {
    64: np.dtype("u1"),
    69: np.dtype("<u2"),
    70: np.dtype("<u4"),
    71: np.dtype("<u8"),
    85: np.dtype("<f4"),
    86: np.dtype("<f8"),
}
"""Typed little-endian arrays by their tag in RFC 8746. Tag 64 has no byte order."""
ARRAY_TAGS = {dtype: tag for tag, dtype in TYPED_ARRAYS.items()}


def decode_cbor(data: bytes | memoryview) -> Any:
    """Decode one CBOR item, exactly as long as the data.

    Raises:
        WireError: it is not CBOR, of indefinite length, has a key twice, a tag with a meaning or
            bytes behind it.
    """
    stream = io.BytesIO(data)
    decoder = cbor2.CBORDecoder(
        stream,
        semantic_decoders=_REFUSED,
        max_depth=_MAX_DEPTH,
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
