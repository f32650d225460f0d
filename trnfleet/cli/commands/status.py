"""`trnfleet status`: one look at a fleet, for people and for scripts."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import SystemClock, format_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.errors import BrokerError

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.summary import Summary
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.messages import JobMessage

UNHEALTHY = 3
EVENTS_TOLD = 5
"""The newest events that are told, of those that came while it looked."""


@click.command("status")
@broker_options(required=True)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting(
    "--wait", type=Duration(), default="5s", help="Longest wait until every described chip has been heard of."
)
@setting(
    "--pue",
    type=click.FloatRange(1, 3),
    help="Facility power over IT power; by default 1.14, AWS's global figure for 2025.",
)
@click.option(
    "--reservations", is_flag=True, help="Capacity Blocks and what is used of them, instead of the summary."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    name: str | None,
    wait: float,
    pue: float | None,
    reservations: bool,
    as_json: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Print a fleet's summary and exit: 0 healthy, 3 unhealthy (chips that are not live, or critical findings).

    \b
    Examples:
      trnfleet status --broker mqtt://127.0.0.1:1883
      trnfleet status --broker mqtt://ops@broker.example:1883 --name prod --json | jq .power_w
      trnfleet status --broker mqtt://127.0.0.1:1883 --reservations
    """
    set_up_logs(log_format, log_level)
    password = find_password(password_file)
    look = _look(
        broker,
        name,
        root=root,
        password=password,
        wait_s=wait,
        pue=pue,
        clock=SystemClock(),
        reservations=reservations,
    )
    monitor = asyncio.run(look)
    summary = monitor.summary()
    critical = [finding for finding in monitor.findings.shown if finding.severity is Severity.CRITICAL]
    healthy = summary.live_chips == summary.chips > 0 and not critical
    if reservations:
        from trnfleet.cli.reserved import reservation_facts, reservation_lines  # noqa: PLC0415  --help stays quick

        table = monitor.reservations.table()
        if as_json:
            click.echo(json.dumps([reservation_facts(each) for each in table], indent=2))
        else:
            click.echo("\n".join(reservation_lines(table, monitor.moment().time_ns)))
    elif as_json:
        click.echo(json.dumps({**facts(monitor, summary, healthy=healthy), "broker": str(broker)}, indent=2))
    else:
        click.echo(text(summary, monitor, healthy=healthy))
    ctx.exit(0 if healthy else UNHEALTHY)


async def _look(
    url: BrokerUrl,
    name: str | None,
    *,
    root: str,
    password: Password | None,
    wait_s: float,
    pue: float | None,
    clock: Clock,
    reservations: bool,
) -> Monitor:
    from trnfleet.cli.discovery import CONNECT_LIMIT_S, find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.watching import watch_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.monitor.store.store import Freshness  # noqa: PLC0415  --help stays quick
    from trnfleet.tasks import background  # noqa: PLC0415  --help stays quick

    fleet = await find_fleet(url, name=name, root=root, password=password, clock=clock, wait_s=wait_s)
    source, monitor = watch_fleet(url, fleet, root=root, password=password, clock=clock, pue=pue)
    async with background(source=source.run(), monitor=monitor.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + wait_s
        while clock.monotonic_s() < deadline_s:
            await clock.sleep(0.05)
            store = monitor.store
            if store.layout.chips and not store.count(Freshness.UNKNOWN) and not store.count(Freshness.STALE):
                break
        monitor.compute()
    if not monitor.store.layout.chips and not (reservations and len(monitor.reservations)):
        raise BrokerError(
            f"{url}: nothing describes a fleet {fleet!r} within {wait_s:g} s; --wait waits longer"
        )
    return monitor


def facts(monitor: Monitor, summary: Summary, *, healthy: bool) -> dict[str, Any]:
    """Return everything that scripts may ask for; racks, jobs and events beside the summary's figures."""
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
    from trnfleet.domain.metrics import JOB_FIGURES  # noqa: PLC0415  --help stays quick

    told = {"job": job.job, "kind": job.kind, "state": job.state, "ts": job.ts, "on": job.on}
    return told | {name: getattr(job, name) for name in JOB_FIGURES}


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
    return list(itertools.islice(monitor.events.newest_first(), EVENTS_TOLD))


def text(summary: Summary, monitor: Monitor, *, healthy: bool) -> str:
    """Return the summary for people."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    def figure(value: float | None, scale: float, unit: str, digits: int = 1) -> str:
        return "n/a" if value is None else f"{value / scale:,.{digits}f} {unit}"

    state = f"{summary.live_chips:,} of {summary.chips:,} chips live"
    if summary.stale_chips:
        state += f", {summary.stale_chips:,} stale or offline"
    hbm = (summary.hbm_traffic_bytes_per_s, summary.hbm_bw_util_pct)
    hardware = (
        f"{summary.chips:,} chips, {summary.instances:,} instances, {summary.ultraservers:,} UltraServers"
    )
    chips_kw, hosts_kw = figure(summary.power_w, 1e3, "kW"), figure(summary.host_power_w, 1e3, "kW")
    it_kw, facility_kw = figure(summary.it_power_w, 1e3, "kW"), figure(summary.facility_power_w, 1e3, "kW")
    lost = f"{summary.lost:,} lost, {summary.late:,} late, {summary.dropped:,} dropped"
    for what in ("undescribed", "duplicates", "misplaced", "rejected"):
        if number := getattr(summary, what):
            lost += f", {number:,} {what}"
    if summary.internal_errors:
        lost += f", {summary.internal_errors:,} INTERNAL ERRORS (see the log)"
    lag = f"lag {summary.lag_s * 1e3:.0f} ms"
    if summary.clock_skew_s:
        lag += f", clock off by {abs(summary.clock_skew_s):,.0f} s"
    states = Counter(job.state for job in monitor.ingest.jobs.values())
    jobs = ", ".join(f"{number:,} {plain(state)}" for state, number in sorted(states.items()))
    if jobs and not summary.live_chips:
        jobs += ", as last known"
    time = [] if summary.is_wall_time else [("time", f"{summary.monitor_time} x{summary.speed:g}")]
    rows = [
        ("fleet", f"{summary.fleet} ({'healthy' if healthy else 'UNHEALTHY'}: {state})"),
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
    lines = [f"{name:<16}{value}" for name, value in rows]
    shown = monitor.findings.shown[:10]
    lines.extend(
        f"{finding.severity.value:<16}{finding.path or 'fleet'}: {finding.what}" for finding in shown
    )
    if monitor.findings.total > len(shown):
        lines.append(f"{'':<16}and {monitor.findings.total - len(shown):,} more")
    for event in _last_events(monitor):
        where = plain(event.path or event.job) or "fleet"
        said = f"{format_rfc3339(event.ts_ns)} {event.severity.value} {where}: {plain(event.text, 256)}"
        lines.append(f"{'event':<16}{said}")
    return "\n".join(lines)
