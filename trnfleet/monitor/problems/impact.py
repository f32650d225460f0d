"""Impact of problems on jobs: affected jobs, their state, and their slowdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.alerts import subsystems
from trnfleet.domain.alerts.signals import Scope
from trnfleet.monitor.problems.places import instances_of
from trnfleet.monitor.problems.problem import JobImpact, Place
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.monitor.store.last_known import LAST_KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.layout import Layout
    from trnfleet.wire.messages import JobMessage

LEAST_SLOWDOWN_PCT = 3.0
"""Below this, steps vary by themselves."""
STEP_TIME_FIGURE = "step_time_s"
STATE_FIGURE = "state"
_WITHOUT_STEPS = frozenset({*JOBS_DOWN, "starting", "compiling", "loading"})
"""Job states with outdated step figures."""


class JobsAt(NamedTuple):
    """Jobs, their instances, and their usual step times."""

    jobs: Mapping[str, JobMessage]
    """By name, in the order of the numbers in `job_of`."""
    job_of: NDArray[np.signedinteger]
    """The number of the job of each instance; negative for none."""
    last_known: Collection[str]
    """Jobs without a live chip: they have no pace."""
    usual_step_s: Callable[[str], float | None]
    """Usual step time of a job. None if unknown."""

    def slowdown_pct(self, job: JobMessage) -> float | None:
        """Return the slowdown of the last step in %.

        None if the job makes no steps.
        """
        usual_s = self.usual_step_s(job.job)
        if not self._has_steps(job) or not usual_s or job.step_time_s is None:
            return None
        return 100.0 * (job.step_time_s / usual_s - 1.0)

    def lacks_base(self, job: JobMessage) -> bool:
        """Return whether a job makes steps without a known usual step time."""
        return self._has_steps(job) and not self.usual_step_s(job.job)

    def state_of(self, job: JobMessage) -> str:
        """Return the state of a job.

        Without a live chip, only a state in need of help is returned.
        """
        is_known = job.job not in self.last_known or job.state in JOBS_DOWN
        return job.state if is_known else LAST_KNOWN

    def _has_steps(self, job: JobMessage) -> bool:
        return job.state not in _WITHOUT_STEPS and job.job not in self.last_known


def impacts(
    alerts: Iterable[Alert],
    subsystem: str,
    place: Place,
    layout: Layout,
    running: JobsAt,
    *,
    can_stop: bool,
) -> tuple[JobImpact, ...]:
    """Return the jobs affected by a problem.

    Jobs count if the problem includes their alerts, or if it can slow or stop them at its place.

    Args:
        alerts: Alerts of the problem.
        subsystem: Its subsystem. If that cannot slow jobs, only jobs with alerts in the problem
            count.
        place: Its place.
        layout: The hierarchy.
        running: The jobs.
        can_stop: Whether it can end jobs. Otherwise down jobs count only with alerts in the
            problem.
    """
    by_job: dict[str, JobImpact] = {}
    for alert in alerts:
        if alert.rule.scope is not Scope.JOB:
            continue
        job = running.jobs.get(alert.target)
        known = by_job.get(alert.target)
        slowdown = _cost_pct(job, running)
        if slowdown is None and known is not None:
            slowdown = known.slowdown_pct
        if slowdown is None and (job is None or running.lacks_base(job)):
            # The watch whose alert it is knows the base.
            slowdown = _of_alert(alert)
        state = "" if job is None else running.state_of(job)
        down_since_ns = None if known is None else known.down_since_ns
        if state in JOBS_DOWN and alert.figure == STATE_FIGURE:
            down_since_ns = alert.since_ns
        by_job[alert.target] = JobImpact(
            alert.target, state, slowdown, is_attributed=True, down_since_ns=down_since_ns
        )
    if subsystem in subsystems.SLOWING:
        for name in _names_at(place, layout, running):
            job = running.jobs[name]
            slowdown = _cost_pct(job, running)
            is_down = can_stop and job.state in JOBS_DOWN
            is_silent = subsystem == subsystems.SILENCE and name in running.last_known
            if name not in by_job and (is_down or is_silent or slowdown is not None):
                by_job[name] = JobImpact(name, running.state_of(job), slowdown)
    return tuple(sorted(by_job.values(), key=_order))


def _cost_pct(job: JobMessage | None, running: JobsAt) -> float | None:
    """Return a job's slowdown in %; None if within the usual variation of steps."""
    percent = None if job is None else running.slowdown_pct(job)
    return percent if percent is not None and percent >= LEAST_SLOWDOWN_PCT else None


def _of_alert(alert: Alert) -> float | None:
    """Return the slowdown in % from a step time alert.

    None if the alert is flapping, because the slowdown may be over.
    """
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
