"""The watches of a fleet as others hear them: whose word about alerts is to be believed, and what speaks against it.

Every `watch` says by its heartbeat whether it leads, and how many alerts fire by its own evaluation. What only the broker still
retains is no heartbeat: it says that a watch was there once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

HEARTBEAT_S = 10.0
"""Time between two heartbeats of a watch."""
GONE_S = 35.0
"""Time without a heartbeat after which a watch counts as gone: three heartbeats and a little."""
DOUBT_S = 12.0
"""Time for which a watch counts as present without any heartbeat, by a retained message alone: one heartbeat and a little."""
MUTED_S = 30.0
"""Time after which an alert that fires and is not published speaks against the leader: far more than two watches that evaluate
the same differ by, and than the messages of a large fleet wait."""


class WatchPresence(NamedTuple):
    """One watch that is present."""

    client: str
    since_ns: int | None
    """Wall clock of its beginning, by its own word."""
    heard_s: float | None
    """Seconds since its last heartbeat or alert came in; None where nothing has but a retained message."""
    leads: bool | None
    """Whether it leads, by its own word; None where it does not say."""
    firing: int | None
    """Number of alerts that fire by its own evaluation and are neither silenced nor inhibited; None where it does not say."""


class Word(NamedTuple):
    """Whose word the published alerts are."""

    leader: WatchPresence | None
    """None where no watch leads."""
    doubts: tuple[str, ...] = ()
    """What speaks against it, a line each."""


def word_of(
    present: Iterable[WatchPresence], published: int, *, missing: int = 0, missing_s: float = 0.0
) -> Word:
    """Return whose word the published alerts are, and what speaks against it.

    Args:
        present: The watches that are present.
        published: Number of alerts that are published as firing.
        missing: Number of alerts that fire by the reader's own evaluation and are not published.
        missing_s: How long the oldest of these has been missing.
    """
    known = sorted(present, key=_seniority)
    if not known:
        return Word(None)
    leaders = [each for each in known if each.leads]
    if not leaders:
        # A watch before this field does not say; of several the one that began first leads.
        leaders = [each for each in known if each.leads is None][:1]
    doubts = []
    if not leaders:
        doubts.append(f"no watch leads: {_names(known)} {'is' if len(known) == 1 else 'are'} on standby")
        return Word(None, tuple(doubts))
    leader = leaders[0]
    if len(leaders) > 1:
        doubts.append(f"{len(leaders)} watches lead, and their alerts may contradict: {_names(leaders)}")
    if not published:
        for each in known:
            if each.firing:
                whose = "it sees" if each is leader else f"{each.client} sees"
                doubts.append(
                    f"{leader.client} leads and publishes no alert, while {whose} {each.firing:,} fire"
                )
                break
    if missing and missing_s >= MUTED_S:
        doubts.append(
            f"{leader.client} leads and does not publish {missing:,} that fire here, for {missing_s:.0f} s"
        )
    return Word(leader, tuple(doubts))


def word_text(word: Word, since: str) -> str:
    """Return in a few words whose word it is; empty where no watch leads.

    Args:
        word: Whose word.
        since: When its watch began, as it is to be shown; empty for unknown.
    """
    leader = word.leader
    if leader is None:
        return ""
    begun = f", which began {since}" if since else ""
    heard = "not heard yet" if leader.heard_s is None else f"heard {duration(max(0.0, leader.heard_s))} ago"
    return f"{leader.client} leads{begun}; {heard}"


def _seniority(watch: WatchPresence) -> tuple[bool, int, str]:
    return watch.since_ns is None, watch.since_ns or 0, watch.client


def _names(watches: list[WatchPresence]) -> str:
    more = f" and {len(watches) - 3} more" if len(watches) > 3 else ""
    return ", ".join(each.client for each in watches[:3]) + more
