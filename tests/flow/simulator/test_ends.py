"""The end of every command with a dead broker."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.processes.forked import ForkedCommands
from support.processes.terminal import Terminal
from support.record.fixtures import RECORDINGS

from lab.chaos.broker_ways import WAYS
from lab.chaos.fake_broker import FakeBroker
from trnfleet.tasks import END_S, GOODBYE_S

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker


def test_the_waits_of_an_end_leave_room() -> None:
    """Both goodbyes in a row are well within the promised time."""
    assert 2 * GOODBYE_S <= 0.75 * END_S


def test_every_command_ends_although_the_broker_has_stopped(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Each command ends in time by its signal with any dead broker.

    The broker has stopped, never answers, or acknowledges nothing.
    """
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
        "usage": ("usage", *broker, "--name", "lab"),
        "inject": ("inject", "--active", *broker, "--name", "lab"),
        "silence": ("silence", "list", *broker, "--name", "lab"),
    }
    no_answer = next(way for way in WAYS if way.name == "no PUBACK")
    with (
        FakeBroker(no_answer, random.Random(1)) as unanswering,  # noqa: S311  a test's choices
        ForkedCommands(tmp_path) as running,
        Terminal("monitor", *broker, "--name", "lab", "--past", "0") as app,
    ):
        for name, arguments in commands.items():
            running.start(name, *arguments)
        unacknowledged = {
            "simulate unacknowledged": ("simulate", "--broker", unanswering.url, "--fleet", "demo"),
            "replay unacknowledged": (
                "replay",
                recording,
                "--broker",
                unanswering.url,
                "--as",
                "again",
            ),
        }
        for name, arguments in unacknowledged.items():
            running.start(name, *arguments)
        running.wait_for(
            {
                "simulate": "publishing",
                "record": "recording",
                "replay": "replaying",
                "watch": "watching",
                "simulate unacknowledged": "publishing",
                "replay unacknowledged": "replaying",
            }
        )
        app.wait_for("all live")
        mosquitto.pause()
        for name, arguments in {**commands, **one_shot}.items():
            running.start(
                f"{name} connecting", *[each.replace("a.mcap", "b.mcap") for each in arguments]
            )
        running.wait_connecting()
        ended = running.end(signal.SIGINT)
        began_s = time.monotonic()
        app_status = app.end(signal.SIGTERM)
        app_after_s = time.monotonic() - began_s
        assert app.is_restored()
    needed_s = {name: each.after_s - each.starved_s for name, each in ended.items()}
    assert not {name: each for name, each in needed_s.items() if each > END_S}
    assert app_after_s < END_S + max(each.starved_s for each in ended.values())
    assert app_status == 143
    statuses = {name: each.status for name, each in ended.items()}
    assert statuses == {name: 130 if "connecting" in name else 0 for name in ended}
    assert "Traceback" not in "".join(each.output for each in ended.values())
