from __future__ import annotations

import numpy as np
import pytest

from trnfleet.domain.reservations.ids import id_of
from trnfleet.sim.ids import ec2_id, serial_number
from trnfleet.sim.rng import Rng, Stream, bell, next_word, share_of


def test_lanes_belong_to_units_in_any_chunks() -> None:
    """Units have the same lanes read in pieces, from the middle or at once."""
    whole = Rng(3).lanes(Stream.LINK, 9, 192).read(10, np.uint16)
    reader = Rng(3).lanes(Stream.LINK, 9, 192)
    pieces = np.concatenate([reader.read(4, np.uint16), reader.read(6, np.uint16)])
    from_middle = Rng(3).lanes(Stream.LINK, 9, 192, first=7).read(3, np.uint16)
    assert whole.shape == (10, 96)
    assert np.array_equal(pieces, whole)
    assert np.array_equal(from_middle, whole[7:])


def test_seed_stream_tick_and_part_all_matter() -> None:
    """Any other seed, stream, tick or part gives other words, negative and huge seeds included."""
    draws = [
        Rng(seed).words(stream, tick, 8, part).tolist()
        for seed, stream, tick, part in [
            (0, Stream.HOST, 0, 0),
            (1, Stream.HOST, 0, 0),
            (-1, Stream.HOST, 0, 0),
            (2**63 + 5, Stream.HOST, 0, 0),
            (0, Stream.LINK, 0, 0),
            (0, Stream.HOST, 1, 0),
            (0, Stream.HOST, 0, 1),
        ]
    ]
    assert len({tuple(draw) for draw in draws}) == len(draws)


def test_words_are_pinned() -> None:
    """The words of a seed stay the same from release to release."""
    assert Rng(7).words(Stream.MEM_ECC, 5, 2).tolist() == [6892289424356758676, 6316972832055143200]


def test_a_draw_of_an_ordinal_does_not_depend_on_their_number() -> None:
    """More jobs do not change the draws of existing ones."""
    few, many = (Rng(1).uniform(Stream.JOB_START, 0, count) for count in (3, 50))
    assert np.array_equal(few, many[:3])
    assert ((many >= 0) & (many < 1)).all()


def test_a_word_of_a_row_depends_on_its_keys_alone() -> None:
    """Rows drawn together or apart have the same words.

    Any other seed, stream or key gives other words.
    """
    jobs = np.arange(50)
    cycles = np.arange(50) * 7
    together = Rng(7).scattered(Stream.CYCLE, jobs, cycles)
    assert (
        together[[1, 9]].tolist()
        == Rng(7).scattered(Stream.CYCLE, jobs[[1, 9]], cycles[[1, 9]]).tolist()
    )
    others = [
        Rng(-1).scattered(Stream.CYCLE, jobs, cycles),
        Rng(7).scattered(Stream.ECC_BURST, jobs, cycles),
        Rng(7).scattered(Stream.CYCLE, jobs, cycles + 1),
        next_word(together, jobs),
    ]
    assert len(np.unique(np.concatenate([together, *others]))) == 250
    pinned = Rng(7).scattered(Stream.CYCLE, np.array([1, 2]), np.array([3, 4]))
    assert pinned.tolist() == [5498787602085755395, 14775158708541151839]


def test_scattered_words_are_even_and_their_bells_nearly_normal() -> None:
    """Words are evenly distributed, and their bells nearly normal, within 3.47 deviations."""
    words = Rng(1).scattered(Stream.CYCLE, np.arange(20_000), np.zeros(20_000, np.int64))
    even = share_of(words)
    bells = bell(words)
    assert even.mean() == pytest.approx(0.5, abs=0.01)
    assert even.std() == pytest.approx(12**-0.5, abs=0.005)
    assert bells.mean() == pytest.approx(0.0, abs=0.03)
    assert bells.std() == pytest.approx(1.0, abs=0.02)
    assert np.abs(bells).max() < 3.47
    assert abs(np.corrcoef(even[1:], even[:-1])[0, 1]) < 0.03


def test_smooth_noise_is_bounded_and_has_no_jumps() -> None:
    """Value noise stays within -1 and 1 and changes little in a short time.

    That includes its knots.
    """
    rng = Rng(2)
    values = np.array([rng.smooth(Stream.LOAD_MINUTE, at, 7.0, 5) for at in np.arange(0, 70, 0.1)])
    assert np.abs(values).max() <= 1
    assert np.abs(np.diff(values, axis=0)).max() < 0.05
    assert values.std(axis=0).min() > 0.1


def test_units_must_take_whole_blocks() -> None:
    """Sizes with blocks shared between units are refused."""
    with pytest.raises(ValueError, match="multiple of 32"):
        Rng(0).lanes(Stream.HOST, 0, 40)


def test_tokens_and_chances_are_pinned() -> None:
    """Ids and single draws of a seed are the same in every release."""
    rng = Rng(7)
    path = "c/us-0001/trn2u-0001-0"
    assert (ec2_id(rng.token, path), ec2_id(rng.token, path, 2)) == (
        "i-02e01d7746908cdf0",
        "i-0d3dc1cab5ac08b02",
    )
    assert serial_number(rng.token, "c/a/chip01") == "5af694aec1b05838"
    assert rng.boot() == "262bf53a1e689063"
    assert id_of("cb", rng.token, "x", 3) == "cb-0e377989ffb20aaaa"
    assert rng.chance("drop", 12, "trnfleet/v1/f/telemetry/c") == 0.40525658580168145


def test_chances_are_even() -> None:
    """Of many events each tenth of [0, 1) has its share.

    Another kind of event has other draws.
    """
    draws = [Rng(1).chance("drop", number) for number in range(5_000)]
    assert min(np.histogram(draws, 10, (0.0, 1.0))[0]) > 430
    assert draws[0] != Rng(1).chance("delay", 0)
