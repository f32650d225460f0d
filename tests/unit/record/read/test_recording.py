"""Reading a recording between two moments, from one file or many."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.record.files import ABOUT, NS_PER_S, at, read, state, ticks, value, write

from trnfleet.record.format import schema
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.wire.ports import Stored

MESSAGES = [
    state(TopicClass.JOB, "j1", "{}", 0),
    *(value(n, 0.05 + n * 0.05) for n in range(1_200)),
]


@pytest.fixture(scope="module", params=[None, 7 * NS_PER_S])
def recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    """One minute in one file, or in parts."""
    writer = write(
        tmp_path_factory.mktemp("recording") / "a.mcap", MESSAGES, split_ns=request.param
    )
    opened = Recording.open(writer.parts[::-1])
    yield opened
    opened.close()


@settings(max_examples=100, deadline=None)
@given(st.floats(-5, 70), st.floats(-5, 70))
def test_read_gives_what_lies_between_two_moments(
    recording: Recording, first: float, second: float
) -> None:
    """After the one, up to the other, in order."""
    found = list(recording.read(at(first), at(second)))

    assert found == [each for each in MESSAGES if at(first) < each.time_ns <= at(second)]


@given(st.integers(0, 1_200), st.integers(-1, 1))
def test_both_ends_are_exact_to_the_nanosecond(recording: Recording, number: int, off: int) -> None:
    """A message at a moment is not after it, and is up to it."""
    moment = MESSAGES[number].time_ns + off

    assert sum(1 for _ in recording.read(moment, at(100))) == sum(
        1 for each in MESSAGES if each.time_ns > moment
    )
    assert sum(1 for _ in recording.read(0, moment)) == sum(
        1 for each in MESSAGES if each.time_ns <= moment
    )


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 61))
def test_a_keyframe_and_what_follows_is_all_that_held(recording: Recording, seconds: float) -> None:
    """A recent keyframe plus later messages give every topic's newest message."""
    keyframe = recording.keyframe(at(seconds))
    assert keyframe is not None
    assert keyframe.time_ns <= at(seconds)
    assert at(seconds) - keyframe.time_ns < 11 * NS_PER_S
    newest = {each.envelope.topic: each for each in keyframe.state}
    newest.update(
        (each.envelope.topic, each) for each in recording.read(keyframe.time_ns, at(seconds))
    )

    assert newest == {each.envelope.topic: each for each in MESSAGES if each.time_ns <= at(seconds)}


def test_its_ends_are_those_of_its_messages(recording: Recording) -> None:
    """Times, fleets, counts and soundness of the whole."""
    assert (recording.start_ns, recording.end_ns) == (MESSAGES[0].time_ns, MESSAGES[-1].time_ns)
    assert recording.fleets == ("demo",)
    assert recording.is_finished
    assert recording.damaged == 0
    assert recording.recoveries == []
    assert recording.counts["telemetry"] == 1_200
    assert recording.verify() == []
    assert recording.file_bytes > 1_000
    assert recording.keyframe(at(-1)) is None


def test_reading_can_be_left_at_any_message(recording: Recording) -> None:
    """Two readers in turn do not disturb each other."""
    one = recording.read(0, at(100))
    two = recording.read(at(30), at(100))
    pairs = list(itertools.islice(zip(one, two, strict=False), 200))

    assert [pair[0] for pair in pairs] == MESSAGES[:200]
    assert [pair[1] for pair in pairs] == [each for each in MESSAGES if each.time_ns > at(30)][:200]


def test_parts_with_a_gap_between_are_one_recording(tmp_path: Path) -> None:
    """A missing part leaves a gap, and the next one begins with all state."""
    parts = write(tmp_path / "a.mcap", MESSAGES, split_ns=10 * NS_PER_S).parts
    recording = Recording.open([parts[0], parts[3]])

    found = list(recording.all())
    keyframe = recording.keyframe(at(35))
    recording.close()

    assert len(found) < len(MESSAGES)
    assert found == [*read(parts[0]), *read(parts[3])]
    assert keyframe is not None
    assert at(29) < keyframe.time_ns < at(35)
    assert MESSAGES[0] in keyframe.state


def test_an_unfinished_part_among_finished_ones_is_told(tmp_path: Path) -> None:
    """Each recovered part is named."""
    parts = write(tmp_path / "a.mcap", MESSAGES, split_ns=10 * NS_PER_S).parts
    parts[-1].write_bytes(parts[-1].read_bytes()[:-1])
    recording = Recording.open(parts)

    assert list(recording.all()) == MESSAGES
    assert not recording.is_finished
    (recovery,) = recording.recoveries
    assert recovery.path == str(parts[-1])
    assert recording.verify() == [recovery.text()]
    recording.close()


def test_recordings_of_two_fleets_side_by_side(tmp_path: Path) -> None:
    """Files overlapping in time are played in time order."""
    other = [each._replace(time_ns=each.time_ns + 1_000) for each in ticks(300)]
    write(tmp_path / "a.mcap", ticks(300))
    write(tmp_path / "b.mcap", other, About(id="r2", fleets=("prod", "demo")))

    recording = Recording.open([tmp_path / "b.mcap", tmp_path / "a.mcap"])

    assert list(recording.all()) == sorted([*ticks(300), *other])
    assert recording.fleets == ("demo", "prod")
    recording.close()


def test_a_recording_of_a_former_schema_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages and keyframes go through the migrations of their major version."""

    def migrate(former: dict[str, Any]) -> dict[str, Any]:
        return former | {"payload": former["payload"] + b"!"} if "payload" in former else former

    monkeypatch.setitem(schema.MIGRATIONS, 0, migrate)
    write(tmp_path / "a.mcap", ticks(200), dataclasses.replace(ABOUT, schema="0.7"))
    recording = Recording.open([tmp_path / "a.mcap"])

    assert all(each.envelope.payload.endswith(b"!") for each in recording.all())
    keyframe = recording.keyframe(at(15))
    assert keyframe is not None
    assert len(keyframe.state) == 8
    assert all(each.envelope.payload.endswith(b"!") for each in keyframe.state)
    assert recording.verify() == []
    recording.close()


def test_statistics_count_topics_classes_and_gaps(tmp_path: Path) -> None:
    """Statistics have messages, bytes, first and last of each, and gaps.

    A gap is more than three periods without telemetry.
    """
    messages = [
        *(value(number * 8, number) for number in range(20)),
        state(TopicClass.JOB, "j1", "{}", 22),
        *(value(number * 8, number) for number in range(30, 50)),
    ]
    write(tmp_path / "a.mcap", messages, ABOUT)
    recording = Recording.open([tmp_path / "a.mcap"])

    statistics = recording.statistics()

    assert statistics.period_ns == NS_PER_S
    assert statistics.gaps == [(at(19), at(30))]
    assert (
        statistics.messages,
        statistics.classes["telemetry"].messages,
        statistics.classes["job"].messages,
    ) == (
        41,
        40,
        1,
    )
    (topic,) = (count for name, count in recording.topics().items() if "telemetry" in name)
    assert (topic.first_ns, topic.last_ns, topic.longest_gap_ns) == (at(0), at(49), 11 * NS_PER_S)
    assert statistics.payload_bytes == sum(len(each.envelope.payload) for each in messages)
    assert recording.statistics() is statistics
    recording.close()


def test_statistics_pass_messages_to_a_tap(tmp_path: Path) -> None:
    """A tap receives every message in the same pass, even after an earlier pass."""
    write(tmp_path / "a.mcap", [value(8, number) for number in range(20)], ABOUT)
    recording = Recording.open([tmp_path / "a.mcap"])
    for _ in range(2):
        heard: list[Stored] = []
        statistics = recording.statistics(heard.append)
        assert heard == list(recording.all())
        assert statistics.messages == 20
    assert recording.statistics() is statistics
    recording.close()
