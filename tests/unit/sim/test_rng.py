from __future__ import annotations

import numpy as np
import pytest

from trnfleet.sim.rng import Noise, Stream


def test_lanes_belong_to_units_whatever_the_chunks() -> None:
    """Units read in pieces, or from the middle on, have the lanes that they have when all are read at once."""
    whole = Noise(3).lanes(Stream.LINK, 9, 192).take(10, np.uint16)
    reader = Noise(3).lanes(Stream.LINK, 9, 192)
    pieces = np.concatenate([reader.take(4, np.uint16), reader.take(6, np.uint16)])
    from_middle = Noise(3).lanes(Stream.LINK, 9, 192, first=7).take(3, np.uint16)
    assert whole.shape == (10, 96)
    assert np.array_equal(pieces, whole)
    assert np.array_equal(from_middle, whole[7:])


def test_seed_stream_tick_and_part_all_matter() -> None:
    """Any other seed, stream, tick or part gives other words, negative and huge seeds included."""
    draws = [
        Noise(seed).words(stream, tick, 8, part).tolist()
        for seed, stream, tick, part in [
            (0, Stream.HOST, 0, 0),
            (1, Stream.HOST, 0, 0),
            (-1, Stream.HOST, 0, 0),
            (2**63 + 5, Stream.HOST, 0, 0),
            (0, Stream.POWER, 0, 0),
            (0, Stream.HOST, 1, 0),
            (0, Stream.HOST, 0, 1),
        ]
    ]
    assert len({tuple(draw) for draw in draws}) == len(draws)


def test_words_are_pinned() -> None:
    """What a seed means stays the same from release to release."""
    assert Noise(7).words(Stream.MEM_ECC, 5, 2).tolist() == [6892289424356758676, 6316972832055143200]


def test_a_draw_of_an_ordinal_does_not_depend_on_their_number() -> None:
    """More jobs do not change the draws of those that were there."""
    few, many = (Noise(1).uniform(Stream.JOB_START, 0, count) for count in (3, 50))
    assert np.array_equal(few, many[:3])
    assert ((many >= 0) & (many < 1)).all()


def test_smooth_noise_is_bounded_and_has_no_jumps() -> None:
    """Value noise stays within -1 and 1 and moves little in a small time, across its knots too."""
    noise = Noise(2)
    values = np.array([noise.smooth(Stream.LOAD_SECONDS, at, 7.0, 5) for at in np.arange(0, 70, 0.1)])
    assert np.abs(values).max() <= 1
    assert np.abs(np.diff(values, axis=0)).max() < 0.05
    assert values.std(axis=0).min() > 0.1


def test_units_must_take_whole_blocks() -> None:
    """A size that would make units share a block is refused."""
    with pytest.raises(ValueError, match="multiple of 32"):
        Noise(0).lanes(Stream.HOST, 0, 40)
