"""Options shared by several commands, with their variables and places in the settings file.

An option comes from the command line, else from its `TRNFLEET_...` variable, else from the settings
files, else from its default. Passwords come from TRNFLEET_MQTT_PASSWORD, a file or a prompt, never
from the command line.

`broker_options` turns all options about a broker into one `BrokerSession`. An option for every
command with a broker is a row in `_access_rows`, a field of `AccessOptions`, and its use in
`make_session`; `broker_arguments` passes it to the demo's simulator.
"""

from __future__ import annotations

import functools
import getpass
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from trnfleet import logs, systemd
from trnfleet.cli.output import exit_on_broken_pipe, report, stdout_bytes
from trnfleet.cli.params import (
    Broker,
    Duration,
    FileName,
    FleetName,
    OneOf,
    PowerCap,
    Price,
    Printable,
    Root,
    ShippedName,
)
from trnfleet.cli.settings.layers import complete_profile, read_settings, strengths
from trnfleet.domain.address import to_segment
from trnfleet.domain.site import PUE, TPOT_LIMIT_S, TTFT_LIMIT_S, Site
from trnfleet.errors import ConfigError
from trnfleet.transport.url import LONGEST_ALPN, BrokerUrl, Password, with_user
from trnfleet.wire.ports import MOST_LINKS
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.security import TokenFile

CommandT = TypeVar("CommandT", bound="Callable[..., Any]")

PASSWORD_VARIABLE = "TRNFLEET_MQTT_PASSWORD"  # noqa: S105  the variable's name, not a password
_PASSWORDS = ("password_file", "token_file", "ask_password")
_TLS = ("ca", "cert", "key", "alpn", "insecure")
_INSTEAD = (_PASSWORDS, ("ca", "insecure"))
"""Options that replace each other. Two of them from one source are a contradiction."""
LONGEST_WAIT_S = 3_600.0
"""Longest wait for an answer or for telemetry. Simulators refuse commands with a longer validity.
"""
BROKER_HELP = (
    "The broker: [mqtt|mqtts|ws|wss]://[user@]host[:port][/path]. The default is mqtt:// and port"
    " 1883, or 8883 with TLS."
)


def setting(*flags: str, **attributes: Any) -> Callable[[CommandT], CommandT]:
    """Return a click option with its TRNFLEET_ variable, also shown in the help."""
    name = next(flag for flag in flags if flag.startswith("--")).split("/")[0][2:].replace("-", "_")
    attributes.setdefault("envvar", f"TRNFLEET_{name.upper()}")
    attributes.setdefault("show_envvar", True)
    if "default" in attributes and attributes["default"] is not None:
        attributes.setdefault("show_default", True)
    return click.option(*flags, **attributes)


def with_options(command: CommandT, options: Sequence[Callable[[Any], Any]]) -> CommandT:
    """Return a command with more options, in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def option_group(
    name: str, group: Any, options: Sequence[Callable[[Any], Any]], without: Sequence[str] = ()
) -> Callable[[CommandT], CommandT]:
    """Return a decorator that adds options, and passes their values as one argument.

    Args:
        name: The argument's name.
        group: A named tuple of their values; its fields are the parameters' names.
        options: The options.
        without: Fields that the command sets.
    """
    fields = [field for field in group._fields if field not in without]

    def decorate(command: CommandT) -> CommandT:
        @functools.wraps(command)
        def with_group(*args: Any, **others: Any) -> Any:
            others[name] = group(**{field: others.pop(field) for field in fields})
            return command(*args, **others)

        return with_options(with_group, options)  # type: ignore[return-value]  # click reads its parameters, not its signature

    return decorate


def settings_options(read: Callable[..., None] = read_settings) -> tuple[Callable[[Any], Any], ...]:
    """Return the options to choose settings.

    Args:
        read: Reads them once both are known.
    """
    return (
        click.option(
            "--config",
            envvar="TRNFLEET_CONFIG",
            show_envvar=True,
            is_eager=True,
            expose_value=False,
            callback=read,
            type=FileName(),
            metavar="FILE",
            help=(
                "Read this settings file (TOML) instead of the user's and the system's (trnfleet"
                ' config path); "none" reads no file.'
            ),
        ),
        click.option(
            "--profile",
            envvar="TRNFLEET_PROFILE",
            show_envvar=True,
            is_eager=True,
            expose_value=False,
            callback=read,
            shell_complete=complete_profile,
            metavar="NAME",
            help=(
                'Use the defaults in [profile.NAME] of the settings file; "none" ignores profiles.'
            ),
        ),
    )


fleet_option = setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="Name of the fleet, if the broker has several.",
)
fleets_option = setting(
    "--name",
    "names",
    type=FleetName(),
    multiple=True,
    help="Name of the fleet, if there are several. Repeat it for several fleets.",
)
all_fleets_option = setting(
    "--all-fleets",
    is_flag=True,
    help="Show all fleets of the brokers; the app adds new ones as they appear.",
)
utilization_option = click.option(
    "--utilization",
    type=click.Choice(["ratio", "percent"]),
    help=(
        "Unit of Neuron Observer's utilization; by default percent if any value of the file is"
        " above 1.5."
    ),
)
sysfs_option = click.option(
    "--sysfs",
    type=FileName(),
    metavar="DIR",
    help=(
        "The Neuron driver's tree of a neuron-monitor host, or a copy of it, such as /sys: health,"
        " power, and what the documents do not know."
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = setting(
    "--timeout", type=Duration(LONGEST_WAIT_S), default="5s", help="Longest wait for an answer."
)
site_options = option_group(
    "site",
    Site,
    (
        setting(
            "--pue",
            type=click.FloatRange(1, 3),
            default=PUE,
            help="Facility power divided by IT power; 1.14 is AWS's figure for 2025.",
        ),
        setting(
            "--ttft-limit",
            type=Duration(),
            default=f"{TTFT_LIMIT_S:g}s",
            help="Longest mean time to the first token of productive serving.",
        ),
        setting(
            "--tpot-limit",
            type=Duration(),
            default=f"{TPOT_LIMIT_S:g}s",
            help="Longest mean time of each further token.",
        ),
        setting(
            "--price",
            "prices",
            multiple=True,
            type=Price(),
            metavar="TYPE=USD",
            help=(
                "Price of an instance for an hour, if no reservation has one. By default such time"
                " has no price. Repeatable."
            ),
        ),
    ),
    without=("power_caps",),
)
power_cap_option = setting(
    "--power-cap",
    "power_caps",
    type=PowerCap(),
    metavar="PLACE=WATTS",
    multiple=True,
    help=(
        "Power cap of a rack, UltraServer, job, reservation or `fleet`, such as"
        " uc1/us-0001/rack-a=12kW; by default the catalogue's maxima. Repeatable."
    ),
)
mqtt_option = setting(
    "--mqtt",
    type=click.Choice(["5", "3.1.1"]),
    help="Use only this version of MQTT; by default 5, then 3.1.1.",
)
rules_option = setting(
    "--rules",
    type=ShippedName("alerts"),
    multiple=True,
    metavar="NAME|FILE",
    help=(
        "Alert rules: a shipped file's name, or a path; repeatable. By default all shipped rules."
    ),
)
durable_option = setting(
    "--durable",
    is_flag=True,
    help=("Write to the disk every second (fsync), so that a recording survives a power failure."),
)
clear_option = setting(
    "--clear",
    is_flag=True,
    help=(
        "At the end, clear the fleet's retained messages: descriptors, jobs, presence and others."
    ),
)


def broker_options(
    *,
    required: bool,
    with_root: bool = False,
    several: bool = False,
    from_variable: bool = True,
) -> Callable[[CommandT], CommandT]:
    """Return the options about a broker.

    The command gets `session: BrokerSession` instead.

    If a command also has `--mqtt`, the session uses that version.

    Args:
        required: Whether a broker must be given; otherwise `session` is None where none is.
        with_root: Whether the command takes `root`, too, because it needs the topics without a
            broker.
        several: Whether several brokers may be given; the command takes
            `sessions: tuple[BrokerSession, ...]` then.
        from_variable: Whether the broker may come from its variable.
    """

    def decorate(command: CommandT) -> CommandT:
        @access_options()
        @setting("--root", type=Root(), default=DEFAULT_ROOT, help="First part of every topic.")
        @functools.wraps(command)
        def with_session(
            *args: Any, broker: Any, access: AccessOptions, root: str, **others: Any
        ) -> Any:
            protocol = others.pop("mqtt", None)
            urls: tuple[BrokerUrl, ...] = broker if several else (broker,) if broker else ()
            urls = tuple(dict.fromkeys(urls))
            if len(urls) > MOST_LINKS:
                raise ConfigError(f"--broker: {len(urls)} brokers, over the limit of {MOST_LINKS}")
            sessions = tuple(make_session(url, root, access, protocol, urls) for url in urls)
            if with_root:
                others["root"] = root
            if several:
                return command(*args, sessions=sessions, **others)
            return command(*args, session=sessions[0] if sessions else None, **others)

        broker_option = setting(
            "--broker",
            type=Broker(),
            required=required,
            **({"multiple": True} if several else {"cls": OneOf, "noun": "broker"}),
            **({} if from_variable else {"envvar": None, "show_envvar": False}),
            help=BROKER_HELP + (" Repeat it for several brokers." if several else ""),
        )
        return broker_option(with_session)  # type: ignore[return-value]  # click reads its parameters, not its signature

    return decorate


class Destination(NamedTuple):
    """Fleet, and broker or stdout, of a command that publishes what it reads."""

    session: BrokerSession | None
    """None for stdout."""
    root: str
    name: str
    """The fleet's."""
    once: bool

    def run(
        self,
        publish: Callable[[BrokerSession], Coroutine[Any, Any, None]],
        write: Callable[[BinaryIO], Coroutine[Any, Any, None]],
    ) -> None:
        """Publish to the broker, or write to stdout."""
        import asyncio  # noqa: PLC0415  few commands need it

        if self.session is not None:
            asyncio.run(publish(self.session))
            return
        with exit_on_broken_pipe():
            asyncio.run(write(stdout_bytes()))


def destination_options(command: CommandT) -> CommandT:
    """Add the options about fleet and destination; the command gets `destination` instead."""

    @broker_options(required=False, with_root=True)
    @setting(
        "--name",
        type=FleetName(),
        cls=OneOf,
        noun="fleet",
        help=(
            "Name of the fleet to publish as; required, but with --once --stdout by default this"
            " machine's name."
        ),
    )
    @click.option("--once", is_flag=True, help="Read once, publish, and end.")
    @click.option("--stdout", is_flag=True, help="Write NDJSON to stdout instead of publishing.")
    @functools.wraps(command)
    def with_destination(
        *args: Any,
        session: BrokerSession | None,
        root: str,
        name: str | None,
        once: bool,
        stdout: bool,
        **others: Any,
    ) -> Any:
        if session is None and not stdout:
            raise click.UsageError("no destination: give --broker URL or --stdout")
        if stdout and "broker" in given_on_command_line(click.get_current_context()):
            raise click.UsageError("--stdout and --broker do not go together: choose one of them")
        if name is None:
            if not (stdout and once):
                hint = "'--name' (env var: 'TRNFLEET_NAME')"
                raise click.MissingParameter(param_type="option", param_hint=hint)
            name = to_segment(socket.gethostname()) or "host"
            report(f"without --name the fleet is shown as {name}, this machine's name")
        destination = Destination(None if stdout else session, root, name, once)
        return command(*args, destination=destination, **others)

    return with_destination  # type: ignore[return-value]  # click reads its parameters, not its signature


def access_options(prefix: str = "") -> Callable[[CommandT], CommandT]:
    """Return the options about credentials and TLS.

    The command gets `access: AccessOptions` instead.

    Args:
        prefix: Words before the help of each.
    """
    return option_group("access", AccessOptions, _access_rows(prefix))


def _access_rows(prefix: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        setting(
            "--user",
            type=Printable(),
            metavar="NAME",
            help=f"{prefix}User name, if the URL has none.",
        ),
        setting(
            "--password-file",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}File with the password, readable only by you. Without it the password is"
                f" {PASSWORD_VARIABLE}."
            ),
        ),
        setting(
            "--token-file",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}File with a token instead of a password, readable only by you. It is read"
                " for every connection."
            ),
        ),
        setting(
            "--ask-password", is_flag=True, help=f"{prefix}Ask for the password in the terminal."
        ),
        setting(
            "--ca",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}Certificate authorities that you trust for TLS (PEM); by default the"
                " system's."
            ),
        ),
        setting(
            "--cert",
            type=FileName(),
            metavar="FILE",
            help=f"{prefix}Client certificate for TLS (PEM).",
        ),
        setting(
            "--key",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}Private key of the certificate (PEM, not encrypted); by default in the"
                " same file."
            ),
        ),
        setting(
            "--alpn",
            type=Printable(LONGEST_ALPN),
            metavar="NAME",
            help=(
                f"{prefix}Protocol to request in TLS (ALPN), such as x-amzn-mqtt-ca for port 443 of"
                " AWS IoT Core."
            ),
        ),
        setting(
            "--insecure",
            is_flag=True,
            help=(
                f"{prefix}Do not verify certificate and host name of a TLS broker. Others can then"
                " read and change messages."
            ),
        ),
        setting(
            "--client",
            type=click.Choice(["mqtt5", "aiomqtt"]),
            default="mqtt5",
            hidden=True,
            help=f"{prefix}MQTT 5 reader: mqtt5 (faster) or aiomqtt.",
        ),
    )


class AccessOptions(NamedTuple):
    """Credentials, TLS and the client for a broker; the fields are the options' names."""

    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    ask_password: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    alpn: str | None = None
    insecure: bool = False
    client: str = "mqtt5"

    def fitting(
        self, url: BrokerUrl, given: Collection[str], urls: Sequence[BrokerUrl]
    ) -> AccessOptions:
        """Return the options without those unused by a URL.

        They are meant for all brokers. An option on the command line unused by all brokers is a
        contradiction, and stays.

        Args:
            url: The URL.
            given: Names of options on the command line.
            urls: URLs of all brokers.
        """
        wrong = {
            name for name in given if all(name in self._unused(broker_url) for broker_url in urls)
        }
        unused = self._unused(url) - wrong
        return self._replace(**{name: self._field_defaults[name] for name in unused})

    def _unused(self, url: BrokerUrl) -> set[str]:
        """Return the names of the options unused by a URL."""
        unused = set() if url.is_tls else set(_TLS)
        if url.user is not None:
            unused.add("user")
        elif self.user is None:
            unused.update(_PASSWORDS)
        return unused

    def strongest(self, strengths: Mapping[str, tuple[int, int]]) -> AccessOptions:
        """Return the options without those replaced by one of a stronger source.

        An example is a file of [common] beside --token-file.

        Args:
            strengths: Source of each option, the lower the stronger.
        """
        weak: set[str] = set()
        of_variable = (ParameterSource.ENVIRONMENT.value, 0)
        for group in _INSTEAD:
            given = [name for name in group if getattr(self, name)]
            sources = [strengths[name] for name in given]
            if group is _PASSWORDS and os.environ.get(PASSWORD_VARIABLE):
                sources.append(of_variable)
            weak.update(name for name in given if strengths[name] > min(sources))
        if self.cert and self.key and strengths["cert"] < strengths["key"]:
            # A key goes with its own certificate.
            weak.add("key")
        return self._replace(**{name: self._field_defaults[name] for name in weak})


def find_password(url: BrokerUrl, access: AccessOptions) -> Password | TokenFile | None:
    """Return the password or token file.

    The password comes from its file, a prompt, its variable or the service's credentials. None
    without one.

    Raises:
        ConfigError: a file cannot be read, is empty, or is readable by others; or several ways are
            set at once.
    """
    ways = {
        "--password-file": access.password_file,
        "--token-file": access.token_file,
        "--ask-password": access.ask_password,
    }
    given = [option for option, value in ways.items() if value]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} do not go together: choose one")
    if url.user is None and (access.token_file or access.ask_password):
        raise ConfigError(
            f"{given[0]} needs a user: {url.scheme}://user@{url.host}, or --user NAME"
        )
    from trnfleet.transport.security import (  # noqa: PLC0415  few commands need it
        TokenFile,
        read_secret,
    )

    if access.password_file:
        return Password(read_secret("--password-file", access.password_file))
    if access.token_file:
        token = TokenFile(access.token_file)
        token.check()
        return token
    if access.ask_password:
        return _asked_password(url)
    text = os.environ.get(PASSWORD_VARIABLE) or systemd.read_credential(systemd.PASSWORD)
    return Password(text) if text else None


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _asked_password(url: BrokerUrl) -> Password:
    if not _has_terminal():
        raise ConfigError(
            "--ask-password needs a terminal on stdin; give --password-file FILE or"
            f" {PASSWORD_VARIABLE} instead"
        )
    try:
        text = getpass.getpass(f"Password of {url.user} at {url.host}: ")
    except EOFError:
        text = ""
    if not text:
        raise ConfigError("--ask-password: no password was given")
    return Password(text)


def make_session(
    url: BrokerUrl,
    root: str,
    access: AccessOptions,
    protocol: Any = None,
    urls: Sequence[BrokerUrl] = (),
) -> BrokerSession:
    """Return the session that options describe.

    Args:
        url: The broker.
        root: First part of every topic.
        access: Credentials and TLS, as they are given for all brokers.
        protocol: The only version of MQTT; None for any.
        urls: All brokers; none for this one alone.

    Raises:
        ConfigError: the password or a certificate cannot be read, or options contradict each other.
    """
    ctx = click.get_current_context()
    access = access.strongest(strengths(ctx)).fitting(
        url, given_on_command_line(ctx), urls or (url,)
    )
    if access.user is not None:
        url = with_user(url, access.user)
    from trnfleet.transport.security import TlsSettings  # noqa: PLC0415  it loads ssl

    tls = TlsSettings(access.ca, access.cert, access.key, access.alpn, access.insecure)
    tls.check(url)
    password = find_password(url, access)
    from trnfleet.services.session import BrokerSession  # noqa: PLC0415  it loads the MQTT client

    return BrokerSession(url, root, password, protocol, tls=tls, client=access.client)  # type: ignore[arg-type]  # click knows the choices


def broker_arguments(session: BrokerSession | None, root: str) -> list[str]:
    """Return the broker options, without the broker, as arguments for a child command.

    A password is not an argument; its variable passes it on.

    Args:
        session: The session of this command; None for a broker of its own.
        root: First part of every topic.
    """
    arguments = ["--root", root]
    if session is None:
        return arguments
    tls = session.tls
    password = session.password
    named = {
        "--ca": tls.ca,
        "--cert": tls.cert,
        "--key": tls.key,
        "--alpn": tls.alpn,
        "--token-file": (
            None if password is None or isinstance(password, Password) else password.path
        ),
    }
    for option, value in named.items():
        if value:
            arguments += [option, value]
    if session.client != "mqtt5":
        arguments += ["--client", session.client]
    return [*arguments, "--insecure"] if tls.insecure else arguments


class LogOptions(NamedTuple):
    """Format and level of logs."""

    log_format: str
    log_level: str

    def set_up(self, file: Path | None = None) -> None:
        """Configure logging: to stderr, or to a file while the app owns the terminal.

        Raises:
            ConfigError: the file cannot be opened.
        """
        try:
            logs.configure(
                log_format="json" if self.log_format == "json" else "console",
                level=self.log_level,
                file=file,
            )
        except OSError as error:
            raise ConfigError(f"--log-file {file}: {error.strerror or error}") from error


_LOG_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    setting(
        "--log-format",
        type=click.Choice(["console", "json"]),
        default="console",
        help="Format of log lines.",
    ),
    setting(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="warning",
        help="Log messages from this level on.",
    ),
    *settings_options(),
)
app_log_options = option_group("log", LogOptions, _LOG_OPTIONS)
"""Options about logs; the command gets `log: LogOptions`, and sets logging up to a file."""


def log_options(command: CommandT) -> CommandT:
    """Add the options about logs; they are set up when the command is called."""

    @functools.wraps(command)
    def with_logs(*args: Any, log_format: str, log_level: str, **others: Any) -> Any:
        LogOptions(log_format, log_level).set_up()
        return command(*args, **others)

    return with_options(with_logs, _LOG_OPTIONS)  # type: ignore[return-value]  # as above


class HostOptions(NamedTuple):
    """Where the facts of this host are."""

    host_root: str
    imds: str
    job_mapping: str | None

    @property
    def root(self) -> Path:
        """The host's root directory.

        Raises:
            ConfigError: it is no folder.
        """
        root = Path(self.host_root)
        if not root.is_dir():
            raise ConfigError(f"--host-root {root}: there is no such folder")
        return root

    @property
    def jobs(self) -> Path | None:
        """Folder of the job mapping; None for the usual one."""
        return None if self.job_mapping is None else Path(self.job_mapping)


host_options = option_group(
    "host",
    HostOptions,
    (
        setting(
            "--host-root",
            type=FileName(),
            default="/",
            metavar="DIR",
            help="Folder with the host's sys and dev, as mounted in a container.",
        ),
        setting(
            "--imds",
            default="http://169.254.169.254",
            metavar="URL",
            help='The instance metadata service; "none" leaves it out.',
        ),
        setting(
            "--job-mapping",
            type=FileName(),
            metavar="DIR",
            help=(
                "Folder in which a scheduler writes a file for each device, with a job id on each"
                " line; by default /run/trnfleet/jobs of the host."
            ),
        ),
    ),
)


def given_on_command_line(ctx: click.Context) -> set[str]:
    """Return the options on the command line itself, not from variables or settings files."""
    return {
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
