"""Problems of a monitored fleet: the search's input from the monitor's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.reach import Known
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.layout import EMPTY_LAYOUT
from trnfleet.monitor.problems.grouping import Named
from trnfleet.monitor.problems.impact import STEP_TIME_FIGURE, JobsAt
from trnfleet.monitor.problems.search import Fleet, search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.problems.problem import Problems
    from trnfleet.monitor.store.findings import Findings


def jobs_of(state: FleetState) -> JobsAt:
    """Return the jobs of a fleet, their instances, and their usual step times."""
    jobs = state.ingest.job_table
    alerts = state.alerts
    return JobsAt(
        jobs.by_key,
        state.store.job_of,
        jobs.last_known,
        lambda name: alerts.usual(STEP_TIME_FIGURE, name),
    )


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
        findings: By default the findings of the last pass.
        rules: Rules to decide if a finding is a problem; by default the rules evaluated here.
        now_ns: Monitor time; by default that of the last evaluation.
    """
    alerts = state.alerts
    ingest = state.ingest
    store = state.store
    jobs = ingest.jobs
    running = jobs_of(state)
    named = Named(
        {name: job.on for name, job in jobs.items()},
        {reservation.message.id: reservation.on for reservation in state.reservations.table()},
    )
    known = alerts.rules if rules is None else rules
    instant_ns = alerts.instant.now_ns if now_ns is None else now_ns
    fleet = Fleet(store.layout, running, named, alerts.silences, known, ingest.names, instant_ns)
    return search(active, state.findings if findings is None else findings, fleet)


def known_of(
    state: FleetState, alerts: Sequence[Alert], rules: Sequence[Rule], *, is_complete: bool = True
) -> Known:
    """Return all possible subjects of the fleet's alerts, to judge a silence.

    Args:
        state: The fleet as of the last pass.
        alerts: Its active alerts. Alerts of cells are left out: no silence here matches them.
        rules: The rules evaluated by a watch.
        is_complete: Whether everything is described.
    """
    return Known(
        state.fleet_name,
        rules,
        state.store.layout if is_complete else EMPTY_LAYOUT,
        state.store.job_of,
        {
            Scope.JOB: list(state.ingest.jobs),
            Scope.RESERVATION: [
                reservation.message.id for reservation in state.reservations.table()
            ],
            Scope.CAP: list(state.caps),
            Scope.PUBLISHER: state.ingest.publishers.traffic.names[1:],
        },
        [alert for alert in alerts if not alert.cell],
    )
