"""Ten minutes of UltraServers, jobs and the fleet, made from the files' minutes."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from trnfleet.errors import TrnfleetError
from trnfleet.export.history.catalogue import SCHEMA_KEY, Catalogue, rows_sql
from trnfleet.export.history.database import Database, HistoryError, quoted
from trnfleet.export.history.files import (
    SEVERAL,
    SUFFIX,
    TEMPORARY,
    FileMark,
    Partition,
    file_name,
    publish,
)
from trnfleet.export.history.tables import (
    CHIPS,
    FLEETS,
    JOB_MINUTES,
    JOBS,
    MINUTE_US,
    ROLLED_UP,
    SCHEMA,
    WINDOW_MINUTES,
    job_figures_sql,
    per_minute_sql,
    rolled_up_sql,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path


def write_file(
    database: Database,
    folder: Path,
    partition: Partition,
    name: str,
    sql: str,
    metadata: Mapping[str, str] | None = None,
    check: Callable[[Path], None] | None = None,
) -> int:
    """Write a query's rows into a file of a partition, whole or not at all.

    Return its bytes.

    Args:
        database: Makes the rows.
        folder: The folder of history.
        partition: The file's partition.
        name: The file's name.
        sql: The query.
        metadata: Metadata besides the version of the schema.
        check: Reads the written file before it gets its name, and raises if it is wrong.

    Raises:
        TrnfleetError: it cannot be written, as on a full disk; the message names the file.
    """
    below = partition.below(folder)
    temporary = below / f".{name}{TEMPORARY}"
    # Without its mark, which is another one each time that the same file is tried again.
    shown = below / f"{name.partition('.')[0]}{SUFFIX}"
    try:
        below.mkdir(parents=True, exist_ok=True)
        database.copy(sql, temporary, {SCHEMA_KEY: str(SCHEMA), **(metadata or {})})
        if check is not None:
            check(temporary)
        size = temporary.stat().st_size
        publish(temporary, below / name)
    except HistoryError as error:
        if not error.disk:
            raise
        raise TrnfleetError(
            f"{shown}: cannot be written: {error.disk}{_advice(error.disk)}"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TrnfleetError(f"{shown}: cannot be written: {reason}{_advice(reason)}") from error
    finally:
        _delete(temporary)
    return size


def _advice(reason: str) -> str:
    """Return advice for a full disk: nothing is deleted automatically."""
    is_full = reason in {os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)}
    return (
        "; free space, or delete old days with `trnfleet history compact --keep`" if is_full else ""
    )


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


_BUCKET = f"time_bucket(INTERVAL {WINDOW_MINUTES} MINUTE, time)"


def window_of(minute: int) -> int:
    """Return the first minute of a minute's window."""
    return minute - minute % WINDOW_MINUTES


def incomplete_windows(database: Database, catalogue: Catalogue, partition: Partition) -> set[int]:
    """Return the windows with more minutes, or seconds, than their ten minutes were made from.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    chips = catalogue.select(CHIPS, partition)
    if not chips:
        return set()
    rolled = rows_sql(database, FLEETS, catalogue.select(FLEETS, partition))
    result = database.run(
        f"SELECT epoch_us(time) // {MINUTE_US} FROM (SELECT {_BUCKET} AS time, count(DISTINCT"
        " minute) AS minutes, sum(covered_s) AS seconds FROM (SELECT time, time AS minute,"
        f" covered_s FROM ({rows_sql(database, CHIPS, chips)})) GROUP BY 1) AS have LEFT JOIN"
        f" (SELECT time, minutes AS made_of, covered_s AS made_s FROM ({rolled})) AS made USING"
        " (time) WHERE minutes > coalesce(made_of, 0) OR seconds > made_s * 1.000001"
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
    chips = catalogue.select(CHIPS, partition)
    if not windows or not chips:
        return 0
    if not writer:
        writers = {file.writer for file in chips}
        writer = writers.pop() if len(writers) == 1 else SEVERAL
    first = min(windows)
    last = max(windows) + WINDOW_MINUTES - 1
    times = ", ".join(f"make_timestamp({window * MINUTE_US})" for window in sorted(windows))
    # The bounds leave out row groups; the windows themselves may have gaps between them.
    within = (
        f"time BETWEEN make_timestamp({first * MINUTE_US}) AND make_timestamp({last * MINUTE_US})"
        f" AND {_BUCKET} IN ({times})"
    )
    files = [file for file in chips if file.first <= last and file.last >= first]
    rows = f"SELECT * FROM ({rows_sql(database, CHIPS, files)}) WHERE {within}"
    job_files = [
        file
        for file in catalogue.select(JOB_MINUTES, partition)
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
                file_name(table.name, first, last, writer, FileMark.MADE),
                f"SELECT {columns} FROM ({rolled}) ORDER BY ALL",
            )
    finally:
        database.run("DROP TABLE IF EXISTS minutes_of_window")
    return len(ROLLED_UP)
