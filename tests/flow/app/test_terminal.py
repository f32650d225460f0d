"""The app as a shell job: its terminal while running, suspended and ended."""

from __future__ import annotations

import os
import pty
import random
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
"""A program with its terminal as controlling one. It gets SIGHUP when that is closed."""


def test_a_job_of_a_shell(tmp_path: Path) -> None:
    """The app survives suspension and resumption by a shell.

    Drawn with stderr in a file and without a home; ctrl+z, bg, fg; SIGSTOP and fg; SIGQUIT.
    """
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
        said == "trnfleet: /dev/null/nobody/.local/state/trnfleet: Not a directory; the log is in"
        f" {folder}\n"
    )
    logged = (folder / "app.log").read_text()
    assert re.search(r"Current thread .* \(most recent call first\):", logged)
    assert "in run_forever" in logged


def test_without_job_control(tmp_path: Path) -> None:
    """Without job control ctrl+z stops nothing: the app goes on and ends normally."""
    log_file = str(tmp_path / "app.log")
    with Terminal("replay", str(RECORDING), "--log-file", log_file) as terminal:
        terminal.wait_for("us-0001")
        drawn = len(terminal.raw)
        terminal.send("\x1a")
        terminal.wait_until(lambda _: b"\x1b[?1049h" in terminal.raw[drawn:])
        terminal.send("2")
        terminal.wait_for("[2 Hierarchy]")
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
    """NO_COLOR sends no colour code, not even a default's.

    LC_ALL=C sends only ASCII.
    """
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


def test_a_console_with_stale_variables_and_unknown_keys(tmp_path: Path) -> None:
    """It gets ASCII in the window's size, not an exported one.

    Unknown sequences are counted.
    """
    log_file = tmp_path / "app.log"
    draw = random.Random(1)  # noqa: S311  a fixed choice
    unknown = [
        "\x1b[97;1:3u",
        "\x1b[97:65;2;65u",
        "\x1b[1;1:3B",
        "\x1b]11;q\x1b\\",
        "\x1bPq\x1b\\",
    ] + [
        f"\x1b[{''.join(draw.choices('0123456789;:<=>?', k=9))}{draw.choice('qxyz{|')}"
        for _ in range(300)
    ]
    with Terminal(
        "replay",
        str(RECORDING),
        "--log-file",
        str(log_file),
        TERM="linux",
        COLUMNS="60",
        LINES="20",
    ) as terminal:
        terminal.wait_for("us-0001", ". normal")
        # Of 60 columns these had no room.
        terminal.wait_for("hot 70.6  C", "9 Events", "q quit")
        terminal.send("".join(unknown))
        terminal.wait_for(f"({len(unknown)} so far)")
        terminal.send("2")
        terminal.wait_for("[2 Hierarchy]", "+name", "max  C")
        terminal.resize(100, 30)
        terminal.wait_until(lambda lines: "q quit" in lines[29])
        assert terminal.end(keys="q") == 0
        sent = bytes(terminal.raw)
    assert {byte for byte in sent if byte > 0x7F} == set()
    assert (
        'input_dropped logger="trnfleet.tui.app.screen" sequence="^[[97;1:3u" total=1'
        in log_file.read_text()
    )


def test_a_terminal_that_is_closed(tmp_path: Path) -> None:
    """The app ends as at SIGHUP, without a traceback of failed output."""
    ours, its = pty.openpty()
    with (tmp_path / "stderr").open("wb") as stderr:
        app = subprocess.Popen(
            [
                sys.executable,
                "-c",
                TAKES_TERMINAL,
                "monitor",
                "--broker",
                f"127.0.0.1:{free_port()}",
                "--name",
                "demo",
            ],
            stdin=its,
            stdout=its,
            stderr=stderr,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
    os.close(its)
    drawn = b""
    while b"connection refused" not in drawn:
        drawn += os.read(ours, 65_536)
    os.close(ours)
    assert app.wait(15) == 129
    assert (tmp_path / "stderr").read_bytes() == b""
