"""What a command gets of the settings files: from the profile, else from its own table, else from [common].

Within each of these the stronger file wins, key by key. The command line and variables come before all of it (click).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from click.core import ParameterSource

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.names import PathType
from trnfleet.cli.settings.files import SettingsFile, read_files
from trnfleet.cli.settings.keys import COMMON, PROFILE, check_table, options_of, repeated
from trnfleet.cli.settings.one_of import ORIGINS
from trnfleet.cli.settings.places import NONE, usual_places
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import click

OWN_FLEET = frozenset({"demo", "simulate", "replay", "convert"})
"""Commands that make a fleet of their own or read one from a file."""
OF_THE_WATCHED = frozenset({"broker", "name"})
"""Keys of [common] and of profiles that those do not take: a demo or a replay must not go to the broker that is watched, nor a
simulation take its fleet's name."""
_META = "trnfleet.settings"


class Origin(NamedTuple):
    """Where in the settings files a value stands."""

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
    """Place of its table among those that the command reads; a lower one goes before it."""


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
        """Return what the files give a command, by the parameters' names.

        Args:
            command: The command.
            table: Its table.

        Raises:
            ConfigError: a table that concerns it is invalid.
        """
        known = options_of(command)
        found: dict[str, Setting] = {}
        for rank, (file, title, content) in enumerate(self._tables(table)):
            check_table(content, title, known, file.name, table)
            for key, value in content.items():
                flag = key.replace("_", "-")
                param = known.get(flag)
                if (
                    param is not None
                    and param.name is not None
                    and self._goes_to(table, title, flag)
                ):
                    setting = Setting(
                        _located(param, repeated(param, value), file),
                        Origin(file.name, title),
                        rank,
                    )
                    found.setdefault(param.name, setting)
        return found

    def _tables(self, own: str) -> Iterator[tuple[SettingsFile, str, Mapping[str, Any]]]:
        """Yield the tables that concern a command, the stronger one first, with their titles."""
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

    def _goes_to(self, command: str, title: str, flag: str) -> bool:
        if title == command or command not in OWN_FLEET or flag not in OF_THE_WATCHED:
            return True
        # Who names a profile for a simulation means its broker.
        return command == "simulate" and title != COMMON and self.profile.is_named


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
    _refuse_unknown(chosen, files, config)
    return Settings(files, chosen)


def apply_settings(ctx: click.Context, settings: Settings) -> None:
    """Make what the files give a command the defaults of its options.

    Raises:
        ConfigError: a table that concerns it is invalid.
    """
    found = settings.of(ctx.command, table_of(ctx))
    ctx.meta[_META] = (settings, found)
    ctx.meta[ORIGINS] = {name: f"{at.file}: [{at.table}]" for name, (_, at, _) in found.items()}
    ctx.default_map = {
        **(ctx.default_map or {}),
        **{name: each.value for name, each in found.items()},
    }


def applied(ctx: click.Context) -> tuple[Settings, Mapping[str, Setting]] | None:
    """Return the settings of a command that has been called, and what they give it; None where it has none."""
    found: tuple[Settings, Mapping[str, Setting]] | None = ctx.meta.get(_META)
    return found


def strengths(ctx: click.Context) -> dict[str, tuple[int, int]]:
    """Return for each parameter of a command that has been called where its value comes from, the lower the stronger."""
    found = (applied(ctx) or (None, {}))[1]
    return {
        name: (
            source.value,
            found[name].rank if source is ParameterSource.DEFAULT_MAP and name in found else 0,
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
    """Read the settings as `read_settings` does; where that fails, there are none, and `settings_problem` has the reason."""
    try:
        read_settings(ctx, param, value)
    except ConfigError as error:
        ctx.meta[f"{_META}.problem"] = str(error)


def settings_problem(ctx: click.Context) -> str:
    """Return why settings could not be read; empty where they could."""
    return str(ctx.meta.get(f"{_META}.problem", ""))


def complete_profile(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the profiles of the settings files whose names begin so; none where a file is invalid."""
    given = ctx.meta.get(f"{_META}.{ctx.command_path}", {})
    try:
        files = read_files(given.get("config"))
    except ConfigError:
        return []
    return sorted({name for file in files for name in file.profiles if name.startswith(incomplete)})


def table_of(ctx: click.Context) -> str:
    """Return the table of a command: its name, or that of its group."""
    names = []
    each: click.Context | None = ctx
    while each is not None:
        names.append(each.info_name or "")
        each = each.parent
    return next((name for name in reversed(names) if name in COMMANDS), names[0])


def _located(param: click.Parameter, value: Any, file: SettingsFile) -> Any:
    """Return a value whose paths are relative to the file that names them."""
    kind = param.type
    if not isinstance(kind, PathType):
        return value
    folder = file.place.file.parent
    if isinstance(value, list):
        return [kind.in_folder(str(each), folder) for each in value]
    return kind.in_folder(str(value), folder)


def _refuse_unknown(
    chosen: ChosenProfile, files: Sequence[SettingsFile], config: str | None
) -> None:
    names = {name for file in files for name in file.profiles}
    if chosen.name in names:
        return
    if config == NONE:
        raise ConfigError(
            f"{chosen.chosen_by}: no profile {chosen.name!r}, for --config {NONE} reads no file"
        )
    if not files:
        places = " and ".join(str(place.file) for place in usual_places())
        raise ConfigError(
            f"{chosen.chosen_by}: no profile {chosen.name!r}, for there is no settings file; looked for {places}"
        )
    places = " and ".join(file.name for file in files)
    raise ConfigError(
        f"{chosen.chosen_by}: no profile {chosen.name!r} in {places}: {nearest(chosen.name, names)}"
    )
