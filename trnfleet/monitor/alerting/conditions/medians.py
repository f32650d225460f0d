"""Conditions that compare a figure with the median of its peers.

Peers are the chips of the same job or of the same instance.
"""

from __future__ import annotations

import abc
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.alerts.signals import LANES, Scope
from trnfleet.domain.metrics import BY_NAME, Metric
from trnfleet.monitor.alerting.conditions.compare import available, compare_codes
from trnfleet.monitor.alerting.conditions.row_condition import NO_ROWS, RowCondition, count_of
from trnfleet.monitor.alerting.inputs import LEAST_PEERS, Readings
from trnfleet.monitor.store.per_instance import (
    EVEN_SHARE,
    INSTANCES_A_SLICE,
    SLACK,
    Spread,
    any_lane,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.slices import Slices

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Values = NDArray[np.float64]


class MedianRows(RowCondition):
    """A figure in relation to the median of its peers."""

    refines = True
    has_telling_mask = False

    def __init__(self, scope: Scope, condition: Condition, counters: Counters) -> None:
        super().__init__(scope, condition, counters)
        reference = condition.reference
        self._medians = _MEDIANS[scope, "" if reference is None else reference.of]

    def is_quick(self, readings: Readings) -> bool:
        """Return whether it is a column."""
        return readings.column_of(self.scope, self.figure) is not None

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Return a flag per target: has a value.

        Medians are computed for candidates only.
        """
        column = readings.column_of(self.scope, self.figure)
        if column is None:
            values = readings.values(self.scope, self.figure, part)
            return ~np.isnan(values)
        return available(readings.store.columns[column[0].name], column[0]).reshape(-1)

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the relation; NaN where there are too few peers."""
        values = readings.values(self.scope, self.figure, rows)
        return self.relate(values, self._medians(readings, self.scope, self.figure, rows))

    @abc.abstractmethod
    def relate(self, values: Values, medians: Values) -> Values:
        """Return values in relation to their medians."""


class MedianOnlyRows(MedianRows):
    """The median itself."""

    def relate(self, values: Values, medians: Values) -> Values:  # noqa: ARG002  as all relations
        return medians


class MedianDistanceRows(MedianRows):
    """The distance of a figure above the median."""

    has_telling_mask = True

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return no rows if no code is that far above 0, the lowest possible median."""
        column = readings.column_of(self.scope, self.figure)
        is_far = (self.condition.above or -1) >= 0
        if column is None or not is_far or not len(readings.layout.instances):
            return (yield from super().candidates(readings))
        if self.is_beyond_all(readings, *column):
            return NO_ROWS
        return (yield from super().candidates(readings))

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare codes with the distance itself: a median is 0 or more."""
        column = readings.column_of(self.scope, self.figure)
        if column is None or self.condition.above is None or self.condition.above < 0:
            return super().mask(readings, part)
        metric, factor = column
        codes = readings.store.columns[metric.name]
        return compare_codes(codes, metric, "above", self.limit / factor).reshape(-1)

    def relate(self, values: Values, medians: Values) -> Values:
        distance: Values = values - medians
        return distance


class MedianShareRows(MedianRows):
    """A figure as a share of the median."""

    def relate(self, values: Values, medians: Values) -> Values:
        share: Values = values / np.where(medians > 0, medians, np.nan)
        return share


class InstanceShareRows(MedianShareRows):
    """A figure as a share of its instance's median.

    Only uneven instances are checked.

    A link is compared with its peers relative to the busiest link of its chip: chips of an instance
    that serve different requests are not equally busy.
    """

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the relation; NaN where there are too few peers."""
        width = len(LANES[self.scope]) if self.scope in LANES else 1
        if width == 1 or not len(rows):
            return super().values(readings, rows)
        chips, place = np.unique(rows // width, return_inverse=True)
        lanes = chips[:, None] * width + np.arange(width)
        shares = super().values(readings, lanes.reshape(-1)).reshape(lanes.shape)
        busy = np.max(np.where(np.isnan(shares), 0.0, shares), axis=1)[place]
        return shares[place, rows % width] / np.where(busy > 0, np.minimum(busy, 1.0), 1.0)

    def candidates(self, readings: Readings) -> Slices[Rows]:
        """Return the rows that may be far enough from the median.

        They are found by their instance's least and largest value.
        """
        layout = readings.layout
        column = readings.column_of(self.scope, self.figure)
        if column is None or self.condition.comparison.key not in {"above", "below"}:
            # Without a column any target may match, and with any other comparison, too.
            yield from readings.checkpoint()
            return np.arange(count_of(layout, self.scope))
        metric = column[0]
        limit = self.limit
        is_below = self.condition.below is not None
        differing = readings.rollups.uneven(metric.name)
        # The median lies between them: a value can only be far from it if the spread is wide
        # enough.
        if is_below and metric.width > 1 and limit <= EVEN_SHARE and differing is not None:
            # If no lane has less than a share of another, no median has, either. So the least share
            # of a median is that share squared, relative to the largest.
            some = differing.instances[np.square(differing.alike) < limit * (1 + SLACK)]
            lowest, highest = yield from self._spread(readings, metric, some)
            wide = lowest < limit * highest
            some = some[np.flatnonzero(any_lane(wide))]
        else:
            lowest, highest = yield from self._spread(readings, metric)
            wide = lowest < limit * highest if is_below else highest > limit * lowest
            some = np.flatnonzero(any_lane(wide))
        rows: list[Rows] = []
        for first in range(0, len(some), INSTANCES_A_SLICE):
            yield from readings.checkpoint()
            few = some[first : first + INSTANCES_A_SLICE]
            if is_below and metric.width > 1:
                rows.append(self._busy(readings, metric, few))
            else:
                rows.append(
                    self._far(readings, metric, few, (highest if is_below else lowest)[few])
                )
        return np.concatenate(rows) if rows else NO_ROWS

    def _spread(
        self, readings: Readings, metric: Metric, some: Rows | slice = slice(None)
    ) -> Slices[Spread]:
        """Return the least and largest codes of some instances.

        They come from the roll-ups or are computed in slices.
        """
        known = readings.rollups.spread(metric.name, some)
        if known is not None:
            return known
        layout = readings.layout
        made: list[Spread] = []
        for first in range(0, len(layout.instances), INSTANCES_A_SLICE):
            starts = layout.chip_start[first : first + INSTANCES_A_SLICE + 1]
            codes = readings.store.columns[metric.name][int(starts[0]) : int(starts[-1])]
            made.append(spread(codes.reshape(len(codes), -1), starts, layout.chips_per_instance))
            yield from readings.checkpoint()
        nothing = np.zeros((0, metric.width), metric.dtype)
        return Spread.joined([Spread(nothing, nothing), *made]).of(some)

    def _far(self, readings: Readings, metric: Metric, instances: Rows, edge: NDArray[Any]) -> Rows:
        """Return the rows of some instances that are far from the bound of their median."""
        layout = readings.layout
        chips = layout.chip_rows(instances)
        values = readings.store.columns[metric.name][chips].reshape(len(chips), -1)
        edges = self.limit * np.repeat(edge, np.diff(layout.chip_start)[instances], axis=0)
        far = (values < edges if self.condition.below is not None else values > edges) & (
            values != metric.top
        )
        return _rows(chips, far)

    def _busy(self, readings: Readings, metric: Metric, instances: Rows) -> Rows:
        """Return the lanes with a smaller share of their median than their chip's busiest lane.

        The lanes of a less busy chip are not returned: it is less busy as a whole.
        """
        layout = readings.layout
        # In steps of codes, as the values are: shares are limited by 1.
        peers = peer_medians(readings, metric.name, metric.width, instances)
        medians = (peers.medians / metric.scale).astype(np.float32)
        chips = layout.chip_rows(instances)
        values = readings.store.columns[metric.name][chips]
        sizes = np.diff(layout.chip_start)[instances]
        # Of lanes without a median, or one of 0, there is no share.
        has_share = medians > 0
        steps = np.where(has_share, 1 / np.where(has_share, medians, 1), 0).astype(np.float32)
        shares = values * np.repeat(steps, sizes, axis=0)
        missing = values == metric.top if int(values.max(initial=0)) == metric.top else None
        if missing is not None:
            shares[missing] = 0.0
        busy = functools.reduce(np.maximum, shares.T)
        # Values decide in the end: what single precision rounds away stays in.
        far = shares < (np.float32(self.limit * (1 + SLACK)) * np.minimum(busy, 1))[:, None]
        far &= np.repeat(has_share, sizes, axis=0)
        return _rows(chips, far if missing is None else far & ~missing)


def _rows(chips: Rows, flags: Flags) -> Rows:
    """Return the rows of the flagged lanes of some chips."""
    places, lanes = np.nonzero(flags)
    rows: Rows = chips[places] * flags.shape[1] + lanes
    return rows


def _job_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:  # noqa: ARG001  as all medians
    """Return the median over the live chips of each chip's job."""
    jobs = readings.job_of_chips(rows)
    medians = np.full(int(jobs.max(initial=-1)) + 2, np.nan)  # the last is for chips without a job
    for job in np.flatnonzero(np.bincount(jobs + 1)[1:]).tolist():
        medians[job] = readings.job_median(figure, job)
    return medians[jobs]


def _host_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:  # noqa: ARG001  as all medians
    """Return the median over the live instances of each instance's job."""
    return readings.host_medians(figure)[readings.store.job_of[rows]]


def _peer_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:
    """Return the median over the chips of each target's instance, for links lane by lane.

    Only chips with values of the instance's newest instant count. While a tick's messages still
    arrive, chips of the tick before are no peers.
    """
    layout = readings.layout
    store = readings.store
    width = len(LANES[scope]) if scope in LANES else 1
    chips, lanes = np.divmod(rows, width)
    instances, place = _numbered(layout.instance_of_chip[chips], len(layout.instances))
    peers = peer_medians(readings, figure, width, instances)
    is_newest = store.chip_ts_ns[chips] == peers.newest_ns[place]
    return np.where(is_newest, peers.medians[place, lanes], np.nan)


def _numbered(owners: NDArray[np.integer[Any]], total: int) -> tuple[Rows, Rows]:
    """Return the distinct ones of some instances, ascending, and the place of each among them."""
    flags = np.zeros(total, np.bool_)
    flags[owners] = True
    distinct = np.flatnonzero(flags)
    return distinct, np.searchsorted(distinct, owners)


class Peers(NamedTuple):
    """Medians over the chips of some instances."""

    medians: Values
    """Instances x lanes; NaN for fewer than `LEAST_PEERS`."""
    newest_ns: NDArray[np.int64]
    """Time of each instance's newest values, the ones used for the medians."""


def peer_medians(readings: Readings, figure: str, width: int, instances: Rows) -> Peers:
    """Return the medians of a figure over the live chips of some instances, per lane."""
    layout = readings.layout
    store = readings.store
    starts = layout.chip_start[instances]
    sizes = np.diff(layout.chip_start)[instances]
    # A column of chips for each instance; smaller ones repeat their last chip, which does not count
    # again.
    place = np.arange(int(sizes.max(initial=0)))[:, None]
    rows = starts + np.minimum(place, sizes - 1)
    times_ns = store.chip_ts_ns[rows]
    newest_ns = times_ns.max(axis=0, initial=0)
    usable = (times_ns == newest_ns) & (place < sizes)
    if not readings.all_live:
        usable &= readings.live[rows]
    metric = BY_NAME.get(figure)
    top: float
    if metric is not None and metric.width == width:
        table = store.columns[figure][rows].reshape(*rows.shape, width)
        top = metric.top
    else:
        lanes = rows[:, :, None] * width + np.arange(width)
        scope = next(
            (lane_scope for lane_scope, names in LANES.items() if len(names) == width), Scope.CHIP
        )
        table = readings.values(scope, figure, lanes.reshape(-1)).reshape(lanes.shape)
        table = np.where(np.isnan(table), np.inf, table)
        top = np.inf
    if not usable.all():
        table = np.where(usable[:, :, None], table, table.dtype.type(top))
    table = table.reshape(len(place), len(instances) * width)
    is_whole = bool(table.max(initial=0) != top)
    count = np.full(table.shape[1], len(place)) if is_whole else (table != top).sum(axis=0)
    table = np.sort(table, axis=0)
    low, high = (
        np.take_along_axis(table, np.maximum(middle, 0)[None], axis=0)[0]
        for middle in ((count - 1) // 2, np.minimum(count // 2, len(place) - 1))
    )
    if metric is not None and top == metric.top:
        low = metric.decode(low)
        high = metric.decode(high)
    medians = np.where(count >= LEAST_PEERS, (low + high) / 2, np.nan)
    return Peers(medians.reshape(len(instances), width), newest_ns)


_MEDIANS: Mapping[tuple[Scope, str], Callable[[Readings, Scope, str, Rows], Values]] = (
    MappingProxyType(
        {
            (Scope.CHIP, "job"): _job_medians,
            (Scope.CHIP, "instance"): _peer_medians,
            (Scope.INSTANCE, "job"): _host_medians,
            (Scope.LINK, "job"): _peer_medians,
            (Scope.LINK, "instance"): _peer_medians,
        }
    )
)
"""The medians by scope and reference. Links of a job are compared within their instance."""
