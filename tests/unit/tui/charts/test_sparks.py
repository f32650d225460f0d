from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trnfleet.tui.charts.plot import area, bucket, spark
from trnfleet.tui.theme import to_ascii
from trnfleet.tui.widgets.cells import bar, fit, right, text_of, width_of

series = arrays(
    np.float64, st.integers(0, 60), elements=st.one_of(st.just(np.nan), st.floats(-10, 200))
)


def test_sparkline_tells_the_lowest_from_a_gap() -> None:
    """The lowest value shows a block, a missing one a space.

    Values beyond the scale show its end.
    """
    assert spark(np.array([0.0, np.nan, 50.0, 100.0, 900.0, -5.0]), 0, 100) == "▁ ▅██▁"
    assert spark(np.array([0.0, np.nan, 50.0, 100.0]), 0, 100, is_apart=True) == "▁ ▄▇"


def test_area_fills_from_below() -> None:
    """Full columns stand under a partial one, in eighths."""
    assert area(np.array([0.0, 25.0, 50.0, 75.0, 100.0, np.nan]), 0, 100, 2) == ["   ▄█ ", "▁▄███ "]


def test_buckets_move_by_whole_cells() -> None:
    """Cells hold the same samples from one second to the next, until one is full."""
    assert bucket(np.arange(1.0, 11.0), 3, 4, 10).tolist() == [2.5, 6.5, 9.5]
    assert bucket(np.arange(1.0, 12.0), 3, 4, 11).tolist() == [2.5, 6.5, 10.0]
    assert bucket(np.arange(1.0, 13.0), 3, 4, 12).tolist() == [2.5, 6.5, 10.5]
    assert np.isnan(bucket(np.zeros(0), 2, 5)).all()
    assert np.array_equal(bucket(np.array([np.nan, 4.0]), 2, 2), [np.nan, 4.0], equal_nan=True)


def test_a_full_ring_does_not_shimmer() -> None:
    """Whole cells are unchanged when the oldest samples are dropped."""
    taken = np.arange(1_000.0)
    pictures = [bucket(taken[total - 900 : total], 20, 5, total) for total in range(950, 955)]
    assert all(np.array_equal(picture[-3:-1], pictures[1][-3:-1]) for picture in pictures[1:])


@given(series, st.integers(1, 40), st.integers(1, 9), st.integers(0, 50), st.integers(1, 6))
def test_charts_are_as_large_as_asked(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    cells: int,
    per_cell: int,
    more: int,
    height: int,
) -> None:
    """Any series fills the width and height exactly."""
    bucketed = bucket(values, cells, per_cell, len(values) + more)
    assert len(bucketed) == cells
    assert len(spark(bucketed, 0, 100)) == cells
    lines = area(bucketed, 0, 100, height)
    assert len(lines) == height
    assert all(len(line) == cells for line in lines)


@given(st.one_of(st.just(np.nan), st.floats(-2, 3)), st.integers(1, 50))
def test_bars_are_as_wide_as_asked(share: float, width: int) -> None:
    """Any share fills the width exactly."""
    assert width_of(bar(share, width)) == width


def test_bars_grow_by_half_cells_upon_their_track() -> None:
    """Anything above zero shows.

    A missing value has no track.
    """
    shown = [text_of(bar(share, 3)) for share in (0.0, 0.001, 0.5, 0.67, 1.0, np.nan)]
    assert shown == ["───", "╸──", "━╸─", "━━─", "━━━", "   "]
    assert [to_ascii(each) for each in shown] == ["---", "=--", "==-", "==-", "===", "   "]


@given(st.text(alphabet="aé漢", max_size=12), st.integers(1, 10))
def test_texts_are_as_wide_as_asked(text: str, width: int) -> None:
    """Wide characters count twice."""
    assert width_of(((fit(text, width), None),)) == width  # type: ignore[arg-type]  # styles do not matter here
    assert len(right("12.5", 7)) == 7


@pytest.mark.parametrize("cells", [0, -1, -30])
def test_no_room_is_an_empty_chart(cells: int) -> None:
    """A panel narrower than its labels has no chart."""
    assert bucket(np.arange(20.0), cells, 4).tolist() == []
    assert spark(bucket(np.arange(20.0), cells, 4), 0.0, 20.0) == ""
    assert area(bucket(np.arange(20.0), cells, 4), 0.0, 20.0, 3) == ["", "", ""]
