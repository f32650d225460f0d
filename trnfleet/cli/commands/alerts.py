"""`trnfleet alerts`: what a watch says fires, and what people have said about it; one look."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
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
from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.errors import BrokerError, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.messages import WatchMessage
    from trnfleet.wire.ports import Source

UNKNOWN = 1
"""Exit status where no watch publishes alerts."""
UNHANDLED = 3
CONNECT_LIMIT_S = 10.0
LONGEST_WAIT_S = 3_600.0
LOOK_S = 0.05
QUIET_S = 0.5
"""All retained messages have come when none has for so long."""
HEARTBEAT_LIMIT_S = 12.0
"""Longest wait for a heartbeat of watches whose last one is old or has no time: one interval and a little."""
FIRST_LOOK_S = 3.0
"""A watch listens for 2 s before it publishes; one that is younger than this is waited for."""


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
    silences: Silences
    now_ns: int
    """The fleet's time."""
    watches: tuple[str, ...]
    """Client ids of the watches that are there."""
    gone: tuple[str, ...] = ()
    """Client ids of those that have left a message and are not there: ended by their last will, or without heartbeat."""

    @property
    def silence_reason(self) -> str:
        """Why nothing is known of what fires now, and what to do; empty while a watch is there."""
        if self.watches:
            return ""
        gone = (
            f" ({', '.join(self.gone[:3])} {'has' if len(self.gone) == 1 else 'have'} gone)"
            if self.gone
            else ""
        )
        return f"no watch publishes alerts of fleet {self.fleet}{gone}; start `trnfleet watch`"

    def status(self, message: AlertMessage) -> AlertStatus:
        """Return what is to be done about an alert."""
        return self.silences.status(alert_of(message), self.now_ns)


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

    Without a watch nobody knows what fires: that is said, with exit status 1, and what a former watch has left is shown as
    last known. In --json, `watched` is false then.

    \b
    Examples:
      trnfleet alerts --broker mqtt://127.0.0.1:1883
      trnfleet alerts --broker mqtt://127.0.0.1:1883 --json | jq -r '.alerts[].summary'

    \b
    Exit status: 0 nothing critical is left to do, 3 a critical alert fires that nobody has acknowledged and that is neither
    silenced nor inhibited, 1 a failure explained in one line, also where no watch publishes alerts, 2 wrong use.
    """
    from trnfleet.domain.alerts.status import AlertStatus  # noqa: PLC0415  --help stays quick

    seen = asyncio.run(look(take_asking(common)))
    found = [
        (message, seen.status(message))
        for message in seen.told.values()
        if everything or message.state == "firing"
    ]
    found.sort(key=_order)
    if as_json:
        facts = {
            "fleet": seen.fleet,
            "time": format_rfc3339(seen.now_ns),
            "watched": bool(seen.watches),
            "watches": list(seen.watches),
            "gone": list(seen.gone),
            "alerts": [_alert_facts(message, status, seen) for message, status in found],
            "silences": silence_facts(seen),
        }
        click.echo(json.dumps(facts, indent=2))
        warn_without_watch(seen)
    else:
        for line in text_lines(found, seen):
            click.echo(line)
    is_left = any(
        message.severity is Severity.CRITICAL and status is AlertStatus.FIRING for message, status in found
    )
    if not seen.watches:
        ctx.exit(UNKNOWN)
    ctx.exit(UNHANDLED if is_left else 0)


def text_lines(found: Sequence[tuple[AlertMessage, AlertStatus]], seen: Seen) -> list[str]:
    """Return alerts for people; without a watch under a line that says so, as last known and with the age of each."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    rows = [_row(message, status, seen) for message, status in found]
    if seen.watches:
        return table([("ALERT", "SEVERITY", "STATE", "FOR", "WHAT"), *rows]) if rows else ["nothing fires"]
    if not rows:
        return [plain(seen.silence_reason, 400)]
    known = [(row[0], row[1], f"{row[2]} (last known)", *row[3:]) for row in rows]
    return [
        plain(f"{seen.silence_reason}; as last known:", 400),
        *table([("ALERT", "SEVERITY", "STATE", "AGE", "WHAT"), *known]),
    ]


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
        publishers = await find_publishers(presence, root, clock)
        # Without a publisher there is no telemetry to wait for, and the wall clock is as good as any.
        while publishers.publish and not monitor.counts.messages and clock.monotonic_s() < until_s:
            await clock.sleep(LOOK_S)
        # A watch that has just begun has not published anything yet.
        await clock.sleep(max(0.0, FIRST_LOOK_S - publishers.watched_s))
        return Seen(
            fleet,
            dict(monitor.ingest.alert_messages),
            monitor.alerts.silences,
            monitor.moment().time_ns,
            publishers.watches,
            publishers.gone,
        )


class Publishers(NamedTuple):
    """Who publishes about a fleet."""

    watches: tuple[str, ...]
    """Client ids of the watches that are there."""
    gone: tuple[str, ...]
    """Client ids of the watches that are not, and have left a message."""
    publish: bool
    """Whether any other publisher is there."""
    watched_s: float
    """For how long the oldest of the watches has been there, by the wall clock; infinite where that is unknown."""


async def find_publishers(presence: Source, root: str, clock: Clock) -> Publishers:
    """Return who publishes; where all watches are in doubt, wait until a heartbeat of one comes or is overdue."""
    from trnfleet.wire.messages import WatchMessage, decode_message  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.topics import parse_topic  # noqa: PLC0415  --help stays quick

    known: dict[str, WatchMessage] = {}
    heard: set[str] = set()
    """Watches whose heartbeat came while we listened."""
    begun_s = clock.monotonic_s()
    while True:
        try:
            batch = await asyncio.wait_for(presence.take(), QUIET_S)
        except TimeoutError:
            batch = []
        for envelope in batch:
            try:
                client = parse_topic(envelope.topic, root).path
                message = decode_message(envelope.payload, WatchMessage) if envelope.payload else None
            except WireError:
                continue
            if message is None or message.client != client:
                known.pop(client, None)
                continue
            known[client] = message
            if not envelope.retain:
                heard.add(client)
        online = {client: each for client, each in known.items() if each.state == "online"}
        watches = {client: each for client, each in online.items() if each.role == "watch"}
        there = [
            client for client, each in watches.items() if client in heard or _is_fresh(each, clock.wall_ns())
        ]
        is_over = clock.monotonic_s() - begun_s >= HEARTBEAT_LIMIT_S
        if is_over or (not batch and (there or not watches)):
            break
    since_ns = [_time_ns(watches[client].since) for client in there]
    return Publishers(
        tuple(sorted(there)),
        tuple(sorted(name for name, each in known.items() if each.role == "watch" and name not in there)),
        len(watches) < len(online),
        max(
            (abs(clock.wall_ns() - each) / NS_PER_S for each in since_ns if each is not None),
            default=math.inf,
        ),
    )


def _is_fresh(message: WatchMessage, wall_ns: int) -> bool:
    """Return whether a watch that has left this message was there a moment ago."""
    from trnfleet.export.election import GONE_S  # noqa: PLC0415  --help stays quick

    ts_ns = _time_ns(message.ts)
    return ts_ns is not None and abs(wall_ns - ts_ns) < GONE_S * NS_PER_S


def _time_ns(text: str | None) -> int | None:
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick

    try:
        return None if text is None else parse_rfc3339(text)
    except (ValueError, OverflowError):
        return None


@contextlib.asynccontextmanager
async def desk_of(asking: Asking, fleet: str, owner: str | None = None) -> AsyncIterator[OperatorActions]:
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
        from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

        click.echo(plain(seen.silence_reason, 400), err=True)


def alert_of(message: AlertMessage) -> Alert:
    """Return what a watch says as an alert, with a rule that has only the name and the severity of its own."""
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.alerts.alert import Alert  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.alerts.status import AlertState  # noqa: PLC0415  --help stays quick

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


def stand_in(name: str, severity: Severity = Severity.INFO) -> Any:
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
    from trnfleet.domain.alerts.silences import Span  # noqa: PLC0415  --help stays quick

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
        for silence in sorted(seen.silences.known, key=lambda each: each.ends_ns)
        if silence.span(seen.now_ns) is not Span.OVER
    ]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned, as plain text; the last column is as long as it is."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    cells = [[plain(cell, 400) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _order(found: tuple[AlertMessage, AlertStatus]) -> tuple[bool, int, str, str]:
    message, _ = found
    return message.state != "firing", message.severity.rank, message.rule, message.target


def _row(message: AlertMessage, status: AlertStatus, seen: Seen) -> tuple[str, ...]:
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.quantities import duration  # noqa: PLC0415  --help stays quick

    alert = alert_of(message)
    said = message.summary
    ack = seen.silences.ack_of(alert, seen.now_ns)
    if ack is not None and message.state == "firing":
        said += f" [{ack.owner}{': ' if ack.note else ''}{ack.note}]"
    until_ns = seen.now_ns if message.resolved is None else parse_rfc3339(message.resolved)
    lasted_s = max(0.0, (until_ns - (alert.fired_ns or until_ns)) / 1e9)
    return (
        message.fingerprint,
        message.severity.value,
        status.value,
        duration(lasted_s),
        f"{message.rule}: {said}",
    )


def _alert_facts(message: AlertMessage, status: AlertStatus, seen: Seen) -> dict[str, Any]:
    from trnfleet.clock import parse_rfc3339  # noqa: PLC0415  --help stays quick

    ack = seen.silences.ack_of(alert_of(message), seen.now_ns)
    silences = seen.silences.silences_of(alert_of(message), seen.now_ns)
    return {
        **message.model_dump(mode="json", exclude={"v"}),
        "standing": status.value,
        "last_known": not seen.watches,
        "age_s": max(0.0, (seen.now_ns - parse_rfc3339(message.fired)) / NS_PER_S),
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
