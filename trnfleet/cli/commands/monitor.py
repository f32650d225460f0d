"""`trnfleet monitor`: the app against a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.cli.app_options import (
    AlertOptions,
    LookOptions,
    Notice,
    PowerOptions,
    app_alert_options,
    history_option,
    log_file_for_app,
    log_file_option,
    look_options,
    past_option,
    power_options,
)
from trnfleet.cli.options import (
    LogOptions,
    all_fleets_option,
    app_log_options,
    broker_options,
    setting,
    site_options,
)
from trnfleet.cli.output import require_terminal
from trnfleet.cli.params import FleetName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.site import Site
    from trnfleet.services.history.charts import HistoryCharts
    from trnfleet.services.session import BrokerSession


@click.command("monitor")
@broker_options(required=True, several=True)
@setting(
    "--name",
    "names",
    type=FleetName(),
    multiple=True,
    help=(
        "Name of the fleet, if there are several. The app waits for a missing one. Repeat it for"
        " several fleets."
    ),
)
@all_fleets_option
@site_options
@app_alert_options
@look_options
@power_options
@past_option
@history_option
@setting(
    "--allow-commands",
    is_flag=True,
    help=(
        "Let the app write acknowledgements and silences to the broker, and request chips from"
        " relays on a top broker. Otherwise it only reads."
    ),
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Write nothing: --allow-commands is ignored, and neither Ctrl-s nor :cap saves a file.",
)
@log_file_option
@app_log_options
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[BrokerSession, ...],
    names: tuple[str, ...],
    all_fleets: bool,
    site: Site,
    alerts: AlertOptions,
    looks: LookOptions,
    power: PowerOptions,
    past: int,
    history: str | None,
    allow_commands: bool,
    read_only: bool,
    log_file: str | None,
    log: LogOptions,
) -> None:
    """Watch one or several fleets in the terminal. The app publishes nothing without --allow-commands.

    Several brokers and fleets share one hierarchy and one list of problems; press f for the next fleet. Parts of a fleet on several
    brokers are shown as one fleet. If there are several fleets and you name none, the command lists them and exits with status 2.

    \b
    Examples:
      trnfleet monitor --broker mqtt://127.0.0.1:1883
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --allow-commands --bell
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --past 10GiB
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --history /var/lib/trnfleet/history
      trnfleet monitor --broker mqtt://b1.example:1883 --broker mqtt://b2.example:1883 --all-fleets
      TRNFLEET_MQTT_PASSWORD=... trnfleet monitor --broker mqtt://ops@broker.example:1883 --name prod
    """
    from trnfleet.services.files.rules import load_rules

    # A file that is wrong is named before a terminal that is missing.
    rules = load_rules(alerts.rules)
    looks = looks.with_keys(ctx)
    require_terminal()
    file = log_file_for_app(log_file, keeps_past=bool(past))
    log.set_up(file)
    app = _run(
        sessions,
        names,
        alerts,
        looks,
        power,
        rules,
        takes_all=all_fleets,
        may_write=allow_commands and not read_only,
        may_save=not read_only,
        site=site._replace(power_caps=power.power_caps),
        past_bytes=past,
        history=history,
        log_file=file,
    )
    ctx.exit(asyncio.run(app))


async def _run(
    sessions: tuple[BrokerSession, ...],
    names: tuple[str, ...],
    alerts: AlertOptions,
    looks: LookOptions,
    power: PowerOptions,
    rules: tuple[Rule, ...],
    *,
    takes_all: bool,
    may_write: bool,
    may_save: bool,
    site: Site,
    past_bytes: int,
    history: str | None,
    log_file: Path,
) -> int:
    from trnfleet.services.brokers import session_of
    from trnfleet.services.discovery import find_fleets
    from trnfleet.services.viewing import MOST_FLEETS, NotShown, Viewing, view_fleets
    from trnfleet.tui.run import run_app
    from trnfleet.tui.state.context import WatchedFleet

    def watched(viewing: Viewing) -> WatchedFleet:
        return WatchedFleet(
            viewing.state, viewing.playback, viewing.operator, folder_of(viewing), viewing.leases
        )

    def folder_of(viewing: Viewing) -> HistoryCharts | None:
        """Return the history of a fleet.

        It is read from now on.
        """
        return None if folder is None else folder.charts_of(viewing.state.fleet_name)

    async def arrivals() -> AsyncIterator[WatchedFleet | str]:
        async for arrival in viewings.arrivals():
            yield arrival.name if isinstance(arrival, NotShown) else watched(arrival)

    folder = None
    if history is not None:
        from trnfleet.services.history.charts import HistoryFolder

        folder = HistoryFolder(Path(history), sessions[0].clock)
    fleets = await find_fleets(sessions, names, takes_all=takes_all, most=MOST_FLEETS)
    with view_fleets(
        fleets,
        rules=rules,
        owner=alerts.owner,
        may_write=may_write,
        site=site,
        past_bytes=past_bytes,
    ) as viewings:
        first, *others = viewings.shown.values()
        running = viewings.running
        if folder is not None:
            running["history"] = folder.run()
        if takes_all:
            running["follow_fleets"] = viewings.follow(session_of(sessions))
        return await run_app(
            first.state,
            running,
            clock=sessions[0].clock,
            log_file=log_file,
            operator=first.operator,
            playback=first.playback,
            history=folder_of(first),
            leases=first.leases,
            others=[watched(viewing) for viewing in others],
            arrivals=arrivals() if takes_all else None,
            processes=[
                Notice(fleet.unknown, sessions[0].clock) for fleet in fleets if fleet.unknown
            ],
            bell=alerts.bell,
            notify=alerts.notify,
            kwh_price=power.kwh_price,
            theme_name=looks.theme,
            ascii_only=looks.ascii_only,
            local_time=looks.local_time,
            keys=looks.keys,
            keeps_view=True,
            may_save=may_save,
        )
