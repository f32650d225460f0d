"""Model of a problem: one cause with its place, affected jobs and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import NO_NAMES, Names
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.findings import JOBS_DOWN, Finding

if TYPE_CHECKING:
    from trnfleet.monitor.alerting.store import AlertWithStatus


class Place(NamedTuple):
    """Where the cause of a problem is."""

    address: str = ""
    """Deepest common address, down to a chip. Empty for the fleet and without an address."""
    rack: str = ""
    """Rack name in the UltraServer at the address, if all of it is there."""
    lane: str = ""
    """Name of the chip's link or core; empty for none."""
    other_end: str = ""
    """The other end of the link, as `address:lane`; empty for none."""
    name: str = ""
    """Affected job, reservation or publisher. Empty if it has an address."""


class JobImpact(NamedTuple):
    """Impact of a problem on a job."""

    job: str
    state: str
    """The job's state, such as running, failed or waiting."""
    slowdown_pct: float | None = None
    """Slowdown of steps. None if unknown, or if the job makes no steps."""
    is_attributed: bool = False
    """Whether an alert of the job names this problem as its cause."""
    down_since_ns: int | None = None
    """Monitor time of the job's stop. None if not down or unknown."""


class Problem(NamedTuple):
    """One cause and everything known about it."""

    key: str
    """The same while alerts of it come and go and its figures change."""
    severity: Severity
    """Worst severity of its alerts neither acknowledged nor silenced. Of all alerts if there are
    none."""
    status: AlertStatus
    """Firing, acknowledged or silenced."""
    subsystem: str
    place: Place
    text: str
    """Short text of the fault, unsanitised from rules and the wire."""
    chips: int
    """Chips concerned; 0 where that is not known."""
    jobs: tuple[JobImpact, ...] = ()
    """The jobs that it hurts, the worst first."""
    since_ns: int | None = None
    """Monitor time of its first firing alert. None for findings: they have no time."""
    owner: str = ""
    """Owner of the acknowledgement, or author of the silence; empty for none."""
    until_ns: int | None = None
    """End of the acknowledgement or silence."""
    alerts: tuple[AlertWithStatus, ...] = ()
    """The root first, then the others as they come."""
    findings: tuple[Finding, ...] = ()
    """Findings, where no rule looks at them."""
    names: Names = NO_NAMES
    """Display names for its texts."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of its alerts.

        Empty for alerts evaluated here.
        """
        named = {
            cell for held in self.alerts if held.alert.cell for cell in held.alert.cell.split(", ")
        }
        return tuple(sorted(named))

    @property
    def is_unobserved(self) -> bool:
        """Whether its alerts' cells are not observed by any relay now.

        It is as last known then.
        """
        return bool(self.alerts) and all(held.alert.is_unobserved for held in self.alerts)

    @property
    def is_loud(self) -> bool:
        """Whether it is neither acknowledged nor silenced."""
        return self.status is AlertStatus.FIRING

    @property
    def impact(self) -> tuple[bool, float]:
        """Impact: whether a job is down, and the largest slowdown in %."""
        down = any(job.state in JOBS_DOWN for job in self.jobs)
        return down, max((job.slowdown_pct or 0.0 for job in self.jobs), default=0.0)


class ProblemCounts(NamedTuple):
    """Numbers of problems by status."""

    critical: int = 0
    """Neither acknowledged nor silenced, as are warning and info."""
    warning: int = 0
    info: int = 0
    acknowledged: int = 0
    silenced: int = 0
    pending: int = 0
    """Alerts with a condition not yet true for long enough."""

    @property
    def firing(self) -> int:
        return self.critical + self.warning + self.info


class Problems(NamedTuple):
    """The problems of a fleet at a moment, by severity, impact and age.

    Owned ones come last.
    """

    all: tuple[Problem, ...] = ()
    """Silenced ones last."""
    pending: tuple[AlertWithStatus, ...] = ()
    """Alerts that do not fire yet."""
    left_out: int = 0
    """Alerts and findings above the limits, not in any problem."""

    @property
    def listed(self) -> tuple[Problem, ...]:
        """All but the silenced ones."""
        return tuple(problem for problem in self.all if problem.status is not AlertStatus.SILENCED)

    @property
    def silenced(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.all if problem.status is AlertStatus.SILENCED)

    def counts(self) -> ProblemCounts:
        """Return the numbers of problems."""
        loud = [problem.severity for problem in self.all if problem.is_loud]
        status = [problem.status for problem in self.all]
        return ProblemCounts(
            loud.count(Severity.CRITICAL),
            loud.count(Severity.WARNING),
            loud.count(Severity.INFO),
            status.count(AlertStatus.ACKED),
            status.count(AlertStatus.SILENCED),
            len(self.pending),
        )

    def find(self, fingerprint: str) -> Problem | None:
        """Return the problem that an alert belongs to."""
        return next(
            (
                problem
                for problem in self.all
                if any(one.alert.fingerprint == fingerprint for one in problem.alerts)
            ),
            None,
        )


NO_PROBLEMS = Problems()
