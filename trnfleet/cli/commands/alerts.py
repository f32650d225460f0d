"""`trnfleet alerts`: list published firing alerts, with acknowledgements and silences."""

from __future__ import annotations

import asyncio
import functools
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from trnfleet.cli.options import (
    LONGEST_WAIT_S,
    CommandT,
    all_fleets_option,
    broker_options,
    fleet_option,
    fleets_option,
    json_option,
    log_options,
    setting,
    with_options,
)
from trnfleet.cli.output import print_json, report, table_lines
from trnfleet.cli.params import Duration
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import named
from trnfleet.domain.alerts.watches import WatchPresence, receiver_error_text
from trnfleet.domain.quantities import counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.errors import BrokerError, ExitStatus
from trnfleet.text import plain
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession

MATCHING_S = 60.0
"""Longest time beyond `--wait` for connecting, reading and matching."""
_wait_option = setting(
    "--wait",
    type=Duration(LONGEST_WAIT_S),
    default="5s",
    help="Longest wait for telemetry, which has the time of a simulated fleet.",
)


def limited(command: CommandT) -> CommandT:
    """Return a command with `wait` that ends at the latest some time after it.

    Anyone who may write silences can fill a broker with slow ones, minutes to match.
    """

    @functools.wraps(command)
    def within(*args: Any, wait: float, **others: Any) -> Any:
        limit_s = wait + MATCHING_S

        def give_up(_number: int, _frame: object) -> None:
            report(
                f"no end within {limit_s:g} s: too many retained alerts and silences, or too costly"
                " ones"
            )
            raise SystemExit(1)

        former = signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            return command(*args, wait=wait, **others)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)

    return within  # type: ignore[return-value]  # click reads its parameters, not its signature


def alerts_options(command: CommandT) -> CommandT:
    """Add the options of commands about one fleet's alerts.

    The command gets `session`, `name` and `wait`.
    """
    return with_options(
        limited(command), (broker_options(required=True), fleet_option, _wait_option, log_options)
    )


class Listed(NamedTuple):
    """An alert of a fleet."""

    fleet: FleetAlerts
    message: AlertMessage
    status: AlertStatus


@click.command("alerts")
@click.argument("alert", required=False)
@click.option("--all", "everything", is_flag=True, help="Include recently resolved alerts.")
@json_option
@broker_options(required=True, several=True)
@fleets_option
@all_fleets_option
@_wait_option
@log_options
@click.pass_context
@limited
def command(
    ctx: click.Context,
    alert: str | None,
    sessions: tuple[BrokerSession, ...],
    names: tuple[str, ...],
    all_fleets: bool,
    wait: float,
    everything: bool,
    as_json: bool,
) -> None:
    """List the firing alerts of `trnfleet watch`, grouped by cause, with acknowledgements and silences.

    With ALERT, list only matching alerts: an id or its beginning, a rule, a place, or "RULE PLACE".

    Each group begins with its problem: the place of the cause, its age, and the affected jobs (`problems` in --json). Without a running
    watch the state of alerts is unknown: the exit status is 1, `watched` in --json is false, and alerts of an earlier watch are shown
    as last known. Stderr names the leading watch and its last message. It warns if watches contradict each other, or if the leader
    does not publish an alert of another watch: `doubts` in --json, with exit status 1. If the broker withholds retained messages
    (RabbitMQ), `silences` is null.

    On a top broker the list includes the alerts of cells, with their cell and its acknowledgements. If no relay sees a cell, its alerts
    are as last known (`not observed`). Then, and if a cell has no running watch, the exit status is 1, and stderr names the cell.
    `cells` in --json names the watch of each.

    With --all-fleets or several --name, one table has the fleet of each alert; in --json `alerts` is one list with `fleet` in each,
    beside `fleets`. Parts of a fleet on several brokers are one fleet.

    \b
    Examples:
      trnfleet alerts --broker mqtt://127.0.0.1:1883
      trnfleet alerts --broker mqtt://b1.example:1883 --broker mqtt://b2.example:1883 --all-fleets
      trnfleet alerts --broker mqtt://127.0.0.1:1883 --json | jq -r '.alerts[].summary'

    \b
    Exit status: 0 no unhandled critical alert; 1 a failure explained in one line, no running watch, a leader in doubt, or one of
    several brokers is away; 2 wrong use; 3 a critical alert fires, and is not acknowledged, silenced or inhibited. Several fleets exit
    with the highest status.
    """
    from trnfleet.services.alerts_client import read_alerts_of_fleets

    fleets = asyncio.run(read_alerts_of_fleets(sessions, names, takes_all=all_fleets, wait_s=wait))
    listed = [
        Listed(fleet, message, fleet.status(message))
        for fleet in fleets
        for message in fleet.alerts.values()
        if everything or message.state == "firing"
    ]
    if alert:
        listed = _named(alert, listed)
    listed.sort(key=_order)
    report_on = AlertsReport(fleets, listed, is_of_several=all_fleets or len(set(names)) > 1)
    if as_json:
        print_json(report_on.facts())
    else:
        click.echo("\n".join(report_on.lines()))
    for fleet in fleets:
        if as_json or report_on.is_of_several or fleet.is_partly_watched:
            report_word(fleet, f"{fleet.name}: " if report_on.is_of_several else "")
    ctx.exit(max(map(report_on.exit_status, fleets)))


def _named(text: str, listed: Sequence[Listed]) -> list[Listed]:
    """Return the alerts with a name.

    Raises:
        BrokerError: none has it.
    """
    from trnfleet.monitor.alerting.cells import alert_of

    ids = {match.fingerprint for match in named(text, (alert_of(row.message) for row in listed))}
    if not ids:
        raise BrokerError(f"no alert is called {text!r}; without it all are listed")
    return [row for row in listed if row.message.fingerprint in ids]


@dataclass(frozen=True)
class AlertsReport:
    """Report on the alerts of one or several fleets."""

    fleets: Sequence[FleetAlerts]
    listed: Sequence[Listed]
    """The listed alerts, in order."""
    is_of_several: bool

    def exit_status(self, fleet: FleetAlerts) -> int:
        """Return the exit status for one fleet.

        Of several fleets the largest counts, so unhandled goes before unknown.
        """
        from trnfleet.domain.alerts.status import AlertStatus

        if any(
            row.fleet is fleet
            and row.message.severity is Severity.CRITICAL
            and row.status is AlertStatus.FIRING
            and fleet.is_published(row.message)
            for row in self.listed
        ):
            return ExitStatus.UNHEALTHY
        return 0 if _is_known(fleet) else ExitStatus.FAILED

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        facts = [_fleet_facts(fleet) for fleet in self.fleets]
        alerts = [_alert_facts(row) for row in self.listed]
        if not self.is_of_several:
            return {**facts[0], "alerts": alerts}
        named = [
            {"fleet": row.fleet.name, **alert}
            for row, alert in zip(self.listed, alerts, strict=True)
        ]
        return {"fleets": facts, "alerts": named}

    def lines(self) -> list[str]:
        """Return it as text: a table of alerts, each below its problem.

        Without a watch, the alerts of one fleet are as last known, with their ages and the reason.
        """
        first = self.fleets[0]
        is_last_known = not self.is_of_several and not first.is_partly_watched
        if not self.listed:
            return [plain(first.unwatched_reason, 400) if is_last_known else self._none_text()]
        rows: list[tuple[str, ...]] = [
            ("ALERT", "SEVERITY", "STATE", "AGE" if is_last_known else "FOR", "WHAT")
        ]
        rows += map(_row, self.listed)
        if self.is_of_several:
            names = ["FLEET", *(row.fleet.name for row in self.listed)]
            table = table_lines([(name, *row) for name, row in zip(names, rows, strict=True)])
            return self._by_cause(table)
        table = table_lines(rows)
        if is_last_known:
            return [plain(f"{first.unwatched_reason}; as last known:", 400), *table]
        return self._by_cause(table)

    def _none_text(self) -> str:
        if self.is_of_several:
            is_known = all(map(_is_known, self.fleets))
            where = f" in {counted(len(self.fleets), 'fleet')}"
        else:
            is_known = not self.fleets[0].word.doubts
            where = ""
        return f"0 firing{where}" if is_known else "no alert is published, which is in doubt"

    def _by_cause(self, table: list[str]) -> list[str]:
        """Return a table's lines, each below its alert's problem.

        Alerts without a problem come last.
        """
        from trnfleet.monitor.problems import texts
        from trnfleet.monitor.problems.search import urgency

        head, *rest = table
        keys = [(row.fleet.name, row.message.fingerprint) for row in self.listed]
        left = dict(zip(keys, rest, strict=True))
        causes = [
            (problem, fleet)
            for fleet in self.fleets
            if fleet.is_partly_watched
            for problem in fleet.problems.all
        ]
        if self.is_of_several:
            causes.sort(key=lambda cause: urgency(cause[0]))
        lines = [head]
        for problem, fleet in causes:
            own = [(fleet.name, firing.alert.fingerprint) for firing in problem.alerts]
            below = [left.pop(key) for key in own if key in left]
            if below:
                where = f"{plain(fleet.name, 64)}: " if self.is_of_several else ""
                text = texts.line(problem, fleet.now_ns)
                lines += [f"# {problem.severity.value}: {where}{text}", *below]
        return [*lines, *(["# no problem"] if left and len(lines) > 1 else []), *left.values()]


def _is_known(fleet: FleetAlerts) -> bool:
    """Return whether the alerts of a fleet are up to date, without a doubt."""
    return fleet.is_watched and not fleet.word.doubts and not fleet.away


def report_word(fleet: FleetAlerts, before: str = "") -> None:
    """Report on stderr the watch behind the alerts and any doubts.

    Without a watch, report that alerts are not updated.

    Args:
        fleet: The fleet.
        before: Words before each line.
    """
    errors = fleet.receiver_errors
    more = (
        f" and {errors.total - len(errors.first):,} more"
        if errors.total > len(errors.first)
        else ""
    )
    texts = [receiver_error_text(error, fleet.name_of(error.id)) for error in errors.first]
    not_taken = f"receivers do not take {errors.total:,}: {'; '.join(texts)}{more}" if texts else ""
    away = f"{', '.join(fleet.away)} away: what is there is not known" if fleet.away else ""
    of_cells = [
        f"cell {cell.cell}: {cell.word.leader.client} leads"
        for cell in fleet.cells
        if cell.word.leader is not None
    ]
    for line in (
        away,
        fleet.unwatched_reason,
        *fleet.word.doubts,
        not_taken,
        fleet.word_text,
        *of_cells,
    ):
        if line:
            report(plain(f"{before}{line}", 1_000))


def _fleet_facts(fleet: FleetAlerts) -> dict[str, Any]:
    """Return the facts about a fleet except for its alerts, as JSON values."""
    from trnfleet.monitor.problems.texts import problem_facts
    from trnfleet.services.alerts_client import silence_facts

    return {
        "fleet": fleet.name,
        "time": format_rfc3339(fleet.now_ns),
        "watched": fleet.is_watched,
        "watches": list(fleet.watches),
        "gone": list(fleet.gone),
        "away": list(fleet.away),
        "leader": None if fleet.word.leader is None else _watch_facts(fleet.word.leader),
        "doubts": list(fleet.word.doubts),
        "cells": [
            {
                "cell": cell.cell,
                "observed": cell.is_observed,
                "leader": None if cell.word.leader is None else _watch_facts(cell.word.leader),
            }
            for cell in fleet.cells
        ],
        "receiver_error_count": fleet.receiver_errors.total,
        "receiver_errors": [error._asdict() for error in fleet.receiver_errors.first],
        "problems": [problem_facts(problem, fleet.now_ns) for problem in fleet.problems.all],
        "silences": silence_facts(fleet),
    }


def _watch_facts(watch: WatchPresence) -> dict[str, Any]:
    return {
        "client": watch.client,
        "since": None if watch.since_ns is None else format_rfc3339(watch.since_ns),
        "heard_s": watch.heard_s,
        "firing": watch.firing,
    }


def _order(listed: Listed) -> tuple[bool, int, str, str, str]:
    message = listed.message
    return (
        message.state != "firing",
        message.severity.rank,
        message.rule,
        message.target,
        listed.fleet.name,
    )


def _row(listed: Listed) -> tuple[str, ...]:
    fleet, message, status = listed
    text = message.summary
    if isinstance(message, CellAlertMessage):
        text = f"{message.cell}{', not observed' if fleet.is_unobserved(message) else ''}: {text}"
    ack = fleet.ack_of(message)
    if ack is not None and message.state == "firing":
        text += f" [{ack.owner}{': ' if ack.note else ''}{ack.note}]"
    for silence in fleet.silences_of(message)[:1] if message.state == "firing" else ():
        text += f" [silenced by {silence.whose}{': ' if silence.why else ''}{silence.why}]"
    until_ns = fleet.now_ns if message.resolved is None else parse_rfc3339(message.resolved)
    lasted_s = max(0.0, (until_ns - parse_rfc3339(message.fired)) / NS_PER_S)
    return (
        message.fingerprint,
        message.severity.value,
        status.value if fleet.is_published(message) else f"{status.value} (last known)",
        duration(lasted_s),
        f"{message.rule}: {text}",
    )


def _alert_facts(listed: Listed) -> dict[str, Any]:
    fleet, message, status = listed
    ack = fleet.ack_of(message)
    facts = msgspec.to_builtins(message)
    del facts["v"]
    return {
        **facts,
        "standing": status.value,
        "last_known": not fleet.is_published(message) or fleet.is_unobserved(message),
        "age_s": max(0.0, (fleet.now_ns - parse_rfc3339(message.fired)) / NS_PER_S),
        "ack": (
            None
            if ack is None
            else {
                "owner": ack.owner,
                "note": ack.note,
                "at": format_rfc3339(ack.at_ns),
                "until": format_rfc3339(ack.ends_ns),
            }
        ),
        "silences": [silence.id for silence in fleet.silences_of(message)],
    }
