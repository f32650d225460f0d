"""Fees of instances for a time, from the market's hourly prices.

Prices are the same for all until they are revised.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.reservations.market import TABLE_CURRENCY, Market
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.pool import Pool


CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in a currency."""

    amount: Decimal
    currency: str = "USD"

    def __add__(self, other: Money) -> Money:
        """Return the sum.

        Raises:
            ValueError: the currencies differ.
        """
        if other.currency != self.currency:
            raise ValueError(f"{self.currency} and {other.currency} do not add up")
        return Money(self.amount + other.amount, self.currency)

    def times(self, factor: Decimal) -> Money:
        """Return a multiple of the amount, rounded to a cent, halves up."""
        return Money((self.amount * factor).quantize(CENT, ROUND_HALF_UP), self.currency)

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"


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
                        f"market.prices: no price of {kind} in {market.currency}; "
                        f"the table's are in {TABLE_CURRENCY}"
                    )
        self.market = market

    def fee(self, kind: str, count: int, start_ns: int, end_ns: int, *, bought_ns: int) -> Money:
        """Return the fee of some instances for a time, at the prices of the purchase."""
        per_h = self.market.price_per_h(kind, bought_ns) or Decimal(0)
        hours = Decimal(end_ns - start_ns) / Decimal(3_600 * NS_PER_S)
        return Money(per_h, self.market.currency).times(hours * count)
