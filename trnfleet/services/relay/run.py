"""A relay from start to end: input from a cell, output to a top broker.

Of several relays of a cell one is active (`role.py`). The others receive the same messages and
publish only their presence, so that one takes over with the next tick. A relay publishes no
roll-ups while it is disconnected from its cell or overloaded: unseen hosts are not observed, which
is not stale. Its presence on the top broker has a last will. With it, everything it described is
not observed at once, until another relay has described it.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError, WireError
from trnfleet.garbage import collect_garbage
from trnfleet.monitor.goodput import MINUTES
from trnfleet.monitor.goodput_report import published_time
from trnfleet.monitor.monitor import Monitor
from trnfleet.record.write.tapped_source import TappedSource
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.publishing import cleared, fail_if_all_refused
from trnfleet.services.relay.blocks import Rows
from trnfleet.services.relay.clearings import MissedClearings, Taps, clear_ended, ended_of
from trnfleet.services.relay.forwarding import Forwarding, Leases, command_server, serve_leases
from trnfleet.services.relay.passed import (
    MOST_AT_ONCE,
    MOST_TOPICS,
    PASSED_ON,
    PassedAlerts,
    PassedMessages,
)
from trnfleet.services.relay.role import (
    PERIOD_S,
    RelayIdentity,
    RelayRingError,
    RelayRole,
    Role,
    TopLinks,
)
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.systemd import ServiceManager, link_works
from trnfleet.tasks import POLL_S, Ending, background, run_until
from trnfleet.wire.messages import (
    REPEAT_S,
    ClockSpec,
    Descriptor,
    ForwardedBy,
    cell_of,
    decode_message,
    message_envelope,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope, Publisher, Source
from trnfleet.wire.rollups import RollupDescriptor, encode_rollup, is_rollup
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import Topic, TopicClass, build_filter, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


log = logs.get_logger(__name__)

OVERLOADED_FROM_S = 3.0
"""Overload from which a relay does not observe its cell. After more than three periods, messages it
left out prove nothing about the hosts."""
_EPOCH_STEP_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """Cell, top broker and limits of a relay."""

    fleet: str | None
    """Name of the fleet; None for the only one of the cell's broker."""
    cell: str
    most_hosts: int
    """Most hosts forwarded at a time, under leases; 0 disables it."""


class RelayService:
    """The published messages of one relay."""

    def __init__(
        self,
        identity: RelayIdentity,
        monitor: Monitor,
        publisher: Publisher,
        report: Callable[[str], None],
    ) -> None:
        """Prepare a relay; the caller runs connections and monitor.

        Args:
            identity: Its identity.
            monitor: The monitor of the cell.
            publisher: The connection to the top broker.
            report: Receives a line for each change of role.
        """
        self._identity = identity
        self._monitor = monitor
        self._publisher = publisher
        self.role = RelayRole(identity, monitor.clock.wall_ns(), report)
        self._alerts = PassedAlerts(identity)
        self._passed = PassedMessages(identity)
        self._rows: Rows | None = None
        self._generation = -1
        self._revision = 0
        self._seq: dict[str, int] = {}
        self._clock: tuple[int, float, bool] | None = None
        """Source time less wall time, speed, and whether the descriptors use the wall clock."""
        self._described: dict[str, Envelope] = {}
        self._repeat_s = 0.0
        self._left: set[str] = set()
        """Descriptor topics left by an earlier relay, or by this one after a lost clearing. Used
        until the cell's own are known."""
        self.turn = 0
        self.frames = self.passed_on = 0
        """Frames and messages that were published."""

    def announce(self) -> Iterable[Envelope]:
        """Return the messages to publish after each connect.

        It subscribes first.
        """
        return [self.role.presence("online", self._monitor.clock.wall_ns())]

    async def elect(self, top: TopLinks) -> None:
        """Choose the role and publish a heartbeat if due.

        With a new role, publish all retained messages.

        Args:
            top: The connections to the top broker.

        Raises:
            BrokerError: the top broker does not let it hear itself, or it is part of a ring.
        """
        clock = self._monitor.clock
        was_active = self.role.is_active
        outgoing = self.role.step(
            clock.monotonic_s(),
            clock.wall_ns(),
            top.look(),
            hears=self.sees_cell and bool(self._monitor.store.layout.instances),
        )
        if self.role.role is Role.STANDBY:
            self._passed.note_other(clock.monotonic_s())
        if self.role.is_active and not was_active:
            self.turn += 1
            outgoing += self._passed.begin(clock.monotonic_s())
            self._repeat_s = -math.inf
            self._alerts.begin()
        if outgoing:
            await self._publisher.publish(outgoing)

    async def pass_on(self, source: Source) -> None:
        """Pass messages of the cell on until cancelled."""
        while batch := await source.take():
            await self.pass_batch(batch)

    async def pass_batch(self, batch: Iterable[Envelope]) -> None:
        """Pass some messages of the cell on."""
        batch = list(batch)
        for envelope in batch:
            self._note_upstream(envelope)
        sent = self._passed.take(batch, self._monitor.clock.monotonic_s())
        for first in range(0, len(sent), MOST_AT_ONCE):
            if self.role.is_active:
                self.passed_on += await self._pass(sent[first : first + MOST_AT_ONCE])

    def _note_upstream(self, envelope: Envelope) -> None:
        """Note the presence of a relay on the cell's broker."""
        begin = self._identity.topic(TopicClass.PUBLISHER, "")
        _, slash, client = envelope.topic.removeprefix(begin).partition("/")
        if slash and envelope.topic.startswith(begin):
            try:
                self.role.note_upstream(client, envelope, self._monitor.clock.monotonic_s())
            except WireError as error:
                log.debug("relay_rejected", topic=envelope.topic[:200], error=str(error))

    async def apply(self, batch: list[Envelope]) -> None:
        """Apply messages of the cell from outside the monitor's source."""
        self._monitor.apply_messages(batch)

    async def catch_up(self) -> None:
        """Publish a part of the messages due since it became active."""
        if self.role.is_active and (part := self._passed.next_owed()):
            await self._pass(part)

    async def _pass(self, part: list[Envelope]) -> int:
        """Publish messages of the cell, and return how many the top broker has taken."""
        result = await self._publisher.publish(part)
        # What it refuses it would refuse again.
        if result.unsent <= result.refused:
            self._passed.note_published(part)
        return result.sent

    async def read_top(self, source: Source) -> None:
        """Read presence and descriptors of the cell's relays on the top broker until cancelled."""
        while batch := await source.take():
            for envelope in batch:
                try:
                    topic = parse_topic(envelope.topic, self._identity.root)
                    self._note_top(topic, envelope)
                except WireError as error:
                    log.debug("relay_rejected", topic=envelope.topic[:200], error=str(error))

    def _note_top(self, topic: Topic, envelope: Envelope) -> None:
        if topic.topic_class is TopicClass.PUBLISHER:
            client = topic.path.rpartition("/")[2]
            clock = self._monitor.clock
            self.role.note_relay(client, envelope, clock.monotonic_s(), clock.wall_ns())
            self._passed.note_top(client, envelope.payload)
        elif topic.topic_class is TopicClass.ALERT:
            self._alerts.note_top(topic.path.rpartition("/")[2], envelope.payload)
        elif not envelope.payload:
            self._left.discard(envelope.topic)
        elif is_rollup(envelope.payload):
            is_own = decode_message(envelope.payload, RollupDescriptor).boot == self._identity.boot
            is_known = envelope.topic in self._described
            if not (is_own and is_known) and len(self._left) < MOST_TOPICS:
                self._left.add(envelope.topic)
            if not is_own and is_known:
                # It has taken the place of one of this relay's, which is published again.
                self._repeat_s = -math.inf

    @property
    def knows_cell(self) -> bool:
        """Whether it is active and has all retained messages of its cell.

        State left only on the top broker is over then.
        """
        return (
            self.role.is_active and self._passed.has_all and self._alerts.knows_cell(self._monitor)
        )

    async def clear_ended_of(self, retained: Iterable[Envelope]) -> None:
        """Clear the cell's jobs and reservations on the top broker that it no longer has."""
        if self.knows_cell:
            identity = self._identity
            layout = self._monitor.store.layout
            left = ended_of(retained, self._passed.topics, layout, identity.cell, identity.root)
            await _publish_in_parts(self._publisher, left)

    def row_of(self, address: str) -> str:
        """Return the published roll-up row that an address is, or is in.

        Empty if none.
        """
        return self._rows.row_of(address) if self.role.is_active and self._rows is not None else ""

    async def tick(self) -> None:
        """As active relay, publish changed alerts, the last roll-ups, and due descriptors.

        Alerts come from the cell's watch: they continue even if telemetry is too fast for this
        relay.
        """
        monitor = self._monitor
        store = monitor.store
        rollups = monitor.rollups
        self._alerts.hear(monitor.clock.monotonic_s(), sees_cell=self.sees_cell)
        if not self.role.is_active or not self._is_connected:
            return
        if alerts := self._alerts.changes(monitor):
            await self._publisher.publish(alerts)
        if (
            not self.sees_cell
            or not len(store.layout.instances)
            or rollups.generation != store.generation
        ):
            return
        outgoing = self._describe()
        outgoing += self._clear()
        outgoing += self.role.cleared(monitor.clock.monotonic_s())
        if self._alerts.knows_cell(monitor):
            outgoing += self._passed.left_watches()
        rows = self._rows
        if rows is None:
            return
        moment = monitor.moment()
        heads = {}
        for block in rows.blocks:
            seq = self._seq[block.path] = self._seq.get(block.path, -1) + 1
            heads[block.path] = Head(self._identity.boot, seq, moment.time_ns)
        paid = published_time(monitor.goodput.report(MINUTES))
        frames = rows.frames(store, rollups, monitor.ingest.alert_messages.values(), heads, paid)
        outgoing += [
            Envelope(
                self._identity.topic(TopicClass.ROLLUP, path),
                encode_rollup(path, self._revision, frame),
                content_type=CONTENT_TYPE_CBOR,
            )
            for path, frame in frames.items()
        ]
        result = await self._publisher.publish(outgoing)
        # They are the last of it.
        self.frames += max(0, len(frames) - result.unsent)

    def farewell(self) -> list[Envelope]:
        """Return the messages of an orderly end.

        Everything described by an active relay is not observed from now on, until another describes
        it. The next active relay clears the message, whenever it starts. A standby relay leaves
        nothing.
        """
        goodbye = self.role.presence("offline")
        return [goodbye] if self.role.is_active else [goodbye, goodbye._replace(payload=b"")]

    def withdrawal(self) -> list[Envelope]:
        """Return messages to clear all messages of this relay, and its presence."""
        topics: list[str] = []
        if self.turn:
            topics = [*self._described, *self._passed.topics, *self._alerts.topics]
        goodbye = self.role.presence("offline")
        return [*cleared(topics), goodbye, goodbye._replace(payload=b"")]

    @property
    def sees_cell(self) -> bool:
        """Whether it is connected to its cell and not overloaded."""
        return self._is_connected and not self.is_overloaded

    @property
    def _is_connected(self) -> bool:
        return self._monitor.link.connected and not self._monitor.reachability.is_cut_off

    @property
    def is_overloaded(self) -> bool:
        """Whether its cell's telemetry is too fast for it."""
        monitor = self._monitor
        overloaded_s = monitor.reachability.behind.overloaded_s(monitor.clock.monotonic_s())
        return overloaded_s >= OVERLOADED_FROM_S

    def _describe(self) -> list[Envelope]:
        """Return the descriptors due now, and messages to clear former blocks."""
        monitor = self._monitor
        now_s = monitor.clock.monotonic_s()
        moment = monitor.moment()
        offset_ns = moment.time_ns - round(now_s * moment.speed * NS_PER_S)
        clock = (offset_ns, moment.speed, moment.is_wall)
        if self._clock is None or clock[1:] != self._clock[1:]:
            is_other_clock = True
        else:
            step_ns = abs(clock[0] - self._clock[0])
            is_other_clock = (
                not moment.is_wall and step_ns > max(1.0, moment.speed) * _EPOCH_STEP_NS
            )
        if self._generation == monitor.store.generation and not is_other_clock:
            if now_s - self._repeat_s < REPEAT_S:
                return []
            self._repeat_s = now_s
            return list(self._described.values())
        if is_other_clock:
            self._clock = clock
        if self._rows is None or self._generation != monitor.store.generation:
            self._rows = Rows(monitor.store.layout, self._identity.cell)
        self._generation = monitor.store.generation
        self._repeat_s = now_s
        self._revision += 1
        self._seq = {block.path: self._seq.get(block.path, -1) for block in self._rows.blocks}
        epoch = ClockSpec(epoch=format_rfc3339(moment.time_ns), speed=moment.speed)
        before = self._described
        self._described = {}
        for block in self._rows.blocks:
            topic = self._identity.topic(TopicClass.NODE, block.path)
            descriptor = RollupDescriptor(
                path=block.path,
                publisher=self._identity.client,
                boot=self._identity.boot,
                revision=self._revision,
                period_s=PERIOD_S,
                clock=epoch,
                origin="neuron" if moment.is_wall else "simulated",
                cell=self._identity.cell,
                rows=block.rows,
            )
            self._described[topic] = message_envelope(topic, descriptor, retain=True)
        gone = [
            envelope._replace(payload=b"")
            for topic, envelope in before.items()
            if topic not in self._described
        ]
        return [*gone, *self._described.values()]

    def _clear(self) -> list[Envelope]:
        """Return messages to clear other relays' descriptors of blocks missing here."""
        gone = sorted(self._left.difference(self._described))
        self._left.clear()
        return list(cleared(gone))


async def _publish_in_parts(publisher: Publisher, messages: Sequence[Envelope]) -> None:
    for first in range(0, len(messages), MOST_AT_ONCE):
        await publisher.publish(messages[first : first + MOST_AT_ONCE])


async def relay_cell(
    cell: BrokerSession, top: BrokerSession, request: RelayRequest, report: Callable[[str], None]
) -> None:
    """Relay a cell until a signal.

    Args:
        cell: The broker of the cell.
        top: The broker to publish on.
        request: What to relay.
        report: Receives a line at the start, and for each change.

    Raises:
        BrokerError: a broker cannot be reached, does not take what is published, or does not let
            the relay hear itself, or the relay would be part of a ring.
        ConfigError: both brokers are the same, or the cell's has several fleets and none is named.
    """
    if (cell.url.host, cell.url.port) == (top.url.host, top.url.port):
        raise ConfigError(
            f"--to: {top.url} is the cell's own broker; a relay publishes on another one"
        )
    clock = cell.clock
    ending = Ending()
    manager = ServiceManager(clock)
    with ending.on_signals():
        fleet = await find_fleet(cell, request.fleet)
        identity = RelayIdentity(
            fleet,
            top.root,
            request.cell,
            f"trnfleet-relay-{secrets.token_hex(4)}",
            secrets.token_hex(8),
        )
        will = identity.presence("offline", clock.wall_ns())
        publisher = top.publisher(identity.client, will=will)
        stamp = ForwardedBy(cell=identity.cell, relay=identity.client, boot=identity.boot)
        forwarding = Forwarding(fleet, top.root, stamp, publisher, clock)
        missed, missed_small = (MissedClearings(fleet, cell.root, clock) for _ in range(2))
        live = monitor_fleet(cell, fleet, tap=Taps(forwarding, missed), kind=CellMonitor)
        live.monitor.evaluates_alerts = False
        service = RelayService(identity, live.monitor, publisher, report)
        leases = Leases(
            request.cell,
            live.monitor,
            forwarding,
            service.row_of,
            sees_cell=lambda: service.sees_cell,
            most_hosts=request.most_hosts,
        )
        server = command_server(leases, identity)
        publisher.on_connect(service.announce)
        small = cell.source(
            [(build_filter(fleet, topic_class, cell.root), 1) for topic_class in PASSED_ON]
        )
        others = top.source([(identity.topic(*place), 1) for place in _of_cell(request.cell)])
        commands = top.source(server.filters())
        async with background(
            source=live.source.run(),
            monitor=live.monitor.run(),
            small=small.run(),
            others=others.run(),
            commands=commands.run(),
            publisher=publisher.run(),
            refused=fail_if_all_refused(publisher.status, clock),
            garbage=collect_garbage(clock),
        ):
            for link in (publisher, others, small, live.source):
                await link.wait_connected(CONNECT_LIMIT_S)
            report(
                f"relaying cell {request.cell} of {fleet} from {cell.url} to {top.url} as"
                f" {identity.client}; ctrl+c ends it"
            )
            works = link_works("connection", (publisher.status, live.source.status))

            def status() -> str:
                figures = f"{service.frames:,} roll-ups, {service.passed_on:,} messages passed on"
                return f"{service.role.text}, {figures}, {counted(len(leases), 'lease')}"

            async with background(
                service_manager=manager.run(works, status),
                pass_on=service.pass_on(TappedSource(small, missed_small)),
                missed=missed.run(live.source, service.apply, report),
                missed_small=missed_small.run(small, service.pass_batch, report),
                read_top=service.read_top(others),
                leases=serve_leases(server, commands, publisher, clock, report),
                forwarding=forwarding.run(),
                ended=clear_ended(service, top, fleet, small.status),
            ):
                # A broker may refuse to let it read commands: then it forwards nothing, and
                # publishes all the same.
                links = TopLinks(publisher, others, others=(commands,))
                try:
                    await run_until(ending, _publish(service, leases, live.monitor, links, report))
                except RelayRingError:
                    left = [*forwarding.end(), *service.withdrawal()]
                    await _publish_in_parts(publisher, left)
                    raise
            await publisher.publish([*forwarding.end(), *service.farewell()])


def _of_cell(cell: str) -> Iterable[tuple[TopicClass, str]]:
    """Yield class and path of the cell's relay messages on the top broker.

    The cell's other relays read them.
    """
    yield TopicClass.PUBLISHER, f"{cell}/#"
    yield TopicClass.NODE, f"+/{cell}/#"
    yield TopicClass.ALERT, f"{cell}/#"


async def _publish(
    service: RelayService,
    leases: Leases,
    monitor: Monitor,
    top: TopLinks,
    report: Callable[[str], None],
) -> None:
    """Take part in elections, and as active relay publish once a second.

    Report when the connection to the cell is lost or back.
    """
    clock = monitor.clock
    sees = True
    has_seen = False
    due_s = -math.inf
    while True:
        was_active = service.role.is_active
        await service.elect(top)
        await service.catch_up()
        leases.tick(is_active=service.role.is_active)
        now_s = clock.monotonic_s()
        # The first tick of one that takes over is at once.
        if now_s >= due_s or (service.role.is_active and not was_active):
            await service.tick()
            due_s = max(due_s + PERIOD_S, now_s)
        has_seen = has_seen or service.sees_cell
        if has_seen and service.sees_cell != sees:
            sees = service.sees_cell
            why = "cannot keep up with" if service.is_overloaded else "does not hear"
            report(
                "hears its cell again"
                if sees
                else f"{why} its cell: it is not observed until it does"
            )
        await clock.sleep(POLL_S)


class CellMonitor(Monitor):
    """A monitor of a cell's own hosts and watches.

    Rows, forwarded hosts and everything below a cell's name belong to other cells. If applied, they
    would circulate in a ring of relays.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

        def topics(topic_class: TopicClass) -> str:
            return build_topic(self.fleet_name, topic_class, "", self.root)

        self._telemetry = topics(TopicClass.TELEMETRY)
        self._rollup = topics(TopicClass.ROLLUP)
        self._node = topics(TopicClass.NODE)
        self._with_cells = tuple(map(topics, (TopicClass.PUBLISHER, TopicClass.ALERT)))

    def apply_messages(self, batch: list[Envelope]) -> None:
        """Apply messages not written by relays."""
        super().apply_messages([envelope for envelope in batch if not self._is_relayed(envelope)])

    def _is_relayed(self, envelope: Envelope) -> bool:
        topic = envelope.topic
        if topic.startswith(self._telemetry):
            return False
        if topic.startswith(self._rollup):
            return True
        if topic.startswith(self._node):
            return is_rollup(envelope.payload) or _is_forwarded(envelope.payload)
        for begin in self._with_cells:
            if topic.startswith(begin) and "/" in topic[len(begin) :]:
                return True
        return bool(cell_of(envelope.payload))


def _is_forwarded(payload: bytes) -> bool:
    if b'"forwarded"' not in payload:
        return False
    try:
        return decode_message(payload, Descriptor).forwarded is not None
    except WireError:
        return False
