from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from support.sim.capacity_account import TRN2, TRN2U, at

from trnfleet.domain.reservations.blocks import (
    Block,
    Change,
    ChangeKind,
    Extension,
    ExtensionOffering,
    Offering,
    apply,
)
from trnfleet.domain.reservations.prices import Money
from trnfleet.domain.reservations.states import BlockState, ExtensionState, InterconnectStatus

START_NS, END_NS = at("2026-01-06 11:30"), at("2026-01-07 11:30")
BOUGHT_NS = at("2026-01-05 10:00")
LONGER = ExtensionOffering("cbeo-1", "cb-1", END_NS, at("2026-01-08 11:30"), Money(Decimal(7)))
PENDING = Extension(LONGER, BOUGHT_NS, BOUGHT_NS + 1)

MAY_BEFALL = {
    ChangeKind.PAID: {"payment-pending"},
    ChangeKind.PAYMENT_FAILED: {"payment-pending"},
    ChangeKind.DELIVERED: {"scheduled"},
    ChangeKind.EXTENSION_PURCHASED: {"scheduled", "active"},
    ChangeKind.EXTENSION_PAID: {"scheduled", "active", "unavailable"},
    ChangeKind.EXTENSION_PAYMENT_FAILED: {"scheduled", "active", "unavailable"},
    **{
        kind: {"active", "unavailable"}
        for kind in (
            ChangeKind.INTERCONNECT_IMPAIRED,
            ChangeKind.INTERCONNECT_OK,
            ChangeKind.INSTANCES_UNAVAILABLE,
            ChangeKind.INSTANCES_AVAILABLE,
            ChangeKind.EXPIRATION_WARNING,
            ChangeKind.INTERRUPTION_WARNING,
            ChangeKind.TERMINATING,
            ChangeKind.EXPIRED,
        )
    },
}


def block_in(state: BlockState, *extensions: Extension, ultraserver: bool = True) -> Block:
    kind, name = (TRN2U, "u-trn2x64") if ultraserver else (TRN2, None)
    offering = Offering("cbo-1", kind, 4, name, "a", START_NS, END_NS, Money(Decimal(100)))
    return Block(
        "cb-1",
        "cr-1",
        offering,
        (0, 1, 2, 3),
        state,
        BOUGHT_NS,
        BOUGHT_NS,
        1,
        END_NS,
        START_NS,
        offering.fee,
        extensions,
    )


def after(block: Block, kind: ChangeKind, time_ns: int = START_NS, unavailable: int = 1) -> Block:
    extension = PENDING if kind is ChangeKind.EXTENSION_PURCHASED else None
    return apply(
        {block.id: block},
        Change(time_ns, kind, block.id, extension=extension, unavailable=unavailable),
    )


@pytest.mark.parametrize("kind", sorted(MAY_BEFALL))
@pytest.mark.parametrize("state", list(BlockState))
def test_changes_follow_their_states(kind: ChangeKind, state: BlockState) -> None:
    """Each change is possible in its states, and an error in all others."""
    needs_pending = kind in {ChangeKind.EXTENSION_PAID, ChangeKind.EXTENSION_PAYMENT_FAILED}
    block = block_in(state, *([PENDING] if needs_pending else []))
    if state.value in MAY_BEFALL[kind]:
        assert after(block, kind).changes == 2
    else:
        with pytest.raises(ValueError, match=f"cannot happen to a block that is {state.value}"):
            after(block, kind)


def test_every_change_has_its_states() -> None:
    """No kind of change is missing above but the making of a block."""
    assert set(MAY_BEFALL) == set(ChangeKind) - {ChangeKind.PURCHASED}


def test_a_block_is_made_once() -> None:
    """A second purchase, one without a block, or with another id is an error."""
    block = block_in(BlockState.PAYMENT_PENDING)
    blocks: dict[str, Block] = {}
    made = Change(BOUGHT_NS, ChangeKind.PURCHASED, block.id, made=block)
    assert apply(blocks, made) is block
    assert blocks == {"cb-1": block}
    for wrong in (
        made,
        Change(BOUGHT_NS, ChangeKind.PURCHASED, "cb-2"),
        replace(made, block_id="cb-2"),
    ):
        with pytest.raises(ValueError, match="cannot be made"):
            apply(blocks, wrong)
    assert blocks == {"cb-1": block}


def test_what_is_not_there_cannot_change() -> None:
    """A change of an unknown block is an error."""
    with pytest.raises(ValueError, match="cb-9: no such block"):
        apply({}, Change(0, ChangeKind.PAID, "cb-9"))


def test_changes_come_in_order() -> None:
    """A change at the last one's instant is valid.

    One a nanosecond before is an error.
    """
    block = block_in(BlockState.PAYMENT_PENDING)
    assert after(block, ChangeKind.PAID, BOUGHT_NS).changed_ns == BOUGHT_NS
    with pytest.raises(ValueError, match="comes before the last one"):
        after(block, ChangeKind.PAID, BOUGHT_NS - 1)


def test_a_life() -> None:
    """Changes set state, times and number, one after the other."""
    block = block_in(BlockState.PAYMENT_PENDING)
    steps = [
        (ChangeKind.PAID, BlockState.SCHEDULED, None),
        (ChangeKind.DELIVERED, BlockState.ACTIVE, InterconnectStatus.OK),
        (ChangeKind.INTERCONNECT_IMPAIRED, BlockState.ACTIVE, InterconnectStatus.IMPAIRED),
        (ChangeKind.INTERCONNECT_OK, BlockState.ACTIVE, InterconnectStatus.OK),
        (ChangeKind.EXPIRATION_WARNING, BlockState.ACTIVE, InterconnectStatus.OK),
        (ChangeKind.INTERRUPTION_WARNING, BlockState.ACTIVE, InterconnectStatus.OK),
        (ChangeKind.TERMINATING, BlockState.ACTIVE, InterconnectStatus.OK),
        (ChangeKind.EXPIRED, BlockState.EXPIRED, None),
    ]
    for number, (kind, state, interconnect) in enumerate(steps):
        block = after(block, kind, START_NS + number)
        got = block.state, block.interconnect, block.changes, block.changed_ns
        assert got == (state, interconnect, number + 2, START_NS + number)
    assert block.warned
    assert block.interrupting
    assert block.terminating


@pytest.mark.parametrize("unavailable", [-1, 0, 5])
def test_no_more_instances_are_unavailable_than_there_are(unavailable: int) -> None:
    """Zero or more than all instances becoming unavailable is an error."""
    with pytest.raises(ValueError, match=f"{unavailable} of its 4 instances"):
        after(
            block_in(BlockState.ACTIVE), ChangeKind.INSTANCES_UNAVAILABLE, unavailable=unavailable
        )


def test_an_extension_counts_once_it_is_paid() -> None:
    """End and fee change with the payment.

    The instances are held until the later end before.
    """
    block = after(block_in(BlockState.ACTIVE), ChangeKind.EXTENSION_PURCHASED)
    assert (block.end_ns, block.held_until_ns, block.fee) == (
        END_NS,
        LONGER.end_ns,
        Money(Decimal(100)),
    )
    assert block.pending == PENDING
    paid = after(block, ChangeKind.EXTENSION_PAID)
    assert (paid.end_ns, paid.held_until_ns, paid.fee, paid.pending) == (
        LONGER.end_ns,
        LONGER.end_ns,
        Money(Decimal(107)),
        None,
    )
    assert paid.extensions[0].state is ExtensionState.PAYMENT_SUCCEEDED
    failed = after(block, ChangeKind.EXTENSION_PAYMENT_FAILED)
    assert (failed.end_ns, failed.held_until_ns, failed.fee, failed.pending) == (
        END_NS,
        END_NS,
        Money(Decimal(100)),
        None,
    )
    assert failed.extensions[0].state is ExtensionState.PAYMENT_FAILED


def test_a_paid_extension_takes_back_the_warning() -> None:
    """A paid extension cancels a warning or a started termination."""
    block = after(block_in(BlockState.ACTIVE, PENDING), ChangeKind.EXPIRATION_WARNING)
    block = after(block, ChangeKind.TERMINATING)
    assert not block.is_usable
    paid = after(block, ChangeKind.EXTENSION_PAID)
    assert paid.is_usable
    assert not paid.warned


def test_only_a_pending_extension_is_settled() -> None:
    """Two payments at a time, no payment, or an extension without offering are errors."""
    with pytest.raises(ValueError, match="no extension is pending"):
        after(block_in(BlockState.ACTIVE), ChangeKind.EXTENSION_PAID)
    with pytest.raises(ValueError, match="cannot be extended"):
        after(block_in(BlockState.ACTIVE, PENDING), ChangeKind.EXTENSION_PURCHASED)
    block = block_in(BlockState.ACTIVE)
    with pytest.raises(ValueError, match="cannot be extended"):
        apply({block.id: block}, Change(START_NS, ChangeKind.EXTENSION_PURCHASED, block.id))


@pytest.mark.parametrize("state", list(BlockState))
def test_jobs_run_in_active_blocks(state: BlockState) -> None:
    """Jobs may run while a block is active and not being terminated."""
    assert block_in(state).is_usable is (state is BlockState.ACTIVE)
    assert not replace(block_in(state), terminating=True).is_usable
