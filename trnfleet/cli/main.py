"""The command line: finds the command, loads only what it needs, and turns errors into one line and an exit status."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from trnfleet import __version__
from trnfleet.errors import ConfigError, TrnfleetError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

COMMANDS = {
    "demo": (
        "trnfleet.cli.commands.demo",
        "Embedded broker, simulator and app in one; what `trnfleet` alone does.",
    ),
    "monitor": ("trnfleet.cli.commands.monitor", "The app against a broker."),
    "simulate": ("trnfleet.cli.commands.simulate", "Headless telemetry to a broker, or NDJSON to stdout."),
    "record": ("trnfleet.cli.commands.record", "All that a broker delivers, into a file."),
    "replay": (
        "trnfleet.cli.commands.replay",
        "A recording into the app, back to a broker, or NDJSON to stdout.",
    ),
    "info": ("trnfleet.cli.commands.info", "What is in a recording: times, topics, counts, gaps."),
    "convert": (
        "trnfleet.cli.commands.convert",
        "Recordings to and from mosquitto_sub lines and neuron-monitor NDJSON.",
    ),
    "check": (
        "trnfleet.cli.commands.check",
        "Whether files are valid: recordings, fleets, scenarios, rules, settings.",
    ),
    "status": (
        "trnfleet.cli.commands.status",
        "One shot: a fleet's summary as text or JSON; exit status 3 if unhealthy.",
    ),
    "inject": (
        "trnfleet.cli.commands.inject",
        "Cause a fault in a running simulator, or list what may be caused.",
    ),
    "jump": ("trnfleet.cli.commands.jump", "Let a running simulator's time jump ahead."),
    "reserve": ("trnfleet.cli.commands.reserve", "Look for, buy, extend and list Capacity Blocks."),
    "usage": ("trnfleet.cli.commands.usage", "What is used of what is reserved over a period, as CSV."),
    "bridge": ("trnfleet.cli.commands.bridge", "Reservations of a real AWS account, from EC2 to a broker."),
    "watch": (
        "trnfleet.cli.commands.watch",
        "Headless alerts: to the broker, Alertmanager, webhooks, programs, stdout.",
    ),
    "alerts": (
        "trnfleet.cli.commands.alerts",
        "One shot: what fires, as a watch says; exit status 3 if critical and in nobody's hand.",
    ),
    "ack": ("trnfleet.cli.commands.ack", "Take an alert in hand, or give it out of hand."),
    "silence": ("trnfleet.cli.commands.silence", "Silence alerts for a while; list and end silences."),
    "rules": ("trnfleet.cli.commands.rules", "Check, test and list alert rules."),
    "fleet": ("trnfleet.cli.commands.fleet", "What a fleet file describes."),
    "broker": ("trnfleet.cli.commands.broker", "The embedded broker alone."),
}
"""Module and short help of each command; modules are imported when their command is called."""

_WIDEST = 4_000
"""Characters of a line of an error."""

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
(status, alerts, watch --exit-on).
"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `--help` is quick."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are told."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is none is refused with the nearest that is."""
        # While a shell completes a line, a wrong name has nothing to complete and no place for a message.
        is_wrong = args and not args[0].startswith("-") and args[0] not in COMMANDS
        if is_wrong and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}: {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a call without a command as the demo's; a line that a shell completes may get its command yet."""
        is_bare = not args and not ctx.resilient_parsing
        if is_bare or (args and args[0].startswith("-") and args[0] not in {"-h", "--help", "--version"}):
            args = ["demo", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands without importing them, or options: the group's and the demo's, which needs no name."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only completion needs it

        if not incomplete.startswith("-"):
            return [
                CompletionItem(name, help=text)
                for name, (_, text) in COMMANDS.items()
                if name.startswith(incomplete)
            ]
        items = super().shell_complete(ctx, incomplete)
        demo = self.get_command(ctx, "demo")
        if demo is not None:
            items += demo.shell_complete(click.Context(demo, parent=ctx, info_name="demo"), incomplete)
        return list({item.value: item for item in items}.values())


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="trnfleet")
def cli() -> None:
    """Watch a fleet of AWS Trainium chips in the terminal, or simulate one, over MQTT.

    Without a command: the demo, with its options (trnfleet demo --help).
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (explained failure), 2 (wrong use) or 3 (unhealthy)."""
    try:
        result: Any = cli.main(
            args=list(args) if args is not None else None, prog_name="trnfleet", standalone_mode=False
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
        return 2 if isinstance(error, ConfigError) else 1
    except OSError as error:
        click.echo(f"trnfleet: {error.strerror or error}", err=True)
        return 1
    return result if isinstance(result, int) else 0


def _explain(error: TrnfleetError) -> None:
    """Write an error to stderr; what it quotes of files and names is made plain."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    lines = [plain(line, _WIDEST) for line in str(error).splitlines()]
    click.echo("trnfleet: " + "\n".join(lines), err=True)
