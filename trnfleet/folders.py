"""The user's folders for logs, snapshots and caches.

A private temporary folder replaces them if the home is missing or not writable.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from trnfleet.errors import ConfigError
from trnfleet.files import open_private

_NAME = "trnfleet"


class OwnFolder(NamedTuple):
    """An existing, writable folder."""

    path: Path
    problem: str = ""
    """The reason why it is a temporary one; empty for the usual one."""


def state_folder() -> OwnFolder:
    """Return the folder for logs and snapshots.

    It is `$XDG_STATE_HOME/trnfleet`, or `~/.local/state/trnfleet`.

    Raises:
        ConfigError: neither it nor a temporary folder is writable.
    """
    return _usable("XDG_STATE_HOME", ".local/state")


def cache_folder() -> OwnFolder:
    """Return the folder for deletable files.

    It is `$XDG_CACHE_HOME/trnfleet`, or `~/.cache/trnfleet`.

    Raises:
        ConfigError: neither it nor a temporary folder is writable.
    """
    return _usable("XDG_CACHE_HOME", ".cache")


def temporary_folder() -> Path:
    """Return this user's temporary folder.

    The same at each call, unless another user has its name.

    Raises:
        ConfigError: there is no folder for temporary files.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        # The name is predictable: never write to another user's folder.
        if (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.getuid()
            and not status.st_mode & 0o077
        ):
            return folder
        return Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
    except FileExistsError:
        return Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
    except OSError as error:
        raise ConfigError(
            f"no temporary folder: {error.strerror or error}; set TMPDIR to one"
        ) from error


def named(folder: Path) -> str:
    """Return a folder in shell form, with `~` for the home if it is inside."""
    try:
        return f"~/{folder.relative_to(Path.home())}"
    except (RuntimeError, ValueError):
        return str(folder)


def why_not_writable(file: Path) -> str:
    """Return why a file cannot be appended to.

    Empty if it can. Creates a missing file.
    """
    try:
        with open(file, "ab", opener=open_private):
            pass
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _usable(variable: str, below_home: str) -> OwnFolder:
    given = os.environ.get(variable, "")
    try:
        # The specification of these variables has relative paths ignored.
        parent = Path(given) if given.startswith("/") else Path.home() / below_home
    except RuntimeError:
        return OwnFolder(temporary_folder(), "there is no home folder")
    folder = parent / _NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return OwnFolder(folder)
        problem = f"{folder}: not writable"
    except OSError as error:
        problem = f"{folder}: {error.strerror or error}"
    return OwnFolder(temporary_folder(), problem)
