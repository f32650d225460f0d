"""Amounts of money: exact decimals with their currency, never floats."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

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
