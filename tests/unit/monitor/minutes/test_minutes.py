"""Minutes of chips from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import START_NS, Feed, standalone, ultraservers

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.minutes.minutes import GRACE_S, SILENT_S, UNKNOWN, Minutes

if TYPE_CHECKING:
    from trnfleet.domain.minutes import MinuteRows

FIRST = START_NS // MINUTE_NS
HOST = standalone(1)


class Watched:
    """A fed fleet whose minutes are collected."""

    def __init__(
        self,
        instances: list[tuple[str, str]] | None = None,
        jobs: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.feed = Feed(HOST if instances is None else instances)
        self.feed.jobs = jobs or {}
        self.feed.scatter()
        self.feed.describe()
        self.minutes = Minutes()

    def tick(self, at_s: float, paths: list[str] | None = None) -> None:
        """Send telemetry of a source time, seconds after the first minute's begin, and take it."""
        feed = self.feed
        feed.monitor.apply(feed.telemetry(paths, ts_ns=START_NS + round(at_s * NS_PER_S)))
        self.take()

    def take(self) -> None:
        """Take a sample."""
        monitor = self.feed.monitor
        self.minutes.take(
            monitor.store,
            now_s=self.feed.clock.monotonic_s(),
            speed=1.0,
            job_of=monitor.store.job_of,
            jobs=monitor.ingest.job_table.placed,
        )

    def closed(self, *, after_s: float = 0.0, at_end: bool = False) -> list[MinuteRows]:
        """Return the minutes that are over some seconds from now."""
        return list(self.minutes.close(self.feed.clock.monotonic_s() + after_s, 1.0, at_end=at_end))


def figures(minute: MinuteRows, name: str) -> list[Any]:
    """Return a figure of all rows."""
    values: list[Any] = minute.figures[name].tolist()
    return values


def test_a_minute_has_the_mean_the_maximum_and_the_time_covered() -> None:
    """Each message is one sample."""
    watched = Watched()
    for second, power_w in enumerate((100.0, 200.0, 330.0)):
        watched.feed.set("power_w", power_w)
        watched.feed.set("nc_util_pct", 50.0 + second)
        watched.tick(second)
        watched.take()
    [minute] = watched.closed(at_end=True)

    assert (minute.minute, len(minute.chip)) == (FIRST, 16)
    assert figures(minute, "power_w") == [pytest.approx(210.0)] * 16
    assert figures(minute, "power_w_max") == [330.0] * 16
    assert figures(minute, "nc_util_pct") == [51.0] * 16
    assert minute.covered_s.tolist() == [3.0] * 16
    assert minute.chip.tolist() == list(range(16))


def test_what_is_not_available_is_left_out_and_never_zero() -> None:
    """A mean is of the values there are."""
    watched = Watched()
    watched.feed.set("power_w", 300.0)
    scattered = float(BY_NAME["nc_util_pct"].decode(watched.feed.columns["nc_util_pct"][2]).mean())
    watched.tick(0)
    watched.feed.set("power_w", np.nan, 1)
    watched.feed.set("tflops", np.nan)
    watched.feed.set("nc_util_pct", np.nan, (2, slice(2, None)))
    watched.feed.set("nc_util_pct", 40.0, (2, slice(0, 2)))
    watched.feed.columns["health"][3] = BY_NAME["health"].top
    watched.feed.columns["exec_errors"][4] = BY_NAME["exec_errors"].top
    for second in (1, 2):
        watched.tick(second)
    [minute] = watched.closed(at_end=True)

    assert figures(minute, "power_w")[:2] == [300.0, 300.0]
    assert figures(minute, "nc_util_pct")[2] == pytest.approx((scattered + 2 * 40.0) / 3, abs=0.2)
    assert minute.figures["tflops"][0] > 0
    assert figures(minute, "health")[3] == 0
    assert figures(minute, "exec_errors")[4] == 0
    silent = Watched()
    silent.feed.set("tflops", np.nan)
    silent.feed.columns["exec_errors"][:] = BY_NAME["exec_errors"].top
    silent.feed.columns["health"][:] = BY_NAME["health"].top
    silent.tick(0)
    [minute] = silent.closed(at_end=True)
    assert np.isnan(minute.figures["tflops"]).all()
    assert figures(minute, "exec_errors") == [UNKNOWN] * 16
    assert figures(minute, "exec_errors_increase") == [UNKNOWN] * 16
    assert figures(minute, "health") == [UNKNOWN] * 16


def test_a_counter_has_its_last_value_and_its_increase_over_restarts() -> None:
    """What a counter shows after it has begun again has come since."""
    watched = Watched()
    for second, value in ((0, 10), (30, 14), (65, 20), (70, 3), (75, 5)):
        watched.feed.set("exec_errors", value)
        watched.tick(second)
    first, second_minute = watched.closed(at_end=True)

    assert figures(first, "exec_errors")[0] == 14
    assert figures(first, "exec_errors_increase")[0] == 4
    assert figures(second_minute, "exec_errors")[0] == 5
    assert figures(second_minute, "exec_errors_increase")[0] == 6 + 3 + 2


def test_bits_of_health_are_joined_and_links_are_up_that_always_were() -> None:
    """A bit that was set once is known of the minute."""
    watched = Watched()
    up = watched.feed.columns["links_up"].copy()
    watched.feed.columns["health"][0] = 4
    watched.tick(0)
    watched.feed.columns["health"][0] = 1
    watched.feed.columns["links_up"][0] = up[0] & ~np.uint8(1)
    watched.tick(1)
    watched.feed.columns["links_up"][0] = up[0]
    watched.tick(2)
    [minute] = watched.closed(at_end=True)

    assert figures(minute, "health")[:2] == [5, 0]
    assert figures(minute, "links_up")[0] == int(up[0]) & ~1


def test_a_minute_is_given_out_once_it_is_over_and_what_comes_later_is_counted() -> None:
    """Clocks differ by a little, and nothing is given out twice."""
    paths = [path for path, _ in standalone(2)]
    watched = Watched(standalone(2))
    watched.tick(58)
    watched.tick(60, [paths[0]])
    assert watched.closed(after_s=GRACE_S / 2) == []
    watched.tick(59, [paths[1]])
    [minute] = watched.closed(after_s=GRACE_S)
    assert minute.covered_s.tolist() == [1.0] * 16 + [2.0] * 16
    watched.tick(59.5, [paths[1]])

    assert watched.minutes.late == 16
    assert [each.minute for each in watched.closed(after_s=SILENT_S)] == [FIRST + 1]
    assert watched.closed(at_end=True) == []


def test_a_counter_of_a_minute_is_that_of_its_end_though_another_has_begun() -> None:
    """The next minute's samples come before the minute is given out."""
    watched = Watched()
    watched.feed.set("mem_ecc_corrected", 7)
    watched.tick(59)
    watched.feed.set("mem_ecc_corrected", 9)
    watched.tick(60)
    first, second_minute = watched.closed(at_end=True)

    assert figures(first, "mem_ecc_corrected")[0] == 7
    assert figures(second_minute, "mem_ecc_corrected")[0] == 9
    assert figures(second_minute, "mem_ecc_corrected_increase")[0] == 2


def test_chips_that_go_within_a_minute_are_in_it_and_those_that_stay_go_on() -> None:
    """A changed fleet loses nothing of its minute."""
    watched = Watched(ultraservers(2))
    feed = watched.feed
    feed.set("power_w", 200.0)
    watched.tick(0)
    kept = [path for path in feed.layout.instances if "us-0002" in path]
    gone = [
        each._replace(payload=b"")
        for each in feed.announcements()
        if "/node/uc1/us-0001" in each.topic
    ]
    feed.monitor.apply(gone)
    feed.monitor.compute()
    feed.set("power_w", 400.0)
    watched.tick(1, kept)
    parts = watched.closed(at_end=True)

    assert {each.minute for each in parts} == {FIRST}
    rows = {
        (part.instances[number], chip): (power_w, covered_s)
        for part in parts
        for number, chip, power_w, covered_s in zip(
            part.instance.tolist(),
            part.chip.tolist(),
            part.figures["power_w"],
            part.covered_s,
            strict=True,
        )
    }
    assert len(rows) == 128
    assert {each for (path, _), each in rows.items() if path in kept} == {(300.0, 2.0)}
    assert {each for (path, _), each in rows.items() if path not in kept} == {(200.0, 1.0)}


def test_a_chip_has_the_job_that_runs_there() -> None:
    """Rows name the job."""
    watched = Watched(ultraservers(1), jobs={"train": ("uc1/us-0001/trn2u-0001-1",)})
    watched.tick(0)
    [minute] = watched.closed(at_end=True)

    names = [minute.jobs[number] if number >= 0 else None for number in minute.job.tolist()]
    assert names == [None] * 16 + ["train"] * 16 + [None] * 32


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.lists(st.one_of(st.none(), st.integers(0, 5_000)), min_size=16, max_size=16),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_means_are_those_of_the_messages_whatever_comes_when(
    ticks: list[tuple[int, list[int | None]]],
) -> None:
    """Minutes of any samples, with values missing anywhere, are as computed one by one."""
    watched = Watched()
    expected: dict[int, list[list[float]]] = {}
    at_s = 0.0
    for step, codes in ticks:
        at_s += 1 + 7 * step
        watched.feed.set("power_w", [np.nan if code is None else code / 10 for code in codes])
        watched.tick(at_s)
        chips = expected.setdefault(FIRST + int(at_s // 60), [[] for _ in range(16)])
        for chip, code in zip(chips, codes, strict=True):
            if code is not None:
                chip.append(code / 10)
    made = {each.minute: figures(each, "power_w") for each in watched.closed(at_end=True)}

    assert made.keys() == expected.keys()
    for minute, chips in expected.items():
        for value, samples in zip(made[minute], chips, strict=True):
            assert (
                np.isnan(value)
                if not samples
                else value == pytest.approx(np.mean(samples), abs=0.0501)
            )
