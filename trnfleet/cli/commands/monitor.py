"""`trnfleet monitor`: the app against a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.alert_options import app_alert_options
from trnfleet.cli.look_options import look_options
from trnfleet.cli.options import (
    app_log_options,
    broker_options,
    log_file_for_app,
    log_file_option,
    past_option,
    pue_option,
    setting,
)
from trnfleet.cli.params import FleetName
from trnfleet.cli.streams import require_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.cli.alert_options import AlertOptions
    from trnfleet.cli.look_options import LookOptions
    from trnfleet.cli.options import LogOptions
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.services.session import BrokerSession


@click.command("monitor")
@broker_options(required=True)
@setting(
    "--name",
    type=FleetName(),
    help="Name of the fleet, where the broker has several; waited for if it is not there yet.",
)
@pue_option
@app_alert_options
@look_options
@past_option
@setting(
    "--allow-commands",
    is_flag=True,
    help="Let the app write acknowledgements and silences of alerts to the broker; else it only reads.",
)
@log_file_option
@app_log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    name: str | None,
    pue: float | None,
    alerts: AlertOptions,
    looks: LookOptions,
    past: int,
    allow_commands: bool,
    log_file: str | None,
    log: LogOptions,
) -> None:
    """Watch a fleet in the terminal. Reads only: nothing is published unless --allow-commands lets you acknowledge.

    \b
    Examples:
      trnfleet monitor --broker mqtt://127.0.0.1:1883
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --allow-commands --bell
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --past 10GiB
      TRNFLEET_MQTT_PASSWORD=... trnfleet monitor --broker mqtt://ops@broker.example:1883 --name prod
    """
    require_terminal()
    file = log_file_for_app(log_file, keeps_past=bool(past))
    log.set_up(file)
    from trnfleet.services.files.rules import load_rules

    rules = load_rules(alerts.rules)
    app = _run(
        session, name, alerts, looks, rules, may_write=allow_commands, pue=pue, past_bytes=past, log_file=file
    )
    ctx.exit(asyncio.run(app))


async def _run(
    session: BrokerSession,
    name: str | None,
    alerts: AlertOptions,
    looks: LookOptions,
    rules: tuple[Rule, ...],
    *,
    may_write: bool,
    pue: float | None,
    past_bytes: int,
    log_file: Path,
) -> int:
    from trnfleet.services.discovery import find_fleet
    from trnfleet.services.viewing import view_fleet
    from trnfleet.tui.run import run_app

    fleet = await find_fleet(session, name)
    with view_fleet(
        session,
        fleet,
        rules=rules,
        owner=alerts.owner,
        may_write=may_write,
        pue=pue,
        past_bytes=past_bytes,
    ) as viewing:
        return await run_app(
            viewing.state,
            viewing.running,
            clock=session.clock,
            log_file=log_file,
            operator=viewing.operator,
            playback=viewing.playback,
            bell=alerts.bell,
            notify=alerts.notify,
            theme_name=looks.theme,
            ascii_only=looks.ascii_only,
        )
