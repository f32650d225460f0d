from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.history import KEPT, MAX_SAMPLES, History


async def run(feed: Feed, seconds: int) -> None:
    for second in range(seconds):
        feed.set("power_w", 100.0 + second)
        feed.tick()
        await feed.clock.advance(1)


def series(feed: Feed, path: str, key: str = "power_w") -> list[float]:
    return feed.series(path, key)


async def test_one_sample_a_second_at_every_level() -> None:
    """Each level has its own series, oldest first."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.describe()
    await run(feed, 5)
    steps = np.arange(100.0, 105.0)
    assert series(feed, "uc1/us-0001/trn2u-0001-0/chip03") == pytest.approx(steps)
    assert series(feed, "uc1/us-0001/trn2u-0001-0") == pytest.approx(16 * steps)
    assert series(feed, "uc1/us-0001") == pytest.approx(64 * steps)
    assert series(feed, "") == pytest.approx(128 * steps)
    assert series(feed, "", "no such field") == []


async def test_the_past_begins_once_most_of_the_fleet_is_heard() -> None:
    """History begins with most of the fleet: a partial sum would look like a fall."""
    feed = Feed(ultraservers(2))
    feed.set("power_w", 100.0)
    feed.describe()
    first = feed.layout.instances[:3]
    later = feed.layout.instances[3:]
    feed.tick(list(first))
    await feed.advance(0.4)
    assert series(feed, "") == []
    feed.tick(list(later))
    await feed.advance(1.5)
    assert series(feed, "") == [128 * 100.0] * 2


async def test_the_past_begins_also_where_hosts_stay_silent() -> None:
    """After a period and a second nobody waits for them any longer."""
    feed = Feed(ultraservers(1), period_s=2.0)
    feed.set("power_w", 100.0)
    feed.describe()
    feed.tick(list(feed.layout.instances[:2]))
    await feed.advance(2.8)
    assert series(feed, "") == []
    await feed.advance(0.4)
    assert series(feed, "") == [32 * 100.0]


async def test_the_ring_forgets_the_oldest() -> None:
    """A full ring keeps the newest samples in order."""
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.monitor.history = History(budget_bytes=2 * 130 * len(KEPT) * 4)
    feed.describe()
    assert feed.monitor.history.seconds(Level.FLEET) == 0
    await run(feed, 200)
    assert feed.monitor.history.seconds(Level.FLEET) == 130
    assert feed.monitor.history.seconds(Level.CHIP) == 0
    assert series(feed, "") == pytest.approx(64 * np.arange(170.0, 300.0), rel=1e-4)


async def test_a_watched_chip_is_kept_where_its_level_is_not() -> None:
    """A viewed chip has a series from then on."""
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.monitor.history = History(budget_bytes=2 * 130 * len(KEPT) * 4)
    feed.describe()
    path = "uc1/us-0001/trn2u-0001-2/chip09"
    await run(feed, 2)
    assert series(feed, path) == []
    feed.monitor.history.watch(path)
    await run(feed, 3)
    assert series(feed, path) == pytest.approx([100, 101, 102])


async def test_memory_of_the_demo() -> None:
    """The rings of 192 chips take 14 MiB once a day has filled them."""
    feed = Feed(ultraservers(2) + standalone(4))
    feed.describe()
    await run(feed, 2)
    assert 14 * 2**20 < feed.monitor.history.nbytes < 14.5 * 2**20


@pytest.mark.parametrize(
    "kind", ["trn1.32xlarge", "trn2.48xlarge", "trn2u.48xlarge", "inf2.48xlarge"]
)
async def test_chips_have_the_samples_that_came(kind: str) -> None:
    """Two bytes store wire codes exactly, for each stored field."""
    feed = Feed(standalone(4, kind))
    feed.scatter()
    feed.describe()
    feed.tick()
    await feed.advance(1)
    layout = feed.monitor.store.layout
    for field in KEPT:
        wanted = field.values(feed.monitor.store, feed.monitor.rollups, Level.CHIP, None).astype(
            np.float32
        )
        found = [
            float(feed.monitor.history.series(layout, Node(Level.CHIP, number), field.key)[-1])
            for number in range(layout.count(Level.CHIP))
        ]
        assert np.isfinite(wanted).any()
        np.testing.assert_array_equal(found, wanted, err_msg=field.key)


async def test_memory_is_bounded() -> None:
    """Rings stay within the budget, whatever the fleet."""
    feed = Feed(ultraservers(40))
    feed.describe()
    feed.tick()
    history = feed.monitor.history
    await feed.advance(1)
    assert 0 < history.nbytes <= 64 * 2**20
    assert history.seconds(Level.FLEET) == MAX_SAMPLES


async def test_a_new_layout_keeps_the_past() -> None:
    """Remaining nodes keep their series when the fleet grows."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    some = [path for path in feed.layout.instances if "us-0002" in path]
    feed.describe(some)
    await run(feed, 3)
    feed.describe()
    await run(feed, 2)
    kept = series(feed, "uc1/us-0002")
    new = series(feed, "uc1/us-0001")
    assert len(kept) == len(new)
    assert kept[:3] == pytest.approx([6_400, 6_464, 6_528])
    assert kept[-1] == new[-1] == pytest.approx(6_464)
    assert np.isnan(new[:3]).all()
    layout = feed.monitor.store.layout
    assert len(feed.monitor.history.series(layout, Node(Level.CHIP, 0), "power_w")) == len(kept)


async def test_silence_and_pauses_are_gaps() -> None:
    """The series has a gap for each second without live nodes or without a sample."""
    feed = Feed(ultraservers(1))
    feed.scatter()
    feed.describe()
    await run(feed, 3)
    for _ in range(6):
        await feed.advance(1)
    silent = series(feed, "")
    assert np.isnan(silent[-1])
    assert not np.isnan(silent[2])
    before = len(silent)
    await feed.clock.advance(10)
    feed.tick()
    assert len(series(feed, "")) - before == 10


async def test_a_host_that_comes_during_a_pass_costs_no_sample() -> None:
    """The next pass stands for both seconds: a chart's time is counted in samples."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    first, *others = feed.layout.instances
    feed.describe([first])
    feed.tick([first])
    await feed.advance(1)
    history = feed.monitor.history
    before = history.samples
    for path in others:
        await feed.clock.advance(1)
        work = feed.monitor.passing()
        next(work)
        feed.monitor.apply(feed.announcements([path]))
        feed.monitor.lay_out()
        finish(work)
        await feed.advance(1)
    assert history.samples - before == 2 * len(others)
    assert not history.gaps_since(0)


async def test_the_samples_of_another_history_go_before_the_own_ones() -> None:
    """Samples of another history are prepended by address, at every level.

    Single viewed nodes have none from then, and gap reasons move along.
    """
    earlier = Feed(ultraservers(1))
    later = Feed(ultraservers(2))
    for feed in (earlier, later):
        feed.scatter()
        feed.describe()
    await run(earlier, 70)
    await run(later, 5)
    later.monitor.history.skip(2)
    await run(later, 3)
    own = series(later, "uc1/us-0002")
    later.monitor.history.backfill(earlier.monitor.history)
    history = later.monitor.history
    assert history.samples == history.end == 80
    assert series(later, "uc1/us-0001/trn2u-0001-0/chip03")[:70] == pytest.approx(
        np.arange(100.0, 170.0)
    )
    assert series(later, "uc1/us-0001")[70:] == pytest.approx(own, nan_ok=True)
    assert np.isnan(series(later, "uc1/us-0002")[:70]).all()
    assert series(later, "uc1/us-0002")[70:] == pytest.approx(own, nan_ok=True)
    assert [(gap.first, gap.after) for gap in history.gaps_since(0)] == [(75, 77)]
    node = later.monitor.store.layout.find("uc1/us-0001")
    assert node is not None
    track = history.track(later.monitor.store.layout, node, "power_w", 900)
    assert len(track.mean) == 80
