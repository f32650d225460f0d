from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, described_feed, live_feed, ready, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.hardware.topology import EAST
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.findings import (
    SLOW_LINK_MIN_BYTES_PER_S,
    SLOW_LINK_SHARE,
    Finding,
    find,
)

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
    feed = described_feed(instances)
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


def fleet() -> Feed:
    return live_feed(ultraservers(2) + standalone(1))


def shown(feed: Feed) -> tuple[Finding, ...]:
    return feed.monitor.findings.shown


def test_a_healthy_fleet_has_none() -> None:
    """Nothing is found where nothing is wrong."""
    assert shown(fleet()) == ()


async def test_a_dead_ultraserver_is_one_finding() -> None:
    """Silence is one finding at the highest level with nothing live, with its chip count."""
    feed = fleet()
    await feed.advance(10)
    feed.tick([path for path in feed.layout.instances if "us-0001" not in path])
    assert shown(feed) == (Finding(Severity.CRITICAL, "uc1/us-0001", "stale", 64, "silent"),)
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert [finding.path for finding in shown(feed)] == [
        f"uc1/us-0001/trn2u-0001-{place}" for place in (1, 2, 3)
    ]


def test_offline_is_told_from_stale() -> None:
    """A last will says offline."""
    feed = fleet()
    feed.receive([feed.publisher_envelope("offline")])
    assert {finding.what for finding in shown(feed)} == {"offline"}
    assert sum(finding.chips for finding in shown(feed)) == 144


def test_each_kind_is_found_at_its_chip() -> None:
    """Every kind of finding is at its chip.

    Health bits, uncorrected errors, links, throttling, heat and full memory.
    """
    feed = fleet()
    feed.set("health", 0b10000, 20)
    feed.set("mem_ecc_uncorrected", 2, 21)
    feed.set("links_up", 0b110111, 40)
    feed.set("throttle_pct", 30, 41)
    feed.set("temperature_c", 95, 42)
    feed.set("hbm_used_bytes", 95.9 * 2**30, 43)
    feed.set("link_tx_bytes_per_s", 10e9, (44, EAST))
    feed.tick()
    found = {
        finding.path.split("/")[-1] + " " + finding.what: finding.severity
        for finding in shown(feed)
    }
    layout = feed.layout
    assert len(found) == 7
    chips = {finding.path for finding in shown(feed)}
    assert chips == {
        f"{layout.instances[int(layout.instance_of_chip[row])]}/chip{row % 16:02d}"
        for row in (20, 21, 40, 41, 42, 43, 44)
    }
    assert found["chip04 unhealthy: link_intraserver"] is Severity.CRITICAL
    assert found["chip05 2 uncorrected HBM errors"] is Severity.CRITICAL
    assert found["chip08 NeuronLink down: east"] is Severity.CRITICAL
    assert found["chip09 throttled 30 %"] is Severity.WARNING
    assert found["chip12 link east slow: 26 %"] is Severity.WARNING
    assert list(shown(feed)) == sorted(shown(feed))


def test_links_that_a_type_lacks_are_not_down() -> None:
    """A standalone instance's missing Z links are no finding."""
    feed = fleet()
    rows = slice(0, 16)
    assert (feed.columns["links_up"][rows] == 0b1111).all()
    assert not any("standalone" in finding.path for finding in shown(feed))


def test_many_are_counted_and_some_shown() -> None:
    """A storm keeps the first of each kind and the number of all."""
    feed = Feed(ultraservers(10))
    feed.scatter()
    feed.set("throttle_pct", 20)
    feed.set("health", np.ones(640))
    feed.describe()
    feed.tick()
    assert feed.monitor.findings.total == 1_280
    assert len(shown(feed)) == 400
    assert shown(feed)[0].severity is Severity.CRITICAL


async def test_a_warning_stays_for_a_while() -> None:
    """A warning that follows a job's phases stays 15 s.

    A critical finding goes at once.
    """
    feed = fleet()
    feed.set("throttle_pct", 30, 41)
    feed.set("health", 1, 42)
    feed.tick()
    assert len(shown(feed)) == feed.monitor.findings.total == 2
    feed.set("throttle_pct", 0, 41)
    feed.set("health", 0, 42)
    await feed.clock.advance(1)
    feed.tick()
    assert [finding.what for finding in shown(feed)] == ["throttled 30 %"]
    assert feed.monitor.findings.total == 1
    await feed.clock.advance(15)
    feed.tick()
    assert shown(feed) == ()


def test_the_same_warning_is_there_once() -> None:
    """A warning with changed figures is one finding, with the newest figure."""
    feed = fleet()
    for throttle in (20, 30):
        feed.set("throttle_pct", throttle, 41)
        feed.tick()
    assert [finding.what for finding in shown(feed)] == ["throttled 30 %"]


def test_findings_at_one_place_are_told_apart() -> None:
    """Errors of a chip's two memories are two findings while their counts grow."""
    feed = fleet()
    seen = []
    for errors in (2, 30):
        feed.set("mem_ecc_uncorrected", errors, 21)
        feed.set("sram_ecc_uncorrected", errors + 1, 21)
        feed.tick()
        seen.append({finding.identity: finding.what for finding in shown(feed)})
    assert seen[0].keys() == seen[1].keys()
    assert [sorted(each.values()) for each in seen] == [
        ["2 uncorrected HBM errors", "3 uncorrected SRAM errors"],
        ["30 uncorrected HBM errors", "31 uncorrected SRAM errors"],
    ]


def test_jobs_that_make_no_progress() -> None:
    """A hanging, failed or waiting job is critical at its first place.

    A starting or stalled job is no finding.
    """
    feed = Feed(ultraservers(2))
    feed.scatter()
    states = (
        "hung",
        "failed",
        "waiting",
        "starting",
        "stalled",
        "running",
        "checkpointing",
        "idle",
        "odd",
    )
    feed.jobs = dict.fromkeys(states, ("uc1/us-0002/trn2u-0002-1..trn2u-0002-2",))
    feed.jobs["failed"] = ("uc9/us-0001",)
    feed.states = {state: state for state in states}
    feed.describe()
    feed.tick()
    assert shown(feed) == (
        Finding(Severity.CRITICAL, "", "failed: job failed", 1, "job", "failed"),
        Finding(
            Severity.CRITICAL,
            "uc1/us-0002/trn2u-0002-1",
            "hung: job hung, a process never joins a collective",
            32,
            "job",
            "hung",
        ),
        Finding(
            Severity.CRITICAL,
            "uc1/us-0002/trn2u-0002-1",
            "waiting: job waiting for instances",
            32,
            "job",
            "waiting",
        ),
    )


def test_chips_of_different_ticks_are_not_compared() -> None:
    """Amid a tick, chips of neither the old nor the new tick are called slow."""
    feed = ready(ultraservers(1), json=True)
    feed.set("link_tx_bytes_per_s", 5e9)
    feed.tick()
    feed.clock.step_wall(1)
    feed.set("link_tx_bytes_per_s", 40e9)
    messages = feed.telemetry()
    feed.receive(messages[: len(messages) // 2 + 8])
    assert shown(feed) == ()
    feed.receive(messages[len(messages) // 2 + 8 :])
    assert shown(feed) == ()
