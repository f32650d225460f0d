from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.findings import find
from trnfleet.monitor.store.slow_links import SLOW_LINK_MIN_BYTES_PER_S, SLOW_LINK_SHARE
from trnfleet.monitor.store.store import Freshness

TX = BY_NAME["link_tx_bytes_per_s"]
MIXED = [
    *ultraservers(6),
    *standalone(2),
    *standalone(2, "trn1.32xlarge"),
    ("uc1/standalone/small-1", "trn2.3xlarge"),
]


def serving(seed: int, instances: list[tuple[str, str]], slow: float) -> Feed:
    """Return a fleet of equally busy groups of four chips.

    It has a share of slow links, and missing or late values.
    """
    feed = Feed(instances)
    feed.describe()
    feed.tick()
    store = feed.monitor.store
    random = np.random.default_rng(seed)
    chips = store.layout.chips
    load = np.repeat(random.uniform(0.3, 1.0, -(-chips // 4)), 4)[:chips]
    traffic = 4_000 * load[:, None] * np.array([1.0, 1.0, 0.7, 0.7, 0.2, 0.2])
    traffic[random.random(traffic.shape) < slow] *= 0.4
    column = store.columns[TX.name]
    column[:] = traffic.astype(np.uint16)
    column[random.random(traffic.shape) < slow / 4] = TX.top
    store.columns["links_up"][random.random(chips) < 0.01] = 0b111110
    store.chip_ts_ns[random.random(chips) < 0.02] -= 1_000_000_000
    store.chip_state[random.random(chips) < 0.02] = Freshness.STALE
    finish(feed.monitor.rollups.passes(store))
    return feed


def plain(feed: Feed) -> set[str]:
    """Return the chips that have a slow link, by a loop over instances and lanes."""
    store = feed.monitor.store
    layout = store.layout
    least = TX.code_of(SLOW_LINK_MIN_BYTES_PER_S)
    codes = store.columns[TX.name].astype(float)
    up = store.columns["links_up"]
    has_gaps = bool(layout.has_uneven_links.any())
    found = set()
    for number in range(len(layout.instances)):
        chips = np.arange(layout.chip_start[number], layout.chip_start[number + 1])
        newest = store.chip_ts_ns[chips] == store.chip_ts_ns[chips].max()
        live = newest & (store.chip_state[chips] == Freshness.LIVE)
        axes = [each.axis for each in layout.type_of(number).lanes]
        for lane, axis in enumerate(axes):
            known = codes[chips, lane] != TX.top
            if len(chips) < 2 or not (has_gaps or known.all()):
                continue
            usable = live & known & (up[chips] >> lane & 1 > 0)
            mean = codes[chips[usable], lane].sum() / max(1, usable.sum())
            same = [other for other, each in enumerate(axes) if each == axis]
            for chip in chips[usable].tolist():
                own = np.where(codes[chip] == TX.top, 0.0, codes[chip])
                is_apart = len(same) < 2 or own[lane] < SLOW_LINK_SHARE * own[same].max()
                if mean >= least and own[lane] < SLOW_LINK_SHARE * mean and is_apart:
                    found.add(layout.path(Node(Level.CHIP, chip)))
    return found


@pytest.mark.parametrize("slow", [0.02, 0.002])
@pytest.mark.parametrize("instances", [MIXED, ultraservers(6)], ids=["mixed", "alike"])
def test_slow_links_are_those_of_a_plain_loop(
    instances: list[tuple[str, str]], slow: float
) -> None:
    """The candidates include every instance with a slow link."""
    for seed in range(3):
        feed = serving(seed, instances, slow)
        found = find(feed.monitor.store, feed.monitor.rollups).shown
        wanted = plain(feed)
        assert len(wanted) > 200 * slow
        assert {each.path for each in found if each.kind == "link slow"} == wanted
