"""An app with a past, over a fleet of equally busy chips."""

from __future__ import annotations

from typing import Any

from support.monitor.feed import Feed, ultraservers
from support.tui.fake_playback import START_NS, FakePlayback
from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.rules import Rule
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.replay.controls import Mode
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.playback.seek_bar import Seek

MIN = 60 * NS_PER_S
HOUR = 60 * MIN
HOT = Rule.model_validate(
    {
        "name": "overheated",
        "scope": "chip",
        "severity": "critical",
        "figure": "temperature_c",
        "above": 90.0,
        "summary": "{worst} is at {value}",
    }
)


def fed(
    instances: list[tuple[str, str]] | None = None, *, util: float = 40.0, hot: int | None = None
) -> Feed:
    """Return a fleet with every chip at a utilisation."""
    feed = Feed(ultraservers(2) if instances is None else instances)
    feed.monitor.ingest.alerts = Alerts("demo", (HOT,))
    feed.scatter()
    feed.set("nc_util_pct", util)
    feed.set("temperature_c", 50.0)
    if hot is not None:
        feed.set("temperature_c", 95.0, [hot])
    feed.describe()
    feed.tick()
    return feed


async def burning(chip: int) -> Feed:
    """Return a fleet with a firing alert on a chip."""
    feed = fed(hot=chip)
    await burn(feed, chip)
    return feed


async def burn(feed: Feed, chip: int) -> None:
    """Let a chip get too hot, and its alert fire."""
    feed.set("temperature_c", 95.0, [chip])
    await feed.clock.advance(1.0)
    feed.tick()


def made(feed: Feed, *, is_file: bool = False, **rest: Any) -> tuple[FleetApp, FakePlayback]:
    playback = FakePlayback(feed.monitor, is_file=is_file)
    return FleetApp(playback.state, clock=feed.clock, playback=playback, **rest), playback


def seek(**rest: Any) -> Seek:
    """Return the position 14:03:10 of a ten-minute window ending at 14:08:21."""
    end_ns = START_NS + 14 * HOUR + 8 * MIN + 21 * NS_PER_S
    fields: dict[str, Any] = {
        "mode": Mode.PLAYING,
        "is_live_possible": True,
        "rate": 1.0,
        "reached_rate": 1.0,
        "loops": False,
        "seeking": False,
        "incomplete": "",
        "position_ns": end_ns - 311 * NS_PER_S,
        "start_ns": end_ns - 600 * NS_PER_S,
        "end_ns": end_ns,
        "surveyed_ns": end_ns,
    }
    return Seek(**(fields | rest))
