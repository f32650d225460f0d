"""One figure of the nodes on a screen in a fleet too large to store."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.address import Level
from trnfleet.monitor.store.history import GLANCED, KEPT, History
from trnfleet.monitor.store.rings.glances import MOST_GLANCED, SAMPLES, Glances

US = "uc1/us-0001"
INSTANCE = "uc1/us-0001/trn2u-0001-2"
CHIP = f"{INSTANCE}/chip09"


def fed() -> Feed:
    feed = Feed(ultraservers(2))
    feed.monitor.history = History(budget_bytes=2 * 130 * len(KEPT) * 4)
    feed.describe()
    return feed


async def run(feed: Feed, *utils: float, silent: tuple[str, ...] = ()) -> None:
    for util in utils:
        feed.set(GLANCED.key, util)
        feed.tick([each for each in feed.layout.instances if each not in silent])
        await feed.clock.advance(1)


def series(feed: Feed, path: str, key: str = GLANCED.key) -> list[float]:
    return feed.series(path, key)


async def test_nodes_of_all_levels_are_kept_from_the_first_look_on() -> None:
    """And of each the one figure alone; before the look there is a gap."""
    feed = fed()
    history = feed.monitor.history
    await run(feed, 50.0, 50.0)
    assert history.seconds(Level.ULTRASERVER) == 0
    for path in (US, INSTANCE, CHIP):
        assert series(feed, path) == []
        history.glance(path)
    await run(feed, 60.0, 70.0, 80.0)
    for path in (US, INSTANCE, CHIP):
        assert series(feed, path) == pytest.approx([np.nan, np.nan, 60, 70, 80], nan_ok=True)
        assert series(feed, path, "power_w") == []
    assert series(feed, "uc1/us-0002") == []


async def test_what_is_silent_and_what_is_skipped_has_no_samples() -> None:
    feed = fed()
    history = feed.monitor.history
    history.glance(INSTANCE)
    await run(feed, 60.0)
    history.skip(2)
    await run(feed, *[70.0] * 9, silent=(INSTANCE,))
    found = series(feed, INSTANCE)
    assert len(found) == history.samples
    assert found[:3] == pytest.approx([60, np.nan, np.nan], nan_ok=True)
    assert np.isnan(found[-3:]).all(), "it is stale"


async def test_a_chip_that_is_also_watched_has_what_either_has() -> None:
    """A watched chip has both its chart and its full sparkline."""
    feed = fed()
    history = feed.monitor.history
    history.glance(CHIP)
    await run(feed, 10.0, 20.0)
    history.watch(CHIP)
    await run(feed, 30.0)
    assert series(feed, CHIP) == pytest.approx([10, 20, 30])
    await run(feed, *[40.0] * (SAMPLES + 20))
    assert CHIP not in history._glances
    assert series(feed, CHIP) == pytest.approx([30, *[40.0] * (SAMPLES + 20)])


async def test_a_new_layout_moves_rows_and_not_what_was_kept() -> None:
    feed = Feed(ultraservers(2))
    feed.monitor.history = History(budget_bytes=2 * 130 * len(KEPT) * 4)
    first = feed.layout.instances[:4]
    second = feed.layout.instances[4:]
    feed.describe(list(second))
    path = "uc1/us-0002"
    feed.monitor.history.glance(path)
    await run(feed, 10.0, 20.0, silent=first)
    assert feed.monitor.store.layout.find(path) == (Level.ULTRASERVER, 0)
    feed.describe(list(first))
    # The first pass of the new layout may still be that of what was there before.
    await run(feed, 30.0, 30.0, 40.0)
    assert feed.monitor.store.layout.find(path) == (Level.ULTRASERVER, 1)
    found = series(feed, path)
    assert found[:2] == pytest.approx([10, 20])
    assert found[-2:] == pytest.approx([30, 40])


def taken(glances: Glances, path: str, samples: int) -> list[float]:
    return [float(each) for each in glances.series(path, samples)]


def test_memory_is_bounded_and_taken_at_the_first_look() -> None:
    """The one looked at longest ago makes room."""
    glances = Glances()
    assert glances.nbytes == 0
    for number in range(MOST_GLANCED + 1):
        glances.look(f"node{number}", 0)
        glances.look("node0", 0)
    assert len(glances) == MOST_GLANCED
    assert "node0" in glances
    assert "node1" not in glances
    assert glances.nbytes == MOST_GLANCED * SAMPLES * 4


def test_samples_put_before_all_others_move_them() -> None:
    """Earlier samples prepended later, such as the minutes before a start, move all others."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.tick()
    layout, glances = feed.monitor.store.layout, Glances()
    glances.look(US, 0)
    for number in range(3):
        glances.push(layout, (), lambda _level, numbers: np.full(len(numbers), 5.0), number)
    assert taken(glances, US, 3) == [5, 5, 5]
    glances.renumber(300)
    assert taken(glances, US, 303)[-4:] == pytest.approx([np.nan, 5, 5, 5], nan_ok=True)
    glances.push(layout, (), lambda _level, numbers: np.full(len(numbers), 6.0), 303)
    assert taken(glances, US, 304)[-4:] == [5, 5, 5, 6]
    glances.push(
        layout, (Level.ULTRASERVER,), lambda _level, numbers: np.full(len(numbers), 7.0), 304
    )
    assert np.isnan(taken(glances, US, 305)[-1]), "its level is kept as a whole"
