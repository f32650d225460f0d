from __future__ import annotations

from decimal import Decimal

import pytest

from trnfleet.domain.reservations.prices import Money


@pytest.mark.parametrize(
    ("amount", "factor", "expected"),
    [
        ("35.76", "24", "858.24"),
        ("2.235", "1", "2.24"),
        ("0.005", "1", "0.01"),
        ("0.0049999999", "1", "0.00"),
        ("0.015", "1", "0.02"),
        ("0.025", "1", "0.03"),
        ("0", "1000", "0.00"),
        ("999999.999999", "281088", "281087999999.72"),
    ],
)
def test_products_are_rounded_to_cents_halves_up(amount: str, factor: str, expected: str) -> None:
    """A product is exact to the cent, and half a cent counts as one."""
    assert Money(Decimal(amount)).times(Decimal(factor)).amount == Decimal(expected)


def test_sums_are_exact() -> None:
    """Ten times ten cents is exactly a dollar, unlike with floats."""
    total = Money(Decimal(0))
    for _ in range(10):
        total += Money(Decimal("0.10"))
    assert total == Money(Decimal("1.00"))


def test_currencies_do_not_mix() -> None:
    """Amounts of two currencies have no sum, and are not equal."""
    with pytest.raises(ValueError, match="USD and EUR do not add up"):
        Money(Decimal(1)) + Money(Decimal(1), "EUR")
    assert Money(Decimal(1)) != Money(Decimal(1), "EUR")


def test_a_product_keeps_its_currency() -> None:
    """Twice an amount in yen is an amount in yen."""
    assert Money(Decimal(2), "JPY").times(Decimal(2)) == Money(Decimal("4.00"), "JPY")


def test_amounts_are_written_with_cents_and_currency() -> None:
    """An amount is written with thousands apart, two digits of cents, and its currency."""
    assert str(Money(Decimal("48061.4"))) == "48,061.40 USD"
