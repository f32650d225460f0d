"""Options about the look of the app: its theme, and ASCII in place of glyphs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.names import CompletedType, Typed
from trnfleet.cli.options import CommandT, setting
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

THEMES = ("dark", "light", "high-contrast", "colour-blind", "ansi", "monochrome")
"""Theme names of `trnfleet.tui.theme`. Importing it would slow every command's start and help."""


class LookOptions(NamedTuple):
    """Options about the look of the app."""

    theme: str | None
    """One of `THEMES`. None to fit the terminal."""
    ascii_only: bool
    """Whether the terminal gets ASCII only, even where it has UTF-8."""


class ThemeName(CompletedType[str]):
    """The name of a theme."""

    name = "theme"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with the nearest one."""
        text = str(value)
        if text not in THEMES:
            self.fail(f"{text!r} is no theme: {nearest(text, THEMES)}", param, ctx)
        return text

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  the themes depend on nothing
        """Return the themes."""
        return THEMES


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    setting(
        "--theme",
        type=ThemeName(),
        metavar="NAME",
        help=(
            f"Colours of the app: {', '.join(THEMES)}; by default dark, ansi on a terminal of 16"
            " colours, and monochrome where NO_COLOR is set."
        ),
    ),
    setting(
        "--ascii",
        "ascii_only",
        is_flag=True,
        help=(
            "Draw with ASCII only; the default where the locale has no UTF-8 and where TERM is"
            " linux or vt100."
        ),
    ),
)


def look_options(command: CommandT) -> CommandT:
    """Add the options about the look of the app.

    The command gets `looks: LookOptions`.
    """

    @functools.wraps(command)
    def with_looks(*args: Any, theme: str | None, ascii_only: bool, **others: Any) -> Any:
        return command(*args, looks=LookOptions(theme, ascii_only), **others)

    for option in reversed(_OPTIONS):
        with_looks = option(with_looks)
    return with_looks  # type: ignore[return-value]  # click reads its parameters, not its signature
