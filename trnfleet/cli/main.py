"""The command line: finds and loads the command, and reports errors in one line.

An error ends it with an exit status.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from trnfleet import __version__
from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.errors import (
    BrokerError,
    CloudError,
    ConfigError,
    ExitStatus,
    NotConfirmedError,
    TrnfleetError,
    nearest,
)
from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from click.shell_completion import CompletionItem

_AS_JSON = "trnfleet.version_as_json"

_KINDS: dict[type[TrnfleetError], tuple[str, int]] = {
    ConfigError: ("config", ExitStatus.INVALID),
    NotConfirmedError: ("not-confirmed", ExitStatus.NOT_CONFIRMED),
    BrokerError: ("broker", ExitStatus.FAILED),
    CloudError: ("cloud", ExitStatus.FAILED),
    TrnfleetError: ("failed", ExitStatus.FAILED),
}
"""Kind and exit status of each class of errors, a class before its base."""

EPILOG = """\b
Examples:
  trnfleet                                   the demo: nothing else needed
  trnfleet --fleet cluster-10k               the demo with 10,240 chips
  trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet demo
  trnfleet monitor --broker mqtt://127.0.0.1:1883
  trnfleet simulate --stdout --fleet demo --seed 7 --ticks 20
  trnfleet record night.mcap --broker mqtt://127.0.0.1:1883
  trnfleet replay night.mcap
  trnfleet status --broker mqtt://127.0.0.1:1883 --json
  trnfleet fleet describe demo

\b
Exit status: 0 success, 1 a failure explained in one line, 2 wrong use or an invalid file, 3 unhealthy
(status, alerts, doctor, watch --exit-on), 4 sent, but not confirmed (MQTT 3.1.1).
"""  # noqa: E501


_OWN_OPTIONS = {"-h", "--help", "--version"}
"""Options of the group itself. Any other option at the start of a call is the demo's."""

PREFIX = "TRNFLEET_"
BESIDE_OPTIONS = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("CONFIG", "PROFILE", "MQTT_PASSWORD", "ALERTMANAGER_PASSWORD", "WEBHOOK_PASSWORD"),
        # Passwords of the users of config/brokers/nats.conf.
        *(
            f"{role}_PASSWORD"
            for role in ("PUBLISHER", "WATCH", "VIEWER", "OPERATOR", "RELAY", "AGENT")
        ),
    )
)
"""Variables without an option."""
OF_AN_ALERT = f"{PREFIX}ALERT_"
"""Prefix of the variables set by a watch for its programs."""

_KEY = re.compile(r"^(?:# )?([a-z-]+) = ", re.MULTILINE)


class LazyGroup(click.Group):
    """A group that imports its commands on call, so that `--help` is quick."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        return load_command(name) if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name is refused with the nearest known one."""
        # While a shell completes a line, a wrong name has nothing to complete and no place for a
        # message.
        is_wrong = args and not args[0].startswith("-") and args[0] not in COMMANDS
        if is_wrong and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}: {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a call without a command as the demo's.

        During completion the command may still follow.
        """
        is_bare = not args and not ctx.resilient_parsing
        is_own = bool(args) and (
            args[0] in _OWN_OPTIONS or ("--version" in args and args[0] == "--json")
        )
        if is_bare or (args and args[0].startswith("-") and not is_own):
            args = ["demo", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, after a warning about unknown variables."""
        from trnfleet.cli.output import report  # noqa: PLC0415  the list of commands needs none

        for line in unknown_variables(os.environ):
            report(f"trnfleet: {line}")
        return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands without importing them, or options of the group and the demo.

        The demo needs no command name.
        """
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion needs it

        if not incomplete.startswith("-"):
            return [
                CompletionItem(name, help=text)
                for name, text in COMMANDS.items()
                if name.startswith(incomplete)
            ]
        items = super().shell_complete(ctx, incomplete)
        demo = self.get_command(ctx, "demo")
        if demo is not None:
            items += demo.shell_complete(
                click.Context(demo, parent=ctx, info_name="demo"), incomplete
            )
        return list({item.value: item for item in items}.values())


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _param, is_given: _print_version(ctx) if is_given else None,
    help="Print the version and exit.",
)
@click.option(
    "--json",
    is_flag=True,
    is_eager=True,  # it is read before --version, which prints and exits
    expose_value=False,
    callback=lambda ctx, _param, is_given: ctx.meta.__setitem__(_AS_JSON, is_given),
    help=(
        "With --version: print all versions as JSON, with dependencies, wire and recording format."
    ),
)
def cli() -> None:
    """Watch a fleet of AWS Trainium chips in the terminal, or simulate one, over MQTT.

    Without a command, trnfleet runs the demo and accepts its options (trnfleet demo --help).
    """


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Yield a line about each variable without an option.

    The shipped settings file lists every option with a variable, so no command has to be loaded.
    """
    names = [
        name
        for name in environment
        if name.startswith(PREFIX)
        and name not in BESIDE_OPTIONS
        and not name.startswith(OF_AN_ALERT)
    ]
    if not names:
        return
    import difflib  # noqa: PLC0415  only a wrong name needs it

    from trnfleet.config import shipped_folder  # noqa: PLC0415  as above

    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    known = {PREFIX + key.upper().replace("-", "_") for key in _KEY.findall(text)}
    choices = [variable.removeprefix(PREFIX) for variable in known | BESIDE_OPTIONS]
    for name in sorted(set(names) - known):
        close = difflib.get_close_matches(name.removeprefix(PREFIX), choices, n=1)
        hint = f"did you mean {PREFIX}{close[0]}?" if close else "no option has this variable"
        yield f"{plain(name, 80)} is ignored: {hint}"


def _print_version(ctx: click.Context) -> None:
    if ctx.resilient_parsing:
        return
    if ctx.meta[_AS_JSON]:
        from trnfleet.cli.output import print_json  # noqa: PLC0415  only this needs it
        from trnfleet.cli.version import versions  # noqa: PLC0415  as above

        print_json(versions())
    else:
        click.echo(f"trnfleet, version {__version__}")
    ctx.exit()


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    `EPILOG` lists them.

    Errors go to stderr: as text, or with --json as one line of JSON.
    """
    words = list(sys.argv[1:] if args is None else args)
    try:
        result: Any = cli.main(args=words, prog_name="trnfleet", standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except (click.ClickException, TrnfleetError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("trnfleet"):
            raise
        failure = Failure.from_error(error)
        if "--json" in itertools.takewhile(lambda word: word != "--", words):
            click.echo(failure.as_json(), err=True)
        elif isinstance(error, click.ClickException):
            error.show()
        else:
            click.echo(f"trnfleet: {failure.message}", err=True)
        return failure.status
    return result if isinstance(result, int) else 0


class Failure(NamedTuple):
    """Why a command failed; text from files and names in it is plain."""

    kind: str
    status: int
    message: str

    @staticmethod
    def from_error(
        error: click.ClickException | TrnfleetError | OSError | ModuleNotFoundError,
    ) -> Failure:
        """Return an error's meaning to the user."""
        if isinstance(error, click.ClickException):
            return Failure("usage", error.exit_code, plain(error.format_message(), LONGEST_LINE))
        if isinstance(error, TrnfleetError):
            kind, status = next(
                row for error_type, row in _KINDS.items() if isinstance(error, error_type)
            )
            lines = [plain(line, LONGEST_LINE) for line in str(error).splitlines()]
            return Failure(kind, status, "\n".join(lines))
        if isinstance(error, ModuleNotFoundError):
            text = f"{error.name} is not installed: install trnfleet with all its dependencies"
            return Failure("system", ExitStatus.FAILED, text)
        named = (
            f"{plain(str(error.filename), LONGEST_LINE)}: " if error.filename is not None else ""
        )
        return Failure("system", ExitStatus.FAILED, f"{named}{error.strerror or error}")

    def as_json(self) -> str:
        """Return it as one line."""
        import json  # noqa: PLC0415  only --json needs it

        return json.dumps({"v": 1, "error": self._asdict()})
