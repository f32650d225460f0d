"""Alert marks on the parts of a chip and on rows of the tree.

Acknowledged and silenced alerts, too.
"""

from __future__ import annotations

import pytest
from support.tui.handled import CHIP, INSTANCE, LINK, acknowledge, faulty, firing, silence
from support.tui.pilot import SIZES, fleet_app, running

from trnfleet.tui import theme

THROTTLED = "uc1/us-0002/trn2u-0002-0/chip03"


def line_with(lines: list[str], word: str) -> str:
    found = [line for line in lines if word in line]
    assert found, f"no line has {word!r}"
    return found[0]


@pytest.mark.parametrize("size", SIZES)
async def test_a_part_with_an_alert_is_marked(size: tuple[int, int]) -> None:
    """Only the affected link, metric and counter have the glyph of the severity."""
    feed = await faulty()
    async with running(fleet_app(feed), size=size) as pilot:
        pilot.app.go(CHIP, "Chip")
        await pilot.paint()
        lines = pilot.screen()[4:]
        assert f"✖{LINK}" in line_with(lines, LINK)
        assert "▲temp" in line_with(lines, "temp ")
        # Where 24 rows are not enough.
        await pilot.press("down", "down")
        lines = pilot.screen()[4:]
        assert "✖HBM uncorrected" in line_with(lines, "HBM uncorrected")
        assert " south" in line_with(lines, "south")
        assert "▲throttle" not in pilot.text()
        # The other end of the same link is marked, too.
        pilot.app.go(f"{INSTANCE}/chip01", "Chip")
        await pilot.paint()
        assert "✖south" in pilot.text()
        pilot.app.go(THROTTLED, "Chip")
        await pilot.paint()
        assert not any(glyph in line for line in pilot.screen()[5:-2] for glyph in "✖▲")


async def test_what_was_done_about_it_stands_beside_the_part() -> None:
    """Silenced and acknowledged alerts have their glyph, dimmed, with the operator."""
    feed = await faulty()
    await silence(feed, "link-down")
    await acknowledge(feed, firing(feed, "overheated"))
    async with running(fleet_app(feed), size=(200, 55)) as pilot:
        pilot.app.go(CHIP, "Chip")
        await pilot.paint()
        lines = pilot.screen()[4:]
        assert "silenced bob" in line_with(lines, f"✖{LINK}")
        assert "acked ann" in line_with(lines, "▲temp")
        assert "✖HBM uncorrected" in pilot.text()
        assert "1 acknowledged, 1 silenced" in line_with(lines, "alerts:")
        strips = pilot.app.screen._compositor.render_strips()
        styles = {
            part.text: part.style for strip in strips for part in strip if f"✖{LINK}" in part.text
        }
        style = next(iter(styles.values()))
        assert style is not None
        assert style.color == theme.QUIET.color


async def test_a_row_of_the_tree_keeps_a_quiet_sign_of_what_is_handled() -> None:
    """A row with handled alerts only has the glyph in the quiet style."""
    feed = await faulty()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("2")
        await pilot.paint()
        row = line_with(pilot.screen()[3:], "trn2u-0001-2")
        assert "✖" in row
        for name in ("link-down", "overheated", "hbm-uncorrectable"):
            await silence(feed, name)
        await pilot.paint()
        assert "✖" in line_with(pilot.screen()[3:], "trn2u-0001-2")
        assert pilot.app.context.alerts.marks.fleet != pilot.app.context.alerts.handled_marks.fleet
