"""Words of problems, the same on the screen and on the command line: place, impact, owner, counts.

Everything returned is printable: texts of rules, jobs and operators go through `plain` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.quantities import DurationStyle, count, counted, duration, signed_percent
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, ProblemCounts

NONE = "No problems"
LONGEST = 400


def place_text(place: Place, *, is_whole: bool = False) -> str:
    """Return where a problem is: `us-0001 rack B`, `trn2u-0001-2/chip06:east ↔ chip07:west`, a job's name.

    Args:
        place: The place.
        is_whole: Whether addresses are whole, for the command line.
    """
    if place.name and not place.lane and level_of(place.address) < Level.CHIP:
        return plain(place.name, LONGEST)
    address = plain(place.address, LONGEST)
    text = address if is_whole else short_address(address)
    if place.rack:
        text += f" {plain(place.rack.replace('rack-', 'rack ').upper().replace('RACK', 'rack'))}"
    if place.lane:
        text += f"{':' if place.other_end or not place.lane.startswith('nc') else '/'}{plain(place.lane)}"
    if place.other_end:
        text += f" ↔ {_far_end(plain(place.other_end, LONGEST), address, is_whole=is_whole)}"
    return text or "fleet"


def short_address(address: str) -> str:
    """Return an address without what its names repeat: the instance or UltraServer, and below an instance its chip."""
    segments = address.split("/")
    return "/".join(segments[2:]) if len(segments) > Level.ULTRASERVER else segments[-1]


def _far_end(end: str, near: str, *, is_whole: bool) -> str:
    if is_whole:
        return end
    chip = end.rpartition("/")[2]
    return chip if end.startswith(near.rpartition("/")[0] + "/") else short_address(end)


def text_of(problem: Problem) -> str:
    """Return what is wrong, in a few words, and of which cell; and where it comes and goes, that it need not be so at present."""
    flaps = bool(problem.alerts) and problem.alerts[0].alert.is_flapping
    return plain(problem.text, LONGEST) + (" (flapping)" if flaps else "") + cell_text(problem)


def cell_text(problem: Problem) -> str:
    """Return the cells of a problem in brackets, and whether they are not observed; empty for what is evaluated here."""
    if not problem.cells:
        return ""
    names = ", ".join(problem.cells[:3]) + (
        f" and {len(problem.cells) - 3} more" if len(problem.cells) > 3 else ""
    )
    return f" [{plain(names, LONGEST)}{', not observed' if problem.is_unobserved else ''}]"


def impact_text(problem: Problem) -> str:
    """Return what a problem costs jobs, such as `hits pretrain-70b step +21 %`; empty for nothing."""
    said = ", ".join(job_text(each) for each in problem.jobs)
    return f"hits {said}" if said else ""


def job_text(impact: JobImpact) -> str:
    """Return one job and what it suffers: its state where that is not running, or how much longer its steps take."""
    words = plain(impact.job, 64)
    if impact.slowdown_pct is not None and impact.state not in JOBS_DOWN:
        return f"{words} step {signed_percent(impact.slowdown_pct)}"
    return words if impact.state in {"", "running"} else f"{words} {plain(impact.state, 32)}"


def owner_text(problem: Problem, now_ns: int) -> str:
    """Return who acknowledged or silenced a problem and for how long; empty for nobody."""
    if not problem.owner and problem.status is AlertStatus.FIRING:
        return ""
    left = "" if problem.until_ns is None else f" {_left(problem.until_ns, now_ns)} left"
    owner = f" {plain(problem.owner, 24)}" if problem.owner else ""
    verb = "silenced" if problem.status is AlertStatus.SILENCED else "acknowledged"
    return f"{verb}{owner}{left}"


def extent_text(problem: Problem) -> str:
    """Return how many chips are concerned; empty for one or none, and where the words say so."""
    if problem.place.lane:
        return ""
    text = counted(problem.chips, "chip")
    return text if problem.chips > 1 and text not in problem.text else ""


def age_text(problem: Problem, now_ns: int) -> str:
    """Return for how long a problem lasts, in at most four cells; empty where that is not known."""
    if problem.since_ns is None:
        return ""
    return duration(max(0, now_ns - problem.since_ns) / NS_PER_S, DurationStyle.NARROW)


def second_line(problem: Problem, now_ns: int) -> str:
    """Return what stands below a problem: impact, owner and extent."""
    said = (impact_text(problem), owner_text(problem, now_ns), extent_text(problem))
    return "  ".join(each for each in said if each)


def severity_counts(counts: ProblemCounts) -> tuple[tuple[Severity, int], ...]:
    """Return how many problems there are of each severity that are neither acknowledged nor silenced."""
    return (
        (Severity.CRITICAL, counts.critical),
        (Severity.WARNING, counts.warning),
        (Severity.INFO, counts.info),
    )


def counts_text(counts: ProblemCounts) -> str:
    """Return the numbers of problems in words: `1 critical, 2 warning, 1 acknowledged`; `No problems` for none."""
    parts = [
        f"{count(number)} {severity.value}"
        for severity, number in severity_counts(counts)
        if number
    ]
    quiet = (
        (counts.acknowledged, "acknowledged"),
        (counts.silenced, "silenced"),
        (counts.pending, "pending"),
    )
    parts += [f"{count(number)} {word}" for number, word in quiet if number]
    return ", ".join(parts) or NONE


def line(problem: Problem, now_ns: int) -> str:
    """Return a problem in a line, for the command line: place, text, age, and what stands below it."""
    age = age_text(problem, now_ns)
    below = second_line(problem, now_ns)
    return "; ".join(
        each
        for each in (
            f"{place_text(problem.place, is_whole=True)}: {text_of(problem)}",
            f"for {age}" if age else "",
            below,
        )
        if each
    )


def _left(ends_ns: int, now_ns: int) -> str:
    return duration(max(0, ends_ns - now_ns) / NS_PER_S, DurationStyle.NARROW)
