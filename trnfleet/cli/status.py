"""`trnfleet status`: one look at a fleet, for people and for scripts."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING

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
from trnfleet.clock import SystemClock
from trnfleet.errors import BrokerError

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor, Summary
    from trnfleet.transport.url import BrokerUrl, Password

UNHEALTHY = 3


@click.command("status")
@broker_options(required=True)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting(
    "--wait", type=Duration(), default="5s", help="Longest wait until every described chip has been heard of."
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
    as_json: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Print a fleet's summary and exit: 0 healthy, 3 unhealthy (chips that are not live, or critical findings).

    \b
    Examples:
      trnfleet status --broker mqtt://127.0.0.1:1883
      trnfleet status --broker mqtt://ops@broker.example:1883 --name prod --json | jq .power_w
    """
    set_up_logs(log_format, log_level)
    password = find_password(password_file)
    monitor = asyncio.run(_look(broker, name, root=root, password=password, wait_s=wait, clock=SystemClock()))
    summary = monitor.summary()
    critical = [finding for finding in monitor.findings.shown if finding.severity == 0]
    healthy = summary.live_chips == summary.chips > 0 and not critical
    if as_json:
        facts = dataclasses.asdict(summary)
        facts["healthy"] = healthy
        facts["broker"] = str(broker)
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(_text(summary, monitor, healthy))
    ctx.exit(0 if healthy else UNHEALTHY)


async def _look(
    url: BrokerUrl, name: str | None, *, root: str, password: Password | None, wait_s: float, clock: Clock
) -> Monitor:
    from trnfleet.cli.discovery import CONNECT_LIMIT_S, find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.watching import watch_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.monitor.store import Freshness  # noqa: PLC0415  --help stays quick
    from trnfleet.tasks import background  # noqa: PLC0415  --help stays quick

    fleet = await find_fleet(url, name=name, root=root, password=password, clock=clock, wait_s=wait_s)
    source, monitor = watch_fleet(url, fleet, root=root, password=password, clock=clock)
    async with background(source=source.run(), monitor=monitor.run()):
        await source.wait_connected(CONNECT_LIMIT_S)
        deadline_s = clock.monotonic_s() + wait_s
        while clock.monotonic_s() < deadline_s:
            await clock.sleep(0.05)
            store = monitor.store
            if store.layout.chips and not store.count(Freshness.UNKNOWN) and not store.count(Freshness.STALE):
                break
        monitor.compute()
    if not monitor.store.layout.chips:
        raise BrokerError(
            f"{url}: nothing describes a fleet {fleet!r} within {wait_s:g} s; --wait waits longer"
        )
    return monitor


def _text(summary: Summary, monitor: Monitor, healthy: bool) -> str:
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
    lost = f"{summary.lost:,} lost, {summary.late:,} late, {summary.dropped:,} dropped"
    rows = [
        ("fleet", f"{summary.fleet} ({'healthy' if healthy else 'UNHEALTHY'}: {state})"),
        ("hardware", hardware),
        ("NC utilisation", figure(summary.nc_util_pct, 1, "%")),
        ("compute", f"{figure(summary.tflops, 1e3, 'PFLOP/s', 2)}, MFU {figure(summary.mfu_pct, 1, '%')}"),
        ("HBM traffic", f"{figure(hbm[0], 1e12, 'TB/s', 2)}, {figure(hbm[1], 1, '% of peak')}"),
        ("NeuronLink tx", figure(summary.link_tx_bytes_per_s, 1e12, "TB/s", 2)),
        ("power", f"{chips_kw} chips, {hosts_kw} hosts, {figure(summary.tflops_per_w, 1, 'TFLOPS/W', 2)}"),
        ("jobs", f"{summary.jobs:,}"),
        ("pipeline", f"{lost}, {summary.undecodable:,} undecodable, lag {summary.lag_s * 1e3:.0f} ms"),
    ]
    lines = [f"{name:<16}{value}" for name, value in rows]
    shown = monitor.findings.shown[:10]
    lines.extend(f"{finding.severity.name.lower():<16}{finding.path}: {finding.what}" for finding in shown)
    if monitor.findings.total > len(shown):
        lines.append(f"{'':<16}and {monitor.findings.total - len(shown):,} more")
    return "\n".join(lines)
