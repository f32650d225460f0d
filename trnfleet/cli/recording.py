"""What the commands about recordings share: sizes and moments as options, and opening files for reading."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

import click

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.moments import find_moment, is_move
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.text import plain
from trnfleet.wire.topics import parse_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from trnfleet.record.read.recording import Recording

WIDTH = 400
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_BYTES = {
    "": 1, "b": 1,
    "k": 1_000, "kb": 1_000, "kib": 2**10,
    "m": 1_000_000, "mb": 1_000_000, "mib": 2**20,
    "g": 1_000_000_000, "gb": 1_000_000_000, "gib": 2**30,
    "t": 1_000_000_000_000, "tb": 1_000_000_000_000, "tib": 2**40,
}  # fmt: skip  # a line a prefix
_DAY_NS = 86_400 * NS_PER_S
_HOW = "write it as 2026-01-31T14:03:00Z, 14:03, +90s (after the begin) or -90s (before the end)"


class Asked(NamedTuple):
    """What the options of a replay ask for, wherever it goes."""

    files: tuple[str, ...]
    name: str | None
    begin: str | None
    end: str | None
    speed: float
    loop: bool


class Size(click.ParamType[int]):
    """A size such as `64MiB`, `1GiB`, `500MB`; a bare number means bytes."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        if isinstance(value, int):
            size = value
        else:
            match = _SIZE.fullmatch(str(value).strip())
            if match is None or match[2].lower() not in _BYTES:
                self.fail(f"{value!r} is not a size; write it as 64MiB, 1GiB or 500MB", param, ctx)
            size = round(min(float(match[1]), 2.0**61) * _BYTES[match[2].lower()])
        if not self._least <= size <= 2**60:
            self.fail(f"{value!r} is not at least {size_text(self._least)}", param, ctx)
        return size


class Moment(click.ParamType[str]):
    """A moment of a recording, still as text: what it means depends on the recording (`part_of`)."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is a moment."""
        text = value.isoformat() if isinstance(value, datetime) else str(value).strip()
        try:
            find_moment(text, 0, _DAY_NS)
        except ValueError:
            self.fail(f"{text!r} is not a moment; {_HOW}", param, ctx)
        return text


def part_of(recording: Recording, begin: str | None, end: str | None) -> tuple[int, int]:
    """Return the first and the last instant (ns) of what `--from` and `--to` ask for.

    Raises:
        ConfigError: it lies outside the recording, or ends before it begins.
    """
    first, last = recording.start_ns, recording.end_ns
    span = f"the recording is from {format_rfc3339(first)} to {format_rfc3339(last)}"
    from_ns = first if begin is None else find_moment(begin, first, last)
    to_ns = last
    if end is not None:
        # A time of day is the next one after the begin that was asked for, `+90s` is after the recording's own.
        to_ns = find_moment(end, first if is_move(end) else max(first, from_ns), last, is_end=True)
    for option, text, instant in (("--from", begin, from_ns), ("--to", end, to_ns)):
        # What was written with milliseconds may be meant to be the very end.
        if not first - NS_PER_S <= instant <= last + NS_PER_S:
            raise ConfigError(f"{option} {text}: {span}")
    from_ns, to_ns = min(max(from_ns, first), last), min(max(to_ns, first), last)
    if from_ns > to_ns:
        raise ConfigError(f"--from {begin} is after --to {end}; {span}")
    return from_ns, to_ns


def fleets_in(topics: Iterable[str], root: str) -> tuple[str, ...]:
    """Return the fleets that topics are of, each once and sorted; topics that are not ours are of none."""
    found: set[str] = set()
    for topic in topics:
        try:
            found.add(parse_topic(topic, root).fleet)
        except WireError:
            continue
    return tuple(sorted(found))


def fleets_of(recording: Recording) -> tuple[str, ...]:
    """Return the fleets of a recording: those that it names, or where it names none those that its topics do."""
    return recording.fleets or fleets_in(recording.topics(), recording.root)


def fleet_of(recording: Recording, name: str | None, file: str) -> str:
    """Return the fleet to read: the only one, or the one that is named.

    Raises:
        ConfigError: there is none, or several and no name, or none of that name.
    """
    fleets = fleets_of(recording)
    if name is not None and name not in fleets:
        # It names those that were there when it began.
        fleets = (*fleets, *fleets_in(recording.topics(), recording.root))
    if not fleets:
        raise ConfigError(f"{file}: no fleet in it; trnfleet info {file} tells its topics")
    try:
        return choose_fleet(fleets, name)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error


def choose_fleet(found: Collection[str], name: str | None) -> str:
    """Return the fleet that is named, or the only one that was found.

    Raises:
        ConfigError: there are several and no name, or none of that name; the message does not say where.
    """
    if name is None and len(found) > 1:
        raise ConfigError(f"several fleets in it: name one with --name; {nearest('', found)}")
    if name is not None and name not in found:
        raise ConfigError(f"no fleet {name!r} in it: {nearest(name, set(found))}")
    return next(iter(found)) if name is None else name


@contextlib.contextmanager
def opened(files: Sequence[str], *, name: str | None = None) -> Iterator[Recording]:
    """Open recordings, or what other programs recorded, as one; say on stderr what had to be recovered.

    Raises:
        ConfigError: a file is no recording; the message names it.
    """
    from trnfleet.cli.commands.convert import open_any  # noqa: PLC0415  --help stays quick

    recording = open_any([Path(file) for file in files], name=name)
    try:
        for recovery in recording.recoveries:
            click.echo(plain(recovery.text(), WIDTH), err=True)
        at_first = left_out_text(recording.damaged, recording.unread)
        if at_first:
            click.echo(f"{plain(files[0], WIDTH)}: {at_first}", err=True)
        yield recording
        in_all = left_out_text(recording.damaged, recording.unread)
        if in_all != at_first:
            click.echo(f"{plain(files[0], WIDTH)}: {in_all}", err=True)
    finally:
        recording.close()


def left_out_text(damaged_chunks: int, senseless_messages: int) -> str:
    """Return what of a recording, as far as it has been read, could not be used; empty for nothing."""
    told = [
        f"{count:,} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((damaged_chunks, "damaged chunk"), (senseless_messages, "senseless message"))
        if count
    ]
    return f"left out: {' and '.join(told)}" if told else ""


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """End in peace when whoever reads stdout has enough (`trnfleet replay --stdout FILE | head`)."""
    try:
        yield
    except BrokenPipeError:
        # Python's own flush at the end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(line: str, *, nl: bool = True) -> None:
    """Say something on stderr; where nobody listens any more, what is being done goes on all the same."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(line, err=True, nl=nl)


def stderr_is_terminal() -> bool:
    """Say whether somebody watches stderr; it may be closed."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


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


def size_text(size_bytes: float) -> str:
    """Return a size with a binary prefix, such as `4.2 MiB`."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1_000:
            return f"{size_bytes:.0f} {prefix}" if prefix == "B" else f"{size_bytes:.3g} {prefix}"
        size_bytes /= 1_024
    return f"{size_bytes:,.3g} TiB"
