"""Telemetry topics: the descriptor, the rows and the sequence of each.

A `TopicState` starts with the first message of its topic under a descriptor, and outlives the
things it refers to:

* descriptor: It covers the path, and all its instances are in the layout. Earlier messages are
  pending or count as undescribed, and leave no state. A new revision of the descriptor replaces it,
  with decoder and columns. The sequence goes on.
* boot: The publisher's boot in the descriptor. Another boot restarts the sequence. The last boot is
  stored, so its stragglers count as late. A message of a boot not named by any descriptor yet is
  undescribed.
* layout: `chips` and `instances` are rows of one generation. With the next one, `Topics.follow`
  updates them for every topic before anything is written. If an instance is gone, the topic has no
  descriptor. If few descriptors have changed, `Topics.shift` updates their topics, and
  `Topics.catch_up` the others before anything is written through them.
* clock: Shared by all topics of a publisher's epoch and speed: a row of the columns of the
  `Timebase`.

A topic without a descriptor is forgotten with the next layout. So there are never more topics than
described ones, and each counts for the publisher of its descriptor.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.errors import WireError
from trnfleet.monitor.ingest.frame_rows import (
    BatchColumns,
    FramedTopic,
    FrameRows,
    Shift,
    sort_by_table,
)
from trnfleet.monitor.ingest.rejects import RejectedError
from trnfleet.monitor.ingest.sequence import SequenceTracker
from trnfleet.monitor.ingest.topic_state import TopicState
from trnfleet.monitor.room import Room
from trnfleet.monitor.slices import SLICE, Slices
from trnfleet.wire.frame_batch import IS_LITTLE_ENDIAN, FrameForm
from trnfleet.wire.frames import FrameDecoder, FrameTemplate, is_known, limited
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import OWN_COLUMNS, STANDARD_COLUMNS, ColumnSpec
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.monitor.sources.publishers import Publishers


LARGEST_FRAME = 16_384
"""Largest frame in bytes for which bulk application is faster. A frame of an instance has 2 KB, one
of a block 67."""
MOST_FORMS = 64
"""Forms of frames that have a table, or a stored decoder."""


QUIET_S = 3.0
"""Seconds in which messages of an undescribed topic are only counted. The next descriptor request
needs a new message, so this is shorter than the wait for it."""


class QuietTopics:
    """Undescribed topics with a recent descriptor request: further messages are only counted.

    While tens of thousands of hosts join, this applies to most messages. A topic leaves when its
    descriptor arrives or a layout is made.
    """

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed) -> None:
        """Start empty.

        At most `most` topics are stored.
        """
        self._most = most
        self._topics: set[str] = set()
        self._since_s = -math.inf

    def add(self, topic: str, now_s: float) -> None:
        """Add a topic; all are removed `QUIET_S` after the first."""
        if not self._topics:
            self._since_s = now_s
        if len(self._topics) < self._most:
            self._topics.add(topic)

    def discard(self, topic: str) -> None:
        """Remove a topic, if present."""
        self._topics.discard(topic)

    def clear(self) -> None:
        """Remove all topics."""
        self._topics.clear()

    def without(self, numbers: list[int], topics: Sequence[str], now_s: float) -> list[int]:
        """Return the places of messages of other topics.

        Args:
            numbers: Places.
            topics: The topic at each place.
            now_s: Monotonic seconds.
        """
        quiet = self._topics
        if not quiet:
            return numbers
        if now_s - self._since_s >= QUIET_S:
            quiet.clear()
            return numbers
        return [number for number in numbers if topics[number] not in quiet]


class Undescribed:
    """Paths with undescribed telemetry."""

    HEARD_WITHIN_S = 30.0
    """Silence after which a path is forgotten, or after twice this time at the latest."""

    def __init__(self, most: int = DEFAULT_LIMITS.undescribed) -> None:
        """Start empty.

        At most `most` paths are counted.
        """
        self._most = most
        self.chips: set[str] = set()
        """Paths of chips."""
        self.others: set[str] = set()
        """Paths with frames or host metrics."""
        self.topics: dict[str, tuple[str, str]] = {}
        """By topic: its path and the path of its missing descriptor."""
        self._heard_s = -math.inf
        self._began_s = -math.inf
        self._former: frozenset[str] = frozenset()
        """Paths heard before the last layout or the last `HEARD_WITHIN_S`."""
        self._former_until_s = -math.inf

    def hear(self, path: str, now_s: float) -> None:
        """Add a path after a message of it."""
        if now_s - self._began_s > self.HEARD_WITHIN_S:
            is_over = now_s - self._heard_s > self.HEARD_WITHIN_S
            self._former = frozenset() if is_over else frozenset(self.chips | self.others)
            self._former_until_s = now_s + self.HEARD_WITHIN_S
            self.chips, self.others = set(), set()
            self.topics.clear()
            self._began_s = now_s
        is_new = path not in self.others and path not in self.chips
        if is_new and len(self.chips) + len(self.others) < self._most:
            (self.chips if address.level_of(path) is Level.CHIP else self.others).add(path)
        self._heard_s = now_s

    def renew(self, undescribed: Callable[[set[str]], set[str]]) -> Slices[None]:
        """Wait for all paths again.

        Missing ones count until each had time to return.

        Args:
            undescribed: Returns the paths without a descriptor among some paths, not of chips.
        """
        former = undescribed(self.others)
        chips = list(self.chips)
        for begin in range(0, len(chips), SLICE):
            yield
            part = chips[begin : begin + SLICE]
            instances = undescribed({address.parent(path) for path in part})
            former.update(path for path in part if address.parent(path) in instances)
        self.chips, self.others = set(), set()
        self._former, self._former_until_s = frozenset(former), self._heard_s + self.HEARD_WITHIN_S

    def counts(self, now_s: float) -> tuple[int, int]:
        """Return the numbers of chips and of other paths.

        Instances of these chips are not counted among the others, if known.
        """
        if now_s - self._heard_s > self.HEARD_WITHIN_S:
            return 0, 0
        chips = self.chips
        others = self.others
        if self._former and now_s < self._former_until_s:
            former_chips = {path for path in self._former if address.level_of(path) is Level.CHIP}
            chips = chips | former_chips
            others = others | (self._former - former_chips)
        if not chips:
            return 0, len(others)
        return len(chips), len(others - {address.parent(path) for path in chips})


class FrameTables:
    """The tables of all forms."""

    def __init__(self) -> None:
        self._by_form: dict[tuple[int, int, int], tuple[FrameTemplate, FrameRows]] = {}
        """By the identity of the template, chips and instances."""

    def move_all(self) -> Slices[None]:
        """Follow the topics of all tables to their rows, in slices."""
        self._drop_empty()
        for _, table in self._by_form.values():
            yield from table.move_all()

    def shift(self, shift: Shift) -> list[FramedTopic]:
        """Follow the topics of all tables to their rows, as `FrameRows.shift` does."""
        self._drop_empty()
        return [topic for _, table in self._by_form.values() for topic in table.shift(shift)]

    def _drop_empty(self) -> None:
        """Forget the tables that no topic has entered."""
        self._by_form = {key: table for key, table in self._by_form.items() if len(table[1])}

    def enter(self, topic: FramedTopic, payload: bytes) -> None:
        """Enter a topic after its newest frame was applied, if it can use a table."""
        decoder = topic.decoder
        if decoder is None or not _is_uniform(topic, len(payload)):
            return
        template = decoder.template(payload)
        if template is None:
            return
        instances = topic.instances.stop - topic.instances.start  # type: ignore[union-attr]  # uniform
        key = id(template), topic.chip_count, instances
        known = self._by_form.get(key)
        if known is None:
            if any(BY_NAME[cut.name].dtype != cut.dtype for cut in template.cuts):
                return
            if len(self._by_form) >= MOST_FORMS:
                return
            rows = FrameRows(FrameForm(template, payload), topic.chip_count, instances)
            known = self._by_form[key] = template, rows
        known[1].enter(topic, payload)

    def begin(self, topics: Sequence[FramedTopic], payloads: Sequence[bytes]) -> None:
        """Enter new topics before their first frames, if the form is known.

        Args:
            topics: The topics. One topic may have several frames.
            payloads: A frame of each.
        """
        by_table: dict[int, tuple[FrameRows, list[int]]] = {}
        for place, (topic, payload) in enumerate(zip(topics, payloads, strict=True)):
            decoder = topic.decoder
            descriptor = topic.descriptor
            template = None if decoder is None else decoder.templates.get(len(payload))
            if (
                template is None
                or descriptor is None
                or topic.tracker.last is not None
                or not _is_uniform(topic, len(payload))
                or template.revision != descriptor.revision
                or payload[template.path] != topic.path.encode()
                or payload[template.boot] != descriptor.boot.encode()
            ):
                continue
            instances = topic.instances.stop - topic.instances.start  # type: ignore[union-attr]  # uniform
            known = self._by_form.get((id(template), topic.chip_count, instances))
            if known is not None:
                by_table.setdefault(id(known[1]), (known[1], []))[1].append(place)
        for table, places in by_table.values():
            table.begin([topics[place] for place in places], [payloads[place] for place in places])


def _is_uniform(topic: FramedTopic, size_bytes: int) -> bool:
    """Return whether a topic's frames are copied unchanged to consecutive rows."""
    return (
        IS_LITTLE_ENDIAN
        and size_bytes <= LARGEST_FRAME
        and not topic.has_other_columns
        and isinstance(topic.chips, slice)
        and isinstance(topic.instances, slice)
        and topic.chip_count > 0
    )


_CHIP_NAMES = tuple(metric.name for metric in SIMULATED if metric.scope is Scope.CHIP)
_INSTANCE_NAMES = tuple(metric.name for metric in SIMULATED if metric.scope is Scope.INSTANCE)
_LIMITED = limited(STANDARD_COLUMNS)

OF_SOURCES = frozenset(
    {
        TopicClass.NODE,
        TopicClass.TELEMETRY,
        TopicClass.ROLLUP,
        TopicClass.EVENT,
        TopicClass.JOB,
        TopicClass.CLAIM,
        TopicClass.RESERVATION,
    }
)
"""Topic classes published by sources, besides their presence."""


@dataclass(frozen=True, slots=True)
class _HostRows:
    """The rows of a layout, prepared for lookups by hosts' topics."""

    index: Mapping[str, int]
    """Of instances."""
    chip_start: list[int]
    """First chip row of each instance, with the number of chips last."""
    has_same_clocks: bool
    """Whether each topic's clock still has its row."""


class Topics:
    """The telemetry topics of one fleet, each bound to its descriptor."""

    def __init__(
        self,
        descriptors: Descriptors,
        publishers: Publishers,
        timebase: Timebase,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.states: dict[str, TopicState] = {}
        """By topic."""
        self.undescribed = Undescribed(limits.undescribed)
        self.quiet = QuietTopics(limits.undescribed)
        self._limits = limits
        self._room = Room(limits.topics)
        self._descriptors = descriptors
        self._publishers = publishers
        self._timebase = timebase
        self._covered_by: dict[str, list[TopicState]] = {}
        """By the path of the covering descriptor."""
        self._tables = FrameTables()
        self._layouts = 0
        """Layouts that topics have followed."""
        self._clock_moves = timebase.moves
        """Of the timebase, when topics found their clocks."""
        self._shared: set[str] = set()
        """Instances with more than one descriptor in this layout."""
        self._decoders: dict[tuple[int, int, int], tuple[tuple[ColumnSpec, ...], FrameDecoder]] = {}
        """By the identity of the columns, shared by equal ones, and the numbers of rows."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without decoders: their keys are object identities."""
        return self.__dict__ | {
            "_decoders": {},
            "_tables": FrameTables(),
            "quiet": QuietTopics(),
        }

    def add(self, topic: str, path: str, layout: Layout) -> TopicState | None:
        """Add a topic about an address.

        Return None if no descriptor of the layout covers it.

        Raises:
            RejectedError: there are too many, or its publisher has too many.
        """
        covering = self.covering(topic, path)
        descriptor = self._descriptors.get(covering)
        if (
            descriptor is None
            or descriptor.members
            or descriptor.instances[0] not in layout.instance_index
        ):
            return None
        state = TopicState(path, is_chip=address.level_of(path) is Level.CHIP, topic=topic)
        self._bind(state, layout)
        if state.descriptor is None:
            return None
        owner = state.descriptor.publisher
        if why := self._room.refusal(owner, 1, "telemetry topics"):
            raise RejectedError(why)
        self._room.change(owner, 1)
        self.states[topic] = state
        self.undescribed.topics.pop(topic, None)
        beside = self._covered_by.setdefault(covering, [])
        for other in beside:
            other.leave_frame_rows()
        beside.append(state)
        return state

    def begin(self, topic: str, path: str, layout: Layout) -> TopicState | None:
        """Return the state of a topic, new or known, whose path has its own descriptor.

        None for any other path.

        Raises:
            RejectedError: there are too many, or its publisher has too many.
        """
        known = self.states.get(topic)
        if known is None and self._descriptors.get(path) is not None:
            return self.add(topic, path, layout)
        return known

    def enter_frame_rows(self, state: TopicState, payload: bytes) -> None:
        """Apply a topic's next frames in bulk, after one was applied.

        Not possible if another topic has the same rows.
        """
        if state.frame_rows is None and self._has_rows_alone(state):
            self._tables.enter(state, payload)

    def begin_frame_rows(self, states: list[TopicState], payloads: list[bytes]) -> None:
        """Apply the first frames of topics in bulk.

        Not possible if another topic has the same rows.

        Args:
            states: Topics without a table.
            payloads: A frame of each.
        """
        chosen = [place for place, state in enumerate(states) if self._has_rows_alone(state)]
        self._tables.begin(
            [states[place] for place in chosen], [payloads[place] for place in chosen]
        )

    def begin_many(
        self,
        batch: list[Envelope],
        part: Iterable[int],
        states: list[TopicState | None],
        layout: Layout,
        telemetry: str,
    ) -> bool:
        """Start the topics of first frames.

        Return whether any has a table now. Tens of thousands arrive in one second when a monitor
        joins running hosts: they are applied together. If anything is unexpected, nothing is
        changed and the frame is applied alone as usual, with all its checks.

        Args:
            batch: Messages.
            part: Places in it of messages whose topics have no table, or one of another form.
            states: The topic of each message, if known. New topics are added.
            layout: The layout.
            telemetry: The common start of the fleet's telemetry topics.
        """
        fresh: list[TopicState] = []
        payloads: list[bytes] = []
        for number in part:
            topic = states[number]
            if topic is not None and (
                topic.frame_rows is not None or topic.tracker.last is not None
            ):
                continue
            envelope = batch[number]
            if envelope.retain or envelope.content_type == CONTENT_TYPE_JSON:
                continue
            if topic is None and envelope.topic.startswith(telemetry):
                # An error comes again, and is counted, when the message is applied alone.
                with contextlib.suppress(WireError):
                    topic = states[number] = self.begin(
                        envelope.topic, envelope.topic[len(telemetry) :], layout
                    )
            if topic is not None and topic.frame_rows is None:
                self.catch_up(topic, layout)
                fresh.append(topic)
                payloads.append(envelope.payload)
        if fresh:
            self.begin_frame_rows(fresh, payloads)
        return any(topic.frame_rows is not None for topic in fresh)

    def _has_rows_alone(self, state: TopicState) -> bool:
        descriptor = state.descriptor
        if descriptor is None or len(self._covered_by.get(descriptor.path, ())) > 1:
            return False
        return not self._shared or self._shared.isdisjoint(descriptor.instances)

    def sort(
        self, part: range, columns: BatchColumns, states: Sequence[TopicState | None], now_s: float
    ) -> tuple[list[int], set[str], dict[FrameRows, tuple[list[int], list[int]]]]:
        """Separate the messages of a batch like `sort_by_table`, without quiet topics."""
        rest, apart, entered = sort_by_table(part, columns, states)
        return self.quiet.without(rest, columns.topics, now_s), apart, entered

    def covering(self, topic: str, path: str) -> str:
        """Return the path of the descriptor that would cover a topic.

        Remember it while the descriptor is missing.
        """
        topics = self.undescribed.topics
        known = topics.get(topic)
        if known is None:
            if len(topics) >= self._limits.undescribed:
                topics.clear()
            known = topics[topic] = path, covering_path(path)
        return known[1]

    def undescribed_path(self, topic: str) -> str | None:
        """Return the address of a known topic without a descriptor in the layout.

        None for any other topic.
        """
        known = self.undescribed.topics.get(topic)
        return None if known is None else known[0]

    def is_described(self, covering: str) -> bool:
        """Return whether a path has a telemetry descriptor, in the layout or not."""
        descriptor = self._descriptors.get(covering)
        return descriptor is not None and not descriptor.members

    def bind(self, layout: Layout, below: str) -> None:
        """Bind the topics of a descriptor to descriptors and rows."""
        for state in self._covered_by.get(below, ()):
            self._bind_again(state, layout)

    def follow(self, layout: Layout) -> Slices[None]:
        """Bind all topics to a new layout, and drop the ones left without a descriptor.

        It runs in slices, and nothing may be applied between them. Undescribed paths must be heard
        again.
        """
        self.quiet.clear()
        yield from self.undescribed.renew(self._descriptors.without)
        self._shared = set()
        if self._descriptors.instances > len(layout.instances):
            times = Counter(
                itertools.chain.from_iterable(
                    descriptor.instances for descriptor in self._descriptors
                )
            )
            self._shared = {path for path, number in times.items() if number > 1}
        self._keep_decoders()
        self._layouts += 1
        yield
        # Most of a fleet of hosts are as they were, but for their rows.
        hosts = None
        if not self._shared and not layout.has_rolled:
            hosts = _HostRows(
                layout.instance_index,
                layout.chip_start.tolist(),
                self._clock_moves == self._timebase.moves,
            )
            yield
        self._clock_moves = self._timebase.moves
        gone: list[TopicState] = []
        for number, state in enumerate(self.states.values()):
            if number % SLICE == SLICE - 1:
                yield
            if hosts is not None and self._follow_host(state, hosts):
                continue
            if self._shared:
                state.leave_frame_rows()
            self._bind_again(state, layout)
            if state.descriptor is None:
                gone.append(state)
        yield
        yield from self._tables.move_all()
        self._forget(gone)

    def shift(self, layout: Layout, paths: Iterable[str], shift: Shift) -> Slices[None]:
        """Bind topics to a layout with a few changes, in slices like `follow`.

        Topics of other descriptors are bound when needed (`catch_up`), and their rows in tables
        move at once.

        Args:
            layout: The layout. Each instance has one descriptor, as in the one before.
            paths: Paths of the changed descriptors.
            shift: The new row numbers.
        """
        if self._shared or self._clock_moves != self._timebase.moves:
            yield from self.follow(layout)
            return
        self.quiet.clear()
        yield from self.undescribed.renew(self._descriptors.without)
        self._keep_decoders()
        self._layouts += 1
        paths = [*paths, *(covering_path(topic.path) for topic in self._tables.shift(shift))]
        yield
        touched = {
            id(state): state for path in paths for state in self._covered_by.get(path, ())
        }.values()
        for state in touched:
            self._bind_again(state, layout)
        self._forget([state for state in touched if state.descriptor is None])

    def _keep_decoders(self) -> None:
        """Forget decoders without a descriptor."""
        described = self._descriptors.column_sets.identities()
        self._decoders = {
            key: decoder for key, decoder in self._decoders.items() if key[0] in described
        }

    def _forget(self, gone: Iterable[TopicState]) -> None:
        """Forget topics that no descriptor covers."""
        for state in gone:
            del self.states[state.topic]
            covering = covering_path(state.path)
            beside = self._covered_by[covering]
            beside.remove(state)
            if not beside:
                del self._covered_by[covering]

    def catch_up(self, state: TopicState, layout: Layout) -> None:
        """Update the rows of a topic behind the layout."""
        if state.layouts != self._layouts:
            self._bind_again(state, layout)

    def _bind_again(self, state: TopicState, layout: Layout) -> None:
        """Find the descriptor that covers a topic, and its rows; the topic is its publisher's."""
        before = state.descriptor
        self._bind(state, layout)
        after = state.descriptor
        if before is not after:
            if before is not None:
                self._room.change(before.publisher, -1)
            if after is not None:
                self._room.change(after.publisher, 1)

    def _follow_host(self, state: TopicState, hosts: _HostRows) -> bool:
        """Update the rows of a one-instance topic under an unchanged descriptor.

        Return False for any other topic. The rest of `_bind` would change nothing.
        """
        descriptor = state.descriptor
        if (
            descriptor is None
            or state.frame_rows is None
            or len(descriptor.instances) != 1
            or self._descriptors.get(descriptor.path) is not descriptor
        ):
            return False
        place = hosts.index.get(descriptor.instances[0])
        publisher = self._publishers.find(descriptor.publisher, descriptor.boot)
        if place is None or publisher is None:
            return False
        first = hosts.chip_start[place]
        stop = hosts.chip_start[place + 1]
        if stop - first != state.chip_count:
            return False
        if not hosts.has_same_clocks:
            state.clock = self._timebase.clock(descriptor.clock, descriptor.period_s).row
        state.publisher, state.row = (
            publisher.number,
            self._publishers.traffic.row_of(descriptor.publisher),
        )
        state.instances, state.chips = slice(place, place + 1), slice(first, stop)
        state.layouts = self._layouts
        return True

    def _bind(self, state: TopicState, layout: Layout) -> None:
        """Find the covering descriptor of a topic, and its rows."""
        state.layouts = self._layouts
        descriptor = self._descriptors.get(covering_path(state.path))
        if descriptor is not state.descriptor:
            state.leave_frame_rows()
        before = state.descriptor
        state.descriptor = None
        if descriptor is None or descriptor.members:
            return
        if before is None or before.boot != descriptor.boot:
            # Another boot counts from 0; and what came while nothing described the topic is not
            # lost.
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
            state.chips = slice(node.number, node.number + 1)
            state.chip_count = 1
        else:
            if rows == list(range(rows[0], rows[0] + len(rows))):
                # Slices write without a copy of the index.
                first = int(layout.chip_start[rows[0]])
                stop = int(layout.chip_start[rows[-1] + 1])
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
        """Return the shared decoder of frames of this form.

        Topics share its learned form.
        """
        key = (id(columns), chips, instances)
        known = self._decoders.get(key)
        if known is not None:
            return known[1]
        if len(self._decoders) >= MOST_FORMS:
            self._decoders.clear()
        decoder = FrameDecoder(columns, chips, instances)
        self._decoders[key] = columns, decoder
        return decoder


def _sort_columns(state: TopicState, columns: tuple[ColumnSpec, ...]) -> None:
    """Separate columns to copy from columns to convert."""
    if columns is STANDARD_COLUMNS:
        state.same_chip = _CHIP_NAMES
        state.same_instance = _INSTANCE_NAMES
        state.foreign = ()
        state.has_other_columns = False
        state.limited = _LIMITED
        return
    known = [column for column in columns if is_known(column)]
    same = [column for column in known if column in OWN_COLUMNS]
    state.same_chip = tuple(column.name for column in same if column.per is Scope.CHIP)
    state.same_instance = tuple(column.name for column in same if column.per is Scope.INSTANCE)
    state.foreign = tuple(column for column in known if column not in OWN_COLUMNS)
    state.has_other_columns = len(same) < len(columns)
    state.limited = limited(known)


def covering_path(path: str) -> str:
    """Return the path of the covering descriptor.

    For a chip it is the instance's.
    """
    return address.parent(path) if address.level_of(path) is Level.CHIP else path
