"""Detection of the watches and publishers of a fleet that are online."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.domain.alerts.watches import WatchPresence
from trnfleet.services.alerts_client import Publishers, find_publishers
from trnfleet.wire.messages import PublisherMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BEGIN_NS = 1_700_000_000 * NS_PER_S


class Script:
    """A source whose messages are planned by the second; where none is, time passes until nothing comes any more."""

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
    """Return what a watch says of itself; times in seconds from the beginning."""
    message = WatchMessage.model_validate(
        {
            "client": client,
            "state": state,
            "boot": "b",
            "role": "watch",
            "since": format_rfc3339(BEGIN_NS + round(since_s * NS_PER_S)),
            "ts": None if ts_s is None else format_rfc3339(BEGIN_NS + round(ts_s * NS_PER_S)),
            **more,
        }
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
    """What it has left retained tells by its time that it is there; nothing more is waited for."""
    publishers, after_s = await found(presence(ts_s=-9, leads=True, firing=2), SIMULATOR)
    assert (publishers[:4], after_s) == ((("w",), (), True, 600.5), 0.5)
    since_ns = BEGIN_NS - 600 * NS_PER_S
    assert publishers.present == (WatchPresence("w", since_ns, 9.5, leads=True, firing=2),)


async def test_an_old_heartbeat_is_doubted_until_the_next_is_overdue() -> None:
    """A message that a dead watch has left does not count; it is listed as gone after a heartbeat's time."""
    publishers, after_s = await found(presence(ts_s=-60), SIMULATOR)
    assert publishers[:3] == ((), ("w",), True)
    assert after_s == pytest.approx(12, abs=0.6)


@pytest.mark.parametrize("ts_s", [None, -3_600.0, 3_600.0])
async def test_a_heartbeat_that_comes_settles_it(ts_s: float | None) -> None:
    """A watch without times, or with a clock that is wrong, is there as soon as it says so itself."""
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
    """Who is offline is gone at once; where there is no watch at all nothing is waited for."""
    assert await found(presence(state="offline")) == (
        Publishers((), ("w",), False, float("inf")),
        0.5,
    )
    assert await found(SIMULATOR) == (Publishers((), (), True, float("inf")), 0.5)
