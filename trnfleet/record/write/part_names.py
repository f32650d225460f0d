"""Names of the files of a recording."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def part_namer(path: Path, *, splits: bool) -> Callable[[int], Path]:
    """Return a function from a part's number, from 1 on, to its file.

    A recording never split is `path` itself.

    Raises:
        ConfigError: parts of an earlier recording exist under names this one would reach.
    """
    if not splits:
        return lambda _number: path
    stem, suffix = glob.escape(path.stem), glob.escape(path.suffix)
    for former in sorted(path.parent.glob(f"{stem}-[0-9][0-9][0-9][0-9]*{suffix}")):
        if former.name[len(path.stem) + 1 : len(former.name) - len(path.suffix)].isdecimal():
            raise ConfigError(f"{former}: exists already; name another file")
    return lambda number: path.with_name(f"{path.stem}-{number:04d}{path.suffix}")
