"""Actions, and their typed commands: completion, and the nearest name for a typo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from textual.suggester import Suggester

from trnfleet.errors import ConfigError, nearest
from trnfleet.tui.keys import bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.binding import Binding

EVERYWHERE = "Everywhere"
TIME = "Time"
"""Sections of the help."""


class Action(NamedTuple):
    """Something to do by a key, by a typed command, or by both."""

    name: str = ""
    """The method after `action_`, with its arguments, as Textual calls it."""
    key: str = ""
    """Name of its key in `KEYS`, or a fixed key by Textual's name."""
    words: str = ""
    """What the key does."""
    names: tuple[str, ...] = ()
    """The command, then others that mean the same."""
    what: str = ""
    """What the command does."""
    run: Callable[[Any, str], object] | None = None
    """Runs the command in an app, with its argument. Raises ConfigError for an invalid one. None to
    do what the key does."""
    choices: Callable[[Any], Iterable[str]] | None = None
    """Returns the possible arguments, the most usual first. None for a command without an argument
    or with a free one."""
    needs: str = ""
    """The required argument in words. Empty if none is required."""
    like: str = ""
    """Name of the key with the same effect, if it is a view's or another action's."""
    is_of_fleet: bool = False
    """Whether `choices` are names in the fleet, possibly many thousands."""
    takes_several: bool = False
    """Whether the argument is several of `choices`, with spaces between."""
    is_first: bool = False
    """Whether the key comes before those of the focused widget."""

    @property
    def section(self) -> str:
        """Title of its keys in the help."""
        return TIME if self.name.startswith("time_") else EVERYWHERE

    @property
    def binding(self) -> Binding:
        """Return the key as Textual declares it."""
        return bind(self.key, self.name, self.words, priority=self.is_first)

    def typed(self, app: Any, text: str) -> object:
        """Run the command with its argument."""
        if self.run is None:
            return app.call_later(app.run_action, self.name)
        return self.run(app, text)

    def fitting(self, app: Any, text: str, most: int) -> list[str]:
        """Return the arguments that contain a text, at most `most`.

        Arguments that begin with it come first, each group in the order of `choices`.
        """
        return [] if self.choices is None else having(text, self.choices(app), most)


class TypedCommands:
    """The commands of an app."""

    def __init__(self, app: Any, actions: Iterable[Action]) -> None:
        self._app = app
        self.all = tuple(action for action in actions if action.names)
        self._by_name = {name: action for action in self.all for name in action.names}

    def run(self, text: str) -> None:
        """Run a typed command.

        Raises:
            ConfigError: Unknown command or invalid argument. The message names the nearest.
        """
        name, _, rest = text.strip().removeprefix(":").partition(" ")
        command = self._by_name.get(name.lower())
        if command is None:
            near = nearest(name.lower(), self._by_name)
            # The prompt lists all of them.
            raise ConfigError(
                f'no command "{name}"' + (f": {near}" if "did you mean" in near else "")
            )
        command.typed(self._app, rest.strip())

    def complete(self, text: str) -> str | None:
        """Return the first command, with argument, that begins with the typed text.

        None without a match.
        """
        name, space, rest = text.partition(" ")
        if not space:
            return next(
                (known for known in self._by_name if known.startswith(name.lower()) and name), None
            )
        command = self._by_name.get(name.lower())
        if command is None or not rest:
            return None
        if command.takes_several:
            before, _, rest = rest.rpartition(" ")
            name = f"{name} {before}".rstrip()
        choice = next(iter(command.fitting(self._app, rest, 1)), "") if rest else ""
        # A field can only append, so a name with the text elsewhere is of no use.
        return f"{name} {choice}" if choice.lower().startswith(rest.lower()) and choice else None


class CommandSuggester(Suggester):
    """Completion for the command field."""

    def __init__(self, commands: TypedCommands) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._commands = commands

    async def get_suggestion(self, value: str) -> str | None:
        return self._commands.complete(value)


def having(text: str, names: Iterable[str], most: int) -> list[str]:
    """Return the names that contain a text, ignoring case.

    Names that begin with it come first, each group in the order of `names`.
    """
    needle = text.lower()
    first: list[str] = []
    others: list[str] = []
    for name in names:
        lower = name.lower()
        if lower.startswith(needle):
            first.append(name)
            if len(first) == most:
                break
        elif len(others) < most and needle in lower:
            others.append(name)
    return [*first, *others][:most]


def checked(what: str, value: str, choices: Iterable[str]) -> str:
    """Return a choice, ignoring case.

    Raises:
        ConfigError: Not one of the choices.
    """
    known = list(choices)
    choice = next((option for option in known if option.lower() == value.lower()), None)
    if choice is None:
        raise ConfigError(f"{what} {value!r}: {nearest(value, known)}")
    return choice
