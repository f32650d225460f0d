"""Columns of dots: their samples, and the fidelity of the drawing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.monitor.store.rings.record import Track
from trnfleet.tui.charts import axes, plot
from trnfleet.tui.charts.plot import Grid

NAN = float("nan")
values = st.lists(st.one_of(st.just(NAN), st.integers(-50, 50).map(float)), max_size=120)


def track_of(samples: list[float], *, step_s: int = 1, total: int | None = None) -> Track:
    series = np.array(samples, np.float32)
    total = len(series) if total is None else total
    return Track(series, series, series, step_s, total, total * step_s)


def least(samples: list[float]) -> float:
    known = [each for each in samples if not np.isnan(each)]
    return min(known) if known else NAN


def most(samples: list[float]) -> float:
    return -least([-each for each in samples])


def test_a_column_is_the_least_mean_and_largest_of_its_samples() -> None:
    bands = Grid(12, 4, 12).bands(track_of([1, 2, 3, NAN, 5, 9, NAN, NAN, NAN, 4, 4, 4]))
    assert [each.tolist() for each in bands] == [
        pytest.approx([1, 5, NAN, 4], nan_ok=True),
        pytest.approx([2, 7, NAN, 4], nan_ok=True),
        pytest.approx([3, 9, NAN, 4], nan_ok=True),
    ]


def test_a_sample_longer_than_a_column_takes_several() -> None:
    assert Grid(3, 6, 3).bands(track_of([1, 2, 3])).mean.tolist() == [1, 1, 2, 2, 3, 3]
    assert Grid(60, 6, 60).bands(track_of([7, 8], step_s=30)).high.tolist() == [7, 7, 7, 8, 8, 8]


def test_columns_keep_their_samples_while_time_goes_on() -> None:
    """A picture is the previous one moved by whole columns.

    Only the unfinished last column differs.
    """
    wave = (np.sin(np.arange(400)) * 40).astype(np.float32)
    for span, columns in ((60, 40), (90, 37), (200, 33)):
        shown: dict[int, float] = {}
        for end in range(300, 330):
            grid = Grid(span, columns, end)
            bands = grid.bands(track_of(wave[:end].tolist()))
            for column, value in enumerate(bands.high.tolist()[1:-1], 1):
                number = grid._last - columns + 1 + column
                assert shown.setdefault(number, value) == value


def test_a_wave_as_long_as_a_column_is_no_saw() -> None:
    """Columns of 5 s show steps of 5 s with equal extremes and means."""
    steps = [30.0, 90.0, 90.0, 90.0, 60.0] * 40
    bands = Grid(150, 30, 200).bands(track_of(steps))
    assert set(bands.low.tolist()) == {30.0}
    assert set(bands.high.tolist()) == {90.0}
    assert set(bands.mean.tolist()) == {72.0}


@given(
    values, st.integers(1, 300), st.integers(1, 60), st.integers(0, 40), st.sampled_from([1, 10])
)
def test_what_is_drawn_in_a_column_is_what_there_was(
    samples: list[float], span: int, columns: int, late: int, step_s: int
) -> None:
    """The lowest and highest dot of a column match its least and largest sample.

    The join to the column before may extend them.
    """
    total = len(samples) + 7
    grid = Grid(span, columns, max(1, total * step_s - late))
    bands = grid.bands(track_of(samples, step_s=step_s, total=total))
    starts, ends = grid.edges(step_s)
    mine = [
        samples[max(0, first - 7) : max(0, after - 7)]
        for first, after in zip(starts, ends, strict=True)
    ]
    low = -50.0
    high = 50.0
    rows = 24
    bottom = plot.row_of(np.array([least(each) for each in mine]), low, high, rows)
    top = plot.row_of(np.array([most(each) for each in mine]), low, high, rows)
    np.testing.assert_array_equal(plot.row_of(bands.low, low, high, rows), bottom)
    np.testing.assert_array_equal(plot.row_of(bands.high, low, high, rows), top)
    for column, each in enumerate(mine):
        known = [value for value in each if not np.isnan(value)]
        assert bands.mean[column] == pytest.approx(
            sum(known) / len(known) if known else NAN, nan_ok=True
        )
    dots = plot.picture(*plot.reach(bottom, top), rows)[::-1]
    for column in range(columns):
        drawn = np.flatnonzero(dots[:, column])
        if bottom[column] < 0:
            assert not len(drawn)
            continue
        first = bottom[column]
        last = top[column]
        if column and bottom[column - 1] >= 0:
            first = min(first, top[column - 1] + 1)
            last = max(last, bottom[column - 1] - 1)
        assert (drawn[0], drawn[-1]) == (first, last)
        assert len(drawn) == last - first + 1


@given(values, st.integers(1, 20), st.integers(1, 6))
def test_cells_have_exactly_the_dots_of_their_columns(
    samples: list[float], cells: int, height: int
) -> None:
    """A cell has exactly the dots of its two columns and four rows."""
    bands = Grid(60, 2 * cells, max(1, len(samples))).bands(track_of(samples))
    rows = 4 * height
    dots = plot.picture(
        plot.row_of(bands.low, -50, 50, rows), plot.row_of(bands.high, -50, 50, rows), rows
    )
    bits = plot.cells_of(dots)
    assert bits.shape == (height, cells)
    assert sum(int(each).bit_count() for each in bits.flatten()) == dots.sum()
    order = (
        (0, 0, 1),
        (1, 0, 2),
        (2, 0, 4),
        (0, 1, 8),
        (1, 1, 16),
        (2, 1, 32),
        (3, 0, 64),
        (3, 1, 128),
    )
    for row in range(height):
        for cell in range(cells):
            expected = sum(bit for y, x, bit in order if dots[4 * row + y, 2 * cell + x])
            assert bits[row, cell] == expected


def test_a_moment_is_in_the_column_of_its_sample() -> None:
    grid = Grid(100, 50, 100)
    assert [grid.column_of(second) for second in (0, 1, 2, 99)] == [0, 0, 1, 49]
    assert grid.column_of(-3) < 0
    assert grid.column_of(105) > 49


@pytest.mark.parametrize(
    ("value", "ceiling"),
    [(1, 1), (1.01, 1.2), (26_500, 30_000), (0.07, 0.08), (9.1, 10), (101, 120), (4.2, 5)],
)
def test_scales_end_at_round_numbers(value: float, ceiling: float) -> None:
    assert axes.nice_ceiling(value) == pytest.approx(ceiling)


def test_ticks_leave_room_for_their_labels() -> None:
    assert [axes.tick_every(300, cells, 4) for cells in (20, 40, 80, 200)] == [120, 60, 30, 15]
    assert axes.tick_every(10**9, 1, 4) == 365 * 86_400
