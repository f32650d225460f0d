"""Files of snapshots: whole, under free names, also with concurrent writers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from trnfleet.tui.snapshots.files import write_snapshot

if TYPE_CHECKING:
    from pathlib import Path


def test_several_at_once_have_files_of_their_own(tmp_path: Path) -> None:
    """Simultaneous snapshots never replace or remove one another.

    They come from two apps or a key held down.
    """
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(
                lambda number: write_snapshot(
                    tmp_path, "a", {".svg": f"{number}", ".csv": f"{number}"}
                ),
                range(64),
            )
        )
    assert len(set(made)) == 64
    for number, path in enumerate(made):
        assert path.read_text() == path.with_suffix(".csv").read_text() == f"{number}"


def test_a_file_of_a_name_that_is_taken_in_part_is_left_alone(tmp_path: Path) -> None:
    """The picture's name is free and the table's is not: both have the next one."""
    (tmp_path / "a.csv").write_text("mine")
    assert write_snapshot(tmp_path, "a", {".svg": "s", ".csv": "c"}) == tmp_path / "a-2.svg"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.csv", "a-2.svg", "a.csv"]
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_no_half_of_one_is_left(tmp_path: Path) -> None:
    """A partly written file is removed, as on a full disk."""
    with pytest.raises(OSError, match="No such file"):
        write_snapshot(tmp_path, "a", {".svg": "s", "/.csv": "c"})
    assert list(tmp_path.iterdir()) == []
