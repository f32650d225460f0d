"""The display table of metrics and derived fields.

It has column order, heat map order, charts, panels and thresholds. A metric without a row here has
its title, unit and scale from its own row in `domain.metrics`. It is shown last in the tree and the
heat map's list, and in the chip view's panel for its kind. Everything is resolved on import, so
that drawing looks nothing up.
"""

from __future__ import annotations

import enum
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.metrics import METRICS, Kind, Metric, Scope
from trnfleet.domain.quantities import NOT_AVAILABLE, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.fields import BY_KEY, FIELDS, Field
from trnfleet.monitor.store.findings import HOT_C, THROTTLE_PCT

if TYPE_CHECKING:
    from collections.abc import Callable


class ChipPanel(enum.Enum):
    """A panel of the chip view."""

    CORES = enum.auto()
    ENGINES = enum.auto()
    HBM = enum.auto()
    POWER = enum.auto()
    LINKS = enum.auto()
    COUNTERS = enum.auto()
    INSTANCE = enum.auto()
    OTHER = enum.auto()


LAST = sys.maxsize
"""Rank of a metric without a row."""
TREE_CORE = 5
"""Highest rank of a column in every tree. Later columns need a wider screen."""


@dataclass(frozen=True, slots=True)
class MetricDisplay:
    """Display of one metric or derived field.

    The lower of two ranks comes first; None is never shown there.
    """

    key: str
    panel: ChipPanel | None = None
    """None for a derived field: panels compute it themselves."""
    label: str = ""
    """Name of its line in the panel; empty for its title."""
    tree_title: str = ""
    """Head of its column in the tree; empty for its title."""
    tree: int | None = None
    """When its column comes in as the tree gets wider. Columns stand in the table's order."""
    heat_map: int = LAST
    """Place in the heat map's list."""
    selection: int | None = None
    """Place beside the address under the heat map."""
    fleet_chart: int | None = None
    """Place among the fleet's charts. Power and NeuronCores come first, in charts of their own."""
    chip_chart: int | None = None
    """Place among the chip's charts; only for fields with a history."""
    ramp: str = ""
    """Name of its colour ramp in the theme."""
    warning_from: float = math.inf
    critical_from: float = math.inf

    def severity(self, value: float) -> Severity | None:
        """Return how bad a value is; None for a good one, or none."""
        if value >= self.critical_from:
            return Severity.CRITICAL
        return Severity.WARNING if value >= self.warning_from else None


class ShownField(NamedTuple):
    """A field with its display."""

    field: Field
    display: MetricDisplay


class ShownMetric(NamedTuple):
    """A metric with its display and the name of its line."""

    metric: Metric
    display: MetricDisplay
    label: str


_ROWS = (
    MetricDisplay(
        "nc_util_pct",
        ChipPanel.CORES,
        tree=1,
        heat_map=1,
        selection=1,
        fleet_chart=1,
        chip_chart=1,
        ramp="busy",
    ),
    MetricDisplay("mfu_pct", tree=7, heat_map=6, selection=6, ramp="busy"),
    MetricDisplay(
        "tflops",
        ChipPanel.ENGINES,
        tree=8,
        heat_map=7,
        fleet_chart=6,
        chip_chart=2,
        ramp="busy",
    ),
    MetricDisplay("engine_util_pct", ChipPanel.ENGINES, ramp="busy"),
    MetricDisplay("hbm_bw_util_pct", tree=2, heat_map=3),
    MetricDisplay("hbm_traffic_bytes_per_s", tree=19, fleet_chart=4, chip_chart=3),
    MetricDisplay(
        "hbm_used_bytes",
        ChipPanel.HBM,
        "used",
        tree=10,
        heat_map=9,
        selection=4,
        fleet_chart=7,
        chip_chart=7,
    ),
    MetricDisplay("hbm_read_bytes_per_s", ChipPanel.HBM, "read"),
    MetricDisplay("hbm_write_bytes_per_s", ChipPanel.HBM, "write"),
    MetricDisplay(
        "link_tx_bytes_per_s",
        ChipPanel.LINKS,
        tree=3,
        heat_map=4,
        selection=5,
        fleet_chart=5,
        chip_chart=4,
    ),
    MetricDisplay("link_rx_bytes_per_s", ChipPanel.LINKS, tree=17),
    MetricDisplay("links_up", ChipPanel.LINKS),
    MetricDisplay(
        "power_w", ChipPanel.POWER, tree=4, heat_map=2, selection=2, fleet_chart=2, chip_chart=5
    ),
    MetricDisplay("power_util_pct", ChipPanel.POWER, "util, 1 min", tree=20),
    MetricDisplay("power_util_max_pct", ChipPanel.POWER, "max, 1 min", tree=LAST),
    MetricDisplay("tflops_per_w", tree=11, heat_map=8),
    MetricDisplay(
        "temperature_c",
        ChipPanel.POWER,
        tree=5,
        heat_map=5,
        selection=3,
        fleet_chart=3,
        chip_chart=6,
        ramp="heat",
        warning_from=HOT_C,
    ),
    MetricDisplay(
        "throttle_pct",
        ChipPanel.POWER,
        tree=12,
        heat_map=10,
        ramp="heat",
        warning_from=THROTTLE_PCT,
    ),
    MetricDisplay("mem_ecc_corrected", ChipPanel.COUNTERS, "HBM corrected", tree=13, heat_map=11),
    MetricDisplay(
        "mem_ecc_uncorrected",
        ChipPanel.COUNTERS,
        "HBM uncorrected",
        tree=14,
        heat_map=12,
        critical_from=1.0,
    ),
    MetricDisplay(
        "mem_ecc_repairable_uncorrected", ChipPanel.COUNTERS, "HBM repairable", tree=LAST
    ),
    MetricDisplay("sram_ecc_corrected", ChipPanel.COUNTERS, "SRAM corrected"),
    MetricDisplay(
        "sram_ecc_uncorrected", ChipPanel.COUNTERS, "SRAM uncorrected", tree=18, critical_from=1.0
    ),
    MetricDisplay("exec_completed", ChipPanel.COUNTERS, "executions"),
    MetricDisplay(
        "exec_errors",
        ChipPanel.COUNTERS,
        "execution errors",
        tree=16,
        heat_map=13,
        warning_from=1.0,
    ),
    MetricDisplay("health", ChipPanel.COUNTERS),
)


def _default(metric: Metric) -> MetricDisplay:
    if metric.scope is Scope.INSTANCE:
        return MetricDisplay(metric.name, ChipPanel.INSTANCE)
    panel = ChipPanel.COUNTERS if metric.kind is Kind.COUNTER else ChipPanel.OTHER
    return MetricDisplay(metric.name, panel, tree=None if metric.kind is Kind.BITMASK else LAST)


_NAMED = {row.key for row in _ROWS}
_ALL = (*_ROWS, *(_default(metric) for metric in METRICS if metric.name not in _NAMED))
DISPLAY: dict[str, MetricDisplay] = {row.key: row for row in _ALL}
"""By key, in the table's order."""


def _fields(rank: Callable[[MetricDisplay], int | None]) -> tuple[Field, ...]:
    """Return the fields with a rank, lowest first; equal ranks in the order of fields."""
    ranked = [(rank(DISPLAY[field.key]), field) for field in FIELDS]
    return tuple(
        field
        for _, field in sorted(
            ((place, field) for place, field in ranked if place is not None),
            key=lambda pair: pair[0],
        )
    )


TREE: tuple[ShownField, ...] = tuple(
    ShownField(BY_KEY[row.key], row) for row in _ALL if row.tree is not None and row.key in BY_KEY
)
"""Fields with a column in the tree, left to right."""
HEAT_MAP = _fields(lambda row: row.heat_map)
"""Fields in the order cycled by `m`."""
SELECTION = _fields(lambda row: row.selection)
"""Fields of the selected address beside the mapped field, if there is room."""
FLEET_CHARTS = _fields(lambda row: row.fleet_chart)
CHIP_CHARTS = _fields(lambda row: row.chip_chart)


def ramp_of(key: str) -> str:
    """Return the name of a figure's colour ramp."""
    return DISPLAY[key].ramp if key in DISPLAY else ""


def fleet_name(field: Field) -> str:
    """Return the name of a field for several chips: `temp max` for a maximum."""
    return f"{field.title} max" if field.is_max else field.title


def value_text(metric: Metric, value: float) -> str:
    """Return a metric's value with its unit; bits in hexadecimal, short times in ms."""
    if metric.kind is Kind.BITMASK:
        return NOT_AVAILABLE if math.isnan(value) else f"{int(value):#x}"
    is_short = metric.unit == "s" and value < 1
    return with_unit(1e3 * value, "ms") if is_short else with_unit(value, metric.unit)


_METRICS = {metric.name: metric for metric in METRICS}
PANELS: dict[ChipPanel, tuple[ShownMetric, ...]] = {
    panel: tuple(
        ShownMetric(_METRICS[row.key], row, row.label or _METRICS[row.key].short_title)
        for row in _ALL
        if row.panel is panel and row.key in _METRICS
    )
    for panel in ChipPanel
}
"""Metrics of each panel, from its first line to its last."""
