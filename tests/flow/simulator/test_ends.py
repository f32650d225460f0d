"""The end of every command that runs with a broker, when the broker does nothing any more."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.processes.forked import ForkedCommands
from support.record.fixtures import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

LIMIT_S = 3.0
"""2 s is what is promised; this leaves room for a machine on which a suite runs. Without the mechanism it is 5 to 10 s."""


def test_every_command_ends_although_the_broker_has_stopped(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """With a broker that stopped while they ran, and one that never answers, each ends in time and tells the signal apart."""
    broker = ("--broker", str(mosquitto.url))
    recording = str(RECORDINGS / "steady-training.mcap")
    commands = {
        "simulate": ("simulate", *broker, "--fleet", "lab"),
        "record": ("record", str(tmp_path / "a.mcap"), *broker),
        "replay": ("replay", recording, *broker, "--as", "again"),
        "watch": ("watch", *broker, "--name", "lab"),
    }
    one_shot = {
        "status": ("status", *broker),
        "alerts": ("alerts", *broker, "--name", "lab"),
        "inject": ("inject", "--active", *broker, "--name", "lab"),
        "silence": ("silence", "list", *broker, "--name", "lab"),
    }
    with ForkedCommands(tmp_path) as running:
        for name, arguments in commands.items():
            running.start(name, *arguments)
        running.wait_for(
            {"simulate": "publishing", "record": "recording", "replay": "replaying", "watch": "watching"}
        )
        mosquitto.pause()
        for name, arguments in {**commands, **one_shot}.items():
            running.start(f"{name} connecting", *[each.replace("a.mcap", "b.mcap") for each in arguments])
        time.sleep(0.5)
        ended = running.end(signal.SIGINT)
    late = {name: each for name, each in ended.items() if each.after_s > LIMIT_S}
    assert not late
    statuses = {name: each.status for name, each in ended.items()}
    assert statuses == {name: 130 if "connecting" in name else 0 for name in ended}
    assert "Traceback" not in "".join(each.output for each in ended.values())
