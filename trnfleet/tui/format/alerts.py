"""Texts of alerts: signs, ages, addresses, amounts and status.

Pure functions without a widget. Every result is safe for the screen: texts of rules, operators and
the wire pass through `plain` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import Alert, address_of, cause_address
from trnfleet.domain.alerts.signals import LANES, LEVEL_OF
from trnfleet.domain.alerts.silences import Silence, Span
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.alerts.templates import conditions_text, title
from trnfleet.domain.quantities import DurationStyle, count, counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import in_room, last_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trnfleet.domain.alerts.reach import Preview
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.silences import Silences
    from trnfleet.monitor.alerting.store import AlertTransition, AlertWithStatus
    from trnfleet.monitor.store.events import Event
    from trnfleet.tui.widgets.cells import Parts

_SHORT = {Severity.CRITICAL: "crit", Severity.WARNING: "warn", Severity.INFO: "info"}
_MOST_NAMES = 3
_LONGEST_TITLE = 60


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
    """Yield the acknowledgement and up to two silences of an alert, each with its name."""
    ack = silences.ack_of(alert, now_ns)
    if ack is not None:
        note = f": {plain(ack.note, LONGEST)}" if ack.note else ""
        yield (
            "owner",
            f"{plain(ack.owner)}, acknowledged until {time_text(ack.ends_ns, now_ns)}{note}",
        )
    for silence in silences.silences_of(alert, now_ns)[:2]:
        why = f": {plain(silence.why, LONGEST)}" if silence.why else ""
        yield (
            "silenced",
            f"by {plain(silence.whose)} until {time_text(silence.ends_ns, now_ns)}{why}",
        )


def time_text(instant_ns: int, now_ns: int) -> str:
    """Return an instant as a time of day, with its date if not today."""
    day, time = format_rfc3339(instant_ns)[:19].split("T")
    return time if format_rfc3339(now_ns)[:10] == day else f"{day} {time}"


def where_text(alert: Alert, room: int = 200) -> str:
    """Return an alert's address or target, cut at a segment's beginning."""
    place = address_of(alert)
    if alert.rule.scope not in LEVEL_OF:
        # A job's first place says less than its name.
        return plain(alert.names.job(alert.target), max(1, room)) if alert.target else "fleet"
    return in_room(plain(alert.names.address(place)), room) or "fleet"


def event_address(event: Event, alerts: Alerts) -> str:
    """Return the address linked to an event; empty without one.

    It is the cause of the event's alert while stored, else the event's own address.
    """
    alert = alerts.find(event.alert) if event.alert else None
    return (
        cause_address(alert).partition(":")[0] if alert is not None and alert.cause else event.path
    )


def amount_text(alert: Alert) -> str:
    """Return an alert's extent, such as `64 chips`.

    Empty for a single member of its rule's scope.
    """
    scope = alert.rule.scope
    if scope in LANES and alert.members > 1:
        return f"{count(alert.members)} {scope.value}s"
    if alert.chips > 1:
        return f"{count(alert.chips)} chips"
    return f"{count(alert.members)} {scope.value}s" if alert.members > 1 else ""


def status_text(held: AlertWithStatus, alerts: Alerts, now_ns: int) -> str:
    """Return who acknowledged or silenced an alert, and for how long.

    Otherwise why it does not notify, or that it flaps. For a cell's alert, also the cell.
    """
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
        last = max(hiding, key=lambda silence: silence.ends_ns)
        return f"silenced {plain(last.who, 20)}, {_left(last.ends_ns, now_ns)}"
    if held.status is AlertStatus.INHIBITED:
        other = alerts.find(alert.inhibited_by)
        return f"see {plain(other.name)}" if other is not None else "inhibited"
    if held.status is AlertStatus.PENDING:
        return (
            f"pending {age_text(alert, now_ns)} of"
            f" {duration(alert.rule.for_s, DurationStyle.NARROW)}"
        )
    if alert.is_flapping:
        return f"flaps {alert.times}x"
    return "last known" if alert.is_silent else ""


def said_text(alert: Alert) -> str:
    """Return the problem in a few words, and its cause if known."""
    cause = (
        f"; cause: {plain(alert.names.address(alert.cause), _LONGEST_TITLE)}" if alert.cause else ""
    )
    return plain(title(alert), _LONGEST_TITLE) + cause


def condition_words(rule: Rule) -> str:
    """Return a rule's conditions in words: `power > 400 W for 30 s`."""
    lasting = f" for {duration(rule.for_s)}" if rule.for_s else ""
    return conditions_text(rule) + lasting


def alerts_line(
    held: list[AlertWithStatus], now_ns: int, room: int, *, with_place: bool = False
) -> Parts:
    """Return alerts side by side, worst first: sign, title and age of each.

    The number of further alerts follows.

    Args:
        held: The alerts.
        now_ns: Monitor time.
        room: Cells.
        with_place: Whether the place of each stands behind its title, where it has one.
    """
    ordered = sorted(held, key=lambda alert: alert.severity)
    parts: Parts = []
    used = 0
    for number, alert in enumerate(ordered):
        said = plain(title(alert.alert), _LONGEST_TITLE)
        text = f"{theme.SEVERITY_GLYPH[alert.severity]} {said}"
        if with_place and address_of(alert.alert) and alert.alert.rule.scope in LEVEL_OF:
            place = alert.alert.names.address(address_of(alert.alert))
            text += f" at {plain(last_segments(place), _LONGEST_TITLE)}"
        age = f" ({age_text(alert.alert, now_ns)})"
        left = len(ordered) - number
        more = f"+{count(left)} more"
        if used + len(text + age) + 2 + (len(more) + 2 if left > 1 else 0) > room:
            if used + len(more) <= room:
                parts.append((more, theme.QUIET))
            break
        parts += [(text, theme.SEVERITY_STYLE[alert.severity]), (f"{age}  ", theme.QUIET)]
        used += len(text + age) + 2
    return parts


def tally_text(held: list[AlertWithStatus]) -> str:
    """Return the number of alerts per severity, worst first, such as `✖ 2 ▲ 5`.

    Empty without alerts.
    """
    return severities_text([alert.severity for alert in held])


def severities_text(severities: Sequence[Severity]) -> str:
    """Return the number of each severity, worst first, such as `✖ 2 ▲ 5`."""
    counted = [severities.count(severity) for severity in Severity]
    return " ".join(
        f"{theme.SEVERITY_GLYPH[severity]} {count(number)}"
        for severity, number in zip(Severity, counted, strict=True)
        if number
    )


def worst_of(held: list[AlertWithStatus]) -> Severity:
    """Return the worst severity of at least one alert."""
    return min(alert.severity for alert in held)


def preview_text(preview: Preview) -> str:
    """Return the effect of a silence as one line, its errors first."""
    if preview.doubts:
        return plain("; ".join(preview.doubts), LONGEST)
    critical = f" ({count(preview.critical)} critical)" if preview.critical else ""
    others = others_text(preview)
    if not preview.firing and not preview.pending:
        return f"matches no alert now{others.removesuffix(' now')}"
    parts = [counted(preview.firing, "firing alert") + critical]
    if preview.pending:
        parts.append(f"{count(preview.pending)} pending")
    parts[-1] += others
    names = _names(
        f"{plain(example.name)} {where_text(example, 24)}" for example in preview.examples
    )
    return f"matches {', '.join(parts)}: {names}" + (
        ", …" if preview.firing + preview.pending > _MOST_NAMES else ""
    )


def others_text(preview: Preview) -> str:
    """Return the chips without an alert that a silence would mute; empty if none.

    The text is the end of a clause.
    """
    if not preview.other_chips:
        return ""
    return f", also {counted(preview.other_chips, 'chip')} without an alert now"


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
    ordered = sorted(fresh, key=lambda held: held.severity)
    noun = "new alert" if len(ordered) == 1 else "new alerts"
    names = _names(
        f"{held.severity.value} {held.alert.name} {where_text(held.alert, 40)}" for held in ordered
    )
    rest = f" and {count(len(ordered) - _MOST_NAMES)} more" if len(ordered) > _MOST_NAMES else ""
    return plain(f"{count(len(ordered))} {noun}: {names}{rest}")


def _names(texts: Iterable[str]) -> str:
    return ", ".join(text for text, _ in zip(texts, range(_MOST_NAMES), strict=False))


def _left(ends_ns: int, now_ns: int) -> str:
    return f"{_between(now_ns, ends_ns)} left"


def _between(start_ns: int, end_ns: int) -> str:
    return duration((end_ns - start_ns) / NS_PER_S, DurationStyle.NARROW)


def entries(
    events: Iterable[Event],
    transitions: Sequence[AlertTransition],
    span_ns: tuple[int, float],
    is_wanted: Callable[[Event | Alert], bool],
) -> list[tuple[int, str, Severity]]:
    """Return events and transitions of alerts as time, words and severity, the newest first.

    Args:
        events: The newest first.
        transitions: The oldest first.
        span_ns: First and last time.
        is_wanted: Whether an event or alert is one of them.
    """
    first_ns, last_ns = span_ns
    made: list[tuple[int, str, Severity]] = []
    for event in events:
        if event.ts_ns < first_ns:
            break
        if event.ts_ns <= last_ns and is_wanted(event):
            made.append((event.ts_ns, plain(event.text or event.name), event.severity))
    for transition in reversed(transitions):
        if transition.at_ns < first_ns:
            break
        alert = transition.alert
        if transition.at_ns <= last_ns and is_wanted(alert):
            fires = transition.kind == "firing"
            severity = alert.rule.severity if fires else Severity.INFO
            glyph = theme.SEVERITY_GLYPH[severity] if fires else "✓"
            words = f"{glyph} {transition.kind} {plain(alert.rule.name)}"
            if alert.target != alert.job:
                words += f" {plain(last_segments(alert.target))}"
            made.append((transition.at_ns, words, severity))
    return sorted(made, key=lambda entry: -entry[0])
