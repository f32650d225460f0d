"""What a simulation is made of: fleet file, scenario, traces, seed and time, from options and files; the command wins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
from click.core import ParameterSource

from trnfleet.domain.faults import FAULTS
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from trnfleet.clock import Clock
    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.scenario import Scenario
    from trnfleet.sim.engine import Engine
    from trnfleet.sim.publish.faulty_publisher import FaultyPublisher, TransportFault
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import InterruptiblePublisher

LEFT_TO_SCENARIOS = frozenset({"fleet", "seed", "period", "speed", "start"})
"""Options that a scenario decides about unless they stand on the command line."""
KINDS = ("telemetry", "events", "jobs", "reservations")


class Instant(click.ParamType[datetime]):
    """An instant such as `2026-01-05T09:00:00Z`; a date alone means its midnight, UTC."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the instant with its time zone."""
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not an instant; write it as 2026-01-05T09:00:00Z", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if not 1970 < moment.year < 2200:
            self.fail(f"{value!r} is not in the years 1971 to 2199", param, ctx)
        return moment


class Above(click.ParamType[float]):
    """A number above zero, from one limit to another."""

    name = "number"

    def __init__(self, most: float, least: float = 0.0) -> None:
        self._most, self._least = most, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not (0.0 < number <= self._most and number >= self._least):
            least = f"at least {self._least:g}" if self._least else "above 0"
            self.fail(f"{value!r} is not {least} and at most {self._most:,.0f}", param, ctx)
        return number


class Part(click.ParamType[tuple[int, int]]):
    """A part of how many, such as `2/8`."""

    name = "k/n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the number and the count."""
        if isinstance(value, tuple):
            return value
        number, slash, count = str(value).partition("/")
        if not (slash and number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
            self.fail(f"{value!r} is not a part such as 2/8", param, ctx)
        if not 1 <= int(number) <= int(count) <= 100_000:
            self.fail(f"{value!r}: the part is 1 to the count, and the count at most 100000", param, ctx)
        return int(number), int(count)


class Kinds(click.ParamType[tuple[str, ...]]):
    """Kinds of lines with commas between them."""

    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the kinds."""
        chosen = tuple(value) if isinstance(value, (tuple, list)) else tuple(str(value).split(","))
        for kind in chosen:
            if kind not in KINDS:
                self.fail(f"{kind!r} is no kind of line: {nearest(kind, KINDS)}", param, ctx)
        return chosen


class Destination(NamedTuple):
    """Where a simulator publishes, and as whom."""

    url: BrokerUrl
    client_id: str
    root: str
    password: Password | None
    protocol: Literal["5", "3.1.1"] | None


@dataclass(frozen=True, slots=True)
class Run:
    """A simulation, ready to be made."""

    file: Path
    """The fleet's file."""
    fleet: FleetFile
    scenario_file: Path | None
    scenario: Scenario | None
    seed: int
    period_s: float
    """Wall seconds from tick to tick."""
    speed: float
    """Simulated seconds a second of the wall clock."""
    start: datetime | None
    """When the simulation begins, where that is not the moment at which it is started."""

    def transport_faults(self) -> list[TransportFault]:
        """Return what the scenario does to messages on their way.

        Raises:
            ConfigError: an entry is impossible; the message names its key.
        """
        from trnfleet.sim.publish.faulty_publisher import TransportFault  # noqa: PLC0415  --help stays quick

        if self.scenario is None:
            return []
        faults: list[TransportFault] = []
        for number, (entry, begin_s) in enumerate(
            zip(self.scenario.faults, self.scenario.begins(), strict=True)
        ):
            if not FAULTS[entry.fault].is_transport:
                continue
            key = f"{self.scenario_file}: faults[{number}]"
            if entry.every is not None and entry.times is None:
                raise ConfigError(
                    f"{key}.times: a fault of the way to the broker that repeats needs a number of times"
                )
            try:
                faults += (
                    TransportFault.of(
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


def unreliable(publisher: InterruptiblePublisher, run: Run, engine: Engine, clock: Clock) -> FaultyPublisher:
    """Return a publisher behind which messages suffer what the run's scenario does to them on their way.

    Raises:
        ConfigError: an entry of the scenario is impossible; the message names its key.
    """
    from trnfleet.sim.publish.faulty_publisher import FaultyPublisher  # noqa: PLC0415  --help stays quick

    return FaultyPublisher(
        publisher,
        run.transport_faults(),
        clock=clock,
        rng=engine.rng,
        now_s=lambda: engine.now_s,
        speed=run.speed,
    )


def given_on_command_line(ctx: click.Context) -> set[str]:
    """Return the options that stand on the command line itself: a scenario yields to them and to nothing else."""
    return {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def load_run(
    given: Collection[str],
    *,
    fleet: str,
    scenario: str | None,
    seed: int,
    period_s: float,
    speed: float,
    start: datetime | None,
) -> Run:
    """Read the files that options name.

    Args:
        given: Names of the options on the command line; a scenario decides about the others.
        fleet: Name or file; the scenario's own if not given.
        scenario: Name or file.
        seed: Of all randomness.
        period_s: Wall seconds from tick to tick.
        speed: Simulated seconds a second.
        start: Simulated time of the start.

    Raises:
        ConfigError: a file is not there or invalid.
    """
    from trnfleet.config import find_file, load_model  # noqa: PLC0415  --help stays quick
    from trnfleet.domain.fleet import FleetFile  # noqa: PLC0415  --help stays quick

    scenario_file, play = None, None
    if scenario is not None:
        from trnfleet.domain.scenario import Scenario  # noqa: PLC0415  most runs have none

        scenario_file = find_file("scenarios", scenario)
        play = load_model(scenario_file, Scenario)
        if "fleet" not in given and play.fleet is not None:
            fleet = _beside(scenario_file, play.fleet)
        seed = play.seed if "seed" not in given and play.seed is not None else seed
        period_s = play.period_s if "period" not in given and play.period_s is not None else period_s
        speed = play.speed if "speed" not in given and play.speed is not None else speed
        start = play.start if "start" not in given and play.start is not None else start
    file = find_file("fleets", fleet)
    model = load_model(file, FleetFile)
    if play is not None and not play.keeps_faults:
        model = model.model_copy(update={"stragglers": (), "links": ()})
    return Run(file, model, scenario_file, play, seed, period_s, speed, start)


def make_engine(run: Run, fleet: FleetFile, shard: tuple[int, int] = (1, 1)) -> Engine:
    """Return the engine of a run; `fleet` is the run's with what other options change.

    Raises:
        ConfigError: fleet file, scenario or a trace ask for what cannot be; the message names the file.
    """
    from trnfleet.sim.engine import Engine, to_ns  # noqa: PLC0415  --help stays quick
    from trnfleet.sim.jobs.traces import load_traces  # noqa: PLC0415  --help stays quick
    from trnfleet.sim.sharding import Shard  # noqa: PLC0415  --help stays quick

    traces = load_traces(fleet, run.file.parent)
    try:
        return Engine(
            fleet,
            run.seed,
            run.period_s * run.speed,
            to_ns(run.start or fleet.start),
            scenario=run.scenario,
            traces=traces,
            shard=Shard(*shard),
        )
    except ConfigError as error:
        files = run.file if run.scenario_file is None else f"{run.scenario_file} with {run.file}"
        raise ConfigError(f"{files}: {error}") from error


def _beside(scenario: Path, fleet: str) -> str:
    """Return a fleet's name, or its path seen from the scenario's folder."""
    return str(scenario.parent / fleet) if fleet.endswith(".toml") or "/" in fleet else fleet
