from __future__ import annotations

import numpy as np
from support.monitor.feed import Feed, ultraservers
from support.monitor.state import unpacked

from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.wire.limits import Limits

REBOOTED = "uc1/us-0001/trn2u-0001-1"


def test_an_instance_that_booted_again_goes_with_its_publisher() -> None:
    """A boot named only by a descriptor is online while its client is.

    It survives reconnects and ends with the last will.
    """
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.describe()
    feed.tick()
    feed.boot, run = "boot-of-instance", feed.boot
    again = feed.announcements([REBOOTED])[1]
    feed.boot = run
    feed.monitor.apply([again])
    feed.monitor.apply([feed.publisher_envelope("online")])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.OFFLINE) == 0
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.OFFLINE) == 64
    summary = feed.monitor.summary()
    assert (summary.publishers, summary.publishers_online) == (1, 0)


def test_a_boot_of_one_instance_leaves_the_others_their_own() -> None:
    """An instance's new boot takes the number of its former one only if no other instance has it.

    The presence was cleared, so that the former boot is not announced; then all is as before.
    """
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.publisher_envelope("online")._replace(payload=b"")])
    run = feed.boot
    feed.boot = "boot-of-instance"
    feed.monitor.apply([feed.announcements([REBOOTED])[1], feed.publisher_envelope("online")])
    feed.boot = run
    feed.monitor.apply(feed.announcements())
    feed.tick()
    feed.monitor.compute()
    assert feed.monitor.store.count(Freshness.LIVE) == 64


def test_booting_again_and_again_uses_no_numbers_up() -> None:
    """Only one of consecutive unannounced boots is retained."""
    publishers = Publishers()
    run = publishers.number("sim", "run")
    publishers.announce(run, online=True)
    former = "run"
    for boot in map(str, range(50)):
        state = publishers.number("sim", boot, described=True, former_boot=former)
        assert state.number == 1
        former = boot
    assert len(publishers) == 2
    assert publishers.find("sim", "run") is run
    assert publishers.online().tolist() == [True, True, True]
    publishers.announce(run, online=False)
    assert publishers.online().tolist() == [False, False, True]


def test_starts_are_limited() -> None:
    """Boots above the limit are refused, and known ones stay.

    No client uses up the room of others.
    """
    publishers = Publishers(Limits(publishers=1))
    publishers.number("a", "1", described=True)
    assert publishers.refusal("b", "1", described=True) == "more than 1 publishers"
    assert publishers.refusal("a", "1", described=True) is None
    many = Publishers(Limits(publishers=320))
    boots = 0
    while many.refusal("a", str(boots), described=True) is None:
        many.number("a", str(boots), described=True)
        boots += 1
    assert boots == 300
    assert many.refusal("b", "1", described=True) is None


def test_made_up_publishers_leave_room_for_those_that_describe_something() -> None:
    """Publishers without a descriptor have little room.

    A described one counts elsewhere until no descriptor names it.
    """
    publishers = Publishers(Limits(publishers=1_000, undescribed=2))

    def come(client: str) -> str | None:
        why = publishers.refusal(client, "1")
        if why is None:
            publishers.announce(publishers.number(client, "1"), online=True)
        return why

    assert [come(client) for client in "ab"] == [None, None]
    assert come("c") == "more than 2 publishers that describe nothing"
    assert publishers.refusal("c", "1", described=True) is None
    state = publishers.number("c", "1", described=True)
    # Its announcement was refused: its last will is heard all the same.
    publishers.announce(state, online=False)
    assert publishers.clients() == {"a": True, "b": True, "c": False}
    publishers.number("a", "1", described=True)
    assert come("d") is None
    assert come("e") is not None
    publishers.keep({("c", "1")})
    assert publishers.clients() == {"a": True, "b": True, "c": False}


def test_what_is_described_takes_the_place_of_the_oldest_presence() -> None:
    """In a full table a described boot replaces the oldest presence.

    It gets its number. The last will of the replaced one has no effect.
    """
    publishers = Publishers(Limits(publishers=4, undescribed=4))
    for client in "abcd":
        publishers.announce(publishers.number(client, "1"), online=client != "b")
    assert publishers.refusal("e", "1") == "more than 4 publishers"
    publishers.number("a", "1", described=True)
    assert publishers.refusal("e", "1", described=True) is None
    assert publishers.number("e", "1", described=True).number == 1
    assert publishers.clients() == {"a": True, "c": True, "d": True, "e": True}
    assert publishers.is_client_online("b")
    twin = unpacked(publishers)
    for client in "fg":
        assert twin.refusal(client, "1", described=True) is None
        twin.number(client, "1", described=True)
    assert twin.refusal("h", "1", described=True) == "more than 4 publishers"
    assert sorted(twin.names().items()) == [(0, "a"), (1, "e"), (2, "f"), (3, "g")]
    assert publishers.names() == {0: "a", 1: "e", 2: "c", 3: "d"}
    assert "b" in publishers.traffic.names
    publishers.keep({("a", "1"), ("e", "1")})
    assert "b" not in publishers.traffic.names
    assert publishers.number("x", "1", described=True).number == 1
    assert publishers.names() == {0: "a", 1: "x", 2: "d", 3: "e"}


def test_a_new_start_takes_the_place_of_the_former_ones() -> None:
    """A client is online in its newest boot only.

    A cleared presence removes all.
    """
    publishers = Publishers()
    states = [publishers.number("sim", str(boot), described=True) for boot in range(3)]
    for state in states:
        assert publishers.announce(state, online=True)
        assert not publishers.announce(state, online=True)
    assert [publishers.is_online(state) for state in states] == [False, False, True]
    publishers.announce(states[0], online=False)
    assert publishers.clients() == {"sim": True}
    publishers.announce(states[2], online=False)
    assert publishers.clients() == {"sim": False}
    assert not publishers.clear("sim")
    assert publishers.online().tolist() == [True] * 4
    publishers.announce(states[1], online=False)
    assert publishers.online().tolist() == [False, False, False, True]
    publishers.announce(states[1], online=True)
    assert publishers.online().tolist() == [True, True, True, True]


def test_a_cleared_presence_leaves_nothing() -> None:
    """A client without a descriptor is removed at once, with its former boots."""
    publishers = Publishers()
    described = publishers.number("host", "1", described=True)
    for client, boot in (("host", "1"), ("alone", "1"), ("alone", "2"), ("gone", "1")):
        publishers.announce(publishers.number(client, boot), online=client != "gone")
    assert len(publishers) == 3
    assert publishers.clear("alone")
    assert publishers.clear("gone")
    assert not publishers.clear("host")
    assert not publishers.clear("never-there")
    assert (publishers.clients(), publishers.has_announced("host")) == ({"host": True}, False)
    assert publishers.is_online(described)
    publishers.drop([("host", "1")])
    assert (len(publishers), publishers.traffic.names) == (0, [""])


def test_a_forgotten_publisher_gets_a_new_number() -> None:
    """Offline, undescribed boots are removed.

    The rest are renumbered.
    """
    publishers = Publishers()
    for client in "abc":
        state = publishers.number(client, "1")
        publishers.announce(state, online=client != "a")
    publishers.keep({("b", "1")})
    assert publishers.clients() == {"b": True, "c": True}
    assert publishers.online().tolist() == [True] * 3
    kept = publishers.find("b", "1")
    assert kept is not None
    publishers.announce(kept, online=False)
    assert publishers.online().tolist() == [False, True, True]
    assert publishers.clients() == {"b": False, "c": True}


def test_names_and_boots_are_those_of_now() -> None:
    """Earlier results neither change nor hide a new, offline or removed boot."""
    publishers = Publishers()
    first = publishers.number("a", "1", described=True)
    names = publishers.names()
    online = publishers.boots_online()
    second = publishers.number("b", "2")
    assert (names, online) == ({0: "a"}, {"1"})
    assert publishers.names() == {first.number: "a", second.number: "b"}
    assert publishers.boots_online() == {"1", "2"}
    publishers.announce(second, online=False)
    assert publishers.boots_online() == {"1"}
    publishers.clear("b")
    assert publishers.boots_online() == {"1"}
    assert unpacked(publishers).names() == publishers.names() == {0: "a"}
    publishers.announce(publishers.number("b", "2"), online=False)
    publishers.keep({("a", "1")})
    assert publishers.names() == {0: "a"}


def test_presence_follows_what_is_announced() -> None:
    """Presence equals a scan of all boots after any change.

    Earlier results are unchanged.
    """
    random = np.random.default_rng(5)
    publishers = Publishers(Limits(publishers=12, undescribed=12))
    for _ in range(2_000):
        client = f"c{random.integers(6)}"
        boot = f"b{random.integers(3)}"
        before = publishers.online()
        values = before.tolist()
        action = random.integers(8)
        described = bool(random.integers(2))
        if action < 5 and publishers.refusal(client, boot, described=described) is None:
            state = publishers.number(
                client, boot, described=described, former_boot=str(random.choice(["", "b0"]))
            )
            if action < 3:
                publishers.announce(state, online=bool(random.integers(2)))
        elif action in {5, 6}:
            publishers.clear(client)
        elif random.random() < 0.3:
            publishers.drop([(client, boot)])
            assert sorted(publishers.traffic.names[1:]) == sorted(publishers.clients())
        assert before.tolist() == values
        assert publishers.online().tolist() == unpacked(publishers).online().tolist()
        assert publishers.rows().tolist() == unpacked(publishers).rows().tolist()


def test_what_goes_makes_room_for_what_is_named_no_more() -> None:
    """An online, no longer described boot stays if removed ones leave room.

    As with a layout built from nothing.
    """
    every = {}
    for way in ("drop", "keep"):
        publishers = Publishers(Limits(publishers=8, undescribed=2))
        publishers.announce(publishers.number("named", "1", described=True), online=True)
        for client in "ab":
            publishers.announce(publishers.number(client, "1"), online=False)
        if way == "drop":
            publishers.drop([("named", "1")])
        else:
            publishers.keep(set())
        every[way] = publishers.clients()
    assert every == {"drop": {"named": True}, "keep": {"named": True}}
