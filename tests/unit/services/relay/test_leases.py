"""Leases of a relay: admission, forwarding, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.services.relay.blocks import Rows
from trnfleet.services.relay.forwarding import HOLD_S, MOST_OF_CLIENT, Forwarding, Leases
from trnfleet.wire.commands.leases import LEASE_S, LONGEST_S
from trnfleet.wire.commands.server import CommandServer
from trnfleet.wire.messages import (
    CommandMessage,
    Descriptor,
    ForwardedBy,
    ReplyMessage,
    decode_message,
    encode_message,
)
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROW = "uc1/us-0001"
CHIP = f"{ROW}/trn2u-0001-2/chip05"


class Kept:
    """A publisher that stores its messages while connected."""

    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)
        self.sent: list[Envelope] = []

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        messages = list(batch)
        if not self.status.connected:
            return PublishResult(unsent=len(messages))
        self.sent += messages
        return PublishResult(sent=len(messages))

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Never connects again."""


class Relay:
    """A relay of a cell of several UltraServers."""

    def __init__(
        self, most_hosts: int = 512, *, count: int = 2, grouped: bool = False, json: bool = False
    ) -> None:
        self.feed = Feed(ultraservers(count), grouped=grouped, json=json)
        self.feed.describe()
        self.top = Kept()
        monitor, clock = self.feed.monitor, self.feed.clock
        self.forwarding = Forwarding(
            "demo",
            DEFAULT_ROOT,
            ForwardedBy(cell="cell-a", relay="relay", boot="b"),
            self.top,
            clock,
        )
        self.is_active = self.sees_cell = True
        self.leases = Leases(
            "cell-a",
            monitor,
            self.forwarding,
            Rows(monitor.store.layout, "cell-a").row_of,
            sees_cell=lambda: self.sees_cell,
            most_hosts=most_hosts,
        )
        self.server = CommandServer(
            self.leases, "demo", allowed=most_hosts > 0, names={"relay": "relay", "cell": "cell-a"}
        )
        self.asked = 0

    async def tick(self, seconds: float = 1.0) -> list[Envelope]:
        """Publish a tick of the cell's hosts, and return the forwarded messages."""
        await self.feed.clock.advance(seconds)
        messages = self.feed.telemetry()
        self.forwarding.take(messages)
        self.feed.receive(messages)
        self.leases.tick(is_active=self.is_active)
        return await self.published()

    async def published(self) -> list[Envelope]:
        """Return the messages forwarded so far."""
        self.top.sent.clear()
        await self.forwarding.publish()
        return list(self.top.sent)

    def ask(self, target: str = ROW, client: str = "viewer", **args: Any) -> ReplyMessage:
        """Return the reply to a command."""
        reply = self.ask_any(target, client, **args)
        assert reply is not None
        return reply

    def ask_any(self, target: str, client: str = "viewer", **args: Any) -> ReplyMessage | None:
        """Return the reply to a command; None for none."""
        self.asked += 1
        command = CommandMessage(
            id=f"ask-{self.asked}",
            client=client,
            action="forward",
            target=target,
            args=args,
            expires=format_rfc3339(self.feed.clock.wall_ns() + 5 * NS_PER_S),
        )
        payload = encode_message(command)
        topic = build_topic("demo", TopicClass.COMMAND, target)
        replies = self.server.handle(
            Envelope(topic, payload, received_s=self.feed.clock.monotonic_s()),
            self.feed.clock.wall_ns(),
        )
        return decode_message(replies[0].payload, ReplyMessage) if replies else None


async def relay(
    most_hosts: int = 512, *, count: int = 2, grouped: bool = False, json: bool = False
) -> Relay:
    """Return a relay that knows its cell."""
    made = Relay(most_hosts, count=count, grouped=grouped, json=json)
    await made.tick()
    return made


def paths(sent: list[Envelope], kind: TopicClass, *, cleared: bool = False) -> list[str]:
    """Return the paths of a class's messages: either clearings or the others."""
    prefix = build_topic("demo", kind, "")
    return sorted(
        each.topic.removeprefix(prefix)
        for each in sent
        if each.topic.startswith(prefix) and bool(each.payload) is not cleared
    )


HOSTS = [f"{ROW}/trn2u-0001-{place}" for place in range(4)]


@pytest.mark.parametrize("target", [ROW, HOSTS[2], CHIP])
async def test_hosts_are_described_with_their_first_frames_and_forwarded_until_the_lease_ends(
    target: str,
) -> None:
    """Frames are the cell's, byte by byte.

    Descriptors are the hosts', with their forwarder.
    """
    cell = await relay()
    assert await cell.tick() == []
    reply = cell.ask(target)
    assert (reply.ok, reply.reason) == (True, f"4 hosts of {ROW} for 60 s")
    assert reply.result == {
        "target": ROW,
        "hosts": 4,
        "lease_s": 60.0,
        "relay": "relay",
        "cell": "cell-a",
    }
    assert await cell.published() == []
    sent = await cell.tick()
    assert paths(sent, TopicClass.NODE) == paths(sent, TopicClass.TELEMETRY) == HOSTS
    assert [each.retain for each in sent] == [True] * 4 + [False] * 4
    stamped = decode_message(sent[0].payload, Descriptor)
    own, _ = cell.feed.monitor.ingest.descriptors.whole(HOSTS[0]) or (None, None)
    assert stamped.forwarded == ForwardedBy(cell="cell-a", relay="relay", boot="b")
    assert msgspec.structs.replace(stamped, forwarded=None) == own
    sent = await cell.tick()
    assert (paths(sent, TopicClass.NODE), paths(sent, TopicClass.TELEMETRY)) == ([], HOSTS)
    cell.feed.seq -= 1
    assert {each.payload for each in sent} <= {each.payload for each in cell.feed.telemetry()}
    sent = await cell.tick(LEASE_S)
    assert paths(sent, TopicClass.NODE, cleared=True) == HOSTS
    assert await cell.tick() == []


async def test_a_lease_is_renewed_and_given_back_and_shared() -> None:
    """A row is forwarded once for all leases, until the last one ends or expires."""
    cell = await relay()
    cell.ask(client="one")
    cell.ask(client="two")
    assert paths(await cell.tick(), TopicClass.TELEMETRY) == HOSTS
    await cell.tick(LEASE_S - 10)
    cell.ask(client="two")
    assert paths(await cell.tick(20), TopicClass.TELEMETRY) == HOSTS
    assert len(cell.leases) == 1
    given_back = cell.ask(client="one", lease_s=0)
    assert (given_back.ok, given_back.reason) == (True, f"no lease of {ROW} any more")
    assert paths(await cell.tick(), TopicClass.TELEMETRY) == HOSTS
    cell.ask(client="two", lease_s=0)
    assert paths(await cell.published(), TopicClass.NODE, cleared=True) == HOSTS


async def test_a_frame_of_an_ultraserver_is_forwarded_as_one() -> None:
    """It counts for as many hosts as it has."""
    cell = await relay(grouped=True)
    reply = cell.ask(CHIP)
    assert reply.result["hosts"] == 4
    sent = await cell.tick()
    assert paths(sent, TopicClass.NODE) == paths(sent, TopicClass.TELEMETRY) == [ROW]


async def test_messages_of_single_chips_are_forwarded_as_well() -> None:
    """A JSON cell has a topic per chip, and one for the instance's own metrics."""
    cell = await relay(json=True)
    cell.ask()
    sent = await cell.tick()
    assert paths(sent, TopicClass.NODE) == HOSTS
    assert paths(sent, TopicClass.TELEMETRY) == sorted(
        [*HOSTS, *(f"{host}/chip{chip:02}" for host in HOSTS for chip in range(16))]
    )


async def test_a_silent_host_keeps_the_others_waiting_for_a_moment_alone() -> None:
    """It is described all the same: on the top it is silent, too."""
    cell = await relay()
    cell.ask()
    await cell.feed.clock.advance(0.5)
    cell.forwarding.take(cell.feed.telemetry(HOSTS[:3]))
    assert await cell.published() == []
    await cell.feed.clock.advance(HOLD_S)
    sent = await cell.published()
    assert (paths(sent, TopicClass.NODE), paths(sent, TopicClass.TELEMETRY)) == (HOSTS, HOSTS[:3])


async def test_telemetry_that_a_broker_retains_is_not_forwarded() -> None:
    """Retained telemetry may be old, and would be the newest on the top.

    A monitor refuses it.
    """
    made = await relay()
    made.ask()
    await made.tick()
    frame = made.feed.telemetry([f"{ROW}/trn2u-0001-1"])[0]
    made.forwarding.take([frame._replace(retain=True)])
    assert await made.published() == []
    made.forwarding.take([frame])
    assert [each.payload for each in await made.published()] == [frame.payload]


async def test_a_host_that_boots_again_is_described_again_at_once() -> None:
    cell = await relay()
    cell.ask()
    await cell.tick()
    cell.feed.restart("boot-2")
    described = [each for each in cell.feed.announcements([HOSTS[1]]) if "/node/" in each.topic]
    cell.forwarding.take(described)
    (again,) = await cell.published()
    assert decode_message(again.payload, Descriptor).boot == "boot-2"
    cell.forwarding.take(described)
    assert await cell.published() == []


async def test_what_the_broker_did_not_take_is_cleared_after_the_next_connect() -> None:
    """Unsent clearings are repeated, so no chips without a forwarder stay described."""
    cell = await relay()
    cell.ask()
    await cell.tick()
    assert paths(list(cell.forwarding.announce()), TopicClass.NODE) == HOSTS
    cell.top.status.connected = False
    cell.ask(lease_s=0)
    await cell.published()
    assert paths(list(cell.forwarding.announce()), TopicClass.NODE, cleared=True) == HOSTS
    cell.ask()
    await cell.tick()
    assert paths(list(cell.forwarding.announce()), TopicClass.NODE, cleared=True) == []
    assert paths(cell.forwarding.end(), TopicClass.NODE, cleared=True) == HOSTS


async def test_a_host_that_comes_to_a_row_is_forwarded_with_it() -> None:
    """A lease covers a row: its new hosts are described, its former ones no longer."""
    cell = await relay()
    _, gone = cell.feed.announcements([HOSTS[0]])
    cell.feed.receive([gone._replace(payload=b"")])
    cell.ask()
    assert paths(await cell.tick(), TopicClass.NODE) == HOSTS[1:]
    cell.feed.receive([gone])
    cell.leases.tick(is_active=True)
    assert paths(await cell.tick(), TopicClass.NODE) == HOSTS[:1]
    cell.feed.receive([gone._replace(payload=b"")])
    cell.leases.tick(is_active=True)
    assert paths(await cell.published(), TopicClass.NODE, cleared=True) == HOSTS[:1]


async def test_only_an_active_relay_forwards() -> None:
    """A relay that becomes active again first describes its leased hosts.

    It clears nothing while another one is active.
    """
    cell = await relay()
    cell.ask()
    cell.ask("uc1/us-0002")
    await cell.tick()
    cell.is_active = False
    cell.leases.tick(is_active=False)
    cell.ask("uc1/us-0002", lease_s=0)
    assert await cell.tick() == []
    assert cell.forwarding.end() == []
    cell = await relay()
    cell.ask()
    await cell.tick()
    cell.leases.tick(is_active=False)
    cell.ask()
    assert await cell.published() == []
    sent = await cell.tick()
    assert (paths(sent, TopicClass.NODE), paths(sent, TopicClass.TELEMETRY)) == (HOSTS, HOSTS)
    assert "/node/" in sent[0].topic


async def test_refusals_say_which_limit_and_how_much_there_is() -> None:
    """An existing lease can be renewed despite the limits."""
    cell = await relay(most_hosts=8, count=3)
    for number in (1, 2):
        assert cell.ask(f"uc1/us-000{number}").ok
    refused = cell.ask("uc1/us-0003", client="other")
    assert not refused.ok
    assert (
        refused.reason
        == "12 hosts of cell cell-a would be forwarded, over the limit of 8 (--forward-hosts)"
    )
    assert cell.ask("uc1/us-0002").ok
    assert cell.ask("uc1/us-0002", client="other").ok
    wide = await relay(count=9)
    for number in range(MOST_OF_CLIENT):
        assert wide.ask(f"uc1/us-{number + 1:04}").ok
    refused = wide.ask("uc1/us-0009")
    assert refused.reason == "client viewer has 8 leases of cell cell-a, and may have 8"


@pytest.mark.parametrize("lease_s", [LONGEST_S + 1, "60", True, None])
async def test_seconds_that_are_none_are_refused(lease_s: object) -> None:
    cell = await relay()
    refused = cell.ask(lease_s=lease_s)
    assert (refused.ok, len(cell.leases)) == (False, 0)
    assert refused.reason == "forward: lease_s must be a number of seconds from 0 to 300"


async def test_a_relay_without_its_cell_or_without_leave_refuses() -> None:
    """And one of another cell answers nothing: the right one does."""
    cell = await relay()
    cell.sees_cell = False
    refused = cell.ask()
    elsewhere = cell.ask_any("uc1/us-0099")
    assert refused.reason == "the relay does not hear cell cell-a at present"
    assert elsewhere is None
    closed = await relay(most_hosts=0)
    refused = closed.ask()
    assert refused.reason == "this relay forwards no chips: it was started with --forward-hosts 0"
    assert (closed.server.counts.refused, cell.server.counts.flooded) == (1, 0)
