"""Files of alert rules: shipped ones by name, or the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.bridge.host.efa import EFA_METRICS
from trnfleet.bridge.host.identity import NOTICES
from trnfleet.bridge.host.kernel_log import KERNEL_EVENTS
from trnfleet.bridge.neuron.host_reader import EXPORTER, NEURON_MONITOR, OBSERVER
from trnfleet.bridge.neuron.sysfs import SYSFS
from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.alerts.rules import Rule, RuleFile, join_rules
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.metrics import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KIND = "alerts"
"""Folder of the shipped rule files in `config/`."""


def load_rules(names: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Return the rules of some files as one pack; of all shipped files for none.

    Args:
        names: Names of shipped files, or paths.

    Raises:
        ConfigError: a file is missing or invalid, two rules have one name, or one inhibits a rule
            that does not exist.
    """
    files = [find_file(KIND, name) for name in (names or shipped_names(KIND))]
    # Shipped files inhibit each other's rules; one of them alone is valid all the same.
    elsewhere = shipped_rules() if names else []
    return join_rules(
        ((str(file), load_model(file, RuleFile)) for file in files), elsewhere=elsewhere
    )


SOURCES: dict[str, tuple[str, ...]] = {
    "simulator": tuple(metric.name for metric in SIMULATED),
    "agent": (*NEURON_MONITOR, *SYSFS, *EFA_METRICS),
    "neuron-monitor": NEURON_MONITOR,
    "exporter": EXPORTER,
    "Observer": OBSERVER,
}
"""Metrics of each kind of source; the exporter is neuron-monitor-prometheus."""
HOST_EVENTS = KERNEL_EVENTS.union(
    NOTICES.values(), ("device_not_answering", "device_gone", "firmware_heartbeat_lost")
)
"""Names of the agent's events about hardware."""
_EVENTS = {"simulator": frozenset(FAULTS), "agent": HOST_EVENTS}


def seen_by(rule: Rule) -> dict[str, str]:
    """Return what a rule needs for each kind of source: `sees`, or what it lacks.

    Only the simulator publishes messages about jobs. Claims come from the agent, and from process
    tags in documents and in texts.
    """
    named = {name for part in rule.conditions for name in part.named}
    seen = {}
    for source, metrics in SOURCES.items():
        lacks = [name for name in rule.metrics if name not in metrics]
        if named and named.isdisjoint(_EVENTS.get(source, ())):
            lacks.append("such events")
        if source == "simulator" and any(part.equals == "claimed" for part in rule.conditions):
            lacks.append("claims")
        if lacks:
            seen[source] = f"no {', '.join(lacks)}"
        elif source == "simulator" or not rule.needs_jobs:
            seen[source] = "sees"
        else:
            seen[source] = "needs job messages" if rule.needs_job_messages else "needs claims"
    return seen


def shipped_rules(other_than: Path | None = None) -> list[str]:
    """Return the names of the shipped rules, except for the file `other_than`."""
    files = [find_file(KIND, name) for name in shipped_names(KIND)]
    own = None if other_than is None else other_than.resolve()
    return [
        rule.name
        for file in files
        if file.resolve() != own
        for rule in load_model(file, RuleFile).rules
    ]
