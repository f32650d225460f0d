"""Types of option values that name a file, or what ships by name; a shell completes them.

A path in a settings file is relative to that file (`PathType.in_folder`), on the command line and in variables to the
working folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

STREAM = "-"
"""Name of stdin or stdout where a file is expected."""


class PathType(click.ParamType[str]):
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


class FileName(PathType):
    """A file's path."""

    name = "file"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  click's arguments
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Leave files to the shell."""
        return [CompletionItem(incomplete, type="file")]


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

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  click's arguments
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that begin so; files where none does, for the shells do not mix the two."""
        from trnfleet.config import shipped_names  # noqa: PLC0415  only completion needs it here

        names = [each for each in shipped_names(self._kind) if each.startswith(incomplete)]
        return [CompletionItem(each) for each in names] or [CompletionItem(incomplete, type="file")]
