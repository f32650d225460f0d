"""The list of problems in the real app: a recovering fleet on a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

FLEET = """
name = "small"

[[clusters]]
name = "uc1"
instances = [{ type = "trn2.3xlarge", count = 70 }]
"""
SCENARIO = """
title = "Some agents stay silent"

[[faults]]
fault = "agent_silent"
target = "uc1/standalone/trn2-00[01]?"
at = "1s"
for = "1h"
"""
END = "\x1b[F"
SILENT_S = 20
"""Silence of the other instances. Alerts fire after 10 s, and the rest is for the keys to the
list's end."""


def silence(mosquitto: MosquittoProcess, target: str) -> None:
    """Let agents fall silent for a while; asked again until the simulator has subscribed."""
    until = time.monotonic() + 30
    asking = (
        "inject",
        "agent_silent",
        target,
        "--for",
        f"{SILENT_S}s",
        "--broker",
        str(mosquitto.url),
    )
    while (answer := run(*asking, "--timeout", "2s")).returncode != 0:
        assert time.monotonic() < until, answer.stderr


def test_a_fleet_that_recovers_while_its_problems_are_scrolled_to_the_end(
    mosquitto: MosquittoProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the cursor on the last of 69 problems, 50 of them end.

    The app lives and shows the last remaining ones.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    fleet = tmp_path / "small.toml"
    fleet.write_text(FLEET)
    scenario = tmp_path / "silent.toml"
    scenario.write_text(SCENARIO)
    broker = ("--broker", str(mosquitto.url))
    options = (
        "--fleet",
        str(fleet),
        "--scenario",
        str(scenario),
        "--allow-commands",
        "--period",
        "250ms",
    )
    coarse = ("--format", "cbor", "--granularity", "instance")
    with (
        Program(tmp_path, "simulate", *broker, *options, *coarse),
        Terminal("monitor", *broker, columns=100, rows=24) as terminal,
    ):
        # The first run of the user, but not of the demo.
        assert "open a problem" not in terminal.wait_for("70 chips")
        silence(mosquitto, "uc1/standalone/trn2-00[23456]?")
        terminal.wait_for_match(r"Problems +69")
        terminal.send("w")
        terminal.wait_for_match(r">.*trn2-0001 ")
        terminal.send(END)
        terminal.wait_for("trn2-0069  silent")
        terminal.wait_for_match(r"Problems +19", within_s=SILENT_S + 15)
        text = terminal.wait_for_match(r">.*trn2-0019 ")
        assert "trn2-0018 " in text
        assert "trn2-0069  silent" not in text
        # It takes keys and ends when asked.
        terminal.send("g")
        terminal.wait_for_match(r">.*trn2-0001 ")
        assert terminal.end(keys="q") == 0
        assert terminal.is_restored()
