"""Energy and cost per token, from published power, tokens and market prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.truth.observe import Observation


class TokenCost(NamedTuple):
    """Costs of one job's tokens."""

    fleet: str
    job: str
    tokens_per_s: float
    it_joules: float
    """Of chips and hosts, a token."""
    facility_joules: float
    usd_per_million: float | None
    """At the price of Capacity Blocks; None where the market has none for the type."""


def token_costs(seen: Observation) -> list[TokenCost]:
    """Return the costs of every token-producing job."""
    found = []
    for series in seen.jobs:
        tokens_per_s = series.mean("tokens_per_s")
        if not tokens_per_s > 0:
            continue
        watts = series.mean("power_w") + series.mean("host_power_w")
        first = int((seen.engine.job_of_instance == series.number).argmax())
        price = seen.fleet.market.price_per_h(seen.engine.layout.type_of(first).name)
        usd_per_s = None if price is None else float(price) * series.instances / 3_600.0
        found.append(
            TokenCost(
                seen.fleet.name,
                series.name,
                tokens_per_s,
                watts / tokens_per_s,
                watts * seen.fleet.pue / tokens_per_s,
                None if usd_per_s is None else usd_per_s / tokens_per_s * 1e6,
            )
        )
    return found
