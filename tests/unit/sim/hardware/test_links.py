from __future__ import annotations

import numpy as np
import pytest
from support.sim.small_fleet import IDLE, SERVE, TRAIN, SmallFleet

from trnfleet.domain.links import link_end
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.hardware.columns import LANES
from trnfleet.sim.hardware.links import Patches, SlowLink, balanced_pace, find_patches
from trnfleet.sim.jobs.activity import LINK_CEILING
from trnfleet.sim.placement import IDLE as NO_JOB

TROUBLE = SmallFleet()
CHIP = f"{TRAIN}/trn2u-0001-2/chip05"
NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)
PEAK = BY_NAME["link_tx_bytes_per_s"].scale


def link(chip: str, direction: int, capacity: float = 0.25) -> SlowLink:
    return SlowLink.at(TROUBLE.layout, TROUBLE.placement, TROUBLE.row(chip), direction, capacity)


def found(patches: Patches) -> dict[int, tuple[float, float]]:
    return {
        lane: (factor, limit)
        for lane, factor, limit in zip(*(part.tolist() for part in patches), strict=True)
    }


@pytest.mark.parametrize("direction", range(6))
def test_a_link_is_the_same_from_both_ends(direction: int) -> None:
    """A link's two lanes are opposites.

    Its ring has four chips with two lanes each.
    """
    near = link(CHIP, direction)
    row, other = near.rows
    end = link_end(TROUBLE.layout, row, direction)
    assert end is not None
    assert end.member == other
    far = SlowLink.at(TROUBLE.layout, TROUBLE.placement, other, end.lane, near.capacity)
    assert sorted(near.lanes) == sorted(far.lanes)
    assert near.companions == far.companions
    assert near.lanes == (row * LANES + direction, other * LANES + end.lane)
    assert len(near.companions) == 4 * 2 - 2
    assert len({lane // LANES for lane in (*near.lanes, *near.companions)}) == 4
    assert {lane % LANES for lane in near.companions} == {direction, end.lane}


def test_a_z_links_ring_goes_through_all_instances() -> None:
    """A Z link's ring has the chips of one place in the UltraServer's four instances."""
    rows = {lane // LANES for lane in link(CHIP, Z_NEXT).companions} | set(link(CHIP, Z_NEXT).rows)
    assert rows == {TROUBLE.row(f"{TRAIN}/trn2u-0001-{number}/chip05") for number in range(4)}


def test_a_link_belongs_to_the_job_on_both_its_ends() -> None:
    """A link without a job has no traffic for a detour."""
    assert link(CHIP, EAST).job == 0
    assert link(f"{SERVE}/trn2u-0002-0/chip05", Z_NEXT).job == 1
    idle = link(f"{IDLE}/trn2-0001/chip05", EAST)
    assert idle.job == NO_JOB
    assert idle.companions == ()
    assert idle.carried(1.0) == 1.0


NEED = np.ones((3, 3))
"""All of the bandwidth, for each job and axis."""


@pytest.mark.parametrize("capacity", [0.25, 0.4, 0.9])
def test_a_slow_link_and_the_way_round_take_equally_long(capacity: float) -> None:
    """A slow link and the rest of its ring need equal time.

    The collective lasts longer by the same factor.
    """
    slow = link(CHIP, EAST, capacity)
    carried = slow.carried(1.0)
    assert carried / capacity == pytest.approx(2.0 - carried)
    assert balanced_pace(capacity) == pytest.approx(capacity / carried)
    assert link(CHIP, EAST, 0.0).carried(1.0) == 0.0


@pytest.mark.parametrize(("need", "carried"), [(0.2, 1.0), (0.25, 1.0), (0.5, 0.5), (1.0, 0.4)])
def test_a_slow_link_keeps_the_traffic_for_which_it_has_room(need: float, carried: float) -> None:
    """With a quarter of its bandwidth left, a link carries all that needs less than a quarter."""
    assert link(CHIP, EAST, 0.25).carried(need) == pytest.approx(carried)


def test_what_a_link_cannot_carry_goes_round_its_ring() -> None:
    """A slow link's own lanes lose the traffic gained by its ring's others.

    No other lane is changed.
    """
    slow = link(CHIP, EAST, 0.25)
    lanes = found(find_patches(TROUBLE.layout, [slow], NEED))
    assert sorted(lanes) == sorted([*slow.lanes, *slow.companions])
    share = slow.carried(1.0)
    assert 0.0 < share < 1.0
    assert all(lanes[lane][0] == pytest.approx(share) for lane in slow.lanes)
    assert all(lanes[lane][0] == pytest.approx(2.0 - share) for lane in slow.companions)


def test_no_lane_exceeds_its_links_bandwidth() -> None:
    """A torus link peaks at 128 GB/s a direction and a Z link at 64.

    These are the SDK's figures, halved. A slow link peaks at its share.
    """
    for direction, peak in ((EAST, 128e9), (Z_NEXT, 64e9)):
        slow = link(CHIP, direction, 0.25)
        lanes = found(find_patches(TROUBLE.layout, [slow], NEED))
        whole = peak * LINK_CEILING / PEAK
        assert all(lanes[lane][1] == np.floor(0.25 * whole) for lane in slow.lanes)
        assert all(lanes[lane][1] == np.floor(whole) for lane in slow.companions)
    down = link(CHIP, EAST, 0.0)
    lanes = found(find_patches(TROUBLE.layout, [down], NEED))
    assert all(lanes[lane] == (0.0, 0.0) for lane in down.lanes)


def test_two_slow_links_of_one_ring_combine() -> None:
    """Each carries less; the rest of the ring carries more for each."""
    first = link(CHIP, EAST, 0.1)
    second = link(f"{TRAIN}/trn2u-0001-2/chip06", EAST, 0.1)
    left = first.carried(1.0)
    assert 0.1 < left == second.carried(1.0) < 0.9
    lanes = found(find_patches(TROUBLE.layout, [first, second], NEED))
    # Each of them would carry some of what the other does not.
    assert all(lanes[lane][0] == left * (2.0 - left) for lane in (*first.lanes, *second.lanes))
    others = set(lanes) - {*first.lanes, *second.lanes}
    assert {lanes[lane][0] for lane in others} == {(2.0 - left) ** 2}


def test_a_link_that_is_down_sends_nothing_round_its_ring() -> None:
    """Traffic of a link that is down fails, or uses EFA: no other lane changes."""
    lost = link(CHIP, EAST, 0.0)
    lanes = found(find_patches(TROUBLE.layout, [lost], NEED))
    assert set(lanes) == set(lost.lanes)
    assert {factor for factor, _ in lanes.values()} == {0.0}


def test_a_fleet_without_slow_links_has_no_patches() -> None:
    """Nothing is touched."""
    patches = find_patches(TROUBLE.layout, [], NEED)
    assert [len(part) for part in patches] == [0, 0, 0]
