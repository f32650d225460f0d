"""The app as a job of a shell: its terminal while it runs, is suspended and is ended."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.paths import FIXTURES
from support.processes.mosquitto import free_port
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

RECORDING = FIXTURES / "recordings" / "game-day.mcap"
SHELL = ("/bin/bash", "--norc", "--noprofile", "-i")
CLEARED = "\\r\\n\\033[2J\\033[H"

TAKES_TERMINAL = """
import fcntl, termios
from trnfleet.cli.main import main
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
main()
"""
"""A program whose terminal is its controlling one, so that it gets SIGHUP where that is closed."""


def test_a_job_of_a_shell(tmp_path: Path) -> None:
    """Drawn with stderr in a file and without a home; ctrl+z, bg, fg; SIGSTOP and fg; SIGQUIT."""
    variables = {
        "PS1": "READY$ ",
        "PY": sys.executable,
        "HOME": "/dev/null/nobody",
        "TMPDIR": str(tmp_path),
    }
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        variables[name] = ""
    with Terminal(program=SHELL, columns=120, rows=40, **variables) as terminal:
        terminal.wait_for("READY$")
        terminal.send(f"$PY -m trnfleet replay {RECORDING} 2>{tmp_path}/stderr\r")
        drawn = ("1 Fleet", "chips", "a recording", "us-0001")
        # Without a home each run of the demo is a first one; a replay never is.
        assert "open a problem" not in terminal.wait_for(*drawn)
        [app] = [each for each in terminal.children() if "replay" in each.cmdline()]
        terminal.send("\x1a")
        terminal.wait_for("Stopped")
        # The shell draws over the screen, which the app must draw again, every line of it.
        terminal.send(f"bg; stty -a | grep -o .icanon; printf '{CLEARED}'; echo clea''red\r")
        terminal.wait_for("cleared")
        assert "us-0001" not in terminal.text
        terminal.send("fg\r")
        terminal.wait_for(*drawn)
        app.send_signal(signal.SIGSTOP)
        terminal.wait_for("Stopped")
        terminal.send(f"printf '{CLEARED}'; echo clea''red\r")
        terminal.wait_for("cleared")
        terminal.send("fg\r")
        terminal.wait_for(*drawn)
        app.send_signal(signal.SIGQUIT)
        terminal.wait_for("READY$")
        terminal.send("echo status=$?; stty -a | grep -o .icanon\r")
        terminal.wait_for("status=131", " icanon")
    folder = tmp_path / f"trnfleet-{os.getuid()}"
    said = (tmp_path / "stderr").read_text()
    assert (
        said
        == f"trnfleet: /dev/null/nobody/.local/state/trnfleet: Not a directory; the log is in {folder}\n"
    )
    logged = (folder / "app.log").read_text()
    assert re.search(r"Current thread .* \(most recent call first\):", logged)
    assert "in run_forever" in logged


def test_without_job_control(tmp_path: Path) -> None:
    """Where no shell could continue it ctrl+z stops nothing: the app goes on and ends as ever."""
    log_file = str(tmp_path / "app.log")
    with Terminal("replay", str(RECORDING), "--log-file", log_file) as terminal:
        terminal.wait_for("us-0001")
        drawn = len(terminal.raw)
        terminal.send("\x1a")
        terminal.wait_for("us-0001")
        terminal.send("2")
        terminal.wait_for("[2 Hierarchy]")
        assert b"\x1b[?1049h" in terminal.raw[drawn:]
        assert terminal.end(signal.SIGTERM) == 143
        assert terminal.is_restored()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_show_it(term: str) -> None:
    """One line says so, without any escape sequence."""
    with Terminal(TERM=term) as terminal:
        assert terminal.end() == 1
        said = terminal.raw.decode()
    assert "the app needs a terminal that places text" in said
    assert "\x1b" not in said


def test_a_terminal_without_colours_and_utf8() -> None:
    """With NO_COLOR no colour code is sent, not even that of a default; with LC_ALL=C nothing but ASCII."""
    # An interpreter of its own, which reads the locale at its start.
    own = (sys.executable, "-m", "trnfleet")
    with Terminal("replay", str(RECORDING), program=own, NO_COLOR="1", LC_ALL="C") as terminal:
        terminal.wait_for("us-0001", ". normal")
        for key, wanted in (
            ("2", "[2 Hierarchy]"),
            ("4", "NeuronCores"),
            ("8", "[8 Alerts"),
            ("?", "Everywhere"),
        ):
            terminal.send(key)
            terminal.wait_for(wanted)
        sent = bytes(terminal.raw)
        assert terminal.end(signal.SIGTERM) == 143
    codes = {
        int(code)
        for codes in re.findall(rb"\x1b\[([\d;]*)m", sent)
        for code in codes.split(b";")
        if code
    }
    assert codes <= {0, 1, 2, 7}
    assert 7 in codes
    assert {byte for byte in sent if byte > 0x7F} == set()


def test_a_terminal_that_is_closed(tmp_path: Path) -> None:
    """The app ends as at SIGHUP, and leaves no traceback of what it could not draw any more."""
    ours, its = pty.openpty()
    with (tmp_path / "stderr").open("wb") as stderr:
        app = subprocess.Popen(
            [sys.executable, "-c", TAKES_TERMINAL, "monitor", "--broker", f"127.0.0.1:{free_port()}", "--name", "demo"],
            stdin=its, stdout=its, stderr=stderr, start_new_session=True, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip  # a process
    os.close(its)
    drawn = b""
    while b"connection refused" not in drawn:
        drawn += os.read(ours, 65_536)
    os.close(ours)
    assert app.wait(15) == 129
    assert (tmp_path / "stderr").read_bytes() == b""
