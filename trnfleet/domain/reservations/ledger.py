"""The ledger of an account's Capacity Blocks: what can be bought, what was, and what becomes of it as time passes.

Owns the order of things: every change is made here, at its instant, and carried out by `blocks.apply`. It reads no clock;
whoever holds it says how late it is.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import OrderedDict
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trnfleet.domain.hardware import TRN2_ULTRASERVER
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.asking import Goods, goods_of, spans_of, starts_of, zones_of
from trnfleet.domain.reservations.blocks import (
    Block,
    Change,
    ChangeKind,
    Extension,
    ExtensionOffering,
    Offering,
    apply,
)
from trnfleet.domain.reservations.market import BUSY_SURCHARGE, TABLE_CURRENCY, Market
from trnfleet.domain.reservations.money import Money
from trnfleet.domain.reservations.rules import NS_PER_S, Refusal, Rule, utc, whole_minute_ns
from trnfleet.domain.reservations.states import (
    EXTENDABLE,
    HOLDING,
    BlockState,
    ExtensionState,
    InterconnectStatus,
)
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from trnfleet.domain.reservations.asking import Asked
    from trnfleet.domain.reservations.pool import Pool

OFFERED_S = 86_400
"""How long an offering can be bought; assumed, and long enough for whoever looks at a fleet whose hours pass in seconds."""
MOST_OFFERED = 4_096
"""Offerings that are remembered."""
MOST_BLOCKS = 4_096
MOST_NAMED = 12
"""Blocks that a refusal names at most."""
MOST_EXTENSIONS = 200
"""Extensions of one block, those included whose payment has failed."""
_NOTHING_DUE = -1
_HELD = HOLDING | {BlockState.EXPIRED}
"""States of a block that has, or had, its instances to itself for all its time."""
_ORDER = (
    ChangeKind.EXTENSION_PAID,
    ChangeKind.EXTENSION_PAYMENT_FAILED,
    ChangeKind.EXPIRATION_WARNING,
    ChangeKind.TERMINATING,
    ChangeKind.EXPIRED,
    ChangeKind.PAID,
    ChangeKind.PAYMENT_FAILED,
    ChangeKind.DELIVERED,
)
"""What comes first of changes that are due at the same instant: an extension that is paid before what it puts off, and
the end of a block before the begin of the one that follows on its instances."""

OfferedT = TypeVar("OfferedT", Offering, ExtensionOffering)


class Ledger:
    """The blocks of one account, over one pool of instances."""

    def __init__(self, pool: Pool, market: Market, *, seed: int, now_ns: int) -> None:
        """Open an empty ledger.

        Args:
            pool: What there is.
            market: How it is sold.
            seed: Decides ids and which payments fail.
            now_ns: The instant at which it is opened.

        Raises:
            ConfigError: the market has no price of an instance type that there is, in its currency.
        """
        if market.currency != TABLE_CURRENCY:
            for kind in pool.types():
                if market.price_per_h(kind) is None:
                    raise ConfigError(
                        f"market.prices: there is no price of {kind} in {market.currency}; "
                        f"the table's are in {TABLE_CURRENCY}"
                    )
        self.pool = pool
        self.market = market
        self.blocks: dict[str, Block] = {}
        """By id, in the order in which they were made."""
        self.changes: list[Change] = []
        """All changes so far."""
        self._seed = seed
        self._now_ns = now_ns
        self._offered: OrderedDict[str, tuple[Offering | ExtensionOffering, int]] = OrderedDict()
        self._due_ns: int | None = None
        """When the next change is due; None where that is to be found out."""
        self._sellable: dict[tuple[str, str, bool], NDArray[np.int64]] = {}
        """Instances that may be sold at all, by type, zone and whether they are in UltraServers."""
        self._unpaid: set[str] = set()
        """Blocks whose payment never arrives."""

    @property
    def now_ns(self) -> int:
        """How late it is."""
        return self._now_ns

    # Looking and buying

    def offerings(self, asked: Asked) -> list[Offering]:
        """Return what can be bought, the earliest first: at most six.

        Raises:
            Refusal: a rule forbids it, or nothing of it is free; the message names the rule and what would fit.
        """
        goods = goods_of(asked, self.pool)
        rules.check_duration(asked.days)
        zones = zones_of(asked, goods, self.pool)
        first_ns, last_ns = starts_of(asked, self._now_ns)
        found: list[Offering] = []
        for start_ns, end_ns in spans_of(asked, first_ns, last_ns):
            if self._held(start_ns, end_ns) + goods.instances > rules.MOST_INSTANCES:
                continue
            free = (zone for zone in zones if self._choose(goods, zone, start_ns, end_ns) is not None)
            found += [self._offering(goods, zone, start_ns, end_ns) for zone in free]
            if len(found) >= rules.MOST_OFFERINGS:
                break
        if not found:
            raise self._nothing(asked, goods, zones, first_ns, last_ns)
        return found[: rules.MOST_OFFERINGS]

    def buy(self, offering_id: str) -> Block:
        """Buy an offering and return the block, whose payment is pending.

        Raises:
            Refusal: it is not offered any more, or a rule forbids it by now.
        """
        offering = self._taken_up(offering_id, Offering)
        earliest_ns = self._now_ns + rules.EARLIEST_START_S * NS_PER_S
        if offering.start_ns < earliest_ns:
            raise Refusal(
                Rule.STARTS_TOO_SOON,
                f"{offering_id} starts at {utc(offering.start_ns)}, and the earliest start is "
                f"{utc(whole_minute_ns(earliest_ns))} by now; look for offerings again",
            )
        goods = Goods(offering.instance_type, offering.instances, offering.ultraserver_type is not None)
        held = self._held(offering.start_ns, offering.end_ns)
        if held + offering.instances > rules.MOST_INSTANCES:
            span = offering.start_ns, offering.end_ns
            fewer = self._fewer(goods, [offering.zone], [span])
            near = "none would fit" if fewer is None else f"{fewer[0]} instances would fit"
            raise Refusal(Rule.ACCOUNT_SIZE, f"{_too_many(goods.instances, held)}; {near}")
        places = self._choose(goods, offering.zone, offering.start_ns, offering.end_ns)
        if places is None:
            raise Refusal(Rule.CAPACITY, f"{offering_id} has been sold meanwhile; look for offerings again")
        if len(self.blocks) >= MOST_BLOCKS:
            raise ConfigError(f"the ledger has {MOST_BLOCKS} blocks already")
        window_ns = round(self.market.payment_window_s * NS_PER_S)
        block = self._new(offering, places, self._now_ns, min(self._now_ns + window_ns, offering.start_ns))
        self._change(Change(self._now_ns, ChangeKind.PURCHASED, block.id, made=block))
        return block

    def extension_offerings(self, block_id: str, days: int) -> list[ExtensionOffering]:
        """Return how a block can be extended by so many days: one way.

        Raises:
            Refusal: a rule forbids it.
        """
        block = self._block(block_id)
        rules.check_duration(days, "an extension")
        self._check_extension(block)
        problem = self._why_not_longer(block, days)
        if problem is not None:
            rule, text = problem
            shorter = filter(rules.is_duration, range(days - 1, 0, -1))
            fits = next((each for each in shorter if self._why_not_longer(block, each) is None), None)
            near = "it cannot be extended any more" if fits is None else f"{fits} more days would fit"
            raise Refusal(rule, f"{text}; {near}")
        end_ns = block.end_ns + days * rules.DAY_NS
        fee = self._price(block.offering.instance_type, len(block.places), block.end_ns, end_ns)
        offering = ExtensionOffering(
            # Of the attempts to buy it each has an id of its own, which does not depend on when somebody looks.
            self._id("cbeo", block_id, block.end_ns, end_ns, len(block.extensions), str(fee)),
            block_id,
            block.end_ns,
            end_ns,
            fee,
        )
        self._offer(offering)
        return [offering]

    def extend(self, offering_id: str) -> Block:
        """Buy an extension and return its block; the payment is pending.

        Raises:
            Refusal: it is not offered any more, or a rule forbids it by now.
        """
        offering = self._taken_up(offering_id, ExtensionOffering)
        block = self._block(offering.block_id)
        self._check_extension(block)
        if block.end_ns != offering.start_ns:
            raise Refusal(Rule.OFFERING, f"{block.id} ends at another time by now; look for extensions again")
        problem = self._why_not_longer(block, (offering.end_ns - offering.start_ns) // rules.DAY_NS)
        if problem is not None:
            rule, text = problem
            raise Refusal(rule, f"{text} by now; look for extensions again")
        pay_by_ns = min(
            self._now_ns + round(self.market.payment_window_s * NS_PER_S),
            block.end_ns - rules.PAYMENT_BEFORE_END_S * NS_PER_S,
        )
        extension = Extension(offering, self._now_ns, pay_by_ns)
        self._change(Change(self._now_ns, ChangeKind.EXTENSION_PURCHASED, block.id, extension=extension))
        return self.blocks[block.id]

    def cancel(self, block_id: str) -> None:
        """Refuse: blocks are paid up front and cannot be cancelled.

        Raises:
            Refusal: always.
        """
        block = self._block(block_id)
        raise Refusal(
            Rule.NOT_CANCELLABLE, f"{block.id} is paid up front, and lasts until {utc(block.end_ns)}"
        )

    # Time

    def next_change_ns(self) -> int | None:
        """Return when the next change is due that time brings; None where none is."""
        if self._due_ns is None:
            due_ns = min((due[0] for due in self._dues()), default=None)
            # What a block should have been told of before it was delivered comes at once.
            self._due_ns = _NOTHING_DUE if due_ns is None else max(due_ns, self._now_ns)
        return None if self._due_ns == _NOTHING_DUE else self._due_ns

    def advance(self, until_ns: int) -> list[tuple[Change, Block]]:
        """Let time pass to `until_ns`, included; return what it brings, in order, with the block after each.

        Raises:
            ValueError: `until_ns` is before now.
        """
        if until_ns < self._now_ns:
            raise ValueError(f"the ledger is at {self._now_ns} ns, {until_ns} ns is before that")
        made: list[tuple[Change, Block]] = []
        while (due_ns := self.next_change_ns()) is not None and due_ns <= until_ns:
            _, rank, _, block_id = min(self._dues())
            self._now_ns = due_ns
            made.append(self._change(Change(due_ns, _ORDER[rank], block_id)))
        self._now_ns = until_ns
        return made

    def set_up(self, blocks: Iterable[Block]) -> None:
        """Enter blocks that there are already, each as it is; as changes, they come to be now.

        Raises:
            ValueError: one is there already.
        """
        for block in blocks:
            self._change(Change(self._now_ns, ChangeKind.PURCHASED, block.id, made=block))

    def report_health(self, block_id: str, unavailable: int, *, impaired: bool) -> list[tuple[Change, Block]]:
        """Take note of how a block's instances and links fare now; return what that changes.

        Args:
            block_id: An active or unavailable block; nothing happens to others.
            unavailable: Instances that fail their system status check.
            impaired: Whether links between its instances are down; nothing to blocks without an UltraServer.

        Raises:
            ValueError: it has not so many instances.
        """
        block = self.blocks[block_id]
        if not 0 <= unavailable <= len(block.places):
            raise ValueError(
                f"{block_id} has {len(block.places)} instances; {unavailable} cannot be unavailable"
            )
        if block.state not in {BlockState.ACTIVE, BlockState.UNAVAILABLE}:
            return []
        made = []
        if unavailable != block.unavailable:
            kind = ChangeKind.INSTANCES_UNAVAILABLE if unavailable else ChangeKind.INSTANCES_AVAILABLE
            made.append(self._change(Change(self._now_ns, kind, block_id, unavailable=unavailable)))
        if block.interconnect is not None and impaired != (block.interconnect is InterconnectStatus.IMPAIRED):
            kind = ChangeKind.INTERCONNECT_IMPAIRED if impaired else ChangeKind.INTERCONNECT_OK
            made.append(self._change(Change(self._now_ns, kind, block_id)))
        return made

    def terminates_ns(self, block: Block) -> int:
        """Return from when on EC2 terminates what runs in a block."""
        is_ultraserver = block.offering.ultraserver_type is not None
        lead_s = (
            self.market.ultraserver_termination_before_end_s
            if is_ultraserver
            else self.market.termination_before_end_s
        )
        return block.end_ns - round(lead_s * NS_PER_S)

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
            payment: What became of its payment.
            created_ns: When it was bought, at or before now.

        Raises:
            Refusal: another block holds one of its instances at the time, or a rule forbids it.
            ValueError: it was bought after now.
        """
        if created_ns > self._now_ns:
            raise ValueError(f"a block cannot have been bought at {utc(created_ns)}, which is yet to come")
        self._check_there(places, start_ns, end_ns, payment, created_ns)
        ultraserver = TRN2_ULTRASERVER.name if self.pool.ultraserver[places[0]] >= 0 else None
        zone = str(self.pool.zone[places[0]])
        fee = self._price(kind, len(places), start_ns, end_ns)
        sold = Offering(
            self._id("cbo", "there already", len(self.blocks)),
            kind, len(places), ultraserver, zone, start_ns, end_ns, fee,
        )  # fmt: skip  # in the fields' order
        window_ns = round(self.market.payment_window_s * NS_PER_S)
        block = self._new(sold, tuple(places), created_ns, min(created_ns + window_ns, start_ns))
        if payment is ExtensionState.PAYMENT_PENDING:
            self._unpaid.add(block.id)
            return block
        return self._lived(block, is_paid=payment is ExtensionState.PAYMENT_SUCCEEDED)

    def _check_there(
        self, places: Sequence[int], start_ns: int, end_ns: int, payment: ExtensionState, created_ns: int
    ) -> None:
        """Refuse a block that cannot have come to be by what the rules are."""
        if start_ns >= end_ns or not rules.is_end(end_ns):
            raise Refusal(
                Rule.DATES,
                f"a block ends at 11:30 UTC, after its start; {utc(start_ns)} to {utc(end_ns)} is no time of one",
            )
        days = rules.days_of(start_ns, end_ns)
        if days > rules.MOST_DAYS:
            raise Refusal(
                Rule.DURATION,
                f"a block lasts {rules.MOST_DAYS} days at most, not {days}; {rules.MOST_DAYS} would fit",
            )
        soonest_ns = created_ns + rules.EARLIEST_START_S * NS_PER_S
        latest_ns = created_ns + rules.LATEST_START_S * NS_PER_S
        bought = f"a block that is bought at {utc(created_ns)}"
        if start_ns < soonest_ns:
            raise Refusal(
                Rule.STARTS_TOO_SOON,
                f"{bought} starts at {utc(whole_minute_ns(soonest_ns))} at the earliest, not at {utc(start_ns)}",
            )
        if start_ns > latest_ns:
            raise Refusal(
                Rule.STARTS_TOO_LATE,
                f"{bought} starts at {utc(latest_ns)} at the latest, not at {utc(start_ns)}",
            )
        if payment is ExtensionState.PAYMENT_FAILED:
            return
        if self._busy(start_ns, end_ns, states=_HELD)[list(places)].any():
            raise Refusal(Rule.CAPACITY, "another block holds one of its instances at the time")
        held = self._held(start_ns, end_ns, states=_HELD)
        if held + len(places) > rules.MOST_INSTANCES:
            raise Refusal(Rule.ACCOUNT_SIZE, _too_many(len(places), held))

    def _lived(self, block: Block, *, is_paid: bool) -> Block:
        """Return what became by now of a block that was bought before, as far as time alone changes it."""
        if not is_paid:
            steps = [(min(block.pay_by_ns, self._now_ns), ChangeKind.PAYMENT_FAILED)]
        else:
            paid_ns = block.created_ns + round(self.market.payment_s * NS_PER_S)
            ending = (ChangeKind.EXPIRATION_WARNING, ChangeKind.TERMINATING, ChangeKind.EXPIRED)
            later = [(max(self._when(block, kind), block.start_ns), kind) for kind in ending]
            steps = [
                (min(paid_ns, block.start_ns, self._now_ns), ChangeKind.PAID),
                (block.start_ns, ChangeKind.DELIVERED),
                *sorted(later, key=lambda step: step[0]),
            ]
        past = {block.id: block}
        for when_ns, kind in steps:
            if when_ns <= self._now_ns:
                apply(past, Change(when_ns, kind, block.id))
        return past[block.id]

    # What time brings

    def _dues(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield (when, place in `_ORDER`, number of the block, block) of all that is to come."""
        for number, block in enumerate(self.blocks.values()):
            if block.state in HOLDING:
                for when_ns, kind in self._dues_of(block):
                    yield when_ns, _ORDER.index(kind), number, block.id

    def _dues_of(self, block: Block) -> Iterator[tuple[int, ChangeKind]]:
        """Yield when each change of a block is due that nothing else must precede."""
        if block.state is BlockState.PAYMENT_PENDING:
            when_ns, arrives = self._payment(block.id, block.created_ns, block.pay_by_ns)
            yield when_ns, ChangeKind.PAID if arrives else ChangeKind.PAYMENT_FAILED
            return
        pending = block.pending
        if pending is not None:
            when_ns, arrives = self._payment(pending.offering.id, pending.bought_ns, pending.pay_by_ns)
            yield when_ns, ChangeKind.EXTENSION_PAID if arrives else ChangeKind.EXTENSION_PAYMENT_FAILED
        if block.state is BlockState.SCHEDULED:
            yield self._when(block, ChangeKind.DELIVERED), ChangeKind.DELIVERED
            return
        # Either can be first: how long before the end both are is configurable.
        if not block.warned:
            yield self._when(block, ChangeKind.EXPIRATION_WARNING), ChangeKind.EXPIRATION_WARNING
        if not block.terminating:
            yield self._when(block, ChangeKind.TERMINATING), ChangeKind.TERMINATING
        if block.warned and block.terminating:
            yield block.end_ns, ChangeKind.EXPIRED

    def _payment(self, what: str, bought_ns: int, pay_by_ns: int) -> tuple[int, bool]:
        """Return when a payment is settled, and whether it has arrived then."""
        arrives_ns = bought_ns + round(self.market.payment_s * NS_PER_S)
        if self._fails(what) or arrives_ns >= pay_by_ns:
            return pay_by_ns, False
        return arrives_ns, True

    def _when(self, block: Block, kind: ChangeKind) -> int:
        """Return when a step of a block's life is due."""
        if kind is ChangeKind.DELIVERED:
            return block.start_ns
        if kind is ChangeKind.EXPIRATION_WARNING:
            return block.end_ns - round(self.market.warning_before_end_s * NS_PER_S)
        return self.terminates_ns(block) if kind is ChangeKind.TERMINATING else block.end_ns

    def _change(self, change: Change) -> tuple[Change, Block]:
        block = apply(self.blocks, change)
        self.changes.append(change)
        self._due_ns = None
        return change, block

    def _fails(self, what: str) -> bool:
        """Say whether a payment never arrives."""
        if what in self._unpaid:
            return True
        digest = hashlib.sha256(f"payment:{self._seed}:{what}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.market.failing_payments * 2**64

    # What is free, and what it costs

    def _holders(
        self,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> Iterator[Block]:
        """Yield the blocks of these states that have their instances at some instant of [start, end)."""
        for block in self.blocks.values():
            overlaps = block.start_ns < end_ns and start_ns < block.held_until_ns
            if overlaps and block.state in states and block.id != but:
                yield block

    def _busy(
        self,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> NDArray[np.bool_]:
        """Return which instances any block holds in [start, end); shape (instances,)."""
        busy = np.zeros(len(self.pool), np.bool_)
        for block in self._holders(start_ns, end_ns, but, states):
            busy[list(block.places)] = True
        return busy

    def _why_not_longer(self, block: Block, days: int) -> tuple[Rule, str] | None:
        """Return the rule that keeps a block from lasting so many more days, and in words; None where none does."""
        end_ns = block.end_ns + days * rules.DAY_NS
        total = rules.days_of(block.start_ns, end_ns)
        if total > rules.MOST_DAYS:
            text = f"{block.id} would last {total} days, {rules.MOST_DAYS} are the most"
            return Rule.EXTENSION_TOTAL, text
        if self._is_taken_after(block, days):
            text = f"another block follows on instances of {block.id} within {days} days after its end"
            return Rule.CAPACITY, text
        held = self._held(block.end_ns, end_ns, but=block.id)
        if held + len(block.places) > rules.MOST_INSTANCES:
            return Rule.ACCOUNT_SIZE, _too_many(len(block.places), held)
        return None

    def _is_taken_after(self, block: Block, days: int) -> bool:
        """Say whether another block holds an instance of this one in the days after its end."""
        busy = self._busy(block.end_ns, block.end_ns + days * rules.DAY_NS, but=block.id)
        return bool(busy[list(block.places)].any())

    def _held(
        self,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> int:
        """Return the most instances that are held at one instant of [start, end)."""
        holders = list(self._holders(start_ns, end_ns, but, states))
        # It can only be at an instant at which a block begins.
        instants = {start_ns, *(max(block.start_ns, start_ns) for block in holders)}
        return max(
            sum(len(block.places) for block in holders if block.start_ns <= at_ns < block.held_until_ns)
            for at_ns in instants
        )

    def _choose(self, goods: Goods, zone: str, start_ns: int, end_ns: int) -> tuple[int, ...] | None:
        """Return the instances that would be sold; None where too few are free."""
        rows = self._sellable.get((goods.instance_type, zone, goods.is_ultraserver))
        if rows is None:
            rows = self.pool.sellable(goods.instance_type, zone, ultraserver=goods.is_ultraserver)
            self._sellable[goods.instance_type, zone, goods.is_ultraserver] = rows
        return self.pool.choose_from(rows, goods.instances, self._busy(start_ns, end_ns))

    def _price(self, kind: str, count: int, start_ns: int, end_ns: int) -> Money:
        """Return what so many instances cost for a time: the more of the type is reserved at its begin, the more."""
        per_h = self.market.price_per_h(kind) or Decimal(0)
        reserved, there = self.pool.share(kind, self._busy(start_ns, start_ns + 1))
        hours = Decimal(end_ns - start_ns) / Decimal(3_600 * NS_PER_S)
        dearer = 1 + BUSY_SURCHARGE * Decimal(reserved) / Decimal(there)
        return Money(per_h, self.market.currency).times(hours * count * dearer)

    def _offering(self, goods: Goods, zone: str, start_ns: int, end_ns: int) -> Offering:
        kind, count = goods.instance_type, goods.instances
        fee = self._price(kind, count, start_ns, end_ns)
        offering = Offering(
            self._id("cbo", kind, count, zone, start_ns, end_ns, str(fee)),
            kind,
            count,
            TRN2_ULTRASERVER.name if goods.is_ultraserver else None,
            zone,
            start_ns,
            end_ns,
            fee,
        )
        self._offer(offering)
        return offering

    def _offer(self, offering: Offering | ExtensionOffering) -> None:
        self._offered[offering.id] = offering, self._now_ns + OFFERED_S * NS_PER_S
        self._offered.move_to_end(offering.id)
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)

    def _taken_up(self, offering_id: str, kind: type[OfferedT]) -> OfferedT:
        """Return an offering by its id.

        Raises:
            Refusal: it is not on offer, or not any more.
        """
        known, until_ns = self._offered.get(offering_id, (None, 0))
        if not isinstance(known, kind):
            raise Refusal(Rule.OFFERING, f"{offering_id!r} is not on offer; look for offerings first")
        if self._now_ns >= until_ns:
            raise Refusal(Rule.OFFERING, f"{offering_id} was on offer until {utc(until_ns)}; look again")
        return known

    def _nothing(
        self, asked: Asked, goods: Goods, zones: Sequence[str], first_ns: int, last_ns: int
    ) -> Refusal:
        """Return why nothing was found, with what would be nearest to it: shorter first, then fewer instances."""
        spans = spans_of(asked, first_ns, last_ns)
        held = min(self._held(*span) for span in spans)
        rule = Rule.CAPACITY if held + goods.instances <= rules.MOST_INSTANCES else Rule.ACCOUNT_SIZE
        told = f"{goods} is not free for {asked.days} days"
        if rule is Rule.ACCOUNT_SIZE:
            told = _too_many(goods.instances, held)
        durations = [each for each in range(1, asked.days) if rules.is_duration(each)]

        def shorter(days: int) -> int | None:
            return self._first_free(goods, zones, spans_of(asked._replace(days=days), first_ns, last_ns))

        # What is free for some days is free for fewer.
        at = bisect_left(durations, True, key=lambda days: shorter(days) is None)
        start_ns = shorter(durations[at - 1]) if at else None
        if start_ns is not None:
            return Refusal(rule, f"{told}; {durations[at - 1]} days from {utc(start_ns)} on would fit")
        fewer = self._fewer(goods, zones, spans)
        if fewer is not None:
            return Refusal(rule, f"{told}; {fewer[0]} instances from {utc(fewer[1])} on would fit")
        return Refusal(rule, f"{told}, nor is less of it or a shorter time")

    def _fewer(
        self, goods: Goods, zones: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[int, int] | None:
        """Return the most instances below those wanted that can be sold, and the first start; None where none can."""
        if goods.is_ultraserver:
            return None

        def first(count: int) -> int | None:
            return self._first_free(goods._replace(instances=count), zones, spans)

        at = bisect_left(range(1, goods.instances), True, key=lambda count: first(count) is None)
        start_ns = first(at) if at else None
        return None if start_ns is None else (at, start_ns)

    def _first_free(self, goods: Goods, zones: Sequence[str], spans: Iterable[tuple[int, int]]) -> int | None:
        """Return the first start of these spans at which it can be sold; None where it never can."""
        for start_ns, end_ns in spans:
            if self._held(start_ns, end_ns) + goods.instances > rules.MOST_INSTANCES:
                continue
            if any(self._choose(goods, zone, start_ns, end_ns) is not None for zone in zones):
                return start_ns
        return None

    # Blocks

    def _block(self, block_id: str) -> Block:
        block = self.blocks.get(block_id)
        if block is None:
            near = nearest(block_id, self.blocks)
            if len(self.blocks) > MOST_NAMED and not near.startswith("did"):
                near = f"there are {len(self.blocks)}; list them first"
            raise Refusal(Rule.NO_SUCH_BLOCK, f"no block {block_id!r}: {near}")
        return block

    def _check_extension(self, block: Block) -> None:
        """Refuse what cannot be extended now.

        Raises:
            Refusal: it is in another state, it is too early or too late, or a payment is pending.
        """
        if block.state not in EXTENDABLE:
            raise Refusal(
                Rule.EXTENSION_STATE,
                f"{block.id} is {block.state.value}; active and scheduled blocks can be extended",
            )
        if block.pending is not None:
            raise Refusal(
                Rule.EXTENSION_PENDING,
                f"the payment of the last extension of {block.id} is pending until {utc(block.pending.pay_by_ns)}",
            )
        opens_ns = block.end_ns - rules.EXTENSION_EARLIEST_S * NS_PER_S
        closes_ns = block.end_ns - rules.EXTENSION_LATEST_S * NS_PER_S
        if len(block.extensions) >= MOST_EXTENSIONS:
            raise ConfigError(f"{block.id} has {MOST_EXTENSIONS} extensions already, failed ones included")
        if self._now_ns < opens_ns:
            raise Refusal(
                Rule.EXTENSION_TOO_EARLY,
                f"{block.id} can be extended from 56 days before its end on, which is {utc(opens_ns)}",
            )
        if self._now_ns >= closes_ns:
            raise Refusal(
                Rule.EXTENSION_TOO_LATE,
                f"{block.id} could be extended until an hour before its end, which was {utc(closes_ns)}",
            )

    def _new(self, offering: Offering, places: tuple[int, ...], created_ns: int, pay_by_ns: int) -> Block:
        return Block(
            id=self._id("cb", offering.id, len(self.blocks)),
            reservation_id=self._id("cr", offering.id, len(self.blocks)),
            offering=offering,
            places=places,
            state=BlockState.PAYMENT_PENDING,
            created_ns=created_ns,
            changed_ns=created_ns,
            changes=1,
            end_ns=offering.end_ns,
            pay_by_ns=pay_by_ns,
            fee=offering.fee,
        )

    def _id(self, prefix: str, *what: object) -> str:
        """Return an id as EC2 writes them: a prefix and 17 hexadecimal digits, which follow from the seed."""
        digest = hashlib.sha256(f"{prefix}:{self._seed}:{what}".encode()).hexdigest()
        return f"{prefix}-0{digest[:16]}"


def _too_many(count: int, held: int) -> str:
    return f"{count} more instances beside {held} would be more than {rules.MOST_INSTANCES} at a time"
