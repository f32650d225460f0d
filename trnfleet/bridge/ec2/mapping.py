"""Mapping of EC2's answers to reservation messages: pure, and tolerant of newer API values.

Values of a call that could not be made are None in the messages, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.clock import NS_PER_MS, NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.hardware.catalogue import ULTRASERVER_TYPES
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.reservations.prices import CENT
from trnfleet.domain.reservations.rules import MOST_EXTENSIONS
from trnfleet.domain.reservations.states import (
    RESERVATION_BEGUN,
    ExtensionState,
    InterconnectStatus,
    ReservationState,
)
from trnfleet.domain.severity import Severity
from trnfleet.errors import WireError
from trnfleet.wire.eventbridge import Ec2Notification, seconds_text
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import decode_message, encode_message
from trnfleet.wire.reservations import (
    ExtensionSpec,
    ReservationMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnfleet.bridge.ec2.client import Reading


_BAD = frozenset(
    {
        ReservationState.UNAVAILABLE,
        ReservationState.DELAYED,
        ReservationState.UNSUPPORTED,
        ReservationState.FAILED,
        ReservationState.PAYMENT_FAILED,
    }
)
_STATES: dict[ReservationState, tuple[ChangeKind, Severity, str]] = {
    ReservationState.SCHEDULED: (
        ChangeKind.PAID,
        Severity.INFO,
        "{id} is paid; it starts at {start}",
    ),
    ReservationState.PAYMENT_FAILED: (
        ChangeKind.PAYMENT_FAILED,
        Severity.WARNING,
        "the payment of {id} has failed",
    ),
    ReservationState.ACTIVE: (ChangeKind.DELIVERED, Severity.INFO, "{id} is delivered until {end}"),
    ReservationState.EXPIRED: (ChangeKind.EXPIRED, Severity.INFO, "{id} has expired"),
}
_PAYMENTS: dict[ExtensionState, tuple[ChangeKind, Severity, str]] = {
    ExtensionState.PAYMENT_PENDING: (
        ChangeKind.EXTENSION_PURCHASED,
        Severity.INFO,
        "is bought; its payment is pending",
    ),
    ExtensionState.PAYMENT_SUCCEEDED: (ChangeKind.EXTENSION_PAID, Severity.INFO, "is paid"),
    ExtensionState.PAYMENT_FAILED: (
        ChangeKind.EXTENSION_PAYMENT_FAILED,
        Severity.WARNING,
        "is not paid: its payment has failed",
    ),
}


class Ec2Event(NamedTuple):
    """One event, before it has an id and a topic."""

    name: str
    severity: Severity
    text: str
    kind: ChangeKind | None = None
    """None for events without a name in the simulator."""
    resources: tuple[str, ...] = ()
    detail: Mapping[str, str] = {}
    """Both as in EventBridge's event, where it has one."""

    @property
    def detail_type(self) -> str | None:
        """EventBridge's detail type; None where it has no such event."""
        return None if self.kind is None else self.kind.detail_type


class BlockHealth(NamedTuple):
    """Last known health of a block; a reading without it changes nothing."""

    impaired: bool = False
    """Whether the last status of its interconnect that was ok or impaired was the latter."""
    unavailable: int = 0
    """Instances that fail their system status check."""
    is_out: bool = False
    """Whether its state was that it is unavailable."""

    def after(self, message: ReservationMessage) -> BlockHealth:
        """Return the health after a message."""
        impaired = self.impaired
        if message.interconnect in {InterconnectStatus.OK, InterconnectStatus.IMPAIRED}:
            impaired = message.interconnect is InterconnectStatus.IMPAIRED
        is_out = message.state is ReservationState.UNAVAILABLE
        unavailable = 0 if self.is_out else self.unavailable
        if is_out:
            unavailable = message.unavailable or message.instances
        elif message.unavailable is not None:
            unavailable = message.unavailable
        return BlockHealth(impaired, unavailable, is_out)


def ec2_events(
    before: ReservationMessage | None, after: ReservationMessage, health: BlockHealth
) -> Iterator[Ec2Event]:
    """Yield the events between two readings.

    Args:
        before: The last message; None for a reservation that is new.
        after: The message now.
        health: Its last known health before.
    """
    if after.type != "capacity-block":
        if before is not None and before.state is not after.state:
            yield Ec2Event(
                f"capacity_reservation_{after.state.value.replace('-', '_')}",
                Severity.WARNING if after.state in _BAD else Severity.INFO,
                f"{after.id} is {after.state.value}",
            )
        return
    if before is None:
        yield _event(
            ChangeKind.PURCHASED,
            Severity.INFO,
            f"{after.id} is bought, from {after.start} to {after.end}",
        )
    if before is None or before.state is not after.state:
        yield from _entered(None if before is None else before.state, after)
    if after.state in RESERVATION_BEGUN:
        yield from _felt(after, health, health.after(after))
    known = (
        {} if before is None else {extension.id: extension.state for extension in before.extensions}
    )
    for extension in after.extensions:
        if known.get(extension.id) is not extension.state:
            kind, severity, words = _PAYMENTS[extension.state]
            yield _event(
                kind, severity, f"the extension of {after.id} until {extension.end} {words}"
            )


def warning(message: ReservationMessage) -> Ec2Event:
    """Return the warning of a block's approaching end."""
    text = (
        f"{message.id} ends at {message.end}; its instances are terminated from"
        f" {message.terminates} on"
    )
    return _event(ChangeKind.EXPIRATION_WARNING, Severity.WARNING, text, message)


def delivered_event(notification: Ec2Notification, message: ReservationMessage | None) -> Ec2Event:
    """Return an event from EventBridge's delivery.

    Args:
        notification: EventBridge's.
        message: Its reservation; None if unknown.
    """
    kind = notification.kind
    detail = notification.detail
    name = detail.get("capacity-reservation-id", "") if message is None else message.id
    if kind is ChangeKind.INTERRUPTION_WARNING:
        subject = f" of {name}" if name else ""
        at = detail["instance-termination-time"]
        action = detail["instance-action"]
        text = f"EC2 interrupts {detail['instance-id']}{subject} at {at}: {action}"
    elif kind is ChangeKind.DELIVERED:
        text = f"{name} is delivered until {detail['end-date']}"
    else:
        text = f"{name} ends at {detail['end-date']}"
    severity = Severity.INFO if kind is ChangeKind.DELIVERED else Severity.WARNING
    return Ec2Event(kind.event_name, severity, text, kind, notification.resources, detail)


def _entered(before: ReservationState | None, after: ReservationMessage) -> Iterator[Ec2Event]:
    state = after.state
    if state is ReservationState.ACTIVE and before is ReservationState.UNAVAILABLE:
        return
    if state in _STATES:
        kind, severity, words = _STATES[state]
        about = after if kind.detail_type is not None else None
        yield _event(
            kind, severity, words.format(id=after.id, start=after.start, end=after.end), about
        )
    elif state not in {ReservationState.PAYMENT_PENDING, ReservationState.UNAVAILABLE}:
        yield Ec2Event(
            f"capacity_block_{state.value.replace('-', '_')}",
            Severity.WARNING,
            f"{after.id} is {state.value}",
        )


def _felt(
    message: ReservationMessage, before: BlockHealth, after: BlockHealth
) -> Iterator[Ec2Event]:
    name = message.id
    if after.impaired and not before.impaired:
        yield _event(
            ChangeKind.INTERCONNECT_IMPAIRED,
            Severity.WARNING,
            f"the interconnect of {name} is impaired",
        )
    elif before.impaired and not after.impaired:
        yield _event(
            ChangeKind.INTERCONNECT_OK, Severity.INFO, f"the interconnect of {name} is ok again"
        )
    if after.unavailable and after.unavailable != before.unavailable:
        text = (
            f"{after.unavailable} of {message.instances} instances of {name} fail their system"
            " status check"
        )
        yield _event(ChangeKind.INSTANCES_UNAVAILABLE, Severity.WARNING, text)
    elif before.unavailable and not after.unavailable:
        text = f"all instances of {name} pass their system status check again"
        yield _event(ChangeKind.INSTANCES_AVAILABLE, Severity.INFO, text)


def _event(
    kind: ChangeKind, severity: Severity, text: str, message: ReservationMessage | None = None
) -> Ec2Event:
    """Return the event of a change, with EventBridge's detail from `message`."""
    detail = {}
    if message is not None and message.reservation_ids and message.end is not None:
        detail = {
            "capacity-reservation-id": message.reservation_ids[0],
            "end-date": seconds_text(parse_rfc3339(message.end)),
        }
    return Ec2Event(kind.event_name, severity, text, kind, detail=detail)


MOST_PARTS = 256
"""Capacity Reservations that a message names."""
NO_PRICES: Mapping[str, Decimal] = {}
UNKNOWN_TYPE = "unknown"
"""Instance type where the call for it may not be made."""

_MICRO = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class _Reservation:
    """One reservation with every answer about it."""

    id: str
    is_block: bool
    described: dict[str, Any]
    """The Capacity Block, or where that may not be described a Capacity Reservation of it."""
    ids: tuple[str, ...]
    """Its Capacity Reservations."""
    parts: list[dict[str, Any]]
    """The parts described by EC2."""
    status: dict[str, Any] | None


def messages_of(
    reading: Reading,
    now_ns: int,
    *,
    with_default: bool = True,
    prices: Mapping[str, Decimal] = NO_PRICES,
) -> tuple[list[ReservationMessage], list[str]]:
    """Return the reservations in a reading, and its invalid parts, a line each.

    Args:
        reading: EC2's answers.
        now_ns: Time of the reading, nanoseconds since 1970 UTC.
        with_default: Whether On-Demand Capacity Reservations that are no block have messages, too.
        prices: USD an instance and hour, by instance type.
    """
    made: list[ReservationMessage] = []
    problems: list[str] = []
    for reservation in _reservations(reading, problems, with_default=with_default):
        try:
            made.append(_message(reservation, reading, now_ns, problems, prices))
        except (
            WireError,
            ArithmeticError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            problems.append(f"{_plain(reservation.id)}: {_plain(error)}")
    return made, problems


def _reservations(
    reading: Reading, problems: list[str], *, with_default: bool
) -> Iterator[_Reservation]:
    """Yield blocks with their Capacity Reservations, then Capacity Reservations without a block."""
    by_id = {
        str(reservation.get("CapacityReservationId")): reservation
        for reservation in reading.reservations or ()
    }
    statuses = {status.get("CapacityBlockId"): status for status in reading.statuses or ()}
    of_block: set[str] = set()
    for block in reading.blocks or ():
        ids = tuple(map(str, block.get("CapacityReservationIds", ())))
        of_block.update(ids)
        name = str(block.get("CapacityBlockId"))
        yield _Reservation(
            name,
            True,
            block,
            ids,
            [by_id[reservation_id] for reservation_id in ids if reservation_id in by_id],
            statuses.get(name),
        )
    # Where blocks may not be described, or are shared by another account, their reservations still
    # may.
    parts_of: dict[str, list[dict[str, Any]]] = {}
    for name, reservation in by_id.items():
        kind = reservation.get("ReservationType", "default")
        if kind not in {"default", "capacity-block"}:
            problems.append(f"{_plain(name)}: unknown ReservationType {_plain(kind)}")
        elif name not in of_block and kind == "capacity-block":
            parts_of.setdefault(str(reservation.get("CapacityBlockId") or name), []).append(
                reservation
            )
        elif name not in of_block and with_default:
            yield _Reservation(name, False, reservation, (name,), [reservation], None)
    for name, parts in parts_of.items():
        ids = tuple(str(part.get("CapacityReservationId")) for part in parts)
        yield _Reservation(name, True, parts[0], ids, parts, statuses.get(name))


def _message(
    reservation: _Reservation,
    reading: Reading,
    now_ns: int,
    problems: list[str],
    prices: Mapping[str, Decimal],
) -> ReservationMessage:
    """Return the message of a reservation.

    Raises:
        ValueError: a state is not known, or a value is not what the message allows.
    """
    described = reservation.described
    status = reservation.status
    state = ReservationState(described["State"])
    created_ns = _ns(described.get("CreateDate"))
    end_ns = _ns(described.get("EndDate"))
    start_ns = next(
        (
            time_ns
            for time_ns in (_ns(described.get("StartDate")), created_ns)
            if time_ns is not None
        ),
        now_ns,
    )
    if end_ns is not None and end_ns <= start_ns:
        # What was cancelled before it began has the time of that as its end.
        end_ns = None
    ultraserver_type = described.get("UltraserverType") or None
    terminates_ns = (
        end_ns - rules.TERMINATION_BEFORE_END_S * NS_PER_S
        if reservation.is_block and end_ns is not None
        else None
    )
    running = None
    if reading.instances is not None:
        running = sorted(
            str(instance["InstanceId"])
            for instance in reading.instances
            if instance.get("CapacityReservationId") in reservation.ids and "InstanceId" in instance
        )
        if len(running) > DEFAULT_LIMITS.instances:
            problems.append(
                f"{reservation.id}: only {DEFAULT_LIMITS.instances} of its instances are named"
            )
    extensions = sorted(
        _specs(reservation, reading, problems), key=lambda extension: extension.bought
    )[-MOST_EXTENSIONS:]
    instance_type = _instance_type(reservation)
    instances = _total(reservation)
    price = prices.get(instance_type)
    fee = None
    if price is not None and end_ns is not None:
        hours = Decimal(end_ns - start_ns) / (3_600 * NS_PER_S)
        fee = f"{(price * hours * instances).quantize(CENT, ROUND_HALF_UP):f}"
    pay_by_ns = _pay_by_ns(state, created_ns, end_ns, extensions, reservation, reading)
    message = ReservationMessage(
        id=reservation.id,
        type="capacity-block" if reservation.is_block else "default",
        state=state,
        ts=format_rfc3339(now_ns),
        reservation_ids=reservation.ids[:MOST_PARTS],
        instance_type=instance_type,
        ultraserver_type=ultraserver_type,
        zone=str(
            described.get("AvailabilityZone") or described.get("AvailabilityZoneId") or "unknown"
        ),
        instances=instances,
        launched=_launched(reservation, running) if state in RESERVATION_BEGUN else 0,
        unavailable=None if status is None else status.get("TotalUnavailableCapacity"),
        created=format_rfc3339(start_ns if created_ns is None else created_ns),
        start=format_rfc3339(start_ns),
        end=None if end_ns is None else format_rfc3339(end_ns),
        terminates=None if terminates_ns is None else format_rfc3339(terminates_ns),
        pay_by=None if pay_by_ns is None else format_rfc3339(pay_by_ns),
        # EC2 has the fees of extensions and not the block's own, so that no sum would be right.
        fee=fee,
        interconnect=_interconnect(reservation, problems) if ultraserver_type else None,
        extensions=tuple(extensions),
        ec2_ids=tuple((running or [])[: DEFAULT_LIMITS.instances]),
        origin="ec2",
    )
    return decode_message(encode_message(message), ReservationMessage)


def _instance_type(reservation: _Reservation) -> str:
    kind = next(
        (part["InstanceType"] for part in reservation.parts if "InstanceType" in part), None
    )
    if kind is not None:
        return str(kind)
    ultraserver = ULTRASERVER_TYPES.get(str(reservation.described.get("UltraserverType")))
    return UNKNOWN_TYPE if ultraserver is None else ultraserver.instance.name


def _total(reservation: _Reservation) -> int:
    """Return how many instances are reserved; 0 where no call for it may be made."""
    if reservation.status is not None and "TotalCapacity" in reservation.status:
        return int(reservation.status["TotalCapacity"])
    ultraserver = ULTRASERVER_TYPES.get(str(reservation.described.get("UltraserverType")))
    if not reservation.parts and ultraserver is not None:
        return ultraserver.instances
    return sum(int(part.get("TotalInstanceCount", 0)) for part in reservation.parts)


def _launched(reservation: _Reservation, running: list[str] | None) -> int | None:
    """Return the instances running in a begun reservation.

    These are the unavailable ones, or those seen running.
    """
    if reservation.parts and all("AvailableInstanceCount" in part for part in reservation.parts):
        return sum(
            max(0, int(part.get("TotalInstanceCount", 0)) - int(part["AvailableInstanceCount"]))
            for part in reservation.parts
        )
    return None if running is None else len(running)


def _interconnect(reservation: _Reservation, problems: list[str]) -> InterconnectStatus | None:
    status = None if reservation.status is None else reservation.status.get("InterconnectStatus")
    if not status:
        return None
    try:
        return InterconnectStatus(status)
    except ValueError:
        problems.append(f"{reservation.id}: unknown InterconnectStatus {_plain(status)}")
        return InterconnectStatus.INSUFFICIENT_DATA


def _pay_by_ns(
    state: ReservationState,
    created_ns: int | None,
    end_ns: int | None,
    extensions: list[ExtensionSpec],
    reservation: _Reservation,
    reading: Reading,
) -> int | None:
    """Return the deadline of a pending payment; None without one.

    The windows are published.
    """
    window_ns = rules.PAYMENT_WINDOW_S * NS_PER_S
    if state is ReservationState.PAYMENT_PENDING:
        return None if created_ns is None else created_ns + window_ns
    pending = {
        extension.id
        for extension in extensions
        if extension.state is ExtensionState.PAYMENT_PENDING
    }
    bought = [
        _ns(extension.get("CapacityBlockExtensionPurchaseDate"))
        for extension in reading.extensions or ()
        if extension.get("CapacityReservationId") in reservation.ids
        and extension.get("CapacityBlockExtensionOfferingId") in pending
    ]
    dues_ns = [time_ns + window_ns for time_ns in bought if time_ns is not None]
    if not dues_ns:
        return None
    return (
        min(dues_ns)
        if end_ns is None
        else min(*dues_ns, end_ns - rules.PAYMENT_BEFORE_END_S * NS_PER_S)
    )


def _specs(
    reservation: _Reservation, reading: Reading, problems: list[str]
) -> Iterator[ExtensionSpec]:
    seen: set[str] = set()
    for extension in reading.extensions or ():
        name = extension.get("CapacityBlockExtensionOfferingId")
        if extension.get("CapacityReservationId") not in reservation.ids or name in seen:
            continue
        try:
            made = ExtensionSpec(
                id=extension["CapacityBlockExtensionOfferingId"],
                state=ExtensionState(extension["CapacityBlockExtensionStatus"]),
                bought=_date(extension["CapacityBlockExtensionPurchaseDate"]),
                start=_date(extension["CapacityBlockExtensionStartDate"]),
                end=_date(extension["CapacityBlockExtensionEndDate"]),
                fee=_decimals(extension["UpfrontFee"]),
                currency=str(extension.get("CurrencyCode") or "USD").upper(),
            )
            spec = decode_message(encode_message(made), ExtensionSpec)
        except (
            WireError,
            ArithmeticError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            problems.append(f"{reservation.id}: extension {_plain(name)}: {_plain(error)}")
            continue
        seen.add(spec.id)
        yield spec


def _decimals(amount: str) -> str:
    """Return an amount of money with at most six decimals."""
    exact = Decimal(amount)
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -6:
        exact = exact.quantize(_MICRO, ROUND_HALF_UP)
    return f"{exact:f}"


def _date(moment: datetime) -> str:
    return format_rfc3339(_known_ns(moment))


def _ns(moment: datetime | None) -> int | None:
    return None if moment is None else _known_ns(moment)


def _known_ns(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000) * NS_PER_MS


def _plain(said: object) -> str:
    """Return a value as one short line."""
    return " ".join(str(said).split())[:300]
