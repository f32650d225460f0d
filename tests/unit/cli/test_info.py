from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from support.feed import Feed, ultraservers

from trnfleet.cli.info import command
from trnfleet.clock import NS_PER_S
from trnfleet.record.about import About
from trnfleet.record.writer import RecordingWriter
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

START_NS = 1_767_600_000_000_000_000


def info(*arguments: str) -> Result:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def facts(*files: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(info(*map(str, files), "--json").stdout)
    return told


def write(
    path: Path, *, ticks: range, json_: bool = False, without: range = range(0), **options: Any
) -> None:
    """Record a fleet of an UltraServer, a tick a second; some ticks never come."""
    feed = Feed(ultraservers(1), json=json_)
    writer = RecordingWriter(path, About(id="test", fleets=("demo",), note="a\x1b[31mnote"), **options)
    for envelope in feed.announcements():
        writer.write(START_NS, envelope)
    for tick in ticks:
        for envelope in feed.telemetry():
            if tick not in without:
                writer.write(START_NS + tick * NS_PER_S, envelope)
    writer.close()


def test_frames_and_json_are_counted_alike(tmp_path: Path) -> None:
    """Chips and instances come from the descriptors; ticks that never came are lost by their numbers and leave a gap."""
    for json_ in (False, True):
        file = tmp_path / f"{json_}.mcap"
        write(file, ticks=range(60), without=range(20, 30), json_=json_)
        told = facts(file)
        [fleet] = told["fleets"]
        topics = 4 + 64 if json_ else 4
        assert (fleet["chips"], fleet["instances"], fleet["lost"]) == (64, 4, 10 * topics)
        assert told["classes"]["telemetry"]["messages"] == 50 * topics
        assert told["classes"]["telemetry"]["topics"] == topics
        assert [gap["duration_s"] for gap in told["gaps"]] == [11.0]
        assert (told["duration_s"], told["period_s"], told["finished"]) == (59.0, 1.0, True)


def test_what_is_left_of_a_recording_knows_its_fleet(tmp_path: Path) -> None:
    """Where the first parts were deleted, the descriptors are those that the oldest part begins with."""
    write(tmp_path / "a.mcap", ticks=range(40), split_ns=5 * NS_PER_S, keep_ns=12 * NS_PER_S)
    parts = sorted(tmp_path.glob("a-*.mcap"))
    assert parts[0].name != "a-0001.mcap"
    [fleet] = facts(*parts)["fleets"]
    assert (fleet["chips"], fleet["instances"], fleet["period_s"]) == (64, 4, 1.0)


def test_text_is_for_terminals(tmp_path: Path) -> None:
    """What a file says reaches a terminal without its control characters; topics that are not ours are counted as other."""
    file = tmp_path / "a.mcap"
    write(file, ticks=range(5))
    said = info(str(file)).stdout
    assert "demo: 64 chips of 4 instances, a tick every 1 s" in said
    assert "no gaps" in said
    assert "\x1b" not in said
    other = tmp_path / "b.mcap"
    writer = RecordingWriter(other, About(id="test"))
    writer.write(START_NS, Envelope("home/lamp", b"on"))
    writer.close()
    assert facts(other)["classes"] == {"other": {"messages": 1, "payload_bytes": 2, "topics": 1}}


def test_text_names_some_fleets_and_counts_the_rest(tmp_path: Path) -> None:
    """A file may hold a million fleets; JSON has them all."""
    file = tmp_path / "a.mcap"
    writer = RecordingWriter(file, About(id="test"))
    for number in range(25):
        writer.write(START_NS + number, Envelope(f"trnfleet/v1/f{number:02}/event/uc1", b"{}"))
    writer.close()
    said = info(str(file)).stdout
    assert "f19: 0 chips" in said
    assert "f20: 0 chips" not in said
    assert "and 5 more" in said
    assert len(facts(file)["fleets"]) == 25
