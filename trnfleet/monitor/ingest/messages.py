"""Handlers of messages other than telemetry: `MESSAGE_HANDLERS` has one per topic class.

Most classes are retained state with a row in that table as handler: the model, the name repeated in
the topic, the limits, and the collection of `Receiver` for the messages. An empty payload clears a
topic and removes its message. To add a class, add it to `wire/topics.py`, its model to a module of
`wire/`, its limit to `wire/limits.py`, and a row here without a collection of its own. Readers find
the messages as `ingest.retained[TheModel].by_key`.

A handler raises `WireError` for a rejected message, before any change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from trnfleet.domain.metrics import Scope
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.monitor.ingest.sequence import SequenceTracker, Verdict
from trnfleet.monitor.pipeline.traffic import Presence
from trnfleet.monitor.room import ENTRY_BYTES, Ledger, held_bytes
from trnfleet.monitor.sources.cells import MOST_OF_CELL, Cells
from trnfleet.monitor.sources.clocks import LATE_FROM_S, Timebase
from trnfleet.monitor.sources.descriptors import CompactDescriptor, Descriptors
from trnfleet.monitor.store.retained import RetainedCollection
from trnfleet.wire.alerts import AckMessage, AlertMessage, CellAlertMessage, SilenceMessage
from trnfleet.wire.frames import is_known
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClaimMessage,
    EventMessage,
    HostMessage,
    JobMessage,
    WatchMessage,
    decode_message,
)
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.rollups import decode_rollup, decode_rollup_head
from trnfleet.wire.structs import Message
from trnfleet.wire.telemetry import Doubt
from trnfleet.wire.topics import FLEET_PATH, TopicClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.ingest.missing import MissingState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.doubts import TelemetryDoubts
    from trnfleet.monitor.reservations.table import Reservations
    from trnfleet.monitor.sources.contests import Contests
    from trnfleet.monitor.sources.publishers import Publishers, PublisherState
    from trnfleet.monitor.sources.watches import Watches
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.ports import Envelope


class _Sequence:
    """The sequence of a block's frames through one boot of its relay."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.former_boot = ""
        self.tracker = SequenceTracker()


class RollupFrames:
    """Applies the frames of all described blocks."""

    def __init__(
        self,
        descriptors: Descriptors,
        publishers: Publishers,
        timebase: Timebase,
        missing: MissingState,
        limits: Limits,
    ) -> None:
        self._descriptors = descriptors
        self._publishers = publishers
        self._timebase = timebase
        self._missing = missing
        self._limits = limits
        self._sequences: dict[str, _Sequence] = {}
        self._dated: tuple[object, float] = None, math.nan
        """Clock, source time and arrival of the frame before, and its lag."""

    def keep(self) -> None:
        """Forget the sequences of blocks no longer described."""
        self._sequences = {
            path: sequence
            for path, sequence in self._sequences.items()
            if self._descriptors.get(path) is not None
        }

    def take(
        self,
        path: str,
        envelope: Envelope,
        store: Store,
        counts: PipelineCounts,
        now_s: float,
        wall_ns: int,
    ) -> float | None:
        """Apply a frame and return its lag in wall seconds.

        None if not applied or late.

        Raises:
            WireError: it is not a frame, or contradicts its descriptor.
        """
        fields, head, revision = decode_rollup_head(envelope.payload, self._limits)
        descriptor = self._descriptors.get(path)
        form = None if descriptor is None else descriptor.rollup
        sequence = self._sequences.get(path)
        if (
            descriptor is None
            or form is None
            or (head.boot, revision) != (form.boot, form.revision)
        ):
            if sequence is not None and head.boot == sequence.former_boot:
                # The last frames of a relay from which another has taken over.
                counts.late += 1
                return None
            counts.undescribed += 1
            self._missing.hear(TopicClass.NODE, path)
            return None
        frame = decode_rollup(fields, head, form)
        if sequence is None or sequence.boot != head.boot:
            former = "" if sequence is None else sequence.boot
            sequence = self._sequences[path] = _Sequence(head.boot)
            sequence.former_boot = former
        traffic = self._publishers.traffic
        row = traffic.row_of(descriptor.publisher)
        lost = counts.lost
        late = counts.late
        duplicates = counts.duplicates
        verdict = sequence.tracker.accept(head.seq, counts, envelope.shed, ts_ns=head.ts_ns)
        traffic.miss(row, counts.lost - lost, counts.late - late, counts.duplicates - duplicates)
        if verdict is not Verdict.NEWEST:
            return None
        store.rolled.put(path, frame, descriptor.instances, (*form.totals, *form.counters), now_s)
        counts.messages += 1
        counts.chips += int(form.chips.sum())
        clock = self._timebase.clock(descriptor.clock, descriptor.period_s)
        # All frames of a relay's second have one time: from the second frame on, a simultaneous one
        # has no information about the clock.
        moment = (clock, head.ts_ns, now_s, wall_ns)
        if moment != self._dated[0]:
            self._dated = moment, clock.take(head.ts_ns, now_s, wall_ns)
        lag_s = self._dated[1]
        traffic.describe(row, descriptor.period_s, descriptor.boot)
        is_old = clock.late_s > LATE_FROM_S
        if is_old:
            counts.old += 1
            traffic.delay(row)
        known = (math.nan, math.nan) if is_old else (lag_s, clock.behind_s)
        traffic.take([row], [len(envelope.payload)], [known[0]], [known[1]], now_s)
        return None if is_old else lag_s


M = TypeVar("M", bound=Message)
M_contra = TypeVar("M_contra", contravariant=True)


class Receiver(Protocol):
    """The limits and the collections written by handlers: an `Ingest`."""

    limits: Limits
    alerts: Alerts
    descriptors: Descriptors
    counts: PipelineCounts
    doubts: TelemetryDoubts
    events: Events
    job_table: Jobs
    publishers: Publishers
    reservations: Reservations
    retained: dict[type[Message], RetainedCollection[Any]]
    ledgers: dict[type[Message], Ledger]
    missing: MissingState
    timebase: Timebase
    watches: Watches
    cells: Cells
    contests: Contests

    def note_layout_due(self, publisher: str, *, is_change: bool) -> None:
        """Have the layout built again because of a publisher."""

    def put_descriptor(self, descriptor: CompactDescriptor) -> None:
        """Replace a path's descriptor, and bring layout and topics up to date with it."""

    def remove_descriptor(self, path: str) -> None:
        """Remove a path's descriptor."""


class MessageHandler(Protocol):
    """Handles the messages of one class of topic."""

    def __call__(self, receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
        """Apply a message.

        Args:
            receiver: The collections.
            path: The part of its topic after the class.
            envelope: The message.
            now_s: Monotonic seconds of its arrival.

        Raises:
            WireError: it is rejected.
        """


class Collection(Protocol[M_contra]):
    """The messages of one retained class, by the path of their topic."""

    def put(self, message: M_contra, /) -> object:
        """Add or replace a message.

        Return False if nothing changed.
        """

    def remove(self, key: str, /) -> object:
        """Remove a message that was cleared."""


@dataclass(frozen=True, slots=True)
class RetainedHandler(Generic[M]):
    """The handler of one class of retained messages."""

    model: type[M]
    noun: str
    """The subject of a message, for errors; plural with "s"."""
    key: str
    """The model's field that the topic's path repeats."""
    most: Callable[[Limits], int]
    """Most messages stored."""
    most_bytes: Callable[[Limits], int] = attrgetter("retained_bytes")
    """Most bytes of memory for them."""
    owner: Callable[[M], str] = lambda _message: ""
    """Returns the publisher of a message if it has one. No owner can use up all room."""
    collection: Callable[[Receiver], Collection[M]] | None = None
    """The collection for the messages; default: `Receiver.retained`."""
    before_put: Callable[[Receiver, M], None] | None = None
    """Called before a message is put; raises `WireError` to reject it."""
    after_remove: Callable[[Receiver, str], None] | None = None
    """Called after a message has been removed."""

    def __call__(self, receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:  # noqa: ARG002  as every handler
        """Put or remove a message."""
        collection: Collection[M]
        collection = (
            receiver.retained[self.model] if self.collection is None else self.collection(receiver)
        )
        if not envelope.payload:
            collection.remove(path)
            receiver.ledgers[self.model].remove(path)
            if self.after_remove is not None:
                self.after_remove(receiver, path)
            return
        message = decode_message(envelope.payload, self.model, receiver.limits)
        if getattr(message, self.key) != path:
            identity = "name" if self.key == self.noun else self.key
            raise MisplacedError(f"the {self.noun}'s {identity} is not its topic's")
        ledger = receiver.ledgers[self.model]
        owner = self.owner(message)
        size_bytes = held_bytes(message) + ENTRY_BYTES
        if why := ledger.refusal(path, owner, size_bytes, f"{self.noun}s"):
            raise RejectedError(why)
        if self.before_put is not None:
            self.before_put(receiver, message)
        if collection.put(message) is not False:
            ledger.put(path, owner, size_bytes)


class _Pair(NamedTuple, Generic[M]):
    """Messages that share a collection with another class."""

    put: Callable[[M], object]
    remove: Callable[[str], object]


def _cluster_of(message: JobMessage) -> str:
    """Return the cluster of a job.

    A job message does not name its publisher.
    """
    return message.on[0].partition("/")[0] if message.on else ""


def _check_job(receiver: Receiver, message: JobMessage) -> None:
    most = receiver.limits.places
    if receiver.job_table.places_with(message) > most:
        raise RejectedError(f"jobs name over {most} places")


def _check_claim(receiver: Receiver, message: ClaimMessage) -> None:
    jobs = receiver.job_table
    limits = receiver.limits
    if jobs.claimed_with(message) > limits.places:
        raise RejectedError(f"claims name jobs on over {limits.places} places")
    described = receiver.descriptors.get(message.path)
    if described is not None and described.boot != message.boot:
        raise RejectedError("a claim of another boot than its descriptor's")


def _check_reservation(receiver: Receiver, message: ReservationMessage) -> None:
    most = receiver.limits.places
    if receiver.reservations.places_with(message) > most:
        raise RejectedError(f"reservations name over {most} places")


def handle_event(receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
    """Add an event.

    Reject a retained one: an event happens once.
    """
    if envelope.retain:
        raise RejectedError("a retained event")
    message = decode_message(envelope.payload, EventMessage, receiver.limits)
    if (message.path or FLEET_PATH) != path:
        raise MisplacedError("the event's path is not its topic's")
    receiver.events.add(message, now_s)


def handle_publisher(receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
    """Apply the presence of a publisher, as it or its last will announces it."""
    publishers = receiver.publishers
    limits = receiver.limits
    cell, _, client = path.rpartition("/")
    if not envelope.payload:
        _forget_publisher(receiver, cell, client, now_s)
        return
    message = decode_message(envelope.payload, WatchMessage, limits)
    if message.client != client or (message.cell or "") != cell:
        raise MisplacedError("the publisher's name, or its cell, is not its topic's")
    if cell and message.role == "telemetry":
        raise MisplacedError("below a cell's name are its relay and its watches alone")
    if message.role == "relay" and not receiver.cells.has_relay(cell, client):
        # The rows that it describes count from now on.
        receiver.note_layout_due(client, is_change=False)
    if cell and not receiver.cells.put(cell, message, now_s, is_retained=envelope.retain):
        raise RejectedError(
            f"more than {limits.watches} cells, or {MOST_OF_CELL} relays or watches of one"
        )
    if cell and message.role == "watch":
        return
    if message.role == "watch":
        # It publishes no telemetry: no chip is offline because of it.
        if not receiver.watches.put(message, now_s, is_retained=envelope.retain):
            raise RejectedError(f"more than {limits.watches} watches")
        return
    if why := publishers.refusal(client, message.boot):
        raise RejectedError(why)
    receiver.missing.note_arrival(TopicClass.PUBLISHER, path)
    state = publishers.number(client, message.boot)
    is_online = message.state == "online"
    if is_online:
        former = publishers.traffic.boots[publishers.traffic.row_of(client)]
        receiver.contests.note_boot(client, former, message.boot, now_s)
    if publishers.announce(state, online=is_online):
        # A new boot may have begun its time again.
        receiver.timebase.restart(client)
    _note_host(publishers, state, decode_message(envelope.payload, HostMessage, limits))
    presence = Presence.ONLINE if publishers.is_client_online(client) else Presence.OFFLINE
    publishers.traffic.announce(
        publishers.traffic.row_of(client), presence, message.boot if is_online else "", now_s
    )


def _note_host(publishers: Publishers, state: PublisherState, message: HostMessage) -> None:
    """Note what a host says of itself: its kind of source, and which ticks come as backlog."""
    if message.source:
        publishers.note_source(state, message.source)
    publishers.backlogs.pop(state.number, None)
    if message.backlog is not None:
        first, last = message.backlog
        publishers.backlogs[state.number] = range(first, last + 1)


def _forget_publisher(receiver: Receiver, cell: str, client: str, now_s: float) -> None:
    """Forget a publisher after its presence was cleared."""
    publishers = receiver.publishers
    is_relay = receiver.cells.has_relay(cell, client)
    receiver.cells.clear(cell, client)
    receiver.watches.clear(f"{cell}/{client}" if cell else client)
    if cell and not is_relay:
        return
    is_forgotten = publishers.clear(client)
    publishers.traffic.announce(publishers.traffic.row_of(client), Presence.UNKNOWN, "", now_s)
    if is_relay or is_forgotten:
        receiver.note_layout_due(client, is_change=False)


def handle_descriptor(receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
    """Put or remove a descriptor."""
    payload = envelope.payload
    limits = receiver.limits
    descriptors = receiver.descriptors
    if not payload:
        receiver.remove_descriptor(path)
        return
    known = descriptors.get(path)
    link = 1 << (envelope.link - 1) if envelope.link else 0
    if known is not None and known.mark == hash(payload):
        # Descriptors are repeated every minute; one that has not changed is not parsed again.
        if known.links | link != known.links:
            receiver.put_descriptor(known._replace(links=known.links | link))
        return
    descriptor = CompactDescriptor.of(payload, limits)
    is_same_boot = known is not None and known.boot == descriptor.boot
    links = (known.links if known and is_same_boot else 0) | link
    if links:
        descriptor = descriptor._replace(links=links)
    if descriptor.path != path:
        raise MisplacedError("the descriptor's path is not its topic's")
    if descriptors.is_void(descriptor):
        # A relay that is gone has left it on the broker.
        receiver.remove_descriptor(path)
        return
    if why := descriptors.refusal(descriptor):
        raise RejectedError(why)
    for column in () if descriptor.columns is STANDARD_COLUMNS else descriptor.columns:
        if not is_known(column):
            doubt = Doubt(column.name, "", column.per is Scope.CHIP)
            receiver.doubts.note(descriptor.publisher, path, doubt, now_s, receiver.counts)
    receiver.put_descriptor(descriptor)
    if descriptor.members and not is_same_boot:
        for voided in descriptors.void(descriptor.cell):
            receiver.remove_descriptor(voided.path)


def ignore(receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
    """Ignore a message between clients and simulators; a recording of all topics has them, too."""


ALERTS = RetainedHandler(
    AlertMessage,
    "alert",
    "fingerprint",
    most=lambda limits: limits.alerts,
    most_bytes=attrgetter("alerts_bytes"),
    owner=attrgetter("watch"),
    # The alerts that are evaluated here are dated by it.
    before_put=lambda receiver, message: receiver.alerts.remember(message),
    after_remove=lambda receiver, fingerprint: receiver.alerts.forget(fingerprint),
)
CELL_ALERTS = RetainedHandler(
    CellAlertMessage,
    "alert",
    "path",
    most=lambda limits: limits.alerts,
    most_bytes=attrgetter("alerts_bytes"),
    owner=attrgetter("cell"),
    before_put=lambda receiver, message: receiver.alerts.cells.put(message),
    after_remove=lambda receiver, path: receiver.alerts.cells.remove(path),
)


def handle_alert(receiver: Receiver, path: str, envelope: Envelope, now_s: float) -> None:
    """Apply an alert of this fleet's watch.

    Below a cell's name, it is of the cell's watch.
    """
    (CELL_ALERTS if "/" in path else ALERTS)(receiver, path, envelope, now_s)


MESSAGE_HANDLERS: dict[TopicClass, MessageHandler] = {
    TopicClass.NODE: handle_descriptor,
    TopicClass.EVENT: handle_event,
    TopicClass.PUBLISHER: handle_publisher,
    TopicClass.JOB: RetainedHandler(
        JobMessage,
        "job",
        "job",
        collection=lambda receiver: receiver.job_table,
        most=lambda limits: limits.jobs,
        owner=_cluster_of,
        before_put=_check_job,
    ),
    TopicClass.CLAIM: RetainedHandler(
        ClaimMessage,
        "claim",
        "path",
        collection=lambda receiver: _Pair(
            receiver.job_table.put_claim, receiver.job_table.remove_claim
        ),
        most=lambda limits: limits.places,
        owner=lambda message: message.path.partition("/")[0],
        before_put=_check_claim,
    ),
    TopicClass.RESERVATION: RetainedHandler(
        ReservationMessage,
        "reservation",
        "id",
        collection=lambda receiver: receiver.reservations,
        most=lambda limits: limits.reservations,
        owner=lambda message: message.boot or message.origin,
        before_put=_check_reservation,
    ),
    TopicClass.ALERT: handle_alert,
    TopicClass.ACK: RetainedHandler(
        AckMessage,
        "acknowledgement",
        "fingerprint",
        collection=lambda receiver: _Pair(
            receiver.alerts.silences.put_ack, receiver.alerts.silences.remove_ack
        ),
        most=lambda limits: limits.alerts,
        owner=attrgetter("owner"),
    ),
    TopicClass.SILENCE: RetainedHandler(
        SilenceMessage,
        "silence",
        "id",
        collection=lambda receiver: _Pair(
            receiver.alerts.silences.put_silence, receiver.alerts.silences.remove_silence
        ),
        most=lambda limits: limits.silences,
        owner=attrgetter("who"),
    ),
    TopicClass.BACKLOG: ignore,
    TopicClass.COMMAND: ignore,
    TopicClass.REPLY: ignore,
}
"""Handlers by class. Telemetry is applied in bulk (`telemetry.py`), roll-ups in `rollups.py`."""


def retained_collections() -> dict[type[Message], RetainedCollection[Any]]:
    """Return an empty collection for each class without its own."""
    return {
        handler.model: RetainedCollection(attrgetter(handler.key))
        for handler in _retained_handlers()
        if handler.collection is None
    }


def retained_ledgers(limits: Limits) -> dict[type[Message], Ledger]:
    """Return an empty ledger for each class of retained messages."""
    return {
        handler.model: Ledger(handler.most(limits), handler.most_bytes(limits))
        for handler in _retained_handlers()
    }


def _retained_handlers() -> Iterator[RetainedHandler[Any]]:
    yield from (
        handler for handler in MESSAGE_HANDLERS.values() if isinstance(handler, RetainedHandler)
    )
    yield from (ALERTS, CELL_ALERTS)
