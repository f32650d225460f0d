"""Telemetry of hosts from a relay's cell to the top broker, under leases.

Descriptors name the forwarder; frames stay as they are. A newly forwarded host is described on the
top together with its first frame: a monitor replaces a row by chips with values, and the totals
above them stay complete meanwhile.

A lease is requested, renewed and returned by a command, `forward`. Several clients may lease the
same row; it is forwarded once. A lease without renewal expires.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from trnfleet.domain.address import format_chip
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, ConfigError, WireError
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.tasks import POLL_S, preserve_cancellation
from trnfleet.wire.commands.leases import FORWARD, LEASE_S, LONGEST_S
from trnfleet.wire.commands.server import CommandServer, serve
from trnfleet.wire.messages import (
    REPEAT_S,
    CommandMessage,
    Descriptor,
    ForwardedBy,
    decode_message,
    message_envelope,
)
from trnfleet.wire.ports import Envelope, MessageProperties, Publisher
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.services.relay.role import RelayIdentity
    from trnfleet.transport.mqtt import MqttSource

HOLD_S = 1.5
"""Longest wait for the first frames of newly forwarded hosts: 1.5 periods of most fleets."""
EXPIRY_S = 180
"""Seconds for which an MQTT 5 broker retains an unrepeated descriptor. After a relay died, its
descriptors expire."""
MOST_LEASES = 64
"""Leases in all: 8 clients with as many as each may have. The rate limit of commands allows 80
renewals every 20 s."""
MOST_OF_CLIENT = 8


@dataclass(slots=True)
class _Path:
    """The hardware of one descriptor."""

    descriptor: Envelope
    topic: str
    """Of the frames, or of the instance's own metrics."""
    topics: tuple[str, ...]
    """All topics of the cell forwarded with it."""
    since_s: float
    is_shown: bool = False
    """Whether it is described on the top."""
    frames: dict[str, Envelope] = field(default_factory=dict)
    """The newest of each topic, until it is."""


class Forwarding:
    """Forwarded telemetry of one relay."""

    def __init__(
        self, fleet: str, root: str, stamp: ForwardedBy, publisher: Publisher, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._root = root
        self._stamp = stamp
        self._publisher = publisher
        self._clock = clock
        self._paths: dict[str, _Path] = {}
        self._topics: dict[str, str] = {}
        """Forwarded topics of the cell, with their descriptors' paths."""
        self._state: list[Envelope] = []
        self._frames: dict[str, Envelope] = {}
        """The newest waiting frame of each topic. A slow connection skips older ones, and the top
        counts them as lost."""
        self._cleared: dict[str, Envelope] = {}
        """Descriptors to clear, until the broker has confirmed it."""
        self._is_active = False
        """Whether this relay publishes for its cell."""
        self._has_work = asyncio.Event()
        self._repeat_s = clock.monotonic_s() + REPEAT_S

    def be_active(self, *, is_active: bool) -> None:
        """Publish from now on, descriptors first, or publish nothing.

        Another relay may describe the same hosts.
        """
        if is_active and not self._is_active:
            self._state = list(self.announce())
            self._has_work.set()
        self._is_active = is_active

    def follow(self, hosts: Mapping[str, CompactDescriptor]) -> None:
        """Forward the hosts of some descriptors, by path, and stop forwarding others."""
        for path in self._paths.keys() - hosts.keys():
            self._drop(path)
        now_s = self._clock.monotonic_s()
        for path, compact in hosts.items():
            if path not in self._paths:
                self._add(path, compact, now_s)
        self._has_work.set()

    def _add(self, path: str, compact: CompactDescriptor, now_s: float) -> None:
        telemetry = self._topic(TopicClass.TELEMETRY, path)
        topics = [self._topic(TopicClass.NODE, path), telemetry]
        if compact.instances == (path,):
            chips = range(INSTANCE_TYPES[compact.types[0]].chips)
            topics += [f"{telemetry}/{format_chip(chip)}" for chip in chips]
        descriptor = self._stamped(path, compact.whole())
        self._paths[path] = _Path(descriptor, telemetry, tuple(topics), now_s)
        self._topics.update(dict.fromkeys(topics, path))

    def _drop(self, path: str) -> None:
        gone = self._paths.pop(path)
        for topic in gone.topics:
            self._topics.pop(topic, None)
            self._frames.pop(topic, None)
        if gone.is_shown:
            topic = gone.descriptor.topic
            self._cleared[topic] = Envelope(topic, b"", qos=1, retain=True)
            self._state.append(self._cleared[topic])

    def take(self, batch: Sequence[Envelope]) -> None:
        """Forward the frames of a batch from the cell at once."""
        topics = self._topics
        if not topics:
            return
        for envelope in batch:
            path = topics.get(envelope.topic)
            if path is not None:
                self._take_one(path, self._paths[path], envelope)

    def _take_one(self, path: str, to: _Path, envelope: Envelope) -> None:
        if envelope.topic == to.descriptor.topic:
            try:
                stamped = self._stamped(path, decode_message(envelope.payload, Descriptor))
            except WireError:
                # Cleared, or nothing that a monitor takes: the next layout of the cell is without
                # it.
                return
            is_other = stamped.payload != to.descriptor.payload
            to.descriptor = stamped
            if not (to.is_shown and is_other):
                return
            self._state.append(stamped)
        elif envelope.retain:
            # Of any age: on the top, where it would come as it is published, nobody could tell.
            return
        else:
            frame = Envelope(envelope.topic, envelope.payload, content_type=envelope.content_type)
            (self._frames if to.is_shown else to.frames)[frame.topic] = frame
        self._has_work.set()

    def announce(self) -> Iterable[Envelope]:
        """Return the descriptors to publish and to clear.

        They are published when the relay becomes active, and from time to time.
        """
        shown = [path.descriptor for path in self._paths.values() if path.is_shown]
        return [*self._cleared.values(), *shown]

    def end(self) -> list[Envelope]:
        """Return messages to clear this relay's descriptors, and stop forwarding."""
        for path in list(self._paths):
            self._drop(path)
        self._state.clear()
        return list(self._cleared.values()) if self._is_active else []

    async def run(self) -> None:
        """Publish forwarded telemetry until cancelled."""
        while True:
            if not self._paths:
                await self._has_work.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await preserve_cancellation(asyncio.wait_for(self._has_work.wait(), POLL_S))
            self._has_work.clear()
            await self.publish()

    async def publish(self) -> None:
        """Publish the waiting messages."""
        if not self._is_active:
            self._state = []
            self._frames = {}
            return
        self._show()
        now_s = self._clock.monotonic_s()
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            self._state += [envelope for envelope in self.announce() if envelope not in self._state]
        state = self._state
        frames = list(self._frames.values())
        self._state = []
        self._frames = {}
        if not state and not frames:
            return
        result = await self._publisher.publish([*state, *frames])
        if not result.unsent:
            for envelope in state:
                if self._cleared.get(envelope.topic) is envelope:
                    del self._cleared[envelope.topic]

    def _show(self) -> None:
        """Describe newly forwarded hosts once each has a frame or the wait is over."""
        waiting = [path for path in self._paths.values() if not path.is_shown]
        is_complete = all(path.topic in path.frames for path in waiting)
        now_s = self._clock.monotonic_s()
        for path in waiting:
            if is_complete or now_s - path.since_s >= HOLD_S:
                path.is_shown = True
                self._cleared.pop(path.descriptor.topic, None)
                self._state.append(path.descriptor)
                self._frames.update(path.frames)
                path.frames = {}

    def _stamped(self, path: str, descriptor: Descriptor) -> Envelope:
        """Return a host's descriptor as the top gets it."""
        topic = self._topic(TopicClass.NODE, path)
        stamped = msgspec.structs.replace(descriptor, forwarded=self._stamp)
        return message_envelope(topic, stamped, retain=True)._replace(
            properties=MessageProperties(expiry_s=EXPIRY_S)
        )

    def _topic(self, topic_class: TopicClass, path: str) -> str:
        return build_topic(self._fleet, topic_class, path, self._root)


class _Lease(NamedTuple):
    client: str
    row: str


class Leases:
    """The leases of one cell, and the actions of commands about them."""

    arguments = {FORWARD: ("lease_s",)}  # noqa: RUF012  it is never written to
    harmless = ()
    how_to_allow = "this relay forwards no chips: it was started with --forward-hosts 0"

    def __init__(
        self,
        cell: str,
        monitor: Monitor,
        forwarding: Forwarding,
        row_of: Callable[[str], str],
        *,
        sees_cell: Callable[[], bool],
        most_hosts: int,
    ) -> None:
        """Begin without leases.

        Args:
            cell: Name of the cell.
            monitor: The cell's monitor.
            forwarding: Forwards the leased hosts.
            row_of: Returns the row of roll-ups for an address; empty for none.
            sees_cell: Returns whether the cell is connected at present.
            most_hosts: Most hosts forwarded at a time.
        """
        self._cell = cell
        self._monitor = monitor
        self._forwarding = forwarding
        self._row_of = row_of
        self._sees_cell = sees_cell
        self.most_hosts = most_hosts
        self._until_s: dict[_Lease, float] = {}
        """Monotonic seconds of each lease's end."""
        self._generation = -1
        """Layout generation of the cell at the last lookup of forwarded hosts."""
        self._forwarded_rows: set[str] = set()

    def __len__(self) -> int:
        """Return how many leases there are."""
        return len(self._until_s)

    @property
    def rows(self) -> set[str]:
        """Rows with a lease."""
        return {lease.row for lease in self._until_s}

    def concerns(self, action: object, target: object) -> bool:
        """Return whether a command is about this cell's chips.

        Other cells' relays read it, too.
        """
        return action == FORWARD and isinstance(target, str) and bool(self._row_of(target))

    def carry_out(self, command: CommandMessage) -> tuple[str, dict[str, Any]]:
        """Grant, renew or end a lease, as a command asks.

        Raises:
            ConfigError: there is no room for it, or nothing to forward; the message is the answer.
        """
        row = self._row_of(command.target)
        now_s = self._monitor.clock.monotonic_s()
        lease = _Lease(command.client, row)
        lease_s = _seconds(command)
        self._expire(now_s)
        if not lease_s:
            self._until_s.pop(lease, None)
            self._apply()
            return f"no lease of {row} any more", {"target": row, "lease_s": 0}
        if not self._sees_cell():
            raise ConfigError(f"the relay does not hear cell {self._cell} at present")
        hosts = self._hosts({row})
        if not hosts:
            raise ConfigError(f"no host of {row} is described in cell {self._cell}")
        if lease not in self._until_s:
            self._check_room(lease, row)
        self._until_s[lease] = now_s + lease_s
        self._apply()
        words = f"{counted(_count(hosts), 'host')} of {row} for {lease_s:g} s"
        return words, {"target": row, "hosts": _count(hosts), "lease_s": lease_s}

    def _check_room(self, lease: _Lease, row: str) -> None:
        """Raise if there is no room for one more lease.

        Raises:
            ConfigError: there is none.
        """
        own = sum(held.client == lease.client for held in self._until_s)
        if own >= MOST_OF_CLIENT:
            raise ConfigError(
                f"client {lease.client} has {own} leases of cell {self._cell}, and may have"
                f" {MOST_OF_CLIENT}"
            )
        if len(self._until_s) >= MOST_LEASES:
            raise ConfigError(
                f"cell {self._cell} has {MOST_LEASES} leases, the most that there may be"
            )
        hosts = _count(self._hosts(self.rows | {row}))
        if hosts > self.most_hosts:
            raise ConfigError(
                f"{counted(hosts, 'host')} of cell {self._cell} would be forwarded, over the limit"
                f" of {self.most_hosts} (--forward-hosts)"
            )

    def tick(self, *, is_active: bool) -> None:
        """End expired leases, and follow the cell's layout and this relay's role."""
        self._forwarding.be_active(is_active=is_active)
        self._expire(self._monitor.clock.monotonic_s())
        if self.rows != self._forwarded_rows or (
            self._until_s and self._generation != self._monitor.store.generation
        ):
            self._apply()

    def _expire(self, now_s: float) -> None:
        self._until_s = {
            lease: until_s for lease, until_s in self._until_s.items() if until_s > now_s
        }

    def _apply(self) -> None:
        self._generation = self._monitor.store.generation
        self._forwarded_rows = self.rows
        self._forwarding.follow(self._hosts(self._forwarded_rows))

    def _hosts(self, rows: set[str]) -> dict[str, CompactDescriptor]:
        """Return the descriptors of the hosts in some rows, by path."""
        layout = self._monitor.store.layout
        descriptors = self._monitor.ingest.descriptors
        covering_hosts: dict[str, CompactDescriptor] = {}
        for row in sorted(rows):
            node = layout.find(row)
            for instance in () if node is None else layout.instance_range(node):
                covering = descriptors.covering(layout.instances[instance])
                if covering is not None:
                    covering_hosts[covering.path] = covering
        return covering_hosts


def _count(hosts: dict[str, CompactDescriptor]) -> int:
    return sum(len(host.instances) for host in hosts.values())


def _seconds(command: CommandMessage) -> float:
    """Return for how long a lease is asked; 0 to end it.

    Raises:
        ConfigError: that is not a number of seconds, or too many.
    """
    value = command.args.get("lease_s", LEASE_S)
    if isinstance(value, (bool, str)) or value is None or not 0 <= value <= LONGEST_S:
        raise ConfigError(f"{FORWARD}: lease_s must be a number of seconds from 0 to {LONGEST_S:g}")
    return float(value)


def command_server(leases: Leases, identity: RelayIdentity) -> CommandServer:
    """Return the server for commands about a relay's leases."""
    return CommandServer(
        leases,
        identity.fleet,
        allowed=leases.most_hosts > 0,
        names={"relay": identity.client, "cell": identity.cell},
        root=identity.root,
    )


async def serve_leases(
    server: CommandServer,
    commands: MqttSource,
    publisher: Publisher,
    clock: Clock,
    report: Callable[[str], None],
) -> None:
    """Carry out commands until cancelled.

    Report once if commands cannot be received.
    """
    try:
        await commands.wait_connected(CONNECT_LIMIT_S)
    except BrokerError as error:
        report(f"forwards no chips, for it cannot read who asks for them: {error}")
    await serve(server, commands, publisher, clock)
