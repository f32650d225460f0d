"""Jobs without a live chip.

Their state and figures are the last known and have an age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.quantities import DurationStyle, counted, duration
from trnfleet.monitor.freshness import Freshness

if TYPE_CHECKING:
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import JobMessage

LAST_KNOWN = "last known"


def last_known_text(age_s: float) -> str:
    """Return a note with the age of last known values."""
    return f"{LAST_KNOWN} {duration(age_s, DurationStyle.COARSE)} ago"


def jobs_text(jobs: int, last_known: int) -> str:
    """Return how many jobs there are, and how many of them have no live chip."""
    text = counted(jobs, "job")
    return f"{text}, {last_known:,} {LAST_KNOWN}" if last_known else text


def find_last_known(jobs: Jobs, rollups: Rollups) -> frozenset[str]:
    """Return the names of the jobs without a live chip.

    A job without instances follows the whole fleet. A job not yet placed, for a second at most,
    counts as live.

    Args:
        jobs: The jobs, placed on instances.
        rollups: The freshness of instances. If they are of another layout than the jobs, nothing
            changes.
    """
    if jobs.generation != rollups.generation:
        return jobs.last_known
    live = rollups.live(Level.INSTANCE)
    owners, starts, stops = jobs.runs.T
    heard = np.concatenate(([0], np.cumsum(live)))
    is_live = np.zeros(len(jobs.placed), np.bool_)
    is_live[owners[heard[stops] > heard[starts]]] = True
    silent = [jobs.by_key.get(jobs.placed[number]) for number in np.flatnonzero(~is_live).tolist()]
    return frozenset(job.job for job in silent if job is not None and (job.on or not live.any()))


def age_s(job: JobMessage, store: Store, *, now_s: float, time_ns: int, speed: float) -> float:
    """Return the wall seconds since a job's chips were last heard.

    Args:
        job: The job. If its chips were never heard here, the age is that of its message.
        store: The chips.
        now_s: Monotonic seconds.
        time_ns: The fleet's time.
        speed: Seconds of that time per wall second.
    """
    heard_s = -np.inf
    for covered in filter(None, map(store.layout.find_instances, job.on)):
        first, last = store.layout.chip_start[[covered.start, covered.stop]].tolist()
        # The time of a row of roll-ups without a live chip is that of the relay's message.
        known = store.chip_state[first:last] != Freshness.UNKNOWN.value
        heard_s = max(heard_s, float(store.chip_seen_s[first:last][known].max(initial=-np.inf)))
    if np.isfinite(heard_s):
        return max(0.0, now_s - heard_s)
    return max(0.0, (time_ns - parse_rfc3339(job.ts)) / NS_PER_S / (speed or 1.0))
