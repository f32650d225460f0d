"""`trnfleet ack`: acknowledge an alert, or remove the acknowledgement."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from trnfleet.cli.commands.alerts import alerts_options, report_word
from trnfleet.cli.options import setting
from trnfleet.cli.params import Duration
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import has_id
from trnfleet.errors import BrokerError
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession


@click.command("ack")
@click.argument("alert")
@setting(
    "--for", "lasts_s", type=Duration(), default="2h", help="Duration, in the fleet's own time."
)
@setting("--note", default="", metavar="TEXT", help="A note for your colleagues.")
@setting(
    "--owner", metavar="NAME", help="Your name in the acknowledgement; by default your user name."
)
@click.option("--withdraw", is_flag=True, help="Remove the acknowledgement instead.")
@alerts_options
def command(
    session: BrokerSession,
    name: str | None,
    wait: float,
    alert: str,
    lasts_s: float,
    note: str,
    owner: str | None,
    withdraw: bool,
) -> None:
    """Acknowledge ALERT: an id from `trnfleet alerts`, its beginning, or "RULE PLACE".

    The alert still fires, and receivers of `trnfleet watch` still get it; use `trnfleet silence` to hide it from them. The
    acknowledgement ends after its time, with the alert, or with --withdraw.

    \b
    Examples:
      trnfleet ack 75bf5ca24c120561 --for 2h --note 'replacing it' --broker mqtt://127.0.0.1:1883
      trnfleet ack 'straggler uc1/us-0001/trn2u-0001-2' --broker mqtt://127.0.0.1:1883
      trnfleet ack 75bf5ca24c120561 --withdraw --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 no such alert or not written, 2 wrong use, 4 sent but not confirmed (MQTT 3.1.1).
    """
    from trnfleet.services.alerts_client import read_alerts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    report_word(fleet)
    if withdraw:
        done = asyncio.run(_withdraw(session, fleet, alert))
    else:
        done = asyncio.run(_acknowledge(session, fleet, alert, lasts_s, note, owner))
    click.echo(done)


async def _acknowledge(
    session: BrokerSession,
    fleet: FleetAlerts,
    which: str,
    lasts_s: float,
    note: str,
    owner: str | None,
) -> str:
    from trnfleet.services.alerts_client import find_alert, open_operator

    alert = find_alert(fleet, which)
    async with open_operator(session, fleet.name, owner) as operator:
        revision = fleet.silences.next_ack_revision(alert.fingerprint)
        await operator.acknowledge(
            alert, now_ns=fleet.now_ns, lasts_s=lasts_s, note=note, revision=revision
        )
    until = format_rfc3339(fleet.now_ns + round(lasts_s * NS_PER_S))
    return plain(f"{operator.owner} acknowledges {alert.name} {alert.target} until {until}", 400)


async def _withdraw(session: BrokerSession, fleet: FleetAlerts, which: str) -> str:
    from trnfleet.services.alerts_client import find_alert, open_operator

    acked = [ack.fingerprint for ack in fleet.silences.acks if has_id(ack.fingerprint, which)]
    fingerprint = acked[0] if len(acked) == 1 else find_alert(fleet, which).fingerprint
    ack = fleet.silences.ack(fingerprint)
    if ack is None:
        raise BrokerError(f"{which!r} is not acknowledged")
    async with open_operator(session, fleet.name) as operator:
        await operator.withdraw_ack(ack)
    return f"{fingerprint} is no longer acknowledged"
