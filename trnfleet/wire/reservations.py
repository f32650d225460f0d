"""Messages about Capacity Blocks and On-Demand Capacity Reservations, and replies.

Simulator and bridge publish the same retained message on `reservation/{id}`, so that readers
distinguish them by `origin` alone. Names are EC2's. Times are RFC 3339 in UTC, amounts of money
decimal text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from trnfleet.domain.reservations.rules import MOST_EXTENSIONS
from trnfleet.domain.reservations.states import (  # noqa: TC001  read at run time
    ExtensionState,
    InterconnectStatus,
    ReservationState,
)
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import Name, Text, TypeName  # noqa: TC001  read at run time
from trnfleet.wire.structs import Message, WireStruct
from trnfleet.wire.values import Instant, Revision  # noqa: TC001  read at run time

Decimals = Annotated[str, Meta(pattern=r"^[0-9]{1,12}(\.[0-9]{1,6})?\Z")]
"""An amount of money, exact."""
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}\Z")]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Place = Annotated[str, Meta(max_length=400)]


class ExtensionSpec(WireStruct, frozen=True, kw_only=True):
    """One extension of a Capacity Block."""

    id: Name
    """The extension offering's."""
    state: ExtensionState
    bought: Instant
    start: Instant
    """The end before it."""
    end: Instant
    """The end with it."""
    fee: Decimals
    currency: Currency = "USD"


class ReservationMessage(Message, frozen=True, kw_only=True):
    """The state of reserved capacity; retained, published again with every change."""

    id: Name
    """The Capacity Block's (`cb-...`), or the Capacity Reservation's (`cr-...`) where it is no
    block."""
    type: Literal["capacity-block", "default"] = "capacity-block"
    state: ReservationState
    """State; a Capacity Block uses only the states of blocks."""
    ts: Instant
    """Source time of this change."""
    change: Revision = 0
    """Number of earlier changes; a repeated message has the same, so that repetitions are
    recognised."""
    reservation_ids: Annotated[tuple[Name, ...], Meta(max_length=256)] = ()
    instance_type: TypeName
    ultraserver_type: TypeName | None = None
    zone: Text
    instances: Count
    """Reserved."""
    launched: Count | None = None
    """Instances running in it: reserved less available. None if unknown."""
    unavailable: Count | None = None
    """Instances unusable because of a failed system status check."""
    created: Instant
    start: Instant
    end: Instant | None = None
    """None where it lasts until it is cancelled."""
    terminates: Instant | None = None
    """Time of EC2's termination of instances still running in it."""
    pay_by: Instant | None = None
    """While a payment is pending: when it fails."""
    fee: Decimals | None = None
    """Paid up front, including all paid extensions."""
    currency: Currency = "USD"
    interconnect: InterconnectStatus | None = None
    extensions: Annotated[tuple[ExtensionSpec, ...], Meta(max_length=MOST_EXTENSIONS)] = ()
    on: Annotated[tuple[Place, ...], Meta(max_length=DEFAULT_LIMITS.instances)] = ()
    """Reserved part of the fleet: addresses and ranges of siblings, as in a job's message."""
    ec2_ids: Annotated[tuple[Text, ...], Meta(max_length=DEFAULT_LIMITS.instances)] = ()
    """EC2 ids of the instances in it, where addresses are not known; descriptors have both."""
    origin: Literal["simulated", "ec2"] = "simulated"
    boot: Name | None = None
    """The publisher's boot: another one counts changes from 0."""


class OfferingSpec(WireStruct, frozen=True, kw_only=True):
    """A Capacity Block for sale, or an extension of one."""

    id: Name
    instance_type: TypeName
    instances: Count
    ultraserver_type: TypeName | None = None
    zone: Text
    start: Instant
    end: Instant
    hours: Annotated[float, Meta(gt=0, le=1e6)]
    fee: Decimals
    currency: Currency = "USD"
