"""Options that several commands share, with their variables and their place in the settings file.

An option comes from the command line, else from its `TRNFLEET_...` variable, else from the settings file, else from its
default. Passwords come from TRNFLEET_MQTT_PASSWORD or a file, never from the command line.
"""

from __future__ import annotations

import getpass
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trnfleet import logs
from trnfleet.domain.address import is_segment
from trnfleet.domain.durations import parse_duration_s
from trnfleet.errors import ConfigError, nearest
from trnfleet.wire.topics import DEFAULT_ROOT, is_root

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trnfleet.transport.url import BrokerUrl, Password

CommandT = TypeVar("CommandT", bound="Callable[..., Any]")

PASSWORD_VARIABLE = "TRNFLEET_MQTT_PASSWORD"  # noqa: S105  the variable's name, not a password
LONGEST_USER = 64
"""Characters of a user's name."""


class Duration(click.ParamType[float]):
    """A duration such as `10s`, `500ms`, `5m`, `2h`; a bare number means seconds."""

    name = "duration"

    def __init__(self, most_s: float = 1e9) -> None:
        self._most_s = most_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds, above zero."""
        if isinstance(value, (int, float)):
            seconds = float(value)
        else:
            try:
                seconds = parse_duration_s(str(value))
            except ValueError as error:
                self.fail(str(error), param, ctx)
        if not 0 < seconds <= self._most_s:
            self.fail(f"{value!r} is not above zero and at most {self._most_s:g} s", param, ctx)
        return seconds


class FleetName(click.ParamType[str]):
    """A fleet's name, or a client's: one segment of a topic."""

    name = "fleet"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if it may stand in a topic."""
        if not is_segment(str(value)):
            self.fail(f"{value!r} is not 1 to 64 of A-Z a-z 0-9 _ -", param, ctx)
        return str(value)


class Broker(click.ParamType["BrokerUrl"]):
    """A broker's URL, `mqtt://[user@]host[:port]`."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> BrokerUrl:
        """Return the parsed URL."""
        from trnfleet.transport.url import BrokerUrl, parse_url  # noqa: PLC0415  --help stays quick

        if isinstance(value, BrokerUrl):
            return value
        try:
            return parse_url(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Root(click.ParamType[str]):
    """The topics' root."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the root if it may be one."""
        if not is_root(str(value)):
            self.fail(
                f"{value!r}: segments of A-Z a-z 0-9 _ - with / between them, as in site/trnfleet", param, ctx
            )
        return str(value)


class TopicFilter(click.ParamType[str]):
    """A filter of topics: `+` stands for one level, `#` for the rest."""

    name = "topic filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the filter if it is one."""
        from trnfleet.transport.filters import topic_matches  # noqa: PLC0415  --help stays quick

        try:
            topic_matches(str(value), "a")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def setting(*flags: str, **attributes: Any) -> Callable[[CommandT], CommandT]:
    """Return a click option that also listens to its TRNFLEET_ variable and shows it in the help."""
    name = next(flag for flag in flags if flag.startswith("--")).split("/")[0][2:].replace("-", "_")
    attributes.setdefault("envvar", f"TRNFLEET_{name.upper()}")
    attributes.setdefault("show_envvar", True)
    if "default" in attributes and attributes["default"] is not None:
        attributes.setdefault("show_default", True)
    return click.option(*flags, **attributes)


def _read_settings(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """Take a command's defaults from its table in a settings file."""
    if value is None:
        return
    from trnfleet.config import load_toml  # noqa: PLC0415  most calls have no settings file

    data = load_toml(Path(value))
    command = ctx.command
    params = _by_flag(command)
    known = set(params) - {"config"}
    common = _table(data, "common", value)
    own = _table(data, ctx.info_name or "", value)
    from trnfleet.cli.main import COMMANDS  # noqa: PLC0415  main imports nothing of ours before it is needed

    for table in data:
        if table not in {"common", *COMMANDS}:
            raise ConfigError(f"{value}: unknown table [{table}]: {nearest(table, ['common', *COMMANDS])}")
    for title, keys, names in ((ctx.info_name, own, known), ("common", common, _common_names())):
        choices = sorted(name.replace("_", "-") for name in names)
        for key in keys:
            if key.replace("-", "_") not in names:
                raise ConfigError(f"{value}: unknown key [{title}] {key!r}: {nearest(key, choices)}")
    for key, given in {**common, **own}.items():
        param = params.get(key.replace("-", "_"))
        if param is not None:
            try:
                param.type_cast_value(ctx, given)
            except click.UsageError as error:
                raise ConfigError(f"{value}: {key} = {given!r}: {error.message}") from error
    merged = {key.replace("-", "_"): each for key, each in {**common, **own}.items()}
    ctx.default_map = {
        **(ctx.default_map or {}),
        **{params[key].name: each for key, each in merged.items() if key in known},
    }


def _common_names() -> set[str]:
    """Return what [common] may name: every option of every command."""
    from trnfleet.cli.main import COMMANDS, cli  # noqa: PLC0415  main imports nothing of ours before it is needed

    with click.Context(cli) as ctx:
        commands = [cli.get_command(ctx, name) for name in COMMANDS]
    return {name for command in commands if command for name in _by_flag(command)}


def _by_flag(command: click.Command) -> dict[str, click.Parameter]:
    """Return a command's options by their long flags, without dashes in front and with `_` for those within."""
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


config_option = click.option(
    "--config",
    envvar="TRNFLEET_CONFIG",
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_read_settings,
    metavar="FILE",
    help="Settings file (TOML) that gives other defaults; config/trnfleet.toml lists all.",
)


def broker_options(*, required: bool) -> Callable[[CommandT], CommandT]:
    """Return the options that say which broker, as whom, and under which root."""

    def decorate(command: CommandT) -> CommandT:
        for option in reversed(
            (
                setting(
                    "--broker",
                    type=Broker(),
                    required=required,
                    help="The broker: mqtt://[user@]host[:port]; the port is 1883 unless given.",
                ),
                setting(
                    "--password-file",
                    metavar="FILE",
                    help=f"File with the user's password, readable by you alone; else {PASSWORD_VARIABLE}.",
                ),
                setting("--root", type=Root(), default=DEFAULT_ROOT, help="First part of every topic."),
            )
        ):
            command = option(command)
        return command

    return decorate


def log_options(command: CommandT) -> CommandT:
    """Add the options that say how to log."""
    for option in reversed(
        (
            setting(
                "--log-format",
                type=click.Choice(["console", "json"]),
                default="console",
                help="How log lines look.",
            ),
            setting(
                "--log-level",
                type=click.Choice(["debug", "info", "warning", "error"]),
                default="warning",
                help="The least that is logged.",
            ),
            config_option,
        )
    ):
        command = option(command)
    return command


def set_up_logs(log_format: str, log_level: str, file: Path | None = None) -> None:
    """Configure logging for a command: to stderr, or to a file while the app owns the terminal.

    Raises:
        ConfigError: the file cannot be opened.
    """
    try:
        logs.configure(log_format="json" if log_format == "json" else "console", level=log_level, file=file)
    except OSError as error:
        raise ConfigError(f"--log-file {file}: {error.strerror or error}") from error


def find_password(file: str | None) -> Password | None:
    """Return the password from its file or variable, if there is one.

    Raises:
        ConfigError: the file cannot be read, is empty, or others may read it.
    """
    from trnfleet.transport.url import Password  # noqa: PLC0415  --help stays quick

    if file is None:
        text = os.environ.get(PASSWORD_VARIABLE)
        return Password(text) if text else None
    path = Path(file)
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{file}: others may read the password; chmod 600 it")
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"--password-file {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--password-file {file}: it is not UTF-8") from error
    if not text:
        raise ConfigError(f"--password-file {file}: it is empty")
    return Password(text)


def user_name(default: str) -> str:
    """Return the name of whoever runs this, without what a terminal could act upon; `default` where the system knows none."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return default
    return "".join(char for char in name if char.isalnum() or char in "_.@-")[:LONGEST_USER] or default


def log_file_for_app(given: str | None) -> Path:
    """Return the file that an app's process logs to, making its folder: the one given, or one in the state folder."""
    if given:
        return Path(given)
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "trnfleet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}; name a log file with --log-file") from error
    return folder / "app.log"
