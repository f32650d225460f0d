"""The problems of a monitored fleet: what the search reads, taken from the state of a monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.monitor.problems.grouping import Named
from trnfleet.monitor.problems.impact import STEP_TIME_FIGURE, JobsAt
from trnfleet.monitor.problems.search import Fleet, search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.problems.problem import Problems
    from trnfleet.monitor.store.findings import Findings


def problems_of(
    state: FleetState,
    active: Sequence[AlertWithStatus],
    *,
    findings: Findings | None = None,
    rules: tuple[Rule, ...] | None = None,
    now_ns: int | None = None,
) -> Problems:
    """Return the problems of a fleet.

    Args:
        state: The fleet as of the last pass.
        active: Its alerts, evaluated here or published.
        findings: Those to look at; by default those of the last pass.
        rules: The rules that decide which findings are problems; by default those that are evaluated here.
        now_ns: Monitor time; by default that of the last evaluation.
    """
    alerts, ingest, store = state.alerts, state.ingest, state.store
    jobs = ingest.jobs
    running = JobsAt(jobs, store.job_of, lambda name: alerts.usual(STEP_TIME_FIGURE, name))
    named = Named(
        {name: job.on for name, job in jobs.items()},
        {each.message.id: each.message.on for each in state.reservations.table()},
    )
    known = alerts.rules if rules is None else rules
    instant_ns = alerts.instant.now_ns if now_ns is None else now_ns
    fleet = Fleet(store.layout, running, named, alerts.silences, known, instant_ns)
    return search(active, state.findings if findings is None else findings, fleet)
