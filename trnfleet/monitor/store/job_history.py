"""The past of the jobs' own figures: power and step time of each.

Kept for `MOST_JOBS` jobs: those that run on the most instances, and of equal ones the first by name. Jobs that have ended stay until
their room is needed, the one that ended first goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.monitor.store.rings.record import Record, Track

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from trnfleet.monitor.store.jobs import Members
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import JobMessage

POWER, STEP_TIME = "power_w", "step_time_s"
JOB_KEYS = (POWER, STEP_TIME)
"""Figures of a job that are kept."""
MOST_JOBS = 16
_STEPPING = frozenset({"running"})
"""States in which a job takes steps: in others its message has the time of its last one."""


class JobHistory:
    """Records of jobs by name."""

    def __init__(self, most_samples: int) -> None:
        self._most = most_samples
        self._jobs: Mapping[str, JobMessage] = {}
        self._placed: tuple[str, ...] = ()
        self._records: dict[str, Record] = {}
        self._sampled: dict[str, int] = {}
        """Number of the last sample in which each job was there."""

    @property
    def names(self) -> list[str]:
        """The jobs that are kept, in the order of their names."""
        return sorted(self._records)

    @property
    def nbytes(self) -> int:
        """Bytes of all records."""
        return sum(record.nbytes for record in self._records.values())

    def attend(self, jobs: Mapping[str, JobMessage], placed: tuple[str, ...]) -> None:
        """Sample these jobs from now on; `placed` are their names by the numbers that the store has for them."""
        self._jobs, self._placed = jobs, placed

    def push(self, store: Store, rollups: Rollups, total: int) -> None:
        """Take a sample of the jobs that are kept.

        Args:
            store: Which job has each instance.
            rollups: The power of instances.
            total: Samples taken before.
        """
        rows = sample(self._jobs, self._placed, store, rollups)
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
        own, self._records = self._records, before._records
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
        """Drop what has not been there for the longest, where a further job would be one too many."""
        while len(self._records) >= MOST_JOBS:
            gone = [name for name in self._records if name not in present]
            if not gone:
                return
            oldest = min(gone, key=lambda name: (self._sampled.get(name, -1), name))
            del self._records[oldest]
            self._sampled.pop(oldest, None)


def sample(
    jobs: Mapping[str, JobMessage], names: tuple[str, ...], store: Store, rollups: Rollups
) -> dict[str, NDArray[np.float64]]:
    """Return the figures of the jobs to keep, by name: `JOB_KEYS` x 1."""
    if not names:
        return {}
    instances = store.placement.instances(len(names))
    running = [number for number in np.flatnonzero(instances).tolist() if names[number] in jobs]
    running.sort(key=lambda number: (-int(instances[number]), names[number]))
    members = reporting(store, rollups, POWER, len(names))
    watts = members.sums(rollups.parts(POWER, Level.INSTANCE)[0][members.rows], len(names))
    is_whole = members is store.placement.members(len(names))
    heard = instances if is_whole else np.bincount(members.jobs, minlength=len(names))
    found: dict[str, NDArray[np.float64]] = {}
    for number in running[:MOST_JOBS]:
        message, is_live = jobs[names[number]], heard[number] > 0
        steps = message.step_time_s if message.state in _STEPPING and is_live else None
        found[message.job] = np.array(
            [[watts[number] if is_live else np.nan], [np.nan if steps is None else steps]]
        )
    return found


def reporting(store: Store, rollups: Rollups, name: str, jobs: int) -> Members:
    """Return the live instances of the first jobs of which a metric is known."""
    members = store.placement.members(jobs)
    known = rollups.live(Level.INSTANCE) & (rollups.covered(name, Level.INSTANCE) > 0)
    return members if known.all() else members.chosen(known[members.rows])
