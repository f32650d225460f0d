"""`trnfleet doctor`: capabilities of this machine and a broker, with advice."""

from __future__ import annotations

import asyncio
import functools
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from trnfleet import logs
from trnfleet.cli.options import (
    CommandT,
    broker_options,
    host_options,
    json_option,
    setting,
    settings_options,
    with_options,
)
from trnfleet.cli.output import print_json
from trnfleet.cli.params import Duration
from trnfleet.cli.settings.files import usual_places
from trnfleet.cli.settings.layers import applied, read_settings_if_valid, settings_problem
from trnfleet.cli.version import versions
from trnfleet.errors import BrokerError, ConfigError, ExitStatus
from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.cli.options import HostOptions
    from trnfleet.services.session import BrokerSession

MOST_RETAINED = 100_000
_SETTINGS = "settings"


def _doctor_options(command: CommandT) -> CommandT:
    """Add the options about brokers and settings.

    Their errors become findings.
    """
    with_sessions = broker_options(required=False, several=True)(command)

    @functools.wraps(with_sessions)
    def with_problem(*args: Any, **options: Any) -> Any:
        try:
            return with_sessions(*args, problem="", **options)
        except ConfigError as error:
            passed = {
                name: value
                for name, value in options.items()
                if name in {"retained", "listen", "as_json", "agent", "host"}
            }
            return command(*args, sessions=(), problem=str(error), **passed)

    return with_options(with_problem, settings_options(read_settings_if_valid))  # type: ignore[return-value]  # click reads its parameters, not its signature


@click.command("doctor")
@setting(
    "--retained",
    type=click.IntRange(0, MOST_RETAINED),
    default=2_000,
    help="Retained messages to test a broker with; 0 skips the test.",
)
@setting(
    "--listen",
    type=Duration(600),
    default="3s",
    help="Time to listen for telemetry, to compare clocks.",
)
@click.option("--agent", is_flag=True, help="Check what trnfleet agent can read on this host, too.")
@host_options
@json_option
@_doctor_options
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[BrokerSession, ...],
    problem: str,
    retained: int,
    listen: float,
    agent: bool,
    host: HostOptions,
    as_json: bool,
) -> None:
    """Check versions, terminal, programs, folders, settings and, if you name one, a broker.

    The tests of a broker publish small messages below ROOT/v1/_doctor-..., which readers of fleets ignore, and clear them. They stop
    if the user may not write there.

    \b
    Examples:
      trnfleet doctor
      trnfleet doctor --broker mqtt://127.0.0.1:1883
      trnfleet doctor --agent
    trnfleet doctor --profile prod --json | jq '.findings[] | select(.health == "problem")'

    Exit status: 0 no problems (warnings do not count), 1 a broker cannot be reached, 3 problems.
    """
    # What goes wrong at a broker is a finding; the same in the log would stand between them.
    logs.configure(log_format="console", level="error")
    report = _Report(as_json=as_json)
    from trnfleet.services.doctor import machine

    report.add_all(machine.software(versions(), agent=agent))
    for look in (machine.terminal(os.environ), machine.programs()):
        report.add_all(look)
    report.add_all(machine.own_folders())
    report.add_all(_settings(ctx, problem))
    if agent:
        asyncio.run(_examine_host(host, report))
    is_reached = asyncio.run(_examine_all(sessions, report, retained, listen))
    if not sessions and not problem:
        advice = "give --broker URL, or set one, to have it tried, too"
        report.add(Finding("broker", "broker", Health.UNKNOWN, "none given", advice))
    report.end()
    if not is_reached:
        ctx.exit(ExitStatus.FAILED)
    ctx.exit(ExitStatus.UNHEALTHY if report.has_problems else 0)


async def _examine_host(host: HostOptions, report: _Report) -> None:
    """Try what an agent reads."""
    from trnfleet.services.doctor.host import examine_host

    async for finding in examine_host(host.root, host.imds, host.jobs):
        report.add(finding)


async def _examine_all(
    sessions: tuple[BrokerSession, ...], report: _Report, retained: int, listen_s: float
) -> bool:
    """Try each broker; return whether all could be reached."""
    from trnfleet.services.doctor.broker import advice_on, examine
    from trnfleet.tasks import Ending

    is_reached = True
    # A signal ends a trial in order: it clears what it has left at the broker.
    with Ending().on_signals():
        for session in sessions:
            try:
                await examine(session, report.add, retained=retained, listen_s=listen_s)
            except BrokerError as error:
                is_reached = False
                said = str(error).removeprefix(f"broker {session.url}: ")
                advice = await advice_on(session.url)
                report.add(Finding(str(session.url), "connection", Health.PROBLEM, said, advice))
    return is_reached


def _settings(ctx: click.Context, problem: str) -> Iterator[Finding]:
    """Yield the settings files read, and their errors."""
    for said in filter(None, (settings_problem(ctx), problem)):
        yield Finding(
            _SETTINGS,
            "settings",
            Health.PROBLEM,
            said,
            "trnfleet config path names the files that are read",
        )
    read = applied(ctx)
    if read is None:
        return
    settings, values = read
    for file in settings.files:
        yield Finding(_SETTINGS, file.place.kind, Health.OK, file.name)
    if not settings.files:
        places = " and ".join(str(place.file) for place in usual_places())
        yield Finding(_SETTINGS, "files", Health.OK, f"none read; looked for are {places}")
    profile = settings.profile
    value = f"{profile.name}, from {profile.chosen_by}" if profile.name else "none"
    yield Finding(_SETTINGS, "profile", Health.OK, value)
    broker = values.get("broker")
    if broker is not None:
        yield Finding(_SETTINGS, "broker", Health.OK, f"from {broker.origin}")


class _Report:
    """Findings, printed as they come or together as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._findings: list[Finding] = []

    @property
    def has_problems(self) -> bool:
        return any(finding.health is Health.PROBLEM for finding in self._findings)

    def add_all(self, findings: Iterator[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def add(self, finding: Finding) -> None:
        if not self._as_json:
            if not self._findings or self._findings[-1].group != finding.group:
                click.echo(f"{plain(finding.group, LONGEST_LINE)}")
            click.echo(
                f"  {finding.health.value:<8} {finding.name:<16} {plain(finding.value, LONGEST_LINE)}"
            )
            if finding.advice:
                click.echo(f"  {'':<8} {'':<16} -> {plain(finding.advice, LONGEST_LINE)}")
        self._findings.append(finding)

    def end(self) -> None:
        """Print the sum, or all of it as JSON."""
        counts = Counter(finding.health for finding in self._findings)
        if self._as_json:
            facts = {
                "healthy": not self.has_problems,
                "counts": {health.value: counts[health] for health in Health},
                "findings": [finding._asdict() for finding in self._findings],
            }
            print_json(facts)
            return
        numbers = (f"{counts[health]} {health.value}" for health in Health if counts[health])
        click.echo(f"\n{', '.join(numbers)}")
