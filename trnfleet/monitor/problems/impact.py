"""What problems cost jobs: which run there, whether they are down, and by how much their steps take longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.alerts import subsystems
from trnfleet.domain.alerts.signals import Scope
from trnfleet.monitor.problems.places import instances_of
from trnfleet.monitor.problems.problem import JobImpact
from trnfleet.monitor.store.findings import JOBS_DOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.problems.problem import Place
    from trnfleet.wire.messages import JobMessage

LEAST_SLOWDOWN_PCT = 3.0
"""Below this, steps vary by themselves."""
STEP_TIME_FIGURE = "step_time_s"
_WITHOUT_STEPS = frozenset({*JOBS_DOWN, "starting"})
"""States of jobs in which figures of steps are those of before."""


class JobsAt(NamedTuple):
    """Jobs, where they run, and the time that their steps usually take."""

    jobs: Mapping[str, JobMessage]
    """By name, in the order of the numbers in `job_of`."""
    job_of: NDArray[np.signedinteger]
    """The number of the job of each instance; negative for none."""
    usual_step_s: Callable[[str], float | None]
    """The time that a step of a job usually takes; None where that is not known."""


def impacts(
    alerts: Iterable[Alert],
    subsystem: str,
    place: Place,
    layout: Layout,
    running: JobsAt,
    *,
    can_stop: bool,
) -> tuple[JobImpact, ...]:
    """Return the jobs that a problem hurts: those whose alerts name it, and those that it can slow down or stop where it is.

    Args:
        alerts: Those of the problem.
        subsystem: Its subsystem; of those that slow no job, only jobs count whose alerts are among its own.
        place: Where it is.
        layout: The hierarchy.
        running: The jobs.
        can_stop: Whether it can end jobs; of those that are down it hurts none otherwise but those whose alerts it has.
    """
    found: dict[str, JobImpact] = {}
    for alert in alerts:
        if alert.rule.scope is not Scope.JOB:
            continue
        job = running.jobs.get(alert.target)
        known = found.get(alert.target)
        slowdown = None if job is not None and job.state in _WITHOUT_STEPS else _of_alert(alert)
        if slowdown is None and known is not None:
            slowdown = known.slowdown_pct
        if slowdown is None and job is not None:
            slowdown = slowdown_pct(job, running)
        found[alert.target] = JobImpact(
            alert.target, "" if job is None else job.state, slowdown, is_attributed=True
        )
    if subsystem in subsystems.SLOWING:
        for name in _names_at(place, layout, running):
            job = running.jobs[name]
            slowdown = slowdown_pct(job, running)
            is_down = can_stop and job.state in JOBS_DOWN
            if name not in found and (is_down or slowdown is not None):
                found[name] = JobImpact(name, job.state, slowdown)
    return tuple(sorted(found.values(), key=_order))


def slowdown_pct(job: JobMessage, running: JobsAt) -> float | None:
    """Return by how much a job's steps take longer than usual, in %; None below what steps vary by, and where nothing is known."""
    usual_s = running.usual_step_s(job.job)
    if job.state in _WITHOUT_STEPS or not usual_s or job.step_time_s is None:
        return None
    percent = 100.0 * (job.step_time_s / usual_s - 1.0)
    return percent if percent >= LEAST_SLOWDOWN_PCT else None


def _of_alert(alert: Alert) -> float | None:
    """Return the slowdown that an alert about a job's step time says, in %; None where it may be over, since the alert comes and goes."""
    is_pace = alert.subsystem == subsystems.STEP_TIME and not alert.is_flapping
    return 100.0 * (alert.value - 1.0) if is_pace and alert.value is not None else None


def _names_at(place: Place, layout: Layout, running: JobsAt) -> Sequence[str]:
    instances = instances_of(place, layout)
    if not isinstance(instances, range):
        numbers = running.job_of[np.array(list(instances), np.int64)]
    else:
        numbers = running.job_of[instances.start : instances.stop]
    names = list(running.jobs)
    return [names[number] for number in sorted(set(numbers.tolist())) if 0 <= number < len(names)]


def _order(impact: JobImpact) -> tuple[bool, bool, float, str]:
    return (
        impact.state not in JOBS_DOWN,
        not impact.is_attributed,
        -(impact.slowdown_pct or 0.0),
        impact.job,
    )
