"""An operator's connections for leases, over a broker in memory."""

from __future__ import annotations

from support.memory_bus import MemoryBus
from support.monitor.feed import Feed, ultraservers

from trnfleet.monitor.sources.leases import Leases, LeaseState
from trnfleet.services.operator import hold_leases
from trnfleet.tasks import background
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_filter


class Session(MemoryBus):
    """A session with a broker in memory."""

    root = DEFAULT_ROOT


async def test_a_lease_that_the_broker_does_not_let_be_asked_for_says_so() -> None:
    """A refused lease request shows the broker's reason, not a relay's missing answer."""
    session = Session()
    feed = Feed(ultraservers(1))
    session.refuse(build_filter("demo", TopicClass.COMMAND))
    leases = Leases("demo", client="viewer")
    leases.open("uc1/us-0001", "cell-a", feed.clock.monotonic_s())
    (lease,) = leases.held
    work = hold_leases(session, feed.monitor, leases)  # type: ignore[arg-type]  # what it has of a session is all that is used
    async with background(leases=work):
        for _ in range(20):
            await feed.clock.advance(0.0)
    assert (lease.state, "not authorised" in lease.reason) == (LeaseState.REFUSED, True)
