"""The Events view: events of publishers, alerts and operators, and their pipeline.

Its tabs are lists with a filter each: events (newest first), publishers, brokers. The item under
the cursor is shown in full below or beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.containers import Container

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.quantities import count, counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import PublisherTable, State
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.charts.place import LEAST_ROWS, MOST_ROWS, ChartedPlace, PlaceCharts
from trnfleet.tui.events.list import EVENT_COLUMNS, NO_MATCH, EventList, head, severity_text
from trnfleet.tui.events.pipeline import (
    BROKER_COLUMNS,
    NO_BROKER,
    NO_PUBLISHER,
    PUBLISHER_COLUMNS,
    SORTS,
    BrokerList,
    BrokerRow,
    PipelineFacts,
    PublisherList,
    broker_facts,
    broker_head,
    publisher_facts,
    publisher_head,
)
from trnfleet.tui.events.rates import EventRates, EventSpace
from trnfleet.tui.format.alerts import age_text, condition_words, handling_texts, time_text
from trnfleet.tui.format.alerts import severity_text as alert_severity_text
from trnfleet.tui.keys import bind, key_label
from trnfleet.tui.snapshots.table import ExportTable, table_of
from trnfleet.tui.state.subjects import Subject, of_alerts, of_job
from trnfleet.tui.view import (
    CHARTS_FROM,
    Lists,
    TabbedView,
    View,
    filter_keys,
    in_steps,
    tab_keys,
)
from trnfleet.tui.widgets.bar import Bar, justified, tab_parts
from trnfleet.tui.widgets.cells import Parts, TextColumn, beside, fit, width_of, wrapped
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.facts import Fact, fact_lines
from trnfleet.tui.widgets.line_view import Line, LineView, text_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.filters.columns import Columns
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.store.events import Event
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

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return its facts."""
        event = self._events.picked
        if event is None:
            return []
        facts = event_facts(event, self._events.address_of(event), self._snapshot)
        return beside([TextColumn(fact_lines(facts, width, height), width)], width)


def event_facts(event: Event, opens: str, snapshot: AlertSnapshot) -> list[Fact]:
    """Return everything of an event, the most important first.

    Args:
        event: The event.
        opens: The address to which Enter leads; empty for none.
        snapshot: Alerts, with their acknowledgements and silences.
    """
    alerts = snapshot.alerts
    now_ns = snapshot.now_ns
    event = event.shown(alerts.names)
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
        f"Enter goes to {plain(alerts.names.address(opens))}"
        if opens
        else "Enter leads nowhere: it is about the fleet"
    )
    return [*facts, Fact("keys", f"{keys}; {key_label('moment')} goes to its moment", theme.QUIET)]


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


EVENT_TITLES = (
    "time",
    "severity",
    "source",
    "name",
    "place",
    "subject",
    "job",
    "nrt",
    "rule",
    "text",
)
PUBLISHER_TITLES = (
    "client",
    "state",
    "chips",
    "paths",
    "rate [messages/s]",
    "rate [bytes/s]",
    "lost",
    "late",
    "duplicates",
    "refused",
    "lag max [s]",
    "skew [s]",
    "for [s]",
    "restarts",
    "boot",
)


def event_table(events: Iterable[Event]) -> ExportTable:
    """Return events as a table."""
    return ExportTable(
        EVENT_TITLES,
        [
            (
                format_rfc3339(event.ts_ns),
                event.severity.value,
                event.source,
                event.name,
                event.path,
                event.subject,
                event.job,
                event.nrt,
                event.rule,
                event.text,
            )
            for event in events
        ],
    )


def publisher_table(table: PublisherTable, rows: Iterable[int]) -> ExportTable:
    """Return some publishers as a table."""
    return ExportTable(
        PUBLISHER_TITLES,
        [
            (
                table.names[row],
                State(table.state[row]).word,
                int(table.chips[row]),
                int(table.paths[row]),
                float(table.messages_per_s[row]),
                float(table.bytes_per_s[row]),
                int(table.lost[row]),
                int(table.late[row]),
                int(table.duplicates[row]),
                int(table.refused[row]),
                float(table.lag_max_s[row]),
                float(table.skew_s[row]),
                float(table.for_s[row]),
                int(table.restarts[row]),
                table.boots[row],
            )
            for row in rows
        ],
    )


BESIDE_FROM = 180
"""Least width for the event under the cursor beside the list."""
EVENT_TAB, PUBLISHER_TAB, BROKER_TAB = TABS = ("events", "publishers", "brokers")


class Filtered(NamedTuple):
    """The filter of a tab: columns and words."""

    columns: Columns
    noun: str
    none: str
    """Text without a match."""


_FILTERED = {
    EVENT_TAB: Filtered(EVENT_COLUMNS, "event", NO_MATCH),
    PUBLISHER_TAB: Filtered(PUBLISHER_COLUMNS, "publisher", NO_PUBLISHER),
    BROKER_TAB: Filtered(BROKER_COLUMNS, "broker", NO_BROKER),
}
HEADS = 2
LEAST_LISTED = 2
"""Rows of tabs and list head, and of an empty list with its reason."""


class EventsView(TabbedView["EventList | PublisherList | BrokerList"]):
    """The tabs' lists with their heads, details, and the filter prompt."""

    DEFAULT_CSS = """
    EventsView { layout: vertical; }
    EventsView > #event-body { height: 1fr; layout: horizontal; }
    EventsView > #event-body > #event-side { width: 1fr; layout: vertical; }
    """
    BINDINGS: ClassVar = [
        *tab_keys(", ".join(TABS)),
        bind("sort", "sort", f"sort publishers: {', '.join(SORTS)}"),
        bind("moment", "moment", "pause where it has just happened"),
        *filter_keys(
            "filter: part of anything, sev>=warning & job=name, at=uc1/us-0001, age<10m, !text;"
            " publishers: state=silent, lost>0, lag>1s; brokers: state=away, shed>0"
        ),
    ]

    def __init__(self, context: UiContext) -> None:
        self.list = EventList(context.monitor, shows_past=lambda: context.shows_past)
        self.publishers = PublisherList(context.monitor)
        self.sorted_list = self.publishers
        self.brokers = BrokerList(context.monitor)
        lists = (self.list, self.publishers, self.brokers)
        super().__init__(context, dict(zip(TABS, lists, strict=True)))
        self.facts = PipelineFacts(self.monitor, self._facts)
        self._tabs = Bar()
        self._head = Bar(fill=lambda: theme.HEAD)
        self.foot = EventFoot(self.monitor, self.list)
        self.details = EventDetails(context, self.list)
        self.rates = EventRates(context, self.list)
        self.charts = PlaceCharts(context, self._charted)

    def compose(self) -> ComposeResult:
        yield self._tabs
        with Container(id="event-body"):
            with Container(id="event-side"):
                yield self._head
                yield self.list
                yield self.publishers
                yield self.brokers
            yield self.details
        yield self.rates
        yield self.facts
        yield self.charts
        yield self.foot
        yield self.prompt

    def on_resize(self) -> None:
        """Show the event under the cursor beside the list, or below without room."""
        self._share_space()

    def _share_space(self) -> None:
        width, height = self.size
        is_events = self.tab == EVENT_TAB
        facts = self._facts_rows()
        is_beside = width >= BESIDE_FROM and is_events
        self.details.display = is_beside
        self.foot.display = is_events
        self.facts.display = not is_events
        self.details.styles.width = width * 38 // 100
        self.foot.styles.height = foot = 1 if is_beside else 3
        rows = height - HEADS - foot - 2 * self.has_class("asking")
        space = (
            EventSpace.share(width, rows, self.list.count, is_beside=is_beside)
            if is_events
            else EventSpace()
        )
        self.rates.lend(space.rates)
        # The details below the list get all rows that it does not need; charts get the rest.
        needed = HEADS + 2 * self.has_class("asking") + max(LEAST_LISTED, self.current.count)
        rows = max(min(24, max(4, height * 2 // 5)), height - needed)
        has_charts = (
            self.tab == PUBLISHER_TAB and width >= CHARTS_FROM and rows - facts >= LEAST_ROWS
        )
        charts = min(MOST_ROWS, rows - facts) if has_charts else 0
        rows -= charts
        self.charts.lend(space.charts or charts)
        self.facts.styles.height = rows

    def _facts_rows(self) -> int:
        """Return the rows for a publisher's details, in steps.

        With steps the charts below do not move with each problem.
        """
        if self.tab != PUBLISHER_TAB:
            return 0
        return in_steps(len(self._facts(self.monitor.pipeline())) + 2)

    def show_tab(self) -> None:
        super().show_tab()
        # A column of the list is its scroll bar's.
        makers = {EVENT_TAB: head, PUBLISHER_TAB: publisher_head, BROKER_TAB: broker_head}
        made = makers[self.tab]
        self._head.show(lambda width: [made(max(1, width - 1))])
        self._share_space()

    def action_tab(self, step: int) -> None:
        """Go to the next or previous tab, without a filter."""
        self.filter("")
        super().action_tab(step)
        self.post_message(View.Moved(self.place))

    @property
    def orders(self) -> tuple[str, ...]:
        """Orders of publishers.

        Events are always in order of time.
        """
        return SORTS if self.tab == PUBLISHER_TAB else ()

    def _facts(self, health: PipelineHealth) -> list[Fact]:
        """Return the details of the item under the cursor of a pipeline tab."""
        if self.tab == BROKER_TAB:
            return [] if self.brokers.picked is None else broker_facts(self.brokers.picked)
        row = self.publishers.picked
        table = self.publishers.table
        return (
            []
            if row is None or table is None or table is not health.publishers
            else publisher_facts(table, row, health.doubts)
        )

    @property
    def place(self) -> str:
        """Address of the event under the cursor or of its job.

        For a publisher, the address above everything it publishes.
        """
        if self.tab != EVENT_TAB:
            return self.publishers.place if self.tab == PUBLISHER_TAB else ""
        event = self.list.picked
        return self.list.address_of(event) if event else ""

    def _charted(self) -> ChartedPlace:
        """Return the place of the charts.

        The place and job of the event under the cursor, or everything a publisher publishes. The
        fleet without such a place.
        """
        event = self.list.picked if self.tab == EVENT_TAB else None
        job = (
            event.job if event is not None and event.job in self.monitor.history.job_names() else ""
        )
        place = self.place if self.monitor.store.layout.find(self.place) is not None else ""
        return ChartedPlace(self.context, place, job)

    @property
    def lists(self) -> Lists:
        return Lists(events=self.tab == EVENT_TAB)

    @property
    def subject(self) -> Subject:
        """Subject of the event under the cursor: its node, else job, else alert."""
        event = self.list.picked
        if self.tab != EVENT_TAB or event is None or event.path:
            return super().subject
        if event.job:
            return of_job(self.context.alerts, event.job)
        alert = self.monitor.alerts.find(event.alert) if event.alert else None
        return (of_alerts(self.context.alerts, [alert]) if alert else None) or super().subject

    def show_place(self, _address: str) -> None:
        """Paint only: events are in order of time and have no place to go to."""
        self.tick()

    def renew(self) -> None:
        self.list.renew()

    def action_moment(self) -> None:
        """Ask the app to go to the moment of the event under the cursor."""
        event = self.list.picked
        if event is not None and self.tab == EVENT_TAB:
            # Another monitor shows that moment; the cursor goes to the event there.
            self.list.hold(is_asked=True)
            self.post_message(View.GoTo(event.ts_ns))

    def tick(self) -> None:
        self.current.tick()
        self._tick_rest()

    def _tick_rest(self) -> None:
        """Paint the tabs and the details."""
        self._tabs.show(lambda width: [self._first_line(width)])
        self._share_space()
        if self.tab != EVENT_TAB:
            panes: tuple[LineView, ...] = (self.facts, self.charts)
        else:
            panes = (self.foot, self.details, self.rates, self.charts)
        for pane in panes:
            pane.tick()

    def _first_line(self, width: int) -> Parts:
        """Return the tabs with counts, and the pipeline's worst problem, filter or order."""
        health = self.monitor.pipeline()
        numbers = {
            EVENT_TAB: (
                self.list.count if self.pattern else sum(len(ring) for ring in self.list.rings)
            ),
            PUBLISHER_TAB: len(health.publishers),
            BROKER_TAB: len(health.brokers),
        }
        lacks = {EVENT_TAB: self.monitor.incomplete}
        texts = {}
        for tab, number in numbers.items():
            lack = lacks.get(tab, "")
            amount = count(number) if number or not lack else ""
            texts[tab] = f"{tab} {', '.join(filter(None, (amount, lack)))}"
        parts = tab_parts(texts, self.tab)
        room = max(1, width - width_of(parts) - 2)
        if self.pattern and self.tab != EVENT_TAB:
            label = f"/{plain(self.pattern, 40)} {count(self.current.count)} found"
            return justified(
                parts, [(fit(label, min(room, len(label))), theme.LINK)], width, theme.BASE
            )
        worst = next(
            (problem for problem in health.problems if problem.severity is not Severity.INFO), None
        )
        if worst is not None:
            text = f"{theme.SEVERITY_GLYPH[worst.severity]} {plain(worst.text, 200)}"
            style = theme.SEVERITY_STYLE[worst.severity]
            return justified(parts, [(fit(text, min(room, len(text))), style)], width, theme.BASE)
        order: Parts = (
            [(f"sort: {self.publishers.order} ", theme.QUIET)] if self.tab == PUBLISHER_TAB else []
        )
        return justified(parts, order, width, theme.BASE)

    @on(CursorList.Changed)
    def _changed(self, event: CursorList.Changed) -> None:
        event.stop()
        self._tick_rest()
        self.post_message(View.Moved(self.place))

    def columns(self) -> Columns:
        return _FILTERED[self.tab].columns

    def export(self) -> ExportTable:
        """Return the tab's list as a table."""
        table = self.publishers.table
        if self.tab == PUBLISHER_TAB and table is not None:
            return publisher_table(table, self.publishers.listed)
        if self.tab == BROKER_TAB:
            return table_of(BROKER_COLUMNS, [BrokerRow(broker) for broker in self.brokers.rows])
        return event_table(self.list.row_key(number) for number in range(self.list.count))

    def take_filter(self, query: Filter) -> None:
        self.current.filter(query)
        self._tick_rest()

    def found_text(self) -> str:
        columns, noun, none = _FILTERED[self.tab]
        matches = self.current.count
        if self.tab == EVENT_TAB and self.monitor.incomplete:
            return f"{counted(matches, noun)}, {self.monitor.incomplete}"
        return counted(matches, noun) if matches else hint(self.pattern, columns) or none


class EventFoot(LineView, can_focus=False):
    """Full text of the event under the cursor, its fields and the event count."""

    DEFAULT_CSS = "EventFoot { height: 3; background: $bg-surface; }"

    def __init__(self, monitor: FleetState, events: EventList) -> None:
        super().__init__()
        self._monitor = monitor
        self._events = events

    def lines(self, _top: int, height: int, width: int) -> list[Line]:
        """Return the lines, the last one always with the number of events."""
        picked = self._events.picked
        event = picked and picked.shown(self._monitor.ingest.names)
        counts = self._counts()
        texts = wrapped(plain(event.text, 256) if event else "", width - 2, height - 1)
        # Where the details stand beside the list, there is one line.
        about = fit(
            about_text(event) if event else "", max(0, width - width_of(counts) - 2)
        ).rstrip()
        return [
            *(text_line([(f" {text}", theme.HEAD_STRONG)], width, theme.HEAD) for text in texts),
            text_line(
                justified([(f" {about}", theme.HEAD)], counts, width, theme.HEAD), width, theme.HEAD
            ),
        ]

    def _counts(self) -> Parts:
        events = self._events
        dropped = sum(ring.dropped for ring in self._events.rings)
        parts: Parts = []
        if events.pattern:
            parts.append((f"/{plain(events.pattern, 30)} ", theme.HEAD_ACCENT))
        if dropped:
            parts.append((f"{count(dropped)} older ones dropped  ", theme.HEAD))
        parts.append(
            (f"{count(min(events.row + 1, events.count))}/{count(events.count)} ", theme.HEAD)
        )
        return parts


def about_text(event: Event) -> str:
    """Return an event's fields beside its text, those without room in the list first."""
    words = [
        plain(event.path),
        f"job {plain(event.job)}" if event.job else "",
        "" if event.nrt is None else f"NRT {event.nrt}",
        f"{plain(event.source)} {plain(event.name)}",
        format_rfc3339(event.ts_ns).replace("T", " "),
    ]
    return "  ".join(word for word in words if word)
