"""Values of the heat map's pixels, and their trust.

Chips are read from the store for the window alone. From a tile on, pixels are made from the
roll-ups of instances, for the whole map at once (a few thousand numbers), and cached until the next
pass. Like a roll-up, a pixel is made of its live chips, or of the last known values if no chip is
live. This module draws nothing.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import BY_NAME, Aggregate
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.tui.fleet.heatmap_health import STATES, MapHealth, state_of
from trnfleet.tui.theme import RAMP_STEPS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.tui.fleet.heatmap_grid import MapGrid


class Trust(enum.IntEnum):
    """How far a pixel's value can be trusted."""

    LIVE = 0
    PARTLY = enum.auto()
    """Some of the chips under it are silent; the value is of the others."""
    STALE = enum.auto()
    OFFLINE = enum.auto()
    UNKNOWN = enum.auto()
    """Nothing has come yet, or no relay sees it."""
    NOTHING = enum.auto()
    """No chip at this place."""


class Image(NamedTuple):
    """Pixels, rows by columns."""

    values: NDArray[np.float64]
    """NaN if unknown."""
    trust: NDArray[np.uint8]


class PixelCode(enum.IntEnum):
    """Codes of a pixel's look; the higher code of two halves wins for the cell.

    Codes with values are followed by those of the other steps of the ramp, or of the other healths.
    """

    LIVE = 0
    PARTLY = LIVE + RAMP_STEPS
    STALE = PARTLY + RAMP_STEPS
    OFFLINE = STALE + RAMP_STEPS
    MISSING = enum.auto()
    GAP = enum.auto()
    CURSOR = enum.auto()
    OUTSIDE = enum.auto()
    """Live, outside the highlight."""
    LOW = OUTSIDE + RAMP_STEPS  # type: ignore[operator]  # auto is a number here
    """Far below the scale."""
    HIGH = enum.auto()
    HEALTH_OUTSIDE = enum.auto()
    """Healthy, outside the highlight."""
    HEALTH = enum.auto()
    PLAIN = HEALTH + STATES  # type: ignore[operator]
    """A health without its glyph."""


CODES = PixelCode.PLAIN + STATES
"""Number of codes."""


def is_count(field: Field) -> bool:
    """Return whether a field counts events.

    Its pixels are totals, so that one error among many chips is seen.
    """
    return field.unit == "events"


def health_codes(
    health: NDArray[np.int8], inside: NDArray[np.bool_] | None = None
) -> NDArray[np.int16]:
    """Return the code of each pixel's state.

    Silent chips and chips in trouble remain visible outside the highlight.
    """
    codes = health.astype(np.int16) + PixelCode.HEALTH
    if inside is not None:
        codes[~inside & (health < state_of(MapHealth.VICTIM))] = PixelCode.HEALTH_OUTSIDE
    codes[health == MapHealth.NOTHING] = PixelCode.GAP
    return codes


def codes_of(
    image: Image, scale: tuple[float, float], *, counts: bool = False
) -> NDArray[np.int16]:
    """Return the code of each pixel's look.

    With `counts`, values above zero are never on the lowest step.
    """
    low, high = scale
    values = image.values
    missing = np.isnan(values)
    steps = np.where(missing, 0.0, (values - low) * (RAMP_STEPS / (high - low)))
    codes = np.clip(steps, 0, RAMP_STEPS - 1).astype(np.int16)
    if counts:
        codes[(codes == 0) & (values > 0)] = 1
    trust = image.trust
    codes += np.array([0, PixelCode.PARTLY, PixelCode.STALE, 0, 0, 0], np.int16)[trust]
    codes[missing] = PixelCode.MISSING
    codes[trust == Trust.OFFLINE] = PixelCode.OFFLINE
    codes[trust == Trust.UNKNOWN] = PixelCode.MISSING
    codes[trust == Trust.NOTHING] = PixelCode.GAP
    return codes


def chip_values(monitor: FleetState, field: Field, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a field's value for chip rows.

    A row of roll-ups has the value of one of its chips, or the total for counts.
    """
    store = monitor.store
    rollups = monitor.rollups
    layout = monitor.store.layout
    values = field.per_chip(store, rollups, Level.CHIP, rows)
    if layout.has_rolled and rollups.ready and rollups.generation == store.generation:
        owner = layout.instance_of_chip[rows]
        is_rolled = layout.is_rolled[owner]
        read = field.values if _joining(field) is Aggregate.SUM else field.per_chip
        values[is_rolled] = read(store, rollups, Level.INSTANCE, owner[is_rolled].astype(np.int64))
    return values


class HeatValues:
    """Reads one monitor's values for pixels of a grid."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._mark: Hashable = None
        self._images: dict[tuple[str, int], Image] = {}
        """Whole maps by field and side, valid for the mark."""

    def window(
        self, grid: MapGrid, field: Field, side: int, x: NDArray[np.int64], y: NDArray[np.int64]
    ) -> Image:
        """Return the pixels, each `side` chips wide, at pixel columns `x` by rows `y`."""
        if side >= grid.tile:
            if len(x) == len(y) == 1:
                return self._reduced(grid, field, side, (int(x[0]), int(y[0])))
            whole = self._whole(grid, field, side)
            return Image(whole.values[np.ix_(y, x)], whole.trust[np.ix_(y, x)])
        if side == 1:
            return self._chips(grid, field, x, y)
        parts = [
            self._chips(grid, field, side * x + right, side * y + below)
            for below in range(side)
            for right in range(side)
        ]
        return _joined(parts, _joining(field))

    def inside(
        self,
        grid: MapGrid,
        mask: NDArray[np.bool_],
        side: int,
        x: NDArray[np.int64],
        y: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Return the pixels of a window with any chip in `mask`.

        `mask` has the shape (chips,). The window is as in `window`; the result is rows by columns.
        """
        layout = self._monitor.store.layout
        if len(mask) != layout.chips or not grid.groups:
            return np.ones((len(y), len(x)), np.bool_)
        if side < grid.tile:
            pixels = np.zeros((len(y), len(x)), np.bool_)
            for below in range(side):
                for right in range(side):
                    chips = grid.chips_at(side * x + right, side * y + below)
                    pixels |= (chips >= 0) & mask[np.maximum(chips, 0)]
            return pixels
        place, (rows, columns) = grid.pixels_of_pieces(side)
        of_instances = np.logical_or.reduceat(mask, layout.chip_start[:-1])
        marked = np.bincount(place, of_instances[grid.piece_instance], rows * columns) > 0
        return marked.reshape(rows, columns)[np.ix_(y, x)]

    def scale(self, grid: MapGrid, field: Field, side: int) -> tuple[float, float]:
        """Return the values at the ends of the ramp.

        For counts the top is the highest value.
        """
        store = self._monitor.store
        if not is_count(field):
            return field.scale(store.layout)
        if side >= grid.tile:
            values = self._whole(grid, field, side).values
            highest = float(np.max(values, initial=0.0, where=~np.isnan(values)))
        elif store.layout.has_rolled:
            values = chip_values(self._monitor, field, np.arange(store.layout.chips))
            highest = float(np.max(values, initial=0.0, where=~np.isnan(values)))
        else:
            codes = store.columns[field.key]
            highest = float(np.max(codes, initial=0, where=codes != BY_NAME[field.key].top))
        return 0.0, rounded_up(highest)

    def _chips(
        self, grid: MapGrid, field: Field, x: NDArray[np.int64], y: NDArray[np.int64]
    ) -> Image:
        store = self._monitor.store
        chips = grid.chips_at(x, y)
        there = chips >= 0
        rows = chips[there]
        values = np.full(chips.shape, np.nan)
        values[there] = chip_values(self._monitor, field, rows)
        trust = np.full(chips.shape, Trust.NOTHING, np.uint8)
        trust[there] = _TRUST_OF_STATE[store.chip_state[rows]]
        return Image(values, trust)

    def _whole(self, grid: MapGrid, field: Field, side: int) -> Image:
        """Return all pixels of a map, which cover whole tiles."""
        monitor = self._monitor
        mark = id(grid), monitor.revision.source, monitor.rollups.revision, monitor.store.generation
        if self._mark != mark:
            self._mark = mark
            self._images.clear()
        key = field.key, side
        if key not in self._images:
            self._images[key] = self._reduced(grid, field, side)
        return self._images[key]

    def _reduced(
        self, grid: MapGrid, field: Field, side: int, only: tuple[int, int] | None = None
    ) -> Image:
        """Make all pixels of a map from instances, or the one at a column and a row."""
        store = self._monitor.store
        rollups = self._monitor.rollups
        place, shape = grid.pixels_of_pieces(side)
        instance = grid.piece_instance
        if only is not None:
            instance = instance[place == only[1] * shape[1] + only[0]]
            place = np.zeros(len(instance), np.int64)
            shape = 1, 1
        size = shape[0] * shape[1]
        trust = np.full(size, Trust.NOTHING, np.uint8)
        if not rollups.ready or rollups.generation != store.generation:
            trust[place] = Trust.UNKNOWN
            return Image(np.full(shape, np.nan), trust.reshape(shape))
        states = rollups.states(Level.INSTANCE)[instance]
        counted = [np.bincount(place, states[:, state], size) for state in Freshness]
        live, stale, offline, unknown, unobserved = counted
        trust[(unknown + unobserved) > 0] = Trust.UNKNOWN
        trust[(stale + offline) > 0] = Trust.STALE
        trust[offline > stale] = Trust.OFFLINE
        trust[live > 0] = Trust.LIVE
        trust[(live > 0) & (stale + offline > 0)] = Trust.PARTLY
        joining = _joining(field)
        read = field.values if joining is Aggregate.SUM else field.per_chip
        values = read(store, rollups, Level.INSTANCE, instance)
        usable = ((states[:, Freshness.LIVE] > 0) | (live[place] == 0)) & ~np.isnan(values)
        weights = np.where(usable, rollups.covered(field.parts[0], Level.INSTANCE)[instance], 0.0)
        seen = np.bincount(place, weights, size)
        known = np.where(usable, values, 0.0)
        if joining is Aggregate.MAX:
            joined = np.full(size, -np.inf)
            np.maximum.at(joined, place[usable], values[usable])
        elif joining is Aggregate.SUM:
            joined = np.bincount(place, known, size)
        else:
            joined = np.bincount(place, weights * known, size) / np.where(seen > 0, seen, 1.0)
        return Image(np.where(seen > 0, joined, np.nan).reshape(shape), trust.reshape(shape))


_TRUST_OF_STATE = np.array(
    [Trust.LIVE, Trust.STALE, Trust.OFFLINE, Trust.UNKNOWN, Trust.UNKNOWN], np.uint8
)
"""Indexed by `Freshness`."""


def rounded_up(value: float) -> float:
    """Return the next of 8, 16, 40, 80, 160, 400, ...

    An eighth of it, one step, is a whole number.
    """
    top = 8.0
    for factor in [2.0, 2.5, 2.0] * 20:
        if top >= value:
            break
        top *= factor
    return top


def _joining(field: Field) -> Aggregate:
    if is_count(field):
        return Aggregate.SUM
    if len(field.parts) == 1 and BY_NAME[field.parts[0]].aggregate is Aggregate.MAX:
        return Aggregate.MAX
    return Aggregate.MEAN


def _joined(parts: list[Image], joining: Aggregate) -> Image:
    """Join chips to one pixel: live chips if any, else the last known values."""
    values = np.stack([part.values for part in parts])
    trust = np.stack([part.trust for part in parts])
    live = trust == Trust.LIVE
    any_live = live.any(axis=0)
    usable = (live | ~any_live) & ~np.isnan(values)
    count = usable.sum(axis=0)
    if joining is Aggregate.MAX:
        joined = np.where(usable, values, -np.inf).max(axis=0)
    else:
        joined = np.where(usable, values, 0.0).sum(axis=0)
        if joining is Aggregate.MEAN:
            joined /= np.maximum(count, 1)
    silent = (trust == Trust.STALE) | (trust == Trust.OFFLINE)
    there = np.where(trust == Trust.NOTHING, 0, trust)
    whole = np.where(
        (trust == Trust.NOTHING).all(axis=0), np.uint8(Trust.NOTHING), there.max(axis=0)
    )
    whole[any_live] = Trust.LIVE
    whole[any_live & silent.any(axis=0)] = Trust.PARTLY
    return Image(np.where(count > 0, joined, np.nan), whole.astype(np.uint8))


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

    def scale(self, grid: MapGrid, field: Field, side: int) -> Scale:
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


def _is_near(scale: Scale, before: Scale) -> bool:
    reach = HOLD_SHARE * (before.high - before.low)
    return abs(scale.low - before.low) <= reach and abs(scale.high - before.high) <= reach
