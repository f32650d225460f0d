"""Texts of alerts: signs, ages, addresses, amounts and status; pure functions without a widget.

Everything returned is fit for the screen: texts of rules, operators and the wire go through `plain` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import address_of, cause_address
from trnfleet.domain.alerts.matchers import Matcher
from trnfleet.domain.alerts.signals import FIGURES, LANES, LEVEL_OF
from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import condition_text, title
from trnfleet.domain.quantities import DurationStyle, count, counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import last_segments, shortened, without_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.preview import Preview
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.widgets.cells import Parts

_SHORT = {Severity.CRITICAL: "crit", Severity.WARNING: "warn", Severity.INFO: "info"}
_PLACES = ("chip", "instance", "ultraserver", "cluster", "job", "reservation", "publisher")
"""Labels that locate an alert, the deepest first."""
_MOST_NAMES = 3
_LONGEST_TITLE = 60
_LONGEST_NOTE = 1_000


def severity_text(severity: Severity, *, short: bool = False) -> str:
    """Return a severity as a sign and a word."""
    return f"{theme.SEVERITY_GLYPH[severity]} {_SHORT[severity] if short else severity.value}"


def age_s(alert: Alert, now_ns: int) -> float:
    """Return for how long an alert fires, or is pending."""
    return (now_ns - (alert.since_ns if alert.fired_ns is None else alert.fired_ns)) / NS_PER_S


def age_text(alert: Alert, now_ns: int) -> str:
    """Return for how long an alert fires, or is pending, in at most four cells."""
    return duration(age_s(alert, now_ns), DurationStyle.NARROW)


def handling_texts(alert: Alert, silences: Silences, now_ns: int) -> Iterator[tuple[str, str]]:
    """Yield who acknowledged an alert and what silences it, two silences at most, each with its name."""
    ack = silences.ack_of(alert, now_ns)
    if ack is not None:
        note = f": {plain(ack.note, _LONGEST_NOTE)}" if ack.note else ""
        yield (
            "owner",
            f"{plain(ack.owner)}, acknowledged until {time_text(ack.ends_ns, now_ns)}{note}",
        )
    for silence in silences.silences_of(alert, now_ns)[:2]:
        why = f": {plain(silence.why, _LONGEST_NOTE)}" if silence.why else ""
        yield (
            "silenced",
            f"by {plain(silence.whose)} until {time_text(silence.ends_ns, now_ns)}{why}",
        )


def time_text(instant_ns: int, now_ns: int) -> str:
    """Return an instant as a time of day, with its date where that is not today's."""
    day, time = format_rfc3339(instant_ns)[:19].split("T")
    return time if format_rfc3339(now_ns)[:10] == day else f"{day} {time}"


def where_text(alert: Alert, room: int = 200) -> str:
    """Return an alert's address or target, from a segment's beginning where there is little room."""
    place = address_of(alert)
    if alert.rule.scope not in LEVEL_OF:
        # A job's first place says less than its name.
        return plain(alert.target, max(1, room)) if alert.target else "fleet"
    text = plain(place)
    short = shortened(text, room)
    if short == text or not short.startswith("chip"):
        return short or "fleet"
    # A chip's number alone says nothing: as much of its instance's name as there is room for stands before it.
    return without_start(text, max(room, 2))


def event_address(event: Event, alerts: Alerts) -> str:
    """Return where an event leads to: to the cause of the alert that it tells of, while that is kept, else to its own address; empty for nowhere."""
    alert = alerts.find(event.alert) if event.alert else None
    return (
        cause_address(alert).partition(":")[0] if alert is not None and alert.cause else event.path
    )


def amount_text(alert: Alert) -> str:
    """Return an alert's extent, such as `64 chips`; empty for a single one of its rule's scope."""
    scope = alert.rule.scope
    if scope in LANES and alert.members > 1:
        return f"{count(alert.members)} {scope.value}s"
    if alert.chips > 1:
        return f"{count(alert.chips)} chips"
    return f"{count(alert.members)} {scope.value}s" if alert.members > 1 else ""


def status_text(held: AlertWithStatus, alerts: Alerts, now_ns: int) -> str:
    """Return who acknowledged or silenced an alert and for how long, or why it does not notify, or that it flaps; of a cell's, which one."""
    cell = plain(held.alert.cell, 64)
    if cell and held.alert.is_unobserved:
        return f"{cell} not observed"
    said = _status_text(held, alerts, now_ns)
    return f"{cell}: {said}" if cell and said else cell or said


def _status_text(held: AlertWithStatus, alerts: Alerts, now_ns: int) -> str:
    alert, silences = held.alert, alerts.silences
    if held.status is AlertStatus.ACKED:
        ack = silences.ack_of(alert, now_ns)
        return "" if ack is None else f"acked {plain(ack.owner, 20)}, {_left(ack.ends_ns, now_ns)}"
    if held.status is AlertStatus.SILENCED:
        hiding = silences.silences_of(alert, now_ns)
        if not hiding:
            return "silenced"
        last = max(hiding, key=lambda each: each.ends_ns)
        return f"silenced {plain(last.who, 20)}, {_left(last.ends_ns, now_ns)}"
    if held.status is AlertStatus.INHIBITED:
        other = alerts.find(alert.inhibited_by)
        return f"see {plain(other.name)}" if other is not None else "inhibited"
    if held.status is AlertStatus.PENDING:
        return f"pending {age_text(alert, now_ns)} of {duration(alert.rule.for_s, DurationStyle.NARROW)}"
    if alert.is_flapping:
        return f"flaps {alert.times}x"
    return "last known" if alert.is_silent else ""


def said_text(alert: Alert) -> str:
    """Return what is wrong in a few words, and its cause where that is known."""
    cause = f"; cause: {plain(alert.cause, _LONGEST_TITLE)}" if alert.cause else ""
    return plain(title(alert), _LONGEST_TITLE) + cause


def condition_words(rule: Rule) -> str:
    """Return a rule's conditions in words: `power_w above 400 W for 30 s`."""
    lasting = f" for {duration(rule.for_s)}" if rule.for_s else ""
    return " and ".join(condition_text(rule.scope, each) for each in rule.conditions) + lasting


def unit_of(rule: Rule) -> str:
    """Return the unit of a rule's figure; empty for none."""
    return "" if rule.figure is None else FIGURES[rule.scope][rule.figure].unit


def alerts_line(
    held: list[AlertWithStatus], now_ns: int, room: int, *, most: int = 8, with_place: bool = False
) -> Parts:
    """Return alerts beside each other, worst first, as far as there is room: sign, title and age of each, then how many more.

    Args:
        held: The alerts.
        now_ns: Monitor time.
        room: Cells.
        most: Limit of alerts that are named.
        with_place: Whether the place of each stands behind its title, where it has one.
    """
    ordered = sorted(held, key=lambda each: each.severity)
    parts: Parts = []
    used = 0
    for number, each in enumerate(ordered):
        said = plain(title(each.alert), _LONGEST_TITLE)
        text = f"{theme.SEVERITY_GLYPH[each.severity]} {said}"
        if with_place and address_of(each.alert) and each.alert.rule.scope in LEVEL_OF:
            text += f" at {plain(last_segments(address_of(each.alert)), _LONGEST_TITLE)}"
        age = f" ({age_text(each.alert, now_ns)})"
        left = len(ordered) - number
        more = f"+{count(left)} more"
        if number >= most or used + len(text + age) + 2 + (len(more) + 2 if left > 1 else 0) > room:
            if used + len(more) <= room:
                parts.append((more, theme.QUIET))
            break
        parts += [(text, theme.SEVERITY_STYLE[each.severity]), (f"{age}  ", theme.QUIET)]
        used += len(text + age) + 2
    return parts


def tally_text(held: list[AlertWithStatus]) -> str:
    """Return how many alerts there are of each severity, worst first, such as `✖ 2 ▲ 5`; empty for none."""
    counted = [sum(each.severity is severity for each in held) for severity in Severity]
    return " ".join(
        f"{theme.SEVERITY_GLYPH[severity]} {count(number)}"
        for severity, number in zip(Severity, counted, strict=True)
        if number
    )


def worst_of(held: list[AlertWithStatus]) -> Severity:
    """Return the worst severity of at least one alert."""
    return min(each.severity for each in held)


def where_label(labels: Mapping[str, str]) -> str:
    """Return the deepest label that locates an alert; empty for none."""
    return next((label for label in _PLACES if labels.get(label)), "")


def matchers_of(labels: Mapping[str, str]) -> str:
    """Return matchers for alerts like this one: its name and its deepest location."""
    where = where_label(labels)
    chosen = ["alertname", *([where] if where else [])]
    return " ".join(str(Matcher(label, "=", labels[label])) for label in chosen if label in labels)


def preview_text(preview: Preview) -> str:
    """Return the alerts that a silence matches, in a line."""
    critical = f" ({count(preview.critical)} critical)" if preview.critical else ""
    if not preview.firing and not preview.pending:
        return "matches no alert now"
    parts = [counted(preview.firing, "firing alert") + critical]
    if preview.pending:
        parts.append(f"{count(preview.pending)} pending")
    names = _names(f"{plain(each.name)} {where_text(each, 24)}" for each in preview.examples)
    return f"matches {', '.join(parts)}: {names}" + (
        ", …" if preview.firing + preview.pending > _MOST_NAMES else ""
    )


def silence_state(silence: Silence, now_ns: int) -> str:
    """Return the time until a silence ends or starts."""
    span = silence.span(now_ns)
    if span is Span.ACTIVE:
        return _left(silence.ends_ns, now_ns)
    if span is Span.TO_COME:
        return f"in {_between(now_ns, silence.starts_ns)}"
    return "expired"


def silence_text(silence: Silence) -> str:
    """Return a silence's matchers, or why it has none here."""
    if silence.not_applied:
        return f"not applied: {plain(silence.not_applied, 400)}"
    return " ".join(plain(str(matcher)) for matcher in silence.matchers)


def alarm_text(fresh: list[AlertWithStatus]) -> str:
    """Return new alerts in a line for a notification: worst first, no control characters."""
    ordered = sorted(fresh, key=lambda each: each.severity)
    noun = "new alert" if len(ordered) == 1 else "new alerts"
    names = _names(
        f"{each.severity.value} {each.alert.name} {where_text(each.alert, 40)}" for each in ordered
    )
    rest = f" and {count(len(ordered) - _MOST_NAMES)} more" if len(ordered) > _MOST_NAMES else ""
    return plain(f"{count(len(ordered))} {noun}: {names}{rest}")


def _names(texts: Iterable[str]) -> str:
    return ", ".join(text for text, _ in zip(texts, range(_MOST_NAMES), strict=False))


def _left(ends_ns: int, now_ns: int) -> str:
    return f"{_between(now_ns, ends_ns)} left"


def _between(start_ns: int, end_ns: int) -> str:
    return duration((end_ns - start_ns) / NS_PER_S, DurationStyle.NARROW)
