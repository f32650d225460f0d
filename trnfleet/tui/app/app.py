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
from textual.binding import BindingsMap
from textual.widget import Widget
from textual.widgets import Input

from trnfleet.errors import ConfigError, nearest
from trnfleet.text import plain
from trnfleet.tui.app.actions import ACTIONS, ActionsApp
from trnfleet.tui.app.commands import EVERYWHERE, TIME
from trnfleet.tui.app.palette import Palette, PaletteSource
from trnfleet.tui.bars.header import WORDS as HEADER_WORDS
from trnfleet.tui.bars.status import WORDS as STATUS_WORDS
from trnfleet.tui.help import HelpKey, HelpScreen, Section, bindings_of, sections, sign_section
from trnfleet.tui.keys import KEYS, bind, key_label, key_text, parsed
from trnfleet.tui.playback.seek_bar import SIGNS
from trnfleet.tui.view import ALERTS, FLEET
from trnfleet.tui.views import VIEWS
from trnfleet.tui.widgets.targets import Pressed, TargetKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from textual.binding import Binding, BindingType


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
            self.say(f"{key_label('palette')}: leave this field first, by Enter or Esc")
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


def checked_keys(given: Mapping[str, tuple[str, object]]) -> dict[str, str]:
    """Return the keys of settings files by the names of actions, as Textual spells them.

    Args:
        given: File and value by name.

    Raises:
        ConfigError: an unknown action or key, or a key that is not free.
    """
    keys: dict[str, str] = {}

    def refuse(name: str, why: str) -> ConfigError:
        file, value = given[name]
        return ConfigError(f"{file}: [keys] {name} = {plain(repr(value), 60)}: {why}")

    for name, (file, value) in given.items():
        if name not in KEYS:
            raise ConfigError(f"{file}: [keys] {name!r}: no such action: {nearest(name, KEYS)}")
        try:
            keys[name] = parsed(value)
        except ConfigError as error:
            raise refuse(name, str(error)) from None
    used = {key for own in (KEYS | keys).values() for key in own.split(",")}
    free = next(f"; F{number} is free" for number in range(2, 99) if f"f{number}" not in used)
    typed = {"space", *BindingsMap(Input.BINDINGS).key_to_bindings}
    everywhere = [*(action.binding for action in ACTIONS if action.key), bind("enter", "enter")]
    for title, bindings in [("every view", []), *keys_of_views()]:
        owners: dict[str, Binding] = {}
        for binding in (*everywhere, *bindings):
            name = binding.id or ""
            shipped = binding.key.split(",")
            for key in keys.get(name, binding.key).split(","):
                if (
                    binding.priority
                    and key not in shipped
                    and (len(key_text(key)) == 1 or key in typed)
                ):
                    raise refuse(name, f"{key_text(key)} is needed for typing{free}")
                owner = owners.setdefault(key, binding)
                is_new = key not in shipped or key not in owner.key.split(",")
                if is_new and owner.id != name and owner.action != binding.action:
                    new, old = (name, owner.id) if key not in shipped else (owner.id, name)
                    whose = f"the key of {old} in {title}" if old in KEYS else "a fixed key"
                    raise refuse(new or "", f"{key_text(key)} is {whose}{free}")
    return keys


def keys_of_views() -> Iterator[tuple[str, list[Binding]]]:
    """Yield the title of each view with its keys, then those of its widgets."""
    for entry in VIEWS:
        view = entry.kind()
        room = view.__module__.rpartition(".")[0]
        kinds = [kind for kind in _kinds(Widget) if kind.__module__.startswith(f"{room}.")]
        kinds.sort(key=lambda kind: (not issubclass(kind, view), kind.__module__, kind.__name__))
        yield entry.title, [binding for kind in kinds for binding in bindings_of(kind)]


def _kinds(base: type[Widget]) -> Iterator[type[Widget]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)
