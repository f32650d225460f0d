"""The one description of a settings file: its tables and keys, taken from the options, and the check of a value.

Loading, `trnfleet check`, `trnfleet config` and the list of settings in config/trnfleet.toml (by a test) go by it.
"""

from __future__ import annotations

import difflib
import functools
from datetime import date, time
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.settings.one_of import OneOf
from trnfleet.cli.settings.places import NONE
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMMON = "common"
"""Table of all commands."""
PROFILE = "profile"
"""Table of profiles, and key of [common] that chooses one."""
TABLES = (COMMON, PROFILE, *COMMANDS)
NOT_SETTINGS = frozenset({"config"})
"""Options that a settings file cannot give."""
HIDDEN = "***"
"""Stands for what may be a secret."""
_LONGEST_VALUE = 80
"""Characters of a value that an error repeats."""
_PASSWORDS = ("password", "token", "secret")


def leaves(name: str) -> Iterator[click.Command]:
    """Yield the commands that take their settings from the table of a command: itself, or those of a group."""
    command = load_command(name)
    for each in command.commands.values() if isinstance(command, click.Group) else [command]:
        # Commands about settings have options of these names that are values, and read nothing.
        if {"config", PROFILE} <= {param.name for param in each.params if not param.expose_value}:
            yield each


def options_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return what settings may give of a command's options, by key: the long flag without leading dashes."""
    return {
        flag[2:]: param
        for param in command.params
        for flag in param.opts
        if flag.startswith("--") and param.name not in {*NOT_SETTINGS, PROFILE}
    }


@functools.cache
def keys_of(name: str) -> frozenset[str]:
    """Return the keys of a command's table; none for a command that has no settings."""
    return frozenset(key for command in leaves(name) for key in options_of(command))


def shared_keys() -> frozenset[str]:
    """Return the keys of every profile, and but for `profile` of [common]: those of all commands."""
    return frozenset(key for name in COMMANDS for key in keys_of(name))


def looks_like_settings(data: Mapping[str, Any]) -> bool:
    """Return whether a file is meant as settings: by one of its tables, or a name that is nearly one."""
    return any(
        name in TABLES or (isinstance(table, dict) and difflib.get_close_matches(name, TABLES))
        for name, table in data.items()
    )


def check_tables(data: Mapping[str, Any], file: str) -> None:
    """Refuse tables that no settings file has, and a choice of a profile that is no name.

    Raises:
        ConfigError: there is one, or what should be a table is none.
    """
    for name, table in data.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file}: key {name!r} outside of tables: put it below [{COMMON}], or below the name of a command"
            )
        if name not in TABLES:
            raise ConfigError(f"{file}: unknown table [{name}]: {nearest(name, TABLES)}")
    chosen = data.get(COMMON, {}).get(PROFILE, "")
    if not isinstance(chosen, str):
        raise ConfigError(
            _refused(f"{file}: [{COMMON}] {PROFILE}", chosen, "not the name of a profile")
        )
    for name, table in data.get(PROFILE, {}).items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file}: [{PROFILE}] {name!r}: not a table; write [{PROFILE}.{name}], and choose one "
                f'with {PROFILE} = "..." in [{COMMON}]'
            )
        if name == NONE:
            raise ConfigError(f"{file}: [{PROFILE}.{name}]: {NONE!r} stands for no profile")


def check_table(
    table: Mapping[str, Any],
    title: str,
    known: Mapping[str, click.Parameter],
    file: str,
    command: str,
) -> None:
    """Check one table: its keys, and the values of those that a command has.

    Args:
        table: Its content.
        title: Its name, for messages.
        known: Options of the command; keys that others have are left unchecked.
        file: The file's name, for messages.
        command: The command's name, for messages.

    Raises:
        ConfigError: it is invalid; the message names table, key, value and what would be right.
    """
    for key, value in table.items():
        flag = key.replace("_", "-")
        if flag in known:
            check_value(known[flag], f"{file}: [{title}] {key}", value, command)
        elif title != COMMON or flag != PROFILE:
            _check_key(key, title, file)


def refuse_several(
    table: Mapping[str, Any], known: Mapping[str, click.Parameter], file: str, command: str
) -> None:
    """Refuse several values in a command's own table where it takes one; in [common] and profiles others may take them.

    A command that is called has the command line to choose by, and refuses them itself.

    Raises:
        ConfigError: there are several.
    """
    for key, value in table.items():
        param = known.get(key.replace("_", "-"))
        if isinstance(param, OneOf) and isinstance(value, list) and len(value) > 1:
            raise ConfigError(
                f"{file}: [{command}] {key}: {command} takes one {param.noun}, not {len(value)}"
            )


def _check_key(key: str, title: str, file: str) -> None:
    """Refuse a key that no command has; looked up only for those that the command at hand has not, for all are imported."""
    flag = key.replace("_", "-")
    own = shared_keys() if title == COMMON or title.startswith(PROFILE) else keys_of(title)
    if flag in own:
        return
    if not own:
        raise ConfigError(
            f"{file}: [{title}]: the command has no settings of its own; use [{COMMON}]"
        )
    if flag in _PASSWORDS:
        raise ConfigError(
            f"{file}: [{title}] {key!r}: no {flag} stands in a settings file; name a file of mode 0600 with password-file, or set "
            "TRNFLEET_MQTT_PASSWORD"
        )
    choices = own | {PROFILE} if title == COMMON else own
    raise ConfigError(f"{file}: unknown key [{title}] {key!r}: {nearest(flag, choices)}")


def repeated(param: click.Parameter, value: object) -> object:
    """Return a value as the option takes it: one value of an option that may be repeated is a list of one."""
    return [value] if param.multiple and not isinstance(value, list) else value


def check_value(param: click.Parameter, where: str, value: object, command: str) -> None:
    """Refuse what an option does not take.

    Args:
        param: The option.
        where: File, table and key.
        value: As TOML has it.
        command: The command's name, for messages.

    Raises:
        ConfigError: it does not.
    """
    _check_type(param, where, value, command)
    try:
        param.type_cast_value(click.Context(click.Command("settings")), repeated(param, value))
    except click.UsageError as error:
        if _may_hold_secret(param):
            # The error's own text leaves a password out.
            raise ConfigError(f"{where}: {error.message}") from None
        raise ConfigError(_refused(where, value, _words(error, param, value))) from error
    except (TypeError, ValueError, OverflowError) as error:
        shown = HIDDEN if _may_hold_secret(param) else value
        raise ConfigError(_refused(where, shown, "not a value of this option")) from error


def _words(error: click.UsageError, param: click.Parameter, value: object) -> str:
    """Return why a value is refused, without click's own words where they say less."""
    if isinstance(param.type, click.Choice):
        return nearest(str(value), map(str, param.type.choices))
    if isinstance(param.type, type(click.BOOL)):
        return "not true or false"
    return error.message.rstrip(".")


def _refused(where: str, value: object, why: str) -> str:
    """Return the message of a refusal; most of the options' own begin with the value."""
    shown = (
        value.isoformat()
        if isinstance(value, date | time)
        else value
        if value is HIDDEN
        else repr(value)
    )
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[: _LONGEST_VALUE - 3]}..."
    return (
        f"{where}: {why}"
        if why.startswith((f"{shown} ", f"{shown}:"))
        else f"{where} = {shown}: {why}"
    )


def _check_type(param: click.Parameter, where: str, given: object, command: str) -> None:
    """Refuse what only TOML tells apart: a flag takes true and false, any other option text and numbers, or a list where it may be repeated.

    Raises:
        ConfigError: the value is another.
    """
    takes_list = param.multiple or param.nargs != 1
    is_flag = isinstance(param.type, type(click.BOOL))
    shown = HIDDEN if _may_hold_secret(param) else given
    for value in given if takes_list and isinstance(given, list) else [given]:
        if isinstance(value, list | dict | date | time):
            kind = "a table" if isinstance(value, dict) else "a date or time"
            kind = "a list" if isinstance(value, list) else kind
            hint = "" if kind != "a date or time" else ": put it in quotes"
            hint = f": {command} takes one" if isinstance(value, list) and not takes_list else hint
            raise ConfigError(_refused(where, shown, f"{kind}, not a number or text{hint}"))
        if is_flag and not isinstance(value, bool | str):
            raise ConfigError(_refused(where, shown, "not true or false"))
        if isinstance(value, bool) and not is_flag:
            raise ConfigError(f"{where} = {str(value).lower()}: not a number or text")
        if isinstance(value, float) and isinstance(param.type, type(click.INT)):
            raise ConfigError(_refused(where, shown, "not a whole number"))


def _may_hold_secret(param: click.Parameter) -> bool:
    """Return whether a wrong value may be a URL with a password in it, or a program with a token among its arguments."""
    return param.type.name == "url" or param.metavar == "URL" or param.name == "programs"
