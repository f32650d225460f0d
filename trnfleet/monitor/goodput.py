"""Paid time of a fleet's instances by cause and job, over the time that the monitor has observed.

Time is the fleet's. It is added about once a second: each instance's time since the sample before
goes to its cause in this one. Sums are since the start, and by minute for the last hour. Stepping
time is split into progress and loss only on reading (`domain/goodput.py`).

Paid is an instance of a reservation from its start until its termination, described or not, and a
described instance of no reservation. A reservation without a fee, and an instance of none, have the
price that a person gives for the type. Only US dollars are added up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.goodput import (
    COLUMNS,
    HEARD,
    SERVING,
    IdealStep,
    PaidRow,
    StepChange,
    StepCounters,
    Sum,
    TimeCause,
    cause_of_job,
    expected_of,
    goodput_of,
    split_steps,
)
from trnfleet.domain.power import POWER_W, chip_watts, power_key
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.goodput_report import NO_JOB, GoodputReport, Part, paid_report
from trnfleet.monitor.reservations.table import HOLDS_NOW, IDLE_BELOW_PCT
from trnfleet.monitor.reservations.usage import GAP_S, HOUR_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.reservations.table import Reservation, Reservations
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.jobs import Jobs, Placement
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import JobMessage

MINUTES = 60
"""Minutes stored one by one."""
MOST_JOBS = 62
"""Most jobs with sums of their own, 100 kB each: the largest shipped fleet has 48. Ended ones make
room; then the rest is together."""
MOST_PARTS = 500
"""Most parts of causes by name, 1 kB each. The smallest makes room."""
_OTHERS = 1
"""Slot of jobs without sums of their own."""
_START = 0
"""Span of the sums since the start; the others are minutes."""
_SECONDS = 0
"""Unit of sums; the other one is USD."""
_BEGUN = {
    TimeCause.CHECKPOINT: Sum.CHECKPOINTS,
    TimeCause.RECOVERY: Sum.FAILURES,
}
"""Sums of how often jobs come to a cause."""
_AT_WORK = {TimeCause.PRODUCTIVE, TimeCause.SLOW, TimeCause.UNSPLIT}


class Goodput:
    """Sums of one fleet."""

    def __init__(self, site: Site = DEFAULT_SITE) -> None:
        self._site = site
        self._slots: dict[str, int] = {NO_JOB: 0}
        self._sums: NDArray[np.float64] = np.zeros((0, 1 + MINUTES, 2, COLUMNS))
        """Slots x spans x (seconds, USD) x causes and `Sum`."""
        self._lasts_s: NDArray[np.float64] = np.zeros(1 + MINUTES)
        """Observed time by span."""
        self._minute = 0
        """Newest minute with sums, since 1970."""
        self.ledger: list[PaidRow] | None = None
        """Rows of finished minutes, and of steps lost later; None if nobody takes them away. They
        add up to the sums, and no row changes afterwards."""
        self._at_ns: int | None = None
        self._counters = StepCounters()
        self._plan_s: NDArray[np.float64] = np.zeros(0)
        """Ideal step time that a publisher gives, by slot; NaN without."""
        self._has_steps: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether a job counts steps, by slot."""
        self._within: NDArray[np.bool_] = np.zeros((0, len(_BEGUN)), np.bool_)
        """Whether a job was in a cause of `_BEGUN` at the last sample, by slot."""
        self._size: NDArray[np.float64] = np.zeros((0, 2))
        """Instances and chips of a job, by slot."""
        self._measured: dict[int, IdealStep] = {}
        """Measured ideal step times by slot."""
        self._parts: dict[tuple[int, TimeCause, str], NDArray[np.float64]] = {}
        """Spans x (seconds, USD) by slot, cause and name."""
        self._recent: tuple[int, Mapping[str, float]] = (0, {})
        """The minute of `recent`, and its result."""
        self._paid: _PaidInstances | None = None
        self._quarantined: set[str] = set()
        self._events_seen = 0
        self._grow(_OTHERS + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return self._sums.nbytes + sum(part.nbytes for part in self._parts.values())

    @property
    def minute(self) -> int:
        """Newest minute with sums, since 1970; the ledger has all before it."""
        return self._minute

    def watch(
        self,
        store: Store,
        rollups: Rollups,
        jobs: Jobs,
        reservations: Reservations,
        events: Events,
        moment: Moment,
        *,
        job_causes: Mapping[str, str],
        is_cut_off: bool,
    ) -> None:
        """Add the time since the last sample.

        A longer gap, and time in which nothing could be heard, is unobserved. After a jump of more
        than an hour, or back, time goes on from there.

        Args:
            store: Which job has each instance.
            rollups: Freshness and utilisation of instances, of the same pass.
            jobs: The jobs as placed in the store.
            reservations: Reserved capacity.
            events: Those of quarantines.
            moment: The fleet's time.
            job_causes: What alerts name as cause of jobs' trouble, by job.
            is_cut_off: Whether nothing can be heard.
        """
        table = reservations.table()
        generations = {rollups.generation, jobs.generation}
        if table:
            generations.add(reservations.generation)
        if not rollups.ready or generations != {store.generation}:
            return
        before_ns = self._at_ns
        self._at_ns = moment.time_ns
        self._follow_quarantines(events, store.layout)
        lasted_ns = 0 if before_ns is None else moment.time_ns - before_ns
        if not 0 < lasted_ns <= HOUR_NS:
            self._counters.interrupt()
            lasted_ns = 0
        is_heard = not is_cut_off and lasted_ns <= GAP_S * moment.speed * NS_PER_S
        lasted_s = lasted_ns / NS_PER_S
        # Time up to a full minute belongs to the minute before it.
        spans = [_START, self._span_of(moment.time_ns - 1)]
        self._lasts_s[spans] += lasted_s
        messages = [jobs.by_key.get(name) for name in jobs.placed]
        slots = self._slots_of(jobs)
        instances, idle = self._instances(
            store, rollups, messages, table, moment.time_ns, is_heard=is_heard
        )
        own = np.flatnonzero(slots[:-1] != _OTHERS)
        change = self._steps(
            own, slots[own], messages, instances, store.placement.instances(len(messages)), moment
        )
        added = instances * lasted_s
        heard = instances[:, :, HEARD].sum(axis=2)
        for column, steps in ((Sum.KEPT, change.made), (Sum.WRITTEN_OFF, change.written_off)):
            added[:, own, column] = heard[:, own] * steps
        within = instances[_SECONDS, own][:, [*_BEGUN]] > 0
        added[_SECONDS, own[:, None], [*_BEGUN.values()]] = within & ~self._within[slots[own]]
        self._within[slots[own]] = within
        if self._paid is not None:
            self._size[slots[own]] = self._paid.sizes[own]
            _add_energy(added[_SECONDS], store, rollups, self._paid, lasted_s, is_heard=is_heard)
        for number, job in enumerate(messages):
            if is_heard and job is not None and job.job not in jobs.last_known:
                added[_SECONDS, number, Sum.TOKENS] = (job.tokens_per_s or 0.0) * lasted_s
        for span in spans:
            np.add.at(self._sums[:, span], slots, added.swapaxes(0, 1))
        if job_causes:
            self._add_troubled(spans, jobs, slots, instances * lasted_s, job_causes)
        for name, amount in idle.items():
            self._add_part(spans, (0, TimeCause.IDLE_RESERVED, name), amount * lasted_s)
        for number in np.flatnonzero(change.lost).tolist():
            lost = heard[:, own[number]] * change.lost[number]
            cause = job_causes.get(jobs.placed[own[number]], "")
            self._lose(int(slots[own[number]]), lost, cause)

    def report(self, minutes: int | None = None) -> GoodputReport:
        """Return the paid time since the start, or over the last minutes, begun ones included."""
        spans = [_START]
        if minutes is not None:
            spans = [1 + (self._minute - ago) % MINUTES for ago in range(min(minutes, MINUTES))]
        sums = self._sums[:, spans].sum(axis=1)
        made = paid_report(self._rows(sums), float(self._lasts_s[spans].sum()))
        parts: dict[int, dict[TimeCause, dict[str, NDArray[np.float64]]]] = {}
        for (slot, cause, name), part in self._parts.items():
            if part[spans, _SECONDS].any():
                amount = part[spans].sum(axis=0)
                parts.setdefault(slot, {}).setdefault(cause, {})[name] = amount
        jobs = []
        for job in made.jobs:
            slot = _OTHERS if job.job is None else self._slots[job.job]
            time = np.stack([job.paid.seconds, job.paid.usd])
            jobs.append(
                job._replace(
                    expected=expected_of(
                        job.paid.seconds, sums[slot, _SECONDS], *self._size[slot].tolist()
                    ),
                    parts={
                        cause: _bounded(named, time[:, cause])
                        for cause, named in parts.get(slot, {}).items()
                    },
                )
            )
        return made._replace(jobs=jobs, site=self._site)

    def book(self) -> None:
        """Add the rows of the newest minute to the ledger."""
        if self.ledger is not None:
            span = 1 + self._minute % MINUTES
            lasts_s = float(self._lasts_s[span])
            self.ledger += self._rows(self._sums[:, span], self._minute, lasts_s)

    def _rows(
        self, sums: NDArray[np.float64], minute: int = 0, lasts_s: float = 0.0
    ) -> list[PaidRow]:
        """Return the sums of each job that has any."""
        names: dict[int, str | None] = {slot: name for name, slot in self._slots.items()}
        names[_OTHERS] = None
        ideal_s = self._ideal_s()
        return [
            PaidRow(
                minute,
                self._minute,
                name,
                lasts_s,
                sums[slot].copy(),
                float(ideal_s[slot]),
                self._measured[slot].instances
                if slot in self._measured and not self._plan_s[slot] > 0
                else None,
                bool(self._has_steps[slot]),
            )
            for slot, name in names.items()
            if sums[slot].any()
        ]

    def recent(self) -> Mapping[str, float]:
        """Return the goodput of each job over the last half hour, as far as it was observed.

        It leaves out jobs that began in it or were mostly not observed. It changes once a minute.
        """
        if self._recent[0] != self._minute:
            minutes = MINUTES // 2
            made: dict[str, float] = {}
            spans = [1 + (self._minute - ago) % MINUTES for ago in range(1, minutes)]
            for job in self.report(minutes).jobs:
                time = job.paid.seconds.copy()
                unobserved_s = time[TimeCause.UNOBSERVED]
                time[TimeCause.UNOBSERVED] = 0.0
                share = goodput_of(time)
                if job.job and share is not None and time.sum() > unobserved_s:
                    seconds = self._sums[self._slots[job.job], spans, _SECONDS, : len(TimeCause)]
                    if seconds.any(axis=1).all():
                        made[job.job] = share
            self._recent = self._minute, made
        return self._recent[1]

    # Samples

    def _instances(
        self,
        store: Store,
        rollups: Rollups,
        messages: Sequence[JobMessage | None],
        reservations: Sequence[Reservation],
        now_ns: int,
        *,
        is_heard: bool,
    ) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Return instances, and their price in USD a second, by cause.

        (Instances, USD) x (jobs, none) x columns; and those idle without a job, by reservation.
        """
        count = len(messages)
        layout = store.layout
        if self._paid is None or not self._paid.is_of(store, count, reservations, now_ns):
            self._paid = _paid_instances(store, count, reservations, now_ns, self._site)
        paid = self._paid
        numbers = paid.numbers
        by_job = [
            TimeCause.UNSPLIT if job is None else present_cause(job, self._site) for job in messages
        ]
        made = np.zeros((2, count + 1, COLUMNS))
        made[:, np.arange(count + 1), [*by_job, TimeCause.IDLE]] = paid.by_job
        made[:, count, TimeCause.UNOBSERVED] = paid.missing
        made[_SECONDS, :, Sum.UNPRICED] = paid.unpriced
        serves = np.array(
            [
                job is not None and job.kind == SERVING and cause in _AT_WORK
                for job, cause in zip(messages, by_job, strict=True)
            ]
            + [False]
        )
        total, cores = rollups.parts("nc_util_pct", Level.INSTANCE)
        causes = np.full(len(numbers), -1, np.int8)
        is_idle = (cores[paid.free] > 0) & (total[paid.free] <= IDLE_BELOW_PCT * cores[paid.free])
        causes[paid.free[~is_idle]] = TimeCause.UNSPLIT
        serving = np.flatnonzero(serves[numbers]) if serves.any() else np.zeros(0, np.int64)
        causes[serving[cores[serving] == 0]] = TimeCause.UNSPLIT
        states = rollups.states(Level.INSTANCE)
        silent = np.flatnonzero(states[:, Freshness.LIVE] == 0)
        causes[silent] = TimeCause.UNOBSERVED
        causes[silent[states[silent, Freshness.OFFLINE] > 0]] = TimeCause.DOWN
        for path in self._quarantined:
            rows = layout.find_instances(path)
            if rows:
                causes[rows.start : rows.stop] = TimeCause.DOWN
        if not is_heard:
            causes[:] = TimeCause.UNOBSERVED
        jobs = np.array([*by_job, TimeCause.IDLE])
        is_reserved = paid.blocks < len(paid.names)
        idle = is_reserved & (causes < 0) & (jobs[numbers] == TimeCause.IDLE)
        causes[idle] = TimeCause.IDLE_RESERVED
        # Most instances are as their job is; the others are moved.
        others = np.flatnonzero(causes >= 0)
        _move(made, paid, others, jobs[numbers[others]], causes[others])
        if len(others):
            serving = serving[causes[serving] < 0]
        share = 1.0 - total[serving] / (100.0 * cores[serving])
        _move(made, paid, serving, jobs[numbers[serving]], TimeCause.HEADROOM, share)
        free = paid.free[idle[paid.free]]
        blocks = np.stack(
            [
                np.bincount(paid.blocks[free], weight[free], len(paid.names))
                for weight in paid.weights
            ],
            axis=1,
        )
        return made, {
            paid.names[number]: blocks[number]
            for number in np.flatnonzero(blocks[:, _SECONDS]).tolist()
        }

    def _add_troubled(
        self,
        spans: list[int],
        jobs: Jobs,
        slots: NDArray[np.int64],
        instances: NDArray[np.float64],
        job_causes: Mapping[str, str],
    ) -> None:
        """Add slow time and recovery of jobs with a known cause."""
        numbers = {name: number for number, name in enumerate(jobs.placed)}
        ideal_s = self._ideal_s()
        for name in job_causes.keys() & numbers.keys() & jobs.by_key.keys():
            slot = int(slots[numbers[name]])
            time = instances[:, numbers[name]]
            step_s = jobs.by_key[name].step_time_s
            slow = time[:, TimeCause.SLOW]
            if step_s is not None and step_s > ideal_s[slot]:
                slow = slow + time[:, TimeCause.UNSPLIT] * (1.0 - ideal_s[slot] / step_s)
            for cause, amount in (
                (TimeCause.SLOW, slow),
                (TimeCause.RECOVERY, time[:, TimeCause.RECOVERY]),
            ):
                self._add_part(spans, (slot, cause, job_causes[name]), amount)

    def _add_part(
        self, spans: list[int], key: tuple[int, TimeCause, str], amount: NDArray[np.float64]
    ) -> None:
        if not amount[_SECONDS]:
            return
        parts = self._parts
        if key not in parts:
            if len(parts) >= MOST_PARTS:
                del parts[min(parts, key=lambda known: parts[known][_START, _SECONDS])]
            parts[key] = np.zeros((1 + MINUTES, 2))
        parts[key][spans] += amount

    def _steps(
        self,
        own: NDArray[np.int64],
        slots: NDArray[np.int64],
        messages: Sequence[JobMessage | None],
        instances: NDArray[np.float64],
        placed: NDArray[np.int64],
        moment: Moment,
    ) -> StepChange:
        """Return the steps of jobs with a slot, and note their ideal step times."""
        columns = [
            np.array([getattr(messages[number], name, None) for number in own], np.float64)
            for name in ("steps_completed", "steps_lost", "ideal_step_s", "step_time_s")
        ]
        completed, lost, plan_s, step_s = columns
        change = self._counters.follow(slots, completed, lost)
        heard = instances[_SECONDS, own][:, HEARD].sum(axis=1)
        self._counters.interrupt(slots[heard == 0])
        self._has_steps[slots] |= ~np.isnan(completed)
        # A plan that a publisher computes again may differ in its last digits.
        is_new = (plan_s > 0) & ~np.isclose(plan_s, self._plan_s[slots])
        for number in np.flatnonzero(is_new).tolist():
            self._settle(int(slots[number]))
            self._plan_s[slots[number]] = plan_s[number]
        is_measured = (change.made > 0) & (step_s > 0) & ~(self._plan_s[slots] > 0)
        for number in np.flatnonzero(is_measured).tolist():
            ideal = self._measured.setdefault(int(slots[number]), IdealStep())
            size = int(placed[own[number]])
            if size != ideal.instances:
                self._settle(int(slots[number]))
            ideal.add(moment.time_ns, float(step_s[number]), size)
        return change

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without derived data."""
        return {**self.__dict__, "_paid": None}

    def _lose(self, slot: int, lost: NDArray[np.float64], job_cause: str) -> None:
        """Move steps from kept to lost: the newest ones, in the minutes in which they were made."""
        ideal_s = self._ideal_s()[slot]
        spans = [1 + (self._minute - ago) % MINUTES for ago in range(MINUTES)]
        older = np.zeros_like(lost)
        for some in ([_START], spans):
            left = lost.copy()
            for ago, span in enumerate(some):
                sums = self._sums[slot, span]
                moved = np.minimum(left, sums[:, Sum.KEPT])
                sums[:, Sum.KEPT] -= moved
                sums[:, Sum.LOST] += moved
                left -= moved
                if job_cause and ideal_s > 0:
                    self._add_part([span], (slot, TimeCause.LOST_WORK, job_cause), moved * ideal_s)
                if ago:
                    self._book_lost(slot, ago, moved)
            older = left - older
        self._book_lost(slot, MINUTES - 1, older)

    def _book_lost(self, slot: int, ago: int, moved: NDArray[np.float64]) -> None:
        """Add steps that an earlier minute has made, and that are lost now, to the ledger."""
        if self.ledger is not None and moved.any():
            sums = np.zeros_like(self._sums[:, _START])
            sums[slot, :, Sum.KEPT] = -moved
            sums[slot, :, Sum.LOST] = moved
            self.ledger += self._rows(sums, self._minute - ago)

    def _follow_quarantines(self, events: Events, layout: Layout) -> None:
        for event in events.since(self._events_seen):
            if event.name == "instance_quarantined":
                self._quarantined.add(event.path)
            elif event.name == "instance_returned":
                self._quarantined.discard(event.path)
        self._events_seen = events.received
        self._quarantined = {path for path in self._quarantined if layout.find_instances(path)}

    # Room

    def _span_of(self, time_ns: int) -> int:
        """Return the span of a minute, and empty the spans it replaces."""
        minute = time_ns // MINUTE_NS
        minutes = range(max(self._minute + 1, minute - MINUTES + 1), minute + 1)
        if minute < self._minute:
            # Time has gone back: what was later has not happened.
            minutes = range(minute + 1, min(self._minute, minute + MINUTES) + 1)
        elif minute > self._minute:
            self.book()
        if minutes:
            stale = [1 + other % MINUTES for other in minutes]
            self._sums[:, stale] = 0.0
            self._lasts_s[stale] = 0.0
            for part in self._parts.values():
                part[stale] = 0.0
        self._minute = minute
        return 1 + minute % MINUTES

    def _slots_of(self, jobs: Jobs) -> NDArray[np.int64]:
        """Return the slot of each placed job, and that of no job."""
        ended: list[str] | None = None
        for name in jobs.placed:
            if name in self._slots:
                continue
            slot = len(self._slots) + 1
            if slot <= MOST_JOBS + 1:
                if slot == len(self._sums):
                    self._grow(2 * slot)
                self._slots[name] = slot
                continue
            if ended is None:
                ended = [job for job in self._slots if job and job not in jobs.by_key]
            if ended:
                slot = self._slots.pop(ended.pop(0))
                self._settle(slot)
                self._sums[_OTHERS] += self._sums[slot]
                for key in [key for key in self._parts if key[0] == slot]:
                    part = self._parts.pop(key)
                    self._parts[_OTHERS, *key[1:]] = part + self._parts.get((_OTHERS, *key[1:]), 0)
                self._forget(slot)
                self._slots[name] = slot
        return np.array([*(self._slots.get(name, _OTHERS) for name in jobs.placed), 0], np.int64)

    def _settle(self, slot: int) -> None:
        """Split a job's stepping time so far, because another ideal step time follows."""
        sums = self._sums[slot]
        ideal_s = self._ideal_s()[slot]
        if ideal_s > 0:
            sums[..., : len(TimeCause)] = split_steps(sums, ideal_s)
            sums[..., [Sum.KEPT, Sum.LOST]] = 0.0

    def _forget(self, slot: int) -> None:
        self._sums[slot] = 0.0
        self._counters.interrupt(np.array([slot]))
        self._plan_s[slot] = np.nan
        self._has_steps[slot] = False
        self._within[slot] = False
        self._measured.pop(slot, None)

    def _grow(self, slots: int) -> None:
        more = slots - len(self._sums)
        self._sums = np.pad(self._sums, ((0, more), (0, 0), (0, 0), (0, 0)))
        self._counters.grow(slots)
        self._plan_s = np.pad(self._plan_s, (0, more), constant_values=np.nan)
        self._has_steps = np.pad(self._has_steps, (0, more))
        self._within = np.pad(self._within, ((0, more), (0, 0)))
        self._size = np.pad(self._size, ((0, more), (0, 0)))

    def _ideal_s(self) -> NDArray[np.float64]:
        """Return the ideal step time of each slot; NaN if unknown, or without counted steps."""
        ideal_s = self._plan_s.copy()
        for slot, ideal in self._measured.items():
            if np.isnan(ideal_s[slot]) and ideal.seconds is not None:
                ideal_s[slot] = ideal.seconds
        return np.where(self._has_steps, ideal_s, np.nan)


def _add_energy(
    added: NDArray[np.float64],
    store: Store,
    rollups: Rollups,
    paid: _PaidInstances,
    lasted_s: float,
    *,
    is_heard: bool,
) -> None:
    """Add the energy of all instances, paid or not, by job."""

    def put(column: Sum, of_instances: NDArray[np.float64]) -> None:
        added[:, column] = np.bincount(paid.numbers, of_instances, len(added)) * lasted_s

    added[:, Sum.CHIP_S] = paid.sizes[:, 1] * lasted_s
    key = power_key(lambda names: store.announces(names, slice(None))) if is_heard else None
    if key is None:
        return
    totals, covered = rollups.parts(key, Level.INSTANCE)
    # A silent instance has its last known values.
    covered = np.where(rollups.live(Level.INSTANCE), covered, 0.0)
    put(Sum.METERED_CHIP_S, covered)
    watts = chip_watts(key, totals, covered, store.layout)
    for column in (Sum.ENERGY_J,) if key == POWER_W else (Sum.ENERGY_J, Sum.MODELLED_J):
        put(column, np.where(covered > 0, watts, 0.0))


def _bounded(
    parts: Mapping[str, NDArray[np.float64]], total: NDArray[np.float64]
) -> dict[str, Part]:
    """Return parts of (seconds, USD) and the rest, together no more than all of it.

    Slow time is known by the step only, and by the second what may explain it.
    """
    named: NDArray[np.float64] = np.sum([*parts.values()], axis=0)
    share = np.divide(total, named, out=np.ones(2), where=named > total)
    rest = np.maximum(total - named * share, 0.0)
    return {
        name: Part(*amount.tolist())
        for name, amount in [*((name, part * share) for name, part in parts.items()), ("", rest)]
        if amount[_SECONDS]
    }


class _PaidInstances(NamedTuple):
    """Paid instances of a layout, by row and by job: as long as nothing begins, ends or moves."""

    placement: Placement
    key: tuple[int, list[object]]
    """Number of jobs, and reservations with their rows."""
    until_ns: int
    """Time of the next beginning or end of a reservation."""
    numbers: NDArray[np.int64]
    """Number of each row's job; the number of jobs for none."""
    free: NDArray[np.int64]
    """Rows without a job."""
    weights: NDArray[np.float64]
    """(Instances, USD a second) x rows."""
    by_job: NDArray[np.float64]
    """The same, added up by job."""
    missing: NDArray[np.float64]
    """The same of reserved instances without a description."""
    unpriced: NDArray[np.float64]
    """Instances without a known price by job."""
    sizes: NDArray[np.float64]
    """Instances and chips by job."""
    names: list[str]
    """Active reservations."""
    blocks: NDArray[np.int64]
    """Number of each row's reservation; the number of them for none."""

    def is_of(
        self, store: Store, count: int, reservations: Sequence[Reservation], now_ns: int
    ) -> bool:
        """Return whether they are still the same."""
        return (
            now_ns < self.until_ns
            and store.placement is self.placement
            and _key(count, reservations) == self.key
        )


def _key(count: int, reservations: Sequence[Reservation]) -> tuple[int, list[object]]:
    messages = [reservation.message for reservation in reservations]
    return count, [*messages, *(reservation.rows for reservation in reservations)]


def _move(
    made: NDArray[np.float64],
    paid: _PaidInstances,
    rows: NDArray[np.int64],
    source: NDArray[np.int64],
    target: NDArray[np.int8] | TimeCause,
    share: NDArray[np.float64] | float = 1.0,
) -> None:
    """Move shares of instances from one cause to another."""
    if not len(rows):
        return
    shape = made.shape[1:]
    size = shape[0] * shape[1]
    first = paid.numbers[rows] * COLUMNS
    for unit, weights in enumerate(paid.weights):
        moved = weights[rows] * share
        gone = np.bincount(first + source, moved, size).reshape(shape)
        made[unit] -= gone
        if isinstance(target, TimeCause):
            made[unit, :, target] += gone.sum(axis=1)
        else:
            made[unit] += np.bincount(first + target, moved, size).reshape(shape)


def present_cause(job: JobMessage, site: Site) -> TimeCause:
    """Return the cause of the present time of a job's observed instances."""
    limits = (job.ttft_limit_s or site.ttft_limit, job.tpot_limit_s or site.tpot_limit)
    return cause_of_job(job.kind, job.state, job.ttft_s, job.tpot_s, limits)


def _paid_instances(
    store: Store, count: int, reservations: Sequence[Reservation], now_ns: int, site: Site
) -> _PaidInstances:
    """Return the paid instances at a time."""
    layout = store.layout
    paid = layout.members.astype(np.float64)
    prices = {name: float(price) / 3_600 for name, price in site.prices}
    of_types = np.array([prices.get(kind.name, np.nan) for kind in layout.types])
    usd = of_types[layout.instance_type] if len(of_types) else np.full(len(paid), np.nan)
    members = np.concatenate(([0], np.cumsum(layout.members)))
    missing = np.zeros(3)
    active: list[Reservation] = []
    edges_ns = [now_ns + HOUR_NS]
    for reservation in reservations:
        is_active = reservation.message.state.value in HOLDS_NOW
        ends_ns = reservation.terminates_ns or reservation.ends_ns or edges_ns[0]
        edges_ns += [ns for ns in (reservation.starts_ns, ends_ns) if ns > now_ns]
        if is_active and reservation.starts_ns <= now_ns < ends_ns:
            active.append(reservation)
            continue
        for rows in reservation.rows:
            paid[rows.start : rows.stop] = 0.0
    blocks = np.full(len(paid), len(active), np.int64)
    # A block that follows another has the same instances.
    for number, reservation in enumerate(active):
        message = reservation.message
        price = np.nan
        if reservation.fee_per_h is None:
            price = prices.get(message.instance_type, np.nan)
        elif message.instances and message.currency == "USD":
            price = float(reservation.fee_per_h) / message.instances / 3_600
        described = 0
        for rows in reservation.rows:
            paid[rows.start : rows.stop] = layout.members[rows.start : rows.stop]
            usd[rows.start : rows.stop] = price
            blocks[rows.start : rows.stop] = number
            described += int(members[rows.stop] - members[rows.start])
        rest = max(message.instances - described, 0)
        missing += rest, np.nan_to_num(rest * price), rest * np.isnan(price)
    numbers = np.where((store.job_of >= 0) & (store.job_of < count), store.job_of, count)
    numbers = numbers.astype(np.int64)
    weights = np.stack([paid, paid * np.nan_to_num(usd)])
    unpriced = np.bincount(numbers, paid * np.isnan(usd), count + 1).astype(np.float64)
    unpriced[count] += missing[-1]
    return _PaidInstances(
        store.placement,
        _key(count, reservations),
        min(edges_ns),
        numbers,
        np.flatnonzero(numbers == count),
        weights,
        np.stack([np.bincount(numbers, weight, count + 1) for weight in weights]),
        missing[:2],
        unpriced,
        np.stack(
            [np.bincount(numbers, size, count + 1) for size in (layout.members, layout.sizes)],
            axis=1,
        ),
        [reservation.message.id for reservation in active],
        blocks,
    )
