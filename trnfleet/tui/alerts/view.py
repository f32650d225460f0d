"""The Alerts view: firing alerts, all alerts, silences and history, with details.

It owns the tabs' lists, their first line, their tables for export, their keys and the sharing of
space. `AlertQuery` makes the rows, `AlertActions` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.containers import Container

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.alert import Alert, address_of, cause_address
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.alerts.watches import word_text
from trnfleet.domain.filters.language import Filter, hint
from trnfleet.domain.quantities import count, counted
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.coverage import blind_text
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.alerts.actions import AlertActions
from trnfleet.tui.alerts.details import AlertDetails
from trnfleet.tui.alerts.lists import (
    AlertList,
    HistoryEntry,
    HistoryList,
    SilenceList,
    alert_head,
    history_head,
    silence_head,
)
from trnfleet.tui.alerts.query import AT, AlertQuery, columns_of, matched_by_silences, owner_of
from trnfleet.tui.alerts.rows import SORTS, AlertGroup, AlertLine, arrange, in_order
from trnfleet.tui.charts.place import LEAST_ROWS, MOST_ROWS, ChartedPlace, PlaceCharts
from trnfleet.tui.format.alerts import where_text
from trnfleet.tui.keys import bind, key_label
from trnfleet.tui.snapshots.table import ExportTable
from trnfleet.tui.state.highlight import place_of
from trnfleet.tui.view import (
    CHARTS_FROM,
    LEAST_LIST,
    NOTE_S,
    POWER,
    TOPOLOGY,
    TabbedView,
    View,
    filter_keys,
    in_steps,
    sort_key,
    tab_keys,
)
from trnfleet.tui.widgets.bar import Bar, justified, tab_parts
from trnfleet.tui.widgets.cells import Parts, fit, width_of
from trnfleet.tui.widgets.cursor_list import CursorList
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.domain.filters.columns import Columns
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.state.alerts import AlertSnapshot
    from trnfleet.tui.state.context import UiContext


ACTIVE, ALL, SILENCES, HISTORY = TABS = ("active", "all", "silences", "history")
_LEAST_PROBLEM = 20
"""Least cells of the error in a filter."""


def alert_tabs(snapshot: AlertSnapshot, tab: str) -> Parts:
    """Return the tabs side by side with their counts, the current one in brackets."""
    numbers = {
        ACTIVE: snapshot.counts.firing,
        ALL: len(snapshot.active),
        SILENCES: snapshot.alerts.silences.count()[1],
        HISTORY: len(snapshot.alerts.history),
    }
    parts = tab_parts({name: f"{name} {count(number)}" for name, number in numbers.items()}, tab)
    if snapshot.incomplete:
        parts.append((f" {snapshot.incomplete} ", theme.STRONG))
    return parts


def elsewhere_parts(fleets: Mapping[str, AlertSnapshot]) -> Parts:
    """Return the number of unhandled alerts of each other fleet, linked to its alerts.

    Empty without any.

    Args:
        fleets: The alerts of the other fleets, by the fleets' names.
    """
    parts: Parts = []
    for name, snapshot in fleets.items():
        counts = snapshot.counts
        if counts.firing:
            severity = (
                Severity.CRITICAL
                if counts.critical
                else Severity.WARNING
                if counts.warning
                else Severity.INFO
            )
            style = linked(theme.SEVERITY_STYLE[severity], ClickTarget(TargetKind.FLEET, name))
            parts.append((f"  {plain(name, 32)} {count(counts.firing)}", style))
    return [("  other fleets:", theme.QUIET), *parts] if parts else []


def with_note(tabs: Parts, note: str, width: int) -> Parts:
    """Return the line with a note.

    It replaces the tabs if there is no room beside them.
    """
    if width_of(tabs) + len(note) + 2 > width:
        return [(f" {fit(note, width - 2)}", theme.SEVERITY_STYLE[Severity.WARNING])]
    return justified(
        tabs, [(f"{note} ", theme.SEVERITY_STYLE[Severity.WARNING])], width, theme.BASE
    )


def with_found(tabs: Parts, pattern: str, matches: int, width: int) -> Parts:
    """Return the line with the filter, and its count if there is room."""
    right: Parts = [
        (f"/{plain(pattern, 40)} ", theme.LINK),
        (f"{count(matches)} found ", theme.QUIET),
    ]
    if width_of(tabs) + width_of(right) >= width:
        right = right[:1]
    return justified(tabs, right, width, theme.BASE)


def with_doubt(tabs: Parts, doubt: str, width: int) -> Parts:
    """Return the line with a doubt about the leading watch."""
    room = max(_LEAST_PROBLEM, width - width_of(tabs) - 2)
    return justified(
        tabs,
        [(fit(f"▲ {plain(doubt)}", room), theme.SEVERITY_STYLE[Severity.WARNING])],
        width,
        theme.BASE,
    )


def with_order(
    tabs: Parts,
    tab: str,
    sort: str,
    width: int,
    word: str = "",
    others: Mapping[str, AlertSnapshot] | None = None,
) -> Parts:
    """Return the line with the order, for sortable tabs.

    Other fleets and the leading watch follow if there is room.

    Args:
        tabs: The tabs.
        tab: The one that is shown.
        sort: The order.
        width: Cells.
        word: The watch that leads.
        others: The alerts of other fleets, by the fleets' names.
    """
    right: Parts = [(f"sort: {sort} ", theme.QUIET)] if tab in {ACTIVE, ALL} else []
    elsewhere = elsewhere_parts(others or {})
    if width_of(tabs) + width_of(elsewhere) + width_of(right) < width:
        tabs = [*tabs, *elsewhere]
    led: Parts = [(f"{plain(word)}  ", theme.QUIET)] if word else []
    if led and width_of(tabs) + width_of(led) + width_of(right) < width:
        right = led + right
    return justified(tabs, right, width, theme.BASE)


def nothing_words(snapshot: AlertSnapshot, tab: str, pattern: str) -> list[str]:
    """Return the text of an empty list."""
    if not snapshot.has_rules and tab != SILENCES:
        return ["No rules are loaded, so there are no alerts."]
    if snapshot.incomplete == LOADING:
        return ["Loading alerts …"]
    if pattern:
        return [f"Nothing matches {plain(pattern, 60)}. Esc shows everything."]
    if tab == SILENCES:
        return [
            f"No silences. {key_label('silence')} silences alerts like the one under the cursor."
        ]
    if snapshot.incomplete:
        return [f"No alerts {snapshot.incomplete}. What fired before is not known."]
    if tab == HISTORY:
        return ["No alert has fired since this program started."]
    counts = snapshot.counts
    others = [
        f"{count(number)} {word}"
        for number, word in (
            (counts.acked, "acknowledged"),
            (counts.silenced, "silenced"),
            (counts.inhibited, "inhibited"),
            (counts.pending, "pending"),
        )
        if number
    ]
    calm = f"No unacknowledged alerts. {count(len(snapshot.alerts.rules))} rules loaded."
    lines = [calm, f"{', '.join(others)}: {key_label('next-tab')} shows them." if others else ""]
    blind: dict[str, list[str]] = {}
    for rule in snapshot.coverage:
        if not rule.applies:
            blind.setdefault(", ".join(rule.lacks), []).append(rule.rule)
    if blind:
        lines += [f"{blind_text(snapshot.coverage)}, because no source knows their figures:"]
        lines += [f"no {lacks}: {', '.join(rules)}" for lacks, rules in blind.items()]
    return lines


ALERT_TITLES = (
    "severity",
    "rule",
    "status",
    "place",
    "target",
    "value",
    "chips",
    "job",
    "since",
    "owner",
    "summary",
)
HISTORY_TITLES = ("time", "what", "severity", "rule", "place", "target", "summary")
SILENCE_TITLES = ("matchers", "state", "begins", "ends", "owner", "comment")


def alert_table(alerts: Iterable[AlertWithStatus], snapshot: AlertSnapshot) -> ExportTable:
    """Return alerts as a table."""
    return ExportTable(
        ALERT_TITLES,
        [
            (
                held.severity.value,
                held.alert.name,
                held.status.value,
                address_of(held.alert),
                held.alert.target,
                held.alert.value,
                held.alert.chips or None,
                held.alert.job,
                format_rfc3339(held.alert.fired_ns or held.alert.since_ns),
                owner_of(held.alert, snapshot),
                summary(held.alert),
            )
            for held in alerts
        ],
    )


def history_table(entries: Iterable[HistoryEntry]) -> ExportTable:
    """Return transitions of alerts as a table."""
    transitions = [entry.transition for entry in entries]
    return ExportTable(
        HISTORY_TITLES,
        [
            (
                format_rfc3339(transition.at_ns),
                transition.kind,
                transition.alert.severity.value,
                transition.alert.name,
                address_of(transition.alert),
                transition.alert.target,
                transition.summary,
            )
            for transition in transitions
        ],
    )


def silence_table(silences: Iterable[Silence], now_ns: int) -> ExportTable:
    """Return silences as a table."""
    return ExportTable(
        SILENCE_TITLES,
        [
            (
                ", ".join(map(str, silence.matchers)),
                silence.span(now_ns).value,
                format_rfc3339(silence.starts_ns),
                format_rfc3339(silence.ends_ns),
                silence.whose,
                silence.why,
            )
            for silence in silences
        ],
    )


def tab_table(query: AlertQuery, snapshot: AlertSnapshot, tab: str, sort: str) -> ExportTable:
    """Return a tab's rows as a table, each alert of a group by itself."""
    if tab == SILENCES:
        return silence_table(query.silences(), snapshot.now_ns)
    if tab == HISTORY:
        return history_table(query.history())
    return alert_table(in_order(query.alerts(only_unhandled=tab == ACTIVE), sort), snapshot)


ROOMY_FROM = 160
ROOMY_ROWS = 30
"""Least cells and rows for a list with only the rows it needs. The panes below get the others."""
DETAILS = 18
"""Rows of the details above charts: facts, and the chart of the alert's own figure."""


class AlertSpace(NamedTuple):
    """Rows below the list."""

    details: int
    charts: int = 0

    @staticmethod
    def share(
        width: int, height: int, listed: int, words: int = 0, *, is_large: bool
    ) -> AlertSpace:
        """Return how a view's rows are shared out.

        Args:
            width: Cells of the view.
            height: Its rows.
            listed: Rows that the list would fill.
            words: Lines of text that an empty list has instead.
            is_large: Whether the details are to have most of the room.
        """
        # An empty list needs only its text, and has no details.
        list_rows = in_steps((listed or words) + 2)
        if width < ROOMY_FROM or height < ROOMY_ROWS:
            rows = max(3, height - 8) if is_large else min(22, max(4, height * 3 // 8))
            if not listed:
                rows = 0
            elif width < CHARTS_FROM and not is_large:
                # There are no charts, so that what a short list leaves is the details'.
                rows = max(rows, min(DETAILS, height - 2 - in_steps(listed + 1)))
            spare = (
                0
                if is_large or width < CHARTS_FROM
                else height - rows - 2 - max(LEAST_LIST, list_rows)
            )
            return AlertSpace(rows if height >= 12 else 0, spare if spare >= LEAST_ROWS else 0)
        share = 3 if is_large else 6
        rows = height - 2 - min(max(LEAST_LIST, list_rows), height * share // 10)
        charts = min(MOST_ROWS, rows - (DETAILS if listed else 0))
        return (
            AlertSpace(rows)
            if is_large or charts < LEAST_ROWS
            else AlertSpace(rows - charts, charts)
        )


def charted(context: UiContext, alerts: Sequence[Alert], place: str) -> ChartedPlace | None:
    """Return the place of the charts: the fleet if nothing is listed.

    None if the subject has no place, such as a publisher.

    Args:
        context: The fleet.
        alerts: Alerts under the cursor.
        place: Address of their cause. Empty without one.
    """
    if not alerts:
        return ChartedPlace(context)
    alert = alerts[0]
    scope = alert.rule.scope
    if scope is Scope.RESERVATION:
        table = context.monitor.reservations.table()
        layout = context.monitor.store.layout
        reservation = next((row for row in table if row.message.id == alert.target), None)
        place = "" if reservation is None else place_of(reservation, layout)
    job = alert.job if scope is Scope.JOB else ""
    if not place and not job:
        return None
    own = (alert.worst or address_of(alert)).partition(":")[0]
    # The details have a chart of the alert's own figure.
    is_charted = len(alerts) == 1 and (bool(job) or place == own)
    return ChartedPlace(context, place, job, (alert.rule.figure or "") if is_charted else "")


class AlertsView(TabbedView["AlertList | SilenceList | HistoryList"]):
    """Tabs, a list, and details of the item under the cursor."""

    DEFAULT_CSS = """
    AlertsView { layout: vertical; }
    AlertsView > #alert-body { height: 1fr; layout: vertical; }
    AlertsView > #alert-body > #alert-side { height: 1fr; min-height: 4; width: 1fr; layout: vertical; }
    """  # noqa: E501
    ORDERS = SORTS
    BINDINGS: ClassVar[list[BindingType]] = [
        *tab_keys(", ".join(TABS)),
        bind("open-group", "expand", "open or collapse alerts of one rule"),
        bind("open-groups", "expand_all", "open or collapse all of them"),
        bind("sort", "sort", f"sort: {', '.join(SORTS)}"),
        bind("acknowledge", "acknowledge", "acknowledge"),
        bind("silence", "silence", "silence (preview of matches)"),
        bind("take-back", "take_back", "unacknowledge, or expire a silence (press twice)"),
        bind("moment", "moment", "pause where it has just fired"),
        bind("details", "details", "more or less room for the details, what changed too"),
        *filter_keys(
            "filter: part of anything, sev>=warning & job=name, age<10m, at=uc1/us-0001, !text"
        ),
        sort_key("severity"),
        sort_key("age", "duration: the newest first"),
        sort_key("place"),
    ]

    def __init__(self, context: UiContext) -> None:
        self.list = AlertList(context.alerts)
        self.sorted_list = self.list
        self.silences = SilenceList(context.alerts)
        self.history = HistoryList(context.alerts)
        lists = (self.list, self.list, self.silences, self.history)
        super().__init__(context, dict(zip(TABS, lists, strict=True)))
        self.list.order = SORTS[0]
        self.note = ""
        """The note in the first line, until the cursor moves or for a while."""
        self._note_s = 0.0
        self.actions = AlertActions(context)
        self._opened: set[str] = set()
        """Keys of the groups that are open."""
        self._listed: tuple[object, ...] = ()
        """What the tab's rows were read of."""
        self._tabs = Bar()
        self._head = Bar(fill=lambda: theme.HEAD)
        self._is_large = False
        """Whether the details have most of the space."""
        self._body = Container(id="alert-body")
        self._query = AlertQuery(context.alerts)
        self.details = AlertDetails(context, lambda: self.current.picked)
        self.charts = PlaceCharts(context, lambda: charted(context, self.picked_alerts, self.place))

    def compose(self) -> ComposeResult:
        yield self._tabs
        with self._body:
            with Container(id="alert-side"):
                yield self._head
                yield self.list
                yield self.silences
                yield self.history
            yield self.details
            yield self.charts
        yield self.actions
        yield self.prompt

    # What is shown

    @property
    def picked_alerts(self) -> list[Alert]:
        """Alerts under the cursor: one, or all of a group."""
        picked = self.current.picked
        if isinstance(picked, AlertLine):
            if picked.group is not None:
                return [member.alert for member in picked.group.members]
            return [] if picked.single is None else [picked.single.alert]
        return [picked.transition.alert] if isinstance(picked, HistoryEntry) else []

    @property
    def place(self) -> str:
        """Address of the cause of the item under the cursor.

        Empty for the fleet, or without a cause.
        """
        picked = self.current.picked
        if isinstance(picked, AlertLine) and picked.group is not None:
            return picked.group.place
        alerts = self.picked_alerts
        return cause_address(alerts[0]).partition(":")[0] if alerts else ""

    def show_place(self, _address: str) -> None:
        """Paint: alerts are in their own order, so there is no place to go to."""
        self._share_space()
        self.tick()

    def show_at(self, address: str) -> None:
        """List the alerts at, below or above an address; all for the fleet."""
        if self.tab in {SILENCES, HISTORY}:
            self.tab = ACTIVE
            self.show_tab()
        self.filter(f"{AT}={address}" if address else "")

    def take_focus(self) -> None:
        """Focus the tab's list, or an open form."""
        if not self.actions.is_open:
            super().take_focus()

    def renew(self) -> None:
        for tab_list in (self.list, self.silences, self.history):
            tab_list.hold()
        self._listed = ()
        self._query.renew()

    def tick(self) -> None:
        self._list()
        self._share_space()
        self.current.tick()
        self._write()
        self.details.tick()
        self.charts.tick()

    def on_resize(self) -> None:
        self._share_space()

    def _share_space(self) -> None:
        """Share the rows among list, details and charts.

        The list gets the rows it needs, up to a share. Without charts, forms get their rows first.
        """
        width, height = self.size
        if not width:
            return
        if width < CHARTS_FROM:
            height = min(height, self._body.size.height + 1)
        shown = self.current
        words = len(shown.words)
        space = AlertSpace.share(width, height, shown.count, words, is_large=self._is_large)
        self.details.styles.height = space.details
        self.charts.lend(space.charts)

    def _list(self) -> None:
        """Read the tab's rows again if anything changed."""
        alerts = self.monitor.alerts
        snapshot = self.context.alerts
        key = (
            snapshot.revision,
            self.tab,
            self.list.order,
            self.pattern,
            frozenset(self._opened),
            alerts.happened,
            alerts.silences.revision,
            snapshot.incomplete,
        )
        if key == self._listed:
            return
        self._listed = key
        words = nothing_words(snapshot, self.tab, self.pattern)
        if self.tab == SILENCES:
            self.silences.words = words
            self.silences.matched = {
                name: len(matches) for name, matches in matched_by_silences(snapshot).items()
            }
            self.silences.put(self._query.silences())
            return
        if self.tab == HISTORY:
            self.history.words = words
            self.history.put(self._query.history())
            return
        left = self._query.alerts(only_unhandled=self.tab == ACTIVE)
        self.list.shows_status = self.tab == ALL
        self.list.words = words
        self.list.put(arrange(in_order(left, self.list.order), self._opened))

    # The first lines

    def _write(self) -> None:
        if self.note and self.clock.monotonic_s() - self._note_s > NOTE_S:
            self.note = ""
        self._tabs.show(lambda width: [self._first_line(width)])
        if self.tab == SILENCES:
            self._head.show(lambda width: [silence_head(max(1, width - 1))])
        elif self.tab == HISTORY:
            self._head.show(lambda width: [history_head(max(1, width - 1))])
        else:
            self._head.show(lambda _width: [alert_head(self.list.plan)])

    def _first_line(self, width: int) -> Parts:
        tabs = alert_tabs(self.context.alerts, self.tab)
        if self.note:
            return with_note(tabs, self.note, width)
        if self.pattern:
            return with_found(tabs, self.pattern, self._match_count(), width)
        word = self.context.alerts.word(self.clock.monotonic_s())
        if word.doubts:
            return with_doubt(tabs, word.doubts[0], width)
        if error := self.context.alerts.receiver_error():
            return with_doubt(tabs, error, width)
        others = self.context.fleets.beside(self.context)
        words = filter(None, (word_text(word, ""), blind_text(self.context.alerts.coverage)))
        return with_order(tabs, self.tab, self.list.order, width, "  ".join(words), others)

    def _match_count(self) -> int:
        """Count the matches, including collapsed ones."""
        if self.current is not self.list:
            return len(self.current.rows)
        return sum(
            len(row.group.members) if row.group is not None else not row.is_inside
            for row in self.list.rows
        )

    def tell(self, note: str) -> None:
        """Show a note in the first line until the cursor moves; printable characters only."""
        self.note, self._note_s = note, self.clock.monotonic_s()
        self._write()

    # Keys

    def action_expand(self) -> None:
        """Open or collapse a rule's alerts, also from one of them."""
        picked = self.list.picked if self.current is self.list else None
        if picked is None:
            return
        group = picked.group or self._group_of(picked)
        if group is None:
            return
        self._opened ^= {group.key}
        self.tick()
        self.list.point_at(group.key)

    def _group_of(self, row: AlertLine) -> AlertGroup | None:
        if not row.is_inside:
            return None
        return next(
            (
                header.group
                for header in reversed(self.list.rows[: self.list.row])
                if header.group is not None
            ),
            None,
        )

    def action_expand_all(self) -> None:
        """Open all groups, or collapse all if any is open."""
        keys = {row.key for row in self.list.rows if row.group is not None}
        self._opened = set() if self._opened & keys else keys
        self.tick()

    def action_details(self) -> None:
        """Give the details more room, or less."""
        self._is_large = not self._is_large
        self._share_space()
        self.call_after_refresh(self.tick)

    def action_acknowledge(self) -> None:
        self._asked(self.actions.acknowledge(self.picked_alerts))

    def action_silence(self) -> None:
        self._asked(self.actions.silence(self.picked_alerts))

    def _asked(self, refusal: str) -> None:
        """Make room for a form that opened, or show the reason why it did not."""
        if refusal:
            self.tell(refusal)
            return
        self.note = ""
        self.remove_class("asking")
        self._write()

    def action_take_back(self) -> None:
        """Withdraw an acknowledgement, or expire a silence after a second press."""
        if self.tab == SILENCES:
            refusal = self._expire(self.silences.picked)
        else:
            refusal = self.actions.withdraw(self.picked_alerts)
        if refusal:
            self.tell(refusal)

    def _expire(self, silence: Silence | None) -> str:
        """Ask for a second press, or expire a silence; return the note for the first line."""
        if silence is None:
            return ""
        matchers = plain(" ".join(map(str, silence.matchers)), 60)
        again = f"{key_label('take-back')} again expires {matchers}"
        if self.actions.refusal or self.note == again:
            return self.actions.end(silence)
        return again

    def action_moment(self) -> None:
        """Ask the app to go to the moment of the item under the cursor."""
        picked = self.current.picked
        # Another monitor shows that moment; the cursor goes to the alert there.
        self.current.hold(is_asked=True)
        if isinstance(picked, HistoryEntry):
            self.post_message(View.GoTo(picked.transition.at_ns))
            return
        alerts = self.picked_alerts
        if alerts:
            # Of many, the one that began it.
            begun = min(alerts, key=lambda alert: alert.fired_ns or alert.since_ns)
            self.post_message(View.GoTo(begun.fired_ns or begun.since_ns))

    # Messages of the forms

    @on(AlertActions.Reported)
    def _written(self, event: AlertActions.Reported) -> None:
        event.stop()
        self.tell(event.note)

    @on(AlertActions.Closed)
    def _form_closed(self, event: AlertActions.Closed) -> None:
        event.stop()
        self.take_focus()
        self._write()

    # Messages of the lists

    @on(CursorList.Changed)
    def _changed(self, event: CursorList.Changed) -> None:
        event.stop()
        self.note = ""
        self._write()
        self.details.tick()
        self.post_message(View.Moved(self.place))

    @on(CursorList.Entered)
    def _entered(self, event: CursorList.Entered) -> None:
        event.stop()
        picked = self.current.picked
        if isinstance(picked, AlertLine) and picked.group is not None:
            self.action_expand()
            return
        alerts = self.picked_alerts
        if not alerts:
            return
        alert = alerts[0]
        if alert.rule.scope is Scope.RESERVATION:
            self.post_message(self.OpenReservation(alert.target))
        elif alert.rule.scope is Scope.CAP:
            self.post_message(View.Open("", POWER))
        elif alert.rule.scope is Scope.LINK and ":" in alert.worst:
            self.post_message(View.Open(alert.worst, TOPOLOGY))
        elif self.place:
            self.post_message(View.Open(self.place))
        else:
            self.tell(f"{where_text(alert, 60)} has no place of its own")

    # The filter

    def columns(self) -> Columns:
        return columns_of(self.context.alerts.alerts.rules)

    def export(self) -> ExportTable:
        return tab_table(self._query, self.context.alerts, self.tab, self.list.order)

    def take_filter(self, query: Filter) -> None:
        self._query.filter(query)
        self.tick()

    def found_text(self) -> str:
        matches = self._match_count()
        noun = "silence" if self.tab == SILENCES else "alert"
        return (
            counted(matches, noun)
            if matches
            else hint(self.pattern, self.columns()) or f"no {noun} matches"
        )

    def show_tab(self) -> None:
        super().show_tab()
        self.note = ""
        self._listed = ()
