"""Published jobs and their instances."""

from __future__ import annotations

import math
import operator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import CLAIMED_STATES
from trnfleet.domain.layout import EMPTY_LAYOUT
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.store.layout_changes import numbers_in
from trnfleet.monitor.store.retained import RetainedCollection
from trnfleet.wire.messages import ClaimMessage, JobMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout


CLAIMED = "claimed"
"""Kind of a job without a message: claims of hosts are all that is known."""
_UTILISATION = BY_NAME["nc_util_pct"]
_EXECUTIONS = BY_NAME["exec_completed"]
_NEVER_NS = np.iinfo(np.int64).min // 2
_MEMORY = BY_NAME["hbm_used_bytes"]


class ClaimedFigures(NamedTuple):
    """Figures of the chips that a job claims."""

    chips: int
    nc_util_pct: float
    """Mean of the known cores; NaN without any."""
    hbm_used_bytes: float
    """Sum of the known chips; NaN without any."""


class Placed(Protocol):
    """Rows with jobs, such as a store."""

    layout: Layout
    generation: int
    revision: int
    job_of: NDArray[np.int32]
    chip_ts_ns: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]


class Jobs(RetainedCollection[JobMessage]):
    """The jobs of one fleet.

    Rows of the store refer to a job by its place in `by_key`.
    """

    def __init__(self) -> None:
        super().__init__(operator.attrgetter("job"))
        self.names: dict[str, str] = {}
        """Display names by job, where there is one."""
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
        self.sources: dict[str, str] = {}
        """Source of each job's claims, as of the last placement."""
        self._published: dict[str, JobMessage] = {}
        """Job messages as they came."""
        self._claims: dict[str, ClaimMessage] = {}
        """Claims by the path of their instance."""
        self._claimed = 0
        """Jobs named by all claims, one per instance."""
        self._claimed_rows: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        """Claimed chips and the number of their job, as of the last placement."""
        self._layout = EMPTY_LAYOUT
        """Layout of the two arrays below. Their last entry is for a chip that is new in it."""
        self._executions = _EXECUTIONS.blank(1)
        """Each claimed chip's last known count."""
        self._active_ns = np.full(1, _NEVER_NS)
        """Source time at which each claimed chip last completed an execution or was busy."""

    def places_with(self, message: JobMessage) -> int:
        """Return how many addresses and ranges all jobs would name if a message was put."""
        known = self._published.get(message.job)
        return self._places + len(message.on) - (0 if known is None else len(known.on))

    def put(self, message: JobMessage) -> None:
        """Replace the message of the same job."""
        known = self.by_key.get(message.job)
        self._places = self.places_with(message)
        former = self._published.get(message.job)
        self._published[message.job] = message
        is_claimed = message.job in self.sources and not (former or message).on
        if known is not None and is_claimed and not message.on:
            message = msgspec.structs.replace(message, on=known.on)
        if known is None or known.on != message.on:
            self._have_moved = True
        self.names.pop(message.job, None)
        if message.display_name:
            self.names[message.job] = message.display_name
        super().put(message)

    def remove(self, key: str) -> None:
        """Remove a job after its message was cleared."""
        known = self._published.pop(key, None)
        if known is None:
            return
        self._places -= len(known.on)
        self._have_moved = True
        if key not in self.sources:
            self._drop(key)

    def _drop(self, key: str) -> None:
        self.last_known -= {key}
        self.names.pop(key, None)
        super().remove(key)

    def claimed_with(self, message: ClaimMessage) -> int:
        """Return how many jobs all claims would name if a message was put."""
        known = self._claims.get(message.path)
        return self._claimed + len(message.claims) - (0 if known is None else len(known.claims))

    def put_claim(self, message: ClaimMessage) -> None:
        """Replace the claims of an instance."""
        if self._claims.get(message.path) != message:
            self._claimed = self.claimed_with(message)
            self._claims[message.path] = message
            self._have_moved = True

    def remove_claim(self, path: str) -> None:
        """Remove the claims of an instance after its message was cleared."""
        known = self._claims.pop(path, None)
        if known is not None:
            self._claimed -= len(known.claims)
            self._have_moved = True

    def has_claim_of_other_boot(self, path: str, boot: str) -> bool:
        """Return whether an instance's claims are of another boot."""
        known = self._claims.get(path)
        return known is not None and known.boot != boot

    def _merge(self, layout: Layout) -> list[ClaimMessage]:
        """Make jobs from claims, and return those of known instances."""
        claims = [claim for path, claim in self._claims.items() if path in layout.instance_index]
        places: dict[str, dict[str, str]] = {}
        former = self.sources
        self.sources = {}
        for claim in claims:
            for spec in claim.claims:
                places.setdefault(spec.job, {})[claim.path] = claim.ts
                self.sources[spec.job] = spec.source
                if spec.display_name and spec.job not in self._published:
                    self.names[spec.job] = spec.display_name
        for name in former.keys() - places:
            if name in self._published:
                super().put(self._published[name])
            else:
                self._drop(name)
        for name, instances in places.items():
            message = self._published.get(name)
            if message is None:
                known = self.by_key.get(name)
                state = (
                    known.state
                    if known is not None and known.kind == CLAIMED
                    else CLAIMED_STATES[0]
                )
                message = JobMessage(
                    job=name, kind=CLAIMED, state=state, ts=max(instances.values()), on=()
                )
            super().put(
                message if message.on else msgspec.structs.replace(message, on=tuple(instances))
            )
        return claims

    def _place_claims(
        self, claims: list[ClaimMessage], store: Placed, runs: list[tuple[int, int, int]]
    ) -> None:
        """Write claimed jobs into the store; of several on an instance the largest."""
        numbers = {name: number for number, name in enumerate(self.placed)}
        chips: list[tuple[int, int]] = []
        for claim in claims:
            row = store.layout.instance_index[claim.path]
            first, last = store.layout.chip_start[[row, row + 1]].tolist()
            for spec in sorted(claim.claims, key=lambda spec: len(spec.chips)):
                number = numbers[spec.job]
                chips += [(first + chip, number) for chip in {*spec.chips} if first + chip < last]
                message = self._published.get(spec.job)
                if message is None or not message.on:
                    store.job_of[row] = number
                    runs.append((number, row, row + 1))
        self._claimed_rows = np.array(chips, np.int64).reshape(-1, 2)

    def follow_claims(self, store: Placed, window_s: float) -> None:
        """Update the states of claimed jobs from executions and utilisation of their chips.

        Args:
            store: The chips.
            window_s: Seconds of source time for which an active chip counts as running.
        """
        rows, owners = self._claimed_rows.T
        if not len(rows) or store.generation != self.generation:
            return
        self._follow_layout(store.layout)
        busy = store.columns[_UTILISATION.name][rows]
        executions = store.columns[_EXECUTIONS.name][rows]
        has_utilisation = busy != _UTILISATION.top
        is_counted = executions != _EXECUTIONS.top
        before = self._executions[rows]
        is_active = (has_utilisation & (busy > 0)).any(axis=1) | is_counted & (executions > before)
        ts_ns = store.chip_ts_ns[rows]
        active_ns = np.where(is_active, ts_ns, self._active_ns[rows])
        self._executions[rows] = np.where(is_counted, executions, before)
        self._active_ns[rows] = active_ns
        is_running = abs(ts_ns - active_ns) < window_s * NS_PER_S
        levels = np.where(is_running, 2, is_counted | has_utilisation.any(axis=1))
        states = np.zeros(len(self.placed), np.int64)
        np.maximum.at(states, owners, levels)
        for number in np.unique(owners).tolist():
            job = self.by_key.get(self.placed[number])
            state = CLAIMED_STATES[states[number]]
            if job is not None and job.kind == CLAIMED and job.state != state:
                super().put(msgspec.structs.replace(job, state=state))

    def _follow_layout(self, layout: Layout) -> None:
        if layout is not self._layout:
            numbers = np.append(numbers_in(layout, self._layout, Level.CHIP), -1)
            self._executions = self._executions[numbers]
            self._active_ns = self._active_ns[numbers]
            self._layout = layout

    def claimed_figures(self, name: str, store: Placed) -> ClaimedFigures | None:
        """Return the figures of the chips that a job claims; None without claims."""
        if name not in self.sources or name not in self.placed:
            return None
        if store.generation != self.generation:
            return None
        rows, owners = self._claimed_rows.T
        rows = np.unique(rows[owners == self.placed.index(name)])
        busy = _UTILISATION.decode(store.columns[_UTILISATION.name][rows])
        used = _MEMORY.decode(store.columns[_MEMORY.name][rows])
        busy = busy[~np.isnan(busy)]
        used = used[~np.isnan(used)]
        return ClaimedFigures(
            len(rows),
            float(busy.mean()) if len(busy) else np.nan,
            float(used.sum()) if len(used) else np.nan,
        )

    def lnc_of(self, chip: int, store: Placed) -> int | None:
        """Return the LNC that a chip's job has published; None if unknown, or if jobs differ."""
        if store.generation != self.generation:
            return None
        claimed = self._claimed_rows[self._claimed_rows[:, 0] == chip, 1].tolist()
        numbers = claimed or [int(store.job_of[store.layout.instance_of_chip[chip]])]
        known = [self._published.get(self.placed[number]) for number in numbers if number >= 0]
        lncs = {job.lnc for job in known if job is not None and (claimed or job.on)}
        return lncs.pop() if len(lncs) == 1 else None

    def claim_facts(self, name: str, store: Placed) -> dict[str, Any] | None:
        """Return the figures of the chips that a job claims, for JSON; None without claims."""
        figures = self.claimed_figures(name, store)
        if figures is None:
            return None
        known = {
            key: None if math.isnan(value) else round(value, 1)
            for key, value in figures._asdict().items()
        }
        return {"source": self.sources[name], **known}

    def place(self, store: Placed) -> bool:
        """Write the job of each instance into the store.

        Return False if neither jobs nor the layout have changed.
        """
        if store.generation == self.generation and not self._have_moved:
            return False
        self._have_moved = False
        self.generation = store.generation
        store.job_of[:] = -1
        claims = self._merge(store.layout) if self._claims or self.sources else []
        self.placed = tuple(self.by_key)
        runs: list[tuple[int, int, int]] = []
        self._place_claims(claims, store, runs)
        # Where two jobs claim an instance, the one dated last has it: a former run's may still be
        # retained.
        for number, job in sorted(enumerate(self.by_key.values()), key=lambda pair: pair[1].ts):
            # A job without places of its own is placed by claims, before those with some.
            for target in self._published[job.job].on if job.job in self._published else ():
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
