"""The head of a frame, readable without its descriptor: encoding, boot and sequence number.

A frame's head is found by stepping from key to key of its map: its bytes alone do not distinguish a
key from a part of a text.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAP_HEADS = range(0xA0, 0xC0)
"""First bytes that CBOR maps begin with; JSON objects begin with an opening brace, 0x7B."""
_Major = enum.IntEnum("_Major", "NUMBER NEGATIVE BYTES TEXT ARRAY MAP TAG SIMPLE", start=0)
"""CBOR's major types."""
_NUMBER_OF_8_BYTES = b"\x1b"
_MOST_ITEMS = 1_024
"""Most keys read of a frame, and most items skipped in a key's value. At most 128 columns have 3
each."""
_LONGEST_BOOT = 64


def is_cbor(envelope: Envelope) -> bool:
    """Return whether telemetry is CBOR.

    Decided by the MQTT 5 content type, or without one by the first byte.
    """
    if envelope.content_type == CONTENT_TYPE_CBOR:
        return True
    if envelope.content_type == CONTENT_TYPE_JSON:
        return False
    return bool(envelope.payload) and envelope.payload[0] in _MAP_HEADS


def boot_span(payload: bytes) -> slice:
    """Return the position of the text of a frame's boot id.

    Raises:
        WireError: it is no frame, or has none.
    """
    return _boot(payload, _find(payload, b"boot"))


def frame_head(payload: bytes) -> tuple[str, int]:
    """Return boot and seq of a frame.

    Raises:
        WireError: it is no frame, or has none.
    """
    boot: str | None = None
    seq: int | None = None
    for key, at in _places(payload):
        if key == b"boot":
            boot = payload[_boot(payload, at)].decode(errors="replace")
        elif key == b"seq":
            major, seq, _ = _item(payload, at)
            if major != _Major.NUMBER:
                raise WireError("a frame whose seq is not a number")
        if boot is not None and seq is not None:
            return boot, seq
    raise WireError("a frame without boot or seq")


def seq_at(payload: bytes) -> int | None:
    """Return the position of the 8 bytes of a frame's sequence number.

    None unless everything `frame_head` checks before them comes before them. Frames with equal
    bytes up to there have the same boot, and their numbers in the same place.

    Raises:
        WireError: it is no frame, or has no sequence number.
    """
    has_boot = False
    for key, at in _places(payload):
        if key == b"seq":
            return at + 1 if has_boot and payload[at : at + 1] == _NUMBER_OF_8_BYTES else None
        has_boot |= key == b"boot"
    raise WireError("a frame without seq")


def with_seq(payload: bytes, seq: int) -> bytes:
    """Return a frame with another sequence number, in equally many bytes.

    The present number must not be smaller.

    Raises:
        WireError: it is no frame, or has no sequence number.
    """
    at = _find(payload, b"seq")
    major, _, end = _item(payload, at)
    if major != _Major.NUMBER:
        raise WireError("a frame whose seq is not a number")
    size = end - at - 1
    number = payload[at : at + 1] + seq.to_bytes(size, "big") if size else bytes([seq])
    return payload[:at] + number + payload[end:]


def frame_time_ns(payload: bytes) -> int:
    """Return the timestamp of a frame, ns since 1970.

    Raises:
        WireError: it is no frame, or has none.
    """
    for key, at in _places(payload):
        if key == b"ts":
            major, ts_ns, _ = _item(payload, at)
            if major == _Major.NUMBER:
                return ts_ns
    raise WireError("a frame without ts")


def _find(payload: bytes, name: bytes) -> int:
    """Return the position of the value of a frame's key."""
    for key, at in _places(payload):
        if key == name:
            return at
    raise WireError(f"a frame without {name.decode()}")


def _boot(payload: bytes, at: int) -> slice:
    major, size, begin = _item(payload, at)
    if major != _Major.TEXT or not 0 < size <= _LONGEST_BOOT or begin + size > len(payload):
        raise WireError(f"a frame whose boot is not text of 1 to {_LONGEST_BOOT} bytes")
    return slice(begin, begin + size)


def _places(payload: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each key of a frame, and the position of its value."""
    major, entries, at = _item(payload, 0)
    if major != _Major.MAP:
        raise WireError("not a frame")
    for _ in range(min(entries, _MOST_ITEMS)):
        major, size, begin = _item(payload, at)
        if major != _Major.TEXT:
            raise WireError("a frame with a key that is not text")
        at = begin + size
        yield payload[begin:at], at
        at = _past(payload, at)


def _past(payload: bytes, at: int) -> int:
    """Return the position behind an item and its contents."""
    due = 1
    for _ in range(_MOST_ITEMS):
        major, number, at = _item(payload, at)
        if major in {_Major.BYTES, _Major.TEXT}:
            at += number
        elif major == _Major.ARRAY:
            due += number
        elif major == _Major.MAP:
            due += 2 * number
        elif major == _Major.TAG:
            due += 1
        due -= 1
        if not due:
            return at
    raise WireError(f"a frame with more than {_MOST_ITEMS} items in one")


def _item(payload: bytes, at: int) -> tuple[int, int, int]:
    """Return an item's major type, its number and the position of its contents.

    Raises:
        WireError: the payload ends before, or the item's length is not given.
    """
    head = payload[at] if at < len(payload) else 0xFF
    major = head >> 5
    number = head & 0x1F
    begin = at + 1
    if number >= 24:
        # From 24 to 27 the next 1, 2, 4 or 8 bytes are the number.
        end = begin + (1 << (number - 24) if number < 28 else len(payload))
        if end > len(payload):
            raise WireError("a frame that is torn or of indefinite length")
        number = int.from_bytes(payload[begin:end], "big")
        begin = end
    return major, number, begin
