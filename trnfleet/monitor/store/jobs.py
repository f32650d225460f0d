"""Published jobs and their instances."""

from __future__ import annotations

import operator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from trnfleet.monitor.store.retained import RetainedCollection
from trnfleet.wire.messages import JobMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


class Placed(Protocol):
    """Rows with jobs, such as a store."""

    layout: Layout
    generation: int
    revision: int
    job_of: NDArray[np.int32]


class Jobs(RetainedCollection[JobMessage]):
    """The jobs of one fleet.

    Rows of the store refer to a job by its place in `by_key`.
    """

    def __init__(self) -> None:
        super().__init__(operator.attrgetter("job"))
        self.placements = 0
        """Goes up whenever jobs are placed."""
        self.placed: tuple[str, ...] = ()
        """Job names by number in the store, as of the last placement."""
        self.last_known: frozenset[str] = frozenset()
        """Jobs without a live chip, as of the last pass. Their state and figures are the last
        known."""
        self.runs: NDArray[np.int64] = np.zeros((0, 3), np.int64)
        """Job, first instance and end of each run of instances, as of the last placement."""
        self._places = 0
        """Addresses and ranges that all jobs name."""
        self._have_moved = False
        """Whether any has come, gone or moved since they were placed."""
        self.generation = 0
        """Of the layout on which they were placed."""

    def places_with(self, message: JobMessage) -> int:
        """Return how many addresses and ranges all jobs would name if a message was put."""
        known = self.by_key.get(message.job)
        return self._places + len(message.on) - (0 if known is None else len(known.on))

    def put(self, message: JobMessage) -> None:
        """Replace the message of the same job."""
        known = self.by_key.get(message.job)
        self._places = self.places_with(message)
        if known is None or known.on != message.on:
            self._have_moved = True
        super().put(message)

    def remove(self, key: str) -> None:
        """Remove a job after its message was cleared."""
        known = self.by_key.get(key)
        if known is not None:
            self._places -= len(known.on)
            self._have_moved = True
            self.last_known -= {key}
        super().remove(key)

    def place(self, store: Placed) -> bool:
        """Write the job of each instance into the store.

        Return False if neither jobs nor the layout have changed.
        """
        if store.generation == self.generation and not self._have_moved:
            return False
        self._have_moved = False
        self.generation = store.generation
        store.job_of[:] = -1
        self.placed = tuple(self.by_key)
        runs: list[tuple[int, int, int]] = []
        # Where two jobs claim an instance, the one dated last has it: a former run's may still be
        # retained.
        for number, job in sorted(enumerate(self.by_key.values()), key=lambda pair: pair[1].ts):
            for target in job.on:
                # A job may be known before the hardware it runs on; placement is done again with
                # the layout.
                covered = store.layout.find_instances(target)
                if covered:
                    store.job_of[covered.start : covered.stop] = number
                    runs.append((number, covered.start, covered.stop))
        self.runs = np.array(runs, np.int64).reshape(-1, 3)
        store.revision += 1
        self.placements += 1
        return True


class Members(NamedTuple):
    """Instances with jobs, in runs of the same job."""

    rows: NDArray[np.int64]
    """Numbers of the instances, ascending."""
    jobs: NDArray[np.intp]
    """Number of the job of each."""
    starts: NDArray[np.intp]
    """Where in them each run begins."""

    @staticmethod
    def of(rows: NDArray[np.int64], jobs: NDArray[np.intp]) -> Members:
        """Return the instances with their runs."""
        if not len(rows):
            return Members(rows, jobs, np.zeros(0, np.intp))
        return Members(rows, jobs, np.concatenate(([0], np.flatnonzero(jobs[1:] != jobs[:-1]) + 1)))

    def chosen(self, some: NDArray[np.bool_]) -> Members:
        """Return some of them."""
        return self if some.all() else Members.of(self.rows[some], self.jobs[some])

    def sums(self, values: NDArray[np.float64], jobs: int) -> NDArray[np.float64]:
        """Return the sum of the instances' values for each of the first jobs."""
        # Run by run, since adding to the same number again and again takes a multiple of that.
        added = np.add.reduceat(values, self.starts)
        return np.bincount(self.jobs[self.starts], added, jobs).astype(np.float64, copy=False)


class Placement:
    """Instances with jobs and derived figures.

    Immutable; valid until a job moves.
    """

    def __init__(self, layout: Layout, job_of: NDArray[np.int32]) -> None:
        self._layout = layout
        self._job_of = job_of.copy()

    def is_of(self, layout: Layout, job_of: NDArray[np.int32]) -> bool:
        """Return whether jobs are still where they were."""
        return layout is self._layout and np.array_equal(job_of, self._job_of)

    def members(self, jobs: int) -> Members:
        """Return the instances of the first jobs."""
        placed = self._placed
        return placed if self._last < jobs else placed.chosen(placed.jobs < jobs)

    def spans(self, jobs: int) -> NDArray[np.bool_]:
        """Return a mask of the first jobs on more than one UltraServer or standalone instance."""
        mask = np.zeros(jobs, np.bool_)
        known = self._spans[:jobs]
        mask[: len(known)] = known
        return mask

    def instances(self, jobs: int) -> NDArray[np.int64]:
        """Return on how many instances each of the first jobs runs; not to be changed."""
        if self._last + 1 != jobs:
            return np.bincount(self.members(jobs).jobs, minlength=jobs)
        return self._instances

    @cached_property
    def _instances(self) -> NDArray[np.int64]:
        return np.bincount(self._placed.jobs)

    @cached_property
    def _placed(self) -> Members:
        rows = np.flatnonzero(self._job_of >= 0)
        return Members.of(rows, self._job_of[rows].astype(np.intp))

    @cached_property
    def _last(self) -> int:
        """The largest number of a job; -1 where there is none."""
        return int(self._placed.jobs.max(initial=-1))

    @cached_property
    def _spans(self) -> NDArray[np.bool_]:
        rows, owners, _ = self._placed
        domains = self._layout.domain_of_instance[rows]
        any_of = np.zeros(self._last + 1, domains.dtype)
        any_of[owners] = domains
        others: NDArray[np.bool_] = (
            np.bincount(owners[domains != any_of[owners]], minlength=len(any_of)) > 0
        )
        return others
