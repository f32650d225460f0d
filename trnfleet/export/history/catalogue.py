"""Catalogue of a folder: its files that count, those that were left out with the reason, and the views over them."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.export.history.database import HistoryError, quoted
from trnfleet.export.history.files import SEVERAL, list_files, partitions, why_torn
from trnfleet.export.history.tables import CHIPS, SCHEMA, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.export.history.database import Database
    from trnfleet.export.history.files import HistoryFile, Partition
    from trnfleet.export.history.tables import Table

SCHEMA_KEY = "trnfleet_schema"
REPLACES_KEY = "trnfleet_replaces"
_PATH_COLUMNS = "fleet, cell"
_READ = "hive_partitioning = true, hive_types = {'fleet': VARCHAR, 'day': DATE, 'cell': VARCHAR}, union_by_name = true"


class LeftOut(NamedTuple):
    """A file that does not count."""

    path: Path
    why: str


class Catalogue(NamedTuple):
    """The files of a folder at a moment."""

    files: tuple[HistoryFile, ...]
    left_out: tuple[LeftOut, ...]
    """Torn and foreign files."""
    replaced: tuple[HistoryFile, ...]
    """Files for which another one stands, and that are there still."""

    def of(self, table: Table, partition: Partition | None = None) -> list[HistoryFile]:
        """Return the files of a table, of one partition or of all."""
        return [
            each
            for each in self.files
            if each.table == table.name and partition in {None, each.partition}
        ]


def read_catalogue(
    database: Database,
    folder: Path,
    found: Iterable[Partition] | None = None,
    bad: Iterable[LeftOut] = (),
) -> Catalogue:
    """Return the files of a folder.

    Args:
        database: Reads their metadata.
        folder: The folder.
        found: The partitions to look at; all by default.
        bad: Files that are known to be damaged.

    Raises:
        ConfigError: it cannot be read.
        HistoryError: a file is gone since it was listed.
    """
    files: list[HistoryFile] = []
    left_out = list(bad)
    known_bad = {each.path for each in left_out}
    for partition in partitions(folder) if found is None else found:
        named, foreign = list_files(folder, partition)
        left_out.extend(LeftOut(path, "no file of history") for path in foreign)
        for file in named:
            if file.path in known_bad:
                continue
            try:
                why = why_torn(file.path)
            except FileNotFoundError:
                raise _gone(file.path) from None
            if why:
                left_out.append(LeftOut(file.path, why))
            else:
                files.append(file)
    sound: list[HistoryFile] = []
    replaced: set[Path] = set()
    metadata = _metadata(database, files)
    for file in files:
        pairs = metadata.get(file.path.name + "\0" + str(file.path.parent))
        why = _why_foreign(pairs)
        if why:
            left_out.append(LeftOut(file.path, why))
            continue
        sound.append(file)
        if pairs and file.is_merged:
            replaced.update(
                file.path.parent / name for name in json.loads(pairs.get(REPLACES_KEY, "[]"))
            )
    return Catalogue(
        tuple(each for each in sound if each.path not in replaced),
        tuple(left_out),
        tuple(each for each in sound if each.path in replaced),
    )


def leave_out_unnamed(database: Database, files: Iterable[HistoryFile], bad: list[LeftOut]) -> bool:
    """Read files whole, add the damaged ones to `bad`, and return whether there are any: DuckDB does not name each that it fails at."""
    found = []
    for file in files:
        try:
            database.run(
                f"SELECT bit_xor(hash(rows)) FROM read_parquet({_list([file.path])}) AS rows"
            )
        except HistoryError as error:
            if not error.is_gone:
                found.append(LeftOut(file.path, f"damaged: {error}"))
    bad += found
    return bool(found)


def leave_out(error: HistoryError, folder: Path, bad: list[LeftOut]) -> bool:
    """Add the damaged file that an error names to `bad`; return whether it names one that was not known to be.

    Args:
        error: What a statement has failed with.
        folder: The folder of history.
        bad: Files that are known to be damaged.
    """
    path = Path(error.file)
    known = {each.path.absolute() for each in bad}
    if not error.file or path in known or not path.is_relative_to(folder.absolute()):
        return False
    bad.append(LeftOut(folder / path.relative_to(folder.absolute()), f"damaged: {error}"))
    return True


def _gone(path: Path) -> HistoryError:
    """Return the error for a file that another one has replaced meanwhile: all must be listed again, or rows would lack."""
    return HistoryError(f"{path}: is not there any more", is_gone=True)


def _metadata(database: Database, files: Sequence[HistoryFile]) -> dict[str, dict[str, str]]:
    """Return the metadata of files by name and folder; of one that cannot be read there is none.

    Raises:
        HistoryError: a file is gone.
    """
    made: dict[str, dict[str, str]] = {}
    try:
        rows = _read_metadata(database, [each.path for each in files])
    except HistoryError:
        # One of them is damaged: which, shows one by one.
        rows = []
        for each in files:
            try:
                rows.extend(_read_metadata(database, [each.path]))
            except HistoryError as error:
                if error.is_gone:
                    raise _gone(each.path) from None
    by_path = {str(each.path.absolute()): each for each in files}
    for name, key, value in rows:
        file = by_path.get(name)
        if file is not None:
            made.setdefault(file.path.name + "\0" + str(file.path.parent), {})[key.decode()] = (
                value.decode("utf-8", "replace")
            )
    return made


def _read_metadata(database: Database, paths: Sequence[Path]) -> list[tuple[str, bytes, bytes]]:
    if not paths:
        return []
    return database.run(
        f"SELECT file_name, key, value FROM parquet_kv_metadata({_list(paths)})"
    ).rows


def _why_foreign(pairs: dict[str, str] | None) -> str:
    version = (pairs or {}).get(SCHEMA_KEY, "")
    if not version.isdecimal():
        return "no file of history, or damaged"
    if int(version) > SCHEMA:
        return f"schema version {version}, and this trnfleet knows up to {SCHEMA}"
    return ""


def _list(paths: Iterable[Path]) -> str:
    return "[" + ", ".join(quoted(str(each.absolute())) for each in paths) + "]"


def rows_sql(database: Database, table: Table, files: Sequence[HistoryFile]) -> str:
    """Return the SQL of a table's rows with its own columns, `fleet`, `cell` and `address`, each row once.

    Where a cell has several writers of a day, what they have of the same time and address counts once: that which covers most.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    address = f", {table.address} AS address" if table.address else ""
    if not files:
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in table.columns)
        return f"SELECT *{address} FROM (SELECT {empty}, ''::VARCHAR AS fleet, ''::VARCHAR AS cell) WHERE false"
    single: list[Path] = []
    several: list[Path] = []
    for _, group in groupby(
        sorted(files, key=lambda each: each.partition), key=lambda each: each.partition
    ):
        of_one = list(group)
        writers = {each.writer for each in of_one}
        is_single = (
            table is CHIPS and len(writers) == 1 and (SEVERAL not in writers or len(of_one) == 1)
        )
        (single if is_single else several).extend(each.path for each in of_one)
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
        once = (
            f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {table.best}) = 1"
            if has_repeats
            else ""
        )
        parts.append(f"SELECT {columns}, {_PATH_COLUMNS}{address} FROM {source}{once}")
    return " UNION ALL ".join(f"({each})" for each in parts)


def make_views(database: Database, catalogue: Catalogue) -> None:
    """Make a view of each table.

    Raises:
        HistoryError: a file is damaged, or gone.
    """
    for table in TABLES.values():
        database.run(
            f"CREATE OR REPLACE VIEW {table.name} AS {rows_sql(database, table, catalogue.of(table))}"
        )
