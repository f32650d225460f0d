"""Site: facts and limits that a person sets, for energy, money and goodput."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from decimal import Decimal

PUE = 1.14
"""Power usage effectiveness. Published: AWS's global figure for 2025 (1.15 for 2023 and 2024, 1.04
at the best site)."""
TTFT_LIMIT_S = 2.0
TPOT_LIMIT_S = 0.2
"""Limits of serving. Published: MLPerf Inference, conversational scenario of Llama-2-70B, there for
the 99th percentile; here for a job's means."""


class Site(NamedTuple):
    """Facts and limits that a person sets."""

    pue: float = PUE
    """Power usage effectiveness: facility power over IT power."""
    ttft_limit: float = TTFT_LIMIT_S
    """Seconds to the first token of serving."""
    tpot_limit: float = TPOT_LIMIT_S
    """Seconds for each further token."""
    prices: tuple[tuple[str, Decimal], ...] = ()
    """USD for an hour of an instance without a reservation's price, by instance type."""
    power_caps: tuple[tuple[str, float], ...] = ()
    """Watts by rack, UltraServer, job, reservation or `fleet`; a later one counts first."""


DEFAULT_SITE = Site()
