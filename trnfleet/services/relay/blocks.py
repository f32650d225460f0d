"""A monitor's roll-ups as blocks of rows.

A row is an UltraServer, or an instance if it is standalone, or its neighbours are of other types or
too many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.freshness import Freshness
from trnfleet.wire.rollups import (
    BLOCK_ROWS,
    COUNTERS,
    MOST_INSTANCES,
    SEVERITIES,
    TOTALS,
    CellPaidTime,
    RollupFrame,
    RollupRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.telemetry import Head

_TEMPERATURE = BY_NAME["temperature_c"]


class Block(NamedTuple):
    """A block: its path, and its rows as a range of all rows."""

    path: str
    span: slice
    rows: tuple[RollupRow, ...]


class Rows:
    """The rows of one layout."""

    def __init__(self, layout: Layout, cell: str) -> None:
        self.layout = layout
        levels: list[bool] = []
        numbers: list[int] = []
        rows: list[RollupRow] = []
        first: list[int] = []
        for number, path in enumerate(layout.ultraservers):
            members = layout.instance_range(Node(Level.ULTRASERVER, number))
            types = layout.instance_type[members.start : members.stop]
            count = int(layout.members[members.start : members.stop].sum())
            is_uniform = bool((types == types[0]).all()) and count <= MOST_INSTANCES
            if not layout.is_standalone[number] and is_uniform:
                levels.append(True)
                numbers.append(number)
                first.append(members.start)
                rows.append(
                    RollupRow(path=path, type=layout.type_of(members.start).name, instances=count)
                )
                continue
            for instance in members:
                levels.append(False)
                numbers.append(instance)
                first.append(instance)
                rows.append(
                    RollupRow(
                        path=layout.instances[instance],
                        type=layout.type_of(instance).name,
                        instances=1,
                    )
                )
        self._is_ultraserver = np.array(levels, np.bool_)
        self._numbers = np.array(numbers, np.int64)
        self._chip_start = layout.chip_start[np.array(first, np.int64)].astype(np.intp)
        self._index = {row.path: number for number, row in enumerate(rows)}
        self._paths = [row.path for row in rows]
        self._hottest_chip = np.full(len(rows), -1, np.int64)
        self._hottest_text = [""] * len(rows)
        self.blocks = tuple(_blocks(rows, cell))

    def row_of(self, address: str) -> str:
        """Return the row of an address, or the one it is in.

        Empty if none.
        """
        parts = address.split("/")
        above = ("/".join(parts[:depth]) for depth in (2, 3))
        return next((path for path in above if path in self._index), "")

    def frames(
        self,
        store: Store,
        rollups: Rollups,
        alerts: Iterable[AlertMessage],
        heads: dict[str, Head],
        paid: CellPaidTime | None = None,
    ) -> dict[str, RollupFrame]:
        """Return the frame of each block, of the last pass.

        Args:
            store: The newest values, of the rows' layout.
            rollups: Those of the last pass, of the same layout.
            alerts: What watches of the cell publish.
            heads: The head of each block's frame.
            paid: Paid time of the cell.
        """
        states = self._picked(rollups.states(Level.ULTRASERVER), rollups.states(Level.INSTANCE))
        totals, covered = self._columns(rollups, TOTALS)
        counters, covered_counters = self._columns(rollups, COUNTERS)
        covered = np.concatenate([covered, covered_counters])
        worst = self._hottest(store)
        severities = self._count_alerts(alerts, worst)
        return {
            block.path: RollupFrame(
                heads[block.path],
                totals[:, block.span].astype(np.float32),
                counters[:, block.span],
                covered[:, block.span].astype(np.uint16),
                states[block.span].astype(np.uint16),
                np.minimum(severities[block.span], np.iinfo(np.uint16).max).astype(np.uint16),
                worst[block.span],
                None if block.span.start else paid,
            )
            for block in self.blocks
        }

    def _picked(self, ultraservers: NDArray[Any], instances: NDArray[Any]) -> NDArray[Any]:
        """Return row values, picked from UltraServers and instances."""
        whole = self._is_ultraserver
        if whole.all():
            return ultraservers[self._numbers]
        made = np.empty((len(self._numbers), *ultraservers.shape[1:]), ultraservers.dtype)
        made[whole] = ultraservers[self._numbers[whole]]
        made[~whole] = instances[self._numbers[~whole]]
        return made

    def _columns(
        self, rollups: Rollups, names: tuple[str, ...]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return totals and coverage of some metrics, a line each."""
        totals, covered = np.empty((2, len(names), len(self._numbers)))
        for line, name in enumerate(names):
            of_ultraservers, of_instances = (
                rollups.parts(name, level) for level in (Level.ULTRASERVER, Level.INSTANCE)
            )
            totals[line], covered[line] = (
                self._picked(*pair) for pair in zip(of_ultraservers, of_instances, strict=True)
            )
        return np.where(covered > 0, totals, 0.0), covered

    def _hottest(self, store: Store) -> list[str]:
        """Return each row's hottest live chip, relative to the row.

        Empty if unknown.
        """
        if not len(self._numbers):
            return []
        codes = store.columns[_TEMPERATURE.name]
        if store.chip_state.any() or int(codes.max()) == _TEMPERATURE.top:
            unknown = (codes == _TEMPERATURE.top) | (store.chip_state != Freshness.LIVE.value)
            codes = np.where(unknown, -1, codes.astype(np.int32))
        chips = self._first_highest(codes)
        # Chips are hot for longer than a second: most rows have the one that they had.
        for row in np.flatnonzero(chips != self._hottest_chip).tolist():
            chip = int(chips[row])
            path = "" if chip < 0 else self.layout.path(Node(Level.CHIP, chip))
            self._hottest_text[row] = path.removeprefix(self._paths[row] + "/")
        self._hottest_chip = chips
        return self._hottest_text.copy()

    def _first_highest(self, codes: NDArray[Any]) -> NDArray[np.int64]:
        """Return each row's first chip with the highest code. -1 if all are below 0."""
        starts = self._chip_start
        sizes = np.diff(starts, append=len(codes))
        if starts[0] == 0 and (sizes == sizes[0]).all():
            most = starts + codes.reshape(len(starts), -1).argmax(axis=1)
        else:
            highest = np.maximum.reduceat(codes, starts)
            indices = np.flatnonzero(codes == np.repeat(highest, sizes))
            most = indices[np.searchsorted(indices, starts)]
        return np.where(codes[most] < 0, -1, most)

    def _count_alerts(self, alerts: Iterable[AlertMessage], worst: list[str]) -> NDArray[np.int64]:
        """Count firing alerts by row and severity.

        The chip of the most severe alert replaces the hottest one in `worst`.
        """
        counted = np.zeros((len(self._numbers), len(SEVERITIES)), np.int64)
        ranks: dict[int, int] = {}
        for alert in alerts:
            if alert.state != "firing":
                continue
            target = alert.target.partition(":")[0]
            parts = target.split("/")
            row = self._index.get("/".join(parts[:2]), self._index.get("/".join(parts[:3]), -1))
            if row < 0:
                continue
            rank = SEVERITIES.index(alert.severity)
            counted[row, rank] += 1
            if len(parts) >= Level.CHIP and rank < ranks.get(row, len(SEVERITIES)):
                ranks[row] = rank
                worst[row] = "/".join(parts[: Level.CHIP]).removeprefix(self._paths[row] + "/")
        return counted


def _blocks(rows: list[RollupRow], cell: str) -> Iterable[Block]:
    """Yield the blocks: consecutive rows of a cluster, `BLOCK_ROWS` at most."""
    first = number = 0
    while first < len(rows):
        cluster = rows[first].path.partition("/")[0]
        stop = first
        while (
            stop < len(rows)
            and stop - first < BLOCK_ROWS
            and rows[stop].path.partition("/")[0] == cluster
        ):
            stop += 1
        yield Block(f"{cluster}/{cell}/{number:04}", slice(first, stop), tuple(rows[first:stop]))
        first = stop
        number = number + 1
