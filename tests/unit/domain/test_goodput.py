from __future__ import annotations

import numpy as np
import pytest

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.goodput import (
    COLUMNS,
    DEVICE_DAYS,
    LEAST_STEPS,
    Expected,
    IdealStep,
    PaidRow,
    StepCounters,
    Sum,
    TimeCause,
    cause_of_job,
    expected_of,
    goodput_of,
    merge_rows,
    split_steps,
)
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.site import TPOT_LIMIT_S, TTFT_LIMIT_S

ONE = np.array([0])


class Counters:
    """Counters of one job, read again and again."""

    def __init__(self) -> None:
        self.counters = StepCounters()
        self.counters.grow(1)

    def read(self, completed: float, lost: float = 0.0) -> tuple[float, float, float]:
        """Return steps made, lost and written off since the last reading."""
        change = self.counters.follow(ONE, np.array([completed]), np.array([lost]))
        return tuple(float(column[0]) for column in change)  # type: ignore[return-value]


def sums_of(unsplit_s: float, kept: float = 0.0, lost: float = 0.0) -> np.ndarray:
    """Return sums of a job that stepped for a time."""
    sums = np.zeros(COLUMNS)
    sums[TimeCause.UNSPLIT] = unsplit_s
    sums[Sum.KEPT] = kept
    sums[Sum.LOST] = lost
    return sums


def test_causes_have_the_order_of_the_rules() -> None:
    assert [cause.key for cause in TimeCause] == [
        "unobserved",
        "down",
        "idle_reserved",
        "idle",
        "recovery",
        "start_up",
        "checkpoint",
        "data_wait",
        "evaluation",
        "productive",
        "lost_work",
        "slow",
        "headroom",
        "unsplit",
    ]
    assert min(Sum) == len(TimeCause)
    assert max(Sum) == COLUMNS - 1


def test_every_job_state_but_running_has_a_cause() -> None:
    causes = {state: cause_of_job("training", state, None, None) for state in JOB_STATES}
    assert [state for state, cause in causes.items() if cause is TimeCause.UNSPLIT] == ["running"]


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "cause"),
    [
        (TTFT_LIMIT_S, TPOT_LIMIT_S, TimeCause.PRODUCTIVE),
        (TTFT_LIMIT_S * 1.01, None, TimeCause.SLOW),
        (None, TPOT_LIMIT_S * 1.01, TimeCause.SLOW),
        (None, None, TimeCause.UNSPLIT),
    ],
)
def test_serving_is_productive_within_its_limits(
    ttft_s: float | None, tpot_s: float | None, cause: TimeCause
) -> None:
    assert cause_of_job("inference", "running", ttft_s, tpot_s) is cause
    assert cause_of_job("inference", "loading", ttft_s, tpot_s) is TimeCause.START_UP


def test_steps_are_lost_up_to_those_made_since_the_failure_before() -> None:
    """Those of before the first reading are written off."""
    job = Counters()
    assert job.read(100.0) == (0.0, 0.0, 0.0), "nothing is known of before"
    assert job.read(110.0) == (10.0, 0.0, 0.0)
    assert job.read(96.0, 15.0) == (1.0, 11.0, 4.0)
    assert job.read(99.0, 15.0) == (3.0, 0.0, 0.0)
    assert job.read(95.0, 21.0) == (2.0, 5.0, 1.0)


@pytest.mark.parametrize("reading", [(5.0, 0.0), (120.0, -1.0)])
def test_a_counter_that_falls_begins_again(reading: tuple[float, float]) -> None:
    job = Counters()
    job.read(100.0)
    job.read(110.0)
    assert job.read(*reading) == (0.0, 0.0, 0.0)
    assert job.read(reading[0] + 2.0, reading[1]) == (2.0, 0.0, 0.0)
    assert job.read(reading[0], reading[1] + 9.0) == (7.0, 9.0, 0.0)


def test_steps_of_an_unseen_time_do_not_count() -> None:
    job = Counters()
    job.read(100.0)
    job.counters.interrupt()
    assert job.read(200.0) == (0.0, 0.0, 0.0)
    assert job.read(201.0) == (1.0, 0.0, 0.0)


def test_stepping_time_is_split_by_ideal_steps() -> None:
    time = split_steps(sums_of(100.0, kept=8.0, lost=1.0), 10.0)
    assert time[
        [TimeCause.PRODUCTIVE, TimeCause.LOST_WORK, TimeCause.SLOW, TimeCause.UNSPLIT]
    ].tolist() == [
        80.0,
        10.0,
        10.0,
        0.0,
    ]
    assert goodput_of(time) == pytest.approx(0.8)


def test_steps_faster_than_ideal_are_productive_and_add_up() -> None:
    time = split_steps(sums_of(100.0, kept=11.0, lost=1.0), 10.0)
    assert (time[TimeCause.PRODUCTIVE], time[TimeCause.LOST_WORK], time[TimeCause.SLOW]) == (
        90.0,
        10.0,
        0.0,
    )


def row_of(ideal_s: float, measured_on: int | None, unsplit_s: float) -> PaidRow:
    """Return a minute of a job."""
    sums = np.stack([sums_of(unsplit_s, kept=10.0)] * 2)
    return PaidRow(0, 0, "train", 60.0, sums, ideal_s, measured_on, has_steps=True)


def test_rows_of_a_configuration_have_its_newest_ideal_step() -> None:
    """Rows from before it is known belong to it, too."""
    rows = [
        row_of(np.nan, 4, 1.0),
        row_of(2.5, 4, 2.0),
        row_of(2.0, 4, 4.0),
        row_of(np.nan, 3, 8.0),
        row_of(3.0, 3, 16.0),
        row_of(3.0, None, 32.0),
        row_of(4.0, None, 64.0),
    ]
    merged = [
        (row.ideal_s, row.measured_on, row.sums[0, TimeCause.UNSPLIT]) for row in merge_rows(rows)
    ]
    assert merged == [(2.0, 4, 7.0), (3.0, 3, 24.0), (3.0, None, 32.0), (4.0, None, 64.0)]


def test_without_an_ideal_step_nothing_is_split() -> None:
    """Unknown is neither productive nor slow."""
    time = split_steps(sums_of(100.0, kept=8.0), np.nan)
    assert time[TimeCause.UNSPLIT] == time.sum() == 100.0
    assert goodput_of(time) is None
    time[TimeCause.IDLE] = 10.0
    assert goodput_of(time) is None


def test_headroom_is_no_loss() -> None:
    time = np.zeros(len(TimeCause))
    time[TimeCause.PRODUCTIVE] = 30.0
    time[TimeCause.DOWN] = 10.0
    time[TimeCause.HEADROOM] = 60.0
    assert goodput_of(time) == pytest.approx(0.75)
    time[TimeCause.UNSPLIT] = 100.0
    assert goodput_of(time) == pytest.approx(0.75), "of the time whose cause is known"


def test_an_ideal_step_is_measured_without_the_slow_ones() -> None:
    ideal = IdealStep()
    for number in range(LEAST_STEPS):
        assert ideal.seconds is None
        ideal.add(number * NS_PER_S, 12.0 if number % 4 == 0 else 7.0 + number % 2 / 100, 4)
    assert ideal.seconds == pytest.approx(7.0, abs=0.01)
    for number in range(200):
        ideal.add((100 + number) * NS_PER_S, 9.0, 4)
    assert ideal.seconds == pytest.approx(7.0, abs=0.01), "most steps are slow now"


def test_another_configuration_has_another_ideal_step() -> None:
    ideal = IdealStep()
    for number in range(LEAST_STEPS):
        ideal.add(number, 7.0, 4)
    ideal.add(0, 14.0, 2)
    assert ideal.seconds is None
    for number in range(LEAST_STEPS - 1):
        ideal.add(DAY_S * NS_PER_S + number + 1, 13.0, 2)
    assert ideal.seconds == 13.0, "the step of a day before has gone"


@pytest.mark.parametrize(
    ("interval_s", "checkpoint_s", "recovery_s", "goodput"),
    [(1_207, 12, 500, 0.22), (131, 12, 500, 0.49), (131, 12, 120, 0.71), (1_207, 17, 450, 0.23)],
)
def test_expected_goodput(
    interval_s: float, checkpoint_s: float, recovery_s: float, goodput: float
) -> None:
    """Jobs of 256,000 chips: an interruption every 713 s."""
    expected = Expected(DEVICE_DAYS * DAY_S / 256_000, interval_s, checkpoint_s, recovery_s)
    assert expected.interruption_s == pytest.approx(713, abs=0.5)
    assert expected.goodput == pytest.approx(goodput, abs=0.006)


def test_the_best_interval_has_the_highest_goodput() -> None:
    def at(interval_s: float) -> Expected:
        return Expected(713.0, interval_s, 12.0, 500.0)

    best_s = at(1.0).best_interval_s
    by_interval = {interval_s: at(interval_s).goodput or 0.0 for interval_s in range(20, 400)}
    assert max(by_interval, key=by_interval.__getitem__) == pytest.approx(best_s, rel=0.1)
    assert at(1e9).goodput == 0.0
    assert at(1e9)._replace(recovery_s=None).goodput is None


def test_an_expectation_needs_two_checkpoints() -> None:
    sums = sums_of(0.0)
    sums[[TimeCause.PRODUCTIVE, TimeCause.CHECKPOINT, TimeCause.RECOVERY]] = 400.0, 40.0, 60.0
    sums[Sum.CHECKPOINTS] = 1.0
    assert expected_of(sums, sums, 4, 64) is None
    sums[Sum.CHECKPOINTS] = 2.0
    expected = expected_of(sums, sums, 4, 64)
    assert expected == Expected(DEVICE_DAYS * DAY_S / 64, 50.0, 5.0, None)
    sums[Sum.FAILURES] = 1.0
    expected = expected_of(sums, sums, 4, 64)
    assert expected is not None
    assert expected.recovery_s == 15.0
