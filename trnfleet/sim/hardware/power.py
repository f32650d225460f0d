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


class ChipLoad(NamedTuple):
    """Work of one chip of each cohort; shape (cohorts, ...)."""

    activity: NDArray[np.float64]
    """Mean activity, columns as in `activity.QUANTITIES`."""
    hbm_read: NDArray[np.float64]
    """Bytes a second."""
    hbm_write: NDArray[np.float64]
    links: NDArray[np.float64]
    """Bytes a second sent on each link lane, 0 where there is no link."""

    def mean(self, name: str) -> NDArray[np.float64]:
        """Return one column of the activity."""
        return self.activity[:, QUANTITIES[name]]


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
        self.link_bytes_per_s = np.array([_lane_peaks(each) for each in layout.types])[kind]
        """Of each link lane, each way; 0 where the type has no such lane."""
        mask = np.array([(1 << len(each.lanes)) - 1 for each in layout.types])[kind]
        lanes = np.arange(LANES)
        self.no_link: NDArray[np.bool_] = (mask[:, None] >> lanes & 1) == 0
        """Whether the type has no such lane."""
        self._unused: NDArray[np.bool_] = (cohorts.used_lanes[:, None] >> lanes & 1) == 0
        axes = [[QUANTITIES[lane.axis] for lane in each.lanes] for each in layout.types]
        padded = [(each + [QUANTITIES["rows"]] * LANES)[:LANES] for each in axes]
        self._axis = np.array(padded, np.intp)[kind]
        """Quantity that each lane's traffic follows."""
        cores = np.array([each.chip.neuroncores for each in layout.types])
        self.neuroncores = cores[kind]
        self.background_w = of_chip("power_background_w")
        self.dynamic_w = of_chip("power_max_w") - self.background_w
        """Maximum power above the background."""
        self._links = np.maximum((~self.no_link).sum(axis=1), 1)
        self._link_divisor = np.where(self.link_bytes_per_s > 0, self.link_bytes_per_s, 1.0)

    def load(self, jobs: JobTick) -> ChipLoad:
        """Return the chips' part of their jobs' work."""
        row = self._cohorts.row
        activity = jobs.average[row]
        read_share, write_share = activity[:, QUANTITIES["hbm_read"]], activity[:, QUANTITIES["hbm_write"]]
        peak = self.hbm_bytes_per_s
        limit = HBM_CEILING * peak
        read = np.minimum(read_share * peak + jobs.hbm_read_bytes_per_s[row], limit)
        write = np.minimum(write_share * peak, limit - read)
        links = np.take_along_axis(activity, self._axis, axis=1) * self.link_bytes_per_s
        links[self._unused] = 0.0
        return ChipLoad(activity, read, write, links)

    def power_share(self, load: ChipLoad) -> NDArray[np.float64]:
        """Return power as the driver reports it: a share of the range above the background."""
        link_share = (load.links / self._link_divisor).sum(axis=1) / self._links
        active = (
            POWER_TENSOR * load.mean("tensor")
            + POWER_HBM * (load.hbm_read + load.hbm_write) / self.hbm_bytes_per_s
            + POWER_LINK * link_share
            + POWER_OTHER * (load.mean("vector") + load.mean("scalar") + load.mean("gpsimd")) / 3.0
        )
        share: NDArray[np.float64] = np.minimum(active / (1.0 - POWER_BACKGROUND) + POWER_IDLE, 1.0)
        return share


def _lane_peaks(kind: InstanceType) -> list[float]:
    figures = [kind.lane_bytes_per_s(lane) for lane in range(LANES)]
    return [figure.value if figure else 0.0 for figure in figures]
