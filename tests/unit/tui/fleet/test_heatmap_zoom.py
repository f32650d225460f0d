from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.layout import Layout
from trnfleet.tui.fleet.heatmap_grid import Grid
from trnfleet.tui.fleet.heatmap_zoom import Zoom, fitting, zooms_of

LAYOUTS = {
    "small": Layout.of(ultraservers(2) + standalone(4)),
    "large": Layout.of(ultraservers(37)),
}
GRIDS = {name: Grid.of(layout) for name, layout in LAYOUTS.items()}
ZOOMS = zooms_of(4)
EVERY = [(zoom, name) for zoom in (*ZOOMS, *zooms_of(4, whole_cells=True)) for name in GRIDS]


@pytest.mark.parametrize(("zoom", "name"), EVERY)
def test_every_pixel_is_drawn_once_and_whole(zoom: Zoom, name: str) -> None:
    """A map's cells hold each pixel in one rectangle of its size."""
    grid = GRIDS[name]
    across, down = zoom.pixels(grid, 0, 0, *zoom.extent(grid))
    for pixels, groups, size in (
        (across, grid.columns, zoom.width),
        (down, grid.rows, zoom.height),
    ):
        shown = pixels[pixels >= 0]
        amount = -(-groups * grid.group // zoom.block) * (zoom.block // zoom.chips)
        assert np.bincount(shown, minlength=amount).tolist() == [size] * amount
        assert (np.diff(shown) >= 0).all()


@pytest.mark.parametrize(("zoom", "name"), EVERY)
def test_a_hit_is_the_inverse_of_a_rectangle(zoom: Zoom, name: str) -> None:
    """Every cell of a unit hits the unit.

    Cells outside hit another one or none.
    """
    grid = GRIDS[name]
    side = zoom.unit_chips
    for y in range(0, grid.rows * grid.group, side):
        for x in range(0, grid.columns * grid.group, side):
            rect = zoom.rect(x, y)
            for column, half in ((rect.left, rect.top), (rect.right - 1, rect.bottom - 1)):
                found = zoom.hit(grid, column, half // 2, lower=bool(half % 2))
                assert found is not None
                assert zoom.unit_at(grid, *found) == (x, y)
            beyond = zoom.hit(grid, rect.right, rect.top // 2, lower=bool(rect.top % 2))
            assert beyond is None or zoom.unit_at(grid, *beyond) != (x, y)


@pytest.mark.parametrize("name", list(GRIDS))
def test_zooming_moves_nothing(name: str) -> None:
    """Relative positions, left and above, are the same at every level."""
    grid = GRIDS[name]
    places = [
        (x, y)
        for y in range(0, grid.rows * grid.group, 32)
        for x in range(0, grid.columns * grid.group, 32)
    ]
    for zoom in ZOOMS:
        rects = [zoom.rect(*zoom.unit_at(grid, x, y)) for x, y in places]
        for (x, y), rect in zip(places, rects, strict=True):
            for (other_x, other_y), other in zip(places, rects, strict=True):
                assert (x < other_x) == (rect.left < other.left)
                assert (y < other_y) == (rect.top < other.top)


def test_a_window_is_a_part_of_the_whole() -> None:
    """A scrolled window shows the same part of the whole map."""
    grid = GRIDS["large"]
    for zoom in ZOOMS:
        width, height = zoom.extent(grid)
        across, down = zoom.pixels(grid, 0, 0, width, height)
        part_across, part_down = zoom.pixels(grid, 3, 1, width - 3, height - 1)
        assert part_across.tolist() == across[3:].tolist()
        assert part_down.tolist() == down[2:].tolist()


def test_the_nearest_level_that_fits_is_chosen() -> None:
    """Small fleets are shown by chip, large ones from afar.

    Too large ones use the farthest level.
    """

    def fitted(name: str, width: int, height: int) -> int:
        return fitting(ZOOMS, GRIDS[name], LAYOUTS[name], width, height)[0]

    assert fitted("small", 170, 60) == 0
    assert fitted("small", 78, 13) == 1
    assert ZOOMS[fitted("large", 78, 13)].chips == 2
    assert fitted("large", 1, 1) == len(ZOOMS) - 1


@pytest.mark.parametrize("size", [(72, 13), (72, 34), (123, 49), (163, 64)])
@pytest.mark.parametrize("count", [160, 15_625])
def test_a_large_fleet_fills_its_pane(count: int, size: tuple[int, int]) -> None:
    """The chosen level uses all of the width.

    The next nearer one does not fit in any arrangement.
    """
    layout = Layout.of(ultraservers(count))
    grid, (width, height) = Grid.of(layout), size
    level, columns = fitting(ZOOMS, grid, layout, width, height)
    wide, high = ZOOMS[level].extent(grid.arranged(layout, columns))
    assert 0.85 * width <= wide <= width
    assert high <= height
    for nearer in ZOOMS[:level]:
        for beside in range(1, 2 + width // len(nearer.across) * (nearer.block // nearer.group)):
            if nearer.least_rows(count, beside) <= height:
                wide, high = nearer.extent(grid.arranged(layout, beside))
                assert wide > width or high > height


@pytest.mark.parametrize("size", [(78, 11), (58, 12), (98, 14), (72, 34), (72, 18)])
def test_a_large_fleet_leaves_few_rows_empty(size: tuple[int, int]) -> None:
    """The next farther level uses about half of the rows.

    It was a quarter before: 5 of 12 for 10,240 chips at 80 columns.
    """
    layout = Layout.of(ultraservers(160))
    grid, (width, height) = Grid.of(layout), size
    level, columns = fitting(ZOOMS, grid, layout, width, height)
    rows = ZOOMS[level].extent(grid.arranged(layout, columns))[1]
    assert 0.55 * height <= rows <= height


def test_two_levels_differ_by_no_more_than_twice_the_chips_of_a_cell() -> None:
    """From a cell of two chips on."""
    chips = [2 * zoom.chips**2 // zoom.height for zoom in ZOOMS if zoom.width == 1]
    assert chips == [2**number for number in range(1, len(chips) + 1)]
