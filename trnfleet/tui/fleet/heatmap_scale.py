"""The scale of the map's colours: the 5th to 95th percentile of busy chips, or all of a field's range.

Most chips that work do much the same, so that on the whole range one that does not has their colour. Idle ones are no measure.
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
"""Chips that are looked at, evenly spread: a percentile of more is no other one."""
LEAST_BUSY = 8
"""Busy chips from which percentiles say something; fewer are shown on the whole range."""
LEAST_SHARE = 0.02
"""Of the whole range, what the scale covers at least: chips that differ by less do the same."""
HOLD_SHARE = 0.15
"""Of the scale, by how much percentiles move before it follows: colours that change with every second cannot be compared."""


class Scale(NamedTuple):
    """The ends of the ramp, and from where on values are outliers."""

    low: float
    high: float
    is_automatic: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def outside(self) -> tuple[float, float]:
        """Values below and above which a chip does not do what the others do: as far again beyond an end as the ends are apart.

        One of twenty busy chips lies beyond each end by definition; so far off lies less than one in 100,000 of a normal distribution.
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
        """Return the scale for pixels that are `side` chips wide."""
        whole = self._values.scale(grid, field, side)
        if self.is_full or is_count(field):
            return Scale(*whole)
        return self._automatic(field, whole) or Scale(*whole)

    def _automatic(self, field: Field, whole: tuple[float, float]) -> Scale | None:
        store, source = self._monitor.store, self._monitor.revision.source
        fleet = (source, store.generation)
        mark = (fleet, store.revision, self._monitor.rollups.revision)
        known = self._kept.get(field.key)
        if known is not None and known[0] == mark:
            return known[2]
        found = self._measured(field, whole)
        before = known[2] if known is not None and known[1] == fleet else None
        if found is not None and before is not None and _is_near(found, before):
            found = before
        self._kept[field.key] = mark, fleet, found
        return found

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
            low, high = low - lacking / 2, high + lacking / 2
        shift = max(0.0, min(0.0, whole[0]) - low)
        return Scale(low + shift, high + shift, is_automatic=True)


def _is_near(found: Scale, before: Scale) -> bool:
    reach = HOLD_SHARE * (before.high - before.low)
    return abs(found.low - before.low) <= reach and abs(found.high - before.high) <= reach
