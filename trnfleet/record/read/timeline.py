"""Chunks of one or several files in time order, read as messages and keyframes.

Finished and growing files are read alike: a recording adds all its chunks at once, a live buffer
adds each finished chunk and removes the oldest.
"""

from __future__ import annotations

import bisect
import heapq
import threading
from collections import OrderedDict, deque
from operator import itemgetter
from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.record.format.envelopes import KEYFRAME, KeyframeBound, unpack, unpack_repeat
from trnfleet.record.format.limits import MESSAGE_BYTES, RecordLimits
from trnfleet.record.read.slots import DataSlots, RepeatRun, RepeatRuns, Slot, slot_of
from trnfleet.wire.ports import Keyframe, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.record.format.decoding import Messages
    from trnfleet.record.format.records import ChunkEntry
    from trnfleet.record.read.reader import PartReader


_LEAST_OPEN_BYTES = 2**20
"""Least bytes that an open chunk counts with: a file may have millions of small ones."""


class Timeline:
    """Chunks of one or several files."""

    def __init__(self, limits: RecordLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._parts: dict[PartReader, None] = {}
        """Files with chunks here, in order of arrival."""
        self._slots = DataSlots()
        self._repeats = RepeatRuns()
        self._cache: OrderedDict[tuple[PartReader, int], Messages] = OrderedDict()
        self._cache_bytes = 0
        self._unread: dict[tuple[PartReader, int, bool], int] = {}
        """Malformed messages per chunk, counted separately for keyframes."""

    @property
    def unread(self) -> int:
        """Malformed messages read so far, each counted once."""
        return sum(self._unread.values())

    @property
    def start_ns(self) -> int:
        """Time of the first message; 0 where there is none."""
        with self._lock:
            return self._slots.start_ns

    @property
    def end_ns(self) -> int:
        """Time of the last message; 0 where there is none."""
        with self._lock:
            return self._slots.end_ns

    @property
    def is_empty(self) -> bool:
        """Whether there is no message."""
        return not self._slots

    def fill(self, parts: Iterable[PartReader]) -> None:
        """Take in all chunks of files."""
        distinct = dict.fromkeys(parts)
        slots: list[tuple[Slot, int]] = []
        runs: list[RepeatRun] = []
        for part in distinct:
            _collect(part, slots, runs)
        slots.sort(key=lambda place: place[0].entry.start_ns)
        runs.sort(key=lambda run: run.start_ns)
        with self._lock:
            self._parts = distinct
            self._slots = DataSlots(slots)
            self._repeats = RepeatRuns(runs)

    def prepend(self, part: PartReader) -> None:
        """Add a finished file from before all others.

        Its end may overlap their start.
        """
        slots: list[tuple[Slot, int]] = []
        runs: list[RepeatRun] = []
        _collect(part, slots, runs)
        with self._lock:
            self._parts = {part: None, **self._parts}
            self._slots.prepend(slots)
            self._repeats.prepend(runs)

    def append(self, part: PartReader, entry: ChunkEntry) -> None:
        """Add a chunk later than all others."""
        slot = slot_of(part, entry)
        with self._lock:
            part.entries.append(entry)
            self._parts[part] = None
            if slot.has_data:
                self._slots.append(slot, len(part.entries) - 1)
            if slot.has_repeats:
                last = self._repeats.last()
                number = len(part.entries) - 1
                if last is not None and last.part is part and _goes_on(last, slot):
                    self._repeats.extend_last(number)
                else:
                    self._repeats.append(RepeatRun(part, [number]))

    def drop(self, part: PartReader) -> None:
        """Remove the oldest file's chunks.

        A read in progress goes on.
        """
        with self._lock:
            self._parts.pop(part, None)
            self._slots.drop(part)
            self._repeats.drop(part)
            for key in [key for key in self._cache if key[0] is part]:
                self._cache_bytes -= _cost(self._cache.pop(key))
            self._unread = {key: count for key, count in self._unread.items() if key[0] is not part}

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of `after_ns < time_ns <= until_ns` in order.

        Damaged chunks are left out and counted.
        """
        with self._lock:
            slots = self._slots.between(after_ns, until_ns)
        for group in _overlapping(slots):
            if len(group) == 1:
                yield from self._read_one(group[0], after_ns, until_ns)
            else:
                yield from self._merge(group, after_ns, until_ns)

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest whole keyframe at or before a moment; None where there is none."""
        with self._lock:
            place = self._repeats.place(at_ns)
        while True:
            with self._lock:
                newest = self._repeats.newest(place)
                if newest is None:
                    return None
                run, place = newest
                slots = run.slots()
            keyframe = self._whole_keyframe(slots, at_ns)
            if keyframe is not None:
                return keyframe

    def chunks(self) -> list[Slot]:
        """Return all chunks in the order of their arrival.

        Only for timelines filled by `append`.
        """
        with self._lock:
            return [slot_of(part, entry) for part in self._parts for entry in part.entries]

    def messages(self, slot: Slot) -> Messages | None:
        """Return a chunk's messages.

        None for a damaged chunk; it is counted.
        """
        key = (slot.part, slot.entry.offset)
        with self._lock:
            messages = self._cache.get(key)
            if messages is not None:
                self._cache.move_to_end(key)
                return messages
        try:
            messages = slot.part.messages(slot.entry)
        except WireError:
            return None
        with self._lock:
            cost = _cost(messages)
            is_there = slot.part in self._parts
            if is_there and cost <= self._limits.cache_bytes // 2 and key not in self._cache:
                self._cache[key] = messages
                self._cache_bytes += cost
                while self._cache_bytes > self._limits.cache_bytes:
                    self._cache_bytes -= _cost(self._cache.popitem(last=False)[1])
        return messages

    def _read_one(self, slot: Slot, after_ns: int, until_ns: int) -> Iterator[Stored]:
        messages = self.messages(slot)
        if messages is None:
            return
        data = memoryview(messages.data)
        items = messages.items
        part = slot.part
        names: dict[int, bool] = {}
        unread = 0
        for number in range(bisect.bisect_right(items, after_ns, key=itemgetter(0)), len(items)):
            item = items[number]
            if item.time_ns > until_ns:
                return
            is_repeat = names.get(item.channel)
            if is_repeat is None:
                is_repeat = names[item.channel] = part.channel_name(item.channel) == KEYFRAME
            if is_repeat:
                continue
            try:
                yield Stored(item.time_ns, unpack(data[item.begin : item.end], part.major))
            except WireError:
                unread += 1
                self._note_unread(slot, unread)

    def _note_unread(self, slot: Slot, count: int, *, in_keyframe: bool = False) -> None:
        """Count a chunk's malformed messages, once however often it is read."""
        key = slot.part, slot.entry.offset, in_keyframe
        self._unread[key] = max(count, self._unread.get(key, 0))

    def _merge(self, slots: Sequence[Slot], after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of overlapping chunks in order, reading chunks side by side."""
        waiting = deque(slots)
        heap: list[tuple[int, int, Stored, Iterator[Stored], int]] = []
        order = last_ns = size = 0
        while waiting or heap:
            while waiting:
                if heap and waiting[0].entry.start_ns > heap[0][0]:
                    break
                slot = waiting[0]
                slot_bytes = max(slot.entry.size, _LEAST_OPEN_BYTES)
                if heap and size + slot_bytes > self._limits.overlap_bytes:
                    break
                messages = self._read_one(waiting.popleft(), after_ns, until_ns)
                first = next(messages, None)
                if first is not None:
                    heapq.heappush(heap, (first.time_ns, order, first, messages, slot_bytes))
                    order += 1
                    size += slot_bytes
            if not heap:
                continue
            _, rank, stored, messages, slot_bytes = heap[0]
            # If more chunks overlap than are read at once, a late message gets the last time.
            last_ns = max(last_ns, stored.time_ns)
            yield stored if stored.time_ns == last_ns else stored._replace(time_ns=last_ns)
            following = next(messages, None)
            if following is None:
                heapq.heappop(heap)
                size -= slot_bytes
            else:
                heapq.heapreplace(heap, (following.time_ns, rank, following, messages, slot_bytes))

    def _whole_keyframe(self, run: Sequence[Slot], at_ns: int) -> Keyframe | None:
        """Return the last whole keyframe of a run of chunks, up to a moment."""
        last: Keyframe | None = None
        open_: Keyframe | None = None
        expected = size = 0
        for slot in run:
            messages = self.messages(slot)
            if messages is None:
                open_ = None
                continue
            data = memoryview(messages.data)
            part = slot.part
            unread = 0
            for item in messages.items:
                if item.time_ns > at_ns:
                    return last
                if part.channel_name(item.channel) != KEYFRAME:
                    continue
                try:
                    repeat = unpack_repeat(data[item.begin : item.end], part.major)
                except WireError:
                    unread += 1
                    self._note_unread(slot, unread, in_keyframe=True)
                    open_ = None
                    continue
                size += item.end - item.begin
                if isinstance(repeat, KeyframeBound):
                    if not repeat.end:
                        open_ = Keyframe(item.time_ns, [], repeat.has_values)
                        expected = repeat.repeats
                        size = 0
                        continue
                    if open_ is not None and len(open_.state) == expected == repeat.repeats:
                        last = open_
                    open_ = None
                elif open_ is not None:
                    open_.state.append(Stored(*repeat))
                    if size > self._limits.keyframe_bytes:
                        open_ = None
        return last


def _collect(part: PartReader, slots: list[tuple[Slot, int]], runs: list[RepeatRun]) -> None:
    """Add a file's slots with data, with their entry numbers, and its runs of repeats."""
    last: Slot | None = None
    for number, entry in enumerate(part.entries):
        slot = slot_of(part, entry)
        if slot.has_data:
            slots.append((slot, number))
        if slot.has_repeats:
            if last is not None and _goes_on(last, slot):
                runs[-1].numbers.append(number)
            else:
                runs.append(RepeatRun(part, [number]))
        last = slot if slot.has_repeats else None


def _cost(messages: Messages) -> int:
    """Return a chunk's approximate memory in bytes."""
    return len(messages.data) + MESSAGE_BYTES * len(messages.items)


def _goes_on(former: Slot, slot: Slot) -> bool:
    """Return whether a chunk of repeats belongs to the run before it.

    False if both are complete by themselves.
    """
    return former.has_data or slot.has_data or former.entry.end_ns == slot.entry.start_ns


def _overlapping(slots: Iterable[Slot]) -> Iterator[list[Slot]]:
    """Yield slots in groups: one slot, or several overlapping in time."""
    group: list[Slot] = []
    latest = 0
    for slot in slots:
        if group and slot.entry.start_ns >= latest:
            yield group
            group = []
        group.append(slot)
        latest = max(latest, slot.entry.end_ns)
    if group:
        yield group
