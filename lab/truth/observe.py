"""Telemetry of a simulated fleet's jobs over time, decoded from the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.fleet import FleetFile, Rates
from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.sim.engine import Engine, to_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.scenario import Scenario

SUMMED = (
    "tflops",
    "hbm_read_bytes_per_s",
    "hbm_write_bytes_per_s",
    "hbm_used_bytes",
    "link_tx_bytes_per_s",
    "power_w",
    "efa_tx_bytes_per_s",
    "host_power_w",
)
"""Metrics summed over the chips or instances of each job."""


@dataclass(frozen=True, slots=True)
class JobSeries:
    """One job's telemetry; arrays of shape (ticks,)."""

    number: int
    """In the fleet file's order."""
    name: str
    chips: int
    instances: int
    period_s: float
    figures: dict[str, NDArray[np.float64]]
    """Figures of the job's message, NaN where one makes no sense."""
    sums: dict[str, NDArray[np.float64]]
    """Sums over the job's chips (over its instances for host metrics), in the metrics' units."""

    def mean(self, name: str) -> float:
        """Return the mean over time of a sum or figure, over existing values."""
        return float(np.nanmean(self.sums[name] if name in self.sums else self.figures[name]))


@dataclass(frozen=True, slots=True)
class Observation:
    """Telemetry of a fleet over a time."""

    fleet: FleetFile
    engine: Engine
    jobs: list[JobSeries]
    chip_power_w: NDArray[np.float32]
    """Power by chip and tick, shape (ticks, chips). Without ticks if not requested."""
    chip_tflops: NDArray[np.float32]


def observe(
    fleet: FleetFile,
    seconds: float,
    *,
    seed: int = 7,
    period_s: float = 1.0,
    scenario: Scenario | None = None,
    keep_chips: bool = False,
) -> Observation:
    """Simulate a fleet without failures and return its telemetry after the first tick.

    Slow parts of the fleet file and faults at random are left out.

    Args:
        fleet: The fleet file.
        seconds: Simulated time.
        seed: Of the run.
        period_s: Length of a tick; longer ones average.
        scenario: Faults, where a report is about them.
        keep_chips: Whether to keep power and FLOP/s of every chip, 8 bytes a chip and tick.
    """
    parts = {"stragglers": (), "links": (), "rates": Rates(acceleration=0.0)}
    healthy = fleet.model_copy(update=parts) if scenario is None else fleet
    engine = Engine(healthy, seed, period_s, to_ns(fleet.start), scenario=scenario)
    ticks = round(seconds / period_s)
    owner = engine.job_of_instance
    names = engine.job_names
    sums = {name: np.zeros((ticks, len(names))) for name in SUMMED}
    figures: dict[str, list[NDArray[np.float64]]] = {}
    kept = ticks if keep_chips else 0
    power, tflops = (np.zeros((kept, engine.layout.chips), np.float32) for _ in range(2))
    engine.step()
    for tick in range(ticks):
        step = engine.step()
        for name in SUMMED:
            sums[name][tick] = _by_job(engine, name, owner, len(names))
        for name, values in step.figures.items():
            figures.setdefault(name, []).append(values)
        if keep_chips:
            power[tick] = BY_NAME["power_w"].decode(engine.columns["power_w"])
            tflops[tick] = BY_NAME["tflops"].decode(engine.columns["tflops"])
    by_name = {name: np.array(values) for name, values in figures.items()}
    sizes = np.diff(engine.layout.chip_start)
    jobs = [
        JobSeries(
            number,
            name,
            int(sizes[owner == number].sum()),
            int((owner == number).sum()),
            period_s,
            {key: values[:, number] for key, values in by_name.items()},
            {key: values[:, number] for key, values in sums.items()},
        )
        for number, name in enumerate(names)
    ]
    return Observation(healthy, engine, jobs, power, tflops)


def _by_job(engine: Engine, name: str, owner: NDArray[np.int32], jobs: int) -> NDArray[np.float64]:
    metric = BY_NAME[name]
    codes = engine.columns[name]
    known = np.where(codes == metric.top, 0, codes).astype(np.float64)
    of_row: NDArray[np.float64] = known.reshape(len(known), -1).sum(axis=1)
    if metric.scope is Scope.CHIP:
        owner = owner[engine.layout.instance_of_chip]
    runs = owner >= 0
    return (
        np.asarray(np.bincount(owner[runs], weights=of_row[runs], minlength=jobs), np.float64)
        * metric.scale
    )
