"""Folders for logs and caches: the usual ones, and their replacements."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from trnfleet import folders
from trnfleet.errors import ConfigError


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the temporary folder, without a home and without variables for others."""
    parent = tmp_path / "temporary"
    parent.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/nobody")
    return parent


def test_the_usual_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are made for the user alone.

    A relative path in a variable is ignored.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.state_folder() == (tmp_path / "state/trnfleet", "")
    assert folders.cache_folder() == (tmp_path / ".cache/trnfleet", "")
    assert stat.S_IMODE((tmp_path / "state/trnfleet").stat().st_mode) == 0o700


def test_without_a_home_both_are_in_one_temporary_folder(temporary: Path) -> None:
    state = folders.state_folder()
    cache = folders.cache_folder()
    assert state.path == cache.path == temporary / f"trnfleet-{os.getuid()}"
    assert state.problem == "/dev/null/nobody/.local/state/trnfleet: Not a directory"
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_found(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert folders.state_folder() == (
        temporary / f"trnfleet-{os.getuid()}",
        "there is no home folder",
    )


@pytest.mark.parametrize("taken_by", ["a link", "a file", "a folder that others read"])
def test_a_name_that_somebody_else_has_taken(temporary: Path, taken_by: str) -> None:
    """The log is not written through a link, nor where others read it."""
    name = temporary / f"trnfleet-{os.getuid()}"
    if taken_by == "a link":
        name.symlink_to(temporary.parent)
    elif taken_by == "a file":
        name.write_text("")
    else:
        name.mkdir()
        name.chmod(0o755)
    path = folders.temporary_folder()
    assert path != name
    assert path.parent == temporary
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_without_a_temporary_folder_either(temporary: Path) -> None:
    temporary.rmdir()
    with pytest.raises(
        ConfigError, match="no temporary folder: No such file or directory; set TMPDIR to one"
    ):
        folders.state_folder()


def test_a_file_that_cannot_be_appended_to(tmp_path: Path) -> None:
    assert folders.why_not_writable(tmp_path) == "Is a directory"
    assert not folders.why_not_writable(tmp_path / "app.log")
