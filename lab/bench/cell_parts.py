"""CPU per second of an app, a relay and a top broker's viewer, by part.

For a large fleet, in one process without brokers. CPU time hardly depends on other load. The total
of parts is therefore valid, even if one machine has no room for all of them at once.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

import mqtt5
from support.monitor.feed import SilentSource

from lab.bench.large_fleet import FLEET, BlockPublisher, RollupPublisher
from lab.bench.packets import stamp
from trnfleet.clock import SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.slices import batch_slices
from trnfleet.services.files.rules import load_rules
from trnfleet.services.relay.blocks import Rows
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.rollups import encode_rollup
from trnfleet.wire.telemetry import Head

if TYPE_CHECKING:
    from collections.abc import Callable

SETTLING = 4
SECONDS = 10
"""Seconds left out, and seconds measured."""


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU that some work takes."""
    begun_s = time.process_time()
    work()
    return (time.process_time() - begun_s) * 1e3


def measure(publisher: BlockPublisher | RollupPublisher, *, is_relay: bool) -> dict[str, float]:
    """Return the median CPU of each part in ms a second.

    For an app with all rules, or a relay.
    """
    gc.set_threshold(100_000, 20, 100)
    clock = SystemClock()
    monitor = Monitor(SilentSource(), FLEET, clock=clock, rules=() if is_relay else load_rules())
    monitor.evaluates_alerts = not is_relay
    names: dict[str, str] = {}
    found: dict[str, list[float]] = {}

    def apply(batch: list[Envelope]) -> None:
        for part in batch_slices(batch):
            monitor.ingest.apply(part, clock.monotonic_s(), clock.wall_ns())

    def read(packets: list[bytes]) -> list[Envelope]:
        made = []
        for each in packets:
            packet: Any = mqtt5.read(memoryview(each))[0]
            topic = names.setdefault(packet.topic, packet.topic)
            made.append(
                Envelope(
                    topic,
                    packet.payload,
                    content_type=CONTENT_TYPE_CBOR,
                    received_s=clock.monotonic_s(),
                )
            )
        return made

    state = [Envelope(topic, payload, 1, retain=True) for topic, payload in publisher.retained()]
    print(
        f"  descriptors and jobs {cpu_ms(lambda: apply(state)):.0f} ms once, layout"
        f" {cpu_ms(monitor.lay_out):.0f} ms"
    )
    rows = Rows(monitor.store.layout, "cell") if is_relay else None

    def publish() -> None:
        assert rows is not None
        heads = {block.path: Head("b", 0, 1) for block in rows.blocks}
        for path, frame in rows.frames(monitor.store, monitor.rollups, (), heads).items():
            encode_rollup(path, 1, frame)

    blocks = [each for part in publisher.slices() for each in part]
    for seq in range(SETTLING + SECONDS):
        bodies, between = publisher.step(), stamp(seq, time.time_ns())
        packets = [head + between + bodies[body] for head, body in blocks]
        batch: list[Envelope] = []
        works: dict[str, Callable[[], object]] = {
            "packets": lambda packets=packets, batch=batch: batch.extend(read(packets)),  # type: ignore[misc]  # at once
            "frames": lambda batch=batch: apply(batch),  # type: ignore[misc]  # as above
            "pass": monitor.compute,
            "pipeline": lambda: monitor.pipeline(at_once=True),
        }
        if is_relay:
            works["roll-ups"] = publish
        for name, work in works.items():
            found.setdefault(name, []).append(cpu_ms(work))
    return {name: statistics.median(values[SETTLING:]) for name, values in found.items()}
