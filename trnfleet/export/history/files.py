"""Files of history in `FOLDER/fleet=NAME/day=YYYY-MM-DD/cell=NAME/`.

Their names are `TABLE-FIRST-LAST-WRITER.parquet`. A file is written under a temporary name that
nobody reads, and renamed when all of it is on the disk. A file that replaces others names them in
its metadata: once it has its name these are not read any more, whether they still exist or not.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
import secrets
import stat
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import is_segment
from trnfleet.errors import ConfigError, TrnfleetError, write_failure
from trnfleet.export.history.tables import TABLES
from trnfleet.files import PRIVATE, open_private, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX = ".parquet"
TEMPORARY = ".tmp"
EXPIRED = ".expired-"
"""Prefix of a day's folder during its deletion."""
MAGIC = b"PAR1"
LEAST_BYTES = 12
SEVERAL = "several"
"""Writer of a file with rows of several writers."""

_NAME = re.compile(
    r"(?P<table>[a-z_]+)-(?P<first>\d{8}T\d{4}Z)-(?P<last>\d{8}T\d{4}Z)-(?P<writer>[A-Za-z0-9_-]{1,64})"
    r"(?:\.(?P<mark>[bcmn])-[0-9a-f]{8})?\.parquet"
)
_STAMP = "%Y%m%dT%H%MZ"


class FileMark(enum.StrEnum):
    """Why a file's name is like no other's."""

    NONE = ""
    """It is not: there is one of these minutes."""
    MERGED = "c"
    """It replaces other files."""
    NEWS = "n"
    """It is one of several of a minute."""
    BACKLOG = "b"
    """Further rows of a minute, of an outage: readers add them to its others."""
    MADE = "m"
    """Made from minutes; more minutes may follow later."""


class Partition(NamedTuple):
    """A folder of files: one fleet, day and cell."""

    fleet: str
    day: date
    cell: str

    def below(self, folder: Path) -> Path:
        """Return its place below the folder of history."""
        return folder / f"fleet={self.fleet}" / f"day={self.day.isoformat()}" / f"cell={self.cell}"


class HistoryFile(NamedTuple):
    """A file by its name."""

    path: Path
    partition: Partition
    table: str
    first: int
    """First minute in it, since 1970."""
    last: int
    writer: str
    is_merged: bool
    """Whether it replaces other files."""
    is_backlog: bool
    """Whether its rows are added to others of their time and address."""
    has_more: bool = False
    """Whether it has columns unknown to this version."""


def day_of(minute: int) -> date:
    """Return the day of a minute since 1970, UTC."""
    return datetime.fromtimestamp(minute * 60, UTC).date()


def file_name(table: str, first: int, last: int, writer: str, mark: FileMark) -> str:
    """Return the name of a file of some minutes.

    A file with a mark has a unique name.
    """
    begin, end = (
        datetime.fromtimestamp(minute * 60, UTC).strftime(_STAMP) for minute in (first, last)
    )
    return (
        f"{table}-{begin}-{end}-{writer}{f'.{mark}-{secrets.token_hex(4)}' if mark else ''}{SUFFIX}"
    )


def parse_file(path: Path, partition: Partition) -> HistoryFile | None:
    """Return a file by its name; None if it does not belong to history."""
    match = _NAME.fullmatch(path.name)
    if match is None or match["table"] not in TABLES:
        return None
    try:
        first, last = (
            int(datetime.strptime(match[group], _STAMP).replace(tzinfo=UTC).timestamp()) // 60
            for group in ("first", "last")
        )
    except ValueError:
        return None
    return HistoryFile(
        path,
        partition,
        match["table"],
        first,
        last,
        match["writer"],
        match["mark"] == FileMark.MERGED,
        match["mark"] == FileMark.BACKLOG,
    )


def partitions(folder: Path) -> list[Partition]:
    """Return the partitions of a folder, by fleet and day.

    Folders with other names do not belong to history.

    Raises:
        ConfigError: it cannot be read.
    """
    made: list[Partition] = []
    for fleet_name, fleet_folder in _named(folder, "fleet"):
        if not is_segment(fleet_name):
            continue
        for day_name, day_folder in _named(fleet_folder, "day"):
            try:
                day = date.fromisoformat(day_name)
            except ValueError:
                continue
            if day_name != day.isoformat():
                continue
            cells = [cell for cell, _ in _named(day_folder, "cell") if is_segment(cell)]
            made.extend(Partition(fleet_name, day, cell) for cell in cells)
    return sorted(made)


def _named(folder: Path, key: str) -> list[tuple[str, Path]]:
    """Return the values and paths of folders `KEY=VALUE`; empty if the folder vanishes."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry.name.removeprefix(f"{key}="), Path(entry.path))
                for entry in entries
                if entry.name.startswith(f"{key}=") and entry.is_dir()
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror or error}") from error


def require_folder(folder: Path) -> None:
    """Refuse a missing folder.

    Raises:
        ConfigError: it is not a folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")


def list_files(folder: Path, partition: Partition) -> tuple[list[HistoryFile], list[Path]]:
    """Return a partition's files by name, and other files named like Parquet files."""
    files: list[HistoryFile] = []
    foreign: list[Path] = []
    try:
        with os.scandir(partition.below(folder)) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise ConfigError(
            f"{partition.below(folder)}: cannot be read: {error.strerror or error}"
        ) from error
    for name in names:
        path = partition.below(folder) / name
        file = parse_file(path, partition)
        if file is None:
            foreign.append(path)
        else:
            files.append(file)
    return files, foreign


def why_torn(path: Path) -> str:
    """Return why a file is no whole Parquet file, by its head and foot.

    Empty if it seems whole.

    Raises:
        FileNotFoundError: it is gone.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "not a regular file"
            size = status.st_size
            if size < LEAST_BYTES:
                return f"torn: {size} bytes"
            head = os.pread(descriptor, 4, 0)
            foot = os.pread(descriptor, 8, size - 8)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        if path.is_symlink():
            return "a link to a file that is missing"
        raise
    except OSError as error:
        return error.strerror or str(error)
    if head != MAGIC:
        return "no Parquet file"
    length = int.from_bytes(foot[:4], "little")
    if foot[4:] != MAGIC or not 0 < length <= size - LEAST_BYTES:
        return "torn: it has no footer"
    return ""


@contextlib.contextmanager
def locked(path: Path, what: str, holder: str) -> Iterator[None]:
    """Hold a lock file with its owner's name, until the process ends at the latest.

    Args:
        path: The file.
        what: The protected thing, for the message.
        holder: This process, in one line.

    Raises:
        ConfigError: it cannot be made.
        TrnfleetError: another process has it; the message has its line.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_private(str(path), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise write_failure(f"{path}: cannot be made", error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            other = (
                os.pread(descriptor, 300, 0).decode("utf-8", "replace").strip() or "another process"
            )
            raise TrnfleetError(f"{path}: {what} is in use by {other}") from error
        # On a full disk nobody's name is in it; it is held all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{holder}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def cell_lock(folder: Path, fleet: str, cell: str) -> Path:
    """Return the lock file of a cell's writer."""
    return folder / f"fleet={fleet}" / f".writer-{cell}.lock"


def spill_folder(folder: Path, fleet: str, cell: str) -> Path:
    """Return the folder where a cell's database spills when memory is full.

    It is unique to the cell and fleet.
    """
    return folder / f".spill-fleet={fleet}-cell={cell}"


def compact_lock(folder: Path) -> Path:
    """Return the lock file of compaction."""
    return folder / ".compact.lock"


def publish(temporary: Path, path: Path) -> None:
    """Rename a file to its final name once all of it is on the disk.

    Raises:
        OSError: it fails.
    """
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, PRIVATE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    sync_folder(path.parent)


def delete_all(paths: Iterable[Path]) -> int:
    """Delete files; return how many were there."""
    count = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count
