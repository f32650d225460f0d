"""Files of history: `FOLDER/fleet=NAME/day=YYYY-MM-DD/cell=NAME/TABLE-FIRST-LAST-WRITER.parquet`.

A file is written under a name that nobody reads, and gets its own once all of it is on the disk. A file that stands for others names
them in its metadata: from the moment that it has its name these are not read any more, whether they are there still or not.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import re
import secrets
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import ConfigError, TrnfleetError, write_failure
from trnfleet.export.history.tables import TABLES
from trnfleet.files import PRIVATE, open_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX = ".parquet"
TEMPORARY = ".tmp"
EXPIRED = ".expired-"
"""How the name of a day begins that is being deleted."""
MAGIC = b"PAR1"
LEAST_BYTES = 12
SEVERAL = "several"
"""The writer of a file whose rows are of several."""

_NAME = re.compile(
    r"(?P<table>[a-z_]+)-(?P<first>\d{8}T\d{4}Z)-(?P<last>\d{8}T\d{4}Z)-(?P<writer>[A-Za-z0-9_-]{1,64})"
    r"(?:\.(?P<mark>[cmn])-[0-9a-f]{8})?\.parquet"
)
_STAMP = "%Y%m%dT%H%MZ"


class Mark(enum.StrEnum):
    """Why a file's name is like no other's."""

    NONE = ""
    """It is not: there is one of these minutes."""
    MERGED = "c"
    """It stands for others."""
    NEWS = "n"
    """It is one of several of a minute."""
    MADE = "m"
    """It is made of minutes, of which there may be more later."""


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
    """Whether it stands for others."""


def day_of(minute: int) -> date:
    """Return the day of a minute since 1970, UTC."""
    return datetime.fromtimestamp(minute * 60, UTC).date()


def file_name(table: str, first: int, last: int, writer: str, mark: Mark) -> str:
    """Return the name of a file of some minutes; that of one with a mark is like no other."""
    begin, end = (datetime.fromtimestamp(each * 60, UTC).strftime(_STAMP) for each in (first, last))
    return (
        f"{table}-{begin}-{end}-{writer}{f'.{mark}-{secrets.token_hex(4)}' if mark else ''}{SUFFIX}"
    )


def parse_file(path: Path, partition: Partition) -> HistoryFile | None:
    """Return a file by its name; None where it is none of history's."""
    found = _NAME.fullmatch(path.name)
    if found is None or found["table"] not in TABLES:
        return None
    try:
        first, last = (
            int(datetime.strptime(found[each], _STAMP).replace(tzinfo=UTC).timestamp()) // 60
            for each in ("first", "last")
        )
    except ValueError:
        return None
    return HistoryFile(
        path, partition, found["table"], first, last, found["writer"], found["mark"] == Mark.MERGED
    )


def partitions(folder: Path) -> list[Partition]:
    """Return the partitions of a folder, by fleet and day.

    Raises:
        ConfigError: it cannot be read.
    """
    made: list[Partition] = []
    for fleet_name, fleet_folder in _named(folder, "fleet"):
        for day_name, day_folder in _named(fleet_folder, "day"):
            try:
                day = date.fromisoformat(day_name)
            except ValueError:
                continue
            made.extend(Partition(fleet_name, day, cell) for cell, _ in _named(day_folder, "cell"))
    return sorted(made)


def _named(folder: Path, key: str) -> list[tuple[str, Path]]:
    """Return the values and the paths of the folders `KEY=VALUE` in a folder; one that goes meanwhile has none."""
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
    """Refuse a folder that is not there.

    Raises:
        ConfigError: it is none.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")


def list_files(folder: Path, partition: Partition) -> tuple[list[HistoryFile], list[Path]]:
    """Return the files of a partition in the order of their names, and what else is there with the name of a Parquet file."""
    found: list[HistoryFile] = []
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
            found.append(file)
    return found, foreign


def why_torn(path: Path) -> str:
    """Return why a file is no whole Parquet file, by its head and its foot; empty where it seems to be one.

    Raises:
        FileNotFoundError: it is gone.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < LEAST_BYTES:
                return f"torn: {size} bytes"
            file.seek(0)
            head = file.read(4)
            file.seek(size - 8)
            foot = file.read(8)
    except FileNotFoundError:
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
    """Hold a lock file, which says who has it, until the end of the process at most.

    Args:
        path: The file.
        what: What it protects, for the message.
        holder: Who this is, in one line.

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
    """Return where the database of a cell's writer puts what memory has no room for; no other cell of any fleet has the same."""
    return folder / f".spill-fleet={fleet}-cell={cell}"


def compact_lock(folder: Path) -> Path:
    """Return the lock file of compaction."""
    return folder / ".compact.lock"


def publish(temporary: Path, path: Path) -> None:
    """Give a file its name once all of it is on the disk.

    Raises:
        OSError: it cannot be.
    """
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, PRIVATE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the disk have the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete_all(paths: Iterable[Path]) -> int:
    """Delete files; return how many were there."""
    count = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count
