"""The scale of the map's colours.

It covers the 5th to 95th percentile of busy chips, or the full range. Most busy chips have similar
values. On the whole range a chip with a different value would have the same colour. Idle chips are
not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui.fleet.heatmap_pixels import chip_values, is_count

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.fleet.heatmap_grid import Grid
    from trnfleet.tui.fleet.heatmap_pixels import HeatValues

UTIL = BY_KEY["nc_util_pct"]
PERCENTILES = (5.0, 95.0)
SAMPLE = 8_192
"""Chips sampled for a percentile, evenly spread. More would not change it."""
LEAST_BUSY = 8
"""Fewest busy chips for percentiles; with fewer, the scale is the whole range."""
LEAST_SHARE = 0.02
"""Smallest share of the whole range on the scale: smaller differences do not matter."""
HOLD_SHARE = 0.15
"""Least move of the percentiles before the scale follows, as a share of it. Colours that change
every second cannot be compared."""


class Scale(NamedTuple):
    """The ends of the ramp, and the limits for outliers."""

    low: float
    high: float
    is_automatic: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def outside(self) -> tuple[float, float]:
        """Limits of normal values: beyond each end by as much as the ends are apart.

        One of twenty busy chips is beyond an end by definition. So far off are less than one in
        100,000 of a normal distribution.
        """
        span = self.high - self.low
        return self.low - span, self.high + span


class Scales:
    """The scales of the fields of one map."""

    def __init__(self, monitor: FleetState, values: HeatValues) -> None:
        self._monitor = monitor
        self._values = values
        self.is_full = False
        """Whether colours cover a field's whole range."""
        self._kept: dict[str, tuple[Hashable, Hashable, Scale | None]] = {}

    def of(self, grid: Grid, field: Field, side: int) -> Scale:
        """Return the scale for pixels `side` chips wide."""
        whole = self._values.scale(grid, field, side)
        if self.is_full or is_count(field):
            return Scale(*whole)
        return self._automatic(field, whole) or Scale(*whole)

    def _automatic(self, field: Field, whole: tuple[float, float]) -> Scale | None:
        store = self._monitor.store
        source = self._monitor.revision.source
        fleet = (source, store.generation)
        mark = (fleet, store.revision, self._monitor.rollups.revision)
        known = self._kept.get(field.key)
        if known is not None and known[0] == mark:
            return known[2]
        scale = self._measured(field, whole)
        before = known[2] if known is not None and known[1] == fleet else None
        if scale is not None and before is not None and _is_near(scale, before):
            scale = before
        self._kept[field.key] = mark, fleet, scale
        return scale

    def _measured(self, field: Field, whole: tuple[float, float]) -> Scale | None:
        store = self._monitor.store
        # An odd step falls on all places of an instance in turn.
        rows = np.arange(0, store.layout.chips, max(1, -(-store.layout.chips // SAMPLE)) | 1)
        rows = rows[store.chip_state[rows] == Freshness.LIVE]
        rows = rows[chip_values(self._monitor, UTIL, rows) > IDLE_BELOW_PCT]
        values = chip_values(self._monitor, field, rows)
        values = values[~np.isnan(values)]
        if len(values) < LEAST_BUSY:
            return None
        low, high = np.percentile(values, PERCENTILES).tolist()
        lacking = LEAST_SHARE * (whole[1] - whole[0]) - (high - low)
        if lacking > 0:
            low = low - lacking / 2
            high = high + lacking / 2
        shift = max(0.0, min(0.0, whole[0]) - low)
        return Scale(low + shift, high + shift, is_automatic=True)


def _is_near(found: Scale, before: Scale) -> bool:
    reach = HOLD_SHARE * (before.high - before.low)
    return abs(found.low - before.low) <= reach and abs(found.high - before.high) <= reach
