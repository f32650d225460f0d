"""Links of a fleet: each once, with the states of the rules, against a count by loops."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.generations import GENERATIONS, made_up
from support.monitor.alert_run import AlertRun
from support.monitor.feed import Feed, live_feed, standalone, ultraservers
from support.monitor.top import Top

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.domain.links import link_end
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.topology import FleetLinks, LinkCounts, LinkState
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from trnfleet.monitor.store.store import Store

RULES = load_rules()
FLEET = ultraservers(2) + standalone(2) + standalone(1, "trn1.32xlarge")
US = "uc1/us-0001/trn2u-0001-2"


def links_of(feed: Feed) -> FleetLinks:
    monitor = feed.monitor
    return FleetLinks(monitor.store, monitor.rollups, RULES)


def counted_by_loops(store: Store, slow: set[tuple[int, int]]) -> LinkCounts:
    """Return the counts, link by link; `slow` are the ends that are slow."""
    layout = store.layout
    codes = store.columns["links_up"]
    words: dict[frozenset[tuple[int, int]], str] = {}
    for chip in range(layout.chips):
        kind = layout.type_of(int(layout.instance_of_chip[chip]))
        for lane in range(len(kind.lanes)):
            if not int(layout.chip_links_mask[chip]) >> lane & 1:
                continue
            end = None if kind.is_port(lane) else link_end(layout, chip, lane)
            ends = [(chip, lane), *([] if end is None else [(end.member, end.lane)])]
            here = []
            for row, way in ends:
                known = store.chip_state[row] == Freshness.LIVE and codes[row] != 255
                is_up = int(codes[row]) >> way & 1
                here.append(
                    "unknown"
                    if not known
                    else "down"
                    if not is_up
                    else "slow"
                    if (row, way) in slow
                    else "up"
                )
            worst = min(here, key=["down", "slow", "unknown", "up"].index)
            words[frozenset(ends)] = worst
    all_words = list(words.values())
    return LinkCounts(
        len(all_words), *(all_words.count(word) for word in ("up", "slow", "down", "unknown"))
    )


async def test_states_add_up_to_all_and_equal_a_count_by_loops() -> None:
    feed = live_feed(FLEET)
    first = feed.layout.chips_at("uc1/us-0001").start
    up = feed.columns["links_up"]
    up[first + 38] = 0b110111  # 06:east of the third instance, at one end only
    up[first + 3] = 0b101111
    feed.set("link_tx_bytes_per_s", 20e9, (np.array([first + 70]), np.array([5])))
    up[first + 100] = BY_NAME["links_up"].top
    quiet = "uc1/standalone/trn2-0002"
    await feed.advance(1.0)
    feed.tick()
    for _ in range(6):
        await feed.advance(1.0)
        feed.tick([path for path in feed.layout.instances if path != quiet])
    links = links_of(feed)
    assert links.counts == counted_by_loops(feed.monitor.store, {(first + 70, 5)})
    assert (links.counts.down, links.counts.slow) == (2, 1)
    assert links.counts.unknown == 6 + 32
    assert links.counts.all == 2 * (128 + 64) + 3 * 32
    tables = [links.table(domain) for domain in range(len(links.starts))]
    assert [table.counts for table in tables] == [
        links.counts_of(domain) for domain in range(len(tables))
    ]
    domain = links.domain_at(feed.layout.instance_index[US])
    table = tables[domain]
    down = np.flatnonzero(table.states == LinkState.DOWN)
    assert (table.chips[down] - first).tolist() == [[3, 51], [38, 39]]
    assert table.lanes[down].tolist() == [[4, 5], [3, 2]]
    assert links.worst(9).tolist() == [domain, domain + 1, 2]


async def test_what_is_slow_is_what_the_rule_matches() -> None:
    feed = live_feed(ultraservers(2))
    feed.set("link_tx_bytes_per_s", 0.86 * 40e9, (np.array([5]), np.array([3])))
    feed.set("link_tx_bytes_per_s", 0.84 * 40e9, (np.array([9]), np.array([1])))
    # A chip with less to do on all of its links has no slow one.
    feed.set("link_tx_bytes_per_s", 0.5 * 40e9, 30)
    feed.tick()
    table = links_of(feed).table(0)
    slow = np.flatnonzero(table.states == LinkState.SLOW)
    assert table.chips[slow].tolist() == [[9, 13]]
    assert table.shares[slow] == pytest.approx([0.84], abs=0.01)
    assert table.rates[slow[0]].tolist() == pytest.approx([0.84 * 40e9, 40e9], rel=0.01)
    # Without such a rule nothing is slow.
    monitor = feed.monitor
    assert FleetLinks(monitor.store, monitor.rollups, ()).counts.slow == 0


def test_idle_links_have_no_share() -> None:
    feed = live_feed(FLEET)
    feed.set("link_tx_bytes_per_s", 0.0)
    feed.tick()
    links = links_of(feed)
    assert links.counts.up == links.counts.all
    assert np.isnan(links.table(0).shares).all()


@pytest.mark.parametrize("kind", ["inf2.48xlarge", "trn1.2xlarge", "trn2.3xlarge", "trn1.32xlarge"])
def test_types_without_an_ultraserver(kind: str) -> None:
    feed = live_feed(standalone(2, kind))
    links = links_of(feed)
    assert links.counts == counted_by_loops(feed.monitor.store, set())
    assert links.counts.all == sum(
        feed.layout.type_of(number).topology.links for number in range(2)
    )


@pytest.mark.parametrize("name", GENERATIONS)
def test_made_up_generations(name: str) -> None:
    with made_up():
        feed = live_feed(GENERATIONS[name].pairs)
        assert links_of(feed).counts == counted_by_loops(feed.monitor.store, set())


def test_z_links_of_an_ultraserver_with_an_instance_missing_lead_to_unknown_ends() -> None:
    feed = live_feed(ultraservers(1)[:3])
    links = links_of(feed)
    table = links.table(0)
    assert links.counts.all == 3 * 32 + 3 * 32
    assert (table.chips[:, 1] < 0).sum() == 3 * 32


def test_an_empty_fleet_has_no_links() -> None:
    feed = Feed([])
    feed.monitor.compute()
    assert links_of(feed).counts == LinkCounts()


async def test_a_ring_split_counted_by_loops_and_agreeing_with_the_alerts() -> None:
    run = AlertRun("neuronlink-split", period_s=4.0)
    seen: list[LinkCounts] = []

    ticks = itertools.count()

    def look() -> None:
        if next(ticks) % 6:
            return
        monitor = run.monitor
        links = FleetLinks(monitor.store, monitor.rollups, RULES)
        slow = ends_of(links, LinkState.SLOW)
        down = ends_of(links, LinkState.DOWN)
        seen.append(links.counts)
        assert links.counts == counted_by_loops(monitor.store, slow)
        for name, ends in (("link-degraded", slow), ("link-down", down)):
            members = {
                end
                for alert in monitor.alerts.active()
                if alert.name == name
                for end, _, _ in monitor.alerts.members(alert, 4_096)
            }
            named = {named_end(links, end) for end in ends}
            assert named <= members, name

    run.on_tick = look
    await run.play(272.0)
    assert len(seen) > 10
    assert {counts.all for counts in seen} == {2 * 192 + 4 * 32}
    assert max(counts.slow for counts in seen) == 1
    # The lost torus link is silent by then, and the split has 32 Z links beside another one.
    assert seen[-1].down == 33
    assert sum(seen[-1][1:]) == seen[-1].all


def ends_of(links: FleetLinks, state: LinkState) -> set[tuple[int, int]]:
    """Return the ends that have a state themselves, in all domains."""
    ends: set[tuple[int, int]] = set()
    for domain in range(len(links.starts)):
        table = links.table(domain)
        for number in np.flatnonzero(table.states == state).tolist():
            for chip, lane in zip(
                table.chips[number].tolist(), table.lanes[number].tolist(), strict=True
            ):
                if chip >= 0 and is_bad(links, chip, lane, state):
                    ends.add((chip, lane))
    return ends


def is_bad(links: FleetLinks, chip: int, lane: int, state: LinkState) -> bool:
    store = links.store
    code = int(store.columns["links_up"][chip])
    if store.chip_state[chip] != Freshness.LIVE or code == BY_NAME["links_up"].top:
        return False
    if state is LinkState.DOWN:
        return not code >> lane & 1
    peers = links.layout.chip_range(links.layout.parent(Node(Level.CHIP, chip)))
    sent = store.values(BY_NAME["link_tx_bytes_per_s"], np.arange(peers.start, peers.stop))
    return bool(sent[chip - peers.start, lane] < 0.85 * np.nanmedian(sent[:, lane]))


def named_end(links: FleetLinks, end: tuple[int, int]) -> str:
    chip, lane = end
    names = links.layout.lane_names_of(int(links.layout.instance_of_chip[chip]))
    return f"{links.layout.path(Node(Level.CHIP, chip))}:{names[lane]}"


def test_links_known_from_roll_ups_only_are_in_no_state() -> None:
    top = Top()
    top.monitor.compute()
    monitor = top.monitor
    links = FleetLinks(monitor.store, monitor.rollups, RULES)
    assert links.counts == LinkCounts(32 + 2 * 192, unknown=32 + 2 * 192)
    assert links.table(0).total == 0
