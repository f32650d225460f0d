"""Addresses in little room."""

from __future__ import annotations


def shortened(address: str, room: int) -> str:
    """Return the end of an address, from a segment's beginning, that fits; the last segment always stays."""
    while len(address) > room and "/" in address:
        address = address.partition("/")[2]
    return address
