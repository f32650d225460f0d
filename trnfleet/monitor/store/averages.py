"""Means of roll-ups over the last seconds of fleet time.

Headlines, titles and tree rows show these means. Training steps swing a fleet's power by a third
within seconds, so the newest value says little. One sample a second is stored by reference. A
sample never changes: a reader with one `Averages` sees one moment. `Averages` has the methods of
`Rollups` used to read fields. `trnfleet.monitor.sampling` decides which pass represents a second.

Gauges are means over the window; a metric aggregated by maximum is the maximum of the window;
counters are the newest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import BY_NAME, METRICS, Aggregate, Kind
from trnfleet.monitor.store.fields import FIELDS
from trnfleet.monitor.store.layout_changes import moves, numbers_in
from trnfleet.monitor.store.rollup import ALL, LEVELS, Rollups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.rollup import Pick

WINDOW_S = 10.0
"""Seconds of fleet time in the window: two training steps. People do not notice the delay."""

AVERAGED = tuple(
    metric.name
    for metric in METRICS
    if metric.kind is Kind.GAUGE
    and (metric.name == "host_power_w" or any(metric.name in figure.parts for figure in FIELDS))
)
"""Metrics with means: inputs of fields, and the power of hosts."""
LEAST_COVERED = 0.99
"""Share of the newest pass's chips that a sample must cover. Sums over fewer chips, while a fleet
is first heard, are not comparable."""
_ROWS = {name: row for row, name in enumerate(AVERAGED)}


class Sample(NamedTuple):
    """The roll-ups of one second."""

    at_s: float
    """Monotonic seconds."""
    totals: dict[Level, NDArray[Any]]
    """Metrics x nodes."""
    counts: dict[Level, NDArray[Any]]
    """Chips or instances that went into each."""
    live: NDArray[np.bool_]
    """Instances that went into the fleet's totals."""

    @property
    def covered(self) -> int:
        """The most chips that went into any metric."""
        return int(self.counts[Level.FLEET].max(initial=0))


@dataclass(frozen=True, slots=True)
class Averages:
    """Means over the last samples, and the newest pass for metrics without a mean."""

    rollups: Rollups = field(default_factory=Rollups)
    """The newest pass; never changed."""
    samples: tuple[Sample, ...] = ()
    """Oldest first."""
    speed: float = 1.0
    """Seconds of the fleet's time a wall second."""
    is_first: bool = False
    """Whether the only sample is from the first pass, amid the first messages. The first whole
    second replaces it."""

    @property
    def layout(self) -> Layout:
        """The layout that nodes are numbers of."""
        return self.rollups.layout

    @property
    def generation(self) -> int:
        """The store's layout generation."""
        return self.rollups.generation

    @property
    def seconds(self) -> float:
        """Seconds of fleet time covered by the means.

        0 if only the newest pass is used.
        """
        if not self.samples or self.speed > WINDOW_S:
            return 0.0
        span_s = self.samples[-1].at_s - self.samples[0].at_s + 1.0
        return min(WINDOW_S, round(span_s) * self.speed)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        return sum(
            array.nbytes
            for sample in self.samples
            for part in (sample.totals, sample.counts, {Level.INSTANCE: sample.live})
            for array in part.values()
        )

    def followed(self, rollups: Rollups, speed: float) -> Averages:
        """Return the averages after another pass with the same samples.

        The pass supplies metrics without a mean.

        Args:
            rollups: Those of the pass, frozen.
            speed: Seconds of the fleet's time a wall second.
        """
        samples = self.samples
        if rollups.layout is not self.layout:
            samples = _carried_over(samples, self.layout, rollups.layout)
        samples = _of_as_many(samples, chips_covered(rollups))
        return replace(self, rollups=rollups, samples=samples, speed=speed)

    def sampled(self, rollups: Rollups, at_s: float, *, is_first: bool = False) -> Averages:
        """Return the averages with another sample.

        Args:
            rollups: Roll-ups of the sample, in the present layout; ignored if they cover only a
                part of the newest pass's chips.
            at_s: Monotonic seconds of the end of its second. A sample of the same second is
                replaced.
            is_first: Whether it is of a pass amid the first messages.
        """
        window_s = WINDOW_S / max(self.speed, 1e-3) - 1e-3
        former = () if self.is_first else self.samples
        recent = tuple(earlier for earlier in former if 0.5 < at_s - earlier.at_s < window_s)
        sample = _sample(rollups, at_s)
        samples = _of_as_many(
            (*_of_as_many(recent, sample.covered), sample), chips_covered(self.rollups)
        )
        # At most one a second: the window is shorter for a fleet slower than wall time.
        samples = samples[-int(WINDOW_S) :]
        return replace(self, samples=samples, is_first=is_first)

    def value(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return the mean of a metric's aggregate for nodes of a level.

        NaN if not available.
        """
        if name not in _ROWS or not self.samples:
            return self.rollups.value(name, level, pick)
        aggregate = BY_NAME[name].aggregate
        if aggregate is Aggregate.MAX:
            return self._most(name, level, pick)
        total, count, samples = self._sums(name, level, pick)
        return _quotient(total, count if aggregate is Aggregate.MEAN else samples)

    def mean(self, name: str, level: Level, pick: Pick = ALL) -> NDArray[np.float64]:
        """Return a metric's mean per covered chip or instance.

        It is comparable across levels.
        """
        if name not in _ROWS or not self.samples:
            return self.rollups.mean(name, level, pick)
        if BY_NAME[name].aggregate is Aggregate.MAX:
            return self.value(name, level, pick)
        total, count, _ = self._sums(name, level, pick)
        return _quotient(total, count)

    def parts(self, name: str, level: Level) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a mean's totals over the window and its chip (or instance) counts.

        Both are for all nodes of a level. The mean of several nodes is the quotient of the sums.
        """
        if name not in _ROWS or not self.samples:
            return self.rollups.parts(name, level)
        total, count, _ = self._sums(name, level, ALL)
        return total, count

    def shares(self, name: str) -> NDArray[np.float64]:
        """Return each instance's part of the fleet's mean total of a metric; NaN without one.

        They add up to the fleet's mean of a sum: an instance counts in the seconds it was live.
        """
        if name not in _ROWS or not self.samples:
            total, count = self.rollups.parts(name, Level.INSTANCE)
            return np.where(_counted(self.rollups) & (count > 0), total, np.nan)
        row = _ROWS[name]
        sums = np.zeros(self.layout.count(Level.INSTANCE))
        seconds = np.zeros_like(sums)
        for sample in self.samples:
            known = (sample.counts[Level.INSTANCE][row] > 0) & sample.live
            sums += np.where(known, sample.totals[Level.INSTANCE][row], 0.0)
            seconds += known
        most = sum(bool(sample.counts[Level.FLEET][row][0]) for sample in self.samples)
        return np.where(seconds > 0, sums / max(1, most), np.nan)

    def highest(self, name: str, level: Level) -> int | None:
        """Return the node with the window's highest value of a maximum metric.

        None if nothing was available, and before the first sample.
        """
        row = _ROWS[name]
        best = None
        peak = -np.inf
        for sample in self.samples:
            totals = np.where(sample.counts[level][row] > 0, sample.totals[level][row], -np.inf)
            node = int(totals.argmax()) if len(totals) else 0
            if len(totals) and totals[node] > peak:
                best = node
                peak = float(totals[node])
        return best

    def covered(self, name: str, level: Level) -> NDArray[np.float64]:
        """Return how many chips (or instances) went into a metric's newest roll-up."""
        return self.rollups.covered(name, level)

    def takes(self, level: Level) -> NDArray[np.bool_]:
        """Return a mask of lower-level nodes included in the newest roll-up of `level`."""
        return self.rollups.takes(level)

    def _most(self, name: str, level: Level, pick: Pick) -> NDArray[np.float64]:
        """Return the window's maximum for nodes of a level; NaN if not available."""
        row = _ROWS[name]
        most = np.full(self.layout.count(level), -np.inf)[pick]
        for sample in self.samples:
            known = sample.counts[level][row][pick] > 0
            np.maximum(most, sample.totals[level][row][pick], out=most, where=known)
        return np.where(most > -np.inf, most, np.nan)

    def _sums(self, name: str, level: Level, pick: Pick) -> tuple[NDArray[np.float64], ...]:
        """Return totals, counts and samples with a value over the window, for nodes of a level."""
        row = _ROWS[name]
        total, count, samples = np.zeros((3, self.layout.count(level)))[:, pick]
        for sample in self.samples:
            counts = sample.counts[level][row][pick]
            known = counts > 0
            np.add(total, sample.totals[level][row][pick], out=total, where=known)
            count += counts
            samples += known
        return total, count, samples


def _quotient(total: NDArray[np.float64], count: NDArray[np.number]) -> NDArray[np.float64]:
    return total / np.where(count > 0, count, np.nan)


def _sample(rollups: Rollups, at_s: float) -> Sample:
    totals: dict[Level, NDArray[Any]] = {}
    counts: dict[Level, NDArray[Any]] = {}
    for level in LEVELS:
        parts = [rollups.parts(name, level) for name in AVERAGED]
        # Where all chips have a value most metrics share one array of counts.
        distinct = {id(count): count for _, count in parts}
        most = int(max(float(count.max(initial=0)) for count in distinct.values()))
        coded = {key: count.astype(np.min_scalar_type(most)) for key, count in distinct.items()}
        shape = len(parts), len(parts[0][0])
        total = totals[level] = np.empty(shape, np.float32)
        count = counts[level] = np.empty(shape, np.min_scalar_type(most))
        for row, (own_total, own_count) in enumerate(parts):
            total[row] = own_total
            count[row] = coded[id(own_count)]
    return Sample(at_s, totals, counts, _counted(rollups))


def _counted(rollups: Rollups) -> NDArray[np.bool_]:
    """Return the instances in the fleet's totals: the live ones, or all if none is live."""
    live = rollups.live(Level.INSTANCE)
    return live if live.any() else np.ones_like(live)


def chips_covered(rollups: Rollups) -> int:
    """Return the highest chip count of any metric."""
    return max(int(rollups.parts(name, Level.FLEET)[1][0]) for name in AVERAGED)


def _of_as_many(samples: tuple[Sample, ...], chips: int) -> tuple[Sample, ...]:
    """Return the samples that cover about as many chips as there are now, or more."""
    return tuple(sample for sample in samples if sample.covered >= LEAST_COVERED * chips)


def _carried_over(samples: tuple[Sample, ...], old: Layout, new: Layout) -> tuple[Sample, ...]:
    """Return samples for the nodes of a new layout.

    Nodes missing from the old layout do not enter the means.
    """
    if not samples or not old.instances:
        return ()
    moved = {level: tuple(moves(numbers_in(new, old, level))) for level in LEVELS}

    def take(arrays: dict[Level, NDArray[Any]]) -> dict[Level, NDArray[Any]]:
        carried = {}
        for level, array in arrays.items():
            carried[level] = np.zeros((len(array), new.count(level)), array.dtype)
            for to, source in moved[level]:
                carried[level][:, to] = array[:, source]
        return carried

    def carry(live: NDArray[np.bool_]) -> NDArray[np.bool_]:
        carried = np.zeros(new.count(Level.INSTANCE), np.bool_)
        for to, source in moved[Level.INSTANCE]:
            carried[to] = live[source]
        return carried

    return tuple(
        Sample(sample.at_s, take(sample.totals), take(sample.counts), carry(sample.live))
        for sample in samples
    )
