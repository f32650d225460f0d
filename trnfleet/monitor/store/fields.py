"""Fields: figures that views, status and history can show for a node of any level.

Every chip metric is a field, and so are figures derived from metrics and the hardware catalogue.
Values are per covered chip wherever that makes levels comparable (`per_chip`), or totals
(`values`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.metrics import (
    BY_NAME,
    CHIP_METRICS,
    Aggregate,
    Kind,
    Metric,
    chip_peak,
    chip_step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import ChipType
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.store.rollup import RollupReader
    from trnfleet.monitor.store.store import Store

BYTES_PER_S = "bytes/s"


@dataclass(frozen=True, slots=True)
class Field:
    """A figure for any node from fleet to chip."""

    key: str
    title: str
    """A column's head: at most ten characters."""
    unit: str
    help: str
    parts: tuple[str, ...]
    """The metrics that it is made of."""
    join: Callable[[list[NDArray[np.float64]], NDArray[np.float64]], NDArray[np.float64]]
    """From the parts' values, and a hardware figure for each node, to the field's."""
    hardware: Callable[[ChipType], float] | None = None
    """Catalogue figure of one chip, for the join."""
    peak: Callable[[ChipType], float] | None = None
    """Upper end of the field's scale for one chip, for charts and heat maps."""
    is_ratio: bool = False
    """Whether a node's value is always a mean or maximum. Totals make no sense then."""
    low: float = 0.0
    """Lower end of the scale."""
    has_history: bool = False
    """Whether history keeps it."""

    @property
    def is_max(self) -> bool:
        """Whether a node's value is the highest of its chips'."""
        return len(self.parts) == 1 and BY_NAME[self.parts[0]].aggregate is Aggregate.MAX

    def values(
        self, store: Store, rollups: RollupReader, level: Level, nodes: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Return the field's totals for nodes of a level, or means for ratios.

        None selects all nodes.
        """
        return self._values(store, rollups, level, nodes, per_chip=False)

    def per_chip(
        self, store: Store, rollups: RollupReader, level: Level, nodes: NDArray[np.int64] | None
    ) -> NDArray[np.float64]:
        """Return the field's value for one covered chip, for nodes of a level."""
        return self._values(store, rollups, level, nodes, per_chip=True)

    def scale(self, layout: Layout) -> tuple[float, float]:
        """Return the ends of the field's scale for one chip of a fleet."""
        top = (
            max((self.peak(kind.chip) for kind in layout.types), default=1.0) if self.peak else 1.0
        )
        return self.low, top

    def chip_step(self, layout: Layout) -> float:
        """Return the step of chip values as encoded on the wire.

        NaN if there is no step.
        """
        figures = {self.hardware(kind.chip) for kind in layout.types} if self.hardware else {1.0}
        if len(figures) != 1:
            return np.nan
        first, *others = self.parts
        parts = [np.array([chip_step(BY_NAME[first])]), *(np.zeros(1) for _ in others)]
        return float(self.join(parts, np.array([*figures]))[0])

    def _values(
        self,
        store: Store,
        rollups: RollupReader,
        level: Level,
        nodes: NDArray[np.int64] | None,
        *,
        per_chip: bool,
    ) -> NDArray[np.float64]:
        pick: NDArray[np.int64] | slice = slice(None) if nodes is None else nodes
        if level is Level.CHIP:
            parts = [store.chip_values(BY_NAME[name], pick) for name in self.parts]
        elif per_chip or self.is_ratio:
            parts = [rollups.mean(name, level, pick) for name in self.parts]
        else:
            parts = [rollups.value(name, level, pick) for name in self.parts]
        figure = np.ones(1) if self.hardware is None else self._figure(store, rollups, level, pick)
        return self.join(parts, figure)

    def _figure(
        self, store: Store, rollups: RollupReader, level: Level, pick: NDArray[np.int64] | slice
    ) -> NDArray[np.float64]:
        """Return the hardware figure of one chip for each node.

        A mean for a node with several types.
        """
        layout = store.layout
        if self.hardware is None or not layout.types:
            return np.ones(1)
        by_type = np.array([self.hardware(kind.chip) for kind in layout.types])
        if len(by_type) == 1 or (by_type == by_type[0]).all():
            return by_type[:1]
        by_instance = by_type[layout.instance_type]
        if level is Level.CHIP:
            return by_instance[layout.instance_of_chip[pick]]
        if level is Level.INSTANCE:
            return by_instance[pick]
        covered = rollups.covered(self.parts[0], Level.INSTANCE)
        weighted = by_instance * covered
        for starts, reached in (
            (layout.ultraserver_start, Level.ULTRASERVER),
            (layout.cluster_start, Level.CLUSTER),
            (np.array([0, len(layout.clusters)]), Level.FLEET),
        ):
            take = rollups.takes(reached)
            weighted = np.add.reduceat(np.where(take, weighted, 0.0), starts[:-1])
            covered = np.add.reduceat(np.where(take, covered, 0.0), starts[:-1])
            if reached is level:
                break
        return (weighted / np.where(covered > 0, covered, np.nan))[pick]


def _same(parts: list[NDArray[np.float64]], _figure: NDArray[np.float64]) -> NDArray[np.float64]:
    return parts[0]


def _sum(parts: list[NDArray[np.float64]], _figure: NDArray[np.float64]) -> NDArray[np.float64]:
    return parts[0] + parts[1]


def _share_of_sum(
    parts: list[NDArray[np.float64]], figure: NDArray[np.float64]
) -> NDArray[np.float64]:
    return 100.0 * (parts[0] + parts[1]) / figure


def _flops_share(
    parts: list[NDArray[np.float64]], figure: NDArray[np.float64]
) -> NDArray[np.float64]:
    return 100.0 * parts[0] * 1e12 / figure


def _quotient(
    parts: list[NDArray[np.float64]], _figure: NDArray[np.float64]
) -> NDArray[np.float64]:
    return parts[0] / np.where(parts[1] > 0, parts[1], np.nan)


def _metric_field(metric: Metric) -> Field:
    return Field(
        key=metric.name,
        title=metric.short_title,
        unit=metric.unit,
        help=metric.help,
        parts=(metric.name,),
        join=_same,
        peak=partial(chip_peak, metric),
        is_ratio=metric.aggregate in {Aggregate.MEAN, Aggregate.MAX},
        low=20.0 if metric.unit == "degC" else 0.0,
        has_history=metric.has_history,
    )


FIELDS: tuple[Field, ...] = (
    *(_metric_field(metric) for metric in CHIP_METRICS if metric.kind is not Kind.BITMASK),
    Field(
        "hbm_traffic_bytes_per_s",
        "HBM bw",
        BYTES_PER_S,
        "High-bandwidth memory read and write rate together",
        ("hbm_read_bytes_per_s", "hbm_write_bytes_per_s"),
        _sum,
        peak=lambda chip: chip.hbm_bytes_per_s.value,
        has_history=True,
    ),
    Field(
        "hbm_bw_util_pct",
        "HBM bw %",
        "%",
        "HBM traffic as a share of the catalogue's peak bandwidth",
        ("hbm_read_bytes_per_s", "hbm_write_bytes_per_s"),
        _share_of_sum,
        is_ratio=True,
        hardware=lambda chip: chip.hbm_bytes_per_s.value,
        peak=lambda _chip: 100.0,
    ),
    Field(
        "mfu_pct",
        "MFU",
        "%",
        "Achieved FLOP/s as a share of the catalogue's dense BF16 peak",
        ("tflops",),
        _flops_share,
        is_ratio=True,
        hardware=lambda chip: chip.bf16_dense_flops.value,
        peak=lambda _chip: 100.0,
        has_history=True,
    ),
    Field(
        "tflops_per_w",
        "TFLOPS/W",
        "TFLOP/s/W",
        "Achieved FLOP/s for each watt of the chips",
        ("tflops", "power_w"),
        _quotient,
        is_ratio=True,
        peak=lambda chip: chip.bf16_dense_flops.value / 1e12 / chip.power_max_w.value,
    ),
)
BY_KEY = {field.key: field for field in FIELDS}
