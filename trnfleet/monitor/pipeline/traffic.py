"""Traffic of each publisher in columns: messages, losses, age, and clock against ours.

A row is a client, with any boot. Row 0 is for unknown and forgotten publishers, so the columns add
up to all messages. Messages are added in batches with a few operations on whole columns. Nothing
loops over publishers: every host of a large fleet is one. A row needs 290 bytes, and its last
snapshot for readers at most as much again: most columns are shared from one second to the next.

Lag and clock are stored for the last `SLOTS` seconds with messages of a publisher, however far
apart. So a publisher with one message per minute has them, too.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.monitor.freshness import Code

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import ArrayLike, NDArray

SLOTS = 8
"""Seconds with messages for which lag and clock are stored."""
RATE_WINDOW_S = 10.0
"""Shortest time of a rate. It also covers at least `RATE_MESSAGES`, but at most `RATE_MOST_S`."""
RATE_MESSAGES = 3
"""Fewest messages of a rate, and periods without any after which it is 0."""
RATE_MOST_S = 300.0
"""Longest time of a rate, except for longer periods. Five minutes is the longest usual period."""


class Presence(Code):
    """Presence as a publisher, or its last will, has announced it."""

    UNKNOWN = enum.auto()
    """Not announced, or its message was cleared."""
    OFFLINE = enum.auto()
    ONLINE = enum.auto()


_COLUMNS: dict[str, tuple[Any, float]] = {
    "messages": (np.int64, 0),
    "size_bytes": (np.int64, 0),
    "lost": (np.int64, 0),
    "late": (np.int64, 0),
    "duplicates": (np.int64, 0),
    "old": (np.int64, 0),
    "refused": (np.int64, 0),
    "refused_s": (np.float64, -np.inf),
    "restarts": (np.int64, 0),
    "paths": (np.int64, 0),
    "presence": (np.int8, Presence.UNKNOWN),
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
"""Columns with one value per row: type, and initial value."""
_RINGS = {"lag_sum_s": 0.0, "lag_count": 0.0, "lag_max_s": -np.inf, "behind_least_s": np.inf}
"""Columns with one value per slot and row, with the value of an empty slot."""
SUMS = ("messages", "size_bytes", "lost", "late", "duplicates", "old", "refused")
"""Columns to add up. Sums of a forgotten publisher go to row 0."""


class PublisherNames(tuple[str, ...]):  # noqa: SLOT001  what is cached has its place in a dict
    """The names of publishers, in the order of their rows."""

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each name among them."""
        return {name: place for place, name in enumerate(self)}


class Marks(NamedTuple):
    """Data for rates: the totals of each row and their time, earlier and now."""

    heard_s: NDArray[np.float64]
    messages: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    former_s: NDArray[np.float64]
    former_messages: NDArray[np.int64]
    former_bytes: NDArray[np.int64]
    period_s: NDArray[np.float64]

    def rates(self, now_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return messages and bytes per second of each row, from arrival to arrival.

        NaN before the second message, 0 after the end of a publisher's messages.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            spanned_s = self.heard_s - self.former_s
            quiet_s = now_s - self.heard_s
            seconds = quiet_s - self.period_s
            np.maximum(seconds, 0.0, out=seconds)
            seconds += spanned_s
            messages = (self.messages - self.former_messages) / seconds
            size_bytes = (self.size_bytes - self.former_bytes) / seconds
            unknown = np.flatnonzero(~(spanned_s > 0))
            still = np.flatnonzero((quiet_s > RATE_WINDOW_S) & (self.messages > 0))
        dead = still[quiet_s[still] > RATE_MESSAGES * self.period_s[still]]
        for rate in (messages, size_bytes):
            rate[unknown] = np.nan
            rate[dead] = 0.0
        return messages, size_bytes


class PublisherTraffic:
    """The traffic of all publishers of one monitor."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        """The client of each row."""
        self.boots: list[str] = [""]
        """The last boot announced by each, or named by its descriptors."""
        self.revision = 0
        """Increases when rows are added or removed."""
        self._row_of: dict[str, int] = {}
        self._read: dict[str, NDArray[Any]] = {}
        """Columns as they were read last, unless something has changed in them."""
        self._names: PublisherNames | None = None
        self._last_boots: tuple[str, ...] | None = None
        self._columns = {name: np.full(16, value, kind) for name, (kind, value) in _COLUMNS.items()}
        self._rings = {
            name: np.full((SLOTS, 16), value, np.float32) for name, value in _RINGS.items()
        }
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        """Messages not yet written: row, size, lag, and delay."""
        self._now_s = 0.0
        """Monotonic arrival of the last of them. All arrived in the same second."""

    def __len__(self) -> int:
        """Return the number of rows, with row 0."""
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, with all messages written and without derived data."""
        self._write()
        return self.__dict__ | {"_read": {}, "_names": None, "_last_boots": None}

    # Rows

    def row_of(self, client: str) -> int:
        """Return a client's row.

        0 if it has none.
        """
        return self._row_of.get(client, 0)

    def add(self, client: str) -> int:
        """Return a client's row, a new one for a new client."""
        row = self._row_of.get(client)
        if row is None:
            row = self._row_of[client] = len(self.names)
            self.names.append(client)
            self.boots.append("")
            self.revision += 1
            self._names = self._last_boots = None
            if row >= len(self._columns["messages"]):
                self._resize(np.arange(row), 2 * row)
        return row

    def keep(self, clients: Collection[str]) -> None:
        """Forget all other clients and renumber the rest.

        Rows returned before are invalid.
        """
        rows = [row for row, name in enumerate(self.names) if not row or name in clients]
        if len(rows) == len(self.names):
            return
        self._write()
        gone = np.setdiff1d(np.arange(len(self.names)), rows)
        for name in SUMS:
            self._to_write(name)[0] += self._columns[name][gone].sum()
        self._resize(np.array(rows), max(16, len(rows)))
        self.names = [self.names[row] for row in rows]
        self.boots = [self.boots[row] for row in rows]
        self._row_of = {name: row for row, name in enumerate(self.names) if row}
        self.revision += 1
        self._names = self._last_boots = None

    def drop(self, client: str) -> int:
        """Forget a client with a row and return this row.

        The last client moves there.
        """
        row = self._row_of.pop(client)
        last = len(self.names) - 1
        self._write()
        for name in SUMS:
            self._to_write(name)[0] += self._columns[name][row]
        for name, (_, value) in _COLUMNS.items():
            column = self._to_write(name)
            column[row] = column[last]
            column[last] = value
        for name, none in _RINGS.items():
            self._read.pop(name, None)
            ring = self._rings[name]
            ring[:, row] = ring[:, last]
            ring[:, last] = none
        for texts in (self.names, self.boots):
            texts[row] = texts[last]
            del texts[last]
        if row != last:
            self._row_of[self.names[row]] = row
        self.revision += 1
        self._names = self._last_boots = None
        return last

    def _resize(self, chosen: NDArray[np.int64], rows: int) -> None:
        columns = self._columns
        rings = self._rings
        self._read = {}
        self._columns = {
            name: np.full(rows, value, kind) for name, (kind, value) in _COLUMNS.items()
        }
        self._rings = {
            name: np.full((SLOTS, rows), value, np.float32) for name, value in _RINGS.items()
        }
        for name, column in columns.items():
            self._columns[name][: len(chosen)] = column[chosen]
        for name, ring in rings.items():
            self._rings[name][:, : len(chosen)] = ring[:, chosen]

    def _to_write(self, name: str) -> NDArray[Any]:
        """Return a column for writing.

        Arrays read before stay unchanged.
        """
        self._read.pop(name, None)
        return self._columns[name]

    # What happens

    def announce(self, row: int, presence: Presence, boot: str, now_s: float) -> None:
        """Note the presence of a publisher as it was announced.

        Args:
            row: Its row.
            presence: The presence.
            boot: The boot that it is about; empty where that is not known.
            now_s: Monotonic seconds.
        """
        if not row:
            return
        columns = self._columns
        if boot and presence is Presence.ONLINE:
            if self.boots[row] not in {"", boot}:
                self._to_write("restarts")[row] += 1
            self._note_boot(row, boot)
        if columns["presence"][row] != presence:
            self._to_write("presence")[row] = presence
            self._to_write("changed_s")[row] = now_s

    def describe(self, row: int, period_s: float, boot: str) -> None:
        """Store a publisher's data from a descriptor."""
        if not row:
            return
        if self._columns["period_s"][row] != period_s:
            self._to_write("period_s")[row] = period_s
        if not self.boots[row]:
            self._note_boot(row, boot)

    def _note_boot(self, row: int, boot: str) -> None:
        if self.boots[row] != boot:
            self.boots[row] = boot
            self._last_boots = None

    def count_paths(self, paths: Mapping[str, int]) -> None:
        """Set the number of paths described by each client."""
        column = self._to_write("paths")
        column[:] = 0
        rows = len(self.names)
        column[1:rows] = np.fromiter(
            map(paths.get, self.names[1:], itertools.repeat(0)), np.int64, rows - 1
        )
        column[0] = sum(paths.values()) - column[1:rows].sum()

    def miss(self, row: int, lost: int, late: int, duplicates: int) -> None:
        """Add the result of a sequence check.

        `lost` is negative if it reduces a loss.
        """
        for name, number in (("lost", lost), ("late", late), ("duplicates", duplicates)):
            if number:
                self._to_write(name)[row] += number

    def miss_many(self, rows: NDArray[np.int64], lost: NDArray[np.int64]) -> None:
        """Add lost messages of many publishers.

        A publisher may occur several times.
        """
        np.add.at(self._to_write("lost"), rows, lost)

    def refuse(self, row: int, now_s: float) -> None:
        """Count a message refused for its content."""
        self._to_write("refused")[row] += 1
        self._to_write("refused_s")[row] = now_s

    def delay(self, row: int) -> None:
        """Count a message more than a minute behind the wall clock."""
        self._to_write("old")[row] += 1

    def take(
        self,
        rows: ArrayLike,
        sizes: ArrayLike,
        lags_s: ArrayLike,
        behind_s: ArrayLike,
        now_s: float,
    ) -> None:
        """Add the newest messages of a batch.

        Args:
            rows: The row of each message's publisher.
            sizes: Bytes of their payloads.
            lags_s: Their lags; NaN if unknown.
            behind_s: Delay of their source times behind our wall clock, perhaps negative; NaN if
                the
                source does not follow it.
            now_s: Monotonic seconds of their arrival.
        """
        if int(now_s) != int(self._now_s):
            self._write()
        self._now_s = now_s
        given = zip(
            (rows, sizes, lags_s, behind_s),
            (np.int64, np.int64, np.float32, np.float32),
            strict=True,
        )
        self._waiting.append(tuple(np.asarray(values, kind) for values, kind in given))

    def _write(self) -> None:
        """Write the waiting messages into the columns."""
        if not self._waiting:
            return
        rows, sizes, lags_s, behind_s = (
            np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True)
        )
        self._waiting = []
        columns = self._columns
        rings = self._rings
        for name in rings:
            self._read.pop(name, None)
        np.add.at(self._to_write("messages"), rows, 1)
        np.add.at(self._to_write("size_bytes"), rows, sizes)
        self._to_write("heard_s")[rows] = self._now_s
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
        """Assign a slot to rows heard for the first time in a second."""
        columns = self._columns
        fresh = rows[columns["second"][rows] != second]
        if not len(fresh):
            return
        self._to_write("second")[fresh] = second
        slots = self._to_write("slot")[fresh] = (columns["slot"][fresh] + 1) % SLOTS
        for name, value in _RINGS.items():
            self._rings[name][slots, fresh] = value

    # What is read

    def client_names(self) -> PublisherNames:
        """Return the clients of all rows except row 0.

        It is the same object until rows are added or removed.
        """
        if self._names is None:
            self._names = PublisherNames(self.names[1:])
        return self._names

    def last_boots(self) -> tuple[str, ...]:
        """Return the boots of the same rows."""
        if self._last_boots is None:
            self._last_boots = tuple(self.boots[1:])
        return self._last_boots

    def column(self, name: str) -> NDArray[Any]:
        """Return a column's rows, or a ring's slots and rows.

        Read-only.

        Nothing changes a returned array.
        """
        self._write()
        rows = len(self.names)
        array = self._read.get(name)
        if array is None or array.shape[-1] != rows:
            source = self._rings[name] if name in self._rings else self._columns[name]
            array = self._read[name] = source[..., :rows].copy()
            array.setflags(write=False)
        return array

    def extreme(self, name: str, operation: np.ufunc) -> NDArray[np.float64]:
        """Return `np.minimum` or `np.maximum` over the slots of each row of a ring."""
        self._write()
        extremes: NDArray[np.float64] = operation.reduce(
            self._rings[name][:, : len(self.names)], axis=0
        ).astype(np.float64)
        return extremes

    def marks(self, now_s: float) -> Marks:
        """Return the data for rates over `RATE_WINDOW_S` or more.

        Call it each second.
        """
        self._write()
        rows = len(self.names)
        columns = {name: self._columns[name][:rows] for name in _COLUMNS}
        passed_s = now_s - columns["mark_s"]
        begins = np.isnan(passed_s) & (columns["messages"] > 0)
        due = passed_s >= RATE_WINDOW_S
        if due.any():
            due &= (columns["messages"] - columns["mark_messages"] >= RATE_MESSAGES) | (
                passed_s >= RATE_MOST_S
            )
        if due.any() or begins.any():
            for former, mark, value in (
                ("former_s", "mark_s", columns["heard_s"]),
                ("former_messages", "mark_messages", columns["messages"]),
                ("former_bytes", "mark_bytes", columns["size_bytes"]),
            ):
                self._read.pop(former, None)
                np.copyto(columns[former], columns[mark], where=due)
                np.copyto(columns[mark], value, where=due | begins)
                np.copyto(columns[former], value, where=begins)
        return Marks(*(self.column(name) for name in Marks._fields))


class MessageRate:
    """Messages a second of one feed; counts are read about once a second.

    A fleet with a message every ten seconds is not silent between two messages. The rate is
    measured from arrival to arrival: the age of the last messages, which publishers may send
    together, does not change it.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        """Monotonic seconds and count of the readings at which it had grown, the newest last."""
        self._read_s = -math.inf
        """Monotonic seconds of the last reading."""
        self._dead_after_s = RATE_WINDOW_S

    def read(self, now_s: float, messages: int, period_s: float = 1.0) -> None:
        """Record a reading of the count.

        A lower count restarts the rate, and so does the first message after a dead feed.

        Args:
            now_s: Monotonic seconds.
            messages: The count.
            period_s: Seconds after which the usual publisher sends again.
        """
        marks = self._marks
        self._read_s = now_s
        self._dead_after_s = max(RATE_WINDOW_S, RATE_MESSAGES * period_s)
        if marks and messages == marks[-1][1]:
            return
        if marks and (messages < marks[-1][1] or self._is_dead):
            marks.clear()
        marks.append((now_s, messages))
        while len(marks) > 2 and self._is_enough(now_s - marks[1][0], messages - marks[1][1]):
            marks.popleft()

    @property
    def per_s(self) -> float:
        """Messages per second.

        NaN before messages have arrived twice, 0 for a dead feed.
        """
        if self._is_dead:
            return 0.0
        if len(self._marks) < 2:
            return math.nan
        begin_s, first = self._marks[0]
        end_s, last = self._marks[-1]
        usual_gap_s = (end_s - begin_s) / (len(self._marks) - 1)
        overdue_s = max(0.0, self.quiet_s - usual_gap_s)
        return (last - first) / max(1e-3, end_s - begin_s + overdue_s)

    @property
    def quiet_s(self) -> float:
        """Seconds between the last message and the last reading; infinite where none has come."""
        return self._read_s - self._marks[-1][0] if self._marks else math.inf

    @property
    def _is_dead(self) -> bool:
        return bool(self._marks) and self.quiet_s > self._dead_after_s

    @staticmethod
    def _is_enough(seconds: float, messages: int) -> bool:
        return seconds >= RATE_MOST_S or (seconds >= RATE_WINDOW_S and messages >= RATE_MESSAGES)
