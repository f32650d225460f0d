"""Text and style of a node's freshness: values that are not live never look live."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import DurationStyle, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.tui import theme

if TYPE_CHECKING:
    from rich.style import Style


class FreshnessText(NamedTuple):
    """Freshness of a node as the screen shows it."""

    freshness: Freshness
    """Live if any chip below is."""
    text: str
    """At most 16 cells, glyph first."""
    style: Style


def overall(counts: tuple[int, ...]) -> Freshness:
    """Return the freshness of a node: the best state of its chips except unknown.

    `counts` is the number of chips per state.
    """
    for state in (Freshness.LIVE, Freshness.STALE, Freshness.OFFLINE, Freshness.UNOBSERVED):
        if counts[state]:
            return state
    return Freshness.UNKNOWN


def describe(counts: tuple[int, ...], age_s: float) -> FreshnessText:
    """Return a node's state.

    Args:
        counts: How many chips below it (or 1 for itself) are in each `Freshness`.
        age_s: Seconds since its newest value; shown where none is live.
    """
    freshness = overall(counts)
    total = sum(counts)
    glyph = theme.STATE_GLYPH[freshness]
    if freshness is Freshness.LIVE:
        live = counts[Freshness.LIVE]
        if live == total:
            return FreshnessText(freshness, f"{glyph} live", theme.STATE_STYLE[freshness])
        # Never rounded up to a hundred.
        share = (
            f"{live}/{total}" if total < 10_000 else f"{math.floor(1000 * live / total) / 10:.1f} %"
        )
        return FreshnessText(freshness, f"◐ {share} live", theme.SEVERITY_STYLE[Severity.WARNING])
    if freshness is Freshness.UNKNOWN:
        return FreshnessText(freshness, f"{glyph} no data yet", theme.STATE_STYLE[freshness])
    text = f"{glyph} {'unseen' if freshness is Freshness.UNOBSERVED else freshness.name.lower()}"
    if math.isfinite(age_s):
        text += f" {duration(age_s, DurationStyle.COARSE)}"
    return FreshnessText(freshness, text, theme.STATE_STYLE[freshness])
