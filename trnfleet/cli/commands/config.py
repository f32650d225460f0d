"""`trnfleet config`: write a settings file, list their places, and show each option's source."""

from __future__ import annotations

import copy
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from trnfleet import systemd
from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.options import json_option
from trnfleet.cli.output import print_json, table_lines
from trnfleet.cli.params import FileName, OneOf
from trnfleet.cli.settings.files import (
    Place,
    check_file,
    places_to_read,
    read_file,
    user_file,
    usual_places,
)
from trnfleet.cli.settings.keys import HIDDEN, NONE, PROFILE, leaves
from trnfleet.cli.settings.layers import Origin, Settings, applied, complete_profile
from trnfleet.config import shipped_folder
from trnfleet.errors import ConfigError, TrnfleetError, nearest, write_failure
from trnfleet.files import open_private
from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_SETTING = re.compile(r"^([a-z][a-z-]* = [^#\n]*?)( *)(#.*)?$", re.MULTILINE)
"""A line of the shipped file with a default: the setting, blanks, and a comment."""
_HEAD = """\
# All settings of trnfleet: `#key` is a default, `# key` an example. Remove the mark before a setting to change it.
# `trnfleet config print` shows each value and its source; `trnfleet check FILE` checks this file.
#
"""

PASSWORD_VARIABLES = {
    "broker": "TRNFLEET_MQTT_PASSWORD",
    "alertmanager": "TRNFLEET_ALERTMANAGER_PASSWORD",
    "webhook": "TRNFLEET_WEBHOOK_PASSWORD",
}
"""Variables with passwords, by their option."""


@click.group("config")
def command() -> None:
    """Write a settings file, list the places of settings files, and print the value and source of each option.

    Commands read the user's file and the system's (trnfleet config path), or only --config FILE. An option's value comes from the
    command line, then TRNFLEET_ variables, the chosen profile, the command's own table, and [common]. In each of these tables the
    user's file comes before the system's, key by key.

    \b
    Examples:
      trnfleet config init
      trnfleet config path
      trnfleet config print monitor --profile prod
    """


@command.command("init")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(force: bool) -> None:
    """Write your settings file, with every setting commented out, readable only by you.

    \b
    Example:
      trnfleet config init
    """
    file = user_file()
    if file is None:
        raise ConfigError("no home folder for a settings file; set XDG_CONFIG_HOME to a folder")
    text = commented_settings()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(file, "w" if force else "x", encoding="utf-8", opener=open_private) as output:
            os.fchmod(output.fileno(), 0o600)
            output.write(text)
    except FileExistsError:
        raise ConfigError(f"{file}: it is there already; --force replaces it") from None
    except OSError as error:
        raise write_failure(str(file), error) from error
    click.echo(f"{plain(str(file), LONGEST_LINE)}: written, with every setting commented out")


def commented_settings() -> str:
    """Return the shipped settings file with its defaults commented out.

    The defaults may then change with the program.
    """
    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    return _HEAD + _SETTING.sub(_commented, text.partition("\n#\n")[2])


def _commented(line: re.Match[str]) -> str:
    # The mark takes one of the blanks before a comment, so that comments stay in one column.
    setting = line[1]
    blanks = line[2]
    comment = line[3]
    return f"#{setting}{blanks[1:]}{comment}" if comment else f"#{setting}"


@command.command("path")
@click.option(
    "--config",
    envvar="TRNFLEET_CONFIG",
    type=FileName(),
    metavar="FILE",
    help="Like --config of any command.",
    show_envvar=True,
)
@json_option
def path(config: str | None, as_json: bool) -> None:
    """List the places of settings files, the strongest first, and whether each is read.

    \b
    Example:
      trnfleet config path --json
    """
    rows = list(_places(config))
    if as_json:
        facts = [{"kind": kind, "file": file, "state": state} for kind, file, state in rows]
        print_json({"places": facts})
    else:
        click.echo("\n".join(table_lines([("PLACE", "FILE", "STATE"), *rows])))


def _places(config: str | None) -> Iterator[tuple[str, str, str]]:
    """Yield each place with its kind and a remark."""
    read = places_to_read(config)
    for place in read if config else []:
        yield place.kind, str(place.file), _state(place)
    there = places_to_read(None)
    for place in usual_places():
        if place in read:
            yield place.kind, str(place.file), _state(place)
        elif place not in there:
            yield place.kind, str(place.file), "not there"
        else:
            instead = "no file" if config == NONE else f"{config}"
            yield (
                place.kind,
                str(place.file),
                f"not read: --config or TRNFLEET_CONFIG names {instead}",
            )


def _state(place: Place) -> str:
    try:
        file = read_file(place)
        check_file(place.file, file.data)
    except TrnfleetError as error:
        return f"INVALID: {str(error).removeprefix(f'{place.file}: ')}"
    return "read"


def _complete_command(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the commands, or those of the typed group."""
    words = ctx.params.get("words") or ()
    command_found = load_command(words[0]) if words and words[0] in COMMANDS else None
    names = (
        COMMANDS
        if not words
        else command_found.commands
        if isinstance(command_found, click.Group) and len(words) == 1
        else ()
    )
    return [name for name in names if name.startswith(incomplete)]


@command.command(
    "print", context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.argument(
    "words",
    metavar="[COMMAND [OPTIONS]...]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=_complete_command,
)
@click.option("--config", type=FileName(), metavar="FILE", help="Like --config of any command.")
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=complete_profile,
    help="Like --config of any command.",
)
@json_option
def print_settings(
    words: tuple[str, ...], config: str | None, profile: str | None, as_json: bool
) -> None:
    """Print every option of COMMAND with its value and source; without COMMAND, all values that are not defaults.

    You can add options after COMMAND, as if you ran it. Passwords, paths in the URLs of receivers, and arguments of programs are
    hidden.

    \b
    Examples:
      trnfleet config print
      trnfleet config print monitor
      trnfleet config print reserve buy --profile prod --json
    """
    chosen = [] if config is None else ["--config", config]
    chosen += [] if profile is None else ["--profile", profile]
    if words:
        options, settings = _of_command(words, chosen)
        rows: list[tuple[Effective, tuple[str, ...]]] = [(option, ()) for option in options]
    else:
        rows, settings = _of_all(chosen)
    if as_json:
        print_json(_facts(rows, settings))
        return
    click.echo("\n".join(_head_lines(settings)))
    if not rows and settings is not None:
        click.echo("every option has its default")
    if not rows:
        return
    named = any(commands for _, commands in rows)
    lines = [("OPTION", "VALUE", "FROM", *(("COMMANDS",) if named else ()))]
    for option, commands in rows:
        lines.append(
            (option.option, option.text, option.origin, *((_listed(commands),) if named else ()))
        )
    click.echo("\n" + "\n".join(table_lines(lines)))


def _of_command(
    words: Sequence[str], chosen: Sequence[str]
) -> tuple[list[Effective], Settings | None]:
    name = words[0]
    if name not in COMMANDS:
        raise click.UsageError(f"no command {name!r}: {nearest(name, COMMANDS)}")
    target = load_command(name)
    if not isinstance(target, click.Group):
        return effective_options([name], target, [*chosen, *words[1:]])
    below = words[1] if len(words) > 1 else ""
    if below not in target.commands:
        lacking = (
            f"no command {f'{name} {below}'!r}" if below else f"{name} has commands of its own"
        )
        raise click.UsageError(f"{lacking}: {nearest(below, target.commands)}")
    return effective_options([name, below], target.commands[below], [*chosen, *words[2:]])


def _of_all(
    arguments: Sequence[str],
) -> tuple[list[tuple[Effective, tuple[str, ...]]], Settings | None]:
    """Return all values other than a command's default, with their commands."""
    users: dict[str, tuple[Effective, list[str]]] = {}
    settings: Settings | None = None
    for name in COMMANDS:
        for leaf in leaves(name):
            words = [name] if leaf.name == name else [name, leaf.name or ""]
            options, settings = effective_options(words, leaf, arguments)
            for option in options:
                if option.source != "default":
                    users.setdefault(repr(option), (option, []))[1].append(" ".join(words))
    for file in settings.files if settings else ():
        check_file(file.place.file, file.data)
    return [(option, tuple(commands)) for option, commands in users.values()], settings


def _listed(commands: Sequence[str]) -> str:
    most = 6
    return ", ".join(commands) if len(commands) <= most else f"{len(commands)} commands"


def _head_lines(settings: Settings | None) -> list[str]:
    if settings is None:
        return ["this command reads no settings"]
    files = ", ".join(file.name for file in settings.files) or "none"
    profile, chosen_by = settings.profile
    lines = [
        f"settings files: {files}",
        f"profile: {profile or 'none'}{f', from {chosen_by}' if chosen_by else ''}",
    ]
    return [plain(line, LONGEST_LINE) for line in lines]


def _facts(
    rows: Sequence[tuple[Effective, tuple[str, ...]]], settings: Settings | None
) -> dict[str, Any]:
    """Return the same for a program."""
    return {
        "files": [file.name for file in settings.files] if settings else [],
        "profile": (settings.profile.name or None) if settings else None,
        "profiles": (
            sorted({name for file in settings.files for name in file.profiles}) if settings else []
        ),
        "options": [
            {
                "option": row.option,
                "value": row.value,
                "source": row.source,
                "place": row.place or None,
                **({"commands": list(commands)} if commands else {}),
            }
            for row, commands in rows
        ],
    }


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
        and (not param.hidden or param.name in values)
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
