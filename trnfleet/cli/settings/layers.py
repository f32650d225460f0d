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
    """--profile, its variable, or file and table."""
    is_named: bool = False
    """Whether the command line itself names it."""


class Settings(NamedTuple):
    """The settings files and the profile in use."""

    files: Sequence[SettingsFile]
    """The stronger one first."""
    profile: ChosenProfile

    def of(self, command: click.Command, table: str) -> dict[str, Setting]:
        """Return a command's settings from the files, by parameter name.

        Args:
            command: The command.
            table: Its table.

        Raises:
            ConfigError: a table for it is invalid.
        """
        values: dict[str, Setting] = {}
        for rank, (file, title, content) in enumerate(self._tables(table)):
            known = settings_of(command, table, title, is_named=self.profile.is_named)
            check_table(content, title, known, file.name, table)
            for key, value in content.items():
                param = known.get(key.replace("_", "-"))
                if param is not None and param.name is not None:
                    setting = Setting(
                        _located(param, repeated(param, value), file),
                        Origin(file.name, title),
                        rank,
                    )
                    values.setdefault(param.name, setting)
        return values

    def withheld(self, command: click.Command, table: str, flag: str) -> Origin | None:
        """Return the place of a key that is not applied to a command.

        None if it is nowhere.
        """
        for file, title, content in self._tables(table):
            known = settings_of(command, table, title, is_named=self.profile.is_named)
            if flag in content and flag not in known:
                return Origin(file.name, title)
        return None

    def _tables(self, own: str) -> Iterator[tuple[SettingsFile, str, Mapping[str, Any]]]:
        """Yield a command's tables, the stronger one first, with their titles."""
        if self.profile.name:
            for file in self.files:
                yield (
                    file,
                    f"{PROFILE}.{self.profile.name}",
                    file.profiles.get(self.profile.name, {}),
                )
        for title in (own, COMMON):
            for file in self.files:
                yield file, title, file.table(title)


def load_settings(
    config: str | None, profile: str | None, chosen_by: str, *, is_named: bool
) -> Settings:
    """Return the settings files and the profile in use.

    Args:
        config: Value of --config.
        profile: Value of --profile; None for the one that [common] names.
        chosen_by: Who names it: the option or its variable.
        is_named: Whether that is the command line.

    Raises:
        ConfigError: a file is invalid, or the profile is in none of them.
    """
    files = read_files(config)
    chosen = ChosenProfile(profile or "", chosen_by, is_named)
    if profile is None:
        chosen = next(
            (
                ChosenProfile(file.table(COMMON)[PROFILE], str(Origin(file.name, COMMON)))
                for file in files
                if PROFILE in file.table(COMMON)
            ),
            ChosenProfile("", ""),
        )
    if chosen.name in {NONE, ""}:
        return Settings(files, ChosenProfile("", chosen.chosen_by))
    refuse_unknown_profile(chosen.name, chosen.chosen_by, files, config)
    return Settings(files, chosen)


def apply_settings(ctx: click.Context, settings: Settings) -> None:
    """Make a command's settings the defaults of its options.

    Raises:
        ConfigError: a table for it is invalid.
    """
    values = settings.of(ctx.command, table_of(ctx))
    ctx.meta[_META] = (settings, values)
    ctx.meta[ORIGINS] = {name: f"{at.file}: [{at.table}]" for name, (_, at, _) in values.items()}
    ctx.default_map = {
        **(ctx.default_map or {}),
        **{name: value_set.value for name, value_set in values.items()},
    }


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
    if len(given) == 2:
        is_named = ctx.get_parameter_source(PROFILE) is ParameterSource.COMMANDLINE
        chosen_by = "--profile" if is_named else "TRNFLEET_PROFILE"
        apply_settings(
            ctx, load_settings(given["config"], given[PROFILE], chosen_by, is_named=is_named)
        )


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
    names = []
    context: click.Context | None = ctx
    while context is not None:
        names.append(context.info_name or "")
        context = context.parent
    return next((name for name in reversed(names) if name in COMMANDS), names[0])


def _located(param: click.Parameter, value: Any, file: SettingsFile) -> Any:
    """Return a value with paths relative to their settings file."""
    kind = param.type
    if not isinstance(kind, PathType):
        return value
    folder = file.place.file.parent
    if isinstance(value, list):
        return [kind.in_folder(str(path), folder) for path in value]
    return kind.in_folder(str(value), folder)
