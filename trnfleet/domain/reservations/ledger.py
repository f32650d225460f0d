"""The ledger of an account's Capacity Blocks: offerings, purchases, and changes over time.

It owns the order of changes: each is made here, at its instant, and carried out by `blocks.apply`.
It reads no clock; its caller sets the time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import DAY_NS
from trnfleet.domain.hardware.catalogue import ultraserver_type_of
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations import rules, search
from trnfleet.domain.reservations.blocks import (
    Block,
    Change,
    ChangeKind,
    Extension,
    ExtensionOffering,
    Offering,
    apply,
)
from trnfleet.domain.reservations.extension import check_extendable, check_longer, why_not_longer
from trnfleet.domain.reservations.ids import Token, id_of
from trnfleet.domain.reservations.occupancy import Occupancy
from trnfleet.domain.reservations.payments import BlockSchedule, ScheduledChange
from trnfleet.domain.reservations.prices import Prices
from trnfleet.domain.reservations.rules import Rule, RuleViolation, utc, whole_minute_ns
from trnfleet.domain.reservations.search import Lot, SearchRequest, check_sold
from trnfleet.domain.reservations.states import (
    BEGUN,
    HOLDING,
    BlockState,
    ExtensionState,
    InterconnectStatus,
)
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.domain.reservations.market import Market
    from trnfleet.domain.reservations.pool import Pool


_HELD = HOLDING | {BlockState.EXPIRED}
"""States of a block with, or formerly with, its instances for all its time."""


def check_dates(start_ns: int, end_ns: int, created_ns: int) -> None:
    """Raise if a block cannot have been bought for a time.

    Raises:
        RuleViolation: no block has that time, or could be bought then.
    """
    if start_ns >= end_ns or not rules.is_end(end_ns):
        raise RuleViolation(
            Rule.DATES,
            f"a block ends at 11:30 UTC, after its start; {utc(start_ns)} to {utc(end_ns)} is no"
            " time of one",
        )
    days = rules.days_of(start_ns, end_ns)
    if days > rules.MOST_DAYS:
        raise RuleViolation(
            Rule.DURATION,
            f"a block lasts {rules.MOST_DAYS} days at most, not {days}; {rules.MOST_DAYS}"
            " would fit",
        )
    soonest_ns = created_ns + rules.EARLIEST_START_S * NS_PER_S
    latest_ns = created_ns + rules.LATEST_START_S * NS_PER_S
    bought = f"a block that is bought at {utc(created_ns)}"
    if start_ns < soonest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_SOON,
            f"{bought} starts at {utc(whole_minute_ns(soonest_ns))} at the earliest, not at"
            f" {utc(start_ns)}",
        )
    if start_ns > latest_ns:
        raise RuleViolation(
            Rule.STARTS_TOO_LATE,
            f"{bought} starts at {utc(latest_ns)} at the latest, not at {utc(start_ns)}",
        )


def check_free(places: Sequence[int], start_ns: int, end_ns: int, occupancy: Occupancy) -> None:
    """Raise if other blocks hold a block's instances at the time, or have held them.

    Raises:
        RuleViolation: another block has one of them, or there are too many in all.
    """
    if occupancy.busy(start_ns, end_ns, states=_HELD)[list(places)].any():
        raise RuleViolation(Rule.CAPACITY, "another block holds one of its instances at the time")
    excess = occupancy.too_many(len(places), start_ns, end_ns, states=_HELD)
    if excess:
        raise RuleViolation(Rule.ACCOUNT_SIZE, excess)


def present_state(block: Block, schedule: BlockSchedule, now_ns: int, *, is_paid: bool) -> Block:
    """Return a block bought before in its present state, as changed by time alone."""
    if not is_paid:
        steps = [(min(block.pay_by_ns, now_ns), ChangeKind.PAYMENT_FAILED)]
    else:
        ending = [
            (schedule.warns_ns(block), ChangeKind.EXPIRATION_WARNING),
            (schedule.interrupts_ns(block), ChangeKind.INTERRUPTION_WARNING),
            (schedule.terminates_ns(block), ChangeKind.TERMINATING),
            (block.end_ns, ChangeKind.EXPIRED),
        ]
        later = [(max(when_ns, block.start_ns), kind) for when_ns, kind in ending]
        steps = [
            (min(schedule.arrives_ns(block.created_ns), block.start_ns, now_ns), ChangeKind.PAID),
            (block.start_ns, ChangeKind.DELIVERED),
            *sorted(later, key=lambda step: step[0]),
        ]
    past = {block.id: block}
    for when_ns, kind in steps:
        if when_ns <= now_ns:
            apply(past, Change(when_ns, kind, block.id))
    return past[block.id]


MOST_OFFERED = 4_096
"""Offerings that are remembered."""

OfferedT = TypeVar("OfferedT", Offering, ExtensionOffering)


class OfferingStore:
    """The offerings found by searches."""

    def __init__(self, prices: Prices, token: Token) -> None:
        """Begin without offerings.

        Args:
            prices: Of the market.
            token: Decides ids.
        """
        self._prices = prices
        self._token = token
        self._offered: OrderedDict[str, tuple[Offering | ExtensionOffering, int]] = OrderedDict()
        """Offerings by id with the instant of their expiry; the latest last."""

    def offer(self, lot: Lot, now_ns: int) -> Offering:
        """Offer a block from now on."""
        kind = lot.kind.instance_type
        count = lot.kind.instances
        fee = self._prices.fee(kind, count, lot.start_ns, lot.end_ns, bought_ns=now_ns)
        ultraserver = ultraserver_type_of(kind) if lot.kind.is_ultraserver else None
        offering = Offering(
            id_of("cbo", self._token, kind, count, lot.zone, lot.start_ns, lot.end_ns, str(fee)),
            kind,
            count,
            ultraserver.name if ultraserver else None,
            lot.zone,
            lot.start_ns,
            lot.end_ns,
            fee,
        )
        self._remember(offering, now_ns)
        return offering

    def offer_longer(self, block: Block, end_ns: int, now_ns: int) -> ExtensionOffering:
        """Offer a later end of a block from now on."""
        kind = block.offering.instance_type
        count = len(block.places)
        fee = self._prices.fee(kind, count, block.end_ns, end_ns, bought_ns=now_ns)
        offering = ExtensionOffering(
            # Each attempt to buy it has its own id, which does not depend on the time of the
            # search.
            id_of(
                "cbeo", self._token, block.id, block.end_ns, end_ns, len(block.extensions), str(fee)
            ),
            block.id,
            block.end_ns,
            end_ns,
            fee,
        )
        self._remember(offering, now_ns)
        return offering

    def taken_up(self, offering_id: str, kind: type[OfferedT], now_ns: int) -> OfferedT:
        """Return an offering by its id.

        Raises:
            RuleViolation: it is not on offer, or not any more.
        """
        known, until_ns = self._offered.get(offering_id, (None, 0))
        if not isinstance(known, kind):
            ids = [
                other_id
                for other_id, (what, until) in self._offered.items()
                if isinstance(what, kind) and now_ns < until
            ]
            near = nearest(offering_id, ids) if ids else "look for offerings first"
            raise RuleViolation(Rule.OFFERING, f"{offering_id!r} is not on offer; {near}")
        if now_ns >= until_ns:
            raise RuleViolation(
                Rule.OFFERING, f"{offering_id} was on offer until {utc(until_ns)}; look again"
            )
        return known

    def _remember(self, offering: Offering | ExtensionOffering, now_ns: int) -> None:
        # A day, unless prices are revised before. Assumed, and long enough for fleets whose hours
        # pass in seconds.
        until_ns = now_ns + DAY_NS
        revised_ns = self._prices.market.next_revision_ns(now_ns)
        self._offered[offering.id] = (
            offering,
            until_ns if revised_ns is None else min(until_ns, revised_ns),
        )
        self._offered.move_to_end(offering.id)
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)


class Ledger:
    """The blocks of one account, over one pool of instances."""

    def __init__(self, pool: Pool, market: Market, *, token: Token, now_ns: int) -> None:
        """Open an empty ledger.

        Args:
            pool: The instances.
            market: Its terms of sale.
            token: Decides ids and failing payments.
            now_ns: The instant of opening.

        Raises:
            ConfigError: the market has no price in its currency for an instance type sold there.
        """
        self.pool = pool
        self.blocks: dict[str, Block] = {}
        """Blocks by id, in order of creation."""
        self.changes: list[Change] = []
        """All changes so far."""
        self._token = token
        self.now_ns = now_ns
        self._next: ScheduledChange | None = None
        """The next change; None without one."""
        self._is_next_known = False
        """Whether that is still true."""
        self._occupancy = Occupancy(pool, self.blocks)
        self._prices = Prices(market, pool)
        self._offered_store = OfferingStore(self._prices, token)
        self._schedule = BlockSchedule(market, token)

    # Looking and buying

    def offerings(self, request: SearchRequest) -> list[Offering]:
        """Return the offerings that match a search, the earliest first: at most six.

        Raises:
            RuleViolation: a rule forbids it, or nothing is free; the message names the rule and the
                nearest valid choice.
        """
        lots = search.find(request, self._occupancy, self.now_ns)
        return [self._offered_store.offer(lot, self.now_ns) for lot in lots]

    def offering(self, offering_id: str) -> Offering:
        """Return an offering that can be bought.

        Raises:
            RuleViolation: it is not on offer, or not any more.
        """
        return self._offered_store.taken_up(offering_id, Offering, self.now_ns)

    def buy(self, offering_id: str) -> Block:
        """Buy an offering and return the block, whose payment is pending.

        Raises:
            RuleViolation: it is not offered any more, or a rule forbids it by now.
        """
        offering = self.offering(offering_id)
        earliest_ns = self.now_ns + rules.EARLIEST_START_S * NS_PER_S
        if offering.start_ns < earliest_ns:
            raise RuleViolation(
                Rule.STARTS_TOO_SOON,
                f"{offering_id} starts at {utc(offering.start_ns)}, and the earliest start is "
                f"{utc(whole_minute_ns(earliest_ns))} by now; look for offerings again",
            )
        lot = Lot.from_offering(offering)
        excess = self._occupancy.too_many(lot.kind.instances, lot.start_ns, lot.end_ns)
        if excess:
            fewer = search.fewer(lot, self._occupancy)
            near = "none would fit" if fewer is None else f"{counted(fewer, 'instance')} would fit"
            raise RuleViolation(Rule.ACCOUNT_SIZE, f"{excess}; {near}")
        places = self._occupancy.choose(lot.kind, lot.zone, lot.start_ns, lot.end_ns)
        if places is None:
            raise RuleViolation(
                Rule.CAPACITY, f"{offering_id} has been sold meanwhile; look for offerings again"
            )
        block = self._bought(offering, places, self.now_ns)
        self._change(Change(self.now_ns, ChangeKind.PURCHASED, block.id, made=block))
        return block

    def extension_offerings(self, block_id: str, days: int) -> list[ExtensionOffering]:
        """Return the offerings that extend a block by a number of days: at most one.

        Raises:
            RuleViolation: a rule forbids it.
        """
        block = self._block(block_id)
        rules.check_duration(days, "an extension")
        check_extendable(block, self.now_ns)
        check_longer(block, days, self._occupancy)
        return [self._offered_store.offer_longer(block, block.end_ns + days * DAY_NS, self.now_ns)]

    def extend(self, offering_id: str) -> Block:
        """Buy an extension and return its block; the payment is pending.

        Raises:
            RuleViolation: it is not offered any more, or a rule forbids it by now.
        """
        offering = self._offered_store.taken_up(offering_id, ExtensionOffering, self.now_ns)
        block = self._block(offering.block_id)
        check_extendable(block, self.now_ns)
        if block.end_ns != offering.start_ns:
            raise RuleViolation(
                Rule.OFFERING, f"{block.id} ends at another time by now; look for extensions again"
            )
        days = (offering.end_ns - offering.start_ns) // DAY_NS
        problem = why_not_longer(block, days, self._occupancy)
        if problem is not None:
            rule, text = problem
            raise RuleViolation(rule, f"{text} by now; look for extensions again")
        latest_ns = block.end_ns - rules.PAYMENT_BEFORE_END_S * NS_PER_S
        extension = Extension(
            offering, self.now_ns, self._schedule.pay_by_ns(self.now_ns, latest_ns)
        )
        self._change(
            Change(self.now_ns, ChangeKind.EXTENSION_PURCHASED, block.id, extension=extension)
        )
        return self.blocks[block.id]

    def cancel(self, block_id: str) -> None:
        """Raise: blocks are paid up front and cannot be cancelled.

        Raises:
            RuleViolation: always.
        """
        block = self._block(block_id)
        raise RuleViolation(
            Rule.NOT_CANCELLABLE,
            f"{block.id} is paid up front, and lasts until {utc(block.end_ns)}",
        )

    # Time

    def next_change_ns(self) -> int | None:
        """Return the time of the next change; None without one."""
        change = self._next_change()
        return None if change is None else change.when_ns

    def advance(self, until_ns: int) -> list[tuple[Change, Block]]:
        """Advance to `until_ns`, included; return the changes in order.

        Each change comes with its block after it.

        Raises:
            ValueError: `until_ns` is before now.
        """
        if until_ns < self.now_ns:
            raise ValueError(f"the ledger is at {self.now_ns} ns, {until_ns} ns is before that")
        made: list[tuple[Change, Block]] = []
        while (scheduled := self._next_change()) is not None and scheduled.when_ns <= until_ns:
            self.now_ns = scheduled.when_ns
            made.append(self._change(Change(scheduled.when_ns, scheduled.kind, scheduled.block_id)))
        self.now_ns = until_ns
        return made

    def set_up(self, blocks: Iterable[Block]) -> None:
        """Add blocks that exist already, in their present state.

        Their purchase is a change of the present time.

        Raises:
            ValueError: one is there already.
        """
        for block in blocks:
            self._change(Change(self.now_ns, ChangeKind.PURCHASED, block.id, made=block))

    def report_health(
        self, block_id: str, unavailable: int, *, impaired: bool
    ) -> list[tuple[Change, Block]]:
        """Report the present state of a block's instances and links; return the changes.

        Args:
            block_id: An active or unavailable block; others are ignored.
            unavailable: Instances with a failed system status check.
            impaired: Whether links between its instances are down; ignored without an UltraServer.

        Raises:
            ValueError: it has fewer instances than are unavailable.
        """
        block = self.blocks[block_id]
        if not 0 <= unavailable <= len(block.places):
            raise ValueError(
                f"{block_id} has {len(block.places)} instances; {unavailable} cannot be unavailable"
            )
        if block.state not in BEGUN:
            return []
        made = []
        if unavailable != block.unavailable:
            kind = (
                ChangeKind.INSTANCES_UNAVAILABLE if unavailable else ChangeKind.INSTANCES_AVAILABLE
            )
            made.append(self._change(Change(self.now_ns, kind, block_id, unavailable=unavailable)))
        if block.interconnect is not None and impaired != (
            block.interconnect is InterconnectStatus.IMPAIRED
        ):
            kind = ChangeKind.INTERCONNECT_IMPAIRED if impaired else ChangeKind.INTERCONNECT_OK
            made.append(self._change(Change(self.now_ns, kind, block_id)))
        return made

    def prices_until_ns(self) -> int | None:
        """Return when the prices are revised next; None where no revision is known."""
        return self._prices.market.next_revision_ns(self.now_ns)

    def terminates_ns(self, block: Block) -> int:
        """Return the time from which EC2 terminates a block's instances."""
        return self._schedule.terminates_ns(block)

    def make(
        self,
        kind: str,
        places: Sequence[int],
        start_ns: int,
        end_ns: int,
        payment: ExtensionState,
        created_ns: int,
    ) -> Block:
        """Return a block of the past or the present as it is now, for `set_up`.

        Args:
            kind: Instance type.
            places: Numbers of its instances.
            start_ns: Its start.
            end_ns: Its end.
            payment: The state of its payment.
            created_ns: When it was bought, at or before now.

        Raises:
            RuleViolation: another block holds one of its instances at the time, or a rule forbids
                it.
            ValueError: it was bought after now.
        """
        if created_ns > self.now_ns:
            raise ValueError(
                f"a block cannot have been bought at {utc(created_ns)}, which is yet to come"
            )
        check_sold(kind, self.pool.sold)
        check_dates(start_ns, end_ns, created_ns)
        if payment is not ExtensionState.PAYMENT_FAILED:
            check_free(places, start_ns, end_ns, self._occupancy)
        ultraserver = ultraserver_type_of(kind) if self.pool.ultraserver[places[0]] >= 0 else None
        zone = str(self.pool.zone[places[0]])
        fee = self._prices.fee(kind, len(places), start_ns, end_ns, bought_ns=created_ns)
        sold = Offering(
            id_of("cbo", self._token, "there already", len(self.blocks)),
            kind,
            len(places),
            ultraserver.name if ultraserver else None,
            zone,
            start_ns,
            end_ns,
            fee,
        )
        block = self._bought(sold, tuple(places), created_ns)
        if payment is ExtensionState.PAYMENT_PENDING:
            self._schedule.unpaid.add(block.id)
            return block
        is_paid = payment is ExtensionState.PAYMENT_SUCCEEDED
        return present_state(block, self._schedule, self.now_ns, is_paid=is_paid)

    def _next_change(self) -> ScheduledChange | None:
        if not self._is_next_known:
            following = min(self._schedule.next_changes(self.blocks.values()), default=None)
            # A warning that was due before the delivery comes at once.
            if following is not None:
                following = following._replace(when_ns=max(following.when_ns, self.now_ns))
            self._next = following
            self._is_next_known = True
        return self._next

    def _change(self, change: Change) -> tuple[Change, Block]:
        block = apply(self.blocks, change)
        self.changes.append(change)
        self._is_next_known = False
        return change, block

    def _block(self, block_id: str) -> Block:
        block = self.blocks.get(block_id)
        if block is None:
            raise RuleViolation(
                Rule.NO_SUCH_BLOCK, f"no block {block_id!r}: {nearest(block_id, self.blocks)}"
            )
        return block

    def _bought(self, offering: Offering, places: tuple[int, ...], created_ns: int) -> Block:
        """Return the next block, as it is when it has just been bought."""
        return Block(
            id=id_of("cb", self._token, offering.id, len(self.blocks)),
            reservation_id=id_of("cr", self._token, offering.id, len(self.blocks)),
            offering=offering,
            places=places,
            state=BlockState.PAYMENT_PENDING,
            created_ns=created_ns,
            changed_ns=created_ns,
            changes=1,
            end_ns=offering.end_ns,
            pay_by_ns=self._schedule.pay_by_ns(created_ns, offering.start_ns),
            fee=offering.fee,
        )
