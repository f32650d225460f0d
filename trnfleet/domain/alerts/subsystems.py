"""Subsystems: the part of a fleet that a rule is about.

They separate alerts of different causes at the same place.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from trnfleet.domain.alerts.signals import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.domain.alerts.rules import Rule

SILENCE = "silence"
LINK = "link"
POWER_COOLING = "power-cooling"
CHIP_HEALTH = "chip-health"
MEMORY = "memory"
NETWORK = "network"
PROGRESS = "progress"
MAINTENANCE = "maintenance"
JOB = "job"
STEP_TIME = "step-time"
"""Subsystem of a job. The value of its alerts is the step time as a share of the usual one."""

_OF_FIGURE: Mapping[str, str] = MappingProxyType(
    {
        "temperature_c": POWER_COOLING,
        "throttle_pct": POWER_COOLING,
        "engine_util_pct": POWER_COOLING,
        "power_w": POWER_COOLING,
        "power_util_pct": POWER_COOLING,
        "power_util_max_pct": POWER_COOLING,
        "power_share_pct": POWER_COOLING,
        "host_power_w": POWER_COOLING,
        "link_up": LINK,
        "links_up": LINK,
        "links_down": LINK,
        "z_links_down": LINK,
        "link_tx_bytes_per_s": LINK,
        "link_rx_bytes_per_s": LINK,
        "interconnect": LINK,
        "health": CHIP_HEALTH,
        "mem_ecc_corrected": CHIP_HEALTH,
        "mem_ecc_uncorrected": CHIP_HEALTH,
        "mem_ecc_repairable_uncorrected": CHIP_HEALTH,
        "sram_ecc_uncorrected": CHIP_HEALTH,
        "exec_errors": CHIP_HEALTH,
        "hbm_used_bytes": MEMORY,
        "hbm_used_pct": MEMORY,
        "efa_tx_bytes_per_s": NETWORK,
        "efa_rx_bytes_per_s": NETWORK,
        "efa_retransmits": NETWORK,
        "efa_impaired_remote_conn_events": NETWORK,
        "efa_unresponsive_remote_events": NETWORK,
        "exec_completed": PROGRESS,
        "tflops": PROGRESS,
        "nc_util_pct": PROGRESS,
        "mfu_pct": PROGRESS,
        "unavailable": SILENCE,
    }
)
_OF_EVENT: Mapping[str, str] = MappingProxyType(
    {"rack_overheat": POWER_COOLING, "power_cap": POWER_COOLING, "instance_retirement": MAINTENANCE}
)
_LINK_BITS = frozenset({"link_intraserver", "link_interserver", "link_switch"})
SLOWING = frozenset({SILENCE, LINK, POWER_COOLING, NETWORK})
"""Subsystems whose trouble slows the job there: a synchronous job waits for its slowest part."""
STOPPING = SLOWING - {POWER_COOLING}
"""Subsystems whose trouble can also end the job, or leave it without instances. Heat and power
limits cannot."""
_TRAFFIC = frozenset(
    {"link_tx_bytes_per_s", "link_rx_bytes_per_s", "efa_tx_bytes_per_s", "efa_rx_bytes_per_s"}
)
"""Figures of traffic: less of it slows a job."""


def subsystem_of(rule: Rule) -> str:
    """Return the subsystem of a rule, or the rule's name if its figure has none."""
    if rule.scope is Scope.JOB:
        is_pace = rule.figure == "step_time_s" and rule.share_of_median_of is not None
        return STEP_TIME if is_pace else JOB
    if rule.scope in {Scope.PUBLISHER, Scope.PIPELINE}:
        return rule.name
    if rule.absent:
        return SILENCE
    figure = rule.figure or ""
    if figure == "events":
        return _OF_EVENT.get(rule.named[0], rule.name) if rule.named else rule.name
    if figure == "health":
        return of_health(rule.has or ())
    return _OF_FIGURE.get(figure, rule.name)


def can_stop(subsystem: str, figure: str) -> bool:
    """Return whether an alert's trouble can end a job or leave it without instances.

    A lost link can, a slow one cannot.
    """
    return subsystem in STOPPING and figure not in _TRAFFIC


def of_health(bits: tuple[str, ...] | frozenset[str]) -> str:
    """Return the subsystem of a chip's health bits."""
    if bits and set(bits) <= _LINK_BITS:
        return LINK
    return NETWORK if set(bits) == {"link_efa"} else CHIP_HEALTH
