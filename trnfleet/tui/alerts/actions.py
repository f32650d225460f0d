"""Acknowledge and silence: the forms, their preview, and the removal of either.

`OperatorActions` writes in the background, and the result counts when it comes back. The owner hands over the alerts and shows the
result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Vertical
from textual.message import Message

from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.domain.alerts.preview import preview
from trnfleet.domain.durations import parse_duration_s
from trnfleet.domain.quantities import DurationStyle, count, duration
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.monitor.alerting.operator import refused_in
from trnfleet.text import plain
from trnfleet.tui.alerts.query import split_matchers
from trnfleet.tui.format.alerts import preview_text, where_text
from trnfleet.tui.state.subjects import of_alerts
from trnfleet.tui.widgets.form import FieldSpec, Form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable

    from textual.app import ComposeResult

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.tui.state.context import UiContext

    Writing = Coroutine[Any, Any, object]

ACK_FOR, SILENCE_FOR = "2h", "4h"
"""Default durations."""
MOST_AT_ONCE = 200
"""Alerts that one acknowledgement is for, at most: each is a message."""
PAST = "this is the past: End returns to live, where alerts can be acknowledged"
RECORDED = "this is a recording: its alerts cannot be acknowledged or silenced"
READ_ONLY = "this screen only reads; --allow-commands lets it acknowledge and silence"


class AlertActions(Vertical):
    """The two forms, of which one at most is open, and their writes."""

    DEFAULT_CSS = "AlertActions { height: auto; }"

    class Reported(Message):
        """The result of a write."""

        def __init__(self, note: str) -> None:
            super().__init__()
            self.note = note
            """Printable characters only."""

    class Closed(Message):
        """A form was closed, so that the keys are the list's again."""

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self.context = context
        self._monitor = context.monitor
        self.ack_form = Form(
            [
                [
                    FieldSpec("note", "note", "for others (optional)"),
                    FieldSpec("for", "for", ACK_FOR, 8),
                ]
            ]
        )
        self.silence_form = Form(
            [
                [
                    FieldSpec(
                        "matchers",
                        "matchers",
                        'alertname="hbm-uncorrectable" instance="uc1/us-0001/trn2u-0001-0"',
                    )
                ],
                [
                    FieldSpec("why", "comment", "the reason (required)"),
                    FieldSpec("for", "for", SILENCE_FOR, 8),
                ],
            ]
        )
        self._subjects: list[Alert] = []
        """The alerts to acknowledge, as they were when the form was opened."""
        self._being_written: set[tuple[Form, int]] = set()
        """Forms, with the number of their opening, of which the broker has not answered yet: Enter once more would write the same again."""

    def compose(self) -> ComposeResult:
        """Put the forms below each other."""
        yield self.ack_form
        yield self.silence_form

    @property
    def is_open(self) -> bool:
        """Whether a form is on the screen, which then has the keys."""
        return self.ack_form.is_open or self.silence_form.is_open

    # What people ask for

    def acknowledge(self, alerts: list[Alert]) -> str:
        """Open the form that acknowledges alerts; return the reason why not, empty where it is open."""
        refusal = self._refusal()
        if refusal:
            return refusal
        firing = [alert for alert in alerts if alert.is_active and alert.fired_ns is not None]
        if firing and (cells := cells_text(firing)):
            return cells
        firing = [alert for alert in firing if not alert.cell]
        if not firing:
            return "nothing to acknowledge: the alert is not firing"
        if len(firing) > MOST_AT_ONCE:
            return (
                f"{count(len(firing))} alerts: at most {MOST_AT_ONCE} at once; z silences them all"
            )
        self._subjects = firing
        self.silence_form.close()
        self.ack_form.open(f"Acknowledge {named(firing)}", {"for": ACK_FOR}, "note")
        return ""

    def silence(self, alerts: list[Alert], matchers: str = "") -> str:
        """Open the form that makes a silence; return the reason why not, empty where it is open.

        Args:
            alerts: What the silence is offered for; none for nothing in particular.
            matchers: What it begins with where there are no alerts.
        """
        refusal = self._refusal()
        if refusal:
            return refusal
        if alerts and (cells := cells_text(alerts)):
            return cells
        matchers = shared_matchers(alerts) or matchers
        values = {"matchers": matchers, "for": SILENCE_FOR}
        self.ack_form.close()
        self.silence_form.open("Silence", values, "why" if matchers else "matchers")
        self._preview()
        return ""

    def withdraw(self, alerts: list[Alert]) -> str:
        """Remove acknowledgements; return the reason why not, empty where that has begun."""
        refusal, operator = self._refusal(), self.context.operator
        if refusal or operator is None:
            return refusal
        if alerts and (cells := cells_text(alerts)):
            return cells
        silences = self._monitor.alerts.silences
        found = (silences.ack(alert.fingerprint) for alert in alerts)
        acked = [ack for ack in found if ack is not None]
        if not acked:
            return "not acknowledged"
        self._write(
            _each(operator.withdraw_ack(each) for each in acked[:MOST_AT_ONCE]), "unacknowledged"
        )
        return ""

    def end(self, silence: Silence | None) -> str:
        """End a silence, if there is one; return the reason why not, empty where that has begun."""
        refusal, operator = self._refusal(), self.context.operator
        if not refusal and operator is not None and silence is not None:
            self._write(operator.expire(silence), "silence expired")
        return refusal

    def _refusal(self) -> str:
        """Return the reason why nothing can be written now; empty for none."""
        playback, operator = self.context.playback, self.context.operator
        if playback is not None and playback.shows_past:
            return PAST if playback.is_live_possible else RECORDED
        return "" if operator is not None and operator.can_write else READ_ONLY

    # What the forms say

    @on(Form.Changed)
    def _typed(self, event: Form.Changed) -> None:
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
        form, operator = event.form, self.context.operator
        if operator is None or not form.is_open or (form, form.openings) in self._being_written:
            return
        if self.context.shows_past:
            form.tell(PAST, is_problem=True)
            return
        prepare = self._acknowledgement if form is self.ack_form else self._silencing
        try:
            writing, done = prepare(operator)
        except (ValueError, TrnfleetError) as error:
            form.tell(plain(str(error)), is_problem=True)
        else:
            self._write(writing, done, form)

    def _acknowledgement(self, operator: OperatorActions) -> tuple[Writing, str]:
        """Return what writes what the form asks for, and the words for when that is done.

        Raises:
            ValueError: the duration is not one.
        """
        values, now_ns = self.ack_form.values, self._monitor.moment().time_ns
        alerts, lasts_s, note = self._subjects, parse_duration_s(values["for"]), values["note"]
        revision = self._monitor.alerts.silences.next_ack_revision
        writing = _each(
            operator.acknowledge(
                each, now_ns=now_ns, lasts_s=lasts_s, note=note, revision=revision(each.fingerprint)
            )
            for each in alerts
        )
        return (
            writing,
            f"acknowledged for {duration(lasts_s, DurationStyle.NARROW)}: {named(alerts)}",
        )

    def _silencing(self, operator: OperatorActions) -> tuple[Writing, str]:
        """Return what writes what the form asks for, and the words for when that is done.

        Raises:
            ValueError: the duration is not one.
            ConfigError: matchers or reason are missing.
        """
        values, now_ns = self.silence_form.values, self._monitor.moment().time_ns
        lasts_s, why = parse_duration_s(values["for"]), values["why"]
        matchers = split_matchers(values["matchers"])
        parse_matchers(matchers)
        if not why:
            raise ConfigError(
                "comment: it is required, others read it before they expire the silence"
            )
        writing = operator.silence(matchers, now_ns=now_ns, lasts_s=lasts_s, why=why)
        return writing, f"silenced for {duration(lasts_s, DurationStyle.NARROW)}"

    def _preview(self) -> None:
        """Show what the silence in the form matches."""
        form = self.silence_form
        try:
            matchers = parse_matchers(split_matchers(form.values["matchers"]))
        except TrnfleetError as error:
            form.tell(plain(str(error)), is_problem=True)
            return
        form.tell(
            preview_text(
                preview(matchers, [each for each in self._monitor.alerts.active() if not each.cell])
            )
        )

    def _write(self, writing: Writing, done: str, form: Form | None = None) -> None:
        """Write in the background, then report the result, an error in the form where that has been open since."""
        opened = None if form is None else (form, form.openings)
        if opened is not None:
            self._being_written.add(opened)

        async def write() -> None:
            problem = ""
            try:
                await writing
            except TrnfleetError as error:
                problem = plain(str(error))
            finally:
                if opened is not None:
                    self._being_written.discard(opened)
            # One that was left meanwhile, and opened again, is about something else.
            still_open = (
                form
                if form is not None and form.is_open and opened == (form, form.openings)
                else None
            )
            if problem and still_open is not None:
                still_open.tell(problem, is_problem=True)
                return
            if still_open is not None:
                self._close(still_open)
            self.post_message(self.Reported(problem or done))

        self.run_worker(write(), name="write", exit_on_error=True)

    def _close(self, form: Form) -> None:
        form.close()
        self.post_message(self.Closed())


def cells_text(alerts: list[Alert]) -> str:
    """Return where alerts are to be acknowledged or silenced that are all of cells; empty where one is not."""
    if not all(alert.cell for alert in alerts):
        return ""
    return refused_in(", ".join(sorted({alert.cell for alert in alerts})))


def named(alerts: list[Alert]) -> str:
    """Return what alerts are called, of which there is at least one, in a few words."""
    first = alerts[0]
    name = plain(first.name)
    return (
        f"{name} at {where_text(first, 40)}"
        if len(alerts) == 1
        else f"{count(len(alerts))} alerts of {name}"
    )


def shared_matchers(alerts: list[Alert]) -> str:
    """Return matchers for alerts: of many, what their labels have in common; nothing for none."""
    subject = of_alerts(alerts)
    return "" if subject is None else subject.matchers


async def _each(writings: Iterable[Awaitable[object]]) -> None:
    for one in writings:
        await one
