"""Details of the alert, group, silence or transition under the cursor.

Facts, and a chart if there is room.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import Alert, address_of
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import fill, summary, value_text
from trnfleet.domain.filters.language import touches
from trnfleet.domain.quantities import count, counted, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.gaps import Reason
from trnfleet.monitor.store.history import KEPT
from trnfleet.monitor.store.job_history import POWER, STEP_TIME
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.lists import HistoryEntry
from trnfleet.tui.alerts.query import matched_by_silences
from trnfleet.tui.alerts.rows import AlertGroup, AlertLine
from trnfleet.tui.charts.axes import ChartMark, Limit
from trnfleet.tui.charts.chart import LEAST_ROWS, LEAST_WIDTH, Chart, Series, draw, head
from trnfleet.tui.charts.history import MEAN_S, alert_limit, before_of, chart_inputs
from trnfleet.tui.format.alerts import (
    age_s,
    amount_text,
    condition_words,
    entries,
    handling_texts,
    severity_text,
    silence_state,
    silence_text,
    time_text,
    where_text,
)
from trnfleet.tui.keys import key_label
from trnfleet.tui.metric_display import ramp_of
from trnfleet.tui.state.chart_window import MOST_ALL_S
from trnfleet.tui.view import CHARTS_FROM
from trnfleet.tui.widgets.cells import FixedParts, Parts, TextColumn, beside, width_of
from trnfleet.tui.widgets.facts import Fact, fact_lines
from trnfleet.tui.widgets.line_view import Line, LineView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.domain.alerts.watches import ReceiverError
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.store.events import Event
    from trnfleet.monitor.store.rings.record import Track
    from trnfleet.tui.state.context import UiContext

    Subject = AlertLine | HistoryEntry | Silence | None


_KEPT = frozenset(field.key for field in KEPT)


class Past(NamedTuple):
    """Chart of an alert's figure, and the moment it fired."""

    title: str
    """What it is of."""
    place: str
    chart: Chart
    window: str
    """The span in words."""
    fired_s: float | None
    """Wall seconds since it fired; None while it is pending."""


def read_past(context: UiContext, alert: Alert) -> Past | None:
    """Return the history of an alert's figure at its worst member; None without history.

    A node without history is recorded from now on.
    """
    monitor = context.monitor
    rule = alert.rule
    layout = monitor.store.layout
    history = monitor.history
    fired_s = None
    if alert.fired_ns is not None:
        speed = monitor.moment().speed or 1.0
        fired_s = (monitor.alerts.instant.now_ns - alert.fired_ns) / NS_PER_S / speed
    # As much before the moment as after it, if history goes back so far.
    around_s = 0 if fired_s is None else math.ceil(2 * fired_s)
    least_s = around_s if around_s <= min(MOST_ALL_S, 2 * history.end) else 0
    inputs = chart_inputs(monitor, context.window, shows_past=context.shows_past, least_s=least_s)
    span_s = inputs.times.span_s
    # A limit on a derived figure, such as the distance from a median, is not a height in this
    # chart.
    limit = rule.limit if rule.is_plain else None
    base = 0.0
    before = Reason.BEFORE_START
    if rule.figure in {POWER, STEP_TIME} and alert.target in history.job_names():
        place = alert.target
        title = "step time" if rule.figure.endswith("_s") else "power"
        low = 0.0
        unit = "s" if rule.figure.endswith("_s") else "W"
        track = history.job_track(alert.target, rule.figure, span_s)
        base = monitor.alerts.usual(rule.figure, alert.target) or 0.0
        if base and rule.limit is not None and not rule.is_plain:
            limit = rule.limit * base
    elif rule.figure in _KEPT and rule.scope in LEVEL_OF:
        field = BY_KEY[rule.figure]
        place = (alert.worst or address_of(alert)).partition(":")[0]
        node = layout.find(place)
        if node is None:
            return None
        if node.level is Level.CHIP or not history.seconds(node.level):
            history.watch(layout.path(node))
        place = layout.path(node)
        title = field.title
        unit = field.unit
        low = field.low
        track = history.track(layout, node, field.key, span_s)
        before = before_of(monitor, node.level)
    else:
        return None
    limits = [] if limit is None else [alert_limit(rule, limit)]
    if base and limit is not None:
        limits.append(Limit(base, "usual", theme.CHART_CAP))
    marks = [] if fired_s is None or fired_s > span_s else [ChartMark(fired_s, rule.severity)]
    ceiling = 100.0 if unit == "%" else np.inf
    chart = Chart(
        [
            Series(
                track.smoothed(inputs.mean_s), theme.CHART, area=theme.AREAS[ramp_of(rule.figure)]
            )
        ],
        unit,
        inputs.times,
        low,
        ceiling,
        limits,
        marks,
        inputs.gaps,
        before=before,
    )
    return Past(title, place, chart, inputs.line_note, fired_s)


def chart(past: Past, width: int, height: int) -> list[FixedParts]:
    """Return a title and the chart, `height` lines of `width` cells; nothing without room."""
    if not has_room(height) or width < LEAST_WIDTH:
        return []
    track = past.chart.series[0].track.last(past.chart.times.span_s)
    known = track.mean[~np.isnan(track.mean)]
    if not len(known):
        return [((f"{past.title} of {past.place}: nothing is kept yet", theme.QUIET),)]
    now = with_unit(float(known[-1]), past.chart.unit)
    title: Parts = [(f"{past.place.rpartition('/')[2] or 'fleet'}  {past.title} {now}", theme.BASE)]
    note = f"{moment(past)}, {past.window}"
    if width_of(title) + len(note) + 4 > width:
        note = moment(past)
    return [head(title, note, width), *draw(past.chart, width, height - 1)]


def has_room(rows: int) -> bool:
    """Return whether a chart fits between its title and its time axis."""
    return rows - 2 >= LEAST_ROWS


def moment(past: Past) -> str:
    """Return when it fired, and where a chart begins later."""
    if past.fired_s is None:
        return "pending"
    words = f"fired {duration(past.fired_s)} ago"
    return words if past.fired_s <= past.chart.times.span_s else f"{words}, before this chart"


_CHART_SHARE = 0.4
_CHART_ROWS = 9
_MOST_MEMBERS = 12


def alert_facts(
    item: AlertWithStatus, alerts: Alerts, link: str = "", errors: Sequence[ReceiverError] = ()
) -> list[Fact]:
    """Return an alert's facts, the most important first; its summary names its cause.

    Args:
        item: The alert.
        alerts: All alerts.
        link: Address it links to. Empty without a link.
        errors: Refusals by receivers.
    """
    alert = item.alert
    rule = item.alert.rule
    now_ns = alerts.instant.now_ns
    sign = severity_text(item.severity)
    facts = [Fact(sign, plain(summary(alert), LONGEST), theme.STRONG)]
    value = value_text(rule, alert.value, plain(alert.text))
    of_rule = (
        "by the watch of its cell"
        if alert.cell
        else f"rule: {plain(condition_words(rule), LONGEST)}"
    )
    facts.append(Fact("value", f"{value};  {of_rule}"))
    if alert.cell:
        seen = (
            "not observed: as last known"
            if alert.is_unobserved
            else "acknowledge or silence it there"
        )
        facts.append(Fact("cell", f"{plain(alert.cell, LONGEST)}; {seen}"))
    facts += _handling(item, alerts, now_ns)
    facts += _error_facts(errors, alert.fingerprint, ("alert", "acknowledgement"))
    facts += _runbook(rule)
    facts += _times(alert, now_ns)
    facts.append(_where(alert))
    members = alerts.members(alert, _MOST_MEMBERS)
    if len(members) > 1:
        facts.append(Fact("members", _members_text(alert, members)))
    if rule.description:
        facts.append(Fact("description", plain(fill(rule.description, alert), LONGEST)))
    labels = " ".join(
        f'{name}="{plain(value, 400)}"' for name, value in sorted(alert.labels.items())
    )
    facts.append(Fact("id", alert.fingerprint, theme.QUIET))
    if link:
        facts.append(Fact("link", plain(link, LONGEST), theme.QUIET))
    return [*facts, Fact("labels", labels, theme.QUIET)]


def group_facts(group: AlertGroup, now_ns: int) -> list[Fact]:
    """Return the common facts of collapsed alerts."""
    rule = group.members[0].alert.rule
    begun = sorted(member.alert.fired_ns or member.alert.since_ns for member in group.members)
    word = group.status.value if group.status is not AlertStatus.FIRING else "firing"
    amount = f"{count(len(group.members))} alerts {word}"
    chips = f", {count(group.chips)} chips" if group.chips else ""
    facts = [
        Fact(severity_text(group.severity), f"{plain(group.name)}: {amount}{chips}", theme.STRONG)
    ]
    facts.append(Fact("where", _spread(group)))
    newest, oldest = ((now_ns - instant_ns) / NS_PER_S for instant_ns in (begun[-1], begun[0]))
    facts.append(Fact("since", f"the newest {duration(newest)}, the oldest {duration(oldest)}"))
    if not group.members[0].alert.cell:
        facts.append(Fact("rule", plain(condition_words(rule), LONGEST)))
    facts += _runbook(rule)
    words = (
        f"Enter or {key_label('open-group')} opens it; {key_label('silence')} silences all of them;"
        f" {key_label('acknowledge')} acknowledges them"
    )
    facts.append(Fact("keys", words))
    if rule.description:
        facts.append(Fact("description", plain(rule.description, LONGEST)))
    return facts


def silence_facts(
    silence: Silence, matched: Iterable[Alert], now_ns: int, errors: Sequence[ReceiverError] = ()
) -> list[Fact]:
    """Return the facts of a silence, its matches, and why a receiver refuses it."""
    names = [f"{plain(alert.name)} {where_text(alert)}" for alert in matched]
    words = ", ".join(names[:_MOST_MEMBERS]) + (" …" if len(names) > _MOST_MEMBERS else "")
    return [
        Fact("silence", silence_text(silence), theme.STRONG),
        Fact("comment", plain(silence.why, LONGEST) or "none"),
        Fact("owner", plain(silence.whose)),
        Fact(
            "period",
            f"{_minute(silence.starts_ns)} to {_minute(silence.ends_ns)} UTC,"
            f" {silence_state(silence, now_ns)}",
        ),
        *_error_facts(errors, silence.id, ("silence",)),
        Fact("matches", counted(len(names), "active alert") + (f": {words}" if words else "")),
        Fact("keys", f"{key_label('take-back')} expires it", theme.QUIET),
        Fact("id", plain(silence.id), theme.QUIET),
    ]


def history_facts(entry: HistoryEntry, alerts: Alerts) -> list[Fact]:
    """Return a transition of an alert, and its status now."""
    happened = entry.transition
    alert = entry.transition.alert
    now_ns = alerts.instant.now_ns
    ago = duration((now_ns - happened.at_ns) / NS_PER_S)
    word = {"firing": "fired", "resolved": "resolved", "flapping": "flapping"}.get(
        happened.kind, happened.kind
    )
    facts = [
        Fact(severity_text(alert.severity), plain(happened.summary, LONGEST), theme.STRONG),
        Fact("then", f"{word} at {_second(happened.at_ns)} UTC, {ago} ago"),
        Fact("now", alerts.status(alert).value),
    ]
    if alert.resolved_ns is not None and alert.fired_ns is not None:
        lasted = duration((alert.resolved_ns - alert.fired_ns) / NS_PER_S)
        facts.append(
            Fact(
                "duration",
                f"{lasted}, from {time_text(alert.fired_ns, now_ns)} to"
                f" {time_text(alert.resolved_ns, now_ns)}",
            )
        )
    facts.append(_where(alert))
    if alert.cause:
        facts.append(Fact("cause", plain(alert.names.address(alert.cause), LONGEST)))
    return facts + _runbook(alert.rule)


def _where(alert: Alert) -> Fact:
    """Return the place of an alert.

    A job's alert has the place of its cause and the chips of the job.
    """
    job = f"job {alert.names.job(alert.job)}" if alert.job else ""
    place = plain(alert.names.address(address_of(alert)))
    if alert.rule.scope is Scope.JOB:
        words = [place, job, amount_text(alert)]
    else:
        words = [place or where_text(alert), amount_text(alert), job]
    return Fact("where", "  ".join(word for word in words if word))


def _error_facts(
    errors: Sequence[ReceiverError], subject: str, kinds: Collection[str]
) -> list[Fact]:
    """Return why receivers refuse something of one alert or silence."""
    return [
        Fact(
            "refused",
            f"{error.kind} by {plain(error.receiver)}: {plain(error.reason, LONGEST)}",
            theme.SEVERITY_STYLE[Severity.WARNING],
        )
        for error in errors
        if error.id == subject and error.kind in kinds
    ]


def _runbook(rule: Rule) -> list[Fact]:
    """Return a rule's runbook, and its address."""
    facts = [Fact("runbook", plain(rule.runbook, LONGEST))] if rule.runbook else []
    if rule.runbook_url:
        facts.append(Fact("runbook url", plain(rule.runbook_url, LONGEST)))
    return facts


def about_lines(facts: list[Fact], past: Past | None, width: int, height: int) -> list[Line]:
    """Return facts and chart, side by side or below each other.

    They fill `width` cells and at most `height` lines.
    """
    if past is not None and width >= CHARTS_FROM and has_room(height):
        right = round(width * _CHART_SHARE)
        left = width - right - 2
        columns = [
            TextColumn(fact_lines(facts, left, height), left),
            TextColumn((), 1),
            TextColumn(chart(past, right, height), right),
            TextColumn((), 1),
        ]
        return beside(columns, width)
    lines = fact_lines(facts, width, height)
    if past is not None and height >= _CHART_ROWS + 7:
        above = fact_lines(facts, width, height - _CHART_ROWS - 1)
        free = height - len(above) - 2
        indent: FixedParts = ((" ", theme.BASE),)
        drawn = [(*indent, *row) for row in chart(past, width - 2, free)]
        lines = [*above, (), *drawn]
    return beside([TextColumn(lines, width)], width)[:height]


_BEFORE_S = 600
"""Time before an alert in which changes are looked for."""
_CHANGE = 0.05
"""Least share of the larger value that is called a change; assumed."""
_MOST_CHANGES = 6


def changes(context: UiContext, alert: Alert) -> list[Fact]:
    """Return what changed before an alert: figures, events and alerts of its place and job."""
    history = context.monitor.history
    layout = context.monitor.store.layout
    path = (alert.worst or address_of(alert)).partition(":")[0]
    node = layout.find(path)
    if node is not None and node.level is Level.CHIP and not history.seconds(node.level):
        path = path.rpartition("/")[0]
        node = layout.find(path)
    tracks: list[tuple[str, str, Callable[[int, int], Track]]] = []
    if alert.job in history.job_names():
        tracks = [
            (f"{name} of the job", unit, partial(history.job_track, alert.job, key))
            for name, key, unit in (("step time", STEP_TIME, "s"), ("power", POWER, "W"))
        ]
    if node is not None:
        tracks += [
            (field.title, field.unit, partial(history.track, layout, node, field.key))
            for field in KEPT
        ]
    where = plain(alert.names.address(path)).rpartition("/")[2] or "fleet"
    return [
        Fact("changed", f"{where}, {_changed_figures(context, alert, tracks)}"),
        Fact("before it", _entries_before(context, alert, path)),
    ]


def _changed_figures(
    context: UiContext, alert: Alert, tracks: list[tuple[str, str, Callable[[int, int], Track]]]
) -> str:
    """Return the figures that changed most.

    They are means of the ten minutes before it was pending, and of up to ten seconds after it
    fired.

    Args:
        context: The monitor's.
        alert: The alert.
        tracks: Name, unit and a reader of each figure by span and samples to go back.
    """
    monitor = context.monitor
    now_ns = monitor.alerts.instant.now_ns
    speed = monitor.moment().speed or 1.0
    since, fired = (
        round((now_ns - (at_ns or now_ns)) / NS_PER_S / speed)
        for at_ns in (alert.since_ns, alert.fired_ns)
    )
    span_s = max(MEAN_S, round(_BEFORE_S / speed))
    after_s = min(MEAN_S, max(0, fired))
    known_s = 0
    differing: list[tuple[float, str]] = []
    unknown: dict[str, list[str]] = {"before": [], "when it fired": []}
    for name, unit, read in tracks:
        past = read(span_s, max(0, since) + 1).last(span_s)
        was = past.mean[~np.isnan(past.mean)]
        then = read(MEAN_S, max(0, fired) - after_s).last(after_s).mean
        then = then[~np.isnan(then)]
        known_s = max(known_s, len(was) * past.step_s)
        if len(was) and len(then):
            values = (float(was.mean()), float(then.mean()))
            share = abs(values[1] - values[0]) / (max(map(abs, values)) or 1.0)
            if share >= _CHANGE:
                text = " to ".join(with_unit(value, unit) for value in values)
                differing.append((share, f"{name} {text}"))
        elif len(was) or len(then):
            unknown["when it fired" if len(was) else "before"].append(name)
    if known_s < MEAN_S:
        return "figures of the time before it are not kept"
    words = [text for _, text in sorted(differing, reverse=True)[:_MOST_CHANGES]]
    parts = [", ".join(words)] if words else []
    parts += [f"not known {when}: {', '.join(names)}" for when, names in unknown.items() if names]
    within = duration(min(known_s, span_s) * speed)
    nothing = f"no figure by {100 * _CHANGE:.0f} %"
    return f"{within} before and when it fired: {'; '.join(parts) or nothing}"


def _entries_before(context: UiContext, alert: Alert, path: str) -> str:
    """Return the events and alerts of a place or of the alert's job in the ten minutes before."""
    monitor = context.monitor
    now_ns = monitor.alerts.instant.now_ns
    first_ns = alert.since_ns - _BEFORE_S * NS_PER_S
    last_ns = now_ns if alert.fired_ns is None else alert.fired_ns

    def is_near(item: Event | Alert) -> bool:
        place = address_of(item) if isinstance(item, Alert) else item.path
        is_of_job = bool(alert.job) and item.job == alert.job
        return item is not alert and (touches(place, path) or is_of_job)

    told = [
        f"{time_text(at_ns, now_ns)} {words}"
        for at_ns, words, _ in entries(
            monitor.events.newest_first(), monitor.alerts.history, (first_ns, last_ns), is_near
        )
    ]
    earlier = len(told) - _MOST_CHANGES
    more = [f"{count(earlier)} earlier"] if earlier > 0 else []
    return (
        "; ".join([*more, *reversed(told[:_MOST_CHANGES])])
        or "no event and no alert known in 10 min"
    )


class AlertDetails(LineView, can_focus=False):
    """The chosen one at length."""

    DEFAULT_CSS = "AlertDetails { height: 6; overflow: hidden; }"

    def __init__(self, context: UiContext, subject: Callable[[], Subject]) -> None:
        super().__init__()
        self._ui = context
        self._monitor = context.monitor
        self._snapshot = context.alerts
        self._subject = subject

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return its facts, read again when there is news."""
        facts, alert = self._read(self._subject(), self._snapshot.receiver_errors.first)
        past = None if alert is None else read_past(self._ui, alert)
        return about_lines(facts, past, width, height) if facts else []

    def _read(
        self, subject: Subject, errors: Sequence[ReceiverError]
    ) -> tuple[list[Fact], Alert | None]:
        alerts = self._snapshot.alerts
        if subject is None:
            return [], None
        if isinstance(subject, HistoryEntry):
            alert = subject.transition.alert
            return [*history_facts(subject, alerts), *changes(self._ui, alert)], alert
        if isinstance(subject, AlertLine):
            if subject.group is not None:
                return group_facts(subject.group, self._snapshot.now_ns), None
            if subject.single is None:
                return [], None
            alert = subject.single.alert
            message = self._monitor.ingest.alert_messages.get(alert.fingerprint)
            link = message.generator_url if message else ""
            facts = alert_facts(subject.single, alerts, link, errors)
            return [*facts[:-1], *changes(self._ui, alert), facts[-1]], alert
        matched = matched_by_silences(self._snapshot).get(subject.id, [])
        return silence_facts(subject, matched, self._snapshot.now_ns, errors), None


def _handling(item: AlertWithStatus, alerts: Alerts, now_ns: int) -> list[Fact]:
    """Return an alert's acknowledgement, silences and inhibitions."""
    alert = item.alert
    facts = [
        Fact(*handling, theme.LINK) for handling in handling_texts(alert, alerts.silences, now_ns)
    ]
    if alert.inhibited_by:
        other = alerts.find(alert.inhibited_by)
        words = "another alert" if other is None else f"{plain(other.name)} at {where_text(other)}"
        facts.append(Fact("inhibited", f"because of {words}", theme.LINK))
    return facts


def _times(alert: Alert, now_ns: int) -> list[Fact]:
    since = f"pending since {time_text(alert.since_ns, now_ns)}"
    if alert.fired_ns is None:
        left = alert.rule.for_s - age_s(alert, now_ns)
        return [Fact("since", f"{since}, fires in {duration(max(0.0, left))} unless it ends")]
    fired = time_text(alert.fired_ns, now_ns)
    words = [f"{since}, firing since {fired}, duration {duration(age_s(alert, now_ns))}"]
    if alert.times > 1:
        words.append(f"{alert.times} times within 30 min")
    if alert.is_flapping:
        words.append("flapping")
    if alert.is_silent:
        words.append("as last known: nothing comes from it")
    return [Fact("since", "; ".join(words))]


def _members_text(alert: Alert, members: list[tuple[str, float, bool]]) -> str:
    place = plain(alert.names.address(address_of(alert)))
    words: list[str] = []
    for member, value, fires in members:
        name = plain(alert.names.address(member))
        short = name.removeprefix(f"{place}/") if place else name
        text = "" if math.isnan(value) else f" {value_text(alert.rule, value)}"
        words.append(f"{short}{text}" + ("" if fires else " (pending)"))
    more = alert.members - len(members)
    return ", ".join(words) + (f" and {count(more)} more" if more > 0 else "")


def _spread(group: AlertGroup) -> str:
    """Return the place of all alerts, and the place below it with most of them."""
    place = plain(group.newest.alert.names.address(group.place))
    depth = len(place.split("/")) if place else 0
    counted: dict[str, int] = {}
    for member in group.members:
        below = "/".join(where_text(member.alert).split("/")[: depth + 1])
        counted[below] = counted.get(below, 0) + 1
    most = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    words = ", ".join(
        f"{name.removeprefix(place + '/')} {count(number)}" for name, number in most[:_MOST_MEMBERS]
    )
    return f"{place or 'fleet'}: {words}" + (
        f" and {count(len(most) - _MOST_MEMBERS)} more places" if len(most) > _MOST_MEMBERS else ""
    )


def _second(instant_ns: int) -> str:
    return format_rfc3339(instant_ns)[:19].replace("T", " ")


def _minute(instant_ns: int) -> str:
    return _second(instant_ns)[:16]
