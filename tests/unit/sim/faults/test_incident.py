from __future__ import annotations

import pytest
from support.sim.small_fleet import IDLE, SERVE, TRAIN, SmallFleet

from trnfleet.domain.faults.fault import Recovery
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.targets import resolve
from trnfleet.sim.faults.incident import (
    Incident,
    Step,
    cures,
    initial_halt,
    is_on_hardware,
    make_incident,
)
from trnfleet.sim.jobs.slowdown import Halt

INSTANCE = f"{TRAIN}/trn2u-0001-2"
CHIP = f"{INSTANCE}/chip05"
TROUBLE = SmallFleet()


def incident(
    fault: str,
    target: str,
    begins_s: float = 100.0,
    *,
    lasts_s: float | None = None,
    magnitude: float | None = None,
) -> Incident:
    (found,) = resolve(TROUBLE.layout, FAULTS[fault], target, lambda count, _: list(range(count)))
    return make_incident(
        TROUBLE.layout,
        TROUBLE.placement,
        FAULTS[fault],
        found,
        begins_s,
        lasts_s=lasts_s,
        magnitude=magnitude,
    )


def paths(each: Incident) -> list[str]:
    return [TROUBLE.layout.instances[number] for number in each.instances]


@pytest.mark.parametrize(
    ("fault", "target", "instances", "chips", "jobs"),
    [
        ("straggler", CHIP, [INSTANCE], 1, 1),
        ("link_down", f"{CHIP}:east", [INSTANCE], 2, 1),
        ("z_link_down", f"{CHIP}:z_next", [INSTANCE, f"{TRAIN}/trn2u-0001-3"], 2, 1),
        (
            "z_link_down",
            f"{TRAIN}/trn2u-0001-0/chip05:z_prev",
            [f"{TRAIN}/trn2u-0001-0", f"{TRAIN}/trn2u-0001-3"],
            2,
            1,
        ),
        ("nic_down", INSTANCE, [INSTANCE], 1, 1),
        (
            "rack_overheat",
            f"{TRAIN}/trn2u-0001-1",
            [f"{TRAIN}/trn2u-0001-0", f"{TRAIN}/trn2u-0001-1"],
            0,
            1,
        ),
        ("rack_overheat", f"{IDLE}/trn2-0002", [f"{IDLE}/trn2-0002"], 0, 0),
        ("ultraserver_split", SERVE, [f"{SERVE}/trn2u-0002-{n}" for n in range(4)], 64, 1),
        ("storage_slow", "c", list(TROUBLE.layout.instances), 0, 2),
        ("hbm_uncorrectable", f"{IDLE}/trn2-0001/chip00", [f"{IDLE}/trn2-0001"], 1, 0),
    ],
)
def test_an_incident_is_about_what_its_target_means(
    fault: str, target: str, instances: list[str], chips: int, jobs: int
) -> None:
    """Instances, affected chips and jobs follow from scope and place."""
    each = incident(fault, target)
    assert paths(each) == instances
    assert len(each.rows) == chips
    assert len(each.jobs) == jobs
    assert each.address == target
    assert each.path == target.partition(":")[0]


def test_what_ends_by_itself_has_a_begin_and_an_end() -> None:
    """The table's length, or the one that is asked for; without end there is none."""
    assert incident("straggler", CHIP).steps() == [(100.0, Step.BEGIN), (700.0, Step.END)]
    assert incident("straggler", CHIP, lasts_s=5.0).steps() == [
        (100.0, Step.BEGIN),
        (105.0, Step.END),
    ]
    assert incident("straggler", CHIP, lasts_s=float("inf")).steps() == [(100.0, Step.BEGIN)]


@pytest.mark.parametrize("lasts_s", [None, 1.0, 395.0, 7_200.0])
def test_a_recovery_goes_through_all_steps_in_order(lasts_s: float | None) -> None:
    """A recovery lasts as long as requested, each step with its share."""
    each = incident("hbm_uncorrectable", CHIP, lasts_s=lasts_s)
    times = [at_s for at_s, _ in each.steps()]
    assert [step for _, step in each.steps()] == [
        Step.BEGIN,
        Step.DETECT,
        Step.QUARANTINE,
        Step.DRAIN,
        Step.MOVE,
        Step.MEND,
        Step.RETURN,
    ]
    moves = times.pop(4)
    assert moves >= max(times[3], 130.0)
    assert times == sorted(times)
    whole_s = 395.0 if lasts_s is None else lasts_s
    assert times[-1] - times[0] == pytest.approx(whole_s)
    assert (times[-2] - times[-3]) / whole_s == pytest.approx(300.0 / 395.0)


def test_executions_fail_only_where_a_job_has_some() -> None:
    """An idle chip's memory counts its error, and no execution."""
    busy = incident("hbm_uncorrectable", CHIP)
    idle = incident("hbm_uncorrectable", f"{IDLE}/trn2-0001/chip05")
    assert [count.metric for count in busy.counts] == ["mem_ecc_uncorrected", "exec_errors"]
    assert [count.metric for count in idle.counts] == ["mem_ecc_uncorrected"]


def test_a_magnitude_is_the_tables_unless_one_is_asked_for() -> None:
    """A link takes it over as its capacity."""
    assert incident("link_degraded", f"{CHIP}:east").links[0].capacity == 0.25
    assert incident("link_degraded", f"{CHIP}:east", magnitude=0.5).links[0].capacity == 0.5
    assert incident("link_down", f"{CHIP}:east").links[0].capacity == 0.0


def test_a_split_takes_every_link_between_the_racks() -> None:
    """A split cuts 32 cables between the racks, none within a rack.

    16 are from instance 1 to 2 and 16 from 3 to 0.
    """
    pairs = {
        tuple(
            sorted(
                int(TROUBLE.layout.instance_of_chip[row]) - TROUBLE.row(f"{TRAIN}/trn2u-0001-0")
                for row in link.rows
            )
        )
        for link in incident("ultraserver_split", TRAIN).links
    }
    assert pairs == {(1, 2), (0, 3)}
    assert len(incident("ultraserver_split", TRAIN).links) == 32


@pytest.mark.parametrize(
    ("target", "cut"),
    [
        (f"{TRAIN}/trn2u-0001-0/chip05:z_next", {(0, 1), (2, 3)}),
        (f"{CHIP}:z_prev", {(1, 2), (0, 3)}),
    ],
)
def test_a_lost_z_link_leaves_two_pairs(target: str, cut: set[tuple[int, int]]) -> None:
    """A lost Z link leaves two pairs of instances that do not need it.

    Published: the driver elects them. The 31 other links between them are up and carry nothing.
    """
    lost, *unused = incident("z_link_down", target).links
    first = TROUBLE.row(f"{TRAIN}/trn2u-0001-0")
    pairs = [
        tuple(sorted(int(TROUBLE.layout.instance_of_chip[row]) - first for row in link.rows))
        for link in (lost, *unused)
    ]
    assert set(pairs) == cut
    assert (lost.capacity, lost.is_unused) == (0.0, False)
    assert len({link.lanes for link in unused}) == len(unused) == 31
    assert all(link.is_unused and link.capacity == 1.0 for link in unused)


def test_hangs_and_crashes_stop_a_job_and_others_do_not() -> None:
    """The first reaction of the job to a fault."""
    assert initial_halt(incident("hang_compute", CHIP)) is Halt.HANG
    assert initial_halt(incident("runtime_crash", CHIP)) is Halt.DOWN
    assert initial_halt(incident("link_degraded", f"{CHIP}:east")) is Halt.NONE
    assert initial_halt(incident("link_down", f"{CHIP}:east")) is Halt.DOWN
    assert initial_halt(incident("instance_retirement", INSTANCE)) is Halt.NONE


def test_only_what_sits_in_an_instance_goes_with_it() -> None:
    """Only faults of chips and instances end with their hardware.

    A rack's heat and a file system do not; a cable has two instances.
    """
    here = TROUBLE.row(INSTANCE)
    next_to_it = TROUBLE.row(f"{TRAIN}/trn2u-0001-3")
    assert is_on_hardware(incident("straggler", CHIP), here)
    assert not is_on_hardware(incident("straggler", CHIP), next_to_it)
    assert is_on_hardware(incident("z_link_down", f"{CHIP}:z_next"), next_to_it)
    assert is_on_hardware(incident("agent_silent", INSTANCE), here)
    for fault, target in (
        ("rack_overheat", INSTANCE),
        ("storage_slow", "c"),
        ("ultraserver_split", TRAIN),
    ):
        assert not is_on_hardware(incident(fault, target), here)


@pytest.mark.parametrize(
    ("recovery", "cured"),
    [
        (
            Recovery.REPLACE,
            {
                "straggler",
                "agent_silent",
                "firmware_heartbeat_lost",
                "hbm_uncorrectable_repairable",
                "dma_abort",
            },
        ),
        (
            Recovery.REBOOT,
            {"agent_silent", "firmware_heartbeat_lost", "hbm_uncorrectable_repairable"},
        ),
        (Recovery.RELOAD, {"hbm_uncorrectable_repairable"}),
        (Recovery.RESTART_JOB, set()),
        (Recovery.REPAIR, set()),
    ],
)
def test_a_recovery_cures_what_needs_no_more_than_it(recovery: Recovery, cured: set[str]) -> None:
    """A recovery ends all faults of its instance with equal or smaller needs.

    New hardware ends all, a reboot those of a reboot or a reload, a reload those of a reload.
    """
    others = [
        incident("straggler", CHIP),
        incident("agent_silent", INSTANCE),
        incident("firmware_heartbeat_lost", CHIP),
        incident("hbm_uncorrectable_repairable", CHIP),
        incident("dma_abort", CHIP),
    ]
    here = TROUBLE.row(INSTANCE)
    assert {each.fault.name for each in others if cures(recovery, each, here)} == cured
    assert not any(cures(recovery, each, here + 1) for each in others)
