"""The files of a snapshot, in a folder of the user's own.

They are written whole, under free names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trnfleet import folders
from trnfleet.files import open_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "snapshots"
"""Below the folder of state."""


def snapshot_folder() -> Path:
    """Return the folder of snapshots; make it if missing.

    Raises:
        ConfigError: neither the folder of state nor a temporary one can be written to.
        OSError: it cannot be made there.
    """
    folder = folders.state_folder().path / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_snapshot(folder: Path, name: str, texts: Mapping[str, str]) -> Path:
    """Write texts under a name and their endings, and return the first file.

    Args:
        folder: The folder.
        name: Base name of the files. Unsuitable characters are replaced, and a number makes it
            free.
        texts: Texts by ending, such as `.svg`.

    Raises:
        OSError: a file cannot be written; none of them is left then.
    """
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-") or "snapshot"
    shown = stem
    number = 1
    while True:
        made: list[Path] = []
        try:
            for ending, text in texts.items():
                path = folder / f"{shown}{ending}"
                with open(path, "x", encoding="utf-8", newline="", opener=open_private) as file:
                    made.append(path)
                    file.write(text)
        except OSError as error:
            # Not what another snapshot of the same moment has made.
            for path in made:
                path.unlink(missing_ok=True)
            if not isinstance(error, FileExistsError):
                raise
            number += 1
            shown = f"{stem}-{number}"
        else:
            return made[0]
