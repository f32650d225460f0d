"""Breaks of publishers: times without messages from any of a publisher's instances.

Silence of a publisher with several instances does not mean that its instances are silent: its own
network, host or process is at fault. Its last will, sent by a broker after one and a half
keepalives, confirms it. Until then its instances are in doubt, and not silent. After the break its
instances return one after the other: each has three periods for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.store.store import STALE_AFTER_PERIODS, Freshness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.store.store import Store

QUIET_FROM_S = 0.5
QUIET_FROM_PERIODS = 2.0
"""Periods without a message before a publisher or connection is in doubt, at least `QUIET_FROM_S`.
Less than the three periods before a source is stale, so that none is called silent before."""


class PublisherBreaks:
    """Breaks of all publishers of one monitor, by published instance."""

    def __init__(self, doubt_s: float) -> None:
        """Start without a publisher.

        Args:
            doubt_s: Seconds without any message of a publisher within which its last will arrives;
                0 to follow none.
        """
        self._doubt_s = doubt_s
        self._generation = -1
        self._was_quiet = self._was_offline = np.zeros(0, np.bool_)
        """Instances with a quiet, or offline, publisher at the last check."""
        self._back_s = np.zeros(0)
        """Monotonic seconds when each instance's publisher was last heard or online again."""
        self._in_doubt = np.zeros(0, np.bool_)

    def update(self, now_s: float, since_s: float, store: Store) -> None:
        """Check all publishers, once freshness has been judged.

        Args:
            now_s: Monotonic seconds.
            since_s: Monotonic seconds of our last break.
            store: The publishers' instances.
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
        self._was_quiet = is_quiet
        self._was_offline = is_offline
        doubted_s = now_s - np.maximum(newest_s, since_s)
        self._in_doubt = is_quiet & (is_of_several & (doubted_s < self._doubt_s))[owner]

    def unsettled(self, now_s: float, store: Store) -> NDArray[np.bool_] | None:
        """Return a mask of instances whose silence is still meaningless.

        None if there are none.
        """
        if self._generation != store.generation:
            return None
        mask: NDArray[np.bool_] = self._in_doubt | (
            now_s < self._back_s + STALE_AFTER_PERIODS * store.period_s
        )
        return mask if mask.any() else None
