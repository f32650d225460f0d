"""Ten minutes of UltraServers, jobs and the fleet, made from the files' minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.export.history.catalogue import rows_sql
from trnfleet.export.history.database import quoted
from trnfleet.export.history.files import SEVERAL, Mark, file_name
from trnfleet.export.history.parquet import write_file
from trnfleet.export.history.tables import (
    CHIPS,
    FLEETS,
    JOB_MINUTES,
    JOBS,
    ROLLED_UP,
    WINDOW_MINUTES,
    job_figures_sql,
    per_minute_sql,
    rolled_up_sql,
)

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from trnfleet.export.history.catalogue import Catalogue
    from trnfleet.export.history.database import Database
    from trnfleet.export.history.files import Partition

_US = 60_000_000
_BUCKET = f"time_bucket(INTERVAL {WINDOW_MINUTES} MINUTE, time)"


def window_of(minute: int) -> int:
    """Return the first minute of a minute's window."""
    return minute - minute % WINDOW_MINUTES


def incomplete_windows(database: Database, catalogue: Catalogue, partition: Partition) -> set[int]:
    """Return the windows with more minutes than their rows of ten minutes were made from.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    chips = catalogue.of(CHIPS, partition)
    if not chips:
        return set()
    rolled = rows_sql(database, FLEETS, catalogue.of(FLEETS, partition))
    result = database.run(
        f"SELECT epoch_us(time) // {_US} FROM (SELECT {_BUCKET} AS time, count(DISTINCT minute) AS"
        f" minutes FROM (SELECT time, time AS minute FROM ({rows_sql(database, CHIPS, chips)}))"
        f" GROUP BY 1) AS have LEFT JOIN (SELECT time, minutes AS made_of FROM ({rolled})) AS made"
        " USING (time) WHERE minutes > coalesce(made_of, 0)"
    )
    return {row[0] for row in result.rows}


def roll_up(
    database: Database,
    folder: Path,
    partition: Partition,
    catalogue: Catalogue,
    windows: Collection[int],
    writer: str = "",
) -> int:
    """Write the rows of ten minutes of a partition's windows; return the number of files.

    Args:
        database: Makes them.
        folder: The folder of history.
        partition: The partition.
        catalogue: Its files.
        windows: First minutes of the windows.
        writer: The writer's name; by default that of the minutes.

    Raises:
        TrnfleetError: a file is damaged, gone, or cannot be written.
    """
    chips = catalogue.of(CHIPS, partition)
    if not windows or not chips:
        return 0
    if not writer:
        writers = {file.writer for file in chips}
        writer = writers.pop() if len(writers) == 1 else SEVERAL
    first = min(windows)
    last = max(windows) + WINDOW_MINUTES - 1
    times = ", ".join(f"make_timestamp({window * _US})" for window in sorted(windows))
    # The bounds leave out row groups; the windows themselves may have gaps between them.
    within = (
        f"time BETWEEN make_timestamp({first * _US}) AND make_timestamp({last * _US}) AND {_BUCKET}"
        f" IN ({times})"
    )
    files = [file for file in chips if file.first <= last and file.last >= first]
    rows = f"SELECT * FROM ({rows_sql(database, CHIPS, files)}) WHERE {within}"
    job_files = [
        file
        for file in catalogue.of(JOB_MINUTES, partition)
        if file.first <= last and file.last >= first
    ]
    job_rows = f"SELECT * FROM ({rows_sql(database, JOB_MINUTES, job_files)}) WHERE {within}"
    database.run(f"CREATE OR REPLACE TEMP TABLE minutes_of_window AS {per_minute_sql(rows)}")
    try:
        count = database.run("SELECT count(*) FROM minutes_of_window").rows[0][0]
        if not count:
            return 0
        for table in ROLLED_UP:
            rolled = rolled_up_sql(table, "minutes_of_window")
            if table is JOBS:
                rolled = (
                    f"SELECT * FROM ({rolled}) LEFT JOIN ({job_figures_sql(job_rows)}) USING (time,"
                    " job)"
                )
            columns = ", ".join(
                f"{quoted(writer) if name == 'writer' else name}::{kind} AS {name}"
                for name, kind in table.columns
            )
            write_file(
                database,
                folder,
                partition,
                file_name(table.name, first, last, writer, Mark.MADE),
                f"SELECT {columns} FROM ({rolled}) ORDER BY ALL",
            )
    finally:
        database.run("DROP TABLE IF EXISTS minutes_of_window")
    return len(ROLLED_UP)
