from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.monitor.store import fields
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_grid import MapGrid
from trnfleet.tui.fleet.heatmap_pixels import (
    CODES,
    HeatValues,
    PixelCode,
    Scale,
    Scales,
    codes_of,
)
from trnfleet.tui.fleet.heatmap_style import Ink
from trnfleet.tui.metric_display import ramp_of
from trnfleet.tui.theme.palettes import contrast

UTIL = fields.BY_KEY["nc_util_pct"]
POWER = fields.BY_KEY["power_w"]
ERRORS = fields.BY_KEY["mem_ecc_corrected"]


@pytest.fixture
def feed() -> Feed:
    """Return an idle UltraServer and a busy one.

    Busy chips work at 94 to 98 %, but one at 88 %.
    """
    feed = Feed(ultraservers(2))
    util = np.r_[np.linspace(94.0, 98.0, 64), np.zeros(64)]
    util[20] = 88.0
    feed.set("nc_util_pct", util[:, None])
    feed.set("power_w", np.r_[np.linspace(400.0, 440.0, 64), np.full(64, 90.0)])
    feed.describe()
    feed.tick()
    return feed


def scale_of(feed: Feed, field: fields.Field) -> Scale:
    return Scales(feed.monitor, HeatValues(feed.monitor)).scale(
        MapGrid.build(feed.layout), field, 1
    )


def test_percentiles_are_of_busy_chips_alone(feed: Feed) -> None:
    """The scale is that of the busy half.

    The other half idles at 90 W.
    """
    scale = scale_of(feed, POWER)
    assert scale.is_automatic
    assert scale.low == pytest.approx(402.0, abs=1.0)
    assert scale.high == pytest.approx(438.0, abs=1.0)
    feed.set("nc_util_pct", 0.0)
    feed.tick()
    assert scale_of(feed, POWER) == Scale(0.0, 500.0)


def test_a_straggler_is_seen(feed: Feed) -> None:
    """88 % among 94 to 98 % is far below the scale.

    Its cell has a contrast above 3:1 to every other step.
    """
    scale = scale_of(feed, UTIL)
    assert 94.0 <= scale.low < scale.high <= 98.0
    assert scale.outside[0] > 88.0
    ramp = theme.RAMPS[ramp_of(UTIL.key)]
    look = Ink().look(PixelCode.LOW * CODES + PixelCode.LOW)
    assert look[0] == "↓"
    assert look[1].bgcolor is not None
    assert min(contrast(look[1].bgcolor, each) for each in ramp) > 3.0
    # Without being far off it would still be on the lowest step, beside others on higher ones.
    assert contrast(ramp[0], ramp[5]) > 2.5
    assert Ink().look(PixelCode.HIGH * CODES + PixelCode.HIGH)[0] == "↑"


def test_full_range_and_counts_are_not_measured(feed: Feed) -> None:
    """The full range is the field's.

    The scale of events ends at the highest total.
    """
    scales = Scales(feed.monitor, HeatValues(feed.monitor))
    scales.is_full = True
    grid = MapGrid.build(feed.layout)
    assert scales.scale(grid, UTIL, 1) == Scale(0.0, 100.0)
    scales.is_full = False
    assert scales.scale(grid, ERRORS, 1) == Scale(0.0, 8.0)


def test_a_scale_follows_only_what_moves_far(feed: Feed) -> None:
    """A little more power leaves the limits where they are; much more moves them."""
    grid = MapGrid.build(feed.layout)
    scales = Scales(feed.monitor, HeatValues(feed.monitor))
    before = scales.scale(grid, POWER, 1)
    feed.set("power_w", np.linspace(401.0, 441.0, 64), slice(0, 64))
    feed.tick()
    assert scales.scale(grid, POWER, 1) == before
    feed.set("power_w", np.linspace(440.0, 480.0, 64), slice(0, 64))
    feed.tick()
    assert scales.scale(grid, POWER, 1).low > before.high


def test_chips_that_do_the_same_are_no_gradient(feed: Feed) -> None:
    """Noise has one colour or two.

    The scale covers at least a fiftieth of the range.
    """
    feed.set("nc_util_pct", np.r_[np.linspace(95.9, 96.1, 64), np.zeros(64)][:, None])
    feed.tick()
    scale = scale_of(feed, UTIL)
    assert scale.high - scale.low == pytest.approx(2.0)
    image = HeatValues(feed.monitor).window(
        MapGrid.build(feed.layout), UTIL, 1, np.arange(8), np.arange(8)
    )
    assert len(np.unique(codes_of(image, scale.ends))) <= 2
