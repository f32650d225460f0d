from __future__ import annotations

import re

import pytest

from trnfleet.domain.faults.fault import Effect, FaultScope, Reaction, Recovery, check_use
from trnfleet.domain.faults.table import FAULTS, LLAMA_3, find_fault, interruptions_per_device_day
from trnfleet.domain.hardware.catalogue import TRN2_48XLARGE, TRN2U_48XLARGE
from trnfleet.domain.hardware.topology import EAST, NORTH, SOUTH, WEST, Z_NEXT, Z_PREV
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS, Kind, Scope
from trnfleet.domain.targets import lanes_of
from trnfleet.errors import ConfigError

PUBLISHED = [
    "ecc_corrected_storm",
    "hbm_uncorrectable",
    "hbm_uncorrectable_repairable",
    "sram_uncorrectable",
    "dma_abort",
    "chip_lost",
    "silent_corruption",
    "hang_compute",
    "hang_collectives",
    "link_degraded",
    "link_down",
    "z_link_down",
    "ultraserver_split",
    "efa_affinity_lost",
    "nic_down",
    "nic_failed",
    "rack_overheat",
    "chip_throttle",
    "thermal_trip",
    "power_cap",
    "straggler",
    "firmware_heartbeat_lost",
    "runtime_crash",
    "user_error",
    "loss_nan",
    "out_of_memory",
    "host_out_of_memory",
    "compile_failed",
    "planned_restart",
    "instance_reboot",
    "instance_failure",
    "instance_retirement",
    "storage_slow",
    "agent_silent",
    "transport_delay",
    "transport_drop",
    "transport_duplicate",
    "transport_reorder",
    "transport_late_reconnect",
]
"""Names that scenarios and commands use."""
NRT = {
    4: "RESOURCE",
    5: "TIMEOUT",
    6: "HW_ERROR",
    1003: "EXEC_COMPLETED_WITH_NUM_ERR",
    1206: "NETWORK_PROXY_FAILURE",
    101: "EXEC_UNIT_UNRECOVERABLE",
    1200: "EXEC_HW_ERR_COLLECTIVES",
    1201: "EXEC_HW_ERR_HBM_UE",
    1202: "EXEC_HW_ERR_NC_UE",
    1203: "EXEC_HW_ERR_DMA_ABORT",
    1205: "EXEC_HW_ERR_REPAIRABLE_HBM_UE",
}
"""Of the SDK's src/libnrt/include/nrt/nrt_status.h."""
DEVICE_DAYS = 16_384 * 54
"""Of Llama 3's training (arXiv 2407.21783): accelerators x days."""


def test_the_table_has_every_fault_under_its_name() -> None:
    """Scenarios, commands and documents use these names; a changed one breaks them."""
    assert set(PUBLISHED) <= FAULTS.keys()
    assert all(fault.name == name for name, fault in FAULTS.items())
    assert len({fault.title for fault in FAULTS.values()}) == len(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_row_agrees_with_itself_and_with_the_metrics(name: str) -> None:
    """Counters, health bits, magnitudes and statuses are valid.

    Counters are chips' counters, health bits the driver's, magnitudes in their range, statuses the
    SDK's.
    """
    fault = FAULTS[name]
    assert fault.title
    assert fault.cause
    for count in fault.counts:
        assert BY_NAME[count.metric].kind is Kind.COUNTER
        assert BY_NAME[count.metric].scope is Scope.CHIP
        assert count.at_once > 0 or count.per_s > 0
    assert set(fault.health) <= set(HEALTH_BITS)
    assert fault.least <= fault.magnitude <= fault.most
    if fault.nrt is not None:
        assert fault.nrt_name == NRT[fault.nrt]
        assert fault.runtime_log
    assert (
        (fault.effect in {Effect.DELAY, Effect.MESSAGES, Effect.CONNECTION})
        == fault.is_transport
        == (fault.scope is FaultScope.PUBLISHER)
    )
    assert set(re.findall(r"\{(\w*)\}", fault.log + fault.runtime_log)) <= {
        "nd",
        "direction",
        "nodes",
        "split",
    }
    assert fault.is_logged == bool(fault.log or fault.hw_error or fault.runtime_log)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_an_end(name: str) -> None:
    """A fault has a duration or a recovery, never both.

    A duration means no steps, and a recovery has steps that take time.
    """
    fault = FAULTS[name]
    if fault.ends_by_itself:
        assert fault.stages.total_s == 0
        assert fault.lasts_s > 0
        assert fault.reaction in {Reaction.NONE, Reaction.SLOW}, "nothing would start the job again"
    else:
        assert min(fault.stages) >= 0
        assert fault.stages.mend_s > 0
        assert fault.stages.total_s == pytest.approx(sum(fault.stages))
    if fault.reaction is Reaction.HANG:
        assert fault.stages.detect_s > 0, "a hang is seen only when time has passed"


def test_a_rate_names_its_source() -> None:
    """A rate has a source; what is set by people, or hits messages, has neither."""
    for fault in FAULTS.values():
        assert (fault.rate_per_device_day is None) == (not fault.rate_source), fault.name
        assert fault.rate_per_device_day is None or fault.rate_per_device_day > 0
        assert not fault.is_transport or fault.rate_per_device_day is None


@pytest.mark.parametrize(
    ("names", "interruptions"),
    [
        (("hbm_uncorrectable", "hbm_uncorrectable_repairable"), 72),
        (("sram_uncorrectable",), 19),
        (("link_down", "z_link_down", "ultraserver_split"), 35),
        (("dma_abort", "hang_compute", "chip_lost"), 148),
        (("nic_failed",), 7),
        (("hang_collectives",), 7),
        (("silent_corruption",), 6),
        (("thermal_trip",), 6),
        (("firmware_heartbeat_lost",), 17),
        (
            (
                "runtime_crash",
                "user_error",
                "loss_nan",
                "out_of_memory",
                "host_out_of_memory",
            ),
            54 + 2,
        ),
        (("instance_reboot",), 32),
        (("instance_failure",), 3 + 3 + 2 + 2 + 2 + 2),
    ],
)
def test_rates_are_those_of_llama_3(names: tuple[str, ...], interruptions: int) -> None:
    """Daily rates follow from 419 interruptions in 54 days on 16,384 accelerators by cause.

    Published: arXiv 2407.21783, table 5.
    """
    together = sum(FAULTS[name].rate_per_device_day or 0.0 for name in names)
    assert together == pytest.approx(interruptions / DEVICE_DAYS, rel=0.03)


def test_interruptions_add_up_to_those_of_llama_3() -> None:
    """The table has all 419 interruptions by cause (arXiv 2407.21783, table 5), one in 3.1 h."""
    for fault in FAULTS.values():
        if fault.rate_per_device_day is not None:
            assert bool(fault.interruptions) == fault.is_interruption, fault.name
    assert pytest.approx(LLAMA_3) == {
        "faulty GPU": 148,
        "GPU HBM3 memory": 72,
        "software bug": 54,
        "network switch/cable": 35,
        "host maintenance": 32,
        "GPU SRAM memory": 19,
        "GPU system processor": 17,
        "NIC": 7,
        "NCCL watchdog timeouts": 7,
        "silent data corruption": 6,
        "GPU thermal interface + sensor": 6,
        "SSD": 3,
        "power supply": 3,
        "server chassis": 2,
        "IO expansion board": 2,
        "dependency": 2,
        "CPU": 2,
        "system memory": 2,
    }
    a_day = interruptions_per_device_day()
    assert a_day * DEVICE_DAYS == pytest.approx(419)
    assert 24.0 / (a_day * 16_384) == pytest.approx(3.1, rel=0.01)


def test_a_mean_time_follows_from_rate_and_size() -> None:
    """Twice the chips, half the time.

    A fault that is never random has no mean time.
    """
    crash = FAULTS["runtime_crash"]
    assert crash.mean_between_s(16_384) == pytest.approx(54 * 86_400 / 24)
    assert crash.mean_between_s(32_768) == pytest.approx(27 * 86_400 / 24)
    assert FAULTS["power_cap"].mean_between_s(16_384) is None


def test_lost_affinity_is_the_measured_cliff() -> None:
    """Measured on trn2.48xlarge: 23.5 GB/s with wrong affinity, else 266 to 279.

    From Mooncake's EFA documents.
    """
    share = FAULTS["efa_affinity_lost"].magnitude
    assert 23.5 / 279 <= share <= 23.5 / 266 + 1e-3
    assert 1 / share == pytest.approx(11.5, abs=0.5)


def test_one_card_of_sixteen_is_lost() -> None:
    """A trn2.48xlarge has 16 EFA cards of 200 Gbit/s (the SDK's trn2 architecture page)."""
    assert FAULTS["nic_down"].magnitude == 15 / 16


def test_the_runtime_waits_its_timeout_before_a_hang_is_known() -> None:
    """Published: `execution timeout (30000 ms)` (nrt-troubleshoot)."""
    assert FAULTS["hang_compute"].stages.detect_s == 30.0
    assert "30000 ms" in FAULTS["hang_compute"].runtime_log


@pytest.mark.parametrize("name", ["hbm_uncorrectable", "sram_uncorrectable"])
def test_broken_memory_is_replaced_in_time(name: str) -> None:
    """Published: EC2's retirement notice comes within 15 minutes; the action is to replace.

    From nrt-troubleshoot.
    """
    fault = FAULTS[name]
    assert fault.recovery is Recovery.REPLACE
    assert fault.action == "TERMINATE_INSTANCE"
    assert fault.stages.total_s <= 15 * 60


def test_kernel_logs_name_errors_that_the_problem_detector_knows() -> None:
    """The node problem detector matches NEURON_HW_ERR with these four (neuron-helm-charts)."""
    known = {
        "SRAM_UNCORRECTABLE_ERROR",
        "NC_UNCORRECTABLE_ERROR",
        "HBM_UNCORRECTABLE_ERROR",
        "DMA_ERROR",
    }
    assert {fault.hw_error for fault in FAULTS.values() if fault.hw_error} <= known
    assert all(bool(fault.hw_error) == bool(fault.action) for fault in FAULTS.values())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "hbm_uncorrectable",
            ["Uncorrectable HBM memory error is detected.", "Please terminate this instance"],
        ),
        (
            "hbm_uncorrectable_repairable",
            [
                "Uncorrectable HBM memory error is detected.",
                "Please reload the neuron driver or reboot your EC2 instance",
            ],
        ),
        (
            "sram_uncorrectable",
            [
                "Uncorrectable memory error is detected, metadata: 0x16.",
                "Please terminate or stop/start this instance",
            ],
        ),
        (
            "hang_compute",
            [
                "execution timeout (30000 ms) on Neuron Device {nd} NC 0, model ",
                "waiting for execution completion notification",
            ],
        ),
        (
            "hang_collectives",
            [
                "missing collectives status on Neuron Device {nd} NC 0",
                "suspected hang in collectives operation 0 out of 100",
            ],
        ),
    ],
)
def test_runtime_logs_are_the_published_texts(name: str, parts: list[str]) -> None:
    """Published: the runtime log's text with the status, and the requested action.

    From nrt-troubleshoot.
    """
    said = FAULTS[name].runtime_log
    assert said.startswith("(FATAL-RT-UNDEFINED-STATE) ")
    assert all(part in said for part in parts)


def test_links_are_of_their_kind() -> None:
    """A torus link goes north, south, west or east; a Z link to adjacent instances."""
    assert lanes_of(TRN2U_48XLARGE, FAULTS["link_down"].links) == [NORTH, SOUTH, WEST, EAST]
    assert lanes_of(TRN2U_48XLARGE, FAULTS["z_link_down"].links) == [Z_PREV, Z_NEXT]
    assert lanes_of(TRN2U_48XLARGE, FAULTS["link_degraded"].links) == list(range(6))
    assert lanes_of(TRN2_48XLARGE, FAULTS["z_link_down"].links) == []


def test_an_unknown_fault_names_the_nearest() -> None:
    """The message for a misspelt name has the nearest."""
    with pytest.raises(ConfigError, match="unknown fault 'stragler': did you mean 'straggler'"):
        find_fault("stragler")
    assert find_fault("straggler") is FAULTS["straggler"]


@pytest.mark.parametrize(
    ("name", "lasts_s", "magnitude", "message"),
    [
        ("straggler", 0.0, None, "must be above 0"),
        ("straggler", -1.0, None, "must be above 0"),
        ("straggler", float("nan"), None, "must be above 0"),
        ("straggler", float("inf"), None, "must be above 0"),
        ("straggler", None, 0.5, "magnitude 0.5 of straggler: must be 1 to 95"),
        ("straggler", None, 95.5, "must be 1 to 95"),
        ("straggler", None, float("nan"), "must be 1 to 95"),
        ("runtime_crash", None, 1.0, "runtime_crash has no magnitude"),
    ],
)
def test_what_a_fault_cannot_be_is_refused(
    name: str, lasts_s: float | None, magnitude: float | None, message: str
) -> None:
    """The message names the limit."""
    with pytest.raises(ConfigError, match=message):
        check_use(FAULTS[name], lasts_s, magnitude)


def test_limits_themselves_are_allowed() -> None:
    """A range includes its ends."""
    for fault in FAULTS.values():
        if fault.most > fault.least:
            check_use(fault, 1.0, fault.least)
            check_use(fault, 1.0, fault.most)
