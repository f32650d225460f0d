"""The table of faults: each with its signature, effect on a job, and recovery.

Pure data, the source for the simulator, the commands, the scenarios and the documentation: a new
fault is a new row. Signatures follow the Neuron driver and runtime (nrt_status.h, nrt-troubleshoot,
the driver's sysfs). Recovery times are assumed unless noted. Rates are events per device and day;
rates of faults that interrupt jobs follow from the interruptions of Llama 3's training, all of them
in the table.
"""

from __future__ import annotations

from dataclasses import replace

from trnfleet.domain.faults.fault import (
    Count,
    Effect,
    Fault,
    FaultScope,
    Interruptions,
    Links,
    Reaction,
    Recovery,
    Stages,
)
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError, nearest

LLAMA_3_CHIPS = 16_384
LLAMA_3_DAYS = 54
"""Accelerators and days of Llama 3's training (published: arXiv 2407.21783): one unexpected
interruption in 3.1 h, 884,736 device-days."""
_REPLACE = Stages(detect_s=15.0, quarantine_s=5.0, drain_s=15.0, mend_s=300.0, return_s=60.0)
"""Replacement of an instance. A watcher of the kernel's log notices in seconds; EC2's retirement
notice comes within 15 minutes (published); another instance of a reserved pool takes minutes
(assumed)."""
_REBOOT = Stages(detect_s=15.0, quarantine_s=5.0, drain_s=15.0, mend_s=240.0, return_s=30.0)

_TABLE = (
    Fault(
        name="ecc_corrected_storm",
        title="HBM errors corrected by the dozen",
        scope=FaultScope.CHIP,
        cause="a weak HBM row",
        counts=(Count("mem_ecc_corrected", per_s=12.0),),
        lasts_s=120.0,
        is_logged=False,
        rate_per_device_day=2.4e-4,
        rate_source="assumed: three for each uncorrectable HBM error",
    ),
    Fault(
        name="hbm_uncorrectable",
        title="Uncorrectable HBM error, not repairable",
        scope=FaultScope.CHIP,
        cause="an HBM stack is failing",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("mem_ecc_uncorrected", 1), Count("exec_errors", 1)),
        health=("hbm",),
        hw_error="HBM_UNCORRECTABLE_ERROR",
        action="TERMINATE_INSTANCE",
        nrt=1201,
        nrt_name="EXEC_HW_ERR_HBM_UE",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) [ND {nd}] Uncorrectable HBM memory error is detected."
            " Execution results may be invalid. Please terminate this instance to prevent future"
            " impact from the hardware error."
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("GPU HBM3 memory", 54),),  # assumed: three quarters
    ),
    Fault(
        name="hbm_uncorrectable_repairable",
        title="Uncorrectable HBM error, repairable",
        scope=FaultScope.CHIP,
        cause="an HBM row that has a spare",
        reaction=Reaction.CRASH,
        recovery=Recovery.RELOAD,
        stages=Stages(detect_s=15.0, quarantine_s=5.0, drain_s=15.0, mend_s=45.0, return_s=20.0),
        counts=(Count("mem_ecc_uncorrected", 1), Count("exec_errors", 1)),
        health=("hbm",),
        # Assumed: that the kernel's log asks for a reload. The only action that is published is
        # TERMINATE_INSTANCE.
        hw_error="HBM_UNCORRECTABLE_ERROR",
        action="RELOAD_DRIVER",
        nrt=1205,
        nrt_name="EXEC_HW_ERR_REPAIRABLE_HBM_UE",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) [ND {nd}] Uncorrectable HBM memory error is detected."
            " Execution results may be invalid. Please reload the neuron driver or reboot your EC2"
            " instance."
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("GPU HBM3 memory", 18),),
    ),
    Fault(
        name="sram_uncorrectable",
        title="Uncorrectable SRAM error",
        scope=FaultScope.CHIP,
        cause="a flipped pair of bits in SBUF or PSUM",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("sram_ecc_uncorrected", 1), Count("exec_errors", 1)),
        health=("sram",),
        hw_error="SRAM_UNCORRECTABLE_ERROR",
        action="TERMINATE_INSTANCE",
        nrt=1202,
        nrt_name="EXEC_HW_ERR_NC_UE",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) [ND {nd}][NC 0] Uncorrectable memory error is detected,"
            " metadata: 0x16. Please terminate or stop/start this instance to prevent future impact"
            " from the hardware error."
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("GPU SRAM memory", 19),),
    ),
    Fault(
        name="dma_abort",
        title="DMA engine aborted",
        scope=FaultScope.CHIP,
        cause="a DMA engine in an abort state",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        health=("axi_fabric",),
        hw_error="DMA_ERROR",
        action="TERMINATE_INSTANCE",
        nrt=1203,
        nrt_name="EXEC_HW_ERR_DMA_ABORT",
        runtime_log="[MLA {nd}][NC 0] DMA TX engine 0 is in an abort state",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("faulty GPU", 37),),  # assumed: a quarter
    ),
    Fault(
        name="chip_lost",
        title="Chip lost from the bus",
        scope=FaultScope.CHIP,
        cause="a chip that does not answer over PCIe",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        health=("link_host",),
        log="neuron: nd{nd}: device does not answer over PCIe",
        nrt=6,
        nrt_name="HW_ERROR",
        runtime_log="[ND {nd}] nrt_execute failed with status 6",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("faulty GPU", 62),),  # the rest
    ),
    Fault(
        name="silent_corruption",
        title="Silent data corruption",
        scope=FaultScope.CHIP,
        cause=(
            "a chip that computes wrong values without an error of its own; the job's checks find"
            " them"
        ),
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        nrt=1003,
        nrt_name="EXEC_COMPLETED_WITH_NUM_ERR",
        runtime_log="[ND {nd}] nrt_execute completed with numerical errors (status 1003)",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("silent data corruption", 6),),
    ),
    Fault(
        name="hang_compute",
        title="Hang on compute",
        scope=FaultScope.CHIP,
        cause="a NeuronCore that does not finish",
        reaction=Reaction.HANG,
        recovery=Recovery.REPLACE,
        # Published: the runtime's execution timeout is 30 s. Assumed: the other processes are ended
        # 10 s later.
        stages=Stages(detect_s=30.0, quarantine_s=10.0, drain_s=15.0, mend_s=300.0, return_s=60.0),
        counts=(Count("exec_errors", 1),),
        health=("firmware_service_processor",),
        nrt=5,
        nrt_name="TIMEOUT",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) execution timeout (30000 ms) on Neuron Device {nd} NC 0,"
            " model model.neff, waiting for execution completion notification"
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("faulty GPU", 49),),  # assumed: a third
    ),
    Fault(
        name="hang_collectives",
        title="Hang on a collective",
        scope=FaultScope.CHIP,
        cause="a worker that never joins: the culprit may be any",
        reaction=Reaction.HANG,
        recovery=Recovery.RESTART_JOB,
        # Published: waits of about ten minutes without a watchdog, 30 s with one (ByteRobust).
        # Assumed: it ends the processes 10 s later.
        stages=Stages(detect_s=30.0, quarantine_s=10.0, mend_s=20.0),
        nrt=1200,
        nrt_name="EXEC_HW_ERR_COLLECTIVES",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) missing collectives status on Neuron Device {nd} NC 0,"
            " model 0 - suspected hang in collectives operation 0 out of 100"
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("NCCL watchdog timeouts", 7),),
    ),
    Fault(
        name="link_degraded",
        title="NeuronLink degraded",
        scope=FaultScope.LINK,
        cause="retries on a torus or Z link",
        effect=Effect.LINK_CAPACITY,
        magnitude=0.25,
        least=0.02,
        most=0.98,
        drawn=(0.4, 0.6),
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        is_logged=False,
        rate_per_device_day=2.5e-4,
        rate_source=(
            "derived: 16 of 27 jobs met a slow part (FALCON, arXiv 2410.12588), on about 500"
            " devices for three days each, six of ten in the network (assumed)"
        ),
    ),
    # What a lost link does to a job: collectives over it fail. No document knows a detour within a
    # torus, so the instance is replaced as it is for its other hardware. For a Z link the driver
    # does (neuron_pelect.c): it elects two pairs of instances, between which traffic goes over EFA.
    Fault(
        name="link_down",
        title="NeuronLink down",
        scope=FaultScope.LINK,
        cause="a torus link is lost",
        links=Links.WITHIN_INSTANCE,
        effect=Effect.LINK_CAPACITY,
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        health=("link_intraserver",),
        log="neuron: nd{nd}: NeuronLink {direction} is down",
        nrt=1200,
        nrt_name="EXEC_HW_ERR_COLLECTIVES",
        runtime_log="(FATAL-RT-UNDEFINED-STATE) [ND {nd}] collectives failed: NeuronLink error",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("network switch/cable", 17.5),),  # assumed: half of them
    ),
    Fault(
        name="z_link_down",
        title="NeuronLink between instances down",
        scope=FaultScope.LINK,
        cause="a cable between two instances of an UltraServer",
        links=Links.BETWEEN_INSTANCES,
        effect=Effect.LINK_CAPACITY,
        reaction=Reaction.CRASH,
        recovery=Recovery.REPAIR,
        # Assumed: a minute until the drivers are reloaded and have elected pairs, and half an hour
        # until a cable is changed.
        stages=Stages(detect_s=10.0, quarantine_s=60.0, mend_s=1_800.0),
        counts=(Count("exec_errors", 1),),
        health=("link_interserver",),
        log="neuron: nd{nd}: inter-server NeuronLink {direction} is down",
        nrt=1200,
        nrt_name="EXEC_HW_ERR_COLLECTIVES",
        runtime_log=(
            "(FATAL-RT-UNDEFINED-STATE) [ND {nd}] collectives failed: inter-server NeuronLink error"
        ),
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("network switch/cable", 17.4),),
    ),
    Fault(
        name="ultraserver_split",
        title="UltraServer split between its racks",
        scope=FaultScope.ULTRASERVER,
        cause="the links between its two racks are lost",
        effect=Effect.SPLIT,
        reaction=Reaction.CRASH,
        recovery=Recovery.REPAIR,
        # Published: the election of node ids has a timeout of 600 s (the driver's neuron_pelect.c).
        stages=Stages(detect_s=10.0, quarantine_s=20.0, drain_s=30.0, mend_s=900.0, return_s=120.0),
        health=("link_interserver",),
        log="neuron: ultraserver election: {nodes} nodes not found, falling back to {split}",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("network switch/cable", 0.1),),  # assumed: rare
    ),
    Fault(
        name="efa_affinity_lost",
        title="EFA affinity lost",
        scope=FaultScope.INSTANCE,
        cause="network cards that serve far chips",
        # Measured on trn2.48xlarge: 23.5 of 266 to 279 GB/s (Mooncake's EFA documents).
        effect=Effect.EFA_PACE,
        magnitude=0.086,
        least=0.01,
        most=0.99,
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        is_logged=False,
        rate_per_device_day=5.0e-7,
        rate_source="assumed: after one in ten reboots",
    ),
    Fault(
        name="nic_down",
        title="Network card down",
        scope=FaultScope.INSTANCE,
        cause="one of the EFA cards is lost",
        effect=Effect.EFA_PACE,
        magnitude=0.9375,
        least=0.01,
        most=0.99,
        reaction=Reaction.SLOW,
        lasts_s=900.0,
        health=("link_efa",),
        log="efa 0000:c9:00.0: link is down",
        rate_per_device_day=7.9e-6,
        rate_source="assumed: as often as cards that fail a job",
    ),
    Fault(
        name="nic_failed",
        title="Network card fails under a job",
        scope=FaultScope.INSTANCE,
        cause="an EFA card whose connections break",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        health=("link_efa",),
        log="efa 0000:c9:00.0: device error, reset has failed",
        nrt=1206,
        nrt_name="NETWORK_PROXY_FAILURE",
        runtime_log="network proxy failure",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("NIC", 7),),
    ),
    Fault(
        name="rack_overheat",
        title="Cooling of a rack fails",
        scope=FaultScope.RACK,
        cause="fans or chilled air of one rack: its instances of an UltraServer",
        effect=Effect.INLET,
        magnitude=22.0,
        least=1.0,
        most=60.0,
        drawn=(18.0, 0.4),
        reaction=Reaction.SLOW,
        lasts_s=900.0,
        log="rack inlet temperature is above its limit",
        rate_per_device_day=1.0e-7,
        rate_source="assumed: rare",
    ),
    Fault(
        name="chip_throttle",
        title="Chip throttles from heat",
        scope=FaultScope.CHIP,
        cause="a blocked heat sink",
        effect=Effect.COOLING,
        magnitude=2.0,
        least=1.05,
        most=5.0,
        drawn=(1.8, 0.25),
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        log="chassis: the cooling of nd{nd} is impaired",
        rate_per_device_day=6.8e-6,
        rate_source="assumed: as often as chips that shut down from heat",
    ),
    Fault(
        name="thermal_trip",
        title="Chip shuts down from heat",
        scope=FaultScope.CHIP,
        cause="a thermal interface or a sensor has failed",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        stages=_REPLACE,
        counts=(Count("exec_errors", 1),),
        health=("firmware_service_processor",),
        log="neuron: nd{nd}: thermal trip, the chip has shut down",
        nrt=6,
        nrt_name="HW_ERROR",
        runtime_log="[ND {nd}] nrt_execute failed with status 6",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("GPU thermal interface + sensor", 6),),
    ),
    Fault(
        name="power_cap",
        title="Power cap on a rack",
        scope=FaultScope.RACK,
        cause="a cap set by the site",
        effect=Effect.POWER_CAP,
        magnitude=0.6,
        least=0.3,
        most=0.99,
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        log="rack power limit is in force",
        rate_per_device_day=None,
    ),
    Fault(
        name="straggler",
        title="Straggling chip",
        scope=FaultScope.CHIP,
        cause="a chip with a lower clock than its peers",
        effect=Effect.CHIP_PACE,
        magnitude=30.0,
        least=1.0,
        most=95.0,
        drawn=(15.0, 0.8),
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        is_logged=False,
        rate_per_device_day=1.5e-4,
        rate_source=(
            "derived: as for link_degraded, four of ten in a chip (assumed); most slow steps are"
            " the software's (arXiv 2505.05713), which jobs have by themselves"
        ),
    ),
    Fault(
        name="firmware_heartbeat_lost",
        title="Firmware heartbeat lost",
        scope=FaultScope.CHIP,
        cause="the management processor does not answer",
        reaction=Reaction.CRASH,
        recovery=Recovery.REBOOT,
        stages=_REBOOT,
        health=("firmware_service_api", "firmware_service_processor"),
        counts=(Count("exec_errors", 1),),
        log="neuron: nd{nd}: firmware heartbeat is lost",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("GPU system processor", 17),),
    ),
    Fault(
        name="runtime_crash",
        title="Runtime crash",
        scope=FaultScope.CHIP,
        cause="a bug in the job or its runtime",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=10.0, mend_s=20.0),
        counts=(Count("exec_errors", 4),),
        nrt=101,
        nrt_name="EXEC_UNIT_UNRECOVERABLE",
        runtime_log="[ND {nd}] nrt_execute failed with status 101",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("software bug", 22), Interruptions("dependency", 2)),
    ),
    # Failures without any trace of hardware. Their shares of the software bugs are assumed, as are
    # the times until somebody has mended the job.
    Fault(
        name="user_error",
        title="Error in the job's own code",
        scope=FaultScope.INSTANCE,
        cause="a worker that ends with an exception",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=5.0, mend_s=60.0),
        runtime_log="a worker has ended with an exception: exit code 1",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("software bug", 20),),
    ),
    Fault(
        name="loss_nan",
        title="Loss is not a number",
        scope=FaultScope.INSTANCE,
        cause="numbers that overflow in BF16, or a bad batch of data",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=5.0, mend_s=20.0),
        runtime_log="the loss is not a number: back to the last checkpoint",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("software bug", 6),),
    ),
    Fault(
        name="out_of_memory",
        title="Out of device memory",
        scope=FaultScope.INSTANCE,
        cause="a longer sequence or a larger batch than HBM holds; other shapes are compiled again",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=5.0, mend_s=300.0),
        is_cold=True,
        nrt=4,
        nrt_name="RESOURCE",
        runtime_log="loading the model failed: no device memory is left",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("software bug", 3),),
    ),
    Fault(
        name="host_out_of_memory",
        title="Out of host memory",
        scope=FaultScope.INSTANCE,
        cause="data loaders, or the compiler, that take all memory of a host",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=5.0, mend_s=60.0),
        runtime_log="a worker was killed: the host is out of memory (exit code 137)",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("software bug", 3),),
    ),
    Fault(
        name="compile_failed",
        title="Compiler fails",
        scope=FaultScope.INSTANCE,
        cause="a graph that needs more memory than the device has, or a bug of the compiler",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        stages=Stages(detect_s=5.0, mend_s=300.0),
        is_cold=True,
        runtime_log="neuronx-cc has ended with status 70 (NCC_EVRF009)",
        severity=Severity.CRITICAL,
    ),
    Fault(
        name="planned_restart",
        title="Planned restart",
        scope=FaultScope.INSTANCE,
        cause="a new version of the job, whose graphs are compiled again",
        reaction=Reaction.CRASH,
        recovery=Recovery.RESTART_JOB,
        # Published: 47 of 466 interruptions of Llama 3 were planned. They go by the job, and not by
        # its devices, so they have no rate.
        stages=Stages(mend_s=30.0),
        is_cold=True,
        runtime_log="stopped by its owner for a new version",
        severity=Severity.INFO,
    ),
    Fault(
        name="instance_reboot",
        title="Instance reboots",
        scope=FaultScope.INSTANCE,
        cause="unplanned maintenance of the host",
        reaction=Reaction.CRASH,
        recovery=Recovery.REBOOT,
        stages=Stages(mend_s=240.0, return_s=30.0),
        log="EC2 status: instance-reboot",
        severity=Severity.CRITICAL,
        interruptions=(Interruptions("host maintenance", 32),),
    ),
    Fault(
        name="instance_failure",
        title="Instance fails",
        scope=FaultScope.INSTANCE,
        cause="its SSD, power supply, chassis, IO board, host processor or host memory",
        reaction=Reaction.CRASH,
        recovery=Recovery.REPLACE,
        # The host is gone at once: as long in all as another replacement.
        stages=Stages(mend_s=335.0, return_s=60.0),
        log="EC2 status check: instance impaired",
        severity=Severity.CRITICAL,
        interruptions=(
            Interruptions("SSD", 3),
            Interruptions("power supply", 3),
            Interruptions("server chassis", 2),
            Interruptions("IO expansion board", 2),
            Interruptions("CPU", 2),
            Interruptions("system memory", 2),
        ),
    ),
    Fault(
        name="instance_retirement",
        title="Retirement notice",
        scope=FaultScope.INSTANCE,
        cause="EC2 retires the hardware beneath",
        recovery=Recovery.REPLACE,
        # Assumed: the job is stopped at the operators' leisure, ten minutes after the notice.
        stages=Stages(detect_s=30.0, quarantine_s=30.0, drain_s=540.0, mend_s=300.0, return_s=60.0),
        log="EC2 scheduled event: instance-retirement",
        rate_per_device_day=1.0e-5,
        rate_source="assumed",
    ),
    Fault(
        name="storage_slow",
        title="Shared storage is slow",
        scope=FaultScope.CLUSTER,
        cause="a file system over its throughput",
        effect=Effect.STORAGE_PACE,
        magnitude=0.08,
        least=0.005,
        most=0.99,
        reaction=Reaction.SLOW,
        lasts_s=600.0,
        log="shared storage: throughput is at its limit",
        rate_per_device_day=None,
    ),
    Fault(
        name="agent_silent",
        title="Agent is silent",
        scope=FaultScope.INSTANCE,
        cause="the telemetry agent hangs; the job goes on",
        effect=Effect.SILENT,
        lasts_s=300.0,
        is_logged=False,
        rate_per_device_day=2.0e-6,
        rate_source="assumed",
    ),
    Fault(
        name="transport_delay",
        title="Messages are late",
        scope=FaultScope.PUBLISHER,
        cause="a slow network",
        effect=Effect.DELAY,
        magnitude=2.0,
        least=0.05,
        most=60.0,
        is_logged=False,
        lasts_s=60.0,
    ),
    Fault(
        name="transport_drop",
        title="Messages are lost",
        scope=FaultScope.PUBLISHER,
        cause="a lossy network",
        effect=Effect.MESSAGES,
        magnitude=0.1,
        least=0.001,
        most=1.0,
        is_logged=False,
        lasts_s=60.0,
    ),
    Fault(
        name="transport_duplicate",
        title="Messages come twice",
        scope=FaultScope.PUBLISHER,
        cause="resent after a lost answer",
        effect=Effect.MESSAGES,
        magnitude=0.1,
        least=0.001,
        most=1.0,
        is_logged=False,
        lasts_s=60.0,
    ),
    Fault(
        name="transport_reorder",
        title="Messages overtake each other",
        scope=FaultScope.PUBLISHER,
        cause="several ways through a network",
        effect=Effect.MESSAGES,
        magnitude=0.1,
        least=0.001,
        most=1.0,
        is_logged=False,
        lasts_s=60.0,
    ),
    Fault(
        name="transport_late_reconnect",
        title="Connection lost",
        scope=FaultScope.PUBLISHER,
        cause="the publisher's connection is gone and comes back late",
        effect=Effect.CONNECTION,
        magnitude=1.0,
        least=1.0,
        most=1.0,
        is_logged=False,
        lasts_s=30.0,
    ),
)


_INTERRUPTIONS = [part for fault in _TABLE for part in fault.interruptions]
LLAMA_3 = {
    cause: sum(part.number for part in _INTERRUPTIONS if part.cause == cause)
    for cause, _ in _INTERRUPTIONS
}
"""Unexpected interruptions of Llama 3's training by root cause, 419 in all. Published: arXiv
2407.21783, table 5."""


def _rated(fault: Fault) -> Fault:
    """Return a row with the rate computed from its interruptions."""
    if not fault.interruptions:
        return fault
    device_days = LLAMA_3_CHIPS * LLAMA_3_DAYS
    parts = (f"{number:g} of {LLAMA_3[cause]:g} {cause}" for cause, number in fault.interruptions)
    return replace(
        fault,
        rate_per_device_day=sum(part.number for part in fault.interruptions) / device_days,
        rate_source=(
            f"Llama 3, of {sum(LLAMA_3.values()):g} interruptions in {device_days:,} device-days:"
            f" {', '.join(parts)} (derived)"
        ),
    )


FAULTS = {fault.name: _rated(fault) for fault in _TABLE}
"""Every fault by its name, in the table's order."""


def interruptions_per_device_day() -> float:
    """Return the total rate of all faults that interrupt jobs."""
    return sum(
        fault.rate_per_device_day or 0.0 for fault in FAULTS.values() if fault.is_interruption
    )


def find_fault(name: str) -> Fault:
    """Return the fault of a name.

    Raises:
        ConfigError: unknown; the message names the nearest.
    """
    try:
        return FAULTS[name]
    except KeyError:
        raise ConfigError(f"unknown fault {name!r}: {nearest(name, FAULTS)}") from None
