"""Figures of rows known from relays' roll-ups only.

Such a row of the layout is an UltraServer or a standalone instance without described chips here. It
has one chip row without values, so that ranges of chips are never empty. Its totals enter the
roll-ups of a pass at the level of instances. Levels above are computed as usual.

If the chips of a row are described as well, such as under a lease, the layout has them instead, and
the row's figures wait here.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import METRICS
from trnfleet.monitor.freshness import STALE_AFTER_PERIODS, Freshness
from trnfleet.monitor.store.announced import METRIC_BITS
from trnfleet.wire.rollups import SEVERITIES, STATES, CellPaidTime, RollupFrame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout

_NOBODY: Mapping[str, int] = {}
_ROW_OF = {metric.name: number for number, metric in enumerate(METRICS)}


@functools.lru_cache(maxsize=64)
def _known_columns(
    columns: tuple[str, ...], totals: int
) -> tuple[tuple[list[int], list[int]], ...]:
    """Return table rows and frame lines of each known metric.

    First those of the first columns, then the others.
    """
    known = [(_ROW_OF[name], number) for number, name in enumerate(columns) if name in _ROW_OF]
    parts = (
        [pair for pair in known if pair[1] < totals],
        [pair for pair in known if pair[1] >= totals],
    )
    return tuple(
        ([row for row, _ in part], [number - first for _, number in part])
        for part, first in zip(parts, (0, totals), strict=True)
    )


def _lines(values: NDArray[Any], lines: list[int], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return some lines and rows of a frame's part.

    Not copied if they are all, in the frame's order.
    """
    few = values if len(lines) == len(values) else values[lines]
    return few if np.array_equal(rows, np.arange(few.shape[1])) else few[:, rows]


class RolledBlock(NamedTuple):
    """A block of rows as its descriptor has it."""

    rows: tuple[str, ...]
    """Addresses, in the order of its frames."""
    columns: tuple[str, ...]
    """Metrics of its frames: float32 first, then float64."""
    members: tuple[int, ...]
    """Instances that each row stands for."""
    cell: str
    period_s: float = 1.0


class _Kept(NamedTuple):
    block: RolledBlock
    frame: RollupFrame | None
    seen_s: float


class _Early(NamedTuple):
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    frame: RollupFrame
    seen_s: float


class _Place(NamedTuple):
    at: slice
    """Rows of the table."""
    pick: NDArray[np.int64]
    """The same rows in the block's frames."""


class Rolled:
    """The newest roll-ups of all blocks, and the ones shown by the layout."""

    def __init__(self) -> None:
        self._held: dict[str, _Kept] = {}
        self._place: dict[str, _Place] = {}
        self._early: dict[str, _Early] = {}
        """Frames received before their block's rows were in the layout."""
        self._allocate(0)
        self._beside: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        """Instances that are described beside a row, and the number of its block in
        `_beside_blocks`."""
        self._beside_blocks: tuple[str, ...] = ()
        self.is_whole = False
        """Whether the rows are all instances of the layout, in their order."""
        self._publishers: dict[str, int] = {}
        """Number of each block's publisher."""
        self._unplaced: dict[str, bool] = {}
        """Blocks without a row in the layout, and whether a relay sees each. The layout has their
        chips or another block's rows."""

    def _allocate(self, rows: int) -> None:
        self.numbers: NDArray[np.int64] = np.zeros(rows, np.int64)
        """Number of each shown row among the instances of the layout."""
        self.totals: NDArray[np.float64] = np.zeros((len(METRICS), rows))
        self.counts: NDArray[np.float64] = np.zeros((len(METRICS), rows))
        self.announced: NDArray[np.uint64] = np.zeros(rows, np.uint64)
        """Metrics with a value in any frame of each row, as a bit mask; 0 without a frame."""
        self.states: NDArray[np.int64] = np.zeros((rows, STATES), np.int64)
        """Chips by freshness as the relay said it; none where nothing has come."""
        self.alerts: NDArray[np.int64] = np.zeros((rows, len(SEVERITIES)), np.int64)
        """Firing alerts of its cell by severity, the worst first."""
        self.seen_s: NDArray[np.float64] = np.full(rows, -np.inf)
        """Monotonic seconds of each row's newest frame."""
        self.ts_ns: NDArray[np.int64] = np.zeros(rows, np.int64)
        """Source time of it."""
        self.observed: NDArray[np.bool_] = np.zeros(rows, np.bool_)
        """Whether a relay sees each at present."""
        self.awaited: NDArray[np.bool_] = np.zeros(rows, np.bool_)
        """Rows described a moment ago, without a frame yet."""

    def __len__(self) -> int:
        """Return how many rows the layout shows."""
        return len(self.numbers)

    @property
    def blocks(self) -> int:
        """Number of blocks that are described."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and of waiting frames."""
        table = (
            self.numbers,
            self.totals,
            self.counts,
            self.states,
            self.alerts,
            self.seen_s,
            self.observed,
        )
        frames = [held.frame for held in self._held.values() if held.frame is not None]
        parts = [
            part
            for frame in frames
            for part in (frame.totals, frame.counters, frame.covered, frame.states)
        ]
        return sum(int(array.nbytes) for array in (*table, *parts))

    def put(
        self,
        path: str,
        frame: RollupFrame,
        rows: tuple[str, ...],
        columns: tuple[str, ...],
        now_s: float,
    ) -> None:
        """Apply a frame of a described block.

        Args:
            path: The block.
            frame: Its newest frame.
            rows: The rows of the frame, as in the present descriptor.
            columns: Its metrics, float32 first, then float64.
            now_s: Monotonic seconds of its arrival.
        """
        known = self._held.get(path)
        if known is not None and (known.block.rows, known.block.columns) == (rows, columns):
            held = self._held[path] = known._replace(frame=frame, seen_s=now_s)
            if path in self._place:
                self._write(held, self._place[path])
            return
        # Its descriptor waits for the next layout.
        self._early[path] = _Early(rows, columns, frame, now_s)
        if known is not None:
            self._held[path] = known._replace(frame=None, seen_s=now_s)
            if path in self._place:
                self._write_common(known.block, self._place[path], self._early[path])

    def name_publisher(self, path: str, number: int) -> None:
        """Store the number of the relay now describing a block with unchanged rows."""
        self._publishers[path] = number

    def follow(
        self,
        layout: Layout,
        blocks: Mapping[str, RolledBlock],
        publishers: Mapping[str, int] = _NOBODY,
    ) -> None:
        """Find the rows of all blocks in a new layout.

        Args:
            layout: The layout. It has either a row or its chips.
            blocks: All blocks by path. Frames of a changed block are dropped.
            publishers: Number of each block's relay, if known.
        """
        self._publishers = dict(publishers)
        held = self._held
        self._held = {
            path: (
                held[path]
                if path in held and held[path].block == block
                else _Kept(block, None, -np.inf)
            )
            for path, block in blocks.items()
        }
        for path, early in self._early.items():
            waits = self._held.get(path)
            if waits is not None and (waits.block.rows, waits.block.columns) == (
                early.rows,
                early.columns,
            ):
                self._held[path] = waits._replace(frame=early.frame, seen_s=early.seen_s)
        self._early = {}
        index = layout.instance_index
        is_rolled = layout.is_rolled
        claimed = set[int]()
        places: list[tuple[str, list[int], list[int]]] = []
        beside: list[tuple[int, int]] = []
        names: list[str] = []
        for path, block in blocks.items():
            instances = list(map(index.get, block.rows, itertools.repeat(-1)))
            is_usual = (
                min(instances) >= 0 and is_rolled[instances].all() and claimed.isdisjoint(instances)
            )
            if is_usual and np.array_equal(layout.members[instances], block.members):
                # The usual block: the layout has all of its rows, and no other block has one.
                claimed.update(instances)
                places.append((path, instances, list(range(len(instances)))))
                continue
            pick: list[int] = []
            numbers: list[int] = []
            for number, (row, at) in enumerate(zip(block.rows, instances, strict=True)):
                if at >= 0 and is_rolled[at]:
                    # Two blocks that have the same row: the first has it. Figures of a row do not
                    # tell those of the instances that the layout has as chips.
                    if at not in claimed and layout.members[at] == block.members[number]:
                        claimed.add(at)
                        numbers.append(at)
                        pick.append(number)
                    continue
                node = layout.find(row)
                if node is not None and node.level in {Level.ULTRASERVER, Level.INSTANCE}:
                    beside += [(instance, len(names)) for instance in layout.instance_range(node)]
                    names.append(path)
            if pick:
                places.append((path, numbers, pick))
        # In the order of the layout: a fleet of roll-ups alone has the table as its instances'
        # columns.
        places.sort(key=lambda claim: claim[1])
        rest = [at for at in np.flatnonzero(is_rolled).tolist() if at not in claimed]
        self._allocate(len(claimed) + len(rest))
        self.numbers = np.array(
            [*(instance for _, some, _ in places for instance in some), *rest], np.int64
        )
        self.is_whole = np.array_equal(self.numbers, np.arange(len(layout.instances)))
        self._place = {}
        first = 0
        for path, some, pick in places:
            self._place[path] = _Place(slice(first, first + len(some)), np.array(pick, np.int64))
            first += len(some)
        self._beside = np.array(beside, np.int64).reshape(-1, 2)
        self._beside_blocks = tuple(names)
        for path, place in self._place.items():
            self._write(self._held[path], place)

    def observe(
        self,
        deadlines_s: NDArray[np.float64],
        is_online: NDArray[np.bool_],
        is_young: NDArray[np.bool_],
        now_s: float,
        publisher_online: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """Update the rows seen by a relay.

        Return instances described beside an unseen row.

        Forwarded telemetry arrives with the roll-ups: when both end, the hosts' telemetry may be
        older by a period. So a row counts as seen for less time here.

        Args:
            deadlines_s: Monotonic seconds before which a frame is too old, for each instance of the
                layout.
            is_online: Whether the publisher of each instance is online.
            is_young: Whether each instance was described a moment ago.
            now_s: Monotonic seconds.
            publisher_online: Whether each numbered publisher is online; the last entry is for an
                unknown one.
        """
        numbers = self.numbers
        self.observed = (self.seen_s >= deadlines_s[numbers]) & is_online[numbers]
        self.awaited = (
            ~self.observed & is_young[numbers] & is_online[numbers] & np.isinf(self.seen_s)
        )
        self._unplaced = {
            path: self._is_seen(path, now_s, publisher_online)
            for path in self._held
            if path not in self._place
        }
        if not len(self._beside):
            return np.zeros(0, np.int64)
        instances, blocks = self._beside.T
        is_seen = [self._is_seen(path, now_s, publisher_online) for path in self._beside_blocks]
        return np.asarray(instances[~np.array(is_seen, np.bool_)[blocks]], np.int64)

    def _is_seen(self, path: str, now_s: float, publisher_online: NDArray[np.bool_]) -> bool:
        held = self._held[path]
        # One period less than for the silence of hosts: those beside it are no longer judged then.
        is_fresh = now_s - held.seen_s <= (STALE_AFTER_PERIODS - 1) * held.block.period_s
        return is_fresh and bool(publisher_online[self._publishers.get(path, -1)])

    def states_now(self, chips: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many chips of each shown row are in each freshness.

        Args:
            chips: Chips of each instance of the layout.
        """
        if self.observed.all():
            return self.states.copy()
        unseen = np.zeros_like(self.states)
        unseen[:, Freshness.UNOBSERVED] = np.where(self.awaited, 0, chips[self.numbers])
        unseen[:, Freshness.UNKNOWN] = np.where(self.awaited, chips[self.numbers], 0)
        return np.where(self.observed[:, None], self.states, unseen)

    def cells_observed(self) -> dict[str, bool]:
        """Return whether a relay sees any row of each described cell, or is about to."""
        seen: dict[str, bool] = {}
        for path, held in self._held.items():
            place = self._place.get(path)
            cell = held.block.cell
            if place is None:
                is_seen = self._unplaced.get(path, True)
            else:
                is_seen = bool((self.observed[place.at] | self.awaited[place.at]).any())
            seen[cell] = seen.get(cell, False) or is_seen
        return seen

    def paid_by_cell(self) -> dict[str, CellPaidTime | None]:
        """Return the paid time of each described cell.

        None if it is not observed, or its relay does not publish it.
        """
        observed = self.cells_observed()
        made: dict[str, CellPaidTime | None] = dict.fromkeys(observed)
        for block, frame, _ in self._held.values():
            if frame is not None and frame.paid is not None and observed[block.cell]:
                made[block.cell] = frame.paid
        return made

    def cell_of(self, path: str) -> str:
        """Return the cell of an UltraServer, an instance or a chip.

        Empty if no block has it.
        """
        return self.row_of(path)[1]

    def row_of(self, path: str) -> tuple[str, str]:
        """Return the row of an UltraServer, an instance or a chip, and its cell.

        Both empty if no block has it.
        """
        parts = path.split("/")
        candidates = ["/".join(parts[:depth]) for depth in (2, 3)]
        for held in self._held.values():
            for row in candidates:
                if row in held.block.rows:
                    return row, held.block.cell
        return "", ""

    def _write(self, held: _Kept, place: _Place) -> None:
        """Write a block's newest frame into the table, if there is one."""
        if held.frame is not None:
            self._write_rows(held.frame, held.block.columns, held.seen_s, place.at, place.pick)

    def _write_common(self, block: RolledBlock, place: _Place, early: _Early) -> None:
        """Write the rows a block had before from a frame waiting for its layout.

        They are written at their former places.
        """
        number_of = {row: number for number, row in enumerate(early.rows)}
        numbers = np.array(
            [number_of.get(block.rows[number], -1) for number in place.pick], np.int64
        )
        at = np.arange(place.at.start, place.at.stop)[numbers >= 0]
        self._write_rows(early.frame, early.columns, early.seen_s, at, numbers[numbers >= 0])

    def _write_rows(
        self,
        frame: RollupFrame,
        columns: tuple[str, ...],
        seen_s: float,
        at: slice | NDArray[np.int64],
        pick: NDArray[np.int64],
    ) -> None:
        """Write rows of a frame into rows of the table."""
        self.seen_s[at] = seen_s
        self.ts_ns[at] = frame.head.ts_ns
        self.states[at] = frame.states[pick]
        self.alerts[at] = frame.alerts[pick]
        first = len(frame.totals)
        values: tuple[NDArray[Any], NDArray[Any]] = (frame.totals, frame.counters)
        covered = frame.covered[:first], frame.covered[first:]
        known = _known_columns(columns, first)
        for (metrics, lines), totals, counts in zip(known, values, covered, strict=True):
            to = (metrics, at) if isinstance(at, slice) else np.ix_(np.array(metrics, np.int64), at)
            self.totals[to] = _lines(totals, lines, pick)
            self.counts[to] = _lines(counts, lines, pick)
        bits = np.where(self.counts[:, at] > 0, METRIC_BITS[:, None], np.uint64(0))
        self.announced[at] |= np.bitwise_or.reduce(bits, axis=0)

    def parts(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's total, maximum or bits, and its chip or instance counts.

        One value per shown row.
        """
        row = _ROW_OF[name]
        return self.totals[row], self.counts[row]
