"""`trnfleet alerts`: list firing alerts as a watch publishes them, with acknowledgements and silences."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import (
    LONGEST_WAIT_S,
    CommandT,
    broker_options,
    fleet_option,
    json_option,
    log_options,
    setting,
)
from trnfleet.cli.params import Duration
from trnfleet.cli.streams import report
from trnfleet.cli.tables import table_lines
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.watches import receiver_error_text
from trnfleet.domain.quantities import duration
from trnfleet.domain.severity import Severity
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.domain.alerts.watches import WatchPresence
    from trnfleet.services.alerts_client import FleetAlerts
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.alerts import AlertMessage

UNKNOWN = 1
"""Exit status where no watch publishes alerts."""
UNHANDLED = 3
"""Exit status where a critical alert is neither acknowledged, silenced nor inhibited."""


def alerts_options(command: CommandT) -> CommandT:
    """Add the options of every command about alerts; the command takes `session`, `name` and `wait`."""
    for option in (
        log_options,
        setting(
            "--wait",
            type=Duration(LONGEST_WAIT_S),
            default="5s",
            help="Longest wait for telemetry, which carries the time of a simulated fleet.",
        ),
        fleet_option,
        broker_options(required=True),
    ):
        command = option(command)
    return command


@click.command("alerts")
@click.option("--all", "everything", is_flag=True, help="Recently resolved alerts, too.")
@json_option
@alerts_options
@click.pass_context
def command(
    ctx: click.Context, session: BrokerSession, name: str | None, wait: float, everything: bool, as_json: bool
) -> None:
    """List firing alerts as `trnfleet watch` publishes them, grouped by cause, with acknowledgements and silences.

    Each group begins with its problem: where the cause is, for how long, and the jobs that it hurts (`problems` in --json). Without a watch the state of alerts is unknown: the exit status is 1, and alerts that an earlier watch published are shown
    as last known. In --json, `watched` is false then. Stderr says which watch leads and when it was heard, and warns where watches
    contradict or the leader does not publish what another sees: `doubts` in --json, with exit status 1, too.

    \b
    Examples:
      trnfleet alerts --broker mqtt://127.0.0.1:1883
      trnfleet alerts --broker mqtt://127.0.0.1:1883 --json | jq -r '.alerts[].summary'

    \b
    Exit status: 0 no unhandled critical alert, 3 a critical alert fires that is neither acknowledged, silenced nor inhibited,
    1 a failure explained in one line, also where no watch publishes alerts or the leader is in doubt, 2 wrong use.
    """
    from trnfleet.domain.alerts.status import AlertStatus
    from trnfleet.monitor.problems.facts import problem_facts
    from trnfleet.services.alerts_client import read_alerts, silence_facts

    fleet = asyncio.run(read_alerts(session, name, wait_s=wait))
    found = [
        (message, fleet.status(message))
        for message in fleet.alerts.values()
        if everything or message.state == "firing"
    ]
    found.sort(key=_order)
    if as_json:
        facts = {
            "fleet": fleet.name,
            "time": format_rfc3339(fleet.now_ns),
            "watched": bool(fleet.watches),
            "watches": list(fleet.watches),
            "gone": list(fleet.gone),
            "leader": None if fleet.word.leader is None else _watch_facts(fleet.word.leader),
            "doubts": list(fleet.word.doubts),
            "receiver_error_count": fleet.receiver_errors.total,
            "receiver_errors": [each._asdict() for each in fleet.receiver_errors.first],
            "problems": [problem_facts(each, fleet.now_ns) for each in fleet.problems.all],
            "alerts": [_alert_facts(message, status, fleet) for message, status in found],
            "silences": silence_facts(fleet),
        }
        click.echo(json.dumps(facts, indent=2))
        report_word(fleet)
    else:
        for line in text_lines(found, fleet):
            click.echo(line)
        if fleet.watches:
            report_word(fleet)
    is_unhandled = any(
        message.severity is Severity.CRITICAL and status is AlertStatus.FIRING for message, status in found
    )
    if not fleet.watches or (fleet.word.doubts and not is_unhandled):
        ctx.exit(UNKNOWN)
    ctx.exit(UNHANDLED if is_unhandled else 0)


def text_lines(found: Sequence[tuple[AlertMessage, AlertStatus]], fleet: FleetAlerts) -> list[str]:
    """Return the table of alerts; without a watch as last known, with the age of each and the reason above."""
    rows = [_row(message, status, fleet) for message, status in found]
    if fleet.watches and not rows:
        return ["no alert is published, which is in doubt" if fleet.word.doubts else "0 firing"]
    if fleet.watches:
        return _by_cause(found, table_lines([("ALERT", "SEVERITY", "STATE", "FOR", "WHAT"), *rows]), fleet)
    if not rows:
        return [plain(fleet.unwatched_reason, 400)]
    known = [(row[0], row[1], f"{row[2]} (last known)", *row[3:]) for row in rows]
    return [
        plain(f"{fleet.unwatched_reason}; as last known:", 400),
        *table_lines([("ALERT", "SEVERITY", "STATE", "AGE", "WHAT"), *known]),
    ]


def _by_cause(
    found: Sequence[tuple[AlertMessage, AlertStatus]], lines: list[str], fleet: FleetAlerts
) -> list[str]:
    """Return a table's lines below the problem that each alert belongs to; what belongs to none stands at the end."""
    from trnfleet.monitor.problems import texts

    head, *rest = lines
    by_fingerprint = {message.fingerprint: line for (message, _), line in zip(found, rest, strict=True)}
    made = [head]
    for problem in fleet.problems.all:
        mine = [each.alert.fingerprint for each in problem.alerts]
        below = [by_fingerprint.pop(each) for each in mine if each in by_fingerprint]
        if below:
            made += [f"# {problem.severity.value}: {texts.line(problem, fleet.now_ns)}", *below]
    return [*made, *(["# no problem"] if by_fingerprint and len(made) > 1 else []), *by_fingerprint.values()]


def report_word(fleet: FleetAlerts) -> None:
    """Report on stderr whose word the alerts are and what speaks against it, or that no watch keeps them up to date."""
    errors = fleet.receiver_errors
    more = f" and {errors.total - len(errors.first):,} more" if errors.total > len(errors.first) else ""
    texts = [receiver_error_text(each, fleet.name_of(each.id)) for each in errors.first]
    not_taken = f"receivers do not take {errors.total:,}: {'; '.join(texts)}{more}" if texts else ""
    for line in (fleet.unwatched_reason, *fleet.word.doubts, not_taken, fleet.word_text):
        if line:
            report(plain(line, 1_000))


def _watch_facts(watch: WatchPresence) -> dict[str, Any]:
    return {
        "client": watch.client,
        "since": None if watch.since_ns is None else format_rfc3339(watch.since_ns),
        "heard_s": watch.heard_s,
        "firing": watch.firing,
    }


def _order(found: tuple[AlertMessage, AlertStatus]) -> tuple[bool, int, str, str]:
    message, _ = found
    return message.state != "firing", message.severity.rank, message.rule, message.target


def _row(message: AlertMessage, status: AlertStatus, fleet: FleetAlerts) -> tuple[str, ...]:
    text = message.summary
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
        status.value,
        duration(lasted_s),
        f"{message.rule}: {text}",
    )


def _alert_facts(message: AlertMessage, status: AlertStatus, fleet: FleetAlerts) -> dict[str, Any]:
    ack = fleet.ack_of(message)
    return {
        **message.model_dump(mode="json", exclude={"v"}),
        "standing": status.value,
        "last_known": not fleet.watches,
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
