"""`trnfleet alerts`: list firing alerts as a watch publishes them, with acknowledgements and silences."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import click

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
)
from trnfleet.cli.params import Duration
from trnfleet.cli.streams import report
from trnfleet.cli.tables import table_lines
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.watches import receiver_error_text
from trnfleet.domain.quantities import counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.text import plain
from trnfleet.wire.alerts import CellAlertMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.monitor.problems.problem import Problem
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.alerts import AlertMessage

UNKNOWN = 1
"""Exit status where no watch publishes alerts."""
UNHANDLED = 3
"""Exit status where a critical alert is neither acknowledged, silenced nor inhibited."""


_wait_option = setting(
    "--wait",
    type=Duration(LONGEST_WAIT_S),
    default="5s",
    help="Longest wait for telemetry, which carries the time of a simulated fleet.",
)


def alerts_options(command: CommandT) -> CommandT:
    """Add the options of every command about the alerts of one fleet; the command takes `session`, `name` and `wait`."""
    for option in (log_options, _wait_option, fleet_option, broker_options(required=True)):
        command = option(command)
    return command


class Listed(NamedTuple):
    """An alert of a fleet."""

    fleet: FleetAlerts
    message: AlertMessage
    status: AlertStatus


@click.command("alerts")
@click.option("--all", "everything", is_flag=True, help="Recently resolved alerts, too.")
@json_option
@broker_options(required=True, several=True)
@fleets_option
@all_fleets_option
@_wait_option
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[BrokerSession, ...],
    names: tuple[str, ...],
    all_fleets: bool,
    wait: float,
    everything: bool,
    as_json: bool,
) -> None:
    """List firing alerts as `trnfleet watch` publishes them, grouped by cause, with acknowledgements and silences.

    Each group begins with its problem: where the cause is, for how long, and the jobs that it hurts (`problems` in --json). Without a watch the state of alerts is unknown: the exit status is 1, and alerts that an earlier watch published are shown
    as last known. In --json, `watched` is false then. Stderr says which watch leads and when it was heard, and warns where watches
    contradict or the leader does not publish what another sees: `doubts` in --json, with exit status 1, too.

    On a top broker the alerts of cells are among them, with their cell and what people in it do about them; of a cell that no relay sees
    they are as last known (`not observed`), and the exit status is 1, as it is where a cell has no watch: stderr names it. `cells` in
    --json has who watches each.

    Several fleets, by --name more than once or --all-fleets, are one table with the fleet of each alert; in --json `alerts` is one list
    with `fleet` in each, beside `fleets`. A fleet whose parts are on several brokers is one fleet.

    \b
    Examples:
      trnfleet alerts --broker mqtt://127.0.0.1:1883
      trnfleet alerts --broker mqtt://b1.example:1883 --broker mqtt://b2.example:1883 --all-fleets
      trnfleet alerts --broker mqtt://127.0.0.1:1883 --json | jq -r '.alerts[].summary'

    \b
    Exit status: 0 no unhandled critical alert, 3 a critical alert fires that is neither acknowledged, silenced nor inhibited,
    1 a failure explained in one line, also where no watch publishes alerts, the leader is in doubt or a broker of several is away,
    2 wrong use. Of several fleets the largest counts.
    """
    from trnfleet.services.alerts_client import read_alerts_of_fleets

    fleets = asyncio.run(read_alerts_of_fleets(sessions, names, takes_all=all_fleets, wait_s=wait))
    found = [
        Listed(fleet, message, fleet.status(message))
        for fleet in fleets
        for message in fleet.alerts.values()
        if everything or message.state == "firing"
    ]
    found.sort(key=_order)
    is_of_several = all_fleets or len(set(names)) > 1
    if as_json:
        facts = [_fleet_facts(each) for each in fleets]
        alerts = [_alert_facts(each) for each in found]
        if is_of_several:
            named = [
                {"fleet": each.fleet.name, **row} for each, row in zip(found, alerts, strict=True)
            ]
            click.echo(json.dumps({"fleets": facts, "alerts": named}, indent=2))
        else:
            click.echo(json.dumps({**facts[0], "alerts": alerts}, indent=2))
    else:
        rows = [(each.message, each.status) for each in found]
        for line in (
            lines_of_several(found, fleets) if is_of_several else text_lines(rows, fleets[0])
        ):
            click.echo(line)
    for fleet in fleets:
        if as_json or is_of_several or fleet.is_partly_watched:
            report_word(fleet, f"{fleet.name}: " if is_of_several else "")
    statuses = {
        exit_status(fleet, [each for each in found if each.fleet is fleet]) for fleet in fleets
    }
    ctx.exit(max(statuses))


def exit_status(fleet: FleetAlerts, found: Sequence[Listed]) -> int:
    """Return the exit status for one fleet; of several the largest counts, so that what is unhandled goes before what is unknown."""
    from trnfleet.domain.alerts.status import AlertStatus

    if any(
        each.message.severity is Severity.CRITICAL
        and each.status is AlertStatus.FIRING
        and fleet.is_published(each.message)
        for each in found
    ):
        return UNHANDLED
    return UNKNOWN if not fleet.is_watched or fleet.word.doubts or fleet.away else 0


def lines_of_several(found: Sequence[Listed], fleets: Sequence[FleetAlerts]) -> list[str]:
    """Return the alerts of several fleets as one table, below the problems of all; where no watch is, they are as last known."""
    from trnfleet.monitor.problems.search import urgency

    if not found:
        is_known = all(
            each.is_watched and not each.word.doubts and not each.away for each in fleets
        )
        return [
            f"0 firing in {counted(len(fleets), 'fleet')}"
            if is_known
            else "no alert is published, which is in doubt"
        ]
    rows = []
    for fleet, message, status in found:
        rows.append((fleet.name, *_row(message, status, fleet)))
    lines = table_lines([("FLEET", "ALERT", "SEVERITY", "STATE", "FOR", "WHAT"), *rows])
    causes = [
        (problem, fleet)
        for fleet in fleets
        if fleet.is_partly_watched
        for problem in fleet.problems.all
    ]
    causes.sort(key=lambda cause: urgency(cause[0]))
    return by_cause(
        [(each.fleet.name, each.message.fingerprint) for each in found],
        lines,
        causes,
        names_fleet=True,
    )


def text_lines(found: Sequence[tuple[AlertMessage, AlertStatus]], fleet: FleetAlerts) -> list[str]:
    """Return the table of alerts; without a watch as last known, with the age of each and the reason above."""
    rows = [_row(message, status, fleet) for message, status in found]
    if fleet.is_partly_watched and not rows:
        return ["no alert is published, which is in doubt" if fleet.word.doubts else "0 firing"]
    if fleet.is_partly_watched:
        lines = table_lines([("ALERT", "SEVERITY", "STATE", "FOR", "WHAT"), *rows])
        keys = [(fleet.name, message.fingerprint) for message, _ in found]
        return by_cause(keys, lines, [(each, fleet) for each in fleet.problems.all])
    if not rows:
        return [plain(fleet.unwatched_reason, 400)]
    return [
        plain(f"{fleet.unwatched_reason}; as last known:", 400),
        *table_lines([("ALERT", "SEVERITY", "STATE", "AGE", "WHAT"), *rows]),
    ]


def by_cause(
    keys: Sequence[tuple[str, str]],
    lines: list[str],
    causes: Sequence[tuple[Problem, FleetAlerts]],
    *,
    names_fleet: bool = False,
) -> list[str]:
    """Return a table's lines below the problem that each alert belongs to; what belongs to none stands at the end.

    Args:
        keys: Fleet and fingerprint of each line but the first, which is the heading.
        lines: The table.
        causes: The problems with their fleets.
        names_fleet: Whether the line of a problem has the fleet's name.
    """
    from trnfleet.monitor.problems import texts

    head, *rest = lines
    left = dict(zip(keys, rest, strict=True))
    made = [head]
    for problem, fleet in causes:
        mine = [(fleet.name, each.alert.fingerprint) for each in problem.alerts]
        below = [left.pop(each) for each in mine if each in left]
        if below:
            where = f"{plain(fleet.name, 64)}: " if names_fleet else ""
            made += [
                f"# {problem.severity.value}: {where}{texts.line(problem, fleet.now_ns)}",
                *below,
            ]
    return [*made, *(["# no problem"] if left and len(made) > 1 else []), *left.values()]


def report_word(fleet: FleetAlerts, before: str = "") -> None:
    """Report on stderr whose word the alerts are and what speaks against it, or that no watch keeps them up to date.

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
    texts = [receiver_error_text(each, fleet.name_of(each.id)) for each in errors.first]
    not_taken = f"receivers do not take {errors.total:,}: {'; '.join(texts)}{more}" if texts else ""
    away = f"{', '.join(fleet.away)} away: what is there is not known" if fleet.away else ""
    of_cells = [
        f"cell {each.cell}: {each.word.leader.client} leads"
        for each in fleet.cells
        if each.word.leader is not None
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
    """Return what is known of a fleet but for its alerts, as JSON values."""
    from trnfleet.monitor.problems.facts import problem_facts
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
                "cell": each.cell,
                "observed": each.is_observed,
                "leader": None if each.word.leader is None else _watch_facts(each.word.leader),
            }
            for each in fleet.cells
        ],
        "receiver_error_count": fleet.receiver_errors.total,
        "receiver_errors": [each._asdict() for each in fleet.receiver_errors.first],
        "problems": [problem_facts(each, fleet.now_ns) for each in fleet.problems.all],
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


def _row(message: AlertMessage, status: AlertStatus, fleet: FleetAlerts) -> tuple[str, ...]:
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
    return {
        **message.model_dump(mode="json", exclude={"v"}),
        "standing": status.value,
        "last_known": not fleet.is_published(message) or fleet.is_unobserved(message),
        "age_s": max(0.0, (fleet.now_ns - parse_rfc3339(message.fired)) / NS_PER_S),
        "ack": None
        if ack is None
        else {
            "owner": ack.owner,
            "note": ack.note,
            "at": format_rfc3339(ack.at_ns),
            "until": format_rfc3339(ack.ends_ns),
        },
        "silences": [silence.id for silence in fleet.silences_of(message)],
    }
