"""Rings of samples, as float32 or two-byte codes.

The system gives them memory as they fill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        self.filled, self.next = count, count % self.length


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
        self.codes[places], self.least[places], self.step[places] = _NO_CODE, 0.0, 0.0
        self.next = (self.next + samples) % self.length
        self.filled = min(self.filled + samples, self.length)

    def newest(self, samples: int) -> NDArray[np.float32]:
        """Return the last samples, oldest first: samples x fields x nodes."""
        count = min(samples, self.filled)
        places = np.arange(self.next - count, self.next) % self.length
        return _decoded(
            self.codes[places], self.least[places, :, np.newaxis], self.step[places, :, np.newaxis]
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
            self.least[:count], self.step[:count] = before.least[places], before.step[places]
            past = before.codes[places]
            for to, source in moves(numbers):
                self.codes[:count, :, to] = past[:, :, source]
        else:
            values = np.full((self.codes.shape[1:]), np.nan, np.float32)
            for place, sample in enumerate(before.newest(count)):
                for to, source in moves(numbers):
                    values[:, to] = sample[:, source]
                self._put(place, values)
        self.filled, self.next = count, count % self.length

    def _put(self, place: int, rows: NDArray[np.floating]) -> None:
        known = np.isfinite(rows)
        least = np.where(known, rows, np.inf).min(axis=1)
        least[np.isinf(least)] = 0.0
        span = np.where(known, rows, -np.inf).max(axis=1) - least
        step = np.maximum(span, 0.0) / _MOST_CODE
        self.least[place], self.step[place] = least, step
        codes = np.rint(
            (np.where(known, rows, 0.0) - least[:, np.newaxis])
            / np.where(step > 0, step, 1.0)[:, np.newaxis]
        )
        self.codes[place] = np.where(known, np.minimum(codes, _MOST_CODE), _NO_CODE)


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
        first = np.where((low < 0) | (high > _MOST_CODE), low, 0.0)
        stepped = (~known | (np.abs(counts - codes) <= _ON_A_STEP)).all(axis=1) & ~(
            high - first > _MOST_CODE
        )
        if not stepped.all():
            super()._put(place, rows)
        self.codes[place, stepped] = np.where(known, codes - first[:, np.newaxis], _NO_CODE)[
            stepped
        ]
        self.least[place, stepped] = (first * self._steps[:, 0])[stepped]
        self.step[place, stepped] = self._steps[stepped, 0]


_NO_CODE = 0xFFFF
_MOST_CODE = 0xFFFE
_ON_A_STEP = 0.02
"""Largest deviation from a multiple, as a share of a step. Values may be rounded to float32."""


def _decoded(
    codes: NDArray[np.uint16], least: NDArray[np.floating], step: NDArray[np.floating]
) -> NDArray[np.float32]:
    values = least + codes * step
    return np.where(codes == _NO_CODE, np.nan, values).astype(np.float32)
