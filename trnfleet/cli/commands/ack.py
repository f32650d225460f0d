"""`trnfleet ack`: take an alert in hand, so that everybody sees it, or give it out of hand."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.commands.alerts import (
    Asking,
    alert_of,
    asking_options,
    desk_of,
    look,
    stand_in,
    take_asking,
    warn_without_watch,
)
from trnfleet.cli.options import Duration, setting
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import BrokerError, nearest

if TYPE_CHECKING:
    from trnfleet.cli.commands.alerts import Seen
    from trnfleet.domain.alerts.alert import Alert

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@click.command("ack")
@click.argument("alert")
@setting("--for", "lasts_s", type=Duration(), default="2h", help="How long, in the fleet's own time.")
@setting("--note", default="", metavar="TEXT", help="What others should know.")
@setting("--owner", metavar="NAME", help="Who has it in hand; by default the user's name.")
@click.option("--withdraw", is_flag=True, help="Give it out of hand instead.")
@asking_options
def command(alert: str, lasts_s: float, note: str, owner: str | None, withdraw: bool, **common: Any) -> None:
    """Take ALERT in hand: a fingerprint as `trnfleet alerts` shows it, or "RULE TARGET".

    It goes on firing, and nobody is called for it again. It ends with its time, with the alert, or with --withdraw.

    \b
    Examples:
      trnfleet ack 75bf5ca24c120561 --for 2h --note 'replacing it' --broker mqtt://127.0.0.1:1883
      trnfleet ack 'straggler uc1/us-0001/trn2u-0001-2/chip05' --broker mqtt://127.0.0.1:1883
      trnfleet ack 75bf5ca24c120561 --withdraw --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 no such alert or not written, 2 wrong use.
    """
    asking = take_asking(common)
    said = asyncio.run(_acknowledge(asking, alert, lasts_s, note, owner, withdraw=withdraw))
    click.echo(said)


async def _acknowledge(
    asking: Asking, which: str, lasts_s: float, note: str, owner: str | None, *, withdraw: bool
) -> str:
    """Write it, and return what was done."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    seen = await look(asking)
    warn_without_watch(seen)
    if withdraw:
        fingerprint = which if seen.silences.has_ack(which) else find(seen, which).fingerprint
        if not seen.silences.has_ack(fingerprint):
            raise BrokerError(f"nobody has {which!r} in hand")
    else:
        found = find(seen, which)
    async with desk_of(asking, seen.fleet, owner) as desk:
        if withdraw:
            await desk.withdraw_ack(fingerprint)
            return f"{fingerprint} is in nobody's hand"
        await desk.acknowledge(found, now_ns=seen.now_ns, lasts_s=lasts_s, note=note)
    until = format_rfc3339(seen.now_ns + round(lasts_s * NS_PER_S))
    return plain(f"{desk.owner} has {found.name} {found.target} in hand until {until}", 400)


def find(seen: Seen, which: str) -> Alert:
    """Return the alert that a fingerprint, or a rule and a target, mean.

    Raises:
        BrokerError: no such alert fires. Where no watch says what does, whatever is named is taken.
    """
    from trnfleet.domain.alerts.alert import Alert, fingerprint_of  # noqa: PLC0415  --help stays quick
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    firing = {each.fingerprint: each for each in seen.told.values() if each.state == "firing"}
    rule, _, target = which.strip().partition(" ")
    named = fingerprint_of(seen.fleet, rule, target.strip())
    message = firing.get(which) or firing.get(named)
    if message is not None:
        return alert_of(message)
    if not seen.watches and _FINGERPRINT.fullmatch(which):
        return Alert(stand_in("alert"), which, which)
    if not seen.watches and target and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", rule):
        return Alert(stand_in(rule), target.strip(), named)
    names = [plain(f"{each.rule} {each.target}".strip()) for each in firing.values()]
    raise BrokerError(f"{which!r} does not fire: {nearest(which, names[:20])}")
