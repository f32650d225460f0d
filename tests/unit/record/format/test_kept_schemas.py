"""A recording of every schema ever written, read for ever.

These files are never made again.
"""

from __future__ import annotations

from support.paths import FIXTURES

from trnfleet.record.format.schema import MAJOR, MINOR
from trnfleet.record.read.recording import Recording
from trnfleet.wire.ports import MessageProperties

KEPT = FIXTURES / "schemas"


def test_there_is_one_of_the_present_schema() -> None:
    """The present schema has a recording.

    Add one with each new schema.
    """
    assert (KEPT / f"recording-{MAJOR}.{MINOR}.mcap").exists()


def test_the_recording_of_schema_1_0_says_what_it_said() -> None:
    recording = Recording.open([KEPT / "recording-1.0.mcap"])
    assert recording.abouts[0].schema == "1.0"
    assert recording.abouts[0].seed == 7
    assert recording.fleets == ("lab",)
    assert recording.verify() == []
    stored = list(recording.read(recording.start_ns - 1, recording.end_ns))
    topics = {each.envelope.topic for each in stored}
    assert len(stored) == 63
    assert "trnfleet/v1/lab/node/lab/standalone/trn2-0001" in topics
    telemetry = [each for each in stored if "/telemetry/" in each.envelope.topic]
    assert len(telemetry) == 30
    assert {each.envelope.content_type for each in telemetry} == {"application/cbor"}
    assert telemetry[-1].time_ns - telemetry[0].time_ns == 29_000_000_000
    keyframe = recording.keyframe(recording.end_ns)
    assert keyframe is not None
    assert keyframe.has_values
    assert {each.envelope.topic for each in keyframe.state} <= topics
    recording.close()


def test_the_recording_of_schema_1_1_says_what_it_said() -> None:
    """It has the properties of MQTT 5, in messages and in the keyframe."""
    recording = Recording.open([KEPT / "recording-1.1.mcap"])
    assert recording.abouts[0].schema == "1.1"
    assert recording.verify() == []
    stored = list(recording.read(recording.start_ns - 1, recording.end_ns))
    assert [each.envelope.properties for each in stored] == [
        MessageProperties((("site", "fra"), ("site", "muc"))),
        None,
        MessageProperties((), "trnfleet/v1/lab/reply/ops/1", b"\x00\x01", 60),
    ]
    keyframe = recording.keyframe(recording.end_ns)
    assert keyframe is not None
    assert keyframe.state[0].envelope.properties == MessageProperties(
        (("site", "fra"), ("site", "muc"))
    )
    recording.close()


def test_the_recording_of_schema_1_2_says_what_it_said() -> None:
    """Schema 1.2 has the count of left-out messages, in messages and in the keyframe."""
    recording = Recording.open([KEPT / "recording-1.2.mcap"])
    assert recording.abouts[0].schema == "1.2"
    assert recording.verify() == []
    stored = list(recording.read(recording.start_ns - 1, recording.end_ns))
    assert [each.envelope.shed for each in stored] == [0, 3, 3, 70_000]
    keyframe = recording.keyframe(recording.end_ns)
    assert keyframe is not None
    assert [each.envelope.shed for each in keyframe.state] == [3]
    recording.close()
