"""Alerts of the shipped rules in each scenario and for each fault, tick by tick.

The suite plays some in ticks of a second, `make long` all.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.monitor.alert_run import AlertRun, as_rows

from trnfleet.config import shipped_names
from trnfleet.domain.alerts.subsystems import LINK, subsystem_of
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.scenario import FaultEntry
from trnfleet.services.files.rules import load_rules

EXPECTED = Path(__file__).parent / "expected"
CHIP = "uc1/us-0001/trn2u-0001-1/chip06"
INSTANCE = "uc1/us-0001/trn2u-0001-1"
JOB = "pretrain-405b"

CAUGHT_BY: dict[str, tuple[str, str, str]] = {
    "ecc_corrected_storm": (CHIP, "ecc-rate", INSTANCE),
    "hbm_uncorrectable": (CHIP, "hbm-uncorrectable", INSTANCE),
    "hbm_uncorrectable_repairable": (CHIP, "hbm-uncorrectable", INSTANCE),
    "sram_uncorrectable": (CHIP, "sram-uncorrectable", INSTANCE),
    "dma_abort": (CHIP, "unhealthy", INSTANCE),
    "chip_lost": (CHIP, "unhealthy", INSTANCE),
    "silent_corruption": (CHIP, "exec-errors", INSTANCE),
    "hang_compute": (CHIP, "job-hung", JOB),
    "hang_collectives": (CHIP, "job-hung", JOB),
    "link_degraded": (f"{CHIP}:south", "job-slow", JOB),
    "link_down": (f"{CHIP}:east", "link-down", INSTANCE),
    "z_link_down": (f"{CHIP}:z_next", "link-down", INSTANCE),
    "ultraserver_split": ("uc1/us-0001", "ring-split", "uc1/us-0001"),
    "efa_affinity_lost": (INSTANCE, "efa-retransmits", INSTANCE),
    "nic_down": (INSTANCE, "efa-link-down", INSTANCE),
    "nic_failed": (INSTANCE, "efa-link-down", INSTANCE),
    "rack_overheat": (INSTANCE, "overheated", "uc1/us-0001"),
    "chip_throttle": (f"{INSTANCE}/chip07", "overheated", "uc1/us-0001"),
    "thermal_trip": (CHIP, "unhealthy", INSTANCE),
    "power_cap": (INSTANCE, "rack-throttled", "uc1/us-0001"),
    "straggler": (CHIP, "straggler", INSTANCE),
    "firmware_heartbeat_lost": (CHIP, "unhealthy", INSTANCE),
    "runtime_crash": (CHIP, "job-failed", JOB),
    "user_error": (INSTANCE, "job-failed", JOB),
    "loss_nan": (INSTANCE, "job-failed", JOB),
    "out_of_memory": (INSTANCE, "job-failed", JOB),
    "host_out_of_memory": (INSTANCE, "job-failed", JOB),
    "compile_failed": (INSTANCE, "job-failed", JOB),
    "planned_restart": (INSTANCE, "job-failed", JOB),
    "instance_reboot": (INSTANCE, "instance-silent", INSTANCE),
    "instance_failure": (INSTANCE, "instance-silent", INSTANCE),
    "instance_retirement": (INSTANCE, "retirement-notice", INSTANCE),
    "storage_slow": ("uc1", "checkpoint-stall", "pretrain-70b"),
    "agent_silent": (INSTANCE, "instance-silent", INSTANCE),
    "transport_delay": ("*", "lag", "pipeline"),
    "transport_drop": ("*", "messages-lost", "pipeline"),
    "transport_duplicate": ("*", "messages-twice", "pipeline"),
    "transport_reorder": ("*", "messages-late", "pipeline"),
    "transport_late_reconnect": ("*", "publisher-offline", "sim-1"),
}
"""Place of each fault, and a rule catching it with the alert's target.

A degraded link delays all of its peers equally and carries the same traffic. It is visible only in
its job's steps.
"""

CAUGHT_ON_HOSTS = {
    "link_down": ("link-down-health", "link-down"),
    "z_link_down": ("z-link-down-health", "link-down"),
    "ultraserver_split": ("ring-split-health", "ring-split"),
}
"""Rules about health bits, and the rules that inhibit them where links have figures."""

BEGINS_S = 12.0
"""Start of each fault, in a fleet without alerts until then."""

BY_SECONDS = ("efa-cliff",)
"""Scenarios the suite plays in ticks of a second: one with a step back."""


def read(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((EXPECTED / f"{name}.json").read_text())
    return parsed


def finer() -> list[str]:
    """Return the scenarios with possible ticks finer than in the other test."""
    return [
        name
        for name in shipped_names("scenarios")
        if read(name)["tick_s"] != read(name)["coarse_tick_s"]
    ]


def test_every_scenario_has_expectations() -> None:
    """Every scenario has an expectation file."""
    assert sorted(path.stem for path in EXPECTED.glob("*.json")) == shipped_names("scenarios")


@pytest.mark.parametrize("name", shipped_names("scenarios"))
async def test_scenario(name: str) -> None:
    """The alerts of a scenario fire and resolve as in its file, with no others."""
    expected = read(name)
    run = AlertRun(name, period_s=expected["coarse_tick_s"])
    assert as_rows(await run.play(expected["seconds"])) == expected["coarse_alerts"]


@pytest.mark.parametrize(
    "name",
    [
        name if name in BY_SECONDS else pytest.param(name, marks=pytest.mark.long)
        for name in finer()
    ],
)
async def test_scenario_by_seconds(name: str) -> None:
    """In ticks of a second a scenario's alerts are right to the second."""
    expected = read(name)
    run = AlertRun(name, period_s=expected["tick_s"])
    assert as_rows(await run.play(expected["seconds"])) == expected["alerts"]


async def test_a_healthy_day() -> None:
    """A simulated day of steady training fires nothing."""
    run = AlertRun("steady-training", period_s=300.0)
    assert await run.play(86_400) == []
    assert run.monitor.alerts.evaluations == 288


def test_every_fault_is_in_the_table() -> None:
    """Every fault has a rule in the table, and every rule exists."""
    assert CAUGHT_BY.keys() == FAULTS.keys()
    assert {rule for _, rule, _ in CAUGHT_BY.values()} <= {rule.name for rule in load_rules()}


@pytest.mark.parametrize("fault", FAULTS)
async def test_fault(fault: str) -> None:
    """A new alert fires on the target of each fault in the simulator's table."""
    target, rule, on = CAUGHT_BY[fault]
    entry = FaultEntry.model_validate({"fault": fault, "target": target, "at": BEGINS_S})
    run = AlertRun(faults=[entry])
    told = await run.play(600, until=(rule, on))
    assert [each for each in told if each.at_s < BEGINS_S] == []
    fired = {(each.rule, each.target): each.at_s for each in told if each.kind == "firing"}
    assert (rule, on) in fired, sorted(fired)


@pytest.mark.parametrize("as_host", [False, True])
@pytest.mark.parametrize("fault", CAUGHT_ON_HOSTS)
async def test_a_lost_link_is_one_alert(fault: str, *, as_host: bool) -> None:
    """Health bits tell of lost links on a host, and add no alert where links have figures."""
    entry = FaultEntry.model_validate({"fault": fault, "target": CAUGHT_BY[fault][0], "at": 30.0})
    run = AlertRun(faults=[entry], as_host=as_host)
    told = await run.play(42)
    rules = {rule.name for rule in load_rules() if subsystem_of(rule) == LINK}
    loud = {alert.rule for alert in told if alert.rule in rules and not alert.is_quieted}
    assert loud == {CAUGHT_ON_HOSTS[fault][not as_host]}, told


@pytest.mark.parametrize("fault", ["dma_abort", "firmware_heartbeat_lost"])
async def test_an_error_of_the_driver_with_a_health_bit_is_one_alert(fault: str) -> None:
    """Its event alone fires where a host has no such bit; here the rule on the bit is enough."""
    entry = FaultEntry.model_validate({"fault": fault, "target": CHIP, "at": BEGINS_S})
    run = AlertRun(faults=[entry], period_s=10.0)
    told = await run.play(400)
    ends = {alert.rule: alert.at_s for alert in told if alert.kind == "resolved"}
    assert ends["driver-error"] <= ends["unhealthy"]
    firing = [alert for alert in told if alert.kind == "firing" and alert.rule == "driver-error"]
    assert [alert.is_quieted for alert in firing] == [True]


async def test_a_job_that_stops_names_its_chip() -> None:
    """The alert of a failed job names the causing chip in its labels and summary."""
    entry = FaultEntry.model_validate({"fault": "sram_uncorrectable", "target": CHIP, "at": 30.0})
    run = AlertRun(faults=[entry])
    await run.play(60)
    alert = next(each for each in run.monitor.alerts.active() if each.name == "job-failed")
    assert alert.target == JOB
    assert alert.cause == f"{CHIP} (sram_uncorrectable)"
    assert alert.place == CHIP


async def test_a_dead_ultraserver_is_one_alert() -> None:
    """Four silent agents of an UltraServer are one alert with 64 chips.

    The rest is inhibited.
    """
    entry = FaultEntry.model_validate(
        {"fault": "agent_silent", "target": "uc1/us-0002/*", "at": 30.0}
    )
    run = AlertRun(faults=[entry])
    told = await run.play(60)
    assert [(each.rule, each.target) for each in told if not each.is_quieted] == [
        ("ultraserver-silent", "uc1/us-0002")
    ]
    alert = run.monitor.alerts.active()[0]
    assert (alert.name, alert.chips, alert.place) == ("ultraserver-silent", 64, "uc1/us-0002")
    others = [each for each in run.monitor.alerts.active() if each is not alert]
    assert {each.inhibited_by for each in others} == {alert.fingerprint}
    assert {each.name for each in others} == {"instance-silent", "chips-silent"}
