from __future__ import annotations

import numpy as np
import pytest
from support.sim.chips import Chips, make_fleet

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.hardware.columns import (
    CHUNK_INSTANCES,
    add_noise,
    copies,
    cut,
    gather_lanes,
    noisy,
    to_codes,
)
from trnfleet.sim.rng import Rng, Stream


def test_gathering_is_its_own_inverse() -> None:
    """The sender of a lane's sender is the lane itself: a link has two ends.

    Through a switch every lane has one sender.
    """
    for kind in INSTANCE_TYPES.values():
        lanes = gather_lanes(kind)
        assert np.array_equal(np.sort(lanes), np.arange(len(lanes)))
        if kind.topology.kind is not TopologyKind.SWITCHED:
            assert np.array_equal(lanes[lanes], np.arange(len(lanes))), kind.name


@pytest.mark.parametrize("own", [range(1_613), range(13, 1_613), range(1, 9), range(9, 9)])
def test_chunks_cover_what_is_asked_for_once_and_in_order(own: range) -> None:
    """Chunks cover the part without gaps, in whole UltraServers of one type."""
    runs = [{"type": "trn1.2xlarge", "count": 5}, {"type": "trn2.48xlarge", "count": 8}]
    fleet = make_fleet(
        clusters=[{"name": "c", "instances": runs, "ultraservers": [{"count": 400}]}]
    )
    chips = Chips(fleet, own=range(0))
    chunks = list(cut(chips.layout, chips.columns, own))
    covered = [
        number for chunk in chunks for number in range(chunk.instances.start, chunk.instances.stop)
    ]
    assert covered == list(own)
    for chunk in chunks:
        assert len(set(chips.layout.instance_type[chunk.instances].tolist())) == 1
        size = chunk.instances.stop - chunk.instances.start
        assert size <= CHUNK_INSTANCES
        assert size % chunk.group == 0
        assert chunk.views["link_tx_bytes_per_s"].shape == (size, chunk.chips * 6)
        assert np.shares_memory(chunk.views["power_w"], chips.columns["power_w"])


def test_codes_are_the_nearest() -> None:
    """Half a step rounds up, for scales below and above 1."""
    assert to_codes(BY_NAME["throttle_pct"], np.array([0.0, 0.24, 0.25, 0.75, 12.3])).tolist() == [
        0,
        0,
        1,
        2,
        25,
    ]
    assert to_codes(BY_NAME["efa_tx_bytes_per_s"], np.array([4.9e6, 5e6, 1.4e8])).tolist() == [
        0,
        1,
        14,
    ]


@pytest.mark.parametrize("limit", [9_000, 60_000])
def test_noise_lies_around_the_code_and_within_the_limit(limit: int) -> None:
    """Base plus two fields of bits averages the code and never exceeds the limit.

    It is at most 1/16 of the code wide.
    """
    codes = np.array([0, 1, 31, 32, 100, 5_000, 8_990, 9_000])
    base, field = noisy(codes, limit, np.uint16)
    assert (base >= 0).all()
    assert (base + 2 * field <= limit).all()
    assert (field & (field + 1) == 0).all(), "all bits below the highest"
    assert (2 * field <= codes / 16).all()
    free = codes + field <= limit
    assert (np.abs(base + field - codes)[free] <= 0.5).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_fields_stay_within_half_a_word(dtype: type[np.uint8 | np.uint16]) -> None:
    """However large the code, so that the two halves of a random word are alike."""
    field = noisy(np.array([np.iinfo(dtype).max - 1]), np.iinfo(dtype).max - 1, dtype)[1]
    assert field[0] < 2 ** (np.iinfo(dtype).bits // 2)


def test_noise_of_lanes_is_a_triangle() -> None:
    """Values near the mean are more frequent than at the ends.

    There are no hard limits: a kurtosis of 2.4 instead of 1.8.
    """
    words = Rng(3).words(Stream.LINK, 0, 50_000).view(np.uint16)
    base, field = noisy(np.array([9_000]), 60_000, np.uint16)
    codes = np.full(len(words), base[0], np.uint16)
    add_noise(codes, np.full_like(codes, field[0]), words, np.empty_like(codes))
    left = codes - codes.mean()
    assert codes.mean() == pytest.approx(9_000, abs=2)
    assert codes.min() >= base[0]
    assert codes.max() <= base[0] + 2 * field[0]
    assert (left**4).mean() / left.var() ** 2 == pytest.approx(2.4, abs=0.05)


@pytest.mark.parametrize(
    ("width", "dtype"), [(8, np.uint8), (1, np.uint8), (6, np.uint16), (3, np.uint8)]
)
def test_copies_hold_the_lanes_of_chips_side_by_side(
    width: int, dtype: type[np.uint8 | np.uint16]
) -> None:
    """Each row is the lanes of one chip, again and again."""
    lanes = np.arange(5 * width).reshape(5, width).astype(dtype)
    got = copies(lanes, 16)
    assert got.shape == (5, 16 * width)
    assert got.dtype == dtype
    assert (got.reshape(5, 16, width) == lanes[:, None]).all()
