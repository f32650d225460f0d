from __future__ import annotations

import numpy as np
from support.monitor.feed import Feed, ultraservers

from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.store.store import Freshness
from trnfleet.wire.limits import Limits

REBOOTED = "uc1/us-0001/trn2u-0001-1"


def test_an_instance_that_booted_again_goes_with_its_publisher() -> None:
    """A start that only a descriptor names is there while its client is: reconnects keep it, the last will ends it."""
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


def test_booting_again_and_again_uses_no_numbers_up() -> None:
    """Of starts that follow each other and are not announced, one is kept."""
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
    """Beyond the limit there is none, what is known stays known, and no client leaves nothing to the others."""
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
    """Who describes nothing has a small room; one that a descriptor names counts elsewhere from then on, until nothing names it."""
    publishers = Publishers(Limits(publishers=1_000, undescribed_publishers=2))

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
    """Presences take all room that there is; with no more left a described boot has the number of the oldest, whose last will is no matter."""
    publishers = Publishers(Limits(publishers=4, undescribed_publishers=4))
    for client in "abcd":
        publishers.announce(publishers.number(client, "1"), online=client != "b")
    assert publishers.refusal("e", "1") == "more than 4 publishers"
    publishers.number("a", "1", described=True)
    assert publishers.refusal("e", "1", described=True) is None
    assert publishers.number("e", "1", described=True).number == 1
    assert publishers.clients() == {"a": True, "c": True, "d": True, "e": True}
    assert publishers.is_client_online("b")
    twin = publishers.copy()
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
    """A client is online in one boot, its newest; after its presence was cleared all of its boots are, until it speaks again."""
    publishers = Publishers()
    states = [publishers.number("sim", str(boot)) for boot in range(3)]
    for state in states:
        assert publishers.announce(state, online=True)
        assert not publishers.announce(state, online=True)
    assert [publishers.is_online(state) for state in states] == [False, False, True]
    publishers.announce(states[0], online=False)
    assert publishers.clients() == {"sim": True}
    publishers.announce(states[2], online=False)
    assert publishers.clients() == {"sim": False}
    publishers.clear("sim")
    assert publishers.online().tolist() == [True] * 4
    publishers.announce(states[1], online=False)
    assert publishers.online().tolist() == [True, False, True, True]
    publishers.announce(states[1], online=True)
    assert publishers.online().tolist() == [False, True, False, True]


def test_a_forgotten_publisher_gets_a_new_number() -> None:
    """Starts that are gone and that nobody describes go; the rest follow each other."""
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
    """What was read before does not hide a boot that came, went offline, or was forgotten since, nor is it changed itself."""
    publishers = Publishers()
    first = publishers.number("a", "1", described=True)
    names, online = publishers.names(), publishers.boots_online()
    second = publishers.number("b", "2")
    assert (names, online) == ({0: "a"}, {"1"})
    assert publishers.names() == {first.number: "a", second.number: "b"}
    assert publishers.boots_online() == {"1", "2"}
    publishers.announce(second, online=False)
    assert publishers.boots_online() == {"1"}
    publishers.clear("b")
    assert publishers.boots_online() == {"1", "2"}
    assert publishers.copy().names() == publishers.names()
    publishers.announce(second, online=False)
    publishers.keep({("a", "1")})
    assert publishers.names() == {0: "a"}


def test_presence_follows_what_is_announced() -> None:
    """Whatever is announced, named, cleared and forgotten, presence is what a look at all boots finds, and what was read stays as it was."""
    random = np.random.default_rng(5)
    publishers = Publishers(Limits(publishers=12, undescribed_publishers=12))
    for _ in range(2_000):
        client, boot = f"c{random.integers(6)}", f"b{random.integers(3)}"
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
        elif action == 5:
            publishers.clear(client)
        elif action == 6:
            publishers.retire(client)
        elif random.random() < 0.3:
            publishers.drop([(client, boot)])
            assert sorted(publishers.traffic.names[1:]) == sorted(publishers.clients())
        assert before.tolist() == values
        assert publishers.online().tolist() == publishers.copy().online().tolist()
        assert publishers.rows().tolist() == publishers.copy().rows().tolist()


def test_what_goes_makes_room_for_what_is_named_no_more() -> None:
    """A boot that is there, and described no more, stays where those that go leave room for it, as with a layout that is made from nothing."""
    every = {}
    for way in ("drop", "keep"):
        publishers = Publishers(Limits(publishers=8, undescribed_publishers=2))
        publishers.announce(publishers.number("named", "1", described=True), online=True)
        for client in "ab":
            publishers.announce(publishers.number(client, "1"), online=False)
        if way == "drop":
            publishers.drop([("named", "1")])
        else:
            publishers.keep(set())
        every[way] = publishers.clients()
    assert every == {"drop": {"named": True}, "keep": {"named": True}}
