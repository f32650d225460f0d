from __future__ import annotations

from typing import Any

import pytest
from support.sim.small_fleet import (
    IDLE,
    INSTANCE,
    TRAIN,
    SmallFleet,
    entry,
)

from trnfleet.errors import ConfigError


def test_a_repeated_entry_comes_at_its_times() -> None:
    """`every` with `times` comes so often; without, it does not end."""
    fleet = SmallFleet(
        entry("chip_throttle", at=10, every=20, times=3, lasts=5.0),
        entry("chip_throttle", f"{TRAIN}/trn2u-0001-2/chip06", at=0, every=100, lasts=5.0),
    )
    fleet.go(1_000.5, 33.0)
    begins = [
        (event.path[-2:], event.time_s) for event in fleet.events if event.name == "chip_throttle"
    ]
    assert [at for chip, at in begins if chip == "05"] == [10.0, 30.0, 50.0]
    assert [at for chip, at in begins if chip == "06"] == [100.0 * number for number in range(11)]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (
            {"loads": [{"job": "server", "at": 1, "for": 1, "factor": 2.0}]},
            r"loads\[0\]\.job = 'server': did you mean 'serve'",
        ),
        (
            {"loads": [{"job": "train", "at": 1, "for": 1, "factor": 2.0}]},
            r"loads\[0\]\.job = 'train': not an inference job",
        ),
    ],
)
def test_a_load_needs_a_job_that_has_one(rest: dict[str, Any], message: str) -> None:
    """The message names the key and the nearest job."""
    with pytest.raises(ConfigError, match=message):
        SmallFleet(**rest)


def test_a_scenario_with_a_wrong_target_is_refused() -> None:
    """The message names the entry, the target, and the nearest target or the reason."""
    with pytest.raises(
        ConfigError, match=r"faults\[1\]\.target: .*did you mean 'c/us-0001/trn2u-0001-2/chip05'"
    ):
        SmallFleet(entry("straggler"), entry("straggler", f"{TRAIN}/trn2u-0001-22/chip05"))
    with pytest.raises(
        ConfigError,
        match=r"faults\[0\]\.target = .*: runtime_crash needs a job, and none runs there",
    ):
        SmallFleet(entry("runtime_crash", f"{IDLE}/trn2-0001/chip05"))


def test_a_random_target_follows_from_the_seed() -> None:
    """The same seed and entry give the same chips; another seed, or another entry, others."""

    def hit(seed: int, *before: dict[str, Any]) -> set[str]:
        fleet = SmallFleet(*before, entry("chip_throttle", "random(3)"), seed=seed)
        fleet.go(11.0)
        return {
            each.address for each in fleet.incidents.active() if each.fault.name == "chip_throttle"
        }

    assert hit(1) == hit(1)
    assert len(hit(1)) == 3
    assert hit(1) != hit(2)
    assert hit(1) != hit(1, entry("nic_down", INSTANCE))


def test_what_is_asked_for_at_random_differs_each_time() -> None:
    """Twice the same request hits two different chips, and a second run the same two."""
    first = SmallFleet()
    second = SmallFleet()
    said = [first.inject("straggler", "random(1)") for _ in range(2)]
    assert said[0] != said[1]
    assert said == [second.inject("straggler", "random(1)") for _ in range(2)]


def test_transport_faults_are_left_to_the_publisher() -> None:
    """They touch nothing in the fleet."""
    fleet = SmallFleet(entry("transport_drop", "*", at=1))
    fleet.go(30.0)
    assert fleet.is_well()
    assert fleet.events == []
