from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.sim.small_fleet import IDLE, SERVE, TRAIN, SmallFleet

from trnfleet.domain.faults import FAULTS
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.sim.faults.timeline import DETOUR_PACE, MOST_BOUNDARIES
from trnfleet.sim.ids import ec2_id, serial_number
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.rng import Rng

TRAINING, SERVING = 0, 1
CHIP = f"{TRAIN}/trn2u-0001-2/chip05"
INSTANCE = f"{TRAIN}/trn2u-0001-2"


def entry(
    fault: str, target: str = CHIP, at: float = 10.0, lasts: float | str | None = None, **rest: Any
) -> dict[str, Any]:
    return {"fault": fault, "target": target, "at": at, **({} if lasts is None else {"for": lasts}), **rest}


def bits(*names: str) -> int:
    return sum(1 << HEALTH_BITS.index(name) for name in names)


@pytest.mark.parametrize(
    ("fault", "target", "pace", "left"),
    [
        ("straggler", CHIP, "compute", 0.7),
        ("chip_throttle", CHIP, "compute", 0.6),
        ("link_degraded", f"{CHIP}:east", "link", 0.25),
        ("link_down", f"{CHIP}:east", "link", DETOUR_PACE),
        ("z_link_down", f"{CHIP}:z_next", "link", DETOUR_PACE),
        ("efa_affinity_lost", INSTANCE, "efa", 0.086),
        ("nic_down", INSTANCE, "efa", 15 / 16),
        ("storage_slow", "c", "storage", 0.08),
    ],
)
def test_a_fault_slows_its_job_in_its_own_way(fault: str, target: str, pace: str, left: float) -> None:
    """One pace of the one job, and of no other; a synchronous job waits for its slowest part."""
    trouble = SmallFleet(entry(fault, target))
    trouble.go(11.0)
    slowdowns = trouble.incidents.slowdowns
    for name in ("compute", "link", "efa", "storage", "capacity"):
        expected = np.ones(2)
        if name == pace:
            expected[TRAINING] = left
            if fault == "storage_slow":
                expected[SERVING] = left
        assert getattr(slowdowns, name) == pytest.approx(expected), name


def test_faults_on_one_job_combine_by_the_worst() -> None:
    """One that ends gives back only what the other does not take."""
    trouble = SmallFleet(
        entry("straggler", at=0, magnitude=20.0, lasts=30),
        entry("straggler", f"{TRAIN}/trn2u-0001-0/chip01", at=10, magnitude=50.0, lasts=10),
        entry("straggler", at=15, magnitude=20.0, lasts=30),
    )
    seen = []
    for until_s in (5.0, 12.0, 17.0, 25.0, 35.0, 50.0):
        trouble.go(until_s)
        seen.append(float(trouble.incidents.slowdowns.compute[TRAINING]))
    assert seen == pytest.approx([0.8, 0.5, 0.5, 0.8, 0.8, 1.0])
    assert trouble.is_well()


def test_a_job_stands_still_for_the_worst_of_its_faults() -> None:
    """A crash or a hang adds nothing where the job waits for an instance, and its restart does not start it."""
    trouble = SmallFleet(
        entry("instance_reboot", at=0, target=INSTANCE),
        entry("runtime_crash", f"{TRAIN}/trn2u-0001-0/chip01", at=10),
        entry("hang_collectives", f"{TRAIN}/trn2u-0001-0/chip02", at=11),
    )
    for until_s in (5.0, 12.0, 30.0, 100.0, 269.0):
        trouble.go(until_s)
        assert trouble.incidents.slowdowns.halt[TRAINING] == Halt.WAITING
    trouble.go(271.0)
    assert trouble.is_well()


def test_two_faults_on_one_link_do_not_mend_each_other() -> None:
    """A link that is down twice, from either end, is down until both are repaired."""
    trouble = SmallFleet(
        entry("link_down", f"{TRAIN}/trn2u-0001-2/chip05:east", at=0, lasts=100),
        entry("link_down", f"{TRAIN}/trn2u-0001-2/chip06:west", at=50, lasts=100),
    )
    rows = [trouble.row(f"{TRAIN}/trn2u-0001-2/chip0{number}") for number in (5, 6)]
    for until_s in (20.0, 120.0):
        trouble.go(until_s)
        assert [int(trouble.columns["links_up"][row]) for row in rows] == [0b110111, 0b111011]
        assert (trouble.columns["health"][rows] == bits("link_intraserver")).all()
        assert np.count_nonzero(trouble.columns["health"]) == 2
    trouble.go(151.0)
    assert trouble.is_well()


def test_a_split_takes_the_links_between_the_racks() -> None:
    """32 Z links, from instance 1 to 2 and from 3 to 0, are down at both ends; the job over all 64 chips fails and waits."""
    trouble = SmallFleet(entry("ultraserver_split", TRAIN))
    trouble.go(15.0)
    first = trouble.row(f"{TRAIN}/trn2u-0001-0/chip00")
    up = trouble.columns["links_up"][first : first + 64].reshape(4, 16)
    no_prev, no_next = 0b101111, 0b011111
    assert (up == np.array([no_prev, no_next, no_prev, no_next])[:, None]).all()
    assert (trouble.columns["health"][first : first + 64] == bits("link_interserver")).all()
    assert trouble.incidents.slowdowns.halt[TRAINING] == Halt.DOWN


def test_a_rack_is_half_an_ultraserver() -> None:
    """Two instances of four are in one rack (the driver's election of node ids); one that stands alone has its own."""
    trouble = SmallFleet(
        entry("rack_overheat", f"{TRAIN}/trn2u-0001-3", magnitude=20.0),
        entry("rack_overheat", f"{TRAIN}/trn2u-0001-2", magnitude=15.0),
        entry("power_cap", f"{SERVE}/trn2u-0002-0", magnitude=0.5),
        entry("power_cap", f"{IDLE}/trn2-0001", magnitude=0.7),
    )
    trouble.go(11.0)
    first, second = trouble.row(f"{TRAIN}/trn2u-0001-0"), trouble.row(f"{SERVE}/trn2u-0002-0")
    assert trouble.incidents.inlet_delta_c[first : first + 4].tolist() == [0.0, 0.0, 20.0, 20.0]
    assert np.count_nonzero(trouble.incidents.inlet_delta_c) == 2
    assert trouble.incidents.cap_share[second : second + 4].tolist() == [0.5, 0.5, 1.0, 1.0]
    assert trouble.incidents.cap_share[trouble.row(f"{IDLE}/trn2-0001")] == np.float32(0.7)


def test_a_link_slows_only_the_replica_that_uses_it() -> None:
    """Replicas of one instance do not use the Z link between two of them; they use their torus."""
    cable = SmallFleet(entry("z_link_down", f"{SERVE}/trn2u-0002-1/chip05:z_next"))
    cable.go(11.0)
    assert cable.incidents.slowdowns.capacity[SERVING] == 1.0
    assert not cable.incidents.apart
    torus = SmallFleet(entry("link_down", f"{SERVE}/trn2u-0002-1/chip05:east"))
    torus.go(11.0)
    assert 0.95 < torus.incidents.slowdowns.capacity[SERVING] < 1.0
    assert torus.incidents.apart == {torus.row(f"{SERVE}/trn2u-0002-1")}
    wide = SmallFleet(entry("z_link_down", f"{SERVE}/trn2u-0002-1/chip05:z_next"), chips_per_replica=64)
    wide.go(11.0)
    assert wide.incidents.slowdowns.capacity[SERVING] < 0.9
    assert len(wide.incidents.apart) == 4


def test_health_and_throttling_are_marked_over_what_is_there() -> None:
    """Throttling is the larger of both; health bits of two faults on a chip add up and go one by one."""
    trouble = SmallFleet(
        entry("hang_compute", f"{IDLE}/trn2-0001/chip03", at=0),
        entry("hbm_uncorrectable_repairable", f"{IDLE}/trn2-0001/chip03", at=5),
        entry("straggler", at=0, magnitude=30.0),
        entry("chip_throttle", at=0, magnitude=40.0, lasts=20.0),
    )
    row = trouble.row(f"{IDLE}/trn2-0001/chip03")
    trouble.go(10.0)
    assert trouble.columns["health"][row] == bits("firmware_service_processor", "hbm")
    throttle, slow = BY_NAME["throttle_pct"], trouble.row(CHIP)
    assert throttle.decode(trouble.columns["throttle_pct"])[slow] == 40.0
    trouble.columns["throttle_pct"][:] = throttle.code_of(90.0)
    trouble.incidents.mark(trouble.columns)
    assert throttle.decode(trouble.columns["throttle_pct"])[slow] == 90.0
    trouble.go(30.0)
    assert throttle.decode(trouble.columns["throttle_pct"])[slow] == 30.0
    stages = FAULTS["hbm_uncorrectable_repairable"].stages
    trouble.go(5.0 + stages.total_s)
    trouble.go(trouble.at_s + 1.0)
    assert trouble.columns["health"][row] == bits("firmware_service_processor")


@pytest.mark.parametrize("window_s", [0.05, 0.3, 1.0, 7.0, 200.0])
def test_a_storm_counts_the_same_in_any_windows(window_s: float) -> None:
    """12 corrected errors a second for 60 s are 720 on its chip, whatever the windows' length."""
    trouble = SmallFleet(entry("ecc_corrected_storm", at=10.25, lasts=60.0))
    trouble.go(200.0, window_s)
    counted = trouble.columns["mem_ecc_corrected"]
    assert counted[trouble.row(CHIP)] == counted.sum() == 720


def test_what_fails_and_is_replaced_within_one_window_counts_nothing() -> None:
    """The new chip's counters begin at 0; another instance's stay."""
    trouble = SmallFleet(
        entry("sram_uncorrectable"), entry("sram_uncorrectable", f"{TRAIN}/trn2u-0001-0/chip00", at=900.0)
    )
    trouble.go(910.0, 910.0)
    assert trouble.columns["sram_ecc_uncorrected"].sum() == 1
    assert trouble.columns["sram_ecc_uncorrected"][trouble.row(f"{TRAIN}/trn2u-0001-0/chip00")] == 1


def test_a_repeated_entry_comes_at_its_times() -> None:
    """`every` with `times` comes so often; without, it does not end."""
    trouble = SmallFleet(
        entry("chip_throttle", at=10, every=20, times=3, lasts=5.0),
        entry("chip_throttle", f"{TRAIN}/trn2u-0001-2/chip06", at=0, every=100, lasts=5.0),
    )
    trouble.go(1_000.5, 33.0)
    begins = [(event.path[-2:], event.time_s) for event in trouble.told if event.name == "chip_throttle"]
    assert [at for chip, at in begins if chip == "05"] == [10.0, 30.0, 50.0]
    assert [at for chip, at in begins if chip == "06"] == [100.0 * number for number in range(11)]


def test_boundaries_are_where_something_changes() -> None:
    """Strictly inside the window, in order, once each; recoveries and loads have theirs, too."""
    trouble = SmallFleet(
        entry("straggler", at=10, lasts=5.0),
        entry("chip_throttle", at=15, lasts=5.0),
        entry("runtime_crash", at=30),
        loads=[{"job": "serve", "at": 2, "for": 70, "factor": 2.0}],
    )
    incidents = trouble.incidents
    assert incidents.boundaries(0.0, 100.0) == [2.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 72.0]
    assert incidents.boundaries(10.0, 20.0) == [15.0]
    assert incidents.boundaries(80.0, 90.0) == []


def test_a_window_is_cut_only_so_often() -> None:
    """Of a thousand changes in one window some wait for the next cut, and none is lost."""
    trouble = SmallFleet(entry("chip_throttle", at=0.5, every=1.0, times=500, lasts=0.5))
    cuts = trouble.incidents.boundaries(0.0, 600.0)
    assert len(cuts) == MOST_BOUNDARIES
    assert cuts == sorted(set(cuts))
    trouble.go(600.0, 600.0)
    assert trouble.names().count("chip_throttle") == 500
    assert trouble.incidents.slowdowns.compute[TRAINING] == 1.0


def test_loads_multiply_while_they_last() -> None:
    """Two surges at a time multiply; the load of another job is its own."""
    surge = {"job": "serve", "at": 10, "for": 20, "factor": 2.0}
    trouble = SmallFleet(loads=[surge, {**surge, "at": 20, "factor": 1.5}])
    seen = []
    for until_s in (5.0, 10.0, 25.0, 35.0, 45.0):
        trouble.go(until_s)
        seen.append(trouble.incidents.slowdowns.load.tolist())
    assert seen == [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 1.5], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ({"loads": [{"job": "server", "at": 1, "for": 1, "factor": 2.0}]}, r"loads\[0\]\.job = 'server': did you mean 'serve'"),
        ({"loads": [{"job": "train", "at": 1, "for": 1, "factor": 2.0}]}, r"loads\[0\]\.job = 'train': it is no inference job"),
    ],
)  # fmt: skip
def test_a_load_needs_a_job_that_has_one(rest: dict[str, Any], message: str) -> None:
    """The message names the key and the nearest job."""
    with pytest.raises(ConfigError, match=message):
        SmallFleet(**rest)


def test_a_scenario_with_a_wrong_target_is_refused() -> None:
    """The message names the entry, the target and the nearest, or why it makes no sense there."""
    with pytest.raises(
        ConfigError, match=r"faults\[1\]\.target: .*did you mean 'c/us-0001/trn2u-0001-2/chip05'"
    ):
        SmallFleet(entry("straggler"), entry("straggler", f"{TRAIN}/trn2u-0001-22/chip05"))
    with pytest.raises(
        ConfigError, match=r"faults\[0\]\.target = .*: runtime_crash needs a job, and none runs there"
    ):
        SmallFleet(entry("runtime_crash", f"{IDLE}/trn2-0001/chip05"))


def test_a_random_target_follows_from_the_seed() -> None:
    """The same seed and entry give the same chips; another seed, or another entry, others."""

    def hit(seed: int, *before: dict[str, Any]) -> set[str]:
        trouble = SmallFleet(*before, entry("chip_throttle", "random(3)"), seed=seed)
        trouble.go(11.0)
        return {each.address for each in trouble.incidents.active() if each.fault.name == "chip_throttle"}

    assert hit(1) == hit(1)
    assert len(hit(1)) == 3
    assert hit(1) != hit(2)
    assert hit(1) != hit(1, entry("nic_down", INSTANCE))


def test_the_kernels_line_is_as_the_driver_writes_it() -> None:
    """Published form (nrt-troubleshoot), with this instance's id, device and serial number."""
    trouble = SmallFleet(entry("sram_uncorrectable"))
    trouble.go(11.0)
    kernel, runtime = trouble.told
    assert (kernel.source, kernel.path, kernel.severity) == ("hardware", CHIP, Severity.CRITICAL)
    published = (
        r"NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=(i-[0-9a-f]{17}) hostname=[\w-]+ nd-id=5 nc-id=\d "
        r"serial-num=([0-9a-f]{16}) action=TERMINATE_INSTANCE"
    )
    found = re.fullmatch(published, kernel.text)
    assert found is not None, kernel.text
    assert found[1] == ec2_id(Rng(7), INSTANCE)
    assert found[2] == serial_number(Rng(7), CHIP)
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
    trouble = SmallFleet(entry("sram_uncorrectable", every=1_000, times=2))
    trouble.go(1_200.0)
    first, second = (event.text for event in trouble.told if event.name == "sram_uncorrectable")
    assert ec2_id(Rng(7), INSTANCE) in first
    assert ec2_id(Rng(7), INSTANCE, 1) in second
    assert serial_number(Rng(7), CHIP, 1) in second
    assert any(
        ec2_id(Rng(7), INSTANCE, 1) in event.text
        for event in trouble.told
        if event.name == "instance_replaced"
    )


def test_a_silent_agent_tells_nothing_and_stops_nothing() -> None:
    """Only what it publishes is missing."""
    trouble = SmallFleet(entry("agent_silent", INSTANCE, lasts=30))
    trouble.go(20.0)
    assert np.flatnonzero(trouble.incidents.silent).tolist() == [trouble.row(INSTANCE)]
    assert not trouble.incidents.slowdowns.halt.any()
    trouble.go(41.0)
    assert trouble.is_well()
    assert trouble.told == []
    assert not trouble.incidents.boots.any()


def test_a_fault_that_is_asked_for_begins_at_once() -> None:
    """The answer names fault, target, time and who asked; many targets are counted."""
    trouble = SmallFleet()
    trouble.go(10.0)
    said = trouble.inject("straggler", CHIP, lasts_s=30.0, magnitude=50.0, by="ops")
    assert said == f"straggler on {CHIP}, for 30 s (asked by ops)"
    trouble.go(11.0)
    assert trouble.incidents.slowdowns.compute[TRAINING] == 0.5
    trouble.go(41.0)
    assert trouble.is_well()
    said = trouble.inject("hbm_uncorrectable", f"{SERVE}/*/chip00")
    assert said.count(SERVE) == 4
    said = trouble.inject("chip_throttle", f"{IDLE}/*/*")
    assert "and 28 more, for 600 s" in said
    said = trouble.inject("hang_collectives", CHIP)
    assert said.endswith("for 50 s: the job is restarted")


def test_what_is_asked_for_at_random_differs_each_time() -> None:
    """Twice the same request hits two different chips, and a second run the same two."""
    first, second = SmallFleet(), SmallFleet()
    said = [first.inject("straggler", "random(1)") for _ in range(2)]
    assert said[0] != said[1]
    assert said == [second.inject("straggler", "random(1)") for _ in range(2)]


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
        ("straggler", f"{SERVE}/trn2u-0002-0/chip05", {}, "c/us-0002/trn2u-0002-0 is down: instance_reboot"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    fault: str, target: str, rest: dict[str, Any], message: str
) -> None:
    """A request that is refused leaves everything as it was, and says in one line why."""
    trouble = SmallFleet(
        entry("chip_throttle", at=0, lasts="1h"), entry("instance_reboot", f"{SERVE}/trn2u-0002-0", at=0)
    )
    trouble.go(5.0)
    before = trouble.incidents.active()
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        trouble.inject(fault, target, **rest)
    assert "\n" not in str(refused.value)
    trouble.go(6.0)
    assert trouble.incidents.active() == before


def test_what_was_asked_for_a_moment_ago_is_there_already() -> None:
    """Two requests between two ticks are one fault, which counts once; another chip's is another."""
    trouble = SmallFleet()
    trouble.go(5.0)
    trouble.inject("sram_uncorrectable", CHIP)
    with pytest.raises(ConfigError, match=f"sram_uncorrectable is already there on {CHIP}"):
        trouble.inject("sram_uncorrectable", CHIP)
    trouble.inject("sram_uncorrectable", f"{TRAIN}/trn2u-0001-2/chip06")
    trouble.go(6.0)
    assert trouble.columns["sram_ecc_uncorrected"].sum() == 2
    assert trouble.columns["sram_ecc_uncorrected"][trouble.row(CHIP)] == 1


def test_what_is_still_to_come_is_not_there_yet() -> None:
    """A fault that a scenario has for later may be asked for before."""
    trouble = SmallFleet(entry("chip_throttle", at=100, lasts=5.0))
    trouble.go(5.0)
    trouble.inject("chip_throttle", CHIP, lasts_s=5.0)
    trouble.go(7.0)
    assert len(trouble.incidents.active()) == 1


def test_of_several_targets_those_that_can_be_hit_are() -> None:
    """A pattern that covers an instance that is down hits the others, and the answer names only these."""
    trouble = SmallFleet(entry("instance_reboot", f"{SERVE}/trn2u-0002-0", at=0))
    trouble.go(5.0)
    said = trouble.inject("straggler", f"{SERVE}/*/chip05")
    assert "trn2u-0002-0/" not in said
    assert said.count("chip05") == 3


def test_only_what_is_new_changes_anything() -> None:
    """Moving to where nothing is due says so, and keeps the very same paces."""
    trouble = SmallFleet(entry("straggler", lasts=20))
    incidents = trouble.incidents
    assert not incidents.move_to(9.99)
    slowdowns = incidents.slowdowns
    assert not incidents.move_to(9.999)
    assert incidents.slowdowns is slowdowns
    assert incidents.move_to(10.0)
    assert not incidents.move_to(29.0)
    assert incidents.move_to(30.0)


def test_transport_faults_are_left_to_the_publisher() -> None:
    """They touch nothing in the fleet."""
    trouble = SmallFleet(entry("transport_drop", "*", at=1))
    trouble.go(30.0)
    assert trouble.is_well()
    assert trouble.told == []
