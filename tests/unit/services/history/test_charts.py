"""History for the charts of the app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.history import CHIPS, FIRST, write_minutes

from trnfleet.clock import ManualClock
from trnfleet.domain.minutes import Wanted
from trnfleet.services.history.charts import HistoryCharts
from trnfleet.tasks import background

if TYPE_CHECKING:
    from pathlib import Path

MINUTE_NS = 60_000_000_000
CHIP = "uc1/us-0001/trn2u-0001-1/chip05"


async def asked(charts: HistoryCharts, wanted: Wanted) -> None:
    """Ask, and wait until there is an answer or a problem."""
    before = charts.revision
    charts.ask(wanted)
    async with background(charts=charts.run()), asyncio.timeout(20):
        while charts.revision < before + 2 and not charts.problem:  # noqa: ASYNC110  a thread answers
            await asyncio.sleep(0.01)


def wanted(address: str, step_minutes: int) -> Wanted:
    """Return the first half an hour of a node."""
    return Wanted(address, FIRST * MINUTE_NS, (FIRST + 30) * MINUTE_NS, step_minutes * MINUTE_NS)


async def test_a_chip_has_minutes_and_the_fleet_ten_of_them(tmp_path: Path) -> None:
    """What is not in the files is NaN; a second question gets the answer at once."""
    write_minutes(tmp_path, [*range(FIRST, FIRST + 10), *range(FIRST + 20, FIRST + 30)], windows=[FIRST])
    charts = HistoryCharts(tmp_path, "demo", ManualClock())
    for question in (wanted(CHIP, 1), wanted("", 10)):
        await asked(charts, question)
    chip, fleet = charts.ask(wanted(CHIP, 1)), charts.ask(wanted("", 10))
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
    assert charts.reach is not None
    assert charts.reach == (FIRST * MINUTE_NS, (FIRST + 30) * MINUTE_NS)


async def test_what_cannot_be_read_is_named_and_ends_nothing(tmp_path: Path) -> None:
    """A folder that is missing, one of another fleet, and a torn file beside whole ones."""
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
    assert charts.problem == f"left out {torn}: torn: it has no footer"
    assert answer is not None
    assert np.isnan(answer.chips[:3]).tolist() == [False, True, True]
