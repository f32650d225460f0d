from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.layout import Layout
from trnfleet.tui.fleet.heatmap_grid import Grid

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
    grid = Grid.of(layout)
    chips = grid.chips_at(np.arange(grid.columns * grid.group), np.arange(grid.rows * grid.group))
    assert sorted(chips[chips >= 0].tolist()) == list(range(layout.chips))


def test_place_of_is_the_inverse(layout: Layout) -> None:
    """A chip's place leads back to the chip."""
    grid = Grid.of(layout)
    for chip in range(layout.chips):
        x, y = grid.place_of(chip)
        assert grid.chips_at(np.array([x]), np.array([y]))[0, 0] == chip


def test_the_chip_at_one_place_is_that_of_the_window(layout: Layout) -> None:
    """`chip_at` agrees with `chips_at` at every place of the lattice, holes included."""
    grid = Grid.of(layout)
    across = range(grid.columns * grid.group)
    down = range(grid.rows * grid.group)
    single = [[grid.chip_at(x, y) for x in across] for y in down]
    np.testing.assert_array_equal(single, grid.chips_at(np.array(across), np.array(down)))


def test_an_instance_is_a_tile_and_an_ultraserver_two_by_two() -> None:
    """Chips of an instance are in rows of four.

    Instances of an UltraServer go left to right, top to bottom.
    """
    grid = Grid.of(Layout.of(ultraservers(2)))
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
    grid = Grid.of(Layout.of(standalone(17, "trn1.2xlarge")))
    assert grid.tiles == 2
    assert np.diff(grid.tile_chip).tolist() == [16, 1]
    assert grid.piece_tile.tolist() == [0] * 16 + [1]
    assert grid.piece_instance.tolist() == list(range(17))


def test_groups_do_not_mix_ultraservers(layout: Layout) -> None:
    """A group belongs to one UltraServer or standalone segment."""
    grid = Grid.of(layout)
    start = layout.ultraserver_start
    owner = np.searchsorted(start, grid.piece_instance, side="right") - 1
    assert (grid.group_ultraserver[grid.tile_group[grid.piece_tile]] == owner).all()


def test_groups_do_not_mix_types(layout: Layout) -> None:
    """A group has one type.

    Every group of a type but the last is full.
    """
    grid = Grid.of(layout)
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
    grid = Grid.of(layout)
    assert [grid.instances_of(group).tolist() for group in range(grid.groups)] == [
        [0, 2, 4, 6],
        [1, 3, 5, 7],
    ]


def test_the_shape_depends_on_the_fleet_alone() -> None:
    """160 UltraServers stand in rows of sixteen; two clusters begin on rows of their own."""
    grid = Grid.of(Layout.of(ultraservers(160)))
    assert (grid.columns, grid.rows) == (16, 10)
    both = Grid.of(Layout.of(FLEETS["clusters"]))
    first_of_second = int(np.flatnonzero(both.group_ultraserver >= 3)[0])
    assert both.group_cell[first_of_second] % both.columns == 0


def test_an_empty_fleet_has_no_groups() -> None:
    """Nothing known yet is no error."""
    grid = Grid.of(Layout.of([]))
    assert (grid.groups, grid.tiles, grid.rows) == (0, 0, 0)
