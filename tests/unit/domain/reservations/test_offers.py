from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    NOW_NS,
    PAID_NS,
    TRN2,
    at,
    buy,
    ledger_of,
    pool_of,
    refused,
    small,
)

from trnfleet.domain.reservations import offers
from trnfleet.domain.reservations.rules import Rule
from trnfleet.domain.reservations.search_request import SearchRequest


@pytest.mark.parametrize(("off_ns", "is_refused"), [(-1, False), (0, True), (1, True)])
def test_an_offering_lasts_a_day(off_ns: int, is_refused: bool) -> None:
    """An offering can be bought for less than a day after it was looked for."""
    ledger = small()
    offering = ledger.offerings(SearchRequest(1, TRN2, starts_from_ns=at("2026-01-07 11:30")))[0]
    ledger.advance(NOW_NS + DAY_NS + off_ns)
    if is_refused:
        rule, text = refused(lambda: ledger.buy(offering.id))
        assert rule is Rule.OFFERING
        assert "was on offer until 2026-01-06 10:00 UTC; look again" in text
    else:
        assert ledger.buy(offering.id).created_ns == NOW_NS + DAY_NS + off_ns


@pytest.mark.parametrize("offering", ["cbo-1", "", "cbeo-0123456789abcdef0", "x" * 500])
def test_what_was_never_offered(offering: str) -> None:
    """An unknown offering is refused by its name, whatever it is to be bought as."""
    ledger = small()
    for call in (ledger.buy, ledger.extend):
        rule, text = refused(lambda call=call: call(offering))  # type: ignore[misc]
        assert rule is Rule.OFFERING
        assert f"{offering!r} is not on offer" in text


def test_an_extension_is_no_block_and_a_block_no_extension() -> None:
    """An offering of a block does not extend one, and an extension's buys no block."""
    ledger = small()
    offering = ledger.offerings(SearchRequest(1, TRN2))[0]
    block = ledger.buy(offering.id)
    ledger.advance(NOW_NS + PAID_NS)
    longer = ledger.extension_offerings(block.id, 1)[0]
    assert refused(lambda: ledger.extend(offering.id))[0] is Rule.OFFERING
    assert refused(lambda: ledger.buy(longer.id))[0] is Rule.OFFERING


def test_old_offerings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of remembered offerings is limited; the oldest goes first."""
    monkeypatch.setattr(offers, "MOST_OFFERED", 6)
    ledger = small()
    first = ledger.offerings(SearchRequest(1, TRN2))
    ledger.buy(first[5].id)
    ledger.offerings(SearchRequest(7, ultraservers=1))
    assert refused(lambda: ledger.buy(first[4].id))[0] is Rule.OFFERING


def test_an_offering_s_id_stands_for_its_price() -> None:
    """A search at the same price returns the same offering; after a revision another one."""
    revised = {"at": datetime(2026, 1, 5, 12, tzinfo=UTC), "prices": {TRN2: "40"}}
    ledger = ledger_of(pool_of((TRN2, "a", 4)), revisions=(revised,))
    search_request = SearchRequest(1, TRN2, starts_from_ns=at("2026-01-07 11:30"))
    cheap = ledger.offerings(search_request)[0]
    buy(ledger, SearchRequest(7, TRN2, 2))
    assert ledger.offerings(search_request)[0] == cheap
    ledger.advance(at("2026-01-05 12:00"))
    dear = ledger.offerings(search_request)[0]
    assert dear.fee.amount > cheap.fee.amount
    assert dear.id != cheap.id
    assert ledger.buy(dear.id).fee == dear.fee
