"""The value and source of each option of a command, parsed as the command does."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from trnfleet import systemd
from trnfleet.cli.settings.keys import HIDDEN, PROFILE
from trnfleet.cli.settings.layers import Settings, applied
from trnfleet.cli.settings.one_of import OneOf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.cli.settings.layers import Origin

PASSWORD_VARIABLES = {
    "broker": "TRNFLEET_MQTT_PASSWORD",
    "alertmanager": "TRNFLEET_ALERTMANAGER_PASSWORD",
    "webhook": "TRNFLEET_WEBHOOK_PASSWORD",
}
"""Variables with passwords, by their option."""


class Effective(NamedTuple):
    """An option's value with its source."""

    option: str
    """The long flag without its dashes. It is also its key in a settings file."""
    value: Any
    """The given value, with secrets hidden. None without a value."""
    source: str
    """`command line`, `variable`, `settings`, `credential` or `default`."""
    place: str = ""
    """The variable, or file and table, or the credential's file."""

    @property
    def origin(self) -> str:
        """The source in words."""
        named = self.source in {"variable", "credential"}
        return f"{self.source} {self.place}" if named else self.place or self.source

    @property
    def text(self) -> str:
        """The value in words."""
        if self.value is None or self.value == []:
            return "-"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, list):
            return " ".join(map(str, self.value))
        return str(self.value)


def effective_options(
    words: Sequence[str], command: click.Command, arguments: Sequence[str]
) -> tuple[list[Effective], Settings | None]:
    """Return a command's options as they would be, and the settings read for it.

    Args:
        words: The command's names: one, or a group's and its own.
        command: The command.
        arguments: Its arguments; what it requires may be left out.

    Raises:
        ConfigError: a settings file is invalid.
        click.UsageError: an argument or variable is.
    """
    lenient = copy.copy(command)
    lenient.params = [_not_required(param) for param in command.params]
    parent = click.Context(click.Group("trnfleet"), info_name="trnfleet")
    for group in words[:-1]:
        parent = click.Context(click.Group(group), info_name=group, parent=parent)
    # Parsing changes its list of arguments.
    ctx = lenient.make_context(words[-1], list(arguments), parent=parent)
    given = lenient.make_parser(ctx).parse_args(list(arguments))[0]
    read = applied(ctx)
    settings, values = read or (None, {})
    options = [
        _effective(
            ctx,
            param,
            given.get(param.name),
            values[param.name].origin if param.name in values else None,
        )
        for param in lenient.params
        if isinstance(param, click.Option)
        and not param.hidden
        and param.name not in {"config", PROFILE}
    ]
    options += _passwords(options)
    return options, settings


def _effective(
    ctx: click.Context, param: click.Option, given: Any, origin: Origin | None
) -> Effective:
    flag = max(param.opts, key=len).removeprefix("--")
    source = ctx.get_parameter_source(param.name or "")
    if source is ParameterSource.COMMANDLINE:
        return Effective(flag, _hidden(param, given), "command line")
    if source is ParameterSource.ENVIRONMENT and isinstance(param.envvar, str):
        return Effective(flag, _hidden(param, os.environ[param.envvar]), "variable", param.envvar)
    if source is ParameterSource.DEFAULT_MAP and origin is not None and ctx.default_map is not None:
        value = _hidden(param, ctx.default_map[param.name or ""])
        return Effective(flag, value, "settings", str(origin))
    default = param.get_default(ctx, call=False)
    # What an option without a default has is no value but a mark of click's.
    return Effective(
        flag, default if isinstance(default, bool | int | float | str) else None, "default"
    )


def _not_required(param: click.Parameter) -> click.Parameter:
    param = copy.copy(param)
    param.required = False
    if isinstance(param, OneOf):
        param.is_lenient = True
    return param


def _hidden(param: click.Option, value: Any) -> Any:
    """Return a value without secret parts.

    They are the part after the host in receivers' URLs, and arguments of programs.
    """
    if isinstance(param, OneOf) and isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple):
        return [_hidden(param, part) for part in value]
    text = str(value)
    if param.metavar == "URL":
        return " ".join(map(_hidden_url, text.split()))
    if param.name == "programs":
        program, *arguments = text.split(maxsplit=1)
        return f"{program} {HIDDEN}" if arguments else program
    return value


def _hidden_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    user = f"{parts.username}@" if parts.username else ""
    rest = f"/{HIDDEN}" if parts.path.strip("/") or parts.query or parts.fragment else ""
    return f"{parts.scheme}://{user}{host}{rest}" if parts.scheme and host else HIDDEN


def _passwords(options: Iterable[Effective]) -> Iterator[Effective]:
    """Yield a line for each password from a variable, or else from a service credential.

    Raises:
        ConfigError: the credential cannot be read.
    """
    for option in options:
        variable = PASSWORD_VARIABLES.get(option.option)
        if variable is None:
            continue
        if os.environ.get(variable):
            yield Effective(f"password of {option.option}", HIDDEN, "variable", variable)
        elif option.option == "broker" and systemd.read_credential(systemd.PASSWORD):
            place = str(systemd.credential_file(systemd.PASSWORD))
            yield Effective(f"password of {option.option}", HIDDEN, "credential", place)
