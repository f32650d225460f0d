"""Past power, step time, state and latencies of each job.

Stored for `MOST_JOBS` jobs: the largest by number of instances, then the first by name. Ended jobs
stay until their room is needed; the first to end is dropped first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store.rings.record import Record, Track

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from trnfleet.monitor.store.jobs import Jobs, Members
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store

POWER = "power_w"
STEP_TIME = "step_time_s"
STATE = "state"
TTFT = "ttft_s"
TPOT = "tpot_s"
JOB_KEYS = (POWER, STEP_TIME, STATE, TTFT, TPOT)
"""Recorded figures of a job."""
MOST_JOBS = 16
STATES = (
    *("", "running", "idle", "finished", "evaluating", "checkpointing", "loading", "compiling"),
    *("starting", "stalled", "waiting", "hung", "lost", "failed"),
)
"""States by the number that is recorded, the most serious last; the first is any other. So the
maximum of a roll-up is its most serious state."""
_STEPPING = frozenset({"running"})
"""States with steps or requests. In others a job's message repeats the times of the last ones."""


class JobHistory:
    """Records of jobs by name."""

    def __init__(self, most_samples: int) -> None:
        self._most = most_samples
        self._jobs: Jobs | None = None
        self._records: dict[str, Record] = {}
        self._sampled: dict[str, int] = {}
        """Number of the last sample with each job."""

    @property
    def names(self) -> list[str]:
        """Stored jobs, sorted by name."""
        return sorted(self._records)

    @property
    def nbytes(self) -> int:
        """Bytes of all records."""
        return sum(record.nbytes for record in self._records.values())

    def attend(self, jobs: Jobs) -> None:
        """Sample these jobs from now on."""
        self._jobs = jobs

    def push(self, store: Store, rollups: Rollups, total: int) -> None:
        """Record a sample of the stored jobs.

        Args:
            store: Which job has each instance.
            rollups: The power of instances.
            total: Samples taken before.
        """
        rows = {} if self._jobs is None else sample(self._jobs, store, rollups)
        for name in rows:
            if name not in self._records:
                self._make_room(rows.keys())
                self._records[name] = Record(self._most, len(JOB_KEYS), 1, total=total)
        for name, record in self._records.items():
            row = rows.get(name)
            if row is None:
                record.skip(1)
            else:
                record.push(row)
                self._sampled[name] = total

    def skip(self, seconds: int) -> None:
        """Leave a gap."""
        for record in self._records.values():
            record.skip(seconds)

    def backfill(self, before: JobHistory, count: int, total: int) -> None:
        """Put the samples of another history before the own ones.

        Args:
            before: The other history, which is not used any more.
            count: Samples taken there.
            total: Samples taken here.
        """
        own = self._records
        self._records = before._records
        for name, record in self._records.items():
            if name not in own:
                record.skip(total)
        for name, record in own.items():
            if name not in self._records:
                self._make_room(own.keys())
                self._records[name] = Record(self._most, len(JOB_KEYS), 1, total=count)
            self._records[name].follow_on(record)
        self._sampled = before._sampled | {
            name: number + count for name, number in self._sampled.items()
        }

    def track(self, job: str, key: str, span_s: int, total: int, ago: int = 0) -> Track:
        """Return the past of a job's figure over a span; see `Record.track`."""
        record = self._records.get(job)
        if record is None:
            return Track.of(np.zeros(0, np.float32), total - ago)
        return record.track(JOB_KEYS.index(key), 0, span_s, ago)

    def _make_room(self, present: Collection[str]) -> None:
        """Drop the jobs absent longest while there are too many."""
        while len(self._records) >= MOST_JOBS:
            gone = [name for name in self._records if name not in present]
            if not gone:
                return
            oldest = min(gone, key=lambda name: (self._sampled.get(name, -1), name))
            del self._records[oldest]
            self._sampled.pop(oldest, None)


def sample(jobs: Jobs, store: Store, rollups: Rollups) -> dict[str, NDArray[np.float64]]:
    """Return the figures of the jobs to keep, by name: `JOB_KEYS` x 1."""
    names = jobs.placed
    if not names:
        return {}
    instances = store.placement.instances(len(names))
    running = [
        number for number in np.flatnonzero(instances).tolist() if names[number] in jobs.by_key
    ]
    running.sort(key=lambda number: (-int(instances[number]), names[number]))
    members = reporting(store, rollups, POWER, len(names))
    watts = members.sums(rollups.parts(POWER, Level.INSTANCE)[0][members.rows], len(names))
    is_whole = members is store.placement.members(len(names))
    heard = instances if is_whole else np.bincount(members.jobs, minlength=len(names))
    samples: dict[str, NDArray[np.float64]] = {}
    for number in running[:MOST_JOBS]:
        message = jobs.by_key[names[number]]
        state = STATES.index(message.state) if message.state in STATES else 0
        is_known = message.job not in jobs.last_known
        running_s = (message.step_time_s, message.ttft_s, message.tpot_s)
        if not is_known or message.state not in _STEPPING:
            running_s = (None, None, None)
        step_s, ttft_s, tpot_s = (np.nan if seconds is None else seconds for seconds in running_s)
        power_w = watts[number] if heard[number] > 0 else np.nan
        figures = (power_w, step_s, state if is_known else np.nan, ttft_s, tpot_s)
        samples[message.job] = np.array(figures)[:, None]
    return samples


def reporting(store: Store, rollups: Rollups, name: str, jobs: int) -> Members:
    """Return the live instances of the first jobs with a known value of a metric."""
    members = store.placement.members(jobs)
    known = rollups.live(Level.INSTANCE) & (rollups.covered(name, Level.INSTANCE) > 0)
    return members if known.all() else members.chosen(known[members.rows])
