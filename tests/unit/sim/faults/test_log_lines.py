from __future__ import annotations

import pytest
from support.sim.small_fleet import IDLE, TRAIN, SmallFleet

from trnfleet.domain.faults.fault import FaultScope, Links, Reaction
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.severity import Severity
from trnfleet.domain.targets import resolve
from trnfleet.sim.events import SimEvent
from trnfleet.sim.faults.incident import Incident, Step, make_incident
from trnfleet.sim.faults.timeline import LogWriter
from trnfleet.sim.ids import ec2_id, serial_number
from trnfleet.sim.rng import Rng

INSTANCE = f"{TRAIN}/trn2u-0001-2"
CHIP = f"{INSTANCE}/chip11"
RNG = Rng(7)
FLEET = SmallFleet()
WRITER = LogWriter(FLEET.layout, ("train", "serve"), RNG)


def incident(fault: str, target: str = CHIP) -> Incident:
    (found,) = resolve(FLEET.layout, FAULTS[fault], target, lambda count, _: list(range(count)))
    return make_incident(FLEET.layout, FLEET.placement, FAULTS[fault], found, 100.0)


def steps(each: Incident, generation: int = 0) -> list[SimEvent]:
    return [
        event for at_s, step in each.steps() for event in WRITER.step(each, step, at_s, generation)
    ]


@pytest.mark.parametrize(
    ("fault", "error", "action"),
    [
        ("hbm_uncorrectable", "HBM_UNCORRECTABLE_ERROR", "TERMINATE_INSTANCE"),
        ("hbm_uncorrectable_repairable", "HBM_UNCORRECTABLE_ERROR", "RELOAD_DRIVER"),
        ("sram_uncorrectable", "SRAM_UNCORRECTABLE_ERROR", "TERMINATE_INSTANCE"),
        ("dma_abort", "DMA_ERROR", "TERMINATE_INSTANCE"),
    ],
)
@pytest.mark.parametrize("generation", [0, 3])
def test_the_kernel_names_the_hardware_that_failed(
    fault: str, error: str, action: str, generation: int
) -> None:
    """The driver's line has error, instance, host, device, serial number and action.

    Published (nrt-troubleshoot).
    """
    (line,) = WRITER.begin(incident(fault), generation)
    assert line == SimEvent(
        100.0,
        CHIP,
        "hardware",
        fault,
        Severity.CRITICAL,
        f"NEURON_HW_ERR={error} instance-id={ec2_id(RNG.token, INSTANCE, generation)}"
        " hostname=trn2u-0001-2 nd-id=11 nc-id=0"
        f" serial-num={serial_number(RNG.token, CHIP, generation)} action={action}",
        "train",
    )


@pytest.mark.parametrize(
    ("fault", "name", "words", "status"),
    [
        (
            "hbm_uncorrectable",
            "execution_failed",
            "[ND 11] Uncorrectable HBM memory error is detected.",
            "(NRT_EXEC_HW_ERR_HBM_UE, 1201)",
        ),
        (
            "hbm_uncorrectable_repairable",
            "execution_failed",
            "[ND 11] Uncorrectable HBM",
            "(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, 1205)",
        ),
        (
            "sram_uncorrectable",
            "execution_failed",
            "[ND 11][NC 0] Uncorrectable memory error",
            "(NRT_EXEC_HW_ERR_NC_UE, 1202)",
        ),
        (
            "dma_abort",
            "execution_failed",
            "[MLA 11][NC 0] DMA TX engine 0 is in an abort state",
            "(NRT_EXEC_HW_ERR_DMA_ABORT, 1203)",
        ),
        (
            "hang_compute",
            "hang_compute",
            "execution timeout (30000 ms) on Neuron Device 11 NC 0",
            "(NRT_TIMEOUT, 5)",
        ),
        (
            "hang_collectives",
            "hang_collectives",
            "missing collectives status on Neuron Device 11 NC 0",
            "(NRT_EXEC_HW_ERR_COLLECTIVES, 1200)",
        ),
        (
            "runtime_crash",
            "runtime_crash",
            "[ND 11] nrt_execute failed with status 101",
            "(NRT_EXEC_UNIT_UNRECOVERABLE, 101)",
        ),
        (
            "silent_corruption",
            "silent_corruption",
            "[ND 11] nrt_execute completed with numerical errors",
            "(NRT_EXEC_COMPLETED_WITH_NUM_ERR, 1003)",
        ),
    ],
)
def test_the_runtime_logs_the_status_of_executions(
    fault: str, name: str, words: str, status: str
) -> None:
    """The runtime logs published words and statuses, with the device and job concerned.

    Sources: nrt-troubleshoot, nrt_status.h.
    """
    (event,) = WRITER.failure(incident(fault), 130.0)
    assert (event.time_s, event.path, event.source, event.name) == (130.0, CHIP, "runtime", name)
    assert (event.severity, event.job, event.nrt) == (Severity.CRITICAL, "train", FAULTS[fault].nrt)
    assert words in event.text
    assert event.text.endswith(status)


@pytest.mark.parametrize(
    "fault",
    [
        name
        for name, fault in FAULTS.items()
        if fault.runtime_log and fault.links is not Links.BETWEEN_INSTANCES
    ],
)
def test_where_no_job_runs_no_execution_fails(fault: str) -> None:
    """Without a job the runtime logs nothing, and no job is named."""
    target = {
        FaultScope.CHIP: f"{IDLE}/trn2-0001/chip03",
        FaultScope.INSTANCE: f"{IDLE}/trn2-0001",
        FaultScope.LINK: f"{IDLE}/trn2-0001/chip03:east",
    }[FAULTS[fault].scope]
    idle = incident(fault, target)
    assert list(WRITER.failure(idle, 130.0)) == []
    assert all(event.job is None and event.nrt is None for event in WRITER.begin(idle, 0))


@pytest.mark.parametrize(
    "fault", [name for name, fault in FAULTS.items() if fault.reaction is Reaction.HANG]
)
def test_the_begin_of_a_hang_is_not_logged(fault: str) -> None:
    """A hang is logged only at its timeout, because nothing has failed before."""
    assert list(WRITER.begin(incident(fault), 0)) == []


@pytest.mark.parametrize(
    ("fault", "target", "source", "text"),
    [
        ("link_down", f"{CHIP}:east", "hardware", "neuron: nd11: NeuronLink east is down"),
        (
            "z_link_down",
            f"{CHIP}:z_prev",
            "hardware",
            "neuron: nd11: inter-server NeuronLink z_prev is down",
        ),
        ("nic_down", INSTANCE, "network", "efa 0000:c9:00.0: link is down"),
        ("instance_retirement", INSTANCE, "ec2", "EC2 scheduled event: instance-retirement"),
        ("instance_reboot", INSTANCE, "ec2", "EC2 status: instance-reboot"),
        ("storage_slow", "c", "operator", "shared storage: throughput is at its limit"),
        ("firmware_heartbeat_lost", CHIP, "hardware", "neuron: nd11: firmware heartbeat is lost"),
        ("nic_failed", INSTANCE, "network", "efa 0000:c9:00.0: device error, reset has failed"),
        ("instance_failure", INSTANCE, "ec2", "EC2 status check: instance impaired"),
    ],
)
def test_each_fault_has_its_source_of_logs(fault: str, target: str, source: str, text: str) -> None:
    """Sources are the driver, the network, EC2 (published event codes) or site operators."""
    (event,) = WRITER.begin(incident(fault, target), 0)
    assert (event.source, event.text, event.path) == (source, text, target.partition(":")[0])
    assert event.severity == FAULTS[fault].severity


def test_every_step_of_a_recovery_is_logged() -> None:
    """Operators and EC2 log all recovery steps of an instance.

    Noticed, quarantined, drained, replaced by a new EC2 id, returned.
    """
    events = steps(incident("sram_uncorrectable"), generation=1)
    assert [(event.time_s, event.name, event.source) for event in events] == [
        (115.0, "fault_detected", "operator"),
        (120.0, "instance_quarantined", "operator"),
        (135.0, "instance_drained", "operator"),
        (435.0, "instance_replaced", "ec2"),
        (495.0, "instance_returned", "operator"),
    ]
    assert {event.path for event in events} == {INSTANCE}
    assert {event.severity for event in events} == {Severity.INFO}
    assert events[3].text == f"{INSTANCE} is replaced by {ec2_id(RNG.token, INSTANCE, 1)}"


@pytest.mark.parametrize(
    ("fault", "target", "names"),
    [
        (
            "link_down",
            f"{CHIP}:east",
            [
                "fault_detected",
                "instance_quarantined",
                "instance_drained",
                "instance_replaced",
                "instance_returned",
            ],
        ),
        (
            "z_link_down",
            f"{CHIP}:z_next",
            ["fault_detected", "detour_begun", "repair_begun", "fault_repaired"],
        ),
        ("hang_collectives", CHIP, ["fault_detected"]),
        ("instance_reboot", INSTANCE, ["instance_rebooted", "instance_returned"]),
        (
            "hbm_uncorrectable_repairable",
            CHIP,
            [
                "fault_detected",
                "instance_quarantined",
                "instance_drained",
                "driver_reloaded",
                "instance_returned",
            ],
        ),
        (
            "ultraserver_split",
            TRAIN,
            [
                "fault_detected",
                "instance_quarantined",
                "instance_drained",
                "fault_repaired",
                "instance_returned",
            ],
        ),
    ],
)
def test_steps_that_take_no_time_are_not_logged(fault: str, target: str, names: list[str]) -> None:
    """A recovery logs its own steps alone."""
    assert [event.name for event in steps(incident(fault, target))] == names


def test_a_repair_names_the_link_itself() -> None:
    """A repair names the link with its direction, one of a chip's two Z links."""
    for way in ("z_prev", "z_next"):
        mended = next(
            e for e in steps(incident("z_link_down", f"{CHIP}:{way}")) if e.name == "fault_repaired"
        )
        assert f"{CHIP}:{way}" in mended.text


def test_a_detour_is_announced() -> None:
    """Operators read which UltraServer is usable again, and how."""
    begun = next(
        e for e in steps(incident("z_link_down", f"{CHIP}:z_next")) if e.name == "detour_begun"
    )
    assert (
        begun.text
        == f"jobs that start on {TRAIN} now use EFA between two pairs, as its drivers elect"
    )


def test_an_end_is_logged_for_the_target() -> None:
    """With the source of the begin."""
    (event,) = WRITER.end(incident("nic_down", INSTANCE), 1_000.0)
    assert (event.time_s, event.source, event.name, event.severity) == (
        1_000.0,
        "network",
        "fault_over",
        Severity.INFO,
    )
    assert event.text.endswith(f"on {INSTANCE} is over")


@pytest.mark.parametrize("step", [Step.BEGIN, Step.END])
def test_only_steps_of_a_recovery_are_steps(step: Step) -> None:
    """Begin and end have words of their own."""
    assert list(WRITER.step(incident("sram_uncorrectable"), step, 100.0, 0)) == []
