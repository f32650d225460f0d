"""Power caps typed in the app, kept between runs in a file of the user's own."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from trnfleet import folders
from trnfleet.errors import ConfigError
from trnfleet.files import open_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def caps_file() -> Path:
    """Return the file of caps in the folder of state.

    Raises:
        ConfigError: neither the folder of state nor a temporary one can be written to.
    """
    return folders.state_folder().path / "caps.json"


class KeptCaps:
    """Watts by fleet and place. Without a file they last until the app ends."""

    def __init__(self) -> None:
        self.problem = ""
        """Why the caps of former runs are not known."""
        self._file: Path | None = None
        self._caps: dict[str, dict[str, float]] = {}

    def open(self, file: Path, *, may_save: bool) -> None:
        """Read the caps of former runs. An invalid file stays as it is."""
        self._file = file if may_save else None
        try:
            self._caps = _read(file)
        except ConfigError as error:
            self.problem = str(error)

    def caps_of(self, fleet: str) -> Mapping[str, float]:
        """Return the caps of a fleet by place."""
        return self._caps.get(fleet, {})

    def put(self, fleet: str, place: str, watts: float | None) -> str:
        """Keep a cap, or remove it, and return for how long that holds.

        Other apps may have written the file meanwhile.
        """
        file = self._file
        if file is None:
            return "until the app ends"
        try:
            caps = _read(file)
            caps.setdefault(fleet, {}).pop(place, None)
            if watts is not None:
                caps[fleet][place] = watts
            partial = file.with_suffix(".partial")
            with open(partial, "w", encoding="utf-8", opener=open_private) as written:
                json.dump(caps, written, indent=1)
            partial.replace(file)
        except ConfigError as error:
            return f"until the app ends: {error}"
        except OSError as error:
            return f"until the app ends: {file}: {error.strerror or error}"
        self._caps = caps
        return f"kept in {file}"


def _read(file: Path) -> dict[str, dict[str, float]]:
    """Return the caps in a file; none if there is no file.

    Raises:
        ConfigError: it cannot be read, or is invalid.
    """
    try:
        caps = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: {error}; correct or delete it") from error
    for fleet, places in caps.items() if isinstance(caps, dict) else [("", None)]:
        if not isinstance(places, dict):
            raise ConfigError(
                f'{file}: {fleet}: not watts by place, {{"FLEET": {{"PLACE": 12000}}}}'
            )
        for place, watts in places.items():
            if type(watts) not in {int, float} or not 0 < watts < math.inf:
                raise ConfigError(f"{file}: {fleet}: {place}: {watts!r} is not a number above 0")
    return caps  # type: ignore[no-any-return]  # the loop has looked at all of it
