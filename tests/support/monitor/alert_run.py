"""A fleet played in memory: engine, publisher, monitor and alerts on one manual clock.

Every tick is published, applied and evaluated, so that instants are exact.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from support.monitor.feed import SilentSource
from support.sim.simulation import Recorder
from trnfleet.clock import ManualClock
from trnfleet.domain.fleet import Publishing
from trnfleet.domain.metrics import SIMULATED, Provider
from trnfleet.domain.scenario import FaultEntry, Scenario
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.rules import load_rules
from trnfleet.services.simulator.engine import make_engine, transport_faults
from trnfleet.services.simulator.run import load_run
from trnfleet.sim.publish.faulty_publisher import FaultyPublisher
from trnfleet.sim.publish.service import Simulation
from trnfleet.sim.publish.state import will_envelope
from trnfleet.tasks import background
from trnfleet.wire.ports import Envelope, PublishResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.store import AlertTransition
    from trnfleet.sim.engine import Engine, Tick

CLIENT = "sim-1"
BOOT = "00112233aabbccdd"


class PlayedTransition(NamedTuple):
    """A transition of an alert, and where it was seen."""

    at_s: float
    """Simulated seconds after the first tick."""
    kind: str
    rule: str
    target: str
    summary: str
    is_quieted: bool
    """Whether another alert inhibited it then."""


class _Link(Recorder):
    """A recorder with a removable connection.

    Its last will is published then.

    It announces itself when it is back.
    """

    def __init__(self, clock: ManualClock, fleet: str) -> None:
        super().__init__(clock)
        self._fleet = fleet
        self._away_until_s: float | None = None

    def interrupt(self, seconds: float) -> None:
        """Lose the connection for a while."""
        now_s = self._clock.monotonic_s()
        if self._away_until_s is None:
            self.sent.append((now_s, will_envelope(self._fleet, CLIENT, BOOT)))
        self._away_until_s = now_s + seconds

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        """Record published messages.

        Without a connection they are dropped.
        """
        now_s = self._clock.monotonic_s()
        if self._away_until_s is not None:
            if now_s < self._away_until_s:
                return PublishResult(unsent=len(list(batch)))
            self._away_until_s = None
            self.sent += [(now_s, envelope) for envelope in self.announce()]
        return await super().publish(batch)


class AlertRun:
    """A tick-by-tick run of a scenario, or of a healthy fleet with some faults."""

    def __init__(
        self,
        scenario: str = "steady-training",
        *,
        period_s: float = 1.0,
        seed: int = 7,
        rules: Sequence[Rule] | None = None,
        fleet: str | None = None,
        faults: Sequence[FaultEntry] | None = None,
        publishing: Publishing | None = None,
        tap: Callable[[int, list[Envelope]], None] | None = None,
        as_host: bool = False,
    ) -> None:
        """Prepare a run.

        `as_host` leaves out the columns that no Neuron host has.
        """
        given = {"period", "speed", *(["fleet"] if fleet else [])}
        run = load_run(
            given,
            fleet=fleet or "demo",
            scenario=scenario,
            seed=seed,
            period_s=period_s,
            speed=1.0,
            start=None,
        )
        if faults is not None:
            run = dataclasses.replace(run, scenario=Scenario(faults=tuple(faults)))
        chosen = publishing or Publishing(format="cbor", granularity="instance")
        model = run.fleet.model_copy(update={"publish": chosen})
        self.period_s = period_s
        self.engine = make_engine(run, model)
        if as_host:
            self.engine.step = _masked(self.engine)  # type: ignore[method-assign, assignment]
        # Weeks before the fleets' dates: a simulator an hour ahead would go by a wrong wall clock.
        self.clock = ManualClock(1_764_600_000_000_000_000, 100.0)
        self._recorder = _Link(self.clock, model.name)
        engine = self.engine
        publisher = FaultyPublisher(
            self._recorder,
            transport_faults(run),
            clock=self.clock,
            rng=engine.rng,
            now_s=lambda: engine.now_s,
            speed=1.0,
        )
        self._publisher = publisher
        self._simulation = Simulation(
            self.engine, publisher, clock=self.clock, client_id=CLIENT, boot=BOOT, is_dated=True
        )
        self.monitor = Monitor(
            SilentSource(),
            model.name,
            clock=self.clock,
            rules=load_rules() if rules is None else rules,
        )
        self.monitor.alerts.listener = self._take
        self._tap = tap
        self.transitions: list[PlayedTransition] = []
        self.evaluates_every_s: float | None = None
        """Seconds between two evaluations, as in a monitor. None for one per tick."""
        self.on_tick: Callable[[], None] | None = None
        """Called when a tick has been evaluated."""
        self._start_ns = self.engine.moment_ns(0.0)

    async def play(
        self, seconds: float, until: tuple[str, str] | None = None
    ) -> list[PlayedTransition]:
        """Play simulated seconds, or until a rule fires on a target.

        Return the transitions.
        """
        ticks = round(seconds / self.period_s)
        async with background(
            simulation=self._simulation.run(ticks=ticks + 1), publisher=self._publisher.run()
        ):
            for _ in range(ticks):
                await self.clock.advance(0.0)
                sent = self._recorder.sent
                self._recorder.sent = []
                envelopes = [envelope for _, envelope in sent]
                if self._tap is not None:
                    self._tap(self.clock.wall_ns(), envelopes)
                self.monitor.apply(envelopes)
                self.monitor.compute()
                if self.on_tick is not None:
                    self.on_tick()
                if until is not None and any(
                    (each.rule, each.target) == until for each in self.transitions
                ):
                    break
                await self._pass_time()
        return self.transitions

    async def _pass_time(self) -> None:
        """Let a period pass; with `evaluates_every_s` the monitor looks at the fleet in between."""
        left_s = self.period_s
        while self.evaluates_every_s is not None and left_s > self.evaluates_every_s:
            await self.clock.advance(self.evaluates_every_s)
            self.monitor.compute()
            left_s -= self.evaluates_every_s
        await self.clock.advance(left_s)

    def _take(self, news: list[AlertTransition]) -> None:
        self.transitions += [
            PlayedTransition(
                (each.at_ns - self._start_ns) / 1e9,
                each.kind,
                each.alert.name,
                each.alert.target,
                each.summary,
                bool(each.alert.inhibited_by),
            )
            for each in news
        ]


def _masked(engine: Engine) -> Callable[[int], Tick]:
    """Return the step of an engine without the columns that no Neuron host has."""
    step = engine.step

    def masked(ticks: int = 1) -> Tick:
        result = step(ticks)
        for metric in SIMULATED:
            if metric.source is Provider.OTHERS:
                engine.columns[metric.name][:] = metric.top
        return result

    return masked


def as_rows(transitions: list[PlayedTransition]) -> list[dict[str, Any]]:
    """Return transitions as in an expectation file: a row per fired alert."""
    rows: list[dict[str, Any]] = []
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for each in transitions:
        key = each.rule, each.target
        if each.kind == "firing":
            last[key] = {
                "rule": each.rule,
                "target": each.target,
                "fires": each.at_s,
                "resolves": None,
            }
            rows.append(last[key])
        else:
            last[key]["flaps" if each.kind == "flapping" else "resolves"] = each.at_s
    return rows
