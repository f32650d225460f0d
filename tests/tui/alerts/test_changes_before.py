"""What changed before an alert, in its details."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from support.tui.past_app import burn, fed, made
from support.tui.pilot import running

from trnfleet.clock import NS_PER_S
from trnfleet.tui.alerts.details import changes

if TYPE_CHECKING:
    from support.monitor.feed import Feed

PLACE = "uc1/us-0001/trn2u-0001-0"


async def wait(feed: Feed, seconds: int) -> None:
    for _ in range(seconds):
        await feed.clock.advance(1.0)
        feed.tick()


async def test_figures_events_and_alerts_before_an_alert() -> None:
    """Of its place and its job, and of the time until it fired."""
    feed = fed()
    feed.jobs = {"pretrain": ("uc1/us-0001", "uc1/us-0002")}
    feed.describe()
    await wait(feed, 60)
    feed.monitor.apply(
        [
            feed.event(PLACE, "fan failed", severity="warning"),
            feed.event("uc1/us-0002", "elsewhere", severity="warning"),
            feed.event("uc1/us-0002", "loss is NaN", job="pretrain"),
        ]
    )
    feed.set("nc_util_pct", 10.0, [3])
    feed.set("power_w", math.nan, [3])
    await burn(feed, 3)
    await wait(feed, 15)
    feed.monitor.apply([feed.event(PLACE, "too late", severity="warning")])
    feed.set("nc_util_pct", 90.0, [3])
    await wait(feed, 15)
    app, _ = made(feed)
    alert = next(iter(feed.monitor.alerts.active()))
    figures, entries = changes(app.context, alert)
    assert figures.words == (
        "chip03, 1 min 01 s before and when it fired: NC util 40.0 % to 10.0 %,"
        " temp 50.0 °C to 95.0 °C; not known when it fired: power"
    )
    words = [entry.partition(" ")[2] for entry in entries.words.split("; ")]
    assert sorted(words) == ["fan failed", "loss is NaN"]
    async with running(app, size=(160, 50)) as pilot:
        await pilot.press("8", "d")
        text = pilot.text()
    assert "changed" in text
    assert "NC util 40.0 % to" in text
    assert "fan failed" in text


async def test_without_a_change_or_a_past_it_is_said() -> None:
    feed = fed(hot=3)
    await wait(feed, 30)
    app, _ = made(feed)
    alert = next(iter(feed.monitor.alerts.active()))
    figures, entries = changes(app.context, alert)
    assert figures.words == "chip03, figures of the time before it are not kept"
    assert entries.words == "no event and no alert known in 10 min"
    alert.since_ns += 20 * NS_PER_S
    alert.fired_ns = alert.since_ns
    figures, _ = changes(app.context, alert)
    assert figures.words.endswith(" before and when it fired: no figure by 5 %")
