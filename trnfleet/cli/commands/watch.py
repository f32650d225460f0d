"""`trnfleet watch`: alerts of a fleet without a terminal, to the broker and to receivers."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import broker_options, fleet_option, log_options, rules_option, setting
from trnfleet.cli.output import report
from trnfleet.cli.params import Duration, Program, ReceiverUrl, WebUrl
from trnfleet.domain.severity import Severity

if TYPE_CHECKING:
    from trnfleet.services.session import BrokerSession

FIRES = 3
"""Exit status of `--exit-on`."""
END_LIMIT_S = 1.2
"""Longest time for connections and threads to end after the watch. All is over within 2 s."""


@click.command("watch")
@broker_options(required=True)
@fleet_option
@rules_option
@setting(
    "--alertmanager",
    type=ReceiverUrl(),
    multiple=True,
    metavar="URL",
    help="Notify an Alertmanager, as http://host:9093; several times for several.",
)
@setting(
    "--alertmanager-silences",
    type=click.Choice(["both", "read", "off"]),
    default="both",
    help="Silences: both ways with Alertmanager, only read from there, or none.",
)
@setting(
    "--webhook",
    type=ReceiverUrl(),
    multiple=True,
    metavar="URL",
    help="Post to a URL in the form of Alertmanager's webhooks; several times for several.",
)
@setting(
    "--external-url",
    type=WebUrl(),
    help=(
        "Base of the links back to alerts (generatorURL), with fleet, alertname and target as its"
        " query; by default none."
    ),
)
@setting(
    "--runbook-base",
    type=WebUrl(),
    help=(
        "Page of rules, such as a copy of docs/rules.md. runbook_url is URL#RULE; by default none."
    ),
)
@click.option(
    "--exec",
    "programs",
    type=Program(),
    multiple=True,
    metavar="'PROGRAM ARGS'",
    help=(
        "Run a program for each alert that fires or resolves, without a shell: JSON on its stdin,"
        " TRNFLEET_ALERT_... variables."
    ),
)
@click.option(
    "--stdout", is_flag=True, help="Write a line of JSON for each alert that fires or resolves."
)
@setting(
    "--exit-on",
    type=click.Choice([severity.value for severity in Severity]),
    help="End with status 3 as soon as an alert of that severity or a worse one fires.",
)
@setting("--exit-after", type=Duration(), help="End after this wall time.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    name: str | None,
    rules: tuple[str, ...],
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
    """Evaluate alert rules, publish the state of alerts, and notify receivers of alerts that fire and resolve.

    Of several watches of a fleet the longest-running one is the leader; the others are on standby and take over when it is
    gone. Give all of them the same receivers. Notifications are logged at the broker, so that neither a restart nor another
    watch repeats them; a watch that dies between a notification and its log entry is followed by one that sends it again.
    Silenced and inhibited alerts are notified once they no longer are. A receiver that fails does not stop the others: it is
    logged, shown by `trnfleet status`, and retried. Passwords of receivers come from the URL, or from
    TRNFLEET_ALERTMANAGER_PASSWORD and TRNFLEET_WEBHOOK_PASSWORD for the user in the URL.

    \b
    Examples:
      trnfleet watch --broker mqtt://127.0.0.1:1883 --alertmanager http://127.0.0.1:9093
      trnfleet watch --broker mqtt://127.0.0.1:1883 --stdout | jq -r .summary
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exec 'logger -t trnfleet' --webhook https://hooks.example/alerts
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exit-on critical --exit-after 10m

    \b
    Exit status: 0 ended by a signal or --exit-after, 1 a failure explained in one line, also --exit-after with --exit-on while
    there is no connection and --stdout that cannot be written to where nothing else is notified, 2 wrong use, 3 by --exit-on.
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
    )
    receivers = make_receivers(alertmanager, webhook, programs, session.clock, stdout=stdout)
    silences = make_silences(alertmanager, session.clock)
    statuses = {
        Outcome.ENDED: 0,
        Outcome.FOUND: FIRES,
        Outcome.BLIND: 1,
        Outcome.REFUSED: 1,
        Outcome.UNHEARD: 1,
    }
    outcome, hard_exit = Outcome.ENDED, HardExit()
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
        """Exit with `status` unless cancelled within `END_LIMIT_S`."""
        self._timer = threading.Timer(END_LIMIT_S, os._exit, (status,))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Leave the end to the process."""
        if self._timer is not None:
            self._timer.cancel()
