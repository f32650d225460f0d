"""`trnfleet status`: one look at a fleet, for people and for scripts."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import broker_options, fleet_option, json_option, log_options, pue_option, setting
from trnfleet.cli.params import Duration
from trnfleet.cli.tables import table_lines
from trnfleet.clock import format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.domain.severity import Severity
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.summary import Summary
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.messages import JobMessage

UNHEALTHY = 3
MOST_EVENTS = 5
"""The newest events that are printed, of those that arrived meanwhile."""
HEADS = (
    "state",
    "reservation",
    "what",
    "used",
    "util",
    "next",
    "terminates",
    "idle per hour",
    "fee",
    "extension",
)


WHAT_TO_DO = (
    "they publish, and no descriptor of them has come; publishers repeat theirs every 60 s: try --wait 70s, "
    "then see docs/brokers.md"
)
"""What to do about chips without a descriptor."""


@click.command("status")
@broker_options(required=True)
@fleet_option
@setting(
    "--wait", type=Duration(), default="5s", help="Longest wait until every described chip has reported."
)
@pue_option
@click.option("--reservations", is_flag=True, help="Capacity Blocks and their use, instead of the summary.")
@json_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    session: BrokerSession,
    name: str | None,
    wait: float,
    pue: float | None,
    reservations: bool,
    as_json: bool,
) -> None:
    """Print a fleet's summary and exit: 0 healthy, 3 unhealthy (chips that are not live or not described, or critical findings).

    \b
    Examples:
      trnfleet status --broker mqtt://127.0.0.1:1883
      trnfleet status --broker mqtt://ops@broker.example:1883 --name prod --json | jq .power_w
      trnfleet status --broker mqtt://127.0.0.1:1883 --reservations
    """
    from trnfleet.services.live_monitor import observe_fleet

    monitor = asyncio.run(observe_fleet(session, name, wait_s=wait, pue=pue, needs_chips=not reservations))
    summary = monitor.summary()
    healthy = is_healthy(monitor, summary)
    if reservations:
        table = monitor.reservations.table()
        if as_json:
            click.echo(json.dumps([reservation_facts(each) for each in table], indent=2))
        else:
            click.echo("\n".join(reservation_lines(table, monitor.moment().time_ns)))
    elif as_json:
        status = {**facts(monitor, summary, healthy=healthy), "broker": str(session.url)}
        click.echo(json.dumps(status, indent=2))
    else:
        click.echo(text(summary, monitor, healthy=healthy))
    ctx.exit(0 if healthy else UNHEALTHY)


def is_healthy(monitor: Monitor, summary: Summary) -> bool:
    """Return whether all chips are described and live, and no finding is critical."""
    if summary.undescribed_chips or summary.undescribed_paths:
        return False
    critical = any(finding.severity is Severity.CRITICAL for finding in monitor.findings.shown)
    return summary.live_chips == summary.chips > 0 and not critical


def facts(monitor: Monitor, summary: Summary, *, healthy: bool) -> dict[str, Any]:
    """Return the summary as JSON values, with racks, jobs and events."""
    racks = sorted(monitor.racks(), key=lambda rack: rack.power_w)
    return {
        **dataclasses.asdict(summary),
        "racks": {
            "highest": racks[-1]._asdict() if racks else None,
            "lowest": racks[0]._asdict() if racks else None,
        },
        # `jobs` is their number.
        "job_list": [_job_facts(job) for _, job in sorted(monitor.ingest.jobs.items())],
        "last_events": [_event_facts(event) for event in _last_events(monitor)],
        "healthy": healthy,
    }


def _job_facts(job: JobMessage) -> dict[str, Any]:
    from trnfleet.domain.metrics import JOB_FIGURES

    facts = {"job": job.job, "kind": job.kind, "state": job.state, "ts": job.ts, "on": job.on}
    return facts | {name: getattr(job, name) for name in JOB_FIGURES}


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


def text(summary: Summary, monitor: Monitor, *, healthy: bool) -> str:
    """Return the summary as text."""
    from trnfleet.monitor.summary import undescribed_text

    def figure(value: float | None, scale: float, unit: str, digits: int = 1) -> str:
        return "n/a" if value is None else f"{value / scale:,.{digits}f} {unit}"

    state = f"{summary.live_chips:,} of {counted(summary.chips, 'chip')} live"
    if summary.stale_chips:
        state += f", {summary.stale_chips:,} stale or offline"
    hbm = (summary.hbm_traffic_bytes_per_s, summary.hbm_bw_util_pct)
    amounts = (
        (summary.chips, "chip"),
        (summary.instances, "instance"),
        (summary.ultraservers, "UltraServer"),
    )
    hardware = ", ".join(counted(number, noun) for number, noun in amounts)
    chips_kw, hosts_kw = figure(summary.power_w, 1e3, "kW"), figure(summary.host_power_w, 1e3, "kW")
    it_kw, facility_kw = figure(summary.it_power_w, 1e3, "kW"), figure(summary.facility_power_w, 1e3, "kW")
    lost = f"{summary.lost:,} lost, {summary.late:,} late, {summary.dropped:,} dropped"
    for what in ("shed", "undescribed", "duplicates", "misplaced", "rejected"):
        if number := getattr(summary, what):
            lost += f", {number:,} {what}"
    if summary.internal_errors:
        lost += f", {summary.internal_errors:,} INTERNAL ERRORS (see the log)"
    lag = f"lag {summary.lag_s * 1e3:.0f} ms"
    if summary.clock_skew_s:
        lag += f", clock off by {abs(summary.clock_skew_s):,.0f} s"
    if summary.late_s:
        lag += f", telemetry {summary.late_s:,.0f} s late ({counted(summary.old, 'message')})"
    for names, paths in summary.contested.items():
        lag += f", {plain(names)} publish the same {counted(paths, 'path')}"
    states = Counter(job.state for job in monitor.ingest.jobs.values())
    jobs = ", ".join(f"{number:,} {plain(state)}" for state, number in sorted(states.items()))
    if jobs and not summary.live_chips:
        jobs += ", as last known"
    undescribed = undescribed_text(summary)
    time = [] if summary.is_wall_time else [("time", f"{summary.monitor_time} x{summary.speed:g}")]
    rows = [
        ("fleet", f"{summary.fleet} ({'healthy' if healthy else 'UNHEALTHY'}: {state})"),
        *([("not described", f"{undescribed}: {WHAT_TO_DO}")] if undescribed else []),
        *time,
        ("hardware", hardware),
        ("NC utilisation", figure(summary.nc_util_pct, 1, "%")),
        ("compute", f"{figure(summary.tflops, 1e3, 'PFLOP/s', 2)}, MFU {figure(summary.mfu_pct, 1, '%')}"),
        ("HBM traffic", f"{figure(hbm[0], 1e12, 'TB/s', 2)}, {figure(hbm[1], 1, '% of peak')}"),
        ("NeuronLink tx", figure(summary.link_tx_bytes_per_s, 1e12, "TB/s", 2)),
        ("power", f"{chips_kw} chips, {hosts_kw} hosts, {figure(summary.tflops_per_w, 1, 'TFLOPS/W', 2)}"),
        ("facility", f"{it_kw} IT, {facility_kw} with PUE {summary.pue:.2f}"),
        ("jobs", f"{summary.jobs:,}" + (f": {jobs}" if jobs else "")),
        ("pipeline", f"{lost}, {summary.undecodable:,} undecodable, {lag}"),
    ]
    if summary.last_problem:
        refused = ", ".join(f"{number:,} {what}" for what, number in sorted(summary.refused.items()))
        rows.append(
            ("refused", f"{refused or 'nothing'}; the last problem: {plain(summary.last_problem, 300)}")
        )
    lines = [f"{name:<16}{value}" for name, value in rows]
    shown = monitor.findings.shown[:10]
    lines.extend(
        f"{finding.severity.value:<16}{finding.path or 'fleet'}: {finding.what}" for finding in shown
    )
    if monitor.findings.total > len(shown):
        lines.append(f"{'':<16}and {monitor.findings.total - len(shown):,} more")
    for event in _last_events(monitor):
        where = plain(event.path or event.job) or "fleet"
        line = f"{format_rfc3339(event.ts_ns)} {event.severity.value} {where}: {plain(event.text, 256)}"
        lines.append(f"{'event':<16}{line}")
    return "\n".join(lines)


def reservation_facts(reservation: Reservation) -> dict[str, Any]:
    """Return a reservation as JSON values: EC2's fields as published, and figures of telemetry and time.

    Money is decimal text, times are RFC 3339, unknown values are null.
    """
    message = reservation.message
    return {
        "id": message.id,
        "type": message.type,
        "state": message.state.value,
        "is_current": reservation.is_current,
        "reservation_ids": message.reservation_ids,
        "instance_type": message.instance_type,
        "ultraserver_type": message.ultraserver_type,
        "zone": message.zone,
        "on": message.on,
        "instances": message.instances,
        "launched": message.launched,
        "unavailable": message.unavailable,
        "used": reservation.used,
        "unknown": reservation.unknown,
        "nc_util_pct": reservation.util_pct,
        "start": message.start,
        "end": message.end,
        "terminates": message.terminates,
        "end_s": reservation.to_end_s,
        "termination_s": reservation.to_termination_s,
        "fee": message.fee,
        "currency": message.currency,
        "fee_per_h": None if reservation.fee_per_h is None else f"{reservation.fee_per_h:.4f}",
        "idle_per_h": None if reservation.idle_per_h is None else f"{reservation.idle_per_h:.4f}",
        "interconnect": None if message.interconnect is None else message.interconnect.value,
        "can_extend": reservation.can_extend,
        "why_not": reservation.why_not,
        "is_near_end": reservation.is_near_end,
        "is_idle": reservation.is_idle,
    }


def reservation_lines(table: Sequence[Reservation], time_ns: int) -> list[str]:
    """Return the table of reservations, with the time of its countdowns above."""
    from trnfleet.tui.format import reservations as words

    if not table:
        return ["no reservations"]
    rows: list[tuple[str, ...]] = [HEADS]
    for each in table:
        message = each.message
        quiet = words.is_ended(each) or words.is_waiting(each)
        util = "" if quiet else "n/a" if each.util_pct is None else f"{each.util_pct:.1f} %"
        rows.append(
            (
                words.state_text(each),
                message.id,
                words.what_text(each),
                words.used_text(each),
                util,
                words.until_text(each),
                words.termination_text(each),
                "" if each.idle_per_h is None else words.money(each.idle_per_h, message.currency),
                words.money(words.fee_of(each), message.currency if message.fee else ""),
                words.extension_text(each),
            )
        )
    return [f"reservations at {format_rfc3339(time_ns)}", *table_lines(rows)]
