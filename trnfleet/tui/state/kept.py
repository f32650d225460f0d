"""Power caps, columns and the last view, kept by fleet between runs in files of the user's own."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from trnfleet import folders
from trnfleet.errors import ConfigError
from trnfleet.files import open_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")


def kept_file(name: str) -> Path:
    """Return a file in the folder of state.

    Raises:
        ConfigError: neither the folder of state nor a temporary one can be written to.
    """
    return folders.state_folder().path / name


class _KeptByFleet(Generic[T]):
    """Something by fleet. Without a file it lasts until the app ends."""

    def __init__(self) -> None:
        self.problem = ""
        """Why that of former runs is not known."""
        self._file: Path | None = None
        self._kept: dict[str, T] = {}

    def open(self, file: Path, *, may_save: bool) -> None:
        """Read what former runs kept. An invalid file stays as it is."""
        self._file = file if may_save else None
        try:
            self._kept = self._read(file)
        except ConfigError as error:
            self.problem = str(error)

    def _keep(self, change: Callable[[dict[str, T]], object]) -> str:
        """Change what is kept, and return for how long that holds.

        Other apps may have written the file meanwhile.
        """
        change(self._kept)
        file = self._file
        if file is None:
            return "until the app ends"
        try:
            by_fleet = self._read(file)
            change(by_fleet)
            partial = file.with_suffix(".partial")
            with open(partial, "w", encoding="utf-8", opener=open_private) as written:
                json.dump(by_fleet, written, indent=1)
            partial.replace(file)
        except ConfigError as error:
            return f"until the app ends: {error}"
        except OSError as error:
            return f"until the app ends: {file}: {error.strerror or error}"
        self._kept = by_fleet
        return f"kept in {file}"

    def _read(self, file: Path) -> dict[str, T]:
        """Return what a file has; nothing if there is no file.

        Raises:
            ConfigError: it cannot be read, or is invalid.
        """
        try:
            by_fleet = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror or error}") from error
        except ValueError as error:
            raise ConfigError(f"{file}: {error}; correct or delete it") from error
        for fleet, value in by_fleet.items() if isinstance(by_fleet, dict) else [("", None)]:
            if problem := self._problem_of(value):
                raise ConfigError(f"{file}: {fleet}: {problem}")
        return by_fleet  # type: ignore[no-any-return]  # the loop has looked at all of it

    @abstractmethod
    def _problem_of(self, value: object) -> str:
        """Return what is wrong with a fleet's value; empty for nothing."""


class KeptCaps(_KeptByFleet[dict[str, float]]):
    """Watts by fleet and place."""

    def caps_of(self, fleet: str) -> Mapping[str, float]:
        """Return the caps of a fleet by place."""
        return self._kept.get(fleet, {})

    def put(self, fleet: str, place: str, watts: float | None) -> str:
        """Keep a cap, or remove it, and return for how long that holds."""

        def change(caps: dict[str, dict[str, float]]) -> None:
            caps.setdefault(fleet, {}).pop(place, None)
            if watts is not None:
                caps[fleet][place] = watts

        return self._keep(change)

    def _problem_of(self, value: object) -> str:
        if not isinstance(value, dict):
            return 'not watts by place, {"FLEET": {"PLACE": 12000}}'
        for place, watts in value.items():
            if type(watts) not in {int, float} or not 0 < watts < math.inf:
                return f"{place}: {watts!r} is not a number above 0"
        return ""


class KeptColumns(_KeptByFleet[dict[str, bool]]):
    """Whether a column of Hierarchy is shown, by fleet and the column's key."""

    def columns_of(self, fleet: str) -> Mapping[str, bool]:
        """Return the choice for a fleet; columns without one follow the width."""
        return self._kept.get(fleet, {})

    def put(self, fleet: str, choice: Mapping[str, bool]) -> str:
        """Add to the choice, or remove it if `choice` is empty; return for how long that holds."""

        def change(by_fleet: dict[str, dict[str, bool]]) -> None:
            by_fleet[fleet] = {**by_fleet.get(fleet, {}), **choice} if choice else {}

        return self._keep(change)

    def _problem_of(self, value: object) -> str:
        is_choice = isinstance(value, dict) and all(type(shown) is bool for shown in value.values())
        return "" if is_choice else 'not a choice of columns, {"FLEET": {"power_w": false}}'


class KeptViews(_KeptByFleet[str]):
    """The title of the last view by fleet."""

    def view_of(self, fleet: str) -> str:
        """Return a fleet's last view; empty if unknown."""
        return self._kept.get(fleet, "")

    def put(self, views: Mapping[str, str]) -> str:
        """Keep the views of fleets, and return for how long that holds."""
        return self._keep(lambda by_fleet: by_fleet.update(views))

    def _problem_of(self, value: object) -> str:
        return "" if isinstance(value, str) else 'not a view, {"FLEET": "Topology"}'
