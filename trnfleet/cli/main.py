"""The command line: finds the command, loads only what it needs, and turns errors into one line and an exit status."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from trnfleet import __version__
from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.errors import ConfigError, NotConfirmedError, TrnfleetError, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

_AS_JSON = "trnfleet.version_as_json"
_WIDEST = 4_000
"""Characters of a line of an error."""

STATUSES: dict[type[TrnfleetError], int] = {ConfigError: 2, NotConfirmedError: 4}
"""Exit statuses of errors; 1 for any other."""

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
"""


_OWN_OPTIONS = {"-h", "--help", "--version"}
"""Options of the group itself; any other that begins a call is the demo's."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `--help` is quick."""

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
        # While a shell completes a line, a wrong name has nothing to complete and no place for a message.
        is_wrong = args and not args[0].startswith("-") and args[0] not in COMMANDS
        if is_wrong and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}: {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.help) for name, row in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a call without a command as the demo's; during completion the command may still follow."""
        is_bare = not args and not ctx.resilient_parsing
        is_own = bool(args) and (
            args[0] in _OWN_OPTIONS or ("--version" in args and args[0] == "--json")
        )
        if is_bare or (args and args[0].startswith("-") and not is_own):
            args = ["demo", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands without importing them, or options: the group's and the demo's, which needs no name."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion needs it

        if not incomplete.startswith("-"):
            return [
                CompletionItem(name, help=row.help)
                for name, row in COMMANDS.items()
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
    help="With --version: print all versions as JSON, those of dependencies, wire and recordings, too.",
)
def cli() -> None:
    """Watch a fleet of AWS Trainium chips in the terminal, or simulate one, over MQTT.

    Without a command: the demo, with its options (trnfleet demo --help).
    """


def _print_version(ctx: click.Context) -> None:
    if ctx.resilient_parsing:
        return
    if ctx.meta[_AS_JSON]:
        import json  # noqa: PLC0415  only this needs it

        from trnfleet.cli.version import versions  # noqa: PLC0415  as above

        click.echo(json.dumps(versions(), indent=2))
    else:
        click.echo(f"trnfleet, version {__version__}")
    ctx.exit()


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (explained failure), 2 (wrong use), 3 (unhealthy), 4 (not confirmed)."""
    try:
        result: Any = cli.main(
            args=list(args) if args is not None else None,
            prog_name="trnfleet",
            standalone_mode=False,
        )
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except TrnfleetError as error:
        _explain(error)
        return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 1)
    except OSError as error:
        named = f"{plain(str(error.filename), _WIDEST)}: " if error.filename is not None else ""
        click.echo(f"trnfleet: {named}{error.strerror or error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _explain(error: TrnfleetError) -> None:
    """Write an error to stderr; text from files and names in it is made plain."""
    lines = [plain(line, _WIDEST) for line in str(error).splitlines()]
    click.echo("trnfleet: " + "\n".join(lines), err=True)
