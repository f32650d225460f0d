from __future__ import annotations

import hashlib
import json
import subprocess
from typing import Any

import numpy as np
import pytest
from support.processes.programs import COMMAND, environment, run
from support.sim.scenario_run import ScenarioRun

from trnfleet.domain.metrics import SIMULATED, Scope

DEMO = ("simulate", "--stdout", "--fleet", "demo", "--seed", "7", "--ticks", "20")


def digest(*arguments: str, **variables: Any) -> str:
    result = run(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    return hashlib.sha256(result.stdout.encode()).hexdigest()


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Two processes with different hash seeds write the same lines; another seed writes others."""
    first = digest(*DEMO, PYTHONHASHSEED="1")
    assert digest(*DEMO, PYTHONHASHSEED="2") == first
    assert digest(*DEMO[:-3], "8", "--ticks", "20") != first


def test_lines_are_the_messages_objects() -> None:
    """20 ticks of the demo are 4,080 flat objects, dated from the fleet's start.

    They have the metric table's names.
    """
    lines = [json.loads(line) for line in run(*DEMO).stdout.splitlines()]
    assert len(lines) == 4_080
    chips = [line for line in lines if "chip" in line]
    assert len(chips) == 20 * 192
    assert lines[0]["ts"] == "2026-01-05T09:00:00.000Z"
    assert lines[-1]["ts"] == "2026-01-05T09:00:19.000Z"
    assert [line["seq"] for line in lines] == [tick for tick in range(20) for _ in range(204)]
    for line in lines[:204]:
        scope = Scope.CHIP if "chip" in line else Scope.INSTANCE
        metrics = [metric for metric in SIMULATED if metric.scope is scope]
        assert [name for name in line if name in {metric.name for metric in metrics}] == [
            each.name for each in metrics
        ]
        assert not any(isinstance(value, dict) for value in line.values())


def test_chips_of_a_job_move_together_and_jobs_do_not() -> None:
    """Over ten minutes, chips of a job correlate above 0.8 in power, jobs below 0.3.

    For training jobs; jobs are compared by their means.
    """
    seen = ScenarioRun("--fleet", "demo", "--seed", "7", "--ticks", "600")
    means = {}
    for job in seen.jobs:
        table = np.array([seen.of(chip, "power_w") for chip in seen.chips_of(job)])
        means[job] = table.mean(axis=0)
        if "serve" not in job:
            assert min(np.corrcoef(row, means[job])[0, 1] for row in table) > 0.8, job
    assert len(means) >= 3
    between = np.corrcoef(np.array(list(means.values())))
    assert np.abs(between[~np.eye(len(means), dtype=bool)]).max() < 0.3


@pytest.mark.parametrize(
    "shown", [["--format", "cbor"], ["--granularity", "block"], ["--broker", "mqtt://127.0.0.1"]]
)
def test_what_does_not_go_with_stdout(shown: list[str]) -> None:
    """Contradicting options are wrong use."""
    result = run(*DEMO, *shown)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_events_are_written_as_eventbridge_delivers_them() -> None:
    """`--events` writes EC2's events alone, a line each, the same in every run."""
    wanted = (
        "simulate",
        "--stdout",
        "--events",
        "--fleet",
        "demo",
        "--period",
        "60s",
        "--duration",
        "150m",
    )
    first = run(*wanted, PYTHONHASHSEED="1").stdout
    assert run(*wanted, PYTHONHASHSEED="2").stdout == first
    keys = [
        "version",
        "id",
        "detail-type",
        "source",
        "account",
        "time",
        "region",
        "resources",
        "detail",
    ]
    lines = [json.loads(line) for line in first.splitlines()]
    assert [list(each) for each in lines] == [keys] * 5
    assert {each["source"] for each in lines} == {"aws.ec2"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--broker", "mqtt://127.0.0.1:1", "--events"), "--events goes with --stdout"),
        (
            ("--stdout", "--events", "--include", "jobs"),
            "--events and --include do not go together",
        ),
    ],
)
def test_what_does_not_go_with_events(more: tuple[str, ...], says: str) -> None:
    """EventBridge events go to stdout only, and cannot be combined with other lines."""
    result = run("simulate", *more)
    assert (result.returncode, says in result.stderr) == (2, True)


def test_a_reader_that_has_enough() -> None:
    """A closed pipe ends the program without a complaint."""
    simulate = subprocess.Popen(
        [*COMMAND, *DEMO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert simulate.stdout is not None
    assert simulate.stderr is not None
    simulate.stdout.readline()
    simulate.stdout.close()
    errors = simulate.stderr.read()
    simulate.stderr.close()
    assert simulate.wait(timeout=20) == 0
    assert errors == b""
