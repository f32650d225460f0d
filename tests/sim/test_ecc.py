from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.sim.hardware.ecc import BURSTS, RATES_PER_CHIP_DAY, CorrectedErrors
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAY_S = 86_400.0
BURST_FACTOR = float((BURSTS.astype(float) ** 2).mean() / BURSTS.mean())
"""Variance of the events over their mean: 1 if they came one by one."""


def columns(chips: int) -> dict[str, NDArray[Any]]:
    return {name: np.zeros(chips, np.uint32) for name in RATES_PER_CHIP_DAY}


def errors(sizes: list[int], seed: int = 5) -> tuple[CorrectedErrors, dict[str, NDArray[Any]]]:
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return CorrectedErrors(Rng(seed), start), columns(int(start[-1]))


@pytest.mark.parametrize(("ticks", "elapsed_s"), [(288, 300.0), (24, 3_600.0), (1, DAY_S)])
@pytest.mark.parametrize("name", list(RATES_PER_CHIP_DAY))
def test_a_day_has_as_many_with_any_tick(name: str, ticks: int, elapsed_s: float) -> None:
    """A day of 4,000 chips has rate x 4,000 events, for any ticks.

    Within four standard deviations of bursts.
    """
    source, counted = errors([16] * 250)
    for tick in range(ticks):
        source.add(counted, tick, elapsed_s)
    mean = RATES_PER_CHIP_DAY[name][1] * 4_000
    assert abs(int(counted[name].sum()) - mean) <= 4 * (BURST_FACTOR * mean) ** 0.5


def test_every_chip_of_every_size_of_instance_has_its_part() -> None:
    """One-chip instances have a sixteenth of the events of 16-chip instances.

    No place is left out.
    """
    source, counted = errors([16] * 60 + [1] * 960)
    for tick in range(60):
        source.add(counted, tick, DAY_S)
    memory = counted["mem_ecc_corrected"]
    assert memory[:960].mean() == pytest.approx(120.0, rel=0.03)
    assert memory[960:].mean() == pytest.approx(120.0, rel=0.03)
    by_place = memory[:960].reshape(60, 16).sum(axis=0)
    assert by_place.min() > 0.92 * by_place.mean()


def test_the_same_seed_gives_the_same_events() -> None:
    """Another seed, or another tick, gives others."""
    runs = []
    for seed, tick in ((5, 0), (5, 0), (6, 0), (5, 1)):
        source, counted = errors([16] * 20, seed)
        source.add(counted, tick, DAY_S)
        runs.append(counted["mem_ecc_corrected"].tolist())
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert runs[0] != runs[3]


def test_instances_of_many_chips_lose_no_events() -> None:
    """An instance of 4,096 chips has its daily rate, though a round has few events.

    Within four standard deviations.
    """
    source, counted = errors([4_096])
    for tick in range(24):
        source.add(counted, tick, 3_600.0)
    expected = RATES_PER_CHIP_DAY["mem_ecc_corrected"][1] * 4_096
    assert (
        abs(int(counted["mem_ecc_corrected"].sum()) - expected)
        < 4 * (BURST_FACTOR * expected) ** 0.5
    )


def test_corrected_errors_come_in_bursts() -> None:
    """Of an hour's ticks with errors, a third have several on one chip."""
    source, counted = errors([16] * 250)
    most = []
    for tick in range(600):
        before = counted["mem_ecc_corrected"].copy()
        source.add(counted, tick, 6.0)
        most.append(int((counted["mem_ecc_corrected"] - before).max()))
    some = [events for events in most if events]
    assert 0.25 < sum(events > 1 for events in some) / len(some) < 0.6
    assert max(some) >= 6
