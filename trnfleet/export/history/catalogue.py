"""Catalogue of a folder: valid files, left-out files with the reason, and views."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trnfleet.export.history.database import Database, HistoryError, quoted
from trnfleet.export.history.files import (
    SEVERAL,
    HistoryFile,
    Partition,
    list_files,
    partitions,
    why_torn,
)
from trnfleet.export.history.tables import (
    ALERTS,
    CHIPS,
    EVENTS,
    SCHEMA,
    TABLES,
    HistoryTable,
    added_sql,
)
from trnfleet.text import plain
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


SCHEMA_KEY = "trnfleet_schema"
REPLACES_KEY = "trnfleet_replaces"
PATH_COLUMNS = ("fleet", "day", "cell")
LONGEST_VERSION = 9
"""Digits of a schema's version."""
NARROWER = {"DOUBLE": "FLOAT"}
"""Types also valid in files instead of a table's; maxima had them in older versions."""
MISDATED = "a row's time is missing or outside of the years 1970 to 2199"
TRIES = 10
"""Attempts to list the files, because a compaction may replace some meanwhile."""

_FILE = "trnfleet_file"
"""Column with a row's file."""
_READ = (
    "hive_partitioning = true, hive_types = {'fleet': VARCHAR, 'day': DATE, 'cell': VARCHAR}, "
    f"union_by_name = true, filename = '{_FILE}'"
)
_METADATA = (
    "SELECT file_name, key, value FROM parquet_kv_metadata({}) "
    f"WHERE key IN ('{SCHEMA_KEY}'::BLOB, '{REPLACES_KEY}'::BLOB)"
)
_COLUMNS = (
    "SELECT file_name, name, CASE WHEN repetition_type = 'REPEATED' THEN 'LIST' ELSE"
    " coalesce(duckdb_type, '') END FROM parquet_schema({}) WHERE column_id > 0"
)

ResultT = TypeVar("ResultT")


class LeftOutFile(NamedTuple):
    """A file that does not count."""

    path: Path
    why: str


class Catalogue(NamedTuple):
    """The files of a folder at a moment."""

    files: tuple[HistoryFile, ...]
    left_out: tuple[LeftOutFile, ...]
    """Torn and foreign files."""
    replaced: tuple[HistoryFile, ...]
    """Files replaced by another one, but still present."""

    def select(self, table: HistoryTable, partition: Partition | None = None) -> list[HistoryFile]:
        """Return the files of a table, of one partition or of all."""
        return [
            file
            for file in self.files
            if file.table == table.name and partition in {None, file.partition}
        ]


def read_catalogue(
    database: Database,
    folder: Path,
    chosen: Iterable[Partition] | None = None,
    bad: Iterable[LeftOutFile] = (),
) -> Catalogue:
    """Return the files of a folder: regular files with fitting metadata and columns.

    Args:
        database: Reads their metadata.
        folder: The folder.
        chosen: The partitions to read; all by default.
        bad: Files known to be damaged.

    Raises:
        ConfigError: it cannot be read.
        HistoryError: a file is gone since it was listed.
    """
    files: list[HistoryFile] = []
    left_out = list(bad)
    known_bad = {bad_file.path for bad_file in left_out}
    for partition in partitions(folder) if chosen is None else chosen:
        named, foreign = list_files(folder, partition)
        left_out.extend(LeftOutFile(path, "no file of history") for path in foreign)
        for file in named:
            if file.path in known_bad:
                continue
            try:
                why = why_torn(file.path)
            except FileNotFoundError:
                raise _gone(file.path) from None
            if why:
                left_out.append(LeftOutFile(file.path, why))
            else:
                files.append(file)
    sound: list[HistoryFile] = []
    replaced: set[Path] = set()
    metadata = _by_file(_METADATA, database, files)
    columns = _by_file(_COLUMNS, database, files)
    for file in files:
        names, why = _replaced_by(file, dict(metadata.get(file.path, ())))
        why = why or why_misfit(TABLES[file.table], columns.get(file.path, []))
        if why:
            left_out.append(LeftOutFile(file.path, why))
            continue
        known = TABLES[file.table].names
        sound.append(
            file._replace(has_more=any(name not in known for name, _ in columns[file.path]))
        )
        replaced.update(file.path.parent / name for name in names)
    return Catalogue(
        tuple(file for file in sound if file.path not in replaced),
        tuple(left_out),
        tuple(file for file in sound if file.path in replaced),
    )


def read_files(
    database: Database,
    folder: Path,
    bad: list[LeftOutFile],
    read: Callable[[Catalogue], ResultT],
    *,
    list_partitions: Callable[[], Iterable[Partition]] | None = None,
    is_ours: bool = True,
) -> ResultT:
    """Return the result of reading files, without damaged ones.

    They are listed again if one is gone.

    Args:
        database: Reads them.
        folder: The folder of history.
        bad: Files known to be damaged; newly found ones are added.
        read: Reads the files of a catalogue.
        list_partitions: Returns the partitions to read; all by default.
        is_ours: Whether the statements are this program's, so that only damage makes one fail.

    Raises:
        ConfigError: the folder cannot be read.
        HistoryError: DuckDB refuses a statement, or files change faster than they can be read.
    """
    changes = 0
    catalogue = None
    while True:
        former = catalogue
        catalogue = None
        try:
            catalogue = read_catalogue(
                database, folder, None if list_partitions is None else list_partitions(), bad
            )
            return read(catalogue)
        except HistoryError as error:
            changes += error.is_gone
            if changes == TRIES:
                raise HistoryError(
                    f"{folder}: its files change faster than they can be read"
                ) from None
            if error.is_gone and (catalogue is None or catalogue != former):
                continue
            if error.is_gone or not _leave_out(
                database, folder, error, catalogue, bad, is_ours=is_ours
            ):
                raise


def _leave_out(
    database: Database,
    folder: Path,
    error: HistoryError,
    catalogue: Catalogue | None,
    bad: list[LeftOutFile],
    *,
    is_ours: bool,
) -> bool:
    """Add the damaged files behind a failed statement to `bad`; return whether any exist."""
    files = () if catalogue is None else catalogue.files
    known = {bad_file.path for bad_file in bad}
    if MISDATED in str(error):
        bad += [
            LeftOutFile(path, MISDATED) for path in _misdated(database, files) if path not in known
        ]
    elif error.file:
        path = Path(error.file)
        if path.is_relative_to(folder.absolute()):
            path = folder / path.relative_to(folder.absolute())
            bad += [LeftOutFile(path, f"damaged: {error}")] if path not in known else []
    elif error.is_damage or (is_ours and not error.is_refused):
        bad += _damaged(database, files)
    return len(bad) > len(known)


def _damaged(database: Database, files: Iterable[HistoryFile]) -> list[LeftOutFile]:
    """Read files whole and return the damaged ones: DuckDB does not name each."""
    damaged = []
    for file in files:
        try:
            database.run(
                f"SELECT bit_xor(hash(rows)) FROM read_parquet({_list([file.path])}) AS rows"
            )
        except HistoryError as error:
            if not error.is_gone:
                damaged.append(LeftOutFile(file.path, f"damaged: {error}"))
    return damaged


def _misdated(database: Database, files: Iterable[HistoryFile]) -> list[Path]:
    """Return the files with a row whose time is impossible in history."""
    misdated = []
    for table in TABLES.values():
        paths = [file.path for file in files if file.table == table.name]
        if paths:
            source = f"read_parquet({_list(paths)}, filename = '{_FILE}')"
            rows = database.run(
                f"SELECT DISTINCT {_FILE} FROM {source} WHERE NOT {_dated(table)}"
            ).rows
            names = {row[0] for row in rows}
            misdated += [path for path in paths if str(path.absolute()) in names]
    return misdated


def _gone(path: Path) -> HistoryError:
    """Return the error for a file replaced by another one meanwhile.

    All files must be listed again, or rows would be missing.
    """
    return HistoryError(f"{path}: is not there any more", is_gone=True)


def _by_file(
    query: str, database: Database, files: Sequence[HistoryFile]
) -> dict[Path, list[tuple[str, str]]]:
    """Return pairs of a query over the files' footers; none for an unreadable file.

    Raises:
        HistoryError: a file is gone.
    """
    try:
        rows = _read_footers(query, database, files)
    except HistoryError:
        # One of them is damaged: which, shows one by one.
        rows = []
        for file in files:
            try:
                rows.extend(_read_footers(query, database, [file]))
            except HistoryError as error:
                if error.is_gone:
                    raise _gone(file.path) from None
    paths = {str(file.path.absolute()): file.path for file in files}
    made: dict[Path, list[tuple[str, str]]] = {}
    for name, *pair in rows:
        key, value = (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in pair
        )
        if name in paths:
            made.setdefault(paths[name], []).append((key, value))
    return made


def _read_footers(
    query: str, database: Database, files: Sequence[HistoryFile]
) -> list[tuple[str, Any, Any]]:
    return database.run(query.format(_list(file.path for file in files))).rows if files else []


def _replaced_by(file: HistoryFile, pairs: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the names of the files a file replaces, and why it is invalid.

    Empty if valid.
    """
    version = pairs.get(SCHEMA_KEY, "")
    if not (version.isascii() and version.isdecimal()):
        return [], "no file of history, or damaged"
    if len(version) > LONGEST_VERSION or int(version) > SCHEMA:
        shown = version if len(version) <= LONGEST_VERSION else f"{version[:LONGEST_VERSION]}..."
        return [], f"schema version {shown}, and this trnfleet knows up to {SCHEMA}"
    if not file.is_merged:
        return [], ""
    try:
        names = json.loads(pairs.get(REPLACES_KEY, "[]"))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(
        isinstance(name, str) and "/" not in name for name in names
    ):
        return [], f"its metadata {REPLACES_KEY} is not a list of files"
    return names, ""


def why_misfit(table: HistoryTable, columns: Sequence[tuple[str, str]]) -> str:
    """Return why a file's columns do not fit its table; empty if they do.

    A missing column, except in the key, is NULL; an unknown one is from a newer version.
    """
    known = dict(table.columns)
    kinds: dict[str, str] = {}
    for name, kind in columns:
        if name.lower() in kinds or (name not in known and name.lower() in {*known, *PATH_COLUMNS}):
            return f"column {plain(name, 64)} clashes with one of history's"
        kinds[name.lower()] = kind
        if name in known and kind not in {known[name], NARROWER.get(known[name])}:
            return f"column {name} is {plain(kind or 'nested', 64)}, not {known[name]}"
    missing = next((name for name in table.key if name not in kinds), "")
    return f"no column {missing}" if missing else ""


def _list(paths: Iterable[Path]) -> str:
    return "[" + ", ".join(quoted(str(path.absolute())) for path in paths) + "]"


def rows_sql(
    database: Database, table: HistoryTable, files: Sequence[HistoryFile], *, is_exact: bool = False
) -> str:
    """Return the SQL of a table's rows, each once.

    It has the table's own columns, `fleet`, `cell` and `address`. If a cell has several writers of
    a day, rows of the same time and address count once: the row that covers most. Backlog is added
    to the row of its time and address.

    Args:
        database: Reads the files' columns.
        table: The table.
        files: Its files.
        is_exact: Whether the same row counts each time where several cover the same.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    address = f", {table.address} AS address" if table.address else ""
    if not files:
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in table.columns)
        return (
            f"SELECT *{address} FROM (SELECT {empty}, ''::VARCHAR AS fleet, ''::VARCHAR AS cell)"
            " WHERE false"
        )
    backlog = [file._replace(is_backlog=False) for file in files if file.is_backlog]
    others = [file for file in files if not file.is_backlog]
    if backlog:
        return added_sql(
            rows_sql(database, table, others, is_exact=is_exact),
            rows_sql(database, table, backlog, is_exact=is_exact),
        )
    single: list[Path] = []
    several: list[Path] = []
    for _, group in groupby(
        sorted(files, key=lambda file: file.partition), key=lambda file: file.partition
    ):
        of_one = list(group)
        writers = {file.writer for file in of_one}
        is_single = (
            table is CHIPS and len(writers) == 1 and (SEVERAL not in writers or len(of_one) == 1)
        )
        (single if is_single else several).extend(file.path for file in of_one)
    dated = (
        f"CASE WHEN {_dated(table)} THEN true ELSE error(concat('\"', {_FILE}, '\":"
        f" {quoted(MISDATED)[1:-1]}')) END"
    )
    parts = []
    for paths, has_repeats in ((single, False), (several, True)):
        if not paths:
            continue
        source = f"read_parquet({_list(paths)}, {_READ})"
        there = {row[0] for row in database.run(f"DESCRIBE SELECT * FROM {source}").rows}
        columns = ", ".join(
            name if name in there else f"NULL::{kind} AS {name}" for name, kind in table.columns
        )
        key = ", ".join((*(("fleet", "cell") if table.is_of_cell else ("fleet",)), *table.key))
        known = ", ".join(name for name in table.names if name in there)
        best = f"{table.best}, hash({known})" if is_exact else table.best
        once = (
            f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {best}) = 1"
            if has_repeats
            else ""
        )
        parts.append(f"SELECT {columns}, fleet, cell{address} FROM {source} WHERE {dated}{once}")
    return " UNION ALL ".join(f"({part})" for part in parts)


def _dated(table: HistoryTable) -> str:
    """Return the SQL condition of a valid time; only events may lack one."""
    is_known = f"(time >= make_timestamp(0) AND time <= make_timestamp({LATEST_NS // 1_000}))"
    return f"coalesce({is_known}, {str(table in (EVENTS, ALERTS)).lower()})"


def make_views(database: Database, catalogue: Catalogue) -> None:
    """Make a view of each table.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    for table in TABLES.values():
        database.run(
            f"CREATE OR REPLACE VIEW {table.name} AS"
            f" {rows_sql(database, table, catalogue.select(table))}"
        )
