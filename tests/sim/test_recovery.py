from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.sim.small_fleet import IDLE, SERVE, TRAIN, TRAINING, SmallFleet

from trnfleet.domain.faults.fault import FaultScope, Links, Reaction
from trnfleet.domain.faults.table import FAULTS
from trnfleet.sim.faults.effects import BURST_S
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.wire.limits import DEFAULT_LIMITS

BEGIN_S = 10.0
PHYSICAL = [name for name, fault in FAULTS.items() if not fault.is_transport]
RECOVERING = [name for name in PHYSICAL if not FAULTS[name].ends_by_itself]
PLACES = (TRAIN, SERVE)


def target_of(name: str, ultraserver: str = TRAIN, place: int = 2) -> str:
    """Return a valid target of a fault in an UltraServer."""
    instance = f"{ultraserver}/trn2u-{ultraserver[-4:]}-{place}"
    lane = "z_prev" if FAULTS[name].links is Links.BETWEEN_INSTANCES else "north"
    return {
        FaultScope.CHIP: f"{instance}/chip05",
        FaultScope.LINK: f"{instance}/chip05:{lane}",
        FaultScope.INSTANCE: instance,
        FaultScope.RACK: instance,
        FaultScope.ULTRASERVER: ultraserver,
        FaultScope.CLUSTER: "c",
    }[FAULTS[name].scope]


def entry(
    name: str,
    target: str | None = None,
    at: float = BEGIN_S,
    lasts: float | str | None = None,
    **rest: Any,
) -> dict[str, Any]:
    until = {} if lasts is None else {"for": lasts}
    return {"fault": name, "target": target or target_of(name), "at": at, **until, **rest}


def over_s(name: str) -> float:
    fault = FAULTS[name]
    return BEGIN_S + (fault.lasts_s if fault.ends_by_itself else fault.stages.total_s)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", PHYSICAL)
def test_every_fault_shows_and_then_all_is_as_before(name: str, place: str) -> None:
    """A fault shows from its begin to its end, then leaves only counters."""
    fleet = SmallFleet(entry(name, target_of(name, place)))
    fleet.go(BEGIN_S)
    assert fleet.incidents.active(), "it begins at its instant"
    assert not fleet.columns["health"].any()
    fleet.go(BEGIN_S + 5.0)
    fault = FAULTS[name]
    # What hangs has not failed before it times out.
    has_failed = fault.reaction is not Reaction.HANG
    assert bool(fleet.columns["health"].any()) == (has_failed and bool(fault.health))
    for count in fault.counts:
        if not count.per_s:
            ends = len(fleet.incidents.active()[0].rows)
            assert fleet.columns[count.metric].sum() == ends * has_failed * count.at_once
    fleet.go(BEGIN_S + BURST_S)
    for count in fault.counts:
        if count.per_s:
            assert (
                fleet.columns[count.metric].sum()
                == has_failed * count.at_once + BURST_S * count.per_s
            )
    fleet.go(over_s(name) - 0.5)
    assert fleet.incidents.active()
    fleet.go(over_s(name) + 1.0)
    assert fleet.is_well()
    assert bool(fleet.events) == fault.is_logged


@pytest.mark.parametrize("name", RECOVERING)
def test_nothing_recovers_at_once(name: str) -> None:
    """A stopped job waits until the last recovery step; each step is on time."""
    fault = FAULTS[name]
    fleet = SmallFleet(entry(name))
    seen: list[tuple[float, int]] = []
    while fleet.at_s < over_s(name) + 2.0:
        fleet.go(fleet.at_s + 1.0)
        halt = int(fleet.effects.slowdowns.halt[TRAINING])
        if not seen or seen[-1][1] != halt:
            seen.append((fleet.at_s, halt))
    assert seen[0] == (1.0, Halt.NONE)
    if fault.reaction in {Reaction.CRASH, Reaction.HANG}:
        assert seen[1][0] == BEGIN_S
        assert seen[1][1] in {
            Halt.HANG if fault.reaction is Reaction.HANG else Halt.DOWN,
            Halt.WAITING,
        }
    if fault.has_detour:
        begun_s = BEGIN_S + fault.stages.detect_s + fault.stages.quarantine_s
        assert seen[-1] == (begun_s, Halt.NONE), "its traffic has another way"
    else:
        assert seen[-1] == (over_s(name), Halt.NONE)


def test_a_replacement_goes_step_by_step() -> None:
    """The job waits without its instance through all steps of a replacement.

    Failed, noticed, quarantined, drained, replaced, returned.
    """
    fleet = SmallFleet(entry("hbm_uncorrectable"))
    chip = fleet.row(f"{TRAIN}/trn2u-0001-2/chip05")
    instance = fleet.row(f"{TRAIN}/trn2u-0001-2")
    stages = FAULTS["hbm_uncorrectable"].stages
    incidents = fleet.incidents
    fleet.go(BEGIN_S + 1.0)
    assert incidents.effects.slowdowns.halt[TRAINING] == Halt.DOWN
    assert fleet.columns["mem_ecc_uncorrected"][chip] == 1
    assert not incidents.effects.instances.silent.any()
    drained_s = BEGIN_S + stages.detect_s + stages.quarantine_s + stages.drain_s
    fleet.go(drained_s - 0.5)
    assert incidents.effects.slowdowns.halt[TRAINING] == Halt.DOWN
    fleet.go(drained_s)
    assert incidents.effects.slowdowns.halt[TRAINING] == Halt.WAITING
    assert np.flatnonzero(incidents.effects.instances.silent).tolist() == [instance]
    fleet.go(drained_s + stages.mend_s)
    assert not incidents.effects.instances.silent.any()
    assert incidents.generation[instance] == incidents.boots[instance] == 1
    assert incidents.generation.sum() == 1
    assert incidents.effects.slowdowns.halt[TRAINING] == Halt.WAITING, "not before its checks"
    fleet.go(drained_s + stages.mend_s + stages.return_s)
    assert incidents.effects.slowdowns.halt[TRAINING] == Halt.NONE
    fleet.go(fleet.at_s + 1.0)
    assert fleet.columns["mem_ecc_uncorrected"][chip] == 0, (
        "another chip, which has counted nothing"
    )
    times = {event.name: event.time_s for event in fleet.events}
    assert list(times) == [
        "hbm_uncorrectable",
        "execution_failed",
        "fault_detected",
        "instance_quarantined",
        "instance_drained",
        "instance_replaced",
        "instance_returned",
    ]
    assert list(times.values()) == sorted(times.values())
    assert times["instance_drained"] == drained_s
    assert {event.source for event in fleet.events} == {"hardware", "runtime", "operator", "ec2"}


def test_a_rebooted_instance_is_the_same_one() -> None:
    """A rebooting instance is silent, then has the same EC2 id and counters.

    It has one more boot.
    """
    fleet = SmallFleet(
        entry("firmware_heartbeat_lost"), entry("ecc_corrected_storm", at=1.0, lasts=4.0)
    )
    chip = fleet.row(f"{TRAIN}/trn2u-0001-2/chip05")
    fleet.go(BEGIN_S + 100.0)
    assert fleet.effects.instances.silent.sum() == 1
    fleet.go(over_s("firmware_heartbeat_lost"))
    assert fleet.incidents.boots.sum() == 1
    assert not fleet.incidents.generation.any()
    assert fleet.columns["mem_ecc_corrected"][chip] == 48


def test_a_watchdog_ends_a_hang() -> None:
    """A hung job is noticed, stopped and restarted; no instance is touched."""
    fleet = SmallFleet(entry("hang_collectives"))
    stages = FAULTS["hang_collectives"].stages
    fleet.go(BEGIN_S + stages.detect_s - 0.5)
    assert fleet.effects.slowdowns.halt.tolist() == [Halt.HANG, Halt.NONE]
    fleet.go(BEGIN_S + stages.detect_s + stages.quarantine_s - 0.5)
    assert fleet.effects.slowdowns.halt.tolist() == [Halt.HANG, Halt.NONE]
    fleet.go(BEGIN_S + stages.detect_s + stages.quarantine_s)
    assert fleet.effects.slowdowns.halt.tolist() == [Halt.DOWN, Halt.NONE]
    fleet.go(over_s("hang_collectives"))
    assert fleet.effects.slowdowns.halt.tolist() == [Halt.NONE, Halt.NONE]
    assert not fleet.incidents.boots.any()
    assert fleet.events[0].nrt == 1200
    assert fleet.events[0].job == "train"


@pytest.mark.parametrize(("name", "errors"), [("hang_compute", 1), ("hang_collectives", 0)])
def test_a_hang_is_logged_when_it_times_out(name: str, errors: int) -> None:
    """A hang is logged, and fails executions, only at its timeout.

    Published: executions time out after 30 s (nrt-troubleshoot).
    """
    fleet = SmallFleet(entry(name))
    fleet.go(BEGIN_S + 29.5)
    assert fleet.events == []
    assert fleet.columns["exec_errors"].sum() == 0
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.HANG
    fleet.go(BEGIN_S + 30.0)
    assert [(event.time_s, event.name, event.nrt) for event in fleet.events] == [
        (BEGIN_S + 30.0, name, FAULTS[name].nrt),
        (BEGIN_S + 30.0, "fault_detected", None),
    ]
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.HANG
    fleet.go(BEGIN_S + 31.0)
    assert fleet.columns["exec_errors"].sum() == errors


def test_a_drained_instance_stops_all_its_replicas() -> None:
    """One chip stops its own replica, a drained instance all four on it.

    A replica has four chips.
    """
    fleet = SmallFleet(
        entry("hbm_uncorrectable", target_of("hbm_uncorrectable", SERVE)), chips_per_replica=4
    )
    stages = FAULTS["hbm_uncorrectable"].stages
    drained_s = BEGIN_S + stages.detect_s + stages.quarantine_s + stages.drain_s
    fleet.go(drained_s - 1.0)
    assert np.count_nonzero(fleet.effects.slowdowns.replica_halt) == 1
    for until_s in (drained_s, drained_s + stages.mend_s, over_s("hbm_uncorrectable") - 1.0):
        fleet.go(until_s)
        assert np.count_nonzero(fleet.effects.slowdowns.replica_halt) == 4
    fleet.go(over_s("hbm_uncorrectable") + 1.0)
    assert fleet.is_well()


def test_a_retirement_lets_the_job_go_on_until_it_is_drained() -> None:
    """The notice alone stops nothing."""
    fleet = SmallFleet(entry("instance_retirement"))
    stages = FAULTS["instance_retirement"].stages
    drained_s = BEGIN_S + stages.detect_s + stages.quarantine_s + stages.drain_s
    fleet.go(drained_s - 1.0)
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.NONE
    fleet.go(drained_s + 1.0)
    assert fleet.effects.slowdowns.halt[TRAINING] == Halt.WAITING


def test_a_repair_may_be_asked_to_take_another_time() -> None:
    """`for` stretches all steps alike, until all is as it was."""
    fleet = SmallFleet(entry("hbm_uncorrectable", lasts=79.0))
    scale = 79.0 / FAULTS["hbm_uncorrectable"].stages.total_s
    fleet.go(BEGIN_S + 78.0)
    assert fleet.incidents.active()
    fleet.go(BEGIN_S + 80.0)
    assert fleet.is_well()
    replaced = next(event for event in fleet.events if event.name == "instance_replaced")
    assert replaced.time_s == pytest.approx(BEGIN_S + scale * (15.0 + 5.0 + 15.0 + 300.0))


def test_a_serving_job_loses_a_replica_and_not_its_processes() -> None:
    """One of four replicas is out while its instance is; the job is never halted."""
    fleet = SmallFleet(entry("sram_uncorrectable", target_of("sram_uncorrectable", SERVE)))
    fleet.go(BEGIN_S + 100.0)
    assert not fleet.effects.slowdowns.halt.any()
    assert (fleet.effects.slowdowns.replica_halt >= Halt.DOWN).tolist() == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(("chips_per_replica", "stopped"), [(16, 0), (32, 0), (64, 1)])
def test_a_split_takes_only_replicas_that_reach_over_both_racks(
    chips_per_replica: int, stopped: int
) -> None:
    """A split stops only replicas that span both racks.

    Instances 0 and 1 are in one rack, 2 and 3 in the other (the driver's election of node ids).
    """
    fleet = SmallFleet(entry("ultraserver_split", SERVE), chips_per_replica=chips_per_replica)
    fleet.go(BEGIN_S + 5.0)
    assert np.count_nonzero(fleet.effects.slowdowns.replica_halt) == stopped
    fleet.go(over_s("ultraserver_split") + 1.0)
    assert fleet.is_well()


def test_nothing_happens_to_what_is_switched_off() -> None:
    """A stopped instance cannot fail; its shared parts can."""
    fleet = SmallFleet(
        entry("instance_reboot"),
        entry("hbm_uncorrectable", at=BEGIN_S + 20.0),
        entry("straggler", at=BEGIN_S + 20.0),
        entry("storage_slow", at=BEGIN_S + 20.0, lasts=30.0),
        entry("power_cap", at=BEGIN_S + 20.0, lasts=30.0),
    )
    fleet.go(BEGIN_S + 25.0)
    assert {each.fault.name for each in fleet.incidents.active()} == {
        "instance_reboot",
        "storage_slow",
        "power_cap",
    }
    assert not fleet.columns["mem_ecc_uncorrected"].any()
    fleet.go(over_s("instance_reboot") + 1.0)
    assert fleet.is_well()


def test_new_hardware_ends_what_was_wrong_with_the_old() -> None:
    """A straggler and a lost link end with the instance, with an event; others stay."""
    fleet = SmallFleet(
        entry("straggler", f"{TRAIN}/trn2u-0001-2/chip07", lasts="1d"),
        entry("chip_throttle", f"{TRAIN}/trn2u-0001-2/chip08", lasts="1d"),
        entry("straggler", f"{TRAIN}/trn2u-0001-1/chip07", magnitude=50.0, lasts="1d"),
        entry("ecc_corrected_storm", f"{TRAIN}/trn2u-0001-2/chip07", lasts="1d"),
        entry("hbm_uncorrectable"),
    )
    fleet.go(over_s("hbm_uncorrectable"))
    assert [each.address for each in fleet.incidents.active()] == [f"{TRAIN}/trn2u-0001-1/chip07"]
    assert fleet.effects.slowdowns.compute[TRAINING] == 0.5
    fleet.go(fleet.at_s + 600.0)
    assert not fleet.columns["mem_ecc_corrected"].any()
    over = [event for event in fleet.events if event.name == "fault_over"]
    replaced = next(event for event in fleet.events if event.name == "instance_replaced")
    assert [(event.path, event.time_s) for event in over] == [
        (f"{TRAIN}/trn2u-0001-2/chip08", replaced.time_s)
    ]


def test_one_replacement_is_enough_for_many_chips() -> None:
    """An instance with sixteen failing chips is replaced once."""
    fleet = SmallFleet(entry("dma_abort", f"{TRAIN}/trn2u-0001-2/*"))
    fleet.go(over_s("dma_abort") + 1.0)
    assert fleet.is_well()
    assert fleet.incidents.generation.max() == fleet.incidents.generation.sum() == 1
    assert fleet.names().count("instance_replaced") == 1


def test_a_replaced_instance_can_fail_again() -> None:
    """No earlier failure of the old instance marks the new one as down."""
    fleet = SmallFleet(
        *(entry("dma_abort", f"{TRAIN}/trn2u-0001-2/chip0{n}", at=BEGIN_S + n) for n in range(4))
    )
    fleet.go(over_s("dma_abort") + 4.0)
    assert fleet.is_well()
    fleet.inject("straggler", f"{TRAIN}/trn2u-0001-2/chip00")
    fleet.go(fleet.at_s + 1.0)
    assert len(fleet.incidents.active()) == 1


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("firmware_heartbeat_lost", "instance_rebooted"),
        ("hbm_uncorrectable_repairable", "driver_reloaded"),
    ],
)
def test_one_reboot_or_reload_is_enough_for_many_chips(name: str, events: str) -> None:
    """Sixteen chips that need a reboot or reload at once get one.

    Other instances are not affected.
    """
    fleet = SmallFleet(
        entry(name, f"{TRAIN}/trn2u-0001-2/*"), entry(name, f"{TRAIN}/trn2u-0001-3/chip00", at=12.0)
    )
    fleet.go(over_s(name) + 3.0)
    assert fleet.is_well()
    assert fleet.names().count(events) == 2
    assert fleet.incidents.boots.max() == (events == "instance_rebooted")


def test_a_reboot_starts_the_agent_again() -> None:
    """A silent agent publishes again once its instance is back; a straggler stays."""
    silent = entry("agent_silent", at=1.0, lasts="1d")
    slow = entry("straggler", f"{TRAIN}/trn2u-0001-2/chip09", at=1.0, lasts="1d")
    fleet = SmallFleet(silent, slow, entry("instance_reboot"))
    fleet.go(BEGIN_S + FAULTS["instance_reboot"].stages.mend_s - 1.0)
    assert fleet.effects.instances.silent.sum() == 1
    fleet.go(over_s("instance_reboot") + 1.0)
    assert not fleet.effects.instances.silent.any()
    assert [each.fault.name for each in fleet.incidents.active()] == ["straggler"]


@pytest.mark.parametrize("name", ["hbm_uncorrectable", "dma_abort", "hang_compute"])
def test_an_idle_chip_fails_without_a_job(name: str) -> None:
    """Hardware shows its signature; no execution fails, and no event names a job."""
    fleet = SmallFleet(entry(name, f"{IDLE}/trn2-0002/chip05"))
    fleet.go(over_s(name) - 100.0)
    assert not fleet.effects.slowdowns.halt.any()
    assert not fleet.effects.slowdowns.replica_halt.any()
    assert not fleet.columns["exec_errors"].any()
    assert all(event.job is None and event.nrt is None for event in fleet.events)
    fleet.go(over_s(name) + 1.0)
    assert fleet.is_well()


@pytest.mark.parametrize("name", PHYSICAL)
def test_every_word_of_it_has_room_in_a_message(name: str) -> None:
    """Every event of a fault fits a message's text, even at the longest address."""
    cluster = "c" * 64
    fleet = SmallFleet(entry(name, target_of(name).replace("c", cluster, 1)), cluster=cluster)
    fleet.go(over_s(name) + 1.0)
    assert bool(fleet.events) == FAULTS[name].is_logged
    assert all(0 < len(event.text) <= DEFAULT_LIMITS.text_chars for event in fleet.events)


HITS = st.lists(
    st.tuples(
        st.sampled_from(PHYSICAL),
        st.sampled_from(PLACES),
        st.integers(0, 3),
        st.integers(0, 400),
        st.sampled_from([None, 3, 50, 700]),
    ),
    min_size=2,
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(HITS, st.sampled_from([None, 7.0, 100.0, 5_000.0]))
def test_faults_that_overlap_leave_nothing_behind(
    hits: list[tuple[str, str, int, int, int | None]], window_s: float | None
) -> None:
    """Overlapping faults leave nothing behind, in windows of any length."""
    fleet = SmallFleet(
        *(
            entry(name, target_of(name, ultraserver, place), at, lasts)
            for name, ultraserver, place, at, lasts in hits
        )
    )
    fleet.go(5_000.0, window_s)
    fleet.go(5_001.0)
    assert fleet.is_well()
    replaced = fleet.incidents.generation
    assert (replaced <= fleet.incidents.boots).all()
    assert [event.time_s for event in fleet.events] == sorted(
        event.time_s for event in fleet.events
    )


@settings(max_examples=100, deadline=None)
@given(HITS)
@example([("hbm_uncorrectable", TRAIN, 0, 68, None), ("hbm_uncorrectable", TRAIN, 0, 63, None)])
def test_what_happens_does_not_depend_on_the_windows(
    hits: list[tuple[str, str, int, int, int | None]],
) -> None:
    """Events, counters and generations are the same for any division of time."""
    entries = [entry(name, target_of(name, us, place), at) for name, us, place, at, _ in hits]
    fine = SmallFleet(*entries)
    coarse = SmallFleet(*entries)
    fine.go(1_500.0, 5.0)
    coarse.go(1_500.0, 1_500.0)
    assert fine.events == coarse.events
    assert np.array_equal(fine.incidents.generation, coarse.incidents.generation)
    for name in ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_uncorrected", "exec_errors"):
        assert np.array_equal(fine.columns[name], coarse.columns[name]), name
    for name in ("compute", "link", "efa", "storage", "halt", "replica", "replica_halt"):
        assert np.array_equal(
            getattr(fine.effects.slowdowns, name), getattr(coarse.effects.slowdowns, name)
        )
