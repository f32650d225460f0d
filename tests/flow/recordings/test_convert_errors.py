"""Failing conversions: their messages and remains."""

from __future__ import annotations

import errno
import os
import random
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import standalone
from support.paths import FIXTURES
from support.record.conversions import (
    HOST,
    LINES,
    SMALL_HOST,
    convert,
    fed,
    read,
    record,
)

from trnfleet.cli import main
from trnfleet.record.write.part import PartFile

if TYPE_CHECKING:
    from pathlib import Path


def test_binary_lines_are_told_for_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet that publishes frames cannot be had from mosquitto_sub's %j: the reason is said."""
    lines = tmp_path / "frames.ndjson"
    lines.write_bytes(
        b'{"tst":"2026-01-05T12:00:00.000000Z+0000","topic":"t","payload":"\xa3\x01\xff"}\n' * 50
    )

    convert(lines, tmp_path / "a.mcap", status=2)

    assert (
        "first line 1: not JSON: not UTF-8 text; mosquitto_sub's %j does not keep"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "a.mcap").exists()


def test_which_instance_must_be_said_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several instances, an unknown one or an unknown fleet: one line, and no output file."""
    record(tmp_path / "a.mcap", fed(standalone(2))[1])
    out = tmp_path / "out.ndjson"
    for more, expected in (
        ((), "2 instances in it: name one with --instance, such as uc1/standalone/trn2-0001"),
        (("--instance", "uc1/standalone/trn2-0003"), "did you mean 'uc1/standalone/trn2-0002'?"),
        (("--name", "demos"), "no fleet 'demos' in it: did you mean 'demo'?"),
    ):
        convert(tmp_path / "a.mcap", out, "--to", "neuron-monitor", *more, status=2)
        told = capsys.readouterr().err
        assert expected in told
        assert told.count("\n") == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.mcap"]


def test_wrong_use_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are only overwritten on request, and contradictory options are refused."""
    there = tmp_path / "there.mcap"
    there.write_bytes(b"precious")
    odd = tmp_path / "odd.txt"
    odd.write_text("hello\n")
    empty = tmp_path / "empty.mcap"
    empty.touch()
    bare = tmp_path / "bare.prom"
    bare.write_text("# TYPE python_info gauge\npython_info 1.0\n")
    unknown = tmp_path / "unknown.ndjson"
    unknown.write_text(SMALL_HOST.read_text().replace("trn1.2xlarge", "trn1.3xlarge"))
    for arguments, expected in (
        ((LINES, there), "there.mcap: is there already; choose another name, or --overwrite"),
        ((LINES, tmp_path / "b.ndjson"), "is mosquitto already: name another with --to"),
        (
            (odd, tmp_path / "b.mcap"),
            "odd.txt: no MCAP, no lines of mosquitto_sub -F %j, no neuron-monitor",
        ),
        ((empty, tmp_path / "b.ndjson"), "empty.mcap: it is empty"),
        ((tmp_path / "none", tmp_path / "b.mcap"), "none: No such file or directory"),
        (
            (LINES, tmp_path / "no" / "b.mcap"),
            f"trnfleet: {tmp_path}/no/b.mcap: there is no folder {tmp_path}/no",
        ),
        ((HOST, tmp_path, "--overwrite"), f"trnfleet: {tmp_path}: is no file, and is not replaced"),
        ((LINES, tmp_path / ("b" * 300 + ".mcap")), f"{'b' * 300}.mcap: File name too long"),
        ((LINES, "-", "--to", "mcap"), "a recording is not written to stdout"),
        (
            (LINES, tmp_path / "b.mcap", "--as", "a/b/c"),
            "--as is for neuron-monitor alone, and IN is mosquitto",
        ),
        ((LINES, tmp_path / "b.mcap", "--name", "x"), "--name is for neuron-monitor alone"),
        (
            (HOST, tmp_path / "b.mcap", "--instance", "a/b/c"),
            "--instance is for neuron-monitor alone, and OUT is mcap",
        ),
        ((HOST, tmp_path / "b.mcap", "--as", "a/b"), "address 'a/b' has 2 segments"),
        (
            (unknown, tmp_path / "b.mcap"),
            "line 1: unknown instance type 'trn1.3xlarge': did you mean 'trn1.32xlarge'",
        ),
        (
            (HOST, tmp_path / "b.mcap", "--from", "mosquitto"),
            "nothing in it can be converted (first line 1: topic",
        ),
        (
            (bare, "-"),
            (
                "bare.prom: nothing in it can be converted (first line 1: no metrics of"
                " neuron-monitor-prometheus)"
            ),
        ),
    ):
        convert(*arguments, status=2)
        told = capsys.readouterr().err
        assert expected in told, arguments
        assert told.count("\n") == 1
    assert there.read_bytes() == b"precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "bare.prom",
        "empty.mcap",
        "odd.txt",
        "there.mcap",
        "unknown.ndjson",
    ]

    convert(LINES, there, "--overwrite")
    assert len(read(there)) == 10


def test_what_cannot_be_written_is_told_by_the_name_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write error names OUT as the user wrote it, not the temporary name.

    Covers a full disk, and a folder without write permission.
    """
    out = tmp_path / "out.mcap"

    def fill_up(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for written in ("cut", "_write"):
        with monkeypatch.context() as patch:
            patch.setattr(PartFile, written, fill_up)
            convert(LINES, out, status=1)
        told = capsys.readouterr().err
        assert told.startswith(f"trnfleet: {out}: ")
        assert told.endswith("No space left on device\n")
        assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "source", [LINES, SMALL_HOST, FIXTURES / "neuron-monitor" / "damaged.ndjson", None]
)
def test_damaged_files_end_in_a_result_or_in_one_line(
    tmp_path: Path, source: Path | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A randomly cut and altered file is converted in part, or refused."""
    if source is None:
        source = tmp_path / "a.mcap"
        record(source, fed(standalone(1, "trn1.2xlarge"))[1])
    whole = source.read_bytes()
    chance = random.Random(7)  # noqa: S311  for reproducible damage
    for attempt in range(25):
        data = bytearray(whole[: chance.randrange(len(whole))] if attempt % 2 else whole)
        for _ in range(attempt % 7):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        damaged = tmp_path / f"damaged-{attempt}{source.suffix}"
        damaged.write_bytes(bytes(data))
        for target in ("out.mcap", "out.ndjson"):
            if damaged.suffix == ".mcap" and target == "out.mcap":
                continue
            status = main.run(["convert", str(damaged), str(tmp_path / target), "--overwrite"])
            told = capsys.readouterr().err
            assert status in {0, 1, 2}, told
            assert "Traceback" not in told
            assert 1 <= told.count("\n") <= 2, told
            assert told.isprintable() or told.replace("\n", "").isprintable()
