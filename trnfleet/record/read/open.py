"""Checks before opening: a pipe would block, and a device has no end."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def refuse_special(path: Path) -> None:
    """Refuse anything but a file or a folder, before it is opened.

    Raises:
        ConfigError: it is a pipe, a socket or a device.
        OSError: it is not there, or cannot be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ConfigError(
            f"{path}: is a pipe or a device, not a file: write it to a file first, or let trnfleet"
            " convert read a pipe as -"
        )
