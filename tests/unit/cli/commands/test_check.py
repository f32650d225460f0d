from __future__ import annotations

import gzip
import json
import lzma
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.monitor.feed import Feed, standalone
from support.paths import FIXTURES, ROOT
from support.sysfs import write_tree

from trnfleet.cli.commands.check import command
from trnfleet.config import shipped_folder, shipped_names
from trnfleet.record.format.metadata import About
from trnfleet.record.format.records import MAGIC
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

LINES = FIXTURES / "mosquitto" / "payload-text.ndjson"
UNKNOWN = "no MCAP, no lines of mosquitto_sub -F %j, no neuron-monitor"
HOST = FIXTURES / "neuron-monitor" / "trn2.48xlarge-lnc2.ndjson"
TESTS = ROOT / "tests" / "alerts"
START_NS = 1_767_600_000_000_000_000


def check(*files: Path) -> tuple[int, list[str]]:
    """Check files; return the exit status and the lines."""
    result = CliRunner().invoke(command, [str(file) for file in files])
    return result.exit_code, result.output.splitlines()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (shipped_folder("fleets") / "lab.toml", "valid (fleet lab"),
        (shipped_folder("alerts") / "jobs.toml", "valid (alert rules"),
        (TESTS / "capacity.toml", "valid (tests of alert rules"),
        (shipped_folder(".") / "trnfleet.toml", "valid (settings)"),
        *(
            (shipped_folder("scenarios") / f"{name}.toml", "valid (scenario")
            for name in shipped_names("scenarios")
        ),
    ],
)
def test_what_ships_is_recognised_and_valid(file: Path, said: str) -> None:
    """A file's kind follows from its content."""
    status, [line] = check(file)
    assert line.startswith(f"{file}: {said}")
    assert status == 0


def test_valid_files_beside_an_invalid_one_are_told() -> None:
    """Mistakes of each kind of file are in fixtures/bad."""
    bad = FIXTURES / "bad" / "fleets" / "no-clusters.toml"
    status, lines = check(bad, shipped_folder("fleets") / "lab.toml")
    assert status == 2
    assert lines[0].startswith(f"{bad}: INVALID: ")
    assert lines[1].endswith("valid (fleet lab, 1 chip)")


def test_recordings(tmp_path: Path) -> None:
    """A finished recording is valid.

    A broken chunk, a cut end, and noise are not.
    """
    file = tmp_path / "a.mcap"
    writer = RecordingWriter(file, About(id="test", fleets=("demo",)))
    for number in range(1_000):
        topic = f"trnfleet/v1/demo/telemetry/uc1/us-0001/i-{number % 7}"
        writer.write(START_NS + number * 10_000_000, Envelope(topic, b'{"v":1,"seq":%d}' % number))
    writer.close()
    assert check(file) == (0, [f"{file}: valid (recording, 1,000 messages)"])
    sound = file.read_bytes()
    for broken in (
        sound[: len(sound) // 2],
        sound[:3_000] + b"\x00\x01\x02" + sound[3_003:],
        b"\x00" * 100,
    ):
        file.write_bytes(broken)
        status, lines = check(file)
        assert status == 2
        assert lines[0].startswith(f"{file}: INVALID: ")
    assert check(tmp_path / "none.mcap")[1][0].endswith("INVALID: No such file or directory")


def test_telemetry_that_a_monitor_cannot_use_is_named(tmp_path: Path) -> None:
    """Misspelt metrics and impossible values are named once each.

    The line has their number and first place.
    """
    feed = Feed(standalone(1), json=True)
    file = tmp_path / "a.mcap"
    writer = RecordingWriter(file, About(id="test", fleets=("demo",)))
    for number, envelope in enumerate(feed.telemetry()):
        data = json.loads(envelope.payload)
        if "chip" in data:
            data |= {"temp_c": 60.0, "nc_util_pct": [4294967295, *[50.0] * 7]}
        writer.write(START_NS + number, envelope._replace(payload=json.dumps(data).encode()))
    writer.close()
    where = f"{file}: INVALID: telemetry of uc1/standalone/trn2-0001/chip00:"
    assert check(file) == (
        2,
        [
            f"{where} temp_c: did you mean temperature_c? (16 times)",
            f"{where} nc_util_pct must be from 0 to 101, not 4294967295 (16 times)",
        ],
    )


def test_other_people_s_files(tmp_path: Path) -> None:
    """Lines and documents are recognised by content, whatever their name.

    Parts to leave out are not valid.
    """
    torn = tmp_path / "torn.ndjson"
    torn.write_bytes(LINES.read_bytes())
    sound = tmp_path / "sound.json"
    sound.write_bytes(
        b"".join(
            line for line in LINES.read_bytes().splitlines(keepends=True) if b"\xa3" not in line
        )
    )
    status, lines = check(torn, sound, HOST)
    assert status == 2
    assert lines[0].startswith(f"{torn}: INVALID: 10 messages, 1 left out (first line 10: not JSON")
    assert lines[1:] == [
        f"{sound}: valid (another program's recording, 10 messages)",
        f"{HOST}: valid (neuron-monitor: 4 documents)",
    ]
    damaged = tmp_path / "damaged.ndjson"
    documents = HOST.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(documents[0] + b"{\n" + documents[1])
    status, [line] = check(damaged)
    assert status == 2
    assert line.startswith(
        f"{damaged}: INVALID: neuron-monitor: 2 documents, 1 left out (first line 2: "
    )


@pytest.mark.parametrize("ending", ["ndjson", "jsonl", "json"])
def test_a_file_of_messages_is_never_taken_for_toml(ending: str, tmp_path: Path) -> None:
    """A message file is not read as TOML: its name decides."""
    file = tmp_path / f"odd.{ending}"
    file.write_text("hello\n")
    assert check(file) == (
        2,
        [f"{file}: INVALID: {UNKNOWN}; line 1 is not JSON: 'hello'"],
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.log", b"<html>503</html>", f"{UNKNOWN}; line 1 is not JSON: '<html>503</html>'"),
        ("a.gz", gzip.compress(b"[1]", mtime=0), f"{UNKNOWN}; line 1 is JSON with no object: '1'"),
        (
            "a.gz",
            gzip.compress(b"x" * 9, mtime=0)[:-9],
            f"{UNKNOWN}; line 1 is not JSON: 'xxxxxxxxx'; its gzip data are cut",
        ),
        ("a.xz", lzma.compress(b"{}"), "it is packed with xz: unpack it, or pack it with gzip"),
        ("a.gz", gzip.compress(MAGIC, mtime=0), "a recording packed with gzip"),
        ("a.toml", b"name = ", "not valid TOML"),
    ],
)
def test_a_file_of_no_kind_is_named_by_its_content(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    status, [line] = check(file)
    assert status == 2
    assert line.startswith(f"{file}: INVALID: {said}")


def test_a_tree_of_the_driver_alone_and_beside_documents(tmp_path: Path) -> None:
    """`check DIR` says what the tree has, `--sysfs` what it adds to documents."""
    write_tree(tmp_path)
    status, lines = check(tmp_path)
    assert status == 0
    assert "power_util_pct" in lines[0]
    result = CliRunner().invoke(command, [str(HOST), "--sysfs", str(tmp_path)])
    assert result.exit_code == 0, result.output
    filled = result.output.partition("from the driver's tree: ")[2].rstrip(")\n").split(", ")
    assert {"power_util_pct", "health"} <= set(filled)
    assert "exec_completed" not in filled
    result = CliRunner().invoke(command, [str(HOST), "--sysfs", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "there is no such folder" in result.output
