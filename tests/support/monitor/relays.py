"""Relays of one cell on a top broker in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, SilentSource, ultraservers
from support.monitor.queue_source import QueueSource
from trnfleet.services.relay.role import PERIOD_S, RelayIdentity, Role, TopLinks
from trnfleet.services.relay.run import CellMonitor, RelayService
from trnfleet.tasks import POLL_S
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Top:
    """A broker in memory with relays of one cell on a common time."""

    def __init__(self) -> None:
        self.relays: list[Relay] = []
        self.retained: dict[str, bytes] = {}
        self.sent: list[tuple[str, Envelope]] = []
        self.unheard = ""
        """Client whose messages reach nobody."""

    async def join(
        self,
        name: str,
        *,
        began_s: float = 0.0,
        cell: str = "cell-a",
        instances: list[tuple[str, str]] | None = None,
    ) -> Relay:
        relay = Relay(name, self, began_s, cell, instances or ultraservers(1))
        self.relays.append(relay)
        await relay.hear(
            [Envelope(topic, payload, 1, retain=True) for topic, payload in self.retained.items()]
        )
        return relay

    async def publish(self, client: str, batch: Iterable[Envelope]) -> None:
        for envelope in batch:
            self.sent.append((client, envelope))
            if envelope.retain and envelope.payload:
                self.retained[envelope.topic] = envelope.payload
            elif envelope.retain:
                self.retained.pop(envelope.topic, None)
            for relay in self.relays if client != self.unheard else ():
                await relay.hear([envelope._replace(retain=False)])

    async def run(self, seconds: float) -> None:
        """Advance time for all.

        Stopped relays do nothing in it.
        """
        for _ in range(round(seconds / POLL_S)):
            for relay in self.relays:
                await relay.feed.clock.advance(POLL_S)
            for relay in list(self.relays):
                if not relay.is_stopped:
                    await relay.step()

    async def kill(self, relay: Relay, *, will: bool = True) -> None:
        self.relays.remove(relay)
        if will:
            goodbye = relay.service.role.presence("offline")
            await self.publish(relay.name, [goodbye])

    def publishing(self, since: int = 0) -> set[str]:
        """Return who has published roll-ups since a message."""
        return {client for client, each in self.sent[since:] if "/rollup/" in each.topic}

    def presence(self) -> set[str]:
        return {topic.rpartition("/")[2] for topic in self.retained if "/publisher/" in topic}


class Relay:
    """A relay of a cell, and its connection to the top broker."""

    def __init__(
        self, name: str, top: Top, began_s: float, cell: str, instances: list[tuple[str, str]]
    ) -> None:
        self.name, self.top, self.is_stopped, self.said = name, top, False, list[str]()
        self.feed = Feed(instances)
        self.feed.monitor = CellMonitor(SilentSource(), "demo", clock=self.feed.clock)
        if top.relays:
            self.feed.clock.step_wall(
                (top.relays[0].feed.clock.wall_ns() - self.feed.clock.wall_ns()) / 1e9 + began_s
            )
        self.feed.describe()
        self.status = LinkStatus(connected=True, connects=1)
        self.links = TopLinks(self)
        self.hurries = 0
        identity = RelayIdentity("demo", DEFAULT_ROOT, cell, name, f"boot-{name}")
        self.service = RelayService(identity, self.feed.monitor, self, self.said.append)
        self.due_s = 0.0
        self.is_half_open = False
        """Whether nothing that it publishes gets through."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        sent = list(batch)
        if self.is_half_open:
            return PublishResult(unsent=len(sent))
        await self.top.publish(self.name, sent)
        return PublishResult(len(sent))

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Never connects again."""

    def hurry(self) -> None:
        self.hurries += 1

    async def hear(self, envelopes: list[Envelope]) -> None:
        own = [
            each
            for each in envelopes
            if parse_topic(each.topic, DEFAULT_ROOT).topic_class
            in {TopicClass.PUBLISHER, TopicClass.NODE, TopicClass.ALERT}
        ]
        await self.service.read_top(QueueSource(own, []))

    async def step(self) -> None:
        await self.service.elect(self.links)
        await self.service.catch_up()
        if self.feed.clock.monotonic_s() >= self.due_s:
            await self.service.tick()
            self.due_s = self.feed.clock.monotonic_s() + PERIOD_S

    @property
    def role(self) -> Role:
        return self.service.role.role
