"""The monitor's goodput against a plain reading of the same lines, and against its history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.plain_goodput import plain_goodput
from support.processes.programs import Program, run

from trnfleet.clock import NS_PER_MS, NS_PER_S, SystemClock, format_rfc3339
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


def numbers(facts: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return all values by their path."""
    made: dict[str, Any] = {}
    for key, value in facts.items():
        if isinstance(value, dict):
            made |= numbers(value, f"{prefix}{key}.")
        else:
            made[prefix + key] = value
    return made


@pytest.mark.parametrize(
    ("scenario", "fleet", "ticks"),
    [
        ("game-day", "demo", "90"),
        ("job-crash", "training", "90"),
        # A tick is five minutes.
        ("inference-day", "inference", "25"),
    ],
)
def test_history_and_usage_say_what_status_says(
    scenario: str, fleet: str, ticks: str, tmp_path: Path
) -> None:
    """Before and after a compaction, also by interval."""
    file = tmp_path / "run.mcap"
    folder = str(tmp_path / "history")
    prices = ("--price", "trn2.48xlarge=36", "--price", "trn2u.48xlarge=36")
    site = (*prices, "--ttft-limit", "300ms")
    run(
        *("simulate", "--record", str(file), "--scenario", scenario, "--seed", "11"),
        *("--ticks", ticks, "--format", "cbor", "--granularity", "ultraserver"),
    ).check_returncode()
    recording = Recording.open([file])
    # Milliseconds, and none is left out.
    end = format_rfc3339(recording.end_ns + NS_PER_MS)
    recording.close()
    status = run("status", "--recording", str(file), "--at", end, "--json", *site)
    expected = json.loads(status.stdout)["goodput"]
    run("history", "write", folder, "--from", str(file), *site).check_returncode()

    def usage(*options: str) -> list[dict[str, Any]]:
        done = run("usage", "--history", folder, "--name", fleet, "--json", *options)
        done.check_returncode()
        assert "not known" in done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    for _ in range(2):
        (whole,) = usage()
        assert whole["lasts_s"] == expected["lasts_s"]
        assert whole["paid_usd"] == pytest.approx(expected["paid_usd"]) != 0
        assert whole["limits"] is None, "its writer had them"
        jobs = {(job["job"], job["is_other_jobs"]): numbers(job) for job in whole["jobs"]}
        assert len(jobs) == len(expected["jobs"])
        for job in expected["jobs"]:
            found = jobs[job["job"], job["is_other_jobs"]]
            # History has no alerts, and so no causes of slow time.
            for facts in (found, stored := numbers({**job, "expected": None})):
                del facts["slow_by"]
            assert found == pytest.approx(stored, abs=1e-6), job["job"]
            assert sum(job["seconds"].values()) == pytest.approx(job["paid_s"])
        by_minute = usage("--every", "1m")
        for cause in {*whole["seconds"]} - {"productive", "lost_work", "slow", "unsplit"}:
            # A step may end in the next minute, so only the whole is split exactly.
            parts = sum(part["seconds"][cause] for part in by_minute)
            assert parts == pytest.approx(whole["seconds"][cause], abs=1e-6), cause
        assert sum(part["paid_s"] for part in by_minute) == pytest.approx(whole["paid_s"])
        run("history", "compact", folder).check_returncode()
