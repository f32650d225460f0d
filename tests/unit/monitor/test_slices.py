"""The slicing protocol: results, checkpoints, and work that a new layout abandons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from trnfleet.monitor.failures import guarded
from trnfleet.monitor.pipeline import PipelineCounts
from trnfleet.monitor.slices import LayoutChanged, checkpoint, finish, require

if TYPE_CHECKING:
    from trnfleet.monitor.slices import Slices


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
