"""`trnfleet watch`: alerts of a fleet without a terminal, to the broker and to receivers."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import (
    broker_options,
    fleet_option,
    log_options,
    power_cap_option,
    rules_option,
    setting,
    site_options,
)
from trnfleet.cli.output import report
from trnfleet.cli.params import PROGRAM, RECEIVER_URL, WEB_URL, Duration
from trnfleet.domain.severity import Severity
from trnfleet.errors import ExitStatus
from trnfleet.tasks import END_S, GOODBYE_S

if TYPE_CHECKING:
    from trnfleet.domain.site import Site
    from trnfleet.services.session import BrokerSession


@click.command("watch")
@broker_options(required=True)
@fleet_option
@rules_option
@site_options
@power_cap_option
@setting(
    "--alertmanager",
    type=RECEIVER_URL,
    multiple=True,
    metavar="URL",
    help="Notify an Alertmanager, such as http://host:9093; repeatable.",
)
@setting(
    "--alertmanager-silences",
    type=click.Choice(["both", "read", "off"]),
    default="both",
    help="Exchange silences with Alertmanager: both ways, only read, or off.",
)
@setting(
    "--webhook",
    type=RECEIVER_URL,
    multiple=True,
    metavar="URL",
    help="Post to a URL in the form of Alertmanager's webhooks; repeatable.",
)
@setting(
    "--external-url",
    type=WEB_URL,
    help=(
        "Base of links to alerts (generatorURL), with fleet, alertname and target as query; by"
        " default none."
    ),
)
@setting(
    "--runbook-base",
    type=WEB_URL,
    help=(
        "Page of rules, such as a copy of docs/rules.md, for runbook_url (URL#RULE); by default none."
    ),
)
@click.option(
    "--exec",
    "programs",
    type=PROGRAM,
    multiple=True,
    metavar="'PROGRAM ARGS'",
    help=(
        "Run a program without a shell for each alert that fires or resolves. It gets JSON on stdin"
        " and TRNFLEET_ALERT_... variables."
    ),
)
@click.option(
    "--stdout", is_flag=True, help="Write a line of JSON for each alert that fires or resolves."
)
@setting(
    "--exit-on",
    type=click.Choice([severity.value for severity in Severity]),
    help="Exit with status 3 when an alert of this or a worse severity fires.",
)
@setting("--exit-after", type=Duration(), help="Stop after this wall time.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    name: str | None,
    rules: tuple[str, ...],
    site: Site,
    power_caps: tuple[tuple[str, float], ...],
    alertmanager: tuple[str, ...],
    alertmanager_silences: str,
    webhook: tuple[str, ...],
    external_url: str | None,
    runbook_base: str | None,
    programs: tuple[str, ...],
    stdout: bool,
    exit_on: str | None,
    exit_after: float | None,
) -> None:
    """Evaluate alert rules, publish the state of alerts, and notify receivers when alerts fire and resolve.

    You can run several watches of a fleet, with the same receivers. The longest-running one is the leader; the others are on standby
    and take over when it ends. The broker has a log of notifications, so a restart or another watch does not repeat them. If a watch
    dies between a notification and its log entry, the next one sends it again. Silenced and inhibited alerts are notified
    afterwards, if they still fire. If a receiver fails, the others go on; `trnfleet status` and the log show it, and the watch
    retries. Passwords of receivers come from the URL, or from TRNFLEET_ALERTMANAGER_PASSWORD and TRNFLEET_WEBHOOK_PASSWORD for the
    user in the URL.

    \b
    Examples:
      trnfleet watch --broker mqtt://127.0.0.1:1883 --alertmanager http://127.0.0.1:9093
      trnfleet watch --broker mqtt://127.0.0.1:1883 --stdout | jq -r .summary
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exec 'logger -t trnfleet' --webhook https://hooks.example/alerts
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exit-on critical --exit-after 10m

    \b
    Exit status: 0 ended by a signal or --exit-after; 1 a failure explained in one line, --exit-after with --exit-on without a
    connection, or a closed --stdout as the only receiver; 2 wrong use; 3 by --exit-on.
    """
    from trnfleet.services.files.rules import load_rules
    from trnfleet.services.watch.receivers import make_receivers, make_silences
    from trnfleet.services.watch.run import Outcome, WatchRequest, watch_fleet
    from trnfleet.services.watch.silence_exchange import SilenceMode

    request = WatchRequest(
        name,
        load_rules(rules),
        exit_on,
        exit_after,
        external_url or "",
        runbook_base or "",
        SilenceMode(alertmanager_silences),
        site._replace(power_caps=power_caps),
    )
    receivers = make_receivers(alertmanager, webhook, programs, session.clock, stdout=stdout)
    silences = make_silences(alertmanager, session.clock)
    statuses = {
        Outcome.ENDED: 0,
        Outcome.FOUND: ExitStatus.UNHEALTHY,
        Outcome.BLIND: ExitStatus.FAILED,
        Outcome.REFUSED: ExitStatus.FAILED,
        Outcome.UNHEARD: ExitStatus.FAILED,
    }
    hard_exit = HardExit()
    try:
        outcome = asyncio.run(
            watch_fleet(
                session,
                request,
                receivers,
                silences,
                report,
                lambda ended: hard_exit.start(statuses[ended]),
            )
        )
    finally:
        hard_exit.cancel()
    ctx.exit(statuses[outcome])


class HardExit:
    """Forced end of the process if an uninterruptible thread, as in DNS, blocks it."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, status: int) -> None:
        """Exit with `status` unless cancelled within what is left of `END_S`."""
        self._timer = threading.Timer(END_S - GOODBYE_S, os._exit, (status,))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Leave the end to the process."""
        if self._timer is not None:
            self._timer.cancel()
