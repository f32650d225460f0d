"""Conversions as run by a user, and the parsed results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import START_NS, Feed, SilentSource
from support.paths import FIXTURES
from trnfleet.cli import main
from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.ports import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


LINES = FIXTURES / "mosquitto" / "payload-text.ndjson"
HOST = FIXTURES / "neuron-monitor" / "trn2.48xlarge-lnc2.ndjson"
SMALL_HOST = FIXTURES / "neuron-monitor" / "trn1.2xlarge.ndjson"


def convert(*arguments: str | Path, status: int = 0) -> None:
    assert main.run(["convert", *map(str, arguments)]) == status


def read(path: Path) -> list[Stored]:
    recording = Recording.open([path])
    try:
        return messages(recording)
    finally:
        recording.close()


def messages(recording: Recording) -> list[Stored]:
    return list(recording.read(recording.start_ns - 1, recording.end_ns))


def plain(taken: Iterable[Stored]) -> list[Stored]:
    """Return messages without when they came by this process's clock."""
    return [each._replace(envelope=each.envelope._replace(received_s=0.0)) for each in taken]


def record(path: Path, taken: Iterable[Stored], fleet: str = "demo") -> None:
    writer = RecordingWriter(path, About(id="r", fleets=(fleet,)))
    for time_ns, envelope in taken:
        writer.write(time_ns, envelope)
    writer.close()


def shown(taken: Iterable[Stored], fleet: str) -> Monitor:
    """Return a monitor after applying all messages."""
    monitor = Monitor(SilentSource(), fleet, clock=ManualClock(START_NS, 1_000.0))
    for each in taken:
        monitor.apply([each.envelope._replace(received_s=1_000.0)])
        monitor.compute()
    return monitor


def fed(
    instances: list[tuple[str, str]], *, as_json: bool = False, grouped: bool = False
) -> tuple[Feed, list[Stored]]:
    """Return a fleet, and four ticks of it as they would be recorded."""
    feed = Feed(instances, json=as_json, grouped=grouped)
    taken = [Stored(START_NS, each) for each in feed.announcements()]
    for tick in range(4):
        feed.scatter(seed=tick)
        feed.set("exec_completed", 1_000 * tick)
        ts_ns = START_NS + tick * NS_PER_S
        taken += [
            Stored(ts_ns + number, each) for number, each in enumerate(feed.telemetry(ts_ns=ts_ns))
        ]
    return feed, plain(taken)
