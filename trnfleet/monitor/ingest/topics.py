"""Telemetry topics: the descriptor of each, its rows in the present layout, and its sequence.

A `TopicState` begins with the first message of its topic that a descriptor covers, and outlives what it refers to:

descriptor  It covers the path, and all its instances are in the layout; messages before that are pending or count as undescribed,
            and nothing is kept of them. A new revision of the descriptor replaces it, with decoder and columns; the sequence goes on.
boot        The publisher's boot in the descriptor. Another one begins the sequence again, and the last boot is kept, so that
            its stragglers count as late. A message of a boot that no descriptor has named yet is undescribed.
layout      `chips` and `instances` are rows of one generation. With the next one, `Topics.bind` finds them again for every
            topic, before anything is written; where an instance is gone, the topic has no descriptor.
clock       Shared by all topics of a publisher's epoch and speed; it is a row of the columns of the `Timebase`.

A topic without a descriptor is forgotten with the next layout. So there are never more topics than what is described has, and each
counts for the publisher of its descriptor.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.monitor.ingest.frame_rows import FrameTables
from trnfleet.monitor.ingest.rejects import RejectedError
from trnfleet.monitor.ingest.sequence import SequenceTracker, Verdict
from trnfleet.monitor.ingest.undescribed import Undescribed
from trnfleet.monitor.room import Room
from trnfleet.wire.frames import FrameDecoder, is_known
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import STANDARD_COLUMNS, ColumnSpec
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.ingest.frame_rows import FrameRows
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.wire.telemetry import Head

MOST_DECODERS = 1_000
"""Forms of frames whose decoders are kept."""

SLICE = 256
"""Topics that are looked for in one slice of following a layout: 2 ms."""

_CHIP_NAMES = tuple(metric.name for metric in CHIP_METRICS)
_INSTANCE_NAMES = tuple(metric.name for metric in INSTANCE_METRICS)

OF_SOURCES = frozenset(
    {
        TopicClass.NODE,
        TopicClass.TELEMETRY,
        TopicClass.ROLLUP,
        TopicClass.EVENT,
        TopicClass.JOB,
        TopicClass.RESERVATION,
    }
)
"""Classes of what sources publish, besides their presence."""


@dataclass(slots=True, eq=False)
class TopicState:
    """A telemetry topic: its sequence, and where its rows are in the present layout."""

    path: str
    tracker: SequenceTracker = field(default_factory=SequenceTracker)
    descriptor: CompactDescriptor | None = None
    """None where nothing covers the topic any more."""
    former_boot: str = ""
    """The publisher's boot before the present one."""
    former_client: str = ""
    """The publisher of that boot, where it is another one."""
    clock: int = -1
    """Its clock's row in the columns of the `Timebase`, which every layout finds again."""
    publisher: int = -1
    """Number of the boot that the descriptor names."""
    row: int = 0
    """Row of its client in the traffic of publishers; 0 for one that is not known."""
    decoder: FrameDecoder | None = None
    chips: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    instances: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    is_chip: bool = False
    chip_count: int = 0
    same_chip: tuple[str, ...] = ()
    """Chip columns of its frames that are as the metric table has them, and are copied as they are."""
    same_instance: tuple[str, ...] = ()
    foreign: tuple[ColumnSpec, ...] = ()
    """Columns of another type, scale or width, which are converted; what the table does not know is left out."""
    has_other_columns: bool = False
    """Whether it has any column that is not copied as it is."""
    frame_rows: FrameRows | None = None
    """The table in which its sequence is instead of in its tracker."""
    number: int = -1
    """Its row there."""

    def copy(self) -> TopicState:
        """Return a copy; all but its sequence is replaced, never changed."""
        # There may be tens of thousands: this takes a third of the time of copy.copy.
        twin = TopicState(
            self.path, self.tracker.copy(), self.descriptor, self.former_boot, self.former_client
        )
        twin.clock, twin.publisher, twin.row = self.clock, self.publisher, self.row
        twin.decoder = self.decoder
        twin.chips, twin.instances = self.chips, self.instances
        twin.is_chip, twin.chip_count = self.is_chip, self.chip_count
        twin.same_chip, twin.same_instance, twin.foreign = self.same_chip, self.same_instance, self.foreign
        twin.has_other_columns = self.has_other_columns
        if self.frame_rows is not None:
            self.frame_rows.save(self, twin)
        return twin

    def move_frame_rows(self) -> None:
        """Follow to the rows of the present layout, where they are still one after the other."""
        if self.frame_rows is None:
            return
        if isinstance(self.chips, slice) and isinstance(self.instances, slice):
            self.frame_rows.move(self)
        else:
            self.leave_frame_rows()

    def leave_frame_rows(self) -> None:
        """Have the sequence in its tracker again."""
        if self.frame_rows is not None:
            self.frame_rows.leave(self)

    def is_newest(self, head: Head, counts: PipelineCounts, shed: int = 0) -> bool:
        """Return whether a message is of the described boot and newer than all before it; count it where it is not.

        Args:
            head: The message's.
            counts: The counters.
            shed: Messages of the topic before it that were left out here.
        """
        if self.descriptor is None or head.boot != self.descriptor.boot:
            if head.boot == self.former_boot and self.former_client:
                counts.contested += 1
            elif head.boot == self.former_boot:
                counts.late += 1
            else:
                counts.undescribed += 1
            return False
        return self.tracker.accept(head.seq, counts, shed, ts_ns=head.ts_ns) is Verdict.NEWEST


class Topics:
    """The telemetry topics of one fleet, each bound to what describes it."""

    def __init__(
        self,
        descriptors: Descriptors,
        publishers: Publishers,
        timebase: Timebase,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.states: dict[str, TopicState] = {}
        """By topic."""
        self.undescribed = Undescribed(limits.undescribed_paths)
        self._limits = limits
        self._room = Room(limits.topics)
        self._descriptors = descriptors
        self._publishers = publishers
        self._timebase = timebase
        self._covered_by: dict[str, list[TopicState]] = {}
        """By the path of the descriptor that covers them."""
        self._undescribed_topics: dict[str, tuple[str, str]] = {}
        """Address of topics that no descriptor of the layout covered when they came last, and the path of the one that would."""
        self._tables = FrameTables()
        self._shared: set[str] = set()
        """Instances that more than one descriptor covers, in this layout."""
        self._decoders: dict[tuple[int, int, int], tuple[tuple[ColumnSpec, ...], FrameDecoder]] = {}
        """By the identity of the columns, of which the descriptors have one object for all that are equal, and the rows."""

    def copy(self, descriptors: Descriptors, publishers: Publishers, timebase: Timebase) -> Topics:
        """Return a copy among copies of what it refers to; decoders, which only learn the form of frames, are shared.

        Args:
            descriptors: Copy of the descriptors.
            publishers: Copy of the publishers.
            timebase: Copy of the clocks.
        """
        twin = Topics(descriptors, publishers, timebase, self._limits)
        twin.undescribed = self.undescribed.copy()
        twin._room = self._room.copy()
        copies = {id(state): state.copy() for state in self.states.values()}
        twin.states = {topic: copies[id(state)] for topic, state in self.states.items()}
        twin._covered_by = {
            path: [copies[id(state)] for state in states] for path, states in self._covered_by.items()
        }
        twin._decoders = self._decoders.copy()
        twin._shared = self._shared.copy()
        return twin

    def __getstate__(self) -> dict[str, object]:
        """Return what a pickle has: no decoders, which are kept by an identity that no other object has."""
        return self.__dict__ | {"_decoders": {}, "_tables": FrameTables(), "_undescribed_topics": {}}

    def add(self, topic: str, path: str, layout: Layout) -> TopicState | None:
        """Add a topic about an address; return None, and keep nothing, where no descriptor of the layout covers it.

        Raises:
            RejectedError: there are too many, or its publisher has too many.
        """
        covering = self.covering(topic, path)
        descriptor = self._descriptors.get(covering)
        if descriptor is None or descriptor.members or descriptor.instances[0] not in layout.instance_index:
            return None
        state = TopicState(path, is_chip=address.level_of(path) is Level.CHIP)
        self._bind(state, layout)
        if state.descriptor is None:
            return None
        owner = state.descriptor.publisher
        if why := self._room.refusal(owner, 1, "telemetry topics"):
            raise RejectedError(why)
        self._room.change(owner, 1)
        self.states[topic] = state
        self._undescribed_topics.pop(topic, None)
        beside = self._covered_by.setdefault(covering, [])
        for each in beside:
            each.leave_frame_rows()
        beside.append(state)
        return state

    def begin(self, topic: str, path: str, layout: Layout) -> TopicState | None:
        """Return the state of a topic about a path that has a descriptor of its own, a new one for a new topic; None for any other.

        Raises:
            RejectedError: there are too many, or its publisher has too many.
        """
        known = self.states.get(topic)
        if known is None and self._descriptors.get(path) is not None:
            return self.add(topic, path, layout)
        return known

    def enter_frame_rows(self, state: TopicState, payload: bytes) -> None:
        """Let a topic's next frames be applied with others, after one that was applied; not where another topic has the same rows."""
        if state.frame_rows is None and self._has_rows_alone(state):
            self._tables.enter(state, payload)

    def begin_frame_rows(self, states: list[TopicState], payloads: list[bytes]) -> None:
        """Let the first frames of topics be applied with others; not where another topic has the same rows.

        Args:
            states: Topics without a table.
            payloads: A frame of each.
        """
        chosen = [place for place, state in enumerate(states) if self._has_rows_alone(state)]
        self._tables.begin([states[place] for place in chosen], [payloads[place] for place in chosen])

    def _has_rows_alone(self, state: TopicState) -> bool:
        descriptor = state.descriptor
        if descriptor is None or len(self._covered_by.get(descriptor.path, ())) > 1:
            return False
        return not self._shared or self._shared.isdisjoint(descriptor.instances)

    def covering(self, topic: str, path: str) -> str:
        """Return the path of the descriptor that would cover a topic about an address, and keep it while there is none."""
        known = self._undescribed_topics.get(topic)
        if known is None:
            if len(self._undescribed_topics) >= self._limits.undescribed_paths:
                self._undescribed_topics.clear()
            known = self._undescribed_topics[topic] = path, covering_path(path)
        return known[1]

    def undescribed_path(self, topic: str) -> str | None:
        """Return the address of a topic that has come before and had no descriptor in the layout; None for any other."""
        known = self._undescribed_topics.get(topic)
        return None if known is None else known[0]

    def is_described(self, covering: str) -> bool:
        """Return whether there is a descriptor of telemetry for a path, be it in the layout or not."""
        descriptor = self._descriptors.get(covering)
        return descriptor is not None and not descriptor.members

    def _is_missing(self, path: str) -> bool:
        return self._descriptors.get(covering_path(path)) is None

    def bind(self, layout: Layout, below: str) -> None:
        """Find the descriptors and rows of the topics that a descriptor covers."""
        for state in self._covered_by.get(below, ()):
            self._bind(state, layout)

    def follow(self, layout: Layout) -> Slices[None]:
        """Find the descriptors and rows of all topics in a new layout, and drop the topics that have none any more.

        It is in slices in which nothing may be applied. What is undescribed is heard again.
        """
        yield from self.undescribed.renew(self._is_missing)
        self._shared = set()
        if self._descriptors.instances > len(layout.instances):
            times = Counter(itertools.chain.from_iterable(each.instances for each in self._descriptors))
            self._shared = {path for path, number in times.items() if number > 1}
        described = {id(descriptor.columns) for descriptor in self._descriptors}
        self._decoders = {key: each for key, each in self._decoders.items() if key[0] in described}
        yield
        states: dict[str, TopicState] = {}
        covered_by: dict[str, list[TopicState]] = {}
        room = Room(self._limits.topics)
        for number, (topic, state) in enumerate(self.states.items()):
            if number % SLICE == SLICE - 1:
                yield
            if self._shared:
                state.leave_frame_rows()
            self._bind(state, layout)
            if state.descriptor is not None:
                states[topic] = state
                covered_by.setdefault(state.descriptor.path, []).append(state)
                room.change(state.descriptor.publisher, 1)
        self.states, self._covered_by, self._room = states, covered_by, room

    def _bind(self, state: TopicState, layout: Layout) -> None:
        """Find the descriptor that covers a topic, and its rows."""
        descriptor = self._descriptors.get(covering_path(state.path))
        if descriptor is not state.descriptor:
            state.leave_frame_rows()
        before, state.descriptor = state.descriptor, None
        if descriptor is None or descriptor.members:
            return
        if before is None or before.boot != descriptor.boot:
            # Another boot counts from 0; and what came while nothing described the topic is not lost.
            if before:
                state.former_boot = before.boot
                is_other = before.publisher != descriptor.publisher
                state.former_client = before.publisher if is_other else ""
            state.tracker = SequenceTracker()
        publisher = self._publishers.find(descriptor.publisher, descriptor.boot)
        state.clock = self._timebase.clock(descriptor.clock, descriptor.period_s).row
        traffic = self._publishers.traffic
        state.publisher = -1 if publisher is None else publisher.number
        state.row = traffic.row_of(descriptor.publisher)
        traffic.describe(state.row, descriptor.period_s, descriptor.boot)
        index = layout.instance_index
        rows = [index.get(path, -1) for path in descriptor.instances]
        if min(rows) < 0 or (layout.has_rolled and layout.is_rolled[rows].any()):
            state.leave_frame_rows()
            return
        if state.is_chip:
            node = layout.find(state.path)
            if node is None or len(rows) != 1 or layout.parent(node).number != rows[0]:
                return
            state.chips, state.chip_count = slice(node.number, node.number + 1), 1
        else:
            if rows == list(range(rows[0], rows[0] + len(rows))):
                # Slices write without a copy of the index.
                first, stop = int(layout.chip_start[rows[0]]), int(layout.chip_start[rows[-1] + 1])
                state.instances, state.chips = slice(rows[0], rows[-1] + 1), slice(first, stop)
                state.chip_count = stop - first
            else:
                state.instances = np.array(rows)
                state.chips = layout.chip_rows(state.instances)
                state.chip_count = len(state.chips)
            state.decoder = self._decoder(descriptor.columns, state.chip_count, len(rows))
            if before is not descriptor:
                _sort_columns(state, descriptor.columns)
        state.descriptor = descriptor
        state.move_frame_rows()

    def _decoder(self, columns: tuple[ColumnSpec, ...], chips: int, instances: int) -> FrameDecoder:
        """Return the decoder of frames of that form, which topics share: a form that one has learned serves all."""
        key = (id(columns), chips, instances)
        known = self._decoders.get(key)
        if known is not None:
            return known[1]
        if len(self._decoders) >= MOST_DECODERS:
            self._decoders.clear()
        decoder = FrameDecoder(columns, chips, instances)
        self._decoders[key] = columns, decoder
        return decoder


def _sort_columns(state: TopicState, columns: tuple[ColumnSpec, ...]) -> None:
    """Part the columns that can be copied from those that must be converted."""
    if columns is STANDARD_COLUMNS:
        state.same_chip, state.same_instance, state.foreign = _CHIP_NAMES, _INSTANCE_NAMES, ()
        state.has_other_columns = False
        return
    known = [column for column in columns if is_known(column)]
    same = [column for column in known if column in STANDARD_COLUMNS]
    state.same_chip = tuple(column.name for column in same if column.per is Scope.CHIP)
    state.same_instance = tuple(column.name for column in same if column.per is Scope.INSTANCE)
    state.foreign = tuple(column for column in known if column not in STANDARD_COLUMNS)
    state.has_other_columns = len(same) < len(columns)


def covering_path(path: str) -> str:
    """Return the path of the descriptor that covers a telemetry topic's path: a chip's is its instance's."""
    return address.parent(path) if address.level_of(path) is Level.CHIP else path
