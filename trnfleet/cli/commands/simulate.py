"""`trnfleet simulate`: headless telemetry to a broker, NDJSON to stdout, or a recording."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from trnfleet.cli.options import (
    broker_options,
    clear_option,
    durable_option,
    log_options,
    mqtt_option,
    setting,
)
from trnfleet.cli.output import exit_on_broken_pipe, report
from trnfleet.cli.params import Duration, FileName, FleetName, Kinds, OneOf, ShardPart
from trnfleet.cli.run_options import RunOptions, run_options
from trnfleet.clock import SystemClock
from trnfleet.tasks import Ending, run_until

if TYPE_CHECKING:
    from collections.abc import Collection

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.services.session import BrokerSession
    from trnfleet.sim.engine import Engine


@click.command("simulate")
@run_options
@setting("--jump", type=Duration(), help="Simulate this time before the first tick.")
@setting(
    "--shard",
    type=ShardPart(),
    default="1/1",
    help="Publish part K of N of the fleet, split by UltraServer.",
)
@setting("--duration", type=Duration(), help="Stop after this wall time.")
@setting("--ticks", type=click.IntRange(min=1), help="Stop after this number of ticks.")
@setting(
    "--format",
    "encoding",
    type=click.Choice(["json", "cbor"]),
    help="Format of telemetry; by default the fleet file's.",
)
@setting(
    "--granularity",
    type=click.Choice(["chip", "instance", "ultraserver", "block"]),
    help="Part of the fleet in one message: chip for json; instance, ultraserver or block for cbor.",
)
@setting(
    "--name",
    type=FleetName(),
    cls=OneOf,
    noun="fleet",
    help="Publish under this name instead of the fleet file's.",
)
@setting(
    "--client-id",
    type=FleetName(),
    metavar="ID",
    help="Client id of this publisher at the broker; by default a random one.",
)
@mqtt_option
@setting(
    "--allow-commands",
    is_flag=True,
    help="Accept commands over the broker, such as those of trnfleet inject.",
)
@click.option(
    "--stdout",
    is_flag=True,
    help="Write NDJSON to stdout instead, from the fleet's start date on.",
)
@click.option(
    "--record",
    "record_to",
    type=FileName(),
    metavar="FILE",
    help=(
        "Write a recording instead, as fast as possible; needs --ticks or --duration. The same seed"
        " gives the same bytes."
    ),
)
@durable_option
@setting(
    "--include",
    type=Kinds(),
    help=(
        "With --stdout: kinds of lines to write: telemetry, events, jobs, reservations. By default"
        " telemetry, and with a scenario the first three."
    ),
)
@click.option(
    "--events",
    is_flag=True,
    help=(
        "With --stdout: write only EC2's events about Capacity Blocks, in the form of EventBridge,"
        " one a line."
    ),
)
@click.option(
    "--realtime",
    is_flag=True,
    help="With --stdout: write one tick each period, not as fast as possible.",
)
@clear_option
# The demo's own: no use where no app was started with the simulator.
@click.option("--lead-in-to", hidden=True)
@click.option("--unchecked", is_flag=True, hidden=True)
@broker_options(required=False, with_root=True)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession | None,
    root: str,
    run: RunOptions,
    jump: float | None,
    shard: tuple[int, int],
    duration: float | None,
    ticks: int | None,
    encoding: Literal["json", "cbor"] | None,
    granularity: Literal["chip", "instance", "ultraserver", "block"] | None,
    name: str | None,
    client_id: str | None,
    allow_commands: bool,
    stdout: bool,
    record_to: str | None,
    durable: bool,
    include: tuple[str, ...] | None,
    events: bool,
    realtime: bool,
    clear: bool,
    lead_in_to: str | None,
    unchecked: bool,
) -> None:
    """Simulate a fleet and publish its telemetry until ctrl+c, --duration or --ticks.

    It refuses the name of a fleet with other live publishers; shards of one simulation share a name.

    \b
    Examples:
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet demo --seed 7
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --scenario straggler-hunt --allow-commands
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet rainier-1m --shard 1/4
      trnfleet simulate --stdout --fleet demo --ticks 20 | jq .power_w
      trnfleet simulate --stdout --scenario ecc-storm --ticks 300 | jq 'select(.severity)'
      trnfleet simulate --stdout --events --period 60s --duration 12h > eventbridge.ndjson
      trnfleet simulate --record storm.mcap --scenario ecc-storm --ticks 300 --format cbor
    """
    # Without a clock to go by, a duration is a number of ticks.
    is_counted = stdout or record_to is not None
    _check_destination(
        ctx,
        session,
        stdout=stdout,
        record_to=record_to,
        realtime=realtime,
        allow_commands=allow_commands,
    )
    if record_to is not None and ticks is None and duration is None:
        raise click.UsageError("--record needs --ticks or --duration: nothing else would end it")
    if events and not stdout:
        raise click.UsageError(
            "--events goes with --stdout; a broker always gets the events, on event/..."
        )
    if events and ctx.get_parameter_source("include") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--events and --include do not go together: choose one of them")
    from trnfleet.services.simulator.engine import make_engine

    loaded = run.load()
    model = loaded.fleet
    if name is not None:
        model = model.model_copy(update={"name": name})
    model = _with_publishing(model, encoding, granularity, stdout=stdout)
    lead_in = 0
    if lead_in_to is not None:
        from trnfleet.services.simulator.lead_in import SETTLING_TICKS, lead_in_ticks

        recorded = lead_in_ticks(model, loaded.period_s)
        lead_in = recorded and recorded + SETTLING_TICKS
    engine = make_engine(loaded, model, shard, lead_in=lead_in)
    if not engine.own:
        click.echo(
            f"shard {shard[0]}/{shard[1]} of {model.name} has no instances; nothing to do", err=True
        )
        return
    jump_s = jump or 0.0
    if is_counted and duration is not None:
        whole = max(1, round(duration / loaded.period_s))
        ticks = whole if ticks is None else min(ticks, whole)
    if record_to is not None and ticks is not None:
        from trnfleet.services.simulator.recording import (
            CLIENT,
            SimulationRequest,
            record_simulation,
        )

        request = SimulationRequest(
            Path(record_to), loaded, ticks, jump_s, client_id or CLIENT, root, durable=durable
        )
        report(record_simulation(engine, request))
    elif stdout:
        kinds = include or (
            ("telemetry",) if run.scenario is None else ("telemetry", "events", "jobs")
        )
        kinds = ("eventbridge",) if events else kinds
        _write(engine, ticks, loaded.period_s if realtime else None, kinds, jump_s)
    elif session is not None:
        from trnfleet.services.simulator.publish import PublishOptions, publish

        client = client_id or f"trnfleet-sim-{secrets.token_hex(4)}"
        options = PublishOptions(
            client,
            ticks,
            duration,
            jump_s,
            allow_commands,
            None if lead_in_to is None else Path(lead_in_to),
            clears=clear,
            is_checked=unchecked,
        )
        asyncio.run(publish(session, engine, loaded, options, report))


def _check_destination(
    ctx: click.Context,
    session: BrokerSession | None,
    *,
    stdout: bool,
    record_to: str | None,
    realtime: bool,
    allow_commands: bool,
) -> None:
    """Refuse options that exclude each other."""
    chosen = [
        flag
        for flag, is_given in (("--stdout", stdout), ("--record", record_to is not None))
        if is_given
    ]
    if session is None and not chosen:
        raise click.UsageError("no destination: give --broker URL, --stdout or --record FILE")
    if ctx.get_parameter_source("broker") is ParameterSource.COMMANDLINE:
        chosen.append("--broker")
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do not go together: choose one of them")
    if record_to is None and ctx.get_parameter_source("durable") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--durable goes with --record")
    if realtime and not stdout:
        raise click.UsageError(
            "--realtime goes with --stdout; a broker always gets one tick a period"
        )
    if chosen and chosen != ["--broker"] and allow_commands:
        raise click.UsageError(
            f"--allow-commands goes with --broker; no command can reach {chosen[0]}"
        )


def _with_publishing(
    model: FleetFile, encoding: str | None, granularity: str | None, *, stdout: bool
) -> FleetFile:
    """Return the fleet with the format and granularity of the options."""
    if encoding is not None or granularity is not None:
        # Another format than the file's makes the file's granularity moot.
        own_granularity = (
            None if encoding not in {None, model.publish.format} else model.publish.granularity
        )
        publish = {
            "format": encoding or model.publish.format,
            "granularity": granularity or own_granularity,
        }
        model = model.model_copy(update={"publish": model.publish.model_copy(update=publish)})
    if stdout and granularity not in {None, "chip"}:
        raise click.UsageError(
            f"--stdout writes chips and instances; --granularity {granularity} is for brokers"
        )
    if stdout and model.publish.format != "json":
        if encoding == "cbor":
            raise click.UsageError("--stdout writes NDJSON; --format cbor is for brokers")
        model = model.model_copy(
            update={
                "publish": model.publish.model_copy(update={"format": "json", "granularity": None})
            }
        )
    return model


def _write(
    engine: Engine,
    ticks: int | None,
    realtime_period_s: float | None,
    kinds: Collection[str],
    jump_s: float,
) -> None:
    """Write a fleet's lines to stdout, at the reader's pace or once a period."""
    from trnfleet.sim.publish.telemetry import Include, stdout_ticks

    batches = stdout_ticks(
        engine, ticks=ticks, include={Include(kind) for kind in kinds}, jump_s=jump_s
    )
    output = sys.stdout.buffer
    if realtime_period_s is None:
        with exit_on_broken_pipe(), contextlib.suppress(KeyboardInterrupt):
            for batch in batches:
                output.writelines(batch)
            output.flush()
        return

    async def paced() -> None:
        clock = SystemClock()
        due_s = clock.monotonic_s()
        for batch in batches:
            output.writelines(batch)
            output.flush()
            due_s += realtime_period_s
            await clock.sleep(due_s - clock.monotonic_s())

    async def until_ended() -> None:
        ending = Ending()
        with ending.on_signals():
            await run_until(ending, paced())

    with exit_on_broken_pipe():
        asyncio.run(until_ended())
