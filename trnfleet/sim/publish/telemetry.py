"""JSON of the engine's columns: an instance's object, then its chips'.

The same for a broker and for stdout.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING

from trnfleet.domain.fleet import Publishing
from trnfleet.sim.placement import IDLE
from trnfleet.sim.publish.partition import partition
from trnfleet.sim.publish.state import Boots, event_message, job_status
from trnfleet.sim.reservations.messages import reservation_message
from trnfleet.sim.sharding import owns
from trnfleet.wire.eventbridge import encode_eventbridge
from trnfleet.wire.messages import EventMessage, JobMessage, encode_message
from trnfleet.wire.telemetry import Head, dump, encode_chips, encode_instance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trnfleet.sim.engine import Engine, Tick
    from trnfleet.wire.reservations import ReservationMessage


class Include(enum.StrEnum):
    """Kinds of lines."""

    TELEMETRY = "telemetry"
    EVENTS = "events"
    JOBS = "jobs"
    RESERVATIONS = "reservations"
    EVENTBRIDGE = "eventbridge"
    """EC2's events as EventBridge delivers them."""


def encode_samples(engine: Engine, head: Head, instance: int) -> Iterator[tuple[str, bytes]]:
    """Yield (address, JSON) of an instance and of each of its chips.

    From the present columns; empty for a silent instance.
    """
    if engine.silent[instance]:
        return
    layout = engine.layout
    path = layout.instances[instance]
    number = int(engine.job_of_instance[instance])
    job = None if number == IDLE else engine.job_names[number]
    yield path, dump(encode_instance(head, path, job, engine.columns, instance))
    rows = slice(int(layout.chip_start[instance]), int(layout.chip_start[instance + 1]))
    for address, sample in encode_chips(head, path, job, engine.columns, rows):
        yield address, dump(sample)


class ShardMessages:
    """Messages of a shard beside telemetry.

    Events belong to the shard of their address, jobs to that of their first one.
    """

    def __init__(self, engine: Engine, boot: str) -> None:
        self._engine = engine
        self._boot = boot
        self._events = 0
        layout = engine.layout
        own = engine.own
        self.jobs = [
            number
            for number, job in enumerate(engine.fleet.jobs)
            if own and owns(layout, own, job.on[0].partition("..")[0])
        ]
        """Numbers of the jobs that it publishes."""

    def events(self, tick: Tick) -> Iterator[EventMessage]:
        """Yield a tick's events; call it for every tick, since every shard counts all."""
        for event in tick.events:
            self._events += 1
            if owns(self._engine.layout, self._engine.own, event.path):
                yield event_message(self._engine, event, self._events, self._boot)

    def pass_over(self, tick: Tick) -> None:
        """Count a tick's events without publishing them."""
        self._events += len(tick.events)

    def reservations(self, tick: Tick) -> Iterator[ReservationMessage]:
        """Yield the changes of Capacity Blocks in a tick, in order."""
        account = self._engine.account
        for allocation in tick.allocations:
            message = reservation_message(
                account, allocation.block, allocation.launched, self._boot
            )
            if self._owns(message):
                yield message

    def all_reservations(self) -> Iterator[ReservationMessage]:
        """Yield the present state of every Capacity Block."""
        account = self._engine.account
        for block in account.blocks:
            message = reservation_message(account, block, account.launched(block), self._boot)
            if self._owns(message):
                yield message

    def _owns(self, message: ReservationMessage) -> bool:
        return owns(self._engine.layout, self._engine.own, message.on[0].partition("..")[0])

    def job(self, tick: Tick, number: int) -> JobMessage:
        """Return the status of a job."""
        return job_status(self._engine, tick, number)


def stdout_ticks(
    engine: Engine,
    *,
    ticks: int | None = None,
    include: Collection[Include] = (Include.TELEMETRY,),
    jump_s: float = 0.0,
) -> Iterator[Iterator[bytes]]:
    """Step the engine and yield each tick's NDJSON lines, each with its newline.

    Read a tick's lines before the next tick. Every tick has each instance's line followed by its
    chips', then events and jobs. Heads and values equal those of the live messages, with a boot id
    derived from the seed.

    Args:
        engine: Made with the fleet file's start as `start_ns`, so that lines repeat from run to
            run.
        ticks: How many; None for no end.
        include: Which kinds of lines.
        jump_s: Simulated seconds to live through before the first tick.
    """
    boot = engine.rng.boot()
    units = partition(engine.layout, Publishing(), engine.own)
    boots = Boots(engine, boot, units)
    messages = ShardMessages(engine, boot)

    def lines(tick: Tick, seq: int) -> Iterator[bytes]:
        if Include.TELEMETRY in include:
            for number, unit in enumerate(units):
                head = boots.head(number, seq, tick.ts_ns)
                for _, line in encode_samples(engine, head, unit.instances.start):
                    yield line + b"\n"
        # Events are always counted: their numbers do not depend on the kinds of lines included.
        for event in list(messages.events(tick)):
            if Include.EVENTS in include:
                yield encode_message(event) + b"\n"
            if (
                Include.EVENTBRIDGE in include
                and (delivered := encode_eventbridge(event)) is not None
            ):
                yield delivered + b"\n"
        if Include.RESERVATIONS in include:
            for message in messages.all_reservations() if not seq else messages.reservations(tick):
                yield encode_message(message) + b"\n"
        if Include.JOBS in include:
            for number in messages.jobs:
                yield encode_message(messages.job(tick, number)) + b"\n"

    for passed in engine.leap(round(jump_s / engine.period_s)):
        messages.pass_over(passed)
    for seq in itertools.count() if ticks is None else range(ticks):
        tick = engine.step()
        boots.renew(seq)
        yield lines(tick, seq)
