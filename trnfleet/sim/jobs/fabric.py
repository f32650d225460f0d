"""The network between UltraServers: the fabric's share of the jobs' EFA bandwidth.

Owns the capacity of each UltraCluster's fabric. A job's demand is the traffic of its collectives,
known before the first tick, so that windows of any length see the same congestion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.jobs.activity import EFA_CEILING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout

FABRIC_BITS_PER_S = 10e15
"""Capacity of one network: published, 10 petabit a second ("10p10u", AWS re:Invent 2024)."""
FABRIC_INSTANCES = 3_125
"""Instances that one network carries at the full EFA rate of 3.2 Tb/s: derived. A larger cluster
has several: assumed."""


class Fabrics:
    """Fabrics of all clusters, and the jobs on them."""

    def __init__(
        self,
        fleet: FleetFile,
        layout: Layout,
        job_of_instance: NDArray[np.int32],
        burst_share: NDArray[np.float64],
        mean_share: NDArray[np.float64],
    ) -> None:
        """Sum up the demand of the jobs on each fabric.

        Args:
            fleet: The fleet file, whose clusters say what their fabric carries.
            layout: Where instances are.
            job_of_instance: For each instance its job, or -1.
            burst_share: For each job, the share of its instances' EFA bandwidth that its busiest
                phase sends; 0 where it stays within one NeuronLink domain.
            mean_share: The same, as a mean over its steps.
        """
        jobs = len(fleet.jobs)
        clusters = len(fleet.clusters)
        number = {cluster.name: place for place, cluster in enumerate(fleet.clusters)}
        cluster = np.array([number[path.partition("/")[0]] for path in layout.instances], np.intp)
        efa = np.array([kind.efa_bytes_per_s.value for kind in layout.types])[layout.instance_type]
        placed = np.flatnonzero(job_of_instance >= 0)
        pair = job_of_instance[placed].astype(np.int64) * clusters + cluster[placed]
        peak = np.bincount(pair, weights=efa[placed], minlength=jobs * clusters)
        pairs = np.flatnonzero(peak)
        self._job, self._cluster = np.divmod(pairs, max(clusters, 1))
        self._need = burst_share / EFA_CEILING
        self._burst = peak[pairs] * burst_share[self._job]
        self._mean = peak[pairs] * mean_share[self._job]
        self._capacity = _capacity(fleet, np.bincount(cluster, minlength=clusters))
        self._jobs = jobs
        self._running: NDArray[np.bool_] | None = None
        self._pace = np.ones(jobs)

    def pace(self, running: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return, for each job, the fabric's share of its instances' reachable EFA bandwidth.

        A fabric must carry the mean of all its jobs, and in addition the largest burst of any one.
        If it cannot, the EFA phases of all its jobs slow by the same factor. A job in several
        clusters runs at the slowest one's pace.

        Args:
            running: Jobs that ask for anything at present; shape (jobs,).
        """
        if self._running is None or not np.array_equal(running, self._running):
            self._running = running.copy()
            self._pace = self._share(running)
        return self._pace

    def _share(self, running: NDArray[np.bool_]) -> NDArray[np.float64]:
        pace = np.ones(self._jobs)
        asks = running[self._job]
        mean = np.where(asks, self._mean, 0.0)
        burst = np.where(asks, self._burst, 0.0)
        usual = np.bincount(self._cluster, weights=mean, minlength=len(self._capacity))
        more = np.zeros(len(self._capacity))
        np.maximum.at(more, self._cluster, burst - mean)
        demand: NDArray[np.float64] = usual + more
        carried = np.where(
            demand > self._capacity, self._capacity / np.where(demand > 0, demand, 1.0), 1.0
        )
        np.minimum.at(pace, self._job, carried[self._cluster])
        # A job whose busiest phase sends less than an instance can has room before it slows.
        return np.where(pace < 1.0, pace * self._need, 1.0)


def _capacity(fleet: FleetFile, instances: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the capacity of each cluster's fabric, bytes per second."""
    shares: Sequence[float] = [
        cluster.fabric_bits_per_s or FABRIC_BITS_PER_S * -(-int(count) // FABRIC_INSTANCES)
        for cluster, count in zip(fleet.clusters, instances, strict=True)
    ]
    return np.array(shares) / 8.0
