"""Recordings of a top broker: roll-ups are values as telemetry is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.record.files import ABOUT, at

from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.recording_summary import summarize
from trnfleet.wire.messages import ClockSpec, message_envelope
from trnfleet.wire.ports import Envelope
from trnfleet.wire.rollups import RollupDescriptor, RollupRow
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path

PATH = "uc1/cell-a/0000"
FRAMES = build_topic("demo", TopicClass.ROLLUP, PATH)


def test_a_recording_of_roll_ups_is_counted_and_opened_at_any_place(tmp_path: Path) -> None:
    """Hardware comes from its rows, its tick from its frames.

    A keyframe has the newest frame of each block.
    """
    descriptor = RollupDescriptor(
        path=PATH,
        publisher="relay-1",
        boot="b00t",
        period_s=1.0,
        clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
        cell="cell-a",
        rows=(
            RollupRow(path="uc1/standalone/trn2-1", type="trn2.48xlarge", instances=1),
            # An older name of trn2u.48xlarge.
            RollupRow(path="uc1/us-0001", type="trn2n.48xlarge", instances=4),
        ),
    )
    writer = RecordingWriter(tmp_path / "top.mcap", ABOUT)
    writer.write(
        at(0), message_envelope(build_topic("demo", TopicClass.NODE, PATH), descriptor, retain=True)
    )
    for tick in range(130):
        writer.write(at(tick), Envelope(FRAMES, b"frame %d" % tick))
    writer.close()
    recording = Recording.open([tmp_path / "top.mcap"])
    seen = summarize(["top.mcap"], recording)
    (fleet,) = seen["fleets"]
    assert (fleet["chips"], fleet["instances"], seen["period_s"]) == (80, 5, 1.0)
    keyframe = recording.keyframe(at(129))
    assert keyframe is not None
    newest = [each.envelope.payload for each in keyframe.state if each.envelope.topic == FRAMES]
    assert len(newest) == 1
    recording.close()
