"""The writer of history: a cell's minutes into a folder, from a broker or recordings."""

from __future__ import annotations

import itertools
import os
import re
import socket
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from trnfleet import logs
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.errors import TrnfleetError
from trnfleet.export.history.database import HistoryError
from trnfleet.export.history.files import cell_lock, locked
from trnfleet.export.history.rolling import window_of
from trnfleet.export.history.tables import ALERTS, EVENTS, JOB_MINUTES, PAID_TIME, paid_cells
from trnfleet.export.history.writing import HistoryWriter
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.services.discovery import find_fleet
from trnfleet.services.history.collector import ClosedMinute, Collector, HistoryMonitor, News
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.systemd import ServiceManager, Work
from trnfleet.tasks import Ending, background, in_thread, run_until
from trnfleet.wire.topics import HISTORY_SUBSCRIPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.goodput import PaidRow
    from trnfleet.domain.minutes import MinuteRows
    from trnfleet.record.read.recording import Recording

log = logs.get_logger(__name__)

EVERY_S = 1.0
"""Time between two checks for finished minutes."""
RETRY_S = 10.0
"""Time between two attempts on a full disk."""

MOST_BYTES = 512 * 2**20
"""Memory of the pending writes. Beyond it the oldest are dropped."""
ROW_BYTES = 1_000
"""Memory of an event or alert, about."""


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """Target folder and content of the history."""

    folder: Path
    cell: str
    writer: str
    """Name of this writer."""
    rules: tuple[Rule, ...]
    """Rules for the recorded alerts."""
    duration_s: float | None = None
    site: Site = DEFAULT_SITE
    """Limits and prices of paid time."""


class HistoryProgress(NamedTuple):
    """Totals so far, or at the end."""

    fleet: str
    minutes: int
    chips: int
    """Rows of chips in them."""
    files: int
    file_bytes: int
    late: int
    """Chip samples received after their minute was stored."""
    waiting: int
    """Minutes that wait for the disk."""
    unwritten: int
    """Minutes dropped because the disk stayed full."""
    lost: int
    """Ticks of telemetry that never came."""
    backlog: int
    """Messages of an outage that came late and were used."""
    backlog_unused: int
    """Messages of backlog not used: invalid, not described, or too old."""
    backlog_repeated: int
    """Messages of backlog that had come before."""


class HistoryReporter(Protocol):
    """Receiver of progress while history is written."""

    def began(self, fleet: str) -> None:
        """Report that writing has begun."""

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Report the totals after `elapsed_s`."""

    def failed(self, problem: str) -> None:
        """Report a failed write; it will be retried.

        An empty text reports success.
        """


def writer_name() -> str:
    """Return this machine's name for use as a writer's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64] or "writer"


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

    def add_paid(self, booked: int, rows: list[PaidRow]) -> None:
        """Add the rows of paid time that became known in a minute."""

        def write() -> None:
            if not self._writer.is_written(booked, PAID_TIME):
                self._writer.write_rows(PAID_TIME, booked, list(map(paid_cells, rows)))

        self._append(_Write(write, ROW_BYTES * len(rows), None))

    def add_backlog(self, rows: MinuteRows) -> None:
        """Add a minute's rows of backlog."""

        def write() -> None:
            written = self._writer.write_backlog(rows)
            self.late += rows.samples * (len(rows.chip) - written) // len(rows.chip)
            self.chips += written
            if written:
                self._note(rows.minute)

        self._append(_Write(write, rows.nbytes, None))

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
        while (write := self._next_write()) is not None:
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

    def _next_write(self) -> _Write | None:
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
        while len(self._writes) > 1 and self._bytes > self._most_bytes:
            given_up = self._writes.popleft()
            self._bytes -= given_up.size_bytes
            self.unwritten += given_up.minute is not None


class _Cell:
    """The writing of one cell."""

    def __init__(
        self, request: HistoryRequest, monitor: HistoryMonitor, reporter: HistoryReporter
    ) -> None:
        self._reporter = reporter
        self._monitor = monitor
        self._writer = HistoryWriter(
            request.folder, monitor.fleet_name, request.cell, request.writer
        )
        self._collector = Collector(monitor)
        self._pending = PendingWrites(self._writer)
        self._problem = ""
        self._news_s = monitor.clock.monotonic_s()

    def close(self) -> None:
        self._writer.close()

    def collect(self, *, at_end: bool = False) -> bool:
        """Queue the finished minutes.

        Return whether there is anything to write.
        """
        closed = self._collector.close(at_end=at_end)
        paid = self._collector.paid(at_end=at_end)
        for booked, rows in itertools.groupby(paid, key=lambda row: row.booked):
            self._pending.add_paid(booked, list(rows))
        for minute in closed:
            self._pending.add(minute)
        backlog = self._collector.backlog.close(at_end=at_end)
        for late in backlog:
            self._pending.add_backlog(late)
        now_s = self._monitor.clock.monotonic_s()
        if closed or at_end or (now_s - self._news_s) * NS_PER_S >= MINUTE_NS:
            self._news_s = now_s
            self._pending.add_news(self._collector.news())
        return bool(closed or paid or backlog) or at_end

    def flush(self, *, at_end: bool = False) -> None:
        """Write the waiting rows."""
        self._pending.flush(at_end=at_end)

    def report_problem(self) -> None:
        if self._pending.problem != self._problem:
            self._problem = self._pending.problem
            self._reporter.failed(self._problem)

    @property
    def has_problem(self) -> bool:
        return bool(self._pending.problem)

    def progress(self) -> HistoryProgress:
        pending = self._pending
        return HistoryProgress(
            self._monitor.fleet_name,
            pending.minutes,
            pending.chips,
            self._writer.files,
            self._writer.file_bytes,
            self._collector.late + pending.late,
            pending.waiting,
            pending.unwritten,
            self._monitor.counts.lost,
            self._collector.backlog.messages,
            self._collector.backlog.unused,
            self._collector.backlog.repeated,
        )

    def finish(self) -> HistoryProgress:
        """Return the totals.

        Raises:
            TrnfleetError: some minutes could not be written.
        """
        progress = self.progress()
        missing = progress.waiting + progress.unwritten
        if self.has_problem or missing:
            raise TrnfleetError(
                f"{self._pending.problem or 'the disk was full'}; {progress.minutes:,} minutes were"
                f" written, {missing:,} were not"
            )
        return progress


async def write_from_broker(
    session: BrokerSession, name: str | None, request: HistoryRequest, reporter: HistoryReporter
) -> HistoryProgress:
    """Write a fleet's history until a signal or the duration ends it.

    Return the totals.

    Raises:
        BrokerError: the broker cannot be reached or has no fleet.
        ConfigError: it has several fleets and no name, or DuckDB is not installed.
        TrnfleetError: the cell has a writer, or not all could be written.
    """
    clock = session.clock
    ending = Ending()
    with ending.on_signals():
        fleet = await find_fleet(session, name)
        with _locked(request, fleet, clock):
            source, monitor = monitor_fleet(
                session,
                fleet,
                site=request.site,
                rules=request.rules,
                kind=HistoryMonitor,
                subscriptions=HISTORY_SUBSCRIPTIONS,
            )
            assert isinstance(monitor, HistoryMonitor)  # noqa: S101  its kind was given
            cell = _Cell(request, monitor, reporter)
            manager = ServiceManager(clock)
            try:
                async with background(source=source.run(), monitor=monitor.run()):
                    await source.wait_connected(CONNECT_LIMIT_S)
                    reporter.began(fleet)
                    work = _write_until_end(request, cell, clock, reporter)
                    works = [
                        Work(
                            "messages",
                            lambda: monitor.ingest.counts.read,
                            lambda: not source.status.waiting,
                        )
                    ]
                    async with background(
                        service_manager=manager.run(
                            works, lambda: f"{cell.progress().minutes:,} minutes written"
                        )
                    ):
                        await run_until(ending, work)
                cell.collect(at_end=True)
                # A second signal ends this, too, however long a slow disk takes.
                await in_thread(partial(cell.flush, at_end=True))
                return cell.finish()
            finally:
                cell.close()


async def _write_until_end(
    request: HistoryRequest, cell: _Cell, clock: Clock, reporter: HistoryReporter
) -> None:
    began_s = clock.monotonic_s()
    tried_s = began_s
    while request.duration_s is None or clock.monotonic_s() - began_s < request.duration_s:
        await clock.sleep(EVERY_S)
        now_s = clock.monotonic_s()
        has_news = cell.collect()
        if (has_news and not cell.has_problem) or (cell.has_problem and now_s - tried_s >= RETRY_S):
            tried_s = now_s
            await in_thread(cell.flush)
            cell.report_problem()
        reporter.progressed(cell.progress(), now_s - began_s)


def write_from_recording(
    recording: Recording,
    fleet: str,
    request: HistoryRequest,
    reporter: HistoryReporter,
    *,
    clock: Clock,
    from_ns: int,
    to_ns: int,
) -> HistoryProgress:
    """Write the history of a recording, and return the totals.

    Args:
        recording: The recording; the caller closes it.
        fleet: The fleet to read.
        request: Where it is written to.
        reporter: Receives what happens.
        clock: The real clock.
        from_ns: Begin of the part that is written.
        to_ns: Its end.

    Raises:
        ConfigError: DuckDB is not installed.
        TrnfleetError: the cell has a writer, or not all could be written.
    """
    with _locked(request, fleet, clock):
        place = RecordingClock(clock, recording.start_ns, 0.0, recording.start_ns)
        monitor = HistoryMonitor(
            PastSource("a recording"),
            fleet,
            clock=place,
            root=recording.root,
            site=request.site,
            rules=request.rules,
        )
        past = PastMonitor(recording, monitor, place)
        cell = _Cell(request, monitor, reporter)
        try:
            reporter.began(fleet)
            began_s = clock.monotonic_s()
            start = past.begin() if from_ns <= recording.start_ns else past.rebuild(from_ns)
            for _ in start:
                pass
            while past.position_ns < to_ns:
                for _ in past.advance(min(to_ns, past.position_ns + MINUTE_NS)):
                    pass
                if cell.collect():
                    cell.flush()
                    cell.report_problem()
                reporter.progressed(cell.progress(), clock.monotonic_s() - began_s)
            cell.collect(at_end=True)
            cell.flush(at_end=True)
            return cell.finish()
        finally:
            cell.close()


def _locked(request: HistoryRequest, fleet: str, clock: Clock) -> AbstractContextManager[None]:
    holder = (
        f"{socket.gethostname()}, process {os.getpid()}, since {format_rfc3339(clock.wall_ns())}"
    )
    return locked(
        cell_lock(request.folder, fleet, request.cell),
        f"the cell {request.cell!r} of {fleet!r}",
        holder,
    )
