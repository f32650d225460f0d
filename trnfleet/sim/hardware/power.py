"""HBM and link traffic of every cohort, and the power that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.sim.hardware.columns import LANES
from trnfleet.sim.jobs.activity import HBM_CEILING, QUANTITIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import InstanceType
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Cohorts

POWER_TENSOR, POWER_HBM, POWER_LINK, POWER_OTHER = 0.74, 0.22, 0.08, 0.06
"""Weights of activity in a chip's power: assumed, together a tenth more than 1, since the maximum limits a chip whose engines,
HBM and links are all busy. Power follows the time in which the tensor engine is active, not MFU: an active engine draws its
power whether the FLOPs are useful or not."""
POWER_BACKGROUND = 0.02
"""Share of the background in that range; the signal has it backed out, as the driver says (neuron_power.c)."""
POWER_IDLE = 0.0008
"""Reading of an idle chip: 0.00 to 0.02 measured on inf2 and trn1 (sysfs power/utilization)."""


AXES = ("rows", "columns", "z")
"""Quantities that the traffic of link lanes follows."""
UNUSED, UNLINKED = len(AXES), len(AXES) + 1
"""Sources of lanes that carry nothing, and of those that a type does not have."""
_OF_CHIPS = frozenset(
    {"nc", "tensor", "vector", "scalar", "gpsimd", "hbm_read", "hbm_write", *AXES}
)


class ChipLoad(NamedTuple):
    """Work of one chip of each cohort; arrays of shape (cohorts,)."""

    of: dict[str, NDArray[np.float64]]
    """Mean activity by the names of `QUANTITIES`, without HBM."""
    hbm_read: NDArray[np.float64]
    """Bytes a second."""
    hbm_write: NDArray[np.float64]


class ChipHardware:
    """Peaks of each cohort's chips; shape (cohorts, ...)."""

    def __init__(self, layout: Layout, cohorts: Cohorts) -> None:
        """Look the cohorts' types up in the hardware catalogue."""
        kind = cohorts.type_index
        self._cohorts = cohorts

        def of_chip(name: str) -> NDArray[np.float64]:
            return np.array([getattr(each.chip, name).value for each in layout.types])[kind]

        self.flops = of_chip("bf16_dense_flops")
        """Dense BF16."""
        self.most_flops = np.maximum(self.flops, of_chip("fp8_dense_flops"))
        """Dense, of the quickest type."""
        self.hbm_bytes_per_s = of_chip("hbm_bytes_per_s")
        self.hbm_bytes = of_chip("hbm_bytes")
        mask = np.array([(1 << len(each.lanes)) - 1 for each in layout.types])[kind]
        lanes = np.arange(LANES)
        no_lane = (mask[:, None] >> lanes & 1) == 0
        unused = (cohorts.used_lanes[:, None] >> lanes & 1) == 0
        axes = [[AXES.index(lane.axis) for lane in each.lanes] for each in layout.types]
        axis = np.array([(each + [0] * LANES)[:LANES] for each in axes], np.intp)[kind]
        self.lane_source: NDArray[np.intp] = np.where(
            no_lane, UNLINKED, np.where(unused, UNUSED, axis)
        )
        """For each link lane, the place in `AXES` of the quantity that its traffic follows, `UNUSED` or `UNLINKED`."""
        lane_peaks = np.array([_lane_peaks(each) for each in layout.types])[kind]
        self.axis_bytes_per_s = np.zeros((len(kind), len(AXES)))
        """Bandwidth of the lanes that follow each of `AXES`, each way."""
        self._axis_share = np.zeros((len(AXES), len(kind)))
        for place in range(len(AXES)):
            follows = ~no_lane & (axis == place)
            self.axis_bytes_per_s[:, place] = np.where(follows, lane_peaks, 0.0).max(axis=1)
            used = follows & ~unused & (lane_peaks > 0)
            self._axis_share[place] = used.sum(axis=1) / np.maximum((~no_lane).sum(axis=1), 1)
        cores = np.array([each.chip.neuroncores for each in layout.types])
        self.neuroncores = cores[kind]
        self.background_w = of_chip("power_background_w")
        self.dynamic_w = of_chip("power_max_w") - self.background_w
        """Maximum power above the background."""

    def load(self, jobs: JobTick) -> ChipLoad:
        """Return the chips' part of their jobs' work."""
        row, peak = self._cohorts.row, self.hbm_bytes_per_s
        of = {
            name: jobs.average[:, number].take(row)
            for name, number in QUANTITIES.items()
            if name in _OF_CHIPS
        }
        limit = HBM_CEILING * peak
        read = of.pop("hbm_read") * peak
        read += jobs.hbm_read_bytes_per_s[row]
        np.minimum(read, limit, out=read)
        write = np.minimum(of.pop("hbm_write") * peak, limit - read)
        return ChipLoad(of, read, write)

    def power_share(self, load: ChipLoad) -> NDArray[np.float64]:
        """Return power as the driver reports it: a share of the range above the background."""
        of = load.of
        active = POWER_TENSOR * of["tensor"]
        active += (load.hbm_read + load.hbm_write) * (POWER_HBM / self.hbm_bytes_per_s)
        for share, axis in zip(self._axis_share, AXES, strict=True):
            active += share * of[axis] * POWER_LINK
        active += (of["vector"] + of["scalar"] + of["gpsimd"]) * (POWER_OTHER / 3.0)
        active *= 1.0 / (1.0 - POWER_BACKGROUND)
        active += POWER_IDLE
        share_of_range: NDArray[np.float64] = np.minimum(active, 1.0)
        return share_of_range


def _lane_peaks(kind: InstanceType) -> list[float]:
    figures = [kind.lane_bytes_per_s(lane) for lane in range(LANES)]
    return [figure.value if figure else 0.0 for figure in figures]
