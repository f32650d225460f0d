"""The state that a simulated fleet retains at the broker: descriptors, jobs, and whether the publisher is there."""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import TYPE_CHECKING, Any

from trnfleet.clock import format_rfc3339
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    Descriptor,
    InstanceSpec,
    JobMessage,
    PublisherMessage,
    encode_message,
)
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from typing import Literal

    from trnfleet.sim.engine import Engine, Tick
    from trnfleet.sim.partition import Unit
    from trnfleet.wire.messages import Message


def new_boot() -> str:
    """Return a random boot id for a live run: 16 hexadecimal digits."""
    return secrets.token_hex(8)


def ec2_id(seed: int, path: str) -> str:
    """Return a plausible EC2 instance id that follows from seed and path: `i-0` and 16 hexadecimal digits."""
    return "i-0" + hashlib.sha256(f"ec2:{seed}:{path}".encode()).hexdigest()[:16]


def will_envelope(fleet: str, client_id: str, boot: str, *, root: str = DEFAULT_ROOT) -> Envelope:
    """Return the last will of a publisher, which is also its goodbye: it is offline."""
    return presence(fleet, client_id, boot, "offline", root=root)


def presence(
    fleet: str, client_id: str, boot: str, state: Literal["online", "offline"], *, root: str = DEFAULT_ROOT
) -> Envelope:
    """Return the message that says whether a publisher is there."""
    message = PublisherMessage(client=client_id, state=state, boot=boot)
    return _state(build_topic(fleet, TopicClass.PUBLISHER, client_id, root), message)


def descriptor(
    engine: Engine, unit: Unit, client_id: str, boot: str, *, root: str = DEFAULT_ROOT
) -> Envelope:
    """Return what describes a unit."""
    layout = engine.layout
    members = range(unit.instances.start, unit.instances.stop)
    message = Descriptor(
        path=unit.path,
        publisher=client_id,
        boot=boot,
        period_s=engine.period_s,
        clock=ClockSpec(epoch=format_rfc3339(engine.time_ns(0))),
        instances=tuple(
            InstanceSpec(
                path=layout.instances[number],
                type=layout.type_of(number).name,
                ec2_id=ec2_id(engine.seed, layout.instances[number]),
                lnc=layout.type_of(number).chip.logical_neuroncore_config,
            )
            for number in members
        ),
        columns=STANDARD_COLUMNS,
    )
    return _state(build_topic(engine.fleet.name, TopicClass.NODE, unit.path, root), message)


def job_message(engine: Engine, tick: Tick, number: int, *, root: str = DEFAULT_ROOT) -> Envelope:
    """Return how job `number` fares in a tick."""
    job = engine.fleet.jobs[number]
    values = {name: float(column[number]) for name, column in tick.figures.items()}
    figures: dict[str, Any] = {name: None if math.isnan(value) else value for name, value in values.items()}
    message = JobMessage(
        job=job.name,
        kind=job.kind,
        state="checkpointing" if tick.checkpointing[number] else "running",
        ts=format_rfc3339(tick.ts_ns),
        on=job.on,
        **figures,
    )
    return _state(build_topic(engine.fleet.name, TopicClass.JOB, job.name, root), message)


def _state(topic: str, message: Message) -> Envelope:
    return Envelope(topic, encode_message(message), qos=1, retain=True, content_type=CONTENT_TYPE_JSON)
