"""`trnfleet reserve`: look for, buy and extend Capacity Blocks of a simulated account, and list what is reserved."""

from __future__ import annotations

import asyncio
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
from trnfleet.cli.running import Instant
from trnfleet.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from trnfleet.cli.requests import Answer
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.reservations import OfferingSpec, ReservationMessage

LONGEST_WAIT_S = 3_600.0
QUIET_S = 0.5
"""All retained messages have come when none has for so long."""
MOST_WAIT_S = 5.0
FAILED = 1

Args = dict[str, str | float | bool | None]


class Asking(NamedTuple):
    """Whom to ask, and how."""

    broker: BrokerUrl
    password: Password | None
    root: str
    name: str | None
    timeout_s: float
    as_json: bool


@click.group("reserve")
def command() -> None:
    """Look for, buy and extend Capacity Blocks, and list what is reserved.

    The rules are EC2's, the account is the simulator's: nothing here reaches AWS. buy and extend only say what they would
    do unless --yes is given, and need a simulator that was started with --allow-commands. list and show also tell of what
    `trnfleet bridge` publishes from EC2.

    \b
    Examples:
      trnfleet reserve list --broker mqtt://127.0.0.1:1883
      trnfleet reserve offerings --instance-type trn2.48xlarge --instances 2 --days 7 --broker mqtt://127.0.0.1:1883
      trnfleet reserve buy --ultraserver --days 14 --yes --broker mqtt://127.0.0.1:1883
      trnfleet reserve extend cb-0d1e445c0fb9e7650 --days 7 --yes --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 refused (one line names the rule and what would fit) or not answered, 2 wrong use.
    """


def _asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all of these commands have."""
    for option in (
        log_options,
        click.option("--json", "as_json", is_flag=True, help="Machine-readable."),
        setting("--timeout", type=Duration(LONGEST_WAIT_S), default="5s", help="Longest wait for an answer."),
        setting("--name", type=FleetName(), help="Which fleet, where the broker has several."),
        broker_options(required=True),
    ):
        function = option(function)
    return function


def _looking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is looked for."""
    for option in (
        setting("--until", "ends_by", type=Instant(), help="Latest end."),
        setting("--from", "starts_from", type=Instant(), help="Earliest start, as 2026-01-31T11:30:00Z; else as soon as can be."),
        setting("--zone", help="Availability Zone; else any."),
        setting("--days", type=click.IntRange(0, 1_000_000), help="How long: 1 to 14 days, or weeks up to 182."),
        click.option("--ultraserver", is_flag=True, help="One Trn2 UltraServer of four instances."),
        setting("--instances", type=click.IntRange(0, 1_000_000), help="How many instances; 1 if not given."),
        setting("--instance-type", metavar="TYPE", help="Such as trn2.48xlarge."),
    ):  # fmt: skip  # a table reads as rows
        function = option(function)
    return function


@command.command("offerings")
@_looking
@_asking
def offerings(
    instance_type: str | None,
    instances: int | None,
    ultraserver: bool,
    days: int | None,
    zone: str | None,
    starts_from: datetime | None,
    ends_by: datetime | None,
    **common: Any,
) -> None:
    """List what can be bought, the earliest first: at most six."""
    asking = _set_up(common)
    args = _wanted(instance_type, instances, days, zone, starts_from, ends_by, ultraserver=ultraserver)
    answer = _ask(asking, "reserve_offerings", args)
    _tell_offerings(asking, _offerings_of(answer))


@command.command("buy")
@click.argument("offering", required=False)
@_looking
@click.option("--yes", is_flag=True, help="Buy it; else only say what would be bought.")
@_asking
def buy(
    offering: str | None,
    instance_type: str | None,
    instances: int | None,
    ultraserver: bool,
    days: int | None,
    zone: str | None,
    starts_from: datetime | None,
    ends_by: datetime | None,
    yes: bool,
    **common: Any,
) -> None:
    """Buy OFFERING, or the earliest that fits the options.

    A block is paid up front and cannot be cancelled.
    """
    asking = _set_up(common)
    if offering is None:
        args = _wanted(instance_type, instances, days, zone, starts_from, ends_by, ultraserver=ultraserver)
        found = _offerings_of(_ask(asking, "reserve_offerings", args))[:1]
        if not yes:
            _tell_offerings(asking, found, "would buy, with --yes:")
            return
        offering = found[0].id
    elif not yes:
        click.echo(f"would buy {offering}, with --yes")
        return
    _tell_done(asking, _ask(asking, "reserve_buy", {"offering": offering}))


@command.command("extend")
@click.argument("block")
@setting(
    "--days", type=click.IntRange(0, 1_000_000), required=True, help="By how long: 1 to 14 days, or weeks."
)
@click.option("--yes", is_flag=True, help="Extend it; else only say what would be bought.")
@_asking
def extend(block: str, days: int, yes: bool, **common: Any) -> None:
    """Let BLOCK last longer, from its present end on.

    That can be bought from 56 days to an hour before the end, and is paid up front.
    """
    asking = _set_up(common)
    found = _offerings_of(_ask(asking, "reserve_extension_offerings", {"block": block, "days": float(days)}))
    if not yes:
        _tell_offerings(asking, found, f"would extend {block}, with --yes:")
        return
    _tell_done(asking, _ask(asking, "reserve_extend", {"offering": found[0].id}))


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that have ended, too.")
@_asking
def list_all(everything: bool, **common: Any) -> None:
    """List what is reserved, as publishers told last."""
    from trnfleet.domain.reservations.states import ENDED  # noqa: PLC0415  --help stays quick

    asking = _set_up(common)
    ended = {state.value for state in ENDED}
    found = [each for each in asyncio.run(_collect(asking)) if everything or each.state.value not in ended]
    if asking.as_json:
        click.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    if not found:
        click.echo("nothing is reserved")
        return
    for line in _table([_HEADS, *map(_row, found)]):
        click.echo(line)


@command.command("show")
@click.argument("reservation")
@_asking
def show(reservation: str, **common: Any) -> None:
    """Show all that is told of one reservation."""
    from trnfleet.errors import BrokerError, nearest  # noqa: PLC0415  --help stays quick
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    asking = _set_up(common)
    found = {each.id: each for each in asyncio.run(_collect(asking))}
    message = found.get(reservation)
    if message is None:
        raise BrokerError(f"no reservation {reservation!r}: {nearest(reservation, found)}")
    facts = message.model_dump(mode="json")
    if asking.as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        if key not in {"v", "extensions", "boot"} and value not in (None, [], ""):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            click.echo(f"{key.replace('_', ' '):<20}{plain(text)}")
    for each in message.extensions:
        click.echo(
            f"{'extension':<20}{plain(each.state.value)}: until {_time(each.end)} for {each.fee} {each.currency}"
        )


def _set_up(common: dict[str, Any]) -> Asking:
    """Set up logs and return whom to ask."""
    set_up_logs(common["log_format"], common["log_level"])
    password = find_password(common["password_file"])
    return Asking(
        common["broker"], password, common["root"], common["name"], common["timeout"], common["as_json"]
    )


def _wanted(
    instance_type: str | None,
    instances: int | None,
    days: int | None,
    zone: str | None,
    starts_from: datetime | None,
    ends_by: datetime | None,
    *,
    ultraserver: bool,
) -> Args:
    """Return what is looked for as a command's arguments."""
    if days is None:
        raise click.UsageError("say for how long: --days N")
    wanted: Args = {
        "days": float(days),
        "instance_type": instance_type,
        "instances": None if instances is None else float(instances),
        "ultraservers": 1.0 if ultraserver else None,
        "zone": zone,
        "starts_from": None if starts_from is None else starts_from.isoformat(),
        "ends_by": None if ends_by is None else ends_by.isoformat(),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _ask(asking: Asking, action: str, args: Args) -> Answer:
    """Ask the simulator; end with what it says if it refuses."""
    from trnfleet.cli.commands.inject import ask_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.requests import Request  # noqa: PLC0415  --help stays quick

    answers = asyncio.run(
        ask_fleet(
            asking.broker,
            asking.name,
            Request(action, "", args),
            root=asking.root,
            password=asking.password,
            timeout_s=asking.timeout_s,
        )
    )
    for answer in answers:
        if answer.ok:
            return answer
    click.echo(f"trnfleet: {answers[0].reason}", err=True)
    raise click.exceptions.Exit(FAILED)


def _offerings_of(answer: Answer) -> list[OfferingSpec]:
    """Return the offerings in an answer.

    Raises:
        BrokerError: it has none, or what it has is none.
    """
    from pydantic import ValidationError  # noqa: PLC0415  --help stays quick

    from trnfleet.errors import BrokerError  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.reservations import OfferingSpec  # noqa: PLC0415  --help stays quick

    try:
        found = [OfferingSpec.model_validate(each) for each in answer.result.get("offerings") or ()]
    except (ValidationError, TypeError) as error:
        raise BrokerError(f"{answer.simulator}: its answer has no offerings that make sense") from error
    if not found:
        raise BrokerError(f"{answer.simulator}: its answer has no offerings")
    return found


def _tell_offerings(asking: Asking, found: Sequence[OfferingSpec], title: str = "") -> None:
    if asking.as_json:
        click.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=2))
        return
    if title:
        click.echo(title)
    rows = [
        (
            each.id,
            _what(each.ultraserver_type, each.instances, each.instance_type),
            each.zone,
            _time(each.start),
            _time(each.end),
            f"{each.hours:g} h",
            f"{float(each.fee):,.2f} {each.currency}",
        )
        for each in found
    ]
    for line in _table([("OFFERING", "WHAT", "ZONE", "START", "END", "LASTS", "FEE"), *rows]):
        click.echo(line)


def _tell_done(asking: Asking, answer: Answer) -> None:
    if asking.as_json:
        click.echo(json.dumps(answer.result.get("reservation"), indent=2))
    else:
        click.echo(answer.reason)


async def _collect(asking: Asking) -> list[ReservationMessage]:
    """Return the reservations that a fleet's publishers retain, by their end."""
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.errors import WireError  # noqa: PLC0415  --help stays quick
    from trnfleet.tasks import background  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttSource  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.messages import decode_message  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.reservations import ReservationMessage  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.topics import TopicClass, build_filter  # noqa: PLC0415  --help stays quick

    clock = SystemClock()
    fleet = await find_fleet(
        asking.broker, name=asking.name, root=asking.root, password=asking.password, clock=clock
    )
    topics = [(build_filter(fleet, TopicClass.RESERVATION, asking.root), 1)]
    source = MqttSource(asking.broker, topics, password=asking.password, clock=clock)
    found: dict[str, ReservationMessage] = {}
    async with background(reservations=source.run()):
        await source.wait_connected(asking.timeout_s)
        until_s = clock.monotonic_s() + MOST_WAIT_S
        while clock.monotonic_s() < until_s:
            try:
                batch = await asyncio.wait_for(source.take(), QUIET_S)
            except TimeoutError:
                break
            for envelope in batch:
                try:
                    message = decode_message(envelope.payload, ReservationMessage)
                except WireError:
                    continue
                if envelope.topic.endswith(f"/{message.id}"):
                    found[message.id] = message
    return sorted(found.values(), key=lambda each: (each.end or "9", each.start, each.id))


_HEADS = ("RESERVATION", "STATE", "WHAT", "IN USE", "ZONE", "START", "END", "FEE", "INTERCONNECT")


def _row(message: ReservationMessage) -> tuple[str, ...]:
    used = "?" if message.launched is None else str(message.launched)
    return (
        message.id,
        message.state.value,
        _what(message.ultraserver_type, message.instances, message.instance_type),
        f"{used} of {message.instances}",
        message.zone,
        _time(message.start),
        "none" if message.end is None else _time(message.end),
        "?" if message.fee is None else f"{float(message.fee):,.2f} {message.currency}",
        "" if message.interconnect is None else message.interconnect.value,
    )


def _what(ultraserver_type: str | None, instances: int, instance_type: str) -> str:
    return f"{instances} x {instance_type}" if ultraserver_type is None else f"1 x {ultraserver_type}"


def _time(text: str) -> str:
    """Return an instant to the minute; whatever is none stays as it is."""
    return f"{text[:10]} {text[11:16]}" if len(text) >= 16 and text[10] == "T" else text


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned, as plain text."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
