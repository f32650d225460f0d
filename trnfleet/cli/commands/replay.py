"""`trnfleet replay`: a recording into the app, back to a broker, or to stdout as NDJSON."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import click

from trnfleet.cli.alerting import Alerting, Calling, rules_option
from trnfleet.cli.options import (
    Broker,
    FleetName,
    Root,
    TopicFilter,
    find_password,
    log_file_for_app,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.cli.recording import Asked, Moment, fleet_of, opened, part_of, reader_may_leave, stdout_bytes
from trnfleet.cli.running import Above, Kinds, given_on_command_line
from trnfleet.errors import ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trnfleet.transport.url import BrokerUrl


@click.command("replay")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@setting("--broker", type=Broker(), envvar=None, show_envvar=False, help="Publish to this broker instead.")
@setting("--password-file", metavar="FILE", help="With --broker: file with the user's password.")
@setting("--root", type=Root(), envvar=None, show_envvar=False, help="With --broker: another root of topics.")
@click.option("--stdout", is_flag=True, help="Write NDJSON to stdout instead, as simulate --stdout does.")
@setting("--name", type=FleetName(), help="Which fleet, where the recording has several.")
@setting(
    "--from", "begin", type=Moment(), help="Where to begin: an instant, 14:03, +90s, or -90s for the end."
)
@setting("--to", "end", type=Moment(), help="Where to end.")
@setting(
    "--speed",
    type=Above(1e6),
    default=1.0,
    help="Seconds of the recording a second; the app plays at 0.125 to 1000.",
)
@click.option("--loop", is_flag=True, help="Begin again at the end.")
@setting(
    "--filter",
    "filters",
    type=TopicFilter(),
    multiple=True,
    metavar="TOPIC",
    help="With --broker: only topics under this filter, as they were recorded; repeatable.",
)
@setting("--as", "new_name", type=FleetName(), help="With --broker: publish under another fleet's name.")
@click.option(
    "--allow-remote", is_flag=True, help="With --broker: let the broker be on another machine than this one."
)
@setting("--mqtt", type=click.Choice(["5", "3.1.1"]), help="With --broker: speak only this version.")
@setting(
    "--include",
    type=Kinds(),
    default="telemetry",
    help="With --stdout: which lines, of telemetry, events, jobs, reservations.",
)
@setting(
    "--pue",
    type=click.FloatRange(1, 3),
    help="Facility power over IT power; by default 1.14, AWS's global figure for 2025.",
)
@rules_option
@setting(
    "--log-file", metavar="FILE", help="Where the app logs; by default trnfleet/app.log in the state folder."
)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    broker: BrokerUrl | None,
    password_file: str | None,
    root: str | None,
    stdout: bool,
    name: str | None,
    begin: str | None,
    end: str | None,
    speed: float,
    loop: bool,
    filters: tuple[str, ...],
    new_name: str | None,
    allow_remote: bool,
    mqtt: Literal["5", "3.1.1"] | None,
    include: tuple[str, ...],
    pue: float | None,
    rules: tuple[str, ...],
    log_file: str | None,
    log_format: str,
    log_level: str,
) -> None:
    """Play recordings: into the app, back to a broker (--broker), or to stdout as NDJSON (--stdout).

    Several FILEs, such as the parts of one recording, are played one after the other. Lines of mosquitto_sub -F '%j' and of
    neuron-monitor are understood, too.

    \b
    Examples:
      trnfleet replay night.mcap --from 03:10 --speed 8
      trnfleet replay night-*.mcap --broker mqtt://127.0.0.1:1883 --as rehearsal --loop
      trnfleet replay night.mcap --stdout | jq .power_w
    """
    asked = Asked(files, name, begin, end, speed, loop)
    given = given_on_command_line(ctx)
    # A broker or root that the settings name for all commands is where to read from, not where to replay to.
    broker = broker if "broker" in given else None
    root = root if "root" in given else None
    _check(given, broker, stdout=stdout, allow_remote=allow_remote)
    if stdout:
        set_up_logs(log_format, log_level)
        _write(asked, include)
    elif broker is not None:
        set_up_logs(log_format, log_level)
        from trnfleet.cli.replaybroker import ToBroker, publish  # noqa: PLC0415  --help stays quick

        with opened(files, name=name) as recording:
            to = ToBroker(broker, find_password(password_file), root, filters, new_name, mqtt)
            asyncio.run(publish(recording, asked, to))
    else:
        from trnfleet.cli.app import require_terminal  # noqa: PLC0415  --help stays quick
        from trnfleet.cli.replaying import run_replay_app  # noqa: PLC0415  --help stays quick
        from trnfleet.cli.rulepack import load_rules  # noqa: PLC0415  --help stays quick
        from trnfleet.monitor.replay.playback import RATES  # noqa: PLC0415  --help stays quick

        require_terminal("--stdout, or --broker")
        file = log_file_for_app(log_file)
        set_up_logs(log_format, log_level, file)
        alerting = Alerting(load_rules(rules), None, Calling(bell=False, notify=False), may_write=False)
        with opened(files, name=name) as recording:
            fleet = fleet_of(recording, name, files[0])
            from_ns, to_ns = part_of(recording, begin, end)
            shown = run_replay_app(
                recording,
                fleet,
                from_ns=from_ns,
                to_ns=to_ns,
                speed=min(max(speed, RATES[0]), RATES[-1]),
                loops=loop,
                alerting=alerting,
                pue=pue,
                log_file=file,
            )
            ctx.exit(asyncio.run(shown))


def _check(given: Collection[str], broker: BrokerUrl | None, *, stdout: bool, allow_remote: bool) -> None:
    """Refuse options that do not go together, and a broker elsewhere that was not allowed."""
    if stdout and broker is not None:
        raise click.UsageError("--stdout and --broker do not go together: say where to with one of them")
    for parameter, flag in (
        ("filters", "--filter"),
        ("new_name", "--as"),
        ("allow_remote", "--allow-remote"),
        ("mqtt", "--mqtt"),
        ("root", "--root"),
    ):
        if broker is None and parameter in given:
            raise click.UsageError(f"{flag} goes with --broker")
    if not stdout and "include" in given:
        raise click.UsageError("--include goes with --stdout")
    if stdout and not {"speed", "loop"}.isdisjoint(given):
        raise click.UsageError("--speed and --loop do not go with --stdout, which is as fast as it is read")
    if broker is not None and not broker.is_loopback and not allow_remote:
        raise ConfigError(
            f"--broker {broker}: a replay goes to this machine's own brokers only, so that nobody takes it for the "
            "present; --allow-remote lets it go elsewhere"
        )


def _write(asked: Asked, kinds: Sequence[str]) -> None:
    """Write a recording's lines to stdout, as fast as they are read."""
    from trnfleet.record.read.ndjson import Lines  # noqa: PLC0415  --help stays quick

    with opened(asked.files, name=asked.name) as recording:
        fleet = fleet_of(recording, asked.name, asked.files[0])
        lines = Lines(recording.root, fleet, kinds)
        output = stdout_bytes()
        with reader_may_leave():
            output.writelines(lines.lines(recording, *part_of(recording, asked.begin, asked.end)))
            output.flush()
        if lines.left_out:
            messages = "1 message was" if lines.left_out == 1 else f"{lines.left_out:,} messages were"
            click.echo(f"{messages} left out; the first: {plain(lines.problem, 300)}", err=True)
