from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.layout import Layout
from trnfleet.tui.fleet.heatmap_grid import MapGrid, Zoom, fitting, zooms_of

LAYOUTS = {
    "small": Layout.of(ultraservers(2) + standalone(4)),
    "large": Layout.of(ultraservers(37)),
}
GRIDS = {name: MapGrid.build(layout) for name, layout in LAYOUTS.items()}
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
    assert fitted("small", 100, 21) == 1
    assert fitted("small", 78, 13) == 2
    assert ZOOMS[fitted("large", 78, 13)].chips == 2
    assert fitted("large", 1, 1) == len(ZOOMS) - 1


@pytest.mark.parametrize("size", [(72, 13), (72, 34), (123, 49), (163, 64)])
@pytest.mark.parametrize("count", [160, 15_625])
def test_a_large_fleet_fills_its_pane(count: int, size: tuple[int, int]) -> None:
    """The chosen level uses all of the width.

    The next nearer one does not fit in any arrangement.
    """
    layout = Layout.of(ultraservers(count))
    grid, (width, height) = MapGrid.build(layout), size
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
    grid, (width, height) = MapGrid.build(layout), size
    level, columns = fitting(ZOOMS, grid, layout, width, height)
    rows = ZOOMS[level].extent(grid.arranged(layout, columns))[1]
    assert 0.55 * height <= rows <= height


def test_two_levels_differ_by_no_more_than_twice_the_chips_of_a_cell() -> None:
    """From a cell of two chips on."""
    chips = [2 * zoom.chips**2 // zoom.height for zoom in ZOOMS if zoom.width == 1]
    assert chips == [2**number for number in range(1, len(chips) + 1)]


FLEETS = {
    "ultraservers": ultraservers(5),
    "mixed": ultraservers(2) + standalone(5),
    "one chip each": standalone(37, "trn1.2xlarge"),
    "all kinds": ultraservers(3)
    + standalone(3)
    + standalone(18, "trn1.2xlarge")
    + standalone(2, "trn1.32xlarge"),
    "clusters": ultraservers(3) + ultraservers(7, "uc2") + standalone(2, cluster="uc2"),
    "many clusters": [each for number in range(9) for each in ultraservers(1, f"uc{number}")],
}


@pytest.fixture(params=sorted(FLEETS))
def layout(request: pytest.FixtureRequest) -> Layout:
    return Layout.of(FLEETS[request.param])


def test_every_chip_has_one_place(layout: Layout) -> None:
    """The lattice holds every chip once."""
    grid = MapGrid.build(layout)
    chips = grid.chips_at(np.arange(grid.columns * grid.group), np.arange(grid.rows * grid.group))
    assert sorted(chips[chips >= 0].tolist()) == list(range(layout.chips))


def test_place_of_is_the_inverse(layout: Layout) -> None:
    """A chip's place leads back to the chip."""
    grid = MapGrid.build(layout)
    for chip in range(layout.chips):
        x, y = grid.place_of(chip)
        assert grid.chips_at(np.array([x]), np.array([y]))[0, 0] == chip


def test_the_chip_at_one_place_is_that_of_the_window(layout: Layout) -> None:
    """`chip_at` agrees with `chips_at` at every place of the lattice, holes included."""
    grid = MapGrid.build(layout)
    across = range(grid.columns * grid.group)
    down = range(grid.rows * grid.group)
    single = [[grid.chip_at(x, y) for x in across] for y in down]
    np.testing.assert_array_equal(single, grid.chips_at(np.array(across), np.array(down)))


def test_an_instance_is_a_tile_and_an_ultraserver_two_by_two() -> None:
    """Chips of an instance are in rows of four.

    Instances of an UltraServer go left to right, top to bottom.
    """
    grid = MapGrid.build(Layout.of(ultraservers(2)))
    assert [grid.place_of(chip) for chip in (0, 3, 4, 15, 16, 32, 48, 64)] == [
        (0, 0),
        (3, 0),
        (0, 1),
        (3, 3),
        (grid.tile, 0),
        (0, grid.tile),
        (grid.tile, grid.tile),
        (grid.group, 0),
    ]


def test_one_chip_instances_share_a_tile() -> None:
    """Seventeen of them fill one tile and begin a second."""
    grid = MapGrid.build(Layout.of(standalone(17, "trn1.2xlarge")))
    assert grid.tiles == 2
    assert np.diff(grid.tile_chip).tolist() == [16, 1]
    assert grid.piece_tile.tolist() == [0] * 16 + [1]
    assert grid.piece_instance.tolist() == list(range(17))


def test_groups_do_not_mix_ultraservers(layout: Layout) -> None:
    """A group belongs to one UltraServer or standalone segment."""
    grid = MapGrid.build(layout)
    start = layout.ultraserver_start
    owner = np.searchsorted(start, grid.piece_instance, side="right") - 1
    assert (grid.group_ultraserver[grid.tile_group[grid.piece_tile]] == owner).all()


def test_groups_do_not_mix_types(layout: Layout) -> None:
    """A group has one type.

    Every group of a type but the last is full.
    """
    grid = MapGrid.build(layout)
    kinds = [
        set(layout.instance_type[grid.instances_of(group)].tolist()) for group in range(grid.groups)
    ]
    assert {len(each) for each in kinds} == {1}
    assert sorted(
        np.concatenate([grid.instances_of(group) for group in range(grid.groups)]).tolist()
    ) == list(range(len(layout.instances)))
    owned = [
        (owner, *each) for owner, each in zip(grid.group_ultraserver.tolist(), kinds, strict=True)
    ]
    tiles = np.bincount(grid.tile_group).tolist()
    assert all(
        tiles[group] == 4 for group in range(grid.groups - 1) if owned[group] in owned[group + 1 :]
    )


def test_hosts_whose_types_alternate_share_groups_with_their_own_type() -> None:
    """Names of hosts often say nothing of their types."""
    kinds = ("trn1.32xlarge", "trn2.48xlarge")
    layout = Layout.of(
        [(f"uc1/standalone/host-{number:02}", kinds[number % 2]) for number in range(8)]
    )
    grid = MapGrid.build(layout)
    assert [grid.instances_of(group).tolist() for group in range(grid.groups)] == [
        [0, 2, 4, 6],
        [1, 3, 5, 7],
    ]


def test_the_shape_depends_on_the_fleet_alone() -> None:
    """160 UltraServers stand in rows of sixteen; two clusters begin on rows of their own."""
    grid = MapGrid.build(Layout.of(ultraservers(160)))
    assert (grid.columns, grid.rows) == (16, 10)
    both = MapGrid.build(Layout.of(FLEETS["clusters"]))
    first_of_second = int(np.flatnonzero(both.group_ultraserver >= 3)[0])
    assert both.group_cell[first_of_second] % both.columns == 0


def test_an_empty_fleet_has_no_groups() -> None:
    """Nothing known yet is no error."""
    grid = MapGrid.build(Layout.of([]))
    assert (grid.groups, grid.tiles, grid.rows) == (0, 0, 0)
