"""Shipped recordings replayed: roll-ups, alerts and reservations at named instants.

Expectations are in `expected/recordings`, a file per recording. Each instant has a name and seconds
from the recording's start. `expected/schemas` has the same for the permanent recording of every
wire class in fixtures/schemas. Every instant of the first minutes is reached twice: by playing on
from the start, and by seeking from the keyframe before it. Later ones are sought, and `make long`
plays them, too.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.state import rollups_of, values_of
from support.paths import FIXTURES
from support.paths import SCENARIOS as SCENARIO_FILES

from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.past_monitor import PastMonitor, PastSource, RecordingClock
from trnfleet.record.read.recording import Recording
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDINGS = FIXTURES / "recordings"
EXPECTED = Path(__file__).parent / "expected"
KEPT = FIXTURES / "schemas" / "wire-1.0.mcap"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.mcap"))
SCENARIOS = sorted(path.stem for path in SCENARIO_FILES.glob("*.toml"))
RULES = load_rules()
PLAYED_S = 250
"""A past that is only sought has no alerts."""


def past(recording: Recording, fleet: str | None = None) -> PastMonitor:
    """Return an empty past of a recording's only fleet, or of a named one."""
    if fleet is None:
        (fleet,) = recording.fleets
    clock = RecordingClock(SystemClock(), recording.start_ns, 0.0, recording.start_ns)
    return PastMonitor(
        recording, Monitor(PastSource("test"), fleet, clock=clock, rules=RULES), clock
    )


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


@pytest.mark.parametrize("played_s", [PLAYED_S, pytest.param(1_200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_what_is_expected_at_named_instants(name: str, played_s: int) -> None:
    check(
        RECORDINGS / f"{name}.mcap",
        None,
        json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8")),
        played_s,
    )


@pytest.mark.parametrize("fleet", ["demo", "cbor"])
def test_every_wire_class_of_version_1_0_is_read(fleet: str) -> None:
    """All classes in their first published form are read.

    JSON and CBOR, alerts, acknowledgements, silences, reservations, jobs and events.
    """
    expected = json.loads(
        (EXPECTED / "schemas" / f"wire-1.0-{fleet}.json").read_text(encoding="utf-8")
    )
    played = check(KEPT, fleet, expected["instants"])
    counts = played.monitor.counts
    assert {name: getattr(counts, name) for name in expected["counts"]} == expected["counts"]
    assert played.monitor.alerts.silences.count() == tuple(
        expected["silences_and_acknowledgements"]
    )
    assert (
        dict(Counter(each.name for each in played.monitor.events.newest_first()))
        == expected["events"]
    )


def test_the_kept_recording_has_every_wire_class() -> None:
    """All except roll-ups, which come from relays, and claims and backlog, which came later."""
    recording = Recording.open([KEPT])
    stored = recording.read(recording.start_ns - 1, recording.end_ns)
    topics = [parse_topic(each.envelope.topic) for each in stored]
    assert recording.verify() == []
    later = {TopicClass.ROLLUP, TopicClass.CLAIM, TopicClass.BACKLOG}
    assert {topic.topic_class for topic in topics if topic} == set(TopicClass) - later
    recording.close()


def check(
    path: Path, fleet: str | None, expected: list[dict[str, Any]], played_s: int = 1_200
) -> PastMonitor:
    """Play a recording through the expected instants, and seek each of them.

    Return the played past.
    """
    recording = Recording.open([path])
    played = past(recording, fleet)
    exhaust(played.begin())
    assert len(expected) >= 3
    for instant in expected:
        at_ns = recording.start_ns + instant["at_s"] * NS_PER_S
        is_played = instant["at_s"] <= played_s
        if is_played:
            exhaust(played.advance(at_ns))
            found = told(played.monitor)
            assert found == {key: instant[key] for key in found}, instant["name"]
        # Only the simulator's own recordings have a keyframe's values to the millisecond.
        if fleet is None:
            sought = past(recording)
            exhaust(sought.rebuild(at_ns))
            if is_played:
                assert values_of(sought.monitor) == values_of(played.monitor), instant["name"]
            else:
                found = {**told(sought.monitor), "alerts": instant["alerts"]}
                assert found == {key: instant[key] for key in found}, instant["name"]
    recording.close()
    return played
