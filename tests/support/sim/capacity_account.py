"""Accounts for tests of reservations: instance pools, their ledgers, and readable instants."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.reservations.ledger import Ledger
from trnfleet.domain.reservations.market import Market
from trnfleet.domain.reservations.pool import Pool
from trnfleet.domain.reservations.rules import Rule, RuleViolation
from trnfleet.domain.reservations.states import ExtensionState
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.search import SearchRequest

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 3_600 * SECOND_NS
DAY_NS = 86_400 * SECOND_NS

TRN2 = "trn2.48xlarge"
TRN2U = "trn2u.48xlarge"
TRN1 = "trn1.32xlarge"


def at(text: str) -> int:
    """Return an instant such as 2026-01-05 10:00 as nanoseconds since 1970."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_NS


NOW_NS = at("2026-01-05 10:00")
PAID_NS = 300 * SECOND_NS
"""Default time after which a payment arrives."""


def pool_of(*alone: tuple[str, str, int], ultraservers: Sequence[str] = ()) -> Pool:
    """Return a pool of UltraServers, each by zone, then standalone instances.

    The latter are runs of (type, zone, count).
    """
    members = [(TRN2U, zone, number) for number, zone in enumerate(ultraservers) for _ in range(4)]
    members += [(kind, zone, -1) for kind, zone, count in alone for _ in range(count)]
    kinds, zones, numbers = zip(*members, strict=True)
    return Pool(np.array(kinds), np.array(zones), np.array(numbers, np.int64))


def ledger_of(pool: Pool, now_ns: int = NOW_NS, *, seed: int = 1, **market: Any) -> Ledger:
    """Return an empty ledger; `market` are keys of a fleet file's [market]."""
    return Ledger(pool, Market(**market), token=Rng(seed).token, now_ns=now_ns)


def small(**market: Any) -> Ledger:
    """Return an empty ledger over two zones.

    An UltraServer and two instances in one zone, one instance in the other.
    """
    return ledger_of(pool_of((TRN2, "a", 2), (TRN2, "b", 1), ultraservers=["a"]), **market)


def refused(rule: Rule, call: Callable[[], object]) -> str:
    """Return the text with which a rule refuses a call."""
    with pytest.raises(RuleViolation) as caught:
        call()
    assert caught.value.rule is rule
    return str(caught.value)


def buy(ledger: Ledger, search_request: SearchRequest) -> Block:
    """Buy the first offer.

    Its payment is pending.
    """
    return ledger.buy(ledger.offerings(search_request)[0].id)


def enter(
    ledger: Ledger,
    kind: str,
    places: Sequence[int],
    start: str,
    end: str,
    payment: str = "succeeded",
) -> Block:
    """Enter an existing block, bought a week before its start or just now."""
    start_ns = at(start)
    end_ns = at(end)
    bought_ns = min(start_ns - 7 * DAY_NS, ledger.now_ns)
    if payment == "pending":
        bought_ns = ledger.now_ns
    made = ledger.make(
        kind, places, start_ns, end_ns, ExtensionState(f"payment-{payment}"), bought_ns
    )
    ledger.set_up([made])
    return made
