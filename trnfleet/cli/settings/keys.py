"""The single description of a settings file: tables and keys from the options, with checks.

Loading, `trnfleet check`, `trnfleet config` and the list of settings in config/trnfleet.toml (by a
test) use it.
"""

from __future__ import annotations

import difflib
import functools
from datetime import date, time
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.params import OneOf
from trnfleet.errors import ConfigError, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMON = "common"
"""Table of all commands."""
PROFILE = "profile"
"""Table of profiles, and the key of [common] to choose one."""
NONE = "none"
"""Value of --config and --profile for none."""
KEYS = "keys"
"""Table of the app's keys, which the app itself checks."""
TABLES = (COMMON, PROFILE, KEYS, *COMMANDS)
OWN_FLEET = frozenset({"demo", "simulate", "replay", "convert"})
"""Commands with a fleet of their own or from a file."""
OF_THE_WATCHED = frozenset({"broker", "name"})
"""Keys of [common] and of profiles ignored by those commands. A demo or a replay must not go to the
monitored broker, nor a simulation use its fleet's name."""
NOT_SETTINGS = frozenset({"config"})
"""Options not allowed in a settings file."""
HIDDEN = "***"
"""Placeholder for a possible secret."""
_PASSWORDS = ("password", "token", "secret")


@functools.cache
def leaves(name: str) -> tuple[click.Command, ...]:
    """Return the commands with settings in a command's table: itself, or a group's commands."""
    command = load_command(name)
    return tuple(
        leaf
        for leaf in (command.commands.values() if isinstance(command, click.Group) else [command])
        # Commands about settings have options of these names that are values, and read nothing.
        if {"config", PROFILE} <= {param.name for param in leaf.params if not param.expose_value}
    )


def options_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return a command's options for settings, by key: the long flag without dashes."""
    return {
        flag[2:]: param
        for param in command.params
        for flag in param.opts
        if flag.startswith("--") and param.name not in {*NOT_SETTINGS, PROFILE}
    }


def settings_of(
    command: click.Command, own: str, title: str, *, is_named: bool = True
) -> dict[str, click.Parameter]:
    """Return the options of a command set by a table, by key.

    Args:
        command: The command.
        own: Its own table.
        title: The table, such as `common` or `profile.prod`.
        is_named: Whether the command line names the profile.
    """
    known = options_of(command)
    # Who names a profile for a simulation means its broker.
    if title == own or own not in OWN_FLEET or (own == "simulate" and title != COMMON and is_named):
        return known
    return {key: param for key, param in known.items() if key not in OF_THE_WATCHED}


@functools.cache
def keys_of(name: str) -> frozenset[str]:
    """Return the keys of a command's table.

    Empty without settings.
    """
    return frozenset(key for command in leaves(name) for key in options_of(command))


@functools.cache
def shared_keys() -> frozenset[str]:
    """Return the keys of every profile: those of all commands. [common] also has `profile`."""
    return frozenset(key for name in COMMANDS for key in keys_of(name))


def looks_like_settings(data: Mapping[str, Any]) -> bool:
    """Return whether a file is meant as settings, by a table or a similar name."""
    return any(
        name in TABLES or (isinstance(table, dict) and difflib.get_close_matches(name, TABLES))
        for name, table in data.items()
    )


def check_tables(data: Mapping[str, Any], file: str) -> None:
    """Refuse unknown tables, and a profile choice that is not a name.

    Raises:
        ConfigError: there is one, or a value stands in place of a table.
    """
    for name, table in data.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file}: key {name!r} outside of tables: put it below [{COMMON}], or below the"
                " name of a command"
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
                f"{file}: [{PROFILE}] {name!r}: not a table; write [{PROFILE}.{name}], and choose"
                " one "
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
    """Check one table: its keys, and the values of a command's own keys.

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
    """Refuse several values in a command's own table if the command accepts only one.

    In [common] and profiles other commands may accept them. A called command can choose on the
    command line, and refuses them itself.

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
    """Refuse a key unknown to all commands.

    Only keys unknown to the present command are looked up, as this imports all commands.
    """
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
            f"{file}: [{title}] {key!r}: no {flag} stands in a settings file; name a file of mode"
            " 0600 with password-file, or set TRNFLEET_MQTT_PASSWORD"
        )
    choices = own | {PROFILE} if title == COMMON else own
    raise ConfigError(f"{file}: unknown key [{title}] {key!r}: {nearest(flag, choices)}")


def repeated(param: click.Parameter, value: object) -> object:
    """Return a value in its option's form.

    A repeatable option turns one value into a list.
    """
    return [value] if param.multiple and not isinstance(value, list) else value


def check_value(param: click.Parameter, where: str, value: object, command: str) -> None:
    """Refuse a value that an option does not accept.

    Args:
        param: The option.
        where: File, table and key.
        value: As TOML has it.
        command: The command's name, for messages.

    Raises:
        ConfigError: the option does not accept it.
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
    """Return why a value is refused, without click's less helpful words."""
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
    shown = plain(shown)
    return (
        f"{where}: {why}"
        if why.startswith((f"{shown} ", f"{shown}:"))
        else f"{where} = {shown}: {why}"
    )


def _check_type(param: click.Parameter, where: str, given: object, command: str) -> None:
    """Refuse a wrong TOML type.

    A flag accepts true and false, any other option text and numbers, or a list if it is repeatable.

    Raises:
        ConfigError: the value has another type.
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
    """Return whether a wrong value may contain a password or a token.

    It may be a URL, or a program's arguments.
    """
    return param.type.name == "url" or param.metavar == "URL" or param.name == "programs"
