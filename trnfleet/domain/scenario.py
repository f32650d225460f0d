"""Scenario files: faults with times, changes of load, and the intended fleet and time.

The file is TOML; these are its models. `targets` resolves addresses, because they depend on the
fleet.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from trnfleet.domain.faults.fault import check_use
from trnfleet.domain.faults.table import find_fault
from trnfleet.domain.fleet import FaultName, Rates  # noqa: TC001  pydantic reads the types
from trnfleet.domain.schema import Duration, Instant, Model, Positive, Segment
from trnfleet.errors import ConfigError, nearest

MOST_REPEATS = 10_000
"""Times that one entry may come."""


def _zoned(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class FaultEntry(Model):
    """A fault, once or repeated."""

    fault: FaultName
    """Its name in the table of faults."""
    target: str
    """An address with `*`, a range, `random(N)`, `random(N) of PATTERN`. A link has its direction
    after a colon."""
    id: Segment | None = None
    """Name for `after`."""
    at: Instant | None = None
    """Start in seconds after the simulation's."""
    after: Segment | None = None
    """Entry to follow; it starts after that entry's (first) start."""
    delay: Instant = 0.0
    """Seconds from there."""
    every: Annotated[Duration, Field(ge=1.0)] | None = None
    """Seconds between two times, at least 1: a jump over a day creates them all."""
    times: Annotated[int, Field(ge=1, le=MOST_REPEATS)] | None = None
    """Number of times; without end if only `every` is set."""
    lasts_s: Annotated[Duration | None, Field(alias="for")] = None
    """Duration, recovery included. The steps of a recovery shrink or grow accordingly."""
    magnitude: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """In the fault's own unit."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.at is None) == (self.after is None):
            raise ValueError("give either at or after")
        if self.delay and self.after is None:
            raise ValueError("delay goes with after")
        if self.times is not None and self.every is None:
            raise ValueError("times goes with every")
        try:
            check_use(find_fault(self.fault), self.lasts_s, self.magnitude)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class LoadEntry(Model):
    """A change of an inference job's load."""

    job: Segment
    at: Instant
    lasts_s: Annotated[Duration, Field(alias="for")]
    factor: Positive
    """Multiplies the job's load."""


class Scenario(Model):
    """A scenario file; command-line options override it."""

    title: str = ""
    fleet: str | None = None
    """A shipped fleet's name, or a fleet file beside this one."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    start: Annotated[datetime, AfterValidator(_zoned)] | None = None
    """Simulated time of the start."""
    speed: Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)] | None = None
    """Simulated seconds a second."""
    period_s: Annotated[Duration | None, Field(alias="period")] = None
    """Wall time from tick to tick."""
    keeps_faults: bool = False
    """Whether stragglers, links and rates of the fleet file stay. Otherwise a scenario starts with
    a healthy fleet."""
    faults: tuple[FaultEntry, ...] = ()
    loads: tuple[LoadEntry, ...] = ()
    rates: Rates | None = None
    """Instead of the fleet's."""

    @model_validator(mode="after")
    def _linked(self) -> Self:
        self.begins()
        return self

    def begins(self) -> list[float]:
        """Return the first begin of each fault, seconds after the start.

        Raises:
            ValueError: an entry comes after one that is not there, or after itself.
        """
        named: dict[str, FaultEntry] = {}
        for entry in self.faults:
            if entry.id is None:
                continue
            if entry.id in named:
                raise ValueError(f"faults: duplicate id {entry.id!r}")
            named[entry.id] = entry

        known: dict[str, float] = {}
        """Start times of entries with ids, for entries that come after them."""

        def begin(entry: FaultEntry) -> float:
            behind: list[FaultEntry] = []
            passed: set[str] = set()
            while entry.after is not None and entry.after not in known:
                if entry.after not in named:
                    raise ValueError(
                        f"faults: no entry has the id {entry.after!r}:"
                        f" {nearest(entry.after, named)}"
                    )
                if entry.after in passed:
                    raise ValueError(f"faults: {entry.after!r} comes after itself")
                passed.add(entry.after)
                behind.append(entry)
                entry = named[entry.after]
            at_s = (entry.at or 0.0) if entry.after is None else known[entry.after] + entry.delay
            while behind:
                following = behind.pop()
                if following.after is not None:
                    known[following.after] = at_s
                at_s += following.delay
            return at_s

        return [begin(entry) for entry in self.faults]
