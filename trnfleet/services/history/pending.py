"""Pending writes of history: in order, retried on a full disk, bounded and counted."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs
from trnfleet.errors import TrnfleetError
from trnfleet.export.history.database import HistoryError
from trnfleet.export.history.rolling import window_of
from trnfleet.export.history.tables import ALERTS, EVENTS, JOB_MINUTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.export.history.writing import HistoryWriter
    from trnfleet.services.history.collector import ClosedMinute, News

log = logs.get_logger(__name__)

MOST_BYTES = 512 * 2**20
"""Memory of the pending writes. Beyond it the oldest are dropped."""
MOST_WRITES = 10_000
ROW_BYTES = 1_000
"""Memory of an event or alert, about."""


class _Write(NamedTuple):
    """Something that is to be written."""

    call: Callable[[], None]
    size_bytes: int
    minute: int | None
    """Minute of chips; None for other rows."""


class PendingWrites:
    """The pending writes, oldest first.

    One thread may flush while another adds.
    """

    def __init__(self, writer: HistoryWriter, most_bytes: int = MOST_BYTES) -> None:
        self._writer = writer
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._writes: deque[_Write] = deque()
        self._bytes = 0
        self._windows: set[int] = set()
        """Windows of ten minutes with minutes not yet rolled up."""
        self._newest = 0
        """The newest minute written."""
        self._days: set[int] = set()
        self.minutes = 0
        """Minutes written."""
        self.chips = 0
        """Rows of chips in them."""
        self.late = 0
        """Samples left out because their minutes are already there, possibly from an earlier run.
        """
        self.unwritten = 0
        """Minutes that were given up."""
        self.problem = ""
        """Why something waits; empty where nothing does."""

    @property
    def waiting(self) -> int:
        """Minutes that wait."""
        with self._lock:
            return sum(write.minute is not None for write in self._writes)

    def add(self, closed: ClosedMinute) -> None:
        """Add a minute."""

        def write() -> None:
            # Here, and not as its samples come: the day's files are read, which takes a while.
            if self._writer.is_written(closed.minute):
                self.late += sum(part.samples for part in closed.parts)
                return
            # Chips last: a minute counts as written once they are there.
            if closed.jobs:
                self._writer.write_rows(JOB_MINUTES, closed.minute, closed.jobs)
            self._writer.write_chips(closed.parts)
            self.minutes += 1
            self.chips += sum(len(part.chip) for part in closed.parts)

        self._append(_Write(write, sum(part.nbytes for part in closed.parts), closed.minute))

    def add_news(self, news: News) -> None:
        """Add events and alerts."""
        for table, rows in ((EVENTS, news.events), (ALERTS, news.alerts)):
            if rows:
                call = partial(self._writer.write_rows, table, news.minute, rows)
                self._append(_Write(call, ROW_BYTES * len(rows), None))

    def flush(self, *, at_end: bool = False) -> None:
        """Write all that waits and the finished ten-minute windows.

        Failed writes wait on, and `problem` has the reason.

        Args:
            at_end: Whether no more will come. The last window is finished then, too.
        """
        # A flush of a thread that is not waited for any more may still be under way.
        with self._flushing:
            self.problem = ""
            try:
                self._write_all()
                newest = window_of(self._newest)
                for window in sorted(self._windows):
                    if at_end or window < newest:
                        self._writer.roll_up(window)
                        self._windows.discard(window)
            except TrnfleetError as error:
                self.problem = str(error)

    def _write_all(self) -> None:
        while (write := self._take()) is not None:
            minutes = self.minutes
            try:
                write.call()
            except HistoryError as error:
                if error.is_gone or error.is_refused:
                    self._put_back(write)
                    raise
                # It would be refused again, and must not hold up what comes after it.
                log.warning("history_not_written", error=str(error))
                self.unwritten += write.minute is not None
                continue
            except TrnfleetError:
                self._put_back(write)
                raise
            if write.minute is not None and self.minutes > minutes:
                self._note(write.minute)

    def _note(self, minute: int) -> None:
        day = minute // 1_440
        if day not in self._days:
            # What a former run has left without its ten minutes.
            self._windows |= self._writer.windows_to_roll_up(minute)
            self._days.add(day)
        self._windows.add(window_of(minute))
        self._newest = max(self._newest, minute)

    def _take(self) -> _Write | None:
        with self._lock:
            if not self._writes:
                return None
            write = self._writes.popleft()
            self._bytes -= write.size_bytes
            return write

    def _put_back(self, write: _Write) -> None:
        with self._lock:
            self._writes.appendleft(write)
            self._bytes += write.size_bytes
            self._make_room()

    def _append(self, write: _Write) -> None:
        with self._lock:
            self._writes.append(write)
            self._bytes += write.size_bytes
            self._make_room()

    def _make_room(self) -> None:
        while len(self._writes) > 1 and (
            self._bytes > self._most_bytes or len(self._writes) > MOST_WRITES
        ):
            given_up = self._writes.popleft()
            self._bytes -= given_up.size_bytes
            self.unwritten += given_up.minute is not None
