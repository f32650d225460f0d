"""The engine of a run, and its faults of the transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.bridge.neuron.utilisation import read_utilisation
from trnfleet.config import shipped_folder
from trnfleet.domain.faults.table import FAULTS
from trnfleet.errors import ConfigError
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs.traces import load_traces
from trnfleet.sim.publish.faulty_publisher import FaultyPublisher, TransportFault
from trnfleet.sim.sharding import WHOLE, Shard

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.services.simulator.run import Run
    from trnfleet.wire.ports import InterruptiblePublisher


def transport_faults(run: Run) -> list[TransportFault]:
    """Return the scenario's faults of the transport.

    Raises:
        ConfigError: an entry is impossible; the message names its key.
    """
    if run.scenario is None:
        return []
    faults: list[TransportFault] = []
    for number, (entry, begin_s) in enumerate(
        zip(run.scenario.faults, run.scenario.begins(), strict=True)
    ):
        if not FAULTS[entry.fault].is_transport:
            continue
        key = f"{run.scenario_file}: faults[{number}]"
        if entry.every is not None and entry.times is None:
            raise ConfigError(
                f"{key}.times: a fault of the way to the broker that repeats needs a number of"
                " times"
            )
        try:
            faults += (
                TransportFault.from_row(
                    entry.fault,
                    entry.target,
                    begin_s + time * (entry.every or 0.0),
                    lasts_s=entry.lasts_s,
                    magnitude=entry.magnitude,
                )
                for time in range(entry.times or 1)
            )
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
    return faults


def unreliable(
    publisher: InterruptiblePublisher, run: Run, engine: Engine, clock: Clock
) -> FaultyPublisher:
    """Return a publisher that applies the scenario's faults of the transport.

    Raises:
        ConfigError: an entry of the scenario is impossible; the message names its key.
    """
    return FaultyPublisher(
        publisher,
        transport_faults(run),
        clock=clock,
        rng=engine.rng,
        now_s=lambda: engine.now_s,
        speed=run.speed,
    )


def make_engine(
    run: Run, fleet: FleetFile, shard: tuple[int, int] = WHOLE, *, lead_in: int = 0
) -> Engine:
    """Return the engine of a run.

    Args:
        run: The run.
        fleet: Its fleet, with what other options change.
        shard: Part K of N to publish.
        lead_in: Ticks before tick 0.

    Raises:
        ConfigError: fleet file, scenario or a trace is impossible; the message names the file.
    """
    traces = load_traces(fleet, run.file.parent, read_utilisation)
    try:
        return Engine(
            fleet,
            run.seed,
            run.period_s * run.speed,
            to_ns(run.start or fleet.start),
            scenario=run.scenario,
            traces=traces,
            shard=Shard(*shard),
            lead_in=lead_in,
        )
    except ConfigError as error:
        if run.scenario_file is None:
            raise ConfigError(f"{run.file}: {error}") from error
        is_shipped = run.file.parent == shipped_folder("fleets")
        fleet_named = run.file.stem if is_shipped else run.file
        raise ConfigError(f"{run.scenario_file}: with the fleet {fleet_named}: {error}") from error
