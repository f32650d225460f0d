"""Options about a simulation for `demo` and `simulate`: fleet, scenario, seed and times."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from trnfleet.cli.options import CommandT, given_on_command_line, setting, with_options
from trnfleet.cli.params import Duration, Instant, PositiveNumber, ShippedName
from trnfleet.domain.durations import DAY_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trnfleet.services.simulator.head import FleetHead
    from trnfleet.services.simulator.run import Run


class RunOptions(NamedTuple):
    """Options about a simulation."""

    fleet: str
    """Name or file."""
    scenario: str | None
    """Name or file. It sets all options not `given`."""
    seed: int
    period_s: float
    speed: float
    start: datetime | None
    random_faults: bool | None
    """Whether faults come at random. None to follow the files."""
    given: frozenset[str]
    """Parameters on the command line itself."""

    def load(self) -> Run:
        """Return the run, reading fleet file and scenario.

        Raises:
            ConfigError: a file is not there or invalid.
        """
        from trnfleet.services.simulator.run import load_run  # noqa: PLC0415  it loads pydantic

        return load_run(
            self.given,
            fleet=self.fleet,
            scenario=self.scenario,
            seed=self.seed,
            period_s=self.period_s,
            speed=self.speed,
            start=self.start,
            random_faults=self.random_faults,
        )

    def head(self) -> FleetHead:
        """Return name, PUE and caps of the run's fleet, after validating all unshipped files.

        Raises:
            ConfigError: a file does not exist or is invalid.
        """
        from trnfleet.services.simulator.head import (  # noqa: PLC0415  as above
            FleetHead,
            shipped_head,
        )

        head = shipped_head(self.fleet) if self.scenario is None else None
        if head is None:
            fleet = self.load().fleet
            head = FleetHead(fleet.name, fleet.pue, (*fleet.power_caps_w.items(),))
        return head

    def arguments(self) -> list[str]:
        """Return the same options as arguments of another process.

        A scenario sets the same ones there.
        """
        values = {
            "fleet": self.fleet,
            "seed": str(self.seed),
            "period": f"{self.period_s}s",
            "speed": str(self.speed),
            "start": None if self.start is None else self.start.isoformat(),
        }
        arguments = [] if self.scenario is None else ["--scenario", self.scenario]
        for option, value in values.items():
            if value is not None and (self.scenario is None or option in self.given):
                arguments += [f"--{option}", value]
        if self.random_faults is not None and (
            self.scenario is None or "random_faults" in self.given
        ):
            arguments.append("--random-faults" if self.random_faults else "--no-random-faults")
        return arguments


_RUN_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    setting(
        "--fleet",
        type=ShippedName("fleets"),
        default="demo",
        metavar="NAME|FILE",
        help="Name of a shipped fleet, or a fleet file.",
    ),
    setting(
        "--scenario",
        type=ShippedName("scenarios"),
        metavar="NAME|FILE",
        help="Play a script of faults: a shipped scenario, such as game-day, or a scenario file.",
    ),
    setting(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=7,
        help="Seed of random numbers; the same seed gives the same telemetry.",
    ),
    setting(
        "--period",
        type=Duration(DAY_S, least_s=0.001),
        default="1s",
        help="Wall time between two ticks.",
    ),
    setting(
        "--speed",
        type=PositiveNumber(1e6, least=1e-3),
        default=1.0,
        help="Simulated seconds per second.",
    ),
    setting(
        "--start",
        type=Instant(),
        help="Simulated start time, such as 2026-01-05T09:00:00Z; by default now.",
    ),
    setting(
        "--random-faults/--no-random-faults",
        default=None,
        help=(
            "Add random faults at the file's or published rates. By default the files decide, or"
            " fleets from 10,000 chips on have them."
        ),
    ),
)


def run_options(command: CommandT) -> CommandT:
    """Add the options about a simulation.

    The command gets `run: RunOptions`.
    """

    @functools.wraps(command)
    def with_run(
        *args: Any,
        fleet: str,
        scenario: str | None,
        seed: int,
        period: float,
        speed: float,
        start: datetime | None,
        random_faults: bool | None,
        **others: Any,
    ) -> Any:
        given = frozenset(given_on_command_line(click.get_current_context()))
        run = RunOptions(fleet, scenario, seed, period, speed, start, random_faults, given)
        return command(*args, run=run, **others)

    return with_options(with_run, _RUN_OPTIONS)  # type: ignore[return-value]  # click reads its parameters, not its signature
