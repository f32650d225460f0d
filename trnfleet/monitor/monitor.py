"""The monitor: reads envelopes and updates store, roll-ups, history, findings and alerts.

It runs without a terminal, in one event loop with the views. Two tasks share the work: one applies
messages as they arrive (`_read`), the other makes passes over everything received
(`_keep_passing`), within a share of time and in slices, so that keys are handled in between. A pass
runs stage after stage: freshness, roll-ups, findings, reservations, alerts, history.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet import logs
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.site import DEFAULT_SITE, Site
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.inputs import Instant, Readings
from trnfleet.monitor.alerting.named_targets import all_tables
from trnfleet.monitor.failures import guard, guarded
from trnfleet.monitor.goodput import Goodput
from trnfleet.monitor.ingest.ingest import Ingest
from trnfleet.monitor.medians import median
from trnfleet.monitor.power_groups import CappedPlaces
from trnfleet.monitor.reachability.pipeline_reader import PipelineReader, Recorder
from trnfleet.monitor.reachability.reachability import FreshnessChecks, Reachability
from trnfleet.monitor.revision import MonitorRevision
from trnfleet.monitor.sampling import Sampling
from trnfleet.monitor.slices import (
    DONE,
    GATHER_S,
    PASS_EVERY_S,
    REST_AFTER_S,
    LayoutChanged,
    PassPacing,
    Slices,
    batch_slices,
    finish,
    let_in,
)
from trnfleet.monitor.store import findings
from trnfleet.monitor.store.averages import WINDOW_S
from trnfleet.monitor.store.history import History
from trnfleet.monitor.store.last_known import age_s, find_last_known
from trnfleet.monitor.store.rollup import Rollups
from trnfleet.monitor.summary import PassFigures, RackPower, Summary, rack_powers, summarize
from trnfleet.tasks import background
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.pipeline.traffic import MessageRate
    from trnfleet.monitor.reservations.table import Reservations
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import Envelope, LinkStatus, Source


log = logs.get_logger(__name__)

REBUILD_EVERY_S = 2.0
"""Least seconds between two rebuilds of the layout while descriptors keep coming."""
DESCRIPTORS_SETTLE_S = 0.15
"""Seconds without a new descriptor before a rebuild."""
LAYOUT_SHARE = 0.1
"""Largest share of time for rebuilds. The next one waits accordingly."""
JOINING_FROM_PER_S = 200
"""Descriptors per second of a joining fleet. With 62,500 hosts, 2,000 to 5,000 arrive (measured).
"""
JOINING_WITHIN_S = 3.0
"""Seconds the fleet still counts as joining after such a second."""
BURST = 4
"""Most rebuilds in a row for changes or withdrawals by one publisher. A restart is two."""
REFILL_S = 20.0
"""Seconds after which it may cause another one."""


class LayoutPacing:
    """Decides when to rebuild a due layout, and whether a fleet is joining."""

    def __init__(self) -> None:
        self._described = 0
        self._settling_since_s = 0.0
        self._due_since_s: float | None = None
        self._free_s = -math.inf
        """Earliest monotonic second of the next rebuild."""
        self._budgets: dict[str, tuple[float, float]] = {}
        """Remaining rebuilds per publisher, and the time of the count."""
        self._held: set[str] = set()
        self._counted = 0
        """Descriptors added or removed by the last count."""
        self._counted_s = -math.inf
        self._joined_s = -math.inf
        """End of the last second with many descriptors."""
        self._completed_s = -math.inf
        """When a fleet had joined and was shown at once, last."""

    def laying_out(self, ingest: Ingest, clock: Clock, *, at_once: bool = False) -> Slices[None]:
        """Update layout and job placement of an ingest in slices, if it is time.

        If an update is already running, wait for its end.

        Args:
            ingest: The ingest.
            clock: Measures the time of the slices.
            at_once: Whether to update in any case.
        """
        while ingest.layout_work.is_going_on and not at_once:
            yield
        begun_s = clock.monotonic_s()
        own_s = 0.0
        changes = ingest.descriptors.changes
        changers = ingest.layout_changers
        self.note_changes(changes, begun_s)
        is_due = ingest.layout_due and (
            at_once
            or self.is_time(
                changes,
                ingest.layout_publishers,
                begun_s,
                ingest.counts,
                all_described=not ingest.missing.descriptors,
            )
        )
        for _ in ingest.rebuilding(begun_s, clock.wall_ns(), layout=is_due):
            own_s += clock.monotonic_s() - begun_s
            yield
            begun_s = clock.monotonic_s()
        if is_due:
            self.done(changers, begun_s - own_s, clock.monotonic_s())

    def is_joining(self, now_s: float) -> bool:
        """Return whether many descriptors have come or gone just now."""
        return now_s - self._joined_s < JOINING_WITHIN_S

    def note_changes(self, changes: int, now_s: float) -> None:
        """Note how many descriptors have come or gone since the start."""
        if now_s - self._counted_s >= 1.0:
            many = JOINING_FROM_PER_S * min(now_s - self._counted_s, JOINING_WITHIN_S)
            if changes - self._counted >= many:
                self._joined_s = now_s
            self._counted = changes
            self._counted_s = now_s

    def is_time(
        self,
        changes: int,
        publishers: set[str],
        now_s: float,
        counts: PipelineCounts,
        *,
        all_described: bool = False,
    ) -> bool:
        """Return whether to rebuild a due layout now.

        Args:
            changes: Descriptors added or removed since the start.
            publishers: The publishers of all due changes.
            now_s: Monotonic seconds.
            counts: Counters, including one of delayed publishers.
            all_described: Whether everything heard has a descriptor. A joined fleet is shown then,
                whatever the former rebuilds cost: the next one is its last.
        """
        if self._due_since_s is None:
            self._due_since_s = now_s
        if changes != self._described:
            self._described = changes
            self._settling_since_s = now_s
        is_settling = now_s - self._settling_since_s < DESCRIPTORS_SETTLE_S
        has_joined = (
            all_described and self.is_joining(now_s) and now_s - self._completed_s >= REFILL_S
        )
        is_free = now_s >= self._free_s or (has_joined and not is_settling)
        if (is_settling and now_s - self._due_since_s < REBUILD_EVERY_S) or not is_free:
            return False
        if any(self._tokens(publisher, now_s) >= 1 for publisher in publishers):
            if now_s < self._free_s:
                self._completed_s = now_s
            return True
        for publisher in publishers - self._held:
            counts.layouts_held += 1
            counts.last_problem = f"publisher {publisher} changes its instances too often: they wait for {REFILL_S:g} s"  # noqa: E501
            log.warning("layout_held", publisher=publisher, wait_s=REFILL_S)
        self._held |= publishers
        return False

    def done(self, changers: set[str], begun_s: float, now_s: float) -> None:
        """Charge a rebuild to its causes and to the share of time.

        Args:
            changers: Publishers with changed or withdrawn descriptors. New descriptors are not
                charged.
            begun_s: Monotonic seconds at its beginning.
            now_s: Monotonic seconds at its end.
        """
        self._due_since_s = None
        self._free_s = now_s + (now_s - begun_s) * (1 / LAYOUT_SHARE - 1)
        for publisher in changers:
            self._budgets[publisher] = max(0.0, self._tokens(publisher, now_s) - 1), now_s
        self._held.clear()
        self._budgets = {
            publisher: budget
            for publisher, budget in self._budgets.items()
            if self._tokens(publisher, now_s) < BURST
        }

    def _tokens(self, publisher: str, now_s: float) -> float:
        tokens, at_s = self._budgets.get(publisher, (float(BURST), now_s))
        return min(float(BURST), tokens + (now_s - at_s) / REFILL_S)


class MonitorState(NamedTuple):
    """State of a monitor, without history and results of the next pass.

    The parts are the monitor's own. A `PackedSnapshot` preserves them as they are at a moment.
    """

    applied_s: float
    """Monotonic seconds of the last message in it."""
    ingest: Ingest
    findings: Findings
    recent_findings: findings.RecentFindings
    sampling: Sampling
    goodput: Goodput
    events_seen: int
    reachability: Reachability


class Monitor:
    """Everything that is known of one fleet."""

    def __init__(
        self,
        source: Source,
        fleet_name: str,
        *,
        clock: Clock,
        root: str = DEFAULT_ROOT,
        limits: Limits = DEFAULT_LIMITS,
        site: Site = DEFAULT_SITE,
        rules: Sequence[Rule] = (),
        adopts_alerts: bool = False,
        history: History | None = None,
        proof_s: float = 0.0,
        recorder: Recorder | None = None,
        caps: dict[str, float] | None = None,
    ) -> None:
        """Make the monitor of a fleet.

        Args:
            source: Delivers its messages; it is run elsewhere.
            fleet_name: The fleet's name.
            clock: The clock.
            root: First part of the topics.
            limits: Limits on messages.
            site: Facts and limits that a person sets.
            rules: Alert rules.
            adopts_alerts: Whether alerts that a former `watch` left are taken over before they are
                seen.
            history: Samples for charts; of the usual length if not given.
            proof_s: Time without any message after which a connection that stands is known to be
                whole; 0 where it cannot fail unnoticed.
            recorder: Keeps what comes, so that one can go back to it; None where nothing does.
            caps: Watts by place, shared with other monitors of the fleet; by default the site's.
        """
        self.fleet_name: str = fleet_name
        self.root = root
        self.site: Site = site
        self.caps: dict[str, float] = dict(site.power_caps) if caps is None else caps
        """Power caps in watts by place."""
        self.clock: Clock = clock
        alerts = Alerts(fleet_name, rules, adopts=adopts_alerts)
        self.ingest: Ingest = Ingest(fleet_name, root=root, limits=limits, alerts=alerts)
        self.rollups: Rollups = Rollups()
        self.history: History = History() if history is None else history
        self.reachability = Reachability(proof_s)
        """Whether a silence is the sources' or ours."""
        self.goodput: Goodput = Goodput(site)
        """Paid time by cause and job."""
        self.on_pass: list[Callable[[], None]] = []
        """Called at the end of each pass, when all data is of one moment."""
        self.evaluates_alerts = True
        """Whether passes evaluate the rules; else alerts stay as they are."""
        self.incomplete = ""
        """Missing events and alerts. Always empty for the present."""
        self.applied_s = -float("inf")
        """Monotonic seconds of the arrival of the last applied message."""
        self.findings: Findings = findings.NOTHING
        self._recent_findings = findings.RecentFindings()
        self.ended: bool = False
        """Whether the source has come to its end (a replay's)."""
        self.turns: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        """Acquired during a pass: a lock if several monitors alternate. Waiting for it is no pause
        of the process."""
        self._source = source
        self._layout_pacing = LayoutPacing()
        self._pass_pacing = PassPacing()
        self._usual_period = (-1, -1, 0.0)
        self._pipeline = PipelineReader(recorder)
        self._sampling = Sampling()
        self._events_seen = 0
        self._figures = PassFigures()
        self._capped = CappedPlaces()

    @property
    def revision(self) -> MonitorRevision:
        """Revisions of all that can be drawn."""
        return MonitorRevision.of(0, self.ingest, self.rollups, self.findings, self.link)

    @property
    def alerts(self) -> Alerts:
        """Rules and their alerts."""
        return self.ingest.alerts

    @property
    def store(self) -> Store:
        """The newest values."""
        return self.ingest.store

    @property
    def counts(self) -> PipelineCounts:
        """Counts of the way from publishers to the store."""
        counts = self.ingest.counts
        status = self._source.status
        counts.dropped = status.dropped + status.oversize
        counts.shed = status.shed
        return counts

    @property
    def events(self) -> Events:
        """Events of publishers."""
        return self.ingest.events

    @property
    def reservations(self) -> Reservations:
        """Reserved capacity."""
        return self.ingest.reservations

    @property
    def link(self) -> LinkStatus:
        """Connection state."""
        return self._source.status

    @property
    def averages(self) -> Averages:
        """Means of the roll-ups over the last seconds, as of the last pass."""
        return self._sampling.averages

    @property
    def history_s(self) -> float:
        """Monotonic seconds of history's last sample; negative before the first."""
        return self._sampling.history_s

    @property
    def message_rate(self) -> MessageRate:
        """The rate of telemetry messages."""
        return self._sampling.rate

    async def run(self) -> None:
        """Read and compute until cancelled.

        After the source has ended, continue to compute for the views.
        """
        async with background(monitor_reader=self._read(), monitor_passes=self._keep_passing()):
            await asyncio.Event().wait()

    def apply(self, batch: list[Envelope]) -> None:
        """Apply a batch and, where it is time for it, a new layout."""
        self.apply_messages(batch)
        finish(self._laying_out())

    def apply_messages(self, batch: list[Envelope]) -> None:
        """Apply a batch without changing the layout.

        Every message passes through here.
        """
        now_s = self.clock.monotonic_s()
        reachability = self.reachability
        if batch:
            self.applied_s = batch[-1].received_s
            reachability.heard_s = self.ingest.newest_of_sources_s(batch, reachability.heard_s)
            reachability.behind.note_applied(batch[0].received_s, now_s)
            reachability.update(now_s, self.link, self.store, self.counts)
            self.ingest.heard_since_s = reachability.listening_s
            self.ingest.links_since_s = reachability.connections.ends_s
        self.ingest.apply(batch, now_s, self.clock.wall_ns())
        self._pass_pacing.applied_s = now_s
        if self.ingest.typical_lag is not None:
            lag_s, messages = self.ingest.typical_lag
            reachability.behind.note_lag(lag_s, messages, now_s, self._usual_period_s())

    def compute(self) -> None:
        """Update freshness, roll-ups and findings in one go, for tests and one-shot commands."""
        finish(self.passing())

    def passing(self, *, may_sample: bool = True) -> Slices[None]:
        """Update freshness, roll-ups, findings and alerts in slices.

        Record a sample if one is due and allowed.
        """
        self.lay_out()
        self._refresh_states()
        yield from self._pass_slices(may_sample=may_sample)

    def lay_out(self) -> None:
        """Show all received descriptors in the layout, without waiting for more."""
        finish(self._laying_out(at_once=True))

    def is_joining(self) -> bool:
        """Return whether many descriptors have just arrived.

        As after a start, a reconnect or the broker's restart.
        """
        return self._layout_pacing.is_joining(self.clock.monotonic_s())

    def state(self) -> MonitorState:
        """Return the present state, to be packed at once.

        Call it between two passes.
        """
        self.ingest.layout_work.finish()
        return MonitorState(
            self.applied_s,
            self.ingest,
            self.findings,
            self._recent_findings,
            self._sampling,
            self.goodput,
            self._events_seen,
            self.reachability,
        )

    def restore(self, state: MonitorState) -> None:
        """Continue from the state of a moment, which is this monitor's from now on.

        Roll-ups follow with the next pass.
        """
        self.applied_s = state.applied_s
        self.ingest = state.ingest
        self.findings = state.findings
        self._recent_findings = state.recent_findings
        self._sampling = state.sampling
        self.goodput = state.goodput
        self._events_seen = state.events_seen
        self.reachability = state.reachability
        self.reachability.connections.forget_links()
        self.rollups = Rollups()

    def moment(self) -> Moment:
        """Return the fleet's time: of the wall clock, a simulator or a replay."""
        ingest = self.ingest
        clock = self.clock
        return ingest.timebase.now(
            clock.monotonic_s(), clock.wall_ns(), ingest.descriptors.instances_of
        )

    def job_age_s(self, name: str) -> float | None:
        """Return the wall seconds since a job's chips were last heard.

        None while any is live.
        """
        job = self.ingest.jobs.get(name)
        if job is None or name not in self.ingest.job_table.last_known:
            return None
        moment = self.moment()
        now_s = self.clock.monotonic_s()
        return age_s(job, self.store, now_s=now_s, time_ns=moment.time_ns, speed=moment.speed)

    def summary(self) -> Summary:
        """Return the fleet in a few figures, from the last pass."""
        return summarize(
            self.ingest,
            self._figures.of(self.store, self.averages, self.site.pue),
            self.findings,
            self.pipeline(),
            self.moment(),
            pue=self.site.pue,
            now_s=self.clock.monotonic_s(),
        )

    def pipeline(self, *, at_once: bool = False) -> PipelineHealth:
        """Return publishers, brokers, losses, lag and clocks, at most a second old.

        As of this moment with `at_once`.
        """
        return finish(self._reading_pipeline(at_once=at_once))

    def _reading_pipeline(self, *, at_once: bool) -> Slices[PipelineHealth]:
        now_s = self.clock.monotonic_s()
        self.reachability.attribute_losses(now_s, self.link, self.store, self.counts)
        return self._pipeline.reading(
            self.ingest,
            self.counts,
            self.link,
            self.reachability,
            self.message_rate,
            now_s,
            at_once=at_once,
        )

    def racks(self) -> list[RackPower]:
        """Return the IT power of every fully live rack, by address, from the last pass."""
        return rack_powers(self.store, self.rollups)

    async def _read(self) -> None:
        clock = self.clock
        while batch := await self._source.take():
            for part in batch_slices(batch):
                for _ in self._laying_out():
                    await let_in(self.link, clock)
                self.reachability.wake(clock.monotonic_s(), PASS_EVERY_S[1])
                self.apply_messages(part)
                await let_in(self.link, clock)
            self.ingest.request_missing(self._source, clock.monotonic_s())
            await clock.sleep(GATHER_S)
        self.ended = True
        log.info("source_ended")

    async def _keep_passing(self) -> None:
        """Refresh freshness each time, and everything else after changes.

        Passes use at most `PASS_SHARE` of time.
        """
        clock = self.clock
        pause_s = 0.0
        checks = FreshnessChecks()
        pacing = self._pass_pacing
        while True:
            self.reachability.wake(clock.monotonic_s(), pause_s)
            for wait_s in pacing.waits(clock.monotonic_s, self.store, self._usual_period_s()):
                await clock.sleep(wait_s)
                self.reachability.wake(clock.monotonic_s(), wait_s)
            async with self.turns:
                begun_s = clock.monotonic_s()
                self.reachability.wake(begun_s, math.inf)
                self.ingest.request_missing(self._source, begun_s)
                for _ in self._laying_out():
                    await clock.sleep(0)
                if checks.is_due(begun_s, self.store.revision, self.link, self._usual_period_s()):
                    self._refresh_states()
                own_s = clock.monotonic_s() - begun_s
                if pacing.is_due(begun_s, self.store):
                    work = self._pass_slices()
                    worked_s = 0.0
                    going = True
                    while going:
                        slice_s = clock.monotonic_s()
                        self.reachability.wake(slice_s)
                        going = next(work, DONE) is not DONE
                        took_s = clock.monotonic_s() - slice_s
                        own_s += took_s
                        worked_s += took_s
                        if worked_s >= REST_AFTER_S:
                            await clock.sleep(worked_s)
                            worked_s = 0.0
                ended_s = clock.monotonic_s()
                self.reachability.wake(ended_s)
                is_overloaded = self.reachability.behind.is_overloaded(ended_s)
                pause_s = pacing.pause_s(own_s, begun_s, ended_s, is_overloaded=is_overloaded)
            await clock.sleep(pause_s)

    def _refresh_states(self) -> None:
        now_s = self.clock.monotonic_s()
        reachability = self.reachability
        with guard(self.counts, "freshness"):
            reachability.update(now_s, self.link, self.store, self.counts)
            self.store.refresh_states(
                now_s,
                reachability.online(now_s, self.store, self.ingest.publishers),
                reachability.stale_periods(now_s),
            )
            reachability.follow_publishers(now_s, self.store)

    def _pass_slices(self, *, may_sample: bool = True) -> Slices[None]:
        """Update everything derived from the store, in slices.

        A stage leaves its earlier result if it fails or a new layout interrupts it. The others go
        on.
        """
        yield from self._stage("roll-ups", self._rollup_slices())
        with guard(self.counts, "jobs"):
            self.ingest.job_table.follow_claims(self.store, WINDOW_S)
            self.ingest.job_table.last_known = find_last_known(self.ingest.job_table, self.rollups)
        yield from self._stage("findings", self._finding_slices())
        if len(self.reservations) or self.reservations.table():
            yield from self._stage("reservations", self._reservation_slices())
        if self.evaluates_alerts and self.alerts.rules:
            yield from self._stage("alerts", self._alert_slices())
        self.ingest.follow_alerts(self.clock.monotonic_s())
        with guard(self.counts, "history"):
            self._take_sample(may_sample=may_sample)
        for follow in self.on_pass:
            with guard(self.counts, "time bar"):
                follow()

    def _stage(self, name: str, work: Slices[None]) -> Slices[None]:
        """Run one stage of a pass.

        A new layout ends it, and the next pass repeats it.
        """
        with contextlib.suppress(LayoutChanged):
            yield from guarded(self.counts, name, work)

    def _rollup_slices(self) -> Slices[None]:
        yield from self.rollups.passes(self.store, self.store.revision)

    def _finding_slices(self) -> Slices[None]:
        silence = self.reachability.explain(self.clock.monotonic_s(), self.store)
        if silence.is_cut_off:
            # They stay as last known, as the values do that they are about.
            return
        current = yield from findings.search(
            self.store, self.rollups, self.ingest.jobs.values(), silence.explained
        )
        self.findings = self._recent_findings.hold(current, self.clock.monotonic_s())

    def _reservation_slices(self) -> Slices[None]:
        ingest = self.ingest
        boots = ingest.publishers.boots_online()
        yield from self.reservations.compute(
            self.store, self.rollups, self.moment(), boots, ingest.descriptors, ingest.counts
        )

    def _take_sample(self, *, may_sample: bool) -> None:
        """Take a sample once a second."""
        moment = self.moment()
        ingest = self.ingest
        self.history.attend(ingest.job_table, is_cut_off=self.reachability.is_cut_off)
        if self._sampling.follow(
            self.history,
            self.store,
            self.rollups,
            now_s=self.clock.monotonic_s(),
            messages=self.counts.messages,
            speed=moment.speed,
            may_sample=may_sample,
        ):
            self.reservations.watch(moment)
            with guard(self.counts, "goodput"):
                self.goodput.watch(
                    self.store,
                    self.rollups,
                    ingest.job_table,
                    self.reservations,
                    self.events,
                    moment,
                    job_causes=self._job_causes(),
                    is_cut_off=self.reachability.is_cut_off,
                )
            self.pipeline()

    def _job_causes(self) -> dict[str, str]:
        """Return the probable cause of each troubled job, by the alerts evaluated here.

        Without rules by those of a watch that is online.
        """
        ingest = self.ingest
        if self.alerts.rules or not ingest.watches.has_present(self.clock.monotonic_s()):
            return self.alerts.job_causes()
        return self.alerts.job_causes() | {
            alert.target: alert.cause
            for alert in ingest.alert_messages.values()
            if alert.cause and alert.state == "firing" and alert.labels.get("scope") == Scope.JOB
        }

    def _alert_slices(self) -> Slices[None]:
        """Evaluate the rules at the whole second of monitor time that has begun, in slices."""
        if not self.store.layout.instances or self.rollups.generation != self.store.generation:
            return
        moment = self.moment()
        instant = self.alerts.next_instant(moment.time_ns, moment.speed, self.clock.monotonic_s())
        if instant is not None:
            ingest = self.ingest
            pipeline = yield from self._reading_pipeline(at_once=True)
            yield from self.alerts.evaluate(
                self.readings(instant, pipeline), ingest.jobs, ingest.counts
            )

    def readings(self, instant: Instant, pipeline: PipelineHealth) -> Readings:
        """Return the inputs of the rules, with the events since the last call."""
        ingest = self.ingest
        silence = self.reachability.explain(self.clock.monotonic_s(), self.store)
        seen = self._events_seen
        self._events_seen = ingest.events.received
        fresh = ingest.events.since(seen)
        table = self.reservations.table()
        tables = all_tables(
            ingest.job_table,
            self.store,
            self.rollups,
            table,
            pipeline,
            instant.now_ns,
            self.goodput.recent(),
            self._capped.used(self.caps, self.averages, self.store, ingest.job_table, table),
        )
        return Readings(
            self.store,
            self.rollups,
            instant,
            tables,
            events=fresh,
            tick_s=self._usual_period_s() * self.moment().speed,
            publishers=ingest.publishers.names(),
            all_events=ingest.events,
            pipeline_causes={
                problem.name: problem.where for problem in reversed(pipeline.problems)
            },
            is_cut_off=silence.is_cut_off,
            unsettled=silence.explained,
        )

    def _usual_period_s(self) -> float:
        """Return the median period.

        One slow source must not delay everyone's alerts.
        """
        mark = self.store.generation, self.ingest.descriptors.changes
        if self._usual_period[:2] != mark:
            period_s = self.store.period_s
            self._usual_period = (*mark, median(period_s) if len(period_s) else 0.0)
        return self._usual_period[2]

    def _laying_out(self, *, at_once: bool = False) -> Slices[None]:
        """Rebuild the layout after descriptors have settled, within its share of time."""
        work = self._layout_pacing.laying_out(self.ingest, self.clock, at_once=at_once)
        return guarded(self.counts, "layout", work)
