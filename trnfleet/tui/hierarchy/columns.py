"""Columns of the tree-table for a width, and the texts of values.

Columns of fields come from `metric_display`; the others (name, state, chips, history, job) are
named here. No values are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.quantities import bare, with_unit
from trnfleet.tui.charts.plot import SPARK_CELL_S
from trnfleet.tui.metric_display import LAST, TREE, TREE_CORE, MetricDisplay
from trnfleet.tui.state.chip_table import column_of

if TYPE_CHECKING:
    from trnfleet.monitor.store.fields import Field

NAME = "name"
STATE = "state"
CHIPS = "chips"
SPARK = "spark"
JOB = "job"
SOURCE = "source"
SPARK_FIELD = "nc_util_pct"
NAME_MIN = 21
NAME_MAX = 36
COMFORTABLE = 100
"""Least width in cells for wide gaps and a sparkline."""


@dataclass(frozen=True, slots=True)
class TreeColumn:
    """A column of the tree-table."""

    key: str
    """A field's key, or one of the names above."""
    title: str
    unit: str
    """Text under the title."""
    width: int
    """Cells, with the gap before it."""
    field: Field | None = None
    display: MetricDisplay | None = None
    """There where `field` is."""

    @property
    def is_left(self) -> bool:
        """Whether its text stands at the left."""
        return self.field is None and self.key != CHIPS


@dataclass(frozen=True, slots=True)
class TreePlan:
    """The columns at one width."""

    width: int
    columns: tuple[TreeColumn, ...]
    """From left to right, the name first; their widths add up to `width`."""

    @property
    def sortable(self) -> tuple[str, ...]:
        """Keys of the columns to sort by, left to right."""
        return tuple(
            column.key for column in self.columns if column.field or column.key in {NAME, STATE}
        )

    def column_at(self, x: int) -> TreeColumn | None:
        for column in self.columns:
            if x < column.width:
                return column
            x -= column.width
        return None


_UNITS = {"degC": "°C", "TFLOP/s/W": "", "events": "total"}
_OTHER_CELLS = {"degC": 5}
SCALED_CELLS = {"W": 7, "bytes/s": 9, "bytes": 8, "TFLOP/s": 12}
"""Units shown in the cells with their prefix, and the cells per value."""
_SPARK_RANK = _SOURCE_RANK = 6
_JOB_RANK = 9
_CHIPS_RANK = 15
"""When these columns come in, among the ranks of `metric_display`."""
_STATE_WIDTH = 17
_SPARK_WIDTH = 20
_SPARK_MAX = 62
_SOURCE_WIDTH = 7
_JOB_WIDTH = 18
_JOB_MAX = 34


class _Places(NamedTuple):
    """Columns after the name."""

    left_to_right: tuple[str, ...]
    by_rank: tuple[tuple[int, str], ...]


def _places() -> _Places:
    order: list[str] = [STATE, SOURCE, CHIPS]
    ranks: dict[str, int] = {STATE: 0, CHIPS: _CHIPS_RANK, SPARK: _SPARK_RANK, JOB: _JOB_RANK}
    ranks[SOURCE] = _SOURCE_RANK
    for shown in TREE:
        order.append(shown.field.key)
        ranks[shown.field.key] = LAST if shown.display.tree is None else shown.display.tree
        if shown.field.key == SPARK_FIELD:
            order.append(SPARK)
    order.append(JOB)
    return _Places(
        tuple(order), tuple(sorted(((ranks[key], key) for key in order), key=lambda pair: pair[0]))
    )


_PLACES = _places()
_SHOWN = {shown.field.key: shown for shown in TREE}
NAMES = {
    column_of(_SHOWN[key].field).name if key in _SHOWN else key: key
    for key in _PLACES.left_to_right
}
"""Keys of the columns after the name, by the names that filters use."""


@lru_cache(maxsize=16)
def plan(
    width: int,
    unknown: frozenset[str] = frozenset({SOURCE}),
    first: str = STATE,
    preferred: frozenset[str] = frozenset(),
) -> TreePlan:
    """Return the columns for a width in cells.

    Where the width is too small, the first columns stay.

    Args:
        width: Cells.
        unknown: Keys without a column: fields that no source can know, the source where there is
            one kind, and what you hide.
        first: Key of the column that comes before all others, also one of `unknown`.
        preferred: Keys of the columns that come next.
    """
    gap = 2 if width >= COMFORTABLE else 1
    made = {key: _column(key, gap) for key in _PLACES.left_to_right}
    left = width - NAME_MIN
    chosen: set[str] = set()
    for rank, key in sorted(
        _PLACES.by_rank, key=lambda pair: (pair[1] != first, pair[1] not in preferred)
    ):
        if key in unknown and key != first:
            continue
        if made[key].width > left:
            if rank <= TREE_CORE:
                break
            continue
        # Chart and source are for wide terminals, not for the last free cells of narrow ones.
        if key not in {SPARK, SOURCE} - preferred or width >= COMFORTABLE:
            chosen.add(key)
            left -= made[key].width
    name = NAME_MIN + min(left, NAME_MAX - NAME_MIN)
    left -= name - NAME_MIN
    columns = [TreeColumn(NAME, "name", "", name)]
    for key in _PLACES.left_to_right:
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
    return TreePlan(width, tuple(columns))


def _column(key: str, gap: int, more: int = 0) -> TreeColumn:
    if key == STATE:
        return TreeColumn(key, "state", "", _STATE_WIDTH - 1 + gap)
    if key == CHIPS:
        return TreeColumn(key, "chips", "live", 9 + gap)
    if key == SOURCE:
        return TreeColumn(key, "source", "", _SOURCE_WIDTH)
    if key == JOB:
        return TreeColumn(key, "job", "", _JOB_WIDTH + more)
    if key == SPARK:
        width = _SPARK_WIDTH + more
        seconds = (width - gap) * SPARK_CELL_S
        return TreeColumn(key, "NC util", f"last {seconds} s", width)
    field, display = _SHOWN[key]
    # A mark of sorting, or of what needs attention, takes the cell before title or value.
    title = display.tree_title or field.title
    cells = SCALED_CELLS.get(field.unit) or _OTHER_CELLS.get(field.unit, 6)
    unit = "" if field.unit in SCALED_CELLS else _UNITS.get(field.unit, field.unit)
    return TreeColumn(key, title, unit, max(cells, len(title)) + gap, field, display)


def cell(field: Field, value: float) -> str:
    """Return the text of a value in its cell; `n/a` for NaN.

    The unit is part of it only if it has a prefix.
    """
    return with_unit(value, field.unit) if field.unit in SCALED_CELLS else bare(value, field.unit)


class Sorting(NamedTuple):
    """The order of siblings."""

    key: str = NAME
    descending: bool = False

    def reversed(self) -> Sorting:
        return Sorting(self.key, not self.descending)
