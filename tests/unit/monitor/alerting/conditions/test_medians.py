from __future__ import annotations

import math

import numpy as np
import pytest
from support.monitor.alert_bench import AlertBench
from support.monitor.feed import standalone, ultraservers
from support.monitor.rules import rule_of

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.alerting.conditions.rows import RowSearch, evaluation_of
from trnfleet.monitor.alerting.conditions.windows import Counters
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish

MIXED = [*ultraservers(20), *standalone(3), ("uc1/standalone/small-1", "trn2.3xlarge")]
WIDTH = 6


def serving(seed: int, instances: list[tuple[str, str]]) -> AlertBench:
    """Return a serving fleet with slow links and missing or late values.

    Each instance has four chips.
    """
    bench = AlertBench(instances, ())
    random = np.random.default_rng(seed)
    chips = bench.layout.chips
    load = np.repeat(random.uniform(0.3, 1.0, -(-chips // 4)), 4)[:chips]
    lanes = random.uniform(0.2, 1.0, WIDTH)
    traffic = 4_000 * load[:, None] * lanes * random.uniform(0.95, 1.05, (chips, WIDTH))
    traffic[random.random(traffic.shape) < 0.01] *= 0.5
    traffic[random.random(traffic.shape) < 0.01] = 0
    column = bench.store.columns["link_tx_bytes_per_s"]
    column[:] = traffic.astype(np.uint16)
    column[random.random(traffic.shape) < 0.01] = BY_NAME["link_tx_bytes_per_s"].top
    bench.store.chip_ts_ns[:] = bench.now_ns
    bench.store.chip_ts_ns[random.random(chips) < 0.02] -= 1_000_000_000
    bench.silence(np.flatnonzero(random.random(chips) < 0.02))
    bench.silence(bench.rows("uc1/us-0002/trn2u-0002-1"), Freshness.OFFLINE)
    return bench


def plain(bench: AlertBench, below: float) -> dict[int, float]:
    """Return the slow links by a loop over instances."""
    store = bench.store
    layout = bench.layout
    metric = BY_NAME["link_tx_bytes_per_s"]
    values = metric.decode(store.columns[metric.name])
    live = store.chip_state == Freshness.LIVE
    found = {}
    for number in range(len(layout.instances)):
        chips = np.arange(layout.chip_start[number], layout.chip_start[number + 1])
        newest = store.chip_ts_ns[chips] == store.chip_ts_ns[chips].max()
        shares = np.full((len(chips), WIDTH), math.nan)
        for lane in range(WIDTH):
            peers = values[chips[newest & live[chips]], lane]
            peers = peers[~np.isnan(peers)]
            if len(peers) >= LEAST_PEERS and np.median(peers) > 0:
                shares[newest, lane] = values[chips[newest], lane] / np.median(peers)
        busiest = np.where(np.isnan(shares), 0.0, shares).max(axis=1)
        for place in np.flatnonzero((busiest > 0) & live[chips]).tolist():
            for lane in range(WIDTH):
                share = shares[place, lane] / min(busiest[place], 1.0)
                if share < below:
                    found[int(chips[place]) * WIDTH + lane] = share
    return found


@pytest.mark.parametrize("instances", [MIXED, ultraservers(20)], ids=["mixed", "alike"])
@pytest.mark.parametrize("below", [0.85, 0.4])
def test_slow_links_are_those_of_a_plain_loop(
    instances: list[tuple[str, str]], below: float
) -> None:
    """The choice of candidates misses no slow link found by a plain loop."""
    for seed in range(3):
        bench = serving(seed, instances)
        rule = rule_of(
            scope="link",
            figure="link_tx_bytes_per_s",
            share_of_median_of="instance",
            above=None,
            below=below,
        )
        last = finish(RowSearch(rule, Counters()).search(bench.readings()))
        wanted = plain(bench, below)
        assert len(wanted) > 10
        assert dict(zip(last.rows.tolist(), last.values.tolist(), strict=True)) == pytest.approx(
            wanted
        )


def test_links_are_looked_at_by_the_share_that_they_are_compared_by() -> None:
    """A link near its median is no candidate beside a much busier one."""
    bench = AlertBench(ultraservers(1), ())
    column = bench.store.columns["link_tx_bytes_per_s"]
    column[:] = 1_000
    column[0] = [5_000, 900, 900, 400, 900, 900]
    bench.store.chip_ts_ns[:] = bench.now_ns
    rule = rule_of(
        scope="link",
        figure="link_tx_bytes_per_s",
        share_of_median_of="instance",
        above=None,
        below=0.5,
    )
    candidates = finish(evaluation_of(rule.scope, rule, Counters()).candidates(bench.readings()))
    assert candidates.tolist() == [3]
