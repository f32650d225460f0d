from __future__ import annotations

import itertools
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.alerts.conditions import Condition
from trnfleet.monitor.alerting.conditions import windows
from trnfleet.monitor.alerting.conditions.windows import (
    NO_INCREASE,
    PAST_LEAST,
    PAST_SAMPLES,
    CounterFeed,
    CounterWindow,
    Increase,
    Samples,
    UsualValue,
)

S = 1_000_000_000
TOP = 255
CHIPS = 5

codes = st.lists(st.one_of(st.integers(0, 12), st.just(TOP)), min_size=CHIPS, max_size=CHIPS)


def increase(**amounts: int) -> Increase:
    """Return an increase of chips `c0`, `c1` and so on."""
    rows = sorted((int(name[1:]), amount) for name, amount in amounts.items())
    return Increase(
        np.array([row for row, _ in rows], np.int64), np.array([each for _, each in rows], np.int64)
    )


def past_of(past_s: float, **limits: float) -> Condition:
    """Return a condition on a share of the past."""
    given = {"figure": "step_time_s", "share_of_median_of": "past", "past": f"{past_s:g}s"}
    return Condition.model_validate({**given, **limits})


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint8)


@given(st.lists(codes, min_size=1, max_size=30))
def test_a_feed_says_what_each_counter_grew_by(looks: list[list[int]]) -> None:
    """Increases equal a plain loop's: none at first, a smaller value restarted at 0."""
    feed = CounterFeed(TOP)
    before = None
    for look in looks:
        taken = feed.take(column(look))
        expected = {}
        for chip, code in enumerate(look):
            was = TOP if before is None else before[chip]
            if TOP not in {was, code}:
                grown = code - was if code >= was else code
                if grown:
                    expected[chip] = grown
        assert dict(zip(taken.rows.tolist(), taken.amounts.tolist(), strict=True)) == expected
        assert taken.rows.tolist() == sorted(expected)
        before = look


@pytest.mark.parametrize("chips", [1, 2, 1_023, 1_024])
def test_each_of_many_counters_is_compared_with_its_own(chips: int) -> None:
    """Pairs of 32-bit counters with any change, missing value or reset are found."""
    random = np.random.default_rng(chips)
    top = 2**32 - 1
    feed = CounterFeed(top)
    before = random.integers(0, 2**32 - 1, chips, np.uint32, endpoint=True)
    feed.take(before)
    for share in (0.0, 0.01, 0.6, 1.0):
        look = before.copy()
        some = random.random(chips) < share
        look[some] = random.integers(0, 2**32 - 1, int(some.sum()), np.uint32, endpoint=True)
        look[random.random(chips) < share / 9] = top
        expected = [
            (chip, new - old if new >= old else new)
            for chip, (old, new) in enumerate(zip(before.tolist(), look.tolist(), strict=True))
            if new != old and top not in {new, old} and new
        ]
        taken = feed.take(look)
        assert list(zip(taken.rows.tolist(), taken.amounts.tolist(), strict=True)) == expected
        before = look


def test_counters_at_0_are_followed_like_others() -> None:
    """After counters at 0, increases, resets and new chips are found.

    Error counters are 0 for weeks.
    """
    feed = CounterFeed(TOP)
    grown = [
        feed.take(column(look)).amounts.tolist()
        for look in ([0, 0], [0, 0], [0, 7], [0, 0], [0, 9])
    ]
    assert grown == [[], [], [7], [], [9]]
    feed.take(column([0, 0]))
    feed.take(column([0, 0]))
    feed.move(np.array([0, 1]), np.array([0, 1]), 3)
    assert feed.take(column([0, 0, 0])).rows.tolist() == []
    taken = feed.take(column([0, 2, 4]))
    assert (taken.rows.tolist(), taken.amounts.tolist()) == ([1, 2], [2, 4])


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.integers(0, 3), min_size=CHIPS, max_size=CHIPS)),
        max_size=60,
    ),
    st.integers(1, 9),
)
def test_a_window_is_the_sum_of_what_lies_in_it(
    looks: list[tuple[int, list[int]]], window: int
) -> None:
    """`(now - window, now]`, for every chip, as a sum over all that ever was."""
    counter = CounterWindow(float(window), CHIPS)
    now = 100
    ever = list[tuple[int, int, int]]()
    for passed, amounts in looks:
        now += passed
        grown = {f"c{chip}": amount for chip, amount in enumerate(amounts) if amount}
        counter.add(now * S, increase(**grown))
        ever += [(now, chip, amount) for chip, amount in enumerate(amounts)]
        expected = [0] * CHIPS
        for at, chip, amount in ever:
            if now - window < at <= now:
                expected[chip] += amount
        assert counter.totals.tolist() == expected


@pytest.mark.parametrize(("late", "expected"), [(-1, 4), (0, 0), (1, 0)])
def test_what_is_as_old_as_the_window_is_out_of_it(late: int, expected: int) -> None:
    """Half open: an increase counts until just before it is as old as the window."""
    counter = CounterWindow(10.0, 1)
    counter.add(5 * S, increase(c0=4))

    counter.add(15 * S + late, NO_INCREASE)

    assert counter.totals.tolist() == [expected]


def test_a_window_after_time_has_gone_back() -> None:
    """A step back in time drops later entries."""
    counter = CounterWindow(10.0, 1)
    counter.add(1_000 * S, increase(c0=4))

    counter.add(500 * S, increase(c0=1))

    assert counter.totals.tolist() == [1]


def test_a_window_gets_coarser_and_not_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its limit neighbours are joined: the total stays right and still expires."""
    monkeypatch.setattr(windows, "MOST_KEPT", 40)
    counter = CounterWindow(1_000.0, CHIPS)
    every = increase(**{f"c{chip}": 1 for chip in range(CHIPS)})
    for second in range(100):
        counter.add(second * S, every)
        assert counter.totals.tolist() == [second + 1] * CHIPS
    assert 2 * CHIPS < counter.kept <= 40

    left = []
    for second in range(1_000, 1_101):
        counter.add(second * S, NO_INCREASE)
        left.append(int(counter.totals[0]))
    # What is in the window is there but for a part of it (a 240th), what has left it goes at the
    # latest with its neighbours.
    assert all(total >= 99 - late - 5 for late, total in enumerate(left))
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    assert counter.kept == 0


def test_what_comes_close_together_leaves_together() -> None:
    """Changes within a second of a 240 s window are one entry, without loss."""
    counter = CounterWindow(240.0, 1)
    for tenth in range(30):
        counter.add(tenth * S // 10, increase(c0=1))

    assert counter.totals.tolist() == [30]
    assert len(counter) == 3


def test_counters_move_with_a_new_layout() -> None:
    """Counters move with their chips; new chips have no increase, and no entry leaves twice."""
    feed = CounterFeed(TOP)
    counter = CounterWindow(10.0, 3)
    feed.take(column([1, 2, 3]))
    counter.add(0, feed.take(column([2, 4, 6])))
    to = np.array([0, 3])
    source = np.array([2, 0])
    for each in (feed, counter):
        each.move(to, source, 4)
    assert counter.totals.tolist() == [3, 0, 0, 1]

    counter.add(5 * S, feed.take(column([7, 50, 60, 4])))
    assert counter.totals.tolist() == [4, 0, 0, 3]
    counter.add(10 * S, NO_INCREASE)
    assert counter.totals.tolist() == [1, 0, 0, 2]
    counter.add(15 * S, NO_INCREASE)
    assert counter.totals.tolist() == [0, 0, 0, 0]


values = st.one_of(st.none(), st.integers(0, 5).map(float))


@given(st.lists(st.tuples(st.integers(1, 4), values), max_size=40), st.integers(1, 9))
def test_samples_within_a_window(looks: list[tuple[int, float | None]], window: int) -> None:
    """A window's values, changes and increase equal a computation from the whole past."""
    samples = Samples(float(window))
    now = 0
    ever = list[tuple[int, float]]()
    for passed, value in looks:
        now += passed
        samples.add(now * S, value)
        if value is not None:
            ever.append((now, value))
        inside = [each for at, each in ever if at > now - window]
        assert samples.within(now * S) == inside
        changes = sum(one != other for one, other in itertools.pairwise(inside))
        assert samples.changes(now * S) == (float(changes) if inside else None)
        # For a counter the newest sample before the window counts: what grew since then grew
        # within.
        first = max(0, len(ever) - len(inside) - 1)
        counted = [value for _, value in ever[first:]]
        # It is the most by which the last value is above any before it: what was taken back earlier
        # hides nothing that came later.
        grown = max((counted[-1] - before for before in counted), default=0.0)
        assert samples.increase(now * S) == (grown if ever else None)


def test_samples_forget_when_time_goes_back() -> None:
    """A step back in time drops all samples."""
    samples = Samples(10.0)
    samples.add(100 * S, 1.0)

    samples.add(50 * S, 2.0)

    assert samples.within(50 * S) == [2.0]


def test_the_past_says_what_is_usual() -> None:
    """The usual value is the median of samples, dense at first and spread out later."""
    past = UsualValue(past_of(PAST_SAMPLES * 10.0, below=0.5))
    taken: list[float] = []
    for second in range(2 * PAST_LEAST):
        assert past.usual() == (median(taken) if len(taken) >= PAST_LEAST else None)
        past.add(second * S, float(second))
        if second % 2 == 0:
            taken.append(float(second))
    assert len(taken) == PAST_LEAST

    last = int(taken[-1])
    for second in range(last + 1, last + 41):
        past.add(second * S, 1_000.0)
    assert past.usual() == median([*taken, *[1_000.0] * 4])


def test_the_past_begins_again_when_time_goes_back() -> None:
    """A step back in time drops the usual value."""
    past = UsualValue(past_of(1_000.0, above=1.1))
    for second in range(0, 200, 5):
        past.add(second * S, 1.0)
    assert past.usual() == 1.0

    past.add(0, 3.0)

    assert past.usual() is None


@pytest.mark.parametrize("every_s", [1, 5, 20])
def test_slow_steps_do_not_become_usual(every_s: int) -> None:
    """Slow steps do not become usual while a fifth is normal, at any sample distance."""
    values = [4.9, 5.0, 5.1] + [5.45] * 4 + [6.1] * 8
    seen = {}
    for name, limits in (("time", {"above": 1.1, "clear": 1.05}), ("rate", {"below": 0.5})):
        past = UsualValue(past_of(PAST_SAMPLES * every_s, **limits))
        for number, value in enumerate(values):
            past.add(number * every_s * 2 * S, value)
        seen[name] = past.usual()
    assert seen["time"] == pytest.approx(5.0)
    assert seen["rate"] == median(values)


def test_the_past_of_a_time_before_comes_first() -> None:
    """Samples in both pasts count once, and the oldest are dropped."""
    condition = past_of(PAST_SAMPLES * 1.0, above=1.1)
    before = UsualValue(condition)
    past = UsualValue(condition)
    for second in range(0, 40, 2):
        before.add(second * S, 5.0)
    for second in range(30, 34, 2):
        past.add(second * S, 6.0)
    assert past.usual() is None
    past.prepend(before)
    assert past.usual() == 5.0
    assert len(past._kept) == 17


@pytest.mark.parametrize("most", [3, 100])
@pytest.mark.parametrize("limit", [0, 2.5, 60])
def test_the_chips_above_a_limit_are_those_of_the_totals(most: int, limit: float) -> None:
    """Chips above a limit are found among few or many stored changes, even repeated ones."""
    random = np.random.default_rng(most)
    window = CounterWindow(100.0, 400)
    for second in range(40):
        rows = np.unique(random.integers(0, 400, random.integers(1, most)))
        window.add(second * 3 * S, Increase(rows, random.integers(1, 9, len(rows))))
        assert np.array_equal(window.above(limit), np.flatnonzero(window.totals > limit))
    window.add(1_000 * S, NO_INCREASE)
    assert not len(window.above(0))
