"""Verification of a file: checksums, index, order of times, and every message decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.record.format.envelopes import (
    CHANNELS,
    KEYFRAME,
    KeyframeBound,
    unpack,
    unpack_repeat,
)
from trnfleet.record.format.schema import SCHEMA

if TYPE_CHECKING:
    from trnfleet.record.format.decoding import Messages
    from trnfleet.record.format.records import ChunkEntry
    from trnfleet.record.read.reader import PartReader

_MOST_PROBLEMS = 20
"""Problems listed for a file; the rest is only counted."""


def verify_part(part: PartReader) -> list[str]:
    """Return the defects of a file, a line each.

    Empty if sound.
    """
    check = _Check(part)
    check.run()
    problems = check.problems
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], f"{part.path}: and {more} more like these"]
    return problems


class _Check:
    """One pass over a file."""

    def __init__(self, part: PartReader) -> None:
        self._part = part
        self._last_ns = 0
        self._counts: dict[str, int] = {}
        self._bound: KeyframeBound | None = None
        self._repeats = 0
        self.problems: list[str] = []

    def run(self) -> None:
        """Look at everything."""
        part = self._part
        if part.recovery is not None:
            self._say(part.recovery.text().removeprefix(f"{part.path}: "))
        if not part.about.id:
            self._say(f"says nothing of itself: metadata of schema {SCHEMA} is missing")
        if part.skipped:
            self._say(f"{part.skipped} records make no sense")
        for entry in part.entries:
            try:
                messages = part.messages(entry)
            except WireError as error:
                self._say(f"at byte {entry.offset}: {error}")
                self._bound = None
            else:
                self._look_at(entry, messages)
        if part.recovery is None and not part.damaged:
            counts = part.counts()
            for name in sorted(counts.keys() | self._counts.keys()):
                if counts.get(name, 0) != self._counts.get(name, 0):
                    self._say(
                        f"the index counts {counts.get(name, 0)} messages of {name}, there are"
                        f" {self._counts.get(name, 0)}"
                    )

    def _say(self, problem: str) -> None:
        self.problems.append(f"{self._part.path}: {problem}")

    def _look_at(self, entry: ChunkEntry, messages: Messages) -> None:
        part = self._part
        items = messages.items
        where = f"at byte {entry.offset}"
        if not messages.was_sorted:
            self._say(f"{where}: messages are not in the order of their times")
        if items and (items[0].time_ns, items[-1].time_ns) != (entry.start_ns, entry.end_ns):
            self._say(f"{where}: the index has other times than the messages")
        numbers = tuple(sorted({item.channel for item in items}))
        if entry.channels is not None and tuple(sorted(entry.channels)) != numbers:
            self._say(f"{where}: the index has other channels than the messages")
        data = memoryview(messages.data)
        for item in items:
            name = part.channel_name(item.channel)
            self._counts[name] = self._counts.get(name, 0) + 1
            if name not in CHANNELS:
                self._say(f"{where}: a message is on a channel that recordings do not have")
            try:
                if name == KEYFRAME:
                    self._look_at_repeat(where, data[item.begin : item.end])
                    continue
                unpack(data[item.begin : item.end], part.major)
            except WireError as error:
                self._say(f"{where}: {error}")
            if item.time_ns < self._last_ns:
                self._say(f"{where}: a message is earlier than the one before it")
            self._last_ns = max(self._last_ns, item.time_ns)

    def _look_at_repeat(self, where: str, data: memoryview) -> None:
        repeat = unpack_repeat(data, self._part.major)
        if not isinstance(repeat, KeyframeBound):
            self._repeats += 1
            return
        if not repeat.end:
            self._bound = repeat
            self._repeats = 0
            return
        if self._bound is not None and not self._bound.repeats == repeat.repeats == self._repeats:
            self._say(
                f"{where}: a keyframe should have {self._bound.repeats} messages and has"
                f" {self._repeats}"
            )
        self._bound = None
