"""Messages about Capacity Blocks: state, events of changes, and answers to requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.hardware.catalogue import present_name
from trnfleet.domain.reservations.blocks import Block, ChangeKind, ExtensionOffering, Offering
from trnfleet.domain.reservations.rules import utc
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.reservations.states import BEGUN, ENDED, BlockState, ReservationState
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.sim.events import SimEvent
from trnfleet.wire.eventbridge import Notice, block_notice, interruption_notice
from trnfleet.wire.reservations import ExtensionSpec, OfferingSpec, ReservationMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.sim.reservations.account import BlockAllocation, CapacityAccount

_EVENTS: dict[ChangeKind, tuple[Severity, str]] = {
    ChangeKind.PURCHASED: (
        Severity.INFO,
        "{id} is bought for {fee}: {what} from {start} to {end}; its payment is pending",
    ),
    ChangeKind.PAID: (Severity.INFO, "{id} is paid; it starts at {start}"),
    ChangeKind.PAYMENT_FAILED: (Severity.WARNING, "the payment of {id} has failed"),
    ChangeKind.DELIVERED: (Severity.INFO, "{id} is delivered: {what} until {end}"),
    ChangeKind.EXTENSION_PURCHASED: (
        Severity.INFO,
        "{id} is extended until {extended} for {extra}; the payment is pending",
    ),
    ChangeKind.EXTENSION_PAID: (Severity.INFO, "the extension of {id} is paid; it ends at {end}"),
    ChangeKind.EXTENSION_PAYMENT_FAILED: (
        Severity.WARNING,
        "the payment of the extension of {id} has failed; it ends at {end}",
    ),
    ChangeKind.INTERCONNECT_IMPAIRED: (Severity.WARNING, "the interconnect of {id} is impaired"),
    ChangeKind.INTERCONNECT_OK: (Severity.INFO, "the interconnect of {id} is ok again"),
    ChangeKind.INSTANCES_UNAVAILABLE: (
        Severity.WARNING,
        "{unavailable} of {what} of {id} fail their system status check",
    ),
    ChangeKind.INSTANCES_AVAILABLE: (
        Severity.INFO,
        "all instances of {id} pass their system status check again",
    ),
    ChangeKind.EXPIRATION_WARNING: (
        Severity.WARNING,
        "{id} ends at {end}; its instances are terminated from {terminates} on",
    ),
    ChangeKind.INTERRUPTION_WARNING: (
        Severity.WARNING,
        "EC2 terminates {instance} of {id} at {terminates}",
    ),
    ChangeKind.TERMINATING: (
        Severity.WARNING,
        "EC2 terminates what runs in {id}, which ends at {end}",
    ),
    ChangeKind.EXPIRED: (Severity.INFO, "{id} has expired"),
}
"""Event of each change: severity and text."""

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "reserve_offerings": (
        "days",
        "instance_type",
        "instances",
        "ultraservers",
        "zone",
        "starts_from",
        "ends_by",
    ),
    "reserve_offering": ("offering",),
    "reserve_buy": ("offering",),
    "reserve_extension_offerings": ("block", "days"),
    "reserve_extend": ("offering",),
}
"""Requests about reservations with their arguments."""
READING = frozenset({"reserve_offerings", "reserve_offering", "reserve_extension_offerings"})
"""Requests that buy nothing."""


def block_events(
    account: CapacityAccount, allocation: BlockAllocation, generation: NDArray[np.int32]
) -> Iterator[SimEvent]:
    """Yield the events of a change.

    One event; with the interruption warning, one per running instance in the block.

    Args:
        account: The account.
        allocation: The change.
        generation: Times that each instance was replaced; shape (instances,).
    """
    change = allocation.change
    block = allocation.block
    zone = block.offering.zone
    terminates_ns = account.ledger.terminates_ns(block)
    if change.kind is not ChangeKind.INTERRUPTION_WARNING:
        notice = None
        if change.kind.detail_type is not None:
            notice = block_notice(account.owner, zone, block.reservation_id, block.end_ns)
        yield _event(account, allocation, account.on(block)[0].partition("..")[0], notice)
        return
    for place in allocation.warned:
        path, name = account.instance(place, int(generation[place]))
        notice = interruption_notice(account.owner, zone, name, terminates_ns)
        yield _event(account, allocation, path, notice, instance=name)


def _event(
    account: CapacityAccount,
    allocation: BlockAllocation,
    path: str,
    notice: Notice | None,
    *,
    instance: str = "",
) -> SimEvent:
    change = allocation.change
    block = allocation.block
    severity, text = _EVENTS[change.kind]
    pending = block.extensions[-1] if block.extensions else None
    offering = block.offering
    what = (
        "an UltraServer"
        if offering.ultraserver_type
        else f"{offering.instances} x {offering.instance_type}"
    )
    words = text.format(
        id=block.id,
        what=what,
        fee=block.fee,
        start=utc(block.start_ns),
        end=utc(block.end_ns),
        extended=utc(pending.offering.end_ns) if pending else "",
        extra=pending.offering.fee if pending else "",
        unavailable=block.unavailable,
        instance=instance,
        terminates=utc(account.ledger.terminates_ns(block)),
    )
    return SimEvent(
        max(account.moment_s(change.time_ns), 0.0),
        path,
        "ec2",
        change.kind.event_name,
        severity,
        words,
        detail_type=change.kind.detail_type,
        reservation=block.id,
        resources=() if notice is None else notice.resources,
        detail=() if notice is None else tuple(notice.detail.items()),
    )


def reservation_message(
    account: CapacityAccount, block: Block, launched: int, boot: str
) -> ReservationMessage:
    """Return the message of a block, published under a boot id."""
    ledger = account.ledger
    offering = block.offering
    is_pending = block.state is BlockState.PAYMENT_PENDING
    has_begun = block.state in BEGUN
    pending = block.pending
    pay_by_ns = (
        block.pay_by_ns if is_pending else pending.pay_by_ns if pending is not None else None
    )
    return ReservationMessage(
        id=block.id,
        state=ReservationState(block.state),
        ts=format_rfc3339(block.changed_ns),
        change=block.changes - 1,
        reservation_ids=(block.reservation_id,),
        instance_type=offering.instance_type,
        ultraserver_type=offering.ultraserver_type,
        zone=offering.zone,
        instances=offering.instances,
        launched=0 if not has_begun else launched,
        unavailable=block.unavailable,
        created=format_rfc3339(block.created_ns),
        start=format_rfc3339(block.start_ns),
        end=format_rfc3339(block.end_ns),
        terminates=format_rfc3339(ledger.terminates_ns(block)),
        pay_by=None if pay_by_ns is None or block.state in ENDED else format_rfc3339(pay_by_ns),
        fee=f"{block.fee.amount:.2f}",
        currency=block.fee.currency,
        interconnect=block.interconnect,
        extensions=tuple(
            ExtensionSpec(
                id=extension.offering.id,
                state=extension.state,
                bought=format_rfc3339(extension.bought_ns),
                start=format_rfc3339(extension.offering.start_ns),
                end=format_rfc3339(extension.offering.end_ns),
                fee=f"{extension.offering.fee.amount:.2f}",
                currency=extension.offering.fee.currency,
            )
            for extension in block.extensions
        ),
        on=account.on(block),
        boot=boot,
    )


def answer(
    account: CapacityAccount, action: str, args: Mapping[str, Any], boot: str
) -> tuple[str, dict[str, Any]]:
    """Carry out a request; return an answer of one line and the result.

    Args:
        account: The account.
        action: One of `ARGUMENTS`.
        args: Its arguments, by name, as they came.
        boot: The publisher's boot id.

    Raises:
        RuleViolation: a rule forbids it.
        ConfigError: an argument is missing or of another kind.
    """
    ledger = account.ledger
    if action == "reserve_offerings":
        offerings = ledger.offerings(_search_request(args))
        result: dict[str, Any] = {"offerings": [_spec(offer, offer) for offer in offerings]}
        if (until_ns := ledger.prices_until_ns()) is not None:
            result["prices_until"] = format_rfc3339(until_ns)
        return f"{len(offerings)} offerings", result
    if action == "reserve_offering":
        offered = ledger.offering(_text(args, "offering", action))
        return f"{offered.id} is on offer", {"offerings": [_spec(offered, offered)]}
    if action == "reserve_extension_offerings":
        block_id = _text(args, "block", action)
        extensions = ledger.extension_offerings(block_id, _whole(args, "days", action))
        offering = ledger.blocks[block_id].offering
        specs = [_spec(extension, offering) for extension in extensions]
        return f"{len(specs)} extensions of {block_id}", {"offerings": specs}
    offering_id = _text(args, "offering", action)
    before = len(ledger.changes)
    block = ledger.buy(offering_id) if action == "reserve_buy" else ledger.extend(offering_id)
    for change in ledger.changes[before:]:
        account.add_change(change, block)
    message = reservation_message(account, block, account.launched(block), boot)
    if action == "reserve_buy":
        done = (
            f"{block.id} is bought for {block.fee}: it starts at {utc(block.start_ns)} and ends at"
            f" {utc(block.end_ns)}"
        )
    else:
        last = block.extensions[-1].offering
        done = f"{block.id} is extended until {utc(last.end_ns)} for {last.fee}"
    return f"{done}; the payment is pending", {"reservation": msgspec.to_builtins(message)}


def _search_request(args: Mapping[str, Any]) -> SearchRequest:
    action = "reserve_offerings"
    kind = _optional_text(args, "instance_type", action)
    return SearchRequest(
        days=_whole(args, "days", action),
        instance_type=None if kind is None else present_name(kind),
        instances=_optional_whole(args, "instances", action),
        ultraservers=_optional_whole(args, "ultraservers", action),
        zone=_optional_text(args, "zone", action),
        starts_from_ns=_instant(args, "starts_from", action),
        ends_by_ns=_instant(args, "ends_by", action),
    )


def _spec(offering: Offering | ExtensionOffering, of: Offering) -> dict[str, Any]:
    """Return an offering as JSON values.

    `of` is the offering itself, or the offering of the extended block.
    """
    spec = OfferingSpec(
        id=offering.id,
        instance_type=of.instance_type,
        instances=of.instances,
        ultraserver_type=of.ultraserver_type,
        zone=of.zone,
        start=format_rfc3339(offering.start_ns),
        end=format_rfc3339(offering.end_ns),
        hours=(offering.end_ns - offering.start_ns) / (3_600 * NS_PER_S),
        fee=f"{offering.fee.amount:.2f}",
        currency=offering.fee.currency,
    )
    return msgspec.structs.asdict(spec)


def _text(args: Mapping[str, Any], name: str, action: str) -> str:
    value = _optional_text(args, name, action)
    if value is None:
        raise ConfigError(f"{action} needs the argument {name!r}")
    return value


def _optional_text(args: Mapping[str, Any], name: str, action: str) -> str | None:
    value = args.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ConfigError(f"{action}: {name} must be text")


def _whole(args: Mapping[str, Any], name: str, action: str) -> int:
    value = _optional_whole(args, name, action)
    if value is None:
        raise ConfigError(f"{action} needs the argument {name!r}, a whole number")
    return value


def _optional_whole(args: Mapping[str, Any], name: str, action: str) -> int | None:
    value = args.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not -(10**6) <= value <= 10**6 or value != int(value):
        raise ConfigError(f"{action}: {name} must be a whole number up to 1,000,000")
    return int(value)


def _instant(args: Mapping[str, Any], name: str, action: str) -> int | None:
    value = _optional_text(args, name, action)
    if value is None:
        return None
    try:
        return parse_rfc3339(value)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{action}: {name} must be a time with its zone, such as 2026-01-31T11:30:00Z, not"
            f" {value!r}"
        ) from None
