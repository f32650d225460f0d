"""Every view, drawn after hostile messages."""

from __future__ import annotations

from random import Random

import pytest
from support.monitor.mutations import CLUSTER, hostile_feed, mutated, originals
from support.monitor.rules import HOT, rules_of
from support.tui.fleet_scene import hot_feed
from support.tui.pilot import fleet_app, running

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.tui.views import VIEWS

PLACES = ("", f"{CLUSTER}/us-0001/trn2u-0001-0/chip05", "uc1/us-0001", "cr-evil")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 10))]
)
async def test_every_view_is_drawn_whatever_has_come(seed: int) -> None:
    """Accepted parts of mutated messages can be drawn, in lists and in details.

    Nothing raw reaches the screen.
    """
    random = Random(seed)  # noqa: S311  mutations, not secrets
    feed = hot_feed()
    evil = hostile_feed()
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT), adopts=True)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for entry in (*VIEWS, *VIEWS):
            hostile = originals(evil)
            feed.monitor.apply([mutated(random.choice(hostile), random) for _ in range(60)])
            feed.monitor.apply(evil.telemetry())
            feed.tick()
            pilot.app.go(random.choice(PLACES), entry.title)
            await pilot.tick(feed)
            await pilot.press("down", "down", "enter", "end")
            await pilot.paint()
            text = pilot.text()
            assert not set(text) & set("\x00\x1b\u202e")
            assert pilot.crash is None
    assert feed.monitor.counts.internal_errors == 0
    assert feed.monitor.counts.undecodable > 100
