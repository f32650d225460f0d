"""History for the charts of the app."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.history import CHIPS, FIRST, write_minutes
from support.processes.waiting import eventually

from trnfleet.clock import ManualClock
from trnfleet.domain.minutes import Wanted
from trnfleet.errors import ConfigError
from trnfleet.services.history.charts import LIMIT_S, HistoryCharts, HistoryFolder
from trnfleet.tasks import background
from trnfleet.tui.metric_display import CHIP_CHARTS

if TYPE_CHECKING:
    from pathlib import Path

MINUTE_NS = 60_000_000_000
CHIP = "uc1/us-0001/trn2u-0001-1/chip05"


async def asked(charts: HistoryCharts, wanted: Wanted) -> None:
    """Ask, and wait until there is an answer or a problem."""
    before = charts.revision
    charts.ask(wanted)
    async with background(charts=charts.run()):
        await eventually(lambda: charts.revision >= before + 2 or charts.problem, 20.0)


def wanted(address: str, step_minutes: int) -> Wanted:
    """Return the first half an hour of a node."""
    return Wanted(address, FIRST * MINUTE_NS, (FIRST + 30) * MINUTE_NS, step_minutes * MINUTE_NS)


async def test_a_chip_has_minutes_and_the_fleet_ten_of_them(tmp_path: Path) -> None:
    """Missing values are NaN.

    A second query is answered at once.
    """
    write_minutes(
        tmp_path, [*range(FIRST, FIRST + 10), *range(FIRST + 20, FIRST + 30)], windows=[FIRST]
    )
    charts = HistoryCharts(tmp_path, "demo", ManualClock())
    for question in (wanted(CHIP, 1), wanted("", 10)):
        await asked(charts, question)
    chip = charts.ask(wanted(CHIP, 1))
    fleet = charts.ask(wanted("", 10))
    assert chip is not None
    assert fleet is not None
    assert charts.problem == ""
    power = chip.columns["power_w"]
    assert power.mean[:10] == pytest.approx([121.0] * 10)
    assert power.high[:10] == pytest.approx([126.0] * 10)
    assert np.isnan(chip.chips[10:20]).all()
    assert not np.isnan(chip.chips[20:]).any()
    assert fleet.chips[0] == CHIPS
    assert np.isnan(fleet.chips[1:]).all()
    assert fleet.columns["power_w"].mean[0] == pytest.approx(CHIPS * 100 + sum(range(CHIPS)))
    assert all(name in chip.columns for field in CHIP_CHARTS for name in field.parts)
    assert charts.reach is not None
    assert charts.reach == (FIRST * MINUTE_NS, (FIRST + 30) * MINUTE_NS)


async def test_what_cannot_be_read_is_named_and_ends_nothing(tmp_path: Path) -> None:
    """A missing folder, another fleet's, and a torn file among whole ones are named."""
    for folder, fleet, said in (
        (tmp_path / "none", "demo", "no such folder"),
        (tmp_path / "history", "prod", "no history of the fleet 'prod'; it has that of 'demo'"),
    ):
        if folder.name == "history":
            write_minutes(folder, [FIRST])
        charts = HistoryCharts(folder, fleet, ManualClock())
        await asked(charts, wanted(CHIP, 1))
        assert charts.problem == f"{folder}: {said}"
        assert charts.ask(wanted(CHIP, 1)) is None
    write_minutes(folder, [FIRST + 1])
    torn = next(folder.rglob("chips-20260105T0001Z*"))
    torn.write_bytes(torn.read_bytes()[:-100])
    charts = HistoryCharts(folder, "demo", ManualClock())
    await asked(charts, wanted(CHIP, 1))
    answer = charts.ask(wanted(CHIP, 1))
    assert charts.problem == f"left out (torn: it has no footer): {torn}"
    assert answer is not None
    assert np.isnan(answer.chips[:3]).tolist() == [False, True, True]


async def test_a_folder_that_comes_later_is_seen_though_no_chart_asks(tmp_path: Path) -> None:
    """The message goes, and the app knows how far charts reach."""
    clock = ManualClock()
    folder = tmp_path / "history"
    charts = HistoryCharts(folder, "demo", clock)
    async with background(charts=charts.run()):
        await eventually(lambda: charts.problem, 20.0)
        assert charts.problem == f"{folder}: no such folder"
        write_minutes(folder, [FIRST])
        await clock.advance(LIMIT_S)
        await eventually(lambda: not charts.problem and charts.reach, 20.0)
        assert charts.reach == (FIRST * MINUTE_NS, (FIRST + 1) * MINUTE_NS)


async def test_whatever_the_system_says_of_a_folder_does_not_end_the_app(tmp_path: Path) -> None:
    """A system error, such as for a long name, does not end the app."""
    clock = ManualClock()
    charts = HistoryCharts(tmp_path / ("x" * 300), "demo", clock)
    async with background(charts=charts.run()):
        await eventually(lambda: charts.problem, 20.0)
        assert "File name too long" in charts.problem
        await clock.advance(LIMIT_S)
        assert charts.problem


def test_without_duckdb_the_option_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the option, and what to install."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigError) as caught:
        HistoryFolder(tmp_path, ManualClock())
    assert str(caught.value) == (
        "--history: DuckDB is not installed: pip install duckdb, or pipx inject trnfleet duckdb"
    )


async def test_a_torn_file_that_is_whole_again_is_named_no_more_though_no_chart_asks(
    tmp_path: Path,
) -> None:
    """As one that is deleted is not."""
    write_minutes(tmp_path, [FIRST, FIRST + 1])
    torn, whole = tear(tmp_path)
    clock = ManualClock()
    charts = HistoryCharts(tmp_path, "demo", clock)
    charts.ask(wanted(CHIP, 1))
    async with background(charts=charts.run()):
        await eventually(lambda: charts.problem, 20.0)
        await clock.advance(LIMIT_S)
        assert charts.problem == f"left out (torn: it has no footer): {torn}"
        torn.write_bytes(whole)
        await clock.advance(LIMIT_S)
        await eventually(lambda: not charts.problem and charts.reach, 20.0)


def tear(folder: Path) -> tuple[Path, bytes]:
    """Cut the second minute's file short.

    Return it with its former content.
    """
    file = next(folder.rglob("chips-20260105T0001Z*"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    return file, whole
