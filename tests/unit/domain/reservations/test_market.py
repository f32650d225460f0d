from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from support.sim.capacity_account import (
    HOUR_NS,
    TRN1,
    TRN2,
    TRN2U,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
    refused,
)

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.reservations.market import Market
from trnfleet.domain.reservations.prices import Money
from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from trnfleet.domain.reservations.ledger import Ledger

NEXT_END_NS = at("2026-01-05 11:30")


def fleet(**more: Any) -> FleetFile:
    data = {"name": "f", "clusters": [{"name": "uc1", "ultraservers": [{"count": 1}]}], **more}
    return validate(data, FleetFile, "f.toml")


def block(**more: Any) -> dict[str, Any]:
    return {"on": ["uc1/us-0001"], "days": 7, "ends_after_days": 3, **more}


def fee(ledger: Ledger, search_request: SearchRequest) -> str:
    return str(ledger.offerings(search_request)[0].fee)


def test_every_instance_type_has_a_price() -> None:
    """The catalogue has a price for all types, with exactly the written decimal."""
    prices = {kind: Market().price_per_h(kind) for kind in INSTANCE_TYPES}
    assert all(price is not None and price > 0 for price in prices.values())
    assert prices[TRN2U] == prices[TRN2] == Decimal("35.76")
    assert prices["trn2.3xlarge"] == Decimal("2.235")
    assert Market().price_per_h("trn9.48xlarge") is None


@pytest.mark.parametrize(
    ("search_request", "expected"),
    [
        (SearchRequest(1, TRN2, starts_from_ns=NEXT_END_NS), "858.24 USD"),
        (SearchRequest(1, TRN2, 4, starts_from_ns=NEXT_END_NS), "3,432.96 USD"),
        (SearchRequest(1, ultraservers=1, starts_from_ns=NEXT_END_NS), "3,432.96 USD"),
        (SearchRequest(1, "trn2.3xlarge", starts_from_ns=NEXT_END_NS), "53.64 USD"),
        (SearchRequest(14, TRN1, 1, starts_from_ns=NEXT_END_NS), "5,204.64 USD"),
        # From 10:30 to 11:30, and 59 minutes and a day.
        (SearchRequest(1, "trn2.3xlarge"), "2.24 USD"),
        (SearchRequest(2, "trn2.3xlarge", starts_from_ns=at("2026-01-05 10:31")), "55.84 USD"),
        # 8 and 32 hours.
        (SearchRequest(1, TRN2, starts_from_ns=at("2026-01-06 03:30")), "286.08 USD"),
        (SearchRequest(2, TRN2, starts_from_ns=at("2026-01-06 03:30")), "1,144.32 USD"),
    ],
)
def test_what_is_free_has_the_table_s_price(search_request: SearchRequest, expected: str) -> None:
    """The fee is the price by instance and hour, of partial days too.

    Exact and rounded to a cent, halves up.
    """
    pool = pool_of((TRN2, "a", 8), (TRN1, "a", 2), ("trn2.3xlarge", "a", 2), ultraservers=["a"])
    assert fee(ledger_of(pool), search_request) == expected


@pytest.mark.parametrize("reserved", [0, 1, 3])
def test_an_answer_has_one_price(reserved: int) -> None:
    """All offerings of an answer have one hourly price, whatever is reserved."""
    ledger = ledger_of(pool_of((TRN2, "a", 4)))
    if reserved:
        buy(ledger, SearchRequest(2, TRN2, reserved, starts_from_ns=NEXT_END_NS))
    found = ledger.offerings(SearchRequest(1, TRN2))
    hours = [Decimal(each.end_ns - each.start_ns) / HOUR_NS for each in found]
    assert [each.fee.amount / hour for each, hour in zip(found, hours, strict=True)] == [
        Decimal("35.76")
    ] * 6


REVISED = (
    {"at": datetime(2026, 1, 5, 12, tzinfo=UTC), "prices": {TRN2: "40"}},
    {"at": datetime(2026, 1, 6, tzinfo=UTC), "prices": {TRN1: "20"}},
)


@pytest.mark.parametrize(
    ("now", "trn2", "trn1"),
    [
        ("2026-01-05 11:59", "858.24 USD", "371.76 USD"),
        ("2026-01-05 12:00", "960.00 USD", "371.76 USD"),
        ("2026-01-06 00:00", "960.00 USD", "480.00 USD"),
    ],
)
def test_prices_are_revised_at_stated_times(now: str, trn2: str, trn1: str) -> None:
    """Purchases from a revision on cost its prices, whenever they start.

    Types without a new price keep theirs.
    """
    ledger = ledger_of(pool_of((TRN2, "a", 1), (TRN1, "a", 1)), at(now), revisions=REVISED)
    late_ns = at("2026-02-05 11:30")
    assert fee(ledger, SearchRequest(1, TRN2, starts_from_ns=late_ns)) == trn2
    assert fee(ledger, SearchRequest(1, TRN1, starts_from_ns=late_ns)) == trn1


def test_an_offering_lasts_until_prices_are_revised() -> None:
    """An offering expires with a revision, and a block's fee stays."""
    ledger = ledger_of(pool_of((TRN2, "a", 2)), revisions=REVISED)
    assert ledger.prices_until_ns() == at("2026-01-05 12:00")
    search_request = SearchRequest(1, TRN2, starts_from_ns=at("2026-01-07 11:30"))
    offered, block = ledger.offerings(search_request)[0], buy(ledger, search_request)
    ledger.advance(at("2026-01-05 12:00"))
    text = refused(Rule.OFFERING, lambda: ledger.buy(offered.id))
    assert "was on offer until 2026-01-05 12:00 UTC; look again" in text
    assert buy(ledger, search_request).fee == Money(Decimal(960))
    assert ledger.blocks[block.id].fee == Money(Decimal("858.24"))
    assert str(ledger.extension_offerings(block.id, 1)[0].fee) == "960.00 USD"


def test_a_block_of_the_file_has_the_price_of_its_purchase() -> None:
    """A block bought a week before a revision costs the former price."""
    before = {"at": datetime(2026, 1, 1, tzinfo=UTC), "prices": {TRN2: "40"}}
    ledger = ledger_of(pool_of((TRN2, "a", 2)), revisions=(before,))
    bought_before = enter(ledger, TRN2, [0], "2026-01-07 11:30", "2026-01-08 11:30")
    bought_after = enter(ledger, TRN2, [1], "2026-01-09 11:30", "2026-01-10 11:30")
    assert [str(each.fee) for each in (bought_before, bought_after)] == ["858.24 USD", "960.00 USD"]


def test_prices_of_one_s_own() -> None:
    """A price in the file goes before the table's, exact to a millionth; others stay."""
    ledger = ledger_of(pool_of((TRN2, "a", 1), (TRN1, "a", 1)), prices={TRN2: "0.333333"})
    assert fee(ledger, SearchRequest(1, TRN2, starts_from_ns=NEXT_END_NS)) == "8.00 USD"
    assert fee(ledger, SearchRequest(1, TRN1, starts_from_ns=NEXT_END_NS)) == "371.76 USD"


def test_another_currency_needs_prices_in_it() -> None:
    """The table's dollars never count as another currency: a type without a price is refused."""
    pool = pool_of((TRN2, "a", 1), (TRN1, "a", 1))
    ledger = ledger_of(pool, currency="EUR", prices={TRN2: "30", TRN1: "10"})
    assert fee(ledger, SearchRequest(1, TRN2, starts_from_ns=NEXT_END_NS)) == "720.00 EUR"
    # What is not sold needs no price.
    ledger_of(
        pool_of((TRN2, "a", 1), ("trn1.2xlarge", "a", 1)), currency="EUR", prices={TRN2: "30"}
    )
    with pytest.raises(ConfigError, match=r"market\.prices: no price of trn1\.32xlarge in EUR"):
        ledger_of(pool, currency="EUR", prices={TRN2: "30"})
    assert Market(currency="EUR", prices={TRN2: "30"}).price_per_h(TRN1) is None


@pytest.mark.parametrize(
    ("market", "says"),
    [
        ({"curency": "USD"}, r"unknown key 'market\.curency': did you mean 'currency'\?"),
        ({"currency": "usd"}, r"market\.currency = 'usd'"),
        ({"currency": "DOLLARS"}, r"market\.currency = 'DOLLARS'"),
        ({"currency": "EUR"}, r"market.*currency = 'EUR' needs prices"),
        ({"payment_s": -1.0}, r"market\.payment_s = -1\.0: .*greater than or equal to 0"),
        ({"payment_s": 86_400.5}, r"market\.payment_s = 86400\.5: .*less than or equal to 86400"),
        ({"payment_s": "300"}, r"market\.payment_s = '300'"),
        ({"payment_window_s": float("inf")}, r"market\.payment_window_s = inf"),
        ({"warning_before_end_s": float("nan")}, r"market\.warning_before_end_s = nan"),
        ({"termination_before_end_s": -0.1}, r"market\.termination_before_end_s = -0\.1"),
        (
            {"ultraserver_termination_before_end_s": 1e9},
            r"market\.ultraserver_termination_before_end_s",
        ),
        (
            {"failing_payments": 1.01},
            r"market\.failing_payments = 1\.01: .*less than or equal to 1",
        ),
        ({"failing_payments": -0.01}, r"market\.failing_payments = -0\.01"),
        ({"prices": {TRN2: 35.76}}, r"market\.prices\.trn2\.48xlarge = 35\.76"),
        ({"prices": {TRN2: "-1"}}, r"market\.prices\.trn2\.48xlarge = '-1'"),
        ({"prices": {TRN2: "1e3"}}, r"market\.prices\.trn2\.48xlarge = '1e3'"),
        ({"prices": {TRN2: "0.0000001"}}, r"market\.prices\.trn2\.48xlarge"),
        ({"prices": {TRN2: "NaN"}}, r"market\.prices\.trn2\.48xlarge = 'NaN'"),
        (
            {"interruption_before_termination_s": -1.0},
            r"market\.interruption_before_termination_s = -1\.0",
        ),
        ({"account": "1234"}, r"market\.account = '1234'"),
        (
            {"sells": ["trn2.48xlarg"]},
            (
                r"market\.sells = .*unknown instance type 'trn2\.48xlarg': did you mean"
                r" 'trn2\.48xlarge'\?"
            ),
        ),
        (
            {"revisions": [{"at": datetime(2026, 1, 5), "prices": {TRN2: "1"}}]},  # noqa: DTZ001
            (
                r"market\.revisions\.0\.at = 2026-01-05T00:00:00: no time zone; write it as"
                r" 2026-01-05T00:00:00Z"
            ),
        ),
        (
            {"revisions": [{"at": datetime(1960, 1, 5, tzinfo=UTC), "prices": {TRN2: "1"}}]},
            r"market\.revisions\.0\.at = .*1971 to 2199",
        ),
        (
            {"revisions": [{"at": REVISED[0]["at"], "prices": {}}]},
            r"market\.revisions\.0\.prices = ",
        ),
        (
            {"revisions": [{"at": REVISED[0]["at"], "prices": {"trn9": "1"}}]},
            r"market\.revisions\.0\.prices: unknown instance type 'trn9'",
        ),
        (
            {"revisions": [*REVISED[::-1]]},
            (
                r"market\.revisions = .*revisions\.1\.at = 2026-01-05T12:00:00\+00:00 is not after"
                r" the one before it, 2026-01-06T00:00:00\+00:00"
            ),
        ),
        (
            {"prices": {"trn2.48xlarg": "1"}},
            (
                r"market\.prices: unknown instance type 'trn2\.48xlarg': did you mean"
                r" 'trn2\.48xlarge'\?"
            ),
        ),
    ],
)
def test_markets_that_cannot_be(market: dict[str, Any], says: str) -> None:
    """An invalid market is refused with file, key, value and limit."""
    with pytest.raises(ConfigError, match=f"^f.toml: {says}"):
        fleet(market=market)


@pytest.mark.parametrize(
    "market",
    [
        {
            "payment_s": 0.0,
            "payment_window_s": 0.0,
            "warning_before_end_s": 0.0,
            "termination_before_end_s": 0.0,
        },
        {
            "payment_s": 86_400.0,
            "ultraserver_termination_before_end_s": 86_400.0,
            "failing_payments": 1.0,
        },
        {"interruption_before_termination_s": 0.0, "account": "000000000001", "sells": ()},
        {"revisions": REVISED},
        {"currency": "JPY", "prices": {TRN2U: "5000", TRN2: "999999.999999"}},
        {"prices": {TRN2: "0"}},
    ],
)
def test_markets_at_their_limits(market: dict[str, Any]) -> None:
    """Values at the limits are possible."""
    assert fleet(market=market).market.model_dump(exclude_unset=True) == market


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (block(days=0), r"blocks\.0\.days = 0: "),
        (block(days=183), r"blocks\.0\.days = 183: .*182"),
        (
            block(days=15),
            r"blocks\.0\.days = 15: duration-in-days-then-weeks: .*not 15; 14 or 21 would fit",
        ),
        (block(days=20), r"blocks\.0\.days = 20: .*14 or 21 would fit"),
        (block(days=181), r"blocks\.0\.days = 181: .*175 or 182 would fit"),
        (block(days=7.0), r"blocks\.0\.days = 7\.0"),
        (block(on=[]), r"blocks\.0\.on = "),
        (block(ends_after_days=401), r"blocks\.0\.ends_after_days = 401: .*400"),
        (block(ends_after_days=-401), r"blocks\.0\.ends_after_days = -401"),
        (
            block(ends_after_days=62),
            (
                r"blocks\.0: ends_after_days = 62: a block starts within 8 weeks; with days = 7, 61"
                r" is the most"
            ),
        ),
        (
            block(payment="maybe"),
            r"blocks\.0\.payment = 'maybe': choose from failed, pending, succeeded",
        ),
        (
            block(payment="pending", ends_after_days=6),
            (
                r"blocks\.0: payment = 'pending': .* with days = 7, ends_after_days is 7 at least,"
                r" not 6"
            ),
        ),
        (block(end=3), r"unknown key 'blocks\.0\.end': "),
        ({"on": ["uc1/us-0001"], "days": 7}, r"key 'blocks\.0\.ends_after_days' is missing"),
    ],
)
def test_blocks_that_cannot_be(entry: dict[str, Any], says: str) -> None:
    """A fleet file's block that is none is refused with file, key, value and limit."""
    with pytest.raises(ConfigError, match=f"^f.toml: {says}"):
        fleet(blocks=[entry])


@pytest.mark.parametrize(
    "entry",
    [
        block(days=1),
        block(days=14),
        block(days=21),
        block(days=182, ends_after_days=236),
        block(days=1, ends_after_days=-400),
        block(days=7, ends_after_days=61),
        block(payment="pending", ends_after_days=7),
        block(payment="failed", ends_after_days=6),
    ],
)
def test_blocks_at_their_limits(entry: dict[str, Any]) -> None:
    """Blocks at the limits are possible."""
    assert fleet(blocks=[entry]).blocks[0].days == entry["days"]
