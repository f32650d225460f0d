"""A Parquet file of history: there whole, under its name, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from trnfleet.errors import TrnfleetError
from trnfleet.export.history.catalogue import SCHEMA_KEY
from trnfleet.export.history.database import HistoryError
from trnfleet.export.history.files import SUFFIX, TEMPORARY, publish
from trnfleet.export.history.tables import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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
