"""Ten minutes of UltraServers, jobs and the fleet, made of the minutes that are in the files."""

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
    """Return the first minute of the window that a minute is in."""
    return minute - minute % WINDOW_MINUTES


def incomplete_windows(database: Database, catalogue: Catalogue, partition: Partition) -> set[int]:
    """Return the windows of a partition that have more minutes than their rows of ten minutes were made of.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    chips = catalogue.of(CHIPS, partition)
    if not chips:
        return set()
    rolled = rows_sql(database, FLEETS, catalogue.of(FLEETS, partition))
    found = database.run(
        f"SELECT epoch_us(time) // {_US} FROM "
        f"(SELECT {_BUCKET} AS time, count(DISTINCT minute) AS minutes FROM "
        f"(SELECT time, time AS minute FROM ({rows_sql(database, CHIPS, chips)})) GROUP BY 1) AS have "
        f"LEFT JOIN (SELECT time, minutes AS made_of FROM ({rolled})) AS made USING (time) "
        f"WHERE minutes > coalesce(made_of, 0)"
    )
    return {row[0] for row in found.rows}


def roll_up(
    database: Database,
    folder: Path,
    partition: Partition,
    catalogue: Catalogue,
    windows: Collection[int],
    writer: str = "",
) -> int:
    """Write the rows of ten minutes of some windows of a partition, and return how many files that were.

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
        writers = {each.writer for each in chips}
        writer = writers.pop() if len(writers) == 1 else SEVERAL
    first, last = min(windows), max(windows) + WINDOW_MINUTES - 1
    times = ", ".join(f"make_timestamp({each * _US})" for each in sorted(windows))
    # The bounds leave out row groups; the windows themselves may have gaps between them.
    within = f"time BETWEEN make_timestamp({first * _US}) AND make_timestamp({last * _US}) AND {_BUCKET} IN ({times})"
    files = [each for each in chips if each.first <= last and each.last >= first]
    rows = f"SELECT * FROM ({rows_sql(database, CHIPS, files)}) WHERE {within}"
    job_files = [
        each
        for each in catalogue.of(JOB_MINUTES, partition)
        if each.first <= last and each.last >= first
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
                rolled = f"SELECT * FROM ({rolled}) LEFT JOIN ({job_figures_sql(job_rows)}) USING (time, job)"
            columns = ", ".join(
                f"{quoted(writer)} AS writer" if name == "writer" else name for name in table.names
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
