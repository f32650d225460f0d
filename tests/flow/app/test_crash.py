"""Terminal and log after a bug ends the app."""

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
    ("module", "owner", "keys"),
    [
        ("tui.fleet.view", "FleetView.tick", ""),
        ("monitor.replay.playback", "RecordingPlayback._play_on", ""),
        ("tui.app.actions", "ActionsApp.action_theme", "\x14"),
        ("tui.app.terminal", "TerminalApp._draw_again", "resize"),
        ("tui.app.terminal", "TerminalDriver._tell_size", "resize"),
        ("tui.app.input", "InputParser.flush", "\x1b"),
        ("tui.app.terminal", "TerminalDriver._read", "x"),
        ("tui.app.terminal", "_TerminalFile.write", ""),
    ],
    ids=[
        "worker",
        "behind the app",
        "handler",
        "timer",
        "callback of the loop",
        "input",
        "reading",
        "writer",
    ],
)
def test_a_crash_is_in_the_log(tmp_path: Path, module: str, owner: str, keys: str) -> None:
    """The terminal is restored, the last line names the log, and it has the traceback.

    The status is 1.
    """
    (tmp_path / "sitecustomize.py").write_text(BUG.format(module=module, owner=owner))
    log_file = tmp_path / "app.log"
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    recording = str(min(RECORDINGS.glob("*.mcap")))
    with Terminal("replay", recording, "--log-file", str(log_file), PYTHONPATH=path) as terminal:
        if keys:
            terminal.wait_for("us-0001")
        if keys == "resize":
            terminal.resize(100, 35)
        elif keys:
            terminal.send(keys)
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
