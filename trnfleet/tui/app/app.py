"""The app: the screen with its keys, commands, palette and help.

The caller runs `monitor.run()` in the same loop, awaits `run_async()`, receives the signals and
passes them to `end`, and afterwards ends with `return_code`: 0 for `quit`, 143 after SIGTERM, 129
after SIGHUP, 131 after SIGQUIT, 1 after a crash (Textual prints the traceback and returns as if
nothing had happened).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widgets import Input

from trnfleet.tui.app.actions import ACTIONS, ActionsApp
from trnfleet.tui.app.commands import EVERYWHERE, TIME
from trnfleet.tui.app.palette import Palette, PaletteSource
from trnfleet.tui.bars.header import WORDS as HEADER_WORDS
from trnfleet.tui.bars.status import WORDS as STATUS_WORDS
from trnfleet.tui.help import HelpKey, HelpScreen, Section, sections, sign_section
from trnfleet.tui.playback.seek_bar import SIGNS
from trnfleet.tui.view import ALERTS, FLEET
from trnfleet.tui.views import VIEWS
from trnfleet.tui.widgets.targets import Pressed, TargetKind

if TYPE_CHECKING:
    from textual.binding import BindingType


class FleetApp(ActionsApp):
    """The whole screen, with keys and commands."""

    BINDINGS: ClassVar[list[BindingType]] = [action.binding for action in ACTIONS if action.key]

    @on(Pressed)
    def _pressed(self, message: Pressed) -> None:
        """Follow the target of a clicked text."""
        message.stop()
        kind, value = message.target
        if kind is TargetKind.VIEW:
            self.action_view(value)
        elif kind is TargetKind.PLACE:
            self.go(value, None if value else FLEET)
        elif kind is TargetKind.FLEET:
            self.show_fleet(value, ALERTS)
        elif kind is TargetKind.JOB:
            self.attempt(partial(self.commands.run, f"job {value}"))
        else:
            self.simulate_key(value)

    async def action_palette(self) -> None:
        """Open the command palette.

        A focused field is left first, so that it receives no keys.
        """
        if isinstance(self.focused, Input):
            self.say("Ctrl-p: leave this field first, by Enter or Esc")
            return
        await self.make_views()
        self.push_screen(Palette(PaletteSource(self).candidates()))

    async def action_help(self) -> None:
        """Open the help: keys of this view first, then everywhere, views, other views and signs."""
        await self.make_views()
        here: list[Section] = []
        everywhere: list[Section] = []
        others: list[Section] = []
        for section in sections(self.key_parts()):
            if section.title.startswith(self.view_title):
                here.append(section)
            elif section.title in {EVERYWHERE, TIME}:
                everywhere.append(section)
            else:
                others.append(section)
        everywhere.insert(1, Section("Views", [HelpKey(entry.key, entry.title) for entry in VIEWS]))
        without_key = (action for action in self.commands.all if not action.key + action.like)
        typed = [HelpKey(f":{action.names[0]}", action.what) for action in without_key]
        everywhere.insert(2, Section("Commands without a key", typed))
        signs = [
            sign_section("In the header", HEADER_WORDS),
            sign_section("In the status line", STATUS_WORDS),
        ]
        if self.playback is not None:
            signs.append(sign_section("On the time bar", SIGNS))
        self.push_screen(HelpScreen([*here, *everywhere, *others, *signs]))
