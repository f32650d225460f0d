"""What the keys of playback do: seek, pause, change the rate, save.

They send requests to the playback, and prompt for times and file names. Without a playback they
only show the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.screen import ModalScreen
from textual.widgets import Input

from trnfleet.clock import NS_PER_S, format_basic
from trnfleet.domain.moments import find_moment, is_move
from trnfleet.errors import TrnfleetError
from trnfleet.text import plain
from trnfleet.tui.app.screen import FleetScreen
from trnfleet.tui.keys import key_label
from trnfleet.tui.playback.seek_bar import SeekBar
from trnfleet.tui.playback.time_input import UNDERSTOOD, parse_time
from trnfleet.tui.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.monitor.replay.controls import Playback


AFTER_S = 1.0
"""Seconds after an alert or event until its messages have arrived; they need less."""
ALERTS_ALONE = ("alert",)
ANY = ("alert", "resolved", "event")
CHARTS_ALONE = (
    "charts reach back to it now; history has minutes, and no chips by the second to go back to"
)
NO_PLAYBACK = "nothing is recorded (--past 0)"


class TimeKeys(FleetScreen):
    """A screen that moves in time."""

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys to dialogues, and End to lists where playback is at its end."""
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

    def _playback_or_note(self) -> Playback | None:
        """Return the playback; without one, show a note and return None."""
        if self.playback is None:
            self.say(NO_PLAYBACK)
        return self.playback

    def _control(self, control: Callable[[Playback], object]) -> None:
        """Control the playback, or say that there is none."""
        playback = self._playback_or_note()
        if playback is not None:
            control(playback)
            self._show_request()

    def action_time_step(self, seconds: float) -> None:
        self._control(lambda playback: playback.step(seconds))

    def action_time_nudge(self, seconds: float) -> None:
        """Step, and pause there."""
        playback = self._playback_or_note()
        if playback is not None and (playback.shows_past or seconds < 0):
            playback.pause()
            playback.step(seconds)
            self._show_request()

    def action_time_toggle(self) -> None:
        self._control(lambda playback: playback.toggle())

    def action_time_rate(self, direction: int) -> None:
        """Play slower or faster; the present has no rate."""
        playback = self._playback_or_note()
        if playback is None:
            return
        if not playback.shows_past:
            self.say(f"live has no rate; {key_label('back-10s')} goes back 10 s")
            return
        if direction < 0:
            playback.slower()
        else:
            playback.faster()
        self._show_request()

    def action_time_alert(self, direction: int) -> None:
        """Go to the previous or next alert."""
        self._go_to_mark(ALERTS_ALONE, direction)

    def action_time_mark(self, direction: int) -> None:
        """Go to the previous or next mark."""
        self._go_to_mark(ANY, direction)

    def _go_to_mark(self, kinds: tuple[str, ...], direction: int) -> None:
        playback = self._playback_or_note()
        if playback is None:
            return
        # Between the last place that was scanned and where one looks there may be more.
        until_ns = playback.end_ns if direction > 0 else playback.position_ns
        is_scanning = not playback.is_live_possible and playback.surveyed_ns < until_ns
        is_there = playback.next_mark(kinds, direction)
        self._show_request()
        what = "alert" if kinds == ALERTS_ALONE else "mark"
        so_far = " so far: the recording is still being scanned" if is_scanning else ""
        if not is_there:
            self.say(f"no {'earlier' if direction < 0 else 'later'} {what} is known{so_far}")
        elif is_scanning and direction < 0:
            self.say(f"the last {what} known{so_far}")

    def action_time_end(self) -> None:
        """Go to the present, or to a file's end."""
        if self.playback is not None:
            self.playback.go_live_or_end()
            self._show_request()

    def action_time_start(self) -> None:
        self._control(lambda playback: playback.go_start())

    def action_time_loop(self) -> None:
        playback = self._playback_or_note()
        if playback is None:
            return
        if playback.is_live_possible:
            self.say("only a recording can loop; the recorded past ends with live")
            return
        playback.toggle_loop()
        self._show_request()
        self.say("loops at the end" if playback.loops else "stops at the end")

    def action_time_ask(self) -> None:
        """Prompt for a time."""
        if self._playback_or_note() is not None:
            self.ask_line.ask(
                "go to", self._answer_time, hint=UNDERSTOOD, key=key_label("go-to-time")
            )

    def action_time_save(self) -> None:
        """Prompt for the name of a file to save the recorded past to."""
        playback = self._playback_or_note()
        if playback is None:
            return
        if not playback.is_live_possible:
            self.say("this is a recording already; `trnfleet convert` converts it")
            return
        self.ask_line.ask(
            "save as",
            self._answer_file,
            value=default_name(self.monitor.fleet_name, playback.end_ns),
        )

    # Answers

    def _answer_time(self, text: str) -> None:
        playback = self.playback
        if playback is not None and text:
            try:
                self._seek_typed(playback, text)
            except ValueError as error:
                if not self._show_in_charts(text):
                    self.ask_line.refuse(plain(str(error)))
                    return
        self.leave_prompt()

    def _seek_typed(self, playback: Playback, text: str) -> None:
        """Go to a typed time.

        Raises:
            ValueError: No time, or not within reach.
        """
        playback.seek(parse_time(text, playback.position_ns, playback.start_ns, playback.end_ns))
        self._show_request()

    def _answer_file(self, text: str) -> None:
        playback = self.playback
        if playback is not None and text:
            try:
                path = free_path(text)
            except ValueError as error:
                self.ask_line.refuse(plain(str(error)))
                return
            self._save(playback, path)
        self.leave_prompt()

    def _show_in_charts(self, text: str) -> bool:
        """Widen charts back to a time out of playback's reach; return success.

        Success means history has that time. History files have the fleet's own time, whatever its
        speed; the recorder has the wall clock's.
        """
        context = self.seek_bar.shown
        reach = None if context is None or context.history is None else context.history.reach
        if context is None or reach is None or is_move(text):
            return False
        now_ns = context.monitor.moment().time_ns
        try:
            time_ns = find_moment(text, reach.first_ns, now_ns, here_ns=now_ns)
        except ValueError:
            return False
        if not self.widen_charts(time_ns):
            return False
        self.say(f"{text}: {CHARTS_ALONE}")
        return True

    def _save(self, playback: Playback, path: Path) -> None:
        async def save() -> None:
            try:
                messages = await playback.save(path)
            except (TrnfleetError, OSError) as error:
                self.say(f"not saved: {error}", is_problem=True)
            else:
                self.say(f"saved {messages:,} messages to {path}")

        self.say(f"saving {path} …")
        self.run_worker(save(), name="save", exit_on_error=True)

    # Requests from elsewhere on the screen

    @on(SeekBar.Sought)
    def _sought(self, message: SeekBar.Sought) -> None:
        message.stop()
        playback = self.playback
        if playback is not None:
            if message.is_end:
                playback.go_live_or_end()
            else:
                playback.seek(message.time_ns)
            self._show_request()

    @on(View.GoTo)
    def _moment_asked(self, message: View.GoTo) -> None:
        message.stop()
        playback = self.playback
        place_ns = None if playback is None else playback.moment_of(message.fleet_ns)
        if (playback is None or place_ns is None) and self.widen_charts(message.fleet_ns):
            self.say(CHARTS_ALONE)
            return
        if playback is None or place_ns is None:
            is_live = playback is not None and playback.is_live_possible
            missing = (
                "no history of that moment" if is_live else "that moment is not in this recording"
            )
            self.say(NO_PLAYBACK if playback is None else missing)
            return
        playback.seek(place_ns + round(AFTER_S * NS_PER_S))
        playback.pause()
        self._show_request()
        keys = f"{key_label('pause')} plays on, {key_label('back-10s')} goes back 10 s"
        self.say(f"paused where it has just happened; {keys}")

    def _show_request(self) -> None:
        """Render a request, and the playback's note on it instead of any other."""
        self._shown_note = ""
        self.clear_note()
        self.follow_playback()
        self.paint_bars()


def free_path(name: str) -> Path:
    """Return the path of a file to create.

    Raises:
        ValueError: the file exists, or the name is impossible.
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
    """Return a file name for the recorded past of a fleet."""
    return f"trnfleet-{re.sub(r'[^A-Za-z0-9._-]+', '-', fleet)[:60] or 'fleet'}-{format_basic(time_ns)}.mcap"  # noqa: E501
