"""Texts of problems for screen and command line, and problems as JSON values.

All texts are printable: texts of rules, jobs and operators pass through `plain` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import NO_NAMES, Level, Names, level_of
from trnfleet.domain.alerts.alert import rack_text
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.quantities import DurationStyle, count, counted, duration, signed_percent
from trnfleet.domain.severity import Severity
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.text import LONGEST, plain

if TYPE_CHECKING:
    from trnfleet.monitor.goodput_report import Loss
    from trnfleet.monitor.problems.problem import JobImpact, Place, Problem, ProblemCounts

NONE = "No problems"


def none_text(incomplete: str = "") -> str:
    """Return the text for no problems, or for a reason not to know."""
    if incomplete == LOADING:
        return "Loading problems …"
    return f"{NONE} {incomplete}".rstrip()


def place_text(place: Place, names: Names = NO_NAMES, *, is_whole: bool = False) -> str:
    """Return the place of a problem.

    For example `us-0001 rack B`, `trn2u-0001-2/chip06:east ↔ chip07:west`, or a job's name.

    Args:
        place: The place.
        names: Display names.
        is_whole: Whether addresses are whole, for the command line.
    """
    if place.name and not place.lane and level_of(place.address) < Level.CHIP:
        return plain(names.jobs.get(place.name, place.name), LONGEST)
    address = plain(names.address(place.address), LONGEST)
    text = address if is_whole else short_address(address)
    if place.rack:
        text += f" {plain(rack_text(place.rack))}"
    if place.lane:
        text += f"{':' if place.other_end or not place.lane.startswith('nc') else '/'}{plain(place.lane)}"  # noqa: E501
    if place.other_end:
        end = plain(names.address(place.other_end), LONGEST)
        text += f" ↔ {_far_end(end, address, is_whole=is_whole)}"
    return text or "fleet"


def short_address(address: str) -> str:
    """Return an address without repeated names: instance or UltraServer, and its chip."""
    segments = address.split("/")
    return "/".join(segments[2:]) if len(segments) > Level.ULTRASERVER else segments[-1]


def _far_end(end: str, near: str, *, is_whole: bool) -> str:
    if is_whole:
        return end
    chip = end.rpartition("/")[2]
    return chip if end.startswith(near.rpartition("/")[0] + "/") else short_address(end)


def text_of(problem: Problem) -> str:
    """Return a short text of the fault and its cell.

    A flapping fault is marked: it may be absent at present.
    """
    flaps = bool(problem.alerts) and problem.alerts[0].alert.is_flapping
    return plain(problem.text, LONGEST) + (" (flapping)" if flaps else "") + cell_text(problem)


def cell_text(problem: Problem) -> str:
    """Return a problem's cells in brackets, and whether they are not observed.

    Empty if it was evaluated here.
    """
    if not problem.cells:
        return ""
    names = ", ".join(problem.cells[:3]) + (
        f" and {len(problem.cells) - 3} more" if len(problem.cells) > 3 else ""
    )
    return f" [{plain(names, LONGEST)}{', not observed' if problem.is_unobserved else ''}]"


def impact_text(problem: Problem, now_ns: int) -> str:
    """Return a problem's impact on jobs, such as `stopped pretrain-70b (failed 28 s ago)`."""
    down = [
        _down_text(job, problem.names, now_ns) for job in problem.jobs if job.state in JOBS_DOWN
    ]
    slowed = [
        _slowed_text(job, problem.names) for job in problem.jobs if job.state not in JOBS_DOWN
    ]
    parts = (("stopped", down), ("hits", slowed))
    return ", ".join(f"{verb} {', '.join(jobs)}" for verb, jobs in parts if jobs)


def _down_text(impact: JobImpact, names: Names, now_ns: int) -> str:
    """Return a down job, its state, and its time down if known."""
    state = plain(impact.state, 32)
    if impact.down_since_ns is not None:
        age = duration(max(0, now_ns - impact.down_since_ns) / NS_PER_S, DurationStyle.COARSE)
        state = f"{state} {age} ago" if state in {"failed", "lost"} else f"{state}, down {age}"
    return f"{plain(names.job(impact.job), 64)} ({state})"


def _slowed_text(impact: JobImpact, names: Names) -> str:
    """Return a job and how much longer its steps take, or its state."""
    words = plain(names.job(impact.job), 64)
    if impact.slowdown_pct is not None:
        return f"{words} step {signed_percent(impact.slowdown_pct)}"
    return words if impact.state in {"", "running"} else f"{words} {plain(impact.state, 32)}"


def loss_text(loss: Loss, names: Names = NO_NAMES) -> str:
    """Return a loss in a line, such as `12.40 USD  straggler trn2-0002/chip11, finetune-8b`."""
    amount = f"{loss.part.usd:,.2f} USD" if loss.part.usd else f"{loss.part.seconds / 3_600:,.2f} h"
    where = plain(short_address(names.address(loss.place)), LONGEST)
    jobs = ["other jobs" if job is None else names.job(job) for job in loss.jobs]
    return f"{amount}  {', '.join([f'{plain(loss.what)} {where}'.rstrip(), *jobs])}"


def owner_text(problem: Problem, now_ns: int) -> str:
    """Return the acknowledging or silencing operator and the remaining time.

    Empty for nobody.
    """
    if not problem.owner and problem.status is AlertStatus.FIRING:
        return ""
    left = "" if problem.until_ns is None else f" {_left(problem.until_ns, now_ns)} left"
    owner = f" {plain(problem.owner, 24)}" if problem.owner else ""
    verb = "silenced" if problem.status is AlertStatus.SILENCED else "acknowledged"
    return f"{verb}{owner}{left}"


def extent_text(problem: Problem) -> str:
    """Return the number of affected chips.

    Empty for one or none, and if the text already has it.
    """
    if problem.place.lane:
        return ""
    text = counted(problem.chips, "chip")
    return text if problem.chips > 1 and text not in problem.text else ""


def alerts_text(problem: Problem) -> str:
    """Return how many alerts and findings a problem stands for; empty for one."""
    number = len(problem.alerts) + len(problem.findings)
    return counted(number, "alert") if number > 1 else ""


def age_text(problem: Problem, now_ns: int) -> str:
    """Return the age of a problem in at most four columns; empty if unknown."""
    if problem.since_ns is None:
        return ""
    return duration(max(0, now_ns - problem.since_ns) / NS_PER_S, DurationStyle.NARROW)


def second_line(problem: Problem, now_ns: int) -> str:
    """Return the line below a problem: its parts with gaps."""
    return "  ".join(second_parts(problem, now_ns))


def second_parts(problem: Problem, now_ns: int) -> list[str]:
    """Return what is said below a problem: impact, owner, extent and number of alerts."""
    said = (
        impact_text(problem, now_ns),
        owner_text(problem, now_ns),
        extent_text(problem),
        alerts_text(problem),
    )
    return [part for part in said if part]


def severity_counts(counts: ProblemCounts) -> tuple[tuple[Severity, int], ...]:
    """Return the count per severity, without acknowledged and silenced problems."""
    return (
        (Severity.CRITICAL, counts.critical),
        (Severity.WARNING, counts.warning),
        (Severity.INFO, counts.info),
    )


def counts_text(counts: ProblemCounts) -> str:
    """Return the counts as text, such as `1 critical, 2 warning, 1 acknowledged`.

    `No problems` for none.
    """
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
    """Return a problem in one line for the command line.

    Place, text, age, and the text of `second_line`.
    """
    age = age_text(problem, now_ns)
    below = second_line(problem, now_ns)
    return "; ".join(
        part
        for part in (
            f"{place_text(problem.place, problem.names, is_whole=True)}: {text_of(problem)}",
            f"for {age}" if age else "",
            below,
        )
        if part
    )


def _left(ends_ns: int, now_ns: int) -> str:
    return duration(max(0, ends_ns - now_ns) / NS_PER_S, DurationStyle.NARROW)


def problem_facts(problem: Problem, now_ns: int) -> dict[str, Any]:
    """Return a problem as facts: place, texts, job impact, owner, and its alerts or findings."""
    place = problem.place
    since_ns = problem.since_ns
    return {
        "key": problem.key,
        "severity": problem.severity.value,
        "status": problem.status.value,
        "subsystem": problem.subsystem,
        "place": place_text(place, problem.names, is_whole=True),
        "address": place.address,
        "rack": place.rack or None,
        "lane": place.lane or None,
        "other_end": place.other_end or None,
        "name": place.name or None,
        "text": text_of(problem),
        "chips": problem.chips,
        "since": None if since_ns is None else format_rfc3339(since_ns),
        "age_s": None if since_ns is None else max(0.0, (now_ns - since_ns) / NS_PER_S),
        "jobs": [
            {
                "job": job.job,
                "state": job.state,
                "slowdown_pct": None if job.slowdown_pct is None else round(job.slowdown_pct, 1),
            }
            for job in problem.jobs
        ],
        "owner": problem.owner or None,
        "until": None if problem.until_ns is None else format_rfc3339(problem.until_ns),
        "alerts": [held.alert.fingerprint for held in problem.alerts],
        "findings": len(problem.findings),
        "cells": list(problem.cells),
        "observed": not problem.is_unobserved,
    }
