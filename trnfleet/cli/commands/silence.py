"""`trnfleet silence`: silence alerts for a while, list silences, and expire them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.commands.alerts import alerts_options, report_word
from trnfleet.cli.options import json_option, setting
from trnfleet.cli.output import print_json, report, table_lines
from trnfleet.cli.params import Duration
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import has_id
from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, ExitStatus, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.domain.alerts.matchers import Matcher
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession


@click.group("silence")
def command() -> None:
    """Silence alerts for a while, list silences, and expire them.

    A silence hides matching alerts on every screen and from receivers. Write matchers as in Alertmanager, with =, !=, =~ or !~;
    an alert must match all of them. If it still fires when the silence ends, receivers are notified.

    \b
    Examples:
      trnfleet silence add instance=uc1/us-0001/trn2u-0001-0 --for 4h --why 'hardware swap' --broker mqtt://127.0.0.1:1883
      trnfleet silence add 'alertname=~"hbm.*"' job=pretrain-70b --for 1h --why known --yes --broker mqtt://127.0.0.1:1883
      trnfleet silence list --broker mqtt://127.0.0.1:1883
      trnfleet silence expire 3f2a9c0d5b7e6f10 --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 no such silence, not written or silences not known, 2 wrong use, 4 sent but not confirmed (MQTT 3.1.1).
    """


@command.command("add")
@click.argument("matchers", nargs=-1, required=True, metavar="MATCHER...")
@setting(
    "--for", "lasts_s", type=Duration(), required=True, help="Duration, in the fleet's own time."
)
@setting("--why", required=True, metavar="TEXT", help="Comment (required).")
@setting("--owner", metavar="NAME", help="Your name in the silence; by default your user name.")
@click.option("--yes", is_flag=True, help="Add it; otherwise only list the alerts that match now.")
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
    """Silence alerts that match every MATCHER, or one alert by its id.

    Without --yes, only list them.

    Stderr warns about unknown names, and suggests the nearest one.
    """
    from trnfleet.domain.alerts.matchers import has_matchers, parse_matchers, split_matchers
    from trnfleet.services.alerts_client import matchers_of, read_alerts

    line = " ".join(matchers)
    texts = (
        [matcher for argument in matchers for matcher in split_matchers(argument)]
        if has_matchers(line)
        else []
    )
    parsed = parse_matchers(texts) if texts else ()
    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    report_word(fleet)
    parsed = parsed or matchers_of(fleet, line)
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
@click.pass_context
def list_all(
    ctx: click.Context, session: BrokerSession, name: str | None, wait: float, as_json: bool
) -> None:
    """List unexpired silences, each with its number of matching alerts."""
    from trnfleet.services.alerts_client import read_alerts, silence_facts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    report_word(fleet)
    silences = silence_facts(fleet)
    if as_json:
        print_json(silences)
        ctx.exit(ExitStatus.FAILED if silences is None else 0)
    if not silences:
        click.echo("silences are not known" if silences is None else "no silences")
        ctx.exit(ExitStatus.FAILED if silences is None else 0)
    rows = [
        (
            silence["id"],
            silence["state"],
            silence["until"],
            str(silence["hides"]),
            f"{silence['who']} at {silence['source']}" if silence["source"] else silence["who"],
            _what(silence),
        )
        for silence in silences
    ]
    for line in table_lines([("SILENCE", "STATE", "UNTIL", "MATCHES", "WHO", "WHAT"), *rows]):
        click.echo(line)


def _what(facts: dict[str, Any]) -> str:
    """Return a silence's subject, reason, and errors.

    The errors are matchers without equivalent, so that it hides nothing, and refusals.
    """
    words = [" ".join(facts["matchers"]), facts["why"]]
    if facts["not_applied"]:
        words[0] = f"not applied ({facts['not_applied']})"
    words += [f"refused by {receiver} ({reason})" for receiver, reason in facts["refused"].items()]
    return ": ".join(word for word in words if word)


@command.command("expire")
@click.argument("silence")
@alerts_options
def expire(session: BrokerSession, name: str | None, wait: float, silence: str) -> None:
    """End SILENCE now. Receivers are notified of its alerts that still fire."""
    from trnfleet.services.alerts_client import read_alerts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    known = list(fleet.silences.known)
    matching = [candidate for candidate in known if candidate.id == silence] or [
        candidate for candidate in known if has_id(candidate.id, silence)
    ]
    if not matching:
        if fleet.is_withheld:
            raise BrokerError(f"silence {silence!r}: {fleet.unwatched_reason}")
        raise BrokerError(
            f"no silence {silence!r}: {nearest(silence, [candidate.id for candidate in known])}"
        )
    if len(matching) > 1:
        raise BrokerError(
            f"{silence!r} begins {len(matching)} ids: {', '.join(match.id for match in matching[:5])}"
        )
    asyncio.run(_expire(session, fleet, matching[0]))
    click.echo(f"silence {matching[0].id} has expired")


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
    summaries = {message.fingerprint: message.summary for message in fleet.alerts.values()}
    preview = fleet.preview(matchers)
    for doubt in preview.doubts:
        report(plain(doubt, 400))
    if fleet.is_withheld:
        return ["alerts that are not known"]
    lines = [f"{counted(preview.firing, 'firing alert')}, {preview.critical:,} critical"]
    lines += [
        plain(f"  {alert.severity.value} {alert.name}: {summaries[alert.fingerprint]}", 400)
        for alert in preview.examples
    ]
    if preview.firing > len(preview.examples):
        lines.append(f"  and {preview.firing - len(preview.examples):,} more")
    if preview.other_chips:
        lines.append(f"  also {counted(preview.other_chips, 'chip')} without an alert now")
    if cells := fleet.cells_matched(matchers):
        lines.append(
            plain(
                "alerts of cells match, too, and are silenced on the cell's broker:"
                f" {', '.join(cells)}",
                400,
            )
        )
    return lines
