"""Options shared by several commands, with their variables and places in the settings file.

An option comes from the command line, else from its `TRNFLEET_...` variable, else from the settings
files, else from its default. Passwords come from TRNFLEET_MQTT_PASSWORD, a file or a prompt, never
from the command line.

`broker_options` turns all options about a broker into one `BrokerSession`. An option for every
command with a broker is a row in `_access_rows` here, a field of `AccessOptions`, and a field
there, filled by `make_session`; `broker_arguments` passes it to the demo's simulator.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from trnfleet import folders, logs
from trnfleet.cli.access import PASSWORD_VARIABLE, AccessOptions, find_password
from trnfleet.cli.names import FileName
from trnfleet.cli.output import report
from trnfleet.cli.params import Broker, Duration, FleetName, Printable, Root, Size
from trnfleet.cli.settings.layers import complete_profile, read_settings, strengths
from trnfleet.cli.settings.one_of import OneOf
from trnfleet.errors import ConfigError
from trnfleet.text import plain
from trnfleet.transport.url import LONGEST_ALPN, Password, with_user
from trnfleet.wire.ports import MOST_LINKS
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.url import BrokerUrl

CommandT = TypeVar("CommandT", bound="Callable[..., Any]")

LONGEST_WAIT_S = 3_600.0
"""Longest wait for an answer or for telemetry. Simulators refuse commands with a longer validity.
"""


BROKER_HELP = (
    "The broker: [mqtt|mqtts|ws|wss]://[user@]host[:port][/path]; mqtt:// may be left out, the port"
    " is 1883, 8883 with TLS."
)


def setting(*flags: str, **attributes: Any) -> Callable[[CommandT], CommandT]:
    """Return a click option with its TRNFLEET_ variable, also shown in the help."""
    name = next(flag for flag in flags if flag.startswith("--")).split("/")[0][2:].replace("-", "_")
    attributes.setdefault("envvar", f"TRNFLEET_{name.upper()}")
    attributes.setdefault("show_envvar", True)
    if "default" in attributes and attributes["default"] is not None:
        attributes.setdefault("show_default", True)
    return click.option(*flags, **attributes)


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
                "Settings file (TOML) that gives other defaults, in place of the user's and the"
                " system's (trnfleet config path); none for no file."
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
                "Profile of the settings file: the defaults in its table [profile.NAME]; none for"
                " no profile."
            ),
        ),
    )


fleet_option = setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="Name of the fleet, where the broker has several.",
)
fleets_option = setting(
    "--name",
    "names",
    type=FleetName(),
    multiple=True,
    help="Name of the fleet, where there are several; once more for each further fleet.",
)
all_fleets_option = setting(
    "--all-fleets",
    is_flag=True,
    help="All fleets that are on the brokers; the app also shows those that come later.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = setting(
    "--timeout", type=Duration(LONGEST_WAIT_S), default="5s", help="Longest wait for an answer."
)
pue_option = setting(
    "--pue",
    type=click.FloatRange(1, 3),
    help="Facility power over IT power; by default 1.14, AWS's global figure for 2025.",
)
mqtt_option = setting(
    "--mqtt",
    type=click.Choice(["5", "3.1.1"]),
    help="Only version of MQTT to use; by default 5, else 3.1.1.",
)
past_option = setting(
    "--past",
    type=Size(0),
    default="1GiB",
    help="Disk for going back in time; 0 keeps nothing. Deleted at the end.",
)
history_option = setting(
    "--history",
    type=FileName(),
    metavar="FOLDER",
    help=(
        "Folder of `trnfleet history write`: charts of 24 hours, 7 and 30 days, and all of it."
        " Needs DuckDB: pip install duckdb."
    ),
)
durable_option = setting(
    "--durable",
    is_flag=True,
    help=(
        "Wait for the disk every second (fsync), so that a recording survives the machine's loss of"
        " power."
    ),
)
clear_option = setting(
    "--clear",
    is_flag=True,
    help=(
        "At the end, clear what the broker retains of it: descriptors, jobs, presence and the rest."
    ),
)
log_file_option = setting(
    "--log-file",
    type=FileName(),
    metavar="FILE",
    help="Log file; by default trnfleet/app.log in the state folder.",
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
            help=BROKER_HELP + (" Once more for each further broker." if several else ""),
        )
        return broker_option(with_session)  # type: ignore[return-value]  # click reads its parameters, not its signature

    return decorate


def access_options(prefix: str = "") -> Callable[[CommandT], CommandT]:
    """Return the options about credentials and TLS.

    The command gets `access: AccessOptions` instead.

    Args:
        prefix: Words before the help of each.
    """

    def decorate(command: CommandT) -> CommandT:
        @functools.wraps(command)
        def with_access(*args: Any, **others: Any) -> Any:
            access = AccessOptions(**{name: others.pop(name) for name in AccessOptions._fields})
            return command(*args, access=access, **others)

        return _with_options(with_access, _access_rows(prefix))  # type: ignore[return-value]  # as above

    return decorate


def _access_rows(prefix: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        setting(
            "--user",
            type=Printable(),
            metavar="NAME",
            help=f"{prefix}User's name, where the URL has none.",
        ),
        setting(
            "--password-file",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}File with the user's password, readable by you alone; else"
                f" {PASSWORD_VARIABLE}."
            ),
        ),
        setting(
            "--token-file",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}File with a token in the password's place, read again for every"
                " connection; readable by you alone."
            ),
        ),
        setting(
            "--ask-password", is_flag=True, help=f"{prefix}Ask for the password on the terminal."
        ),
        setting(
            "--ca",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}Certificates of the authorities that a TLS broker may be of (PEM); by"
                " default the system's."
            ),
        ),
        setting(
            "--cert",
            type=FileName(),
            metavar="FILE",
            help=f"{prefix}The client's certificate for TLS (PEM).",
        ),
        setting(
            "--key",
            type=FileName(),
            metavar="FILE",
            help=(
                f"{prefix}The certificate's private key (PEM, not encrypted); by default in the"
                " same file."
            ),
        ),
        setting(
            "--alpn",
            type=Printable(LONGEST_ALPN),
            metavar="NAME",
            help=(
                f"{prefix}Protocol to ask for within TLS, such as x-amzn-mqtt-ca for port 443 of"
                " AWS IoT Core."
            ),
        ),
        setting(
            "--insecure",
            is_flag=True,
            help=(
                f"{prefix}Verify neither certificate nor host name of a TLS broker: anybody may"
                " read and write along."
            ),
        ),
        setting(
            "--client",
            type=click.Choice(["mqtt5", "aiomqtt"]),
            default="mqtt5",
            help=(
                f"{prefix}What reads in MQTT 5 over TCP and TLS: the quicker one, or the one that"
                " writes and reads all else."
            ),
        ),
    )


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
    from trnfleet.transport.security.tls import TlsSettings  # noqa: PLC0415  it loads ssl

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

    format: str
    level: str

    def set_up(self, file: Path | None = None) -> None:
        """Configure logging: to stderr, or to a file while the app owns the terminal.

        Raises:
            ConfigError: the file cannot be opened.
        """
        try:
            logs.configure(
                log_format="json" if self.format == "json" else "console",
                level=self.level,
                file=file,
            )
        except OSError as error:
            raise ConfigError(f"--log-file {file}: {error.strerror or error}") from error


def log_options(command: CommandT) -> CommandT:
    """Add the options about logs; they are set up when the command is called."""

    @functools.wraps(command)
    def with_logs(*args: Any, log_format: str, log_level: str, **others: Any) -> Any:
        LogOptions(log_format, log_level).set_up()
        return command(*args, **others)

    return _with_options(with_logs, _LOG_OPTIONS)  # type: ignore[return-value]  # as above


def app_log_options(command: CommandT) -> CommandT:
    """Add the options about logs and set logging up, to a file for the app.

    The command gets `log: LogOptions`.
    """

    @functools.wraps(command)
    def with_log(*args: Any, log_format: str, log_level: str, **others: Any) -> Any:
        return command(*args, log=LogOptions(log_format, log_level), **others)

    return _with_options(with_log, _LOG_OPTIONS)  # type: ignore[return-value]  # as above


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
        help="The least severe level that is logged.",
    ),
    *settings_options(),
)


def _with_options(
    command: Callable[..., Any], options: tuple[Callable[[Any], Any], ...]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def given_on_command_line(ctx: click.Context) -> set[str]:
    """Return the options on the command line itself, not from variables or settings files."""
    return {
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def log_file_for_app(given: str | None, *, keeps_past: bool = False) -> Path:
    """Return the app's log file: the given one, or one in the state folder.

    Without a writable home it is in a temporary folder, and stderr names once the places of log and
    past instead.

    Args:
        given: The option's value.
        keeps_past: Whether the app keeps its past in the cache folder.

    Raises:
        ConfigError: there is no folder to write to at all.
    """
    elsewhere: dict[str, str] = {}
    problem = ""
    file = Path(given) if given else None
    if file is None:
        state = folders.state_folder()
        problem = state.problem or folders.why_not_writable(state.path / "app.log")
        if problem:
            problem = state.problem or f"{state.path / 'app.log'}: {problem}"
            state = folders.OwnFolder(folders.temporary_folder())
            elsewhere["the log"] = str(state.path)
        file = state.path / "app.log"
    if keeps_past:
        cache = folders.cache_folder()
        if cache.problem:
            problem = problem or cache.problem
            elsewhere["the past"] = str(cache.path)
    if elsewhere:
        names = " and ".join(elsewhere)
        verb = "are" if len(elsewhere) > 1 else "is"
        report(
            f"trnfleet: {plain(problem, 300)}; {names} {verb} in"
            f" {plain(next(iter(elsewhere.values())), 300)}"
        )
    return file
