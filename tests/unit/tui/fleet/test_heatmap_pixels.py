from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.top import Top

from trnfleet.domain.address import Level
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store import fields
from trnfleet.tui.fleet.heatmap_grid import MapGrid
from trnfleet.tui.fleet.heatmap_pixels import (
    HeatValues,
    Image,
    PixelCode,
    Trust,
    codes_of,
    rounded_up,
)

if TYPE_CHECKING:
    from trnfleet.monitor.store.fields import Field

POWER = fields.BY_KEY["power_w"]
TEMPERATURE = fields.BY_KEY["temperature_c"]
MFU = fields.BY_KEY["mfu_pct"]
ERRORS = fields.BY_KEY["mem_ecc_corrected"]


@pytest.fixture
def feed() -> Feed:
    """Return two UltraServers and some standalone instances with different values everywhere."""
    feed = Feed(ultraservers(2) + standalone(3) + standalone(5, "trn1.2xlarge"))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed


def whole(feed: Feed, field: Field, side: int) -> Image:
    grid = MapGrid.build(feed.layout)
    wide, high = (-(-groups * grid.group // side) for groups in (grid.columns, grid.rows))
    return HeatValues(feed.monitor).window(grid, field, side, np.arange(wide), np.arange(high))


def test_a_pixel_a_chip_is_that_chips_value(feed: Feed) -> None:
    """Each chip's value stands at its place."""
    grid = MapGrid.build(feed.layout)
    image = whole(feed, POWER, 1)
    store = feed.monitor.store
    expected = POWER.per_chip(store, feed.monitor.rollups, Level.CHIP, None)
    for chip in range(feed.layout.chips):
        x, y = grid.place_of(chip)
        assert image.values[y, x] == expected[chip]
    assert np.count_nonzero(image.trust != Trust.NOTHING) == feed.layout.chips


@pytest.mark.parametrize("side", [2, 4, 8, 16])
@pytest.mark.parametrize(
    ("field", "join"), [(POWER, np.nanmean), (TEMPERATURE, np.nanmax), (ERRORS, np.nansum)]
)
def test_larger_pixels_join_the_chips_under_them(
    feed: Feed, side: int, field: Field, join: object
) -> None:
    """Means, maxima and sums of events are computed from the chips."""
    feed.set("mem_ecc_corrected", 7, [3, 70])
    feed.tick()
    chips = whole(feed, field, 1)
    image = whole(feed, field, side)
    for y, x in np.ndindex(image.values.shape):
        under = chips.values[y * side : (y + 1) * side, x * side : (x + 1) * side]
        if np.isnan(under).all():
            assert np.isnan(image.values[y, x])
        else:
            assert callable(join)
            assert image.values[y, x] == pytest.approx(join(under))


@pytest.mark.parametrize("side", [2, 4, 8])
async def test_what_is_silent_is_told_at_every_zoom(feed: Feed, side: int) -> None:
    """A silent instance is stale at every zoom.

    Its parents are partly stale, with the mean of the others.
    """
    silent = feed.layout.instances.index("uc1/us-0001/trn2u-0001-0")
    first = int(feed.layout.chip_start[silent])
    feed.set("power_w", 100.0)
    feed.set("power_w", 400.0, slice(first, first + 16))
    feed.tick()
    await feed.advance(5)
    feed.tick([path for path in feed.layout.instances if path != feed.layout.instances[silent]])
    grid = MapGrid.build(feed.layout)
    x, y = grid.place_of(first)
    image = whole(feed, POWER, side)
    trust = image.trust[y // side, x // side]
    value = image.values[y // side, x // side]
    assert (trust, value) == ((Trust.PARTLY, 100.0) if side == 8 else (Trust.STALE, 400.0))


def test_what_has_said_goodbye_is_offline(feed: Feed) -> None:
    """After the last will everything is offline."""
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
    for side in (1, 2, 4, 8):
        trust = whole(feed, POWER, side).trust
        assert set(np.unique(trust)) <= {Trust.OFFLINE, Trust.NOTHING}


def test_nothing_heard_yet_is_unknown() -> None:
    """A described fleet without telemetry has neither values nor colours."""
    feed = Feed(ultraservers(1))
    feed.describe()
    for side in (1, 2, 4, 8):
        image = whole(feed, POWER, side)
        assert (image.trust == Trust.UNKNOWN).all()
        assert (codes_of(image, (0, 500)) == PixelCode.MISSING).all()


def test_every_state_of_a_chip_can_be_drawn(feed: Feed) -> None:
    """A map of single chips has a colour for every state.

    Chips seen by no relay are unknown.
    """
    feed.tick()
    for state in Freshness:
        feed.monitor.store.chip_state[:] = state
        assert set(np.unique(whole(feed, POWER, 1).trust)) - {Trust.NOTHING} == {
            Trust.UNKNOWN if state is Freshness.UNOBSERVED else Trust[state.name]
        }


def test_codes_tell_step_and_trust() -> None:
    """Live values become steps; others have codes of their own."""
    values = np.array([[0.0, 99.0, 500.0, 50.0, 50.0, 50.0, np.nan, np.nan]])
    trust = np.array(
        [[0, 0, 0, Trust.PARTLY, Trust.STALE, Trust.OFFLINE, Trust.LIVE, Trust.NOTHING]], np.uint8
    )
    codes = codes_of(Image(values, trust), (0.0, 100.0))
    assert codes[0].tolist() == [
        0,
        7,
        7,
        PixelCode.PARTLY + 4,
        PixelCode.STALE + 4,
        PixelCode.OFFLINE,
        PixelCode.MISSING,
        PixelCode.GAP,
    ]


def test_one_event_is_never_on_the_lowest_step() -> None:
    """A single error among thousands is seen."""
    image = Image(np.array([[0.0, 1.0]]), np.zeros((1, 2), np.uint8))
    assert codes_of(image, (0.0, 4_000.0), counts=True)[0].tolist() == [0, 1]


def test_counts_are_measured_by_the_highest(feed: Feed) -> None:
    """The scale of events ends at a round number above the highest total."""
    feed.set("mem_ecc_corrected", 30, [3])
    feed.tick()
    grid = MapGrid.build(feed.layout)
    values = HeatValues(feed.monitor)
    assert values.scale(grid, ERRORS, 1) == values.scale(grid, ERRORS, 8) == (0.0, 40.0)
    assert [rounded_up(each) for each in (0, 8, 9, 17, 41, 100, 1e6)] == [
        8,
        8,
        16,
        40,
        80,
        160,
        1.6e6,
    ]


@pytest.mark.parametrize("side", [1, 2, 4, 8, 16])
def test_a_pixel_is_inside_where_any_of_its_chips_is(feed: Feed, side: int) -> None:
    """A highlight covers exactly the pixels with one of its chips, at every pixel size."""
    layout = feed.layout
    grid = MapGrid.build(feed.layout)
    mask = np.zeros(layout.chips, np.bool_)
    mask[[0, 20, layout.chips - 2]] = True
    wide, high = (-(-groups * grid.group // side) for groups in (grid.columns, grid.rows))
    expected = np.zeros((high, wide), np.bool_)
    for chip in range(layout.chips):
        x, y = grid.place_of(chip)
        expected[y // side, x // side] |= mask[chip]
    found = HeatValues(feed.monitor).inside(grid, mask, side, np.arange(wide), np.arange(high))
    assert np.array_equal(found, expected)
    assert np.count_nonzero(found) > 0
    part = HeatValues(feed.monitor).inside(grid, mask, side, np.arange(1), np.arange(high))
    assert np.array_equal(part, expected[:, :1])


def test_a_mask_of_another_layout_dims_nothing(feed: Feed) -> None:
    """With a mask of another layout everything counts as inside."""
    inside = HeatValues(feed.monitor).inside(
        MapGrid.build(feed.layout), np.zeros(3, np.bool_), 1, np.arange(4), np.arange(5)
    )
    assert inside.shape == (5, 4)
    assert inside.all()


def test_a_row_of_roll_ups_has_the_value_of_one_of_its_chips() -> None:
    """A row of roll-ups has the value of one chip.

    On a top broker, beside the chips of a row under a lease, 20 kW of 64 chips are 312.5 W; 4 kW of
    16 chips are 250 W.
    """
    top = Top()
    top.frame((4_000.0, 20_000.0, 10_000.0))
    top.look()
    grid = MapGrid.build(top.monitor.store.layout)
    values = HeatValues(top.monitor)
    across = np.arange(grid.columns * grid.group)
    down = np.arange(grid.rows * grid.group)
    shown = values.window(grid, POWER, 1, across, down)
    assert sorted(shown.values[~np.isnan(shown.values)].tolist()) == [156.25, 250.0, 312.5]
    hosts = Feed(ultraservers(1))
    hosts.set("power_w", 400.0)
    hosts.set("mem_ecc_corrected", 70, [5])
    top.monitor.apply([*hosts.announcements(), *hosts.telemetry()])
    top.look()
    grid = MapGrid.build(top.monitor.store.layout)
    across = np.arange(grid.columns * grid.group)
    down = np.arange(grid.rows * grid.group)
    shown = values.window(grid, POWER, 1, across, down)
    assert sorted(shown.values[~np.isnan(shown.values)].tolist()) == [156.25, 250.0, *[400.0] * 64]
    assert values.scale(grid, ERRORS, 1) == (0.0, 80.0)
