from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.sim.engine import Engine

    Job = Callable[..., dict[str, Any]]
    Columns = dict[str, NDArray[Any]]

START = 12
"""Second, and tick, at whose end a fault begins in these tests. A tick's window ends at its time.
"""
SLOWED = (
    "engine_util_pct",
    "tflops",
    "hbm_read_bytes_per_s",
    "hbm_write_bytes_per_s",
    "link_tx_bytes_per_s",
    "link_rx_bytes_per_s",
    "power_w",
)
NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)


def copy(engine: Engine) -> Columns:
    return {name: column.copy() for name, column in engine.columns.items()}


def same(
    first: Columns, second: Columns, rows: slice = slice(None), instances: slice = slice(None)
) -> bool:
    return all(
        np.array_equal(
            first[name][rows if metric.scope == "chip" else instances],
            second[name][rows if metric.scope == "chip" else instances],
        )
        for name, metric in BY_NAME.items()
        if metric.is_simulated
    )


@pytest.mark.usefixtures("even_steps")
def test_a_straggler_slows_all_chips_of_its_job_in_the_same_tick_and_no_other(
    make_engine: Callable[..., Engine], training: Job, inference: Job
) -> None:
    """A straggler slows every chip of its job from its begin, and no other job.

    Until then both runs are the same. The straggler's engines stay as busy as they were, while the
    others wait, which counts as busy for their cores.
    """
    jobs = [
        # Almost all of a step is compute, so that every tick compares like with like.
        training(
            name="slowed",
            on=["c/us-0001"],
            step_time_s=0.5,
            compute_share=0.8,
            checkpoint_every_steps=0,
        ),
        training(name="other", on=["c/us-0002"]),
        inference(),
    ]
    chip = "c/us-0001/trn2u-0001-2/chip05"
    fleet = {"stragglers": [{"chip": chip, "slower_pct": 40.0, "from_s": float(START)}]}
    culprit = 2 * 16 + 5
    healthy = make_engine(*jobs, ultraservers=2)
    hurt = make_engine(*jobs, ultraservers=2, **fleet)
    rows = slice(32, 96)
    for number in range(START + 30):
        good = healthy.step()
        bad = hurt.step()
        if number <= START:
            assert same(healthy.columns, hurt.columns)
            continue
        assert same(healthy.columns, hurt.columns, slice(0, 32), slice(0, 2))
        assert same(healthy.columns, hurt.columns, slice(96, 160), slice(6, 10))
        for name in SLOWED:
            before = healthy.columns[name][rows].astype(float)
            after = hurt.columns[name][rows].astype(float)
            if name in {"engine_util_pct", "power_w"}:
                own = after[culprit].sum() / before[culprit].sum()
                least, most = (0.95, 1.15) if "engine" in name else (0.75, 0.9)
                assert least < own < most, name
                before = np.delete(before, culprit, 0)
                after = np.delete(after, culprit, 0)
            # The noise is the same, but for its amplitude: each chip by itself is slower.
            assert (after <= before).all(), (name, number)
            sums = (each.reshape(len(each), -1).sum(1) for each in (after, before))
            assert (next(sums) < 0.9 * next(sums)).all(), (name, number)
        busy = [each.columns["nc_util_pct"][rows].mean() for each in (hurt, healthy)]
        # A little more: the slow phase is the busier one.
        assert busy[1] <= busy[0] < 1.05 * busy[1]
        assert bad.figures["steps_per_s"][0] == pytest.approx(
            good.figures["steps_per_s"][0] / (0.8 / 0.6 + 0.2), rel=0.02
        )
        assert bad.figures["steps_per_s"][1] == good.figures["steps_per_s"][1]
    throttle = BY_NAME["throttle_pct"].decode(hurt.columns["throttle_pct"])
    assert throttle.max() < 5.0, "what steps of power cost, and no more"
    assert (
        hurt.columns["temperature_c"][rows].mean() < healthy.columns["temperature_c"][rows].mean()
    )


def test_a_straggler_is_active_from_its_begin_until_just_before_its_end(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """A straggler from 3 s to 5 s shows only in ticks 4 and 5."""
    chip = "c/standalone/trn2-0001/chip00"
    engine = make_engine(training(), stragglers=[{"chip": chip, "from_s": 3.0, "until_s": 5.0}])
    step_s = []
    busier = []
    for _ in range(7):
        step_s.append(float(engine.step().figures["step_time_s"][0]))
        engines = engine.columns["engine_util_pct"].astype(float).sum(axis=1)
        busier.append(bool(engines[0] > 1.2 * engines[1]))
    assert busier == [False, False, False, False, True, True, False]
    assert [seconds > 8.0001 for seconds in step_s] == [
        False,
        False,
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_slow_replica_of_a_serving_job_leaves_the_others_alone(
    make_engine: Callable[..., Engine], inference: Job
) -> None:
    """Only the straggler's replica is slow, and the other serves its excess requests."""
    job = inference(on=["c/standalone/trn2-0001..trn2-0002"], load_mean=0.9, load_swing=0.0)
    healthy = make_engine(job)
    hurt = make_engine(
        job, stragglers=[{"chip": "c/standalone/trn2-0002/chip01", "slower_pct": 50.0}]
    )
    good, bad = ([engine.step() for _ in range(80)] for engine in (healthy, hurt))
    tokens, left = (
        np.mean([tick.figures["tokens_per_s"][0] for tick in each[40:]]) for each in (good, bad)
    )
    assert 0.65 * tokens < left < 0.9 * tokens
    p50 = hurt.columns["exec_latency_p50_s"].astype(float)
    assert p50[1] > 1.7 * p50[0]
    assert p50[0] == pytest.approx(healthy.columns["exec_latency_p50_s"][0], rel=0.1)


@pytest.mark.usefixtures("even_steps")
def test_a_degraded_link_slows_its_job_and_carries_less(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """Collectives over its axis, a third, last 2 / (1 + capacity) times as long.

    The link's two ends carry the least traffic, and agree.
    """
    job = training(on=["c/us-0001"], step_time_s=0.5, checkpoint_every_steps=0)
    link = {"chip": "c/us-0001/trn2u-0001-2/chip06", "direction": "east", "capacity": 0.25}
    healthy = make_engine(job, instances=0, ultraservers=1)
    hurt = make_engine(job, instances=0, ultraservers=1, links=[link])
    for _ in range(5):
        good = healthy.step()
        bad = hurt.step()
    assert bad.figures["step_time_s"][0] == pytest.approx(
        0.5 * (0.72 + 0.2 * (2.0 + 1.0 / 0.625) / 3.0 + 0.08), rel=0.01
    )
    assert bad.figures["mfu"][0] < good.figures["mfu"][0]
    sent = hurt.columns["link_tx_bytes_per_s"]
    received = hurt.columns["link_rx_bytes_per_s"]
    near = 2 * 16 + 6
    far = 2 * 16 + 7
    assert sent[near, EAST] == received[far, WEST]
    assert sent[far, WEST] == received[near, EAST]
    others = np.delete(sent[:, EAST], near)
    assert sent[near, EAST] < 0.85 * others.min()
    assert sent[near, EAST] * 1e7 <= 0.25 * 128e9
    # What it cannot carry takes the other links of its ring.
    assert sent[32 + 4, EAST] > 1.05 * np.median(others)
    ring = range(32 + 4, 32 + 8)
    usual = healthy.columns["link_tx_bytes_per_s"]
    assert (np.delete(sent[:, EAST], ring) < np.delete(usual[:, EAST], ring)).all()
    assert (hurt.columns["links_up"] == 0b111111).all()
    assert (hurt.columns["health"] == 0).all()


@pytest.mark.usefixtures("even_steps")
@pytest.mark.parametrize(
    ("direction", "far", "bits", "component"),
    [
        ("south", 16 + 7, (SOUTH, NORTH), "link_intraserver"),
        ("west", 16 + 2, (WEST, EAST), "link_intraserver"),
        ("z_next", 32 + 3, (Z_NEXT, Z_PREV), "link_interserver"),
        ("z_prev", 3, (Z_PREV, Z_NEXT), "link_interserver"),
    ],
)
def test_a_link_that_is_down_is_seen_from_both_ends(
    make_engine: Callable[..., Engine],
    training: Job,
    direction: str,
    far: int,
    bits: tuple[int, int],
    component: str,
) -> None:
    """A link down shows no traffic, a cleared bit and an unhealthy component.

    Both ends show this. Its job fails and starts again; then the link heals.
    """
    job = training(on=["c/us-0001"], step_time_s=0.5, checkpoint_every_steps=0, startup_s=2.0)
    link = {
        "chip": "c/us-0001/trn2u-0001-1/chip03",
        "direction": direction,
        "capacity": 0.0,
        "until_s": 40.0,
    }
    engine = make_engine(job, instances=0, ultraservers=1, links=[link])
    near = 16 + 3
    events = []
    for _ in range(2):
        tick = engine.step()
        events += [event.name for event in tick.events]
        sent = engine.columns["link_tx_bytes_per_s"]
        received = engine.columns["link_rx_bytes_per_s"]
        for row, bit in ((near, bits[0]), (far, bits[1])):
            assert sent[row, bit] == received[row, bit] == 0
            assert engine.columns["links_up"][row] == 0b111111 ^ 1 << bit
            assert engine.columns["health"][row] == 1 << HEALTH_BITS.index(component)
        assert np.count_nonzero(engine.columns["health"]) == 2
        assert not sent.any(), "nothing goes over any link of a job that is down"
    for _ in range(45):
        events += [event.name for event in engine.step().events]
    assert {"execution_failed", "job_failed", "job_restarted"} <= set(events)
    assert ("instance_replaced" in events) == (component == "link_intraserver")
    assert (engine.columns["links_up"] == 0b111111).all()
    assert not engine.columns["health"].any()
    assert (engine.columns["link_tx_bytes_per_s"] > 0).all()
    assert engine.step().figures["step_time_s"][0] == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("direction", ["east", "z_next"])
def test_a_link_that_is_down_hurts_more_than_a_slow_one(
    make_engine: Callable[..., Engine], training: Job, direction: str
) -> None:
    """A link down is always worse for its job than a quarter of the bandwidth.

    The job is down, starts, or its steps last longer.
    """
    job = training(on=["c/us-0001"], step_time_s=0.5, checkpoint_every_steps=0, startup_s=20.0)
    chip = "c/us-0001/trn2u-0001-1/chip03"
    slow = make_engine(job, instances=0, ultraservers=1, period_s=20.0)
    down = make_engine(job, instances=0, ultraservers=1, period_s=20.0)
    for engine, fault in (
        (slow, "link_degraded"),
        (down, "link_down" if direction == "east" else "z_link_down"),
    ):
        engine.step()
        engine.inject(fault, f"{chip}:{direction}", lasts_s=None if engine is down else 1e6)
    seen = set()
    slow_tick = slow.step()
    down_tick = down.step()
    while down.incidents.active():
        state = JOB_STATES[down_tick.states[0]]
        seen.add(state)
        if state == "running":
            assert down_tick.figures["step_time_s"][0] >= slow_tick.figures["step_time_s"][0]
        slow_tick = slow.step()
        down_tick = down.step()
    assert ("running" in seen) == (direction == "z_next")
    assert seen & {"failed", "waiting"}


def test_pairs_of_instances_leave_the_links_between_them_unused(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """A lost Z link's ring carries nothing between the pairs, and all within them."""
    job = training(on=["c/us-0001"], step_time_s=0.5, checkpoint_every_steps=0, startup_s=2.0)
    engine = make_engine(job, instances=0, ultraservers=1, period_s=10.0)
    engine.step()
    engine.inject("z_link_down", "c/us-0001/trn2u-0001-1/chip03:z_next")
    for _ in range(12):
        engine.step()
    sent = engine.columns["link_tx_bytes_per_s"].reshape(4, 16, -1)
    assert not sent[[1, 3], :, Z_NEXT].any()
    assert not sent[[0, 2], :, Z_PREV].any()
    assert (sent[[0, 2], :, Z_NEXT] > 0).all()
    assert (sent[:, :, :Z_PREV] > 0).all()
    assert np.count_nonzero(engine.columns["links_up"] != 0b111111) == 2


@pytest.mark.parametrize(
    ("fleet", "message"),
    [
        (
            {"stragglers": [{"chip": "c/standalone/trn2-0009/chip00"}]},
            r"stragglers\[0\]\.chip: no chip at 'c/standalone/trn2-0009/chip00': did you mean",
        ),
        ({"stragglers": [{"chip": "c/standalone/trn2-0001/chip16"}]}, r"no chip at .*chip16'"),
        (
            {
                "stragglers": [
                    {"chip": "c/standalone/trn2-0001/chip01", "from_s": 9.0, "until_s": 9.0}
                ]
            },
            r"stragglers\[0\]\.until_s = 9: must be after from_s, 9",
        ),
        (
            {
                "stragglers": [
                    {"chip": "c/standalone/trn2-0001/chip01", "until_s": 20.0},
                    {"chip": "c/standalone/trn2-0001/chip01", "from_s": 19.0},
                ]
            },
            (
                r"stragglers\[1\]\.from_s = 19: stragglers\[0\] is active on"
                r" c/standalone/trn2-0001/chip01"
            ),
        ),
        (
            {"links": [{"chip": "c/standalone/trn2-0001/chip01", "direction": "z_next"}]},
            r"links\[0\]\.direction = 'z_next': .* a trn2\.48xlarge has no z_next link",
        ),
        (
            {
                "links": [
                    {"chip": "c/standalone/trn2-0001/chip01", "direction": "east"},
                    {"chip": "c/standalone/trn2-0001/chip02", "direction": "west", "from_s": 4.0},
                ]
            },
            r"links\[1\]\.from_s = 4: links\[0\] is active on",
        ),
    ],
)
def test_what_points_nowhere_or_overlaps_is_refused(
    make_engine: Callable[..., Engine], fleet: dict[str, Any], message: str
) -> None:
    """The message names the key, the value and the nearest address or the other entry."""
    with pytest.raises(ConfigError, match=message):
        make_engine(**fleet)


def test_a_link_that_is_down_without_an_end_comes_back_with_its_recovery(
    make_engine: Callable[..., Engine],
) -> None:
    """A link without an end is down as long as in the table of faults.

    Then another entry may be about the same link.
    """
    link = {
        "chip": "c/standalone/trn2-0001/chip01",
        "direction": "east",
        "capacity": 0.0,
        "from_s": 10.0,
    }
    whole_s = 10.0 + FAULTS["link_down"].stages.total_s
    later = {**link, "capacity": 0.5, "from_s": whole_s}
    engine = make_engine(links=[link, later], period_s=5.0)
    for _ in engine.leap(3 + round(whole_s / 5.0)):
        pass
    assert [each.fault.name for each in engine.incidents.active()] == ["link_degraded"]
    assert (engine.columns["links_up"] == engine.layout.chip_links_mask).all()
    assert engine.incidents.generation.tolist()[0] == 1
    with pytest.raises(ConfigError, match=r"links\[1\]\.from_s = 100: links\[0\] is active on"):
        make_engine(links=[link, {**later, "from_s": 100.0}])


def test_entries_that_follow_each_other_are_accepted(make_engine: Callable[..., Engine]) -> None:
    """One entry may begin at the instant another ends."""
    chip = "c/standalone/trn2-0001/chip01"
    engine = make_engine(
        stragglers=[
            {"chip": chip, "slower_pct": 10.0, "from_s": 2.0},
            {"chip": chip, "slower_pct": 30.0, "until_s": 2.0},
        ]
    )
    seen = []
    for _ in range(4):
        engine.step()
        seen.append(engine.incidents.effects.stragglers.pace.tolist())
    assert seen == [[0.7], [0.7], [0.9], [0.9]]
