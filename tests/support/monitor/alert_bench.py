"""Alerts over a store with values set by the test, evaluated on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.inputs import Instant, Readings
from trnfleet.monitor.alerting.named_targets import NamedColumns, jobs_table
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import finish
from trnfleet.monitor.store.events import Events
from trnfleet.monitor.store.rollup import Rollups
from trnfleet.monitor.store.store import Store
from trnfleet.wire.messages import EventMessage, JobMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.store import AlertTransition

START_NS = 1_767_571_200 * NS_PER_S
US = "uc1/us-0001"
HOST = f"{US}/trn2u-0001-0"
CHIP = f"{HOST}/chip00"


class News(NamedTuple):
    """Something that happened to an alert."""

    at_s: float
    kind: str
    rule: str
    target: str


class AlertBench:
    """One fleet, its rules, and manual time.

    Every chip is live and healthy at the start.
    """

    def __init__(
        self,
        instances: list[tuple[str, str]],
        rules: tuple[Rule, ...],
        *,
        adopts: bool = False,
        fleet: str = "demo",
    ) -> None:
        self.store = Store()
        self.rollups = Rollups()
        self.alerts = Alerts(fleet, rules, adopts=adopts)
        self.alerts.listener = self._take
        self.events = Events()
        self.jobs: dict[str, JobMessage] = {}
        self.named: dict[Scope, dict[str, dict[str, float | str | None]]] = {}
        """Figures of targets with names, by scope, target and figure."""
        self.now_s = 0.0
        self.flow_s = 0.0
        self.is_cut_off = False
        self._news: list[News] = []
        self._told: list[Any] = []
        self.arrange(instances)

    @property
    def layout(self) -> Layout:
        return self.store.layout

    def arrange(self, instances: list[tuple[str, str]]) -> None:
        """Give the fleet another layout; new chips are live and healthy."""
        known = set(self.layout.instances)
        self.store.replace_layout(Layout.of(instances))
        new = np.array(
            [row for row, path in enumerate(self.layout.instances) if path not in known], np.int64
        )
        rows = self.layout.chip_rows(new)
        self.store.chip_state[rows] = Freshness.LIVE
        for name, metric in BY_NAME.items():
            column = self.store.columns[name]
            if len(column) == self.layout.chips:
                column[rows] = 0
            elif metric.scope.value == "instance":
                column[new] = 0
        self.store.columns["links_up"][rows] = self.layout.chip_links_mask[rows]

    def set(self, name: str, value: Any, rows: Any = slice(None)) -> None:
        """Set a metric, in its unit."""
        column = self.store.columns[name]
        column[rows] = BY_NAME[name].encode(
            np.broadcast_to(np.asarray(value, float), column[rows].shape)
        )

    def silence(self, rows: Any, state: Freshness = Freshness.STALE) -> None:
        """Let chips fall silent, or live again."""
        self.store.chip_state = self.store.chip_state.copy()
        self.store.chip_state[rows] = state

    def rows(self, path: str) -> slice:
        """Return the chips at an address."""
        node = self.layout.find(path)
        assert node is not None
        found = self.layout.chip_range(node)
        return slice(found.start, found.stop)

    def job(self, name: str, *places: str, state: str = "running", **figures: Any) -> None:
        """Let a job run somewhere, or be in another state."""
        self.jobs[name] = JobMessage(
            job=name,
            kind="training",
            state=state,
            ts=format_rfc3339(self.now_ns),
            on=places,
            **figures,
        )
        self.store.job_of[:] = -1
        for number, job in enumerate(self.jobs.values()):
            for place in job.on:
                covered = self.layout.find_instances(place)
                assert covered is not None
                self.store.job_of[covered.start : covered.stop] = number

    def tell(
        self,
        name: str,
        path: str,
        *,
        job: str | None = None,
        severity: Severity = Severity.CRITICAL,
    ) -> None:
        """Let a publisher tell an event."""
        self.events.add(
            EventMessage(
                id=f"e-{self.events.received}",
                ts=format_rfc3339(self.now_ns),
                path=path,
                source="kernel",
                name=name,
                severity=severity,
                text=name,
                job=job,
            ),
            self.now_s,
        )
        self._told.append(next(self.events.newest_first()))

    @property
    def now_ns(self) -> int:
        return START_NS + round(self.now_s * NS_PER_S)

    def readings(self) -> Readings:
        """Return what rules see now."""
        for _ in self.rollups.passes(self.store):
            pass
        tables: dict[Scope, Any] = {Scope.JOB: jobs_table(self.jobs, self.store, self.rollups)}
        tables |= {scope: _table(targets) for scope, targets in self.named.items()}
        told = self._told
        self._told = []
        instant = Instant(self.now_ns, START_NS + round(self.flow_s * NS_PER_S))
        return Readings(
            self.store,
            self.rollups,
            instant,
            tables,
            told,
            all_events=self.events,
            is_cut_off=self.is_cut_off,
        )

    def tick(self, seconds: float = 1.0, *, flow: float | None = None) -> list[News]:
        """Let time pass and evaluate; return what happened."""
        self.now_s += seconds
        self.flow_s += seconds if flow is None else flow
        finish(self.alerts.evaluate(self.readings(), self.jobs))
        news = self._news
        self._news = []
        return news

    def play(self, seconds: int) -> list[News]:
        """Evaluate at each of a number of seconds; return the transitions."""
        return [each for _ in range(seconds) for each in self.tick()]

    def only(self) -> Alert:
        """Return the one active alert."""
        (alert,) = self.alerts.active()
        return alert

    def _take(self, news: list[AlertTransition]) -> None:
        self._news += [
            News((each.at_ns - START_NS) / NS_PER_S, each.kind, each.alert.name, each.alert.target)
            for each in news
        ]


def kinds(news: list[News]) -> list[tuple[float, str, str]]:
    """Return time, kind and target of the news."""
    return [(each.at_s, each.kind, each.target) for each in news]


def hot(bench: AlertBench, path: str = CHIP, value: float = 95.0) -> None:
    """Let the chips at an address be so hot."""
    bench.set("temperature_c", value, bench.rows(path))


def _table(targets: Mapping[str, Mapping[str, float | str | None]]) -> NamedColumns:
    return NamedColumns(
        list(targets), lambda figure: [values.get(figure) for values in targets.values()]
    )
