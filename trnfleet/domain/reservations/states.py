"""EC2's states of reserved capacity, and their transitions."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class BlockState(enum.StrEnum):
    """State of a Capacity Block (`CapacityBlock.State`)."""

    PAYMENT_PENDING = "payment-pending"
    PAYMENT_FAILED = "payment-failed"
    SCHEDULED = "scheduled"
    ACTIVE = "active"
    UNAVAILABLE = "unavailable"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"


class ReservationState(enum.StrEnum):
    """State of a Capacity Reservation (`CapacityReservation.State`)."""

    ACTIVE = "active"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    PENDING = "pending"
    FAILED = "failed"
    SCHEDULED = "scheduled"
    PAYMENT_PENDING = "payment-pending"
    PAYMENT_FAILED = "payment-failed"
    ASSESSING = "assessing"
    DELAYED = "delayed"
    UNSUPPORTED = "unsupported"
    CANCELLING = "cancelling"
    UNAVAILABLE = "unavailable"


class ExtensionState(enum.StrEnum):
    """Status of an extension of a Capacity Block."""

    PAYMENT_PENDING = "payment-pending"
    PAYMENT_FAILED = "payment-failed"
    PAYMENT_SUCCEEDED = "payment-succeeded"


class InterconnectStatus(enum.StrEnum):
    """Link state of an UltraServer block (`CapacityBlockStatus.InterconnectStatus`)."""

    OK = "ok"
    IMPAIRED = "impaired"
    INSUFFICIENT_DATA = "insufficient-data"


NEXT_BLOCK_STATES: Mapping[BlockState, frozenset[BlockState]] = MappingProxyType(
    {
        BlockState.PAYMENT_PENDING: frozenset(
            {BlockState.SCHEDULED, BlockState.ACTIVE, BlockState.PAYMENT_FAILED, BlockState.FAILED}
        ),
        BlockState.SCHEDULED: frozenset(
            {BlockState.ACTIVE, BlockState.UNAVAILABLE, BlockState.CANCELLED, BlockState.FAILED}
        ),
        BlockState.ACTIVE: frozenset(
            {BlockState.UNAVAILABLE, BlockState.EXPIRED, BlockState.CANCELLED}
        ),
        BlockState.UNAVAILABLE: frozenset(
            {BlockState.ACTIVE, BlockState.EXPIRED, BlockState.CANCELLED}
        ),
        BlockState.PAYMENT_FAILED: frozenset(),
        BlockState.EXPIRED: frozenset(),
        BlockState.CANCELLED: frozenset(),
        BlockState.FAILED: frozenset(),
    }
)
"""Successors of each state. The API names the states but not their order: derived from their
meanings. Customers cannot cancel a block; AWS can."""
HOLDING = frozenset(
    {BlockState.PAYMENT_PENDING, BlockState.SCHEDULED, BlockState.ACTIVE, BlockState.UNAVAILABLE}
)
"""States of a block with its instances reserved: nothing else may be sold on them."""
BEGUN = frozenset({BlockState.ACTIVE, BlockState.UNAVAILABLE})
"""States of a block between its delivery and its end."""
RESERVATION_BEGUN = frozenset({ReservationState.ACTIVE, ReservationState.UNAVAILABLE})
"""The same of a Capacity Reservation."""
ENDED = frozenset(
    {BlockState.EXPIRED, BlockState.CANCELLED, BlockState.FAILED, BlockState.PAYMENT_FAILED}
)
EXTENDABLE = frozenset({BlockState.ACTIVE, BlockState.SCHEDULED})
"""States in which a block can be extended (published)."""
