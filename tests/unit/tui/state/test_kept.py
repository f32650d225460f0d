"""Views kept by fleet in a file; caps are tested with their view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.tui.state.kept import KeptViews

if TYPE_CHECKING:
    from pathlib import Path


def opened(file: Path, *, may_save: bool = True) -> KeptViews:
    views = KeptViews()
    views.open(file, may_save=may_save)
    return views


def test_a_view_is_kept_by_fleet(tmp_path: Path) -> None:
    """What another app wrote meanwhile stays; a read-only app writes nothing."""
    file = tmp_path / "views.json"
    first = opened(file)
    second = opened(file)
    assert first.put({"alpha": "Jobs", "beta": "Fleet"}) == f"kept in {file}"
    second.put({"beta": "Chip"})
    assert opened(file, may_save=False).put({"alpha": "Events"}) == "until the app ends"
    after = opened(file)
    assert [after.view_of(fleet) for fleet in ("alpha", "beta", "gamma")] == ["Jobs", "Chip", ""]
    assert not after.problem
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["{", "[]", '{"demo": 3}', '{"demo": {}}', '"Jobs"', "\udcff"])
def test_a_damaged_file_of_views(tmp_path: Path, text: str) -> None:
    """It is named, and stays as it is."""
    file = tmp_path / "views.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    before = file.read_bytes()
    views = opened(file)
    assert views.problem.startswith(f"{file}: ")
    assert views.view_of("demo") == ""
    assert views.put({"demo": "Jobs"}).startswith(f"until the app ends: {file}: ")
    assert file.read_bytes() == before
