from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.processes.programs import run
from support.sim.scenario_run import ScenarioRun

if TYPE_CHECKING:
    from pathlib import Path

STDOUT = ("simulate", "--stdout", "--fleet", "demo")


def lines(*arguments: str, **variables: Any) -> list[str]:
    result = run(*STDOUT, *arguments, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def objects(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(*arguments)]


def test_shards_merged_are_the_whole_run() -> None:
    """Four processes' merged and sorted lines equal those of one, byte for byte.

    The one has another hash seed.
    """
    merged = [
        line for part in range(1, 5) for line in lines("--ticks", "5", "--shard", f"{part}/4")
    ]
    assert len(merged) == 5 * 204
    assert sorted(merged) == sorted(lines("--ticks", "5", PYTHONHASHSEED="1"))


def test_an_empty_shard_is_no_failure() -> None:
    """A shard without UltraServers or standalone instances reports it and exits 0."""
    result = run("simulate", "--stdout", "--fleet", "lab", "--ticks", "2", "--shard", "1/3")
    assert (result.returncode, result.stdout) == (0, "")
    assert "nothing to do" in result.stderr


def test_speed_start_and_jump() -> None:
    """Ticks are period x speed apart from the start.

    A jump is simulated before the first.
    """
    seen = objects("--ticks", "3", "--speed", "3600", "--period", "2s", "--start", "2026-07-14")
    assert sorted({each["ts"] for each in seen}) == [
        "2026-07-14T00:00:00.000Z",
        "2026-07-14T02:00:00.000Z",
        "2026-07-14T04:00:00.000Z",
    ]
    jumped = objects("--ticks", "2", "--jump", "8h")
    assert sorted({each["ts"] for each in jumped}) == [
        "2026-01-05T17:00:00.000Z",
        "2026-01-05T17:00:01.000Z",
    ]
    assert {each["seq"] for each in jumped} == {0, 1}


def test_a_jump_ends_where_the_ticks_would() -> None:
    """Counters after a jump equal those after as many ticks."""

    def done(told: list[str]) -> dict[str, int]:
        last = [json.loads(line) for line in told if '"2026-01-05T09:02:00.000Z"' in line]
        return {
            f"{each['instance']}/{each['chip']}": each["exec_completed"]
            for each in last
            if "chip" in each
        }

    jumped = done(lines("--ticks", "1", "--jump", "120s"))
    walked = done(lines("--ticks", "121"))
    assert len(jumped) == 192
    differences = [abs(jumped[chip] - walked[chip]) / (walked[chip] + 1) for chip in jumped]
    assert max(differences) < 1e-4


def test_any_tick_length_gives_the_same_averages() -> None:
    """A job's mean power over 14 minutes does not depend on the tick length.

    Ticks are 2 s, 14 s and a minute, on the demo.
    """

    def means(period_s: int) -> dict[str, float]:
        seen = ScenarioRun(
            "--fleet", "demo", "--period", f"{period_s}s", "--ticks", str(840 // period_s)
        )
        return {job: float(np.mean(seen.mean(seen.chips_of(job), "power_w"))) for job in seen.jobs}

    short = means(2)
    assert len(short) == 4
    for long in (means(14), means(60)):
        assert short.keys() == long.keys()
        for job, value in short.items():
            # The first tick looks back by a period of its own; what is left is noise.
            assert long[job] == pytest.approx(value, rel=0.04), job


def test_kinds_of_lines() -> None:
    """Telemetry by default, events and jobs with a scenario, and any requested kind."""
    assert all("instance" in each for each in objects("--ticks", "2"))
    jobs = objects("--ticks", "2", "--include", "jobs")
    assert [each["kind"] for each in jobs] == ["training", "training", "inference", "inference"] * 2
    seen = objects("--ticks", "2", "--scenario", "steady-training", "--fleet", "demo")
    assert sum("kind" in each for each in seen) == 8


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("--shard", "5/4"), 2, "the part is 1 to the count"),
        (("--shard", "half"), 2, "not a part such as 2/8"),
        (("--start", "yesterday"), 2, "write it as 2026-01-05T09:00:00Z"),
        (("--speed", "0"), 2, "0"),
        (("--include", "event"), 2, "did you mean 'events'"),
        (("--scenario", "game-dya"), 2, "did you mean 'game-day'"),
        (("--allow-commands",), 2, "goes with --broker"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], status: int, told: str) -> None:
    """Contradictory use is refused in one line with the remedy."""
    result = run(*STDOUT, "--ticks", "1", *arguments)
    assert result.returncode == status
    assert told in result.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[[faults]]\nfault = "stragler"\ntarget = "uc1/us-0001/trn2u-0001-0/chip00"\nat = 1',
            "did you mean 'straggler'",
        ),
        (
            '[[faults]]\nfault = "straggler"\ntarget = "uc1/us-0009/trn2u-0009-0/chip00"\nat = 1',
            "did you mean",
        ),
        ('[[faults]]\nfault = "straggler"\ntarget = "uc1"\nat = 1', "all below it: uc1/*/*/*"),
        ('[[faults]]\nfault = "straggler"\ntarget = "uc1/us-0001/*/*"', "either at or after"),
        (
            '[[faults]]\nfault = "straggler"\ntarget = "uc1/us-0001/*/*"\nafter = "x"',
            "no entry has the id 'x'",
        ),
        ('[[loads]]\njob = "serve-7b"\nat = 1\nfor = 5\nfactor = 2.0', "did you mean 'serve-70b'"),
        ('[[loads]]\njob = "pretrain-70b"\nat = 1\nfor = 5\nfactor = 2.0', "not an inference job"),
        ('[[faults]]\nfault = "straggler"\ntarget = "random(1)"\nat = "soon"', "not a duration"),
        ("[rates]\nacceleration = 1e12", "at most"),
        ('titel = "x"', "did you mean 'title'"),
    ],
)
def test_scenarios_that_cannot_be(tmp_path: Path, text: str, told: str) -> None:
    """A faulty scenario file is refused with status 2, its name, and the nearest name."""
    file = tmp_path / "mine.toml"
    file.write_text(text)
    result = run(*STDOUT, "--ticks", "1", "--scenario", str(file))
    assert result.returncode == 2
    assert told in result.stderr
    assert "mine.toml" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
