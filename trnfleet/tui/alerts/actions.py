"""Acknowledge and silence: the forms, their preview, and the removal of either.

`OperatorActions` writes in the background, and the result counts when it comes back. The owner
hands over the alerts and shows the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Vertical
from textual.message import Message

from trnfleet.domain.alerts.matchers import parse_matchers, split_matchers
from trnfleet.domain.alerts.reach import preview
from trnfleet.domain.durations import parse_duration_s
from trnfleet.domain.quantities import DurationStyle, count, duration
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.monitor.alerting.operator import READ_ONLY, OperatorActions, refused_in
from trnfleet.monitor.problems.state import known_of
from trnfleet.text import plain
from trnfleet.tui.format.alerts import preview_text, where_text
from trnfleet.tui.keys import key_label
from trnfleet.tui.state.subjects import of_alerts
from trnfleet.tui.widgets.form import EntryForm, FieldSpec
from trnfleet.tui.widgets.prompt import AskLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable

    from textual.app import ComposeResult

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.tui.state.context import UiContext

    Writing = Coroutine[Any, Any, object]

ACK_FOR = "2h"
SILENCE_FOR = "4h"
"""Default durations."""
MOST_AT_ONCE = 200
"""Most alerts per acknowledgement: each is a message."""
PAST = "this is the past: return to live to acknowledge or silence alerts"
RECORDED = "this is a recording: its alerts cannot be acknowledged or silenced"


class AlertActions(Vertical):
    """The two forms, at most one of them open, and their writes."""

    DEFAULT_CSS = "AlertActions { height: auto; }"

    @dataclass
    class Reported(Message):
        """The result of a write."""

        note: str
        """Printable characters only."""

    class Closed(Message):
        """A form was closed.

        The list has the focus again.
        """

    def __init__(self, context: UiContext) -> None:
        super().__init__()
        self.context = context
        self._monitor = context.monitor
        self.ack_form = EntryForm(
            [
                [
                    FieldSpec("note", "note", "for others (optional)"),
                    FieldSpec("for", "for", ACK_FOR, 8),
                ]
            ]
        )
        self.silence_form = EntryForm(
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
        self.refused = AskLine(self._dismiss)
        self._subjects: list[Alert] = []
        """The alerts to acknowledge, as they were when the form was opened."""
        self._being_written: set[tuple[EntryForm, int]] = set()
        """Forms, and their opening number, without an answer from the broker. A second Enter would
        write the same again."""

    def compose(self) -> ComposeResult:
        """Put the forms below each other."""
        yield self.ack_form
        yield self.silence_form
        yield self.refused

    @property
    def is_open(self) -> bool:
        """Whether a form is on screen.

        It then has the focus.
        """
        return self.ack_form.is_open or self.silence_form.is_open or self.refused.is_open

    # What people ask for

    def acknowledge(self, alerts: list[Alert]) -> str:
        """Open the acknowledgement form.

        Return the reason if refused, empty if opened.
        """
        if self.refusal:
            return self._refuse()
        firing = [alert for alert in alerts if alert.is_active and alert.fired_ns is not None]
        if firing and (cells := cells_text(firing)):
            return cells
        firing = [alert for alert in firing if not alert.cell]
        if not firing:
            return "nothing to acknowledge: the alert is not firing"
        if len(firing) > MOST_AT_ONCE:
            most = f"{count(len(firing))} alerts: at most {MOST_AT_ONCE} at once"
            return f"{most}; {key_label('silence')} silences them all"
        self._subjects = firing
        self.silence_form.close()
        self.ack_form.open(f"Acknowledge {named(firing)}", {"for": ACK_FOR}, "note")
        return ""

    def silence(self, alerts: list[Alert], matchers: str = "") -> str:
        """Open the silence form.

        Return the reason if refused, empty if opened.

        Args:
            alerts: Alerts to silence. Empty for a silence from scratch.
            matchers: Initial matchers without alerts.
        """
        if self.refusal:
            return self._refuse()
        if alerts and (cells := cells_text(alerts)):
            return cells
        subject = of_alerts(self.context.alerts, alerts)
        matchers = matchers if subject is None else subject.matchers
        values = {"matchers": matchers, "for": SILENCE_FOR}
        self.ack_form.close()
        self.silence_form.open("Silence", values, "why" if matchers else "matchers")
        self._preview()
        return ""

    def withdraw(self, alerts: list[Alert]) -> str:
        """Remove acknowledgements.

        Return the reason if refused, empty if started.
        """
        operator = self.context.operator
        if self.refusal or operator is None:
            return self.refusal
        if alerts and (cells := cells_text(alerts)):
            return cells
        silences = self._monitor.alerts.silences
        acks = (silences.ack(alert.fingerprint) for alert in alerts)
        acked = [ack for ack in acks if ack is not None]
        if not acked:
            return "not acknowledged"
        self._write(
            _in_turn(operator.withdraw_ack(ack) for ack in acked[:MOST_AT_ONCE]), "unacknowledged"
        )
        return ""

    def end(self, silence: Silence) -> str:
        """End a silence.

        Return the reason if refused, empty if started.
        """
        operator = self.context.operator
        if not self.refusal and operator is not None:
            self._write(operator.expire(silence), "silence expired")
        return self.refusal

    def _refuse(self) -> str:
        """Show why nothing can be written, above a field for the keys typed as a note."""
        self.refused.ask("not sent", self._dismiss)
        self.refused.refuse(self.refusal)
        return ""

    def _dismiss(self, _note: str = "") -> None:
        self.refused.close()
        self.post_message(self.Closed())

    @property
    def refusal(self) -> str:
        """The reason why nothing can be written now; empty for none."""
        playback = self.context.playback
        operator = self.context.operator
        if playback is not None and playback.shows_past:
            return PAST if playback.is_live_possible else RECORDED
        return "" if operator is not None and operator.can_write else READ_ONLY

    # What the forms say

    @on(EntryForm.Changed)
    def _typed(self, event: EntryForm.Changed) -> None:
        event.stop()
        if event.form is self.silence_form:
            self._preview()
        else:
            event.form.tell("")

    @on(EntryForm.Left)
    def _left(self, event: EntryForm.Left) -> None:
        event.stop()
        self._close(event.form)

    @on(EntryForm.Submitted)
    def _submitted(self, event: EntryForm.Submitted) -> None:
        event.stop()
        form = event.form
        operator = self.context.operator
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
        """Return the write for the acknowledgement form, and the note for its success.

        Raises:
            ValueError: Invalid duration.
        """
        values = self.ack_form.values
        now_ns = self._monitor.moment().time_ns
        alerts = self._subjects
        lasts_s = parse_duration_s(values["for"])
        note = values["note"]
        revision = self._monitor.alerts.silences.next_ack_revision
        writing = _in_turn(
            operator.acknowledge(
                alert,
                now_ns=now_ns,
                lasts_s=lasts_s,
                note=note,
                revision=revision(alert.fingerprint),
            )
            for alert in alerts
        )
        return (
            writing,
            f"acknowledged for {duration(lasts_s, DurationStyle.NARROW)}: {named(alerts)}",
        )

    def _silencing(self, operator: OperatorActions) -> tuple[Writing, str]:
        """Return the write for the silence form, and the note for its success.

        Raises:
            ValueError: Invalid duration.
            ConfigError: Matchers or reason are missing.
        """
        values = self.silence_form.values
        now_ns = self._monitor.moment().time_ns
        lasts_s = parse_duration_s(values["for"])
        why = values["why"]
        matchers = split_matchers(values["matchers"])
        parse_matchers(matchers)
        if not why:
            raise ConfigError(
                "comment: it is required, others read it before they expire the silence"
            )
        writing = operator.silence(matchers, now_ns=now_ns, lasts_s=lasts_s, why=why)
        return writing, f"silenced for {duration(lasts_s, DurationStyle.NARROW)}"

    def _preview(self) -> None:
        """Show the matches of the silence in the form."""
        form = self.silence_form
        try:
            matchers = parse_matchers(split_matchers(form.values["matchers"]))
        except TrnfleetError as error:
            form.tell(plain(str(error)), is_problem=True)
            return
        alerts = self._monitor.alerts
        effect = preview(matchers, known_of(self._monitor, alerts.active(), alerts.rules))
        form.tell(preview_text(effect), is_problem=bool(effect.doubts))

    def _write(self, writing: Writing, done: str, form: EntryForm | None = None) -> None:
        """Write in the background and report the result.

        An error is shown in the form if it has been open since.
        """
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

    def _close(self, form: EntryForm) -> None:
        form.close()
        self.post_message(self.Closed())


def cells_text(alerts: list[Alert]) -> str:
    """Return where to acknowledge or silence alerts of cells.

    Empty if any alert is not of a cell.
    """
    if not all(alert.cell for alert in alerts):
        return ""
    return refused_in(", ".join(sorted({alert.cell for alert in alerts})))


def named(alerts: list[Alert]) -> str:
    """Return a short name for one or more alerts."""
    first = alerts[0]
    name = plain(first.name)
    return (
        f"{name} at {where_text(first, 40)}"
        if len(alerts) == 1
        else f"{count(len(alerts))} alerts of {name}"
    )


async def _in_turn(writings: Iterable[Awaitable[object]]) -> None:
    for one in writings:
        await one
