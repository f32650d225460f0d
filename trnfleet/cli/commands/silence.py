"""`trnfleet silence`: keep alerts quiet for a while, see which are, and end it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.commands.alerts import (
    Asking,
    alert_of,
    asking_options,
    desk_of,
    look,
    silence_facts,
    table,
    take_asking,
    warn_without_watch,
)
from trnfleet.cli.options import Duration, setting
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import BrokerError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.cli.commands.alerts import Seen
    from trnfleet.domain.alerts.matchers import Matcher


@click.group("silence")
def command() -> None:
    """Silence alerts for a while, list silences, and end them.

    A silence hides what fires and matches, from everybody. Matchers are written as Alertmanager writes them, with =, !=, =~ or
    !~; all of a silence must hold. What still fires when it ends is told then.

    \b
    Examples:
      trnfleet silence add instance=uc1/us-0001/trn2u-0001-0 --for 4h --why 'hardware swap' --broker mqtt://127.0.0.1:1883
      trnfleet silence add 'alertname=~"hbm.*"' job=pretrain-70b --for 1h --why known --yes --broker mqtt://127.0.0.1:1883
      trnfleet silence list --broker mqtt://127.0.0.1:1883
      trnfleet silence expire 3f2a9c0d5b7e6f10 --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 no such silence or not written, 2 wrong use.
    """


@command.command("add")
@click.argument("matchers", nargs=-1, required=True, metavar="MATCHER...")
@setting("--for", "lasts_s", type=Duration(), required=True, help="How long, in the fleet's own time.")
@setting("--why", required=True, metavar="TEXT", help="The reason, for others.")
@setting("--owner", metavar="NAME", help="Who wants it; by default the user's name.")
@click.option("--yes", is_flag=True, help="Do it; else only say what it would hide now.")
@asking_options
def add(
    matchers: tuple[str, ...], lasts_s: float, why: str, owner: str | None, yes: bool, **common: Any
) -> None:
    """Silence what every MATCHER matches; without --yes only say what that would hide now."""
    from trnfleet.domain.alerts.matchers import parse_matchers  # noqa: PLC0415  --help stays quick

    parsed = parse_matchers(matchers)
    for line in asyncio.run(_add(take_asking(common), parsed, lasts_s, why, owner, yes=yes)):
        click.echo(line)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@asking_options
def list_all(as_json: bool, **common: Any) -> None:
    """List the silences that are not over, and how many of the alerts that a watch publishes each of them hides."""
    seen = asyncio.run(look(take_asking(common)))
    warn_without_watch(seen)
    found = silence_facts(seen)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("nothing is silenced")
        return
    rows = [
        (
            each["id"],
            each["state"],
            each["until"],
            str(each["hides"]),
            each["who"],
            f"{' '.join(each['matchers'])}{': ' if each['why'] else ''}{each['why']}",
        )
        for each in found
    ]
    for line in table([("SILENCE", "STATE", "UNTIL", "HIDES", "WHO", "WHAT"), *rows]):
        click.echo(line)


@command.command("expire")
@click.argument("silence")
@asking_options
def expire(silence: str, **common: Any) -> None:
    """End SILENCE now; what it hid and still fires is told."""
    click.echo(asyncio.run(_expire(take_asking(common), silence)))


async def _add(
    asking: Asking, matchers: Sequence[Matcher], lasts_s: float, why: str, owner: str | None, *, yes: bool
) -> list[str]:
    """Silence what matches, if that is wanted, and return what it hides."""
    seen = await look(asking)
    warn_without_watch(seen)
    hidden = _preview(seen, tuple(matchers))
    if not yes:
        return [f"would hide, with --yes: {hidden[0]}", *hidden[1:]]
    async with desk_of(asking, seen.fleet, owner) as desk:
        texts = [str(matcher) for matcher in matchers]
        silence = await desk.silence(texts, now_ns=seen.now_ns, lasts_s=lasts_s, why=why)
    until = format_rfc3339(seen.now_ns + round(lasts_s * NS_PER_S))
    return [f"silence {silence} until {until} hides {hidden[0]}", *hidden[1:]]


async def _expire(asking: Asking, silence: str) -> str:
    seen = await look(asking)
    if seen.silences.silence(silence) is None:
        known = [each.id for each in seen.silences.known]
        raise BrokerError(f"no silence {silence!r}: {nearest(silence, known)}")
    async with desk_of(asking, seen.fleet) as desk:
        await desk.expire(silence)
    return f"silence {silence} is over"


def _preview(seen: Seen, matchers: tuple[Matcher, ...]) -> list[str]:
    """Return what a silence would hide now: a count, and the first of them."""
    from trnfleet.domain.alerts.silences import preview  # noqa: PLC0415  --help stays quick
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    summaries = {each.fingerprint: each.summary for each in seen.told.values()}
    found = preview(matchers, [alert_of(each) for each in seen.told.values()])
    lines = [f"{found.firing:,} that fire, {found.critical:,} of them critical"]
    lines += [
        plain(f"  {alert.severity.value} {alert.name}: {summaries[alert.fingerprint]}", 400)
        for alert in found.examples
    ]
    if found.firing > len(found.examples):
        lines.append(f"  and {found.firing - len(found.examples):,} more")
    return lines
