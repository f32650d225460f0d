"""`trnfleet replay`: a recording into the app, to a broker, or to stdout as NDJSON."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.cli.app_options import (
    LookOptions,
    PowerOptions,
    history_option,
    log_file_for_app,
    look_options,
    power_options,
)
from trnfleet.cli.files import open_recording
from trnfleet.cli.options import (
    AccessOptions,
    LogOptions,
    access_options,
    app_log_options,
    clear_option,
    given_on_command_line,
    make_session,
    rules_option,
    setting,
    site_options,
    sysfs_option,
    utilization_option,
)
from trnfleet.cli.output import exit_on_broken_pipe, report, require_terminal, stdout_bytes
from trnfleet.cli.params import (
    TOPIC_FILTER,
    Broker,
    FileName,
    FleetName,
    Kinds,
    Moment,
    OneOf,
    PositiveNumber,
    Root,
)
from trnfleet.clock import SystemClock
from trnfleet.errors import ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from trnfleet.domain.site import Site
    from trnfleet.record.read.recording import Recording
    from trnfleet.transport.url import BrokerUrl


@click.command("replay")
@click.argument("files", type=FileName(), metavar="FILE...", nargs=-1, required=True)
@setting(
    "--broker",
    type=Broker(),
    cls=OneOf,
    noun="broker",
    envvar=None,
    show_envvar=False,
    help="Publish to this broker instead.",
)
@access_options("With --broker: ")
@setting(
    "--root",
    type=Root(),
    envvar=None,
    show_envvar=False,
    help="With --broker: publish below this root of topics.",
)
@click.option(
    "--stdout", is_flag=True, help="Write NDJSON to stdout instead, like simulate --stdout."
)
@setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="Name of the fleet, if the recording has several.",
)
@utilization_option
@click.option(
    "--neuron-ls",
    type=FileName(),
    metavar="FILE",
    help=(
        "Output of neuron-ls -j on the host of a neuron-monitor file; it places the chips of a"
        " container."
    ),
)
@sysfs_option
@setting(
    "--from",
    "begin",
    type=Moment(),
    help="Start at this time: an instant, 14:03, +90s after the start, or -90s before the end.",
)
@setting("--to", "end", type=Moment(), help="End at this time, in the same forms.")
@setting(
    "--speed",
    type=PositiveNumber(1e6),
    default=1.0,
    help="Seconds of the recording per second; the app plays at 0.125 to 1000.",
)
@click.option("--loop", is_flag=True, help="Start again at the end.")
@setting(
    "--filter",
    "filters",
    type=TOPIC_FILTER,
    multiple=True,
    metavar="TOPIC",
    help="With --broker: publish only recorded topics under this filter; repeatable.",
)
@setting(
    "--as", "new_name", type=FleetName(), help="With --broker: publish under another fleet's name."
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="With --broker: allow a broker on another machine.",
)
@setting(
    "--mqtt",
    type=click.Choice(["5", "3.1.1"]),
    help="With --broker: use only this version of MQTT.",
)
@clear_option
@setting(
    "--include",
    type=Kinds(),
    default="telemetry",
    help="With --stdout: kinds of lines to write: telemetry, events, jobs, reservations.",
)
@site_options
@rules_option
@history_option
@look_options
@power_options
@setting(
    "--log-file",
    type=FileName(),
    metavar="FILE",
    help="Log file of the app; by default trnfleet/app.log in the state folder.",
)
@app_log_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[str, ...],
    broker: BrokerUrl | None,
    access: AccessOptions,
    root: str | None,
    stdout: bool,
    name: str | None,
    neuron_ls: str | None,
    sysfs: str | None,
    utilization: str | None,
    begin: str | None,
    end: str | None,
    speed: float,
    loop: bool,
    filters: tuple[str, ...],
    new_name: str | None,
    allow_remote: bool,
    mqtt: str | None,
    clear: bool,
    include: tuple[str, ...],
    site: Site,
    rules: tuple[str, ...],
    history: str | None,
    looks: LookOptions,
    power: PowerOptions,
    log_file: str | None,
    log: LogOptions,
) -> None:
    """Play recordings in the app, to a broker (--broker), or to stdout as NDJSON (--stdout).

    Several FILEs, such as the parts of one recording, play one after the other. FILE may also have lines of mosquitto_sub -F '%j',
    documents of neuron-monitor, or text of neuron-monitor-prometheus or Neuron Observer.

    \b
    Examples:
      trnfleet replay night.mcap --from 03:10 --speed 8
      trnfleet replay night.mcap --history /var/lib/trnfleet/history
      trnfleet replay night-*.mcap --broker mqtt://127.0.0.1:1883 --as rehearsal --loop
      trnfleet replay night.mcap --stdout | jq .power_w
    """
    given = given_on_command_line(ctx)
    # A broker or root that the settings name for all commands is where to read from, not where to
    # replay to.
    broker = broker if "broker" in given else None
    root = root if "root" in given else None
    _check(given, broker, stdout=stdout, allow_remote=allow_remote)
    if stdout:
        log.set_up()
        with open_recording(
            files, name=name, neuron_ls=neuron_ls, sysfs=sysfs, utilization=utilization
        ) as recording:
            _write(recording, files[0], name, begin, end, include)
    elif broker is not None:
        log.set_up()
        from trnfleet.services.replay import ReplayRequest, publish_recording

        with open_recording(
            files, name=name, neuron_ls=neuron_ls, sysfs=sysfs, utilization=utilization
        ) as recording:
            session = make_session(broker, root or recording.root, access, mqtt)
            request = ReplayRequest(
                files[0], name, begin, end, speed, loop, filters, new_name, root, clears=clear
            )
            asyncio.run(publish_recording(session, recording, request, report))
    else:
        from trnfleet.monitor.replay.controls import RATES
        from trnfleet.services.files.recordings import fleet_of, shown_part_of
        from trnfleet.services.files.rules import load_rules
        from trnfleet.services.viewing import view_recording
        from trnfleet.tui.run import run_app

        clock = SystemClock()
        folder = None
        if history is not None:
            from trnfleet.services.history.charts import HistoryFolder

            folder = HistoryFolder(Path(history), clock)
        # A file that is wrong is named before a terminal that is missing.
        loaded = load_rules(rules)
        looks = looks.with_keys(ctx)
        with open_recording(
            files, name=name, neuron_ls=neuron_ls, sysfs=sysfs, utilization=utilization
        ) as recording:
            fleet = fleet_of(recording, name, files[0])
            from_ns, to_ns = shown_part_of(recording, fleet, begin, end)
            require_terminal("--stdout, or --broker")
            file = log_file_for_app(log_file)
            log.set_up(file)
            viewing = view_recording(
                recording,
                fleet,
                from_ns=from_ns,
                to_ns=to_ns,
                speed=min(max(speed, RATES[0]), RATES[-1]),
                loops=loop,
                rules=loaded,
                site=site._replace(power_caps=power.power_caps),
                clock=clock,
            )
            running = dict(viewing.running)
            if folder is not None:
                running["history"] = folder.run()
            app = run_app(
                viewing.state,
                running,
                clock=clock,
                log_file=file,
                playback=viewing.playback,
                history=None if folder is None else folder.charts_of(fleet),
                kwh_price=power.kwh_price,
                theme_name=looks.theme,
                ascii_only=looks.ascii_only,
                local_time=looks.local_time,
                keys=looks.keys,
            )
            ctx.exit(asyncio.run(app))


def _check(
    given: Collection[str], broker: BrokerUrl | None, *, stdout: bool, allow_remote: bool
) -> None:
    """Refuse options that exclude each other, and a remote broker without --allow-remote."""
    if stdout and broker is not None:
        raise click.UsageError("--stdout and --broker do not go together: choose one of them")
    for parameter, flag in (
        ("filters", "--filter"),
        ("new_name", "--as"),
        ("allow_remote", "--allow-remote"),
        ("mqtt", "--mqtt"),
        ("clear", "--clear"),
        ("root", "--root"),
    ):
        if broker is None and parameter in given:
            raise click.UsageError(f"{flag} goes with --broker")
    if (stdout or broker is not None) and "history" in given:
        raise click.UsageError("--history goes with the app: not with --stdout or --broker")
    if not stdout and "include" in given:
        raise click.UsageError("--include goes with --stdout")
    if stdout and not {"speed", "loop"}.isdisjoint(given):
        raise click.UsageError(
            "--speed and --loop do not go with --stdout, which is as fast as it is read"
        )
    if broker is not None and not broker.is_loopback and not allow_remote:
        raise ConfigError(
            f"--broker {broker}: a replay goes to this machine's own brokers only, so that it is"
            " not mistaken for live telemetry; --allow-remote lets it go elsewhere"
        )


def _write(
    recording: Recording,
    file: str,
    name: str | None,
    begin: str | None,
    end: str | None,
    kinds: Sequence[str],
) -> None:
    """Write a recording's lines to stdout, as fast as they are read."""
    from trnfleet.record.read.ndjson import NdjsonLines
    from trnfleet.services.files.recordings import fleet_of, part_of

    lines = NdjsonLines(recording.root, fleet_of(recording, name, file), kinds)
    output = stdout_bytes()
    with exit_on_broken_pipe():
        output.writelines(lines.lines(recording, *part_of(recording, begin, end)))
        output.flush()
    if lines.left_out:
        messages = "1 message was" if lines.left_out == 1 else f"{lines.left_out:,} messages were"
        click.echo(f"{messages} left out; the first: {plain(lines.problem, 300)}", err=True)
