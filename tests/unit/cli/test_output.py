"""Output: tables, refusals before the app uses a terminal, and the place of its log."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from trnfleet.cli.app_options import log_file_for_app
from trnfleet.cli.output import require_terminal, table_lines
from trnfleet.errors import TrnfleetError
from trnfleet.text import LONGEST

if TYPE_CHECKING:
    from pathlib import Path


class FakeTerminal:
    """A stream with or without a terminal."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("term", ["dumb", "unknown", "", None])
def test_a_terminal_that_places_no_text(term: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names the error and commands without a terminal."""
    monkeypatch.setattr(sys, "stdin", FakeTerminal())
    monkeypatch.setattr(sys, "stdout", FakeTerminal())
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    with pytest.raises(TrnfleetError, match="places text") as refused:
        require_terminal()
    said = str(refused.value)
    assert (f"TERM is {term};" if term else "TERM is not set;") in said
    assert "trnfleet status" in said
    assert "\n" not in said
    monkeypatch.setenv("TERM", "vt100")
    require_terminal()


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_no_terminal(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, FakeTerminal(is_terminal=stream != closed))
    with pytest.raises(TrnfleetError, match="needs a terminal; without one use --stdout"):
        require_terminal("--stdout")
    monkeypatch.setattr(sys, closed, None)
    with pytest.raises(TrnfleetError, match="needs a terminal"):
        require_terminal()


def test_a_home_that_is_not_writable_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Log and past are elsewhere, and one line says where and why."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/nobody")
    folder = tmp_path / f"trnfleet-{os.getuid()}"
    home = "trnfleet: /dev/null/nobody/"
    assert log_file_for_app(None, keeps_past=True) == folder / "app.log"
    both = f"{home}.local/state/trnfleet: Not a directory; the log and the past are in {folder}\n"
    assert capsys.readouterr().err == both
    given = tmp_path / "given.log"
    assert log_file_for_app(str(given), keeps_past=True) == given
    assert (
        capsys.readouterr().err
        == f"{home}.cache/trnfleet: Not a directory; the past is in {folder}\n"
    )
    assert log_file_for_app(str(given)) == given
    assert not capsys.readouterr().err


def test_a_log_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writable folder may contain a read-only log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    log_file = tmp_path / "trnfleet" / "app.log"
    log_file.mkdir(parents=True)
    assert log_file_for_app(None) == tmp_path / f"trnfleet-{os.getuid()}" / "app.log"
    assert f"{log_file}: Is a directory; the log is in" in capsys.readouterr().err


def test_tables_are_aligned() -> None:
    """Columns are as wide as their widest cell, and lines end without spaces."""
    assert table_lines([("A", "B"), ("long", "")]) == ["A     B", "long"]
    assert table_lines([("A", "B", "C"), ("x", "wide", "z")]) == ["A  B     C", "x  wide  z"]


def test_cells_are_plain_and_cut() -> None:
    """What a terminal could act upon is written out, and a cell has a limit."""
    assert table_lines([("A",), ("\x1b[2J",)]) == ["A", "\\u001b[2J"]
    assert len(table_lines([("A",), ("x" * 2_000,)])[1]) == LONGEST
