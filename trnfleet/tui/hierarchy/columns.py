"""Which columns the tree-table has at a width, and how a value looks in its cell.

Columns come from the monitor's fields; what is not a field (name, state, chips, history, job) is named here. It reads
no values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from trnfleet.domain.quantities import bare
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store import fields, findings

if TYPE_CHECKING:
    from trnfleet.monitor.store.fields import Field

NAME, STATE, CHIPS, SPARK, JOB = "name", "state", "chips", "spark", "job"
SPARK_FIELD = "nc_util_pct"
SPARK_CELL_S = 5
"""Seconds that a cell of the sparkline is the mean of."""

NAME_MIN, NAME_MAX = 23, 36
COMFORTABLE, RICH = 100, 180
"""Widths from which there is more air, and from which every field has room."""


@dataclass(frozen=True, slots=True)
class TreeColumn:
    """A column of the tree-table."""

    key: str
    """A field's key, or one of the names above."""
    title: str
    unit: str
    """What stands under the title."""
    width: int
    """Cells, with the gap before it."""
    field: Field | None = None

    @property
    def is_left(self) -> bool:
        """Whether its text stands at the left."""
        return self.field is None and self.key != CHIPS


@dataclass(frozen=True, slots=True)
class Plan:
    """The columns at one width."""

    width: int
    columns: tuple[TreeColumn, ...]
    """From left to right, the name first; their widths add up to `width`."""

    @property
    def sortable(self) -> tuple[str, ...]:
        """Keys of the columns that one can sort by, from left to right."""
        return tuple(column.key for column in self.columns if column.field or column.key in {NAME, STATE})

    def column_at(self, x: int) -> TreeColumn | None:
        """Return the column at cell `x` of a line."""
        for column in self.columns:
            if x < column.width:
                return column
            x -= column.width
        return None


_TITLES = {"tflops": "compute"}
_UNITS = {
    "bytes/s": "B/s",
    "bytes": "B",
    "degC": "°C",
    "TFLOP/s": "FLOP/s",
    "TFLOP/s/W": "",
    "events": "total",
}
_ALWAYS = ("nc_util_pct", "hbm_bw_util_pct", "link_tx_bytes_per_s", "power_w", "temperature_c")
_MORE = (
    SPARK,
    "mfu_pct",
    "tflops",
    JOB,
    "hbm_used_bytes",
    "tflops_per_w",
    "throttle_pct",
    "mem_ecc_corrected",
    "mem_ecc_uncorrected",
    CHIPS,
    "exec_errors",
    "link_rx_bytes_per_s",
    "sram_ecc_uncorrected",
    "hbm_traffic_bytes_per_s",
    "power_util_pct",
)
"""What comes in as the width grows, first come first."""
_PLACES = (
    STATE, CHIPS, "nc_util_pct", SPARK, "mfu_pct", "tflops", "hbm_bw_util_pct", "hbm_traffic_bytes_per_s",
    "hbm_used_bytes", "link_tx_bytes_per_s", "link_rx_bytes_per_s", "power_w", "power_util_pct", "tflops_per_w",
    "temperature_c", "throttle_pct", "mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_uncorrected",
    "exec_errors", JOB,
)  # fmt: skip  # left to right
_STATE_WIDTH = 17
_SPARK_WIDTH, _SPARK_MAX = 20, 62
_JOB_WIDTH, _JOB_MAX = 18, 34


@lru_cache(maxsize=16)
def plan(width: int) -> Plan:
    """Return the columns for a width in cells; too narrow a width keeps the first of them."""
    gap = 2 if width >= COMFORTABLE else 1
    made = {key: _column(key, gap) for key in _PLACES}
    left = width - NAME_MIN
    chosen: set[str] = set()
    for key in (STATE, *_ALWAYS):
        if made[key].width > left:
            break
        chosen.add(key)
        left -= made[key].width
    else:
        for key in _MORE:
            # The chart is for terminals that are wide, not for the last free cells of narrow ones.
            if made[key].width <= left and (key != SPARK or width >= COMFORTABLE):
                chosen.add(key)
                left -= made[key].width
    name = NAME_MIN + min(left, NAME_MAX - NAME_MIN)
    left -= name - NAME_MIN
    columns = [TreeColumn(NAME, "name", "", name)]
    for key in _PLACES:
        if key not in chosen:
            continue
        column = made[key]
        if key in {SPARK, JOB} and left > 0:
            more = min(left, (_SPARK_MAX if key == SPARK else _JOB_MAX) - column.width)
            left -= more
            column = _column(key, gap, more)
        columns.append(column)
    spare = width - sum(column.width for column in columns)
    if spare:
        # What is left over (or lacks, on a very narrow screen) goes to the last text.
        place = -1 if columns[-1].key == JOB else 0
        columns[place] = replace(columns[place], width=max(1, columns[place].width + spare))
    return Plan(width, tuple(columns))


def _column(key: str, gap: int, more: int = 0) -> TreeColumn:
    if key == STATE:
        return TreeColumn(key, "state", "", _STATE_WIDTH - 1 + gap)
    if key == CHIPS:
        return TreeColumn(key, "chips", "live", 9 + gap)
    if key == JOB:
        return TreeColumn(key, "job", "", _JOB_WIDTH + more)
    field = fields.BY_KEY.get(key)
    if field is None:
        width = _SPARK_WIDTH + more
        seconds = (width - gap) * SPARK_CELL_S
        return TreeColumn(key, "NC util", f"last {seconds} s", width)
    # A mark of sorting, or of what needs attention, takes the cell before title or value.
    title = _TITLES.get(key, field.title)
    return TreeColumn(key, title, _UNITS.get(field.unit, field.unit), max(6, len(title)) + gap, field)


def cell(field: Field, value: float) -> str:
    """Return a value as its cell shows it, without a unit; `n/a` for NaN."""
    return bare(value, field.unit)


_WARN_FROM = {"temperature_c": findings.HOT_C, "throttle_pct": findings.THROTTLE_PCT, "exec_errors": 1.0}
_CRITICAL_FROM = {"mem_ecc_uncorrected": 1.0, "sram_ecc_uncorrected": 1.0}


def attention(key: str, value: float) -> Severity | None:
    """Return how bad a field's value is, by the thresholds that findings use; None for nothing to look at."""
    if math.isnan(value):
        return None
    if value >= _CRITICAL_FROM.get(key, math.inf):
        return Severity.CRITICAL
    if value >= _WARN_FROM.get(key, math.inf):
        return Severity.WARNING
    return None
