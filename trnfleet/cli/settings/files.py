"""Settings files: their places, their reading, and the check of their contents."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.settings.keys import (
    COMMON,
    KEYS,
    NONE,
    PROFILE,
    check_table,
    check_tables,
    leaves,
    options_of,
    refuse_several,
    settings_of,
)
from trnfleet.config import load_toml
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


class SettingsFile(NamedTuple):
    """A settings file after reading."""

    place: Place
    data: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return str(self.place.file)

    @property
    def profiles(self) -> Mapping[str, Mapping[str, Any]]:
        """The profiles by name."""
        profiles: Mapping[str, Mapping[str, Any]] = self.data.get(PROFILE, {})
        return profiles

    def table(self, title: str) -> Mapping[str, Any]:
        """Return a table, such as `common` or `profile.prod`.

        Empty if it does not exist.
        """
        name, _, profile = title.partition(".")
        table: Mapping[str, Any] = self.data.get(name, {})
        return table.get(profile, {}) if profile else table


def read_files(config: str | None) -> list[SettingsFile]:
    """Return the settings files, the stronger one first.

    Their tables are known ones. Their keys are not checked yet.

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
    """Check everything in a settings file, with all checks of the commands.

    Raises:
        ConfigError: it is invalid; the message names table, key, value and the correct form.
    """
    name = str(path)
    place = next(
        (candidate for candidate in usual_places() if candidate.file == path.absolute()), None
    )
    if place is not None:
        _refuse_everybodys(path)
    check_tables(data, name)
    file = SettingsFile(place or Place("given", path), data)
    if place is None and isinstance(chosen := file.table(COMMON).get(PROFILE), str):
        # With --config, commands read no other file.
        refuse_unknown_profile(chosen, f"{name} [{COMMON}]", [file], name)
    shared = {COMMON: file.table(COMMON)}
    shared |= {f"{PROFILE}.{profile}": table for profile, table in file.profiles.items()}
    for title, table in shared.items():
        for key, value in table.items():
            _check_shared(key, value, title, name)
    for title in (table for table in data if table in COMMANDS):
        # A command without settings has no options here, and so no key.
        for options in [options_of(leaf) for leaf in leaves(title)] or [{}]:
            check_table(data[title], title, options, name, title)
            refuse_several(data[title], options, name, title)
    mapped_keys([file])


def mapped_keys(files: Sequence[SettingsFile]) -> dict[str, str]:
    """Return the keys of the app in [keys], by the names of actions; the first file is stronger.

    Raises:
        ConfigError: an unknown action or key, or a key that is not free.
    """
    given = {
        name: (file.name, value)
        for file in reversed(files)
        for name, value in file.table(KEYS).items()
    }
    if not given:
        return {}
    from trnfleet.tui.app.app import checked_keys  # noqa: PLC0415  it loads Textual and the views

    return checked_keys(given)


def _check_shared(key: str, value: object, title: str, file: str) -> None:
    """Check one key of a table that several commands read.

    Raises:
        ConfigError: one of them refuses it.
    """
    flag = key.replace("_", "-")
    accepting: list[str] = []
    refusals: list[tuple[str, ConfigError]] = []
    for own in COMMANDS:
        for command in leaves(own):
            known = settings_of(command, own, title)
            if flag not in known:
                continue
            try:
                check_table({key: value}, title, known, file, own)
            except ConfigError as error:
                refusals.append((own, error))
            else:
                accepting.append(own)
    if not refusals:
        if not accepting:
            # No command has it, or it chooses the profile.
            check_table({key: value}, title, {}, file, "")
        return
    refuser, refusal = refusals[0]
    if not accepting:
        raise refusal
    raise ConfigError(
        f"{refusal} (for {refuser}, which reads [{title}], too; put what is for {accepting[0]}"
        f" below [{accepting[0]}])"
    )


def refuse_unknown_profile(
    profile: str, chosen_by: str, files: Sequence[SettingsFile], config: str | None
) -> None:
    """Refuse a profile that is in none of the files.

    Args:
        profile: Its name.
        chosen_by: Who names it.
        files: The files.
        config: Value of --config.

    Raises:
        ConfigError: it is in none.
    """
    names = {name for file in files for name in file.profiles}
    if profile in {*names, NONE, ""}:
        return
    if config == NONE:
        raise ConfigError(f"{chosen_by}: no profile {profile!r}, for --config {NONE} reads no file")
    if not files:
        places = " and ".join(str(place.file) for place in usual_places())
        raise ConfigError(
            f"{chosen_by}: no profile {profile!r}, because no settings file exists; looked for"
            f" {places}"
        )
    places = " and ".join(file.name for file in files)
    raise ConfigError(f"{chosen_by}: no profile {profile!r} in {places}: {nearest(profile, names)}")


def _refuse_everybodys(file: Path) -> None:
    """Refuse a file read by default if it is writable by everybody.

    It can name programs to run.

    Raises:
        ConfigError: everybody can write it.
    """
    try:
        is_open = file.stat().st_mode & stat.S_IWOTH
    except OSError:
        return  # reading it says why
    if is_open:
        raise ConfigError(f"{file}: anybody may write this settings file; chmod o-w it")
