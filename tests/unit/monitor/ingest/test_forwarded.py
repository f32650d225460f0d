"""Hosts forwarded by a relay under a lease, in a monitor on a top broker.

The tests cover their owner and their loss.
"""

from __future__ import annotations

import msgspec
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.rules import rule_of
from support.monitor.top import BOOT, POWER_W, Top, framed_top

from trnfleet.monitor.freshness import Freshness
from trnfleet.wire.messages import ForwardedBy, PublisherMessage
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass

POWERS = POWER_W
HOT_AT_ALL = rule_of(above=10)
NODE = "/node/"


def leased(top: Top, boot: str = BOOT) -> Feed:
    """Return the hosts of an UltraServer after their first forwarded telemetry."""
    hosts = Feed(ultraservers(1))
    hosts.forwarded = ForwardedBy(cell="cell-a", relay="relay-1", boot=boot)
    hosts.scatter()
    top.monitor.apply([*hosts.announcements(), *hosts.telemetry()])
    return hosts


def test_rules_about_forwarded_chips_are_their_cells() -> None:
    """The same chips without a relay fire here."""
    for is_forwarded in (True, False):
        top = Top(rules=(HOT_AT_ALL,))
        top.frame(POWERS)
        hosts = leased(top)
        if not is_forwarded:
            hosts.forwarded = None
            hosts.restart("boot-2")
            top.monitor.apply([*hosts.announcements(), *hosts.telemetry()])
        seen = top.look()
        assert (seen.live_chips, seen.rolled_chips) == (144, 80)
        assert seen.forwarded_chips == (64 if is_forwarded else 0)
        assert (not top.monitor.alerts.active()) is is_forwarded


@pytest.mark.parametrize("has_will", [True, False])
async def test_forwarded_chips_are_not_observed_with_their_relay(*, has_will: bool) -> None:
    """Forwarded chips are not observed when their relay ends, and never stale before.

    The relay ends by last will or by silence, a little after their own telemetry.
    """
    top = Top()
    leased(top)
    await top.clock.advance(0.9)
    top.frame(POWERS)
    online = PublisherMessage(client="relay-1", state="online", boot=BOOT)
    top.take(TopicClass.PUBLISHER, "relay-1", online)
    assert top.look().live_chips == 144
    if has_will:
        top.take(TopicClass.PUBLISHER, "relay-1", msgspec.structs.replace(online, state="offline"))
    states = set()
    for _ in range(20):
        await top.clock.advance(0.2)
        top.look()
        store = top.monitor.store
        states |= set(store.chip_state[store.is_forwarded[store.layout.instance_of_chip]].tolist())
    assert states == {Freshness.LIVE, Freshness.UNOBSERVED}
    assert top.look().unobserved_chips == 144


def test_the_presence_of_a_forwarded_host_is_asked_for_where_it_is() -> None:
    """A forwarded host's presence is requested at its own topic, until received.

    A relay forwards it unchanged, so it is not below the cell's name like the relay's own.
    """
    top = Top()
    hosts = Feed(ultraservers(1))
    hosts.forwarded = ForwardedBy(cell="cell-a", relay="relay-1", boot=BOOT)
    presence, *descriptors = hosts.announcements()
    top.monitor.apply(descriptors)
    missing = top.monitor.ingest.missing
    missing.due(100.0)
    asked = missing.due(101.0)
    assert (TopicClass.PUBLISHER, hosts.publisher) in asked
    assert (TopicClass.PUBLISHER, f"cell-a/{hosts.publisher}") not in asked
    top.monitor.apply([presence, *descriptors])
    assert (TopicClass.PUBLISHER, hosts.publisher) not in missing.due(500.0)


async def test_a_silent_host_is_stale_while_its_relay_is_heard() -> None:
    """Its UltraServer's other hosts are live."""
    top = Top()
    hosts = leased(top)
    for _ in range(5):
        await top.clock.advance(1.0)
        top.frame(POWERS)
        top.monitor.apply(hosts.telemetry(list(hosts.layout.instances[1:])))
    seen = top.look()
    assert (seen.stale_chips, seen.unobserved_chips, seen.live_chips) == (16, 0, 128)


def test_what_a_former_boot_of_the_relay_forwarded_is_void() -> None:
    """Data forwarded by a relay's former boot is dropped, and refused afterwards.

    It is dropped when another boot's roll-ups are described, even if partly cleared before.
    """
    top = framed_top(POWERS)
    hosts = leased(top)
    assert top.look().rolled_chips == 80
    described = [each.topic for each in hosts.announcements() if NODE in each.topic]
    top.monitor.apply([Envelope(described[0], b"")])
    top.describe("next")
    top.frame(POWERS)
    assert (top.look().rolled_chips, top.look().live_chips) == (144, 144)
    leased(top)
    assert top.look().rolled_chips == 144
    hosts = leased(top, "next")
    assert top.look().rolled_chips == 80
    top.monitor.apply([Envelope(topic, b"") for topic in described])
    assert (top.look().rolled_chips, top.look().live_chips) == (144, 144)
    assert top.monitor.counts.undecodable == 0


def test_leases_that_come_and_go_use_up_no_rebuilds_of_the_hosts_publisher() -> None:
    """Changing leases use the rebuilds of their own paths, not of the hosts' publisher.

    One simulator may publish all hosts of a cell.
    """
    top = framed_top(POWERS)
    hosts = leased(top)
    top.look()
    top.monitor.apply(
        [Envelope(each.topic, b"") for each in hosts.announcements() if NODE in each.topic]
    )
    assert top.monitor.ingest.layout_changers == set(hosts.layout.instances)


async def test_a_publisher_whose_hosts_are_forwarded_no_more_is_not_silent() -> None:
    """A silent publisher of forwarded hosts is reported until the lease ends.

    Then it goes on in its cell.
    """
    top = framed_top(POWERS)
    hosts = leased(top)
    top.look()
    for _ in range(5):
        await top.clock.advance(1.0)
        top.show(POWERS)
    assert "publisher-silent" in {each.name for each in top.monitor.pipeline(at_once=True).problems}
    top.monitor.apply(
        [Envelope(each.topic, b"") for each in hosts.announcements() if NODE in each.topic]
    )
    top.look()
    assert top.monitor.pipeline(at_once=True).problems == ()
    assert top.monitor.pipeline(at_once=True).problems == ()


async def test_hosts_of_a_relay_that_is_gone_are_not_silent() -> None:
    """Of a lost relay only the relay is silent, not its hosts.

    Others are heard, so the connection is not lost.
    """
    top = framed_top(POWERS)
    leased(top)
    top.look()
    elsewhere = Feed(standalone(1, cluster="uc2"))
    elsewhere.publisher, elsewhere.clock = "elsewhere", top.clock
    top.monitor.apply(elsewhere.announcements())
    for _ in range(6):
        await top.clock.advance(1.0)
        top.monitor.apply(elsewhere.telemetry())
        top.look()
    silent = [
        each.where
        for each in top.monitor.pipeline(at_once=True).problems
        if each.name == "publisher-silent"
    ]
    assert silent == ["publisher relay-1"]
    assert top.look().unobserved_chips == 144
