"""`trnfleet history` as processes on a real Mosquitto.

Written, queried, compacted and killed.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.history import CHIPS, FIRST, write_minutes
from support.processes.programs import Program, run

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

SUMS = (
    "SELECT count(*) AS chips, count(DISTINCT time) AS minutes, sum(power_w) AS power_w FROM chips"
)
NEWS = "SELECT (SELECT count(*) FROM alerts) AS alerts, (SELECT count(*) FROM events) AS events"


def asked(folder: Path, sql: str = SUMS) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    done = run("history", "query", str(folder), sql, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def files(folder: Path, pattern: str) -> list[Path]:
    """Return the matching files of all partitions."""
    return sorted(folder.glob(f"fleet=*/day=*/cell=*/{pattern}"))


def wait_for(
    folder: Path, pattern: str, program: Program, count: int = 1, seconds: float = 20.0
) -> None:
    """Wait for files; look often, for some are there for a moment."""
    end_s = time.monotonic() + seconds
    while len(files(folder, pattern)) < count:
        assert time.monotonic() < end_s, program.output
        assert program.process.poll() is None or files(folder, pattern), program.output
        time.sleep(0.002)


@pytest.mark.broker
def test_minutes_come_from_a_broker_each_once_over_a_kill_and_a_restart(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """Each minute is stored once over a kill and a restart.

    A second writer is refused.

    A fleet at 120 times the speed has a minute each half second.
    """
    folder = tmp_path / "history"
    url = str(mosquitto.url)
    simulator = (
        "simulate",
        "--broker",
        url,
        "--fleet",
        "demo",
        "--format",
        "cbor",
        "--granularity",
        "ultraserver",
    )
    write = ("history", "write", str(folder), "--broker", url, "--writer", "host-a")
    with Program(
        tmp_path,
        *simulator,
        "--speed",
        "120",
        "--period",
        "100ms",
        "--start",
        "2026-01-05T09:00:00Z",
    ):
        with Program(tmp_path, *write) as writer:
            wait_for(folder, "chips-*.parquet", writer, 2)
            refused = run(*write)
            writer.process.kill()
            writer.process.wait()
        there = len(files(folder, "chips-*.parquet"))
        with Program(tmp_path, *write) as writer:
            wait_for(folder, "chips-*.parquet", writer, there + 1)
            assert writer.end(signal.SIGINT) == 0, writer.output
            assert "wrote " in writer.output

    assert refused.returncode == 1
    assert "the cell 'main' of 'demo' is in use by " in refused.stderr
    twice = asked(
        folder,
        "SELECT count(*) AS n FROM (SELECT 1 FROM chips GROUP BY time, address HAVING count(*)"
        " > 1)",
    )
    assert twice == [{"n": 0}]
    [paid] = asked(
        folder,
        "SELECT count(DISTINCT (time, job, booked)) AS n, count(*) AS rows FROM paid_time",
    )
    assert paid["n"] == paid["rows"] > 0
    [total] = asked(
        folder, "SELECT count(DISTINCT address) AS chips, max(covered_s) AS covered_s FROM chips"
    )
    assert total["chips"] == 192
    assert total["covered_s"] == 60.0
    assert asked(folder, "SELECT max(chips) AS chips FROM fleets") == [{"chips": 192}]


def test_a_recording_becomes_history_and_a_compaction_changes_no_answer(tmp_path: Path) -> None:
    """From the command line, with alerts and events."""
    folder = tmp_path / "history"
    recording = "fixtures/recordings/ecc-storm.mcap"
    made = run("history", "write", str(folder), "--from", recording)
    assert made.returncode == 0, made.stderr
    sums = f"FROM ({SUMS}), ({NEWS})"
    [before] = asked(folder, sums)
    compacted = run("history", "compact", str(folder))
    assert compacted.returncode == 0, compacted.stderr

    assert asked(folder, sums) == [before]
    assert before["alerts"] > 0
    assert before["events"] > 0
    table = run(
        "history", "query", str(folder), "--figure", "mem_ecc_corrected_increase", "--top", "2"
    )
    assert table.stdout.splitlines()[0].split() == [
        "address",
        "mem_ecc_corrected_increase",
        "minutes",
    ]
    listed = run(
        "history",
        "query",
        str(folder),
        "SELECT '=x' AS a, NULL AS b, time FROM fleets LIMIT 1",
        "--csv",
    )
    assert listed.stdout.startswith("a,b,time\n'=x,,2026-")
    wrong = run("history", "query", str(folder), "SELECT 1 FROM read_csv('/etc/passwd')")
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (1, 1)
    assert "/etc/passwd" in wrong.stderr


@pytest.mark.parametrize("seen", [".chips-*.tmp", "chips-*.c-*.parquet"])
def test_a_compaction_that_is_killed_leaves_old_or_new(tmp_path: Path, seen: str) -> None:
    """A killed compaction leaves old or new files, and the next one continues.

    Killed while writing the new file, or after its renaming.
    """
    write_minutes(tmp_path, range(FIRST, FIRST + 30))
    before = asked(tmp_path)
    with Program(tmp_path, "history", "compact", str(tmp_path)) as compaction:
        wait_for(tmp_path, seen, compaction)
        compaction.process.kill()
        compaction.process.wait()
    assert asked(tmp_path) == before
    done = run("history", "compact", str(tmp_path))
    assert done.returncode == 0, done.stderr

    assert asked(tmp_path) == before
    assert before[0]["chips"] == 30 * CHIPS
    assert len(files(tmp_path, "chips-*.parquet")) == 1
    assert files(tmp_path, ".*.tmp") == []
