"""Fees of instances for a time: the market's hourly price, raised where much is reserved."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from trnfleet.domain.reservations.market import BUSY_SURCHARGE, TABLE_CURRENCY
from trnfleet.domain.reservations.money import Money
from trnfleet.domain.reservations.rules import NS_PER_S
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.market import Market
    from trnfleet.domain.reservations.occupancy import Occupancy


class Prices:
    """Prices of a market for instances of a pool."""

    def __init__(self, market: Market, occupancy: Occupancy) -> None:
        """Check a market's prices.

        Args:
            market: Its terms of sale.
            occupancy: Of the pool.

        Raises:
            ConfigError: the market has no price of an instance type that there is, in its currency.
        """
        if market.currency != TABLE_CURRENCY:
            for kind in occupancy.pool.types():
                if market.price_per_h(kind) is None:
                    raise ConfigError(
                        f"market.prices: there is no price of {kind} in {market.currency}; "
                        f"the table's are in {TABLE_CURRENCY}"
                    )
        self._market = market
        self._occupancy = occupancy

    def fee(self, kind: str, count: int, start_ns: int, end_ns: int) -> Money:
        """Return the fee of some instances for a time; it grows with the share of the type that is reserved at its begin."""
        per_h = self._market.price_per_h(kind) or Decimal(0)
        reserved, there = self._occupancy.pool.share(kind, self._occupancy.busy(start_ns, start_ns + 1))
        hours = Decimal(end_ns - start_ns) / Decimal(3_600 * NS_PER_S)
        dearer = 1 + BUSY_SURCHARGE * Decimal(reserved) / Decimal(there)
        return Money(per_h, self._market.currency).times(hours * count * dearer)
