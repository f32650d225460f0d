"""Recorded utilisation as a job's load: documents of neuron-monitor, or CSV.

Owns the recordings and their mean over any window; the activity at a utilisation is in `workloads`.
The bridge's reader of neuron-monitor's documents is passed as an argument.
"""

from __future__ import annotations

import bisect
import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

from trnfleet.domain.jobs import Traced
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.domain.fleet import FleetFile

HEADER = ("time_s", "utilization_pct")
"""Columns that a CSV file must have."""
LONGEST_S = 1e9
"""Largest distance of a recording's times from zero: 30 years."""
MAX_POINTS = 1_000_000
"""Most samples of one recording (11 days of seconds). Protects memory from a wrong file."""
MAX_BYTES = 2 * 2**30
_SHOWN = 5


class TraceSample(Protocol):
    """Utilisation over a part of a recording, or the reason it is unusable."""

    @property
    def line(self) -> int:
        """Line on which it begins, counted from 1."""

    @property
    def period_s(self) -> float:
        """Its length."""

    @property
    def percent(self) -> float:
        """Mean utilisation of the cores in use."""

    @property
    def problem(self) -> str:
        """Reason why it cannot be used; empty where it can."""


ReadSamples = Callable[[BinaryIO], "Iterator[TraceSample]"]
"""Reader of a file of neuron-monitor."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that could not be used."""

    line: int
    """Counted from 1."""
    reason: str


@dataclass(frozen=True)
class Trace:
    """Utilisation over time, constant between its edges."""

    edges_s: tuple[float, ...]
    """Seconds from the recording's begin, rising; one more than there are values."""
    values: tuple[float, ...]
    """Utilisation between two edges, 0 to 1."""
    loop: bool = True
    """Whether it restarts at its end; otherwise its last value continues."""
    skipped: tuple[Skipped, ...] = ()
    _sums: tuple[float, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sum it up, once."""
        sums = [0.0]
        for begin, end, value in zip(self.edges_s, self.edges_s[1:], self.values, strict=False):
            sums.append(sums[-1] + (end - begin) * value)
        object.__setattr__(self, "_sums", tuple(sums))

    @property
    def length_s(self) -> float:
        """Seconds from the first edge to the last."""
        return self.edges_s[-1]

    @property
    def summary(self) -> str:
        """One line for the log: how much was read, and which lines were not used."""
        text = f"{len(self.values)} samples over {self.length_s:g} s"
        if not self.skipped:
            return text
        shown = ", ".join(f"line {skip.line} ({skip.reason})" for skip in self.skipped[:_SHOWN])
        more = f" and {len(self.skipped) - _SHOWN} more" if len(self.skipped) > _SHOWN else ""
        return f"{text}; {len(self.skipped)} skipped: {shown}{more}"

    def mean(self, begin_s: float, end_s: float) -> float:
        """Return the exact mean utilisation from `begin_s` to `end_s`.

        Before the recording's begin its first value applies.
        """
        if end_s <= begin_s:
            return self.at(begin_s)
        return (self._integral(end_s) - self._integral(begin_s)) / (end_s - begin_s)

    def at(self, time_s: float) -> float:
        """Return the utilisation at an instant."""
        place = time_s % self.length_s if self.loop else min(max(time_s, 0.0), self.length_s)
        return self.values[min(bisect.bisect_right(self.edges_s, place) - 1, len(self.values) - 1)]

    def _integral(self, time_s: float) -> float:
        """Return the integral from 0 to `time_s`.

        A looping recording continues in both directions.
        """
        if self.loop:
            rounds = math.floor(time_s / self.length_s)
            return rounds * self._sums[-1] + self._inside(time_s - rounds * self.length_s)
        if time_s <= 0:
            return time_s * self.values[0]
        beyond_s = max(time_s - self.length_s, 0.0)
        return self._inside(min(time_s, self.length_s)) + beyond_s * self.values[-1]

    def _inside(self, time_s: float) -> float:
        place = min(max(bisect.bisect_right(self.edges_s, time_s) - 1, 0), len(self.values) - 1)
        return self._sums[place] + (time_s - self.edges_s[place]) * self.values[place]


def load_traces(fleet: FleetFile, folder: Path, read_neuron: ReadSamples) -> dict[str, Trace]:
    """Read the recordings of a fleet's jobs.

    Args:
        fleet: The fleet file.
        folder: Where it lies; the recordings' paths are relative to it.
        read_neuron: Reader of documents of neuron-monitor.

    Returns:
        A trace for each job of kind `trace`, by the job's name; `Trace.summary` says what was
        skipped.

    Raises:
        ConfigError: a file cannot be read or has nothing usable; the message names file, line and
            reason.
    """
    return {
        job.name: read_trace(folder / job.file, read_neuron, loop=job.loop)
        for job in fleet.jobs
        if isinstance(job, Traced)
    }


def trace_of(job: Traced, traces: Mapping[str, Trace]) -> Trace:
    """Return a job's recording.

    Raises:
        ConfigError: it was not read.
    """
    if job.name not in traces:
        raise ConfigError(f"jobs.{job.name}.file: its recording was not read")
    return traces[job.name]


def read_trace(path: Path, read_neuron: ReadSamples, *, loop: bool = True) -> Trace:
    """Read one recording, documents of neuron-monitor or CSV by its name's ending.

    Raises:
        ConfigError: it cannot be read or has nothing usable.
    """
    if path.suffix not in {".ndjson", ".jsonl", ".json", ".csv"}:
        raise ConfigError(f"{path}: a recording ends in .ndjson or .csv, not {path.suffix!r}")
    edges = [0.0]
    values = []
    skipped: list[Skipped] = []
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: more than {MAX_BYTES >> 30} GiB")
        with (
            path.open("rb") as stream,
            io.TextIOWrapper(stream, "utf-8", "replace", newline="") as lines,
        ):
            samples = (
                _csv(path, lines, skipped)
                if path.suffix == ".csv"
                else _neuron(read_neuron(stream), skipped)
            )
            for period_s, value in samples:
                edges.append(edges[-1] + period_s)
                values.append(value)
                if len(values) > MAX_POINTS:
                    raise ConfigError(f"{path}: more than {MAX_POINTS} samples; cut it into parts")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not values:
        why = f"; line {skipped[0].line}: {skipped[0].reason}" if skipped else ": it is empty"
        raise ConfigError(f"{path}: nothing in it can be used{why}")
    return Trace(tuple(edges), tuple(values), loop, tuple(skipped))


def _neuron(
    samples: Iterable[TraceSample], skipped: list[Skipped]
) -> Iterator[tuple[float, float]]:
    """Yield the period and the utilisation of each document."""
    for sample in samples:
        if sample.problem:
            skipped.append(Skipped(sample.line, sample.problem))
        else:
            yield sample.period_s, sample.percent / 100.0


def _csv(path: Path, lines: Iterable[str], skipped: list[Skipped]) -> Iterator[tuple[float, float]]:
    """Yield the length and the utilisation between each two lines.

    The last line lasts as long as the one before.
    """
    rows = csv.reader(lines)
    header = [name.strip() for name in next(rows, [])]
    if missing := [name for name in HEADER if name not in header]:
        hint = nearest(missing[0], header) if header else "the file is empty"
        raise ConfigError(f"{path}: line 1: no column {missing[0]!r} in the header: {hint}")
    columns = [header.index(name) for name in HEADER]
    last: tuple[float, float] | None = None
    period_s = 1.0
    try:
        for row in rows:
            if not row:
                continue
            try:
                time_s, value = _point(row, columns, last)
            except ValueError as error:
                skipped.append(Skipped(rows.line_num, str(error)))
                continue
            if last is not None:
                period_s = time_s - last[0]
                yield period_s, last[1]
            last = time_s, value
    except csv.Error as error:
        skipped.append(Skipped(rows.line_num, str(error)))
    if last is not None:
        yield period_s, last[1]


def _point(
    row: list[str], columns: list[int], last: tuple[float, float] | None
) -> tuple[float, float]:
    if len(row) <= max(columns):
        raise ValueError(f"{len(row)} of {max(columns) + 1} columns")
    time_s, value = (float(row[column]) for column in columns)
    if not abs(time_s) <= LONGEST_S:
        raise ValueError(f"time_s {row[columns[0]]!r}")
    if last is not None and time_s <= last[0]:
        raise ValueError(f"time_s {time_s:g} is not after {last[0]:g}")
    return time_s, _utilisation(value)


def _utilisation(percent: float) -> float:
    """Return a percentage as a share; neuron-monitor's rounding may pass 100 a little.

    Raises:
        ValueError: it is no percentage.
    """
    if not math.isfinite(percent) or not 0 <= percent <= 101:
        raise ValueError(f"utilization {percent:g} %")
    return min(percent / 100.0, 1.0)
