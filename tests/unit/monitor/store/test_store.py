from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, Metric
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.store import Store, join_lanes


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "metric", [each for each in CHIP_METRICS if each.is_vector], ids=lambda each: str(each.name)
)
def test_lanes_of_many_chips_are_joined_as_those_of_one(metric: Metric, missing: float) -> None:
    """A chip's value is bit-identical in a column, picked out, and alone.

    Also with missing lanes.
    """
    store = Store()
    store.replace_layout(Layout.of(ultraservers(2)))
    column, random = store.columns[metric.name], np.random.default_rng(3)
    column[...] = random.integers(0, metric.top, column.shape)
    column[3], column[4] = 0, metric.top - 1
    column[random.random(column.shape) < missing] = metric.top
    column[5] = metric.top if missing else 1
    expected = join_lanes(metric, metric.decode(column))
    np.testing.assert_array_equal(store.chip_values(metric, slice(None)), expected)
    picked = np.array([5, 3, 100])
    np.testing.assert_array_equal(store.chip_values(metric, picked), expected[picked])
    np.testing.assert_array_equal(store.chip_values(metric, 4), expected[4])
    assert np.isnan(expected[5]) == bool(missing)


def plain_state(store: Store, chip: int, now_s: float, online: np.ndarray) -> Freshness:
    """Return how fresh one chip is."""
    instance = int(store.layout.instance_of_chip[chip])
    since_s = now_s - 3 * float(store.period_s[instance])
    if not online[store.publisher_of[instance]]:
        return Freshness.OFFLINE
    if store.chip_seen_s[chip] >= since_s:
        return Freshness.LIVE
    is_young = np.isinf(store.chip_seen_s[chip]) and store.described_s[instance] >= since_s
    return Freshness.UNKNOWN if is_young else Freshness.STALE


@pytest.mark.parametrize("periods", [(1.0,), (1.0, 5.0)], ids=["one", "several"])
def test_freshness_is_that_of_a_loop_over_chips(periods: tuple[float, ...]) -> None:
    """Freshness equals a loop over chips, and the revision shows changes.

    All in time, some late, at the last moment, never heard, of an offline publisher, and back.
    """
    store = Store()
    random = np.random.default_rng(5)
    now_s = 1_000.0
    layout = Layout.of(
        [*ultraservers(128), *standalone(1), ("uc1/standalone/small-1", "trn2.3xlarge")]
    )
    store.replace_layout(layout)
    chips = layout.chips
    instances = len(layout.instances)
    store.period_s[:] = random.choice(periods, instances)
    store.publisher_of[:] = random.integers(-1, 3, instances)
    store.described_s[:] = now_s
    store.instance_seen_s[:] = now_s
    all_online = np.array([True, True, True, True])
    one_left = np.array([True, False, True, True])
    seen: set[int] = set()
    for heard, online in (
        (0.0, all_online),
        (0.9, all_online),
        (1.0, all_online),
        (1.0, all_online),
        (1.0, one_left),
        (1.0, all_online),
        (0.9, all_online),
        (0.9, one_left),
        (0.9, all_online),
        (0.9, all_online),
        (1.0, all_online),
    ):
        now_s += 1.0
        some = random.random(chips) < heard
        # Late by up to what is just not too late.
        store.chip_seen_s[some] = now_s - random.integers(0, 4, int(some.sum()))
        if heard < 1:
            store.chip_seen_s[: 16 * 3] = -np.inf
            store.chip_seen_s[100] = now_s - 3.5 * max(periods)
        store.instance_seen_s[random.random(instances) < 0.999] = now_s
        before = (store.chip_state.copy(), store.instance_fresh.copy())
        revision = store.revision
        store.refresh_states(now_s, online)
        assert store.chip_state.tolist() == [
            plain_state(store, chip, now_s, online) for chip in range(chips)
        ]
        has_changed = [
            not np.array_equal(old, new)
            for old, new in zip(before, (store.chip_state, store.instance_fresh), strict=True)
        ]
        assert store.revision == revision + sum(has_changed)
        seen |= set(store.chip_state.tolist())
    assert seen == {Freshness.LIVE, Freshness.STALE, Freshness.OFFLINE, Freshness.UNKNOWN}
