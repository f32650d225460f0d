"""Reachability of the sources: whether a silence is theirs or ours.

Our own causes are lost and doubtful connections, pauses of this process, and backlogs. Breaks of
publishers are neither their hosts' silence nor ours. The module reads no clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.freshness import STALE_AFTER_PERIODS
from trnfleet.monitor.reachability.causes import (
    Behind,
    HalfOpenConnection,
    Joining,
    LostConnections,
    Pause,
    PublisherBreaks,
    Thinned,
    either,
)
from trnfleet.monitor.reachability.times import JUDGED_WITHIN_S, MOST_PERIODS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import LinkStatus


class Explanation(NamedTuple):
    """The instances whose silence has a cause besides themselves, at a moment."""

    is_cut_off: bool
    """Whether nothing can be heard of any."""
    ours: NDArray[np.bool_] | None
    """Instances that we cannot hear, or not for long enough; None for none."""
    publishers: NDArray[np.bool_] | None
    """Instances whose publisher has a break; None for none."""

    @property
    def explained(self) -> NDArray[np.bool_] | None:
        """Instances whose silence means nothing yet; None for none."""
        return either(self.ours, self.publishers)


class Reachability:
    """Reachability of one monitor's sources."""

    def __init__(self, proof_s: float = 0.0) -> None:
        """Start without any message heard.

        Args:
            proof_s: Seconds without any message of the fleet before a working connection is proven
                whole; 0 if a connection cannot fail unnoticed.
        """
        self.connections = LostConnections()
        self.half_open = HalfOpenConnection(proof_s)
        self.pause = Pause()
        self.behind = Behind()
        self.joining = Joining()
        self.thinned = Thinned()
        self.publisher_breaks = PublisherBreaks(proof_s)
        self.heard_s = -math.inf
        """Monotonic seconds of the last message of a source. A watch's messages, such as the alert
        about this very outage, do not count."""
        self._lost = 0
        self._lost_before_overload = 0
        """Lost ticks that are not ours: now, and before the overload."""

    # What happens

    def update(self, now_s: float, link: LinkStatus, store: Store, counts: PipelineCounts) -> None:
        """Look for beginnings and ends, before freshness is judged.

        Args:
            now_s: Monotonic seconds.
            link: The connection.
            store: For the periods of live rows.
            counts: For the share of lost messages.
        """
        self.attribute_losses(now_s, link, store, counts)
        self.connections.update(now_s, link)
        if not self.connections.is_lost:
            self.half_open.update(now_s, self.heard_s, self.listening_s, link, store)

    def attribute_losses(
        self, now_s: float, link: LinkStatus, store: Store, counts: PipelineCounts
    ) -> None:
        """Count losses as ours while the monitor joins a large fleet or is behind.

        Call this before each reading of the counts: otherwise they briefly show as the fleet's.
        """
        self.behind.update(now_s, counts)
        is_joining = self.joining.explains_losses(now_s, link, store)
        if self.behind.explains_losses(now_s):
            counts.unheard = max(0, counts.lost - self._lost_before_overload)
        elif is_joining:
            counts.unheard = max(0, counts.lost - self._lost)
        self._lost = counts.lost - counts.unheard
        if not self.behind.is_overloaded(now_s):
            self._lost_before_overload = self._lost

    def follow_publishers(self, now_s: float, store: Store) -> None:
        """Follow breaks of publishers, once freshness has been judged."""
        self.publisher_breaks.update(now_s, self.listening_s, store)

    def wake(self, now_s: float, slept_s: float = 0.0) -> None:
        """Record a turn of the loop, after an intended sleep."""
        self.pause.wake(now_s, slept_s, is_cut_off=self.is_cut_off)

    # The question

    def explain(self, now_s: float, store: Store) -> Explanation:
        """Return whose silence is not its own, and why."""
        if self.is_cut_off:
            return Explanation(True, np.ones(len(store.period_s), np.bool_), None)
        ours = None
        for cause in (self.connections, self.half_open, self.pause, self.behind):
            ours = either(ours, cause.explains(now_s, store))
        return Explanation(False, ours, self.publisher_breaks.explains(now_s, store))

    def doubted_wills(
        self, now_s: float, store: Store, publishers: Publishers
    ) -> NDArray[np.bool_]:
        """Return a flag per row of publishers' traffic: its last will does not count yet.

        It came with an outage of ours that was long enough to cost it its connection, too.
        """
        announced_s = publishers.traffic.column("changed_s")
        doubted = np.zeros(len(announced_s), np.bool_)
        for cause in (self.connections, self.half_open):
            since_s = cause.wills_since_s(now_s)
            if math.isfinite(since_s):
                mask = cause.explains(now_s, store)
                is_with_it = announced_s >= since_s
                doubted |= is_with_it & whole_publishers(mask, store, publishers)
        return doubted

    def online(self, now_s: float, store: Store, publishers: Publishers) -> NDArray[np.bool_]:
        """Return a mask of online boots by number, as `Publishers.online`, without such wills."""
        online = publishers.online()
        if online.all():
            return online
        return online | self.doubted_wills(now_s, store, publishers)[publishers.rows()]

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing can be heard: not connected, or the connection is in doubt."""
        return self.connections.is_lost or self.half_open.since_s is not None

    @property
    def listening_s(self) -> float:
        """Monotonic seconds since which sources could be heard, over all connections."""
        causes = (self.connections, self.half_open, self.pause, self.behind)
        return max(cause.ended_s for cause in causes)

    def unheard_s(self, now_s: float) -> float:
        """Return for how long nothing can be heard; 0 while something can."""
        return max(self.connections.lasts_s(now_s), self.half_open.lasts_s(now_s))

    def longest_outage_s(self, now_s: float, store: Store) -> float:
        """Return the seconds of the present outage, in all or of one connection."""
        return max(self.unheard_s(now_s), self.connections.longest_s(now_s, store))

    def stale_periods(self, now_s: float) -> float:
        """Return the periods before values are stale.

        More while most messages are lost, so that the state does not flap.
        """
        periods = STALE_AFTER_PERIODS + self.thinned.left_out
        received = max(1e-3, 1.0 - self.behind.loss(now_s))
        return max(periods, min(MOST_PERIODS, STALE_AFTER_PERIODS / received))


def whole_publishers(
    mask: NDArray[np.bool_] | None, store: Store, publishers: Publishers
) -> NDArray[np.bool_]:
    """Return a flag per row of publishers' traffic: all its instances are in a mask."""
    count = len(publishers.traffic)
    if mask is None:
        return np.zeros(count, np.bool_)
    rows = publishers.rows()[store.publisher_of]
    instances = np.bincount(rows, minlength=count)
    whole: NDArray[np.bool_] = np.bincount(rows[mask], minlength=count) == instances
    return whole & (instances > 0)


class FreshnessChecks:
    """Decides when freshness is judged again."""

    def __init__(self) -> None:
        self._revision = -1
        self._link_changes: tuple[bool, int] | None = None
        self._at_s = -math.inf

    def is_due(self, now_s: float, revision: int, link: LinkStatus, period_s: float) -> bool:
        """Return whether freshness is to be judged now, and note it.

        Args:
            now_s: Monotonic seconds.
            revision: Of the store.
            link: The connection.
            period_s: Publishing period of the usual source.
        """
        is_same = revision == self._revision and link.changes == self._link_changes
        if is_same and now_s - self._at_s < min(JUDGED_WITHIN_S, period_s / 2):
            return False
        self._revision = revision
        self._link_changes = link.changes
        self._at_s = now_s
        return True
