"""The pipeline as one value: it shows publishers and connection, and its sums add up."""

from __future__ import annotations

import math

import pytest
from support.monitor.hosts import Hosts, line_of

from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.wire.ports import STOPPED, LinkStatus


async def test_each_publisher_has_its_chips_rates_and_losses() -> None:
    """Hosts of 16 chips have their rates.

    A host that misses two ticks lost two.
    """
    hosts = Hosts(3)
    for number in range(16):
        await hosts.tick(without=("host-2",) if number in {5, 6} else ())
    health = hosts.health()
    table = health.publishers
    assert table.names == ("host-1", "host-2", "host-3")
    assert table.chips.tolist() == [16, 16, 16]
    assert table.paths.tolist() == [1, 1, 1]
    assert table.messages.tolist() == [16, 14, 16]
    assert table.lost.tolist() == [0, 2, 0]
    assert table.messages_per_s == pytest.approx([1.0, 1.0, 1.0], abs=0.2)
    assert table.bytes_per_s[0] == pytest.approx(table.size_bytes[0] / 16, rel=0.1)
    assert table.state.tolist() == [State.ONLINE] * 3
    assert table.lag_median_s().tolist() == [0.0, 0.0, 0.0]
    assert "2 of them of host-2" in line_of(health, "messages-lost")
    assert health.counts.unaccounted(health.pending) == health.counts.unaccounted_ticks == 0
    # An instance that another publishes from now on is that one's.
    store = hosts.feed.monitor.store
    store.publisher_of[1] = store.publisher_of[0]
    store.revision += 1
    assert hosts.health().publishers.chips.tolist() == [32, 0, 16]


async def test_silent_and_offline_publishers_are_told_apart() -> None:
    """An online publisher without messages for three periods is silent.

    A gone one is offline.
    """
    hosts = Hosts(4)
    for _ in range(5):
        await hosts.tick()
    hosts.feed.publisher = "host-4"
    hosts.feed.monitor.apply([hosts.feed.publisher_envelope("offline")])
    for _ in range(6):
        await hosts.tick(without=("host-3", "host-4"))
    health = hosts.health()
    table = health.publishers
    assert [State(each).word for each in table.state] == ["online", "online", "silent", "offline"]
    assert table.for_s[2] == table.quiet_s[2] == 6.0
    assert table.for_s[3] == 6.0
    assert health.publishers_online == 3
    assert line_of(health, "publisher-silent") == "1 of 4 publishers is silent: host-3"
    assert line_of(health, "publisher-offline") == "1 of 4 publishers is offline: host-4"
    assert health.problems[0].name == "publisher-offline"
    assert [each.severity.rank for each in health.problems] == sorted(
        each.severity.rank for each in health.problems
    )


async def test_nobody_is_silent_while_nothing_can_be_heard() -> None:
    """Without a connection the publishers are as they were, and the connection is the problem."""
    hosts = Hosts(2)
    for _ in range(3):
        await hosts.tick()
    link = hosts.feed.monitor.link
    link.connected, link.changed_s = False, hosts.feed.clock.monotonic_s()
    link.last_error = "connection refused"
    for _ in range(8):
        await hosts.tick(without=("host-1", "host-2"))
    health = hosts.health()
    assert health.publishers.state.tolist() == [State.ONLINE] * 2
    first = health.problems[0]
    assert (first.name, first.severity) == ("connection-lost", Severity.CRITICAL)
    assert first.text == "no connection to mqtt://127.0.0.1:1883 for 8 s: connection refused"


async def test_a_connection_that_only_reads_is_a_problem_of_its_own() -> None:
    """A read-only connection is a problem with its broker and reason until its cause ends.

    The figures go on meanwhile.
    """
    hosts = Hosts(1)
    link = hosts.feed.monitor.link
    link.pair(LinkStatus(last_error="not authorised"))
    await hosts.tick()
    health = hosts.health()
    (problem,) = health.problems
    assert (problem.name, problem.severity) == ("cannot-write", Severity.WARNING)
    assert problem.text.endswith("do not get through to mqtt://127.0.0.1:1883: not authorised")
    assert health.brokers[0].connected
    assert link.writer is not None
    link.writer.connected = True
    await hosts.tick()
    assert not hosts.health().problems


def test_each_of_several_brokers_is_written_to_beside_it() -> None:
    """Connections for writing match the readers' brokers, in order."""
    parts = LinkStatus("a"), LinkStatus("b")
    LinkStatus(parts=parts).pair(
        LinkStatus(parts=(LinkStatus(connected=True), LinkStatus(last_error="x")))
    )
    assert [each.cannot_write for each in parts] == ["", "x"]
    parts[0].pair(LinkStatus(last_error=STOPPED))
    assert parts[0].cannot_write == ""


async def test_a_clock_is_compared_with_the_median_of_all() -> None:
    """A host 9 s ahead is named.

    Its peers' clocks are right by both measures.
    """
    hosts = Hosts(5, origin="neuron")
    for _ in range(4):
        await hosts.tick(ahead_s={"host-4": 9.0})
    health = hosts.health()
    assert health.publishers.skew_s == pytest.approx([0, 0, 0, 9, 0], abs=0.01)
    assert health.publishers.skew_to_median_s == pytest.approx([0, 0, 0, 9, 0], abs=0.01)
    assert health.publishers.own_skew_s == 0.0
    assert line_of(health, "clock-skew") == "the clock of publisher host-4 is 9 s ahead of ours"


async def test_our_own_clock_is_at_fault_where_all_others_agree() -> None:
    """If most publishers are equally ahead, this machine is behind."""
    hosts = Hosts(5, origin="neuron")
    for _ in range(4):
        await hosts.tick(ahead_s=dict.fromkeys(hosts.names, 30.0))
    health = hosts.health()
    assert health.publishers.skew_to_median_s == pytest.approx([0] * 5, abs=0.01)
    assert health.publishers.own_skew_s == pytest.approx(-30.0, abs=0.01)
    assert (
        line_of(health, "clock-skew")
        == "this machine's clock is 30 s behind that of most publishers"
    )


async def test_a_restart_is_counted_and_a_repeated_announcement_is_not() -> None:
    """A publisher's new boot is a restart.

    A repeated announcement is not.
    """
    hosts = Hosts(1)
    feed = hosts.feed
    feed.publisher = "host-1"
    feed.monitor.apply([feed.publisher_envelope("online")])
    feed.restart("boot-2")
    feed.monitor.apply([feed.publisher_envelope("online"), feed.publisher_envelope("online")])
    health = hosts.health()
    assert (health.publishers.restarts[0], health.publishers.boots[0]) == (1, "boot-2")


async def test_what_is_forgotten_stays_in_the_sums() -> None:
    """A publisher with a withdrawn descriptor has no row, but its messages still count."""
    hosts = Hosts(3)
    for _ in range(3):
        await hosts.tick()
    feed = hosts.feed
    feed.publisher = "host-2"
    offline = feed.publisher_envelope("offline")
    node = feed.announcements(hosts.paths[1:2])
    feed.monitor.apply(
        [offline, *(each._replace(payload=b"") for each in node if "/node/" in each.topic)]
    )
    await hosts.tick(without=("host-2",))
    health = hosts.health()
    assert health.publishers.names == ("host-1", "host-3")
    assert health.publishers.messages.tolist() == [4, 4]
    assert health.publishers.messages_of_none == 3
    assert health.publishers.messages.sum() + 3 == health.counts.messages


async def test_a_loss_is_a_warning_for_a_minute_and_is_told_for_ever() -> None:
    """What was lost stays in the list as an information once nothing more is lost."""
    hosts = Hosts(1)
    for number in range(6):
        await hosts.tick(without=("host-1",) if number == 3 else ())
    lost = next(each for each in hosts.health().problems if each.name == "messages-lost")
    assert (lost.severity, lost.short) == (Severity.WARNING, "lost 1")
    for _ in range(62):
        await hosts.tick()
    lost = next(each for each in hosts.health().problems if each.name == "messages-lost")
    assert (lost.severity, lost.short) == (Severity.INFO, "lost 1")
    assert lost.text.endswith("none within 1 min 00 s")


async def test_the_value_stands_for_a_second_and_never_changes() -> None:
    """All readers within a second get the same value, unchanged by later messages."""
    hosts = Hosts(2)
    await hosts.tick()
    monitor = hosts.feed.monitor
    first = monitor.pipeline()
    messages = first.counts.messages
    await hosts.feed.clock.advance(0.5)
    monitor.apply(hosts.feed.telemetry())
    assert monitor.pipeline() is first
    assert first.counts.messages == messages
    with pytest.raises(ValueError, match="read-only"):
        first.publishers.messages[0] = 1
    await hosts.feed.clock.advance(0.6)
    assert monitor.pipeline().counts.messages == messages + 2


async def test_a_publisher_of_a_message_a_minute_has_a_rate_and_a_lag() -> None:
    """Rates go from arrival to arrival and lags by the last message, however rare."""
    hosts = Hosts(1)
    hosts.feed.period_s = 60.0
    hosts.feed.publisher = "host-1"
    hosts.feed.describe()
    for number in range(300):
        await hosts.tick(without=() if number % 60 == 0 else ("host-1",))
    table = hosts.health().publishers
    assert table.messages_per_s[0] == pytest.approx(1 / 60, rel=0.05)
    assert not math.isnan(table.lag_max_s[0])
    assert table.state[0] == State.ONLINE


async def test_an_observation_that_is_over_stays_what_was_seen() -> None:
    """A connection we end ourselves is no outage: status prints the state before."""
    hosts = Hosts(1)
    await hosts.tick()
    seen = hosts.health()
    link = hosts.feed.monitor.link
    link.connected = False
    link.last_error = STOPPED
    await hosts.feed.clock.advance(5.0)
    assert hosts.health() is seen
    assert seen.problems == ()
