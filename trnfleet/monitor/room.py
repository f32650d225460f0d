"""Room for messages of publishers: bytes and numbers per class, in all and per owner.

Memory is counted as stored, not as received: a small message costs many times its bytes on the
wire, and one emoji makes a text cost four bytes a character. No owner can use up the room of
others: a message is refused as soon as its owner would use more than `SHARE` times the free room,
unless that is less than an equal part of the limit. The owner is the publisher named by the
message: made-up names are bounded by the limit alone.
"""

from __future__ import annotations

import enum
from sys import getsizeof

import msgspec

SHARE = 15
"""One owner alone may use fifteen sixteenths of a limit. Two that send without end use 15 of 31
parts each. The next one still finds room, and a fleet with one large publisher loses little."""
SPARE = 64
"""One of this many parts of a limit is reserved for small owners."""
ALLOCATION_BYTES = 8
"""Mean bytes an allocator adds to an object: its sizes are multiples of 16."""
ENTRY_BYTES = 250
"""Bytes of a message's entries in lookup tables."""


class Room:
    """One limit, and its use by owner."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._by_owner: dict[str, int] = {}

    @property
    def owners(self) -> int:
        """How many hold anything."""
        return len(self._by_owner)

    def of(self, owner: str) -> int:
        """Return an owner's use."""
        return self._by_owner.get(owner, 0)

    def refusal(self, owner: str, amount: int, noun: str) -> str | None:
        """Return the reason to refuse an owner more room; None if there is room.

        Args:
            owner: Its name; empty if unknown.
            amount: Additional amount; zero or less is never refused.
            noun: The counted things, in the plural.
        """
        if amount <= 0:
            return None
        free = self.most - self.used - amount
        if free < 0:
            return f"more than {self.most} {noun}"
        own = self.of(owner) + amount
        owners = len(self._by_owner) + (owner not in self._by_owner)
        is_equal_part = own * (owners + 1) <= self.most and free * SPARE >= self.most
        if own // SHARE <= free or is_equal_part:
            return None
        have = own - amount
        return (
            f"{owner or 'one source'} has {have} of {self.most} {noun} already, and the rest is for"
            " others"
        )

    def change(self, owner: str, amount: int) -> None:
        """Add to an owner's use.

        A negative amount releases room.
        """
        self.used += amount
        own = self.of(owner) + amount
        if own:
            self._by_owner[owner] = own
        else:
            self._by_owner.pop(owner, None)


class Ledger:
    """Messages of one retained class: number, bytes and owners."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._count = Room(most)
        self._bytes = Room(most_bytes)
        self._entries: dict[str, tuple[str, int]] = {}
        """Owner and bytes of each message."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all messages."""
        return self._bytes.used

    def refusal(self, key: str, owner: str, size_bytes: int, noun: str) -> str | None:
        """Return the reason to refuse a message; None if there is room.

        Args:
            key: The name in its topic.
            owner: Its publisher; empty if unknown.
            size_bytes: Its size.
            noun: The kind of message, in the plural.
        """
        entry = self._entries.get(key)
        count, size = (
            (1, size_bytes) if entry is None or entry[0] != owner else (0, size_bytes - entry[1])
        )
        return self._count.refusal(owner, count, noun) or self._bytes.refusal(
            owner, size, f"bytes of {noun}"
        )

    def put(self, key: str, owner: str, size_bytes: int) -> None:
        """Enter a message in place of its key's former one."""
        self.remove(key)
        self._entries[key] = owner, size_bytes
        self._count.change(owner, 1)
        self._bytes.change(owner, size_bytes)

    def remove(self, key: str) -> None:
        """Release the room of a message.

        A missing one is ignored.
        """
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._count.change(entry[0], -1)
            self._bytes.change(entry[0], -entry[1])


def held_bytes(value: object) -> int:
    """Return the memory in bytes of a decoded message or part, with all its references.

    Against tracemalloc it is between right and half as much again, because frequent short texts are
    shared. The size of the received JSON is no measure: it is stored in 1.3 times (long texts) to
    10 times (128 columns) its bytes.
    """
    if type(value) is str or type(value) is bytes:
        return getsizeof(value) + ALLOCATION_BYTES if value else 0
    if value is None or value is msgspec.UNSET or isinstance(value, (bool, enum.Enum)):
        return 0
    if isinstance(value, int) and -5 <= value <= 256:
        # The interpreter has one of each.
        return 0
    size = getsizeof(value) + ALLOCATION_BYTES
    if isinstance(value, tuple):
        return size + sum(map(held_bytes, value))
    if isinstance(value, dict):
        return size + sum(map(held_bytes, value)) + sum(map(held_bytes, value.values()))
    if isinstance(value, msgspec.Struct):
        return size + sum(held_bytes(getattr(value, name)) for name in value.__struct_fields__)
    return size
