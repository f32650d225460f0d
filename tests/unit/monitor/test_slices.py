"""Slicing protocol: results, checkpoints, and work abandoned after a new layout."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from support.monitor.feed import SilentSource

from trnfleet.clock import ManualClock
from trnfleet.monitor.failures import guarded
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.slices import LayoutChanged, PassPacing, Slices, checkpoint, finish, require
from trnfleet.tasks import background


@dataclass
class Rows:
    """Anything whose rows are numbered by a layout."""

    generation: int = 1


def doubled(rows: Rows, count: int) -> Slices[int]:
    """Count in slices."""
    generation = rows.generation
    total = 0
    for _ in range(count):
        total += 2
        yield from checkpoint(rows, generation)
    return total


def test_finish_returns_the_result_of_all_slices() -> None:
    assert finish(doubled(Rows(), 3)) == 6


def test_a_layout_that_changes_between_slices_abandons_the_work() -> None:
    rows = Rows()
    work = doubled(rows, 3)
    next(work)
    rows.generation += 1
    with pytest.raises(LayoutChanged):
        next(work)
    assert list(work) == []


def test_work_on_rows_of_another_layout_does_not_begin() -> None:
    require(Rows(4), 4)
    with pytest.raises(LayoutChanged):
        require(Rows(4), 3)


def test_a_new_layout_is_no_failure_of_the_guarded_stage() -> None:
    rows, counts = Rows(), PipelineCounts()

    def stage() -> Slices[None]:
        yield from doubled(rows, 2)

    work = guarded(counts, "roll-ups", stage())
    next(work)
    rows.generation += 1
    with pytest.raises(LayoutChanged):
        next(work)
    assert counts.internal_errors == 0


async def test_a_pass_rests_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop rests as long as the pass worked, for keys.

    After tiny slices it goes on.
    """
    clock = ManualClock()
    monitor = Monitor(SilentSource(), "test", clock=clock)
    slept_s: list[float] = []
    sleep = clock.sleep

    async def recorded(seconds: float) -> None:
        slept_s.append(round(seconds, 6))
        await sleep(seconds)

    def work() -> Slices[None]:
        for took_s in (0.0015, 0.0065, 0.0015, 0.0015, 0.007, 0.0, *[0.0001] * 6):
            clock._move_to(clock.monotonic_s() + took_s)
            yield

    monkeypatch.setattr(clock, "sleep", recorded)
    monkeypatch.setattr(monitor, "_pass_slices", work)
    async with background(passes=monitor._keep_passing()):
        await clock.advance(0.1)
    assert slept_s[:3] == [0.008, 0.003, 0.007]
    assert slept_s[3] > 0.1


@pytest.mark.parametrize(
    ("own_s", "usual_s", "overloaded_s"), [(0.001, 0.2, 1.0), (0.045, 0.75, 1.5), (0.5, 1.0, 2.0)]
)
def test_passes_are_rarer_while_messages_need_the_time(
    own_s: float, usual_s: float, overloaded_s: float
) -> None:
    """An overloaded monitor halves the passes' share, with one each second or two."""
    pause_s = PassPacing.pause_s
    assert pause_s(own_s, 7.0, 7.1, is_overloaded=False) == pytest.approx(usual_s - 0.1)
    assert pause_s(own_s, 7.0, 7.1, is_overloaded=True) == pytest.approx(overloaded_s - 0.1)
