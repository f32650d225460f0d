"""Places of settings files: the user's and the system's, or a given one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

NONE = "none"
"""Value of --config and --profile for none."""
SYSTEM_FILE = Path("/etc/trnfleet/trnfleet.toml")
_NAME = "trnfleet/trnfleet.toml"


class Place(NamedTuple):
    """A place for a settings file."""

    kind: str
    """user, system, or given."""
    file: Path


def user_file() -> Path | None:
    """Return the user's file, existing or not.

    None without a home.

    It is below `$XDG_CONFIG_HOME`, or `~/.config`.
    """
    given = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # The specification of this variable has relative paths ignored.
        parent = Path(given) if given.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        return None
    return parent / _NAME


def usual_places() -> list[Place]:
    """Return the places searched by default, the stronger one first."""
    user = user_file()
    return [*([Place("user", user)] if user else []), Place("system", SYSTEM_FILE)]


def places_to_read(config: str | None) -> list[Place]:
    """Return the files to read, the stronger one first.

    Args:
        config: Value of --config: a file to read instead of those in the usual places, or `NONE`.
    """
    if config == NONE:
        return []
    if config:
        return [Place("given", Path(config))]
    return [place for place in usual_places() if _exists(place.file)]


def _exists(file: Path) -> bool:
    """Return whether a file exists.

    An inaccessible one counts: reading it reports why.
    """
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
