"""Changes of blocks over time: payments, delivery, warnings, termination and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.reservations.blocks import Block, ChangeKind
from trnfleet.domain.reservations.states import HOLDING, BlockState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnfleet.domain.reservations.ids import Token
    from trnfleet.domain.reservations.market import Market

_ORDER = (
    ChangeKind.EXTENSION_PAID,
    ChangeKind.EXTENSION_PAYMENT_FAILED,
    ChangeKind.EXPIRATION_WARNING,
    ChangeKind.INTERRUPTION_WARNING,
    ChangeKind.TERMINATING,
    ChangeKind.EXPIRED,
    ChangeKind.PAID,
    ChangeKind.PAYMENT_FAILED,
    ChangeKind.DELIVERED,
)
"""Order of changes at the same instant. The payment of an extension precedes the changes it
postpones, and the end of a block the start of the next one on its instances."""


class ScheduledChange(NamedTuple):
    """A scheduled change; sorted in the order of its fields."""

    when_ns: int
    rank: int
    """Order at the same instant."""
    number: int
    """The block's among all blocks."""
    block_id: str

    @property
    def kind(self) -> ChangeKind:
        """Kind of the change."""
        return _ORDER[self.rank]


class BlockSchedule:
    """Times of all changes under the terms of a market."""

    def __init__(self, market: Market, token: Token) -> None:
        """Set the market.

        Args:
            market: Terms of sale.
            token: Decides failing payments.
        """
        self._market = market
        self._token = token
        self.unpaid: set[str] = set()
        """Blocks never paid."""

    def next_changes(self, blocks: Iterable[Block]) -> Iterator[ScheduledChange]:
        """Yield the next changes of blocks, in no order.

        Only changes that no other change must precede.
        """
        for number, block in enumerate(blocks):
            if block.state in HOLDING:
                for when_ns, kind in self._of_one(block):
                    yield ScheduledChange(when_ns, _ORDER.index(kind), number, block.id)

    def arrives_ns(self, bought_ns: int) -> int:
        """Return the time at which a purchase's payment would arrive."""
        return bought_ns + round(self._market.payment_s * NS_PER_S)

    def pay_by_ns(self, bought_ns: int, latest_ns: int) -> int:
        """Return the time at which an outstanding payment fails: `latest_ns` at most."""
        return min(bought_ns + round(self._market.payment_window_s * NS_PER_S), latest_ns)

    def warns_ns(self, block: Block) -> int:
        """Return the time of the warning before a block's end."""
        return block.end_ns - round(self._market.warning_before_end_s * NS_PER_S)

    def interrupts_ns(self, block: Block) -> int:
        """Return the time of the termination warning of a block's instances."""
        lead_s = self._market.interruption_before_termination_s
        return self.terminates_ns(block) - round(lead_s * NS_PER_S)

    def terminates_ns(self, block: Block) -> int:
        """Return the time from which EC2 terminates a block's instances."""
        is_ultraserver = block.offering.ultraserver_type is not None
        lead_s = (
            self._market.ultraserver_termination_before_end_s
            if is_ultraserver
            else self._market.termination_before_end_s
        )
        return block.end_ns - round(lead_s * NS_PER_S)

    def _of_one(self, block: Block) -> Iterator[tuple[int, ChangeKind]]:
        if block.state is BlockState.PAYMENT_PENDING:
            when_ns, arrives = self._payment(block.id, block.created_ns, block.pay_by_ns)
            yield when_ns, ChangeKind.PAID if arrives else ChangeKind.PAYMENT_FAILED
            return
        pending = block.pending
        if pending is not None:
            when_ns, arrives = self._payment(
                pending.offering.id, pending.bought_ns, pending.pay_by_ns
            )
            yield (
                when_ns,
                ChangeKind.EXTENSION_PAID if arrives else ChangeKind.EXTENSION_PAYMENT_FAILED,
            )
        if block.state is BlockState.SCHEDULED:
            yield block.start_ns, ChangeKind.DELIVERED
            return
        # Either can be first: how long before the end both are is configurable.
        if not block.warned:
            yield self.warns_ns(block), ChangeKind.EXPIRATION_WARNING
        if not block.interrupting:
            yield self.interrupts_ns(block), ChangeKind.INTERRUPTION_WARNING
        if not block.terminating:
            yield self.terminates_ns(block), ChangeKind.TERMINATING
        if block.warned and block.interrupting and block.terminating:
            yield block.end_ns, ChangeKind.EXPIRED

    def _payment(self, what: str, bought_ns: int, pay_by_ns: int) -> tuple[int, bool]:
        """Return the time at which a payment is settled, and whether it has arrived then."""
        arrives_ns = self.arrives_ns(bought_ns)
        if self._fails(what) or arrives_ns >= pay_by_ns:
            return pay_by_ns, False
        return arrives_ns, True

    def _fails(self, what: str) -> bool:
        """Return whether a payment never arrives."""
        if what in self.unpaid:
            return True
        return int(self._token("payment", what), 16) < self._market.failing_payments * 2**64
