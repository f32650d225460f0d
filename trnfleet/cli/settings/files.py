"""Reading of settings files, and the check of all that stands in one."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.settings.keys import (
    COMMON,
    PROFILE,
    check_table,
    check_tables,
    leaves,
    options_of,
    refuse_several,
)
from trnfleet.cli.settings.places import Place, places_to_read
from trnfleet.config import load_toml
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import click


class SettingsFile(NamedTuple):
    """A settings file that has been read."""

    place: Place
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return str(self.place.file)

    @property
    def profiles(self) -> Mapping[str, Mapping[str, Any]]:
        """The profiles by name."""
        found: Mapping[str, Mapping[str, Any]] = self.data.get(PROFILE, {})
        return found

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table; an empty one where there is none."""
        found: Mapping[str, Any] = self.data.get(name, {})
        return found


def read_files(config: str | None) -> list[SettingsFile]:
    """Return the settings files, the stronger one first; their tables are known ones, their keys not checked yet.

    Args:
        config: Value of --config.

    Raises:
        ConfigError: one cannot be read or is invalid; the message names it.
    """
    return [read_file(place) for place in places_to_read(config)]


def read_file(place: Place) -> SettingsFile:
    """Return the settings file at a place.

    Raises:
        ConfigError: it cannot be read or is invalid; the message names it.
    """
    if place.kind != "given":
        _refuse_everybodys(place.file)
    data = load_toml(place.file)
    check_tables(data, str(place.file))
    return SettingsFile(place, data)


def check_file(path: Path, data: Mapping[str, Any]) -> None:
    """Check everything in a settings file.

    Raises:
        ConfigError: it is invalid; the message names table, key, value and what would be right.
    """
    name = str(path)
    check_tables(data, name)
    known: dict[str, click.Parameter] = {}
    for command in COMMANDS:
        for each in leaves(command):
            # Of the forms of an option the one that may be repeated takes all that the others take.
            known |= {
                key: it for key, it in options_of(each).items() if it.multiple or key not in known
            }
    check_table(data.get(COMMON, {}), COMMON, known, name, "a command")
    for profile, table in data.get(PROFILE, {}).items():
        check_table(table, f"{PROFILE}.{profile}", known, name, "a command")
    for title in (table for table in data if table in COMMANDS):
        # A command without settings has no options here, and so no key.
        for options in [options_of(each) for each in leaves(title)] or [{}]:
            check_table(data[title], title, options, name, title)
            refuse_several(data[title], options, name, title)


def _refuse_everybodys(file: Path) -> None:
    """Refuse a file that is read without having been asked for, and that anybody may write: it can name programs to run.

    Raises:
        ConfigError: anybody may.
    """
    try:
        is_open = file.stat().st_mode & stat.S_IWOTH
    except OSError:
        return  # reading it says why
    if is_open:
        raise ConfigError(f"{file}: anybody may write this settings file; chmod o-w it")
