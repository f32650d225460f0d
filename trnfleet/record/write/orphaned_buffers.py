"""Folders of live buffers: locks on those in use, deletion after a crash.

The owner of a folder has a lock on a file in it. The lock ends with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from typing import TYPE_CHECKING

from trnfleet.domain.durations import DAY_NS

if TYPE_CHECKING:
    from pathlib import Path

LOCK_NAME = ".lock"
NAME = "live.mcap"
"""Base name of a live buffer's parts."""
PART = re.compile(r"live-\d{4,}\.mcap")


class FolderLock:
    """Lock file marking a folder as in use."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._file = -1

    def __del__(self) -> None:
        self.unlock()

    def acquire(self) -> None:
        """Lock the folder.

        Raises:
            OSError: another process holds it, or it cannot be written.
        """
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        self._file = file

    def release(self) -> None:
        """Unlock the folder and delete the file; a second call does nothing."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            self.unlock()

    def unlock(self) -> None:
        """Unlock the folder and keep the file; a second call does nothing."""
        file = self._file
        self._file = -1
        if file >= 0:
            os.close(file)


def delete_orphaned_buffers(parent: Path, now_ns: int) -> int:
    """Delete folders below `parent` left by crashed processes, and return how many.

    The newest stays for a day. Folders in use, folders not made by a live buffer and folders with
    other files are not touched.

    Args:
        parent: Where live buffers have their folders.
        now_ns: The wall clock.
    """
    left: list[tuple[int, Path]] = []
    with contextlib.suppress(OSError):
        for folder in parent.iterdir():
            changed_ns = _left_since(folder)
            if changed_ns is not None:
                left.append((changed_ns, folder))
    left.sort(reverse=True)
    if left and now_ns - left[0][0] <= DAY_NS:
        del left[0]
    deleted = 0
    for _, folder in left:
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            deleted += 1
    return deleted


def _left_since(folder: Path) -> int | None:
    """Return when a folder was last written (ns since 1970).

    None if it is in use or not a live buffer's.
    """
    if folder.is_symlink() or not folder.is_dir() or not (folder / LOCK_NAME).is_file():
        return None
    lock = FolderLock(folder)
    try:
        files = [path for path in folder.iterdir() if path.name != LOCK_NAME]
        if not all(PART.fullmatch(path.name) and path.is_file() for path in files):
            return None
        newest = max((path.stat().st_mtime_ns for path in files), default=0)
        lock.acquire()
    except OSError:
        return None
    lock.unlock()
    return newest
