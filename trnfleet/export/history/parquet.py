"""A Parquet file of history: there whole, under its name, or not at all."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from trnfleet.errors import TrnfleetError
from trnfleet.export.history.catalogue import SCHEMA_KEY
from trnfleet.export.history.database import HistoryError
from trnfleet.export.history.files import TEMPORARY, publish
from trnfleet.export.history.tables import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trnfleet.export.history.database import Database
    from trnfleet.export.history.files import Partition


def write_file(
    database: Database,
    folder: Path,
    partition: Partition,
    name: str,
    sql: str,
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write the rows of a query into a file of a partition, whole or not at all, and return its bytes.

    Raises:
        TrnfleetError: it cannot be written, as on a full disk; the message names the folder.
    """
    below = partition.below(folder)
    temporary = below / f".{name}{TEMPORARY}"
    try:
        below.mkdir(parents=True, exist_ok=True)
        database.copy(sql, temporary, {SCHEMA_KEY: str(SCHEMA), **(metadata or {})})
        size = temporary.stat().st_size
        publish(temporary, below / name)
    except HistoryError as error:
        _delete(temporary)
        if error.is_gone or not error.is_refused:
            raise
        raise TrnfleetError(f"{folder}: cannot be written: {error}") from None
    except OSError as error:
        _delete(temporary)
        raise TrnfleetError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return size


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
