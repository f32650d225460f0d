"""The model of a problem: one cause with its place, the jobs that it hurts and the alerts that tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.findings import JOBS_DOWN

if TYPE_CHECKING:
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.store.findings import Finding


class Place(NamedTuple):
    """Where the cause of a problem is."""

    address: str = ""
    """The deepest address that has all of it, down to a chip; empty for the fleet and for what has none."""
    rack: str = ""
    """Name of a rack of the UltraServer at the address, where all of it is there."""
    lane: str = ""
    """Name of the chip's link or core; empty for none."""
    other_end: str = ""
    """The other end of the link, as `address:lane`; empty for none."""
    name: str = ""
    """Job, reservation or publisher that it is about; empty for what has an address."""


class JobImpact(NamedTuple):
    """What a problem costs a job."""

    job: str
    state: str
    """The job's state, such as running, failed or waiting."""
    slowdown_pct: float | None = None
    """By how much steps take longer than usual; None where that is not known, or the job makes no steps."""
    is_attributed: bool = False
    """Whether an alert of the job names this problem as its cause."""


class Problem(NamedTuple):
    """One cause, and all that is known of it."""

    key: str
    """The same while alerts of it come and go and its figures change."""
    severity: Severity
    """The worst of its alerts that are neither acknowledged nor silenced; of all where there is none."""
    status: AlertStatus
    """firing, acknowledged or silenced: what is to be done about it."""
    subsystem: str
    place: Place
    text: str
    """What is wrong, in a few words; as it came from rules and the wire."""
    chips: int
    """Chips concerned; 0 where that is not known."""
    jobs: tuple[JobImpact, ...] = ()
    """The jobs that it hurts, the worst first."""
    since_ns: int | None = None
    """Monitor time at which its first alert fired; None for findings, which have no time."""
    owner: str = ""
    """Owner of the acknowledgement, or author of the silence; empty for none."""
    until_ns: int | None = None
    """End of the acknowledgement or silence."""
    alerts: tuple[AlertWithStatus, ...] = ()
    """The root first, then the others as they come."""
    findings: tuple[Finding, ...] = ()
    """Findings, where no rule looks at them."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells that its alerts are of; none for what is evaluated here."""
        named = {
            cell for each in self.alerts if each.alert.cell for cell in each.alert.cell.split(", ")
        }
        return tuple(sorted(named))

    @property
    def is_unobserved(self) -> bool:
        """Whether no relay sees the cells of its alerts at present: it is as last known."""
        return bool(self.alerts) and all(each.alert.is_unobserved for each in self.alerts)

    @property
    def is_loud(self) -> bool:
        """Whether it is neither acknowledged nor silenced."""
        return self.status is AlertStatus.FIRING

    @property
    def impact(self) -> tuple[bool, float]:
        """What it costs: whether a job is down, and the largest slowdown in %."""
        down = any(each.state in JOBS_DOWN for each in self.jobs)
        return down, max((each.slowdown_pct or 0.0 for each in self.jobs), default=0.0)


class ProblemCounts(NamedTuple):
    """Numbers of problems by what is to be done about them."""

    critical: int = 0
    """Neither acknowledged nor silenced, as are warning and info."""
    warning: int = 0
    info: int = 0
    acknowledged: int = 0
    silenced: int = 0
    pending: int = 0
    """Alerts whose condition holds, not yet for long enough."""

    @property
    def firing(self) -> int:
        return self.critical + self.warning + self.info


class Problems(NamedTuple):
    """The problems of a fleet at a moment: by severity, impact and age, those with an owner after the others."""

    all: tuple[Problem, ...] = ()
    """Silenced ones last."""
    pending: tuple[AlertWithStatus, ...] = ()
    """Alerts that do not fire yet."""
    left_out: int = 0
    """Alerts and findings beyond those that are looked at, which are in no problem."""

    @property
    def listed(self) -> tuple[Problem, ...]:
        """All but the silenced ones."""
        return tuple(each for each in self.all if each.status is not AlertStatus.SILENCED)

    @property
    def silenced(self) -> tuple[Problem, ...]:
        return tuple(each for each in self.all if each.status is AlertStatus.SILENCED)

    def counts(self) -> ProblemCounts:
        """Return the numbers of problems."""
        loud = [each.severity for each in self.all if each.is_loud]
        status = [each.status for each in self.all]
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
                each
                for each in self.all
                if any(one.alert.fingerprint == fingerprint for one in each.alerts)
            ),
            None,
        )


NO_PROBLEMS = Problems()
