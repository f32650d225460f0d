"""Standard streams of a command.

Stdout may be closed or abandoned, stderr may be no terminal.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from trnfleet.errors import ConfigError, TrnfleetError

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTEAD = "`trnfleet status`, `trnfleet record` or `trnfleet simulate --stdout`"
"""Commands for the app's work without a terminal."""
_DUMB = ("", "dumb", "unknown")
"""Values of TERM for unknown terminals or those without cursor movement."""


@contextlib.contextmanager
def exit_on_broken_pipe() -> Iterator[None]:
    """Exit cleanly on BrokenPipeError, as in `trnfleet replay --stdout FILE | head`."""
    try:
        yield
    except BrokenPipeError:
        # Python's own flush at the end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report(line: str) -> None:
    """Write a line to stderr; a closed stderr does not end the command."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(line, err=True)


def report_progress(line: str) -> None:
    """Replace the last line of a terminal."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)


def stderr_is_terminal() -> bool:
    """Return whether stderr is a terminal; it may be closed."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def stdout_columns() -> int | None:
    """Return the width of stdout's terminal.

    None without a terminal.
    """
    try:
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    except (AttributeError, ValueError):
        return None


def stdout_bytes() -> BinaryIO:
    """Return stdout for bytes.

    Raises:
        ConfigError: it is closed.
    """
    # Python sets it to None where the descriptor was closed at the start, whatever its type says.
    output: TextIO | None = sys.stdout
    if output is None:
        raise ConfigError("stdout is closed: there is nowhere to write to")
    return output.buffer


def require_terminal(instead: str = INSTEAD) -> None:
    """Refuse to start the app without a terminal to draw on.

    Args:
        instead: Commands that need none, for the message.

    Raises:
        TrnfleetError: stdin or stdout is no terminal, or the terminal cannot place text.
    """
    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise TrnfleetError(f"the app needs a terminal; without one use {instead}")
    kind = os.environ.get("TERM", "")
    if kind in _DUMB:
        is_kind = f"TERM is {kind}" if kind else "TERM is not set"
        raise TrnfleetError(
            f"the app needs a terminal that places text, and {is_kind}; set it, as in"
            f" TERM=xterm-256color, or use {instead}"
        )
