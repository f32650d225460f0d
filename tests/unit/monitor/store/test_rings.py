from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.monitor.store.gaps import MOST_GAPS, Gap, Gaps, Reason
from trnfleet.monitor.store.rings.record import (
    CODED_NODES,
    Record,
    Ring,
    SteppedRing,
    Tier,
    TierSpec,
    Track,
    trailing_mean,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIERS = (TierSpec(5, 6), TierSpec(20, 8))
NAN = float("nan")


def record_of(values: list[float], *, samples: int = 20, skips: bool = False) -> Record:
    """Return a record of two nodes with the values in the second.

    Gaps are skipped as a whole, or pushed.
    """
    record = Record(samples, 2, 2, tiers=TIERS)
    missing = 0
    for value in values:
        if skips and np.isnan(value):
            missing += 1
            continue
        if missing:
            record.skip(missing)
            missing = 0
        record.push([np.array([0.0, 0.0]), np.array([-1.0, value])])
    if missing:
        record.skip(missing)
    return record


def expected(values: list[float], step: int) -> list[tuple[float, float, float]]:
    """Return minimum, mean and maximum of each step, complete or not."""
    found = []
    for first in range(0, len(values), step):
        known = [each for each in values[first : first + step] if not np.isnan(each)]
        found.append(
            (min(known), sum(known) / len(known), max(known)) if known else (NAN, NAN, NAN)
        )
    return found


def as_rows(track: Track) -> list[tuple[float, ...]]:
    return list(zip(*(part.tolist() for part in track[:3]), strict=True))


WAVE = [float(second % 7) for second in range(97)]


@pytest.mark.parametrize(
    ("span", "step", "kept"),
    [(10, 1, 20), (20, 1, 20), (21, 5, 32), (30, 5, 32), (60, 20, 97), (900, 20, 97)],
)
def test_a_span_is_as_fine_as_it_is_kept_so_far_back(span: int, step: int, kept: int) -> None:
    """A span has samples, or the finest roll-ups that reach back.

    The last one covers only the samples so far.
    """
    track = record_of(WAVE).track(1, 1, span)
    assert (track.step_s, track.end) == (step, len(WAVE))
    whole = expected(WAVE, step)
    assert track.total == len(whole)
    assert as_rows(track) == [pytest.approx(each) for each in whole[-len(track.mean) :]]
    assert track.kept_s == kept


def test_roll_ups_are_of_their_own_node_and_field() -> None:
    record = record_of(WAVE)
    assert set(record.track(1, 0, 60).mean.tolist()) == {-1.0}
    assert set(record.track(0, 1, 60).high.tolist()) == {0.0}


@given(
    st.lists(st.one_of(st.just(NAN), st.floats(-9, 9, width=32)), max_size=90),
    st.integers(1, 200),
)
def test_gaps_that_are_skipped_are_as_if_they_had_been_sampled(
    values: list[float], span: int
) -> None:
    """Skipped samples roll up like unavailable ones, at any place."""
    one = record_of(values)
    other = record_of(values, skips=True)
    for mine, theirs in zip(one.track(1, 1, span)[:3], other.track(1, 1, span)[:3], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert one.total == other.total == len(values)


@given(st.integers(0, 96), st.sampled_from([5, 25, 60, 900]))
def test_the_past_is_what_was_there_then(ago: int, span: int) -> None:
    """From a moment before the newest sample on, nothing of what came later is there."""
    record = record_of(WAVE)
    track = record.track(1, 1, span, ago)
    then = WAVE[: len(WAVE) - ago]
    assert track.end <= len(then)
    assert len(then) - track.end < max(track.step_s, 2)
    whole = expected(WAVE[: track.end], track.step_s)
    assert as_rows(track) == [pytest.approx(each) for each in whole[len(whole) - len(track.mean) :]]


def test_a_record_that_begins_later_has_the_same_steps() -> None:
    """Roll-ups begin at multiples of all samples, so steps of several records align."""
    record = Record(20, 1, 1, tiers=TIERS, total=3)
    for value in range(9):
        record.push([np.array([float(value)])])
    track = record.track(0, 0, 60)
    assert (track.step_s, track.total, track.end) == (1, 12, 12)
    for value in range(20):
        record.push([np.array([float(value)])])
    assert as_rows(record.track(0, 0, 60))[0] == (0.0, 0.5, 1.0)


@pytest.mark.parametrize("span", [10, 20, 30, 60, 900])
@pytest.mark.parametrize("count", [77, 80, 91, 96])
def test_a_record_that_follows_on_goes_on_from_the_other(count: int, span: int) -> None:
    """A record after another equals a single one, with gaps on both sides."""
    values = [*WAVE[:5], NAN, NAN, *WAVE[7:89], NAN, *WAVE[90:]]
    record = record_of(values[:count])
    whole = record_of(values)
    record.follow_on(record_of(values[count:]))
    found = record.track(1, 1, span)
    expected_track = whole.track(1, 1, span)
    for part, expected_part in zip(found, expected_track, strict=True):
        np.testing.assert_array_equal(part, expected_part)
    assert record.total == whole.total


def test_of_samples_that_are_not_kept_any_more_there_is_a_gap() -> None:
    """Dropped samples of a record begun two samples after its history are a gap."""
    record = Record(20, 1, 1, tiers=TIERS)
    for value in range(3):
        record.push([np.array([float(value)])])
    later = Record(20, 1, 1, tiers=TIERS, total=2)
    later.push([np.array([7.0])])
    record.follow_on(later)
    assert record.total == 6
    np.testing.assert_array_equal(record.ring.series(0, 0), [0, 1, 2, NAN, NAN, 7])


def test_a_long_gap_is_no_work() -> None:
    record = record_of(WAVE)
    record.skip(10**9)
    assert np.isnan(record.track(1, 1, 900).mean).all()
    assert record.total == len(WAVE) + 10**9


def test_a_trailing_mean_leaves_gaps_and_what_is_not_available_out() -> None:
    found = trailing_mean(np.array([1, 3, NAN, 5, 7], np.float32), 3)
    np.testing.assert_allclose(found, [1, 2, NAN, 4, 6])
    track = Track.of(np.arange(30, dtype=np.float32))
    assert track.smoothed(10).mean[-1] == pytest.approx(24.5)
    assert track.smoothed(10).high[-1] == 29
    assert track.last(10).mean.tolist() == list(range(19, 30))
    assert track.distance_pct(20).mean[[0, 20, 22]].tolist() == pytest.approx([-100, 0, 10])


def test_gaps_follow_on_each_other_and_are_bounded() -> None:
    gaps = Gaps()
    gaps.add(5, 6, Reason.LINK_DOWN)
    gaps.add(6, 9, Reason.LINK_DOWN)
    gaps.add(9, 9, Reason.NOT_OBSERVED)
    gaps.add(9, 12, Reason.NOT_OBSERVED)
    assert gaps.since(0) == [Gap(5, 9, Reason.LINK_DOWN), Gap(9, 12, Reason.NOT_OBSERVED)]
    assert gaps.since(9) == [Gap(9, 12, Reason.NOT_OBSERVED)]
    before = Gaps()
    before.add(2, 3, Reason.SILENT)
    gaps.backfill(before, 10)
    assert gaps.since(0) == [
        Gap(2, 3, Reason.SILENT),
        Gap(15, 19, Reason.LINK_DOWN),
        Gap(19, 22, Reason.NOT_OBSERVED),
    ]
    for number in range(MOST_GAPS + 7):
        gaps.add(100 + 2 * number, 101 + 2 * number, Reason.LINK_DOWN)
    assert len(gaps.since(0)) == MOST_GAPS


def many(nodes: int, before: Record | None = None, numbers: list[int] | None = None) -> Record:
    """Return a record of some nodes with 70 samples, or with another one's past."""
    record = Record(20, 1, nodes, tiers=TIERS, total=0 if before is None else before.total)
    if before is not None:
        record.carry_over(before, np.array(numbers))
        return record
    base = np.linspace(0.0, 500.0, nodes)
    for second in range(70):
        base[1] = NAN if 20 <= second < 40 else 250.0
        record.push([base + (second % 7)])
    return record


@pytest.mark.parametrize("nodes", [CODED_NODES - 1, CODED_NODES])
def test_roll_ups_of_many_nodes_are_as_good_as_their_samples(nodes: int) -> None:
    """Roll-ups are codes between the extremes of all nodes.

    Missing values stay missing.
    """
    record = many(nodes)
    most = 507.0 / 131_068 if nodes >= CODED_NODES else 1e-4
    for node in (0, 1, nodes // 2, nodes - 1):
        base = 500.0 * node / (nodes - 1) if node != 1 else 250.0
        missing = range(20, 40) if node == 1 else range(0)
        wave = [NAN if second in missing else base + second % 7 for second in range(70)]
        track = record.track(0, node, 900)
        assert track.step_s == 20
        assert as_rows(track) == [
            pytest.approx(each, abs=most, nan_ok=True) for each in expected(wave, 20)
        ]


def test_roll_ups_are_carried_over_between_few_and_many_nodes() -> None:
    """Remaining nodes keep their past when a fleet grows or shrinks, in any format."""
    few = 10
    most = CODED_NODES + 10
    for before, after in ((few, most), (most, few), (most, most), (few, few)):
        record = many(before)
        numbers = [-1] * after
        numbers[2], numbers[5] = 7, 1
        moved = many(after, record, numbers)
        for to, source, span in ((2, 7, 900), (5, 1, 900), (2, 7, 30), (3, None, 900)):
            rows = as_rows(moved.track(0, to, span))
            wanted = (
                as_rows(record.track(0, source, span))
                if source is not None
                else [(NAN,) * 3] * len(rows)
            )
            assert len(rows) == len(wanted)
            assert rows == [pytest.approx(each, abs=0.008, nan_ok=True) for each in wanted]


STEPS = np.array([1 / 16, 0.1, 1e7, np.nan])
NODES = 32


def stepped(rows: list[list[NDArray[Any]]]) -> SteppedRing:
    ring = SteppedRing(50, STEPS, NODES)
    for row in rows:
        ring.push(row)
    return ring


def test_multiples_of_a_step_come_out_as_they_went_in() -> None:
    """Multiples of a step are stored exactly in float32.

    For any values of other nodes, with gaps, and over all two-byte wire codes.
    """
    rng = np.random.default_rng(1)
    rows: list[list[NDArray[Any]]] = []
    for number in range(70):
        codes = rng.integers(0, [[1_600], [65_534], [65_534], [9]], (4, NODES), endpoint=True)
        row = codes * np.where(np.isnan(STEPS), 1.0, STEPS)[:, np.newaxis]
        row[:, rng.integers(NODES)] = np.nan
        row[number % 4] = np.nan if number % 9 == 0 else row[number % 4]
        rows.append(list(row))
    ring = stepped(rows)
    wanted = np.array(rows[-50:]).astype(np.float32)
    np.testing.assert_array_equal(ring.newest(50)[:, :3], wanted[:, :3])
    np.testing.assert_allclose(ring.newest(50)[:, 3], wanted[:, 3], atol=9 / 131_068)
    for field in range(3):
        np.testing.assert_array_equal(ring.series(field, 5), wanted[:, field, 5])
    assert ring.codes.itemsize == 2


def test_samples_that_were_rounded_to_float32_are_multiples_still() -> None:
    """Samples rounded to float32 in another record still count as multiples."""
    exact: NDArray[Any] = np.arange(NODES) * 1e7 + 64_000 * 1e7 / 2
    rows: list[list[NDArray[Any]]] = [
        [np.zeros(NODES), np.zeros(NODES), exact.astype(np.float32), np.zeros(NODES)]
    ]
    np.testing.assert_array_equal(stepped(rows).newest(1)[0, 2], exact.astype(np.float32))


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (np.linspace(0.0, 90.0, NODES) / 7, 90 / 7 / 131_068),  # no multiples
        (np.arange(NODES) * 2_500 / 16, 0.04),  # more steps than codes
        (np.arange(NODES) / 16 + 5_000, 0.0),  # above all codes, within them together
        (np.arange(NODES) / 16 - 3, 0.0),  # below 0
    ],
)
def test_other_values_are_as_good_as_codes_allow(values: NDArray[np.float64], most: float) -> None:
    """A field whose values are none of its multiples leaves the others as they are."""
    other: NDArray[Any] = np.arange(NODES) * 0.1
    found = stepped([[values, other, values, other]]).newest(1)[0]
    np.testing.assert_allclose(found[0], values, atol=most + 1e-6, rtol=0)
    np.testing.assert_array_equal(found[1], other.astype(np.float32))


@pytest.mark.parametrize("nodes", [1, CODED_NODES, 192])
def test_a_ring_has_the_newest_rows(nodes: int) -> None:
    """Gaps and a second round included."""
    ring = Tier(TierSpec(10, 250), 3, nodes).ring
    rows: list[float] = []
    for number in range(700):
        if number % 97 == 50:
            ring.skip(number % 17)
            rows += [NAN] * (number % 17)
        ring.push(np.full((9, nodes), float(number), np.float32))
        rows.append(float(number))
        if number % 30 == 0 or number in {59, 60, 61, 89, 90, 91}:
            np.testing.assert_array_equal(ring.series(4, nodes - 1), rows[-250:])
            np.testing.assert_array_equal(ring.newest(40)[:, 4, 0], rows[-250:][-40:])


def test_samples_that_are_left_out_are_as_if_nothing_had_been_pushed_one_by_one() -> None:
    for skipped in (0, 1, 3, 5, 9):
        one = Ring(5, 8, 2)
        other = Ring(5, 8, 2)
        for ring in (one, other):
            for value in (1.0, 2.0, 3.0):
                ring.push([np.full(2, value)] * one.values.shape[1])
        one.skip(skipped)
        for _ in range(min(skipped, 5)):
            other.push([np.array([np.nan])] * one.values.shape[1])
        assert one.filled == other.filled
        np.testing.assert_array_equal(one.series(0, 1), other.series(0, 1))
