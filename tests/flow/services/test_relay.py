"""A relay between two Mosquittos: the top shows the cell from roll-ups, and what no relay sees is not observed."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.broker


def test_the_top_shows_the_cell_until_its_relay_is_killed(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """All figures come from roll-ups; kill -9 makes all not observed, and another relay makes it live again."""
    top = MosquittoProcess(tmp_path)
    top.start()
    relaying = ("relay", "--broker", str(mosquitto.url), "--to", str(top.url), "--cell", "cell-a")

    def status(broker: MosquittoProcess) -> dict[str, Any]:
        result = run("status", "--broker", str(broker.url), "--name", "demo", "--json", "--wait", "1s")
        return dict(json.loads(result.stdout)) if result.stdout else {"chips": 0}

    def wait_for(is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until = time.monotonic() + 20
        while not is_so(seen := status(top)):
            assert time.monotonic() < until, seen
        return seen

    simulate = ("simulate", "--broker", str(mosquitto.url), "--fleet", "demo", "--format", "cbor")
    try:
        with Program(tmp_path, *simulate):
            with Program(tmp_path, *relaying) as relay:
                seen = wait_for(lambda seen: seen.get("live_chips") == 192)
                below = status(mosquitto)
                for name in ("chips", "instances", "ultraservers", "jobs", "reservations"):
                    assert seen[name] == below[name], name
                assert (seen["rolled_chips"], seen["cells"], below["rolled_chips"]) == (192, ["cell-a"], 0)
                assert seen["mean"]["power_cap_w"] == below["mean"]["power_cap_w"]
                assert seen["power_w"] > 0
                assert (seen["undecodable"], seen["internal_errors"], seen["lost"]) == (0, 0, 0)
                relay.end(signal.SIGKILL)
            gone = wait_for(lambda seen: seen.get("unobserved_chips") == 192)
            assert (gone["live_chips"], gone["stale_chips"], gone["healthy"]) == (0, 0, False)
            with Program(tmp_path, *relaying) as relay:
                wait_for(lambda seen: seen.get("live_chips") == 192)
                assert relay.end() == 0
    finally:
        top.kill()
