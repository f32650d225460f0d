"""Types of values that a shell completes, and of those the ones that name a file, what ships by name, or a place in a fleet.

A path in a settings file is relative to that file (`PathType.in_folder`), on the command line and in variables to the
working folder.
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
"""Addresses that a shell is offered at once."""
STREAM = "-"
"""Name of stdin or stdout where a file is expected."""


ValueT = TypeVar("ValueT")


class Typed(NamedTuple):
    """What has been typed of a value that a shell is to complete."""

    text: str
    ctx: click.Context
    """The values before it."""
    param: click.Parameter


class CompletedType(click.ParamType[ValueT]):
    """A value of which a shell is offered those that begin with what has been typed."""

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what it is for is a subclass's
        """Return the values that there are; others may be valid as well."""
        return ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values that begin with what has been typed."""
        typed = Typed(incomplete, ctx, param)
        return [CompletionItem(each) for each in self.choices(typed) if each.startswith(incomplete)]


class PathType(CompletedType[str]):
    """A value that is, or may be, the path of a file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path."""
        return text != STREAM

    def in_folder(self, text: str, folder: Path) -> str:
        """Return a value of a settings file in `folder` as the working folder needs it; `~` is the user's home."""
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
        """Return the values that begin so; where none does, files, which a shell finds: it does not mix the two."""
        found = super().shell_complete(ctx, param, incomplete)
        return found or [CompletionItem(incomplete, type="file")]


class FileName(PathType):
    """A file's path."""

    name = "file"


class ShippedName(PathType):
    """The name of a file that ships, such as `demo` of the fleets, or a file's path."""

    name = "name"

    def __init__(self, kind: str) -> None:
        """Choose what ships.

        Args:
            kind: Folder of the files: `fleets`, `scenarios` or `alerts`.
        """
        self._kind = kind

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path, as `config.find_file` reads it: by its ending or a slash."""
        return text.endswith(".toml") or "/" in text

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what ships depends on nothing
        """Return what ships."""
        from trnfleet.config import shipped_names  # noqa: PLC0415  only completion needs it here

        return shipped_names(self._kind)


class Target(CompletedType[str]):
    """The target of a fault: an address of a fleet, a pattern, or a random choice of what a pattern matches."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return addresses of a shipped fleet of the level that the fault has; no broker is asked.

        It is the fleet that --name or the settings name, else the demo's.
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
    """Return the addresses that begin so, of a level, or of the lowest one above it of which there are at most `MOST_ADDRESSES`.

    A shell then completes as far as they have in common, one level after the other.
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
    found: list[str] = []
    for depth in range(min(inside + 1, level), level + 1):
        if depth == Level.CHIP:
            below = [
                f"{'/'.join(path)}/{format_chip(number)}"
                for path, kind in paths
                for number in range(INSTANCE_TYPES[kind].chips)
            ]
        else:
            below = ["/".join(path[:depth]) for path, _ in paths]
        below = [each for each in dict.fromkeys(below) if each.startswith(start)]
        if len(below) > MOST_ADDRESSES:
            break
        found = below
    return found
