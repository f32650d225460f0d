"""Addresses and names in little room: the end stays, because it tells siblings apart."""

from __future__ import annotations


def shortened(address: str, room: int) -> str:
    """Return the end of an address, from a segment's beginning, that fits; the last segment always stays."""
    while len(address) > room and "/" in address:
        address = address.partition("/")[2]
    return address


def without_start(text: str, room: int) -> str:
    """Return a text in at most `room` cells, an ellipsis for the beginning that has no room."""
    return text if len(text) <= room else f"…{text[len(text) + 1 - max(room, 1) :]}"


def last_segments(address: str, segments: int = 2) -> str:
    """Return the end of an address: a chip's number says nothing without its instance. A broker's has no such ends."""
    return address if "://" in address else "/".join(address.split("/")[-segments:])
