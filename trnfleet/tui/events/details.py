"""Details of the event under the cursor, beside a wide list.

Name, time, place, and the alert or the operator's comment behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.quantities import duration
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.events.list import severity_text
from trnfleet.tui.format.alerts import age_text, condition_words, handling_texts, time_text
from trnfleet.tui.format.alerts import severity_text as alert_severity_text
from trnfleet.tui.widgets.cells import Column, beside
from trnfleet.tui.widgets.facts import Fact, fact_lines
from trnfleet.tui.widgets.line_view import Line, LineView

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.events.list import EventList
    from trnfleet.tui.state.alerts import AlertSnapshot
    from trnfleet.tui.state.context import UiContext

_MOST_ALERTS = 6


class EventDetails(LineView, can_focus=False):
    """The event under the cursor, with its alert or its place."""

    DEFAULT_CSS = "EventDetails { height: 1fr; overflow: hidden; padding-left: 1; }"

    def __init__(self, context: UiContext, events: EventList) -> None:
        super().__init__()
        self._events = events
        self._snapshot = context.alerts

    def lines(self, top: int, height: int, width: int) -> list[Line]:
        """Return its facts."""
        del top
        event = self._events.picked
        if event is None:
            return []
        facts = event_facts(event, self._events.address_of(event), self._snapshot)
        return beside([Column(fact_lines(facts, width, height), width)], width)


def event_facts(event: Event, opens: str, snapshot: AlertSnapshot) -> list[Fact]:
    """Return everything of an event, the most important first.

    Args:
        event: The event.
        opens: The address to which Enter leads; empty for none.
        snapshot: Alerts, with their acknowledgements and silences.
    """
    alerts = snapshot.alerts
    now_ns = snapshot.now_ns
    day, time = format_rfc3339(event.ts_ns)[:-1].split("T")
    age_s = (now_ns - event.ts_ns) / NS_PER_S
    ago = f"{duration(age_s)} ago" if age_s >= 1 else "just now"
    facts = [
        Fact(severity_text(event), plain(event.text, LONGEST), theme.STRONG),
        Fact("when", f"{day} {time} UTC, {ago}"),
        Fact("where", plain(event.path or event.subject) or "fleet"),
    ]
    if event.job:
        facts.append(Fact("job", plain(event.job)))
    facts.append(Fact("source", f"{plain(event.source)}, {plain(event.name)}"))
    if event.nrt is not None:
        facts.append(Fact("NRT status", str(event.nrt)))
    alert = alerts.find(event.alert) if event.alert else None
    facts += _alert_facts(event, alert, alerts, now_ns)
    if not event.rule:
        facts += _alerts_there(event, snapshot)
    keys = (
        f"Enter goes to {plain(opens)}" if opens else "Enter leads nowhere: it is about the fleet"
    )
    return [*facts, Fact("keys", f"{keys}; o goes to its moment", theme.QUIET)]


def _alert_facts(event: Event, alert: Alert | None, alerts: Alerts, now_ns: int) -> list[Fact]:
    """Return an event's alert in its present state, with its rule and operators' comments."""
    facts: list[Fact] = []
    if event.rule:
        rule = plain(event.rule)
        facts.append(
            Fact(
                "rule",
                (
                    rule
                    if alert is None
                    else f"{rule}: {plain(condition_words(alert.rule), LONGEST)}"
                ),
            )
        )
    if alert is None:
        if event.alert:
            facts.append(Fact("alert", "resolved, and not kept any more", theme.QUIET))
        return facts
    since = "" if alert.fired_ns is None else f" since {time_text(alert.fired_ns, now_ns)}"
    status = alerts.status(alert).value
    if alert.resolved_ns is not None:
        since = f" at {time_text(alert.resolved_ns, now_ns)}"
    facts.append(Fact("alert", f"{status}{since}"))
    facts.append(Fact("summary", plain(summary(alert), LONGEST)))
    facts += [
        Fact(*handling, theme.LINK) for handling in handling_texts(alert, alerts.silences, now_ns)
    ]
    if alert.rule.runbook:
        facts.append(Fact("runbook", plain(alert.rule.runbook, LONGEST)))
    return facts


def _alerts_there(event: Event, snapshot: AlertSnapshot) -> list[Fact]:
    """Return the unacknowledged alerts at the place or job of a publisher's event."""
    alerts = (
        snapshot.touching(event.path)
        if event.path
        else snapshot.of_job(event.job)
        if event.job
        else []
    )
    return [
        Fact(
            "" if number else "alerts there",
            f"{alert_severity_text(held.severity)} {plain(summary(held.alert), 200)}"
            f" ({age_text(held.alert, snapshot.now_ns)})",
        )
        for number, held in enumerate(alerts[:_MOST_ALERTS])
    ]
