"""A relay from its connections to its end: what it reads of a cell, and what it publishes on the top broker.

It publishes no roll-ups while it cannot hear its cell: what nobody sees is not observed, which is not stale. Its presence on the top
broker has a last will, with which all that it described is not observed at once.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.errors import BrokerError, ConfigError, WireError
from trnfleet.garbage import collect_garbage
from trnfleet.services.discovery import find_fleet
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.publishing import fail_if_all_refused
from trnfleet.services.relay.blocks import Rows
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.systemd import ServiceManager, link_works
from trnfleet.tasks import Ending, background, run_until
from trnfleet.wire.messages import ClockSpec, PublisherMessage, decode_message, message_envelope
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.rollups import RollupDescriptor, encode_rollup, is_rollup
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import RETAINED, TopicClass, build_filter, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Publisher, Source

PASSED_ON = (
    TopicClass.PUBLISHER,
    TopicClass.JOB,
    TopicClass.RESERVATION,
    TopicClass.ALERT,
    TopicClass.EVENT,
)
"""Classes whose messages go to the top broker as they are."""
PERIOD_S = 1.0
REPEAT_S = 60.0
"""Time after which descriptors are published again: not every broker gives retained messages to every subscriber."""
MOST_KEPT_BYTES = 256 * 2**20
"""Memory of the retained messages that are published again after a reconnect."""
_EPOCH_STEP_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """What to relay."""

    fleet: str | None
    """Name of the fleet; None for the only one of the cell's broker."""
    cell: str


class RelayService:
    """What one relay publishes."""

    def __init__(
        self,
        fleet: str,
        root: str,
        cell: str,
        monitor: Monitor,
        publisher: Publisher,
        client: str,
        boot: str,
    ) -> None:
        self._fleet, self._root, self._cell = fleet, root, cell
        self._monitor, self._publisher = monitor, publisher
        self._client, self._boot = client, boot
        self._since = format_rfc3339(monitor.clock.wall_ns())
        self._rows: Rows | None = None
        self._generation = -1
        self._revision = 0
        self._seq: dict[str, int] = {}
        self._clock: tuple[int, float, bool] | None = None
        """Source time less wall time, speed, and whether it is the wall clock's, of the descriptors."""
        self._kept: dict[str, Envelope] = {}
        """The newest retained message of each topic that was passed on."""
        self._kept_bytes = 0
        self._described: dict[str, Envelope] = {}
        self._repeat_s = 0.0
        self._left: set[str] = set()
        """Topics of descriptors that an earlier relay has left, until the cell's own are known."""
        self.frames = self.passed_on = 0
        """Frames and messages that were published."""
        self.rival = ""
        """Another relay of the same cell that runs and began later."""

    def presence(self, state: Literal["online", "offline"]) -> Envelope:
        """Return the presence message."""
        message = PublisherMessage(client=self._client, state=state, boot=self._boot)
        return message_envelope(self._topic(TopicClass.PUBLISHER, self._client), message, retain=True)

    def announce(self) -> Iterable[Envelope]:
        """Return what is published after each connect."""
        return [self.presence("online"), *self._described.values(), *self._kept.values()]

    async def pass_on(self, source: Source) -> None:
        """Pass messages of the cell on until cancelled."""
        while batch := await source.take():
            passed = [self._passed(each) for each in batch]
            sent = [each for each in passed if each is not None]
            if sent:
                await self._publisher.publish(sent)
                self.passed_on += len(sent)

    def _passed(self, envelope: Envelope) -> Envelope | None:
        """Return a message as the top broker gets it; None for one that is not passed on."""
        try:
            topic = parse_topic(envelope.topic, self._root)
        except WireError:
            return None
        if topic.fleet != self._fleet or topic.topic_class not in PASSED_ON:
            return None
        is_state = topic.topic_class in RETAINED
        passed = Envelope(
            envelope.topic, envelope.payload, qos=1, retain=is_state, content_type=envelope.content_type
        )
        if is_state:
            before = self._kept.pop(passed.topic, None)
            self._kept_bytes -= 0 if before is None else len(before.payload)
            if passed.payload and self._kept_bytes + len(passed.payload) <= MOST_KEPT_BYTES:
                self._kept[passed.topic] = passed
                self._kept_bytes += len(passed.payload)
        return passed

    async def tidy(self, source: Source) -> None:
        """Look for descriptors of other relays of the cell on the top broker.

        Of relays that run the one that began last stays, of those that began at once the one with the greater client id: it publishes
        its descriptors again, so that the other hears them, and monitors take its frames.
        """
        while batch := await source.take():
            for envelope in batch:
                if not envelope.payload or not is_rollup(envelope.payload):
                    continue
                try:
                    found = decode_message(envelope.payload, RollupDescriptor)
                except WireError:
                    continue
                if found.boot == self._boot:
                    continue
                # A retained one may be of a relay that died.
                if not envelope.retain and _precedence(found) > (parse_rfc3339(self._since), self._client):
                    self.rival = found.publisher
                    continue
                self._left.add(envelope.topic)
                self._repeat_s = -math.inf

    async def tick(self) -> None:
        """Publish the roll-ups of the last pass, and descriptors where they have changed or are due again."""
        monitor = self._monitor
        store, rollups = monitor.store, monitor.rollups
        if not self.sees_cell or not len(store.layout.instances) or rollups.generation != store.generation:
            return
        outgoing = self._describe()
        outgoing += self._clear()
        rows = self._rows
        if rows is None:
            return
        moment = monitor.moment()
        heads = {}
        for block in rows.blocks:
            seq = self._seq[block.path] = self._seq.get(block.path, -1) + 1
            heads[block.path] = Head(self._boot, seq, moment.time_ns)
        frames = rows.frames(store, rollups, monitor.ingest.alert_messages.values(), heads)
        outgoing += [
            Envelope(
                self._topic(TopicClass.ROLLUP, path),
                encode_rollup(path, self._revision, frame),
                content_type=CONTENT_TYPE_CBOR,
            )
            for path, frame in frames.items()
        ]
        await self._publisher.publish(outgoing)
        self.frames += len(frames)

    @property
    def sees_cell(self) -> bool:
        """Whether it hears its cell at present."""
        return self._monitor.link.connected and not self._monitor.link_health.is_cut_off

    def _describe(self) -> list[Envelope]:
        """Return the descriptors that are to be published now, and what clears those of blocks that are gone."""
        monitor = self._monitor
        now_s, moment = monitor.clock.monotonic_s(), monitor.moment()
        offset_ns = moment.time_ns - round(now_s * moment.speed * NS_PER_S)
        clock = (offset_ns, moment.speed, moment.is_wall)
        if self._clock is None or clock[1:] != self._clock[1:]:
            is_other_clock = True
        else:
            step_ns = abs(clock[0] - self._clock[0])
            is_other_clock = not moment.is_wall and step_ns > max(1.0, moment.speed) * _EPOCH_STEP_NS
        if self._generation == monitor.store.generation and not is_other_clock:
            if now_s - self._repeat_s < REPEAT_S:
                return []
            self._repeat_s = now_s
            return list(self._described.values())
        if is_other_clock:
            self._clock = clock
        if self._rows is None or self._generation != monitor.store.generation:
            self._rows = Rows(monitor.store.layout, self._cell)
        self._generation, self._repeat_s = monitor.store.generation, now_s
        self._revision += 1
        epoch = ClockSpec(epoch=format_rfc3339(moment.time_ns), speed=moment.speed)
        before, self._described = self._described, {}
        for block in self._rows.blocks:
            topic = self._topic(TopicClass.NODE, block.path)
            descriptor = RollupDescriptor(
                path=block.path,
                publisher=self._client,
                boot=self._boot,
                since=self._since,
                revision=self._revision,
                period_s=PERIOD_S,
                clock=epoch,
                origin="neuron" if moment.is_wall else "simulated",
                cell=self._cell,
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
        """Return what clears descriptors of other relays, of blocks that this one does not have."""
        gone = sorted(self._left.difference(self._described))
        self._left.clear()
        return [Envelope(topic, b"", qos=1, retain=True) for topic in gone]

    def _topic(self, topic_class: TopicClass, path: str) -> str:
        return build_topic(self._fleet, topic_class, path, self._root)


def _precedence(descriptor: RollupDescriptor) -> tuple[int, str]:
    """Return when a descriptor's relay began, and its client id: of two relays the greater one stays."""
    return (parse_rfc3339(descriptor.since) if descriptor.since else 0), descriptor.publisher


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
        BrokerError: a broker cannot be reached, does not take what is published, or a later relay of the cell runs.
        ConfigError: both brokers are the same, or the cell's has several fleets and none is named.
    """
    if (cell.url.host, cell.url.port) == (top.url.host, top.url.port):
        raise ConfigError(f"--to: {top.url} is the cell's own broker; a relay publishes on another one")
    clock, ending = cell.clock, Ending()
    manager = ServiceManager(clock)
    with ending.on_signals():
        fleet = await find_fleet(cell, request.fleet)
        live = monitor_fleet(cell, fleet)
        live.monitor.evaluates_alerts = False
        client, boot = f"trnfleet-relay-{secrets.token_hex(4)}", secrets.token_hex(8)
        message = PublisherMessage(client=client, state="offline", boot=boot)
        will = message_envelope(
            build_topic(fleet, TopicClass.PUBLISHER, client, top.root), message, retain=True
        )
        publisher = top.publisher(client, will=will)
        service = RelayService(fleet, top.root, request.cell, live.monitor, publisher, client, boot)
        publisher.on_connect(service.announce)
        small = cell.source([(build_filter(fleet, each, cell.root), 1) for each in PASSED_ON])
        own = build_topic(fleet, TopicClass.NODE, f"+/{request.cell}/#", top.root)
        left = top.source([(own, 1)])
        async with background(
            source=live.source.run(),
            monitor=live.monitor.run(),
            small=small.run(),
            left=left.run(),
            publisher=publisher.run(),
            refused=fail_if_all_refused(publisher.status, clock),
            garbage=collect_garbage(clock),
        ):
            for each in (publisher, left, small, live.source):
                await each.wait_connected(CONNECT_LIMIT_S)
            report(f"relaying cell {request.cell} of {fleet} from {cell.url} to {top.url}; ctrl+c ends it")
            works = link_works("connection", (publisher.status, live.source.status))

            def status() -> str:
                return f"{service.frames:,} roll-ups, {service.passed_on:,} messages passed on"

            async with background(
                service_manager=manager.run(works, status),
                pass_on=service.pass_on(small),
                tidy=service.tidy(left),
            ):
                await run_until(ending, _publish(service, live.monitor, ending, report))
            # A clean end says so itself: what it described is not observed from now on.
            await publisher.publish([service.presence("offline")])
    if service.rival:
        raise BrokerError(
            f"{top.url}: {service.rival} began to relay cell {request.cell} later, and stays; a cell has one relay"
        )


async def _publish(
    service: RelayService, monitor: Monitor, ending: Ending, report: Callable[[str], None]
) -> None:
    """Publish once a second, and say when the cell is not heard any more, or again."""
    clock, sees, has_seen = monitor.clock, True, False
    due_s = clock.monotonic_s()
    while not ending.asked:
        await service.tick()
        has_seen = has_seen or service.sees_cell
        if has_seen and service.sees_cell != sees:
            sees = service.sees_cell
            report(
                "hears its cell again" if sees else "does not hear its cell: it is not observed until it does"
            )
        if service.rival:
            ending.ask()
            return
        due_s = max(due_s + PERIOD_S, clock.monotonic_s())
        await clock.sleep(due_s - clock.monotonic_s())
