"""`trnfleet alerts`: what a watch says fires, and what people have said about it; one look."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import SystemClock, format_rfc3339
from trnfleet.errors import BrokerError, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.desk import Desk
    from trnfleet.monitor.alerting.quieting import Quieting, Standing
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.alerts import AlertMessage

UNHANDLED = 3
CONNECT_LIMIT_S = 10.0
LONGEST_WAIT_S = 3_600.0
LOOK_S = 0.05
QUIET_S = 0.5
"""All retained messages have come when none has for so long."""
_RANKS = {"critical": 0, "warning": 1, "info": 2}


class Asking(NamedTuple):
    """Where to look."""

    broker: BrokerUrl
    password: Password | None
    root: str
    name: str | None
    wait_s: float


class Seen(NamedTuple):
    """What was seen of a fleet's alerts."""

    fleet: str
    told: dict[str, AlertMessage]
    """What a watch says, by fingerprint."""
    quieting: Quieting
    now_ns: int
    """The fleet's time."""
    watches: tuple[str, ...]
    """Client ids of the watches that are there."""

    def standing(self, message: AlertMessage) -> Standing:
        """Return what is to be done about an alert."""
        return self.quieting.standing(alert_of(message), self.now_ns)


def asking_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all commands about alerts have."""
    for option in (
        log_options,
        setting(
            "--wait",
            type=Duration(LONGEST_WAIT_S),
            default="5s",
            help="Longest wait for telemetry, which tells what time it is for a simulated fleet.",
        ),
        setting("--name", type=FleetName(), help="Which fleet, where the broker has several."),
        broker_options(required=True),
    ):
        function = option(function)
    return function


def take_asking(common: dict[str, Any]) -> Asking:
    """Set up logs and return where to look."""
    set_up_logs(common["log_format"], common["log_level"])
    password = find_password(common["password_file"])
    return Asking(common["broker"], password, common["root"], common["name"], common["wait"])


@click.command("alerts")
@click.option("--all", "everything", is_flag=True, help="Also what has resolved lately.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@asking_options
@click.pass_context
def command(ctx: click.Context, /, everything: bool, as_json: bool, **common: Any) -> None:
    """List what fires, as `trnfleet watch` says, with acknowledgements and silences.

    \b
    Examples:
      trnfleet alerts --broker mqtt://127.0.0.1:1883
      trnfleet alerts --broker mqtt://127.0.0.1:1883 --json | jq -r '.alerts[].summary'

    \b
    Exit status: 0 nothing critical is left to do, 3 a critical alert fires that nobody has acknowledged and that is neither
    silenced nor inhibited, 1 a failure explained in one line, 2 wrong use.
    """
    from trnfleet.monitor.alerting.quieting import Standing  # noqa: PLC0415  --help stays quick

    seen = asyncio.run(look(take_asking(common)))
    warn_without_watch(seen)
    found = [
        (message, seen.standing(message))
        for message in seen.told.values()
        if everything or message.state == "firing"
    ]
    found.sort(key=_order)
    if as_json:
        facts = {
            "fleet": seen.fleet,
            "time": format_rfc3339(seen.now_ns),
            "watches": list(seen.watches),
            "alerts": [_alert_facts(message, standing, seen) for message, standing in found],
            "silences": silence_facts(seen),
        }
        click.echo(json.dumps(facts, indent=2))
    elif not found:
        click.echo("nothing fires")
    else:
        rows = [_row(message, standing, seen) for message, standing in found]
        for line in table([("ALERT", "SEVERITY", "STATE", "FOR", "WHAT"), *rows]):
            click.echo(line)
    is_left = any(
        message.severity == "critical" and standing is Standing.FIRING for message, standing in found
    )
    ctx.exit(UNHANDLED if is_left else 0)


async def look(asking: Asking) -> Seen:
    """Return what is retained of a fleet's alerts, and what time it is for it."""
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.watching import watch_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.tasks import background  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttSource  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.topics import TopicClass, build_filter  # noqa: PLC0415  --help stays quick

    clock = SystemClock()
    url, root, password = asking.broker, asking.root, asking.password
    fleet = await find_fleet(url, name=asking.name, root=root, password=password, clock=clock)
    source, monitor = watch_fleet(url, fleet, root=root, password=password, clock=clock)
    topics = [(build_filter(fleet, TopicClass.PUBLISHER, root), 1)]
    presence = MqttSource(url, topics, password=password, clock=clock)
    async with background(source=source.run(), monitor=monitor.run(), presence=presence.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        await presence.wait_connected(CONNECT_LIMIT_S)
        until_s = clock.monotonic_s() + asking.wait_s
        watches, online = await _watches(presence, root)
        # Without a publisher there is no telemetry to wait for, and the wall clock is as good as any.
        while online and not monitor.counts.messages and clock.monotonic_s() < until_s:
            await clock.sleep(LOOK_S)
        return Seen(
            fleet,
            dict(monitor.ingest.told),
            monitor.alerts.quieting,
            monitor.moment().time_ns,
            tuple(sorted(watches)),
        )


async def _watches(presence: MqttSource, root: str) -> tuple[set[str], bool]:
    """Return the watches that are there, and whether any other publisher is."""
    from trnfleet.wire.messages import PublisherMessage, decode_message  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.topics import parse_topic  # noqa: PLC0415  --help stays quick

    roles: dict[str, str] = {}
    while True:
        try:
            batch = await asyncio.wait_for(presence.take(), QUIET_S)
        except TimeoutError:
            break
        for envelope in batch:
            try:
                client = parse_topic(envelope.topic, root).path
                message = decode_message(envelope.payload, PublisherMessage) if envelope.payload else None
            except WireError:
                continue
            if message is not None and message.state == "online":
                roles[client] = message.role
            else:
                roles.pop(client, None)
    watches = {client for client, role in roles.items() if role == "watch"}
    return watches, len(watches) < len(roles)


@contextlib.asynccontextmanager
async def desk_of(asking: Asking, fleet: str, owner: str | None = None) -> AsyncIterator[Desk]:
    """Give a desk that is connected, at which what people say about a fleet's alerts is written."""
    from trnfleet.cli.alerting import make_desk  # noqa: PLC0415  --help stays quick
    from trnfleet.tasks import background  # noqa: PLC0415  --help stays quick

    desk, writer = make_desk(
        asking.broker,
        fleet,
        root=asking.root,
        password=asking.password,
        clock=SystemClock(),
        owner=owner,
        may_write=True,
    )
    if writer is None:
        raise BrokerError(f"{asking.broker}: nothing can be written")
    async with background(writer=writer.run()):
        await writer.wait_connected(CONNECT_LIMIT_S)
        yield desk


def warn_without_watch(seen: Seen) -> None:
    """Say so on stderr if nobody keeps up to date what is shown."""
    if not seen.watches:
        click.echo(
            f"no watch of {seen.fleet} is there: this is what one said last; start `trnfleet watch`", err=True
        )


def alert_of(message: AlertMessage) -> Alert:
    """Return what a watch says as an alert, with a rule that has only the name and the severity of its own."""
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.alerts.alert import Alert  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.alerts.states import AlertState  # noqa: PLC0415  --help stays quick

    is_firing = message.state == "firing"
    return Alert(
        stand_in(message.rule, message.severity),
        message.target,
        message.fingerprint,
        state=AlertState.FIRING if is_firing else AlertState.RESOLVED,
        since_ns=parse_rfc3339(message.since),
        fired_ns=parse_rfc3339(message.fired),
        members=message.members,
        chips=message.chips,
        place=message.place,
        value=message.value,
        inhibited_by=message.inhibited_by or "",
        cause=message.cause,
        labels=dict(message.labels),
    )


def stand_in(name: str, severity: str = "info") -> Any:
    """Return a rule in place of one that only a watch knows; it has a name and a severity, and is never evaluated."""
    from trnfleet.domain.alerts.rules import Rule  # noqa: PLC0415  --help stays quick

    return Rule.model_validate(
        {
            "name": name,
            "scope": "publisher",
            "severity": severity,
            "figure": "state",
            "equals": "offline",
            "summary": "a rule of another",
        }
    )


def silence_facts(seen: Seen) -> list[dict[str, Any]]:
    """Return the silences that are not over, the first to end in front."""
    from trnfleet.domain.alerts.quieting import Span  # noqa: PLC0415  --help stays quick

    return [
        {
            "id": silence.id,
            "matchers": [str(matcher) for matcher in silence.matchers],
            "state": silence.span(seen.now_ns).value,
            "starts": format_rfc3339(silence.starts_ns),
            "until": format_rfc3339(silence.ends_ns),
            "who": silence.who,
            "why": silence.why,
            "hides": sum(
                message.state == "firing" and silence.covers(message.labels) for message in seen.told.values()
            ),
        }
        for silence in sorted(seen.quieting.silences, key=lambda each: each.ends_ns)
        if silence.span(seen.now_ns) is not Span.OVER
    ]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned, as plain text; the last column is as long as it is."""
    from trnfleet.tui.plain import plain  # noqa: PLC0415  --help stays quick

    cells = [[plain(cell, 400) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _order(found: tuple[AlertMessage, Standing]) -> tuple[bool, int, str, str]:
    message, _ = found
    return message.state != "firing", _RANKS[message.severity], message.rule, message.target


def _row(message: AlertMessage, standing: Standing, seen: Seen) -> tuple[str, ...]:
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.quantities import duration  # noqa: PLC0415  --help stays quick

    alert = alert_of(message)
    said = message.summary
    ack = seen.quieting.ack_of(alert, seen.now_ns)
    if ack is not None and message.state == "firing":
        said += f" [{ack.owner}{': ' if ack.note else ''}{ack.note}]"
    until_ns = seen.now_ns if message.resolved is None else parse_rfc3339(message.resolved)
    lasted_s = max(0.0, (until_ns - (alert.fired_ns or until_ns)) / 1e9)
    return (
        message.fingerprint,
        message.severity,
        standing.value,
        duration(lasted_s),
        f"{message.rule}: {said}",
    )


def _alert_facts(message: AlertMessage, standing: Standing, seen: Seen) -> dict[str, Any]:
    ack = seen.quieting.ack_of(alert_of(message), seen.now_ns)
    silences = seen.quieting.silences_of(alert_of(message), seen.now_ns)
    return {
        **message.model_dump(mode="json", exclude={"v"}),
        "standing": standing.value,
        "ack": None
        if ack is None
        else {
            "owner": ack.owner,
            "note": ack.note,
            "at": format_rfc3339(ack.at_ns),
            "until": format_rfc3339(ack.ends_ns),
        },
        "silences": [silence.id for silence in silences],
    }
