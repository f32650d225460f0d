"""Files that are their owner's alone, and temporary folders that do not outlive a killed process for long.

Who has a temporary folder holds a lock on a file in it, which ends with the process, however that ends; the next one that
makes a folder of the same kind deletes those whose lock is free.
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

PRIVATE = 0o600
"""Mode of files that we make with what a fleet has sent; a stricter umask takes more away."""
LOCK_NAME = ".lock"

_LOCK_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def open_private(path: str, flags: int) -> int:
    """Return a descriptor of a file, as an `opener` for `open`: one that is made can be read by its owner alone."""
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Return a folder of our own, deleted at the end; those that killed processes left under its prefix go first.

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
            # Before it was locked it looked like one that was left behind.
            if path.exists():
                return folder, lock
        os.close(lock)


def _delete_left(folder: Path) -> bool:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    lock = os.open(folder / LOCK_NAME, _LOCK_FLAGS)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
    return True
