from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.sim.chips import IDLE_ROW, Chips, doing, make_fleet, phase

from trnfleet.domain.hardware import topology
from trnfleet.domain.hardware.catalogue import TRAINIUM2
from trnfleet.domain.links import link_end
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.sim.hardware.chips import _NOISE
from trnfleet.sim.hardware.thermal import FRONT, OFFSET_C, REAR, ThrottledChips, place_shares
from trnfleet.sim.jobs.activity import Phase
from trnfleet.sim.rng import Rng, Stream

ONE = "c/standalone/trn2-0001"


def power_util(
    chips: Chips, which: Phase, ticks: int = 5, **rest: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    readings = []
    for _ in range(ticks):
        chips.tick(doing(phase(which), **rest))
        readings.append(chips.value("power_util_pct")[:16])
    return np.concatenate(readings)


@pytest.fixture
def chips() -> Chips:
    return Chips(make_fleet(ONE))


def test_idle_chips_read_about_zero() -> None:
    """An idle chip reads 0.00 to 0.02 % (measured on inf2 and trn1, sysfs).

    Apart from its own noise, its power is the background's.
    """
    chips = Chips(make_fleet())
    readings = []
    for _ in range(50):
        chips.tick(doing())
        readings.append(chips.value("power_util_pct"))
    assert np.max(readings) <= 0.3
    assert np.mean(readings) == pytest.approx(0.08, abs=0.02)
    for name in (
        "nc_util_pct",
        "engine_util_pct",
        "tflops",
        "hbm_read_bytes_per_s",
        "hbm_write_bytes_per_s",
    ):
        assert (chips.columns[name] == 0).all()
    assert np.nanmax(chips.value("link_tx_bytes_per_s")) == 0
    assert (chips.columns["throttle_pct"] == 0).all()
    assert chips.value("power_w") == pytest.approx(90, abs=1.5)
    assert np.isnan(chips.value("exec_latency_p50_s")).all()
    assert np.isnan(chips.value("exec_latency_p99_s")).all()


@pytest.mark.parametrize(
    ("which", "low", "high"),
    [
        (Phase.COMPUTE, 55, 90),
        (Phase.PREFILL, 75, 92),
        (Phase.COLLECTIVE, 15, 30),
        (Phase.CHECKPOINT, 0.1, 5),
    ],
)
def test_phases_draw_what_power_studies_say(which: Phase, low: float, high: float) -> None:
    """Power above background follows the phase: high in compute, near idle in checkpoints.

    Less than half in collectives (arXiv 2508.14318).
    """
    readings = power_util(Chips(make_fleet(ONE)), which)
    assert low < readings.mean() < high
    assert readings.min() > 0.9 * low
    assert readings.max() < 1.1 * high


@pytest.mark.parametrize("hbm_share", [0.15, 0.30])
def test_decode_draws_35_to_55_percent(hbm_share: float) -> None:
    """Decode draws 35 to 55 %, from 15 to 30 % of HBM bandwidth.

    15 % is batch 1.
    """
    readings = power_util(
        Chips(make_fleet(ONE)), Phase.DECODE, hbm_read_bytes_per_s=hbm_share * 2.9e12
    )
    assert readings.min() > 35
    assert readings.max() < 55


def test_power_stays_between_background_and_maximum(chips: Chips) -> None:
    """A fully busy chip draws its maximum, 500 W (estimated for Trainium2), and never more."""
    chips.tick(doing(IDLE_ROW + 1.0, hbm_read_bytes_per_s=1e13))
    watts = chips.value("power_w")
    assert watts[:16].max() <= TRAINIUM2.power_max_w.value
    assert watts[:16].mean() > 480
    assert watts[:16].min() > 460
    assert watts[16:].min() >= TRAINIUM2.power_background_w.value
    # What the driver reads of the first tick is that tick's.
    expected = 90 + chips.value("power_util_pct") / 100 * 410
    assert watts == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("elapsed_s", [1.0, 7.0, 20.0])
def test_the_driver_reads_the_mean_power_of_the_last_minute(chips: Chips, elapsed_s: float) -> None:
    """It changes once a minute, and then equals the mean of the watts since the change before."""
    watts = []
    read = []
    for number in range(int(200 / elapsed_s)):
        chips.tick(doing(phase(Phase.COMPUTE) * (0.2 + number % 3 / 5)), elapsed_s)
        watts.append(chips.value("power_w").copy())
        read.append(chips.value("power_util_pct").copy())
    changes = [number for number in range(1, len(read)) if (read[number] != read[number - 1]).any()]
    assert [int(number * elapsed_s // 60) for number in changes] == [1, 2, 3][: len(changes)]
    for first, last in itertools.pairwise(changes):
        # Parts of ticks at the minute's ends make the difference.
        mean = np.mean(watts[first + 1 : last + 1], axis=0)
        assert 90 + read[last] * 4.1 == pytest.approx(mean, abs=2.0 * elapsed_s**1.5)


def test_codes_stay_within_their_limits_and_do_not_pile_up_there() -> None:
    """HBM under full demand reads at most 95 % of its bandwidth (published).

    Fewer than one chip in a hundred reads that limit.
    """
    chips = Chips(make_fleet("c/standalone/trn2-0001..trn2-0032", instances=32))
    limit = 0.95 * TRAINIUM2.hbm_bytes_per_s.value
    readings = []
    for _ in range(20):
        chips.tick(doing(phase(Phase.DECODE), hbm_read_bytes_per_s=1e13))
        readings.append(chips.value("hbm_read_bytes_per_s"))
    assert np.max(readings) <= limit
    assert np.mean(readings) > 0.92 * limit
    assert np.mean(np.array(readings) >= 0.999 * limit) < 0.01


def test_power_follows_the_active_tensor_engine_not_mfu(chips: Chips) -> None:
    """Twice the useful FLOPs in the same active time draw the same power."""
    other = Chips(make_fleet(ONE))
    jobs = doing(phase(Phase.COMPUTE))
    chips.tick(jobs)
    jobs.peak_flops_share[:] *= 2
    other.tick(jobs)
    assert other.value("tflops")[:16].mean() > 1.8 * chips.value("tflops")[:16].mean()
    assert np.array_equal(chips.columns["power_w"], other.columns["power_w"])


def test_power_without_noise_is_the_mean_of_that_with_it() -> None:
    """Power without noise equals the mean of the columns, in every phase and idle.

    Throttling uses it. Parts of an instance are not quite the mean.
    """
    for which in Phase:
        chips = Chips(make_fleet(ONE))
        shown = []
        for _ in range(40):
            chips.tick(doing(phase(which)))
            shown.append(chips.value("power_w").reshape(2, 16).mean(axis=1))
        mean_w = chips.physics.instance_power_w(doing(phase(which)))
        parts = 1.0 + chips.physics.variation.power.reshape(2, 16).mean(axis=1)
        assert np.mean(shown, axis=0) == pytest.approx(90 + (mean_w - 90) * parts, rel=0.002)


def test_temperature_begins_settled_and_each_chip_has_its_offset() -> None:
    """The first tick shows inlet + place's resistance x power + a fixed offset.

    The offset is at most 1 degC.
    """
    chips = Chips(make_fleet(inlet_c=25.0))
    c_per_w = 0.11 * np.tile(place_shares(16), 2)
    chips.tick(doing())
    offset = chips.value("temperature_c") - 25.0 - c_per_w * chips.value("power_w")
    assert np.abs(offset).max() <= OFFSET_C + 0.1
    assert offset.std() > 0.35
    chips.tick(doing())
    again = chips.value("temperature_c") - 25.0 - c_per_w * chips.value("power_w")
    assert again == pytest.approx(offset, abs=0.2)


@pytest.mark.parametrize(("kind", "least"), [("trn2.48xlarge", 5), ("trn1.32xlarge", 3)])
def test_the_rear_chip_of_a_tray_is_warmer(kind: str, least: float) -> None:
    """The rear chip of a tray is usually 5 to 15 degC warmer under load.

    Smaller chips warm the air less.
    """
    chips = Chips(make_fleet(f"c/standalone/{kind[:4]}-0001", kind=kind))
    for _ in range(5):
        chips.tick(doing(phase(Phase.COMPUTE)), 60.0)
    degrees = chips.value("temperature_c").reshape(2, 8, 2)
    working, idle = degrees.mean(axis=1)
    assert least < working[1] - working[0] < 15
    assert (degrees[0, :, 1] > degrees[0, :, 0]).all()
    assert idle[1] - idle[0] < 4


@pytest.mark.parametrize("chips", [1, 2, 12, 16, 36])
def test_every_second_chip_of_any_instance_is_in_the_rear(chips: int) -> None:
    """A chip alone breathes what the inlet gives."""
    shares = place_shares(chips)
    assert len(shares) == chips
    assert set(shares[::2].tolist()) == {FRONT}
    assert set(shares[1::2].tolist()) <= {REAR}


@pytest.mark.parametrize(("period_s", "ticks"), [(0.1, 300), (1.0, 30), (10.0, 3), (30.0, 1)])
def test_temperature_decays_with_the_time_constant(period_s: float, ticks: int) -> None:
    """After 30 s, one time constant, a disturbance is down to 1/e, for any windows."""
    disturbed = Chips(make_fleet())
    calm = Chips(make_fleet())
    for chips in (disturbed, calm):
        chips.tick(doing())
    disturbed.physics.temperature_c += np.float32(40)
    for _ in range(ticks):
        for chips in (disturbed, calm):
            chips.tick(doing(), period_s)
    left = disturbed.physics.temperature_c - calm.physics.temperature_c
    assert left == pytest.approx(40 / math.e, abs=2e-3)


def test_temperature_lags_behind_power(chips: Chips) -> None:
    """Power swings with the phases by far more than temperature over resistance does."""
    watts = []
    degrees = []
    for second in range(150):
        chips.tick(doing(phase(Phase.COMPUTE if second % 10 < 7 else Phase.COLLECTIVE)))
        watts.append(chips.value("power_w")[:16].mean())
        degrees.append(chips.value("temperature_c")[:16].mean())
    assert np.ptp(watts) * 0.11 > 3 * np.ptp(degrees[100:])


def test_a_warmer_inlet_warms_its_own_instance_alone() -> None:
    """An inlet 20 degC warmer for an hour warms only its own chips.

    They get 20 degC warmer, too.
    """
    chips = Chips(make_fleet())
    calm = Chips(make_fleet())
    for each in (chips, calm):
        each.tick(doing())
    chips.inlet_delta_c[1] = 20
    for each in (chips, calm):
        each.tick(doing(), 3_600.0)
    difference = chips.value("temperature_c") - calm.value("temperature_c")
    assert (difference[:16] == 0).all()
    assert difference[16:] == pytest.approx(20, abs=0.11)


def test_liquid_cooling_is_cooler_and_quicker() -> None:
    """A cold plate has its own resistance and time constant (assumed); power is the same."""
    air = Chips(make_fleet(ONE))
    liquid = Chips(make_fleet(ONE, cooling="liquid"))
    for each in (air, liquid):
        each.tick(doing(phase(Phase.COMPUTE)))
    assert np.array_equal(air.columns["power_w"], liquid.columns["power_w"])
    rise = liquid.value("temperature_c") - 27
    shares = np.tile(place_shares(16), 2)
    assert rise == pytest.approx(0.05 * shares * liquid.value("power_w"), abs=OFFSET_C + 0.1)
    above_w = float(air.value("power_w")[:16].mean()) - 90
    for each in (air, liquid):
        each.tick(doing(phase(Phase.IDLE)), 10.0)
    assert (np.abs(liquid.value("temperature_c") - 27 - 4.5).max()) < OFFSET_C + 7.2
    gone = [
        1 - (each.value("temperature_c")[:16].mean() - settled) / start
        for each, settled, start in (
            (air, 27 + 0.099 * 90, 0.099 * above_w),
            (liquid, 27 + 0.045 * 90, 0.045 * above_w),
        )
    ]
    assert gone == pytest.approx([1 - math.exp(-10 / 30), 1 - math.exp(-10 / 10)], abs=0.05)


@pytest.mark.parametrize("which", Phase)
def test_no_phase_withholds_peak(chips: Chips, which: Phase) -> None:
    """Without heat or a cap, no chip reports throttling."""
    chips.tick(doing(phase(which)))
    assert (chips.columns["throttle_pct"] == 0).all()


def test_throttled_chips_show_what_they_withhold() -> None:
    """Chips report the peak withheld by heat and caps, and no longer after these end."""
    chips = Chips(make_fleet(ONE), own=range(1))
    throttled = ThrottledChips(np.array([3, 5, 20], np.int64), np.array([12.3, 0.3, 50.0]))
    chips.tick(doing(phase(Phase.DECODE)), throttled=throttled)
    shown = chips.value("throttle_pct")
    assert (shown[3], shown[5]) == (12.5, 0.5)
    assert (np.delete(shown, [3, 5]) == 0).all()
    chips.tick(doing(phase(Phase.DECODE)))
    assert (chips.columns["throttle_pct"][:16] == 0).all()


def test_both_ends_of_every_link_agree() -> None:
    """A neighbour receives a chip's traffic from the opposite direction, including Z rings."""
    chips = Chips(make_fleet("c/us-0001", ultraservers=2))
    chips.tick(doing(phase(Phase.COLLECTIVE)), slow={37 * 6 + topology.EAST: 0.4})
    layout = chips.layout
    sent = chips.columns["link_tx_bytes_per_s"]
    received = chips.columns["link_rx_bytes_per_s"]
    checked = 0
    for instance in range(len(layout.instances)):
        first = int(layout.chip_start[instance])
        mask = int(layout.links_mask[instance])
        for chip in range(16):
            for direction in range(6):
                if not mask >> direction & 1:
                    assert sent[first + chip, direction] == 65_535
                    continue
                other = link_end(layout, first + chip, direction)
                assert other is not None
                assert sent[first + chip, direction] == received[other]
                checked += 1
    assert checked == 2 * 16 * 4 + 8 * 16 * 6
    assert (sent[32:96] > 0).all()
    assert (sent[96:] == 0).all()
    assert sent[37, topology.EAST] < 0.5 * sent[38, topology.EAST]


def test_z_links_carry_a_job_only_between_its_own_instances() -> None:
    """A job on half an UltraServer uses one Z link per chip.

    It leads to the job's other instance.
    """
    chips = Chips(make_fleet("c/us-0001/trn2u-0001-0..trn2u-0001-1", instances=0, ultraservers=1))
    chips.tick(doing(phase(Phase.COLLECTIVE)))
    z_prev, z_next = (
        chips.columns["link_tx_bytes_per_s"][:, 4:].reshape(4, 16, 2).transpose(2, 0, 1)
    )
    assert (z_next[0] > 0).all()
    assert (z_prev[1] > 0).all()
    assert not z_prev[0].any()
    assert not z_next[1].any()
    assert not z_prev[2:].any()
    assert not z_next[2:].any()


def test_lanes_that_a_type_lacks_are_not_available() -> None:
    """Missing lanes are not available, which differs from 0.

    Trainium1 has 2 cores and no Z links; one-chip types have no links at all.
    """
    runs = [
        {"type": "trn1.32xlarge", "count": 1},
        {"type": "trn1.2xlarge", "count": 2, "first": 10},
        {"type": "trn2.3xlarge", "count": 1},
    ]
    paths = ["c/standalone/trn1-0001", "c/standalone/trn1-0010", "c/standalone/trn2-0001"]
    chips = Chips(make_fleet(*paths, clusters=[{"name": "c", "instances": runs}]))
    chips.tick(doing(*(phase(Phase.COMPUTE) for _ in paths)))
    cores = chips.columns["nc_util_pct"]
    sent = chips.columns["link_tx_bytes_per_s"]
    assert cores.shape == (19, 8)
    assert (cores[:18, 2:] == 255).all()
    assert (cores[:17, :2] < 255).all()
    assert (cores[18] < 255).all()
    assert (sent[:16, :4] < 65_535).all()
    assert (sent[:16, 4:] == 65_535).all()
    assert (sent[16:] == 65_535).all()
    assert chips.value("power_w")[0] <= 200
    assert chips.value("power_w")[17] == pytest.approx(40, abs=1)


MIXED: dict[str, Any] = {
    "clusters": [
        {
            "name": "c",
            "instances": [
                {"type": "trn1.2xlarge", "count": 3},
                {"type": "trn2.48xlarge", "count": 2},
            ],
            "ultraservers": [{"count": 3}],
        }
    ]
}


@pytest.mark.parametrize("cuts", [(0, 4, 17), (0, 2, 5, 5, 9, 13, 17)])
def test_parts_together_are_the_whole_bit_for_bit(cuts: tuple[int, ...]) -> None:
    """Shards filling only their own instances equal one run, and write nothing else."""
    fleet = make_fleet("c/us-0001..us-0002", "c/standalone/trn2-0001", **MIXED)
    whole = Chips(fleet)
    parts = [Chips(fleet, own=range(begin, end)) for begin, end in itertools.pairwise(cuts)]
    row = int(whole.layout.chip_start[9])
    slow = {row * 6 + 3: 0.5, (row - 1) * 6 + 3: 0.7}
    hot = ThrottledChips(np.array([row - 1, row], np.int64), np.array([20.0, 30.0]))
    for each in (whole, *parts):
        each.inlet_delta_c[5:10] = 11
        for number in range(3):
            each.tick(
                doing(phase(Phase(number)), phase(Phase.DECODE)), 2.0, slow=slow, throttled=hot
            )
    starts = whole.layout.chip_start
    published = [metric for metric in SIMULATED if metric.scope is Scope.CHIP]
    for metric in published:
        joined = np.zeros_like(whole.columns[metric.name])
        for part, begin, end in zip(parts, cuts[:-1], cuts[1:], strict=True):
            own = slice(int(starts[begin]), int(starts[end]))
            joined[own] = part.columns[metric.name][own]
            assert not np.delete(part.columns[metric.name], np.r_[own], axis=0).any(), metric.name
        assert np.array_equal(joined, whole.columns[metric.name]), metric.name
    written = {metric.name for metric in published if whole.columns[metric.name].any()}
    assert written >= {*_NOISE, "link_rx_bytes_per_s", "hbm_used_bytes", "power_w", "temperature_c"}
    assert written >= {"throttle_pct", "exec_completed"}


def test_an_empty_part_writes_nothing() -> None:
    """More shards than UltraServers leave some without instances."""
    chips = Chips(make_fleet(ONE), own=range(1, 1))
    chips.tick(doing(phase(Phase.COMPUTE)))
    assert not any(column.any() for column in chips.columns.values())


def test_offsets_belong_to_chips_not_to_parts() -> None:
    """A chip's offset is drawn by its instance's place in the whole fleet."""
    fleet = make_fleet(instances=4)
    offsets = Chips(fleet).physics.rest_c
    assert np.array_equal(Chips(fleet, own=range(2, 4)).physics.rest_c, offsets[32:])
    lanes = Rng(7).lanes(Stream.THERMAL_OFFSET, 0, 32).read(4, np.uint16).reshape(-1)
    assert (np.argsort(lanes) == np.argsort(offsets, kind="stable")).mean() > 0.95


def test_columns_are_written_in_place(chips: Chips) -> None:
    """Filling keeps each column's memory, type and shape."""
    addresses = {name: column.ctypes.data for name, column in chips.columns.items()}
    chips.tick(doing(phase(Phase.COMPUTE)))
    for name, column in chips.columns.items():
        assert column.ctypes.data == addresses[name]
        assert column.dtype == BY_NAME[name].dtype
        assert column.flags.c_contiguous
