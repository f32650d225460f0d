"""Thousands of malformed messages of every class, fed to a monitor."""

from __future__ import annotations

import json
from random import Random

import pytest
from support.monitor.feed import Feed, ultraservers
from support.monitor.mutations import hostile_feed, mutated, originals

from trnfleet.cli.status_report import KnownFleet
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.freshness import Freshness
from trnfleet.services.files.rules import load_rules

ROUNDS = 12
A_ROUND = 60


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_that_comes_stops_a_monitor(seed: int) -> None:
    """No message raises or fails a stage, and a good publisher's telemetry still arrives."""
    random = Random(seed)  # noqa: S311  mutations, not secrets
    feed = Feed(ultraservers(1))
    feed.scatter()
    monitor = feed.monitor
    monitor.ingest.alerts = Alerts("demo", load_rules(), adopts=True)
    feed.describe()
    monitor.apply([feed.reservation("cr-good", "uc1/us-0001")])
    evil = hostile_feed()
    monitor.apply(originals(evil))
    for _ in range(ROUNDS):
        hostile = originals(evil)
        # A publisher that has said what is wrong goes on with telemetry that is right.
        monitor.apply(
            [mutated(random.choice(hostile), random) for _ in range(A_ROUND)] + evil.telemetry()
        )
        feed.scatter(random.randrange(1_000))
        await feed.clock.advance(1.1)
        feed.tick()
        assert monitor.counts.internal_errors == 0, monitor.counts.last_problem
        good = monitor.store.layout.find("uc1/us-0001")
        assert good is not None
        chips = monitor.store.layout.chip_range(good)
        assert (monitor.store.chip_state[chips.start : chips.stop] == Freshness.LIVE).all()
        assert json.dumps(
            KnownFleet.from_monitor(monitor).facts(healthy=True),
            allow_nan=False,
        )
        assert "cr-good" in [each.message.id for each in monitor.reservations.table()]
        monitor.alerts.counts()
    assert monitor.counts.undecodable > ROUNDS * A_ROUND / 4
    assert monitor.alerts.evaluations > 1


def test_what_is_refused_takes_nothing_away() -> None:
    """A refused message does not change its topic's earlier data."""
    feed = Feed(ultraservers(1))
    feed.describe()
    monitor = feed.monitor
    hostile = originals(hostile_feed())
    monitor.apply(hostile)
    monitor.compute()
    layout = monitor.store.layout
    jobs = dict(monitor.ingest.jobs)
    held = [each.message for each in monitor.reservations.table()]
    silences = monitor.alerts.silences.count()
    refused = [each._replace(payload=b'{"v":1,"speed":1e300}') for each in hostile]
    monitor.apply(refused)
    monitor.compute()
    assert monitor.store.layout is layout
    assert monitor.ingest.jobs == jobs
    assert [each.message for each in monitor.reservations.table()] == held != []
    assert monitor.alerts.silences.count() == silences == (1, 1)
    assert len(monitor.ingest.alert_messages) == 1
    assert monitor.counts.undecodable == len(refused)
