from __future__ import annotations

from support.monitor.feed import Feed, ultraservers

from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.store.store import Freshness

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
    run = publishers.number("sim", "run", limit=9)
    assert run is not None
    publishers.announce(run, online=True)
    former = "run"
    for boot in map(str, range(50)):
        state = publishers.number("sim", boot, limit=9, former_boot=former)
        assert state is not None
        assert state.number == 1
        former = boot
    assert len(publishers) == 2
    assert publishers.find("sim", "run") is run
    assert publishers.online().tolist() == [True, True, True]
    publishers.announce(run, online=False)
    assert publishers.online().tolist() == [False, False, True]


def test_starts_are_limited() -> None:
    """Beyond the limit there is none, and what is known stays known."""
    publishers = Publishers()
    assert publishers.number("a", "1", limit=1) is not None
    assert publishers.number("b", "1", limit=1) is None
    assert publishers.number("a", "1", limit=1) is not None


def test_a_forgotten_publisher_gets_a_new_number() -> None:
    """Starts that are gone and that nobody describes go; the rest follow each other."""
    publishers = Publishers()
    for client in "abc":
        state = publishers.number(client, "1", limit=9)
        assert state is not None
        publishers.announce(state, online=client != "a")
    publishers.keep({("b", "1")})
    assert publishers.clients() == {"b": True, "c": True}
    assert publishers.online().tolist() == [True] * 3
    state = publishers.find("b", "1")
    assert state is not None
    publishers.announce(state, online=False)
    assert publishers.online().tolist() == [False, True, True]
