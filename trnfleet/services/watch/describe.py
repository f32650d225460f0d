"""The message of an alert that fires."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.links import generator_url, runbook_url
from trnfleet.domain.alerts.templates import fill, summary, title, value_text
from trnfleet.domain.quantities import duration
from trnfleet.wire.alerts import AlertMessage

if TYPE_CHECKING:
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.wire.ports import LinkStatus

LONGEST_LINE = 1_000


def describe(
    alert: Alert, client: str, *, external_url: str = "", runbook_base: str = ""
) -> AlertMessage:
    """Return the message of a firing alert.

    Args:
        alert: The alert.
        client: Client id of the watch.
        external_url: Base of the link to the alert; empty for none.
        runbook_base: Page of rules that has an anchor for each; empty for none.
    """
    rule = alert.rule
    value = alert.value
    fired_ns = alert.fired_ns or 0
    return AlertMessage(
        fingerprint=alert.fingerprint,
        rule=alert.name,
        severity=rule.severity,
        state="firing",
        target=alert.target,
        place=alert.place,
        rack=alert.rack,
        worst=alert.worst,
        subsystem=alert.subsystem,
        figure=alert.figure,
        labels=dict(alert.labels),
        summary=summary(alert)[:LONGEST_LINE],
        title=title(alert)[:LONGEST_LINE],
        description=fill(rule.description, alert)[:LONGEST_LINE] if rule.description else "",
        runbook=rule.runbook or "",
        runbook_url=rule.runbook_url or runbook_url(runbook_base, rule.name),
        generator_url=generator_url(external_url, alert.labels),
        cause=alert.cause[:LONGEST_LINE],
        value=None if value is None or not math.isfinite(value) else value,
        value_text=value_text(rule, value, alert.text)[:LONGEST_LINE],
        members=alert.members,
        chips=alert.chips,
        since=format_rfc3339(min(alert.since_ns, fired_ns)),
        fired=format_rfc3339(fired_ns),
        inhibited_by=alert.inhibited_by or None,
        flapping=alert.is_flapping,
        times=alert.times,
        watch=client,
    )


def away_text(link: LinkStatus, paused_s: float) -> str:
    """Return why a watch publishes nothing at present.

    Args:
        link: Its connection.
        paused_s: Time for which it did not run; 0 if it was not paused.
    """
    if link.connected and paused_s:
        return f"did not run for {duration(paused_s)}: listens for other watches first"
    because = f": {link.last_error}" if link.last_error else ""
    return f"no connection to {link.broker}{because}; only that is notified until it is back"
