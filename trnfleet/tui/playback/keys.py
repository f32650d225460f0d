"""The keys that go back and forth in time, as an app has them that was given a playback; without one they do nothing.

It wishes of the playback and asks for times and names of files. What is painted is the app's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.replay.playback import Mode
from trnfleet.text import plain
from trnfleet.tui.playback.seek_bar import SeekBar
from trnfleet.tui.playback.time_input import UNDERSTOOD, parse_time
from trnfleet.tui.view import View
from trnfleet.tui.widgets.prompt import AskLine

if TYPE_CHECKING:
    from trnfleet.monitor.replay.playback import Playback

LEAD_S = 5.0
"""Seconds before an alert's or event's moment from which it is shown, so that one sees it come."""
NOTE_S = 8.0
"""Seconds for which something is said in the status line."""
TIME, FILE = "go to", "save as"
"""What is asked for."""
ALERTS_ALONE = ("alert",)
ANY = ("alert", "resolved", "event")
NO_PLAYBACK = "nothing is recorded here (--past 0), so there is no going back"


class TimeKeys(App[None]):
    """An app that can go back in time; subclasses paint what `repaint_time` asks for."""

    HELP_TITLE = "Time"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "time_step(-10)", "10 s back"),
        Binding("right_square_bracket", "time_step(10)", "10 s forth"),
        Binding("left_curly_bracket", "time_step(-60)", "one minute back"),
        Binding("right_curly_bracket", "time_step(60)", "one minute forth"),
        Binding("comma", "time_nudge(-1)", "one second back, and pause"),
        Binding("full_stop", "time_nudge(1)", "one second forth, and pause"),
        Binding("space", "time_toggle", "pause, or go on"),
        Binding("less_than_sign", "time_rate(-1)", "slower"),
        Binding("greater_than_sign", "time_rate(1)", "faster"),
        Binding("left_parenthesis", "time_alert(-1)", "previous alert"),
        Binding("right_parenthesis", "time_alert(1)", "next alert"),
        Binding("ctrl+left", "time_mark(-1)", "previous alert, resolve or event"),
        Binding("ctrl+right", "time_mark(1)", "next alert, resolve or event"),
        Binding("at", "time_ask", "go to a time: 14:03, -5m, +30s"),
        Binding("end", "time_end", "back to the present, or to a file's end", priority=True),
        Binding("ctrl+home", "time_start", "the begin of what is kept"),
        Binding("L", "time_loop", "begin anew at the end, or don't"),
        Binding("W", "time_save", "save what is kept as a recording"),
    ]

    playback: Playback | None = None
    """What goes back in time; None where nothing is kept."""
    note = ""
    """Said in the status line for a while."""
    is_problem = False
    """Whether it is about something that went wrong."""

    def __init__(self, playback: Playback | None) -> None:
        super().__init__()
        self.playback = playback
        self.seek_bar = SeekBar(playback, id="seek")
        self.ask_line = AskLine(id="ask")
        self._heard = ""
        """What the playback said last."""

    # What subclasses do

    def repaint_time(self) -> None:
        """Show at once what a key or the pointer has changed of the playback."""

    def tell(self, note: str, *, is_problem: bool = False) -> None:
        """Say something in the status line for a while; printable characters only."""
        self.note, self.is_problem = note, is_problem

    def untell(self) -> None:
        """Say no more what is being said."""
        self.note, self.is_problem = "", False

    def focus_page(self) -> None:
        """Give the keys back to the view."""

    @property
    def fleet_name(self) -> str:
        """The fleet's name, for a file's."""
        return ""

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Say that End is the lists' where there is nothing to go back to, and that dialogues have time's keys to themselves."""
        del parameters
        if not action.startswith("time_"):
            return True
        playback = self.playback
        if isinstance(self.screen, ModalScreen):
            return False
        if action == "time_end":
            if playback is None:
                return False
            is_there = not playback.is_live_possible and playback.position_ns >= playback.end_ns
            return playback.shows_past and not is_there and not isinstance(self.focused, Input)
        return True

    def _asked_playback(self) -> Playback | None:
        """Return what goes back in time; where there is none, say so."""
        if self.playback is None:
            self._say(NO_PLAYBACK)
        return self.playback

    def action_time_step(self, seconds: float) -> None:
        """Go back or forth."""
        playback = self._asked_playback()
        if playback is not None:
            playback.step(seconds)
            self._wished()

    def action_time_nudge(self, seconds: float) -> None:
        """Go back or forth and stand still there."""
        playback = self._asked_playback()
        if playback is not None and (playback.shows_past or seconds < 0):
            playback.pause()
            playback.step(seconds)
            self._wished()

    def action_time_toggle(self) -> None:
        """Pause, or go on."""
        playback = self._asked_playback()
        if playback is not None:
            playback.toggle()
            self._wished()

    def action_time_rate(self, direction: int) -> None:
        """Play slower or faster; the present goes at its own pace."""
        playback = self._asked_playback()
        if playback is None:
            return
        if not playback.shows_past:
            self._say("the present goes at its own pace; [ goes back")
            return
        if direction < 0:
            playback.slower()
        else:
            playback.faster()
        self._wished()

    def action_time_alert(self, direction: int) -> None:
        """Go to the previous or next alert."""
        self._go_to_mark(ALERTS_ALONE, direction)

    def action_time_mark(self, direction: int) -> None:
        """Go to whatever happened before or after this."""
        self._go_to_mark(ANY, direction)

    def _go_to_mark(self, kinds: tuple[str, ...], direction: int) -> None:
        playback = self._asked_playback()
        if playback is None:
            return
        is_there = playback.next_mark(kinds, direction)
        self._wished()
        if not is_there:
            what = "alert" if kinds == ALERTS_ALONE else "mark"
            is_looking = (
                direction > 0 and not playback.is_live_possible and playback.surveyed_ns < playback.end_ns
            )
            so_far = " so far: the recording is still being looked through" if is_looking else ""
            self._say(f"no {'earlier' if direction < 0 else 'later'} {what} is known{so_far}")

    def action_time_end(self) -> None:
        """Go back to the present, or to a file's end."""
        if self.playback is not None:
            self.playback.go_live_or_end()
            self._wished()

    def action_time_start(self) -> None:
        """Go to the begin of what is kept."""
        playback = self._asked_playback()
        if playback is not None:
            playback.go_start()
            self._wished()

    def action_time_loop(self) -> None:
        """Begin anew at the end, or don't."""
        playback = self._asked_playback()
        if playback is None:
            return
        if playback.is_live_possible:
            self._say("what is kept ends with the present; only a recording begins anew")
            return
        playback.toggle_loop()
        self._wished()
        self._say("begins anew at the end" if playback.loops else "stops at the end")

    def action_time_ask(self) -> None:
        """Ask for a time."""
        if self._asked_playback() is not None:
            self.ask_line.ask(TIME, hint=UNDERSTOOD)

    def action_time_save(self) -> None:
        """Ask under what name what is kept is to be saved."""
        playback = self._asked_playback()
        if playback is None:
            return
        if not playback.is_live_possible:
            self._say("this is a recording already; `trnfleet convert` makes others of it")
            return
        self.ask_line.ask(FILE, value=default_name(self.fleet_name, playback.end_ns))

    # Answers

    @on(AskLine.Left)
    def _left(self) -> None:
        self.ask_line.close()
        self.focus_page()

    @on(AskLine.Answered)
    def _answered(self, message: AskLine.Answered) -> None:
        message.stop()
        playback, text = self.playback, message.text
        if playback is None or not text:
            self._left()
            return
        try:
            if message.asked == FILE:
                self._save(playback, free_path(text))
            else:
                playback.seek(parse_time(text, playback.position_ns, playback.start_ns, playback.end_ns))
                self._wished()
        except ValueError as error:
            self._say(str(error), is_problem=True)
        else:
            self._left()

    def _save(self, playback: Playback, path: Path) -> None:
        async def save() -> None:
            try:
                messages = await playback.save(path)
            except (TrnfleetError, OSError) as error:
                self._say(f"not saved: {error}", is_problem=True)
            else:
                self._say(f"saved {messages:,} messages to {path}")

        self._say(f"saving {path} …")
        self.run_worker(save(), name="save", exit_on_error=True)

    # Wishes from elsewhere on the screen

    @on(SeekBar.Sought)
    def _sought(self, message: SeekBar.Sought) -> None:
        message.stop()
        playback = self.playback
        if playback is not None:
            if message.is_end:
                playback.go_live_or_end()
            else:
                playback.seek(message.time_ns)
            self._wished()

    @on(View.GoTo)
    def _moment_asked(self, message: View.GoTo) -> None:
        message.stop()
        playback = self.playback
        place_ns = None if playback is None else playback.moment_of(message.fleet_ns)
        if playback is None or place_ns is None:
            where = "kept" if playback is not None and playback.is_live_possible else "in this recording"
            self._say(NO_PLAYBACK if playback is None else f"that moment is not {where}")
            return
        playback.seek(max(playback.start_ns, place_ns - round(LEAD_S * NS_PER_S)))
        if playback.mode is Mode.PAUSED:
            playback.play()
        self._wished()

    def _wished(self) -> None:
        """Say what the playback says to a wish instead of what was said before, and show where it is going."""
        self._heard = ""
        self.untell()
        self.follow_playback()
        self.repaint_time()

    def _say(self, note: str, *, is_problem: bool = False) -> None:
        """Say something at once, whatever characters are in it."""
        self.tell(plain(note), is_problem=is_problem)
        self.repaint_time()

    def follow_playback(self) -> None:
        """Say what the playback says, once."""
        note = "" if self.playback is None else self.playback.note
        if note != self._heard:
            self._heard = note
            if note:
                self.tell(plain(note))


def free_path(name: str) -> Path:
    """Return the path of a file that is to be made.

    Raises:
        ValueError: it is there already, or no file can have that name.
    """
    try:
        path = Path(name).expanduser()
        path.lstat()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
    raise ValueError(f"{path} is there already, and nothing is overwritten")


def default_name(fleet: str, time_ns: int) -> str:
    """Return the name of a file for what is kept of a fleet."""
    stamp = re.sub(r"[-:]", "", format_rfc3339(time_ns)[:19])
    return f"trnfleet-{re.sub(r'[^A-Za-z0-9._-]+', '-', fleet)[:60] or 'fleet'}-{stamp}Z.mcap"
