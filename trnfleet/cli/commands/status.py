"""`trnfleet status`: one look at a fleet, for people and for scripts."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from trnfleet.cli.alert_options import rules_option
from trnfleet.cli.names import FileName
from trnfleet.cli.options import (
    all_fleets_option,
    broker_options,
    fleets_option,
    given_on_command_line,
    json_option,
    log_options,
    pue_option,
    setting,
)
from trnfleet.cli.params import Duration, Moment
from trnfleet.cli.report.totals import total_facts, total_text
from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.watches import receiver_error_text
from trnfleet.domain.quantities import NOT_AVAILABLE, counted, mean_label, part_label, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.summary import Means, Summary
    from trnfleet.services.alerts_client import PublishedProblems
    from trnfleet.services.live_monitor import BrokerState, Observation
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.messages import JobMessage

UNHEALTHY = 3
VERSION = 1
"""Version of the JSON output, `v`. It goes up if a key changes its meaning or is gone."""
MOST_PROBLEMS = 10
"""Problems that are printed; --json has all."""
MOST_DOUBTS = 5
"""Most printed cells with alerts in doubt. --json has all."""
MOST_EVENTS = 5
"""Most printed events: the newest that arrived meanwhile."""


WHAT_TO_DO = (
    "they publish, and no descriptor of them has come; publishers repeat theirs every 60 s: try"
    " --wait 70s, then see docs/brokers.md"
)
"""Advice on chips without a descriptor."""


@click.command("status")
@broker_options(required=False, several=True)
@click.option(
    "--recording",
    "files",
    type=FileName(),
    metavar="FILE",
    multiple=True,
    help="Instead of a broker: a recording, or each of its parts.",
)
@click.option(
    "--at",
    type=Moment(),
    help=(
        "With --recording: an instant, 14:03, +90s after its start, or -90s before its end; by"
        " default its end."
    ),
)
@fleets_option
@all_fleets_option
@setting(
    "--wait",
    type=Duration(),
    default="5s",
    help="Longest wait until every described chip has reported.",
)
@pue_option
@rules_option
@click.option(
    "--reservations", is_flag=True, help="Capacity Blocks and their use, instead of the summary."
)
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[BrokerSession, ...],
    files: tuple[str, ...],
    at: str | None,
    names: tuple[str, ...],
    all_fleets: bool,
    wait: float,
    pue: float | None,
    rules: tuple[str, ...],
    reservations: bool,
    as_json: bool,
) -> None:
    """Print a fleet's summary and exit: 0 healthy, 3 unhealthy (chips not live or not described, brokers away, critical problems, on a top broker cells without a watch, of which nobody says that all is well). Warnings leave it at 0.

    Several fleets, by --name more than once or --all-fleets, are printed one after the other with their totals; in --json they are the
    list `fleets`, beside `totals`, and the exit status is 3 where any is unhealthy.

    \b
    Examples:
      trnfleet status --broker mqtt://127.0.0.1:1883
      trnfleet status --broker mqtt://ops@broker.example:1883 --name prod --json | jq .power_w
      trnfleet status --broker mqtt://b1.example:1883 --broker mqtt://b2.example:1883 --all-fleets
      trnfleet status --broker mqtt://127.0.0.1:1883 --reservations
      trnfleet status --recording night.mcap --at 03:10 --json
    """
    from trnfleet.services.live_monitor import Observation, observe_fleets

    is_of_several = all_fleets or len(set(names)) > 1
    if files:
        if "broker" in given_on_command_line(ctx):
            raise click.UsageError(
                "--broker and --recording do not go together: choose one of them"
            )
        if is_of_several:
            raise click.UsageError("--recording shows one fleet: name it with one --name")
        # A fleet that the settings name is one of the broker's.
        is_of_broker = not names or ctx.get_parameter_source("names") is ParameterSource.DEFAULT_MAP
        monitor = _recorded(files, None if is_of_broker else names[0], at, pue, rules)
        seen = [Observation(monitor.fleet_name, (), monitor)]
        source: dict[str, Any] = {"recording": list(files)}
    else:
        if at is not None:
            raise click.UsageError("--at goes with --recording")
        if not sessions:
            raise click.UsageError("Missing option '--broker' (or '--recording').")
        seen = asyncio.run(
            observe_fleets(
                sessions,
                names,
                takes_all=all_fleets,
                wait_s=wait,
                pue=pue,
                needs_chips=not reservations,
            )
        )
        source = {}
    reports = [Report.of(observation) for observation in seen]
    if as_json:
        made = [
            report.reservation_facts() if reservations else {**report.facts(), **source}
            for report in reports
        ]
        if not is_of_several:
            click.echo(json.dumps(made[0]["reservations"] if reservations else made[0], indent=2))
        else:
            totals = {} if reservations else {"totals": total_facts(made)}
            healthy = all(report.is_healthy for report in reports)
            document = {"v": VERSION, "fleets": made, **totals, "healthy": healthy}
            click.echo(json.dumps(document, indent=2))
    else:
        texts = [report.reservation_text() if reservations else report.text() for report in reports]
        if is_of_several and reservations:
            texts = [
                f"fleet {report.fleet}\n{text}" for report, text in zip(reports, texts, strict=True)
            ]
        elif is_of_several:
            texts.append(total_text([report.facts() for report in reports]))
        click.echo("\n\n".join(texts))
    ctx.exit(0 if all(report.is_healthy for report in reports) else UNHEALTHY)


class Report(NamedTuple):
    """The report on one fleet."""

    fleet: str
    brokers: tuple[BrokerState, ...]
    error: str
    """Reason why nothing is known of it; empty where something is."""
    seen: tuple[Monitor, Summary, PublishedProblems] | None
    is_healthy: bool

    @staticmethod
    def of(observation: Observation) -> Report:
        """Return the report on an observed fleet."""
        from trnfleet.services.alerts_client import published_problems

        fleet, brokers, monitor, error = observation
        if monitor is None:
            return Report(fleet, brokers, str(error), None, is_healthy=False)
        summary = monitor.summary()
        problems = published_problems(monitor)
        healthy = is_healthy(monitor, summary, problems) and all(
            broker.connected for broker in brokers
        )
        return Report(fleet, brokers, "", (monitor, summary, problems), healthy)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        where = {
            "broker": ", ".join(broker.broker for broker in self.brokers),
            "brokers": [broker._asdict() for broker in self.brokers],
        }
        if self.seen is None:
            unknown = {"v": VERSION, "fleet": self.fleet, "error": self.error}
            return {**unknown, "healthy": False, **where}
        return {**facts(*self.seen, healthy=self.is_healthy), **(where if self.brokers else {})}

    def text(self) -> str:
        """Return it as text; the brokers, where there are several."""
        if self.seen is None:
            lines = f"{'fleet':<16}{self.fleet} (UNHEALTHY: {plain(self.error, 400)})"
        else:
            monitor, summary, problems = self.seen
            lines = text(summary, monitor, problems, healthy=self.is_healthy)
        if len(self.brokers) < 2:
            return lines
        first, _, rest = lines.partition("\n")
        states = [
            f"{broker.broker} {'connected' if broker.connected else f'AWAY: {plain(broker.error, 200)}'}"
            for broker in self.brokers
        ]
        return "\n".join([first, f"{'brokers':<16}{', '.join(states)}", *([rest] if rest else [])])

    def reservation_facts(self) -> dict[str, Any]:
        """Return its reservations as JSON values."""
        from trnfleet.cli.report.reservations import facts_of

        error = {"error": self.error} if self.error else {}
        return {
            "fleet": self.fleet,
            "reservations": facts_of(self.seen[0]) if self.seen else [],
            **error,
        }

    def reservation_text(self) -> str:
        """Return its reservations as text."""
        from trnfleet.cli.report.reservations import lines_of

        return plain(self.error, 400) if self.seen is None else "\n".join(lines_of(self.seen[0]))


def _recorded(
    files: tuple[str, ...],
    name: str | None,
    at: str | None,
    pue: float | None,
    rules: tuple[str, ...],
) -> Monitor:
    """Return a monitor at an instant of a recording.

    By default the last with the fleet.
    """
    from trnfleet.cli.files import open_recording
    from trnfleet.clock import SystemClock
    from trnfleet.services.files.recordings import fleet_of, shown_part_of
    from trnfleet.services.files.rules import load_rules
    from trnfleet.services.viewing import monitors_at

    with open_recording(files, name=name) as recording:
        fleet = fleet_of(recording, name, files[0])
        _, at_ns = shown_part_of(recording, fleet, None, at)
        return next(
            monitors_at(
                recording, fleet, [at_ns], rules=load_rules(rules), pue=pue, clock=SystemClock()
            )
        )


def is_healthy(monitor: Monitor, summary: Summary, found: PublishedProblems) -> bool:
    """Return whether a fleet is healthy.

    All chips are described and live, each cell is watched, and no problem or finding is critical,
    acknowledged or not.
    """
    if summary.undescribed_chips or summary.undescribed_paths or summary.unwatched_cells:
        return False
    if summary.contested:
        return False
    severities = {finding.severity for finding in monitor.findings.shown}
    critical = Severity.CRITICAL in severities | {
        problem.severity for problem in found.problems.all
    }
    return summary.live_chips == summary.chips > 0 and not critical


def facts(
    monitor: Monitor, summary: Summary, found: PublishedProblems, *, healthy: bool
) -> dict[str, Any]:
    """Return the summary as JSON values, with racks, problems, jobs and events."""
    from trnfleet.cli.report.pipeline import pipeline_facts
    from trnfleet.cli.report.relays import relay_facts, relays_of
    from trnfleet.monitor.problems.facts import problem_facts

    racks = sorted(monitor.racks(), key=lambda rack: rack.power_w)
    # Its problems are the pipeline's.
    figures = dataclasses.asdict(summary)
    del figures["pipeline_problems"]
    return {
        "v": VERSION,
        **figures,
        "racks": {
            "highest": racks[-1]._asdict() if racks else None,
            "lowest": racks[0]._asdict() if racks else None,
        },
        "receiver_errors": [error._asdict() for error in summary.receiver_errors],
        "watched": found.is_watched,
        "cell_doubts": list(found.cell_doubts),
        "pipeline": pipeline_facts(monitor.pipeline()),
        "relays": relay_facts(relays_of(monitor, summary.cells)),
        "problems": [problem_facts(problem, found.now_ns) for problem in found.problems.all],
        "problem_counts": found.problems.counts()._asdict(),
        # `jobs` is their number.
        "job_list": [_job_facts(monitor, job) for _, job in sorted(monitor.ingest.jobs.items())],
        "last_events": [_event_facts(event) for event in _last_events(monitor)],
        "healthy": healthy,
    }


def _job_facts(monitor: Monitor, job: JobMessage) -> dict[str, Any]:
    """Return a job.

    Without a live chip its state is the last known, and it has no pace.
    """
    from trnfleet.domain.metrics import JOB_FIGURES, LASTING_JOB_FIGURES

    age_s = monitor.job_age_s(job.job)
    return {
        "job": job.job,
        "kind": job.kind,
        "state": job.state,
        "live": age_s is None,
        "age_s": None if age_s is None else round(age_s, 1),
        "ts": job.ts,
        "on": job.on,
        **{
            name: getattr(job, name) if age_s is None or name in LASTING_JOB_FIGURES else None
            for name in JOB_FIGURES
        },
    }


def _jobs_text(jobs: Jobs) -> str:
    """Return the number of jobs, and of live ones in each state."""
    from trnfleet.monitor.store.last_known import LAST_KNOWN

    silent = jobs.last_known
    live = Counter(job.state for name, job in jobs.by_key.items() if name not in silent)
    old = Counter(job.state for name, job in jobs.by_key.items() if name in silent)
    said = [f"{number:,} {plain(state)}" for state, number in sorted(live.items())]
    if old:
        states = ", ".join(f"{number:,} {plain(state)}" for state, number in sorted(old.items()))
        said.append(f"{len(silent):,} {LAST_KNOWN} ({states})")
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


def _last_events(monitor: Monitor) -> list[Event]:
    return list(itertools.islice(monitor.events.newest_first(), MOST_EVENTS))


def text(summary: Summary, monitor: Monitor, found: PublishedProblems, *, healthy: bool) -> str:
    """Return the summary as text."""
    from trnfleet.cli.report.pipeline import pipeline_rows
    from trnfleet.cli.report.relays import relay_rows, relays_of
    from trnfleet.monitor.pipeline.problem import contest_text
    from trnfleet.monitor.summary import undescribed_text
    from trnfleet.services.alerts_client import WITHHELD

    amounts = (
        (summary.chips, "chip"),
        (summary.instances, "instance"),
        (summary.ultraservers, "UltraServer"),
    )
    hardware = ", ".join(counted(number, noun) for number, noun in amounts)
    lost = f"{summary.lost:,} lost, {summary.late:,} late, {summary.dropped:,} dropped"
    for what in ("shed", "undescribed", "duplicates", "misplaced", "rejected"):
        if number := getattr(summary, what):
            lost += f", {number:,} {what}"
    if summary.internal_errors:
        lost += f", {summary.internal_errors:,} INTERNAL ERRORS (see the log)"
    if summary.messages_per_s is not None:
        lost = f"{summary.messages_per_s:.3g} msg/s, {lost}"
    lag = "lag -" if summary.lag_s is None else f"lag {summary.lag_s * 1e3:.0f} ms"
    if summary.clock_skew_s:
        lag += f", clock off by {abs(summary.clock_skew_s):,.0f} s"
    if summary.late_s:
        lag += f", telemetry {summary.late_s:,.0f} s late ({counted(summary.old, 'message')})"
    for names, paths in summary.contested.items():
        lag += f", {plain(contest_text(names, counted(paths, 'path')))}"
    undescribed = undescribed_text(summary)
    time = [] if summary.is_wall_time else [("time", f"{summary.monitor_time} x{summary.speed:g}")]
    rows = [
        ("fleet", f"{summary.fleet} ({_state(summary, found, healthy=healthy)})"),
        *([("not described", f"{undescribed}: {WHAT_TO_DO}")] if undescribed else []),
        *([("broker", WITHHELD)] if monitor.link.withholds_retained else []),
        *time,
        ("hardware", hardware),
        *(
            [("roll-ups", _rollup_text(summary))]
            if summary.rolled_chips or summary.forwarded_chips
            else []
        ),
        *relay_rows(relays_of(monitor, summary.cells)),
        *figure_rows(summary),
        ("jobs", _jobs_text(monitor.ingest.job_table)),
        ("pipeline", f"{lost}, {summary.undecodable:,} undecodable, {lag}"),
        *pipeline_rows(monitor.pipeline()),
    ]
    if summary.last_problem:
        refused = ", ".join(
            f"{number:,} {what}" for what, number in sorted(summary.refused.items())
        )
        rows.append(
            (
                "refused",
                f"{refused or 'nothing'}; the last problem: {plain(summary.last_problem, 300)}",
            )
        )
    if summary.receiver_errors:
        first = receiver_error_text(summary.receiver_errors[0])
        rows.append(
            ("receivers", f"{counted(summary.receiver_error_count, 'error')}: {plain(first, 400)}")
        )
    lines = [f"{name:<16}{value}" for name, value in rows]
    lines.extend(_problem_lines(found))
    for event in _last_events(monitor):
        where = plain(event.path or event.job) or "fleet"
        line = (
            f"{format_rfc3339(event.ts_ns)} {event.severity.value} {where}:"
            f" {plain(event.text, 256)}"
        )
        lines.append(f"{'event':<16}{line}")
    return "\n".join(lines)


def _rollup_text(summary: Summary) -> str:
    """Return the number of chips known only from roll-ups, and their cells."""
    cells = ", ".join(plain(cell) for cell in summary.cells[:8])
    if len(summary.cells) > 8:
        cells += f" and {len(summary.cells) - 8:,} more"
    noun = "cell" if len(summary.cells) == 1 else "cells"
    text = f"figures of {counted(summary.rolled_chips, 'chip')} are from roll-ups of {noun} {cells}"
    forwarded = summary.forwarded_chips
    return f"{text}, of {counted(forwarded, 'chip')} from chips under leases" if forwarded else text


def figure_rows(summary: Summary) -> list[tuple[str, str]]:
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
    return [
        (
            "figures",
            " ".join(
                filter(
                    None, (mean_label(mean.seconds), part_label(summary.live_chips, summary.chips))
                )
            ),
        ),
        ("NC util", with_unit(mean.nc_util_pct, "%")),
        ("compute", f"{with_unit(mean.tflops, 'TFLOP/s')}, MFU {with_unit(mean.mfu_pct, '%')}"),
        ("HBM bw", f"{with_unit(mean.hbm_traffic_bytes_per_s, 'bytes/s')}, {hbm_share}"),
        ("link tx", with_unit(mean.link_tx_bytes_per_s, "bytes/s")),
        ("power", f"{watts['chips']}, host power {watts['hosts']}, {efficiency}"),
        ("facility", f"{watts['facility']} with PUE {summary.pue:.2f}, of that IT {watts['it']}"),
        ("headroom", _headroom_text(mean)),
        ("temp max", temp + (f" at {plain(mean.hottest_chip)}" if mean.hottest_chip else "")),
    ]


def _headroom_text(mean: Means) -> str:
    """Return the headroom below the chips' power cap, the cap, and the share."""
    if mean.headroom_w is None or mean.headroom_pct is None:
        return NOT_AVAILABLE
    return (
        f"{with_unit(mean.headroom_w, 'W')} of {with_unit(mean.power_cap_w, 'W')},"
        f" {mean.headroom_pct:.0f} %"
    )


def _state(summary: Summary, found: PublishedProblems, *, healthy: bool) -> str:
    """Return how many chips are live and how many problems there are."""
    from trnfleet.monitor.problems import texts

    state = f"{summary.live_chips:,} of {counted(summary.chips, 'chip')} live"
    for chips, word in summary.chip_states[1:]:
        if chips:
            state += f", {chips:,} {word}"
    if summary.unwatched_cells:
        state += f", {counted(len(summary.unwatched_cells), 'cell')} without a watch"
    problems = found.problems
    if problems.all:
        state += f", {texts.counts_text(problems.counts())}"
    if not healthy:
        return f"UNHEALTHY: {state}"
    # Beside warnings the word would say too much.
    return state if problems.all else f"healthy: {state}"


def _problem_lines(found: PublishedProblems) -> list[str]:
    """Return the first problems, a line each, and whether a watch evaluates alerts."""
    from trnfleet.monitor.problems import texts

    listed = found.problems.listed
    shown = listed[:MOST_PROBLEMS]
    lines = [
        f"{problem.severity.value:<16}{texts.line(problem, found.now_ns)}" for problem in shown
    ]
    if len(listed) > len(shown):
        lines.append(f"{'':<16}and {len(listed) - len(shown):,} more")
    doubts = found.cell_doubts[:MOST_DOUBTS]
    lines += [f"{'alerts':<16}{plain(doubt, 400)}" for doubt in doubts]
    if len(found.cell_doubts) > len(doubts):
        lines.append(f"{'alerts':<16}and of {len(found.cell_doubts) - len(doubts):,} more cells")
    if not found.is_watched and not doubts:
        lines.append(
            f"{'alerts':<16}unknown: no watch is online; problems are by thresholds of the moment"
        )
    return lines
