"""The demo's first run by a user, noted in the state folder.

The note is an empty file.
"""

from __future__ import annotations

import os

from trnfleet import folders
from trnfleet.errors import ConfigError
from trnfleet.files import PRIVATE

FILE = "tour-shown"


def is_first_run() -> bool:
    """Return whether the demo runs for the first time, and note it.

    Without a writable home, each run is the first.
    """
    try:
        state = folders.state_folder()
    except ConfigError:
        return True
    if state.problem:
        # A temporary folder may be gone the next time, or not.
        return True
    try:
        os.close(
            os.open(state.path / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
        )
    except FileExistsError:
        return False
    except OSError:
        return True
    return True
