"""A command's settings from the files: the profile, else its own table, else [common].

Within each of these the stronger file wins, key by key. The command line and variables come before
all of it (click).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from click.core import ParameterSource

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.params import ORIGINS, PathType
from trnfleet.cli.settings.files import SettingsFile, read_files, refuse_unknown_profile
from trnfleet.cli.settings.keys import COMMON, NONE, PROFILE, check_table, repeated, settings_of
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import click

_META = "trnfleet.settings"
NAMED = "--profile"
"""Source of a profile that the command line names."""


class Origin(NamedTuple):
    """Place of a value in the settings files."""

    file: str
    table: str
    """Without brackets, such as `profile.prod`."""

    def __str__(self) -> str:
        return f"{self.file} [{self.table}]"


class Setting(NamedTuple):
    """A value with its origin."""

    value: Any
    origin: Origin
    rank: int
    """Rank of its table among those read by the command. Lower ones come first."""


class ChosenProfile(NamedTuple):
    """The profile in use."""

    name: str
    """Empty for none."""
    chosen_by: str
    """--profile, its variable, or file and table; empty if nothing names one."""


class Settings(NamedTuple):
    """The settings files and the profile in use."""

    files: Sequence[SettingsFile]
    """The stronger one first."""
    profile: ChosenProfile

    def of(self, command: click.Command, own: str) -> dict[str, Setting]:
        """Return a command's settings from the files, by parameter name.

        Args:
            command: The command.
            own: Its table.

        Raises:
            ConfigError: a table for it is invalid.
        """
        values: dict[str, Setting] = {}
        for rank, (file, title, known) in enumerate(self._tables(command, own)):
            table = file.table(title)
            check_table(table, title, known, file.name, own)
            for key, value in table.items():
                param = known.get(key.replace("_", "-"))
                if param is not None and param.name is not None:
                    located = _located(param, repeated(param, value), file)
                    values.setdefault(param.name, Setting(located, Origin(file.name, title), rank))
        return values

    def withheld(self, command: click.Command, own: str, flag: str) -> Origin | None:
        """Return the place of a key that is not applied to a command.

        None if it is nowhere.
        """
        for file, title, known in self._tables(command, own):
            if flag in file.table(title) and flag not in known:
                return Origin(file.name, title)
        return None

    def _tables(
        self, command: click.Command, own: str
    ) -> Iterator[tuple[SettingsFile, str, Mapping[str, click.Parameter]]]:
        """Yield the tables that a command reads, the stronger one first.

        Yields:
            The file, the table's title, and the options that the table may set.
        """
        is_named = self.profile.chosen_by == NAMED
        profile = [f"{PROFILE}.{self.profile.name}"] if self.profile.name else []
        for title in (*profile, own, COMMON):
            known = settings_of(command, own, title, is_named=is_named)
            for file in self.files:
                yield file, title, known


def load_settings(config: str | None, profile: str | None, chosen_by: str) -> Settings:
    """Return the settings files and the profile in use.

    Args:
        config: Value of --config.
        profile: Value of --profile; None for the one that [common] names.
        chosen_by: The option or its variable, which names the profile.

    Raises:
        ConfigError: a file is invalid, or the profile is in none of them.
    """
    files = read_files(config)
    if profile is None:
        profile = chosen_by = ""
        for file in reversed(files):
            if PROFILE in file.table(COMMON):
                profile = file.table(COMMON)[PROFILE]
                chosen_by = str(Origin(file.name, COMMON))
    refuse_unknown_profile(profile, chosen_by, files, config)
    return Settings(files, ChosenProfile("" if profile == NONE else profile, chosen_by))


def applied(ctx: click.Context) -> tuple[Settings, Mapping[str, Setting]] | None:
    """Return the settings of a called command, and its own values.

    None without settings.
    """
    read: tuple[Settings, Mapping[str, Setting]] | None = ctx.meta.get(_META)
    return read


def strengths(ctx: click.Context) -> dict[str, tuple[int, int]]:
    """Return the source of each parameter of a called command, the lower the stronger."""
    values = (applied(ctx) or (None, {}))[1]
    return {
        name: (
            source.value,
            values[name].rank if source is ParameterSource.DEFAULT_MAP and name in values else 0,
        )
        for name in ctx.params
        if (source := ctx.get_parameter_source(name)) is not None
    }


def read_settings(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Read the settings once both --config and --profile are known; the callback of both.

    Raises:
        ConfigError: a file is invalid, or the profile is in none of them.
    """
    given = ctx.meta.setdefault(f"{_META}.{ctx.command_path}", {})
    given[param.name] = value
    if len(given) < 2:
        return
    is_named = ctx.get_parameter_source(PROFILE) is ParameterSource.COMMANDLINE
    chosen_by = NAMED if is_named else "TRNFLEET_PROFILE"
    settings = load_settings(given["config"], given[PROFILE], chosen_by)
    values = settings.of(ctx.command, table_of(ctx))
    ctx.meta[_META] = (settings, values)
    ctx.meta[ORIGINS] = {
        name: f"{origin.file}: [{origin.table}]" for name, (_, origin, _) in values.items()
    }
    ctx.default_map = {
        **(ctx.default_map or {}),
        **{name: setting.value for name, setting in values.items()},
    }


def read_settings_if_valid(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Read the settings as `read_settings` does, or none if that fails.

    `settings_problem` has the reason.
    """
    try:
        read_settings(ctx, param, value)
    except ConfigError as error:
        ctx.meta[f"{_META}.problem"] = str(error)


def settings_problem(ctx: click.Context) -> str:
    """Return why settings could not be read; empty where they could."""
    return str(ctx.meta.get(f"{_META}.problem", ""))


def complete_profile(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the matching profiles of the settings files.

    Empty if a file is invalid.
    """
    given = ctx.meta.get(f"{_META}.{ctx.command_path}", {})
    try:
        files = read_files(given.get("config"))
    except ConfigError:
        return []
    return sorted({name for file in files for name in file.profiles if name.startswith(incomplete)})


def table_of(ctx: click.Context) -> str:
    """Return the table of a command: its name, or its group's."""
    names = ctx.command_path.split()
    return next((name for name in names if name in COMMANDS), names[-1])


def _located(param: click.Parameter, value: Any, file: SettingsFile) -> Any:
    """Return a value with paths relative to their settings file."""
    kind = param.type
    if not isinstance(kind, PathType):
        return value
    folder = file.place.file.parent
    if isinstance(value, list):
        return [kind.in_folder(str(path), folder) for path in value]
    return kind.in_folder(str(value), folder)
