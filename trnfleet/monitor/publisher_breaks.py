"""Breaks of publishers: the times in which nothing comes of any of a publisher's instances.

A publisher that speaks for several instances and falls silent says nothing of them: its own network, host or process is at fault,
and its last will, which a broker sends after one and a half keepalives, says so. Until then its instances are in doubt, and not
silent. When it speaks again, its instances do so one after the other: each has three periods for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.copies import copied
from trnfleet.monitor.store.store import STALE_AFTER_PERIODS, Freshness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.store.store import Store

QUIET_FROM_S = 0.5
QUIET_FROM_PERIODS = 2.0
"""Periods, and at least `QUIET_FROM_S`, without any message after which a publisher, or a connection, is in doubt: less than the
three after which a source is stale, so that none is called silent before."""


class PublisherBreaks:
    """The breaks of all publishers of one monitor, by the instances that they publish."""

    def __init__(self, doubt_s: float) -> None:
        """Start without a publisher.

        Args:
            doubt_s: Time without any message of a publisher within which its last will comes; 0 to follow none.
        """
        self._doubt_s = doubt_s
        self._generation = -1
        self._was_quiet = self._was_offline = np.zeros(0, np.bool_)
        """Instances whose publisher was quiet, or offline, at the last look."""
        self._back_s = np.zeros(0)
        """Monotonic seconds at which each instance's publisher was heard again, or online again."""
        self._in_doubt = np.zeros(0, np.bool_)

    def copy(self) -> PublisherBreaks:
        """Return a copy."""
        # The other arrays are replaced and never changed.
        return copied(self, _back_s=self._back_s.copy())

    def update(self, now_s: float, since_s: float, store: Store) -> None:
        """Look at all publishers, once freshness has been judged.

        Args:
            now_s: Monotonic seconds.
            since_s: Monotonic seconds since which publishers could be heard without a break of ours.
            store: What was heard of them.
        """
        instances = len(store.layout.instances)
        if not self._doubt_s or not instances:
            return
        if self._generation != store.generation:
            self._generation = store.generation
            self._was_quiet = self._was_offline = self._in_doubt = np.zeros(instances, np.bool_)
            self._back_s = np.full(instances, -np.inf)
        quiet_from_s = now_s - np.maximum(QUIET_FROM_S, QUIET_FROM_PERIODS * store.period_s)
        was_off = self._was_quiet.any() or self._was_offline.any()
        if not was_off and (store.instance_seen_s >= quiet_from_s).all():
            return
        first_chips = store.layout.chip_start[:-1]
        heard_s = np.maximum(store.instance_seen_s, store.chip_seen_s[first_chips])
        is_offline = store.chip_state[first_chips] == Freshness.OFFLINE
        # The last place is for instances whose publisher is not known, -1.
        owner = store.publisher_of
        publishers = int(owner.max()) + 2
        newest_s = np.full(publishers, -np.inf)
        np.maximum.at(newest_s, owner, np.maximum(heard_s, store.described_s))
        is_of_several = np.bincount(owner % publishers, minlength=publishers) > 1
        is_of_several[-1] = False
        is_quiet = newest_s[owner] < quiet_from_s
        is_back = (self._was_quiet & ~is_quiet) | (self._was_offline & ~is_offline)
        self._back_s[is_back] = now_s
        self._was_quiet, self._was_offline = is_quiet, is_offline
        doubted_s = now_s - np.maximum(newest_s, since_s)
        self._in_doubt = is_quiet & (is_of_several & (doubted_s < self._doubt_s))[owner]

    def unsettled(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return the instances whose silence says nothing yet; None for none."""
        if self._generation != store.generation:
            return None
        found: NDArray[np.bool_] = self._in_doubt | (
            now_s < self._back_s + STALE_AFTER_PERIODS * store.period_s
        )
        return found if found.any() else None
