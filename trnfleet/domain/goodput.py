"""Goodput: the paid time of instances by cause, and the part of it that made progress.

The unit is the instance-second. Every second of a paid instance has one cause, so the causes add up
to the paid time. Money is seconds times the hourly price of the instance's own reservation, over
3,600.

A state says what a job does. It cannot say how much of its stepping time was useful: counters of
steps do. Stepping time is split with them when it is read, over the window that is read.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.site import TPOT_LIMIT_S, TTFT_LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

LEAST_STEPS = 20
"""Fewest steps for a measured ideal step time. Assumed."""
MOST_STEPS = 1_000
"""Most recent steps for it. Assumed: two hours of a step of 7 s."""
LEAST_WINDOW_STEPS = 5
"""Ideal steps in the shortest window in which stepping time is split. Assumed: in a shorter one the
step that has begun is more than a fifth."""
LEAST_CHECKPOINTS = 2
"""Checkpoints in a window before its figures are final: steps since the last one may still be lost,
as NVIDIA's Cluster Readiness Engine counts."""

DEVICE_DAYS = 2_111.5
"""Mean device-days between two unexpected interruptions of a job. Derived from those published of
Llama 3: 419 in 54 days on 16,384 devices."""


class TimeCause(enum.IntEnum):
    """TimeCause of a paid instance-second, in the order of every list of causes.

    The first one that holds counts.
    """

    UNOBSERVED = 0
    """No telemetry, and nobody announced its absence; or the monitor could not hear."""
    DOWN = 1
    """Announced as offline or quarantined."""
    IDLE_RESERVED = 2
    """Without work, in an active reservation."""
    IDLE = 3
    """Without work, in no reservation."""
    RECOVERY = 4
    """Its job has failed, hangs, or waits for instances."""
    START_UP = 5
    """From the start of a job to its first new step."""
    CHECKPOINT = 6
    """The part of checkpoints that blocks steps."""
    DATA_WAIT = 7
    EVALUATION = 8
    PRODUCTIVE = 9
    """Steps not lost later, at their ideal time. Of serving: busy and within the limits."""
    LOST_WORK = 10
    """Steps that no checkpoint held, at their ideal time."""
    SLOW = 11
    """The rest of the stepping time. Of serving: busy and over a limit."""
    HEADROOM = 12
    """Serving without requests. Not a loss."""
    UNSPLIT = 13
    """Working, as far as known, with no figures that tell progress from loss."""

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return self.name.lower()

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.key.replace("_", " ")


class Sum(enum.IntEnum):
    """Columns beside the causes in sums of a job's time."""

    KEPT = len(TimeCause)
    """Steps made and not lost, times the job's instances."""
    LOST = len(TimeCause) + 1
    """Steps made and lost in the window, times the job's instances."""
    WRITTEN_OFF = len(TimeCause) + 2
    """Steps lost in the window and made before it, times the job's instances."""
    CHECKPOINTS = len(TimeCause) + 3
    """Checkpoints begun."""
    UNPRICED = len(TimeCause) + 4
    """Instance-seconds without a known price."""
    FAILURES = len(TimeCause) + 5
    """Recoveries begun."""
    ENERGY_J = len(TimeCause) + 6
    """Energy of the chips with known power."""
    MODELLED_J = len(TimeCause) + 7
    """The part of it from modelled watts."""
    CHIP_S = len(TimeCause) + 8
    """Chip-seconds, paid or not."""
    METERED_CHIP_S = len(TimeCause) + 9
    """The part of them with known power."""
    TOKENS = len(TimeCause) + 10
    """Tokens made, as published."""


COLUMNS = len(TimeCause) + len(Sum)
STEPS = (Sum.KEPT, Sum.LOST, Sum.WRITTEN_OFF)
"""Sums that have a price: USD for each second of a step."""
ENERGY = [Sum.ENERGY_J, Sum.MODELLED_J, Sum.CHIP_S, Sum.METERED_CHIP_S, Sum.TOKENS]
HEARD = [cause for cause in TimeCause if cause not in {TimeCause.UNOBSERVED, TimeCause.DOWN}]
"""Causes of an instance that takes part in its job."""

_BY_STATE = {
    "idle": TimeCause.IDLE,
    "finished": TimeCause.IDLE,
    "failed": TimeCause.RECOVERY,
    "waiting": TimeCause.RECOVERY,
    "hung": TimeCause.RECOVERY,
    "lost": TimeCause.RECOVERY,
    "starting": TimeCause.START_UP,
    "compiling": TimeCause.START_UP,
    "loading": TimeCause.START_UP,
    "checkpointing": TimeCause.CHECKPOINT,
    "stalled": TimeCause.DATA_WAIT,
    "evaluating": TimeCause.EVALUATION,
}
SERVING = "inference"
"""Kind of a serving job."""


def cause_of_job(
    kind: str,
    state: str,
    ttft_s: float | None,
    tpot_s: float | None,
    limits: tuple[float, float] = (TTFT_LIMIT_S, TPOT_LIMIT_S),
) -> TimeCause:
    """Return the cause of the time of a job's observed instances.

    Args:
        kind: The job's kind.
        state: The job's state; any that is not known counts as running.
        ttft_s: Mean time to the first token of a serving job.
        tpot_s: Mean time of each further token.
        limits: Longest of both.
    """
    cause = _BY_STATE.get(state, TimeCause.UNSPLIT)
    if kind != SERVING or cause is not TimeCause.UNSPLIT or (ttft_s is None and tpot_s is None):
        return cause
    is_slow = (ttft_s or 0.0) > limits[0] or (tpot_s or 0.0) > limits[1]
    return TimeCause.SLOW if is_slow else TimeCause.PRODUCTIVE


class PaidRow(NamedTuple):
    """Paid time of a job: of a minute, or added up over several."""

    minute: int
    """Minute of the time, since 1970."""
    booked: int
    """Minute in which it became known: a later one in a row that moves steps from kept to lost."""
    job: str | None
    """Empty for instances without a job, None for jobs without sums of their own."""
    lasts_s: float
    """Observed part of the minute; 0 in a row that moves steps."""
    sums: NDArray[np.float64]
    """(Seconds, USD) x `COLUMNS`, with stepping time in `TimeCause.UNSPLIT`."""
    ideal_s: float
    """Ideal step time; NaN if unknown."""
    measured_on: int | None
    """Instances on which the ideal step time is measured; None if it is not."""
    has_steps: bool
    """Whether the job counts steps."""


def merge_rows(rows: Iterable[PaidRow]) -> list[PaidRow]:
    """Return the sums of rows by job and configuration.

    Another planned step time, or another number of instances where none is planned, is another
    configuration. Its newest ideal step time counts. Rows from before a job has any belong to its
    first configuration.

    Args:
        rows: The rows, those of each job by time.
    """
    merged: dict[tuple[str | None, float | None, int | None], PaidRow] = {}
    waiting: dict[str | None, PaidRow] = {}
    for row in rows:
        former = waiting.pop(row.job, None)
        joined = row if former is None else _joined(former, row)
        plan_s = joined.ideal_s if joined.measured_on is None else None
        key = (joined.job, plan_s, joined.measured_on)
        if key in merged:
            merged[key] = _joined(merged[key], joined)
        elif joined.ideal_s > 0:
            merged[key] = joined
        else:
            waiting[joined.job] = joined
    return [*merged.values(), *waiting.values()]


def _joined(former: PaidRow, row: PaidRow) -> PaidRow:
    return row._replace(
        minute=former.minute,
        sums=former.sums + row.sums,
        ideal_s=row.ideal_s if row.ideal_s > 0 else former.ideal_s,
        has_steps=former.has_steps or row.has_steps,
    )


class StepChange(NamedTuple):
    """Steps of jobs since their counters were read before, one value each."""

    made: NDArray[np.float64]
    lost: NDArray[np.float64]
    """Of the steps followed here."""
    written_off: NDArray[np.float64]
    """Lost, and made before they were followed."""


class StepCounters:
    """Counters of the optimizer steps of jobs, followed from one reading to the next."""

    def __init__(self) -> None:
        self._last: NDArray[np.float64] = np.full((0, 2), np.nan)
        """Completed and lost steps at the last reading; NaN before the first."""
        self._since_failure: NDArray[np.float64] = np.zeros(0)
        """Steps made since the last failure, or since they are followed."""

    def grow(self, jobs: int) -> None:
        """Make room for as many jobs."""
        more = jobs - len(self._last)
        self._last = np.pad(self._last, ((0, more), (0, 0)), constant_values=np.nan)
        self._since_failure = np.pad(self._since_failure, (0, more))

    def follow(
        self,
        jobs: NDArray[np.int64],
        completed: NDArray[np.float64],
        lost: NDArray[np.float64],
    ) -> StepChange:
        """Return the steps since the last reading.

        A counter that falls is another publisher's: the job is followed from there, without a step.

        Args:
            jobs: Numbers of the jobs, each once.
            completed: Steps that each has come to, lost ones not counted; NaN if unknown.
            lost: Steps lost so far; NaN, if unknown, for none.
        """
        reading = np.stack([completed, np.nan_to_num(lost)], axis=1)
        change = reading - self._last[jobs]
        self._last[jobs] = reading
        made = change.sum(axis=1)
        goes_on = (made >= 0) & (change[:, 1] >= 0)
        made = np.where(goes_on, made, 0.0)
        gone = np.where(goes_on, change[:, 1], 0.0)
        since = np.where(goes_on, self._since_failure[jobs] + made, 0.0)
        own = np.minimum(gone, since)
        self._since_failure[jobs] = np.where(gone > 0, 0.0, since)
        return StepChange(made, own, gone - own)

    def interrupt(self, jobs: NDArray[np.int64] | slice = slice(None)) -> None:
        """Count nothing up to the next reading: nobody saw how the time until then was spent."""
        self._last[jobs] = np.nan


class IdealStep:
    """Time of a job's step when nothing is slow, by its own steps.

    Mean of the steps up to median + 3 MAD, as Google's ML Goodput Measurement has it, over the
    last day in the present configuration. If most steps have become slow, the former value is
    lower, and stays.
    """

    def __init__(self) -> None:
        self.seconds: float | None = None
        """None before `LEAST_STEPS` steps."""
        self.instances = 0
        """Instances of the job in its present configuration."""
        self._steps: deque[tuple[int, float]] = deque(maxlen=MOST_STEPS)
        """Time and length of each step."""
        self._added = 0

    def add(self, time_ns: int, step_s: float, instances: int) -> None:
        """Add a step.

        Args:
            time_ns: Its time, ns since 1970.
            step_s: Its length.
            instances: Instances of the job. Another number is another configuration.
        """
        if instances != self.instances:
            self.instances = instances
            self._steps.clear()
            self._added = 0
            self.seconds = None
        self._steps.append((time_ns, step_s))
        self._added += 1
        if self._added % LEAST_STEPS:
            return
        while self._steps[0][0] < time_ns - DAY_S * NS_PER_S:
            self._steps.popleft()
        steps = np.array([length_s for _, length_s in self._steps])
        middle = np.median(steps)
        usual = steps[steps <= middle + 3 * np.median(np.abs(steps - middle))]
        now_s = float(usual.mean())
        self.seconds = now_s if self.seconds is None else min(self.seconds, now_s)


def split_steps(sums: NDArray[Any], ideal_s: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return the time by cause, with stepping time split into productive, lost and slow.

    Steps that took less than their ideal time leave no slow time, and not more productive time than
    there was.

    Args:
        sums: ... x `COLUMNS`, with stepping time in `TimeCause.UNSPLIT`.
        ideal_s: Ideal step time, broadcast to the sums without their last axis; NaN if unknown.
    """
    time = np.array(sums[..., : len(TimeCause)], np.float64)
    ideal_s = np.asarray(ideal_s, np.float64)
    is_known = np.broadcast_to(ideal_s > 0, time.shape[:-1])
    stepping = np.where(is_known, time[..., TimeCause.UNSPLIT], 0.0)
    step_s = np.where(is_known, ideal_s, 0.0)
    lost = np.minimum(sums[..., Sum.LOST] * step_s, stepping)
    productive = np.clip(sums[..., Sum.KEPT] * step_s, 0.0, stepping - lost)
    time[..., TimeCause.PRODUCTIVE] += productive
    time[..., TimeCause.LOST_WORK] += lost
    time[..., TimeCause.SLOW] += stepping - lost - productive
    time[..., TimeCause.UNSPLIT] -= stepping
    return time


class Expected(NamedTuple):
    """Expected goodput of a training job by its checkpoints and recoveries, beside the measured."""

    interruption_s: float
    """Mean time between interruptions: `DEVICE_DAYS` over its chips."""
    interval_s: float
    """Useful time between two checkpoints, measured."""
    checkpoint_s: float
    """Part of a checkpoint that blocks steps, measured."""
    recovery_s: float | None
    """From a failure to the first step, measured; None before one."""

    @property
    def goodput(self) -> float | None:
        """Expected goodput; None without a recovery."""
        if self.recovery_s is None:
            return None
        mean_s = self.interruption_s
        with np.errstate(over="ignore"):
            lost = np.expm1((self.interval_s + self.checkpoint_s) / mean_s)
        return float(self.interval_s / ((mean_s + self.recovery_s) * lost))

    @property
    def best_interval_s(self) -> float:
        """Interval of checkpoints with the highest goodput, after Young."""
        return float(np.sqrt(2 * self.checkpoint_s * self.interruption_s))


def expected_of(
    time: NDArray[np.float64], sums: NDArray[np.float64], instances: float, chips: float
) -> Expected | None:
    """Return what is expected of a job; None without two checkpoints and known steps.

    Args:
        time: Its instance-seconds by cause, with stepping time split.
        sums: Its sums, with `Sum`.
        instances: Instances that it runs on.
        chips: Their chips.
    """
    checkpoints = sums[Sum.CHECKPOINTS] * instances
    useful_s = time[TimeCause.PRODUCTIVE] + time[TimeCause.LOST_WORK]
    if not chips or sums[Sum.CHECKPOINTS] < LEAST_CHECKPOINTS or not useful_s:
        return None
    failures = sums[Sum.FAILURES] * instances
    return Expected(
        DEVICE_DAYS * DAY_S / chips,
        float(useful_s / checkpoints),
        float(time[TimeCause.CHECKPOINT] / checkpoints),
        float((time[TimeCause.RECOVERY] + time[TimeCause.START_UP]) / failures)
        if failures
        else None,
    )


def goodput_of(time: NDArray[np.float64]) -> float | None:
    """Return the productive share of paid time, headroom apart.

    Time that could not be split is left out. None if no time is left, or if nothing but such time
    may have been productive.
    """
    unsplit = time[TimeCause.UNSPLIT]
    known = float(time.sum() - time[TimeCause.HEADROOM] - unsplit)
    if known <= 0 or (unsplit > 0 and not time[TimeCause.PRODUCTIVE]):
        return None
    return float(time[TimeCause.PRODUCTIVE]) / known
