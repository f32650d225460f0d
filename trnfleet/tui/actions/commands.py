"""Typed commands: their names, what may follow them, how they are completed, and the nearest one where there is none of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.suggester import Suggester

from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Command(NamedTuple):
    """A command."""

    names: tuple[str, ...]
    """Its name, then others that mean the same."""
    what: str
    run: Callable[[str], object]
    """Does it with what follows the name; raises ConfigError where that makes no sense."""
    choices: Callable[[], Iterable[str]] | None = None
    """Returns what may follow, the most usual first; None for commands after which nothing follows or anything."""
    key: str = ""
    """The key that does the same."""
    needs: str = ""
    """What has to follow the name, in words; empty where nothing has to."""
    is_of_fleet: bool = False
    """Whether `choices` are names that the fleet has, of which there may be many thousands."""

    def fitting(self, text: str, most: int) -> list[str]:
        """Return what may follow that has a text: first what begins with it, each in the order of `choices`."""
        return [] if self.choices is None else having(text, self.choices(), most)


class Commands:
    """The commands of an app."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.all = tuple(commands)
        self._by_name = {name: each for each in self.all for name in each.names}

    def run(self, text: str) -> None:
        """Do what was typed.

        Raises:
            ConfigError: there is no such command, or what follows it makes no sense; the message names the nearest.
        """
        name, _, rest = text.strip().removeprefix(":").partition(" ")
        command = self._by_name.get(name.lower())
        if command is None:
            raise ConfigError(f":{name} is no command: {nearest(name.lower(), self._by_name)}")
        command.run(rest.strip())

    def complete(self, text: str) -> str | None:
        """Return the first command, with what follows it, that begins with what was typed; None for none."""
        name, space, rest = text.partition(" ")
        if not space:
            return next(
                (known for known in self._by_name if known.startswith(name.lower()) and name), None
            )
        command = self._by_name.get(name.lower())
        if command is None or not rest:
            return None
        found = next(iter(command.fitting(rest, 1)), "")
        # A field completes what it has, so that a name that has the text elsewhere is of no use to it.
        return f"{name} {found}" if found.lower().startswith(rest.lower()) and found else None


class CommandSuggester(Suggester):
    """Completion of a field in which a command is typed."""

    def __init__(self, commands: Commands) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._commands = commands

    async def get_suggestion(self, value: str) -> str | None:
        return self._commands.complete(value)


def having(text: str, names: Iterable[str], most: int) -> list[str]:
    """Return the names that have a text, in any case: first those that begin with it, each in the order of `names`."""
    wanted = text.lower()
    first: list[str] = []
    others: list[str] = []
    for name in names:
        lower = name.lower()
        if lower.startswith(wanted):
            first.append(name)
            if len(first) == most:
                break
        elif len(others) < most and wanted in lower:
            others.append(name)
    return [*first, *others][:most]


def checked(what: str, value: str, choices: Iterable[str]) -> str:
    """Return a choice, which may be written in another case.

    Raises:
        ConfigError: it is none of them.
    """
    known = list(choices)
    found = next((each for each in known if each.lower() == value.lower()), None)
    if found is None:
        raise ConfigError(f"{what} {value!r}: {nearest(value, known)}")
    return found
