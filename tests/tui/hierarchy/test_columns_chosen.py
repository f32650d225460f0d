"""Columns of Hierarchy that `:columns` hides and shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.tui.pilot import fleet_app, running
from tui.hands.test_filters import fed

from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.state.kept import KeptColumns

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.tui.app.app import FleetApp


def keys(app: FleetApp) -> set[str]:
    """Return the keys of the columns on the screen."""
    page = app.page
    assert isinstance(page, HierarchyView)
    return {column.key for column in page.table.plan.columns}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_columns_are_hidden_shown_and_kept(tmp_path: Path, size: tuple[int, int]) -> None:
    """The choice is there after a restart, also that of an absent column; default removes it."""
    file = tmp_path / "columns.json"
    for commands, hidden, shown in (
        (("columns -power -nc_util +throttle",), {"power_w", "nc_util_pct"}, {"throttle_pct"}),
        ((), {"power_w", "nc_util_pct"}, {"throttle_pct"}),
        (("columns +power",), {"nc_util_pct"}, {"power_w", "throttle_pct"}),
        (("columns default",), set(), {"power_w", "nc_util_pct"}),
        ((), set(), {"power_w", "nc_util_pct"}),
    ):
        app = fleet_app(fed())
        app.fleets.columns.open(file, may_save=True)
        async with running(app, size=size) as pilot:
            await pilot.press("2")
            for command in commands:
                await pilot.press("colon", *command, "enter")
                assert command in pilot.text()
            assert not keys(app) & hidden
            assert keys(app) >= shown
    assert app.fleets.columns.columns_of("test") == {}


async def test_a_hidden_column_can_be_sorted_by() -> None:
    """It is shown as long as rows are sorted by it."""
    app = fleet_app(fed())
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("2", "P", "colon", *"columns -power", "enter")
        assert "you sort by it, so it stays" in pilot.text()
        assert "power_w" in keys(app)
        await pilot.press("N")
        assert "power_w" not in keys(app)
        await pilot.press("P", "s")
        assert "power_w" not in keys(app)


async def test_columns_are_listed_completed_and_corrected() -> None:
    """Without a word the command lists them; a wrong name gets the nearest one."""
    app = fleet_app(fed())
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("2", "colon", *"columns -power", "enter", "colon", *"columns", "enter")
        assert "hidden: power; no room or no data: " in pilot.text()
        await pilot.press(*"columns +power -tmp", "enter")
        assert "column 'tmp': did you mean 'temp'?" in pilot.text()
        assert "power_w" not in keys(app)
        await pilot.press(*"columns power", "enter")
        assert "'power': - hides and + shows" in pilot.text()
        await pilot.press(*"columns +power -thr", "tab", "enter")
        assert "columns +power -throttle; until the app ends" in pilot.text()
        assert "power_w" in keys(app)


@pytest.mark.parametrize("text", ["[]", '{"demo": 3}', '{"demo": {"power_w": 1}}'])
def test_a_damaged_file_of_columns(tmp_path: Path, text: str) -> None:
    """It is named and stays as it is; the choice lasts until the app ends."""
    file = tmp_path / "columns.json"
    file.write_text(text, encoding="utf-8")
    columns = KeptColumns()
    columns.open(file, may_save=True)
    assert columns.problem.startswith(f"{file}: ")
    assert columns.put("demo", {"power_w": False}).startswith("until the app ends: ")
    assert columns.columns_of("demo") == {"power_w": False}
    assert file.read_text(encoding="utf-8") == text
