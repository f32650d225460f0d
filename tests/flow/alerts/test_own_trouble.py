"""Broker trouble in a real `watch`: one alert on the connection, none on the fleet."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

RULES = """
title = "Test"

[[rules]]
name = "silent"
scope = "instance"
severity = "critical"
absent = true
for = "1s"
summary = "{target} is silent for {value}"
runbook = "Look at it."

[[rules]]
name = "unheard"
scope = "pipeline"
severity = "critical"
figure = "unheard_s"
above = 1
summary = "nothing has been heard for {value}"
runbook = "Look at the broker."
"""


def told(watch: Program) -> list[tuple[str, str]]:
    """Return a watch's notifications so far: alert and state."""
    lines = [json.loads(line) for line in watch.output.splitlines() if line.startswith("{")]
    return [(each["alertname"], each["state"]) for each in lines]


def until(holds: Callable[[], object], what: Callable[[], object], within_s: float = 20.0) -> None:
    limit = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < limit, what()
        time.sleep(0.05)


def test_a_stopped_and_a_killed_broker_are_one_alert_each(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """A stopped broker and a killed one are each reported once, with the end.

    A stopped one answers nothing, a killed one closes. No instance is silent.
    """
    (tmp_path / "rules.toml").write_text(RULES)
    broker = ("--broker", str(mosquitto.url), "--name", "demo")
    fast = ("--period", "200ms", "--format", "cbor", "--granularity", "instance")
    simulate = ("simulate", "--broker", str(mosquitto.url), "--fleet", "demo", *fast)
    watch = ("watch", *broker, "--rules", str(tmp_path / "rules.toml"), "--stdout")
    with Program(tmp_path, *simulate), Program(tmp_path, *watch) as watching:
        until(lambda: "leader for demo" in watching.output, lambda: watching.output)
        time.sleep(0.7)
        mosquitto.pause()
        until(lambda: len(told(watching)) == 1, lambda: watching.output)
        # The rule about silence would have fired by now.
        time.sleep(1.0)
        mosquitto.resume()
        until(lambda: len(told(watching)) == 2, lambda: watching.output)
        mosquitto.kill()
        until(lambda: len(told(watching)) == 3, lambda: watching.output)
        mosquitto.start()
        until(lambda: len(told(watching)) == 4, lambda: watching.output)
        assert told(watching) == [("unheard", "firing"), ("unheard", "resolved")] * 2
