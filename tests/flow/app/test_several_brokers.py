"""Two fleets on two brokers in one app and in `status`, while one broker restarts.

One fleet is on both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

COARSE = ("--fleet", "demo", "--format", "cbor", "--granularity", "instance", "--period", "250ms")


def test_one_broker_goes_and_comes_back(
    mosquitto: MosquittoProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost broker's fleet is last known, not silent, then live again.

    The other is undisturbed.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    other = MosquittoProcess(tmp_path)
    other.start()
    brokers = ("--broker", str(mosquitto.url), "--broker", str(other.url))

    def simulator(broker: MosquittoProcess, *options: str) -> Program:
        return Program(tmp_path, "simulate", "--broker", str(broker.url), *COARSE, *options)

    def status(*options: str) -> tuple[int, dict[str, Any]]:
        result = run("status", *brokers, *options, "--json", "--wait", "1s")
        return result.returncode, json.loads(result.stdout)

    try:
        with (
            simulator(mosquitto, "--name", "alpha"),
            simulator(mosquitto, "--name", "beta", "--shard", "1/2"),
            simulator(other, "--name", "beta", "--shard", "2/2"),
        ):
            # Both are named, so that it does not matter which simulator comes first.
            names = ("--name", "alpha", "--name", "beta")
            with Terminal("monitor", *brokers, *names, columns=120, rows=40) as screen:
                screen.wait_for("alpha  1 of 2 fleets  192 chips  all live", within_s=20)
                screen.wait_for("2 brokers")
                screen.send("2")
                screen.wait_for("▸ beta")
                other.kill()
                screen.wait_for("1 broker away", within_s=20)
                screen.wait_for(f"127.0.0.1:{other.port} away")
                assert "alpha  1 of 2 fleets  192 chips  all live" in screen.text
                code, seen = status("--all-fleets")
                alpha, beta = seen["fleets"]
                assert (code, seen["healthy"]) == (3, False)
                assert (alpha["fleet"], alpha["live_chips"]) == ("alpha", 192)
                assert 0 < beta["live_chips"] == beta["chips"] < 192
                assert [each["connected"] for each in beta["brokers"]] == [True, False]
                known = run("alerts", *brokers, "--all-fleets", "--json", "--wait", "1s")
                assert known.returncode == 1
                fleets = json.loads(known.stdout)["fleets"]
                assert [(each["fleet"], each["away"]) for each in fleets] == [
                    ("alpha", [str(other.url)]),
                    ("beta", [str(other.url)]),
                ]
                assert f"beta: {other.url} away: what is there is not known" in known.stderr
                screen.send("f")
                screen.wait_for(f"no connection to {other.url}")
                screen.wait_for("48 live, 144 stale")
                assert "silent" not in screen.text
                other.start()
                screen.wait_for("beta  1 of 2 fleets  192 chips  all live", within_s=30)
                screen.wait_for_no("away")
                screen.end(keys="q")
            code, beta = status("--name", "beta")
            assert (code, beta["live_chips"], beta["publishers_online"]) == (0, 192, 2)
    finally:
        other.stop()


def test_a_fleet_comes_and_goes(
    mosquitto: MosquittoProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`monitor --all-fleets` shows a new fleet, marks it as gone, and restores it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    broker = ("--broker", str(mosquitto.url))

    def simulator(name: str) -> Program:
        return Program(tmp_path, "simulate", *broker, *COARSE, "--name", name)

    with simulator("alpha"):
        while run("status", *broker, "--name", "alpha", "--wait", "5s").returncode:
            pass
        with Terminal("monitor", *broker, "--all-fleets", columns=120, rows=40) as screen:
            screen.wait_for("alpha  192 chips  all live", within_s=20)
            screen.send("2")
            with simulator("beta"):
                screen.wait_for("alpha  1 of 2 fleets  192 chips", within_s=20)
                screen.wait_for_match("▸ beta .*● live")
            screen.wait_for_match("▸ beta .*✖ gone", within_s=20)
            assert "alpha  1 of 2 fleets  192 chips  all live" in screen.text
            with simulator("beta"):
                screen.wait_for_match("▸ beta .*● live", within_s=20)
            screen.end(keys="q")
