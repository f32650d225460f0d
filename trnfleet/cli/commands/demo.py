"""`trnfleet` alone: broker and simulator as child processes, the app in front; ends with all of it ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.alerting import Alerting, Calling, app_alert_options
from trnfleet.cli.keeping import past_option
from trnfleet.cli.options import (
    Duration,
    broker_options,
    find_password,
    log_file_for_app,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.cli.running import LEFT_TO_SCENARIOS, Above, Instant, given_on_command_line, load_run
from trnfleet.clock import SystemClock
from trnfleet.tasks import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime
    from pathlib import Path

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.transport.url import BrokerUrl, Password


@click.command("demo")
@setting("--fleet", default="demo", metavar="NAME|FILE", help="A shipped fleet's name, or a fleet file.")
@setting("--scenario", metavar="NAME|FILE", help="Play a scenario, such as game-day: faults at their times.")
@setting("--seed", type=click.IntRange(0, 2**63 - 1), default=7, help="The same seed gives the same fleet.")
@setting("--period", type=Duration(86_400), default="1s", help="Wall time between two ticks.")
@setting(
    "--speed",
    type=Above(1e6, least=1e-6),
    default=1.0,
    help="Simulated seconds a second.",
)
@setting("--start", type=Instant(), help="Simulated time of the start, as 2026-01-05T09:00:00Z; else now.")
@setting(
    "--allow-commands",
    is_flag=True,
    help="Let the simulator carry out commands, such as those of trnfleet inject. On a broker of your own (--broker) it also "
    "lets the app write acknowledgements and silences, which it may on the demo's own.",
)
@app_alert_options
@past_option
@broker_options(required=False)
@setting("--log-file", metavar="FILE", help="Where to log; by default trnfleet/app.log in the state folder.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    fleet: str,
    scenario: str | None,
    seed: int,
    period: float,
    speed: float,
    start: datetime | None,
    allow_commands: bool,
    rules: tuple[str, ...],
    owner: str | None,
    bell: bool,
    notify: bool,
    past: int,
    broker: BrokerUrl | None,
    password_file: str | None,
    root: str,
    log_file: str | None,
    log_format: str,
    log_level: str,
) -> None:
    """Show a simulated fleet live: starts a broker on loopback unless --broker names one, and a simulator.

    \b
    Examples:
      trnfleet
      trnfleet --fleet cluster-10k --seed 3
      trnfleet --scenario game-day
    """
    from trnfleet.cli.app import require_terminal  # noqa: PLC0415  --help stays quick

    require_terminal()
    log = log_file_for_app(log_file)
    set_up_logs(log_format, log_level, log)
    given = given_on_command_line(ctx)
    simulate = ["--root", root, "--log-format", log_format, "--log-level", log_level]
    values = {
        "fleet": fleet,
        "scenario": scenario,
        "seed": str(seed),
        "period": f"{period}s",
        "speed": str(speed),
    }
    values |= {"start": None if start is None else start.isoformat(), "password_file": password_file}
    for option, value in values.items():
        is_kept = scenario is None or option in given or option not in LEFT_TO_SCENARIOS
        if value is not None and is_kept:
            simulate += [f"--{option.replace('_', '-')}", value]
    if allow_commands:
        simulate.append("--allow-commands")
    password = find_password(password_file) if broker is not None else None

    def load() -> FleetFile:
        return load_run(
            given, fleet=fleet, scenario=scenario, seed=seed, period_s=period, speed=speed, start=start
        ).fleet

    from trnfleet.cli.rulepack import load_rules  # noqa: PLC0415  --help stays quick

    alerting = Alerting(load_rules(rules), owner, Calling(bell, notify), allow_commands or broker is None)
    demo = _run(broker, load, simulate, alerting, root=root, password=password, past_bytes=past, log_file=log)
    ctx.exit(asyncio.run(_run_in_order(demo)))


async def _run_in_order(demo: Coroutine[Any, Any, int]) -> int:
    """Run the demo; a signal before the app is there takes down in order what has been started so far."""
    ending = Ending()
    with ending.on_signals():
        task = asyncio.create_task(demo, name="demo")
        asked = asyncio.create_task(ending.wait(), name="ending")
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not task.done():
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if ending.signal_number is None:
                raise
            return 128 + ending.signal_number


async def _run(
    url: BrokerUrl | None,
    load: Callable[[], FleetFile],
    simulate: list[str],
    alerting: Alerting,
    *,
    root: str,
    password: Password | None,
    past_bytes: int,
    log_file: Path,
) -> int:
    """Start the children first: they get ready while this process loads what the app needs."""
    # Loading makes many objects and no garbage; `watch_fleet` sets the collector going again.
    gc.disable()
    from trnfleet.cli.children import own_command  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.embedded import embedded_broker  # noqa: PLC0415  --help stays quick

    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        kind, protocol = "", None
        if url is None:
            broker = await stack.enter_async_context(embedded_broker(clock=clock))
            url, kind, protocol = broker.url, broker.kind, broker.protocol
        simulate = ["simulate", "--broker", str(url), *simulate]
        if protocol is not None:
            simulate += ["--mqtt", protocol]
        await stack.enter_async_context(own_command(simulate, log_file))

        from trnfleet.cli.showing import show_fleet  # noqa: PLC0415  see above

        fleet = load()
        return await show_fleet(
            url,
            fleet.name,
            alerting,
            root=root,
            password=password,
            clock=clock,
            pue=fleet.pue,
            past_bytes=past_bytes,
            log_file=log_file,
            broker_kind=kind,
            protocol=protocol,
        )
