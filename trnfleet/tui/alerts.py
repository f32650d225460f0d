"""The Alerts view: what fires, what somebody has in hand, silences and history, with the chosen one at length.

It owns the tabs, the filter's prompt and the forms that acknowledge and silence; the desk writes, and what was written counts when
it comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.figures import Scope
from trnfleet.domain.alerts.matching import parse_matchers
from trnfleet.domain.alerts.quieting import Span, preview
from trnfleet.domain.alerts.words import summary
from trnfleet.domain.durations import parse_duration_s
from trnfleet.domain.quantities import count
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.alerting.quieting import Standing
from trnfleet.monitor.findings import Severity
from trnfleet.tui import palette
from trnfleet.tui.alertabout import AlertDetails
from trnfleet.tui.alertfilter import AT, AlertFilter, read_filter, split_matchers
from trnfleet.tui.alertform import FieldSpec, Form
from trnfleet.tui.alertlist import (
    AlertList,
    HistoryList,
    SilenceList,
    Told,
    alert_head,
    history_head,
    said_of,
    silence_head,
)
from trnfleet.tui.alertrows import SORTS, Row, arrange, in_order
from trnfleet.tui.alertwords import age_text, matchers_of, preview_text, standing_text, where_text
from trnfleet.tui.bars import Bar, Parts, justified, width_of
from trnfleet.tui.cells import fit
from trnfleet.tui.filtering import FilteredView
from trnfleet.tui.pastwords import is_past
from trnfleet.tui.picklist import PickList
from trnfleet.tui.plain import plain
from trnfleet.tui.views import ALERTS, View

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable

    from textual.app import ComposeResult

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.quieting import Silence
    from trnfleet.monitor.alerting.desk import Desk
    from trnfleet.monitor.shown import FleetState
    from trnfleet.tui.alertboard import AlertBoard, Held
    from trnfleet.tui.alertrows import Group

ACTIVE, ALL, SILENCES, HISTORY = TABS = ("active", "all", "silences", "history")
ACK_FOR, SILENCE_FOR = "2h", "4h"
"""How long, unless somebody says other."""
MOST_AT_ONCE = 200
"""Alerts that one acknowledgement is for, at most: each is a message."""
PAST = "this is the past: End returns to the present, where alerts are taken in hand"
RECORDED = "this is a recording: what is done here reaches nobody"
READ_ONLY = "this screen only reads; --allow-commands lets it acknowledge and silence"
NOTE_S = 10.0
"""Seconds for which something is said in the first line, at most."""
MOST_LINES = 1_000
"""More than any screen has."""
BESIDE_FROM = 160
"""Width from which the chosen one stands beside the list."""


class AlertsView(FilteredView):
    """Tabs, a list, and what is under the cursor at length."""

    title = ALERTS
    key = "8"
    DEFAULT_CSS = """
    AlertsView { layout: vertical; }
    AlertsView > #alert-body { height: 1fr; layout: vertical; }
    AlertsView > #alert-body > #alert-side { height: 1fr; width: 1fr; layout: vertical; }
    AlertsView PickList { display: none; }
    AlertsView PickList.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t,tab", "tab(1)", "next of: active, all, silences, history"),
        Binding("T,shift+tab", "tab(-1)", "previous of these"),
        Binding("e", "expand", "open or collapse alerts of one rule"),
        Binding("E", "expand_all", "open or collapse all of them"),
        Binding("s", "sort", "next order: severity, age, place"),
        Binding("a", "acknowledge", "acknowledge: you have it in hand"),
        Binding("z", "silence", "silence what is like it, after a preview"),
        Binding("x", "take_back", "take an acknowledgement back, or end a silence"),
        Binding("o", "moment", "go to the moment when it fired"),
        Binding("d", "details", "more or less room for the details"),
        Binding(
            "slash", "ask", "filter by part of anything, severity=critical, at=address; !part for all others"
        ),
        Binding("escape", "clear", "clear the filter"),
    ]

    class OpenReservation(Message):
        """Asks the app to go to a reservation."""

        def __init__(self, reservation_id: str) -> None:
            super().__init__()
            self.reservation_id = reservation_id

    def __init__(self, monitor: FleetState, clock: Clock) -> None:
        super().__init__(
            monitor,
            clock,
            placeholder="part of anything, severity=critical, job=~pre.*, at=uc1/us-0001; !part for all others",
        )
        self.desk: Desk | None = None
        """Where to write; None for a screen that only reads."""
        self.tab = ACTIVE
        self.sort = SORTS[0]
        self.note = ""
        """Said in the first line until the cursor moves, or for a while."""
        self._note_s = 0.0
        self.ack_form = Form(
            [[FieldSpec("for", "for", ACK_FOR, 8), FieldSpec("note", "note", "what others should know")]]
        )
        self.silence_form = Form(
            [
                [
                    FieldSpec(
                        "matchers",
                        "what",
                        'alertname="hbm-uncorrectable" instance="uc1/us-0001/trn2u-0001-0"',
                    )
                ],
                [
                    FieldSpec("for", "for", SILENCE_FOR, 8),
                    FieldSpec("why", "why", "the reason, which is needed"),
                ],
            ]
        )
        self._pattern = ""
        self._filter = AlertFilter()
        self._opened: set[str] = set()
        self._listed: tuple[object, ...] = ()
        self._told: list[Told] = []
        """What happened and the filter leaves, the newest first."""
        self._told_of: tuple[str, int] = ("", 0)
        self._said: dict[str, tuple[tuple[int, Standing, int], str]] = {}
        self._subjects: list[Alert] = []
        """Alerts that the form is about, as they were when it was opened."""
        self._make_lists()

    def _make_lists(self) -> None:
        self.list = AlertList(self.alert_board)
        self.silences = SilenceList(self.alert_board)
        self.history = HistoryList(self.alert_board)
        self.details = AlertDetails(self.monitor, self.alert_board, lambda: self.current.picked)
        self._tabs = Bar()
        self._head = Bar(fill=palette.HEAD)
        self._is_large = False
        self._shared: tuple[int, int, bool] = (0, 0, False)
        """Size, and whether the details are large, that the space is shared out for."""

    def set_board(self, board: AlertBoard) -> None:
        """Take the app's board, which all views share; before the view is on the screen."""
        super().set_board(board)
        self._make_lists()

    def compose(self) -> ComposeResult:
        """Put tabs, head, list, details, forms and prompt below each other."""
        yield self._tabs
        with Container(id="alert-body"):
            with Container(id="alert-side"):
                yield self._head
                yield self.list
                yield self.silences
                yield self.history
            yield self.details
        yield self.ack_form
        yield self.silence_form
        yield self.prompt

    def on_mount(self) -> None:
        """Show the first tab."""
        self._show_tab()

    # What is shown

    @property
    def current(self) -> PickList:
        """The list of the tab."""
        return {SILENCES: self.silences, HISTORY: self.history}.get(self.tab, self.list)

    @property
    def picked_alerts(self) -> list[Alert]:
        """The alerts under the cursor: one, or those that are collapsed there."""
        picked = self.current.picked
        if isinstance(picked, Row):
            if picked.group is not None:
                return [each.alert for each in picked.group.members]
            return [] if picked.held is None else [picked.held.alert]
        return [picked.happening.alert] if isinstance(picked, Told) else []

    @property
    def place(self) -> str:
        """The address of what is under the cursor; empty for the fleet, and for what has none."""
        picked = self.current.picked
        if isinstance(picked, Row) and picked.group is not None:
            return picked.group.place
        alerts = self.picked_alerts
        return address_of(alerts[0]) if alerts else ""

    def show_place(self, address: str) -> None:
        """Paint: alerts are in their own order, so there is no place to go to."""
        del address
        self._share_space()
        self.tick(MOST_LINES)

    def show_at(self, address: str) -> None:
        """Leave the alerts at, below or above an address; all of them for the fleet."""
        if self.tab in {SILENCES, HISTORY}:
            self.tab = ACTIVE
            self._show_tab()
        self.filter(f"{AT}={address}" if address else "")

    def take_focus(self) -> None:
        """Give the focus to the tab's list, or to a form that is open."""
        if not self.ack_form.is_open and not self.silence_form.is_open:
            self.current.focus(scroll_visible=False)

    def renew(self) -> None:
        """Drop what is kept: another monitor is shown."""
        for each in (self.list, self.silences, self.history):
            each.hold()
        self._listed = ()
        self._told, self._told_of = [], ("", 0)
        self._said.clear()

    def tick(self, allowance: int) -> int:
        """Paint what changed."""
        self._share_space()
        self._list()
        painted = self.current.tick(max(1, allowance))
        self._write()
        return painted + self.details.tick(max(1, allowance - painted))

    def on_resize(self) -> None:
        """Divide the space anew."""
        self._share_space()

    def _share_space(self) -> None:
        """Give the details what there is beside a wide list, or some lines below it."""
        width, height = self.size
        shared = width, height, self._is_large
        if not width or shared == self._shared:
            return
        # Setting a layout lays everything out anew, also where it is the same.
        self._shared = shared
        body, details = self.query_one("#alert-body"), self.details
        if width >= BESIDE_FROM:
            body.styles.layout = "horizontal"
            details.styles.height = "1fr"
            details.styles.width = width * (60 if self._is_large else 38) // 100
            return
        body.styles.layout = "vertical"
        details.styles.width = "1fr"
        # An empty list needs no more than it says.
        rows = max(3, height - 8) if self._is_large else min(22, max(4, height * 3 // 8))
        details.styles.height = rows if height >= 12 else 0

    def _list(self) -> None:
        """Read the tab's rows anew where anything changed."""
        alerts, board = self.monitor.alerts, self.alert_board
        of = (
            board.revision,
            self.tab,
            self.sort,
            self._pattern,
            frozenset(self._opened),
            alerts.happened,
            alerts.quieting.revision,
        )
        if of == self._listed:
            return
        self._listed = of
        if self.tab == SILENCES:
            self._list_silences()
        elif self.tab == HISTORY:
            self._follow_history()
            self.history.words = self._nothing()
            self.history.put(self._told)
        else:
            held = board.held
            if self.tab == ACTIVE:
                held = [each for each in held if each.standing is Standing.FIRING]
            if self._pattern:
                held = [each for each in held if self._keeps(each)]
            self.list.shows_standing = self.tab == ALL
            self.list.words = self._nothing()
            self.list.put(arrange(in_order(held, self.sort), self._opened))

    def _keeps(self, held: Held) -> bool:
        return self._filter.keeps(held.alert, lambda: self._all_said(held))

    def _all_said(self, held: Held) -> str:
        """Return what an alert says, kept until it says something else."""
        alert, revision = held.alert, self.monitor.alerts.quieting.revision
        of = (alert.revision, held.standing, revision)
        known = self._said.get(alert.fingerprint)
        if known is None or known[0] != of:
            if len(self._said) > 50_000:
                self._said.clear()
            standing = (
                f"{held.standing.value} {standing_text(held, self.monitor.alerts, self.alert_board.now_ns)}"
            )
            known = self._said[alert.fingerprint] = of, said_of(alert, standing, summary(alert))
        return known[1]

    def _list_silences(self) -> None:
        alerts, now_ns = self.monitor.alerts, self.alert_board.now_ns
        hidden: dict[str, int] = {}
        for each in self.alert_board.held:
            if each.standing is Standing.SILENCED:
                for silence in alerts.quieting.silences_of(each.alert, now_ns):
                    hidden[silence.id] = hidden.get(silence.id, 0) + 1
        rank = {Span.ACTIVE: 0, Span.TO_COME: 1, Span.OVER: 2}
        part = self._pattern.lower()
        shown = [
            each
            for each in alerts.quieting.silences
            if not part or (part.removeprefix("!") in _silence_said(each)) is not part.startswith("!")
        ]
        self.silences.hidden = hidden
        self.silences.put(sorted(shown, key=lambda each: (rank[each.span(now_ns)], each.ends_ns, each.id)))

    def _follow_history(self) -> None:
        """Take on what happened since, where the filter leaves it, and let go of what made room."""
        alerts = self.monitor.alerts
        pattern, seen = self._told_of
        if pattern != self._pattern:
            self._told, seen = [], 0
        fresh: list[Told] = []
        number = alerts.happened
        for happening in reversed(alerts.history):
            if number <= seen:
                break
            alert = happening.alert
            if self._filter.keeps(alert, lambda each=happening: said_of(each.alert, each.kind, each.summary)):  # type: ignore[misc]
                fresh.append(Told(number, happening))
            number -= 1
        oldest = alerts.happened - len(alerts.history)
        kept = self._told
        while kept and kept[-1].number <= oldest:
            kept = kept[:-1]
        self._told, self._told_of = [*fresh, *kept], (self._pattern, alerts.happened)

    def _nothing(self) -> list[str]:
        if not self.alert_board.has_rules:
            return ["No rules are loaded, so there are no alerts."]
        if self._pattern:
            return [f"Nothing matches {plain(self._pattern, 60)}. Esc shows everything."]
        if self.tab == HISTORY:
            return ["Nothing has fired since this screen began to watch."]
        counts = self.alert_board.counts
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
        calm = (
            f"Nothing fires that nobody has in hand. {count(len(self.alert_board.alerts.rules))} rules watch."
        )
        return [calm, f"{', '.join(others)}: t shows them." if others else ""]

    # The first lines

    def _write(self) -> None:
        if self.note and self.clock.monotonic_s() - self._note_s > NOTE_S:
            self.note = ""
        self._tabs.show(lambda width: [self._tab_parts(width)])
        if self.tab == SILENCES:
            self._head.show(lambda width: [silence_head(max(1, width - 1))])
        elif self.tab == HISTORY:
            self._head.show(lambda width: [history_head(max(1, width - 1))])
        else:
            self._head.show(lambda _width: [alert_head(self.list.plan)])

    def _tab_parts(self, width: int) -> Parts:
        counts, quieting = self.alert_board.counts, self.monitor.alerts.quieting
        numbers = {
            ACTIVE: counts.firing,
            ALL: len(self.alert_board.held),
            SILENCES: quieting.count()[1],
            HISTORY: len(self.monitor.alerts.history),
        }
        parts: Parts = [(" ", palette.BASE)]
        for tab, number in numbers.items():
            text = f"{tab} {count(number)}"
            is_shown = tab == self.tab
            parts.append(
                (f"[{text}]" if is_shown else f" {text} ", palette.LINK if is_shown else palette.QUIET)
            )
            parts.append((" ", palette.BASE))
        amber = palette.SEVERITY_STYLE[Severity.WARNING]
        if self.note:
            if width_of(parts) + len(self.note) + 2 > width:
                return [(f" {fit(self.note, width - 2)}", amber)]
            return justified(parts, [(f"{self.note} ", amber)], width, palette.BASE)
        problem = self._filter.problem
        if problem:
            room = max(20, width - width_of(parts) - 2)
            return justified(parts, [(fit(f"▲ {plain(problem)}", room), amber)], width, palette.BASE)
        right: Parts = []
        if self._pattern:
            right.append((f"/{plain(self._pattern, 40)} ", palette.LINK))
            right.append((f"{count(self._found())} found ", palette.QUIET))
        elif self.tab in {ACTIVE, ALL}:
            right = [(f"by {self.sort} ", palette.QUIET)]
        if width_of(parts) + width_of(right) >= width:
            right = right[:1]
        return justified(parts, right, width, palette.BASE)

    def _found(self) -> int:
        """Return how many the filter leaves, with those that are collapsed."""
        if self.current is not self.list:
            return len(self.current.rows)
        return sum(
            len(row.group.members) if row.group is not None else not row.is_inside for row in self.list.rows
        )

    def tell(self, note: str) -> None:
        """Say something in the first line until the cursor moves; printable characters only."""
        self.note, self._note_s = note, self.clock.monotonic_s()
        self._write()

    # Keys

    def action_tab(self, step: int) -> None:
        """Show the next tab (1) or the one before (-1)."""
        self.tab = TABS[(TABS.index(self.tab) + step) % len(TABS)]
        self.note = ""
        self._show_tab()
        self.tick(MOST_LINES)
        self.take_focus()

    def action_sort(self) -> None:
        """Take the next order."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.tick(MOST_LINES)

    def action_expand(self) -> None:
        """Open or collapse the alerts of a rule; on one of them, collapse the others with it."""
        picked = self.list.picked if self.current is self.list else None
        if picked is None:
            return
        group = picked.group or self._group_of(picked)
        if group is None:
            return
        self._opened ^= {group.key}
        self.tick(MOST_LINES)
        self.list.point_at(group.key)

    def _group_of(self, row: Row) -> Group | None:
        if not row.is_inside:
            return None
        return next(
            (each.group for each in reversed(self.list.rows[: self.list.row]) if each.group is not None), None
        )

    def action_expand_all(self) -> None:
        """Open what is collapsed; collapse all where something is open."""
        keys = {row.key for row in self.list.rows if row.group is not None}
        self._opened = set() if self._opened & keys else keys
        self.tick(MOST_LINES)

    def action_details(self) -> None:
        """Give the details more room, or less."""
        self._is_large = not self._is_large
        self._share_space()
        self.call_after_refresh(self.tick, MOST_LINES)

    def action_acknowledge(self) -> None:
        """Ask for how long somebody has it in hand."""
        alerts = [alert for alert in self.picked_alerts if alert.is_active and alert.fired_ns is not None]
        if not self._may_write():
            return
        if not alerts:
            self.tell("nothing to acknowledge here: it does not fire")
            return
        if len(alerts) > MOST_AT_ONCE:
            self.tell(f"{count(len(alerts))} alerts: at most {MOST_AT_ONCE} at once; z silences them all")
            return
        self._subjects = alerts
        self._open(self.ack_form, f"Acknowledge {_named(alerts)}", {"for": ACK_FOR}, "for")

    def action_silence(self) -> None:
        """Ask what to silence, for how long and why."""
        if not self._may_write():
            return
        alerts = self.picked_alerts
        values = {"matchers": self._matchers(alerts), "for": SILENCE_FOR}
        self._open(self.silence_form, "Silence", values, "why" if alerts else "matchers")
        self._preview()

    def _matchers(self, alerts: list[Alert]) -> str:
        """Return matchers for what is under the cursor: of many, what their labels have in common."""
        if not alerts:
            return ""
        shared = dict(alerts[0].labels)
        for alert in alerts[1:]:
            shared = {name: value for name, value in shared.items() if alert.labels.get(name) == value}
        return matchers_of(shared)

    async def action_take_back(self) -> None:
        """Take an acknowledgement back, or end a silence."""
        if not self._may_write():
            return
        desk, quieting = self.desk, self.monitor.alerts.quieting
        if desk is None:
            return
        picked = self.current.picked
        if self.tab == SILENCES:
            if picked is not None:
                self._work(desk.expire(picked.id), "the silence is over")
            return
        acked = [alert.fingerprint for alert in self.picked_alerts if quieting.has_ack(alert.fingerprint)]
        if not acked:
            self.tell("nobody has acknowledged this")
            return
        self._work(_each(desk.withdraw_ack(each) for each in acked[:MOST_AT_ONCE]), "given out of hand")

    def action_moment(self) -> None:
        """Ask the app to go to the moment when what is under the cursor fired, or happened."""
        picked = self.current.picked
        # A little before that moment it does not fire yet.
        self.current.hold(is_asked=True)
        if isinstance(picked, Told):
            self.post_message(View.GoTo(picked.happening.at_ns))
            return
        alerts = self.picked_alerts
        if alerts:
            # Of many, the one that began it.
            begun = min(alerts, key=lambda each: each.fired_ns or each.since_ns)
            self.post_message(View.GoTo(begun.fired_ns or begun.since_ns))

    def _may_write(self) -> bool:
        if is_past(self.deck):
            self.tell(PAST if self.deck is not None and self.deck.is_live_possible else RECORDED)
            return False
        if self.desk is not None and self.desk.can_write:
            return True
        self.tell(READ_ONLY)
        return False

    # Forms

    def _open(self, form: Form, title: str, values: dict[str, str], focus: str) -> None:
        self.note = ""
        self.remove_class("asking")
        for other in (self.ack_form, self.silence_form):
            if other is not form:
                other.close()
        form.open(title, values, focus)
        self._write()

    @on(Form.Changed)
    def _form_typed(self, event: Form.Changed) -> None:
        event.stop()
        if event.form is self.silence_form:
            self._preview()
        else:
            event.form.tell("")

    @on(Form.Left)
    def _left(self, event: Form.Left) -> None:
        event.stop()
        self._close(event.form)

    @on(Form.Submitted)
    def _submitted(self, event: Form.Submitted) -> None:
        event.stop()
        form, desk = event.form, self.desk
        if desk is None or not form.is_open:
            return
        if is_past(self.deck):
            form.tell(PAST, is_problem=True)
            return
        values = form.values
        now_ns = self.monitor.moment().time_ns
        try:
            lasts_s = parse_duration_s(values["for"])
            if form is self.ack_form:
                alerts, note = self._subjects, values["note"]
                done = f"acknowledged for {age_text(lasts_s)}: {_named(alerts)}"
                self._work(
                    _each(
                        desk.acknowledge(each, now_ns=now_ns, lasts_s=lasts_s, note=note) for each in alerts
                    ),
                    done,
                    form,
                )
                return
            matchers = split_matchers(values["matchers"])
            parse_matchers(matchers)
        except (ValueError, TrnfleetError) as error:
            form.tell(plain(str(error)), is_problem=True)
            return
        if not values["why"]:
            form.tell("say why: others want to know before they end it", is_problem=True)
            return
        self._work(
            desk.silence(matchers, now_ns=now_ns, lasts_s=lasts_s, why=values["why"]),
            f"silenced for {age_text(lasts_s)}",
            form,
        )

    def _preview(self) -> None:
        """Say what the silence that is written at present would hide."""
        form = self.silence_form
        try:
            matchers = parse_matchers(split_matchers(form.values["matchers"]))
        except TrnfleetError as error:
            form.tell(plain(str(error)), is_problem=True)
            return
        form.tell(preview_text(preview(matchers, self.monitor.alerts.active())))

    def _work(self, written: Coroutine[Any, Any, object], done: str, form: Form | None = None) -> None:
        """Write, then say so; what went wrong is said where one looks."""

        async def write() -> None:
            try:
                await written
            except TrnfleetError as error:
                if form is not None and form.is_open:
                    form.tell(plain(str(error)), is_problem=True)
                else:
                    self.tell(plain(str(error)))
                return
            if form is not None:
                self._close(form)
            self.tell(done)

        self.run_worker(write(), name="write", exit_on_error=True)

    def _close(self, form: Form) -> None:
        form.close()
        self.take_focus()
        self._write()

    # Messages of the lists

    @on(PickList.Changed)
    def _changed(self, event: PickList.Changed) -> None:
        event.stop()
        self.note = ""
        self._write()
        self.details.tick()
        self.post_message(View.Moved(self.place))

    @on(PickList.Entered)
    def _entered(self, event: PickList.Entered) -> None:
        event.stop()
        picked = self.current.picked
        if isinstance(picked, Row) and picked.group is not None:
            self.action_expand()
            return
        alerts = self.picked_alerts
        if not alerts:
            return
        alert = alerts[0]
        if alert.rule.scope is Scope.RESERVATION:
            self.post_message(self.OpenReservation(alert.target))
        elif self.place:
            self.post_message(View.Open(self.place))
        else:
            self.tell(f"{where_text(alert, 60)} has no place of its own")

    # The filter

    @property
    def pattern(self) -> str:
        """The filter."""
        return self._pattern

    def filter(self, pattern: str) -> None:
        """Leave what matches a pattern, and paint it."""
        if pattern != self._pattern:
            self._pattern, self._filter = pattern, read_filter(pattern)
        self.tick(MOST_LINES)

    def _show_tab(self) -> None:
        for each in (self.list, self.silences, self.history):
            each.set_class(each is self.current, "shown")
        self._listed = ()


async def _each(written: Iterable[Awaitable[object]]) -> None:
    for one in written:
        await one


def _named(alerts: list[Alert]) -> str:
    """Return what alerts are called, in a few words."""
    first = alerts[0]
    name = plain(first.name)
    return (
        f"{name} at {where_text(first, 40)}" if len(alerts) == 1 else f"{count(len(alerts))} alerts of {name}"
    )


def _silence_said(silence: Silence) -> str:
    return " ".join((*map(str, silence.matchers), silence.who, silence.why)).lower()
