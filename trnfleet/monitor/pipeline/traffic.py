"""Traffic of each publisher in columns: what came of it, what is missing, how old it was, and how its clock stands to ours.

A row is a client, whatever boots it has. Row 0 is for what has no publisher that is known, and for those that are forgotten, so that
the columns add up to all that came. Messages are taken in batches and written with a few operations on whole columns:
nothing loops over publishers, because every host of a large fleet is one. A row takes 290 bytes.

Lag and clock are kept for the last `SLOTS` seconds in which a publisher was heard, be they far apart: one that publishes once a
minute has them, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.monitor.copies import copied

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import ArrayLike, NDArray

SLOTS = 8
"""Seconds with messages whose lag and clock are kept."""
MOST_WAITING = 2_048
"""Messages that are written at once; they are written before they are read in any case."""
RATE_WINDOW_S = 10.0
"""Least time that a rate is over, and `RATE_MESSAGES` at least, but for `RATE_MOST_S`."""
RATE_MESSAGES = 3
RATE_MOST_S = 300.0
NOT_ANNOUNCED, OFFLINE, ONLINE = -1, 0, 1
"""Presence as a publisher, or its last will, has announced it."""

_COLUMNS: dict[str, tuple[Any, float]] = {
    "messages": (np.int64, 0),
    "size_bytes": (np.int64, 0),
    "lost": (np.int64, 0),
    "late": (np.int64, 0),
    "duplicates": (np.int64, 0),
    "old": (np.int64, 0),
    "refused": (np.int64, 0),
    "restarts": (np.int64, 0),
    "paths": (np.int64, 0),
    "presence": (np.int8, NOT_ANNOUNCED),
    "heard_s": (np.float64, -np.inf),
    "changed_s": (np.float64, np.nan),
    "period_s": (np.float64, 1.0),
    "former_s": (np.float64, np.nan),
    "former_messages": (np.int64, 0),
    "former_bytes": (np.int64, 0),
    "mark_s": (np.float64, np.nan),
    "mark_messages": (np.int64, 0),
    "mark_bytes": (np.int64, 0),
    "second": (np.int64, -1),
    "slot": (np.int64, 0),
}
"""Columns with a value a row: their type, and what a new row has."""
_RINGS = {"lag_sum_s": 0.0, "lag_count": 0.0, "lag_max_s": -np.inf, "behind_least_s": np.inf}
"""Columns with a value a slot and row, and what a slot has that nothing came in."""
SUMS = ("messages", "size_bytes", "lost", "late", "duplicates", "old", "refused")
"""Columns that add up; those of a publisher that is forgotten go to row 0."""


class PublisherTraffic:
    """The traffic of all publishers of one monitor."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        """The client of each row."""
        self.boots: list[str] = [""]
        """The boot that each has announced last, or that its descriptors name."""
        self.revision = 0
        """Goes up when rows come or go."""
        self._row_of: dict[str, int] = {}
        self._columns = {name: np.full(16, value, kind) for name, (kind, value) in _COLUMNS.items()}
        self._rings = {name: np.full((SLOTS, 16), value, np.float32) for name, value in _RINGS.items()}
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        """Messages that have yet to be written: row, size, lag, and what they were behind."""
        self._count = 0
        """Number of them."""
        self._now_s = 0.0
        """Monotonic seconds at which the last of them came; all came in the same second."""

    def __len__(self) -> int:
        """Return the number of rows, with row 0."""
        return len(self.names)

    def copy(self) -> PublisherTraffic:
        """Return a copy."""
        self._write()
        return copied(
            self,
            names=self.names.copy(),
            boots=self.boots.copy(),
            _row_of=self._row_of.copy(),
            _columns={name: column.copy() for name, column in self._columns.items()},
            _rings={name: ring.copy() for name, ring in self._rings.items()},
            _waiting=[],
        )

    # Rows

    def row_of(self, client: str) -> int:
        """Return a client's row; 0 for one that has none."""
        return self._row_of.get(client, 0)

    def add(self, client: str) -> int:
        """Return a client's row, a new one for a new client."""
        row = self._row_of.get(client)
        if row is None:
            row = self._row_of[client] = len(self.names)
            self.names.append(client)
            self.boots.append("")
            self.revision += 1
            if row >= len(self._columns["messages"]):
                self._resize(np.arange(row), 2 * row)
        return row

    def keep(self, clients: Collection[str]) -> None:
        """Forget all other clients, and number the rest again: rows that were given out before are not theirs any more."""
        kept = [row for row, name in enumerate(self.names) if not row or name in clients]
        if len(kept) == len(self.names):
            return
        self._write()
        gone = np.setdiff1d(np.arange(len(self.names)), kept)
        for name in SUMS:
            self._columns[name][0] += self._columns[name][gone].sum()
        self._resize(np.array(kept), max(16, len(kept)))
        self.names = [self.names[row] for row in kept]
        self.boots = [self.boots[row] for row in kept]
        self._row_of = {name: row for row, name in enumerate(self.names) if row}
        self.revision += 1

    def _resize(self, kept: NDArray[np.int64], rows: int) -> None:
        columns, rings = self._columns, self._rings
        self._columns = {name: np.full(rows, value, kind) for name, (kind, value) in _COLUMNS.items()}
        self._rings = {name: np.full((SLOTS, rows), value, np.float32) for name, value in _RINGS.items()}
        for name, column in columns.items():
            self._columns[name][: len(kept)] = column[kept]
        for name, ring in rings.items():
            self._rings[name][:, : len(kept)] = ring[:, kept]

    # What happens

    def announce(self, row: int, presence: int, boot: str, now_s: float) -> None:
        """Note the presence of a publisher as it was announced.

        Args:
            row: Its row.
            presence: `ONLINE`, `OFFLINE`, or `NOT_ANNOUNCED` where its message was cleared.
            boot: The boot that it is about; empty where that is not known.
            now_s: Monotonic seconds.
        """
        if not row:
            return
        columns = self._columns
        if boot and presence == ONLINE:
            columns["restarts"][row] += self.boots[row] not in {"", boot}
            self.boots[row] = boot
        if columns["presence"][row] != presence:
            columns["presence"][row], columns["changed_s"][row] = presence, now_s

    def describe(self, row: int, period_s: float, boot: str) -> None:
        """Note what a descriptor says of its publisher."""
        if not row:
            return
        self._columns["period_s"][row] = period_s
        if not self.boots[row]:
            self.boots[row] = boot

    def count_paths(self, paths: dict[str, int]) -> None:
        """Take the number of paths that each client describes."""
        column = self._columns["paths"]
        column[:] = 0
        column[0] = sum(number for client, number in paths.items() if client not in self._row_of)
        for client, row in self._row_of.items():
            column[row] = paths.get(client, 0)

    def miss(self, row: int, lost: int, late: int, duplicates: int) -> None:
        """Add what a message's sequence number shows; `lost` is negative where it mends a loss."""
        columns = self._columns
        columns["lost"][row] += lost
        columns["late"][row] += late
        columns["duplicates"][row] += duplicates

    def miss_many(self, rows: NDArray[np.int64], lost: NDArray[np.int64]) -> None:
        """Add what numbers of messages of many publishers show, of which one may have several."""
        np.add.at(self._columns["lost"], rows, lost)

    def refuse(self, row: int) -> None:
        """Count a message that was not applied for what is wrong with it."""
        self._columns["refused"][row] += 1

    def delay(self, row: int) -> None:
        """Count a message that was more than a minute behind the wall clock."""
        self._columns["old"][row] += 1

    def take(
        self, rows: ArrayLike, sizes: ArrayLike, lags_s: ArrayLike, behind_s: ArrayLike, now_s: float
    ) -> None:
        """Add the messages of a batch that were newer than all before them.

        Args:
            rows: The row of each message's publisher.
            sizes: Bytes of their payloads.
            lags_s: Their lags; NaN where it is not known.
            behind_s: By how much their source times are behind our wall clock, be it negative; NaN where the source does not go by it.
            now_s: Monotonic seconds at which they came.
        """
        if int(now_s) != int(self._now_s) or self._count >= MOST_WAITING:
            self._write()
        self._now_s = now_s
        given = zip(
            (rows, sizes, lags_s, behind_s), (np.int64, np.int64, np.float32, np.float32), strict=True
        )
        waits = tuple(np.asarray(values, kind) for values, kind in given)
        self._waiting.append(waits)
        self._count += len(waits[0])

    def _write(self) -> None:
        """Write what waits into the columns."""
        if not self._waiting:
            return
        rows, sizes, lags_s, behind_s = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
        self._waiting, self._count = [], 0
        columns, rings = self._columns, self._rings
        np.add.at(columns["messages"], rows, 1)
        np.add.at(columns["size_bytes"], rows, sizes)
        columns["heard_s"][rows] = self._now_s
        self._begin_slots(np.flatnonzero(np.bincount(rows)), int(self._now_s))
        flat = columns["slot"][rows] * len(columns["slot"]) + rows
        known = ~np.isnan(lags_s)
        if known.any():
            np.add.at(rings["lag_sum_s"].reshape(-1), flat[known], lags_s[known])
            np.add.at(rings["lag_count"].reshape(-1), flat[known], np.float32(1))
            np.maximum.at(rings["lag_max_s"].reshape(-1), flat[known], lags_s[known])
        by_wall = ~np.isnan(behind_s)
        if by_wall.any():
            np.minimum.at(rings["behind_least_s"].reshape(-1), flat[by_wall], behind_s[by_wall])

    def _begin_slots(self, rows: NDArray[np.int64], second: int) -> None:
        """Give the rows that are heard in a second for the first time a slot for it."""
        columns = self._columns
        fresh = rows[columns["second"][rows] != second]
        if not len(fresh):
            return
        columns["second"][fresh] = second
        slots = columns["slot"][fresh] = (columns["slot"][fresh] + 1) % SLOTS
        for name, value in _RINGS.items():
            self._rings[name][slots, fresh] = value

    # What is read

    def column(self, name: str) -> NDArray[Any]:
        """Return a copy of a column's rows, or of a ring's slots and rows."""
        self._write()
        rows = len(self.names)
        if name in self._rings:
            return self._rings[name][:, :rows].copy()
        return self._columns[name][:rows].copy()

    def extreme(self, name: str, operation: np.ufunc) -> NDArray[np.float64]:
        """Return what the slots of each row of a ring make: `np.minimum` or `np.maximum`."""
        self._write()
        found: NDArray[np.float64] = operation.reduce(self._rings[name][:, : len(self.names)], axis=0).astype(
            np.float64
        )
        return found

    def rates(self, now_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return messages and bytes a second of each row, from arrival to arrival over `RATE_WINDOW_S` or more; to be read each second.

        NaN before messages have come twice, 0 for a publisher from which nothing comes any more.
        """
        self._write()
        rows = len(self.names)
        of = {name: self._columns[name][:rows] for name in _COLUMNS}
        heard_s = of["heard_s"]
        begins = np.isnan(of["mark_s"]) & (of["messages"] > 0)
        passed_s = now_s - of["mark_s"]
        due = (passed_s >= RATE_MOST_S) | (
            (passed_s >= RATE_WINDOW_S) & (of["messages"] - of["mark_messages"] >= RATE_MESSAGES)
        )
        for former, mark, value in (
            ("former_s", "mark_s", heard_s),
            ("former_messages", "mark_messages", of["messages"]),
            ("former_bytes", "mark_bytes", of["size_bytes"]),
        ):
            np.copyto(of[former], of[mark], where=due)
            np.copyto(of[mark], value, where=due | begins)
            np.copyto(of[former], value, where=begins)
        with np.errstate(invalid="ignore", divide="ignore"):
            quiet_s = now_s - heard_s
            spanned_s = heard_s - of["former_s"]
            seconds = spanned_s + np.maximum(0.0, quiet_s - of["period_s"])
            messages = (of["messages"] - of["former_messages"]) / seconds
            size_bytes = (of["size_bytes"] - of["former_bytes"]) / seconds
        unknown = ~(spanned_s > 0)
        dead = quiet_s > np.maximum(RATE_WINDOW_S, RATE_MESSAGES * of["period_s"])
        for rate in (messages, size_bytes):
            rate[unknown] = np.nan
            rate[dead & (of["messages"] > 0)] = 0.0
        return messages, size_bytes
