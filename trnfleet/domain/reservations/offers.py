"""Offerings: ids, fees and expiry."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from trnfleet.domain.hardware.catalogue import ultraserver_type_of
from trnfleet.domain.reservations.blocks import ExtensionOffering, Offering
from trnfleet.domain.reservations.ids import id_of
from trnfleet.domain.reservations.rules import NS_PER_S, Rule, RuleViolation, utc
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.ids import Token
    from trnfleet.domain.reservations.prices import Prices
    from trnfleet.domain.reservations.search import Lot

OFFERED_S = 86_400
"""Lifetime of an offering, unless prices are revised before. Assumed, and long enough for fleets
whose hours pass in seconds."""
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
        until_ns = now_ns + OFFERED_S * NS_PER_S
        revised_ns = self._prices.valid_until_ns(now_ns)
        self._offered[offering.id] = (
            offering,
            until_ns if revised_ns is None else min(until_ns, revised_ns),
        )
        self._offered.move_to_end(offering.id)
        if len(self._offered) > MOST_OFFERED:
            self._offered.popitem(last=False)
