"""Figures of rows that are known from roll-ups only, as relays publish them.

Such a row of the layout stands for an UltraServer or a standalone instance of which no chip is described here: it has one chip row
of no values, so that ranges of chips are never empty, and its totals come from here into the roll-ups of a pass, at the level of
instances. Levels above are computed of them as of any instances.

Where the chips of a row are described as well, such as under a lease, the layout has them instead, and the row's figures wait here.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import METRICS
from trnfleet.monitor.copies import copied
from trnfleet.wire.rollups import SEVERITIES, STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.wire.rollups import RollupFrame

UNKNOWN, UNOBSERVED = 3, 4
"""The last two states of `Freshness`, which is a level above this."""
_SEEN_PERIODS = 2.0
"""Periods without a roll-up after which nothing is said of hosts beside it: one less than their own silence is told after."""
_NOBODY: Mapping[str, int] = {}
_ROW_OF = {metric.name: number for number, metric in enumerate(METRICS)}


@functools.lru_cache(maxsize=64)
def _known_columns(
    columns: tuple[str, ...], totals: int
) -> tuple[tuple[list[int], list[int]], ...]:
    """Return rows of the table and lines of the frame's part for each metric known here: of the first columns, and of the others."""
    known = [(_ROW_OF[name], number) for number, name in enumerate(columns) if name in _ROW_OF]
    parts = (
        [each for each in known if each[1] < totals],
        [each for each in known if each[1] >= totals],
    )
    return tuple(
        ([row for row, _ in part], [number - first for _, number in part])
        for part, first in zip(parts, (0, totals), strict=True)
    )


def _lines(values: NDArray[Any], lines: list[int], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return some lines and rows of a frame's part, both in the order of the frame: without a copy where they are all."""
    few = values if len(lines) == len(values) else values[lines]
    return few if len(rows) == few.shape[1] else few[:, rows]


class RolledBlock(NamedTuple):
    """A block of rows as its descriptor has it."""

    rows: tuple[str, ...]
    """Addresses, in the order of its frames."""
    columns: tuple[str, ...]
    """Metrics of its frames, those of float32 and then those of float64."""
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
    """The newest roll-ups of all blocks, and those of them that the layout shows."""

    def __init__(self) -> None:
        self._held: dict[str, _Kept] = {}
        self._place: dict[str, _Place] = {}
        self._early: dict[str, _Early] = {}
        """Frames that came before their block's rows were in the layout."""
        self._allocate(0)
        self._beside: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        """Instances that are described beside a row, and the number of its block in `_beside_blocks`."""
        self._beside_blocks: tuple[str, ...] = ()
        self.is_whole = False
        """Whether the rows are all instances of the layout, in their order."""
        self._publishers: dict[str, int] = {}
        """Number of each block's publisher."""
        self._unplaced: dict[str, bool] = {}
        """Blocks of which no row is shown, since the layout has their chips or another block's rows: whether a relay sees each."""

    def _allocate(self, rows: int) -> None:
        self.numbers: NDArray[np.int64] = np.zeros(rows, np.int64)
        """Number of each shown row among the instances of the layout."""
        self.totals: NDArray[np.float64] = np.zeros((len(METRICS), rows))
        self.counts: NDArray[np.float64] = np.zeros((len(METRICS), rows))
        self.states: NDArray[np.int64] = np.zeros((rows, STATES), np.int64)
        """Chips by freshness as the relay said it; none where nothing has come."""
        self.alerts: NDArray[np.int64] = np.zeros((rows, len(SEVERITIES)), np.int64)
        """Alerts that fire in its cell by severity, the worst first."""
        self.seen_s: NDArray[np.float64] = np.full(rows, -np.inf)
        """Monotonic seconds at which the newest frame of each came."""
        self.ts_ns: NDArray[np.int64] = np.zeros(rows, np.int64)
        """Source time of it."""
        self.observed: NDArray[np.bool_] = np.zeros(rows, np.bool_)
        """Whether a relay sees each at present."""
        self.awaited: NDArray[np.bool_] = np.zeros(rows, np.bool_)
        """Which were described a moment ago, and nothing has come of them yet."""

    def __len__(self) -> int:
        """Return how many rows the layout shows."""
        return len(self.numbers)

    @property
    def blocks(self) -> int:
        """Number of blocks that are described."""
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, and of the frames that wait."""
        table = (
            self.numbers,
            self.totals,
            self.counts,
            self.states,
            self.alerts,
            self.seen_s,
            self.observed,
        )
        frames = [each.frame for each in self._held.values() if each.frame is not None]
        parts = [
            part
            for each in frames
            for part in (each.totals, each.counters, each.covered, each.states)
        ]
        return sum(int(each.nbytes) for each in (*table, *parts))

    def copy(self) -> Rolled:
        """Return a copy; blocks and frames never change."""
        twin = copied(
            self,
            _held=self._held.copy(),
            _place=self._place.copy(),
            _early=self._early.copy(),
            _publishers=self._publishers.copy(),
            _unplaced=self._unplaced.copy(),
        )
        for key in (
            "numbers",
            "_beside",
            "totals",
            "counts",
            "states",
            "alerts",
            "seen_s",
            "ts_ns",
            "observed",
            "awaited",
        ):
            setattr(twin, key, getattr(self, key).copy())
        return twin

    def put(
        self,
        path: str,
        frame: RollupFrame,
        rows: tuple[str, ...],
        columns: tuple[str, ...],
        now_s: float,
    ) -> None:
        """Take a frame of a block that is described.

        Args:
            path: The block.
            frame: Its newest frame.
            rows: The rows of the frame, as the present descriptor has them.
            columns: Its metrics, those of float32 and then those of float64.
            now_s: Monotonic seconds at which it came.
        """
        known = self._held.get(path)
        if known is not None and (known.block.rows, known.block.columns) == (rows, columns):
            held = self._held[path] = known._replace(frame=frame, seen_s=now_s)
            if path in self._place:
                self._write(held, self._place[path], known.frame)
            return
        # Its descriptor waits for the next layout.
        self._early[path] = _Early(rows, columns, frame, now_s)
        if known is not None:
            self._held[path] = known._replace(frame=None, seen_s=now_s)
            if path in self._place:
                self._write_common(known.block, self._place[path], self._early[path])

    def name_publisher(self, path: str, number: int) -> None:
        """Note the number of the relay that describes a block from now on, where it has the rows that it had."""
        self._publishers[path] = number

    def follow(
        self,
        layout: Layout,
        blocks: Mapping[str, RolledBlock],
        publishers: Mapping[str, int] = _NOBODY,
    ) -> None:
        """Find the rows of all blocks in a new layout.

        Args:
            layout: The layout, which has a row or its chips.
            blocks: All blocks by path; frames of one that is another now are forgotten.
            publishers: Number of the relay of each block, where it is known.
        """
        self._publishers = dict(publishers)
        held = self._held
        self._held = {
            path: held[path]
            if path in held and held[path].block == block
            else _Kept(block, None, -np.inf)
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
        index, is_rolled, taken = layout.instance_index, layout.is_rolled, set[int]()
        places: list[tuple[str, list[int], list[int]]] = []
        beside: list[tuple[int, int]] = []
        names: list[str] = []
        for path, block in blocks.items():
            found = list(map(index.get, block.rows, itertools.repeat(-1)))
            if min(found) >= 0 and is_rolled[found].all() and taken.isdisjoint(found):
                # The usual block: the layout has all of its rows, and no other block has one.
                taken.update(found)
                places.append((path, found, list(range(len(found)))))
                continue
            pick: list[int] = []
            numbers: list[int] = []
            for number, (row, at) in enumerate(zip(block.rows, found, strict=True)):
                if at >= 0 and is_rolled[at]:
                    # Two blocks that have the same row: the first has it.
                    if at not in taken:
                        taken.add(at)
                        numbers.append(at)
                        pick.append(number)
                    continue
                node = layout.find(row)
                if node is not None and node.level in {Level.ULTRASERVER, Level.INSTANCE}:
                    beside += [(instance, len(names)) for instance in layout.instance_range(node)]
                    names.append(path)
            if pick:
                places.append((path, numbers, pick))
        # In the order of the layout, so that a fleet of which nothing else is known has the table as its instances' columns.
        places.sort(key=lambda each: each[1])
        self._allocate(len(taken))
        self.numbers = np.array([each for _, some, _ in places for each in some], np.int64)
        self.is_whole = np.array_equal(self.numbers, np.arange(len(layout.instances)))
        self._place, first = {}, 0
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
        """Work out which rows a relay sees; return the instances that are described beside a row that none sees.

        What is forwarded comes with the roll-ups: where both end, the hosts' telemetry may be older by a period. So a row counts as
        seen for less time here.

        Args:
            deadlines_s: Monotonic seconds before which a frame is too old, for each instance of the layout.
            is_online: Whether the publisher of each instance is online.
            is_young: Whether each instance was described a moment ago.
            now_s: Monotonic seconds.
            publisher_online: Whether each numbered publisher is online; the last entry is for an unknown one.
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
        is_fresh = now_s - held.seen_s <= _SEEN_PERIODS * held.block.period_s
        return is_fresh and bool(publisher_online[self._publishers.get(path, -1)])

    def states_now(self, chips: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many chips of each shown row are in each freshness.

        Args:
            chips: Chips of each instance of the layout.
        """
        if self.observed.all():
            return self.states.copy()
        unseen = np.zeros_like(self.states)
        unseen[:, UNOBSERVED] = np.where(self.awaited, 0, chips[self.numbers])
        unseen[:, UNKNOWN] = np.where(self.awaited, chips[self.numbers], 0)
        return np.where(self.observed[:, None], self.states, unseen)

    def cells_observed(self) -> dict[str, bool]:
        """Return whether a relay sees each cell that is described: any of its rows, or is about to."""
        seen: dict[str, bool] = {}
        for path, held in self._held.items():
            place, cell = self._place.get(path), held.block.cell
            if place is None:
                is_seen = self._unplaced.get(path, True)
            else:
                is_seen = bool((self.observed[place.at] | self.awaited[place.at]).any())
            seen[cell] = seen.get(cell, False) or is_seen
        return seen

    def cell_of(self, path: str) -> str:
        """Return the cell of an UltraServer, an instance or a chip; empty where no block has it."""
        return self.row_of(path)[1]

    def row_of(self, path: str) -> tuple[str, str]:
        """Return the row that stands for an UltraServer, an instance or a chip, and its cell; both empty where no block has it."""
        parts = path.split("/")
        wanted = ["/".join(parts[:depth]) for depth in (2, 3)]
        for held in self._held.values():
            for row in wanted:
                if row in held.block.rows:
                    return row, held.block.cell
        return "", ""

    def _write(self, held: _Kept, place: _Place, previous: RollupFrame | None = None) -> None:
        """Write a block's newest frame into the table, which has the previous one; it has none by default."""
        frame, (at, pick) = held.frame, place
        if frame is None:
            return
        self.seen_s[at], self.ts_ns[at] = held.seen_s, frame.head.ts_ns
        columns = _known_columns(held.block.columns, len(frame.totals))
        # Which chips there are, and how many values went into each total, seldom changes.
        before = (
            None if previous is None or previous.covered.shape != frame.covered.shape else previous
        )
        if before is None or not np.array_equal(frame.states, before.states):
            self.states[at] = frame.states[pick]
        if before is None or not np.array_equal(frame.alerts, before.alerts):
            self.alerts[at] = frame.alerts[pick]
        totals: tuple[NDArray[Any], NDArray[Any]] = (frame.totals, frame.counters)
        for (to, source), values in zip(columns, totals, strict=True):
            self.totals[to, at] = _lines(values, source, pick)
        if before is None or not np.array_equal(frame.covered, before.covered):
            parts = frame.covered[: len(frame.totals)], frame.covered[len(frame.totals) :]
            for (to, source), values in zip(columns, parts, strict=True):
                self.counts[to, at] = _lines(values, source, pick)

    def _write_common(self, block: RolledBlock, place: _Place, early: _Early) -> None:
        """Write of a frame that waits for its layout the rows that its block had before, too, at their places of before."""
        number_of = {row: number for number, row in enumerate(early.rows)}
        found = np.array([number_of.get(block.rows[number], -1) for number in place.pick], np.int64)
        at, pick, frame = (
            np.arange(place.at.start, place.at.stop)[found >= 0],
            found[found >= 0],
            early.frame,
        )
        self.seen_s[at], self.ts_ns[at] = early.seen_s, frame.head.ts_ns
        self.states[at], self.alerts[at] = frame.states[pick], frame.alerts[pick]
        first = len(frame.totals)
        totals: tuple[NDArray[Any], NDArray[Any]] = (frame.totals, frame.counters)
        covered = frame.covered[:first], frame.covered[first:]
        columns = _known_columns(early.columns, first)
        for (lines, sources), values, counts in zip(columns, totals, covered, strict=True):
            for to, source in zip(lines, sources, strict=True):
                self.totals[to, at], self.counts[to, at] = (
                    values[source, pick],
                    counts[source, pick],
                )

    def parts(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric's total (or maximum, or bits) and how many chips or instances went into it, of the shown rows."""
        row = _ROW_OF[name]
        return self.totals[row], self.counts[row]
