"""Report of `trnfleet status` on fleets: JSON values, and rows of names and texts.

Text names what needs attention; JSON has every figure.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.cli.output import MOST_SHOWN, row_lines
from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.relays import CellRelays
from trnfleet.domain.alerts.watches import WatchPresence, receiver_error_text
from trnfleet.domain.metrics import JOB_FIGURES, LASTING_JOB_FIGURES, METRICS
from trnfleet.domain.quantities import (
    NOT_AVAILABLE,
    counted,
    duration,
    mean_label,
    part_label,
    with_unit,
)
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.coverage import Coverage, blind_text, read_coverage
from trnfleet.monitor.goodput_report import (
    NOT_PUBLISHED,
    CellReport,
    cell_reports,
    energy_text,
    expected_text,
    fix_first,
    goodput_facts,
    goodput_text,
    paid_facts,
)
from trnfleet.monitor.pipeline.health import PipelineHealth, contest_text
from trnfleet.monitor.pipeline.publishers import PublisherTable, State
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.texts import problem_facts
from trnfleet.monitor.store.announced import unknown_text
from trnfleet.monitor.store.jobs import CLAIMED
from trnfleet.monitor.store.last_known import LAST_KNOWN
from trnfleet.monitor.summary import Means, Summary, undescribed_text
from trnfleet.monitor.topology import FleetLinks, LinkCounts
from trnfleet.services.alerts_client import WITHHELD, PublishedProblems, published_problems
from trnfleet.services.files.rules import load_rules
from trnfleet.text import LONGEST, plain
from trnfleet.wire.ports import RECORDING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.services.live_monitor import BrokerState, Observation
    from trnfleet.wire.messages import JobMessage

VERSION = 1
"""Version of the JSON output, `v`. It goes up if a key changes its meaning or is gone."""
MOST_PUBLISHERS = 1_000
"""Publishers in the list of --json, troubled ones first. `publishers` counts all."""
_WIDTH = 16

WHAT_TO_DO = (
    "they publish, and no descriptor of them has come; publishers repeat theirs every 60 s: try"
    " --wait 70s, then see docs/brokers.md"
)
"""Advice on chips without a descriptor."""
_ELSEWHERE = frozenset({"not-described", "retained-withheld"})
"""Problems of the pipeline with their own line among the fleet's."""
# Columns of a publisher that are printed, under their names.
_COUNTS = (
    "paths",
    "chips",
    "messages",
    "size_bytes",
    "lost",
    "late",
    "duplicates",
    "old",
    "refused",
    "restarts",
)
_FIGURES = (
    "for_s",
    "quiet_s",
    "messages_per_s",
    "bytes_per_s",
    "lag_max_s",
    "skew_s",
    "skew_to_median_s",
)
SUMMED = (
    "chips",
    "instances",
    "ultraservers",
    "live_chips",
    "stale_chips",
    "offline_chips",
    "unknown_chips",
    "unobserved_chips",
    "rolled_chips",
    "forwarded_chips",
    "undescribed_chips",
    "jobs",
    "power_w",
    "it_power_w",
    "facility_power_w",
    "tflops",
)
"""Figures with a meaningful sum over fleets. An unknown one adds nothing."""
Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class FleetReport:
    """Report on one fleet."""

    fleet: str
    brokers: tuple[BrokerState, ...]
    error: str
    """Reason why the fleet is unknown; empty for a known one."""
    state: KnownFleet | None

    @staticmethod
    def from_observation(observation: Observation) -> FleetReport:
        """Return the report on an observed fleet."""
        fleet, brokers, monitor, error = observation
        if monitor is None:
            return FleetReport(fleet, brokers, str(error), None)
        return FleetReport(fleet, brokers, "", KnownFleet.from_monitor(monitor))

    @property
    def is_healthy(self) -> bool:
        """Whether the fleet is healthy, and all of its brokers are connected."""
        return (
            self.state is not None
            and self.state.is_healthy
            and all(broker.connected for broker in self.brokers)
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        where = {
            "broker": ", ".join(broker.broker for broker in self.brokers),
            "brokers": [broker._asdict() for broker in self.brokers],
        }
        if self.state is None:
            unknown = {"v": VERSION, "fleet": self.fleet, "error": self.error}
            return {**unknown, "healthy": False, **where}
        return {**self.state.facts(healthy=self.is_healthy), **(where if self.brokers else {})}

    def text(self) -> str:
        """Return it as text; the brokers, where there are several."""
        if self.state is None:
            rows = [("fleet", f"{self.fleet} (UNHEALTHY: {plain(self.error, LONGEST)})")]
        else:
            rows = self.state.rows(healthy=self.is_healthy)
        if len(self.brokers) > 1:
            states = [
                f"{broker.broker} {'connected' if broker.connected else f'AWAY: {plain(broker.error, 200)}'}"  # noqa: E501
                for broker in self.brokers
            ]
            rows.insert(1, ("brokers", ", ".join(states)))
        return "\n".join(row_lines(rows, _WIDTH))


@dataclass(frozen=True)
class KnownFleet:
    """A known fleet, as of the last pass of its monitor."""

    monitor: Monitor
    summary: Summary
    published: PublishedProblems

    @staticmethod
    def from_monitor(monitor: Monitor) -> KnownFleet:
        """Return the state of a monitor's fleet."""
        return KnownFleet(monitor, monitor.summary(), published_problems(monitor))

    @property
    def is_healthy(self) -> bool:
        """Whether the fleet is healthy.

        All chips are described and live, each cell is watched, and no problem or finding is
        critical, acknowledged or not.
        """
        summary = self.summary
        if summary.undescribed_chips or summary.undescribed_paths or summary.unwatched_cells:
            return False
        if summary.contested:
            return False
        severities = {finding.severity for finding in self.monitor.findings.shown}
        critical = Severity.CRITICAL in severities | {
            problem.severity for problem in self.published.problems.all
        }
        return summary.live_chips == summary.chips > 0 and not critical

    def facts(self, *, healthy: bool) -> dict[str, Any]:
        """Return the summary as JSON values, with racks, problems, jobs and events."""
        monitor = self.monitor
        published = self.published
        racks = sorted(monitor.racks(), key=lambda rack: rack.power_w)
        figures = dataclasses.asdict(self.summary)
        del figures["pipeline_problems"]  # `pipeline` has them
        chips = self.summary.announced.chips
        figures["announced"] = {metric.name: chips([metric.name]) for metric in METRICS}
        return {
            "v": VERSION,
            **figures,
            "racks": {
                "highest": racks[-1]._asdict() if racks else None,
                "lowest": racks[0]._asdict() if racks else None,
            },
            "rules": [{**rule._asdict(), "applies": rule.applies} for rule in self._coverage],
            "receiver_errors": [error._asdict() for error in self.summary.receiver_errors],
            "links": None if self._links is None else self._links._asdict(),
            "goodput": goodput_facts(monitor.goodput.report()),
            "cell_goodput": [
                {
                    "cell": cell,
                    "known": report is not None,
                    **(paid_facts(report) if report else {}),
                }
                for cell, _, report in self._cells
            ],
            "watched": published.is_watched,
            "cell_doubts": list(published.cell_doubts),
            "pipeline": pipeline_facts(monitor.pipeline()),
            "relays": [
                {
                    "cell": cell.cell,
                    "active": None if cell.active is None else _relay_facts(cell.active),
                    "standby": [_relay_facts(standby) for standby in cell.standby],
                }
                for cell in self._relays
            ],
            "problems": [
                problem_facts(problem, published.now_ns) for problem in published.problems.all
            ],
            "problem_counts": published.problems.counts()._asdict(),
            # `jobs` is their number.
            "job_list": [
                _job_facts(monitor, job) for _, job in sorted(monitor.ingest.jobs.items())
            ],
            "last_events": [_event_facts(event) for event in self._last_events],
            "healthy": healthy,
        }

    def rows(self, *, healthy: bool) -> Rows:
        """Return the rows of the text."""
        summary = self.summary
        amounts = (
            (summary.chips, "chip"),
            (summary.instances, "instance"),
            (summary.ultraservers, "UltraServer"),
        )
        rows = [("fleet", f"{summary.fleet} ({self._state_text(healthy=healthy)})")]
        if undescribed := undescribed_text(summary):
            rows.append(("not described", f"{undescribed}: {WHAT_TO_DO}"))
        if self.monitor.link.withholds_retained:
            rows.append(("broker", WITHHELD))
        if not summary.is_wall_time:
            rows.append(("time", f"{summary.monitor_time} x{summary.speed:g}"))
        rows.append(("hardware", ", ".join(counted(number, noun) for number, noun in amounts)))
        if summary.rolled_chips or summary.forwarded_chips:
            rows.append(("roll-ups", _rollup_text(summary)))
        rows += [
            *_relay_rows(self._relays),
            *_figure_rows(summary),
            ("jobs", _jobs_text(self.monitor.ingest.job_table)),
            *([("links", self._links.text)] if self._links and self._links.all else []),
            *_goodput_rows(self.monitor),
            *_cell_rows(self._cells),
            ("pipeline", _losses_text(summary)),
            *pipeline_rows(self.monitor.pipeline()),
        ]
        if summary.last_problem:
            refused = ", ".join(
                f"{number:,} {what}" for what, number in sorted(summary.refused.items())
            )
            last = plain(summary.last_problem, 300)
            rows.append(("refused", f"{refused or 'nothing'}; the last problem: {last}"))
        if blind := blind_text(self._coverage):
            names = ", ".join(rule.rule for rule in self._coverage if not rule.applies)
            rows.append(("rules", f"{blind}: {names}"))
        if summary.receiver_errors:
            first = plain(receiver_error_text(summary.receiver_errors[0]), LONGEST)
            rows.append(("receivers", f"{counted(summary.receiver_error_count, 'error')}: {first}"))
        rows += self._problem_rows()
        for event in (last.shown(self.monitor.ingest.names) for last in self._last_events):
            where = plain(event.path or event.job) or "fleet"
            said = plain(event.text, 256)
            time = format_rfc3339(event.ts_ns)
            rows.append(("event", f"{time} {event.severity.value} {where}: {said}"))
        return rows

    @functools.cached_property
    def _coverage(self) -> list[Coverage]:
        # A live monitor reads the watch's alerts, and evaluates no rules of its own.
        rules = self.monitor.alerts.rules or load_rules(())
        return read_coverage(rules, self.monitor.store, self.monitor.ingest.job_table)

    @functools.cached_property
    def _links(self) -> LinkCounts | None:
        """Numbers of links by state; None while the roll-ups are of another layout."""
        monitor = self.monitor
        if monitor.rollups.generation != monitor.store.generation:
            return None
        rules = monitor.alerts.rules or load_rules(())
        return FleetLinks(monitor.store, monitor.rollups, rules).counts

    @property
    def _cells(self) -> list[CellReport]:
        return cell_reports(self.monitor.store.rolled.paid_by_cell())

    @property
    def _relays(self) -> list[CellRelays]:
        """The relays of each cell with descriptors, or with a relay at any time."""
        monitor = self.monitor
        relays = monitor.ingest.cells.relays(monitor.clock.monotonic_s())
        known = {cell.cell: cell for cell in relays}
        cells = sorted({*known, *self.summary.cells})
        return [known.get(cell) or CellRelays(cell, None) for cell in cells]

    @property
    def _last_events(self) -> list[Event]:
        return list(itertools.islice(self.monitor.events.newest_first(), MOST_SHOWN))

    def _state_text(self, *, healthy: bool) -> str:
        """Return how many chips are live and how many problems there are."""
        summary = self.summary
        state = f"{summary.live_chips:,} of {counted(summary.chips, 'chip')} live"
        for chips, word in summary.chip_states[1:]:
            if chips:
                state += f", {chips:,} {word}"
        if summary.unwatched_cells:
            state += f", {counted(len(summary.unwatched_cells), 'cell')} without a watch"
        problems = self.published.problems
        if problems.all:
            state += f", {texts.counts_text(problems.counts())}"
        if not healthy:
            return f"UNHEALTHY: {state}"
        # Beside warnings the word would say too much.
        return state if problems.all else f"healthy: {state}"

    def _problem_rows(self) -> Rows:
        """Return the first problems, and whether a watch evaluates alerts."""
        published = self.published
        listed = published.problems.listed
        rows = [
            (problem.severity.value, texts.line(problem, published.now_ns))
            for problem in listed[:MOST_SHOWN]
        ]
        if len(listed) > MOST_SHOWN:
            rows.append(("", f"and {len(listed) - MOST_SHOWN:,} more"))
        doubts = published.cell_doubts
        rows += [("alerts", plain(doubt, LONGEST)) for doubt in doubts[:MOST_SHOWN]]
        if len(doubts) > MOST_SHOWN:
            rows.append(("alerts", f"and of {len(doubts) - MOST_SHOWN:,} more cells"))
        if not published.is_watched and not doubts:
            unknown = "unknown: no watch is online; problems are by thresholds of the moment"
            rows.append(("alerts", unknown))
        return rows


def _goodput_rows(monitor: Monitor) -> Rows:
    """Return goodput, the most expensive losses, and what is expected of jobs."""
    report = monitor.goodput.report()
    losses = [texts.loss_text(loss, monitor.ingest.names) for loss in fix_first(report)[:3]]
    labels = ["fix first", *[""] * len(losses)]
    expected = [
        (
            "expected",
            f"{plain(monitor.ingest.names.job(job.job or ''))}: {expected_text(job.expected)}",
        )
        for job in report.jobs
        if job.expected is not None
    ]
    energy = energy_text(report.whole)
    return [
        ("goodput", goodput_text(report)),
        *zip(labels, losses, strict=False),
        *expected[:MOST_SHOWN],
        *([("energy", f"{energy} of the chips over {duration(report.lasts_s)}")] if energy else []),
    ]


def _cell_rows(cells: Sequence[CellReport]) -> Rows:
    """Return the paid time of all cells, and of each."""
    rows = [
        ("cells", f"{plain(title)}: {NOT_PUBLISHED if report is None else goodput_text(report)}")
        for _, title, report in cells[:MOST_SHOWN]
    ]
    if len(cells) > MOST_SHOWN:
        rows.append(("cells", f"and {len(cells) - MOST_SHOWN:,} more"))
    return rows


def _relay_facts(relay: WatchPresence) -> dict[str, Any]:
    return {"client": relay.client, "hears": relay.hears, "heard_s": relay.heard_s}


def _relay_rows(relays: Sequence[CellRelays]) -> Rows:
    """Return a row for each cell, cells without an active relay first."""
    ordered = sorted(relays, key=lambda cell: cell.active is not None)
    rows = [
        ("relays", f"{plain(cell.cell)}: {plain(cell.text, LONGEST)}")
        for cell in ordered[:MOST_SHOWN]
    ]
    if len(ordered) > MOST_SHOWN:
        rows.append(("relays", f"and of {len(ordered) - MOST_SHOWN:,} more cells"))
    return rows


def _job_facts(monitor: Monitor, job: JobMessage) -> dict[str, Any]:
    """Return a job; without a live chip its state is the last known, and it has no pace."""
    age_s = monitor.job_age_s(job.job)
    return {
        "job": job.job,
        "display_name": job.display_name,
        "kind": job.kind,
        "state": job.state,
        "live": age_s is None,
        "age_s": None if age_s is None else round(age_s, 1),
        "ts": job.ts,
        "on": job.on,
        "claims": monitor.ingest.job_table.claim_facts(job.job, monitor.store),
        **{
            name: getattr(job, name) if age_s is None or name in LASTING_JOB_FIGURES else None
            for name in (*JOB_FIGURES, "loss")
        },
    }


def _jobs_text(jobs: Jobs) -> str:
    """Return the number of jobs, and of live ones in each state."""
    silent = jobs.last_known
    live = Counter(job.state for name, job in jobs.by_key.items() if name not in silent)
    old = Counter(job.state for name, job in jobs.by_key.items() if name in silent)
    said = [f"{number:,} {plain(state)}" for state, number in sorted(live.items())]
    if old:
        states = ", ".join(f"{number:,} {plain(state)}" for state, number in sorted(old.items()))
        said.append(f"{len(silent):,} {LAST_KNOWN} ({states})")
    if claimed := sum(job.kind == CLAIMED for job in jobs.by_key.values()):
        said.append(f"{claimed:,} from claims")
    return f"{len(jobs):,}" + (f": {', '.join(said)}" if said else "")


def _event_facts(event: Event) -> dict[str, Any]:
    return {
        "ts": format_rfc3339(event.ts_ns),
        "severity": event.severity.value,
        "source": event.source,
        "name": event.name,
        "path": event.path,
        "job": event.job or None,
        "nrt": event.nrt,
        "text": event.text,
    }


def _losses_text(summary: Summary) -> str:
    """Return the rate of messages, their losses, and how late they are."""
    losses = f"{summary.lost:,} lost, {summary.late:,} late, {summary.dropped:,} dropped"
    for what in ("backlog", "shed", "undescribed", "duplicates", "misplaced", "rejected"):
        if number := getattr(summary, what):
            losses += f", {number:,} {what}"
    if summary.internal_errors:
        losses += f", {summary.internal_errors:,} INTERNAL ERRORS (see the log)"
    if summary.messages_per_s is not None:
        losses = f"{summary.messages_per_s:.3g} msg/s, {losses}"
    lag = "lag -" if summary.lag_s is None else f"lag {summary.lag_s * 1e3:.0f} ms"
    if summary.clock_skew_s:
        lag += f", clock off by {abs(summary.clock_skew_s):,.0f} s"
    if summary.late_s:
        lag += f", telemetry {summary.late_s:,.0f} s late ({counted(summary.old, 'message')})"
    for names, paths in summary.contested.items():
        lag += f", {plain(contest_text(names, counted(paths, 'path')))}"
    return f"{losses}, {summary.undecodable:,} undecodable, {lag}"


def _rollup_text(summary: Summary) -> str:
    """Return the number of chips known only from roll-ups, and their cells."""
    cells = ", ".join(plain(cell) for cell in summary.cells[:MOST_SHOWN])
    if len(summary.cells) > MOST_SHOWN:
        cells += f" and {len(summary.cells) - MOST_SHOWN:,} more"
    noun = "cell" if len(summary.cells) == 1 else "cells"
    text = f"figures of {counted(summary.rolled_chips, 'chip')} are from roll-ups of {noun} {cells}"
    forwarded = summary.forwarded_chips
    return f"{text}, of {counted(forwarded, 'chip')} from chips under leases" if forwarded else text


def _figure_rows(summary: Summary) -> Rows:
    """Return the fleet's figures as in the app's header, with their names.

    Means name their population.
    """
    mean = summary.mean
    of_peak = "% of peak"
    hbm_share = with_unit(mean.hbm_bw_util_pct, "%").replace(" %", f" {of_peak}")
    watts = {
        name: with_unit(value, "W")
        for name, value in (
            ("chips", mean.power_w),
            ("hosts", mean.host_power_w),
            ("it", mean.it_power_w),
            ("facility", mean.facility_power_w),
        )
    }
    efficiency = with_unit(mean.tflops_per_w, "TFLOP/s/W")
    temp = with_unit(mean.temperature_max_c, "degC")
    hottest = f" at {plain(mean.hottest_chip)}" if mean.hottest_chip else ""
    mfu = with_unit(mean.mfu_pct, "%")
    rows = [
        ("NC util", "nc_util_pct", with_unit(mean.nc_util_pct, "%")),
        ("compute", "tflops", f"{with_unit(mean.tflops, 'TFLOP/s')}, MFU {mfu}"),
        (
            "HBM bw",
            "hbm_read_bytes_per_s",
            f"{with_unit(mean.hbm_traffic_bytes_per_s, 'bytes/s')}, {hbm_share}",
        ),
        ("link tx", "link_tx_bytes_per_s", with_unit(mean.link_tx_bytes_per_s, "bytes/s")),
        ("power", "power_w", f"{watts['chips']}, host power {watts['hosts']}, {efficiency}"),
        (
            "facility",
            "power_w",
            f"{watts['facility']} with PUE {summary.pue:.2f}, of that IT {watts['it']}",
        ),
        ("below cap", "power_w", _below_cap_text(mean)),
        ("temp max", "temperature_c", temp + hottest),
    ]
    unknown = unknown_text(summary.announced, summary.chips)
    return [
        (
            "figures",
            " ".join(
                filter(
                    None, (mean_label(mean.seconds), part_label(summary.live_chips, summary.chips))
                )
            ),
        ),
        *(
            (name, f"{text}; of {counted(chips, 'chip')}" if chips else text)
            for name, metric, text in rows
            if summary.announced.knows([metric])
            for chips in [summary.part(metric)]
        ),
        *([("sources", unknown)] if unknown else []),
    ]


def _below_cap_text(mean: Means) -> str:
    """Return what is left below the chips' power cap, the cap, and the share."""
    if mean.headroom_w is None or mean.headroom_pct is None:
        return NOT_AVAILABLE
    return (
        f"{with_unit(mean.headroom_w, 'W')} of {with_unit(mean.power_cap_w, 'W')},"
        f" {mean.headroom_pct:.0f} %"
    )


def pipeline_facts(health: PipelineHealth) -> dict[str, Any]:
    """Return the pipeline as JSON values.

    Unknown ones are null.
    """
    publishers = health.publishers
    counts = dataclasses.asdict(health.counts)
    return {
        "messages_per_s": health.messages_per_s,
        "bytes_per_s": health.bytes_per_s,
        "lag_s": health.lag_s,
        "clock_skew_s": health.clock_skew_s,
        "own_clock_skew_s": publishers.own_skew_s,
        "late_s": health.late_s,
        "unheard_s": health.outage_s,
        "overloaded_s": health.overloaded_s,
        "counts": {name: value for name, value in counts.items() if isinstance(value, int)},
        "pending": health.pending,
        "recent": health.recent._asdict(),
        "publishers": {
            "all": len(publishers),
            **{state.word: publishers.count(state) for state in State},
        },
        "publisher_list": [publisher_facts(publishers, row) for row in worst_first(publishers)],
        "of_no_publisher": {
            "messages": publishers.messages_of_none,
            "lost": publishers.lost_of_none,
            "refused": publishers.refused_of_none,
        },
        "doubts": [
            {
                "publisher": doubt.publisher,
                "key": doubt.key,
                "is_unknown": doubt.is_unknown,
                "text": doubt.text,
                "path": doubt.path,
                "times": doubt.times,
                "age_s": health.at_s - doubt.at_s,
            }
            for doubt in health.doubts
        ],
        "brokers": [
            {**dataclasses.asdict(broker), "taken": broker.taken} for broker in health.brokers
        ],
        "problems": [
            {
                "name": problem.name,
                "severity": problem.severity.value,
                "text": problem.text,
                "advice": problem.advice,
                "where": problem.where or None,
            }
            for problem in health.problems
        ],
    }


def worst_first(publishers: PublisherTable) -> list[int]:
    """Return the rows of the listed publishers: by state, then by losses."""
    order = np.lexsort((-publishers.lost, -publishers.state.astype(np.int64)))
    rows: list[int] = order[:MOST_PUBLISHERS].tolist()
    return rows


def publisher_facts(publishers: PublisherTable, row: int) -> dict[str, Any]:
    """Return a publisher as JSON values."""
    lag_s = publishers.lag_median_s(np.array([row]))[0]
    return {
        "client": publishers.names[row],
        "state": State(publishers.state[row]).word,
        "boot": publishers.boots[row] or None,
        **{name: int(getattr(publishers, name)[row]) for name in _COUNTS},
        **{name: _or_none(getattr(publishers, name)[row]) for name in _FIGURES},
        "lag_s": _or_none(lag_s),
    }


def pipeline_rows(health: PipelineHealth) -> Rows:
    """Return the lines about publishers and brokers, and the problems, the worst first.

    Problems are shown from severity warning.
    """
    publishers = health.publishers
    states = [
        f"{publishers.count(state):,} {state.word}"
        for state in reversed(State)
        if publishers.count(state)
    ]
    rate = f", {with_unit(health.bytes_per_s, 'bytes/s')}" if health.bytes_per_s else ""
    rows = (
        [("publishers", f"{len(publishers):,}: {', '.join(states)}{rate}")]
        if len(publishers)
        else []
    )
    rows += [
        ("connection", broker_text(broker))
        for broker in health.brokers
        if broker.protocol != RECORDING
    ]
    for problem in health.problems:
        if problem.severity is not Severity.INFO and problem.name not in _ELSEWHERE:
            rows.append(
                (
                    f"  {problem.severity.value}",
                    f"{plain(problem.text, LONGEST)}. {plain(problem.advice, LONGEST)}",
                )
            )
    return rows


def broker_text(broker: BrokerHealth) -> str:
    """Return a broker and the connection to it in a line."""
    state = "connected" if broker.connected else "NOT CONNECTED"
    parts = [f"{plain(broker.address, 120)}: {state} for {duration(broker.for_s)}"]
    if broker.protocol:
        parts.append(f"MQTT {plain(broker.protocol, 8)}")
    parts.append("TLS" if broker.is_secure else "no TLS")
    if broker.reconnects:
        parts.append(counted(broker.reconnects, "reconnect"))
    parts.append(f"{counted(broker.waiting, 'message')} waiting")
    figures = broker.figures
    if figures is not None:
        said = [plain(figures.version, 60)] if figures.version else []
        said += [f"up {duration(figures.uptime_s)}"] if figures.uptime_s is not None else []
        said += [counted(figures.clients, "client")] if figures.clients is not None else []
        said += (
            [f"{figures.dropped:,} dropped for slow readers"] if figures.dropped is not None else []
        )
        parts.append(f"it says: {', '.join(said)}")
    return ", ".join(parts)


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def total_facts(fleets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of fleets, each given as its object of `status --json`."""
    known = [fleet for fleet in fleets if "chips" in fleet]
    totals: dict[str, Any] = {
        "fleets": len(fleets),
        "healthy": sum(bool(fleet["healthy"]) for fleet in fleets),
    }
    for name in SUMMED:
        values = [fleet[name] for fleet in known if fleet[name] is not None]
        totals[name] = sum(values) if values else None
    kinds = dict.fromkeys(kind for fleet in known for kind in fleet["problem_counts"])
    totals["problem_counts"] = {
        kind: sum(fleet["problem_counts"][kind] for fleet in known) for kind in kinds
    }
    return totals


def total_text(fleets: Sequence[Mapping[str, Any]]) -> str:
    """Return the line of totals below the fleets."""
    totals = total_facts(fleets)
    # As means, which the lines above are, too.
    watts = [
        fleet["mean"]["power_w"]
        for fleet in fleets
        if "mean" in fleet and fleet["mean"]["power_w"] is not None
    ]
    unhealthy = totals["fleets"] - totals["healthy"]
    share = part_label(totals["live_chips"] or 0, totals["chips"] or 0)
    parts = [
        counted(totals["fleets"], "fleet"),
        f"{unhealthy:,} UNHEALTHY" if unhealthy else "all healthy",
        f"{totals['live_chips'] or 0:,} of {counted(totals['chips'] or 0, 'chip')} live",
        " ".join(filter(None, (f"power {with_unit(sum(watts) if watts else None, 'W')}", share))),
    ]
    counts = totals["problem_counts"]
    parts += [
        f"{counts[kind]:,} {kind}" for kind in ("critical", "warning", "info") if counts.get(kind)
    ]
    return "".join(row_lines([("total", ", ".join(parts))], _WIDTH))
