"""How fresh a node's values are, in words: never drawn as live when they are not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui import theme

if TYPE_CHECKING:
    from rich.style import Style


class State(NamedTuple):
    """The state of a node."""

    freshness: Freshness
    """Live where anything below it is."""
    text: str
    """At most 16 cells, glyph first."""
    style: Style


def short_age(seconds: float) -> str:
    """Return an age in its largest unit, such as `12 s`, `3 min`, `2 h`, `14 d`; empty where it is not known."""
    if not math.isfinite(seconds):
        return ""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{min(999, whole // size)} {unit}"
    return f"{whole} s"


def overall(counts: tuple[int, ...]) -> Freshness:
    """Return the freshness of a node from how many chips below it are in each state: the best of them but unknown."""
    for state in (Freshness.LIVE, Freshness.STALE, Freshness.OFFLINE):
        if counts[state]:
            return state
    return Freshness.UNKNOWN


def describe(counts: tuple[int, ...], age_s: float) -> State:
    """Return a node's state.

    Args:
        counts: How many chips below it (or 1 for itself) are in each `Freshness`.
        age_s: Seconds since the newest of its values came; only told where none is live.
    """
    freshness, total = overall(counts), sum(counts)
    glyph = theme.STATE_GLYPH[freshness]
    if freshness is Freshness.LIVE:
        live = counts[Freshness.LIVE]
        if live == total:
            return State(freshness, f"{glyph} live", theme.STATE_STYLE[freshness])
        # Never rounded up to a hundred.
        share = f"{live}/{total}" if total < 10_000 else f"{math.floor(1000 * live / total) / 10:.1f} %"
        return State(freshness, f"◐ {share} live", theme.SEVERITY_STYLE[Severity.WARNING])
    if freshness is Freshness.UNKNOWN:
        return State(freshness, f"{glyph} no data yet", theme.STATE_STYLE[freshness])
    word = freshness.name.lower()
    return State(freshness, f"{glyph} {word} {short_age(age_s)}".rstrip(), theme.STATE_STYLE[freshness])
