"""Means of roll-ups over the last 10 s of the fleet's time."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.store.fields import BY_KEY, FIELDS
from trnfleet.monitor.store.rollup import LEVELS


async def seconds(feed: Feed, watts: list[float]) -> None:
    """Let a second pass for each power of all chips."""
    for each in watts:
        feed.set("power_w", each)
        feed.set("temperature_c", each / 4)
        feed.tick()
        await feed.advance(1.0)


def fed(feed: Feed | None = None) -> Feed:
    """Return a described feed with first values of 100 W."""
    feed = feed or Feed([*standalone(2), *ultraservers(1)])
    feed.set("power_w", 100.0)
    feed.describe()
    feed.tick()
    return feed


def fleet(feed: Feed, key: str) -> float:
    store = feed.monitor.store
    averages = feed.monitor.averages
    return float(BY_KEY[key].values(store, averages, Level.FLEET, None)[0])


async def test_sums_are_means_over_ten_seconds_and_maxima_their_highest() -> None:
    feed = fed()
    chips = feed.layout.chips
    await seconds(feed, [100.0, *[200.0] * 5])
    assert feed.monitor.averages.seconds == 6.0
    assert fleet(feed, "power_w") == pytest.approx(chips * (100.0 + 5 * 200.0) / 6)
    assert fleet(feed, "temperature_c") == 50.0
    await seconds(feed, [400.0, *[300.0] * 9])
    assert feed.monitor.averages.seconds == 10.0
    assert fleet(feed, "power_w") == pytest.approx(chips * 310.0)
    assert fleet(feed, "temperature_c") == 100.0, "the highest of the window, not the last"
    assert feed.monitor.summary().power_w == pytest.approx(chips * 300.0)


async def test_each_tick_counts_once_wherever_a_second_begins() -> None:
    """Each tick counts once, even if split around a second with a pass in between."""
    feed = fed()
    halves = feed.layout.instances[:3], feed.layout.instances[3:]
    watts = [100.0, 200.0, 500.0, 300.0] * 5
    at_s = 0.0
    now_s = 0.0
    for number, power_w in enumerate(watts):
        feed.set("power_w", power_w)
        at_s = number + 1.0 + (-0.04, 0.02, 0.03, -0.01)[number % 4]
        for half, wait_s in zip(halves, (at_s - now_s, 0.02), strict=True):
            await feed.advance(wait_s - 0.005)
            await feed.clock.advance(0.005)
            feed.tick(list(half))
        now_s = at_s + 0.02
    await feed.advance(0.9)
    total = fleet(feed, "power_w")
    # The last tick still stands: the ten before it count.
    assert total == pytest.approx(feed.layout.chips * np.mean(watts[-11:-1]))


async def test_rows_add_up_to_the_root_at_every_level() -> None:
    """A level's sums and maxima equal the fleet's.

    So does a mean weighted by chips.
    """
    feed = Feed([*standalone(3), *ultraservers(2), *ultraservers(1, "uc2")])
    feed.describe()
    for seed in range(14):
        feed.scatter(seed=seed)
        feed.tick()
        await feed.advance(1.0)
    store = feed.monitor.store
    averages = feed.monitor.averages
    for field in FIELDS:
        root = field.values(store, averages, Level.FLEET, None)[0]
        for level in LEVELS[1:]:
            rows = field.values(store, averages, level, None)
            weights = averages.covered(field.parts[0], level)
            joined = (
                rows.max()
                if field.is_max
                else (rows * weights).sum() / weights.sum()
                if field.is_ratio
                else rows.sum()
            )
            if field.key != "tflops_per_w":
                assert joined == pytest.approx(root, rel=1e-6, nan_ok=True), (field.key, level)


async def test_a_silent_part_leaves_the_shares_right() -> None:
    """Shares of peak stay right if half of the chips fall silent amid the window."""
    feed = Feed(standalone(2))
    feed.set("tflops", 100.0)
    feed.describe()
    for _ in range(5):
        feed.tick()
        await feed.advance(1.0)
    before = fleet(feed, "mfu_pct")
    for _ in range(5):
        feed.monitor.apply(feed.telemetry([feed.layout.instances[0]]))
        await feed.advance(1.0)
    assert feed.monitor.summary().live_chips == 16
    assert fleet(feed, "mfu_pct") == pytest.approx(before)
    assert fleet(feed, "tflops") < 32 * 100.0


async def test_a_new_layout_keeps_the_past_of_what_stays() -> None:
    """No figure is missing after an instance has come, and the fleet's mean goes on."""
    feed = fed(Feed(standalone(3)))
    later = feed.layout.instances[2]
    first = Feed(standalone(3))
    first.set("power_w", 100.0)
    first.describe(list(first.layout.instances[:2]))
    for _ in range(10):
        first.monitor.apply(first.telemetry(list(first.layout.instances[:2])))
        await first.advance(1.0)
    assert fleet(first, "power_w") == pytest.approx(32 * 100.0)
    first.describe([later])
    first.monitor.compute()
    assert first.monitor.averages.layout is first.monitor.store.layout
    assert fleet(first, "power_w") == pytest.approx(32 * 100.0)
    rows = BY_KEY["power_w"].values(
        first.monitor.store, first.monitor.averages, Level.INSTANCE, None
    )
    assert rows[:2] == pytest.approx(1_600.0)
    assert np.isnan(rows[2])


async def test_counters_and_a_fleet_that_is_sped_up_are_of_the_present() -> None:
    feed = fed()
    feed.set("exec_errors", 7)
    await seconds(feed, [200.0])
    assert fleet(feed, "exec_errors") == 7 * feed.layout.chips
    fast = Feed(standalone(1))
    fast.speed = 3_600.0
    fast = fed(fast)
    await seconds(fast, [300.0, 500.0])
    assert fast.monitor.averages.seconds == 0.0
    assert fleet(fast, "power_w") == pytest.approx(16 * 500.0)
    assert len(fast.monitor.averages.samples) == 1


async def test_a_snapshot_keeps_its_means() -> None:
    """Later passes do not change stored means."""
    feed = fed()
    await seconds(feed, [200.0] * 3)
    snapshot = PackedSnapshot(feed.monitor)
    before = fleet(feed, "power_w")
    averages = feed.monitor.averages
    await seconds(feed, [500.0] * 3)
    assert float(averages.value("power_w", Level.FLEET)[0]) == before
    feed.monitor.restore(snapshot.unpack())
    assert float(feed.monitor.averages.value("power_w", Level.FLEET)[0]) == before


async def test_sums_of_a_part_that_was_heard_first_are_no_figure_of_the_whole() -> None:
    """Means begin once all hosts are heard: a sum over half would last 10 s."""
    feed = Feed([*standalone(2), *ultraservers(1)])
    feed.set("power_w", 100.0)
    feed.describe()
    first = feed.layout.instances[:2]
    for _ in range(3):
        feed.tick(list(first))
        await feed.advance(1.0)
    assert fleet(feed, "power_w") == pytest.approx(32 * 100.0)
    feed.tick()
    feed.monitor.compute()
    assert fleet(feed, "power_w") == pytest.approx(feed.layout.chips * 100.0)
    assert feed.monitor.averages.seconds == 0.0
    await seconds(feed, [100.0, 200.0])
    assert fleet(feed, "power_w") == pytest.approx(feed.layout.chips * 150.0)


async def test_a_second_of_a_part_is_left_out_in_the_pass_that_samples_it() -> None:
    """`status` ends with the first pass over all chips.

    Even if that pass samples the second before.
    """
    feed = Feed([*standalone(2), *ultraservers(1)])
    feed.set("power_w", 100.0)
    feed.describe()
    for seconds_since in (1.0, 0.9):
        feed.tick(list(feed.layout.instances[:2]))
        await feed.advance(seconds_since)
    feed.tick()
    await feed.advance(0.1)
    assert fleet(feed, "power_w") == pytest.approx(feed.layout.chips * 100.0)
