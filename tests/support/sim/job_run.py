"""A fleet's jobs without its chips.

Windows have any length, the test sets paces, and power is without noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.layout import Layout
from trnfleet.sim.hardware.chips import ChipHardware
from trnfleet.sim.jobs.activity import QUANTITIES, Phase
from trnfleet.sim.jobs.slowdown import Halt, Slowdowns
from trnfleet.sim.jobs.workloads import Workloads
from trnfleet.sim.placement import Cohorts, Placement
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.sim.jobs.traces import Trace
    from trnfleet.sim.jobs.window import JobTick

_DAY_NS = 86_400 * 10**9


def fleet_of(
    *jobs: dict[str, Any], instances: int = 2, ultraservers: int = 0, **cluster: Any
) -> FleetFile:
    """Return a fleet `f` with a cluster `c` of trn2.48xlarge and UltraServers."""
    parts: dict[str, Any] = {"name": "c"} | cluster
    if instances:
        parts["instances"] = [{"type": "trn2.48xlarge", "count": instances}]
    if ultraservers:
        parts["ultraservers"] = [{"count": ultraservers}]
    return validate({"name": "f", "clusters": [parts], "jobs": list(jobs)}, FleetFile, "fleet.toml")


class JobRun:
    """Jobs and their clock, starting at midnight UTC."""

    def __init__(
        self, fleet: FleetFile, seed: int = 4, traces: Mapping[str, Trace] | None = None
    ) -> None:
        layout = Layout.of(expand(fleet))
        self.placement = placement = Placement.resolve(layout, fleet)
        cohorts = Cohorts.group(layout, placement)
        self.workloads = Workloads(fleet, placement, Rng(seed), traces or {}, layout=layout)
        self.slowdowns = Slowdowns.healthy(len(fleet.jobs), placement.replicas)
        self.names = [job.name for job in fleet.jobs]
        self.now_s = 0.0
        self.instances = np.bincount(placement.job_of_instance[placement.job_of_instance >= 0])
        self._cohorts = cohorts
        self._hardware = ChipHardware(layout, cohorts)

    def advance(self, elapsed_s: float = 1.0) -> JobTick:
        """Move on by one window."""
        middle_s = self.now_s + elapsed_s / 2.0
        self.now_s += elapsed_s
        return self.workloads.advance(
            elapsed_s, middle_s, 20_000 * _DAY_NS + round(middle_s * 1e9), self.slowdowns
        )

    def until(self, end_s: float, elapsed_s: float = 1.0) -> list[JobTick]:
        """Move on in windows of a length until `end_s`."""
        return [self.advance(elapsed_s) for _ in range(round((end_s - self.now_s) / elapsed_s))]

    def halt(self, halt: Halt, job: int = 0) -> None:
        """Halt a job, or let it go on."""
        self.slowdowns.halt[job] = halt

    def power_share(self, tick: JobTick) -> NDArray[np.float64]:
        """Return each job's power as a share of the range above the background.

        It is the mean of its kinds of instances.
        """
        return np.array(
            [self.alike_share(tick, number).mean() for number in range(len(self.names))]
        )

    def alike_share(self, tick: JobTick, job: int) -> NDArray[np.float64]:
        """Return the same for each set of equal instances of a job."""
        share = self._hardware.power_share(self._hardware.load(tick))
        alike: NDArray[np.float64] = share[self._cohorts.job == job]
        return alike

    def chip_w(self, tick: JobTick) -> NDArray[np.float64]:
        """Return the power of a Trainium2 chip of each job, watts."""
        return 90.0 + 410.0 * self.power_share(tick)


def state(tick: JobTick, job: int = 0) -> str:
    """Return the name of a job's state."""
    return JOB_STATES[int(tick.states[job])]


def figure(tick: JobTick, name: str, job: int = 0) -> float:
    """Return one of a job's figures."""
    return float(tick.figures[name][job])


def mean(tick: JobTick, quantity: str, job: int = 0) -> float:
    """Return a mean activity of a job."""
    return float(tick.average[job, QUANTITIES[quantity]])


def share(tick: JobTick, phase: Phase, job: int = 0) -> float:
    """Return a job's share of a window spent in a phase."""
    return float(tick.time[job, phase])
