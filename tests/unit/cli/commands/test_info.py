from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import cbor2
import pytest
from click.testing import CliRunner, Result
from mcap.writer import Writer
from support.monitor.feed import Feed, ultraservers

from trnfleet.cli.commands.info import command
from trnfleet.clock import NS_PER_S
from trnfleet.record.format.envelopes import pack
from trnfleet.record.format.metadata import PROFILE, About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import parse_topic

if TYPE_CHECKING:
    from pathlib import Path


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
    writer = RecordingWriter(
        path, About(id="test", fleets=("demo",), note="a\x1b[31mnote"), **options
    )
    for envelope in feed.announcements():
        writer.write(START_NS, envelope)
    for tick in ticks:
        for envelope in feed.telemetry():
            if tick not in without:
                writer.write(START_NS + tick * NS_PER_S, envelope)
    writer.close()


def test_backlog_is_counted_and_not_lost(tmp_path: Path) -> None:
    """It is said how much came late, and that it is not replayed."""
    feed = Feed(ultraservers(1))
    writer = RecordingWriter(tmp_path / "r.mcap", About(id="test", fleets=("demo",)))
    for envelope in feed.announcements():
        writer.write(START_NS, envelope)
    ticks = [list(feed.telemetry()) for _ in range(9)]
    late = [
        envelope._replace(topic=envelope.topic.replace("/telemetry/", "/backlog/"), qos=1)
        for tick in ticks[2:7]
        for envelope in tick
    ]
    for number, envelope in enumerate([*ticks[0], *ticks[1], *ticks[7], *late, *ticks[8]]):
        writer.write(START_NS + number * NS_PER_S, envelope)
    writer.close()
    told = facts(tmp_path / "r.mcap")
    assert (told["lost"], told["backlog"], told["fleets"][0]["backlog"]) == (0, 20, 20)
    assert told["classes"]["backlog"]["messages"] == 20
    text = info(str(tmp_path / "r.mcap")).stdout
    assert "20 more came after an outage: not lost, not replayed" in text


def test_messages_that_make_no_sense_are_told_once(tmp_path: Path) -> None:
    """They are on stderr, too, and a second reading finds no more of them."""
    file = tmp_path / "odd.mcap"
    with file.open("wb") as stream:
        writer = Writer(stream)
        writer.start(PROFILE, "x")
        channel = writer.register_channel("telemetry", "cbor", 0)
        good = pack(Envelope("trnfleet/v1/demo/telemetry/uc1/us-0001", b"{}"))
        for number, data in enumerate([good, b"{}", cbor2.dumps([1]), good]):
            writer.add_message(channel, START_NS + number, data, START_NS + number)
        writer.finish()  # type: ignore[no-untyped-call]  # mcap leaves it without types
    result = info(str(file))
    assert "complete; left out: 2 senseless messages" in result.stdout
    assert result.stderr == f"{file}: left out: 2 senseless messages\n"
    assert facts(file)["senseless_messages"] == 2
    recording = Recording.open([file])
    for _ in range(2):
        assert len(list(recording.read(0, recording.end_ns))) == 2
    assert recording.unread == 2
    recording.close()


def test_frames_and_json_are_counted_alike(tmp_path: Path) -> None:
    """Chips and instances come from the descriptors.

    Ticks missing by sequence number are lost and leave a gap.
    """
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


def test_a_recording_is_read_once(tmp_path: Path) -> None:
    """One pass must do for all facts.

    A topic is parsed once however often it appears.
    """
    write(tmp_path / "a.mcap", ticks=range(20))
    with (
        patch.object(Recording, "all", autospec=True, side_effect=Recording.all) as read,
        patch("trnfleet.services.files.sequence_gaps.parse_topic", wraps=parse_topic) as parse,
    ):
        assert facts(tmp_path / "a.mcap")["messages"] == 20 * 4 + 5
    read.assert_called_once()
    parsed = [call.args[0] for call in parse.call_args_list]
    assert len(parsed) == len(set(parsed))


def test_a_name_like_a_key_of_a_frame_misleads_nobody(tmp_path: Path) -> None:
    """Numbers are followed whatever letters an address has."""
    feed = Feed(ultraservers(1))
    writer = RecordingWriter(tmp_path / "a.mcap", About(id="test", fleets=("demo",)))
    for tick in range(10):
        frame = {"v": 1, "path": "uc1/coldboot-1", "boot": feed.boot, "rev": 1, "seq": 2 * tick}
        envelope = Envelope("trnfleet/v1/demo/telemetry/uc1/coldboot-1", cbor2.dumps(frame))
        writer.write(START_NS + tick * NS_PER_S, envelope)
    writer.close()
    assert facts(tmp_path / "a.mcap")["lost"] == 9


@pytest.mark.parametrize("name", ["info", "check"])
def test_help_comes_without_what_reads_files(name: str) -> None:
    """Help does not import the file readers, as they need a fifth of a second."""
    code = (
        f"import sys\nfrom trnfleet.cli.main import run\nrun([{name!r}, '--help'])\n"
        "print('LOADED', *{'pydantic', 'numpy', 'mcap', 'cbor2'} & set(sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.splitlines()[-1] == "LOADED"


def test_what_is_left_of_a_recording_knows_its_fleet(tmp_path: Path) -> None:
    """After the first parts were deleted, descriptors come from the start of the oldest part."""
    write(tmp_path / "a.mcap", ticks=range(40), split_ns=5 * NS_PER_S, keep_ns=12 * NS_PER_S)
    parts = sorted(tmp_path.glob("a-*.mcap"))
    assert parts[0].name != "a-0001.mcap"
    [fleet] = facts(*parts)["fleets"]
    assert (fleet["chips"], fleet["instances"], fleet["period_s"]) == (64, 4, 1.0)


def test_text_is_for_terminals(tmp_path: Path) -> None:
    """Text from a file is printed without control characters.

    Foreign topics count as other.
    """
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
    assert "f09: 0 chips" in said
    assert "f10: 0 chips" not in said
    assert "and 15 more" in said
    assert len(facts(file)["fleets"]) == 25
