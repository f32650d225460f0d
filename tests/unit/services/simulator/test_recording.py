"""A simulation into a recording, and its summary after a signal."""

from __future__ import annotations

import errno
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from trnfleet.errors import TrnfleetError
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.part import PartFile
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.recording import (
    CLIENT,
    RecordingPublisher,
    SimulationRequest,
    record_simulation,
)
from trnfleet.services.simulator.run import load_run
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trnfleet.wire.ports import Envelope

TICKS = 1_000


def test_the_summary_counts_what_was_recorded_until_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks and length are the file's, not the requested ones."""
    published = 0
    publish = RecordingPublisher.publish

    async def publish_and_end(self: Any, batch: Iterable[Envelope]) -> None:
        nonlocal published
        published += 1
        if published == 60:
            signal.raise_signal(signal.SIGINT)
        await publish(self, batch)

    monkeypatch.setattr(RecordingPublisher, "publish", publish_and_end)
    path = tmp_path / "a.mcap"
    run = load_run(
        {"fleet"}, fleet="demo", scenario=None, seed=7, period_s=2.0, speed=1.0, start=None
    )
    summary = record_simulation(
        make_engine(run, run.fleet), SimulationRequest(path, run, TICKS, 0.0, CLIENT, DEFAULT_ROOT)
    )

    recording = Recording.open([path])
    try:
        topics = [parse_topic(each.envelope.topic, DEFAULT_ROOT) for each in recording.all()]
    finally:
        recording.close()
    chip = next(topic.path for topic in topics if topic.topic_class is TopicClass.TELEMETRY)
    ticks = sum(
        1 for topic in topics if topic.topic_class is TopicClass.TELEMETRY and topic.path == chip
    )
    assert 0 < ticks < TICKS
    found = re.search(r"([\d,]+) ticks, (\d+) s,", summary)
    assert found is not None
    assert (int(found[1]), int(found[2])) == (ticks, 2 * ticks)


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the reason, and what was written until then is a sound recording."""
    write = PartFile._write
    size = 0

    def fill_up(self: PartFile, data: bytes) -> None:
        nonlocal size
        size += len(data)
        if size > 200_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, data)

    monkeypatch.setattr(PartFile, "_write", fill_up)
    path = tmp_path / "a.mcap"
    run = load_run(
        {"fleet"}, fleet="demo", scenario=None, seed=7, period_s=1.0, speed=1.0, start=None
    )
    with pytest.raises(
        TrnfleetError, match=r"a\.mcap: the recording ends here: No space left on device"
    ):
        record_simulation(
            make_engine(run, run.fleet),
            SimulationRequest(path, run, TICKS, 0.0, CLIENT, DEFAULT_ROOT),
        )
    recording = Recording.open([path])
    try:
        assert len(list(recording.all())) > 100
    finally:
        recording.close()
