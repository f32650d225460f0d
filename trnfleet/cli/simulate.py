"""`trnfleet simulate`: headless telemetry to a broker, or NDJSON to stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource

from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import SystemClock
from trnfleet.config import find_file, load_model
from trnfleet.domain.fleet import FleetFile
from trnfleet.errors import ConfigError
from trnfleet.tasks import Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.sim.engine import Engine
    from trnfleet.transport.url import BrokerUrl, Password

CONNECT_LIMIT_S = 10.0


@click.command("simulate")
@setting("--fleet", default="demo", metavar="NAME|FILE", help="A shipped fleet's name, or a fleet file.")
@setting(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=7, help="The same seed gives the same telemetry."
)
@setting("--period", type=Duration(86_400), default="1s", help="Time between two ticks.")
@setting("--duration", type=Duration(), help="End after this time.")
@setting("--ticks", type=click.IntRange(min=1), help="End after so many ticks.")
@setting(
    "--format", "encoding", type=click.Choice(["json", "cbor"]), help="By default what the fleet file says."
)
@setting(
    "--granularity",
    type=click.Choice(["chip", "instance", "ultraserver", "block"]),
    help="What one message covers: chip (json); instance, ultraserver or block (cbor).",
)
@setting("--name", type=FleetName(), help="Publish under another name than the fleet file's.")
@setting(
    "--client-id",
    type=FleetName(),
    metavar="ID",
    help="Name of this publisher at the broker; by default a random one.",
)
@setting(
    "--mqtt", type=click.Choice(["5", "3.1.1"]), help="Speak only this version; by default 5, else 3.1.1."
)
@click.option(
    "--stdout",
    is_flag=True,
    help="Write NDJSON to stdout instead; the clock starts at the fleet's start date.",
)
@click.option("--realtime", is_flag=True, help="With --stdout: one tick a period, not as fast as possible.")
@broker_options(required=False)
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    fleet: str,
    seed: int,
    period: float,
    duration: float | None,
    ticks: int | None,
    encoding: Literal["json", "cbor"] | None,
    granularity: Literal["chip", "instance", "ultraserver", "block"] | None,
    name: str | None,
    client_id: str | None,
    mqtt: Literal["5", "3.1.1"] | None,
    stdout: bool,
    realtime: bool,
    broker: BrokerUrl | None,
    password_file: str | None,
    root: str,
    log_format: str,
    log_level: str,
) -> None:
    """Simulate a fleet and publish its telemetry until ctrl+c, --duration or --ticks.

    \b
    Examples:
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet demo --seed 7
      trnfleet simulate --broker mqtt://127.0.0.1:1883 --fleet rainier-1m --duration 10m
      trnfleet simulate --stdout --fleet demo --ticks 20 | jq .power_w
    """
    if broker is None and not stdout:
        raise click.UsageError("say where to: either --broker URL or --stdout")
    if stdout and ctx.get_parameter_source("broker") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--stdout and --broker do not go together: say where to with one of them")
    if realtime and not stdout:
        raise click.UsageError("--realtime goes with --stdout; a broker always gets one tick a period")
    set_up_logs(log_format, log_level)
    file = find_file("fleets", fleet)
    model = load_model(file, FleetFile)
    if name is not None:
        model = model.model_copy(update={"name": name})
    if encoding is not None or granularity is not None:
        # Another format than the file's makes the file's granularity moot.
        kept = None if encoding not in {None, model.publish.format} else model.publish.granularity
        publish = {"format": encoding or model.publish.format, "granularity": granularity or kept}
        model = model.model_copy(update={"publish": model.publish.model_copy(update=publish)})
    if stdout:
        if granularity not in {None, "chip"}:
            raise click.UsageError(
                f"--stdout writes chips and instances; --granularity {granularity} is for brokers"
            )
        if model.publish.format != "json":
            if encoding == "cbor":
                raise click.UsageError("--stdout writes NDJSON; --format cbor is for brokers")
            model = model.model_copy(
                update={"publish": model.publish.model_copy(update={"format": "json", "granularity": None})}
            )
        if duration is not None:
            # Without a clock to go by, a duration is so many ticks.
            whole = max(1, round(duration / period))
            ticks = whole if ticks is None else min(ticks, whole)
        _write(_engine(file, model, seed, period), ticks, period if realtime else None)
    elif broker is not None:
        identity = client_id or f"trnfleet-sim-{secrets.token_hex(4)}"
        password = find_password(password_file)
        asyncio.run(
            _publish(
                broker,
                _engine(file, model, seed, period),
                identity,
                ticks=ticks,
                duration_s=duration,
                root=root,
                password=password,
                mqtt=mqtt,
            )
        )


def _engine(file: Path, model: FleetFile, seed: int, period_s: float) -> Engine:
    from trnfleet.sim.engine import Engine, to_ns  # noqa: PLC0415  --help stays quick

    try:
        return Engine(model, seed, period_s, to_ns(model.start))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def _write(engine: Engine, ticks: int | None, realtime_period_s: float | None) -> None:
    """Write a fleet's chip and instance objects to stdout, one a line; as fast as they are read, or once a period."""
    from trnfleet.sim.samples import stdout_lines  # noqa: PLC0415  --help stays quick

    lines = stdout_lines(engine, ticks=ticks)
    output = sys.stdout.buffer
    if realtime_period_s is None:
        with _reader_may_leave(), contextlib.suppress(KeyboardInterrupt):
            output.writelines(lines)
            output.flush()
        return
    a_tick = len(engine.layout.instances) + engine.layout.chips

    async def paced() -> None:
        clock = SystemClock()
        due_s = clock.monotonic_s()
        while batch := [line for _, line in zip(range(a_tick), lines, strict=False)]:
            output.writelines(batch)
            output.flush()
            due_s += realtime_period_s
            await clock.sleep(due_s - clock.monotonic_s())

    async def until_ended() -> None:
        ending = Ending()
        with ending.on_signals():
            await run_until(ending, paced())

    with _reader_may_leave():
        asyncio.run(until_ended())


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End in peace when whoever reads has enough (`trnfleet simulate --stdout | head`)."""
    try:
        yield
    except BrokenPipeError:
        # Python's own flush at the end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _publish(
    url: BrokerUrl,
    engine: Engine,
    client_id: str,
    *,
    ticks: int | None,
    duration_s: float | None,
    root: str,
    password: Password | None,
    mqtt: Literal["5", "3.1.1"] | None,
) -> None:
    from trnfleet.sim.announcements import new_boot, will_envelope  # noqa: PLC0415  --help stays quick
    from trnfleet.sim.publishing import Simulation  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttPublisher  # noqa: PLC0415  --help stays quick

    clock, boot, ending = SystemClock(), new_boot(), Ending()
    will = will_envelope(engine.fleet.name, client_id, boot, root=root)
    publisher = MqttPublisher(
        url, client_id=client_id, password=password, will=will, clock=clock, protocol=mqtt
    )
    simulation = Simulation(engine, publisher, clock=clock, client_id=client_id, boot=boot, root=root)
    with ending.on_signals():
        async with background(publisher=publisher.run()):
            await publisher.wait_connected(CONNECT_LIMIT_S)
            layout = engine.layout
            click.echo(
                f"publishing {engine.fleet.name}: {layout.chips:,} chips of {len(layout.instances):,} instances to {url}, "
                f"{simulation.messages_per_tick:,} messages every {engine.period_s:g} s",
                err=True,
            )
            await run_until(ending, simulation.run(ticks=ticks, duration_s=duration_s))
            status = publisher.status
    click.echo(
        f"published {simulation.published:,} ticks, {status.sent:,} messages; dropped {status.dropped:,} without a connection, "
        f"left out {simulation.overruns:,} ticks for want of time",
        err=True,
    )
