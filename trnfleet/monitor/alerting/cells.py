"""Alerts of cells, received from relays.

They are evaluated and notified in their cell. Here they are shown and counted together with the
alerts evaluated here.

An alert that a cell's watch may publish too is left out here while an alert of a cell has its
fingerprint. It is also left out just after it began, because the cell's alert arrives a moment
later.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.alerts.alert import Alert
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.signals import FIGURES, Scope
from trnfleet.domain.alerts.silences import Ack, Silence
from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import KEPT
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


LEFT_TO_CELLS_NS = 10 * NS_PER_S
"""Time for which a new alert here is left to the cells' watches. They need a second to evaluate,
the relay another to forward, and more when they are behind."""
OWN_SCOPES = frozenset({Scope.PIPELINE, Scope.PUBLISHER})
"""Scopes where a cell's watch sees other things: the path to its own publishers."""


OLD_NEWS_NS = 60 * NS_PER_S
"""Age from which a transition is no news. A relay was away, or this monitor started later."""


class CellTransition(NamedTuple):
    """An alert of a cell at its start or end."""

    kind: str
    alert: Alert
    at_ns: int


class CellAlerts:
    """The alerts of all cells, by the path of their topic."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        """Start without alerts.

        Args:
            rules: Rules known here. Their alerts have runbook and description.
        """
        self.revision = 0
        """Increases with every change."""
        self._rules = {rule.name: rule for rule in rules}
        self._by_path: dict[str, Alert] = {}
        self._unobserved: frozenset[str] = frozenset()
        self._is_watched = False
        self.unwatched: tuple[str, ...] = ()
        """Visible cells without a leading watch. Nobody evaluates rules about their chips and
        instances."""
        self._firing: dict[str, Alert] | None = None
        self._by_cell: Mapping[str, int] | None = None
        self._news: list[CellTransition] = []

    def put(self, message: CellAlertMessage) -> None:
        """Add or replace an alert.

        Remove a resolved one.
        """
        if message.state != "firing":
            known = self._by_path.get(message.path)
            if known is not None and message.resolved is not None:
                at_ns = parse_rfc3339(message.resolved)
                over = dataclasses.replace(known, state=AlertState.RESOLVED, resolved_ns=at_ns)
                self._news.append(CellTransition("resolved", over, at_ns))
            self.remove(message.path)
            return
        rule = self._rules.get(message.rule)
        is_same = rule is not None and (rule.severity, rule.scope) == (
            message.severity,
            message.labels.get("scope", ""),
        )
        alert = alert_of(message, rule if is_same else None)
        alert.is_unobserved = message.cell in self._unobserved
        if message.path not in self._by_path:
            self._news.append(CellTransition("firing", alert, alert.fired_ns or 0))
        self._by_path[message.path] = alert
        self._changed()

    def remove(self, path: str) -> None:
        """Forget an alert after its message was cleared."""
        if self._by_path.pop(path, None) is not None:
            self._changed()

    def take_news(self, now_ns: int) -> list[CellTransition]:
        """Return the transitions since the last call.

        Transitions from long before their arrival are left out: a broker had retained them.
        """
        news = self._news
        self._news = []
        return [transition for transition in news if now_ns - transition.at_ns < OLD_NEWS_NS]

    def observe(self, cells: Mapping[str, bool], watched: Collection[str]) -> None:
        """Update the visible cells.

        Alerts of the other cells stay as last known.

        Args:
            cells: Whether a relay sees each described cell. Cells not listed are not visible.
            watched: Cells with a leading watch.
        """
        self._is_watched = bool(watched)
        self.unwatched = tuple(
            sorted(cell for cell, is_seen in cells.items() if is_seen and cell not in watched)
        )
        if not self._by_path:
            return
        unobserved = frozenset(cell for cell in self.by_cell if not cells.get(cell))
        if unobserved == self._unobserved:
            return
        self._unobserved = unobserved
        for path, alert in self._by_path.items():
            is_unobserved = path.partition("/")[0] in unobserved
            if alert.is_unobserved != is_unobserved:
                self._by_path[path] = dataclasses.replace(alert, is_unobserved=is_unobserved)
        self._changed()

    @property
    def by_cell(self) -> Mapping[str, int]:
        """Number of alerts per cell.

        Cells without alerts are left out.
        """
        if self._by_cell is None:
            self._by_cell = Counter(path.partition("/")[0] for path in self._by_path)
        return self._by_cell

    @property
    def firing(self) -> Mapping[str, Alert]:
        """The alerts by fingerprint, one for each.

        Several cells may have the same fingerprint, for example of a job that runs in both. An
        alert of a visible cell comes first, then one not acknowledged or silenced in its cell, then
        the worst, then the oldest.
        """
        if self._firing is None:
            by_fingerprint: dict[str, list[Alert]] = {}
            for _, alert in sorted(self._by_path.items()):
                by_fingerprint.setdefault(alert.fingerprint, []).append(alert)
            self._firing = {
                fingerprint: _joined(alerts) for fingerprint, alerts in by_fingerprint.items()
            }
        return self._firing

    def leaves_out(self, alert: Alert, now_ns: int) -> bool:
        """Return whether an alert evaluated here is left to the cells."""
        if alert.fingerprint in self.firing:
            return True
        if alert.fired_ns is None:
            return False
        is_new = 0 <= now_ns - alert.fired_ns < LEFT_TO_CELLS_NS
        return self._is_watched and is_new and alert.rule.scope not in OWN_SCOPES

    def _changed(self) -> None:
        self._firing = self._by_cell = None
        self.revision += 1
        # Where no rules are evaluated nobody takes them.
        del self._news[:-KEPT]


def _joined(alerts: list[Alert]) -> Alert:
    if len(alerts) == 1:
        return alerts[0]
    chosen = min(
        alerts,
        key=lambda alert: (
            alert.is_unobserved,
            _is_handled(alert),
            alert.severity.rank,
            alert.fired_ns or 0,
        ),
    )
    return dataclasses.replace(chosen, cell=", ".join(alert.cell for alert in alerts))


def _is_handled(alert: Alert) -> bool:
    """Return whether an alert is acknowledged, silenced or inhibited in its cell."""
    return alert.cell_ack is not None or alert.cell_silence is not None or bool(alert.inhibited_by)


def alert_of(message: AlertMessage, rule: Rule | None = None) -> Alert:
    """Convert a published alert.

    Args:
        message: The message of a watch.
        rule: Its rule if known here. Otherwise a stand-in has its name, severity, scope and figure.
    """
    is_firing = message.state == "firing"
    if rule is None:
        rule = unknown_rule(
            message.rule, message.severity, message.labels.get("scope", ""), message.figure
        ).model_copy(
            update={
                "description": _escaped(message.description),
                "runbook": message.runbook or None,
                "runbook_url": message.runbook_url or None,
            }
        )
    alert = Alert(
        rule,
        message.target,
        message.fingerprint,
        state=AlertState.FIRING if is_firing else AlertState.RESOLVED,
        since_ns=parse_rfc3339(message.since),
        fired_ns=parse_rfc3339(message.fired),
        members=message.members,
        chips=message.chips,
        place=message.place,
        rack=message.rack,
        worst=message.worst,
        value=message.value,
        inhibited_by=message.inhibited_by or "",
        cause=message.cause,
        job=message.labels.get("job", ""),
        subsystem=message.subsystem or message.rule,
        figure=message.figure,
        published_title=message.title or message.summary,
        published_summary=message.summary,
        times=message.times,
        is_flapping=message.flapping,
        labels=dict(message.labels),
    )
    if isinstance(message, CellAlertMessage):
        alert.cell = alert.labels["cell"] = message.cell
        if message.ack is not None:
            ack = message.ack
            alert.cell_ack = Ack(
                message.fingerprint,
                ack.who,
                ack.why,
                parse_rfc3339(ack.at),
                parse_rfc3339(ack.until),
            )
        if message.silence is not None:
            silence = message.silence
            span = parse_rfc3339(silence.at), parse_rfc3339(silence.until)
            alert.cell_silence = Silence(f"of-{message.cell}", (), *span, silence.who, silence.why)
    return alert


@functools.lru_cache(maxsize=1_024)
def unknown_rule(
    name: str, severity: Severity = Severity.INFO, scope: str = "", figure: str = ""
) -> Rule:
    """Return a stand-in for a rule known only to a watch.

    It is never evaluated.
    """
    known = Scope(scope) if scope in set(Scope) else Scope.PUBLISHER
    figures = FIGURES[known]
    for chosen in dict.fromkeys((figure, *figures)):
        for comparison in ({"above": 0.0}, {"equals": "unknown"}, {"bits": 1}):
            stand_in = {
                "name": name,
                "scope": known,
                "severity": severity,
                "figure": chosen,
                "summary": name,
                **comparison,
            }
            if chosen in figures:
                try:
                    return Rule.model_validate(stand_in)
                except ValidationError:
                    continue
    raise AssertionError(f"no figure of scope {known} stands alone")


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
