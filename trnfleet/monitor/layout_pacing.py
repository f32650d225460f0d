"""The pace of layouts: when descriptors that have come are shown, so that rebuilding takes a small share of time.

A rebuild for many changes goes through the whole fleet, in slices between which nothing is applied: 0.25 s for 1,000,000 chips in blocks, 0.6 s for as many in
62,500 hosts. One for a few changes takes 4 ms with 8,000 hosts. It waits until descriptors have
settled, then for its share of time, and a publisher that changes what it has described over and over waits for itself
alone: what others describe, and what is new, is shown without it being asked for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.monitor.copies import copied

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.slices import Slices

log = logs.get_logger(__name__)

REBUILD_EVERY_S = 2.0
"""Least seconds between two rebuilds of the layout while descriptors keep coming."""
DESCRIPTORS_SETTLE_S = 0.15
"""Seconds without a new descriptor after which the layout is rebuilt."""
LAYOUT_SHARE = 0.2
"""Share of time that rebuilds may take; the next one waits accordingly."""
JOINING_FROM_PER_S = 200
"""Descriptors a second that are many: of 62,500 hosts 2,000 to 5,000 come while they join (measured)."""
JOINING_WITHIN_S = 3.0
"""Time after such a second for which the fleet counts as joining on."""
JOINING_SHARE = 0.05
"""The same while a fleet joins: the layouts in between take what the next descriptors need, and the last one does not wait."""
BURST = 4
"""Rebuilds that one publisher may cause in a row by changing or withdrawing what it has described: a restart is two."""
REFILL_S = 20.0
"""Seconds after which it may cause another one."""
MOST_BUDGETS = 1_000
"""Publishers whose rebuilds are counted."""


class LayoutPacing:
    """Says when a layout that is due is rebuilt, and whether a fleet is joining."""

    def __init__(self) -> None:
        self._described = 0
        self._settling_since_s = 0.0
        self._due_since_s: float | None = None
        self._free_s = -math.inf
        """Monotonic seconds from which the next rebuild may begin."""
        self._budgets: dict[str, tuple[float, float]] = {}
        """By publisher: rebuilds that it may still cause, and when that was so."""
        self._held: set[str] = set()
        self._counted, self._counted_s = 0, -math.inf
        """Descriptors that had come or gone when they were counted last."""
        self._joined_s = -math.inf
        """End of the last second in which many came."""
        self._completed_s = -math.inf
        """When a fleet had joined and was shown at once, last."""

    def copy(self) -> LayoutPacing:
        """Return a copy."""
        return copied(self, _budgets=self._budgets.copy(), _held=self._held.copy())

    def laying_out(self, ingest: Ingest, clock: Clock, *, at_once: bool = False) -> Slices[None]:
        """Bring layout and job placement of an ingest up to date, in slices, if it is time for it; where that goes on already, wait for its end.

        Args:
            ingest: The ingest.
            clock: Measures what the slices take.
            at_once: Whether it is time in any case.
        """
        while ingest.layout_work.is_going_on and not at_once:
            yield
        begun_s, own_s = clock.monotonic_s(), 0.0
        changes, changers = ingest.descriptors.changes, ingest.layout_changers
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
            self._counted, self._counted_s = changes, now_s

    def is_time(
        self,
        changes: int,
        publishers: set[str],
        now_s: float,
        counts: PipelineCounts,
        *,
        all_described: bool = False,
    ) -> bool:
        """Return whether a layout that is due is to be rebuilt now.

        Args:
            changes: Descriptors that have come or gone since the start.
            publishers: The publishers of all that is due.
            now_s: Monotonic seconds.
            counts: Counters, in which a publisher that has to wait is counted.
            all_described: Whether a descriptor has come of all that is heard. A fleet that has joined is shown then, whatever the former
                rebuilds took: the next one is its last.
        """
        if self._due_since_s is None:
            self._due_since_s = now_s
        if changes != self._described:
            self._described, self._settling_since_s = changes, now_s
        is_settling = now_s - self._settling_since_s < DESCRIPTORS_SETTLE_S
        has_joined = (
            all_described and self.is_joining(now_s) and now_s - self._completed_s >= REFILL_S
        )
        is_free = now_s >= self._free_s or (has_joined and not is_settling)
        if (is_settling and now_s - self._due_since_s < REBUILD_EVERY_S) or not is_free:
            return False
        if any(self._tokens(each, now_s) >= 1 for each in publishers):
            if now_s < self._free_s:
                self._completed_s = now_s
            return True
        for each in publishers - self._held:
            counts.layouts_held += 1
            counts.last_problem = (
                f"publisher {each} changes its instances too often: they wait for {REFILL_S:g} s"
            )
            log.warning("layout_held", publisher=each, wait_s=REFILL_S)
        self._held |= publishers
        return False

    def done(self, changers: set[str], begun_s: float, now_s: float) -> None:
        """Charge a rebuild to those who caused it, and to the share of time.

        Args:
            changers: Publishers that changed or withdrew what they had described; who only describes more is not charged.
            begun_s: Monotonic seconds at its begin.
            now_s: Monotonic seconds at its end.
        """
        self._due_since_s = None
        share = JOINING_SHARE if self.is_joining(now_s) else LAYOUT_SHARE
        self._free_s = now_s + (now_s - begun_s) * (1 / share - 1)
        for each in changers:
            self._budgets[each] = max(0.0, self._tokens(each, now_s) - 1), now_s
        self._held.clear()
        if len(self._budgets) > MOST_BUDGETS:
            self._budgets = {
                each: kept
                for each, kept in self._budgets.items()
                if self._tokens(each, now_s) < BURST
            }

    def _tokens(self, publisher: str, now_s: float) -> float:
        tokens, at_s = self._budgets.get(publisher, (float(BURST), now_s))
        return min(float(BURST), tokens + (now_s - at_s) / REFILL_S)
