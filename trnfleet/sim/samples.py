"""JSON telemetry of the engine's columns: an instance's object, then its chips', the same for a broker and for stdout."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from trnfleet.sim.placement import IDLE
from trnfleet.wire.telemetry import Head, dump, encode_chips, encode_instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.sim.engine import Engine


def boot_of_seed(seed: int) -> str:
    """Return the boot id of a run that is to be the same each time: 16 hexadecimal digits."""
    return hashlib.sha256(f"boot:{seed}".encode()).hexdigest()[:16]


def encode_samples(engine: Engine, head: Head, instance: int) -> Iterator[tuple[str, bytes]]:
    """Yield (address, JSON) of an instance and of each of its chips, from what the columns hold now."""
    layout = engine.layout
    path = layout.instances[instance]
    number = int(engine.job_of_instance[instance])
    job = None if number == IDLE else engine.job_names[number]
    yield path, dump(encode_instance(head, path, job, engine.columns, instance))
    rows = slice(int(layout.chip_start[instance]), int(layout.chip_start[instance + 1]))
    for address, sample in encode_chips(head, path, job, engine.columns, rows):
        yield address, dump(sample)


def stdout_lines(engine: Engine, *, ticks: int | None = None) -> Iterator[bytes]:
    """Step the engine and yield its telemetry as NDJSON, each line with its end.

    Every tick gives each instance's line followed by its chips'. Head and values are those of the live messages, with a
    boot id that follows from the seed.

    Args:
        engine: Made with the fleet file's start as `start_ns`, so that lines repeat from run to run.
        ticks: How many; None for no end.
    """
    boot = boot_of_seed(engine.seed)
    seq = 0
    while ticks is None or seq < ticks:
        head = Head(boot, seq, engine.step().ts_ns)
        for instance in range(len(engine.layout.instances)):
            for _, line in encode_samples(engine, head, instance):
                yield line + b"\n"
        seq += 1
