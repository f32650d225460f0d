"""DuckDB for history: the only importer of it.

Locked down: it reads and writes below one folder, and loads no extension.
"""

from __future__ import annotations

import errno
import json
import os
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

_GONE = ("No files found", "No such file", "Cannot open file")
_NO_TEXT = "Invalid unicode"
_NESTED = '{"exception_type"'
_MORE = re.compile(r"\n\n|\s+Candidate (?:functions|bindings):")
"""Text after the first sentence: the statement, choices, or a stack trace."""
_OF_DISK = re.compile(
    "|".join(
        re.escape(os.strerror(number))
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    )
)
_PATH = re.compile(r"""["']([^"']+)["']""")
_FILE = re.compile(r"""["']([^"']+\.parquet)["']""")


class HistoryError(TrnfleetError):
    """A failure of DuckDB's, in one line."""

    def __init__(
        self,
        message: str,
        *,
        is_gone: bool = False,
        is_refused: bool = False,
        is_damage: bool = False,
        disk: str = "",
        file: str = "",
    ) -> None:
        super().__init__(message)
        self.is_refused = is_refused
        """Whether the machine refused it, as a full disk does, and not DuckDB the statement."""
        self.is_gone = is_gone
        """Whether a file was not there any more."""
        self.is_damage = is_damage
        """Whether a file's content is why, though it may not be named."""
        self.disk = disk
        """Why a disk refuses a write; empty where it does not."""
        self.file = file
        """Path of the file in question; empty if none."""


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
    """A database in memory over one folder's files, for one thread at a time."""

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
            folder: The only folder with files to read and write.
            memory_bytes: Its memory limit.
            threads: Its thread limit.
            spill: Subfolder for data beyond the memory limit; None for none.

        Raises:
            ConfigError: DuckDB is not installed, or the folder's name is not UTF-8.
        """
        self._duckdb = import_duckdb()
        self.folder = folder.absolute()
        try:
            str(self.folder).encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{folder}: DuckDB opens folders with names in UTF-8 only") from None
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
        """Interrupt the statement of another thread; it fails."""
        self._connection.interrupt()

    def kinds(self, sql: str) -> list[str]:
        """Return the kinds of the statements in a text, such as `SELECT` or `COPY`.

        Raises:
            HistoryError: it cannot be parsed.
        """
        try:
            return [statement.type.name for statement in self._connection.extract_statements(sql)]
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
            names = tuple(column[0] for column in cursor.description or ())
            rows = cursor.fetchall() if most is None else cursor.fetchmany(most + 1)
        except self._duckdb.Error as error:
            raise self._error(error) from None
        return Result(names, rows[:most], most is not None and len(rows) > most)

    def copy(self, sql: str, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the rows of a query as a Parquet file.

        Raises:
            HistoryError: it fails; a partly written file remains.
        """
        pairs = ", ".join(f"{key}: {quoted(value)}" for key, value in metadata.items())
        self.run(
            f"COPY ({sql}) TO {quoted(str(path.absolute()))} (FORMAT parquet, COMPRESSION zstd, "
            f"USE_TMP_FILE false, KV_METADATA {{{pairs}}})"
        )

    def register(self, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Create a table from arrays of equal length."""
        self._connection.register(name, dict(columns))

    def unregister(self, name: str) -> None:
        """Forget such a table."""
        self._connection.unregister(name)

    def _error(self, error: Exception) -> HistoryError:
        """Return an error in one line: without the statement, a list of candidates, or JSON."""
        text = str(error)
        if (at := text.find(_NESTED)) >= 0:
            text = _message_of(text[at:])
        # The statement follows, which names sound files, too.
        first = _MORE.split(text, maxsplit=1)[0].replace("\n", " ").strip()
        match = _FILE.search(first)
        is_io = isinstance(error, self._duckdb.IOException)
        is_full = isinstance(error, self._duckdb.OutOfMemoryException)
        disk = _OF_DISK.search(first)
        message = f"{self.folder}: {first}"
        if disk is not None:
            path = _PATH.search(first)
            message = f"{path[1] if path else self.folder}: {disk[0]}"
        elif is_full:
            message = (
                f"{self.folder}: the query needs more memory than --memory: raise it, or ask for"
                " less time"
            )
        return HistoryError(
            message,
            is_gone=is_io and any(phrase in text for phrase in _GONE),
            is_refused=is_io or is_full,
            # What a damaged page raises has no class of its own.
            is_damage=type(error) is self._duckdb.Error or _NO_TEXT in text,
            disk=disk[0] if disk else "",
            file=match[1] if match else "",
        )


def _message_of(text: str) -> str:
    """Return the message of an error passed on by DuckDB as JSON."""
    try:
        nested, _ = json.JSONDecoder().raw_decode(text)
        return str(nested["exception_message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def quoted(text: str) -> str:
    """Return text as SQL has it."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
