"""Past samples in rings: one a second, and roll-ups (minimum, mean, maximum) for longer.

A roll-up is computed from the newest samples when its time is over, so it needs no extra state.
Unused rings take no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.store.layout_changes import moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Ring:
    """Samples x fields x nodes."""

    def __init__(self, samples: int, fields: int, nodes: int) -> None:
        """Create an empty ring.

        Args:
            samples: Most samples.
            fields: Figures of a node.
            nodes: Nodes.
        """
        self.length = samples
        # What is not filled yet is never read.
        self.values: NDArray[np.float32] = np.empty((samples, fields, nodes), np.float32)
        self.filled = 0
        self.next = 0

    @property
    def nbytes(self) -> int:
        """Bytes when full."""
        return self.length * int(self.values[0].nbytes)

    def push(self, rows: Sequence[NDArray[np.floating]] | NDArray[np.floating]) -> None:
        for number, row in enumerate(rows):
            self.values[self.next, number] = row
        self.next = (self.next + 1) % self.length
        self.filled = min(self.filled + 1, self.length)

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        samples = min(samples, self.length)
        self.values[(self.next + np.arange(samples)) % self.length] = np.nan
        self.next = (self.next + samples) % self.length
        self.filled = min(self.filled + samples, self.length)

    def newest(self, samples: int) -> NDArray[np.float32]:
        """Return the last samples, oldest first: samples x fields x nodes."""
        count = min(samples, self.filled)
        return self.values[np.arange(self.next - count, self.next) % self.length]

    def past(self, field: int) -> NDArray[np.float32]:
        """Return all samples of a field, oldest first: samples x nodes."""
        return self.newest(self.filled)[:, field]

    def series(self, field: int, node: int) -> NDArray[np.float32]:
        column = self.values[:, field, node]
        if self.filled < self.length:
            return column[: self.filled].copy()
        return np.concatenate([column[self.next :], column[: self.next]])

    def carry_over(self, before: Ring | CodedRing, numbers: NDArray[np.int64]) -> None:
        """Copy the past of nodes from another ring with these numbers, or -1."""
        count = min(before.filled, self.length)
        past = before.newest(count)
        self.values[:count] = np.nan
        for to, source in moves(numbers):
            self.values[:count, :, to] = past[:, :, source]
        self.filled = count
        self.next = count % self.length


class CodedRing:
    """Samples x fields x nodes, as two-byte codes between the extremes of all nodes.

    The error is at most 1/131,068 of the range. Relative to small values it is larger if nodes
    differ by orders of magnitude.
    """

    _scales: type[np.floating] = np.float32
    """Number type of the factor of a code."""

    def __init__(self, samples: int, fields: int, nodes: int) -> None:
        """Create an empty ring.

        Arguments as for `Ring`.
        """
        self.length = samples
        self.codes: NDArray[np.uint16] = np.empty((samples, fields, nodes), np.uint16)
        self.least: NDArray[np.floating] = np.zeros((samples, fields), self._scales)
        """Smallest value of all nodes. A code counts from it."""
        self.step: NDArray[np.floating] = np.zeros((samples, fields), self._scales)
        self.filled = 0
        self.next = 0

    @property
    def nbytes(self) -> int:
        """Bytes when full."""
        return self.length * sum(
            int(array[0].nbytes) for array in (self.codes, self.least, self.step)
        )

    def push(self, rows: Sequence[NDArray[np.floating]] | NDArray[np.floating]) -> None:
        self._put(self.next, np.asarray(rows))
        self.next = (self.next + 1) % self.length
        self.filled = min(self.filled + 1, self.length)

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        samples = min(samples, self.length)
        places = (self.next + np.arange(samples)) % self.length
        self.codes[places] = _NO_CODE
        self.least[places] = 0.0
        self.step[places] = 0.0
        self.next = (self.next + samples) % self.length
        self.filled = min(self.filled + samples, self.length)

    def newest(self, samples: int) -> NDArray[np.float32]:
        """Return the last samples, oldest first: samples x fields x nodes."""
        count = min(samples, self.filled)
        places = np.arange(self.next - count, self.next) % self.length
        return _decoded(
            self.codes[places], self.least[places, :, np.newaxis], self.step[places, :, np.newaxis]
        )

    def past(self, field: int) -> NDArray[np.float32]:
        """Return all samples of a field, oldest first: samples x nodes."""
        places = np.arange(self.next - self.filled, self.next) % self.length
        return _decoded(
            self.codes[places, field],
            self.least[places, field, np.newaxis],
            self.step[places, field, np.newaxis],
        )

    def series(self, field: int, node: int) -> NDArray[np.float32]:
        filled = slice(self.filled)
        column = _decoded(
            self.codes[filled, field, node], self.least[filled, field], self.step[filled, field]
        )
        if self.filled < self.length:
            return column
        return np.concatenate([column[self.next :], column[: self.next]])

    def carry_over(self, before: Ring | CodedRing, numbers: NDArray[np.int64]) -> None:
        """Copy the past of nodes from another ring with these numbers, or -1."""
        count = min(before.filled, self.length)
        self.codes[:count] = _NO_CODE
        if isinstance(before, CodedRing):
            places = np.arange(before.next - count, before.next) % before.length
            self.least[:count] = before.least[places]
            self.step[:count] = before.step[places]
            past = before.codes[places]
            for to, source in moves(numbers):
                self.codes[:count, :, to] = past[:, :, source]
        else:
            values = np.full((self.codes.shape[1:]), np.nan, np.float32)
            for place, sample in enumerate(before.newest(count)):
                for to, source in moves(numbers):
                    values[:, to] = sample[:, source]
                self._put(place, values)
        self.filled = count
        self.next = count % self.length

    def _put(self, place: int, rows: NDArray[np.floating]) -> None:
        known = np.isfinite(rows)
        least = np.where(known, rows, np.inf).min(axis=1)
        least[np.isinf(least)] = 0.0
        span = np.where(known, rows, -np.inf).max(axis=1) - least
        step = np.maximum(span, 0.0) / (_NO_CODE - 1)
        self.least[place] = least
        self.step[place] = step
        codes = np.rint(
            (np.where(known, rows, 0.0) - least[:, np.newaxis])
            / np.where(step > 0, step, 1.0)[:, np.newaxis]
        )
        self.codes[place] = np.where(known, np.minimum(codes, (_NO_CODE - 1)), _NO_CODE)


class SteppedRing(CodedRing):
    """Samples with values in multiples of a step, such as wire codes, stored exactly.

    A sample with other values, or with more steps than there are codes, is stored as in a
    `CodedRing`.
    """

    _scales = np.float64

    def __init__(self, samples: int, steps: NDArray[np.float64], nodes: int) -> None:
        """Create an empty ring.

        Args:
            samples: Most samples.
            steps: The step of each field; NaN if unknown.
            nodes: Nodes.
        """
        super().__init__(samples, len(steps), nodes)
        self._steps = steps[:, np.newaxis]

    def _put(self, place: int, rows: NDArray[np.floating]) -> None:
        known = ~np.isnan(rows)
        counts = rows / self._steps
        codes = np.rint(counts)
        # Both NaN where a field has no values, or no step.
        low = np.fmin.reduce(codes, axis=1)
        high = np.fmax.reduce(codes, axis=1)
        first = np.where((low < 0) | (high > (_NO_CODE - 1)), low, 0.0)
        stepped = (~known | (np.abs(counts - codes) <= _ON_A_STEP)).all(axis=1) & ~(
            high - first > (_NO_CODE - 1)
        )
        if not stepped.all():
            super()._put(place, rows)
        self.codes[place, stepped] = np.where(known, codes - first[:, np.newaxis], _NO_CODE)[
            stepped
        ]
        self.least[place, stepped] = (first * self._steps[:, 0])[stepped]
        self.step[place, stepped] = self._steps[stepped, 0]


_NO_CODE = np.iinfo(np.uint16).max
_ON_A_STEP = 0.02
"""Largest deviation from a multiple, as a share of a step. Values may be rounded to float32."""


def _decoded(
    codes: NDArray[np.uint16], least: NDArray[np.floating], step: NDArray[np.floating]
) -> NDArray[np.float32]:
    values = least + codes * step
    return np.where(codes == _NO_CODE, np.nan, values).astype(np.float32)


LOW, MEAN, HIGH = range(3)


class TierSpec(NamedTuple):
    """A kind of roll-up."""

    step: int
    """Samples that are rolled up into one."""
    length: int
    """Most stored roll-ups."""


CODED_NODES = 16
"""Nodes of a level from which its roll-ups are two-byte codes. Few nodes take little memory
uncoded, and their values lie far apart."""
TIERS = (TierSpec(10, 360), TierSpec(60, 1_440))
"""An hour in steps of 10 s, and a day in minutes. 10 s is the window of headline means."""


class Track(NamedTuple):
    """Samples of one figure of one node, oldest first, each with its own extremes."""

    low: NDArray[np.float32]
    mean: NDArray[np.float32]
    high: NDArray[np.float32]
    step_s: int
    """Wall seconds that a sample stands for."""
    total: int
    """Samples of this length since the start. The track has the last ones."""
    end: int
    """Wall seconds from the start to the end of the last sample. Less than `total` samples if the
    last one has just begun."""

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
        """Return the last seconds, plus one sample."""
        first = max(0, len(self.mean) - -(-span_s // self.step_s) - 1)
        return self._replace(low=self.low[first:], mean=self.mean[first:], high=self.high[first:])

    def smoothed(self, seconds: int) -> Track:
        """Return the track with trailing means over some seconds.

        Gaps and extremes are unchanged.
        """
        count = seconds // self.step_s
        return self if count <= 1 else self._replace(mean=trailing_mean(self.mean, count))

    def distance_pct(self, base: float) -> Track:
        """Return the track as distances from a base, in percent of the base."""
        low, mean, high = (
            np.asarray(100.0 * (values / base - 1.0), np.float32)
            for values in (self.low, self.mean, self.high)
        )
        return self._replace(low=low, mean=mean, high=high)


def trailing_mean(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return the mean of each value and the `count` - 1 values before it.

    Values not available are skipped. NaN stays NaN.
    """
    known = ~np.isnan(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0), dtype=np.float64)])
    counts = np.concatenate([[0], np.cumsum(known)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - count)
    means = (sums[ends] - sums[starts]) / np.maximum(1, counts[ends] - counts[starts])
    return np.where(known, means, np.nan).astype(np.float32)


class Tier:
    """Ring of roll-ups x (low, mean, high) x fields x nodes.

    It is stored as a ring with three times the fields.
    """

    def __init__(self, spec: TierSpec, fields: int, nodes: int) -> None:
        self.step = spec.step
        self._fields = fields
        kind = CodedRing if nodes >= CODED_NODES else Ring
        self.ring: Ring | CodedRing = kind(spec.length, 3 * fields, nodes)

    def means(self, field: int) -> NDArray[np.float32]:
        """Return all means of a field, oldest first: roll-ups x nodes."""
        return self.ring.past(MEAN * self._fields + field)

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
    """Return minimum, mean and maximum of samples along the first axis.

    NaN if none is available.
    """
    known = ~np.isnan(samples)
    count = known.sum(axis=0)
    mean = np.where(known, samples, 0.0).sum(axis=0) / np.maximum(1, count)
    return (
        np.fmin.reduce(samples, axis=0),
        np.where(count > 0, mean, np.nan).astype(np.float32),
        np.fmax.reduce(samples, axis=0),
    )


class Record:
    """Samples and roll-ups of the nodes of one level, or of a single node."""

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
        """Create an empty record.

        Args:
            samples: Seconds of single samples; at least the longest step.
            fields: Figures of a node.
            nodes: Nodes.
            tiers: Kinds of roll-ups.
            total: Samples before, elsewhere.
            steps: Step of each field's values, for samples of two bytes a value; None for float32.
        """
        self.ring: Ring | CodedRing = (
            Ring(samples, fields, nodes) if steps is None else SteppedRing(samples, steps, nodes)
        )
        self.tiers = [Tier(tier, fields, nodes) for tier in tiers if tier.length]
        self.total = total
        self._since = total
        """Samples that were taken before its first one."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rings once they are full."""
        return self.ring.nbytes + sum(tier.ring.nbytes for tier in self.tiers)

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
        """Append the samples of another record, starting where these end.

        Samples it has already dropped become gaps.
        """
        samples = later.ring.newest(later.ring.filled)
        self.skip(later.total - len(samples))
        for rows in samples:
            self.push(rows)

    def track(self, field: int, node: int, span_s: int, ago: int = 0) -> Track:
        """Return a figure's past over a span: samples, or the finest roll-ups that reach back.

        Args:
            field: Number of the figure.
            node: Number of the node.
            span_s: Seconds.
            ago: Samples to go back from the newest one.
        """
        series = self.ring.series(field, node)
        end = self.total - ago
        series = series[: max(0, len(series) - ago)]
        best = Track.of(series, end)
        # What was never kept cannot be had from a longer one either.
        needed_s = min(span_s, end - self._since)
        for tier in self.tiers:
            if best.kept_s >= needed_s:
                break
            track = self._rolled_up(tier, tier.series(field, node), series, end)
            if track.kept_s > best.kept_s:
                best = track
        return best

    def means(self, field: int, ago: int = 0) -> NDArray[np.float32]:
        """Return a figure's means over whole steps of the shortest roll-up, oldest first.

        Steps x nodes; computed from samples where no roll-ups are stored.
        """
        step = TIERS[0].step
        end = self.total - ago
        tier = next((tier for tier in self.tiers if tier.step == step), None)
        if tier is not None:
            means = tier.means(field)
            return means[: max(0, len(means) - (self.total // step - end // step))]
        samples = self.ring.past(field)
        samples = samples[: max(0, len(samples) - ago - end % step)]
        samples = samples[len(samples) % step :]
        shape = (len(samples) // step, step, samples.shape[1])
        return rolled_up(samples.reshape(shape).swapaxes(0, 1))[MEAN]

    def _rolled_up(
        self, tier: Tier, parts: list[NDArray[np.float32]], series: NDArray[np.float32], end: int
    ) -> Track:
        """Return the roll-ups up to the end.

        The last one covers only the samples so far.
        """
        late = self.total // tier.step - end // tier.step
        low, mean, high = (part[: max(0, len(part) - late)] for part in parts)
        rest = end % tier.step
        total = end // tier.step
        if not rest or len(series) < rest:
            return Track(low, mean, high, tier.step, total, total * tier.step)
        last = rolled_up(series[-rest:])
        low, mean, high = (
            np.append(part, more).astype(np.float32)
            for part, more in zip((low, mean, high), last, strict=True)
        )
        return Track(low, mean, high, tier.step, total + 1, end)

    def carry_over(self, before: Record, numbers: NDArray[np.int64]) -> None:
        """Copy the past of nodes from another record with these numbers, or -1."""
        self.ring.carry_over(before.ring, numbers)
        self._since = before._since
        for tier, former in zip(self.tiers, before.tiers, strict=False):
            if tier.step == former.step:
                tier.ring.carry_over(former.ring, numbers)
