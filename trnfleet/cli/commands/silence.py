"""`trnfleet silence`: silence alerts for a while, list silences, and expire them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.commands.alerts import alerts_options, report_word
from trnfleet.cli.options import json_option, setting
from trnfleet.cli.params import Duration
from trnfleet.cli.tables import table_lines
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.domain.alerts.matchers import Matcher
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession


@click.group("silence")
def command() -> None:
    """Silence alerts for a while, list silences, and expire them.

    A silence hides matching alerts on every screen and from receivers. Matchers are written as in Alertmanager, with =, !=, =~
    or !~; all of a silence must match. Alerts that still fire when it ends are notified then.

    \b
    Examples:
      trnfleet silence add instance=uc1/us-0001/trn2u-0001-0 --for 4h --why 'hardware swap' --broker mqtt://127.0.0.1:1883
      trnfleet silence add 'alertname=~"hbm.*"' job=pretrain-70b --for 1h --why known --yes --broker mqtt://127.0.0.1:1883
      trnfleet silence list --broker mqtt://127.0.0.1:1883
      trnfleet silence expire 3f2a9c0d5b7e6f10 --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 no such silence or not written, 2 wrong use, 4 sent but not confirmed (MQTT 3.1.1).
    """


@command.command("add")
@click.argument("matchers", nargs=-1, required=True, metavar="MATCHER...")
@setting(
    "--for", "lasts_s", type=Duration(), required=True, help="Duration, in the fleet's own time."
)
@setting("--why", required=True, metavar="TEXT", help="Comment (required).")
@setting("--owner", metavar="NAME", help="Name for the silence; by default the user's.")
@click.option("--yes", is_flag=True, help="Add it; else only list the alerts that it matches now.")
@alerts_options
def add(
    session: BrokerSession,
    name: str | None,
    wait: float,
    matchers: tuple[str, ...],
    lasts_s: float,
    why: str,
    owner: str | None,
    yes: bool,
) -> None:
    """Silence alerts that match every MATCHER; without --yes only list those that match now."""
    from trnfleet.domain.alerts.matchers import parse_matchers
    from trnfleet.services.alerts_client import read_alerts

    parsed = parse_matchers(matchers)
    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    report_word(fleet)
    hidden = _preview(fleet, tuple(parsed))
    if yes:
        texts = [str(matcher) for matcher in parsed]
        silence = asyncio.run(_add(session, fleet, texts, lasts_s, why, owner))
        until = format_rfc3339(fleet.now_ns + round(lasts_s * NS_PER_S))
        head = f"silence {silence} until {until} matches {hidden[0]}"
    else:
        head = f"matches, with --yes: {hidden[0]}"
    for line in (head, *hidden[1:]):
        click.echo(line)


@command.command("list")
@json_option
@alerts_options
def list_all(session: BrokerSession, name: str | None, wait: float, as_json: bool) -> None:
    """List the silences that have not expired, and the number of published alerts that each matches."""
    from trnfleet.services.alerts_client import read_alerts, silence_facts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    report_word(fleet)
    found = silence_facts(fleet)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("silences are not known" if fleet.is_withheld else "no silences")
        return
    rows = [
        (
            each["id"],
            each["state"],
            each["until"],
            str(each["hides"]),
            f"{each['who']} at {each['source']}" if each["source"] else each["who"],
            _what(each),
        )
        for each in found
    ]
    for line in table_lines([("SILENCE", "STATE", "UNTIL", "MATCHES", "WHO", "WHAT"), *rows]):
        click.echo(line)


def _what(facts: dict[str, Any]) -> str:
    """Return what a silence is for, why, why it hides nothing where its matchers have no equivalent, and who refuses it."""
    words = [" ".join(facts["matchers"]), facts["why"]]
    if facts["not_applied"]:
        words[0] = f"not applied ({facts['not_applied']})"
    words += [f"refused by {receiver} ({reason})" for receiver, reason in facts["refused"].items()]
    return ": ".join(each for each in words if each)


@command.command("expire")
@click.argument("silence")
@alerts_options
def expire(session: BrokerSession, name: str | None, wait: float, silence: str) -> None:
    """End SILENCE now; alerts that it hid and that still fire are notified."""
    from trnfleet.services.alerts_client import read_alerts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    found = fleet.silences.silence(silence)
    if found is None:
        known = [each.id for each in fleet.silences.known]
        raise BrokerError(f"no silence {silence!r}: {nearest(silence, known)}")
    asyncio.run(_expire(session, fleet, found))
    click.echo(f"silence {silence} has expired")


async def _add(
    session: BrokerSession,
    fleet: FleetAlerts,
    matchers: list[str],
    lasts_s: float,
    why: str,
    owner: str | None,
) -> str:
    """Write a silence and return its id."""
    from trnfleet.services.alerts_client import open_operator

    async with open_operator(session, fleet.name, owner) as operator:
        return await operator.silence(matchers, now_ns=fleet.now_ns, lasts_s=lasts_s, why=why)


async def _expire(session: BrokerSession, fleet: FleetAlerts, silence: Silence) -> None:
    from trnfleet.services.alerts_client import open_operator

    async with open_operator(session, fleet.name) as operator:
        await operator.expire(silence)


def _preview(fleet: FleetAlerts, matchers: tuple[Matcher, ...]) -> list[str]:
    """Return the alerts that a silence matches now: a count, and the first of them."""
    summaries = {each.fingerprint: each.summary for each in fleet.alerts.values()}
    found = fleet.preview(matchers)
    lines = [f"{counted(found.firing, 'firing alert')}, {found.critical:,} critical"]
    lines += [
        plain(f"  {alert.severity.value} {alert.name}: {summaries[alert.fingerprint]}", 400)
        for alert in found.examples
    ]
    if found.firing > len(found.examples):
        lines.append(f"  and {found.firing - len(found.examples):,} more")
    if cells := fleet.cells_matched(matchers):
        lines.append(
            plain(
                f"alerts of cells match, too, and are silenced on the cell's broker: {', '.join(cells)}",
                400,
            )
        )
    return lines
