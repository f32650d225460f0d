"""Retained state of a simulated fleet: descriptors, jobs, presence, and their boots.

The agent of a rebooted instance is a new one: it has its own boot id and counts from 0. A replaced
instance has another EC2 id, and its unit has another revision.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from trnfleet.clock import format_rfc3339
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.sim.ids import ec2_id
from trnfleet.sim.rng import boot_after
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    Descriptor,
    EventMessage,
    InstanceSpec,
    JobMessage,
    PublisherMessage,
    message_envelope,
    named_lanes,
)
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import DEFAULT_ROOT, FLEET_PATH, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.sim.engine import Engine, Tick
    from trnfleet.sim.events import SimEvent
    from trnfleet.sim.publish.partition import PublishedUnit
    from trnfleet.wire.ports import Envelope
    from trnfleet.wire.reservations import ReservationMessage


def new_boot() -> str:
    """Return a random boot id for a live run: 16 hexadecimal digits."""
    return secrets.token_hex(8)


class Boots:
    """Boot ids and revisions of an engine's units, as instances boot and are replaced."""

    def __init__(self, engine: Engine, boot: str, units: Sequence[PublishedUnit]) -> None:
        self._engine = engine
        self._units = units
        self._run = boot
        self.boot = [boot] * len(units)
        """Boot id of each unit's telemetry."""
        self.revision = [0] * len(units)
        """Revision of each unit's descriptor."""
        self._first_seq = [0] * len(units)
        self._first_instance = np.array([unit.instances.start for unit in units], np.int64)
        self._generation = engine.incidents.generation.copy()
        self._boots = engine.incidents.boots.copy()

    def head(self, number: int, seq: int, ts_ns: int) -> Head:
        """Return the head of a unit's telemetry in the run's tick `seq`."""
        return Head(self.boot[number], seq - self._first_seq[number], ts_ns)

    def renew(self, seq: int) -> list[int]:
        """Update the boots of instances back since the last call.

        Tick `seq` is their first.

        Returns:
            The units to describe again, with their new revisions.
        """
        incidents = self._engine.incidents
        own = self._engine.own
        self._pause_counts(own)
        changed = (self._generation != incidents.generation) | (self._boots != incidents.boots)
        back = np.flatnonzero((changed & ~self._engine.silent)[own.start : own.stop]) + own.start
        if not len(back):
            return []
        self._generation[back] = incidents.generation[back]
        self._boots[back] = incidents.boots[back]
        units = np.searchsorted(self._first_instance, back, side="right") - 1
        numbers: list[int] = np.unique(units).tolist()
        for number in numbers:
            unit = self._units[number]
            self.revision[number] += 1
            if unit.instances.stop - unit.instances.start == 1:
                boots = int(self._boots[unit.instances.start])
                self.boot[number] = boot_after(self._run, unit.path, boots)
                self._first_seq[number] = seq
        return numbers

    def _pause_counts(self, own: range) -> None:
        """Stop the count of units that are silent in this tick.

        An agent numbers only its own messages.
        """
        silent = np.flatnonzero(self._engine.silent[own.start : own.stop]) + own.start
        if not len(silent):
            return
        units = np.searchsorted(self._first_instance, silent, side="right") - 1
        for number in np.unique(units).tolist():
            if self._engine.silent[self._units[number].instances].all():
                self._first_seq[number] += 1

    def revise(self) -> None:
        """Count a change of every unit, such as of the clock."""
        self.revision = [revision + 1 for revision in self.revision]


def will_envelope(fleet: str, client_id: str, boot: str, *, root: str = DEFAULT_ROOT) -> Envelope:
    """Return the last will of a publisher, which is also its goodbye: it is offline."""
    return presence(fleet, client_id, boot, "offline", root=root)


def presence(
    fleet: str,
    client_id: str,
    boot: str,
    state: Literal["online", "offline"],
    *,
    root: str = DEFAULT_ROOT,
) -> Envelope:
    """Return the message of a publisher's presence."""
    message = PublisherMessage(client=client_id, state=state, boot=boot)
    return message_envelope(
        build_topic(fleet, TopicClass.PUBLISHER, client_id, root), message, retain=True
    )


def descriptor(
    engine: Engine,
    unit: PublishedUnit,
    client_id: str,
    boot: str,
    *,
    revision: int = 0,
    speed: float = 1.0,
    leapt: int = 0,
    root: str = DEFAULT_ROOT,
) -> Envelope:
    """Return the descriptor of a unit.

    Args:
        engine: The fleet.
        unit: Instances of its path.
        client_id: The publisher's name.
        boot: Boot id of the unit's telemetry.
        revision: Higher each time that the unit's instances or its clock change.
        speed: Simulated seconds a second of the wall clock.
        leapt: Ticks that the simulation has jumped over.
        root: First part of the topic.
    """
    layout = engine.layout
    members = range(unit.instances.start, unit.instances.stop)
    generation = engine.incidents.generation
    message = Descriptor(
        path=unit.path,
        publisher=client_id,
        boot=boot,
        revision=revision,
        # Staleness goes by the wall clock.
        period_s=engine.period_s / speed,
        clock=ClockSpec(epoch=format_rfc3339(engine.time_ns(leapt)), speed=speed),
        instances=tuple(
            InstanceSpec(
                path=layout.instances[number],
                type=layout.type_of(number).name,
                ec2_id=ec2_id(engine.rng.token, layout.instances[number], int(generation[number])),
                lnc=engine.lnc.get(
                    layout.instances[number], layout.type_of(number).chip.logical_neuroncore_config
                ),
            )
            for number in members
        ),
        columns=STANDARD_COLUMNS,
        lanes=named_lanes({layout.type_of(number).name for number in members}),
    )
    topic = build_topic(engine.fleet.name, TopicClass.NODE, unit.path, root)
    return message_envelope(topic, message, retain=True)


def job_status(engine: Engine, tick: Tick, number: int) -> JobMessage:
    """Return the status of job `number` in a tick."""
    job = engine.fleet.jobs[number]
    values = {name: float(column[number]) for name, column in tick.figures.items()}
    figures: dict[str, Any] = {
        name: None if math.isnan(value) else value for name, value in values.items()
    }
    return JobMessage(
        job=job.name,
        kind=job.kind,
        state=JOB_STATES[int(tick.states[number])],
        ts=format_rfc3339(tick.ts_ns),
        on=engine.jobs_on[number],
        model=getattr(job, "model", None),
        dtype=getattr(job, "dtype", None),
        flops_per_token=engine.flops_per_token.get(number),
        submitted=(
            None if job.starts_at_s is None else format_rfc3339(engine.moment_ns(job.starts_at_s))
        ),
        **figures,
    )


def job_envelope(fleet: str, message: JobMessage, *, root: str = DEFAULT_ROOT) -> Envelope:
    """Return a job's status as it is published."""
    return message_envelope(
        build_topic(fleet, TopicClass.JOB, message.job, root), message, retain=True
    )


def event_message(engine: Engine, event: SimEvent, number: int, boot: str) -> EventMessage:
    """Return the message of an event; `number` counts the fleet's events from 1."""
    return EventMessage(
        id=f"{boot}-{number}",
        ts=format_rfc3339(engine.moment_ns(event.time_s)),
        path=event.path,
        source=event.source,
        name=event.name,
        severity=event.severity,
        text=event.text,
        job=event.job,
        nrt=event.nrt,
        detail_type=event.detail_type,
        reservation=event.reservation,
        resources=event.resources,
        detail=dict(event.detail),
    )


def reservation_envelope(
    fleet: str, message: ReservationMessage, *, root: str = DEFAULT_ROOT
) -> Envelope:
    """Return reserved capacity as it is published."""
    topic = build_topic(fleet, TopicClass.RESERVATION, message.id, root)
    return message_envelope(topic, message, retain=True)


def event_envelope(fleet: str, message: EventMessage, *, root: str = DEFAULT_ROOT) -> Envelope:
    """Return an event as it is published, not retained."""
    topic = build_topic(fleet, TopicClass.EVENT, message.path or FLEET_PATH, root)
    return message_envelope(topic, message, retain=False)
