"""The watches of a fleet as heard by others: whom to believe about alerts.

The heartbeat of every `watch` says whether it leads, and how many alerts fire by its own
evaluation. A message only retained by the broker is not a heartbeat: a watch existed once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

HEARTBEAT_S = 10.0
"""Time between two heartbeats of a watch."""
GONE_S = 35.0
"""Seconds without a heartbeat before a watch is gone: three heartbeats and a little."""
DOUBT_S = 12.0
"""Seconds for which a retained message alone marks a watch as present. One heartbeat and a little.
"""
MUTED_S = 30.0
"""Seconds after which a firing, unpublished alert speaks against the leader. Far above the
difference between two watches, and above the queueing delay of messages in a large fleet."""


MOST_ERRORS = 4
"""Most receiver errors described by a watch; further ones are only counted."""


class ReceiverError(NamedTuple):
    """Something refused by a receiver, such as a silence by Alertmanager."""

    receiver: str
    """Its name, such as `alertmanager`."""
    kind: str
    """`silence`, `acknowledgement` or `alert`; `silences` or `alerts` where it takes none at all.
    """
    id: str
    """Id of the silence, or fingerprint of the alert; empty if about all of them."""
    reason: str


class ReceiverErrors(NamedTuple):
    """Current errors of a watch's receivers."""

    total: int = 0
    first: tuple[ReceiverError, ...] = ()
    """At most `MOST_ERRORS` of them."""

    @staticmethod
    def of(total: int, errors: Iterable[ReceiverError]) -> ReceiverErrors:
        """Return the first errors, with their total."""
        return ReceiverErrors(total, tuple(itertools.islice(errors, MOST_ERRORS)))

    @staticmethod
    def sum(parts: Iterable[ReceiverErrors]) -> ReceiverErrors:
        """Return the errors of several receivers together."""
        known = [part for part in parts if part.total]
        return ReceiverErrors.of(
            sum(part.total for part in known), (error for part in known for error in part.first)
        )


NO_ERRORS = ReceiverErrors()


class WatchPresence(NamedTuple):
    """A present watch, or a present relay of a cell."""

    client: str
    since_ns: int | None
    """Wall clock of its beginning, by its own word."""
    heard_s: float | None
    """Seconds since its last heartbeat or alert; None if only a retained message arrived."""
    leads: bool | None
    """Whether it claims to lead; None if not stated."""
    firing: int | None
    """Firing alerts by its own evaluation, neither silenced nor inhibited; None if not stated."""
    errors: ReceiverErrors = NO_ERRORS
    """Errors of its receivers."""
    hears: bool | None = None
    """Of a relay: whether it hears its cell; None while it listens for others."""


class Word(NamedTuple):
    """Whose word the published alerts are."""

    leader: WatchPresence | None
    """None where no watch leads."""
    doubts: tuple[str, ...] = ()
    """Doubts about it, a line each."""


def word_of(
    present: Iterable[WatchPresence], published: int, *, missing: int = 0, missing_s: float = 0.0
) -> Word:
    """Return which watch the published alerts come from, and the doubts about it.

    Args:
        present: The present watches.
        published: Number of alerts published as firing.
        missing: Number of alerts firing by the reader's own evaluation but not published.
        missing_s: How long the oldest of these has been missing.
    """
    known = sorted(present, key=_seniority)
    if not known:
        return Word(None)
    leaders = _leaders(known)
    doubts = []
    if not leaders:
        doubts.append(
            f"no watch leads: {_names(known)} {'is' if len(known) == 1 else 'are'} on standby"
        )
        return Word(None, tuple(doubts))
    leader = leaders[0]
    if len(leaders) > 1:
        doubts.append(
            f"{len(leaders)} watches lead, and their alerts may contradict: {_names(leaders)}"
        )
    if not published:
        for watch in known:
            if watch.firing:
                whose = "it sees" if watch is leader else f"{watch.client} sees"
                doubts.append(
                    f"{leader.client} leads and publishes no alert, while {whose} {watch.firing:,}"
                    " fire"
                )
                break
    if missing and missing_s >= MUTED_S:
        doubts.append(
            f"{leader.client} leads and does not publish {missing:,} that fire here, for"
            f" {missing_s:.0f} s"
        )
    return Word(leader, tuple(doubts))


def receiver_errors(present: Iterable[WatchPresence]) -> ReceiverErrors:
    """Return the receiver errors of the leading watch; the others notify nobody."""
    leaders = _leaders(sorted(present, key=_seniority))
    return leaders[0].errors if leaders else NO_ERRORS


def receiver_error_text(error: ReceiverError, alert: str = "") -> str:
    """Return an error in a line.

    Args:
        error: The error.
        alert: Rule and target of the alert that it is about, where they are known.
    """
    what = f"{error.kind} {alert or error.id}".rstrip()
    return f"{error.receiver}: {what}: {error.reason}"


def word_text(word: Word, since: str) -> str:
    """Return the source of the alerts in a few words; empty if no watch leads.

    Args:
        word: The source.
        since: When its watch began, as shown; empty if unknown.
    """
    leader = word.leader
    if leader is None:
        return ""
    begun = f", which began {since}" if since else ""
    heard = (
        "not heard yet"
        if leader.heard_s is None
        else f"heard {duration(max(0.0, leader.heard_s))} ago"
    )
    return f"{leader.client} leads{begun}; {heard}"


def _leaders(known: list[WatchPresence]) -> list[WatchPresence]:
    """Return the watches that claim to lead.

    Without that field (older versions) none did; of several, the one that began first led.
    """
    return [watch for watch in known if watch.leads] or [
        watch for watch in known if watch.leads is None
    ][:1]


def _seniority(watch: WatchPresence) -> tuple[bool, int, str]:
    return watch.since_ns is None, watch.since_ns or 0, watch.client


def _names(watches: list[WatchPresence]) -> str:
    more = f" and {len(watches) - 3} more" if len(watches) > 3 else ""
    return ", ".join(watch.client for watch in watches[:3]) + more
