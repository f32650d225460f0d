"""Clocks updated in batches equal clocks updated one message at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.monitor.feed import START_NS

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.sources.clocks import _COLUMNS, MOST_OF_ONE, WINDOW_S, ClockKey, Timebase


def sources() -> Timebase:
    """Return clocks of simulators, hosts and a replay: near wall time, dated, and fast."""
    timebase = Timebase()
    for number in range(12):
        timebase.clock(
            ClockKey(
                f"p{number}",
                START_NS - (number % 3) * 40_000 * NS_PER_S,
                (1.0, 1.0, 60.0)[number % 3],
                is_simulated=number % 2 == 0,
                is_replay=number % 5 == 4,
            ),
            1.0 + number,
        )
    return timebase


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_end_as_one_by_one(seed: int) -> None:
    """Batches equal single messages for any mix of times.

    Clocks appear once or more often in a batch, with one time or several, early, late, skewed and
    after long silences.
    """
    chance = random.Random(seed)  # noqa: S311  times, nothing secret
    together = sources().columns
    alone = sources().columns
    now_s = 500.0
    for _ in range(60):
        now_s += chance.choice([0.0, 0.05, 1.0, WINDOW_S / 4, 3 * WINDOW_S])
        wall_ns = START_NS + round(now_s * NS_PER_S) + chance.choice([0, 0, 0, 20 * NS_PER_S])
        rows = np.array([chance.randrange(len(together)) for _ in range(chance.randrange(1, 40))])
        times = [
            wall_ns,
            wall_ns,
            wall_ns - NS_PER_S,
            wall_ns - 90 * NS_PER_S,
            wall_ns + 7 * NS_PER_S,
        ]
        ts_ns = np.array([chance.choice(times[: chance.randrange(1, 6)]) for _ in rows])

        dated = together.take(rows, ts_ns, now_s, wall_ns)
        single = [
            alone.take(rows[n : n + 1], ts_ns[n : n + 1], now_s, wall_ns) for n in range(len(rows))
        ]

        for number, values in enumerate(dated):
            assert np.array_equal(
                values, np.concatenate([each[number] for each in single]), equal_nan=True
            )
        for name in _COLUMNS:
            assert np.array_equal(together[name], alone[name], equal_nan=True), name


def test_clocks_that_are_kept_have_what_was_learned_of_them_in_other_rows() -> None:
    """A layout without half of the publishers drops their clocks.

    The other clocks keep their values in new rows.
    """
    timebase = sources()
    keys = list(timebase._clocks)
    rows = np.arange(len(keys))
    timebase.columns.take(rows, START_NS + 10**9 * (90 + rows), 100.0, START_NS + 100 * NS_PER_S)
    before = {key: timebase.clock(key, 1.0).behind_s for key in keys}
    kept = set(keys[1::2])

    timebase.keep(kept)

    assert len(timebase.columns) == len(kept)
    assert sorted(timebase.clock(key, 1.0).row for key in kept) == list(range(len(kept)))
    assert str({key: timebase.clock(key, 1.0).behind_s for key in keys if key in kept}) == str(
        {key: value for key, value in before.items() if key in kept}
    )


def test_a_publisher_whose_time_jumps_again_and_again_has_no_more_rows_than_clocks() -> None:
    """Each jump creates a clock in place of the one heard longest ago.

    The columns do not grow.
    """
    timebase = Timebase()
    other = timebase.clock(ClockKey("q", START_NS, 1.0, is_simulated=False), 1.0)
    for number in range(100):
        clock = timebase.clock(
            ClockKey("p", START_NS + number * NS_PER_S, 1.0, is_simulated=True), 1.0
        )
        clock.take(START_NS, float(number), START_NS)
    assert len(timebase.columns) == 1 + MOST_OF_ONE
    assert other.heard_s == -np.inf
