"""Application of envelopes to the store: telemetry to rows, other messages to their handlers, descriptors to the layout.

Nothing that comes in can stop it: what does not decode is counted, logged with its topic, and dropped. It does
not know whether messages are live or replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.events import AlertEvents
from trnfleet.monitor.copies import copied
from trnfleet.monitor.failures import guard
from trnfleet.monitor.ingest.first_frames import begin_topics
from trnfleet.monitor.ingest.frame_rows import AppliedFrames, BatchColumns
from trnfleet.monitor.ingest.layout import LayoutWork, rebuild_layout, write_descriptor
from trnfleet.monitor.ingest.layout_patch import find_patch, patch_layout
from trnfleet.monitor.ingest.messages import (
    MESSAGE_HANDLERS,
    retained_collections,
    retained_ledgers,
)
from trnfleet.monitor.ingest.missing import MissingState
from trnfleet.monitor.ingest.rejects import PendingTelemetry, RejectedError, reject
from trnfleet.monitor.ingest.rollups import RollupFrames
from trnfleet.monitor.ingest.taken import Taken
from trnfleet.monitor.ingest.telemetry import TelemetryBatch
from trnfleet.monitor.ingest.topics import OF_SOURCES, Topics
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.reservations.table import Reservations
from trnfleet.monitor.sources.cells import Cells
from trnfleet.monitor.sources.clocks import Timebase
from trnfleet.monitor.sources.contests import Contests
from trnfleet.monitor.sources.descriptors import Descriptors
from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.sources.watches import Watches
from trnfleet.monitor.store.events import Events
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.monitor.store.store import Store
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.ports import CONTENT_TYPE_CBOR
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic, parse_topic, presence_path

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.wire.messages import JobMessage
    from trnfleet.wire.ports import Envelope, Source

MANY = 16
"""Messages of a batch from which on frames may be applied many at once: what that costs once a batch is worth it."""
_ONLY_CBOR = {CONTENT_TYPE_CBOR}


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
        """Retained messages by their model, of the classes that no other attribute keeps."""
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
        self.missing = MissingState(limits.undescribed_paths)
        """Descriptors, and presences of publishers, that the broker may have withheld."""
        self.rollup_frames = RollupFrames(
            self.descriptors, self.publishers, self.timebase, self.missing, self.counts, limits
        )
        self.events = Events()
        self.alert_events = AlertEvents()
        """What happened to alerts; a pass adds to it."""
        self.job_table = Jobs()
        self.reservations = Reservations()
        self.lag_s = 0.0
        """Largest lag by sources' clocks of the last batch that had any, wall seconds; without what is late by more than a minute."""
        self.typical_lag: tuple[float, int] | None = None
        """Median lag of the messages of the last batch, and how many they were; None where it had none."""
        self.heard_since_s = -float("inf")
        """Monotonic seconds since which the sources have been heard without a break."""
        self.links_since_s: tuple[float, ...] = ()
        """The same of each connection, where there are several."""
        self._root = root
        self._node, self._telemetry = (
            build_topic(fleet_name, each, "", root)
            for each in (TopicClass.NODE, TopicClass.TELEMETRY)
        )
        self.limits = limits
        self._acks_heard = 0
        """Transitions of alerts whose acknowledgements were missed where they could be."""
        self._pending = PendingTelemetry()
        self._layout_due = False
        self.layout_work = LayoutWork()
        self.layout_publishers: set[str] = set()
        """Publishers of all that the layout does not show yet."""
        self.layout_changers: set[str] = set()
        """Those of them that have changed or withdrawn what they had described."""

    @property
    def jobs(self) -> dict[str, JobMessage]:
        """The jobs by name, in the order by which rows of the store name them."""
        return self.job_table.by_key

    @property
    def jobs_revision(self) -> int:
        """Goes up when jobs are placed on instances again, because one has come, gone or moved, or with a new layout."""
        return self.job_table.placements

    @property
    def alert_messages(self) -> dict[str, AlertMessage]:
        """The alerts that a `watch` publishes, by fingerprint."""
        return self.retained[AlertMessage].by_key

    @property
    def layout_due(self) -> bool:
        """Whether descriptors have come that the layout does not show yet."""
        return self._layout_due

    @property
    def pending(self) -> int:
        """Telemetry messages that wait for their descriptor's layout."""
        return len(self._pending)

    def copy(self, *, with_alerts: bool = True) -> Ingest:
        """Return a copy of all that changes; nothing listens to its alerts.

        Args:
            with_alerts: Whether alerts are copied, which takes the longest; else it has the same, and is only to be pickled at once.
        """
        self.layout_work.finish()
        descriptors, publishers = self.descriptors.copy(), self.publishers.copy()
        timebase = self.timebase.copy()
        counts, missing = self.counts.copy(), self.missing.copy()
        return copied(
            self,
            alerts=self.alerts.copy() if with_alerts else self.alerts,
            retained={model: collection.copy() for model, collection in self.retained.items()},
            ledgers={model: ledger.copy() for model, ledger in self.ledgers.items()},
            store=self.store.copy(),
            counts=counts,
            descriptors=descriptors,
            publishers=publishers,
            watches=self.watches.copy(),
            cells=self.cells.copy(),
            timebase=timebase,
            contests=self.contests.copy(),
            topics=self.topics.copy(descriptors, publishers, timebase),
            missing=missing,
            rollup_frames=self.rollup_frames.copy(
                descriptors, publishers, timebase, missing, counts
            ),
            events=self.events.copy(),
            alert_events=self.alert_events.copy(),
            reservations=self.reservations.copy(),
            job_table=self.job_table.copy(),
            _pending=self._pending.copy(),
            layout_work=LayoutWork(),
            layout_publishers=self.layout_publishers.copy(),
            layout_changers=self.layout_changers.copy(),
        )

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
            self.heard_since_s,
            self.links_since_s,
        )
        topics, counts, traffic = self.topics.states, self.counts, self.publishers.traffic
        counts.read += len(batch)
        columns = BatchColumns.of(batch)
        if set(columns.content_types) != _ONLY_CBOR:
            with guard(counts, "telemetry"):
                telemetry.decode(batch, topics)
        taken = Taken(enters=len(batch) >= MANY, wall_ns=wall_ns)
        found = [*map(topics.get, columns.topics)]
        begin = 0
        for place in [*self._breaks(batch, found), len(batch)]:
            if place > begin:
                self._apply_part(
                    batch, columns, range(begin, place), found, telemetry, taken, now_s
                )
                # Before what comes next: a publisher that has booted again has its clock forgotten.
                taken.date(batch, self.timebase.columns, counts, traffic, now_s, root=self._root)
            if place < len(batch):
                self._apply_one(batch[place], place, telemetry, taken, now_s)
            begin = place + 1
        lags_s = taken.lags_s
        with guard(self.counts, "telemetry"):
            telemetry.finish()
        self.typical_lag = (sorted(lags_s)[len(lags_s) // 2], len(lags_s)) if lags_s else None
        if lags_s:
            self.lag_s = max(lags_s)
        self.store.revision += 1

    def _breaks(self, batch: list[Envelope], found: list[TopicState | None]) -> list[int]:
        """Return the places of what is no telemetry and may concern what comes after it: all but descriptors that are repeated as they were."""
        if None not in found:
            return []
        node = self._node
        return [
            number
            for number, envelope in enumerate(batch)
            if found[number] is None
            and not envelope.topic.startswith(self._telemetry)
            and not (
                envelope.topic.startswith(node) and self.descriptors.repeats(envelope, len(node))
            )
        ]

    def _apply_part(
        self, batch: list[Envelope], columns: BatchColumns, part: range, found: list[TopicState | None], telemetry: TelemetryBatch,
        taken: Taken, now_s: float,
    ) -> None:  # fmt: skip  # one line of what is given
        """Apply a part of a batch: frames that are as expected many at once, then the rest one by one, in order."""
        rest, apart, entered = self.topics.sort(part, columns, found, now_s)
        self.counts.undescribed += (
            len(part) - len(rest) - sum(len(numbers) for numbers, _ in entered.values())
        )
        if taken.enters and rest:
            begun = False
            with guard(self.counts, "telemetry"):
                begun = begin_topics(
                    batch, rest, found, self.topics, self.store.layout, self._telemetry
                )
            if begun:
                rest, apart, entered = self.topics.sort(part, columns, found, now_s)
        for table, (numbers, numbers_there) in entered.items():
            if apart:
                # The messages of a topic stay in their order.
                rest += [number for number in numbers if columns.topics[number] in apart]
                kept = [
                    n for n, number in enumerate(numbers) if columns.topics[number] not in apart
                ]
                numbers, numbers_there = (
                    [numbers[n] for n in kept],
                    [numbers_there[n] for n in kept],
                )  # noqa: PLW2901  the same, without some
            if not numbers:
                continue
            applied = AppliedFrames(None, numbers)
            with guard(self.counts, "telemetry"):
                applied = table.apply(
                    numbers, numbers_there, columns, now_s, self.store, self.counts
                )
            if applied.taken is not None:
                taken.many.append(applied.taken)
            if applied.gaps is not None:
                telemetry.note_gaps(applied.gaps)
                self.publishers.traffic.miss_many(applied.gaps.rows, applied.gaps.lost)
            rest += applied.rest
        if entered:
            rest.sort()
        for number in rest:
            self._apply_one(batch[number], number, telemetry, taken, now_s)

    def _apply_one(
        self, envelope: Envelope, number: int, telemetry: TelemetryBatch, taken: Taken, now_s: float
    ) -> None:
        counts, traffic = self.counts, self.publishers.traffic
        topic: TopicState | None = None
        try:
            topic = self.topics.states.get(envelope.topic)
            if topic is None:
                topic = self._handle_other(envelope, taken, now_s)
                if topic is None:
                    return
            self.topics.catch_up(topic, self.store.layout)
            topic.leave_frame_rows()
            if topic.descriptor is None:
                self._take_undescribed(envelope, topic.path, now_s)
                return
            lost, late, duplicates = counts.lost, counts.late, counts.duplicates
            head = telemetry.take(topic, envelope, number)
            if head is None or counts.lost != lost:
                missing = counts.lost - lost, counts.late - late, counts.duplicates - duplicates
                traffic.miss(topic.row, *missing)
            if head is None:
                return
            taken.add(number, head.ts_ns, topic, len(envelope.payload))
            if taken.enters and is_cbor(envelope):
                self.topics.enter_frame_rows(topic, envelope.payload)
        except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
            reject(counts, envelope, error, root=self._root)
            traffic.refuse(0 if topic is None else topic.row)

    def follow_alerts(self, now_s: float) -> None:
        """Note after a pass what happened to alerts, and which cells a relay sees, whose alerts are else as last known."""
        self.alert_events.take(self.alerts, now_s)
        seen = self.cells.seen(self.store.rolled.cells_observed(), now_s)
        self.alerts.cells.observe(seen, self.cells.watched(now_s))

    def newest_of_sources_s(self, batch: list[Envelope], else_s: float) -> float:
        """Return when the newest message of a batch came that is of a source: not a watch's, nor an operator's."""
        return next(
            (each.received_s for each in reversed(batch) if self._is_of_source(each)), else_s
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
        """Ask the broker for retained messages that it may have withheld, at the time of each."""
        alerts, status = self.alerts, source.status
        if not all(each.retained for each in status.parts or (status,)):
            # It withholds silences and acknowledgements, too. Those of what fires here have a known topic.
            fresh = min(alerts.happened - self._acks_heard, len(alerts.history))
            for number in range(len(alerts.history) - fresh, len(alerts.history)):
                self.missing.hear(TopicClass.ACK, alerts.history[number].alert.fingerprint)
        self._acks_heard = alerts.happened
        if missing := self.missing.due(now_s):
            topics = [
                build_topic(self.fleet_name, each, path, self._root) for each, path in missing
            ]
            source.request_retained(topics)

    def rebuilding(
        self, now_s: float, wall_ns: int, *, layout: bool = True, at_once: bool = False
    ) -> Slices[None]:
        """Bring layout and job placement up to date with descriptors and jobs in slices, and apply the telemetry that was pending.

        Where a message is applied or all is copied before the end, the rest of the layout is done at once then.

        Args:
            now_s: Monotonic seconds.
            wall_ns: Wall clock.
            layout: Whether the layout may change now.
            at_once: Whether jobs are placed even if that was done a moment ago.
        """
        self.layout_work.finish()
        if self._layout_due and layout:
            self._layout_due, self.layout_publishers, self.layout_changers = False, set(), set()
            yield from self.layout_work.run(self._rebuild_layout(now_s, wall_ns))
        self.job_table.place(self.store, now_s, at_once=at_once)

    def put_descriptor(self, descriptor: CompactDescriptor) -> None:
        """Replace a path's descriptor; where it changes no hardware it takes effect at once, else with the next layout.

        Raises:
            RejectedError: its publisher is one too many. Its instances are shown all the same; only whether their
                publisher is there is not known.
        """
        layout, path = self.store.layout, descriptor.path
        self.missing.found(TopicClass.NODE, path)
        self.topics.quiet.discard(self._telemetry + path)
        known = self.descriptors.get(path)
        descriptor = self.descriptors.put(descriptor)
        client, boot = descriptor.publisher, descriptor.boot
        former = known.boot if known is not None and known.publisher == client else ""
        why = self.publishers.refusal(client, boot, described=True, former_boot=former)
        if why is None:
            publisher = self.publishers.number(client, boot, described=True, former_boot=former)
            if not publisher.announced:
                presence = presence_path(client, descriptor.cell if descriptor.members else None)
                self.missing.hear(TopicClass.PUBLISHER, presence)
        if descriptor.same_hardware(known) and all(
            each in layout.instance_index for each in descriptor.instances
        ):
            write_descriptor(self.store, descriptor, self.publishers)
            self.topics.bind(layout, below=path)
        else:
            self.note_layout_due(descriptor.cause, is_change=known is not None)
        if why is not None:
            raise RejectedError(why)

    def remove_descriptor(self, path: str) -> None:
        """Remove a path's descriptor; its instances go with the next layout."""
        self.missing.found(TopicClass.NODE, path)
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

    def _handle_other(self, envelope: Envelope, taken: Taken, now_s: float) -> TopicState | None:
        """Handle what is not telemetry of a known topic; return the topic's state where it is telemetry of a new one."""
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
            lag_s = self.rollup_frames.take(topic.path, envelope, self.store, now_s, taken.wall_ns)
            if lag_s is not None:
                taken.lags_s.append(lag_s)
            return None
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
        """Hold telemetry for the layout that is due, or count it: without one there is nothing that it could wait for."""
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
        """Forget what no descriptor needs any more, show all that is described, and apply the telemetry that was pending."""
        of = self.store, self.descriptors, self.publishers, self.timebase, self.topics
        patch = find_patch(self.store, self.descriptors)
        yield from rebuild_layout(*of, now_s) if patch is None else patch_layout(patch, *of, now_s)
        self.rollup_frames.keep()
        while pending := self._pending.take():
            # They have been read once already.
            self.counts.read -= len(pending)
            self._apply(pending, now_s, wall_ns)
            yield
