"""Pace of layouts: when to show new descriptors, so that rebuilds use little time.

A rebuild for many changes covers the whole fleet, in slices without applying messages in between:
0.25 s for 1,000,000 chips in blocks, 0.6 s for as many in 62,500 hosts. One for a few changes takes
4 ms with 8,000 hosts. A rebuild waits until descriptors have settled, then for its share of time. A
publisher with repeated changes delays only itself: other publishers' descriptors and new ones are
shown without waiting for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet import logs

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.slices import Slices

log = logs.get_logger(__name__)

REBUILD_EVERY_S = 2.0
"""Least seconds between two rebuilds of the layout while descriptors keep coming."""
DESCRIPTORS_SETTLE_S = 0.15
"""Seconds without a new descriptor before a rebuild."""
LAYOUT_SHARE = 0.2
"""Largest share of time for rebuilds. The next one waits accordingly."""
JOINING_FROM_PER_S = 200
"""Descriptors per second of a joining fleet. With 62,500 hosts, 2,000 to 5,000 arrive (measured).
"""
JOINING_WITHIN_S = 3.0
"""Seconds the fleet still counts as joining after such a second."""
JOINING_SHARE = 0.05
"""`LAYOUT_SHARE` while a fleet joins. Layouts in between slow the next descriptors down, and the
last one does not wait."""
BURST = 4
"""Most rebuilds in a row for changes or withdrawals by one publisher. A restart is two."""
REFILL_S = 20.0
"""Seconds after which it may cause another one."""


class LayoutPacing:
    """Decides when to rebuild a due layout, and whether a fleet is joining."""

    def __init__(self) -> None:
        self._described = 0
        self._settling_since_s = 0.0
        self._due_since_s: float | None = None
        self._free_s = -math.inf
        """Earliest monotonic second of the next rebuild."""
        self._budgets: dict[str, tuple[float, float]] = {}
        """Remaining rebuilds per publisher, and the time of the count."""
        self._held: set[str] = set()
        self._counted, self._counted_s = 0, -math.inf
        """Descriptors added or removed by the last count, and its time."""
        self._joined_s = -math.inf
        """End of the last second with many descriptors."""
        self._completed_s = -math.inf
        """When a fleet had joined and was shown at once, last."""

    def laying_out(self, ingest: Ingest, clock: Clock, *, at_once: bool = False) -> Slices[None]:
        """Update layout and job placement of an ingest in slices, if it is time.

        If an update is already running, wait for its end.

        Args:
            ingest: The ingest.
            clock: Measures the time of the slices.
            at_once: Whether to update in any case.
        """
        while ingest.layout_work.is_going_on and not at_once:
            yield
        begun_s = clock.monotonic_s()
        own_s = 0.0
        changes = ingest.descriptors.changes
        changers = ingest.layout_changers
        self.note_changes(changes, begun_s)
        is_due = ingest.layout_due and (
            at_once
            or self.is_time(
                changes,
                ingest.layout_publishers,
                begun_s,
                ingest.counts,
                all_described=not ingest.missing.descriptors,
            )
        )
        for _ in ingest.rebuilding(begun_s, clock.wall_ns(), layout=is_due, at_once=at_once):
            own_s += clock.monotonic_s() - begun_s
            yield
            begun_s = clock.monotonic_s()
        if is_due:
            self.done(changers, begun_s - own_s, clock.monotonic_s())

    def is_joining(self, now_s: float) -> bool:
        """Return whether many descriptors have come or gone just now."""
        return now_s - self._joined_s < JOINING_WITHIN_S

    def note_changes(self, changes: int, now_s: float) -> None:
        """Note how many descriptors have come or gone since the start."""
        if now_s - self._counted_s >= 1.0:
            many = JOINING_FROM_PER_S * min(now_s - self._counted_s, JOINING_WITHIN_S)
            if changes - self._counted >= many:
                self._joined_s = now_s
            self._counted = changes
            self._counted_s = now_s

    def is_time(
        self,
        changes: int,
        publishers: set[str],
        now_s: float,
        counts: PipelineCounts,
        *,
        all_described: bool = False,
    ) -> bool:
        """Return whether to rebuild a due layout now.

        Args:
            changes: Descriptors added or removed since the start.
            publishers: The publishers of all due changes.
            now_s: Monotonic seconds.
            counts: Counters, including one of delayed publishers.
            all_described: Whether everything heard has a descriptor. A joined fleet is shown then,
                whatever the former rebuilds cost: the next one is its last.
        """
        if self._due_since_s is None:
            self._due_since_s = now_s
        if changes != self._described:
            self._described = changes
            self._settling_since_s = now_s
        is_settling = now_s - self._settling_since_s < DESCRIPTORS_SETTLE_S
        has_joined = (
            all_described and self.is_joining(now_s) and now_s - self._completed_s >= REFILL_S
        )
        is_free = now_s >= self._free_s or (has_joined and not is_settling)
        if (is_settling and now_s - self._due_since_s < REBUILD_EVERY_S) or not is_free:
            return False
        if any(self._tokens(publisher, now_s) >= 1 for publisher in publishers):
            if now_s < self._free_s:
                self._completed_s = now_s
            return True
        for publisher in publishers - self._held:
            counts.layouts_held += 1
            counts.last_problem = f"publisher {publisher} changes its instances too often: they wait for {REFILL_S:g} s"  # noqa: E501
            log.warning("layout_held", publisher=publisher, wait_s=REFILL_S)
        self._held |= publishers
        return False

    def done(self, changers: set[str], begun_s: float, now_s: float) -> None:
        """Charge a rebuild to its causes and to the share of time.

        Args:
            changers: Publishers with changed or withdrawn descriptors. New descriptors are not
                charged.
            begun_s: Monotonic seconds at its beginning.
            now_s: Monotonic seconds at its end.
        """
        self._due_since_s = None
        share = JOINING_SHARE if self.is_joining(now_s) else LAYOUT_SHARE
        self._free_s = now_s + (now_s - begun_s) * (1 / share - 1)
        for publisher in changers:
            self._budgets[publisher] = max(0.0, self._tokens(publisher, now_s) - 1), now_s
        self._held.clear()
        self._budgets = {
            publisher: budget
            for publisher, budget in self._budgets.items()
            if self._tokens(publisher, now_s) < BURST
        }

    def _tokens(self, publisher: str, now_s: float) -> float:
        tokens, at_s = self._budgets.get(publisher, (float(BURST), now_s))
        return min(float(BURST), tokens + (now_s - at_s) / REFILL_S)
