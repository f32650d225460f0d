"""Physics of chips and hosts without an engine, for jobs of constant activity."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.sim.hardware.chips import ChipPhysics
from trnfleet.sim.hardware.hosts import HostPhysics
from trnfleet.sim.hardware.thermal import NOTHING, ThrottledChips
from trnfleet.sim.jobs.activity import ACTIVITY, QUANTITIES, Phase
from trnfleet.sim.placement import Cohorts, Placement
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.sim.jobs.window import JobTick

    Row = NDArray[np.float64]

IDLE_ROW: Row = np.zeros(len(QUANTITIES))


def phase(which: Phase) -> Row:
    """Return the activity of a job staying in one phase."""
    row: Row = ACTIVITY[which].copy()
    return row


def doing(*jobs: Row, hbm_read_bytes_per_s: float = 0.0) -> JobTick:
    """Return jobs' work, one row of activity each, as read by chips and hosts."""
    rows = len(jobs) + 1
    average = np.array([*jobs, IDLE_ROW])
    busy = np.append(np.ones(len(jobs)), 0.0)
    work = SimpleNamespace(
        average=average,
        hbm_read_bytes_per_s=busy * hbm_read_bytes_per_s,
        peak_flops_share=average[:, QUANTITIES["tensor"]] * 0.5,
        flops=np.zeros(rows),
        hbm_used=busy * 0.5,
        host_memory=0.02 + 0.2 * busy,
        executions=np.arange(rows, dtype=np.uint64),
        latency_s=np.where(busy > 0, 1.0, np.nan),
        latency_tail=None,
    )
    return cast("JobTick", work)


def make_fleet(
    *on: str, instances: int = 2, ultraservers: int = 0, kind: str = "trn2.48xlarge", **rest: Any
) -> FleetFile:
    """Return a fleet with a cluster `c` and a training job on each given address."""
    cluster: dict[str, Any] = {"name": "c"}
    if instances:
        cluster["instances"] = [{"type": kind, "count": instances}]
    if ultraservers:
        cluster["ultraservers"] = [{"count": ultraservers}]
    jobs = [
        {"kind": "training", "name": f"job-{number}", "on": [path]}
        for number, path in enumerate(on)
    ]
    return validate(
        {"name": "f", "clusters": [cluster], "jobs": jobs} | rest, FleetFile, "fleet.toml"
    )


class Chips:
    """A fleet's columns, and what writes them."""

    def __init__(self, fleet: FleetFile, *, seed: int = 7, own: range | None = None) -> None:
        self.fleet = fleet
        self.layout = Layout.of(expand(fleet))
        self.cohorts = Cohorts.group(self.layout, Placement.resolve(self.layout, fleet))
        rows = {Scope.CHIP: self.layout.chips, Scope.INSTANCE: len(self.layout.instances)}
        self.columns: dict[str, NDArray[Any]] = {
            metric.name: np.zeros(
                (rows[metric.scope], metric.width) if metric.is_vector else rows[metric.scope],
                metric.dtype,
            )
            for metric in SIMULATED
        }
        self.rng = Rng(seed)
        self.inlet_delta_c = np.zeros(len(self.layout.instances), np.float32)
        self.efa_share = np.ones(len(self.layout.instances), np.float32)
        self.physics = ChipPhysics(self.layout, self.cohorts, self.columns, self.rng, fleet, own)
        self.hosts = HostPhysics(self.layout, self.cohorts, self.columns, self.rng, own)
        self._tick = 0

    def tick(
        self,
        jobs: JobTick,
        elapsed_s: float = 1.0,
        *,
        throttled: ThrottledChips = NOTHING,
        slow: dict[int, float] | None = None,
    ) -> None:
        """Write one tick.

        `slow` is the remaining share by link lane (chip row x 6 + direction).
        """
        lanes = sorted(slow or {})
        factor = np.array([(slow or {})[lane] for lane in lanes])
        patches: Any = SimpleNamespace(
            lanes=np.array(lanes, np.int64), factor=factor, limit=np.full(len(lanes), np.inf)
        )
        at_s = self._tick * elapsed_s
        self.physics.fill(self._tick, elapsed_s, jobs, patches, self.inlet_delta_c, throttled, at_s)
        self.hosts.fill(self._tick, elapsed_s, jobs, at_s, self.efa_share)
        self._tick += 1

    def value(self, name: str) -> NDArray[np.float64]:
        """Return a column in its unit."""
        return BY_NAME[name].decode(self.columns[name])
