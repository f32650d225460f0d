from __future__ import annotations

import numpy as np
import pytest
from support.sim.chips import Chips, make_fleet

from trnfleet.domain.hardware import topology
from trnfleet.sim.hardware.columns import CHUNK_INSTANCES, cut, gather_lanes


def test_gathering_is_its_own_inverse() -> None:
    """The sender of a lane's sender is the lane itself: a link has two ends."""
    for grid, group in ((topology.TORUS_4X4, 1), (topology.TORUS_4X4, 4), (topology.SINGLE, 1)):
        lanes = gather_lanes(grid, group)
        assert np.array_equal(lanes[lanes], np.arange(len(lanes)))


@pytest.mark.parametrize("own", [range(1_613), range(13, 1_613), range(1, 9), range(9, 9)])
def test_chunks_cover_what_is_asked_for_once_and_in_order(own: range) -> None:
    """Pieces follow each other without gaps, have one type, whole UltraServers, and stay within the part."""
    runs = [{"type": "trn1.2xlarge", "count": 5}, {"type": "trn2.48xlarge", "count": 8}]
    fleet = make_fleet(clusters=[{"name": "c", "instances": runs, "ultraservers": [{"count": 400}]}])
    chips = Chips(fleet, own=range(0))
    chunks = list(cut(chips.layout, chips.columns, own))
    covered = [number for chunk in chunks for number in range(chunk.instances.start, chunk.instances.stop)]
    assert covered == list(own)
    for chunk in chunks:
        assert len(set(chips.layout.instance_type[chunk.instances].tolist())) == 1
        size = chunk.instances.stop - chunk.instances.start
        assert size <= CHUNK_INSTANCES
        assert size % chunk.group == 0
        assert chunk.views["link_tx_bytes_per_s"].shape == (size, chunk.chips * 6)
        assert np.shares_memory(chunk.views["power_w"], chips.columns["power_w"])
