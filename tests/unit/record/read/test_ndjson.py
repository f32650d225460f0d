"""Lines of a recording in memory: jobs, order, and left-out messages."""

from __future__ import annotations

import json

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.record.memory_recording import MemoryRecording

from trnfleet.clock import NS_PER_S
from trnfleet.record.read.ndjson import NdjsonLines
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, JobMessage, encode_message
from trnfleet.wire.ports import Envelope, Keyframe, Stored

START_NS = 1_767_600_000_000_000_000


def told(
    messages: list[tuple[float, Envelope]],
    *kinds: str,
    from_s: float = 0.0,
    keyframe: Keyframe | None = None,
) -> tuple[list[dict[str, object]], NdjsonLines]:
    stored = [Stored(START_NS + round(at_s * NS_PER_S), envelope) for at_s, envelope in messages]
    recording = MemoryRecording(stored, [keyframe] if keyframe else [])
    lines = NdjsonLines("trnfleet", "demo", kinds or ("telemetry",))
    found = list(lines.lines(recording, START_NS + round(from_s * NS_PER_S), recording.end_ns))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)
    return [json.loads(line) for line in found], lines


@pytest.fixture
def feed() -> Feed:
    return Feed(standalone(1))


@pytest.mark.parametrize("grouped", [False, True])
def test_frames_and_json_give_the_same_lines(grouped: bool) -> None:
    """Lines are the same for all encodings: each instance, then its chips.

    They have the job received after them.
    """
    results = []
    for is_json in (True, False):
        feed = Feed(ultraservers(1), json=is_json, grouped=grouped and not is_json)
        feed.scatter()
        feed.jobs = {"train": ("uc1/us-0001/trn2u-0001-0..trn2u-0001-1",)}
        *others, job = feed.announcements()
        messages = [(0.0, each) for each in [*others, *feed.telemetry(), job]]
        lines, _ = told(messages)
        assert len(lines) == 4 + 64
        results.append(lines)
    json_lines, frame_lines = results
    jobs = [line.pop("job") for line in frame_lines]
    assert jobs == ["train"] * 34 + [None] * 34
    assert [
        {key: value for key, value in line.items() if key != "job"} for line in json_lines
    ] == frame_lines


def test_a_part_knows_what_came_before_it(feed: Feed) -> None:
    """From the middle on, frames are decoded with the keyframe's descriptors.

    Nothing earlier is written.
    """
    state = [Stored(START_NS, each) for each in feed.announcements()]
    messages = [(0.0, stored.envelope) for stored in state]
    for second in range(4):
        messages += [
            (float(second), each) for each in feed.telemetry(ts_ns=START_NS + second * NS_PER_S)
        ]
    keyframe = Keyframe(START_NS + 2 * NS_PER_S, state, has_values=False)
    lines, _ = told(messages, from_s=3.0, keyframe=keyframe)
    assert {line["seq"] for line in lines} == {3}
    assert len(lines) == 17


def test_what_cannot_be_told_is_counted(feed: Feed) -> None:
    """Invalid messages and frames without their descriptor are left out.

    Also of another start. The first is named.
    """
    [early] = feed.telemetry()
    other = Feed(standalone(1))
    other.boot = "boot-2"
    [foreign] = other.telemetry()
    noise = Envelope("trnfleet/v1/demo/telemetry/uc1/standalone/trn2-0001", b"\xff\x00")
    event = Envelope("trnfleet/v1/demo/event/fleet", b'{"severity": NaN}')
    state = [(1.0, each) for each in feed.announcements()]
    lines, count = told(
        [(0.0, early), *state, (2.0, foreign), (3.0, noise), (4.0, event)], "telemetry", "events"
    )
    assert (lines, count.left_out) == ([], 4)
    assert count.problem == f"{early.topic}: a frame without its descriptor"


def test_lines_are_plain_text() -> None:
    """Control characters and line ends within a message are escaped in the output."""
    event = Envelope("trnfleet/v1/demo/event/fleet", '{"text":\n"\u009b31m\u202e\x7f"}'.encode())
    stored = Stored(START_NS, event)
    [line] = NdjsonLines("trnfleet", "demo", ("events",)).lines(
        MemoryRecording([stored]), START_NS, START_NS
    )
    assert line == b'{"text":"\\u009b31m\\u202e\\u007f"}\n'


def test_other_fleets_and_repeats_are_not_written() -> None:
    """A reservation that is only repeated is written once, and another fleet's not at all."""
    feed = Feed(standalone(1), json=True)
    block = feed.reservation("cb-1")
    again = feed.reservation("cb-1", state="expired")
    elsewhere = Envelope("trnfleet/v1/other/reservation/cb-2", block.payload)
    messages = [(0.0, block), (0.0, elsewhere), *((0.0, each) for each in feed.telemetry())]
    messages += [(1.0, each) for each in feed.telemetry(ts_ns=feed.clock.wall_ns() + NS_PER_S)]
    lines, _ = told([*messages, (1.0, block), (1.0, again)], "reservations")
    assert [line["state"] for line in lines] == ["active", "expired"]


def job(name: str, ts: str, *on: str) -> Envelope:
    """Return a job's message."""
    message = JobMessage(job=name, kind="training", state="running", ts=ts, on=on)
    return Envelope(f"trnfleet/v1/demo/job/{name}", encode_message(message))


def test_the_job_told_of_last_has_the_chips(feed: Feed) -> None:
    """The latest run has the chips, even if an earlier one is still retained.

    A cleared job has nothing any more.
    """
    [path] = feed.layout.instances
    former = job("former", "2026-01-04T00:00:00Z", path)
    present = job("present", "2026-01-05T00:00:00Z", path)
    state = [(0.0, each) for each in feed.announcements()]
    [first] = feed.telemetry(ts_ns=START_NS)
    for jobs in ([former, present], [present, former]):
        lines, _ = told([*state, *((0.0, each) for each in jobs), (0.0, first)])
        assert {line["job"] for line in lines} == {"present"}
    torn = present._replace(payload=present.payload[:-1])
    lines, count = told([*state, (0.0, former), (0.0, present), (0.0, first), (0.0, torn)])
    assert {line["job"] for line in lines} == {"present"}
    assert count.left_out == 1
    cleared = present._replace(payload=b"")
    lines, _ = told([*state, (0.0, former), (0.0, present), (0.0, first), (0.0, cleared)])
    assert {line["job"] for line in lines} == {"former"}


def test_a_job_that_tells_of_itself_again_has_the_chips_again(feed: Feed) -> None:
    """Though it runs where it did."""
    [path] = feed.layout.instances
    messages = [(0.0, each) for each in feed.announcements()]
    for second, name in enumerate(("a", "b", "a")):
        [frame] = feed.telemetry(ts_ns=START_NS + second * NS_PER_S)
        messages += [
            (float(second), frame),
            (float(second), job(name, f"2026-01-05T00:00:0{second}Z", path)),
        ]
    lines, _ = told(messages)
    assert [line["job"] for line in lines[::17]] == ["a", "b", "a"]


def test_a_descriptor_that_makes_no_sense_leaves_the_one_before(feed: Feed) -> None:
    """An invalid descriptor is counted each time, and the one before stays in use."""
    _, node = feed.announcements()
    unknown = node._replace(payload=node.payload.replace(b"trn2.48xlarge", b"trn9.48xlarge"))
    elsewhere = node._replace(payload=node.payload.replace(b'"path":"', b'"path":"x', 1))
    torn = node._replace(payload=node.payload[:-1])
    for damaged in (torn, unknown, elsewhere):
        lines, count = told(
            [(0.0, node), (0.0, damaged), *((0.0, each) for each in feed.telemetry())]
        )
        assert (len(lines), count.left_out) == (17, 1)
    _, count = told(
        [
            (0.0, node),
            (0.0, node._replace(payload=b"")),
            *((0.0, each) for each in feed.telemetry()),
        ]
    )
    assert count.problem.endswith("a frame without its descriptor")


def test_a_descriptor_that_is_repeated_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are repeated every minute, for each of tens of thousands of instances."""
    made: list[Descriptor] = []
    of = Unit.of

    def spied(descriptor: Descriptor) -> Unit:
        made.append(descriptor)
        return of(descriptor)

    monkeypatch.setattr(Unit, "of", spied)
    feed = Feed(standalone(1))
    _, node = feed.announcements()
    feed.revision = 1
    _, changed = feed.announcements()
    told([(0.0, node), (1.0, node), (2.0, changed), (3.0, changed), (4.0, node)])
    assert [each.revision for each in made] == [0, 1, 0]
