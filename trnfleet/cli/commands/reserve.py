"""`trnfleet reserve`: Capacity Blocks of a simulated account.

Commands find, buy and extend them, and list reservations.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from trnfleet.cli.options import (
    broker_options,
    fleet_option,
    json_option,
    log_options,
    option_group,
    setting,
    timeout_option,
)
from trnfleet.cli.output import print_json, row_lines, table_lines
from trnfleet.cli.params import Instant
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.reservations.states import ENDED, BlockState
from trnfleet.errors import BrokerError, TrnfleetError, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trnfleet.services.session import BrokerSession
    from trnfleet.services.simulator.client import Arguments, Reply
    from trnfleet.wire.reservations import OfferingSpec, ReservationMessage


class ReserveOptions(NamedTuple):
    """Options that all of these commands have."""

    session: BrokerSession
    name: str | None
    timeout: float
    as_json: bool


@click.group("reserve")
def command() -> None:
    """Find, buy and extend Capacity Blocks, and list reservations.

    The rules are EC2's and the account is the simulator's: nothing here reaches AWS. buy and extend need a simulator that you
    started with --allow-commands; without --yes they only show the offering. list and show include EC2's reservations from
    `trnfleet bridge`.

    \b
    Examples:
      trnfleet reserve list --broker mqtt://127.0.0.1:1883
      trnfleet reserve offerings --instance-type trn2.48xlarge --instances 2 --days 7 --broker mqtt://127.0.0.1:1883
      trnfleet reserve buy --ultraserver --days 14 --yes --broker mqtt://127.0.0.1:1883
      trnfleet reserve extend cb-0d1e445c0fb9e7650 --days 7 --yes --broker mqtt://127.0.0.1:1883

    \b
    Exit status: 0 done, 1 refused (one line names the rule and a valid choice) or no answer, 2 wrong use.
    """


reserve_options = option_group(
    "options",
    ReserveOptions,
    (broker_options(required=True), fleet_option, timeout_option, json_option, log_options),
)
"""Options of all of these commands, which get `options: ReserveOptions`."""


def _complete_type(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the instance types with a matching name."""
    return [name for name in INSTANCE_TYPES if name.startswith(incomplete)]


class Search(NamedTuple):
    """Options that describe an offering."""

    instance_type: str | None
    instances: int | None
    ultraserver: bool
    days: int | None
    zone: str | None
    starts_from: datetime | None
    ends_by: datetime | None

    def args(self) -> Arguments:
        """Return the arguments of a search for offerings.

        Raises:
            click.UsageError: the duration is missing.
        """
        if self.days is None:
            raise click.UsageError(
                "--days N is missing: the duration, 1 to 14 days or weeks up to 182"
            )
        criteria: Arguments = {
            "days": float(self.days),
            "instance_type": self.instance_type,
            "instances": None if self.instances is None else float(self.instances),
            "ultraservers": 1.0 if self.ultraserver else None,
            "zone": self.zone,
            "starts_from": None if self.starts_from is None else self.starts_from.isoformat(),
            "ends_by": None if self.ends_by is None else self.ends_by.isoformat(),
        }
        return {name: value for name, value in criteria.items() if value is not None}


search_options = option_group(
    "search",
    Search,
    (
        setting(
            "--instance-type",
            metavar="TYPE",
            shell_complete=_complete_type,
            help="Instance type, such as trn2.48xlarge.",
        ),
        setting(
            "--instances",
            type=click.IntRange(0, 1_000_000),
            help="Number of instances; by default 1.",
        ),
        click.option("--ultraserver", is_flag=True, help="Reserve one whole UltraServer."),
        setting(
            "--days",
            type=click.IntRange(0, 1_000_000),
            help="Duration: 1 to 14 days, or weeks up to 182.",
        ),
        setting("--zone", help="Availability Zone; by default any."),
        setting(
            "--from",
            "starts_from",
            type=Instant(),
            help="Earliest start, such as 2026-01-31T11:30:00Z; by default as soon as possible.",
        ),
        setting("--until", "ends_by", type=Instant(), help="Latest end."),
    ),
)
"""Options that describe an offering; the command gets `search: Search`."""


@command.command("offerings")
@search_options
@reserve_options
def offerings(
    options: ReserveOptions,
    search: Search,
) -> None:
    """List at most six offerings, the earliest first.

    Blocks end at 11:30 UTC. For a start at another time, you get offerings a little shorter and a
    little longer than --days.
    """
    reply = _ask(options, "reserve_offerings", search.args())
    _print_offerings(options, _offerings_of(reply))
    until = reply.result.get("prices_until")
    if isinstance(until, str) and not options.as_json:
        click.echo(f"prices change at {plain(_time(until))} UTC")


@command.command("buy")
@click.argument("offering", required=False)
@search_options
@click.option("--yes", is_flag=True, help="Buy it; otherwise only print the offering.")
@reserve_options
def buy(
    options: ReserveOptions,
    offering: str | None,
    search: Search,
    yes: bool,
) -> None:
    """Buy OFFERING, or the earliest one that fits the options; the shorter of two with one start.

    You pay a block up front and cannot cancel it.
    """
    if offering is None:
        offered = _offered(options, "reserve_offerings", search.args())[:1]
        if not yes:
            _print_offerings(options, offered, "would buy, with --yes:")
            return
        offering = offered[0].id
    elif not yes:
        offered = _offered(options, "reserve_offering", {"offering": offering})
        _print_offerings(options, offered, "would buy, with --yes:")
        return
    _print_reply(options, _ask(options, "reserve_buy", {"offering": offering}))


@command.command("extend")
@click.argument("block")
@setting(
    "--days",
    type=click.IntRange(0, 1_000_000),
    required=True,
    help="Duration of the extension: 1 to 14 days, or weeks.",
)
@click.option("--yes", is_flag=True, help="Extend it; otherwise only print the offering.")
@reserve_options
def extend(options: ReserveOptions, block: str, days: int, yes: bool) -> None:
    """Extend BLOCK beyond its present end.

    You can extend it from 56 days to an hour before its end, and pay up front.
    """
    args: Arguments = {"block": block, "days": float(days)}
    offered = _offered(options, "reserve_extension_offerings", args)
    if not yes:
        _print_offerings(options, offered, f"would extend {block}, with --yes:")
        return
    _print_reply(options, _ask(options, "reserve_extend", {"offering": offered[0].id}))


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Include ended ones.")
@reserve_options
def list_all(options: ReserveOptions, everything: bool) -> None:
    """List the reservations as last published."""
    ended = {state.value for state in ENDED}
    reservations = [
        message
        for message in _reservations(options)
        if everything or message.state.value not in ended
    ]
    if options.as_json:
        print_json([msgspec.to_builtins(message) for message in reservations])
        return
    if not reservations:
        click.echo("no reservations")
        return
    for line in table_lines([_HEADS, *map(_row, reservations)]):
        click.echo(line)


@command.command("show")
@click.argument("reservation")
@reserve_options
def show(options: ReserveOptions, reservation: str) -> None:
    """Show everything published about one reservation."""
    reservations = {message.id: message for message in _reservations(options)}
    message = reservations.get(reservation)
    if message is None:
        raise BrokerError(f"no reservation {reservation!r}: {nearest(reservation, reservations)}")
    facts = msgspec.to_builtins(message)
    if options.as_json:
        print_json(facts)
        return
    rows = [
        (
            key.replace("_", " "),
            plain(", ".join(map(str, value)) if isinstance(value, tuple) else str(value)),
        )
        for key, value in facts.items()
        if key not in {"v", "extensions", "boot"} and value not in (None, (), "")
    ]
    rows += [
        (
            "extension",
            (
                f"{plain(extension.state.value)}: until {_time(extension.end)} for {extension.fee}"
                f" {extension.currency}"
            ),
        )
        for extension in message.extensions
    ]
    click.echo("\n".join(row_lines(rows, 20)))


def _ask(options: ReserveOptions, action: str, args: Arguments) -> Reply:
    """Send a command and return the reply of the simulator that carried it out.

    Raises:
        TrnfleetError: all refuse.
    """
    from trnfleet.services.simulator.client import Command, send_command

    command = Command(action, "", args)
    replies = asyncio.run(
        send_command(options.session, options.name, command, timeout_s=options.timeout)
    )
    for reply in replies:
        if reply.ok:
            return reply
    raise TrnfleetError(replies[0].reason)


def _offerings_of(reply: Reply) -> list[OfferingSpec]:
    from trnfleet.services.simulator.client import offerings_of

    return offerings_of(reply)


def _offered(options: ReserveOptions, action: str, args: Arguments) -> list[OfferingSpec]:
    """Send a command and return the offerings in its reply.

    Raises:
        BrokerError: it has none, or an invalid one.
    """
    return _offerings_of(_ask(options, action, args))


def _reservations(options: ReserveOptions) -> list[ReservationMessage]:
    from trnfleet.services.simulator.client import read_reservations

    return asyncio.run(read_reservations(options.session, options.name, timeout_s=options.timeout))


def _print_offerings(
    options: ReserveOptions, offered: Sequence[OfferingSpec], title: str = ""
) -> None:
    if options.as_json:
        print_json([msgspec.to_builtins(offering) for offering in offered])
        return
    if title:
        click.echo(title)
    rows = [
        (
            offering.id,
            _capacity(offering.ultraserver_type, offering.instances, offering.instance_type),
            offering.zone,
            _time(offering.start),
            _time(offering.end),
            f"{offering.hours:g} h",
            f"{float(offering.fee):,.2f} {offering.currency}",
        )
        for offering in offered
    ]
    for line in table_lines([("OFFERING", "WHAT", "ZONE", "START", "END", "TERM", "FEE"), *rows]):
        click.echo(line)


def _print_reply(options: ReserveOptions, reply: Reply) -> None:
    if options.as_json:
        print_json(reply.result.get("reservation"))
    else:
        click.echo(reply.reason)


_HEADS = ("RESERVATION", "STATE", "WHAT", "USED", "ZONE", "START", "END", "FEE", "EC2 LINKS")


def _state(message: ReservationMessage) -> str:
    """Return the state.

    An active but unused reservation is `idle`, as in the app.
    """
    is_idle = message.state.value == BlockState.ACTIVE.value and message.launched == 0
    return "idle" if is_idle else message.state.value


def _row(message: ReservationMessage) -> tuple[str, ...]:
    used = "?" if message.launched is None else str(message.launched)
    return (
        message.id,
        _state(message),
        _capacity(message.ultraserver_type, message.instances, message.instance_type),
        f"{used} of {message.instances}",
        message.zone,
        _time(message.start),
        "none" if message.end is None else _time(message.end),
        "?" if message.fee is None else f"{float(message.fee):,.2f} {message.currency}",
        "" if message.interconnect is None else message.interconnect.value,
    )


def _capacity(ultraserver_type: str | None, instances: int, instance_type: str) -> str:
    return (
        f"{instances} x {instance_type}" if ultraserver_type is None else f"1 x {ultraserver_type}"
    )


def _time(text: str) -> str:
    """Return an instant to the minute; other text stays as it is."""
    return f"{text[:10]} {text[11:16]}" if len(text) >= 16 and text[10] == "T" else text
