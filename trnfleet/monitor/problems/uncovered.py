"""Findings without a rule: problems without an alert."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.subsystems import (
    CHIP_HEALTH,
    LINK,
    MEMORY,
    POWER_COOLING,
    SILENCE,
    STOPPING,
    of_health,
)
from trnfleet.domain.alerts.watches import Word, word_of
from trnfleet.monitor.problems.places import has
from trnfleet.monitor.problems.problem import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.findings import Finding


class CellWatch(NamedTuple):
    """Watches of a cell, as forwarded by its relay."""

    cell: str
    is_observed: bool
    """Whether a relay sees it at present."""
    word: Word

    @property
    def doubt(self) -> str:
        """Why its alerts may not be as they are shown; empty where they are."""
        if not self.is_observed:
            return "not observed, its alerts are as last known"
        doubts = "; ".join(self.word.doubts)
        return doubts or ("" if self.word.leader is not None else "no watch publishes its alerts")


def cells_of(state: FleetState) -> tuple[CellWatch, ...]:
    """Return the cells with a descriptor or alerts, with their watches."""
    ingest = state.ingest
    now_s = state.clock.monotonic_s()
    observed = ingest.cells.seen(state.store.rolled.cells_observed(), now_s)
    firing = state.alerts.cells.by_cell
    return tuple(
        CellWatch(
            cell,
            observed.get(cell, False),
            word_of(ingest.cells.watches(cell, now_s), firing.get(cell, 0)),
        )
        for cell in sorted({*observed, *firing})
    )


def are_watched(cells: Sequence[CellWatch]) -> bool:
    """Return whether there are cells, and a watch leads in each."""
    return bool(cells) and all(cell.word.leader is not None for cell in cells)


def doubts_of(cells: Sequence[CellWatch]) -> tuple[str, ...]:
    """Return the reasons to doubt alerts of cells, one line per affected cell."""
    return tuple(f"cell {cell.cell}: {cell.doubt}" for cell in cells if cell.doubt)


SUBSYSTEM_OF: Mapping[str, str] = MappingProxyType(
    {
        "silent": SILENCE,
        "job": "job",
        "unhealthy": CHIP_HEALTH,
        "uncorrected": CHIP_HEALTH,
        "link down": LINK,
        "link slow": LINK,
        "throttled": POWER_COOLING,
        "hot": POWER_COOLING,
        "HBM full": MEMORY,
    }
)
"""The subsystem of each kind of finding."""
_FIGURES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "link down": frozenset({"link_up", "links_down", "links_up"}),
        "link slow": frozenset({"link_tx_bytes_per_s"}),
        "throttled": frozenset({"throttle_pct"}),
        "hot": frozenset({"temperature_c"}),
        "HBM full": frozenset({"hbm_used_pct", "hbm_used_bytes"}),
    }
)
"""Figures of each kind for rules. A rule about one decides, with its own limit and time."""


def subsystem_of(finding: Finding) -> str:
    """Return the subsystem of a finding."""
    if finding.kind == "unhealthy":
        return of_health(_bits(finding))
    return SUBSYSTEM_OF.get(finding.kind, finding.kind)


def can_stop(finding: Finding) -> bool:
    """Return whether a finding can end a job or take its instances.

    A slow link only slows it.
    """
    return subsystem_of(finding) in STOPPING and finding.kind != "link slow"


def uncovered(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    active: Sequence[AlertWithStatus],
    layout: Layout,
) -> list[Finding]:
    """Return the findings without a rule.

    Of the rest of a chip's health, return findings without an alert there.

    Args:
        findings: All findings.
        rules: The evaluated rules.
        active: Alerts, including pending ones.
        layout: The hierarchy.
    """
    rules = tuple(rules)
    scopes = {rule.scope for rule in rules if rule.absent}
    figures = {rule.figure for rule in rules}
    watched = {kind for kind, looked_at in _FIGURES.items() if looked_at & figures}
    if scopes & {Scope.INSTANCE, Scope.CHIP}:
        watched.add("silent")
    if any(rule.scope is Scope.JOB and rule.figure == "state" for rule in rules):
        watched.add("job")
    left = [finding for finding in findings if finding.kind not in watched]
    if not left:
        return []
    placed = [held.alert for held in active if held.alert.rule.scope in LEVEL_OF]
    return [
        finding
        for finding in left
        if not any(
            alert.subsystem == subsystem_of(finding)
            and has(Place(address_of(alert)), Place(finding.path), layout)
            for alert in placed
        )
    ]


def _bits(finding: Finding) -> frozenset[str]:
    return frozenset(finding.what.partition(": ")[2].split(", "))
