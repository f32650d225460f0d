"""HBM and link traffic of every cohort, and the resulting power."""

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

POWER_TENSOR = 0.74
POWER_HBM = 0.22
POWER_LINK = 0.08
POWER_OTHER = 0.06
"""Weights of activity in a chip's power: assumed. Together they are a tenth above 1, since the
maximum limits a chip with busy engines, HBM and links. Power follows the active time of the tensor
engine, not MFU: an active engine draws its power for useless FLOPs, too."""
POWER_BACKGROUND = 0.02
"""Share of the background in that range. The signal excludes it, according to the driver
(neuron_power.c)."""
POWER_IDLE = 0.0008
"""Reading of an idle chip: 0.00 to 0.02 measured on inf2 and trn1 (sysfs power/utilization)."""


AXES = ("rows", "columns", "z")
"""Quantities that the traffic of link lanes follows."""
UNUSED, UNLINKED = len(AXES), len(AXES) + 1
"""Sources of lanes without traffic, and of lanes missing on a type."""
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
            return np.array(
                [getattr(instance_type.chip, name).value for instance_type in layout.types]
            )[kind]

        self.flops = of_chip("bf16_dense_flops")
        """Dense BF16."""
        self.most_flops = np.maximum(self.flops, of_chip("fp8_dense_flops"))
        """Dense, of the quickest type."""
        self.hbm_bytes_per_s = of_chip("hbm_bytes_per_s")
        self.hbm_bytes = of_chip("hbm_bytes")
        mask = np.array([(1 << len(instance_type.lanes)) - 1 for instance_type in layout.types])[
            kind
        ]
        lanes = np.arange(LANES)
        no_lane = (mask[:, None] >> lanes & 1) == 0
        unused = (cohorts.used_lanes[:, None] >> lanes & 1) == 0
        axes = [
            [AXES.index(lane.axis) for lane in instance_type.lanes]
            for instance_type in layout.types
        ]
        axis = np.array([(numbers + [0] * LANES)[:LANES] for numbers in axes], np.intp)[kind]
        self.lane_source: NDArray[np.intp] = np.where(
            no_lane, UNLINKED, np.where(unused, UNUSED, axis)
        )
        """For each link lane, its traffic's place in `AXES`, `UNUSED` or `UNLINKED`."""
        lane_peaks = np.array([_lane_peaks(instance_type) for instance_type in layout.types])[kind]
        self.axis_bytes_per_s = np.zeros((len(kind), len(AXES)))
        """Bandwidth of the lanes of each of `AXES`, each way."""
        self._axis_share = np.zeros((len(AXES), len(kind)))
        for place in range(len(AXES)):
            follows = ~no_lane & (axis == place)
            self.axis_bytes_per_s[:, place] = np.where(follows, lane_peaks, 0.0).max(axis=1)
            used = follows & ~unused & (lane_peaks > 0)
            self._axis_share[place] = used.sum(axis=1) / np.maximum((~no_lane).sum(axis=1), 1)
        cores = np.array([instance_type.chip.neuroncores for instance_type in layout.types])
        self.neuroncores = cores[kind]
        self.background_w = of_chip("power_background_w")
        self.dynamic_w = of_chip("power_max_w") - self.background_w
        """Maximum power above the background."""

    def load(self, jobs: JobTick) -> ChipLoad:
        """Return the chips' part of their jobs' work."""
        row = self._cohorts.row
        peak = self.hbm_bytes_per_s
        activity = {
            name: jobs.average[:, number].take(row)
            for name, number in QUANTITIES.items()
            if name in _OF_CHIPS
        }
        limit = HBM_CEILING * peak
        read = activity.pop("hbm_read") * peak
        read += jobs.hbm_read_bytes_per_s[row]
        np.minimum(read, limit, out=read)
        write = np.minimum(activity.pop("hbm_write") * peak, limit - read)
        return ChipLoad(activity, read, write)

    def power_share(self, load: ChipLoad) -> NDArray[np.float64]:
        """Return power as the driver reports it: a share of the range above the background."""
        activity = load.of
        active = POWER_TENSOR * activity["tensor"]
        active += (load.hbm_read + load.hbm_write) * (POWER_HBM / self.hbm_bytes_per_s)
        for share, axis in zip(self._axis_share, AXES, strict=True):
            active += share * activity[axis] * POWER_LINK
        active += (activity["vector"] + activity["scalar"] + activity["gpsimd"]) * (
            POWER_OTHER / 3.0
        )
        active *= 1.0 / (1.0 - POWER_BACKGROUND)
        active += POWER_IDLE
        share_of_range: NDArray[np.float64] = np.minimum(active, 1.0)
        return share_of_range


def _lane_peaks(kind: InstanceType) -> list[float]:
    figures = [kind.lane_bytes_per_s(lane) for lane in range(LANES)]
    return [figure.value if figure else 0.0 for figure in figures]
