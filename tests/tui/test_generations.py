"""The app with fictitious chip generations: every view, zoom level and lane name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.generations import GENERATIONS, Generation, made_up
from support.monitor.feed import Feed
from support.tui.pilot import fleet_app, running

from trnfleet.domain.fleet import find_lane
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.tui.fleet.heatmap_grid import MapGrid
from trnfleet.tui.fleet.view import FleetView

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = pytest.mark.parametrize("name", GENERATIONS)


@pytest.fixture(autouse=True)
def _catalogue() -> Iterator[None]:
    with made_up():
        yield


def fed(generation: Generation) -> Feed:
    """Return a fleet with one failed link of a chip."""
    feed = Feed(generation.pairs)
    feed.jobs = {"train": (generation.groups[0],)}
    feed.scatter()
    node = feed.layout.find(generation.chip())
    assert node is not None
    lane = find_lane(feed.layout, node.number, generation.lane)
    feed.columns["links_up"][node.number] &= 0xFF ^ (1 << lane)
    feed.describe()
    feed.monitor.apply(
        [
            feed.reservation(
                "cb-1",
                generation.groups[0],
                instance_type=generation.member.name,
                ultraserver_type=None
                if generation.ultraserver is None
                else generation.ultraserver.name,
            )
        ]
    )
    feed.tick()
    return feed


@ALL
def test_the_map_has_the_topologys_shape(name: str) -> None:
    """Each chip has its own place, in the topology's rows, and is found there."""
    layout = GENERATIONS[name].layout
    grid = MapGrid.build(layout)
    rows, columns = GENERATIONS[name].alone.topology.shape
    assert grid.tile == max(rows, columns)
    x, y = (np.array(axis) for axis in zip(*map(grid.place_of, range(layout.chips)), strict=True))
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == layout.chips
    for chip in range(layout.chips):
        assert grid.chips_at(x[chip : chip + 1], y[chip : chip + 1])[0, 0] == chip
    assert (x[columns] - x[0], y[columns] - y[0]) == (0, 1)
    shown = grid.chips_at(np.arange(grid.columns * grid.group), np.arange(grid.rows * grid.group))
    assert sorted(shown[shown >= 0].tolist()) == list(range(layout.chips))


@ALL
async def test_every_zoom_of_the_map_and_the_views(name: str) -> None:
    """The map is drawn at every zoom level, and the cursor finds its chip.

    Hierarchy, Chip and Reservations show the generation. The chip's links have its lane names.
    """
    generation = GENERATIONS[name]
    feed = fed(generation)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("1")
        assert isinstance(pilot.app.page, FleetView)
        heat = pilot.app.page.map
        heat.show_place(generation.chip())
        seen = set()
        await pilot.press(*["plus"] * len(heat.zooms))
        for _ in heat.zooms:
            await pilot.tick(feed)
            assert pilot.crash is None
            seen.add(heat.zoom.title)
            assert heat.place in {
                generation.chip(),
                generation.chip().rpartition("/")[0],
                generation.groups[0],
            } | set(generation.instances)
            await pilot.press("right", "down", "left", "up", "underscore")
        assert {"1 chip", "an instance", "an UltraServer", "2x2 UltraServers"} <= seen
        await pilot.press("2")
        await pilot.tick(feed)
        assert generation.groups[0].rpartition("/")[2] in pilot.text()
        # Enter on a chip of the map opens it.
        await pilot.press("1")
        assert isinstance(pilot.app.page, FleetView)
        await pilot.press(*["plus"] * 9)
        pilot.app.page.map.show_place(generation.chip())
        await pilot.press("enter")
        await pilot.tick(feed)
        text = pilot.text()
        assert generation.chip() in text
        for lane in generation.member.lanes:
            assert lane.name in text
        assert ("switch" in text) is (generation.member.topology.kind is TopologyKind.SWITCHED)
        await pilot.press("7")
        await pilot.tick(feed)
        assert "cb-1" in pilot.text()
        assert pilot.crash is None
