"""Mean utilisation of reservations over the last seconds."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.monitor.reservations.means import MeanUse
from trnfleet.monitor.store.fields import BY_KEY

UTIL = "nc_util_pct"
US = "uc1/us-0001"
ONE = "uc1/standalone/trn2-0001"
TWO = "uc1/standalone/trn2-0002"


def fed() -> Feed:
    feed = Feed(ultraservers(1) + standalone(2))
    feed.set(UTIL, 80.0)
    feed.describe()
    feed.monitor.apply(
        [
            feed.reservation("cb-us", US, instances=4),
            feed.reservation("cb-both", (ONE, TWO), instances=2),
            feed.reservation("cb-two", TWO),
            feed.reservation(
                "cb-next",
                TWO,
                state="scheduled",
                start="2026-01-08T11:30:00Z",
                end="2026-01-09T11:30:00Z",
            ),
        ]
    )
    feed.tick()
    return feed


def means(feed: Feed) -> dict[str, float | None]:
    monitor = feed.monitor
    use = MeanUse(monitor.averages, monitor.store.generation)
    return {each.message.id: use.util_pct(each) for each in monitor.reservations.table()}


def row_of(feed: Feed, path: str) -> float:
    """Return the utilisation of a row of the tree."""
    monitor = feed.monitor
    node = feed.layout.find(path)
    assert node is not None
    number = np.array([node.number])
    return float(BY_KEY[UTIL].values(monitor.store, monitor.averages, node.level, number)[0])


async def test_a_reservation_has_the_value_of_its_rows_of_the_tree() -> None:
    """While steps swing, and of several instances with different values."""
    feed = fed()
    chips = feed.layout.chip_range(feed.layout.find(TWO))  # type: ignore[arg-type]
    for util in (60.0, 90.0, 70.0, 95.0):
        feed.set(UTIL, util)
        feed.set(UTIL, util / 2, slice(chips.start, chips.stop))
        feed.tick()
        await feed.advance(1.0)
    found = means(feed)
    assert found["cb-us"] == pytest.approx(row_of(feed, US)) == pytest.approx(row_of(feed, ONE))
    assert found["cb-two"] == pytest.approx(row_of(feed, TWO))
    assert found["cb-both"] == pytest.approx((row_of(feed, ONE) + row_of(feed, TWO)) / 2)
    assert found["cb-next"] is None
    present = next(each for each in feed.monitor.reservations.table() if each.message.id == "cb-us")
    assert present.util_pct == pytest.approx(95.0, abs=0.3)
    assert found["cb-us"] != pytest.approx(95.0, abs=10.0), "the mean, not the present"


async def test_only_what_is_live_counts() -> None:
    """A silent instance is in no mean.

    A reservation without live instances has no mean.
    """
    feed = fed()
    others = [each for each in feed.layout.instances if each != TWO]
    feed.set(UTIL, 50.0)
    for _ in range(12):
        feed.tick(others)
        await feed.advance(1.0)
    found = means(feed)
    assert found["cb-both"] == pytest.approx(row_of(feed, ONE))
    assert found["cb-two"] is None


def test_before_the_first_sample_and_of_another_layout() -> None:
    """With one pass the mean is its value.

    Rows of another layout belong to nobody.
    """
    feed = fed()
    assert means(feed)["cb-us"] == pytest.approx(80.0, abs=0.3)
    use = MeanUse(feed.monitor.averages, feed.monitor.store.generation + 1)
    assert {use.util_pct(each) for each in feed.monitor.reservations.table()} == {None}


async def test_the_parts_of_a_mean_add_up() -> None:
    """Totals and counts of instances together give the mean of all of them."""
    feed = fed()
    feed.set(UTIL, 20.0, slice(0, 16))
    feed.tick()
    await feed.advance(1.0)
    averages = feed.monitor.averages
    total, count = averages.parts(UTIL, Level.INSTANCE)
    assert total.sum() / count.sum() == pytest.approx(averages.value(UTIL, Level.FLEET)[0])
    newest, _ = averages.parts("exec_errors", Level.INSTANCE)
    assert len(newest) == len(total), "a counter has no mean"
