"""Places of chunks with messages, ordered by start."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.packed_rows import PackedRows
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


class RepeatRun(NamedTuple):
    """Consecutive chunks of a file with repeats, by their entry numbers."""

    part: PartReader
    numbers: list[int]

    @property
    def start_ns(self) -> int:
        """Its begin."""
        return self.part.entries[self.numbers[0]].start_ns

    def slots(self) -> list[Slot]:
        """Return its chunks."""
        return [slot_of(self.part, self.part.entries[number]) for number in self.numbers]


class _Rows:
    """Rows of four numbers. The third is a file's number."""

    def __init__(self) -> None:
        self._parts: dict[int, PartReader] = {}
        """Files by ascending number."""
        self._newest = -1
        """Number of the file added last."""
        self._file_numbers: dict[PartReader, int] = {}
        self._rows = PackedRows()

    def drop(self, part: PartReader) -> int:
        """Remove the rows of the oldest file, and return how many these were."""
        number = self._file_numbers.pop(part, None)
        if number is None:
            return 0
        del self._parts[number]
        files = (file_number for _, _, file_number, _ in self._rows)
        count = next((n for n, file in enumerate(files) if file != number), len(self._rows))
        self._rows.drop(count)
        return count

    def _number_of(self, part: PartReader) -> int:
        number = self._file_numbers.get(part)
        if number is None:
            self._newest += 1
            number = self._file_numbers[part] = self._newest
            self._parts[number] = part
        return number


class DataSlots(_Rows):
    """Slots with data, ordered by start.

    Columns: start, latest end so far, file, number of the entry.
    """

    def __init__(self, slots: Iterable[tuple[Slot, int]] = ()) -> None:
        """Take slots in order, each with the number of its entry in the file."""
        super().__init__()
        for slot, number in slots:
            self.append(slot, number)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def start_ns(self) -> int:
        """Begin of the first; 0 where there is none."""
        return self._rows[0][0] if self._rows else 0

    @property
    def end_ns(self) -> int:
        """Latest end of all; 0 where there is none."""
        return self._rows[-1][1] if self._rows else 0

    def append(self, slot: Slot, number: int) -> None:
        """Add a slot.

        It must start no earlier than all others.

        Args:
            slot: The slot.
            number: Number of its entry in its file.
        """
        self._append(slot.entry.start_ns, slot.entry.end_ns, self._number_of(slot.part), number)

    def prepend(self, slots: Sequence[tuple[Slot, int]]) -> None:
        """Add the slots of an earlier file, in order, each with its entry number.

        Its last ones may start after the first existing slot. Their start is then recorded as that
        slot's, so that starts never fall.
        """
        later = list(self._rows)
        self._rows = PackedRows()
        for slot, number in slots:
            start_ns = min(slot.entry.start_ns, later[0][0]) if later else slot.entry.start_ns
            self._append(start_ns, slot.entry.end_ns, self._number_of(slot.part), number)
        for row in later:
            self._append(*row)

    def between(self, after_ns: int, until_ns: int) -> list[Slot]:
        """Return slots possibly with messages of `after_ns < time_ns <= until_ns`."""
        begin = self._rows.bisect_right(1, after_ns)
        end = self._rows.bisect_right(0, until_ns)
        return [
            slot_of(part, part.entries[number])
            for _, _, part_number, number in self._rows[begin:end]
            for part in (self._parts[part_number],)
        ]

    def _append(self, start_ns: int, end_ns: int, part_number: int, number: int) -> None:
        self._rows.append((start_ns, max(end_ns, self.end_ns), part_number, number))


class RepeatRuns(_Rows):
    """Runs of chunks with repeats, ordered by start.

    Columns: start of the run, number of the run, file, number of the entry.
    """

    def __init__(self, runs: Iterable[RepeatRun] = ()) -> None:
        """Take runs in order."""
        super().__init__()
        self._gone = 0
        """Rows removed from the front, less rows added there. `newest` counts from here."""
        for run in runs:
            self.append(run)

    def append(self, run: RepeatRun) -> None:
        """Add a run.

        It must start no earlier than all others.
        """
        self._append(run.start_ns, run)

    def extend_last(self, number: int) -> None:
        """Add an entry of its file to the last run."""
        start_ns, run_number, part_number, _ = self._rows[-1]
        self._rows.append((start_ns, run_number, part_number, number))

    def last(self) -> Slot | None:
        """Return the last chunk of the last one; None where there is none."""
        if not self._rows:
            return None
        _, _, part_number, number = self._rows[-1]
        part = self._parts[part_number]
        return slot_of(part, part.entries[number])

    def prepend(self, runs: Sequence[RepeatRun]) -> None:
        """Add the runs of an earlier file; see `DataSlots.prepend`."""
        later = list(self._rows)
        self._rows = PackedRows()
        for run in runs:
            self._append(min(run.start_ns, later[0][0]) if later else run.start_ns, run)
        count = len(self._rows)
        for start_ns, number, part_number, entry_number in later:
            self._rows.append((start_ns, number + len(runs), part_number, entry_number))
        self._gone -= count

    def drop(self, part: PartReader) -> int:
        """Remove the runs of the oldest file, and return how many chunks these had."""
        count = super().drop(part)
        self._gone += count
        return count

    def place(self, at_ns: int) -> int:
        """Return the place after all runs starting at or before a moment, for `newest`."""
        return self._rows.bisect_right(0, at_ns) + self._gone

    def newest(self, place: int) -> tuple[RepeatRun, int] | None:
        """Return the newest run before a place, and its own place.

        None without one.

        A place stays valid while the oldest runs are dropped.

        Args:
            place: From `place` or from an earlier call.
        """
        end = place - self._gone
        if not 0 < end <= len(self._rows):
            return None
        _, run_number, part_number, number = self._rows[end - 1]
        numbers = [number]
        begin = end - 1
        while begin and self._rows[begin - 1][1] == run_number:
            begin -= 1
            numbers.append(self._rows[begin][3])
        return RepeatRun(self._parts[part_number], numbers[::-1]), begin + self._gone

    def _append(self, start_ns: int, run: RepeatRun) -> None:
        run_number = self._rows[-1][1] + 1 if self._rows else 0
        part_number = self._number_of(run.part)
        for number in run.numbers:
            self._rows.append((start_ns, run_number, part_number, number))


def slot_of(part: PartReader, entry: ChunkEntry) -> Slot:
    """Return the slot of a chunk."""
    if entry.channels is None:
        return Slot(part, entry, has_data=True, has_repeats=True)
    names = {part.channels.get(channel) for channel in entry.channels}
    has_unknown = None in names
    return Slot(
        part,
        entry,
        has_data=has_unknown or names != {KEYFRAME},
        has_repeats=has_unknown or KEYFRAME in names,
    )
