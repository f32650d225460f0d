"""Recordings of fixtures/recordings: one per scenario, sound, small, reproducible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.record.fixtures import FIXTURES_OF, PERIOD_S, RECORDINGS, make

from trnfleet.config import shipped_names
from trnfleet.record.read.ndjson import NdjsonLines
from trnfleet.record.read.recording import Recording

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 8_000_000
EVENTLESS = {"efa-cliff", "inference-day", "steady-training", "straggler-hunt"}
"""Scenarios without events: their faults have to be found."""


def test_every_scenario_has_a_recording() -> None:
    """There is one for each shipped scenario and no other, 8 MB together."""
    files = {file.stem: file for file in RECORDINGS.glob("*.mcap")}
    assert sorted(files) == shipped_names("scenarios") == sorted(FIXTURES_OF)
    assert sum(file.stat().st_size for file in files.values()) < MOST_BYTES


@pytest.mark.parametrize("name", ["neuronlink-split", "job-crash"])
def test_making_it_again_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    """The output of `make fixtures` depends only on the files and the seed.

    On the shipped fleet, and on the small one.
    """
    is_same = make(name, tmp_path).read_bytes() == (RECORDINGS / f"{name}.mcap").read_bytes()
    assert is_same, "what the simulator publishes has changed: if that is meant, `make fixtures`"


@pytest.mark.parametrize("name", shipped_names("scenarios"))
def test_they_are_sound_and_whole(name: str) -> None:
    """Each passes the reader's checks, has its length, and converts to lines."""
    recording = Recording.open([RECORDINGS / f"{name}.mcap"])
    try:
        assert recording.verify() == []
        assert recording.is_finished
        length_ns = recording.end_ns - recording.start_ns
        assert length_ns == round((FIXTURES_OF[name].ticks - 1) * PERIOD_S) * 10**9
        [fleet] = recording.fleets
        lines = NdjsonLines(recording.root, fleet, ("events", "jobs"))
        told = list(lines.lines(recording, recording.start_ns, recording.end_ns))
        assert (lines.left_out, lines.problem) == (0, "")
        assert any(b'"severity"' in line for line in told) == (name not in EVENTLESS)
    finally:
        recording.close()
