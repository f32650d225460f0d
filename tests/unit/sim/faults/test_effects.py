from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.small_fleet import (
    CHIP,
    IDLE,
    INSTANCE,
    SERVE,
    SERVING,
    SLOWDOWNS,
    TRAIN,
    TRAINING,
    SmallFleet,
    bits,
    entry,
)

from trnfleet.domain.faults.fault import Effect, Fault, FaultScope, Links
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.sim.faults.effects import DETOUR_PACE, Replicas
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable


if TYPE_CHECKING:
    Job = Callable[..., dict[str, Any]]


class Serving:
    """Replicas on the UltraServer `c/us-0001`, beside an idle and a training instance.

    Its chips are rows 16 to 79.
    """

    def __init__(
        self, make_fleet: Callable[..., FleetFile], training: Job, inference: Job, size: int
    ) -> None:
        fleet = make_fleet(
            training(on=["c/standalone/trn2-0001"]),
            inference(on=["c/us-0001"], chips_per_replica=size),
            instances=1,
            ultraservers=1,
        )
        layout = Layout.of(expand(fleet))
        self.replicas = Replicas(layout, Placement.resolve(layout, fleet))

    @property
    def paces(self) -> list[float]:
        paces: list[float] = self.replicas.pace.tolist()
        return paces

    @property
    def halted(self) -> list[int]:
        return np.flatnonzero(self.replicas.halt).tolist()


@pytest.fixture
def serve(
    make_fleet: Callable[..., FleetFile], training: Job, inference: Job
) -> Callable[[int], Serving]:
    return lambda size: Serving(make_fleet, training, inference, size)


def test_only_inference_jobs_have_replicas(serve: Callable[[int], Serving]) -> None:
    """A training job is one whole."""
    assert [serve(16).replicas.serves(job) for job in (0, 1)] == [False, True]


@pytest.mark.parametrize(("size", "slow"), [(4, 5), (16, 1), (32, 0), (64, 0)])
def test_a_slow_chip_slows_its_replica_and_no_other(
    serve: Callable[[int], Serving], size: int, slow: int
) -> None:
    """A slow chip slows one replica, of 4, 16, 32 or 64 chips each.

    The chip with row 37 is the job's 22nd.
    """
    serving = serve(size)
    serving.replicas.hit(SERVING, (2,), (32 + 5,), pace=0.5)
    assert serving.paces == [0.5 if number == slow else 1.0 for number in range(64 // size)]
    assert serving.halted == []


@pytest.mark.parametrize(("size", "stopped"), [(4, [4, 5, 6, 7]), (16, [1]), (32, [0]), (64, [0])])
def test_an_instance_stops_every_replica_on_it(
    serve: Callable[[int], Serving], size: int, stopped: list[int]
) -> None:
    """An instance stops all replicas on it.

    Four small ones, one filling it, or one that spans other instances.
    """
    serving = serve(size)
    serving.replicas.hit(SERVING, (2,), (), halt=Halt.DOWN)
    assert serving.halted == stopped


def test_the_worst_of_two_paces_counts(serve: Callable[[int], Serving]) -> None:
    """A replica slowed twice has the slower pace, in either order; down outranks a hang."""
    for paces in ((0.8, 0.5), (0.5, 0.8)):
        serving = serve(16)
        for chip, pace in zip((16, 17), paces, strict=True):
            serving.replicas.hit(SERVING, (1,), (chip,), pace=pace)
        assert serving.paces == [0.5, 1.0, 1.0, 1.0]
        for halt in (Halt.DOWN, Halt.HANG):
            serving.replicas.hit(SERVING, (1,), (16,), halt=halt)
        assert serving.replicas.halt[0] == Halt.DOWN


def test_a_link_slows_the_replica_on_both_its_ends(serve: Callable[[int], Serving]) -> None:
    """A link between two replicas is used by neither."""
    inside = serve(16)
    between = serve(16)
    inside.replicas.hit_between(SERVING, (16, 17), pace=0.5)
    between.replicas.hit_between(SERVING, (31, 32), pace=0.5)
    assert inside.paces == [0.5, 1.0, 1.0, 1.0]
    assert between.paces == [1.0] * 4
    outside = serve(64)
    outside.replicas.hit_between(SERVING, (0, 1), pace=0.5)
    assert outside.paces == [1.0], "the chips are another job's"


def test_a_split_stops_what_reaches_over_it(serve: Callable[[int], Serving]) -> None:
    """A split stops replicas in both halves; replicas within one half go on."""
    for size, stopped in ((16, []), (32, []), (64, [0])):
        serving = serve(size)
        serving.replicas.hit_across(SERVING, ((1, 2), (3, 4)), Halt.DOWN)
        assert serving.halted == stopped


def test_instances_of_others_are_none_of_a_jobs(serve: Callable[[int], Serving]) -> None:
    """Neither their chips nor they themselves slow a replica."""
    serving = serve(16)
    serving.replicas.hit(SERVING, (0,), (), pace=0.1)
    serving.replicas.hit(SERVING, (0,), (3,), pace=0.1)
    assert serving.paces == [1.0] * 4


def test_nothing_is_left_once_cleared(serve: Callable[[int], Serving]) -> None:
    """Every replica has its pace back, and what was handed out before keeps its values."""
    serving = serve(16)
    serving.replicas.hit(SERVING, (1, 2, 3, 4), (), pace=0.5, halt=Halt.DOWN)
    before = serving.replicas.pace
    serving.replicas.clear()
    assert serving.paces == [1.0] * 4
    assert serving.halted == []
    assert before.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("fault", "target", "pace", "left"),
    [
        ("straggler", CHIP, "compute", 0.7),
        ("link_degraded", f"{CHIP}:east", "link", 0.625),
        ("efa_affinity_lost", INSTANCE, "efa", 0.086),
        ("nic_down", INSTANCE, "efa", 15 / 16),
        ("storage_slow", "c", "storage", 0.08),
    ],
)
def test_a_fault_slows_its_job_in_its_own_way(
    fault: str, target: str, pace: str, left: float
) -> None:
    """A fault slows one pace of its job, and no other job.

    A synchronous job waits for its slowest part.
    """
    fleet = SmallFleet(entry(fault, target))
    fleet.go(11.0)
    slowdowns = fleet.effects.slowdowns
    for name in ("compute", "link", "efa", "storage"):
        expected = np.ones((2, 3) if name == "link" else 2)
        if name == pace == "link":
            expected[TRAINING, 0] = left
        elif name == pace:
            expected[TRAINING] = left
            if fault == "storage_slow":
                expected[SERVING] = left
        assert getattr(slowdowns, name) == pytest.approx(expected), name


def test_faults_on_one_job_combine_by_the_worst() -> None:
    """The end of one fault restores only the speed not withheld by the other."""
    fleet = SmallFleet(
        entry("straggler", at=0, magnitude=20.0, lasts=30),
        entry("straggler", f"{TRAIN}/trn2u-0001-0/chip01", at=10, magnitude=50.0, lasts=10),
        entry("straggler", at=15, magnitude=20.0, lasts=30),
    )
    seen = []
    for until_s in (5.0, 12.0, 17.0, 25.0, 35.0, 50.0):
        fleet.go(until_s)
        seen.append(float(fleet.effects.slowdowns.compute[TRAINING]))
    assert seen == pytest.approx([0.8, 0.5, 0.5, 0.8, 0.8, 1.0])
    assert fleet.is_well()


def test_a_job_stands_still_for_the_worst_of_its_faults() -> None:
    """A crash or a hang adds nothing while the job waits for an instance.

    The restart after it does not start the job.
    """
    fleet = SmallFleet(
        entry("instance_reboot", at=0, target=INSTANCE),
        entry("runtime_crash", f"{TRAIN}/trn2u-0001-0/chip01", at=10),
        entry("hang_collectives", f"{TRAIN}/trn2u-0001-0/chip02", at=11),
    )
    for until_s in (5.0, 12.0, 30.0, 100.0, 269.0):
        fleet.go(until_s)
        assert fleet.effects.slowdowns.halt[TRAINING] == Halt.WAITING
    fleet.go(271.0)
    assert fleet.is_well()


def test_two_faults_on_one_link_do_not_mend_each_other() -> None:
    """A link that is down twice, from either end, is down until both are repaired."""
    fleet = SmallFleet(
        entry("z_link_down", f"{TRAIN}/trn2u-0001-2/chip05:z_next", at=0, lasts=100),
        entry("z_link_down", f"{TRAIN}/trn2u-0001-3/chip05:z_prev", at=50, lasts=100),
    )
    rows = [fleet.row(f"{TRAIN}/trn2u-0001-{number}/chip05") for number in (2, 3)]
    for until_s in (20.0, 120.0):
        fleet.go(until_s)
        assert [int(fleet.columns["links_up"][row]) for row in rows] == [0b011111, 0b101111]
        assert (fleet.columns["health"][rows] == bits("link_interserver")).all()
        assert np.count_nonzero(fleet.columns["health"]) == 2
    fleet.go(151.0)
    assert fleet.is_well()


def test_a_lost_torus_link_stops_its_job_until_the_instance_is_replaced() -> None:
    """Collectives over a lost torus link fail until the instance is replaced.

    No document describes a way around it, so it is treated like other hardware of the instance.
    """
    fleet = SmallFleet(entry("link_down", f"{CHIP}:east", at=0))
    stages = FAULTS["link_down"].stages
    seen = []
    drained_s = stages.detect_s + stages.quarantine_s + stages.drain_s
    for until_s in (1.0, drained_s, drained_s + stages.mend_s, stages.total_s):
        fleet.go(until_s)
        seen.append(int(fleet.effects.slowdowns.halt[TRAINING]))
    assert seen == [Halt.DOWN, Halt.WAITING, Halt.WAITING, Halt.NONE]
    assert fleet.incidents.generation[fleet.row(INSTANCE)] == 1
    failed = next(event for event in fleet.events if event.name == "execution_failed")
    assert (failed.nrt, failed.job) == (1200, "train")
    assert "instance_replaced" in fleet.names()
    fleet.go(fleet.at_s + 1.0)
    assert fleet.is_well()


def test_a_lost_z_link_stops_its_job_until_the_drivers_have_elected_pairs() -> None:
    """After the election the job runs until the repair.

    It is slower than with a link at a quarter.
    """
    fleet = SmallFleet(entry("z_link_down", f"{CHIP}:z_next", at=0))
    stages = FAULTS["z_link_down"].stages
    fleet.go(1.0)
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.DOWN
    fleet.go(stages.detect_s + stages.quarantine_s)
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.NONE
    detour = fleet.effects.slowdowns.link[TRAINING].tolist()
    assert detour == [1.0, 1.0, DETOUR_PACE]
    assert FAULTS["link_degraded"].magnitude > DETOUR_PACE
    assert np.count_nonzero(fleet.columns["health"]) == 2
    fleet.go(stages.total_s + 1.0)
    assert fleet.is_well()


def test_a_job_that_is_down_has_no_executions_that_could_fail() -> None:
    """A fault of a stopped job shows in its hardware only.

    No log or counter of the runtime records it.
    """
    fleet = SmallFleet(
        entry("link_down", f"{CHIP}:east", at=0),
        entry("sram_uncorrectable", f"{TRAIN}/trn2u-0001-0/chip01", at=5.0),
        entry("sram_uncorrectable", f"{SERVE}/trn2u-0002-0/chip01", at=5.0),
        entry("sram_uncorrectable", f"{SERVE}/trn2u-0002-1/chip01", at=6.0),
    )
    fleet.go(20.0)
    failed = [event.path for event in fleet.events if event.name == "execution_failed"]
    assert failed == [CHIP, f"{SERVE}/trn2u-0002-0/chip01", f"{SERVE}/trn2u-0002-1/chip01"], (
        "replicas go on"
    )
    chip = fleet.row(f"{TRAIN}/trn2u-0001-0/chip01")
    assert fleet.columns["sram_ecc_uncorrected"][chip] == 1
    assert fleet.columns["exec_errors"][chip] == 0


def test_what_fails_on_two_instances_is_counted_on_the_one_that_stays() -> None:
    """Counters of a replaced instance begin at 0, in windows of any length."""
    for window_s in (5.0, 600.0):
        fleet = SmallFleet(
            entry("z_link_down", f"{CHIP}:z_next", at=0),
            entry("hbm_uncorrectable", f"{CHIP}", at=1.0),
        )
        fleet.go(600.0, window_s)
        errors = fleet.columns["exec_errors"]
        assert errors[fleet.row(f"{TRAIN}/trn2u-0001-3/chip05")] == errors.sum() == 1


def test_a_split_takes_the_links_between_the_racks() -> None:
    """A split takes down 32 Z links, and the job over all 64 chips waits.

    They are the links from instance 1 to 2 and from 3 to 0, down at both ends.
    """
    fleet = SmallFleet(entry("ultraserver_split", TRAIN))
    fleet.go(15.0)
    first = fleet.row(f"{TRAIN}/trn2u-0001-0/chip00")
    up = fleet.columns["links_up"][first : first + 64].reshape(4, 16)
    no_prev = 0b101111
    no_next = 0b011111
    assert (up == np.array([no_prev, no_next, no_prev, no_next])[:, None]).all()
    assert (fleet.columns["health"][first : first + 64] == bits("link_interserver")).all()
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.DOWN


def test_a_rack_is_half_an_ultraserver() -> None:
    """Two instances of four share a rack; a standalone one has its own.

    The driver's election of node ids assumes this.
    """
    fleet = SmallFleet(
        entry("rack_overheat", f"{TRAIN}/trn2u-0001-3", magnitude=20.0),
        entry("rack_overheat", f"{TRAIN}/trn2u-0001-2", magnitude=15.0),
        entry("power_cap", f"{SERVE}/trn2u-0002-0", magnitude=0.5),
        entry("power_cap", f"{IDLE}/trn2-0001", magnitude=0.7),
    )
    fleet.go(11.0)
    first = fleet.row(f"{TRAIN}/trn2u-0001-0")
    second = fleet.row(f"{SERVE}/trn2u-0002-0")
    assert fleet.effects.instances.inlet_delta_c[first : first + 4].tolist() == [
        0.0,
        0.0,
        20.0,
        20.0,
    ]
    assert np.count_nonzero(fleet.effects.instances.inlet_delta_c) == 2
    assert fleet.effects.instances.cap_share[second : second + 4].tolist() == [0.5, 0.5, 1.0, 1.0]
    assert fleet.effects.instances.cap_share[fleet.row(f"{IDLE}/trn2-0001")] == np.float32(0.7)


def test_a_link_slows_only_the_replica_that_uses_it() -> None:
    """Replicas of one instance do not use the Z link between instances.

    They use their torus, and fail with their instance.
    """
    cable = SmallFleet(entry("z_link_down", f"{SERVE}/trn2u-0002-1/chip05:z_next"))
    cable.go(11.0)
    assert cable.effects.slowdowns.replica.tolist() == [1.0] * 4
    torus = SmallFleet(entry("link_down", f"{SERVE}/trn2u-0002-1/chip05:east"))
    torus.go(11.0)
    for until_s in (11.0, 100.0):
        torus.go(until_s)
        assert (torus.effects.slowdowns.replica_halt >= Halt.DOWN).tolist() == [
            False,
            True,
            False,
            False,
        ]
    small = SmallFleet(
        entry("link_down", f"{SERVE}/trn2u-0002-1/chip05:north"), chips_per_replica=4
    )
    small.go(11.0)
    assert not small.effects.slowdowns.replica_halt.any(), (
        "two replicas do not need the link between them"
    )
    small.go(100.0)
    assert np.flatnonzero(small.effects.slowdowns.replica_halt).tolist() == [4, 5, 6, 7]
    wide = SmallFleet(
        entry("z_link_down", f"{SERVE}/trn2u-0002-1/chip05:z_next"), chips_per_replica=64
    )
    wide.go(11.0)
    assert wide.effects.slowdowns.replica_halt.tolist() == [Halt.DOWN]
    wide.go(100.0)
    assert not wide.effects.slowdowns.replica_halt.any()
    slow = SmallFleet(
        entry("link_degraded", f"{SERVE}/trn2u-0002-1/chip05:z_next"), chips_per_replica=64
    )
    slow.go(11.0)
    assert wide.effects.slowdowns.replica[0] < slow.effects.slowdowns.replica[0] < 1.0


def test_health_bits_of_two_faults_add_up_and_are_cleared_one_by_one() -> None:
    """A hang has none before the runtime's timeout."""
    fleet = SmallFleet(
        entry("hang_compute", f"{IDLE}/trn2-0001/chip03", at=0),
        entry("hbm_uncorrectable_repairable", f"{IDLE}/trn2-0001/chip03", at=5),
    )
    row = fleet.row(f"{IDLE}/trn2-0001/chip03")
    fleet.go(29.0)
    assert fleet.columns["health"][row] == bits("hbm")
    fleet.go(31.0)
    assert fleet.columns["health"][row] == bits("firmware_service_processor", "hbm")
    stages = FAULTS["hbm_uncorrectable_repairable"].stages
    fleet.go(5.0 + stages.total_s)
    fleet.go(fleet.at_s + 1.0)
    assert fleet.columns["health"][row] == bits("firmware_service_processor")


@pytest.mark.parametrize("window_s", [0.05, 0.3, 1.0, 7.0, 200.0])
def test_a_storm_counts_the_same_in_any_windows(window_s: float) -> None:
    """12 errors a second for 60 s count 720 on the chip, in any windows."""
    fleet = SmallFleet(entry("ecc_corrected_storm", at=10.25, lasts=60.0))
    fleet.go(200.0, window_s)
    counted = fleet.columns["mem_ecc_corrected"]
    assert counted[fleet.row(CHIP)] == counted.sum() == 720


def test_a_storm_comes_in_bursts() -> None:
    """12 errors a second are the mean of a minute.

    Many seconds have hardly any, and some have dozens.
    """
    fleet = SmallFleet(entry("ecc_corrected_storm", at=10.0, lasts=120.0))
    counts = [0]
    for second in range(130):
        fleet.go(second + 1.0)
        counts.append(int(fleet.columns["mem_ecc_corrected"][fleet.row(CHIP)]))
    each = np.diff(counts)[10:]
    assert each.sum() == 120 * 12
    assert (each <= 2).mean() > 0.35
    assert each.max() > 60
    assert [int(part.sum()) for part in np.split(each, 6)] == [240] * 6


def test_what_fails_and_is_replaced_within_one_window_counts_nothing() -> None:
    """The new chip's counters begin at 0; another instance's stay."""
    fleet = SmallFleet(
        entry("sram_uncorrectable"),
        entry("sram_uncorrectable", f"{TRAIN}/trn2u-0001-0/chip00", at=900.0),
    )
    fleet.go(910.0, 910.0)
    assert fleet.columns["sram_ecc_uncorrected"].sum() == 1
    assert fleet.columns["sram_ecc_uncorrected"][fleet.row(f"{TRAIN}/trn2u-0001-0/chip00")] == 1


def test_loads_multiply_while_they_last() -> None:
    """Two surges at a time multiply; the load of another job is its own."""
    surge = {"job": "serve", "at": 10, "for": 20, "factor": 2.0}
    fleet = SmallFleet(loads=[surge, {**surge, "at": 20, "factor": 1.5}])
    seen = []
    for until_s in (5.0, 10.0, 25.0, 35.0, 45.0):
        fleet.go(until_s)
        seen.append(fleet.effects.slowdowns.load.tolist())
    assert seen == [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 1.5], [1.0, 1.0]]


def test_a_silent_agent_stops_nothing() -> None:
    """Only what it publishes is missing."""
    fleet = SmallFleet(entry("agent_silent", INSTANCE, lasts=30))
    fleet.go(20.0)
    assert np.flatnonzero(fleet.effects.instances.silent).tolist() == [fleet.row(INSTANCE)]
    assert not fleet.effects.slowdowns.halt.any()
    fleet.go(41.0)
    assert fleet.is_well()
    assert fleet.events == []
    assert not fleet.incidents.boots.any()


@pytest.mark.parametrize(
    "fault",
    [each for each in FAULTS.values() if each.effect is not Effect.NONE and not each.is_transport],
    ids=lambda each: each.name,
)
def test_every_effect_has_one(fault: Fault) -> None:
    """Every effect of the table is implemented; otherwise a fault would do nothing."""
    lane = "z_prev" if fault.links is Links.BETWEEN_INSTANCES else "north"
    targets = {
        FaultScope.CHIP: CHIP,
        FaultScope.LINK: f"{CHIP}:{lane}",
        FaultScope.CLUSTER: "c",
        FaultScope.ULTRASERVER: TRAIN,
    }
    fleet = SmallFleet(entry(fault.name, targets.get(fault.scope, INSTANCE), at=10.0))
    fleet.go(9.0)
    assert fleet.is_well()
    fleet.go(11.0)
    effects, healthy = fleet.effects, SmallFleet().effects
    changed = [
        name
        for name in SLOWDOWNS
        if not np.array_equal(getattr(effects.slowdowns, name), getattr(healthy.slowdowns, name))
    ]
    changed += [
        name
        for name, values in effects.instances._asdict().items()
        if not np.array_equal(values, getattr(healthy.instances, name))
    ]
    changed += ["cooling"] * len(effects.cooling.rows)
    assert changed, f"{fault.effect!r} has no row in trnfleet/sim/faults/effects.py"
