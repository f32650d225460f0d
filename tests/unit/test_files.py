"""Private files, and temporary folders of dead processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from typing import TYPE_CHECKING

import pytest

from trnfleet.files import LOCK_NAME, delete_left_folders, open_private, temporary_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that stands for /tmp."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    """The umask may take more away, and what somebody has opened to others stays so."""
    new = tmp_path / "new"
    old = tmp_path / "old"
    old.touch()
    old.chmod(0o640)
    former = os.umask(0)
    try:
        for path in (new, old):
            os.close(open_private(str(path), os.O_WRONLY | os.O_CREAT))
    finally:
        os.umask(former)
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


def test_a_folder_is_there_while_it_is_used(temporary: Path) -> None:
    """A folder is deleted with its content at the end, also after an error."""
    with contextlib.suppress(KeyError), temporary_folder("ours-") as folder:
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").touch()
        raise KeyError
    assert not list(temporary.iterdir())


def test_only_folders_of_dead_processes_are_deleted(temporary: Path) -> None:
    """Locked folders, ones without a lock, links, files and other prefixes stay."""
    with temporary_folder("ours-") as used:
        dead = temporary / "ours-dead"
        unlocked = temporary / "ours-bare"
        other = temporary / "theirs"
        for folder in (dead, unlocked, other):
            folder.mkdir()
            (folder / "broker.log").touch()
        for folder in (dead, other):
            (folder / LOCK_NAME).touch()
        (temporary / "ours-link").symlink_to(other)
        (temporary / "ours-file").touch()
        assert delete_left_folders("ours-") == 1
        assert not dead.exists()
        assert {path.name for path in temporary.iterdir()} == {
            used.name,
            "ours-bare",
            "theirs",
            "ours-link",
            "ours-file",
        }
        assert (other / "broker.log").exists()


def test_the_next_start_cleans_up(temporary: Path) -> None:
    """A killed process leaves its folder with a free lock.

    The next folder replaces it.
    """
    left = temporary / "ours-left"
    left.mkdir()
    lock = os.open(left / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with temporary_folder("ours-"):
        assert left.exists()
    os.close(lock)
    with temporary_folder("ours-"):
        assert not left.exists()
