"""Samples of the past in rings: one a second, and roll-ups of them (least, mean, largest) that reach farther back.

A roll-up is made of the newest samples when its time is over, so that it needs nothing of its own but what it keeps. Rings take memory
as they fill, so that what was never kept takes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.store.rings.ring import CodedRing, Growth, Ring, SteppedRing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LOW, MEAN, HIGH = range(3)


class TierSpec(NamedTuple):
    """A kind of roll-up."""

    step: int
    """Samples that are rolled up into one."""
    length: int
    """Roll-ups that are kept at most."""
    growth: Growth | None = None
    """How its ring takes memory; None: as it fills."""


CODED_NODES = 16
"""Nodes from which on the roll-ups of a level are codes of two bytes: few nodes take little as they are, and lie far apart."""
TIERS = (TierSpec(10, 360, Growth(90, 360)), TierSpec(60, 1_440, Growth(15, 240)))
"""An hour in steps of 10 s, which is what headlines are means of, and a day in minutes.

After a quarter of an hour, when the samples have their memory, those of the hour take theirs, and those of the day what they need for
four hours, so that an app grows no more for as long: with 192 chips 7.1 MiB then, and 2 after four hours.
"""


class Track(NamedTuple):
    """Samples of one figure of one node, oldest first, each with its own extremes."""

    low: NDArray[np.float32]
    mean: NDArray[np.float32]
    high: NDArray[np.float32]
    step_s: int
    """Wall seconds that a sample stands for."""
    total: int
    """Samples of this length since the start, of which these are the last ones."""
    end: int
    """Wall seconds since the start, at the end of the last sample; less than `total` of them where that one has just begun."""

    @staticmethod
    def of(series: NDArray[np.float32], total: int | None = None) -> Track:
        """Return the track of single samples, one a second."""
        total = len(series) if total is None else total
        return Track(series, series, series, 1, total, total)

    @property
    def kept_s(self) -> int:
        """Seconds from its first sample to its end."""
        return self.end - (self.total - len(self.mean)) * self.step_s

    def last(self, span_s: int) -> Track:
        """Return what is within the last seconds, and one sample more."""
        first = max(0, len(self.mean) - -(-span_s // self.step_s) - 1)
        return self._replace(low=self.low[first:], mean=self.mean[first:], high=self.high[first:])

    def smoothed(self, seconds: int) -> Track:
        """Return the track with each mean that of a number of seconds up to it; gaps stay gaps, and extremes what they are."""
        count = seconds // self.step_s
        return self if count <= 1 else self._replace(mean=trailing_mean(self.mean, count))

    def distance_pct(self, base: float) -> Track:
        """Return the track with all values as their distance from a base in percent of it."""
        low, mean, high = (
            np.asarray(100.0 * (each / base - 1.0), np.float32)
            for each in (self.low, self.mean, self.high)
        )
        return self._replace(low=low, mean=mean, high=high)


def trailing_mean(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return the mean of each value and those before it, `count` in all, without what is not available; NaN stays NaN."""
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0), dtype=np.float64)])
    counts = np.concatenate([[0], np.cumsum(known)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - count)
    means = (sums[ends] - sums[starts]) / np.maximum(1, counts[ends] - counts[starts])
    return np.where(known, means, np.nan).astype(np.float32)


class Tier:
    """Roll-ups x (low, mean, high) x fields x nodes, in a ring whose fields are these three times as many."""

    def __init__(self, spec: TierSpec, fields: int, nodes: int) -> None:
        self.step = spec.step
        self._fields = fields
        kind = CodedRing if nodes >= CODED_NODES else Ring
        self.ring: Ring | CodedRing = kind(spec.length, 3 * fields, nodes, spec.growth)

    def close(self, samples: NDArray[np.float32]) -> None:
        """Roll samples up into one: samples x fields x nodes."""
        if not len(samples):
            self.ring.skip(1)
            return
        self.ring.push(np.concatenate(rolled_up(samples)))

    def series(self, field: int, node: int) -> list[NDArray[np.float32]]:
        """Return the low, mean and high of a node's field."""
        return [self.ring.series(part * self._fields + field, node) for part in (LOW, MEAN, HIGH)]


def rolled_up(samples: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
    """Return the least, mean and largest of samples along their first axis; NaN where none is available."""
    known = ~np.isnan(samples)
    count = known.sum(axis=0)
    mean = np.where(known, samples, 0.0).sum(axis=0) / np.maximum(1, count)
    return (
        np.fmin.reduce(samples, axis=0),
        np.where(count > 0, mean, np.nan).astype(np.float32),
        np.fmax.reduce(samples, axis=0),
    )


class Record:
    """The past of the nodes of one level, or of a single one: samples, and roll-ups of them."""

    def __init__(
        self,
        samples: int,
        fields: int,
        nodes: int,
        *,
        tiers: Sequence[TierSpec] = TIERS,
        total: int = 0,
        steps: NDArray[np.float64] | None = None,
    ) -> None:
        """Begin to keep.

        Args:
            samples: Seconds that are kept one by one; as many as the longest step, at least.
            fields: Figures of a node.
            nodes: Nodes.
            tiers: Kinds of roll-ups.
            total: Samples that were taken before, elsewhere.
            steps: What each field's values are multiples of, for samples of two bytes a value; None for samples in float32.
        """
        self.ring: Ring | CodedRing = (
            Ring(samples, fields, nodes) if steps is None else SteppedRing(samples, steps, nodes)
        )
        self.tiers = [Tier(each, fields, nodes) for each in tiers if each.length]
        self.total = total
        self._since = total
        """Samples that were taken before its first one."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rings once they are full."""
        return self.ring.nbytes + sum(tier.ring.nbytes for tier in self.tiers)

    @property
    def taken_bytes(self) -> int:
        """Bytes that all rings take at present, at most."""
        return self.ring.taken_bytes + sum(tier.ring.taken_bytes for tier in self.tiers)

    def push(self, rows: Sequence[NDArray[np.floating]] | NDArray[np.floating]) -> None:
        """Take a sample: fields x nodes."""
        self.ring.push(rows)
        self.total += 1
        for tier in self.tiers:
            if not self.total % tier.step:
                tier.close(self.ring.newest(tier.step))

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        for tier in self.tiers:
            begun = self.total % tier.step
            left = samples
            if begun and begun + samples >= tier.step:
                tier.close(self.ring.newest(begun))
                left -= tier.step - begun
            if not begun or left < samples:
                tier.ring.skip(left // tier.step)
        self.ring.skip(samples)
        self.total += samples

    def follow_on(self, later: Record) -> None:
        """Take the samples of another record, which begin where these end; of those that it keeps no more there are gaps."""
        samples = later.ring.newest(later.ring.filled)
        self.skip(later.total - len(samples))
        for rows in samples:
            self.push(rows)

    def track(self, field: int, node: int, span_s: int, ago: int = 0) -> Track:
        """Return a figure's past over a span: samples where they reach back that far, else the finest roll-ups that do.

        Args:
            field: The figure's number.
            node: The node's number.
            span_s: Seconds that are wanted.
            ago: Samples before the newest one, from which on the past is looked at.
        """
        series = self.ring.series(field, node)
        end = self.total - ago
        series = series[: max(0, len(series) - ago)]
        best = Track.of(series, end)
        # What was never kept cannot be had from a longer one either.
        wanted = min(span_s, end - self._since)
        for tier in self.tiers:
            if best.kept_s >= wanted:
                break
            found = self._rolled_up(tier, tier.series(field, node), series, end)
            if found.kept_s > best.kept_s:
                best = found
        return best

    def _rolled_up(
        self, tier: Tier, parts: list[NDArray[np.float32]], series: NDArray[np.float32], end: int
    ) -> Track:
        """Return the roll-ups up to the end, the last one of those samples that have come."""
        late = self.total // tier.step - end // tier.step
        low, mean, high = (each[: max(0, len(each) - late)] for each in parts)
        rest, total = end % tier.step, end // tier.step
        if not rest or len(series) < rest:
            return Track(low, mean, high, tier.step, total, total * tier.step)
        last = rolled_up(series[-rest:])
        low, mean, high = (
            np.append(part, more).astype(np.float32)
            for part, more in zip((low, mean, high), last, strict=True)
        )
        return Track(low, mean, high, tier.step, total + 1, end)

    def carry_over(self, before: Record, numbers: NDArray[np.int64]) -> None:
        """Take the past of nodes over from another record, which has them under these numbers, or -1."""
        self.ring.carry_over(before.ring, numbers)
        self._since = before._since
        for tier, former in zip(self.tiers, before.tiers, strict=False):
            if tier.step == former.step:
                tier.ring.carry_over(former.ring, numbers)
