"""History for charts: the figures of a node or of jobs in equal steps.

Reads only the fleet's own files of the days in question.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level, level_of, parse_chip, split
from trnfleet.domain.metrics import CHIP_METRICS, Aggregate, Kind, Metric
from trnfleet.domain.minutes import KeptColumn, KeptSeries, Reach, Wanted, has_peak
from trnfleet.errors import ConfigError
from trnfleet.export.history.files import (
    Partition,
    list_files,
    partitions,
    require_folder,
    why_torn,
)
from trnfleet.export.history.query import OF, HistoryReader
from trnfleet.export.history.tables import MINUTE_US

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnfleet.export.history.catalogue import LeftOutFile

MEMORY_BYTES = 256 * 2**20
"""DuckDB's memory limit within the app."""
JOB_FIGURES = ("power_w", "step_time_s")
_METRICS = tuple(metric for metric in CHIP_METRICS if metric.kind is Kind.GAUGE)
"""All gauges: charts have figures derived from several, such as HBM bandwidth."""


class ChartReader:
    """A history folder, for one thread at a time; the first thread imports DuckDB."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reader: HistoryReader | None = None

    @property
    def left_out(self) -> tuple[LeftOutFile, ...]:
        """Files missing in the last answer, with the reason."""
        return () if self._reader is None else self._reader.left_out

    def has_bad(self) -> bool:
        """Return whether a file missing in the last answer still exists unchanged."""
        return any(_is_bad(bad_file) for bad_file in self.left_out)

    def interrupt(self) -> None:
        """Interrupt another thread's read."""
        if self._reader is not None:
            self._reader.interrupt()

    def reach(self, fleet: str) -> Reach:
        """Return the times that the names of a fleet's files are of.

        Raises:
            ConfigError: the folder is not there or cannot be read, or has nothing of the fleet.
        """
        require_folder(self._folder)
        there = partitions(self._folder)
        own = [partition for partition in there if partition.fleet == fleet]
        days = [day for day in (own[:1], own[-1:]) if day]
        files = [file for day in days for group in self._of_day(own, day[0]) for file in group]
        if not files:
            others = ", ".join(
                sorted({repr(partition.fleet) for partition in there} - {repr(fleet)})[:5]
            )
            raise ConfigError(
                f"{self._folder}: no history of the fleet {fleet!r}"
                + (f"; it has that of {others}" if others else "")
            )
        first = min(file.first for file in files)
        last = max(file.last for file in files)
        return Reach(first * 60_000_000_000, (last + 1) * 60_000_000_000)

    def _of_day(self, own: Sequence[Partition], chosen: Partition) -> list[list[Any]]:
        return [
            list_files(self._folder, partition)[0]
            for partition in own
            if partition.day == chosen.day
        ]

    def read(self, fleet: str, request: Wanted) -> KeptSeries:
        """Return the history of the requested series.

        Raises:
            TrnfleetError: it cannot be read.
        """
        if self._reader is None:
            self._reader = HistoryReader(self._folder, memory_bytes=MEMORY_BYTES, threads=1)
        steps = -(-(request.to_ns - request.from_ns) // request.step_ns)
        first, last = (
            datetime.fromtimestamp(time_ns // 10**9, UTC).date()
            for time_ns in (request.from_ns - 86_400 * 10**9, request.to_ns)
        )

        def days() -> list[Partition]:
            return [
                partition
                for partition in partitions(self._folder)
                if partition.fleet == fleet and first <= partition.day <= last
            ]

        sql, parameters, names = _jobs_sql(request) if request.jobs else _node_sql(request)
        result = self._reader.query(sql, [*parameters], list_partitions=days)
        if request.jobs:
            return _of_jobs(request, steps, result.rows)
        return _of_node(request, steps, result.rows, names)


def _is_bad(file: LeftOutFile) -> bool:
    try:
        return bool(why_torn(file.path)) or not file.why.startswith("torn")
    except FileNotFoundError:
        return False


def _bucket(request: Wanted, length_minutes: int) -> str:
    """Return the SQL of the step that contains a row's middle."""
    from_us = request.from_ns // 1_000
    step_us = request.step_ns // 1_000
    middle_us = length_minutes * MINUTE_US // 2
    return f"(epoch_us(time) + {middle_us - from_us}) // {step_us}"


def _within(request: Wanted) -> tuple[str, list[Any]]:
    return "time >= make_timestamp(?::BIGINT) AND time < make_timestamp(?::BIGINT)", [
        request.from_ns // 1_000,
        request.to_ns // 1_000,
    ]


def _node_sql(request: Wanted) -> tuple[str, list[Any], list[str]]:
    """Return the SQL of a node's chips and metrics per step.

    Minimum, mean and maximum of each metric.
    """
    level = level_of(request.address)
    table = (
        "fleets"
        if level is Level.FLEET
        else "ultraservers"
        if level <= Level.ULTRASERVER
        else "chips"
    )
    length = 1 if table == "chips" else 10
    where, parameters = _within(request)
    for name, segment in zip(OF["chip"], split(request.address), strict=False):
        where += f" AND {name} = ?"
        parameters.append(parse_chip(segment) if name == "chip" else segment)
    inner = []
    outer = []
    names = []
    for metric in _METRICS:
        name = metric.name
        inner.append(f"{_at_once(metric)} AS {name}")
        outer += [f"min({name})", f"avg({name})"]
        if has_peak(metric):
            # Peaks of several chips do not come at the same time: their sum is none of the node's.
            is_peak = level >= Level.CHIP or metric.aggregate is Aggregate.MAX
            inner.append(f"{f'max({name}_max)' if is_peak else 'NULL::DOUBLE'} AS {name}_top")
            outer.append(f"max({name}_top)")
        else:
            outer.append(f"max({name})")
        names.append(name)
    chips = "count(*)" if table == "chips" else "sum(chips)"
    return (
        (
            f"SELECT {_bucket(request, length)}, max(chips), {', '.join(outer)} FROM (SELECT time,"
            f" {chips} AS chips, {', '.join(inner)} FROM {table} WHERE {where} GROUP BY time) GROUP"
            " BY 1"
        ),
        parameters,
        names,
    )


def _at_once(metric: Metric) -> str:
    """Return the SQL that aggregates the rows of one time."""
    if metric.aggregate is Aggregate.SUM:
        return f"sum({metric.name})"
    return (
        f"sum({metric.name} * covered_s) / nullif(sum(covered_s) FILTER ({metric.name} IS NOT"
        " NULL), 0)"
    )


def _jobs_sql(request: Wanted) -> tuple[str, list[Any], list[str]]:
    where, parameters = _within(request)
    marks = ", ".join("?" for _ in request.jobs)
    return (
        (
            f"SELECT {_bucket(request, 10)}, job, avg(power_w), avg(step_time_s) FROM (SELECT time,"
            " job, sum(power_w) AS power_w, max(step_time_s) AS step_time_s FROM jobs WHERE"
            f" {where} AND job IN ({marks}) GROUP BY time, job) GROUP BY 1, 2"
        ),
        [*parameters, *request.jobs],
        list(JOB_FIGURES),
    )


def _of_node(
    request: Wanted, steps: int, rows: Sequence[tuple[Any, ...]], names: list[str]
) -> KeptSeries:
    values = np.full((steps, 1 + 3 * len(names)), np.nan, np.float32)
    for step, *row in rows:
        if 0 <= step < steps:
            values[step] = [np.nan if value is None else value for value in row]
    values[~np.isfinite(values)] = np.nan
    columns = {}
    for number, name in enumerate(names):
        low, mean, high = values[:, 1 + 3 * number : 4 + 3 * number].T
        columns[name] = KeptColumn(low, mean, np.where(np.isnan(high), mean, high))
    return KeptSeries(request, columns, values[:, 0])


def _of_jobs(request: Wanted, steps: int, rows: Sequence[tuple[Any, ...]]) -> KeptSeries:
    columns: dict[str, KeptColumn] = {}
    chips = np.full(steps, np.nan, np.float32)
    for step, job, *row in rows:
        if not 0 <= step < steps:
            continue
        chips[step] = 1.0
        for name, value in zip(JOB_FIGURES, row, strict=True):
            key = f"{name} {job}"
            if key not in columns:
                empty = np.full(steps, np.nan, np.float32)
                columns[key] = KeptColumn(empty, empty, empty)
            columns[key].mean[step] = np.nan if value is None else value
    return KeptSeries(request, columns, chips)
