"""Jobs as text: sign of a state, pace, trouble, and the place that a job opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.quantities import bare, count, counted, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.text import plain
from trnfleet.tui import theme

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.style import Style

    from trnfleet.domain.address import Names
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.problems.problem import Problem, Problems
    from trnfleet.monitor.store.jobs import ClaimedFigures
    from trnfleet.wire.messages import JobMessage

SLOW_PCT = 10.0
"""Per cent from which steps are clearly slow, as in the rule `job-slow`."""


class StateLook(NamedTuple):
    """Look of a job's state: a sign and a colour beside the word."""

    glyph: str
    style: Style


LOOKS: dict[str, tuple[str, Severity | None]] = {
    "running": ("●", None),
    "checkpointing": ("▼", Severity.INFO),
    "evaluating": ("◇", Severity.INFO),
    "starting": ("▷", Severity.INFO),
    "compiling": ("▹", Severity.INFO),
    "loading": ("▸", Severity.INFO),
    "stalled": ("▲", Severity.WARNING),
    "waiting": ("◌", Severity.CRITICAL),
    "hung": ("‖", Severity.CRITICAL),
    "failed": ("✖", Severity.CRITICAL),
    "lost": ("?", Severity.CRITICAL),
}
"""Sign of a state, and the severity that colours it; None for the text colour."""
_QUIET_LOOKS = {"idle": "○", "finished": "✓"}
OTHER = "·"
"""Sign of an unfamiliar state. Only the word tells such states apart."""


def look(state: str) -> StateLook:
    """Return the look of a state."""
    glyph, severity = LOOKS.get(state, (_QUIET_LOOKS.get(state, OTHER), None))
    if state not in LOOKS:
        return StateLook(glyph, theme.QUIET)
    return StateLook(glyph, theme.BASE if severity is None else theme.SEVERITY_STYLE[severity])


def jobs_on(monitor: FleetState, instances: NDArray[np.int64] | slice) -> str:
    """Return the jobs of instances: the only one's name, or their number, and idle chips."""
    numbers = monitor.store.job_of[instances]
    placed = monitor.ingest.job_table.placed
    jobs = np.unique(numbers[numbers >= 0]).tolist()
    idle = int(monitor.store.layout.sizes[instances][numbers < 0].sum())
    words = []
    if len(jobs) == 1 and jobs[0] < len(placed):
        words.append(plain(monitor.ingest.names.job(placed[jobs[0]])))
    elif jobs:
        words.append(counted(len(jobs), "job"))
    if idle:
        words.append(f"{count(idle)} no job" if jobs else "no job")
    return ", ".join(words)


def pace(job: JobMessage, claimed: ClaimedFigures | None = None) -> str:
    """Return how fast a job goes, in the terms of its kind; else how busy its claimed chips are."""
    if job.tokens_per_s is not None:
        return f"{bare(job.tokens_per_s, '')} tok/s"
    if job.steps_per_s is not None:
        # Steps take seconds: below one a second, the time of one says more.
        return f"{job.steps_per_s:.3g} step/s"
    return "n/a" if claimed is None else f"NC {with_unit(claimed.nc_util_pct, '%')}"


def problem_of(problems: Problems, name: str) -> Problem | None:
    """Return the worst problem of a job; None without a problem."""
    return next(
        (
            problem
            for problem in problems.listed
            if any(impact.job == name for impact in problem.jobs)
        ),
        None,
    )


def place_of(job: JobMessage, problems: Problems, layout: Layout) -> str:
    """Return the place that a job opens.

    It is the cause of the job's worst problem with a place, else the job's first place. Empty if
    no instance of the job is known.
    """
    for problem in problems.listed:
        if problem.place.address and any(impact.job == job.job for impact in problem.jobs):
            return problem.place.address
    return begin_of(job, layout)


def begin_of(job: JobMessage, layout: Layout) -> str:
    """Return the address of a job's first place; empty if none is known."""
    begins = (place.partition("..")[0] for place in job.on)
    return next((address for address in begins if layout.find(address) is not None), "")


def unplaced_text(job: JobMessage, names: Names) -> str:
    """Return why a job leads nowhere: no instance of it is known."""
    named = plain(names.job(job.job), 40)
    if not job.on:
        return f"job {named} is {plain(job.state, 20)} and names no instance"
    first = plain(job.on[0], 60)
    return f"no instance of job {named} is known: nothing has described {first}" + (
        f" and {len(job.on) - 1:,} more" if len(job.on) > 1 else ""
    )
