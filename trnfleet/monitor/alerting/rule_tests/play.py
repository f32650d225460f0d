"""Rule tests, played interval by interval through the monitor's store, roll-ups and alerts.

Like promtool, it evaluates the rules at every interval from 0 on. A sample counts until it is too
old.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.rule_tests import (
    AlertCase,
    Case,
    CaseFile,
    Mark,
    Sample,
    SeriesCase,
    code_of,
    expand_address,
)
from trnfleet.domain.alerts.signals import LANES, RECENT_GOODPUT, Scope
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import BY_NAME, JOB_FIGURES
from trnfleet.domain.metrics import Scope as MetricScope
from trnfleet.errors import ConfigError, nearest
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.inputs import Instant, Readings
from trnfleet.monitor.alerting.named_targets import NamedColumns, Value, jobs_table
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.events import Event, Events
from trnfleet.monitor.store.rollup import Rollups
from trnfleet.monitor.store.store import Store
from trnfleet.wire.messages import EventMessage, JobMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rules import Rule


class Playback:
    """The samples of a series at each step."""

    __slots__ = ("_interval_ns", "_newest", "_samples", "_stale_after_ns")

    def __init__(self, samples: tuple[Sample, ...], interval_ns: int, stale_after_ns: int) -> None:
        self._samples = samples
        self._interval_ns = interval_ns
        self._stale_after_ns = stale_after_ns
        newest = -1
        self._newest = list[int]()
        for step, sample in enumerate(samples):
            newest = newest if sample is Mark.GAP else step
            self._newest.append(newest)

    def is_new(self, step: int) -> bool:
        """Return whether a step has a sample."""
        return step < len(self._samples) and not isinstance(self._samples[step], Mark)

    def value(self, step: int) -> float | str | None:
        """Return the value at a step.

        None if there is none or it is too old.
        """
        newest = self._newest[min(step, len(self._newest) - 1)] if self._newest else -1
        if newest < 0 or (step - newest) * self._interval_ns > self._stale_after_ns:
            return None
        sample = self._samples[newest]
        return None if isinstance(sample, Mark) else sample


class SeriesRows:
    """One series and its places in the store."""

    def __init__(self, series: SeriesCase, playback: Playback, layout: Layout) -> None:
        """Find the places.

        Raises:
            ValueError: a target is unknown, or a value is outside its metric's range.
        """
        self.figure = series.figure
        self.playback = playback
        self._codes: dict[float | str, int] = {}
        chips: list[int] = []
        lanes: list[int] = []
        instances: list[int] = []
        for target in expand_address(series.target):
            path, _, direction = target.partition(":")
            node = layout.find(path)
            if node is None:
                raise ValueError(
                    f"{target!r} is not there; name its instance in [[tests.instances]]"
                )
            covered = layout.chip_range(node)
            chips += covered
            lane = -1
            if direction:
                lane = _link_lane(layout, node, direction)
            elif path.count("/") + 1 == Level.CORE:
                core = path.rpartition("/")[2]
                if core not in LANES[Scope.CORE]:
                    raise ValueError(
                        f"{target!r} is not a core: {nearest(core, LANES[Scope.CORE])}"
                    )
                lane = LANES[Scope.CORE].index(core)
            lanes += [lane] * len(covered)
            if path.count("/") + 1 <= Level.INSTANCE:
                instances += layout.instance_range(node)
        self.chips = np.array(chips, np.int64)
        self._lanes = np.array(lanes, np.int64)
        metric = "links_up" if self.figure == "link_up" else self.figure
        self._metric = BY_NAME[metric]
        of_host = self._metric.scope is MetricScope.INSTANCE
        self._places = np.array(instances, np.int64) if of_host else self.chips
        for sample in series.values:
            if not isinstance(sample, Mark):
                self._codes[sample] = self._code(sample)

    def write(self, store: Store, value: float | str | None, live: NDArray[np.bool_]) -> None:
        """Write a value into the store.

        Without a value, live places become not available. The others stay as last known.
        """
        column = store.columns[self._metric.name]
        places = self._places
        if value is None:
            if self.figure == "link_up":
                return
            if self._metric.scope is MetricScope.INSTANCE:
                starts = store.layout.chip_start
                dead = [row for row in places.tolist() if live[starts[row] : starts[row + 1]].any()]
                column[np.array(dead, np.int64)] = self._metric.top
            else:
                still = live[places]
                self._put(column, places[still], self._lanes[still], self._metric.top)
            return
        code = self._codes[value]
        if self.figure == "link_up":
            bits = (1 << self._lanes).astype(np.uint8)
            # Several links of one chip may be in one series.
            (np.bitwise_or if code else np.bitwise_and).at(column, places, bits if code else ~bits)
        else:
            self._put(column, places, self._lanes, code)

    def _put(
        self, column: NDArray[Any], places: NDArray[np.int64], lanes: NDArray[np.int64], code: int
    ) -> None:
        if not self._metric.is_vector:
            column[places] = code
            return
        whole = lanes[: len(places)] < 0
        column[places[whole], :] = code
        column[places[~whole], lanes[~whole]] = code

    def _code(self, sample: float | str) -> int:
        if self.figure == "link_up":
            if sample not in {0.0, 1.0}:
                raise ValueError(f"link_up {sample!r} is neither 0 nor 1")
            return int(sample == 1.0)
        return code_of(self.figure, sample)


def _link_lane(layout: Layout, node: Node, name: str) -> int:
    """Return the number of a link lane of a chip.

    Raises:
        ValueError: its type has no lane of that name.
    """
    names = layout.lane_names_of(int(layout.instance_of_chip[node.number]))
    if name not in names:
        raise ValueError(f"{layout.path(node)}:{name} is not a link: {nearest(name, names)}")
    return names.index(name)


class ActiveAlert(NamedTuple):
    """An active alert at an instant."""

    target: str
    state: str
    """firing or pending."""
    value: float | str | None
    place: str
    members: int
    summary: str
    inhibited: bool

    def __str__(self) -> str:
        """Return it in one line."""
        value = "" if self.value is None else f" value={_short(self.value)}"
        place = f" place={self.place}" if self.place and self.place != self.target else ""
        inhibited = " inhibited" if self.inhibited else ""
        return (
            f"{self.target or 'the fleet'} {self.state}{inhibited}{value} members={self.members}"
            f"{place}  {self.summary}"
        )


Frame = dict[str, tuple[ActiveAlert, ...]]
"""The active alerts of an instant by rule, in the order of their targets."""


class FailedExpectation(NamedTuple):
    """An expectation that failed."""

    test: str
    at_s: float
    rule: str
    expected: tuple[str, ...]
    got: tuple[str, ...]


def fits(expected: Sequence[AlertCase], got: Sequence[ActiveAlert]) -> bool:
    """Return whether the alerts are the expected ones, one for each."""
    left = {(active.target, active.state): active for active in got}
    if len(expected) != len(got):
        return False
    for alert in expected:
        seen = left.pop((alert.target, alert.state), None)
        if seen is None or not _is_as(alert, seen):
            return False
    return True


def _is_as(alert: AlertCase, seen: ActiveAlert) -> bool:
    if alert.value is not None and not _same_value(alert.value, seen.value):
        return False
    return (
        alert.place in {None, seen.place}
        and alert.members in {None, seen.members}
        and alert.summary in {None, seen.summary}
        and alert.inhibited in {None, seen.inhibited}
    )


def _same_value(one: float | str, other: float | str | None) -> bool:
    if isinstance(one, str) or not isinstance(other, float):
        return one == other
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def words(alert: AlertCase) -> str:
    """Return an expected alert in one line, in the form of `ActiveAlert`."""
    value = "" if alert.value is None else f" value={_short(alert.value)}"
    members = "" if alert.members is None else f" members={alert.members}"
    place = "" if alert.place is None else f" place={alert.place}"
    summary_text = "" if alert.summary is None else f"  {alert.summary}"
    inhibited = "" if alert.inhibited is None else " inhibited" if alert.inhibited else " loud"
    return (
        f"{alert.target or 'the fleet'} {alert.state}{inhibited}{value}{members}{place}"
        f"{summary_text}"
    )


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"


START_NS = 1_767_225_600 * NS_PER_S
"""Monitor time of a test's beginning: 2026-01-01."""
FLEET = "test"
T = TypeVar("T")


class RuleTest:
    """One test with the engine that plays it."""

    def __init__(
        self,
        case: Case,
        rules: Sequence[Rule],
        *,
        interval_s: float,
        stale_after_s: float,
        flapping: bool = True,
    ) -> None:
        """Set up the test.

        Args:
            case: The test.
            rules: The tested rules and their possible inhibitors.
            interval_s: Seconds from sample to sample and from evaluation to evaluation.
            stale_after_s: Age beyond which a sample does not count.
            flapping: Whether recurring alerts are held.

        Raises:
            ConfigError: a target is unknown, or a value is outside its metric's range.
        """
        self._interval_ns = round(interval_s * NS_PER_S)
        self._store = Store()
        self._rollups = Rollups()
        self._alerts = Alerts(FLEET, rules, detects_flapping=flapping)
        self._events = Events()
        self._told = sorted(case.events, key=lambda event: event.at)
        self._jobs = _jobs_of(case)
        self._stale_after_ns = round(stale_after_s * NS_PER_S)
        self._step = 0
        layout = _named(case, lambda: Layout.of(case.fleet().items()))
        self._store.replace_layout(layout)
        for number, job in enumerate(self._jobs.values()):
            for place in job.on:
                covered = layout.find_instances(place)
                if covered is None:
                    raise ConfigError(
                        f"test {case.name!r}: job {job.job} runs on {place!r}, which is not there"
                    )
                self._store.job_of[covered.start : covered.stop] = number
        self._rows: list[SeriesRows] = []
        self._names: dict[tuple[Scope, str, str], Playback] = {}
        for series in case.series:
            playback = Playback(series.values, self._interval_ns, self._stale_after_ns)
            if series.has_address:
                self._rows.append(_named(case, partial(SeriesRows, series, playback, layout)))
            else:
                scope = (
                    Scope.JOB
                    if series.target in self._jobs and series.scope is None
                    else series.named_scope
                )
                self._names[scope, series.target, series.figure] = playback
        self._heard = np.zeros(layout.chips, np.bool_)
        """Chips with any sample so far."""
        self._due = np.zeros(layout.chips, np.bool_)
        """Chips with any series."""
        for rows in self._rows:
            self._due[rows.chips] = True
            if rows.figure == "link_up":
                self._store.columns["links_up"][rows.chips] = layout.chip_links_mask[rows.chips]

    @property
    def alerts(self) -> Alerts:
        """The engine's alerts as they are now."""
        return self._alerts

    def advance(self) -> Frame:
        """Play the next interval's samples, evaluate, and return the active alerts."""
        now_ns = START_NS + self._step * self._interval_ns
        self._play_rows(now_ns)
        for _ in self._rollups.passes(self._store):
            pass
        readings = Readings(
            self._store,
            self._rollups,
            Instant(now_ns, now_ns),
            self._tables(),
            self._take_events(now_ns),
            all_events=self._events,
        )
        jobs = {name: self._as_it_is(job) for name, job in self._jobs.items()}
        finish(self._alerts.evaluate(readings, jobs))
        self._step += 1
        return self._frame()

    def _play_rows(self, now_ns: int) -> None:
        store = self._store
        step = self._step
        live = np.zeros(store.layout.chips, np.bool_)
        for rows in self._rows:
            if rows.playback.value(step) is not None:
                live[rows.chips] = True
            if rows.playback.is_new(step):
                store.chip_ts_ns[rows.chips] = now_ns
        for rows in self._rows:
            rows.write(store, rows.playback.value(step), live)
        self._heard |= live
        young = ~self._heard & (step * self._interval_ns <= self._stale_after_ns)
        silent = np.where(self._due & ~young, Freshness.STALE, Freshness.UNKNOWN)
        store.chip_state = np.where(live, Freshness.LIVE, silent).astype(np.uint8)

    def _take_events(self, now_ns: int) -> list[Event]:
        while self._told and START_NS + round(self._told[0].at * NS_PER_S) <= now_ns:
            event = self._told.pop(0)
            message = EventMessage(
                id=f"test-{self._events.received + 1}",
                ts=format_rfc3339(START_NS + round(event.at * NS_PER_S)),
                path=event.path,
                source="test",
                name=event.name,
                severity=event.severity,
                text=event.name,
                job=event.job,
            )
            self._events.add(message, (now_ns - START_NS) / NS_PER_S)
        fresh = []
        for event_ in self._events.newest_first():
            if event_.received_s < (now_ns - START_NS) / NS_PER_S:
                break
            fresh.append(event_)
        return fresh[::-1]

    def _as_it_is(self, job: JobMessage) -> JobMessage:
        state = self._value(Scope.JOB, job.job, "state")
        return msgspec.structs.replace(job, state=state) if isinstance(state, str) else job

    def _tables(self) -> dict[Scope, NamedColumns]:
        tables = {
            scope: self._table(scope)
            for scope in (Scope.RESERVATION, Scope.CAP, Scope.PUBLISHER, Scope.PIPELINE)
        }
        rolled = jobs_table(self._jobs, self._store, self._rollups)

        def make(figure: str) -> Sequence[Value]:
            if figure not in {"state", "kind", RECENT_GOODPUT} and figure not in JOB_FIGURES:
                return rolled.column(figure)
            given = rolled.column(figure)
            return [
                (
                    self._value(Scope.JOB, name, figure)
                    if (Scope.JOB, name, figure) in self._names
                    else usual
                )
                for name, usual in zip(self._jobs, given, strict=True)
            ]

        tables[Scope.JOB] = NamedColumns(list(self._jobs), make)
        return tables

    def _table(self, scope: Scope) -> NamedColumns:
        names = sorted({name for other, name, _ in self._names if other is scope})
        return NamedColumns(
            names, lambda figure: [self._value(scope, name, figure) for name in names]
        )

    def _value(self, scope: Scope, name: str, figure: str) -> Value:
        playback = self._names.get((scope, name, figure))
        return None if playback is None else playback.value(self._step)

    def _frame(self) -> Frame:
        by_rule: dict[str, list[ActiveAlert]] = {}
        for alert in self._alerts.active():
            value = alert.text or alert.value
            state = "pending" if alert.fired_ns is None else "firing"
            by_rule.setdefault(alert.name, []).append(
                ActiveAlert(
                    alert.target,
                    state,
                    value,
                    alert.place,
                    alert.members,
                    summary(alert),
                    bool(alert.inhibited_by),
                )
            )
        return {name: tuple(sorted(seen)) for name, seen in by_rule.items()}


def play(case: Case, rules: Sequence[Rule], file: CaseFile) -> list[FailedExpectation]:
    """Play one test of a file and return its failed expectations in time order.

    Raises:
        ConfigError: it names a rule or a target that is not there, or a value outside what its
            metric can be.
    """
    known = [rule.name for rule in rules]
    for expected in case.expect:
        if expected.rule not in known:
            raise ConfigError(
                f"test {case.name!r}: no rule {expected.rule!r}: {nearest(expected.rule, known)}"
            )
    test = RuleTest(
        case,
        rules,
        interval_s=file.interval,
        stale_after_s=file.stale_after_s,
        flapping=file.flapping,
    )
    failures: list[FailedExpectation] = []
    step = -1
    frame = Frame()
    for expected in sorted(case.expect, key=lambda expectation: expectation.at):
        # The last evaluation at or before it, with a tolerance for rounding.
        last_step = math.floor(expected.at / file.interval + 1e-9)
        while step < last_step:
            step += 1
            frame = test.advance()
        got = frame.get(expected.rule, ())
        if not fits(expected.alerts, got):
            failures.append(
                FailedExpectation(
                    case.name,
                    expected.at,
                    expected.rule,
                    tuple(sorted(words(alert) for alert in expected.alerts)),
                    tuple(str(alert) for alert in got),
                )
            )
    return failures


def frames(
    case: Case,
    rules: Sequence[Rule],
    *,
    interval_s: float,
    stale_after_s: float,
    flapping: bool = True,
) -> Iterator[Frame]:
    """Yield the active alerts at every interval from 0 on, without end."""
    test = RuleTest(
        case, rules, interval_s=interval_s, stale_after_s=stale_after_s, flapping=flapping
    )
    while True:
        yield test.advance()


def _jobs_of(case: Case) -> dict[str, JobMessage]:
    """Return the jobs of a test, from its list and its series."""
    jobs = {
        job.name: JobMessage(
            job=job.name,
            kind=job.kind,
            state=job.state,
            ts=format_rfc3339(START_NS),
            on=tuple(job.on),
        )
        for job in case.jobs
    }
    for series in case.series:
        if not series.has_address and series.target not in jobs and series.named_scope is Scope.JOB:
            jobs[series.target] = JobMessage(
                job=series.target,
                kind="training",
                state="running",
                ts=format_rfc3339(START_NS),
                on=(),
            )
    return jobs


def _named(case: Case, make: Callable[[], T]) -> T:
    """Return the result of `make`.

    Prefix errors with the test's name.
    """
    try:
        return make()
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"test {case.name!r}: {error}") from error
