from __future__ import annotations

import stat
import tempfile
from typing import TYPE_CHECKING

from trnfleet.cli.commands.demo import FIRST_RUN_FILE, is_first_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_only_the_first_run_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run leaves the user's own empty file.

    Without it the next run is the first.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert [is_first_run() for _ in range(3)] == [True, False, False]
    file = tmp_path / "trnfleet" / FIRST_RUN_FILE
    assert file.read_bytes() == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert is_first_run()


def test_every_run_is_one_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home, and without any folder for temporary files either; nothing is left there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nobody")
    assert [is_first_run() for _ in range(2)] == [True, True]
    assert not list(tmp_path.rglob(FIRST_RUN_FILE))
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nobody")
    assert is_first_run()


def test_a_state_folder_with_a_folder_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anything of the file's name counts as the file.

    A dangling link is neither followed nor an error.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "trnfleet").mkdir()
    (tmp_path / "trnfleet" / FIRST_RUN_FILE).symlink_to(tmp_path / "elsewhere")
    assert not is_first_run()
    assert not (tmp_path / "elsewhere").exists()
