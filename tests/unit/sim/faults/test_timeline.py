from __future__ import annotations

import re
from typing import Any

import pytest
from support.sim.small_fleet import (
    CHIP,
    IDLE,
    INSTANCE,
    SERVE,
    TRAIN,
    TRAINING,
    SmallFleet,
    entry,
)

from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.sim.faults.timeline import MOST_BOUNDARIES
from trnfleet.sim.ids import ec2_id, serial_number
from trnfleet.sim.rng import Rng


def test_boundaries_are_where_something_changes() -> None:
    """Strictly inside the window, in order, once each; recoveries and loads have theirs, too."""
    fleet = SmallFleet(
        entry("straggler", at=10, lasts=5.0),
        entry("chip_throttle", at=15, lasts=5.0),
        entry("runtime_crash", at=30),
        loads=[{"job": "serve", "at": 2, "for": 70, "factor": 2.0}],
    )
    incidents = fleet.incidents
    assert incidents.boundaries(0.0, 100.0) == [2.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 72.0]
    assert incidents.boundaries(10.0, 20.0) == [15.0]
    assert incidents.boundaries(80.0, 90.0) == []


def test_a_window_is_cut_only_so_often() -> None:
    """Of a thousand changes in one window some wait; none is lost."""
    fleet = SmallFleet(entry("chip_throttle", at=0.5, every=1.0, times=500, lasts=0.5))
    cuts = fleet.incidents.boundaries(0.0, 600.0)
    assert len(cuts) == MOST_BOUNDARIES
    assert cuts == sorted(set(cuts))
    fleet.go(600.0, 600.0)
    assert fleet.names().count("chip_throttle") == 500
    assert fleet.effects.slowdowns.compute[TRAINING] == 1.0


def test_the_kernels_line_is_as_the_driver_writes_it() -> None:
    """Published form (nrt-troubleshoot), with this instance's id, device and serial number."""
    fleet = SmallFleet(entry("sram_uncorrectable"))
    fleet.go(11.0)
    kernel, runtime = fleet.events
    assert (kernel.source, kernel.path, kernel.severity) == ("hardware", CHIP, Severity.CRITICAL)
    published = (
        r"NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=(i-[0-9a-f]{17}) hostname=[\w-]+"
        r" nd-id=5 nc-id=\d "
        r"serial-num=([0-9a-f]{16}) action=TERMINATE_INSTANCE"
    )
    found = re.fullmatch(published, kernel.text)
    assert found is not None, kernel.text
    assert found[1] == ec2_id(Rng(7).token, INSTANCE)
    assert found[2] == serial_number(Rng(7).token, CHIP)
    assert (runtime.source, runtime.name, runtime.nrt, runtime.job) == (
        "runtime",
        "execution_failed",
        1202,
        "train",
    )
    assert runtime.text.startswith(
        "(FATAL-RT-UNDEFINED-STATE) [ND 5][NC 0] Uncorrectable memory error is detected"
    )


def test_a_replaced_instance_fails_under_its_new_names() -> None:
    """Its second failure carries another EC2 id and another serial number."""
    fleet = SmallFleet(entry("sram_uncorrectable", every=1_000, times=2))
    fleet.go(1_200.0)
    first, second = (event.text for event in fleet.events if event.name == "sram_uncorrectable")
    assert ec2_id(Rng(7).token, INSTANCE) in first
    assert ec2_id(Rng(7).token, INSTANCE, 1) in second
    assert serial_number(Rng(7).token, CHIP, 1) in second
    assert any(
        ec2_id(Rng(7).token, INSTANCE, 1) in event.text
        for event in fleet.events
        if event.name == "instance_replaced"
    )


def test_a_fault_that_is_asked_for_begins_at_once() -> None:
    """The answer names fault, target, time and requester; many targets are counted."""
    fleet = SmallFleet()
    fleet.go(10.0)
    said = fleet.inject("straggler", CHIP, lasts_s=30.0, magnitude=50.0, by="ops")
    assert said == f"straggler on {CHIP}, for 30 s (asked by ops)"
    fleet.go(11.0)
    assert fleet.effects.slowdowns.compute[TRAINING] == 0.5
    fleet.go(41.0)
    assert fleet.is_well()
    said = fleet.inject("hbm_uncorrectable", f"{SERVE}/*/chip00")
    assert said.count(SERVE) == 4
    said = fleet.inject("chip_throttle", f"{IDLE}/*/*")
    assert "and 28 more, for 600 s" in said
    said = fleet.inject("hang_collectives", CHIP)
    assert said.endswith("for 60 s: the job is restarted")


@pytest.mark.parametrize(
    ("fault", "target", "rest", "message"),
    [
        ("stragler", CHIP, {}, "did you mean 'straggler'"),
        ("straggler", f"{TRAIN}/trn2u-0001-22/chip05", {}, f"did you mean '{CHIP}'"),
        ("straggler", CHIP, {"magnitude": 200.0}, "must be 1 to 95"),
        ("straggler", CHIP, {"lasts_s": -1.0}, "must be above 0"),
        ("transport_drop", "*", {}, "which this simulator cannot reach"),
        ("chip_throttle", CHIP, {}, f"chip_throttle is already there on {CHIP}"),
        ("runtime_crash", f"{IDLE}/trn2-0001/chip05", {}, "no job runs there that it could hit"),
        (
            "straggler",
            f"{SERVE}/trn2u-0002-0/chip05",
            {},
            "c/us-0002/trn2u-0002-0 is down: instance_reboot",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    fault: str, target: str, rest: dict[str, Any], message: str
) -> None:
    """A refused request changes nothing, and its one-line answer has the reason."""
    fleet = SmallFleet(
        entry("chip_throttle", at=0, lasts="1h"),
        entry("instance_reboot", f"{SERVE}/trn2u-0002-0", at=0),
    )
    fleet.go(5.0)
    before = fleet.incidents.active()
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        fleet.inject(fault, target, **rest)
    assert "\n" not in str(refused.value)
    fleet.go(6.0)
    assert fleet.incidents.active() == before


def test_a_job_that_is_down_does_not_crash_again() -> None:
    """A stopped job has no runtime to crash, and operators notice nothing."""
    fleet = SmallFleet(
        entry("chip_lost", at=5), entry("runtime_crash", f"{TRAIN}/trn2u-0001-1/chip02", at=30)
    )
    fleet.go(60.0)
    assert "chip_lost" in fleet.names()
    assert not [event for event in fleet.events if "runtime crash" in event.text]


def test_what_was_asked_for_a_moment_ago_is_there_already() -> None:
    """Two requests between two ticks are one fault, counted once; another chip's is another."""
    fleet = SmallFleet()
    fleet.go(5.0)
    fleet.inject("sram_uncorrectable", CHIP)
    with pytest.raises(ConfigError, match=f"sram_uncorrectable is already there on {CHIP}"):
        fleet.inject("sram_uncorrectable", CHIP)
    fleet.inject("sram_uncorrectable", f"{TRAIN}/trn2u-0001-2/chip06")
    fleet.go(6.0)
    assert fleet.columns["sram_ecc_uncorrected"].sum() == 2
    assert fleet.columns["sram_ecc_uncorrected"][fleet.row(CHIP)] == 1


def test_what_is_still_to_come_is_not_there_yet() -> None:
    """A fault scheduled for later by a scenario may be requested before."""
    fleet = SmallFleet(entry("chip_throttle", at=100, lasts=5.0))
    fleet.go(5.0)
    fleet.inject("chip_throttle", CHIP, lasts_s=5.0)
    fleet.go(7.0)
    assert len(fleet.incidents.active()) == 1


def test_of_several_targets_those_that_can_be_hit_are() -> None:
    """A pattern skips an instance that is down, and the answer names only the others."""
    fleet = SmallFleet(entry("instance_reboot", f"{SERVE}/trn2u-0002-0", at=0))
    fleet.go(5.0)
    said = fleet.inject("straggler", f"{SERVE}/*/chip05")
    assert "trn2u-0002-0/" not in said
    assert said.count("chip05") == 3


def test_only_what_is_new_changes_anything() -> None:
    """Moving to where nothing is due says so, and keeps the very same paces."""
    fleet = SmallFleet(entry("straggler", lasts=20))
    incidents = fleet.incidents
    assert not incidents.move_to(9.99)
    slowdowns = incidents.effects.slowdowns
    assert not incidents.move_to(9.999)
    assert incidents.effects.slowdowns is slowdowns
    assert incidents.move_to(10.0)
    assert not incidents.move_to(29.0)
    assert incidents.move_to(30.0)
