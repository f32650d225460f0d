"""Problems as JSON values, the same in `trnfleet status` and `trnfleet alerts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.monitor.problems import texts

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import Problem


def problem_facts(problem: Problem, now_ns: int) -> dict[str, Any]:
    """Return a problem as facts: place, texts, job impact, owner, and its alerts or findings."""
    place = problem.place
    since_ns = problem.since_ns
    return {
        "key": problem.key,
        "severity": problem.severity.value,
        "status": problem.status.value,
        "subsystem": problem.subsystem,
        "place": texts.place_text(place, is_whole=True),
        "address": place.address,
        "rack": place.rack or None,
        "lane": place.lane or None,
        "other_end": place.other_end or None,
        "name": place.name or None,
        "text": texts.text_of(problem),
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
