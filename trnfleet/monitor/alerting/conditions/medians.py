"""Conditions that compare a figure with the median of its peers: the chips of the same job, or of the same instance."""

from __future__ import annotations

import abc
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.alerts.signals import LANES, Scope
from trnfleet.monitor.alerting.conditions.compare import available, compare_codes
from trnfleet.monitor.alerting.conditions.row_condition import NO_ROWS, RowCondition, count_of
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.medians import median
from trnfleet.monitor.store.per_instance import combine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.conditions import Condition
    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.alerting.conditions.windows import Counters
    from trnfleet.monitor.alerting.inputs import Readings
    from trnfleet.monitor.slices import Slices

    Rows = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Values = NDArray[np.float64]

INSTANCES_A_SLICE = 8_192
"""Instances whose chips are compared with each other in one slice."""


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
        """Return which have a value: medians are only computed for what may be far from them."""
        found = readings.column_of(self.scope, self.figure)
        if found is None:
            values = readings.values(self.scope, self.figure, part)
            return ~np.isnan(values)
        return available(readings.store.columns[found[0].name], found[0]).reshape(-1)

    def values(self, readings: Readings, rows: Rows) -> Values:
        """Return the relation; NaN where there are too few peers."""
        values = readings.values(self.scope, self.figure, rows)
        return self.relate(values, self._medians(readings, self.scope, self.figure, rows))

    @abc.abstractmethod
    def relate(self, values: Values, medians: Values) -> Values:
        """Return values in relation to their medians."""


class MedianDistanceRows(MedianRows):
    """What a figure is above the median."""

    has_telling_mask = True

    def mask(self, readings: Readings, part: slice) -> Flags:
        """Compare codes: a median is 0 or more, so what is that far above it is above that limit, too."""
        found = readings.column_of(self.scope, self.figure)
        if found is None or self.condition.above is None or self.condition.above < 0:
            return super().mask(readings, part)
        metric, factor = found
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
    """A figure as a share of the median of the same instance's chips: only uneven instances are looked at.

    A link is compared with its peers as far as the other links of its chip carry what theirs do: chips of an instance that serve
    other requests are not equally busy.
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
        """Return the rows whose value may be that far from the median, by their instance's least and largest value."""
        layout = readings.layout
        found = readings.column_of(self.scope, self.figure)
        if found is None or self.condition.comparison.key not in {"above", "below"}:
            # Of a figure that is no column every target may be; so may any where the limit is none on one side.
            yield from readings.checkpoint()
            return np.arange(count_of(layout, self.scope))
        rows: list[Rows] = []
        for first in range(0, len(layout.instances), INSTANCES_A_SLICE):
            rows.append(self._uneven(readings, found[0], first))
            yield from readings.checkpoint()
        return np.concatenate(rows) if rows else NO_ROWS

    def _uneven(self, readings: Readings, metric: Metric, first: int) -> Rows:
        layout, limit, is_below = readings.layout, self.limit, self.condition.below is not None
        column = readings.store.columns[metric.name]
        codes = column if column.ndim == 2 else column[:, None]
        starts = layout.chip_start[first : first + INSTANCES_A_SLICE + 1]
        part = codes[int(starts[0]) : int(starts[-1])]
        lowest, highest = (
            combine(each, part, starts, layout.chips_per_instance) for each in (np.minimum, np.maximum)
        )
        # The median lies between: only where the spread is wide enough can a value be that far from it.
        wide = lowest < limit * highest if is_below else highest > limit * lowest
        some = np.flatnonzero(wide.any(axis=1))
        if not len(some):
            return NO_ROWS
        chips = layout.chip_rows(some + first)
        edge = np.repeat((highest if is_below else lowest)[some], np.diff(starts)[some], axis=0)
        values = codes[chips]
        far = (values < limit * edge if is_below else values > limit * edge) & (values != metric.top)
        if is_below and codes.shape[1] > 1:
            # Of chips that are less busy as a whole no link is far from the others, wherever the medians lie.
            less = np.flatnonzero(far.any(axis=1))
            own = values[less].astype(np.float32)
            own[values[less] == metric.top] = 0.0
            least = np.repeat(lowest[some], np.diff(starts)[some], axis=0)[less]
            busy = np.minimum((own / np.maximum(least, 1)).max(axis=1, keepdims=True), 1.0)
            far[less] &= own < limit * busy * edge[less]
        places, lanes = np.nonzero(far)
        rows: Rows = chips[places] * codes.shape[1] + lanes
        return rows


def _job_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:  # noqa: ARG001  as all medians
    """Return the median over the live chips of each chip's job."""
    jobs = readings.job_of_chips(rows)
    medians = {job: readings.job_median(figure, job) for job in set(jobs.tolist()) - {-1}}
    return np.array([medians.get(job, np.nan) for job in jobs.tolist()])


def _peer_medians(readings: Readings, scope: Scope, figure: str, rows: Rows) -> Values:
    """Return the median over the chips of each target's instance, for links lane by lane.

    Only chips whose values are of the same instant as the newest of the instance count: while a tick's messages still come
    in, those of the tick before are no peers.
    """
    layout, store = readings.layout, readings.store
    width = len(LANES[scope]) if scope in LANES else 1
    chips, lanes = np.divmod(rows, width)
    owners = layout.instance_of_chip[chips]
    made: dict[tuple[int, int], tuple[float, int]] = {}
    medians = np.full(len(rows), np.nan)
    for place, (owner, lane) in enumerate(zip(owners.tolist(), lanes.tolist(), strict=True)):
        known = made.get((owner, lane))
        if known is None:
            peers = np.arange(layout.chip_start[owner], layout.chip_start[owner + 1])
            times_ns = store.chip_ts_ns[peers]
            newest_ns = int(times_ns.max())
            peers = peers[(times_ns == newest_ns) & readings.live[peers]]
            values = readings.values(scope, figure, peers * width + lane)
            values = values[~np.isnan(values)]
            known = median(values) if len(values) >= LEAST_PEERS else np.nan, newest_ns
            made[owner, lane] = known
        if store.chip_ts_ns[chips[place]] == known[1]:
            medians[place] = known[0]
    return medians


_MEDIANS: Mapping[tuple[Scope, str], Callable[[Readings, Scope, str, Rows], Values]] = MappingProxyType(
    {
        (Scope.CHIP, "job"): _job_medians,
        (Scope.CHIP, "instance"): _peer_medians,
        (Scope.LINK, "job"): _peer_medians,
        (Scope.LINK, "instance"): _peer_medians,
    }
)
"""The medians of each scope and reference; links of a job are compared within their instance."""
