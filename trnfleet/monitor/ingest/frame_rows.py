"""Topics whose frames are applied in bulk: the frame checks and each topic's progress.

The progress is stored in columns. A topic is entered after one of its frames was applied alone, or
before its first frame if frames of the same form are known. From then on its sequence is stored
here, not in its tracker. A frame is applied here if everything is as expected: the same head (path,
boot, revision) and structure, the next number, not twice in the batch, no row without a value, and
no value above a metric's limit. Anything else first removes the topic, which updates its tracker,
and is applied as usual. The result is the same, frame by frame.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from trnfleet.monitor.ingest.sequence import LARGEST_GAP, WINDOW, SequenceTracker
from trnfleet.monitor.slices import SLICE, Slices
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope, MessageProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.frame_batch import FrameForm
    from trnfleet.wire.frames import FrameDecoder

_COLUMNS: dict[str, Any] = {
    "last": np.int64,
    "seen": np.uint64,
    "ts_ns": np.int64,
    "chip": np.int64,
    "instance": np.int64,
    "publisher": np.int32,
    "clock": np.int64,
    "row": np.int64,
}
"""Columns per topic. They store the state of its tracker, its first chip and instance, the number
of its publisher's boot, and its rows in the clocks and the publisher traffic."""
_ROWS: dict[str, Callable[[Any], int]] = {
    "chip": attrgetter("chips.start"),
    "instance": attrgetter("instances.start"),
    "publisher": attrgetter("publisher"),
    "clock": attrgetter("clock"),
    "row": attrgetter("row"),
}
"""Columns affected by a new layout, with their value for a topic."""


class BatchColumns(NamedTuple):
    """A batch of messages as columns: much faster to read than each message."""

    topics: tuple[str, ...] = ()
    payloads: tuple[bytes, ...] = ()
    qos: tuple[int, ...] = ()
    retains: tuple[bool, ...] = ()
    content_types: tuple[str | None, ...] = ()
    received_s: tuple[float, ...] = ()
    sheds: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    properties: tuple[MessageProperties | None, ...] = ()

    @classmethod
    def of(cls, batch: Sequence[Envelope]) -> BatchColumns:
        """Return the columns of a batch, in the order of an envelope's fields."""
        return cls(*zip(*batch, strict=True))


class FramedTopic(Protocol):
    """The part of a `TopicState` used by a table."""

    path: str
    tracker: SequenceTracker
    descriptor: CompactDescriptor | None
    decoder: FrameDecoder | None
    chips: slice | NDArray[np.int64]
    instances: slice | NDArray[np.int64]
    chip_count: int
    publisher: int
    clock: int
    row: int
    has_other_columns: bool
    frame_rows: FrameRows | None
    number: int


class Undated(NamedTuple):
    """Messages not dated yet, one value each."""

    numbers: NDArray[np.int64]
    """Places in the batch."""
    ts_ns: NDArray[np.int64]
    """Source times."""
    clocks: NDArray[np.int64]
    """Rows of their sources' clocks."""
    rows: NDArray[np.int64]
    """Rows of their publishers in the traffic."""
    sizes: NDArray[np.int64]
    """Bytes of their payloads."""

    def of(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Undated:
        """Return some of them."""
        return Undated(*(column[chosen] for column in self))


class Gaps(NamedTuple):
    """Messages missing before applied ones, one value for each of the latter."""

    lost: NDArray[np.int64]
    """How many."""
    rows: NDArray[np.int64]
    """Rows of their publishers in the traffic."""
    instances: NDArray[np.int64]
    """Their first instances."""
    seen_s: NDArray[np.float64]
    """Monotonic seconds when these were last heard."""
    seq: NDArray[np.int64]
    """Numbers of the applied messages."""
    publishers: NDArray[np.int32]
    """Numbers of their publishers' boots."""


class AppliedFrames(NamedTuple):
    """The result for the frames of a batch."""

    taken: Undated | None
    """The applied messages; None for none."""
    rest: list[int]
    """The places of the messages not applied."""
    gaps: Gaps | None = None
    """The messages missing before them; None for none."""


class Shift(NamedTuple):
    """New row numbers after a small layout change, each at its former place."""

    instances: NDArray[np.int64]
    """Numbers of instances; -1 if an instance is gone."""
    former_chip_start: NDArray[np.int64]
    chip_start: NDArray[np.int64]
    """First chip row of each instance in the former and the new layout. The last value is the
    number of chips."""
    boots: NDArray[np.int32]
    """Numbers of publishers' boots; the last is for -1."""
    rows: NDArray[np.int64]
    """Rows of publishers in the traffic."""


class FrameRows:
    """The topics of one form of frames and one number of rows."""

    def __init__(self, form: FrameForm, chips: int, instances: int) -> None:
        self._form = form
        self._chips = chips
        self._instances = instances
        self.size = form.size
        """Bytes of a frame."""
        self._columns = {name: np.zeros(16, kind) for name, kind in _COLUMNS.items()}
        self._heads = np.zeros((16, form.head_words), np.uint64)
        self._place = np.zeros(16, np.int64)
        self._topics: list[FramedTopic | None] = []
        self._free: list[int] = []
        self._views_of: object = None
        self._views: list[tuple[str, NDArray[Any]]] = []

    def __len__(self) -> int:
        return len(self._topics) - len(self._free)

    def enter(self, topic: FramedTopic, payload: bytes) -> None:
        """Enter a topic after its newest frame was applied."""
        number = self._add(topic)
        self._heads[number] = self._form.heads(self._form.stack([payload]))[0]
        columns = self._columns
        tracker = topic.tracker
        columns["last"][number], columns["seen"][number], columns["ts_ns"][number] = (
            tracker.last,
            tracker.seen,
            tracker.ts_ns,
        )

    def begin(self, topics: Sequence[FramedTopic], payloads: Sequence[bytes]) -> None:
        """Enter new topics, each with its first frame.

        The frame must have the form's structure and be the next to apply. A topic counts from its
        number. Until it is applied, `seen` is 0, and leaving restores the topic.
        """
        form = self._form
        frames = form.stack(payloads)
        seq, _, good = form.numbers(frames)
        good &= form.begin(frames)
        heads = form.heads(frames)
        for place in np.flatnonzero(good).tolist():
            topic = topics[place]
            if topic.frame_rows is None:
                number = self._add(topic)
                first = topic.tracker.first = int(seq[place])
                self._heads[number] = heads[place]
                columns = self._columns
                columns["last"][number], columns["seen"][number], columns["ts_ns"][number] = (
                    first - 1,
                    0,
                    0,
                )

    def _add(self, topic: FramedTopic) -> int:
        """Add a topic and return its row."""
        if self._free:
            number = self._free.pop()
            self._topics[number] = topic
        else:
            number = len(self._topics)
            self._topics.append(topic)
            if number == len(self._place):
                grown = {
                    name: np.resize(column, 2 * number) for name, column in self._columns.items()
                }
                self._columns, self._place = grown, np.resize(self._place, 2 * number)
                self._heads = np.resize(self._heads, (2 * number, self._heads.shape[1]))
        topic.frame_rows = self
        topic.number = number
        self.move(topic)
        return number

    def move(self, topic: FramedTopic) -> None:
        """Follow a topic to its rows in another layout."""
        for name, row_of in _ROWS.items():
            self._columns[name][topic.number] = row_of(topic)

    def move_all(self) -> Slices[None]:
        """Follow all topics to their rows, in slices."""
        for name, row_of in _ROWS.items():
            column = self._columns[name]
            for first in range(0, len(self._topics), SLICE):
                part = self._topics[first : first + SLICE]
                column[first : first + len(part)] = [
                    0 if topic is None else row_of(topic) for topic in part
                ]
                yield

    def shift(self, shift: Shift) -> list[FramedTopic]:
        """Move all topics to their rows after a small layout change, at once.

        Return the topics whose rows are not consecutive any more.
        """
        is_used = np.ones(len(self._topics), np.bool_)
        is_used[self._free] = False
        topics = np.flatnonzero(is_used)
        if not len(topics):
            return []
        columns = self._columns
        was = columns["instance"][topics]
        first = shift.instances[was]
        last = shift.instances[was + self._instances - 1]
        columns["instance"][topics] = first
        columns["chip"][topics] += shift.chip_start[first] - shift.former_chip_start[was]
        columns["publisher"][topics] = shift.boots[columns["publisher"][topics]]
        columns["row"][topics] = shift.rows[columns["row"][topics]]
        parted = topics[(first < 0) | (last - first != self._instances - 1)]
        return [topic for number in parted.tolist() if (topic := self._topics[number]) is not None]

    def leave(self, topic: FramedTopic) -> None:
        """Remove a topic and update its tracker."""
        self.save(topic.number, topic.tracker)
        self._topics[topic.number] = None
        self._free.append(topic.number)
        topic.frame_rows = None

    def save(self, number: int, tracker: SequenceTracker) -> None:
        """Write a topic's progress into a tracker."""
        columns = self._columns
        if not columns["seen"][number]:
            # Its first frame was not applied: the tracker has yet to begin, and is as it was.
            tracker.first = 0
            return
        tracker.last, tracker.seen = int(columns["last"][number]), int(columns["seen"][number])
        tracker.ts_ns = int(columns["ts_ns"][number])
        tracker.behind = 0

    def apply(
        self,
        numbers: list[int],
        topics: list[int],
        columns_of: BatchColumns,
        now_s: float,
        store: Store,
        counts: PipelineCounts,
    ) -> AppliedFrames:
        """Apply all expected frames of a batch at once.

        Leave the others unchanged.

        Args:
            numbers: Places in the batch of frames of topics that are entered here, of the form's
                size.
            topics: The number here of the topic of each of them.
            columns_of: The batch.
            now_s: Monotonic seconds.
            store: Its layout is the one that topics are bound to.
            counts: The counters.
        """
        form = self._form
        columns = self._columns
        payloads = columns_of.payloads
        chosen = np.array(numbers)
        rows = np.array(topics, np.int64)
        frames = form.stack(
            payloads if len(numbers) == len(payloads) else [payloads[n] for n in numbers]
        )
        shed = (
            np.array(columns_of.sheds, np.int64)[chosen] if any(columns_of.sheds) else np.int64(0)
        )
        seq, ts_ns, good = form.numbers(frames)
        ahead = seq - columns["last"][rows]
        # Shed messages are not lost. Frames not newer are applied singly.
        lost = np.maximum(ahead - 1 - shed, 0)
        good &= (ahead >= 1) & (ahead <= LARGEST_GAP)
        good &= form.fit(frames, self._heads[rows])
        good &= ~form.silent(frames, form.chip, self._chips)
        good &= ~form.silent(frames, form.instance, self._instances)
        good &= ~form.impossible(frames)
        order = np.arange(len(rows))
        self._place[rows] = order
        again = self._place[rows] != order
        if again.any():
            good &= ~np.isin(rows, rows[again])
        rest: list[int] = []
        if not good.all():
            rest = chosen[~good].tolist()
            chosen = chosen[good]
            frames = frames[good]
            rows = rows[good]
            ahead = ahead[good]
            seq = seq[good]
            ts_ns = ts_ns[good]
            lost = lost[good]
        if not len(rows):
            return AppliedFrames(None, rest)
        gaps = self._gaps(rows, lost, seq, store) if lost.any() else None
        near = np.minimum(ahead, WINDOW - 1).astype(np.uint64)
        seen = (columns["seen"][rows] << near) | np.uint64(1)
        columns["seen"][rows] = np.where(ahead < WINDOW, seen, np.uint64(1))
        columns["last"][rows], columns["ts_ns"][rows] = seq, ts_ns
        ticks = int(ahead.sum())
        count = len(rows)
        counts.sent += ticks
        counts.passed_over += ticks - count - (0 if gaps is None else int(gaps.lost.sum()))
        counts.accepted += count
        counts.messages += count
        counts.chips += count * self._chips
        self._write(frames, rows, ts_ns, now_s, store)
        sizes: NDArray[np.int64] = np.full(count, self.size)
        return AppliedFrames(
            Undated(chosen, ts_ns, columns["clock"][rows], columns["row"][rows], sizes), rest, gaps
        )

    def _gaps(
        self,
        rows: NDArray[np.int64],
        lost: NDArray[np.int64],
        seq: NDArray[np.int64],
        store: Store,
    ) -> Gaps:
        """Return the messages missing before frames of topics, before they are written."""
        before = np.flatnonzero(lost)
        rows = rows[before]
        columns = self._columns
        instances = columns["instance"][rows]
        return Gaps(
            lost[before],
            columns["row"][rows],
            instances,
            store.instance_seen_s[instances],
            seq[before],
            columns["publisher"][rows],
        )

    def _write(
        self,
        frames: NDArray[np.uint64],
        rows: NDArray[np.int64],
        ts_ns: NDArray[np.int64],
        now_s: float,
        store: Store,
    ) -> None:
        columns = self._columns
        form = self._form
        chips = columns["chip"][rows]
        instances = columns["instance"][rows]
        if self._views_of is not store.columns:
            self._views_of = store.columns
            self._views = [
                (name, _windows(store.columns[name], size))
                for name, size in (*form.chip.items(), *form.instance.items())
            ]
        records = form.records(frames)
        for name, view in self._views:
            view[chips if name in form.chip else instances] = records[name]
        every_chip = chips[:, None] + np.arange(self._chips)
        every_instance = instances[:, None] + np.arange(self._instances)
        store.chip_seen_s[every_chip] = now_s
        store.chip_ts_ns[every_chip] = ts_ns[:, None]
        store.instance_seen_s[every_instance] = now_s
        store.publisher_of[every_instance] = columns["publisher"][rows][:, None]


def sort_by_table(
    part: range, columns: BatchColumns, found: Sequence[FramedTopic | None]
) -> tuple[list[int], set[str], dict[FrameRows, tuple[list[int], list[int]]]]:
    """Separate messages applied alone from frames applied in bulk.

    Args:
        part: Consecutive places in a batch.
        columns: The batch.
        found: The topic of each message.

    Returns:
        The places of messages applied alone, the topics for which all later messages must be
            applied
        alone, and by table the places and topic rows of the bulk frames.
    """
    rest: list[int] = []
    apart: set[str] = set()
    entered: dict[FrameRows, tuple[list[int], list[int]]] = {}
    former: FrameRows | None = None
    numbers: list[int] = []
    numbers_there: list[int] = []
    first = part.start
    stop = part.stop
    of_messages = zip(
        part,
        found[first:stop],
        columns.payloads[first:stop],
        columns.retains[first:stop],
        columns.content_types[first:stop],
        strict=True,
    )
    for number, topic, payload, retain, content_type in of_messages:
        table = None if topic is None else topic.frame_rows
        if table is None or topic is None:
            rest.append(number)
        elif len(payload) == table.size and not retain and content_type != CONTENT_TYPE_JSON:
            if table is not former:
                former = table
                numbers, numbers_there = entered.setdefault(table, ([], []))
            numbers.append(number)
            numbers_there.append(topic.number)
        else:
            rest.append(number)
            apart.add(columns.topics[number])
    return rest, apart, entered


def _windows(column: NDArray[Any], size_bytes: int) -> NDArray[Any]:
    """Return overlapping windows of `size_bytes`, one from each row of a column.

    They are plain, writable bytes.
    """
    step = column.itemsize * (column.shape[1] if column.ndim > 1 else 1)
    count = max(0, column.shape[0] - size_bytes // step + 1)
    return np.ndarray((count,), f"V{size_bytes}", column.data, 0, (step,))
