"""Job-mapping directories."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from trnfleet.bridge.host.job_mapping import read_job_mapping
from trnfleet.bridge.neuron.fields import Doubts
from trnfleet.bridge.neuron.telemetry import Holder

if TYPE_CHECKING:
    import pytest

CHIPS = {device: device for device in range(16)}


def test_files_name_devices_and_lines_jobs(tmp_path: Path) -> None:
    """A part of a device counts for it, and the oldest file is a job's begin."""
    for name, text, written_s in (
        ("0", "812\n", 1_767_571_200),
        ("1.3", "812\n\n  913 \n", 1_767_571_260),
        ("2", "", 1_767_571_200),
        ("03.new", "1", 1),
        ("README", "1", 1),
    ):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (written_s, written_s))
    (tmp_path / "4").mkdir()
    doubts = Doubts()
    assert set(read_job_mapping(tmp_path, CHIPS, doubts)) == {
        Holder("812", frozenset({0, 1}), "job-mapping", "2026-01-05T00:00:00.000Z"),
        Holder("913", frozenset({1}), "job-mapping", "2026-01-05T00:01:00.000Z"),
    }
    assert doubts.count == 0


def test_a_directory_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    """The first job makes it."""
    doubts = Doubts()
    assert read_job_mapping(tmp_path / "jobs", CHIPS, doubts) == ()
    assert doubts.count == 0
    (tmp_path / "jobs").write_text("a file")
    assert read_job_mapping(tmp_path / "jobs", CHIPS, doubts) == ()
    assert doubts.first == (
        f"{tmp_path / 'jobs'}: Not a directory; the agent must be able to read it"
    )


def test_an_unknown_device_is_named_and_the_rest_counts(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"llama\xff\n")
    (tmp_path / "16").write_text("other\n")
    (tmp_path / "17").write_text("")
    os.utime(tmp_path / "0", (8e9, 8e9))
    doubts = Doubts()
    [holder] = read_job_mapping(tmp_path, CHIPS, doubts)
    assert (holder.name, holder.since) == ("llama�", None)
    assert (doubts.count, doubts.first) == (
        1,
        f"{tmp_path / '16'}: this host has no device 16",
    )


def test_a_directory_whose_files_are_forbidden_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that can be listed and not entered."""

    def forbidden(*_: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "0").write_text("812")
    monkeypatch.setattr(Path, "is_file", forbidden)
    doubts = Doubts()
    assert read_job_mapping(tmp_path, CHIPS, doubts) == ()
    assert doubts.first.startswith(f"{tmp_path / '0'}: Permission denied; the agent must")
