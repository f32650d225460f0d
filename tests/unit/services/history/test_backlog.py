"""History of an outage whose telemetry came late, as backlog."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.history import FIRST
from support.monitor.feed import START_NS, Feed, standalone

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.export.history.compact import compact
from trnfleet.export.history.query import open_history
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.history import backlog
from trnfleet.services.history.write import HistoryProgress, HistoryRequest, write_from_recording

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = standalone(2)
AWAY = HOSTS[1][0]
PERIOD_S = 5.0
TICKS = 60
"""Five minutes."""
OUTAGE = range(10, 31)
"""Ticks of the second host without a broker: a minute and parts of two."""


class Silent:
    """A reporter of nothing."""

    def began(self, fleet: str) -> None:
        """Take the beginning."""

    def progressed(self, progress: HistoryProgress, elapsed_s: float) -> None:
        """Take the totals."""

    def failed(self, problem: str) -> None:
        """Fail, for nothing may."""
        raise AssertionError(problem)


def recorded(path: Path, *, outage: bool, json: bool, times: int = 1) -> None:
    """Record two hosts; with an outage the second one's telemetry comes late, `times` times."""
    feed = Feed(HOSTS, json=json, period_s=PERIOD_S)
    random = np.random.default_rng(3)
    writer = RecordingWriter(path, About(id="r", fleets=("demo",), root="trnfleet"))
    late = []
    for envelope in feed.announcements():
        writer.write(START_NS, envelope)
    for tick in range(TICKS):
        time_ns = START_NS + round((tick + 0.5) * PERIOD_S * NS_PER_S)
        for name in ("power_w", "temperature_c", "nc_util_pct"):
            feed.set(name, random.uniform(10, 90, feed.columns[name].shape))
        feed.set("exec_completed", np.arange(32) * tick)
        for envelope in feed.telemetry(ts_ns=time_ns):
            if outage and AWAY in envelope.topic and tick in OUTAGE:
                topic = envelope.topic.replace("/telemetry/", "/backlog/")
                late.append(envelope._replace(topic=topic, qos=1))
            else:
                writer.write(time_ns + 40_000_000, envelope)
        if tick == OUTAGE.stop + 1:
            for envelope in late * times:
                writer.write(time_ns + 50_000_000, envelope)
    writer.close()


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


def rows(folder: Path, table: str = "chips") -> list[dict[str, Any]]:
    """Return the rows of the figures that an outage does not change, to be compared."""
    with open_history(folder) as reader:
        figures = "covered_s, power_w, power_w_max, temperature_c_max, nc_util_pct"
        whole = "links_up, health" + (", exec_completed" if table == "chips" else "")
        place = "''" if table == "fleets" else "address"
        found = reader.query(
            f"SELECT time::VARCHAR || {place}, {figures}, {whole} FROM {table} ORDER BY 1"  # noqa: S608  the test's own
        ).rows
    return [{row[0]: row[1:]} for row in found]


def alike(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that equal the same figures after rounding."""
    return [
        {name: pytest.approx(figures, rel=5e-3) for name, figures in row.items()} for row in found
    ]


@pytest.mark.parametrize("json", [True, False])
def test_history_of_an_outage_is_that_without_it(tmp_path: Path, *, json: bool) -> None:
    """Minutes and ten minutes are the same, also written, sent or compacted twice."""
    recorded(tmp_path / "whole.mcap", outage=False, json=json)
    recorded(tmp_path / "late.mcap", outage=True, json=json, times=2)
    write(tmp_path / "whole", tmp_path / "whole.mcap")
    total = write(tmp_path / "late", tmp_path / "late.mcap")

    messages = len(OUTAGE) * (17 if json else 1)
    assert (total.lost, total.backlog, total.backlog_repeated) == (0, messages, messages)
    want = alike(rows(tmp_path / "whole"))
    assert rows(tmp_path / "late") == want
    fleets = alike(rows(tmp_path / "whole", "fleets"))
    assert rows(tmp_path / "late", "fleets") == fleets

    again = write(tmp_path / "late", tmp_path / "late.mcap")
    assert again.chips == 0
    assert rows(tmp_path / "late") == want
    compact(
        tmp_path / "late",
        today=date(2026, 1, 6),
        holder="test",
        memory_bytes=2**28,
        threads=1,
        report=print,
    )
    assert rows(tmp_path / "late") == want
    assert write(tmp_path / "late", tmp_path / "late.mcap").chips == 0
    assert rows(tmp_path / "late", "fleets") == fleets
    # Counters grow in the minute after the outage. Of five minutes one was wholly within it.
    assert increases(tmp_path / "late") == (increases(tmp_path / "whole")[0], 160 - 16)


def increases(folder: Path) -> tuple[int, int]:
    """Return the sum of a counter's increases, and the number of known ones."""
    with open_history(folder) as reader:
        [(total, known)] = reader.query(
            "SELECT sum(exec_completed_increase), count(exec_completed_increase) FROM chips"
        ).rows
    return int(total), known


def test_a_flood_of_backlog_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes split for want of room count the same; other days are not used."""
    monkeypatch.setattr(backlog, "MOST_HOSTS", 1)
    monkeypatch.setattr(backlog, "MOST_ROWS_BYTES", 1)
    recorded(tmp_path / "whole.mcap", outage=False, json=False)
    write(tmp_path / "whole", tmp_path / "whole.mcap")
    recorded(tmp_path / "late.mcap", outage=True, json=False)
    write(tmp_path / "late", tmp_path / "late.mcap")
    assert rows(tmp_path / "late") == alike(rows(tmp_path / "whole"))

    monkeypatch.setattr(backlog, "MOST_AGE_MINUTES", 0)
    total = write(tmp_path / "old", tmp_path / "late.mcap")
    assert total.backlog_unused == len(OUTAGE) - total.backlog > 0
    assert FIRST * 60 * NS_PER_S == START_NS
