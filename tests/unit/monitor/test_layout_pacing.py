"""Pace of layouts: a share of time, and a budget for publishers with repeated changes."""

from __future__ import annotations

import pytest

from trnfleet.monitor.layout_pacing import (
    BURST,
    DESCRIPTORS_SETTLE_S,
    JOINING_FROM_PER_S,
    JOINING_SHARE,
    JOINING_WITHIN_S,
    LAYOUT_SHARE,
    REBUILD_EVERY_S,
    REFILL_S,
    LayoutPacing,
)
from trnfleet.monitor.pipeline.counts import PipelineCounts

STEP_S = 0.02


class Loop:
    """A monitor's loop in which publishers send descriptors."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.pacing, self.counts = LayoutPacing(), PipelineCounts()
        self.cost_s = cost_s
        self.now_s = 100.0
        self.changes = 0
        self.rebuilt_s: list[float] = []

    def run(self, seconds: float, *changers: str, new: tuple[str, ...] = ()) -> int:
        """Let publishers change or describe more; return the number of layouts."""
        before = len(self.rebuilt_s)
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.changes += 1
            if self.pacing.is_time(self.changes, {*changers, *new}, self.now_s, self.counts):
                self.rebuilt_s.append(self.now_s)
                begun_s = self.now_s
                self.now_s = self.now_s + self.cost_s
                self.pacing.done(set(changers), begun_s, self.now_s)
            self.now_s += STEP_S
        return len(self.rebuilt_s) - before


def test_a_layout_waits_until_descriptors_settle() -> None:
    """One rebuild shows descriptors that arrive together, soon after the last.

    It is not much later if they continue to arrive.
    """
    pacing = LayoutPacing()
    counts = PipelineCounts()
    assert not pacing.is_time(1, {"a"}, 10.0, counts)
    assert not pacing.is_time(2, {"a"}, 10.1, counts)
    assert pacing.is_time(2, {"a"}, 10.1 + DESCRIPTORS_SETTLE_S + 0.01, counts)
    assert Loop().run(10.0, new=("a",)) == pytest.approx(10.0 / REBUILD_EVERY_S, abs=1)


def test_rebuilds_take_a_share_of_time() -> None:
    """The loop has most of its time for keys, whatever the fleet's size and changes."""
    loop = Loop(cost_s=1.0)
    count = loop.run(300.0, new=("a", "b"))
    assert 0.8 * LAYOUT_SHARE <= count * loop.cost_s / 300.0 <= 1.05 * LAYOUT_SHARE


def test_one_that_renames_its_instances_waits_for_itself_alone() -> None:
    """A publisher that renames its instances is counted, named and delayed.

    Other publishers' descriptors are shown at once, and its own with them. Later it may change
    again.
    """
    loop = Loop()
    assert loop.run(20 * REFILL_S, "evil") <= BURST + 21
    assert loop.counts.layouts_held >= 10
    assert "publisher evil changes" in loop.counts.last_problem
    assert loop.run(10.0, "evil", new=("good",)) >= 4
    assert loop.run(10.0, "evil") <= 1
    loop.now_s += BURST * REFILL_S
    assert loop.run(BURST * (REBUILD_EVERY_S + 0.1), "evil") == pytest.approx(BURST, abs=1)


def test_a_new_path_is_no_way_round() -> None:
    """Withdrawing one path and describing another counts as a change of the publisher."""
    loop = Loop()
    assert loop.run(10 * REFILL_S, "evil", new=("evil",)) <= BURST + 11


def joining(per_s: float, seconds: int = 5) -> LayoutPacing:
    """Return one of a fleet whose descriptors come at a pace from 100 s on."""
    pacing = LayoutPacing()
    for second in range(seconds + 1):
        pacing.note_changes(int(second * per_s), 100.0 + second)
    return pacing


def test_a_fleet_joins_while_many_descriptors_come() -> None:
    """A fleet joins only while many descriptors arrive, and for some seconds after."""
    assert not joining(JOINING_FROM_PER_S - 1).is_joining(105.0)
    pacing = joining(JOINING_FROM_PER_S)
    assert pacing.is_joining(105.0)
    pacing.note_changes(5 * JOINING_FROM_PER_S + 1, 106.0)
    assert pacing.is_joining(104.9 + JOINING_WITHIN_S)
    assert not pacing.is_joining(105.0 + JOINING_WITHIN_S)
    pacing.note_changes(7 * JOINING_FROM_PER_S, 400.0)
    assert not pacing.is_joining(400.0), "as many in minutes are few"


def test_a_fleet_that_has_joined_is_shown_at_once() -> None:
    """Layouts in between yield to a joining fleet's descriptors.

    The last one does not wait.

    No publisher can demand that all the time.
    """
    pacing = joining(JOINING_FROM_PER_S)
    counts = PipelineCounts()
    pacing.done(set(), 104.0, 105.0)
    begun_s = 106.0
    assert not pacing.is_time(1, {"a"}, begun_s, counts, all_described=True)
    settled_s = begun_s + DESCRIPTORS_SETTLE_S + 0.01
    assert not pacing.is_time(1, {"a"}, settled_s, counts), "more is to come"
    assert pacing.is_time(1, {"a"}, settled_s, counts, all_described=True)
    pacing.done(set(), settled_s, settled_s + 1.0)
    pacing.note_changes(9 * JOINING_FROM_PER_S, settled_s + 1.0)
    again_s = settled_s + 2.0
    pacing.is_time(2, {"a"}, again_s, counts, all_described=True)
    assert not pacing.is_time(2, {"a"}, again_s + 1.0, counts, all_described=True)
    assert pacing.is_time(2, {"a"}, settled_s + 1.0 / JOINING_SHARE, counts, all_described=True)


def test_budgets_are_bounded() -> None:
    """Made-up names are forgotten once they could cause a rebuild again anyway."""
    pacing = LayoutPacing()
    for number in range(1_000):
        pacing.done({f"p{number}"}, number, number)
    assert len(pacing._budgets) <= REFILL_S


def test_a_budget_does_not_grow() -> None:
    """After any quiet time a publisher may cause only a few rebuilds in a row."""
    loop = Loop()
    loop.run(REFILL_S, "a")
    loop.now_s += 1_000 * REFILL_S
    assert loop.run(20 * REBUILD_EVERY_S, "a") <= BURST + 20 * REBUILD_EVERY_S / REFILL_S + 1
