"""`trnfleet history`: months of a fleet in Parquet files, written, queried and compacted."""

from __future__ import annotations

import asyncio
import csv
import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import (
    broker_options,
    log_options,
    rules_option,
    setting,
    site_options,
)
from trnfleet.cli.output import (
    PROGRESS_EVERY_S,
    exit_on_broken_pipe,
    print_json,
    report,
    report_left_out,
    report_progress,
    stderr_is_terminal,
    table_lines,
)
from trnfleet.cli.params import Duration, FileName, FleetName, Instant, OneOf, Size
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.quantities import size_text
from trnfleet.errors import ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.domain.site import Site
    from trnfleet.export.history.database import Result
    from trnfleet.services.history.write import HistoryProgress
    from trnfleet.services.session import BrokerSession

NODES = ("chip", "instance", "ultraserver", "cluster", "job")

_folder = click.argument("folder", type=FileName(), metavar="FOLDER")
_memory = setting(
    "--memory", type=Size(2**26), default="1GiB", help="Most memory that DuckDB uses."
)
_threads = setting(
    "--threads", type=click.IntRange(1, 256), default=2, help="Most threads that DuckDB uses."
)


@click.group("history")
def command() -> None:
    """Keep, query and compact months of a fleet as Parquet files.

    Needs DuckDB: pip install duckdb.

    FOLDER stores chips and paid time by the minute; UltraServers, jobs and fleets by ten minutes;
    events and alerts. You can read it with any tool for Parquet.
    """


@command.command("write")
@_folder
@broker_options(required=False)
@click.option(
    "--from",
    "files",
    type=FileName(),
    multiple=True,
    metavar="FILE",
    help="Write the history of a recording instead; repeat it for its parts.",
)
@setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="Name of the fleet, if there are several.",
)
@setting(
    "--cell",
    type=FleetName(),
    default="main",
    help=("Name of the cell. Each cell has one writer at a time, and its own chips."),
)
@setting(
    "--writer",
    type=FleetName(),
    help="Name of this writer in its rows; by default the machine's name.",
)
@setting("--duration", type=Duration(), help="Stop after this time; by default at ctrl+c.")
@site_options
@rules_option
@log_options
def write(
    folder: str,
    session: BrokerSession | None,
    files: tuple[str, ...],
    name: str | None,
    cell: str,
    writer: str | None,
    duration: float | None,
    site: Site,
    rules: tuple[str, ...],
) -> None:
    """Write the history of a fleet into FOLDER, from a broker until ctrl+c, or from recordings.

    Files are complete, and each minute is written once: minutes that FOLDER has are skipped. A minute with interruptions has
    fewer covered seconds. If the disk is full, minutes wait in memory for the next try.

    \b
    Examples:
      trnfleet history write /var/lib/trnfleet/history --broker mqtt://127.0.0.1:1883
      trnfleet history write history --from night-0001.mcap --from night-0002.mcap
    """
    if bool(session) == bool(files):
        raise click.UsageError("either --broker or --from")
    if files and duration:
        raise click.UsageError("--duration goes with --broker")
    from trnfleet.services.files.rules import load_rules
    from trnfleet.services.history.write import HistoryRequest, write_from_broker, writer_name

    request = HistoryRequest(
        Path(folder), cell, writer or writer_name(), load_rules(rules), duration, site
    )
    reporter = Reporter(folder)
    if session is not None:
        total = asyncio.run(write_from_broker(session, name, request, reporter))
    else:
        total = _write_recording(files, name, request, reporter)
    report(f"wrote {_summary(total)}")


def _write_recording(
    files: tuple[str, ...], name: str | None, request: Any, reporter: Reporter
) -> HistoryProgress:
    from trnfleet.cli.files import open_recording
    from trnfleet.clock import SystemClock
    from trnfleet.services.files.recordings import fleet_of
    from trnfleet.services.history.write import write_from_recording

    with open_recording(files, name=name) as recording:
        return write_from_recording(
            recording,
            fleet_of(recording, name, files[0]),
            request,
            reporter,
            clock=SystemClock(),
            from_ns=recording.start_ns,
            to_ns=recording.end_ns,
        )


@command.command("query")
@_folder
@click.argument("sql", required=False)
@click.option("--figure", metavar="NAME", help="Query this figure without SQL, such as power_w.")
@click.option(
    "--at",
    metavar="ADDRESS",
    default="",
    help="With --figure: only this node and the nodes below it.",
)
@click.option(
    "--name",
    "fleet",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="With --figure: only this fleet.",
)
@click.option("--cell", type=FleetName(), help="With --figure: only this cell.")
@click.option(
    "--from",
    "begin",
    type=Instant(),
    help="With --figure: start at this time, such as 2026-01-31T14:00:00Z.",
)
@click.option("--to", "end", type=Instant(), help="With --figure: end before this time.")
@click.option(
    "--every",
    type=Duration(least_s=60),
    default="10m",
    show_default=True,
    help="With --figure: length of a step.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="With --figure: only the N nodes with the highest values.",
)
@click.option(
    "--of",
    "kind",
    type=click.Choice(NODES),
    default="chip",
    show_default=True,
    help="With --top: kind of node.",
)
@_memory
@_threads
@setting("--time-limit", type=Duration(), default="5m", help="Stop a query after this time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, an object for each row.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@log_options
def query(
    folder: str,
    sql: str | None,
    figure: str | None,
    at: str,
    fleet: str | None,
    cell: str | None,
    begin: datetime | None,
    end: datetime | None,
    every: float,
    top: int | None,
    kind: str,
    memory: int,
    threads: int,
    time_limit: float,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Query FOLDER with SQL, or a figure without it. Times are UTC.

    Views: chips (by the minute), ultraservers, jobs and fleets (by ten minutes), job_minutes, paid_time, events and alerts.
    DESCRIBE chips lists columns. Unknown values are NULL. Queries only read, and only below FOLDER.

    \b
    Examples:
      trnfleet history query history "SELECT time, power_w / 1000 AS kw FROM fleets ORDER BY time"
      trnfleet history query history --figure power_w --at uc1/us-0001 --every 1h
      trnfleet history query history --figure temperature_c_max --top 10 --from 2026-01-31T00:00:00Z --json
    """
    if bool(sql) == bool(figure):
        raise click.UsageError("either SQL or --figure")
    if as_json and as_csv:
        raise click.UsageError("either --json or --csv")
    from trnfleet.clock import datetime_ns
    from trnfleet.export.history.query import HistoryFigure, open_history

    with open_history(Path(folder), memory_bytes=memory, threads=threads) as history:
        if figure:
            result = history.figure(
                HistoryFigure(
                    figure,
                    round(every),
                    at,
                    fleet or "",
                    cell or "",
                    None if begin is None else datetime_ns(begin) // 1_000,
                    None if end is None else datetime_ns(end) // 1_000,
                    top,
                    kind,
                ),
                limit_s=time_limit,
            )
        else:
            result = history.query(sql or "", limit_s=time_limit)
        report_left_out(history.left_out)
        for doubled in history.doubled():
            report(f"{folder}: {doubled}")
    with exit_on_broken_pipe():
        _print(result, as_json=as_json, as_csv=as_csv)
    if result.is_cut:
        raise ConfigError(
            f"{folder}: only the first {len(result.rows):,} rows: add a LIMIT, or aggregate"
        )


@command.command("compact")
@_folder
@setting("--keep", type=Duration(least_s=DAY_S), help="Delete days older than this, such as 90d.")
@_memory
@_threads
@log_options
def compact(folder: str, keep: float | None, memory: int, threads: int) -> None:
    """Merge the files of each day into one, sorted by address and time, and add missing ten minutes.

    You can run it beside a writer and readers, such as from cron every hour or day. If it is killed, the old or the new files remain.

    \b
    Example:
      trnfleet history compact /var/lib/trnfleet/history --keep 90d
    """
    import os
    import socket

    from trnfleet.clock import SystemClock
    from trnfleet.export.history.compact import compact as compact_folder
    from trnfleet.export.history.files import day_of, require_folder

    require_folder(Path(folder))
    done = compact_folder(
        Path(folder),
        today=day_of(SystemClock().wall_ns() // 60_000_000_000),
        holder=f"{socket.gethostname()}, process {os.getpid()}",
        keep_days=None if keep is None else int(keep // DAY_S),
        memory_bytes=memory,
        threads=threads,
        report=lambda line: report(plain(line, 300)),
    )
    report_left_out(done.left_out)
    days = f"; {done.days_deleted:,} old days deleted" if keep is not None else ""
    report(
        f"{done.files_before:,} files of {size_text(done.bytes_before)} are {done.files_after:,} of"
        f" {size_text(done.bytes_after)}{days}"
    )


class Reporter:
    """Progress on stderr: one changing line on a terminal, a line every 10 s elsewhere."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._is_terminal = stderr_is_terminal()
        self._last_s = -math.inf

    def began(self, fleet: str) -> None:
        """Report the fleet and the folder."""
        report(f"writing the history of {plain(fleet)} into {plain(self._folder)}")

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Report the totals."""
        if elapsed_s - self._last_s < (0.5 if self._is_terminal else PROGRESS_EVERY_S):
            return
        self._last_s = elapsed_s
        (report_progress if self._is_terminal else report)(_summary(progress))

    def failed(self, problem: str) -> None:
        """Report why a write waits, or its success."""
        report(
            f"{plain(problem, 300)}; minutes wait and are tried again"
            if problem
            else "written again"
        )


def _summary(total: HistoryProgress) -> str:
    parts = [
        (
            f"{total.minutes:,} minutes, {total.chips:,} rows of chips, {total.files:,} files,"
            f" {size_text(total.file_bytes)}"
        ),
        f"lost {total.lost:,}",
    ]
    if total.backlog:
        parts.append(f"{total.backlog:,} messages of outages came late")
    if total.backlog_unused:
        parts.append(f"{total.backlog_unused:,} such messages not used")
    if total.backlog_repeated:
        parts.append(f"{total.backlog_repeated:,} such messages came twice")
    if total.late:
        parts.append(f"left out {total.late:,} samples of minutes that are there already")
    if total.waiting:
        parts.append(f"{total.waiting:,} minutes wait for the disk")
    if total.unwritten:
        parts.append(f"{total.unwritten:,} minutes not written")
    return ", ".join(parts)


def _print(result: Result, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        rows = [dict(zip(result.names, map(_json_value, row), strict=True)) for row in result.rows]
        print_json(rows)
        return
    if as_csv:
        output = csv.writer(sys.stdout, lineterminator="\n")
        output.writerow(map(_csv_cell, result.names))
        output.writerows([_csv_cell(value) for value in row] for row in result.rows)
        return
    table = [result.names, *([_text(value) for value in row] for row in result.rows)]
    click.echo("\n".join(table_lines(table)))


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="auto") + "Z"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)


def _csv_cell(value: Any) -> Any:
    """Return a value safe for terminals and spreadsheets."""
    if isinstance(value, (bool, int, float)):
        return value
    shown = plain(_text(value), 10_000)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown
