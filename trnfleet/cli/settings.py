"""The settings file: defaults of options, from a table for each command and one, [common], for all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_settings(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """Set a command's defaults from its table in a settings file; the callback of `--config`.

    Raises:
        ConfigError: the file is invalid; the message names the table and the key.
    """
    if value is not None:
        from trnfleet.config import load_toml  # noqa: PLC0415  it loads pydantic, and most calls have no settings file

        apply_settings(ctx, load_toml(Path(value)), value)


def apply_settings(ctx: click.Context, data: Mapping[str, Any], file: str) -> None:
    """Set a command's defaults from the content of a settings file.

    Args:
        ctx: The command's context.
        data: The file's tables.
        file: The file's name, for messages.

    Raises:
        ConfigError: the content is invalid; the message names the table and the key.
    """
    params = _by_flag(ctx.command)
    known = set(params) - {"config"}
    common = _table(data, "common", file)
    own = _table(data, ctx.info_name or "", file)
    for table in data:
        if table not in {"common", *COMMANDS}:
            raise ConfigError(f"{file}: unknown table [{table}]: {nearest(table, ['common', *COMMANDS])}")
    for title, keys, names in ((ctx.info_name, own, known), ("common", common, _common_names())):
        choices = sorted(name.replace("_", "-") for name in names)
        for key in keys:
            if key.replace("-", "_") not in names:
                raise ConfigError(f"{file}: unknown key [{title}] {key!r}: {nearest(key, choices)}")
    values = {
        key: _repeated(params.get(key.replace("-", "_")), each) for key, each in {**common, **own}.items()
    }
    for key, given in values.items():
        param = params.get(key.replace("-", "_"))
        if param is not None:
            _check_type(ctx, param, key, given, file)
            try:
                param.type_cast_value(ctx, given)
            except click.UsageError as error:
                raise ConfigError(f"{file}: {key} = {given!r}: {error.message}") from error
            except (TypeError, ValueError, OverflowError) as error:
                raise ConfigError(f"{file}: {key} = {given!r}: not a value of this option") from error
    merged = {key.replace("-", "_"): each for key, each in values.items()}
    ctx.default_map = {
        **(ctx.default_map or {}),
        **{params[key].name: each for key, each in merged.items() if key in known},
    }


def _repeated(param: click.Parameter | None, given: object) -> object:
    """Return a value as the option takes it: one value of an option that may be repeated is a list of one."""
    return [given] if param is not None and param.multiple and not isinstance(given, list) else given


def _check_type(ctx: click.Context, param: click.Parameter, key: str, given: object, file: str) -> None:
    """Refuse what only TOML has: an option takes numbers, text, true and false, and a list of these where it may be repeated.

    Raises:
        ConfigError: the value is another.
    """
    takes_list = param.multiple or param.nargs != 1
    for value in given if takes_list and isinstance(given, list) else [given]:
        if not isinstance(value, str | int | float):
            kind = "a table" if isinstance(value, dict) else "a date or time"
            kind = "a list" if isinstance(value, list) else kind
            hint = "" if kind != "a date or time" else ": put it in quotes"
            hint = f": {ctx.info_name} takes one" if isinstance(value, list) and not takes_list else hint
            raise ConfigError(f"{file}: {key} = {given!r}: {kind}, not a number or text{hint}")


def _common_names() -> set[str]:
    """Return the keys that [common] may have: every option of every command."""
    return {name for command in COMMANDS for name in _by_flag(load_command(command))}


def _by_flag(command: click.Command) -> dict[str, click.Parameter]:
    """Return a command's options by their long flags, without leading dashes and with `_` for inner ones."""
    return {
        flag[2:].replace("-", "_"): param
        for param in command.params
        for flag in param.opts
        if flag.startswith("--")
    }


def _table(data: Mapping[str, Any], name: str, file: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: [{name}] is not a table")
    return table
