"""Every view, drawn of what hostile messages have left behind."""

from __future__ import annotations

from random import Random

import pytest
from support.monitor.mutations import CLUSTER, hostile_feed, mutated, originals
from support.monitor.rules import HOT, rules_of
from tui.test_app import fed, made, screen_text, tick

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.tui.views import VIEWS

PLACES = ("", f"{CLUSTER}/us-0001/trn2u-0001-0/chip05", "uc1/us-0001", "cr-evil")


@pytest.mark.parametrize("seed", range(3))
async def test_every_view_is_drawn_whatever_has_come(seed: int) -> None:
    """What was taken of mutated messages can be drawn, in lists and in details, and nothing raw reaches the screen."""
    random = Random(seed)  # noqa: S311  mutations, not secrets
    feed, evil = fed(), hostile_feed()
    feed.monitor.ingest.alerts = Alerts("demo", rules_of(HOT), adopts=True)
    app = made(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        for entry in (*VIEWS, *VIEWS):
            hostile = originals(evil)
            feed.monitor.apply([mutated(random.choice(hostile), random) for _ in range(60)])
            feed.monitor.apply(evil.telemetry())
            feed.tick()
            app.go(random.choice(PLACES), entry.title)
            await tick(app, pilot, feed)
            await pilot.press("down", "down", "enter", "end")
            await tick(app, pilot, feed)
            text = screen_text(app)
            assert not set(text) & set("\x00\x1b\u202e")
            assert app._exception is None
    assert feed.monitor.counts.internal_errors == 0
    assert feed.monitor.counts.undecodable > 100
