"""Fleet faults at random times, and their alerts from an undisturbed run in memory."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from support.monitor.alert_run import AlertRun

from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.fleet import Publishing
from trnfleet.domain.scenario import FaultEntry
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from trnfleet.domain.alerts.rules import Rule

OWN = frozenset({"pipeline", "publisher"})
"""Scopes of alerts about the data path. Disturbances do cause these."""
HISTORICAL = frozenset({"job-slow", "efa-cliff"})
"""Rules comparing with the last half hour. A watch restarted since has not seen it."""
_INSTANCES = [
    f"uc1/us-000{server}/trn2u-000{server}-{place}" for server in (1, 2) for place in range(4)
]
_LONG = (
    "link_down",
    "z_link_down",
    "ecc_corrected_storm",
    "hbm_uncorrectable",
    "sram_uncorrectable",
    "dma_abort",
    "hang_compute",
    "nic_down",
    "rack_overheat",
    "chip_throttle",
    "power_cap",
    "straggler",
    "firmware_heartbeat_lost",
    "runtime_crash",
    "instance_reboot",
    "instance_retirement",
    "agent_silent",
    "ultraserver_split",
    "chip_lost",
    "silent_corruption",
    "nic_failed",
    "thermal_trip",
    "instance_failure",
)
_SHORT = {
    "ecc_corrected_storm": 3.0,
    "straggler": 4.0,
    "rack_overheat": 5.0,
    "power_cap": 4.0,
    "nic_down": 1.0,
    "agent_silent": 2.0,
    "link_degraded": 1.0,
}
"""Faults ending well before their rule's `for`, with their seconds."""


class Interval(NamedTuple):
    """A time of firing in seconds after the fleet's start.

    The end is open if it fires at the run's end.
    """

    begin_s: float
    end_s: float


class Script(NamedTuple):
    """Faults, and what they must lead to."""

    faults: list[FaultEntry]
    short: int
    """Number of faults too short for an alert."""
    alerts: dict[str, list[Interval]]
    """By rule and target, when the alert fires and is not inhibited."""
    inhibited: set[str]
    """Alerts that fire, but not without being inhibited."""

    def kinds(self) -> Counter[str]:
        """Return the number of faults by kind."""
        return Counter(each.fault for each in self.faults)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}:"
            f" {', '.join(f'{each.begin_s:.0f} to {each.end_s:.0f} s' for each in intervals)}"
            for name, intervals in self.alerts.items()
        )

    def firing(self, at_s: float, within_s: float = 0.0) -> set[str]:
        """Return the alerts firing at an instant, or at some time around it."""
        return {
            name
            for name, intervals in self.alerts.items()
            if any(
                each.begin_s <= at_s + within_s and at_s - within_s < each.end_s
                for each in intervals
            )
        }

    def held(self, at_s: float, restarts_s: Sequence[float]) -> set[str]:
        """Return the alerts a restarted watch may still have, without having seen the cause.

        They go back as far as their rules look.

        Args:
            at_s: The instant.
            restarts_s: Times of watch restarts.
        """
        rules = {rule.name: rule for rule in load_rules()}
        return {
            name
            for name, intervals in self.alerts.items()
            for restart_s in restarts_s
            if any(each.begin_s <= restart_s for each in intervals)
            and at_s < restart_s + _looks_back_s(rules[name.partition(" ")[0]])
        }

    def unheard(self, outages_s: Sequence[tuple[float, float]]) -> set[str]:
        """Return the alerts of increases that no telemetry may have shown.

        Their targets were gone, and the counters with them, before the source was heard again.

        Args:
            outages_s: Begin of each outage of the source or its broker, and when it had been heard
                again.
        """
        rules = {rule.name: rule for rule in load_rules()}
        return {
            name
            for name, intervals in self.alerts.items()
            if rules[name.partition(" ")[0]].window_s is not None
            and any(
                begin_s <= each.begin_s and each.end_s <= end_s
                for each in intervals
                for begin_s, end_s in outages_s
            )
        }


def _looks_back_s(rule: Rule) -> float:
    return 0.0 if rule.window_s is None else rule.window_s + rule.keep_firing_for_s


def draw(random: Random, seconds: float, *, begin_s: float, count: int) -> list[FaultEntry]:
    """Return faults ending before `seconds`, each on another instance.

    A third of them is too short for an alert.
    """
    faults: list[FaultEntry] = []
    free = random.sample(_INSTANCES, len(_INSTANCES))
    while len(faults) < count and free:
        is_short = len(faults) % 3 == 2
        name = random.choice(list(_SHORT) if is_short else _LONG)
        if name == "ultraserver_split" and len(free) < 6:
            continue
        at_s = round(random.uniform(begin_s, max(begin_s + 1, 0.55 * seconds)))
        lasts_s = (
            _SHORT[name] if is_short else round(random.uniform(40, max(45, 0.7 * seconds - at_s)))
        )
        faults.append(
            FaultEntry.model_validate(
                {
                    "fault": name,
                    "target": _target(name, free, random),
                    "at": f"{at_s}s",
                    "for": f"{lasts_s:g}s",
                }
            )
        )
    return faults


def _target(name: str, free: list[str], random: Random) -> str:
    instance = free.pop()
    if name == "ultraserver_split":
        return instance.rpartition("/")[0]
    if name in {
        "nic_down",
        "nic_failed",
        "rack_overheat",
        "power_cap",
        "instance_reboot",
        "instance_failure",
        "instance_retirement",
        "agent_silent",
    }:
        return instance
    chip = f"{instance}/chip{random.randrange(16):02d}"
    if name in {"link_down", "link_degraded"}:
        return f"{chip}:{random.choice(('east', 'west', 'north', 'south'))}"
    return f"{chip}:{random.choice(('z_next', 'z_prev'))}" if name == "z_link_down" else chip


def _as_toml(faults: list[FaultEntry]) -> str:
    start = datetime.now(UTC).replace(microsecond=0).isoformat()
    entries = (
        f'[[faults]]\nfault = "{each.fault}"\ntarget = "{each.target}"\nat = "{each.at:g}s"\nfor ='
        f' "{each.lasts_s:g}s"\n'
        for each in faults
    )
    return f'title = "Faults by chance"\nfleet = "demo"\nstart = {start}\n' + "".join(entries)


def play(faults: list[FaultEntry], seconds: float, folder: Path) -> Script:
    """Play the faults undisturbed, from the scenario file written for the simulator."""
    file = folder / "faults.toml"
    file.write_text(_as_toml(faults), encoding="utf-8")
    run = AlertRun(str(file), publishing=Publishing(format="json", granularity="chip"))
    found: dict[str, list[Interval]] = defaultdict(list)
    quieted: set[str] = set()
    now_s = 0.0

    def look() -> None:
        nonlocal now_s
        for alert in run.monitor.alerts.active():
            if alert.state is not AlertState.FIRING or alert.rule.scope in OWN:
                continue
            name = f"{alert.name} {alert.target}"
            if alert.inhibited_by:
                quieted.add(name)
            elif found[name] and found[name][-1].end_s >= now_s - 0.5:
                found[name][-1] = found[name][-1]._replace(end_s=now_s + 1)
            else:
                found[name].append(Interval(now_s, now_s + 1))
        now_s += 1

    run.on_tick = look
    asyncio.run(run.play(seconds))
    alerts = {name: intervals for name, intervals in found.items() if intervals}
    short = sum(each.lasts_s == _SHORT.get(each.fault) for each in faults)
    return Script(faults, short, alerts, quieted - set(alerts))
