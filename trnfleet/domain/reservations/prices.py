"""Fees of instances for a time, from the market's hourly prices.

Prices are the same for all until they are revised.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from trnfleet.domain.reservations.market import TABLE_CURRENCY
from trnfleet.domain.reservations.money import Money
from trnfleet.domain.reservations.rules import NS_PER_S
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.market import Market
    from trnfleet.domain.reservations.pool import Pool


class Prices:
    """Prices of a market for instances of a pool."""

    def __init__(self, market: Market, pool: Pool) -> None:
        """Check a market's prices.

        Args:
            market: Its terms of sale.
            pool: The existing instances.

        Raises:
            ConfigError: the market has no price in its currency for an instance type sold there.
        """
        if market.currency != TABLE_CURRENCY:
            for kind in pool.types():
                if kind in pool.sold and market.price_per_h(kind) is None:
                    raise ConfigError(
                        f"market.prices: there is no price of {kind} in {market.currency}; "
                        f"the table's are in {TABLE_CURRENCY}"
                    )
        self._market = market

    def fee(self, kind: str, count: int, start_ns: int, end_ns: int, *, bought_ns: int) -> Money:
        """Return the fee of some instances for a time, at the prices of the purchase."""
        per_h = self._market.price_per_h(kind, bought_ns) or Decimal(0)
        hours = Decimal(end_ns - start_ns) / Decimal(3_600 * NS_PER_S)
        return Money(per_h, self._market.currency).times(hours * count)

    def valid_until_ns(self, now_ns: int) -> int | None:
        """Return when the prices change; None where no change is known."""
        return self._market.next_revision_ns(now_ns)
