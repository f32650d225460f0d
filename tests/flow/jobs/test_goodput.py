"""The monitor's goodput against a plain reading of the same simulation's lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.plain_goodput import plain_goodput
from support.processes.programs import Program, run

from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.domain.goodput import TimeCause
from trnfleet.domain.site import DEFAULT_SITE
from trnfleet.record.read.recording import Recording
from trnfleet.services.viewing import monitors_at

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

WITHIN = 0.005
"""Largest difference, of a job's paid time."""


@pytest.mark.parametrize(("scenario", "fleet"), [("game-day", "demo"), ("job-crash", "training")])
def test_the_monitor_agrees_with_a_plain_reading(scenario: str, fleet: str, tmp_path: Path) -> None:
    arguments = ("--scenario", scenario, "--seed", "11", "--ticks", "90")
    file = tmp_path / "run.mcap"
    compact = ("--format", "cbor", "--granularity", "instance")
    run("simulate", "--record", str(file), *arguments, *compact).check_returncode()
    lines = run(
        *("simulate", "--stdout", *arguments),
        *("--include", "telemetry,events,jobs,reservations"),
    ).stdout.splitlines()
    recording = Recording.open([file])
    # The last message is the publisher's goodbye.
    to_ns = recording.end_ns // NS_PER_S * NS_PER_S - NS_PER_S
    (monitor,) = monitors_at(
        recording, fleet, [to_ns], rules=(), site=DEFAULT_SITE, clock=SystemClock()
    )
    report = monitor.goodput.report()
    recording.close()
    assert report.lasts_s >= 85
    to_s = to_ns / NS_PER_S
    plain = plain_goodput(lines, to_s - report.lasts_s, to_s)
    for job in report.jobs:
        expected = plain[job.job or ""]
        paid_s = float(job.paid.seconds.sum())
        seconds = {cause.key: float(job.paid.seconds[cause]) for cause in TimeCause}
        by_cause = {cause.key: 0.0 for cause in TimeCause} | expected.by_cause()
        assert seconds == pytest.approx(by_cause, abs=WITHIN * paid_s), job.job
        assert float(job.paid.usd.sum()) == pytest.approx(expected.usd, rel=WITHIN)


@pytest.mark.broker
def test_status_watches_a_broker_for_a_time(tmp_path: Path, mosquitto: MosquittoProcess) -> None:
    """It says in the fleet's time how long that was."""
    at = ("--broker", str(mosquitto.url))
    arguments = ("--fleet", "demo", "--period", "200ms", "--speed", "10")
    with Program(tmp_path, "simulate", *at, *arguments):
        found = json.loads(run("status", *at, "--wait", "20s", "--for", "6s", "--json").stdout)
    assert 30.0 <= found["goodput"]["lasts_s"] <= 90.0
