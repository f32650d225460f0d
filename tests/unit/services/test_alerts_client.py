"""Detection of a fleet's online watches and publishers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.memory_bus import MemoryBus, MemorySource

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.domain.alerts.watches import WatchPresence
from trnfleet.services.alerts_client import (
    WITHHELD,
    Publishers,
    find_publishers,
    read_alerts,
    silence_facts,
)
from trnfleet.services.session import BrokerSession
from trnfleet.transport.url import parse_url
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import PublisherMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BEGIN_NS = 1_700_000_000 * NS_PER_S


class Script:
    """A source with messages planned by the second.

    Without one, time passes until the end of the plan.
    """

    def __init__(self, clock: ManualClock, plan: dict[float, list[Envelope]]) -> None:
        self.status = LinkStatus(connected=True)
        self._clock = clock
        self._plan = plan
        self._begun_s = clock.monotonic_s()

    async def take(self) -> list[Envelope]:
        """Return what is due."""
        now_s = self._clock.monotonic_s() - self._begun_s
        due = [at_s for at_s in self._plan if at_s <= now_s]
        if due:
            return self._plan.pop(due[0])
        await self._clock.advance(0.5)
        raise TimeoutError

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


def presence(
    client: str = "w",
    state: str = "online",
    *,
    ts_s: float | None = None,
    since_s: float = -600,
    retain: bool = True,
    **more: Any,
) -> Envelope:
    """Return a watch's presence message.

    Times are seconds from the beginning.
    """
    message = msgspec.convert(
        {
            "client": client,
            "state": state,
            "boot": "b",
            "role": "watch",
            "since": format_rfc3339(BEGIN_NS + round(since_s * NS_PER_S)),
            "ts": None if ts_s is None else format_rfc3339(BEGIN_NS + round(ts_s * NS_PER_S)),
            **more,
        },
        WatchMessage,
    )
    return Envelope(f"trnfleet/v1/demo/publisher/{client}", encode_message(message), 1, retain)


SIMULATOR = Envelope(
    "trnfleet/v1/demo/publisher/sim",
    encode_message(PublisherMessage(client="sim", state="online", boot="b")),
    1,
    retain=True,
)


async def found(*at_once: Envelope, **later: Sequence[Envelope]) -> tuple[Publishers, float]:
    """Return what is found, and after how long."""
    clock = ManualClock(BEGIN_NS, 100.0)
    plan = {
        0.0: list(at_once),
        **{float(at_s.removeprefix("s")): list(each) for at_s, each in later.items()},
    }
    publishers = await find_publishers(Script(clock, plan), "trnfleet", clock)
    return publishers, clock.monotonic_s() - 100.0


async def test_a_watch_with_a_fresh_heartbeat_is_there_at_once() -> None:
    """A fresh time in its retained message proves a watch online without a wait."""
    publishers, after_s = await found(presence(ts_s=-9, leads=True, firing=2), SIMULATOR)
    assert (publishers[:4], after_s) == ((("w",), (), True, 600.5), 0.5)
    since_ns = BEGIN_NS - 600 * NS_PER_S
    assert publishers.present == (WatchPresence("w", since_ns, 9.5, leads=True, firing=2),)


async def test_an_old_heartbeat_is_doubted_until_the_next_is_overdue() -> None:
    """A dead watch's message does not count.

    It is listed as gone once a heartbeat is overdue.
    """
    publishers, after_s = await found(presence(ts_s=-60), SIMULATOR)
    assert publishers[:3] == ((), ("w",), True)
    assert after_s == pytest.approx(12, abs=0.6)


@pytest.mark.parametrize("ts_s", [None, -3_600.0, 3_600.0])
async def test_a_heartbeat_that_comes_settles_it(ts_s: float | None) -> None:
    """A watch without times, or with a wrong clock, is online from its heartbeat on."""
    beat = presence(ts_s=ts_s, retain=False)
    publishers, after_s = await found(presence(ts_s=ts_s), s4=[beat])
    assert publishers[:2] == (("w",), ())
    assert after_s < 6


async def test_one_live_watch_is_enough() -> None:
    """Where one is there for sure, the doubtful ones are not waited for."""
    publishers, after_s = await found(
        presence("old", ts_s=-60), presence("new", ts_s=-1, since_s=-2)
    )
    assert publishers[:2] == (("new",), ("old",))
    assert publishers.watched_s == pytest.approx(2.5)
    assert after_s == 0.5


async def test_a_last_will_and_nothing_are_no_watch() -> None:
    """An offline watch is gone at once.

    Without any watch there is no wait.
    """
    assert await found(presence(state="offline")) == (
        Publishers((), ("w",), False, float("inf")),
        0.5,
    )
    assert await found(SIMULATOR) == (Publishers((), (), True, float("inf")), 0.5)


@pytest.mark.parametrize("withholds", [True, False])
async def test_what_a_broker_withholds_is_not_known(*, withholds: bool) -> None:
    """Without a retained message, silences are unknown, whatever else arrives."""
    bus = MemoryBus()
    bus.withholds_retained = withholds

    class InMemory(BrokerSession):
        def source(self, filters: Iterable[tuple[str, int]], **rest: Any) -> MemorySource:  # type: ignore[override]  # as far as it is used
            return bus.source(list(filters), limits=rest.get("limits"))

    now_ns = time.time_ns()
    swap = SilenceMessage(
        id="s-1",
        matchers=("alertname=hot",),
        starts=format_rfc3339(now_ns),
        until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
        who="ann",
    )
    publisher = bus.publisher()
    publisher.connect()
    await publisher.publish(
        [
            Envelope("trnfleet/v1/demo/silence/s-1", encode_message(swap), 1, retain=True),
            presence(ts_s=(now_ns - BEGIN_NS) / NS_PER_S),
        ]
    )
    fleet = await read_alerts(InMemory(parse_url("mqtt://127.0.0.1:1")), "demo", wait_s=0.1)

    facts = silence_facts(fleet)
    if withholds:
        assert (facts, fleet.unwatched_reason) == (None, WITHHELD)
    else:
        assert [each["id"] for each in facts or ()] == ["s-1"]
        assert fleet.is_watched
