"""Output of a command: reports as JSON or text, lines on stderr, and the terminal.

Stdout may be closed or abandoned, stderr may be no terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.text import LONGEST, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.export.history.catalogue import LeftOutFile

MOST_SHOWN = 10
"""Most entries of one kind in a text; --json has all."""
PROGRESS_EVERY_S = 10.0
"""Time between two progress lines without a terminal on stderr."""

INSTEAD = "`trnfleet status`, `trnfleet record` or `trnfleet simulate --stdout`"
"""Commands for the app's work without a terminal."""
_DUMB = ("", "dumb", "unknown")
"""Values of TERM for unknown terminals or those without cursor movement."""


def print_json(facts: object) -> None:
    """Print a report as JSON."""
    click.echo(json.dumps(facts, indent=2))


def row_lines(rows: Iterable[tuple[str, str]], width: int, indent: str = "") -> list[str]:
    """Return a line for each name and value.

    Args:
        rows: Names and values; a name may repeat or be empty.
        width: Width of the names.
        indent: Blanks before each line.
    """
    return [f"{indent}{name:<{width}}{value}" for name, value in rows]


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with their columns aligned, as plain text; the first row is the heading."""
    cells = [[plain(cell, LONGEST) for cell in row] for row in rows]
    # The last column needs no padding, and one long cell in it must not widen the others.
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    return [
        "  ".join(
            [*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in cells
    ]


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


def report_left_out(left_out: Sequence[LeftOutFile]) -> None:
    """Report files of history that do not count."""
    for file in left_out[:MOST_SHOWN]:
        report(f"left out {plain(str(file.path), 300)}: {plain(file.why)}")
    if left_out:
        report(
            f"left out {counted(len(left_out), 'file')} in all: move them away, and write their"
            " minutes again"
        )


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
