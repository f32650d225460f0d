"""Two users' screens on one broker: messages about an alert appear on both.

They survive restarts.
"""

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

SILENT = "uc1/us-0001/trn2u-0001-2"
SCENARIO = f"""
title = "An agent is silent"
fleet = "demo"

[[faults]]
fault = "agent_silent"
target = "{SILENT}"
at = "1s"
for = "1h"
"""


def app(mosquitto: MosquittoProcess, owner: str) -> Terminal:
    return Terminal(
        "monitor",
        "--broker",
        str(mosquitto.url),
        "--name",
        "demo",
        "--allow-commands",
        "--owner",
        owner,
        columns=130,
        rows=36,
    )


def test_an_ack_is_on_both_screens(
    mosquitto: MosquittoProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acknowledgement reaches the other screen within a second, and survives restarts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    scenario = tmp_path / "silent.toml"
    scenario.write_text(SCENARIO)
    # A day before the first block ends, so that no alert of it stands above the one that is looked
    # at.
    start = ("--start", "2026-01-05T12:00:00Z")
    options = (
        "--broker",
        str(mosquitto.url),
        "--scenario",
        str(scenario),
        "--period",
        "250ms",
        *start,
    )
    coarse = ("--format", "cbor", "--granularity", "instance")
    with Program(tmp_path, "simulate", *options, *coarse):
        with app(mosquitto, "ann") as ann, app(mosquitto, "ben") as ben:
            for screen in (ann, ben):
                screen.wait_for("Fleet")
                screen.send("8")
                screen.wait_for("instance-silent", within_s=40)
            for screen in (ann, ben):
                screen.send("t")
                screen.wait_for("[all")
            ann.send("a")
            ann.wait_for("Acknowledge")
            time.sleep(0.3)
            ann.send("looking at it")
            ann.wait_for("looking at it")
            ann.send("\r")
            ben.wait_for("looking at it", within_s=20)
            ann.wait_for_no("Acknowledge")
            ann.wait_for("looking at it")
            ann.end(keys="q")
            ben.end(keys="q")
        with app(mosquitto, "ben") as ben, app(mosquitto, "eve") as eve:
            for screen in (ben, eve):
                screen.wait_for("Fleet")
                screen.send("8")
                screen.wait_for("[active")
                screen.send("t")
                screen.wait_for("instance-silent", "ann", "looking at it", within_s=40)
                screen.end(keys="q")
    assert run("status", "--broker", str(mosquitto.url), "--name", "demo").returncode in {0, 3}
