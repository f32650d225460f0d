"""Rings of samples, in float32 or in codes of two bytes; their memory is taken as they fill.

What was never kept takes none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from trnfleet.monitor.store.layout_changes import moves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_Kind = TypeVar("_Kind", bound=np.generic)
_FIRST_ROWS = 60
"""Samples that a ring has room for at first; then it is twice as many each time."""


class Growth(NamedTuple):
    """How a ring takes memory."""

    first: int
    """Rows up to which it does so as it fills."""
    block: int
    """Rows of the blocks that are taken at once from there on."""


class Ring:
    """Samples x fields x nodes; its memory is taken as it fills."""

    def __init__(self, samples: int, fields: int, nodes: int, growth: Growth | None = None) -> None:
        """Begin to keep.

        Args:
            samples: Samples that it holds at most.
            fields: Figures of a node.
            nodes: Nodes.
            growth: See `TierSpec.growth`.
        """
        self.length = samples
        self._growth = growth
        # What is not filled yet is never read.
        self.values: NDArray[np.float32] = np.empty(
            (_first_rows(samples, growth), fields, nodes), np.float32
        )
        self.filled = 0
        self.next = 0

    @property
    def nbytes(self) -> int:
        """Bytes that it takes once it is full."""
        return self.length * int(self.values[0].nbytes)

    @property
    def taken_bytes(self) -> int:
        """Bytes that it takes at present, at most."""
        return self.values.nbytes

    def push(self, rows: Sequence[NDArray[np.floating]] | NDArray[np.floating]) -> None:
        self._make_room(self.next + 1)
        for number, row in enumerate(rows):
            self.values[self.next, number] = row
        self.next = (self.next + 1) % self.length
        self.filled = min(self.filled + 1, self.length)

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        samples = min(samples, self.length)
        self._make_room(self.next + samples)
        self.values[(self.next + np.arange(samples)) % self.length] = np.nan
        self.next = (self.next + samples) % self.length
        self.filled = min(self.filled + samples, self.length)

    def newest(self, samples: int) -> NDArray[np.float32]:
        """Return the last samples, oldest first: samples x fields x nodes."""
        kept = min(samples, self.filled)
        return self.values[np.arange(self.next - kept, self.next) % self.length]

    def series(self, field: int, node: int) -> NDArray[np.float32]:
        column = self.values[:, field, node]
        if self.filled < self.length:
            return column[: self.filled].copy()
        return np.concatenate([column[self.next :], column[: self.next]])

    def carry_over(self, before: Ring | CodedRing, numbers: NDArray[np.int64]) -> None:
        """Take the past of nodes over from another ring, which has them under these numbers, or -1."""
        kept = min(before.filled, self.length)
        self._make_room(kept)
        past = before.newest(kept)
        self.values[:kept] = np.nan
        for to, source in moves(numbers):
            self.values[:kept, :, to] = past[:, :, source]
        self.filled, self.next = kept, kept % self.length

    def _make_room(self, rows: int) -> None:
        if rows > len(self.values) < self.length:
            self.values = _grown(self.values, self.filled, _room(rows, self.length, self._growth))
            if self._growth is not None:
                self.values[self.filled :] = np.nan


class CodedRing:
    """Samples x fields x many nodes, as codes of two bytes between the least and the largest value of all nodes.

    A value is wrong by at most 1/131,068 of what lies between these two; where nodes differ by orders of magnitude, that is more of a
    small one's.
    """

    _scales: type[np.floating] = np.float32
    """Kind of number that a code is multiplied with."""

    def __init__(self, samples: int, fields: int, nodes: int, growth: Growth | None = None) -> None:
        """Begin to keep; `Ring` has what the arguments mean."""
        self.length = samples
        self._growth = growth
        rows = _first_rows(samples, growth)
        self.codes: NDArray[np.uint16] = np.empty((rows, fields, nodes), np.uint16)
        self.least: NDArray[np.floating] = np.zeros((rows, fields), self._scales)
        """Least value of all nodes, and what a code stands for above it."""
        self.step: NDArray[np.floating] = np.zeros((rows, fields), self._scales)
        self.filled = 0
        self.next = 0

    @property
    def nbytes(self) -> int:
        """Bytes that it takes once it is full."""
        return self.length * sum(
            int(each[0].nbytes) for each in (self.codes, self.least, self.step)
        )

    @property
    def taken_bytes(self) -> int:
        """Bytes that it takes at present, at most."""
        return self.codes.nbytes + self.least.nbytes + self.step.nbytes

    def push(self, rows: Sequence[NDArray[np.floating]] | NDArray[np.floating]) -> None:
        self._make_room(self.next + 1)
        self._put(self.next, np.asarray(rows))
        self.next = (self.next + 1) % self.length
        self.filled = min(self.filled + 1, self.length)

    def skip(self, samples: int) -> None:
        """Leave samples out."""
        samples = min(samples, self.length)
        self._make_room(self.next + samples)
        places = (self.next + np.arange(samples)) % self.length
        self.codes[places], self.least[places], self.step[places] = _NO_CODE, 0.0, 0.0
        self.next = (self.next + samples) % self.length
        self.filled = min(self.filled + samples, self.length)

    def newest(self, samples: int) -> NDArray[np.float32]:
        """Return the last samples, oldest first: samples x fields x nodes."""
        kept = min(samples, self.filled)
        places = np.arange(self.next - kept, self.next) % self.length
        return _decoded(
            self.codes[places], self.least[places, :, np.newaxis], self.step[places, :, np.newaxis]
        )

    def series(self, field: int, node: int) -> NDArray[np.float32]:
        kept = slice(self.filled)
        column = _decoded(
            self.codes[kept, field, node], self.least[kept, field], self.step[kept, field]
        )
        if self.filled < self.length:
            return column
        return np.concatenate([column[self.next :], column[: self.next]])

    def carry_over(self, before: Ring | CodedRing, numbers: NDArray[np.int64]) -> None:
        """Take the past of nodes over from another ring, which has them under these numbers, or -1."""
        kept = min(before.filled, self.length)
        self._make_room(kept)
        self.codes[:kept] = _NO_CODE
        if isinstance(before, CodedRing):
            places = np.arange(before.next - kept, before.next) % before.length
            self.least[:kept], self.step[:kept] = before.least[places], before.step[places]
            past = before.codes[places]
            for to, source in moves(numbers):
                self.codes[:kept, :, to] = past[:, :, source]
        else:
            values = np.full((self.codes.shape[1:]), np.nan, np.float32)
            for place, sample in enumerate(before.newest(kept)):
                for to, source in moves(numbers):
                    values[:, to] = sample[:, source]
                self._put(place, values)
        self.filled, self.next = kept, kept % self.length

    def _make_room(self, rows: int) -> None:
        if rows > len(self.codes) < self.length:
            size = _room(rows, self.length, self._growth)
            self.codes = _grown(self.codes, self.filled, size)
            self.least = _grown(self.least, self.filled, size)
            self.step = _grown(self.step, self.filled, size)
            if self._growth is not None:
                self.codes[self.filled :] = _NO_CODE

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
    """Samples of nodes whose values are multiples of a step, as those of wire codes are: they come out as they went in.

    In a sample in which a field's values are something else, or reach over more steps than there are codes, it is as in a `CodedRing`.
    """

    _scales = np.float64

    def __init__(self, samples: int, steps: NDArray[np.float64], nodes: int) -> None:
        """Begin to keep.

        Args:
            samples: Samples that it holds at most.
            steps: The step of each field; NaN where none is known.
            nodes: Nodes.
        """
        super().__init__(samples, len(steps), nodes)
        self._steps = steps[:, np.newaxis]

    def _put(self, place: int, rows: NDArray[np.floating]) -> None:
        known = ~np.isnan(rows)
        counts = rows / self._steps
        codes = np.rint(counts)
        # Both NaN where a field has no values, or no step.
        low, high = np.fmin.reduce(codes, axis=1), np.fmax.reduce(codes, axis=1)
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


_NO_CODE, _MOST_CODE = 0xFFFF, 0xFFFE
_ON_A_STEP = 0.02
"""Share of a step by which a multiple of it is off at most, for it may have been rounded to float32."""


def _decoded(
    codes: NDArray[np.uint16], least: NDArray[np.floating], step: NDArray[np.floating]
) -> NDArray[np.float32]:
    values = least + codes * step
    return np.where(codes == _NO_CODE, np.nan, values).astype(np.float32)


def _first_rows(length: int, growth: Growth | None) -> int:
    return min(length, _FIRST_ROWS if growth is None else growth.first)


def _room(rows: int, length: int, growth: Growth | None) -> int:
    """Return how many rows a ring gets room for that needs more of them."""
    if growth is not None:
        return min(length, -(-rows // growth.block) * growth.block)
    room = _FIRST_ROWS
    while room < rows:
        room *= 2
    return min(room, length)


def _grown(values: NDArray[_Kind], kept: int, rows: int) -> NDArray[_Kind]:
    """Return room for more rows, with those that are kept; the rest has no memory before something is written there."""
    grown: NDArray[_Kind] = np.empty((rows, *values.shape[1:]), values.dtype)
    grown[:kept] = values[:kept]
    return grown
