from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.pilot import ViewHost

from trnfleet.tui.fleet.heatmap import FIELDS, HeatMap
from trnfleet.tui.fleet.heatmap_style import count_text, end_text
from trnfleet.tui.state.context import UiContext

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from trnfleet.monitor.store.fields import Field


def test_ends_of_scales_are_round() -> None:
    """Tenths say nothing at the end of a scale."""
    assert (end_text(100.0, "%"), end_text(20.0, "degC"), end_text(0.0, "W")) == (
        "100 %",
        "20 °C",
        "0 W",
    )


class Host(ViewHost):
    """An app that is nothing but the map."""

    def __init__(self, heat: HeatMap) -> None:
        super().__init__()
        self.heat = heat

    def compose(self) -> ComposeResult:
        yield self.heat


@pytest.mark.parametrize("field", FIELDS[:2])
async def test_what_a_cell_stands_for_is_told_once_there_are_cells(field: Field) -> None:
    """Before, no zoom level has been chosen, and the farthest one would be named."""
    feed = Feed(ultraservers(4))
    feed.describe()
    feed.tick()
    heat = HeatMap(UiContext.of(feed.monitor, feed.clock))
    heat.field = field

    def said() -> str:
        return "".join(text for text, _ in heat.legend(120))

    assert heat.field.title in said()
    assert "chip" not in said()

    def amount() -> str:
        return count_text(heat.zoom, heat.field, has_rolled=False)

    async with Host(heat).run_test(size=(120, 40)):
        # Where a chip has a cell of its own, or more, nothing is said.
        assert amount() == ""
        heat.action_zoom(len(heat.zooms))
        assert "chips, " in amount()
        assert amount() in said()
