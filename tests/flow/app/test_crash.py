"""A bug that ends the app: what is left on the terminal and in the log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.paths import FIXTURES
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

RECORDINGS = FIXTURES / "recordings"
BUG = """
import trnfleet.{module} as module

def broken(*_args, **_more):
    said_in_private = "hunter" + "2"
    raise ZeroDivisionError("a bug in {owner}")

module.{owner} = broken
"""


@pytest.mark.parametrize(
    ("module", "owner"),
    [
        ("tui.fleet.view", "FleetView.tick"),
        ("monitor.replay.playback", "RecordingPlayback._play_on"),
    ],
    ids=["drawing", "behind the app"],
)
def test_a_crash_is_in_the_log(tmp_path: Path, module: str, owner: str) -> None:
    """The terminal is given back, the last line names the log, the status is 1, and the log has the traceback."""
    (tmp_path / "sitecustomize.py").write_text(BUG.format(module=module, owner=owner))
    log_file = tmp_path / "app.log"
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    recording = str(min(RECORDINGS.glob("*.mcap")))
    with Terminal("replay", recording, "--log-file", str(log_file), PYTHONPATH=path) as terminal:
        assert terminal.end(within_s=20) == 1
        assert terminal.is_restored()
        said = terminal.raw.decode(errors="replace").rpartition("\x1b[?1049l")[2]
    assert "trnfleet: the app failed" in said
    assert f"the log is {log_file}" in said.replace("\r\n", "")
    logged = log_file.read_text()
    # Lines of source are shown, values are not.
    assert "hunter2" not in said + logged
    assert "app_failed" in logged
    assert "Traceback (most recent call last)" in logged
    assert f"ZeroDivisionError: a bug in {owner}" in logged
