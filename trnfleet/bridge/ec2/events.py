"""Events of a reservation between two readings, named as the simulator names them.

Pure. A value that a reading lacks, for want of a permission, has not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.reservations.blocks import ChangeKind
from trnfleet.domain.reservations.states import (
    RESERVATION_BEGUN,
    ExtensionState,
    InterconnectStatus,
    ReservationState,
)
from trnfleet.domain.severity import Severity
from trnfleet.wire.eventbridge import seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnfleet.wire.eventbridge import Ec2Notification
    from trnfleet.wire.reservations import ReservationMessage

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


class Health(NamedTuple):
    """Last known health of a block; a reading without it changes nothing."""

    impaired: bool = False
    """Whether the last status of its interconnect that was ok or impaired was the latter."""
    unavailable: int = 0
    """Instances that fail their system status check."""
    is_out: bool = False
    """Whether its state was that it is unavailable."""

    def after(self, message: ReservationMessage) -> Health:
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
        return Health(impaired, unavailable, is_out)


def ec2_events(
    before: ReservationMessage | None, after: ReservationMessage, health: Health
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
        yield _of(
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
            yield _of(kind, severity, f"the extension of {after.id} until {extension.end} {words}")


def warning(message: ReservationMessage) -> Ec2Event:
    """Return the warning of a block's approaching end."""
    text = (
        f"{message.id} ends at {message.end}; its instances are terminated from"
        f" {message.terminates} on"
    )
    return _of(ChangeKind.EXPIRATION_WARNING, Severity.WARNING, text, message)


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
        yield _of(
            kind, severity, words.format(id=after.id, start=after.start, end=after.end), about
        )
    elif state not in {ReservationState.PAYMENT_PENDING, ReservationState.UNAVAILABLE}:
        yield Ec2Event(
            f"capacity_block_{state.value.replace('-', '_')}",
            Severity.WARNING,
            f"{after.id} is {state.value}",
        )


def _felt(message: ReservationMessage, before: Health, after: Health) -> Iterator[Ec2Event]:
    name = message.id
    if after.impaired and not before.impaired:
        yield _of(
            ChangeKind.INTERCONNECT_IMPAIRED,
            Severity.WARNING,
            f"the interconnect of {name} is impaired",
        )
    elif before.impaired and not after.impaired:
        yield _of(
            ChangeKind.INTERCONNECT_OK, Severity.INFO, f"the interconnect of {name} is ok again"
        )
    if after.unavailable and after.unavailable != before.unavailable:
        text = (
            f"{after.unavailable} of {message.instances} instances of {name} fail their system"
            " status check"
        )
        yield _of(ChangeKind.INSTANCES_UNAVAILABLE, Severity.WARNING, text)
    elif before.unavailable and not after.unavailable:
        text = f"all instances of {name} pass their system status check again"
        yield _of(ChangeKind.INSTANCES_AVAILABLE, Severity.INFO, text)


def _of(
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
