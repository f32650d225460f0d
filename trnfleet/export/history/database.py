"""DuckDB for history: the only importer of it. Locked down: it reads and writes below one folder, and loads no extension."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.errors import ConfigError, TrnfleetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

MEMORY_BYTES = 2**30
THREADS = 2
ZSTD_LEVEL = 3

_GONE = ("No files found", "No such file", "Cannot open file")
_FILE = re.compile(r"""["']([^"']+\.parquet)["']""")


class HistoryError(TrnfleetError):
    """A failure of DuckDB's, in one line."""

    def __init__(
        self, message: str, *, is_gone: bool = False, is_refused: bool = False, file: str = ""
    ) -> None:
        super().__init__(message)
        self.is_refused = is_refused
        """Whether the machine refused it, as a full disk does, and not DuckDB the statement."""
        self.is_gone = is_gone
        """Whether a file was not there any more."""
        self.file = file
        """Path of the file that it names; empty for none."""


class Result(NamedTuple):
    """Rows of a query."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool
    """Whether there were more than were wanted."""


def import_duckdb() -> ModuleType:
    """Return DuckDB.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ImportError:
        raise ConfigError(
            "DuckDB is not installed: pip install duckdb, or pipx inject trnfleet duckdb"
        ) from None
    module: ModuleType = duckdb
    return module


class Database:
    """A database in memory over the files of one folder; for one thread at a time."""

    def __init__(
        self,
        folder: Path,
        *,
        memory_bytes: int = MEMORY_BYTES,
        threads: int = THREADS,
        spill: Path | None = None,
    ) -> None:
        """Open it and lock it down.

        Args:
            folder: The only folder whose files it may read and write.
            memory_bytes: Memory that it may take.
            threads: Threads that it may run.
            spill: Folder below the other one for what does not fit into memory; None for none.

        Raises:
            ConfigError: DuckDB is not installed.
        """
        self._duckdb = import_duckdb()
        self.folder = folder.absolute()
        self._connection = self._duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "memory_limit": f"{max(1, memory_bytes // 2**20)}MiB",
                "threads": threads,
            },
        )
        for statement in (
            "SET allow_community_extensions = false",
            f"SET allowed_directories = [{quoted(str(self.folder))}]",
            f"SET temp_directory = {quoted(str(spill.absolute()) if spill else '')}",
            "SET python_enable_replacements = false",
            "SET enable_progress_bar = false",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            self._connection.execute(statement)

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def interrupt(self) -> None:
        """End the statement that another thread runs at present, which fails then."""
        self._connection.interrupt()

    def kinds(self, sql: str) -> list[str]:
        """Return the kinds of the statements in a text, such as `SELECT` or `COPY`.

        Raises:
            HistoryError: it cannot be parsed.
        """
        try:
            return [each.type.name for each in self._connection.extract_statements(sql)]
        except self._duckdb.Error as error:
            raise self._error(error) from None

    def run(self, sql: str, parameters: Sequence[Any] = (), *, most: int | None = None) -> Result:
        """Return the rows of a statement.

        Args:
            sql: The statement.
            parameters: Values of its question marks.
            most: Rows at most; None for all.

        Raises:
            HistoryError: it fails.
        """
        try:
            cursor = self._connection.execute(sql, list(parameters))
            names = tuple(each[0] for each in cursor.description or ())
            rows = cursor.fetchall() if most is None else cursor.fetchmany(most + 1)
        except self._duckdb.Error as error:
            raise self._error(error) from None
        return Result(names, rows[:most], most is not None and len(rows) > most)

    def copy(self, sql: str, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the rows of a query as a Parquet file.

        Raises:
            HistoryError: it fails; what was written of the file is still there.
        """
        pairs = ", ".join(f"{key}: {quoted(value)}" for key, value in metadata.items())
        self.run(
            f"COPY ({sql}) TO {quoted(str(path.absolute()))} (FORMAT parquet, COMPRESSION zstd, "
            f"COMPRESSION_LEVEL {ZSTD_LEVEL}, USE_TMP_FILE false, KV_METADATA {{{pairs}}})"
        )

    def register(self, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Make a table of arrays, of which there must be as many values each."""
        self._connection.register(name, dict(columns))

    def unregister(self, name: str) -> None:
        """Forget such a table."""
        self._connection.unregister(name)

    def _error(self, error: Exception) -> HistoryError:
        text = str(error)
        # The line of the statement and the mark below it follow.
        first = text.split("\n\nLINE ", 1)[0].replace("\n", " ").strip()
        found = _FILE.search(text)
        is_gone = isinstance(error, self._duckdb.IOException) and any(
            each in text for each in _GONE
        )
        is_refused = isinstance(
            error, (self._duckdb.IOException, self._duckdb.OutOfMemoryException)
        )
        if isinstance(error, self._duckdb.OutOfMemoryException):
            first = (
                "the query needs more memory than it may take: raise --memory, or ask for less time"
            )
        return HistoryError(
            f"{self.folder}: {first}",
            is_gone=is_gone,
            is_refused=is_refused,
            file=found[1] if found else "",
        )


def quoted(text: str) -> str:
    """Return text as SQL has it."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
