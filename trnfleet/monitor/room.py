"""Room for what publishers send: bytes and numbers of each class, in all and for each owner.

Memory is counted as it is held, not as it came: a small message costs many times its bytes on the wire, and one emoji makes a
text cost four bytes a character. No owner can take what the others need: a message is refused as soon as its owner would
hold more than `SHARE` times what is left free, unless that is less than an equal part of the limit. Owners are who a message says
that they are: one that makes up names is bounded by the limit alone.
"""

from __future__ import annotations

import enum
from sys import getsizeof
from typing import TypeVar

from pydantic import BaseModel

from trnfleet.monitor.copies import copied

SHARE = 15
"""One owner alone may hold fifteen sixteenths of a limit, two that send without end hold 15 of 31 parts each: the next one
finds room, and a fleet with one large publisher loses little."""
SPARE = 64
"""Of this many parts of a limit one is left to those who hold little."""
ALLOCATION_BYTES = 8
"""Bytes by which the allocator rounds an object up, on average: its sizes are multiples of 16."""
ENTRY_BYTES = 250
"""Bytes of a message's entries in the tables that find it."""

MOST_FIELD_SETS = 1_000
"""Sets of field names that are shared; publishers leave out what they do not know, each always the same."""

M = TypeVar("M", bound=BaseModel)


class Room:
    """One limit, and what owners hold of it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._by_owner: dict[str, int] = {}

    def copy(self) -> Room:
        """Return a copy."""
        return copied(self, _by_owner=self._by_owner.copy())

    @property
    def owners(self) -> int:
        """How many hold anything."""
        return len(self._by_owner)

    def of(self, owner: str) -> int:
        """Return what an owner holds."""
        return self._by_owner.get(owner, 0)

    def refusal(self, owner: str, amount: int, noun: str) -> str | None:
        """Return why an owner cannot hold that much more, or None where it can.

        Args:
            owner: Its name; empty where it is not known.
            amount: What it would hold in addition; what is not more is never refused.
            noun: What is counted, in the plural.
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
        return f"{owner or 'one source'} has {have} of {self.most} {noun} already, and the rest is for others"

    def change(self, owner: str, amount: int) -> None:
        """Add to what an owner holds; a negative amount is given back."""
        self.used += amount
        own = self.of(owner) + amount
        if own:
            self._by_owner[owner] = own
        else:
            self._by_owner.pop(owner, None)


class Ledger:
    """The messages of one retained class: their number, their bytes, and whose they are."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._count = Room(most)
        self._bytes = Room(most_bytes)
        self._entries: dict[str, tuple[str, int]] = {}
        """Owner and bytes of each message."""

    def copy(self) -> Ledger:
        """Return a copy."""
        return copied(
            self,
            _count=self._count.copy(),
            _bytes=self._bytes.copy(),
            _entries=self._entries.copy(),
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of all messages."""
        return self._bytes.used

    def refusal(self, key: str, owner: str, size_bytes: int, noun: str) -> str | None:
        """Return why a message cannot be put, or None where it can.

        Args:
            key: The name that its topic repeats.
            owner: Who publishes it; empty where that is not known.
            size_bytes: What it takes.
            noun: What it is, in the plural.
        """
        entry = self._entries.get(key)
        count, size = (
            (1, size_bytes) if entry is None or entry[0] != owner else (0, size_bytes - entry[1])
        )
        return self._count.refusal(owner, count, noun) or self._bytes.refusal(
            owner, size, f"bytes of {noun}"
        )

    def put(self, key: str, owner: str, size_bytes: int) -> None:
        """Enter a message in the place of the one that its key had."""
        self.remove(key)
        self._entries[key] = owner, size_bytes
        self._count.change(owner, 1)
        self._bytes.change(owner, size_bytes)

    def remove(self, key: str) -> None:
        """Give the room of a message back; one that is not there has none."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._count.change(entry[0], -1)
            self._bytes.change(entry[0], -entry[1])


def held_bytes(value: object) -> int:
    """Return the bytes of memory that a decoded message, or a part of it, takes with all that it refers to.

    Against tracemalloc it is between right and half as much again, because short texts that come often are shared. JSON as it comes
    is no measure: its bytes are held 1.3 times (long texts) to 10 times (128 columns).
    """
    if value is None or value == "" or isinstance(value, bool | enum.Enum):
        return 0
    if isinstance(value, int) and -5 <= value <= 256:
        # The interpreter has one of each.
        return 0
    size = getsizeof(value) + ALLOCATION_BYTES
    if isinstance(value, BaseModel):
        fields = value.__dict__
        # The names of fields are shared by all models of a class.
        return size + getsizeof(fields) + ALLOCATION_BYTES + sum(map(held_bytes, fields.values()))
    if isinstance(value, dict):
        return size + sum(map(held_bytes, value)) + sum(map(held_bytes, value.values()))
    if isinstance(value, tuple):
        return size + sum(map(held_bytes, value))
    return size


def compact(message: M) -> M:
    """Return a message, which never changes, with the sets of its given fields shared with its like.

    Such a set is more than half of a small message: 2,264 of an alert's 3,500 bytes.
    """
    given = message.__pydantic_fields_set__
    key = frozenset(given)
    shared = _FIELD_SETS.get(key)
    if shared is None and len(_FIELD_SETS) < MOST_FIELD_SETS:
        shared = _FIELD_SETS[key] = given
    if shared is not None and shared is not given:
        object.__setattr__(message, "__pydantic_fields_set__", shared)
    for value in message.__dict__.values():
        if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for part in value:
                compact(part)
    return message


_FIELD_SETS: dict[frozenset[str], set[str]] = {}
