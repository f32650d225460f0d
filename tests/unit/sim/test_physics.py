from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain import topology
from trnfleet.domain.metrics import BY_NAME, METRICS
from trnfleet.sim.chunks import gather_lanes
from trnfleet.sim.physics import OFFSET_C

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

    Job = Callable[..., dict[str, Any]]


def value(engine: Engine, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return BY_NAME[name].decode(engine.columns[name])


def power_util(engine: Engine, ticks: int = 5) -> np.ndarray[Any, np.dtype[np.float64]]:
    readings = []
    for _ in range(ticks):
        engine.step()
        readings.append(value(engine, "power_util_pct")[:16])
    return np.array(readings)


def test_idle_chips_read_about_zero(make_engine: Callable[..., Engine]) -> None:
    """Without a job nothing is busy, nothing flows, and power is the background's."""
    engine = make_engine()
    assert power_util(engine).max() <= 0.3
    for name in ("nc_util_pct", "engine_util_pct", "tflops", "hbm_read_bytes_per_s", "hbm_write_bytes_per_s"):
        assert (engine.columns[name] == 0).all()
    assert np.nanmax(value(engine, "link_tx_bytes_per_s")) == 0
    assert value(engine, "power_w") == pytest.approx(90, abs=1.5)
    assert np.isnan(value(engine, "exec_latency_p50_s")).all()
    assert np.isnan(value(engine, "exec_latency_p99_s")).all()


def test_compute_draws_75_to_92_percent(make_engine: Callable[..., Engine], training: Job) -> None:
    """A job that only computes."""
    readings = power_util(make_engine(training(compute_share=1.0, collective_share=0.0)))
    assert readings.min() > 75
    assert readings.max() < 92


def test_collectives_draw_40_to_55_percent(make_engine: Callable[..., Engine], training: Job) -> None:
    """A job that almost only exchanges gradients."""
    job = training(compute_share=0.001, collective_share=0.999, step_time_s=1_000.0, mfu=0.2)
    readings = power_util(make_engine(job))
    assert readings.min() > 40
    assert readings.max() < 55


def test_checkpoints_draw_5_to_12_percent(make_engine: Callable[..., Engine], training: Job) -> None:
    """A job in a long checkpoint."""
    engine = make_engine(training(step_time_s=1.0, checkpoint_every_steps=1, checkpoint_s=1e6))
    engine.step(3)
    readings = power_util(engine)
    assert readings.min() > 5
    assert readings.max() < 12


def test_decode_draws_35_to_55_percent(make_engine: Callable[..., Engine], inference: Job) -> None:
    """A serving job from little load to a good deal of it."""
    for mean in (0.0, 0.55, 0.7):
        readings = power_util(make_engine(inference(load_mean=mean, load_swing=0.0)))
        assert readings.min() > 35
        assert readings.max() < 55


def test_watts_follow_from_utilisation(make_engine: Callable[..., Engine], training: Job) -> None:
    """Power is background + utilisation x (maximum - background), to a step of the code."""
    engine = make_engine(training())
    engine.step()
    expected = 90 + value(engine, "power_util_pct") / 100 * 410
    assert value(engine, "power_w") == pytest.approx(expected, abs=0.06)


def test_temperature_begins_settled_and_each_chip_has_its_offset(make_engine: Callable[..., Engine]) -> None:
    """The first tick shows inlet + resistance x power + an offset of at most 1.5 degC that stays."""
    engine = make_engine(inlet_c=25.0)
    engine.step()
    offset = value(engine, "temperature_c") - 25.0 - 0.11 * value(engine, "power_w")
    assert np.abs(offset).max() <= OFFSET_C + 0.1
    assert offset.std() > 0.5
    engine.step()
    again = value(engine, "temperature_c") - 25.0 - 0.11 * value(engine, "power_w")
    assert again == pytest.approx(offset, abs=0.2)


@pytest.mark.parametrize(("period_s", "ticks"), [(1.0, 30), (10.0, 3), (30.0, 1)])
def test_temperature_decays_with_the_time_constant(
    make_engine: Callable[..., Engine], period_s: float, ticks: int
) -> None:
    """After 30 s, one time constant, a disturbance is 1/e of what it was, however the time is cut."""
    disturbed, calm = make_engine(period_s=period_s), make_engine(period_s=period_s)
    disturbed.step()
    calm.step()
    disturbed._chips._temperature_c += np.float32(40)
    for _ in range(ticks):
        disturbed.step()
        calm.step()
    left = disturbed._chips._temperature_c - calm._chips._temperature_c
    assert left == pytest.approx(40 / math.e, abs=1e-3)


def test_temperature_lags_behind_power(make_engine: Callable[..., Engine], training: Job) -> None:
    """Power swings with the steps by far more than temperature over resistance does."""
    engine = make_engine(training(step_time_s=9.3))
    watts, degrees = [], []
    for _ in range(100):
        engine.step()
        watts.append(value(engine, "power_w")[:16].mean())
        degrees.append(value(engine, "temperature_c")[:16].mean())
    assert np.ptp(watts) * 0.11 > 3 * np.ptp(degrees[50:])


def test_both_ends_of_every_link_agree(make_engine: Callable[..., Engine], training: Job) -> None:
    """What a chip sends in a direction its neighbour receives from the opposite one, Z rings included."""
    engine = make_engine(training(on=["c/us-0001"]), ultraservers=2)
    engine.step()
    layout = engine.layout
    sent = engine.columns["link_tx_bytes_per_s"]
    received = engine.columns["link_rx_bytes_per_s"]
    checked = 0
    for instance in range(len(layout.instances)):
        first, mask = int(layout.chip_start[instance]), int(layout.links_mask[instance])
        members = layout.find_instances(layout.instances[instance].rpartition("/")[0])
        assert members is not None
        for chip in range(16):
            for direction in range(6):
                if not mask >> direction & 1:
                    assert sent[first + chip, direction] == received[first + chip, direction] == 65_535
                    continue
                if direction < topology.Z_PREV:
                    other = first + topology.TORUS_4X4.neighbour(chip, direction)
                else:
                    place = topology.ring_neighbour(instance - members.start, direction)
                    other = int(layout.chip_start[members.start + place]) + chip
                assert sent[first + chip, direction] == received[other, topology.OPPOSITE[direction]]
                checked += 1
    assert checked == 2 * 16 * 4 + 8 * 16 * 6
    busy = int(layout.chip_start[2])
    assert (sent[busy : busy + 64] > 0).all()
    assert (sent[busy + 64 :] == 0).all()


def test_z_links_carry_a_job_only_between_its_own_instances(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """A job on half an UltraServer uses the one Z link a chip between its two instances."""
    engine = make_engine(training(on=["c/us-0001/trn2u-0001-0..trn2u-0001-1"]), instances=0, ultraservers=1)
    engine.step()
    z_prev, z_next = engine.columns["link_tx_bytes_per_s"][:, 4:].reshape(4, 16, 2).transpose(2, 0, 1)
    assert (z_next[0] > 0).all()
    assert (z_prev[1] > 0).all()
    assert not z_prev[0].any()
    assert not z_next[1].any()
    assert not z_prev[2:].any()
    assert not z_next[2:].any()


def test_gathering_is_its_own_inverse() -> None:
    """The sender of a lane's sender is the lane itself: a link has two ends."""
    for grid, group in ((topology.TORUS_4X4, 1), (topology.TORUS_4X4, 4), (topology.SINGLE, 1)):
        lanes = gather_lanes(grid, group)
        assert np.array_equal(lanes[lanes], np.arange(len(lanes)))


def test_lanes_that_a_type_lacks_are_not_available(make_engine: Callable[..., Engine], training: Job) -> None:
    """Trainium1 has 2 cores and no Z links; one-chip types have no links at all; both are told apart from 0."""
    runs = [
        {"type": "trn1.32xlarge", "count": 1},
        {"type": "trn1.2xlarge", "count": 2, "first": 10},
        {"type": "trn2.3xlarge", "count": 1},
    ]
    engine = make_engine(
        training(on=["c/standalone/trn1-0001", "c/standalone/trn1-0010", "c/standalone/trn2-0001"], mfu=0.3),
        clusters=[{"name": "c", "instances": runs}],
    )
    engine.step()
    cores, sent = engine.columns["nc_util_pct"], engine.columns["link_tx_bytes_per_s"]
    received, links_up = engine.columns["link_rx_bytes_per_s"], engine.columns["links_up"]
    assert cores.shape == (19, 8)
    assert (cores[:18, 2:] == 255).all()
    assert (cores[:17, :2] < 255).all()
    assert (cores[18] < 255).all()
    assert (links_up == [0b1111] * 16 + [0] * 3).all()
    for lanes in (sent, received):
        assert (lanes[:16, :4] < 65_535).all()
        assert (lanes[:16, 4:] == 65_535).all()
        assert (lanes[16:] == 65_535).all()
    assert value(engine, "power_w")[0] <= 200
    assert value(engine, "power_w")[17] == pytest.approx(40, abs=1)


def test_columns_are_allocated_once_in_wire_form(make_engine: Callable[..., Engine], training: Job) -> None:
    """Every metric of the table has a C-contiguous column of its type, which steps rewrite in place."""
    engine = make_engine(training())
    addresses = {name: column.ctypes.data for name, column in engine.columns.items()}
    engine.step()
    assert list(engine.columns) == [metric.name for metric in METRICS]
    for metric in METRICS:
        column = engine.columns[metric.name]
        rows = 32 if metric.scope == "chip" else 2
        assert column.shape == ((rows, metric.width) if metric.is_vector else (rows,))
        assert column.dtype == metric.dtype
        assert column.flags.c_contiguous
        assert column.ctypes.data == addresses[metric.name]
