from __future__ import annotations

import numpy as np
import pytest

from trnfleet.monitor.store.rings.record import Track
from trnfleet.tui.jobs.details import StepSample, late_chips


def test_a_second_holds_more_short_steps_than_long_ones() -> None:
    """Half of the seconds have steps of 1 s, half of 4 s: four of five steps are short."""
    sample = StepSample.read(Track.of(np.repeat(np.array([1.0, 4.0, np.nan], np.float32), 40)))
    assert sample.steps.sum() == pytest.approx(50.0)
    assert [sample.percentile(share) for share in (0.5, 0.79, 0.81, 0.99)] == [1.0, 1.0, 4.0, 4.0]
    bins = sample.bins()
    assert [round(steps) for _, steps in bins] == [40, 0, 0, 0, 0, 0, 0, 10]
    assert bins[0][0] == 1.0


def test_bars_of_steps_have_times_of_their_own() -> None:
    sample = StepSample.read(Track.of(np.full(10, 2.0, np.float32)))
    assert sample.bins() == [(2.0, 5.0)]
    sample = StepSample.read(Track.of(np.linspace(10.2, 10.5, 31, dtype=np.float32)))
    assert [f"{low_s:.1f}" for low_s, _ in sample.bins()] == ["10.2", "10.3"]


def test_a_chip_is_late_by_its_busy_share_above_the_median() -> None:
    busy_pct = np.array([40.0, 52.5, np.nan, 40.0, 39.0])
    late = late_chips(np.arange(10, 15), busy_pct, 8.0, 9)
    assert late.rows.tolist() == [11, 10, 13, 14]
    assert late.late_s.tolist() == pytest.approx([1.0, 0.0, 0.0, -0.08])
    first = late_chips(np.arange(10, 15), busy_pct, 8.0, 1)
    assert first.rows.tolist() == [11]
    assert first.total == 4
    assert late.median_pct == 40.0
