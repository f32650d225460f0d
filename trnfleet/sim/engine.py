"""The simulator's engine: a fleet file and a seed in, a tick's columns out.

Owns time in ticks and the order of a tick's parts. It is synchronous and pure but for its own state: it reads no clock
and sends nothing; the same fleet, seed and ticks give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.fleet import expand
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import METRICS, Scope
from trnfleet.errors import ConfigError
from trnfleet.sim.degradation import Degradation
from trnfleet.sim.ecc import CorrectedErrors
from trnfleet.sim.hosts import HostPhysics
from trnfleet.sim.noise import Noise
from trnfleet.sim.physics import ChipPhysics
from trnfleet.sim.placement import Cohorts, Placement, check_hardware
from trnfleet.sim.workloads import Workloads

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Tick:
    """What a step says beside the columns."""

    number: int
    """0 for the first step's tick."""
    ts_ns: int
    """Source time, nanoseconds since 1970 UTC, whole milliseconds."""
    figures: dict[str, NDArray[np.float64]]
    """The jobs' figures, by the names of `metrics.JOB_FIGURES`: shape (jobs,), NaN where one makes no sense."""
    checkpointing: NDArray[np.bool_]
    """Whether a training job spent most of the window on a checkpoint: shape (jobs,)."""


class Engine:
    """One simulated fleet.

    A tick's values are averages over the period that ends at its time; stragglers and links are slow in it if they are
    active at that time. Stepping several ticks at once gives the last one's number and the average over all.
    """

    def __init__(self, fleet: FleetFile, seed: int, period_s: float, start_ns: int) -> None:
        """Lay out the fleet and place its jobs.

        Args:
            fleet: The fleet file.
            seed: Decides all randomness; any integer.
            period_s: Simulated seconds from tick to tick.
            start_ns: Time of tick 0, nanoseconds since 1970 UTC.

        Raises:
            ConfigError: the file names what is not there, twice, or impossible; the message names key and value.
        """
        if not period_s > 0:
            raise ConfigError(f"period {period_s!r} s: must be above 0")
        self.fleet = fleet
        self.seed = seed
        self.period_s = period_s
        self.start_ns = start_ns
        try:
            self.layout = Layout.of(expand(fleet))
        except ValueError as error:
            raise ConfigError(f"fleet {fleet.name!r}: clusters: {error}") from error
        check_hardware(self.layout, fleet)
        placement = Placement.of(self.layout, fleet)
        self.job_of_instance = placement.job_of_instance
        """Index into `job_names` for each instance, -1 where it is idle; shape (instances,)."""
        self.job_names = tuple(job.name for job in fleet.jobs)
        self.columns: dict[str, NDArray[Any]] = _allocate(self.layout)
        """Wire codes of every metric of the table, rewritten in place by `step`: shape (rows,) or (rows, lanes)."""
        noise = Noise(seed)
        self._degradation = Degradation(self.layout, fleet, placement)
        self._cohorts = Cohorts.of(self.layout, placement, self._degradation.apart)
        self._workloads = Workloads(fleet, placement, noise)
        self._chips = ChipPhysics(self.layout, self._cohorts, self.columns, noise, fleet.inlet_c)
        self._hosts = HostPhysics(self.layout, self._cohorts, self.columns, noise)
        self._errors = CorrectedErrors(noise, self.layout.chip_start)
        self._next = 0

    @property
    def ticks(self) -> int:
        """The number that the next single step's tick will have."""
        return self._next

    def restart_at(self, start_ns: int) -> None:
        """Set the time of tick 0, which a live run knows only when it begins.

        Raises:
            RuntimeError: a step was made already.
        """
        if self._next:
            raise RuntimeError("the engine has already made a step")
        self.start_ns = start_ns

    def time_ns(self, tick: int) -> int:
        """Return the source time of a tick, nanoseconds since 1970 UTC, rounded to a whole millisecond."""
        exact = self.start_ns + tick * round(self.period_s * NS_PER_S)
        return (exact + _NS_PER_MS // 2) // _NS_PER_MS * _NS_PER_MS

    def step(self, ticks: int = 1) -> Tick:
        """Move on by `ticks` periods and rewrite the columns.

        Args:
            ticks: More than 1 to catch up: the ticks between are not made, but their time passes.
        """
        number = self._next + ticks - 1
        elapsed_s = ticks * self.period_s
        now_s = number * self.period_s
        changed = self._degradation.update(now_s, self._cohorts)
        paces = self._degradation.paces
        middle_ns = self.time_ns(number) - round(elapsed_s * NS_PER_S) // 2
        jobs = self._workloads.advance(elapsed_s, now_s - elapsed_s / 2.0, middle_ns, paces)
        if changed:
            self._degradation.mark(self.columns)
        self._chips.fill(number, elapsed_s, jobs, paces.cohort, self._degradation.patches(jobs))
        self._hosts.fill(number, jobs, paces.cohort)
        self._errors.add(self.columns, number, elapsed_s)
        self._next = number + 1
        return Tick(number, self.time_ns(number), jobs.figures, jobs.checkpointing)


def to_ns(moment: datetime) -> int:
    """Return a moment with a time zone as nanoseconds since 1970 UTC, such as a fleet file's `start`."""
    return round(moment.timestamp() * 1_000) * _NS_PER_MS


def _allocate(layout: Layout) -> dict[str, NDArray[Any]]:
    """Return the columns of a fleet in which nothing has happened yet."""
    rows = {Scope.CHIP: layout.chips, Scope.INSTANCE: len(layout.instances)}
    columns: dict[str, NDArray[Any]] = {}
    for metric in METRICS:
        shape = (rows[metric.scope], metric.width) if metric.is_vector else (rows[metric.scope],)
        columns[metric.name] = np.zeros(shape, metric.dtype)
    columns["links_up"][:] = layout.links_mask[layout.instance_of_chip]
    # A lane without a link says not available from the start; the others are rewritten by every tick.
    for name in ("link_tx_bytes_per_s", "link_rx_bytes_per_s"):
        columns[name][columns["links_up"][:, None] >> np.arange(6, dtype=np.uint8) & 1 == 0] = 65_535
    return columns
