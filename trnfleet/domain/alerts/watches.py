"""The watches of a fleet as others hear them: whose word about alerts is to be believed, and what speaks against it.

Every `watch` says by its heartbeat whether it leads, and how many alerts fire by its own evaluation. What only the broker still
retains is no heartbeat: it says that a watch was there once.
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
"""Time without a heartbeat after which a watch counts as gone: three heartbeats and a little."""
DOUBT_S = 12.0
"""Time for which a watch counts as present without any heartbeat, by a retained message alone: one heartbeat and a little."""
MUTED_S = 30.0
"""Time after which an alert that fires and is not published speaks against the leader: far more than two watches that evaluate
the same differ by, and than the messages of a large fleet wait."""


MOST_ERRORS = 4
"""Errors of receivers that a watch describes; of the others it says how many there are."""


class ReceiverError(NamedTuple):
    """Something that a receiver of notifications does not take, such as a silence that Alertmanager refuses."""

    receiver: str
    """Its name, such as `alertmanager`."""
    kind: str
    """`silence`, `acknowledgement` or `alert`; `silences` or `alerts` where it takes none at all."""
    id: str
    """Id of the silence, or fingerprint of the alert; empty where it is about all of them."""
    reason: str


class ReceiverErrors(NamedTuple):
    """What the receivers of a watch do not take at present."""

    total: int = 0
    first: tuple[ReceiverError, ...] = ()
    """At most `MOST_ERRORS` of them."""

    @staticmethod
    def of(total: int, errors: Iterable[ReceiverError]) -> ReceiverErrors:
        """Return errors of which `total` are there, with the first of them."""
        return ReceiverErrors(total, tuple(itertools.islice(errors, MOST_ERRORS)))

    @staticmethod
    def sum(parts: Iterable[ReceiverErrors]) -> ReceiverErrors:
        """Return those of several receivers together."""
        known = [each for each in parts if each.total]
        return ReceiverErrors.of(
            sum(each.total for each in known), (error for each in known for error in each.first)
        )


NO_ERRORS = ReceiverErrors()


class WatchPresence(NamedTuple):
    """One watch that is present, or one relay of a cell."""

    client: str
    since_ns: int | None
    """Wall clock of its beginning, by its own word."""
    heard_s: float | None
    """Seconds since its last heartbeat or alert came in; None where nothing has but a retained message."""
    leads: bool | None
    """Whether it leads, by its own word; None where it does not say."""
    firing: int | None
    """Number of alerts that fire by its own evaluation and are neither silenced nor inhibited; None where it does not say."""
    errors: ReceiverErrors = NO_ERRORS
    """What its receivers do not take."""
    hears: bool | None = None
    """Of a relay: whether it hears its cell; None while it listens for others."""


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


def receiver_errors(present: Iterable[WatchPresence]) -> ReceiverErrors:
    """Return what receivers of the watch that leads do not take; the others notify nobody."""
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
    """Return in a few words whose word it is; empty where no watch leads.

    Args:
        word: Whose word.
        since: When its watch began, as it is to be shown; empty for unknown.
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
    """Return the watches that say that they lead; before that field none did, and of several the one that began first led."""
    return [each for each in known if each.leads] or [each for each in known if each.leads is None][
        :1
    ]


def _seniority(watch: WatchPresence) -> tuple[bool, int, str]:
    return watch.since_ns is None, watch.since_ns or 0, watch.client


def _names(watches: list[WatchPresence]) -> str:
    more = f" and {len(watches) - 3} more" if len(watches) > 3 else ""
    return ", ".join(each.client for each in watches[:3]) + more
