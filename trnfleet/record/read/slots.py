"""The places of chunks with messages, by their begin, in 24 bytes each beside the entries of their files."""

from __future__ import annotations

import bisect
import itertools
from array import array
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.record.format.envelopes import KEYFRAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.record.format.records import ChunkEntry
    from trnfleet.record.read.reader import PartReader


class Slot(NamedTuple):
    """A chunk of a file."""

    part: PartReader
    entry: ChunkEntry
    has_data: bool
    """Whether it may hold anything but repeats."""
    has_repeats: bool
    """Whether it may hold repeats."""


class Run(NamedTuple):
    """Chunks of a file that follow one another and hold repeats, by the numbers of their entries: a live buffer has hundreds an hour."""

    part: PartReader
    numbers: array[int]

    @classmethod
    def of(cls, part: PartReader, number: int) -> Run:
        """Return the run of one chunk."""
        return cls(part, array("I", [number]))

    @property
    def last(self) -> Slot:
        """Its last chunk."""
        return slot_of(self.part, self.part.entries[self.numbers[-1]])

    def slots(self) -> list[Slot]:
        """Return its chunks."""
        return [slot_of(self.part, self.part.entries[number]) for number in self.numbers]


class Slots:
    """Slots with data in the order of their begins."""

    def __init__(self, slots: Iterable[tuple[Slot, int]] = ()) -> None:
        """Take slots in order, each with the number of its entry in the file."""
        self._parts: dict[int, PartReader] = {}
        """Files by a number that goes up."""
        self._newest = -1
        """Number of the file that was last appended."""
        self._file_numbers: dict[PartReader, int] = {}
        self._starts_ns = array("Q")
        self._latest_ns = array("Q")
        """For each slot the latest end of it and all before."""
        self._in_part = array("I")
        self._entry_numbers = array("I")
        for slot, number in slots:
            self.append(slot, number)

    def __len__(self) -> int:
        return len(self._starts_ns)

    @property
    def start_ns(self) -> int:
        """Begin of the first; 0 where there is none."""
        return self._starts_ns[0] if self._starts_ns else 0

    @property
    def end_ns(self) -> int:
        """Latest end of all; 0 where there is none."""
        return self._latest_ns[-1] if self._latest_ns else 0

    def append(self, slot: Slot, number: int) -> None:
        """Take one that begins no earlier than all that are there.

        Args:
            slot: The slot.
            number: Of its entry in its file.
        """
        part = self._file_numbers.get(slot.part)
        if part is None:
            self._newest += 1
            part = self._file_numbers[slot.part] = self._newest
            self._parts[part] = slot.part
        self._starts_ns.append(slot.entry.start_ns)
        self._latest_ns.append(max(slot.entry.end_ns, self.end_ns))
        self._in_part.append(part)
        self._entry_numbers.append(number)

    def prepend(self, slots: Sequence[tuple[Slot, int]]) -> None:
        """Take slots of one file that is earlier than all that are there, in order, each with the number of its entry.

        Its last ones may begin after the first of those: they are looked for from its begin on, so that all stay in order.
        """
        if not slots:
            return
        self._newest += 1
        self._file_numbers[slots[0][0].part] = self._newest
        self._parts[self._newest] = slots[0][0].part
        latest = itertools.accumulate((slot.entry.end_ns for slot, _ in slots), max)
        self._latest_ns[:0] = array("Q", latest)
        for place in range(len(slots), len(self._latest_ns)):
            if self._latest_ns[place] >= self._latest_ns[place - 1]:
                break
            self._latest_ns[place] = self._latest_ns[place - 1]
        starts = [slot.entry.start_ns for slot, _ in slots]
        if self._starts_ns:
            starts = [min(start_ns, self._starts_ns[0]) for start_ns in starts]
        self._starts_ns[:0] = array("Q", starts)
        self._in_part[:0] = array("I", [self._newest] * len(slots))
        self._entry_numbers[:0] = array("I", (number for _, number in slots))

    def between(self, after_ns: int, until_ns: int) -> list[Slot]:
        """Return those that may have messages of `after_ns < time_ns <= until_ns`."""
        begin = bisect.bisect_right(self._latest_ns, after_ns)
        end = bisect.bisect_right(self._starts_ns, until_ns, begin)
        return [
            slot_of(part, part.entries[self._entry_numbers[place]])
            for place in range(begin, end)
            for part in (self._parts[self._in_part[place]],)
        ]

    def drop(self, part: PartReader) -> None:
        """Remove those of the oldest file."""
        number = self._file_numbers.pop(part, None)
        if number is None:
            return
        del self._parts[number]
        count = next((n for n, other in enumerate(self._in_part) if other != number), len(self))
        for column in (self._starts_ns, self._latest_ns, self._in_part, self._entry_numbers):
            del column[:count]


def slot_of(part: PartReader, entry: ChunkEntry) -> Slot:
    """Return a chunk of a file with what is known of its messages."""
    if entry.channels is None:
        return Slot(part, entry, has_data=True, has_repeats=True)
    names = {part.channels.get(channel) for channel in entry.channels}
    has_unknown = None in names
    return Slot(
        part, entry, has_data=has_unknown or names != {KEYFRAME}, has_repeats=has_unknown or KEYFRAME in names
    )
