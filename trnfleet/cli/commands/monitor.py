"""`trnfleet monitor`: the app against a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.alerting import Alerting, Calling, app_alert_options
from trnfleet.cli.keeping import past_option
from trnfleet.cli.options import (
    FleetName,
    broker_options,
    find_password,
    log_file_for_app,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.transport.url import BrokerUrl, Password


@click.command("monitor")
@broker_options(required=True)
@setting(
    "--name",
    type=FleetName(),
    help="Which fleet, where the broker has several; waited for if it is not there yet.",
)
@setting(
    "--pue",
    type=click.FloatRange(1, 3),
    help="Facility power over IT power; by default 1.14, AWS's global figure for 2025.",
)
@app_alert_options
@past_option
@setting(
    "--allow-commands",
    is_flag=True,
    help="Let the app write acknowledgements and silences of alerts to the broker; else it only reads.",
)
@setting("--log-file", metavar="FILE", help="Where to log; by default trnfleet/app.log in the state folder.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    name: str | None,
    pue: float | None,
    rules: tuple[str, ...],
    owner: str | None,
    bell: bool,
    notify: bool,
    past: int,
    allow_commands: bool,
    log_file: str | None,
    log_format: str,
    log_level: str,
) -> None:
    """Watch a fleet in the terminal. Reads only: nothing is published unless --allow-commands lets you acknowledge.

    \b
    Examples:
      trnfleet monitor --broker mqtt://127.0.0.1:1883
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --allow-commands --bell
      trnfleet monitor --broker mqtt://127.0.0.1:1883 --past 10GiB
      TRNFLEET_MQTT_PASSWORD=... trnfleet monitor --broker mqtt://ops@broker.example:1883 --name prod
    """
    from trnfleet.cli.app import require_terminal  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.rulepack import load_rules  # noqa: PLC0415  --help stays quick

    require_terminal()
    file = log_file_for_app(log_file)
    set_up_logs(log_format, log_level, file)
    password = find_password(password_file)
    alerting = Alerting(load_rules(rules), owner, Calling(bell, notify), may_write=allow_commands)
    shown = _run(
        broker, name, alerting, root=root, password=password, pue=pue, past_bytes=past, log_file=file
    )
    ctx.exit(asyncio.run(shown))


async def _run(
    url: BrokerUrl,
    name: str | None,
    alerting: Alerting,
    *,
    root: str,
    password: Password | None,
    pue: float | None,
    past_bytes: int,
    log_file: Path,
) -> int:
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.showing import show_fleet  # noqa: PLC0415  --help stays quick

    clock = SystemClock()
    fleet = await find_fleet(url, name=name, root=root, password=password, clock=clock)
    return await show_fleet(
        url,
        fleet,
        alerting,
        root=root,
        password=password,
        clock=clock,
        pue=pue,
        past_bytes=past_bytes,
        log_file=log_file,
    )
