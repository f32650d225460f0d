"""History for the app's charts: read in a thread, one query at a time.

A bounded number of answers is kept.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.export.history.charts import ChartReader
from trnfleet.tasks import in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.domain.minutes import KeptSeries, Reach, Wanted

log = logs.get_logger(__name__)

FRESH_S = 60.0
"""Seconds after which a shown answer is read again. A writer adds a file a minute."""
LIMIT_S = 30.0
"""Longest time for one query: a longer one is aborted. After as long a failed one is repeated."""
MOST_ANSWERS = 64
"""Answers, and waiting queries. The oldest are dropped: they are no longer shown."""


class _Answer:
    def __init__(self, series: KeptSeries, at_s: float) -> None:
        self.series = series
        self.at_s = at_s


class HistoryFolder:
    """A folder of history, for the fleets of one app."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Store the folder.

        It may be created later.

        Raises:
            ConfigError: DuckDB is not installed.
        """
        if find_spec("duckdb") is None:
            raise ConfigError(
                "--history: DuckDB is not installed: pip install duckdb, or pipx inject trnfleet"
                " duckdb"
            )
        self._folder = folder
        self._clock = clock
        self._fleets: asyncio.Queue[HistoryCharts] = asyncio.Queue()

    def charts_of(self, fleet: str) -> HistoryCharts:
        """Return the history of a fleet.

        `run` reads it from now on.
        """
        charts = HistoryCharts(self._folder, fleet, self._clock)
        self._fleets.put_nowait(charts)
        return charts

    async def run(self) -> None:
        """Answer the queries of all fleets until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                charts = await self._fleets.get()
                group.create_task(charts.run(), name="history_of_fleet")


class HistoryCharts:
    """The history of one fleet, a `FleetHistory`."""

    def __init__(self, folder: Path, fleet: str, clock: Clock) -> None:
        self._folder = folder
        self._fleet = fleet
        self._clock = clock
        self._reader = ChartReader(folder)
        self._answers: OrderedDict[tuple[str, tuple[str, ...], int], _Answer] = OrderedDict()
        """Answers by their time-independent key."""
        self._waiting: OrderedDict[tuple[str, tuple[str, ...], int], Wanted] = OrderedDict()
        self._asked = asyncio.Event()
        self._tried_s = -math.inf
        self.revision = 0
        self.problem = ""
        self._left_out = ""
        """Files missing in the last answer, as a problem."""
        self.reach: Reach | None = None

    def ask(self, query: Wanted) -> KeptSeries | None:
        """Return an answer, or a slightly older one to the same query.

        None while it is read.
        """
        key = (query.address, query.jobs, query.step_ns)
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        if self._is_old(key, query):
            self._waiting[key] = query
            self._waiting.move_to_end(key)
            while len(self._waiting) > MOST_ANSWERS:
                self._waiting.popitem(last=False)
            self._asked.set()
        return None if answer is None else answer.series

    def _is_old(self, key: tuple[str, tuple[str, ...], int], query: Wanted) -> bool:
        answer = self._answers.get(key)
        return (
            answer is None
            or answer.series.wanted != query
            or self._clock.monotonic_s() - answer.at_s >= FRESH_S
        )

    async def run(self) -> None:
        """Answer queries until cancelled."""
        await self._look()
        while True:
            if self.problem and not self._waiting:
                # Whether it can be read again is seen though no chart asks: nothing else ends the
                # message.
                await self._asked_or_after(LIMIT_S)
                if not self._waiting:
                    await self._look()
            else:
                await self._asked.wait()
            self._asked.clear()
            while self._waiting:
                # A folder that cannot be read is not tried ten times a second.
                rest_s = self._tried_s + LIMIT_S - self._clock.monotonic_s()
                if rest_s > 0:
                    await self._clock.sleep(rest_s)
                key, query = self._waiting.popitem()
                # It was asked for again while it was read.
                if self._is_old(key, query):
                    await self._read(key, query)

    async def _asked_or_after(self, seconds: float) -> None:
        """Wait for a query, for some seconds at most."""
        tasks = [
            asyncio.ensure_future(wait) for wait in (self._asked.wait(), self._clock.sleep(seconds))
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _look(self) -> None:
        """Read the end time of the files, and whether the left out ones are unchanged."""
        try:
            async with asyncio.timeout(LIMIT_S):
                self.reach = await in_thread(partial(self._reader.reach, self._fleet))
                has_bad = await in_thread(self._reader.has_bad)
        except Exception as error:  # noqa: BLE001  the app goes on whatever a folder is
            self._fail(error)
        else:
            self._left_out = self._left_out if has_bad else ""
            self._tell(self._left_out)

    async def _read(self, key: tuple[str, tuple[str, ...], int], query: Wanted) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                self.reach = await in_thread(partial(self._reader.reach, self._fleet))
                series = await in_thread(partial(self._reader.read, self._fleet, query))
        except TimeoutError:
            self._reader.interrupt()
            self._failed(
                f"{self._folder}: reading took longer than {LIMIT_S:.0f} s: `trnfleet history"
                " compact` makes it quicker"
            )
            return
        except Exception as error:  # noqa: BLE001  a library that fails must not end the app
            self._fail(error)
            return
        self._tried_s = -math.inf
        self._answers[key] = _Answer(series, self._clock.monotonic_s())
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)
        left_out = self._reader.left_out
        more = f" (and {len(left_out) - 1:,} more files)" if len(left_out) > 1 else ""
        self._left_out = (
            f"left out ({left_out[0].why}){more}: {left_out[0].path}" if left_out else ""
        )
        self._tell(self._left_out)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, TrnfleetError):
            self._failed(str(error))
        elif isinstance(error, TimeoutError):
            self._failed(f"{self._folder}: reading took longer than {LIMIT_S:.0f} s")
        else:
            log.error("history_not_read", folder=str(self._folder), exc_info=error)
            self._failed(f"{self._folder}: {type(error).__name__}: {error}")

    def _failed(self, problem: str) -> None:
        self._tried_s = self._clock.monotonic_s()
        self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("history_problem", problem=problem)
        self.problem = problem
        self.revision += 1
