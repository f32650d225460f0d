"""The shipped recordings, replayed: roll-ups, alerts and reservations at named instants are what is expected.

Expectations are in `expected/recordings`, a file a recording; each instant has a name and seconds from the recording's begin.
Every instant is reached twice: by playing on from the begin, and by seeking, which rebuilds the values from the keyframe before it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.state import rollups_of, values_of
from support.paths import FIXTURES
from support.paths import SCENARIOS as SCENARIO_FILES

from trnfleet.cli.rulepack import load_rules
from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.clock import TapeClock
from trnfleet.monitor.replay.past_monitor import Past, PastSource
from trnfleet.record.read.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDINGS = FIXTURES / "recordings"
EXPECTED = Path(__file__).parent / "expected"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.mcap"))
SCENARIOS = sorted(path.stem for path in SCENARIO_FILES.glob("*.toml"))
RULES = load_rules()


def past(recording: Recording) -> Past:
    """Return a past that knows nothing yet."""
    (fleet,) = recording.fleets
    clock = TapeClock(SystemClock(), recording.start_ns, 0.0, recording.start_ns)
    return Past(recording, Monitor(PastSource("test"), fleet, clock=clock, rules=RULES), clock)


def exhaust(work: Iterator[None]) -> None:
    """Do it to its end."""
    for _ in work:
        pass


def told(monitor: Monitor) -> dict[str, Any]:
    """Return what an expectation says of an instant."""
    figures = {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in rollups_of(monitor).items()
    }
    return {
        "rollups": figures,
        "alerts": sorted(
            [each.state.name.lower(), each.name, each.target] for each in monitor.alerts.active()
        ),
        "reservations": sorted(
            [each.message.id, each.message.state.value] for each in monitor.reservations.table()
        ),
        "jobs": sorted([name, job.state] for name, job in monitor.ingest.jobs.items()),
    }


def test_every_scenario_has_a_recording_with_expectations() -> None:
    assert SCENARIOS == NAMES
    assert sorted(path.stem for path in EXPECTED.glob("*.json")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_what_is_expected_at_named_instants(name: str) -> None:
    expected = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    recording = Recording.open([RECORDINGS / f"{name}.mcap"])
    played = past(recording)
    exhaust(played.begin())
    assert len(expected) >= 3
    for instant in expected:
        at_ns = recording.start_ns + instant["at_s"] * NS_PER_S
        exhaust(played.advance(at_ns))
        found = told(played.monitor)
        assert found == {key: instant[key] for key in found}, instant["name"]
        sought = past(recording)
        exhaust(sought.rebuild(at_ns))
        assert values_of(sought.monitor) == values_of(played.monitor), instant["name"]
    recording.close()
