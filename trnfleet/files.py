"""Private files, and temporary folders that a killed process does not leave for long.

The owner of a temporary folder has a lock on a file in it. The lock ends with the process, however
it ends. The next process making a folder of the same kind deletes folders with a free lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = stat.S_IRUSR | stat.S_IWUSR
"""Mode of files made from a fleet's data. A stricter umask removes more."""
LOCK_NAME = ".lock"

_LOCK_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def open_private(path: str, flags: int) -> int:
    """Return a file descriptor, as an `opener` for `open`.

    A new file is readable by its owner only.
    """
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE)


def sync_folder(folder: Path) -> None:
    """Write a folder's names to the disk.

    Raises:
        OSError: the disk failed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Return a folder of our own, deleted at the end.

    Folders left by killed processes under its prefix are deleted first.

    Raises:
        OSError: it cannot be made.
    """
    delete_left_folders(prefix)
    folder, lock = _locked_folder(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def delete_left_folders(prefix: str) -> int:
    """Delete the temporary folders of dead processes of this user; return how many.

    A folder without a lock file, or of another user, is left alone.
    """
    deleted = 0
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                deleted += _delete_left(folder)
    return deleted


def _locked_folder(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        path = folder / LOCK_NAME
        lock = os.open(path, _LOCK_FLAGS | os.O_CREAT, PRIVATE)
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Without the lock it looked orphaned, and may have been deleted.
            if path.exists():
                return folder, lock
        os.close(lock)


def _delete_left(folder: Path) -> bool:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    lock = os.open(folder / LOCK_NAME, _LOCK_FLAGS)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
    return True
