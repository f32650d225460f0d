"""Capacity Blocks, offerings and extensions as values, and their changes.

Only `apply` creates or changes a block, so that replaying a ledger's changes in order restores its
state.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trnfleet.domain.reservations.states import (
    BEGUN,
    EXTENDABLE,
    NEXT_BLOCK_STATES,
    BlockState,
    ExtensionState,
    InterconnectStatus,
)

if TYPE_CHECKING:
    from trnfleet.domain.reservations.prices import Money


@dataclass(frozen=True, slots=True)
class Offering:
    """A Capacity Block for sale."""

    id: str
    instance_type: str
    instances: int
    ultraserver_type: str | None
    zone: str
    start_ns: int
    end_ns: int
    fee: Money
    """Paid up front for all of it."""


@dataclass(frozen=True, slots=True)
class ExtensionOffering:
    """A longer time for a block, as it can be bought."""

    id: str
    block_id: str
    start_ns: int
    """The block's end before it."""
    end_ns: int
    fee: Money


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension that was bought."""

    offering: ExtensionOffering
    bought_ns: int
    pay_by_ns: int
    state: ExtensionState = ExtensionState.PAYMENT_PENDING


@dataclass(frozen=True, slots=True)
class Block:
    """A Capacity Block."""

    id: str
    reservation_id: str
    """Its Capacity Reservation."""
    offering: Offering
    """As it was bought."""
    places: tuple[int, ...]
    """Numbers of its instances, ascending."""
    state: BlockState
    created_ns: int
    changed_ns: int
    changes: int
    """Number of changes so far, its making included."""
    end_ns: int
    """With all extensions that are paid."""
    pay_by_ns: int
    fee: Money
    """Fee with all paid extensions; before its own payment, the amount due."""
    extensions: tuple[Extension, ...] = ()
    interconnect: InterconnectStatus | None = None
    """None where it is not an UltraServer's."""
    unavailable: int = 0
    """Instances unusable because of a failed system status check."""
    warned: bool = False
    """Whether it has been warned of the present end."""
    interrupting: bool = False
    """Whether its instances have been warned of their termination."""
    terminating: bool = False
    """Whether EC2 has begun to terminate its instances."""

    @property
    def start_ns(self) -> int:
        """Begin of its time."""
        return self.offering.start_ns

    @property
    def pending(self) -> Extension | None:
        """The extension whose payment is pending."""
        last = self.extensions[-1] if self.extensions else None
        return last if last is not None and last.state is ExtensionState.PAYMENT_PENDING else None

    @property
    def held_until_ns(self) -> int:
        """Time until which nothing else may be sold on its instances.

        An unpaid extension counts.
        """
        return self.end_ns if self.pending is None else self.pending.offering.end_ns

    @property
    def is_usable(self) -> bool:
        """Whether jobs may run in it."""
        return self.state is BlockState.ACTIVE and not self.terminating


class ChangeKind(enum.StrEnum):
    """Kinds of changes of a block."""

    PURCHASED = "purchased"
    PAID = "paid"
    PAYMENT_FAILED = "payment_failed"
    DELIVERED = "delivered"
    EXTENSION_PURCHASED = "extension_purchased"
    EXTENSION_PAID = "extension_paid"
    EXTENSION_PAYMENT_FAILED = "extension_payment_failed"
    INTERCONNECT_IMPAIRED = "interconnect_impaired"
    INTERCONNECT_OK = "interconnect_ok"
    INSTANCES_UNAVAILABLE = "instances_unavailable"
    INSTANCES_AVAILABLE = "instances_available"
    EXPIRATION_WARNING = "expiration_warning"
    INTERRUPTION_WARNING = "interruption_warning"
    TERMINATING = "terminating"
    EXPIRED = "expired"

    @property
    def event_name(self) -> str:
        """Name of the change's event, such as `capacity_block_paid`."""
        return f"capacity_block_{self.value}"

    @property
    def detail_type(self) -> str | None:
        """EventBridge's detail type of its event; None without one."""
        return _DETAIL_TYPES.get(self)


_DETAIL_TYPES = {
    ChangeKind.DELIVERED: "Capacity Block Delivered",
    ChangeKind.EXPIRATION_WARNING: "Capacity Block Expiration Warning",
    ChangeKind.INTERRUPTION_WARNING: "EC2 Capacity Reservation Instance Interruption Warning",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a block."""

    time_ns: int
    kind: ChangeKind
    block_id: str
    made: Block | None = None
    """The block as it is made, with `PURCHASED`."""
    extension: Extension | None = None
    """With `EXTENSION_PURCHASED`."""
    unavailable: int = 0
    """Instances unavailable from then on, with `INSTANCES_UNAVAILABLE`."""


_PAYING = frozenset({BlockState.PAYMENT_PENDING})
_FOLLOWS: dict[ChangeKind, frozenset[BlockState]] = {
    ChangeKind.PAID: _PAYING,
    ChangeKind.PAYMENT_FAILED: _PAYING,
    ChangeKind.DELIVERED: frozenset({BlockState.SCHEDULED}),
    ChangeKind.EXTENSION_PURCHASED: EXTENDABLE,
    ChangeKind.EXTENSION_PAID: BEGUN | EXTENDABLE,
    ChangeKind.EXTENSION_PAYMENT_FAILED: BEGUN | EXTENDABLE,
    ChangeKind.INTERCONNECT_IMPAIRED: BEGUN,
    ChangeKind.INTERCONNECT_OK: BEGUN,
    ChangeKind.INSTANCES_UNAVAILABLE: BEGUN,
    ChangeKind.INSTANCES_AVAILABLE: BEGUN,
    ChangeKind.EXPIRATION_WARNING: BEGUN,
    ChangeKind.INTERRUPTION_WARNING: BEGUN,
    ChangeKind.TERMINATING: BEGUN,
    ChangeKind.EXPIRED: BEGUN,
}
"""States of a block in which each change is possible."""


def apply(blocks: dict[str, Block], change: Change) -> Block:
    """Carry a change out on `blocks` and return the block after it.

    Raises:
        ValueError: the change is not possible now; a ledger makes none of these.
    """
    if change.kind is ChangeKind.PURCHASED:
        if change.made is None or change.made.id != change.block_id or change.block_id in blocks:
            raise ValueError(f"{change.block_id}: cannot be made")
        blocks[change.block_id] = change.made
        return change.made
    block = blocks.get(change.block_id)
    if block is None:
        raise ValueError(f"{change.block_id}: no such block")
    if block.state not in _FOLLOWS[change.kind]:
        raise ValueError(
            f"{block.id}: {change.kind.value} cannot happen to a block that is {block.state.value}"
        )
    if change.time_ns < block.changed_ns:
        raise ValueError(f"{block.id}: a change comes before the last one")
    after = replace(_changed(block, change), changed_ns=change.time_ns, changes=block.changes + 1)
    if after.state is not block.state and after.state not in NEXT_BLOCK_STATES[block.state]:
        raise ValueError(f"{block.id}: {after.state.value} cannot follow {block.state.value}")
    blocks[block.id] = after
    return after


_SIMPLY: dict[ChangeKind, dict[str, Any]] = {
    ChangeKind.PAID: {"state": BlockState.SCHEDULED},
    ChangeKind.PAYMENT_FAILED: {"state": BlockState.PAYMENT_FAILED},
    ChangeKind.INTERCONNECT_IMPAIRED: {"interconnect": InterconnectStatus.IMPAIRED},
    ChangeKind.INTERCONNECT_OK: {"interconnect": InterconnectStatus.OK},
    ChangeKind.INSTANCES_AVAILABLE: {"state": BlockState.ACTIVE, "unavailable": 0},
    ChangeKind.EXPIRATION_WARNING: {"warned": True},
    ChangeKind.INTERRUPTION_WARNING: {"interrupting": True},
    ChangeKind.TERMINATING: {"terminating": True},
    ChangeKind.EXPIRED: {"state": BlockState.EXPIRED, "unavailable": 0, "interconnect": None},
}
"""Fields set by changes independent of the block."""


def _changed(block: Block, change: Change) -> Block:
    kind = change.kind
    if kind in _SIMPLY:
        return replace(block, **_SIMPLY[kind])
    if kind is ChangeKind.DELIVERED:
        status = None if block.offering.ultraserver_type is None else InterconnectStatus.OK
        return replace(block, state=BlockState.ACTIVE, interconnect=status)
    if kind is ChangeKind.INSTANCES_UNAVAILABLE:
        if not 1 <= change.unavailable <= len(block.places):
            raise ValueError(
                f"{block.id}: {change.unavailable} of its {len(block.places)} instances cannot be"
                " unavailable"
            )
        is_out = change.unavailable == len(block.places)
        state = BlockState.UNAVAILABLE if is_out else BlockState.ACTIVE
        return replace(block, state=state, unavailable=change.unavailable)
    if kind is ChangeKind.EXTENSION_PURCHASED:
        if change.extension is None or block.pending is not None:
            raise ValueError(f"{block.id}: cannot be extended")
        return replace(block, extensions=(*block.extensions, change.extension))
    if kind is ChangeKind.EXTENSION_PAYMENT_FAILED:
        failed = _settled(block, ExtensionState.PAYMENT_FAILED)
        return replace(block, extensions=(*block.extensions[:-1], failed))
    if kind is ChangeKind.EXTENSION_PAID:
        paid = _settled(block, ExtensionState.PAYMENT_SUCCEEDED)
        return replace(
            block,
            extensions=(*block.extensions[:-1], paid),
            end_ns=paid.offering.end_ns,
            fee=block.fee + paid.offering.fee,
            warned=False,
            interrupting=False,
            terminating=False,
        )
    raise ValueError(f"{block.id}: unknown change {kind.value}")


def _settled(block: Block, state: ExtensionState) -> Extension:
    if block.pending is None:
        raise ValueError(f"{block.id}: no extension is pending")
    return replace(block.pending, state=state)
