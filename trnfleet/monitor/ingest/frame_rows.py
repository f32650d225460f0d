"""Topics whose frames are applied many at once: what each frame must be like, and how far each topic has come, in columns.

A topic is entered after a frame of it was applied by itself, or before its first one where frames of the same form have come. From then on its sequence is here, not in its tracker, and a frame of it is
applied here if it is as expected in every respect: the same head (path, boot, revision) and structure, the next number, not twice in the
batch, and no row without a value. Anything else takes the topic out first, so that its tracker is up to date, and goes the usual way:
what comes of it is the same, frame by frame.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from trnfleet.monitor.ingest.sequence import LARGEST_GAP, WINDOW
from trnfleet.wire.ports import CONTENT_TYPE_JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.sequence import SequenceTracker
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.frame_batch import FrameForm
    from trnfleet.wire.frames import FrameDecoder
    from trnfleet.wire.ports import Envelope, MessageProperties

_COLUMNS: dict[str, Any] = {
    "last": np.int64, "seen": np.uint64, "ts_ns": np.int64, "chip": np.int64, "instance": np.int64, "publisher": np.int32,
    "clock": np.int64, "row": np.int64,
}  # fmt: skip  # names in a row
"""Of each topic: the state of its tracker, its first chip and instance, the number of its publisher's boot, and the rows of its clock and
of its publisher's traffic."""
_ROWS: dict[str, Callable[[Any], int]] = {
    "chip": attrgetter("chips.start"), "instance": attrgetter("instances.start"), "publisher": attrgetter("publisher"),
    "clock": attrgetter("clock"), "row": attrgetter("row"),
}  # fmt: skip  # names in a row
"""Those of them that another layout may change, and what they are of a topic."""
MOVED_AT_ONCE = 8_192
"""Topics of which one of these is written in one slice: 1 ms."""


class BatchColumns(NamedTuple):
    """A batch of messages by its columns, which takes a fraction of the time of asking each message."""

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
    """What a table needs of a topic: a `TopicState`."""

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
    """Messages that have yet to be dated, a value each."""

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
    """Messages that are missing before some that were applied, a value for each of these."""

    lost: NDArray[np.int64]
    """How many."""
    rows: NDArray[np.int64]
    """Rows of their publishers in the traffic."""
    instances: NDArray[np.int64]
    """Their first instances."""
    seen_s: NDArray[np.float64]
    """Monotonic seconds at which these were heard last."""


class AppliedFrames(NamedTuple):
    """What became of the frames of a batch."""

    taken: Undated | None
    """Those that were applied; None for none."""
    rest: list[int]
    """The places of those that were not."""
    gaps: Gaps | None = None
    """What is missing before them; None for nothing."""


class Shift(NamedTuple):
    """What has become of the rows of a layout with a few changes, each at its former place."""

    instances: NDArray[np.int64]
    """Numbers of instances; -1 of one that is gone."""
    former_chip_start: NDArray[np.int64]
    chip_start: NDArray[np.int64]
    """First chip row of each instance in the former and in the new layout, and the number of chips at the end."""
    boots: NDArray[np.int32]
    """Numbers of publishers' boots; the last is for -1."""
    rows: NDArray[np.int64]
    """Rows of publishers in the traffic."""


class FrameRows:
    """The topics of one form of frames and one number of rows."""

    def __init__(self, form: FrameForm, chips: int, instances: int) -> None:
        self._form, self._chips, self._instances = form, chips, instances
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
        """Enter a topic whose newest frame has just been applied."""
        number = self._add(topic)
        self._heads[number] = self._form.heads(self._form.stack([payload]))[0]
        columns, tracker = self._columns, topic.tracker
        columns["last"][number], columns["seen"][number], columns["ts_ns"][number] = (
            tracker.last,
            tracker.seen,
            tracker.ts_ns,
        )

    def begin(self, topics: Sequence[FramedTopic], payloads: Sequence[bytes]) -> None:
        """Enter topics of which nothing has come yet, each with its first frame, where that has the form's structure and is to be applied next.

        A topic counts from that frame's number; until it is applied, its `seen` is 0, and a topic that leaves before is as it was.
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
        """Return the row of a topic that is entered."""
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
        topic.frame_rows, topic.number = self, number
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
            for first in range(0, len(self._topics), MOVED_AT_ONCE):
                part = self._topics[first : first + MOVED_AT_ONCE]
                column[first : first + len(part)] = [
                    0 if each is None else row_of(each) for each in part
                ]
                yield

    def shift(self, shift: Shift) -> list[FramedTopic]:
        """Follow all topics to their rows in a layout with a few changes, at once; return those whose rows are not one after the other any more."""
        is_used = np.ones(len(self._topics), np.bool_)
        is_used[self._free] = False
        topics = np.flatnonzero(is_used)
        if not len(topics):
            return []
        columns = self._columns
        was = columns["instance"][topics]
        first, last = shift.instances[was], shift.instances[was + self._instances - 1]
        columns["instance"][topics] = first
        columns["chip"][topics] += shift.chip_start[first] - shift.former_chip_start[was]
        columns["publisher"][topics] = shift.boots[columns["publisher"][topics]]
        columns["row"][topics] = shift.rows[columns["row"][topics]]
        parted = topics[(first < 0) | (last - first != self._instances - 1)]
        return [topic for number in parted.tolist() if (topic := self._topics[number]) is not None]

    def leave(self, topic: FramedTopic) -> None:
        """Take a topic out, and give its tracker what has come meanwhile."""
        self.save(topic, topic)
        self._topics[topic.number] = None
        self._free.append(topic.number)
        topic.frame_rows, topic.number = None, -1

    def save(self, topic: FramedTopic, into: FramedTopic) -> None:
        """Write how far a topic has come into a tracker, its own or that of a copy."""
        columns, number, tracker = self._columns, topic.number, into.tracker
        if not columns["seen"][number]:
            # Its first frame was not applied: the tracker has yet to begin, and is as it was.
            tracker.first = 0
            return
        tracker.last, tracker.seen = int(columns["last"][number]), int(columns["seen"][number])
        tracker.ts_ns, tracker.behind = int(columns["ts_ns"][number]), 0

    def apply(
        self, numbers: list[int], topics: list[int], columns_of: BatchColumns, now_s: float, store: Store, counts: PipelineCounts
    ) -> AppliedFrames:  # fmt: skip  # one line of what is given
        """Apply the frames of a batch that are as expected, all at once; the others are left as they are.

        Args:
            numbers: Places in the batch of frames of topics that are entered here, of the form's size.
            topics: The number here of the topic of each of them.
            columns_of: The batch.
            now_s: Monotonic seconds.
            store: Its layout is the one that topics are bound to.
            counts: The counters.
        """
        form, columns = self._form, self._columns
        payloads, chosen, rows = columns_of.payloads, np.array(numbers), np.array(topics, np.int64)
        frames = form.stack(
            payloads if len(numbers) == len(payloads) else [payloads[n] for n in numbers]
        )
        shed = (
            np.array(columns_of.sheds, np.int64)[chosen] if any(columns_of.sheds) else np.int64(0)
        )
        seq, ts_ns, good = form.numbers(frames)
        ahead = seq - columns["last"][rows]
        # What was left out here is no loss; whatever is not newer is looked at by itself.
        lost = np.maximum(ahead - 1 - shed, 0)
        good &= (ahead >= 1) & (ahead <= LARGEST_GAP)
        good &= form.fit(frames, self._heads[rows])
        good &= ~form.silent(frames, form.chip, self._chips)
        good &= ~form.silent(frames, form.instance, self._instances)
        order = np.arange(len(rows))
        self._place[rows] = order
        again = self._place[rows] != order
        if again.any():
            good &= ~np.isin(rows, rows[again])
        rest: list[int] = []
        if not good.all():
            rest = chosen[~good].tolist()
            chosen, frames, rows, ahead = chosen[good], frames[good], rows[good], ahead[good]
            seq, ts_ns, lost = seq[good], ts_ns[good], lost[good]
        if not len(rows):
            return AppliedFrames(None, rest)
        gaps = self._gaps(rows, lost, store) if lost.any() else None
        near = np.minimum(ahead, WINDOW - 1).astype(np.uint64)
        seen = (columns["seen"][rows] << near) | np.uint64(1)
        columns["seen"][rows] = np.where(ahead < WINDOW, seen, np.uint64(1))
        columns["last"][rows], columns["ts_ns"][rows] = seq, ts_ns
        ticks, count = int(ahead.sum()), len(rows)
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

    def _gaps(self, rows: NDArray[np.int64], lost: NDArray[np.int64], store: Store) -> Gaps:
        """Return what is missing before the frames of topics, which are not written yet."""
        before = np.flatnonzero(lost)
        rows, columns = rows[before], self._columns
        instances = columns["instance"][rows]
        return Gaps(lost[before], columns["row"][rows], instances, store.instance_seen_s[instances])

    def _write(
        self, frames: NDArray[np.uint64], rows: NDArray[np.int64], ts_ns: NDArray[np.int64], now_s: float, store: Store
    ) -> None:  # fmt: skip  # one line of what is given
        columns, form = self._columns, self._form
        chips, instances = columns["chip"][rows], columns["instance"][rows]
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
    """Part the messages that go by themselves from the frames that may be applied many at once.

    Args:
        part: Places in a batch, one after the other.
        columns: The batch.
        found: The topic of each of its messages.

    Returns:
        The places of the former, the topics of those that others of their topic have to follow, and by table the places of the latter and
        their topics' rows.
    """
    rest: list[int] = []
    apart: set[str] = set()
    entered: dict[FrameRows, tuple[list[int], list[int]]] = {}
    former: FrameRows | None = None
    numbers: list[int] = []
    numbers_there: list[int] = []
    first, stop = part.start, part.stop
    of_messages = zip(
        part, found[first:stop], columns.payloads[first:stop], columns.retains[first:stop],
        columns.content_types[first:stop], strict=True,
    )  # fmt: skip  # one line of what is looked at
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
    """Return a column's rows, each with as many of those behind it as make `size_bytes`, as plain bytes that can be written."""
    step = column.itemsize * (column.shape[1] if column.ndim > 1 else 1)
    count = max(0, column.shape[0] - size_bytes // step + 1)
    return np.ndarray((count,), f"V{size_bytes}", column.data, 0, (step,))
