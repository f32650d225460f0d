"""Applies envelopes to the store: telemetry to rows, descriptors to the layout.

Other messages go to their handlers. No input can stop it: an undecodable message is counted, logged
with its topic, and dropped. It does not know whether messages are live or replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Names
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.events import AlertEvents
from trnfleet.monitor.failures import guard
from trnfleet.monitor.ingest.frame_rows import AppliedFrames, BatchColumns, Undated
from trnfleet.monitor.ingest.layout import (
    LayoutWork,
    find_patch,
    patch_layout,
    rebuild_layout,
    write_descriptor,
)
from trnfleet.monitor.ingest.messages import (
    MESSAGE_HANDLERS,
    RollupFrames,
    retained_collections,
    retained_ledgers,
)
from trnfleet.monitor.ingest.missing import MissingState
from trnfleet.monitor.ingest.rejects import PendingTelemetry, RejectedError, reject
from trnfleet.monitor.ingest.telemetry import TelemetryBatch
from trnfleet.monitor.ingest.topics import OF_SOURCES, Topics
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.pipeline.doubts import TelemetryDoubts
from trnfleet.monitor.reservations.table import Reservations
from trnfleet.monitor.sources.cells import Cells
from trnfleet.monitor.sources.clocks import LATE_FROM_S, ClockColumns, DatedMessages, Timebase
from trnfleet.monitor.sources.contests import Contests
from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.sources.watches import Watches
from trnfleet.monitor.store.events import Events
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.monitor.store.store import Store
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import ClaimMessage
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic, parse_topic, presence_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.pipeline.traffic import PublisherTraffic
    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.messages import JobMessage
    from trnfleet.wire.ports import Envelope, Source

MANY = 16
"""Fewest messages in a batch for bulk application to pay off."""


@dataclass(slots=True)
class NewTelemetry:
    """The new telemetry of a batch, not dated yet."""

    enters: bool
    """Whether the batch is one of many messages."""
    many: list[Undated] = field(default_factory=list)
    """Messages applied in bulk."""
    single: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Messages applied singly, in the form of `Undated`."""
    wall_ns: int = 0
    """Wall clock of their arrival."""
    lags_s: list[float] = field(default_factory=list)
    """The lags of all that was dated."""

    def add(self, number: int, ts_ns: int, topic: TopicState, size_bytes: int) -> None:
        """Add a message."""
        self.single.append((number, ts_ns, topic.clock, topic.row, size_bytes))

    def date(
        self,
        batch: Sequence[Envelope],
        clocks: ClockColumns,
        counts: PipelineCounts,
        traffic: PublisherTraffic,
        now_s: float,
        *,
        root: str,
    ) -> None:
        """Update source clocks from the applied messages in order of arrival.

        Count the messages for their publishers.
        """
        undated = self._release()
        if undated is None:
            return
        try:
            dated = clocks.take(undated.clocks, undated.ts_ns, now_s, self.wall_ns)
        except Exception:  # noqa: BLE001  only what cannot be reckoned with is rejected
            undated, dated = self._date_each(
                undated, batch, clocks, counts, traffic, now_s, root=root
            )
        lags_s = dated.lags_s
        behind_s = dated.behind_s
        late = dated.late_s > LATE_FROM_S
        if late.any():
            counts.old += int(late.sum())
            for row in undated.rows[late].tolist():
                traffic.delay(row)
            lags_s = np.where(late, np.nan, lags_s)
            behind_s = np.where(late, np.nan, behind_s)
            self.lags_s += lags_s[~late].tolist()
        else:
            self.lags_s += lags_s.tolist()
        traffic.take(undated.rows, undated.sizes, lags_s, behind_s, now_s)

    def _release(self) -> Undated | None:
        """Return and forget the undated messages, in order.

        None without any.
        """
        parts = self.many
        self.many = []
        if self.single:
            parts.append(Undated(*np.array(self.single, np.int64).T))
            self.single = []
        if len(parts) < 2:
            return parts[0] if parts else None
        joined = Undated(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return joined.of(np.argsort(joined.numbers, kind="stable"))

    def _date_each(
        self,
        undated: Undated,
        batch: Sequence[Envelope],
        clocks: ClockColumns,
        counts: PipelineCounts,
        traffic: PublisherTraffic,
        now_s: float,
        *,
        root: str,
    ) -> tuple[Undated, DatedMessages]:
        """Date messages singly and reject failing ones.

        Return the others.
        """
        chosen: list[int] = []
        dated: list[DatedMessages] = []
        for place in range(len(undated.numbers)):
            one = undated.of(slice(place, place + 1))
            try:
                dated.append(clocks.take(one.clocks, one.ts_ns, now_s, self.wall_ns))
            except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
                reject(counts, batch[int(one.numbers[0])], error, root=root)
                traffic.refuse(int(one.rows[0]), now_s)
            else:
                chosen.append(place)
        columns = [
            np.concatenate([np.zeros(0), *arrays]) for arrays in zip(*dated, strict=True)
        ] or [np.zeros(0)] * 3
        return undated.of(np.array(chosen, np.int64)), DatedMessages(*columns)


class Ingest:
    """Applies batches of envelopes of one fleet to a store."""

    def __init__(
        self,
        fleet_name: str,
        *,
        root: str = DEFAULT_ROOT,
        limits: Limits = DEFAULT_LIMITS,
        alerts: Alerts | None = None,
    ) -> None:
        self.fleet_name = fleet_name
        self.alerts = Alerts(fleet_name) if alerts is None else alerts
        self.retained = retained_collections()
        """Retained messages by model, for all classes without an attribute of their own."""
        self.ledgers = retained_ledgers(limits)
        """Room of the retained classes, by their model."""
        self.store = Store()
        self.counts = PipelineCounts()
        self.descriptors = Descriptors(limits)
        self.publishers = Publishers(limits)
        self.watches = Watches(limits.watches)
        self.cells = Cells(limits.watches)
        self.timebase = Timebase()
        self.contests = Contests()
        self.topics = Topics(self.descriptors, self.publishers, self.timebase, limits)
        self.missing = MissingState(limits.undescribed)
        """Descriptors and publisher presences perhaps withheld by the broker."""
        self.doubts = TelemetryDoubts()
        self.rollup_frames = RollupFrames(
            self.descriptors, self.publishers, self.timebase, self.missing, limits
        )
        self.events = Events()
        self.alert_events = AlertEvents()
        """Events of alerts, added after each pass."""
        self.job_table = Jobs()
        self.names = Names(self.descriptors.names, self.job_table.names, self.descriptors.name_uses)
        """Display names, as they are now."""
        self.alerts.use_names(self.names)
        self.reservations = Reservations()
        self.lag_s = 0.0
        """Largest lag by source clocks in the last batch with any, in wall seconds. Messages more
        than a minute late do not count."""
        self.typical_lag: tuple[float, int] | None = None
        """Median lag of the last batch and its number of messages; None without messages."""
        self.heard_since_s = -float("inf")
        """Monotonic seconds since the sources have been heard without a break."""
        self.links_since_s: tuple[float, ...] = ()
        """The same of each connection, where there are several."""
        self._root = root
        self._node, self._telemetry = (
            build_topic(fleet_name, topic_class, "", root)
            for topic_class in (TopicClass.NODE, TopicClass.TELEMETRY)
        )
        self.limits = limits
        self._acks_heard = 0
        """Alert transitions already checked for missing acknowledgements."""
        self._pending = PendingTelemetry()
        self._layout_due = False
        self.layout_work = LayoutWork()
        self.layout_publishers: set[str] = set()
        """Publishers of everything not yet in the layout."""
        self.layout_changers: set[str] = set()
        """Publishers among them with a changed or withdrawn descriptor."""

    @property
    def jobs(self) -> dict[str, JobMessage]:
        """The jobs by name, in the order of their numbers in the store's rows."""
        return self.job_table.by_key

    @property
    def jobs_revision(self) -> int:
        """Increases when jobs are placed on instances again.

        This happens when a job started, ended or moved, or with a new layout.
        """
        return self.job_table.placements

    @property
    def alert_messages(self) -> dict[str, AlertMessage]:
        """The alerts that a `watch` publishes, by fingerprint."""
        return self.retained[AlertMessage].by_key

    @property
    def layout_due(self) -> bool:
        """Whether descriptors arrived for the next layout."""
        return self._layout_due

    @property
    def pending(self) -> int:
        """Telemetry messages that wait for their descriptor's layout."""
        return len(self._pending)

    def apply(self, batch: list[Envelope], now_s: float, wall_ns: int) -> None:
        """Apply envelopes in order.

        Args:
            batch: The envelopes.
            now_s: Monotonic seconds, for freshness.
            wall_ns: Wall clock, for the lag of sources that go by it.
        """
        self.layout_work.finish()
        self._apply(batch, now_s, wall_ns)

    def _apply(self, batch: list[Envelope], now_s: float, wall_ns: int) -> None:
        telemetry = TelemetryBatch(
            self.store,
            self.counts,
            self.limits,
            now_s,
            self.contests,
            self.doubts,
            self.heard_since_s,
            self.publishers.backlogs,
            self.links_since_s,
        )
        topics = self.topics.states
        counts = self.counts
        traffic = self.publishers.traffic
        counts.read += len(batch)
        columns = BatchColumns.of(batch)
        arrived = NewTelemetry(enters=len(batch) >= MANY, wall_ns=wall_ns)
        states = [*map(topics.get, columns.topics)]
        begin = 0
        for place in [*self._breaks(batch, states), len(batch)]:
            if place > begin:
                self._apply_part(
                    batch, columns, range(begin, place), states, telemetry, arrived, now_s
                )
                # Before the next message: a restarted publisher has its clock forgotten.
                arrived.date(batch, self.timebase.columns, counts, traffic, now_s, root=self._root)
            if place < len(batch):
                self._apply_one(batch[place], place, telemetry, arrived, now_s)
            begin = place + 1
        lags_s = arrived.lags_s
        with guard(self.counts, "telemetry"):
            telemetry.finish()
        self.typical_lag = (sorted(lags_s)[len(lags_s) // 2], len(lags_s)) if lags_s else None
        if lags_s:
            self.lag_s = max(lags_s)
        self.store.revision += 1

    def _breaks(self, batch: list[Envelope], states: list[TopicState | None]) -> list[int]:
        """Return the places of messages that may affect later telemetry.

        These are all other messages except unchanged repeated descriptors.
        """
        if None not in states:
            return []
        node = self._node
        return [
            number
            for number, envelope in enumerate(batch)
            if states[number] is None
            and not envelope.topic.startswith(self._telemetry)
            and not (
                envelope.topic.startswith(node) and self.descriptors.repeats(envelope, len(node))
            )
        ]

    def _apply_part(
        self,
        batch: list[Envelope],
        columns: BatchColumns,
        part: range,
        states: list[TopicState | None],
        telemetry: TelemetryBatch,
        arrived: NewTelemetry,
        now_s: float,
    ) -> None:
        """Apply a part of a batch: expected frames in bulk, then the rest in order."""
        rest, apart, entered = self.topics.sort(part, columns, states, now_s)
        self.counts.undescribed += (
            len(part) - len(rest) - sum(len(numbers) for numbers, _ in entered.values())
        )
        if arrived.enters and rest:
            begun = False
            with guard(self.counts, "telemetry"):
                begun = self.topics.begin_many(
                    batch, rest, states, self.store.layout, self._telemetry
                )
            if begun:
                rest, apart, entered = self.topics.sort(part, columns, states, now_s)
        for table, (numbers, numbers_there) in entered.items():
            if apart:
                # The messages of a topic stay in their order.
                rest += [number for number in numbers if columns.topics[number] in apart]
                chosen = [
                    n for n, number in enumerate(numbers) if columns.topics[number] not in apart
                ]
                numbers, numbers_there = (  # noqa: PLW2901  the same, without some
                    [numbers[n] for n in chosen],
                    [numbers_there[n] for n in chosen],
                )
            if not numbers:
                continue
            applied = AppliedFrames(None, numbers)
            with guard(self.counts, "telemetry"):
                applied = table.apply(
                    numbers, numbers_there, columns, now_s, self.store, self.counts
                )
            if applied.taken is not None:
                arrived.many.append(applied.taken)
            if applied.gaps is not None:
                lost = telemetry.note_gaps(applied.gaps)
                self.publishers.traffic.miss_many(applied.gaps.rows, lost)
            rest += applied.rest
        if entered:
            rest.sort()
        for number in rest:
            self._apply_one(batch[number], number, telemetry, arrived, now_s)

    def _apply_one(
        self,
        envelope: Envelope,
        number: int,
        telemetry: TelemetryBatch,
        arrived: NewTelemetry,
        now_s: float,
    ) -> None:
        counts = self.counts
        traffic = self.publishers.traffic
        topic: TopicState | None = None
        try:
            topic = self.topics.states.get(envelope.topic)
            if topic is None:
                topic = self._handle_other(envelope, arrived, now_s)
                if topic is None:
                    return
            self.topics.catch_up(topic, self.store.layout)
            topic.leave_frame_rows()
            if topic.descriptor is None:
                self._take_undescribed(envelope, topic.path, now_s)
                return
            lost = counts.lost
            late = counts.late
            duplicates = counts.duplicates
            head = telemetry.take(topic, envelope)
            if head is None or counts.lost != lost:
                missing = counts.lost - lost, counts.late - late, counts.duplicates - duplicates
                traffic.miss(topic.row, *missing)
            if head is None:
                return
            arrived.add(number, head.ts_ns, topic, len(envelope.payload))
            if arrived.enters and is_cbor(envelope):
                self.topics.enter_frame_rows(topic, envelope.payload)
        except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
            reject(counts, envelope, error, root=self._root)
            traffic.refuse(0 if topic is None else topic.row, now_s)
            if topic is not None and not isinstance(error, RejectedError):
                self.store.refused_s[topic.own_instances(self.store.layout)] = now_s

    def follow_alerts(self, now_s: float) -> None:
        """Update alert events and the visible cells after a pass.

        Alerts of cells not visible stay as last known.
        """
        self.alert_events.take(self.alerts, now_s)
        seen = self.cells.seen(self.store.rolled.cells_observed(), now_s)
        self.alerts.cells.observe(seen, self.cells.watched(now_s))

    def newest_of_sources_s(self, batch: list[Envelope], else_s: float) -> float:
        """Return the arrival of the newest message of a source in a batch.

        Messages of watches and operators do not count.
        """
        return next(
            (envelope.received_s for envelope in reversed(batch) if self._is_of_source(envelope)),
            else_s,
        )

    def _is_of_source(self, envelope: Envelope) -> bool:
        if envelope.topic in self.topics.states:
            return True
        try:
            topic = parse_topic(envelope.topic, self._root)
        except WireError:
            return False
        if topic.topic_class is TopicClass.PUBLISHER:
            return self.publishers.has_announced(topic.path.rpartition("/")[2])
        return topic.fleet == self.fleet_name and topic.topic_class in OF_SOURCES

    def request_missing(self, source: Source, now_s: float) -> None:
        """Request retained messages perhaps withheld by the broker, each when due."""
        alerts = self.alerts
        status = source.status
        if not all(part.retained for part in status.parts or (status,)):
            # It withholds silences and acknowledgements, too. The topics are known for alerts
            # firing here.
            fresh = min(alerts.happened - self._acks_heard, len(alerts.history))
            for number in range(len(alerts.history) - fresh, len(alerts.history)):
                self.missing.hear(TopicClass.ACK, alerts.history[number].alert.fingerprint)
        self._acks_heard = alerts.happened
        if missing := self.missing.due(now_s):
            topics = [
                build_topic(self.fleet_name, topic_class, path, self._root)
                for topic_class, path in missing
            ]
            source.request_retained(topics)

    def rebuilding(self, now_s: float, wall_ns: int, *, layout: bool = True) -> Slices[None]:
        """Update layout and job placement from descriptors and jobs, in slices.

        Then apply the pending telemetry. If a message is applied or everything is copied before the
        end, the rest of the layout is done at once.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            layout: Whether the layout may change now.
        """
        self.layout_work.finish()
        if self._layout_due and layout:
            self._layout_due, self.layout_publishers, self.layout_changers = False, set(), set()
            yield from self.layout_work.run(self._rebuild_layout(now_s, wall_ns))
        self.job_table.place(self.store)

    def put_descriptor(self, descriptor: CompactDescriptor) -> None:
        """Replace a path's descriptor, at once or with the next layout if hardware changes.

        Raises:
            RejectedError: there are too many publishers. The instances are shown all the same, only
                the
                presence of their publisher is unknown.
        """
        layout = self.store.layout
        path = descriptor.path
        self.missing.note_arrival(TopicClass.NODE, path)
        self.topics.quiet.discard(self._telemetry + path)
        known = self.descriptors.get(path)
        descriptor = self.descriptors.put(descriptor)
        client = descriptor.publisher
        boot = descriptor.boot
        if self.job_table.has_claim_of_other_boot(path, boot):
            # A publisher that is gone has left it on the broker.
            self.job_table.remove_claim(path)
            self.ledgers[ClaimMessage].remove(path)
        former = known.boot if known is not None and known.publisher == client else ""
        if known is None or former == boot or self._is_of_others(known):
            former = ""
        why = self.publishers.refusal(client, boot, described=True, former_boot=former)
        if why is None:
            publisher = self.publishers.number(client, boot, described=True, former_boot=former)
            self.publishers.note_source(publisher, publisher.source or descriptor.source)
            if not publisher.announced:
                presence = presence_path(client, descriptor.cell if descriptor.members else None)
                self.missing.hear(TopicClass.PUBLISHER, presence)
        if descriptor.same_hardware(known) and all(
            instance in layout.instance_index for instance in descriptor.instances
        ):
            write_descriptor(self.store, descriptor, self.publishers)
            self.topics.bind(layout, below=path)
        else:
            self.note_layout_due(descriptor.cause, is_change=known is not None)
        if why is not None:
            raise RejectedError(why)

    def _is_of_others(self, descriptor: CompactDescriptor) -> bool:
        """Return whether the boot of a descriptor is that of further instances."""
        state = self.publishers.find(descriptor.publisher, descriptor.boot)
        if state is None:
            return False
        instances = np.count_nonzero(self.store.publisher_of == state.number)
        return bool(instances > len(descriptor.instances))

    def remove_descriptor(self, path: str) -> None:
        """Remove a path's descriptor; its instances go with the next layout."""
        self.missing.note_arrival(TopicClass.NODE, path)
        gone = self.descriptors.get(path)
        if gone is not None:
            self.descriptors.remove(path)
            self.note_layout_due(gone.cause, is_change=True)

    def note_layout_due(self, publisher: str, *, is_change: bool) -> None:
        """Have the layout built again because of a publisher."""
        self._layout_due = True
        self.layout_publishers.add(publisher)
        if is_change:
            self.layout_changers.add(publisher)

    def _handle_other(
        self, envelope: Envelope, arrived: NewTelemetry, now_s: float
    ) -> TopicState | None:
        """Handle anything but telemetry of a known topic.

        Return the topic's state for telemetry of a new one.
        """
        path = self.topics.undescribed_path(envelope.topic)
        if path is not None:
            return self._begin_topic(envelope, path, now_s)
        topic = parse_topic(envelope.topic, self._root)
        if topic.fleet != self.fleet_name:
            self.counts.foreign += 1
            return None
        if topic.topic_class is TopicClass.TELEMETRY:
            return self._begin_topic(envelope, topic.path, now_s)
        if topic.topic_class is TopicClass.ROLLUP:
            lag_s = self.rollup_frames.take(
                topic.path, envelope, self.store, self.counts, now_s, arrived.wall_ns
            )
            if lag_s is not None:
                arrived.lags_s.append(lag_s)
            return None
        if not envelope.payload:
            self.missing.note_arrival(topic.topic_class, topic.path)
        try:
            MESSAGE_HANDLERS[topic.topic_class](self, topic.path, envelope, now_s)
        except Exception:
            self.missing.refused(topic.topic_class, topic.path)
            raise
        self.counts.others += 1
        return None

    def _begin_topic(self, envelope: Envelope, path: str, now_s: float) -> TopicState | None:
        state = self.topics.add(envelope.topic, path, self.store.layout)
        if state is None:
            self._take_undescribed(envelope, path, now_s)
        return state

    def _take_undescribed(self, envelope: Envelope, path: str, now_s: float) -> None:
        """Buffer telemetry for the next layout.

        Only count it if no layout is due.
        """
        covering = self.topics.covering(envelope.topic, path)
        is_described = self.topics.is_described(covering)
        if self._layout_due and self._pending.hold(envelope, is_described=is_described):
            return
        self.counts.undescribed += 1
        if covering == path:
            self.topics.quiet.add(envelope.topic, now_s)
        if is_described and self._layout_due:
            # It is to come, and asked for it would only come twice.
            return
        self.topics.undescribed.hear(path, now_s)
        self.missing.hear(TopicClass.NODE, covering)

    def _rebuild_layout(self, now_s: float, wall_ns: int) -> Slices[None]:
        """Show everything described, forget the rest, and apply pending telemetry."""
        parts = self.store, self.descriptors, self.publishers, self.timebase, self.topics
        patch = find_patch(self.store, self.descriptors)
        if patch is None:
            yield from rebuild_layout(*parts, self.cells, now_s)
        else:
            yield from patch_layout(patch, *parts, now_s)
        self.rollup_frames.keep()
        while pending := self._pending.take():
            # They have been read once already.
            self.counts.read -= len(pending)
            self._apply(pending, now_s, wall_ns)
            yield
