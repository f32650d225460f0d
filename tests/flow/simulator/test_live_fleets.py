"""Simulators on a broker with a live fleet of their name, and their remains there."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from support.processes.mosquitto import MosquittoProcess, retain, retained
from support.processes.programs import Program, run
from support.record.fixtures import RECORDINGS

from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    Descriptor,
    InstanceSpec,
    encode_message,
)

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.broker

DEMO = ("--fleet", "demo", "--name", "prod")


def test_a_live_fleet_gets_no_second_simulation(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Another fleet, another seed and the same part are refused; another shard is not."""
    url = str(mosquitto.url)
    first = (*DEMO, "--shard", "1/2", "--client-id", "first", "--broker", url)
    with Program(tmp_path, "simulate", *first) as running:
        running.wait_for("publishing")

        def attempt(*arguments: str) -> tuple[int, str]:
            ended = run("simulate", "--ticks", "1", "--broker", url, *arguments)
            return ended.returncode, ended.stderr

        for arguments in (
            ("--fleet", "lab", "--name", "prod"),
            DEMO,
            (*DEMO, "--shard", "2/2", "--seed", "8"),
            (*DEMO, "--shard", "1/2"),
        ):
            status, said = attempt(*arguments)
            assert status == 1, (arguments, said)
            assert (
                "has a live fleet 'prod', published by first: simulate under another name" in said
            )
            assert "--name prod-sim" in said
        assert attempt(*DEMO, "--shard", "2/2")[0] == 0
        # Its last will says that it is gone.
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        assert attempt(*DEMO, "--shard", "1/2")[0] == 0
    # So does a simulator that has ended.
    assert attempt("--fleet", "lab", "--name", "prod")[0] == 0


def test_a_publisher_without_a_presence_is_live_while_its_telemetry_comes(
    mosquitto: MosquittoProcess,
) -> None:
    """A publisher without a presence is live only with telemetry.

    Third-party publishers may announce nothing: their descriptors alone block nobody.
    """
    url = str(mosquitto.url)
    root = "trnfleet/v1/prod"
    path = "uc1/standalone/trn2-0001"
    descriptor = Descriptor(
        path=path,
        publisher="silent",
        boot="b",
        period_s=1.0,
        clock=ClockSpec(epoch="2026-01-05T09:00:00Z"),
        instances=(InstanceSpec(path=path, type="trn2.48xlarge"),),
        columns=STANDARD_COLUMNS,
    )
    retain(mosquitto.url, {f"{root}/node/{path}": encode_message(descriptor)})
    simulate = ("simulate", "--fleet", "lab", "--name", "prod", "--ticks", "1", "--broker", url)
    # A retained sample stands for a publisher that goes on.
    retain(mosquitto.url, {f"{root}/telemetry/{path}/chip00": json.dumps({"seq": 1}).encode()})
    refused = run(*simulate)
    assert (refused.returncode, "published by silent" in refused.stderr) == (1, True), (
        refused.stderr
    )
    retain(mosquitto.url, {f"{root}/telemetry/{path}/chip00": b""})
    assert run(*simulate).returncode == 0


def test_what_it_retained_is_cleared_where_that_is_asked_for(mosquitto: MosquittoProcess) -> None:
    """With --clear a simulator and a replay leave nothing; without, all retained messages."""
    url = str(mosquitto.url)
    assert (
        run("simulate", "--fleet", "lab", "--ticks", "1", "--broker", url, "--clear").returncode
        == 0
    )
    assert retained(mosquitto.url) == {}
    recording = str(RECORDINGS / "steady-training.mcap")
    replay = ("replay", recording, "--as", "again", "--speed", "1000", "--broker", url)
    assert run(*replay, "--clear").returncode == 0
    assert retained(mosquitto.url) == {}
    assert run("simulate", "--fleet", "lab", "--ticks", "1", "--broker", url).returncode == 0
    assert len(retained(mosquitto.url)) > 2
