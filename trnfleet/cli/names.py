"""Types of values with shell completion: files, shipped names, places in a fleet, and others.

A path in a settings file is relative to that file (`PathType.in_folder`), on the command line and
in variables to the working folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.address import Level
    from trnfleet.domain.fleet import FleetFile

MOST_ADDRESSES = 500
"""Most addresses offered to a shell at once."""
STREAM = "-"
"""Name of stdin or stdout where a file is expected."""


ValueT = TypeVar("ValueT")


class Typed(NamedTuple):
    """The typed text of a value to complete."""

    text: str
    ctx: click.Context
    """The values before it."""
    param: click.Parameter


class CompletedType(click.ParamType[ValueT]):
    """A value with shell completion by its beginning."""

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what it is for is a subclass's
        """Return the known values.

        Others may be valid as well.
        """
        return ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values beginning with the typed text."""
        typed = Typed(incomplete, ctx, param)
        return [
            CompletionItem(choice)
            for choice in self.choices(typed)
            if choice.startswith(incomplete)
        ]


class PathType(CompletedType[str]):
    """A value for the path of a file, possibly among others."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path."""
        return text != STREAM

    def in_folder(self, text: str, folder: Path) -> str:
        """Return a path from a settings file in `folder`, for the working folder.

        `~` is the user's home.
        """
        if not self.is_path(text):
            return text
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            # There is no such home: what opens the file says so.
            path = Path(text)
        return str(folder / path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the matching values.

        Without any, the shell completes files instead.

        A shell does not mix the two.
        """
        items = super().shell_complete(ctx, param, incomplete)
        return items or [CompletionItem(incomplete, type="file")]


class FileName(PathType):
    """A file's path."""

    name = "file"


class ShippedName(PathType):
    """The name of a shipped file, such as fleet `demo`, or a file's path."""

    name = "name"

    def __init__(self, kind: str) -> None:
        """Choose the kind of shipped files.

        Args:
            kind: Folder of the files: `fleets`, `scenarios` or `alerts`.
        """
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text: a path or a shipped name."""
        from trnfleet.config import find_file  # noqa: PLC0415  who names one needs it
        from trnfleet.errors import ConfigError  # noqa: PLC0415  as above

        # No setting gives an argument: its command says more of a wrong one.
        if not self.is_path(str(value)) and not isinstance(param, click.Argument):
            try:
                find_file(self._kind, str(value))
            except ConfigError as error:
                self.fail(str(error), param, ctx)
        return str(value)

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path: by its ending or a slash.

        `config.find_file` has the same rule.
        """
        return text.endswith(".toml") or "/" in text

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what ships depends on nothing
        """Return the shipped names."""
        from trnfleet.config import shipped_names  # noqa: PLC0415  only completion needs it here

        return shipped_names(self._kind)


class Target(CompletedType[str]):
    """The target of a fault: an address, a pattern, or a random match."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return addresses of a shipped fleet at the fault's level.

        No broker is queried.

        The fleet comes from --name or the settings, else it is the demo's.
        """
        from trnfleet.config import find_file, load_model, shipped_names  # noqa: PLC0415  only completion needs them
        from trnfleet.domain.address import Level  # noqa: PLC0415
        from trnfleet.domain.faults.table import FAULTS  # noqa: PLC0415

        fault = FAULTS.get(str(typed.ctx.params.get("fault")))
        fleet = str(typed.ctx.params.get("name") or "demo")
        if fault is None or fleet not in shipped_names("fleets"):
            return []
        if fault.scope.value == "publisher":
            return ["*"]
        from trnfleet.domain.fleet import FleetFile  # noqa: PLC0415  it loads pydantic

        names = {"rack": Level.INSTANCE, "link": Level.CHIP}
        level = names.get(fault.scope.value) or Level[fault.scope.name]
        return _addresses(load_model(find_file("fleets", fleet), FleetFile), typed.text, level)


def _addresses(fleet: FleetFile, start: str, level: Level) -> list[str]:
    """Return the matching addresses of a level, or of a higher one.

    With more than `MOST_ADDRESSES` it is the lowest higher level within that limit. A shell
    completes their common beginning, one level after the other.
    """
    from trnfleet.domain.address import Level, format_chip  # noqa: PLC0415  as above
    from trnfleet.domain.fleet import expand  # noqa: PLC0415
    from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES  # noqa: PLC0415

    inside = start.count("/")
    paths = [
        (path.split("/"), kind)
        for path, kind in expand(fleet)
        if f"{path}/".startswith(start[: len(path) + 1])
    ]
    addresses: list[str] = []
    for depth in range(min(inside + 1, level), level + 1):
        if depth == Level.CHIP:
            below = [
                f"{'/'.join(path)}/{format_chip(number)}"
                for path, kind in paths
                for number in range(INSTANCE_TYPES[kind].chips)
            ]
        else:
            below = ["/".join(path[:depth]) for path, _ in paths]
        below = [address for address in dict.fromkeys(below) if address.startswith(start)]
        if len(below) > MOST_ADDRESSES:
            break
        addresses = below
    return addresses
