from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.sim.chips import Chips, doing, make_fleet, phase

from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.errors import ConfigError
from trnfleet.sim.hardware.thermal import LEAST_PACE, Throttling
from trnfleet.sim.hardware.variation import part_words, power_deviations
from trnfleet.sim.jobs.activity import Phase
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Plant = Callable[[float], float]
    """Power of a chip, W, at a pace."""

BACKGROUND_W = 90.0
DYNAMIC_W = 410.0
TRAINING_W = 385.0
"""Mean power of a training chip: compute, collectives and optimizer together."""


def falls_with_pace(pace: float) -> float:
    """Power of a job that only computes."""
    return BACKGROUND_W + 0.85 * DYNAMIC_W * pace


def falls_less(pace: float) -> float:
    """Power of a whole training step.

    A slower compute phase is a greater part of it.
    """
    compute_s = 0.78 / pace
    collective_s = 0.22
    energy = compute_s * 0.85 * pace + collective_s * 0.45
    return BACKGROUND_W + DYNAMIC_W * energy / (compute_s + collective_s)


def stays(_pace: float) -> float:
    """Power unaffected by throttling, as in a collective."""
    return BACKGROUND_W + 0.5 * DYNAMIC_W


class Stand:
    """A throttling and its inputs, one value an instance."""

    def __init__(self, fleet: FleetFile | None = None) -> None:
        self.fleet = fleet or make_fleet()
        self.layout = Layout.of(expand(self.fleet))
        self.throttling = Throttling(self.layout, self.fleet, Rng(7))
        count = len(self.layout.instances)
        self.power_w = np.full(count, TRAINING_W)
        self.inlet_delta_c = np.zeros(count, np.float32)
        self.cap_share = np.ones(count)

    def advance(self, elapsed_s: float, host_power_w: NDArray[np.float64] | None = None) -> float:
        """Move on by a window and return the first instance's pace."""
        self.throttling.advance(
            elapsed_s, self.power_w, self.inlet_delta_c, self.cap_share, host_power_w
        )
        return float(self.throttling.pace[0])

    def chip_c(self) -> NDArray[np.float32]:
        """Return the temperatures of the first instance's chips."""
        return self.throttling.chip_temperature_c(np.array([0]))

    def chip_w(self) -> NDArray[np.float64]:
        """Return the power of the first instance's chips, each with its part's deviation."""
        return self.all_chips_w()[:16]

    def all_chips_w(self) -> NDArray[np.float64]:
        """Return the same for all instances, of 16 chips each."""
        every = range(len(self.layout.instances))
        own = power_deviations(part_words(self.layout, Rng(7), every))
        watts: NDArray[np.float64] = BACKGROUND_W + np.repeat(self.power_w - BACKGROUND_W, 16) * (
            1.0 + own
        )
        return watts

    def run(
        self, plant: Plant, elapsed_s: float, windows: int, *, ahead: bool = False
    ) -> list[float]:
        """Run with power that follows the pace, as jobs do; return the first instance's paces."""
        slowdowns = []
        for _ in range(windows):
            if ahead:
                self.throttling.limit(elapsed_s, self.inlet_delta_c, self.cap_share)
            self.power_w[:] = [plant(pace) for pace in self.throttling.pace.tolist()]
            slowdowns.append(self.advance(elapsed_s))
        return slowdowns


@pytest.mark.parametrize(("kind", "most_w"), [("trn2.48xlarge", 500.0), ("trn1.32xlarge", 200.0)])
def test_the_hottest_chip_at_maximum_power_is_clear_of_throttling(kind: str, most_w: float) -> None:
    """At the default inlet nothing throttles, for any load and duration.

    The start of throttling is assumed.
    """
    stand = Stand(make_fleet(kind=kind, instances=40))
    stand.power_w[:] = most_w
    for _ in range(5):
        assert stand.advance(3_600.0) == 1.0
    assert not len(stand.throttling.throttled.rows)


@pytest.mark.parametrize("delta_c", [20.0, 25.0])
def test_an_overheated_rack_throttles_within_two_minutes(delta_c: float) -> None:
    """Inlets 20 to 25 degC warmer throttle training chips, but not decode."""
    stand = Stand(make_fleet(instances=3))
    stand.power_w[1] = BACKGROUND_W + 0.40 * DYNAMIC_W
    stand.advance(1.0)
    assert (stand.throttling.pace == 1.0).all()
    stand.inlet_delta_c[:2] = delta_c
    seconds = 0
    while stand.advance(1.0) > 0.97:
        seconds += 1
    assert 10 < seconds < 120
    for _ in range(600):
        stand.advance(1.0)
    assert 0.5 < stand.throttling.pace[0] < 0.9
    assert (stand.throttling.pace[1:] == 1.0).all()
    assert set(stand.layout.instance_of_chip[stand.throttling.throttled.rows].tolist()) == {0}


@pytest.mark.parametrize("elapsed_s", [0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0])
@pytest.mark.parametrize("plant", [falls_with_pace, falls_less, stays])
@pytest.mark.parametrize("ahead", [False, True])
def test_heat_settles_without_swinging(elapsed_s: float, plant: Plant, *, ahead: bool) -> None:
    """Power and pace depend on each other and settle at one point.

    The same point for windows of any length.
    """
    stand = Stand()
    stand.run(plant, elapsed_s, 2)
    stand.inlet_delta_c[:] = 35
    slowdowns = stand.run(plant, elapsed_s, max(40, round(300 / elapsed_s)), ahead=ahead)
    moves = np.diff(slowdowns)
    ways = np.sign(moves[np.abs(moves) > 2e-4])
    # Limited a window late, a long window sinks too far once; nothing oscillates.
    assert np.count_nonzero(np.diff(ways)) <= (0 if ahead else 1)
    assert np.abs(np.diff(slowdowns)[-20:]).max() < 1e-3
    hottest_c = float(stand.chip_c().max())
    assert slowdowns[-1] < 0.95
    assert slowdowns[-1] == pytest.approx(1 - 0.04 * (hottest_c - 85), abs=5e-3)


@pytest.mark.parametrize("elapsed_s", [0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0])
@pytest.mark.parametrize("plant", [falls_with_pace, falls_less, stays])
def test_a_cap_settles_without_swinging(elapsed_s: float, plant: Plant) -> None:
    """The chip with the highest draw settles at the cap.

    If pace does not lower its draw, it settles as if its whole range were in use.
    """
    stand = Stand()
    stand.run(plant, elapsed_s, 2)
    stand.cap_share[:] = 0.5
    slowdowns = stand.run(plant, elapsed_s, 80)
    assert (np.diff(slowdowns) <= 1e-6).all()
    assert np.abs(np.diff(slowdowns)[-20:]).max() < 1e-6
    if plant is stays:
        assert (
            (250 - BACKGROUND_W) / DYNAMIC_W / 1.06
            < slowdowns[-1]
            <= (250 - BACKGROUND_W) / DYNAMIC_W
        )
    else:
        assert stand.chip_w().max() == pytest.approx(250, rel=1e-3)


def test_recovery_is_as_steady_as_the_onset() -> None:
    """When the air is cool again, peak comes back without swinging."""
    stand = Stand()
    stand.run(falls_with_pace, 1.0, 2)
    stand.inlet_delta_c[:] = 25
    stand.run(falls_with_pace, 1.0, 600)
    stand.inlet_delta_c[:] = 0
    slowdowns = stand.run(falls_with_pace, 1.0, 200)
    assert slowdowns[0] < 0.9
    assert (np.diff(slowdowns) >= 0).all()
    assert slowdowns[-1] == 1.0
    assert not len(stand.throttling.throttled.rows)


def test_temperature_is_exact_for_constant_power_however_time_is_cut() -> None:
    """One time constant covers 1 - 1/e of the way, in one window or 300.

    It is 30 s (assumed).
    """
    ends = []
    for elapsed_s, windows in ((30.0, 1), (1.0, 30), (0.1, 300)):
        stand = Stand()
        stand.power_w[:] = 90.0
        stand.advance(1.0)
        before = stand.chip_c().mean()
        assert before == pytest.approx(27 + 0.9 * 0.11 * 90, abs=0.5)
        stand.power_w[:] = 300.0
        for _ in range(windows):
            stand.advance(elapsed_s)
        ends.append(stand.chip_c().mean())
        assert ends[-1] == pytest.approx(before + 0.9 * 0.11 * 210 * (1 - math.exp(-1)), rel=0.02)
    assert np.ptp(ends) < 1e-9


def test_hottest_chips_throttle_first_and_most() -> None:
    """Chips of an instance differ in temperature, and throttle accordingly."""
    stand = Stand()
    stand.inlet_delta_c[:] = 18
    counts = []
    for power_w in np.linspace(330, 480, 31).tolist():
        stand.power_w[:] = power_w
        stand.advance(math.inf)
        counts.append(int((stand.throttling.throttled.rows < 16).sum()))
    # Those in the rear of their trays slow the job, which keeps the others clear.
    assert counts[0] == 0
    assert counts[-1] == 8
    assert any(0 < count < 8 for count in counts)
    assert counts == sorted(counts)
    assert set(stand.throttling.throttled.rows.tolist()) == set(range(1, 32, 2))
    rows, pct = stand.throttling.throttled
    assert pct[:8].argmax() == stand.chip_c()[1::2].argmax()
    assert np.corrcoef(pct[:8], stand.chip_c()[1::2])[0, 1] > 0.9
    assert stand.throttling.pace.tolist() == pytest.approx(
        [1 - pct[rows < 16].max() / 100, 1 - pct[rows >= 16].max() / 100]
    )


def test_chips_show_the_temperature_that_throttling_goes_by() -> None:
    """Apart from noise, every chip shows the temperature used for throttling.

    On the way as well as at the end.
    """
    chips = Chips(make_fleet("c/standalone/trn2-0001"))
    throttling = Throttling(chips.layout, chips.fleet, chips.rng)
    none = np.zeros(2, np.float32)
    cap = np.ones(2)
    for which in (Phase.CHECKPOINT, *[Phase.COMPUTE] * 20):
        jobs = doing(phase(which))
        power_w = chips.physics.instance_power_w(jobs)
        throttling.advance(3.0, power_w, none, cap)
        chips.tick(jobs, 3.0)
        expected = throttling.chip_temperature_c(np.arange(2))
        assert chips.value("temperature_c") == pytest.approx(expected, abs=0.9)
    assert chips.value("temperature_c")[:16].mean() == pytest.approx(expected[:16].mean(), abs=0.2)


def test_a_cap_keeps_power_under_it_through_a_job_s_phases() -> None:
    """The compute phase's limit outlasts collectives.

    So power does not overshoot when compute resumes.
    """
    stand = Stand()
    stand.cap_share[0] = 0.7
    over = []
    for second in range(120):
        computes = second % 8 < 6
        pace = stand.throttling.pace
        stand.power_w[:] = BACKGROUND_W + DYNAMIC_W * (0.85 * pace if computes else 0.45)
        if second > 1:
            over.append(stand.chip_w().max() - 0.7 * 500)
        stand.advance(1.0)
    assert -1.0 < max(over) < 0.01 * 0.7 * 500
    assert stand.throttling.pace[1] == 1.0
    rows, pct = stand.throttling.throttled
    assert rows.tolist() == list(range(16))
    assert pct == pytest.approx(100 * (1 - stand.throttling.pace[0]))


def test_the_background_cannot_be_capped() -> None:
    """A cap below a chip's idle power results in the lowest clock."""
    stand = Stand()
    stand.cap_share[:] = 0.1
    assert stand.run(falls_with_pace, 1.0, 10)[-1] == LEAST_PACE
    assert falls_with_pace(LEAST_PACE) > 0.1 * 500
    idle = Stand()
    idle.cap_share[:] = 0.1
    idle.power_w[:] = BACKGROUND_W
    assert idle.advance(1.0) == 1.0


def test_no_cap_withholds_nothing_at_any_power() -> None:
    """A share of 1 is no limit."""
    stand = Stand()
    stand.power_w[:] = 500
    assert stand.advance(1.0) == 1.0


def test_a_rack_s_cap_counts_both_its_instances_and_their_hosts() -> None:
    """Two instances of an UltraServer share a rack's limit.

    The other rack, with the same load on one instance, has room.
    """
    cap_w = 15_000.0
    stand = Stand(make_fleet(instances=1, ultraservers=1, rack_power_cap_w=cap_w))
    host_w = np.full(5, 1_600.0)
    wanted_w = np.array([438.0, 438.0, 438.0, 90.0, 438.0])
    for _ in range(20):
        stand.power_w[:] = BACKGROUND_W + (wanted_w - BACKGROUND_W) * stand.throttling.pace
        stand.advance(1.0, host_w)
    assert stand.layout.instances[0] == "c/standalone/trn2-0001"
    pace = stand.throttling.pace
    assert pace[1] == pace[2] < 0.9
    chips_w = [each.sum() for each in np.split(stand.all_chips_w(), 5)]
    rack_w = sum(chips_w[1:3]) + host_w[1:3].sum()
    assert rack_w == pytest.approx(cap_w, rel=1e-3)
    assert rack_w <= cap_w * 1.0001
    assert pace[[0, 3, 4]].tolist() == [1.0, 1.0, 1.0]


def test_a_rack_s_cap_below_idle_is_refused() -> None:
    """A cap no clock can meet is refused with the rack and its power.

    This happens at the start.
    """
    with pytest.raises(
        ConfigError, match=r"rack_power_cap_w = 5000: c/us-0001/rack-a draws 5,880 W"
    ):
        Stand(make_fleet(instances=0, ultraservers=1, rack_power_cap_w=5_000.0))


def test_a_window_can_be_limited_ahead() -> None:
    """In a window of an hour a change of the inlet counts at once."""
    stand = Stand()
    stand.run(falls_with_pace, 1.0, 3)
    stand.inlet_delta_c[:] = 25
    stand.throttling.limit(3_600.0, stand.inlet_delta_c, stand.cap_share)
    ahead = float(stand.throttling.pace[0])
    slowdowns = stand.run(falls_with_pace, 3_600.0, 1)
    assert ahead < 0.8
    assert slowdowns[0] == pytest.approx(ahead, abs=1e-3)
    assert stand.chip_c().max() < 95


def test_a_fleet_that_starts_too_hot_starts_throttled() -> None:
    """The first window settles temperature and pace together."""
    stand = Stand(make_fleet(inlet_c=50.0))
    first = stand.advance(1.0)
    stand.power_w[:] = BACKGROUND_W + (TRAINING_W - BACKGROUND_W) * first
    assert first < 0.9
    assert stand.advance(1.0) == pytest.approx(first, abs=1e-3)


def test_liquid_cooling_rides_out_a_warm_rack() -> None:
    """A cold plate avoids throttling at inlets 20 degC warmer under the same load."""
    stand = Stand(make_fleet(cooling="liquid"))
    stand.inlet_delta_c[:] = 20
    stand.power_w[:] = 500
    for _ in range(10):
        assert stand.advance(60.0) == 1.0


def test_a_fleet_that_is_hot_all_over_withholds_all_over() -> None:
    """Every chip is listed once, in the order of the rows, in any number."""
    stand = Stand(make_fleet(instances=2_500, inlet_c=50.0))
    stand.inlet_delta_c[:] = 14.0
    stand.power_w[:] = 450.0
    stand.advance(1.0)
    rows, pct = stand.throttling.throttled
    assert np.array_equal(rows, np.arange(40_000))
    slowest = 1.0 - pct.reshape(-1, 16).max(axis=1) / 100.0
    assert slowest == pytest.approx(stand.throttling.pace, abs=2e-3)
