"""`trnfleet` alone: the app in front, with broker and simulator as child processes.

When it ends, all of them have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from typing import TYPE_CHECKING, Any

import click

from trnfleet import folders
from trnfleet.cli.app_options import (
    AlertOptions,
    LookOptions,
    Notice,
    PowerOptions,
    app_alert_options,
    log_file_for_app,
    log_file_option,
    look_options,
    past_option,
    power_options,
)
from trnfleet.cli.options import (
    PASSWORD_VARIABLE,
    LogOptions,
    app_log_options,
    broker_arguments,
    broker_options,
    setting,
)
from trnfleet.cli.output import report, require_terminal
from trnfleet.cli.run_options import RunOptions, run_options
from trnfleet.cli.settings.keys import NONE
from trnfleet.cli.settings.layers import applied
from trnfleet.clock import Clock, SystemClock
from trnfleet.errors import BrokerError, ConfigError
from trnfleet.files import PRIVATE, temporary_folder
from trnfleet.services.child_process import run_trnfleet
from trnfleet.tasks import Ending
from trnfleet.transport.url import Password

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from pathlib import Path

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.services.session import BrokerSession
    from trnfleet.services.simulator.head import FleetHead
    from trnfleet.transport.embedded import EmbeddedBroker

BROKER_VARIABLE = "TRNFLEET_BROKER"
FIRST_RUN_FILE = "tour-shown"
"""Empty file in the state folder, written by the first run."""


@click.command("demo")
@run_options
@setting(
    "--allow-commands",
    is_flag=True,
    help=(
        "Let the simulator accept commands, such as those of trnfleet inject. With --broker, also"
        " let the app write acknowledgements and silences; on its own broker it always may."
    ),
)
@setting(
    "--no-history",
    is_flag=True,
    help="Start with empty charts, without the five minutes before the start.",
)
@app_alert_options
@look_options
@power_options
@past_option
@broker_options(required=False, with_root=True, from_variable=False)
@log_file_option
@app_log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession | None,
    root: str,
    run: RunOptions,
    allow_commands: bool,
    no_history: bool,
    alerts: AlertOptions,
    looks: LookOptions,
    power: PowerOptions,
    past: int,
    log_file: str | None,
    log: LogOptions,
) -> None:
    """Show a simulated fleet live: starts a simulator, and a broker on loopback unless you name one with --broker.

    TRNFLEET_BROKER is ignored: it names the broker that you watch. With --broker the demo refuses to
    start beside a live fleet of the same name, and clears its retained messages when it ends.

    \b
    Examples:
      trnfleet
      trnfleet --fleet cluster-10k --seed 3
      trnfleet --scenario game-day
    """
    # Loading makes many objects and no garbage; `monitor_fleet` sets the collector going again.
    gc.disable()
    from trnfleet.services.files.rules import load_rules

    # The rules bring numpy and pydantic with them: loaded beside the simulator, which loads them
    # too, both take longer. A file that is wrong is named before a terminal that is missing.
    rules = load_rules(alerts.rules)
    looks = looks.with_keys(ctx)
    fleet = run.head()
    require_terminal()
    file = log_file_for_app(log_file, keeps_past=bool(past))
    log.set_up(file)
    ignored = "" if session else ignored_broker(ctx)
    if ignored:
        report(f"trnfleet: {ignored}")
    simulate = [*broker_arguments(session, root), *run.arguments(), "--unchecked"]
    simulate += ["--log-format", log.log_format, "--log-level", log.log_level]
    if allow_commands:
        simulate.append("--allow-commands")
    if session is not None:
        simulate.append("--clear")
    demo = _run(
        session,
        root,
        fleet,
        simulate,
        alerts,
        rules=rules,
        looks=looks,
        power=power,
        may_write=allow_commands or session is None,
        past_bytes=past,
        has_history=not no_history,
        log_file=file,
        notice=ignored,
    )
    ctx.exit(asyncio.run(_run_in_order(demo)))


def ignored_broker(ctx: click.Context) -> str:
    """Return a line about an ignored broker setting for all commands.

    Empty without one.
    """
    place = BROKER_VARIABLE if os.environ.get(BROKER_VARIABLE) else ""
    read = applied(ctx)
    if not place and read is not None:
        origin = read[0].withheld(ctx.command, "demo", "broker")
        place = f"broker of {origin}" if origin else ""
    return (
        place
        and f"{place} is ignored: the demo has its own broker; to watch yours: trnfleet monitor"
    )


def is_first_run() -> bool:
    """Return whether the demo runs for the first time, and note it.

    Without a writable home, each run is the first.
    """
    try:
        state = folders.state_folder()
    except ConfigError:
        return True
    if state.problem:
        # A temporary folder may be gone the next time, or not.
        return True
    try:
        os.close(
            os.open(
                state.path / FIRST_RUN_FILE,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                PRIVATE,
            )
        )
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


async def _run_in_order(demo: Coroutine[Any, Any, int]) -> int:
    """Run the demo.

    A signal before the app starts ends its started parts in order.
    """
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
    session: BrokerSession | None,
    root: str,
    head: FleetHead,
    simulate: list[str],
    alerts: AlertOptions,
    *,
    rules: tuple[Rule, ...],
    looks: LookOptions,
    power: PowerOptions,
    may_write: bool,
    past_bytes: int,
    has_history: bool,
    log_file: Path,
    notice: str,
) -> int:
    """Start the children.

    They start up while this process loads the app.
    """
    if session is not None:
        from trnfleet.services.retained import find_live_fleets

        live = await find_live_fleets(session, head.name)
        live.refuse(
            str(session.url),
            head.name,
            f"watch it with `trnfleet monitor --broker {session.url}`, or simulate under another"
            f" name with `trnfleet simulate --name {head.name}-sim`",
        )
    async with contextlib.AsyncExitStack() as stack:
        from trnfleet.services.child_process import ChildProcess

        clock = SystemClock()
        children: list[ChildProcess] = []
        if session is None:
            own = OwnBroker(clock)
            children.append(ChildProcess("broker", own.start, clock=clock, log_file=log_file))
            await stack.enter_async_context(children[0].started())
            broker = own.started
            url = broker.url
            kind = broker.kind
            protocol = broker.protocol
        else:
            url = session.url
            kind = ""
            protocol = None
        secret = (
            session.password.reveal() if session and isinstance(session.password, Password) else ""
        )
        # The same name at each start: under another one the publisher that died would stay offline
        # for good.
        client = f"trnfleet-demo-{os.urandom(4).hex()}"
        simulate = ["simulate", "--broker", str(url), "--client-id", client, *simulate]
        if protocol is not None:
            simulate += ["--mqtt", protocol]
        lead_in: Path | None = None
        if has_history and session is None:
            lead_in = stack.enter_context(temporary_folder("trnfleet-history-")) / "lead-in.mcap"
        # A simulator that is started again goes on from now: it has no minutes before its start.
        first = [] if lead_in is None else [["--lead-in-to", str(lead_in)]]
        simulator = ChildProcess(
            "simulator",
            lambda: own_command([*simulate, *(first.pop() if first else [])], log_file, secret),
            clock=clock,
            log_file=log_file,
        )
        children.append(simulator)
        await stack.enter_async_context(simulator.started())

        from trnfleet.domain.site import Site
        from trnfleet.services.session import BrokerSession
        from trnfleet.services.viewing import view_fleet
        from trnfleet.tui.run import run_app

        session = session or BrokerSession(url, root, protocol=protocol)
        viewing = stack.enter_context(
            view_fleet(
                session,
                head.name,
                rules=rules,
                owner=alerts.owner,
                may_write=may_write,
                site=Site(pue=head.pue, power_caps=(*head.power_caps, *power.power_caps)),
                past_bytes=past_bytes,
                backfill_from=lead_in,
            )
        )
        return await run_app(
            viewing.state,
            viewing.running | {child.name: child.run() for child in children},
            clock=session.clock,
            log_file=log_file,
            broker_kind=kind,
            operator=viewing.operator,
            playback=viewing.playback,
            bell=alerts.bell,
            notify=alerts.notify,
            kwh_price=power.kwh_price,
            theme_name=looks.theme,
            ascii_only=looks.ascii_only,
            local_time=looks.local_time,
            keys=looks.keys,
            processes=[*children, *([Notice(notice, clock)] if notice else [])],
            is_first_run=is_first_run(),
        )


class OwnBroker:
    """The demo's broker.

    After a restart it has the same address for app and simulator.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: EmbeddedBroker | None = None

    @property
    def started(self) -> EmbeddedBroker:
        """The broker that was started last."""
        if self._running is None:
            raise BrokerError("the demo's broker has not been started yet")
        return self._running

    @contextlib.asynccontextmanager
    async def start(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run the broker while the body runs.

        Raises:
            BrokerError: it does not start.
        """
        from trnfleet.transport.embedded import embedded_broker

        port = 0 if self._running is None else self._running.url.port
        async with embedded_broker(clock=self._clock, port=port) as self._running:
            yield self._running.process


@contextlib.asynccontextmanager
async def own_command(
    arguments: Sequence[str], log_file: Path, password: str = ""
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `trnfleet ARGUMENTS` as a child while the body runs.

    Its output is appended to `log_file`.

    Args:
        arguments: Behind the program's name.
        log_file: The file.
        password: For the broker; it goes into the child's environment. Empty for none.
    """
    # Settings are given as options; a file or variable meant for another command must not change
    # what the child does.
    variables = {
        name: text for name, text in os.environ.items() if not name.startswith("TRNFLEET_")
    }
    variables |= {"TRNFLEET_CONFIG": NONE}
    if password:
        variables[PASSWORD_VARIABLE] = password
    with log_file.open("ab") as output:
        async with run_trnfleet(
            arguments, variables, asyncio.subprocess.DEVNULL, output
        ) as process:
            yield process
