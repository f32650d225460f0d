from __future__ import annotations

import math

import pytest

from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.tui.hierarchy.columns import CHIPS, JOB, SCALED_CELLS, SPARK, cell, plan


@pytest.mark.parametrize("width", range(1, 400))
def test_columns_fit_the_width_exactly(width: int) -> None:
    """Columns add up to any width.

    Each has room for its title with a sort mark.
    """
    made = plan(width)
    assert sum(column.width for column in made.columns) == width
    assert all(len(column.title) < column.width for column in made.columns[1:])


def test_columns_come_in_with_the_width() -> None:
    """80 columns show the main figures, 120 the history, 240 every field and the job."""
    narrow, middle, wide = (
        [column.key for column in plan(width).columns] for width in (79, 119, 239)
    )
    assert narrow == [
        "name",
        "state",
        "nc_util_pct",
        "hbm_bw_util_pct",
        "link_tx_bytes_per_s",
        "power_w",
        "temperature_c",
    ]
    assert set(narrow) | {SPARK, "mfu_pct"} <= set(middle)
    more = {
        "tflops",
        "hbm_used_bytes",
        "tflops_per_w",
        "throttle_pct",
        "mem_ecc_uncorrected",
        CHIPS,
        JOB,
    }
    assert set(middle) | more <= set(wide)


def test_cells_are_short_and_say_what_is_missing() -> None:
    """Values fit their column, seven cells without a unit column of their own.

    NaN is not shown as zero.
    """
    for field in BY_KEY.values():
        assert cell(field, math.nan) == "n/a"
        high = 9.9999e13 if field.unit.startswith(("bytes", "W")) else 999.0
        assert all(
            len(cell(field, value)) <= SCALED_CELLS.get(field.unit, 7)
            for value in (0.0, 0.4, 99.96, 100.0, high)
        )
