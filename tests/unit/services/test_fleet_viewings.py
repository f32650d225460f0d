"""New fleets on a broker while an app shows others."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

from support.memory_bus import MemoryBus, MemorySource
from support.monitor.feed import Feed, ultraservers

from trnfleet.clock import SystemClock
from trnfleet.domain.site import DEFAULT_SITE
from trnfleet.services.discovery import FoundFleet
from trnfleet.services.viewing import FleetViewings, NotShown, Viewing
from trnfleet.tasks import background
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.brokers import FleetSession

MIB = 2**20


class MemorySession:
    """The session with a bus in memory."""

    root = DEFAULT_ROOT
    url = "memory"
    urls = ()

    def __init__(self) -> None:
        self.bus = MemoryBus()
        self.clock = SystemClock()

    def source(self, filters: Iterable[tuple[str, int]], **_options: Any) -> MemorySource:
        return self.bus.source(list(filters))

    def announce(self, name: str, state: str = "online") -> None:
        """Let the publisher of a fleet announce itself and its chips."""
        feed = Feed(ultraservers(1), fleet=name)
        for envelope in (*feed.announcements(), feed.publisher_envelope(state)):
            self.bus.deliver(envelope)


def viewings(stack: contextlib.ExitStack, *, past_bytes: int = 0) -> FleetViewings:
    return FleetViewings(
        stack, rules=(), owner=None, may_write=False, site=DEFAULT_SITE, past_bytes=past_bytes
    )


async def test_fleets_that_come_are_shown_up_to_a_number_and_named_beyond_it() -> None:
    """Each new fleet is shown once, when its publisher is online.

    An offline fleet, or one already shown, is not new.
    """
    session = MemorySession()
    there = cast("FleetSession", session)
    with contextlib.ExitStack() as stack:
        shown = viewings(stack)
        shown.add([FoundFleet("alpha", there)])
        async with background(**shown.running, follow=shown.follow(there, most=2)):
            arrivals = shown.arrivals()
            session.announce("alpha")
            session.announce("beta", "offline")
            session.announce("beta")
            beta = await anext(arrivals)
            assert isinstance(beta, Viewing)
            assert beta.state.fleet_name == "beta"
            while not beta.state.store.layout.chips:
                await session.clock.sleep(0.01)
            session.announce("beta")
            session.announce("gamma")
            assert await anext(arrivals) == NotShown("gamma")
        assert list(shown.shown) == ["alpha", "beta"]


async def test_a_fleet_that_has_gone_takes_no_place() -> None:
    """A former fleet stays on the screen and makes room for another.

    The number of former fleets is limited.
    """
    session = MemorySession()
    there = cast("FleetSession", session)
    with contextlib.ExitStack() as stack:
        shown = viewings(stack)
        shown.add([FoundFleet("alpha", there)])

        async def end(name: str) -> None:
            """Let the only publisher of a fleet go, and wait until its monitor knows."""
            session.announce(name)
            session.announce(name, "offline")
            monitor = cast("Monitor", shown.shown[name].state)
            while (
                not len(monitor.pipeline(at_once=True).publishers)
                or monitor.pipeline(at_once=True).publishers_online
            ):
                await session.clock.sleep(0.01)

        async with background(**shown.running, follow=shown.follow(there, most=1)):
            arrivals = shown.arrivals()
            await end("alpha")
            session.announce("beta")
            beta = await anext(arrivals)
            assert isinstance(beta, Viewing)
            assert list(shown.shown) == ["alpha", "beta"]
            await end("beta")
            session.announce("gamma")
            assert await anext(arrivals) == NotShown("gamma")


async def test_the_past_is_shared_out_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new fleet gets its share of the disk from the others.

    If the share is too small it has no past, and the others keep theirs.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = cast("FleetSession", MemorySession())
    with contextlib.ExitStack() as stack:
        shown = viewings(stack, past_bytes=15 * MIB)

        def shares() -> list[int]:
            return [
                each.buffer.disk_bytes // MIB
                for each in shown.shown.values()
                if each.buffer is not None
            ]

        found = []
        for name in "abcd":
            shown.add([FoundFleet(name, there)])
            found.append(shares())
        assert found == [[15], [7, 7], [5, 5, 5], [5, 5, 5]]
        for viewing in shown.shown.values():
            for work in viewing.running.values():
                work.close()
