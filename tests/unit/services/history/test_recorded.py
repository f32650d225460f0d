"""History of a recording, read from its messages without a monitor."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.feed import START_NS, Feed, standalone

from trnfleet.clock import NS_PER_S, ManualClock, parse_rfc3339
from trnfleet.export.history.query import open_history
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.history.write import HistoryProgress, HistoryRequest, write_from_recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HOSTS = standalone(2)
SCALARS = ("power_w", "temperature_c", "tflops", "hbm_used_bytes")
VECTORS: dict[str, Callable[[Any], Any]] = {"nc_util_pct": np.mean, "link_tx_bytes_per_s": np.sum}
TOLERANCE = {"hbm_used_bytes": 2**22, "link_tx_bytes_per_s": 2e7, "nc_util_pct": 0.11}


class Silent:
    """A reporter that says nothing."""

    def began(self, fleet: str) -> None:
        """Take the beginning."""

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Take the totals."""

    def failed(self, problem: str) -> None:
        """Fail, for nothing may."""
        raise AssertionError(problem)


def recorded(path: Path, ticks: int, *, period_s: float = 5.0, lost_from: int = 10**9) -> None:
    """Record a fleet of two hosts in JSON.

    Values change with every tick, and some are missing now and then.

    Args:
        path: The file.
        ticks: How many ticks there are.
        period_s: Seconds from tick to tick.
        lost_from: The tick from which the second host, which has a job then, is silent.
    """
    feed = Feed(HOSTS, json=True, period_s=period_s)
    feed.jobs = {"train": (HOSTS[0][0],)}
    feed.display_names = {"train": "ns/train"}
    if lost_from < ticks:
        feed.jobs["lost"] = (HOSTS[1][0],)
    feed.scatter()
    random = np.random.default_rng(3)
    writer = RecordingWriter(path, About(id="r", fleets=("demo",), root="trnfleet"))
    try:
        for envelope in feed.announcements():
            writer.write(START_NS, envelope)
        for tick in range(ticks):
            time_ns = START_NS + round((tick + 0.5) * period_s * NS_PER_S)
            for name in (*SCALARS, *VECTORS):
                column = feed.columns[name]
                feed.set(
                    name, random.uniform(10, 90, column.shape) * (1e9 if "bytes" in name else 1.0)
                )
            feed.set("power_w", np.nan, random.integers(0, 32, 3))
            feed.set("exec_completed", np.arange(32) * tick)
            feed.columns["temperature_c"][7] = np.iinfo(np.uint16).max
            hosts = [HOSTS[0][0]] if tick % 4 == 1 or tick >= lost_from else None
            for envelope in feed.telemetry(hosts, ts_ns=time_ns):
                writer.write(time_ns + 40_000_000, envelope)
            if not tick:
                writer.write(
                    time_ns + 50_000_000, feed.event(HOSTS[0][0], ts="2026-01-05T00:00:01Z")
                )
    finally:
        writer.close()


def messages(path: Path) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return the chips' own messages by minute and address."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    recording = Recording.open([path])
    for stored in recording.all():
        if "/telemetry/" in stored.envelope.topic:
            said = json.loads(stored.envelope.payload)
            if "chip" in said:
                address = stored.envelope.topic.partition("/telemetry/")[2]
                found[parse_rfc3339(said["ts"]) // 60_000_000_000, address].append(said)
    recording.close()
    return found


def write(folder: Path, path: Path) -> HistoryProgress:
    """Write the history of a recording."""
    recording = Recording.open([path])
    try:
        return write_from_recording(
            recording,
            "demo",
            HistoryRequest(folder, "main", "host-a", ()),
            Silent(),
            clock=ManualClock(wall_ns=START_NS),
            from_ns=recording.start_ns,
            to_ns=recording.end_ns,
        )
    finally:
        recording.close()


def test_a_job_without_a_live_chip_has_no_minutes(tmp_path: Path) -> None:
    """A `running` job with stale chips counts no use."""
    recorded(tmp_path / "r.mcap", 40, lost_from=10)
    write(tmp_path / "history", tmp_path / "r.mcap")
    with open_history(tmp_path / "history") as reader:
        rows = reader.query(
            "SELECT job, sum(samples) FROM job_minutes GROUP BY job ORDER BY job"
        ).rows
    samples = dict(rows)
    assert samples["train"] == 40
    assert 10 <= samples["lost"] <= 14


def test_history_of_a_recording_is_what_its_messages_say(tmp_path: Path) -> None:
    """Means, maxima, increases and covered seconds of every chip and minute."""
    recorded(tmp_path / "r.mcap", 40)
    said = messages(tmp_path / "r.mcap")
    total = write(tmp_path / "history", tmp_path / "r.mcap")
    with open_history(tmp_path / "history") as reader:
        result = reader.query("SELECT epoch_us(time) // 60000000 AS minute, * FROM chips")
        jobs = reader.query("SELECT DISTINCT job FROM chips WHERE address LIKE '%-0001/%'").rows
        assert reader.query("SELECT name, address FROM events").rows == [("test", HOSTS[0][0])]
        assert reader.query("SELECT sum(samples), min(display_name) FROM job_minutes").rows == [
            (40, "ns/train")
        ]
        assert reader.query("SELECT max(minutes) FROM fleets").rows == [(4,)]
    rows = {
        (row["minute"], row["address"]): row
        for row in (dict(zip(result.names, each, strict=True)) for each in result.rows)
    }

    assert (total.minutes, total.late, len(rows)) == (4, 0, len(said))
    assert rows.keys() == said.keys()
    assert jobs == [("train",)]
    for key, samples in said.items():
        row = rows[key]
        assert row["covered_s"] == pytest.approx(5.0 * len(samples))
        for name in SCALARS:
            values = [each[name] for each in samples if each[name] is not None]
            within = TOLERANCE.get(name, 0.051)
            assert row[name] == (pytest.approx(np.mean(values), abs=within) if values else None), (
                key,
                name,
            )
        for name, joined in VECTORS.items():
            values = [joined(each[name]) for each in samples]
            assert row[name] == pytest.approx(np.mean(values), rel=1e-3, abs=TOLERANCE[name]), (
                key,
                name,
            )
        watts = [each["power_w"] for each in samples if each["power_w"] is not None]
        assert row["power_w_max"] == (pytest.approx(max(watts)) if watts else None)
        assert row["exec_completed"] == samples[-1]["exec_completed"]


def test_a_recording_that_is_written_again_adds_nothing(tmp_path: Path) -> None:
    """A recording written again, or its existing minutes, adds nothing."""
    recorded(tmp_path / "short.mcap", 6, period_s=20.0)
    recorded(tmp_path / "long.mcap", 12, period_s=20.0)
    first = write(tmp_path / "history", tmp_path / "short.mcap")
    again = write(tmp_path / "history", tmp_path / "short.mcap")
    more = write(tmp_path / "history", tmp_path / "long.mcap")

    assert (first.minutes, again.minutes, more.minutes) == (2, 0, 2)
    assert again.late > first.chips
    with open_history(tmp_path / "history") as reader:
        assert reader.query(
            "SELECT count(*) FROM (SELECT time, address FROM chips GROUP BY ALL HAVING count(*)"
            " > 1)"
        ).rows == [(0,)]
        assert reader.query("SELECT count(DISTINCT time) FROM chips").rows == [(4,)]
        assert reader.query("SELECT minutes FROM fleets").rows == [(4,)]
