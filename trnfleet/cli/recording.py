"""What the commands about recordings share: sizes and moments as options, and opening files for reading."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

import click

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.tui.plain import plain
from trnfleet.wire.topics import parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnfleet.record.recording import Recording

WIDTH = 400
_MOST_CHOICES = 50
"""Fleets that a message names."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_BYTES = {
    "": 1, "b": 1,
    "k": 1_000, "kb": 1_000, "kib": 2**10,
    "m": 1_000_000, "mb": 1_000_000, "mib": 2**20,
    "g": 1_000_000_000, "gb": 1_000_000_000, "gib": 2**30,
    "t": 1_000_000_000_000, "tb": 1_000_000_000_000, "tib": 2**40,
}  # fmt: skip  # a line a prefix
_OFFSET = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, None: 1.0}
_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(\.\d{1,9})?)?")
_LONGEST = 1e15
"""What a distance is cut to: it is beyond any recording, whatever its unit."""
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
    """A moment of a recording, still as text: what it means depends on the recording (`resolve`)."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is a moment."""
        text = value.isoformat() if isinstance(value, datetime) else str(value).strip()
        try:
            resolve(text, 0, _DAY_NS)
        except ValueError:
            self.fail(f"{text!r} is not a moment; {_HOW}", param, ctx)
        return text


def resolve(text: str, start_ns: int, end_ns: int) -> int:
    """Return the instant (ns) that a text means for a recording from `start_ns` to `end_ns`.

    Raises:
        ValueError: it means none.
    """
    if offset := _OFFSET.fullmatch(text):
        by_ns = round(min(float(offset[2]), _LONGEST) * _SECONDS[offset[3]] * NS_PER_S)
        return start_ns + by_ns if offset[1] == "+" else end_ns - by_ns
    if of_day := _OF_DAY.fullmatch(text):
        seconds = timedelta(
            hours=int(of_day[1]),
            minutes=int(of_day[2]),
            seconds=float((of_day[3] or "0") + (of_day[4] or "")),
        )
        instant = start_ns - start_ns % _DAY_NS + round(seconds.total_seconds() * NS_PER_S)
        # The recording may go over midnight.
        return instant if instant >= start_ns or instant + _DAY_NS > end_ns else instant + _DAY_NS
    moment = datetime.fromisoformat(text)
    return parse_rfc3339((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat())


def part_of(recording: Recording, begin: str | None, end: str | None) -> tuple[int, int]:
    """Return the first and the last instant (ns) of what `--from` and `--to` ask for.

    Raises:
        ConfigError: it lies outside the recording, or ends before it begins.
    """
    first, last = recording.start_ns, recording.end_ns
    span = f"the recording is from {format_rfc3339(first)} to {format_rfc3339(last)}"
    found = []
    for option, text, default in (("--from", begin, first), ("--to", end, last)):
        instant = default if text is None else resolve(text, first, last)
        # What was written with milliseconds may be meant to be the very end.
        if not first - NS_PER_S <= instant <= last + NS_PER_S:
            raise ConfigError(f"{option} {text}: {span}")
        found.append(min(max(instant, first), last))
    if found[0] > found[1]:
        raise ConfigError(f"--from {begin} is after --to {end}; {span}")
    return found[0], found[1]


def fleets_of(recording: Recording) -> tuple[str, ...]:
    """Return the fleets of a recording: those that it names, or where it names none those that its topics do."""
    if recording.fleets:
        return recording.fleets
    found: set[str] = set()
    for topic in recording.census().topics:
        try:
            found.add(parse_topic(topic, recording.root).fleet)
        except WireError:
            continue
    return tuple(sorted(found))


def fleet_of(recording: Recording, name: str | None, file: str) -> str:
    """Return the fleet to read: the only one, or the one that is named.

    Raises:
        ConfigError: there is none, or several and no name, or none of that name.
    """
    fleets = fleets_of(recording)
    if name is not None:
        if fleets and name not in fleets:
            raise ConfigError(f"{file}: no fleet {name!r} in it: {_choice(name, fleets)}")
        return name
    if len(fleets) > 1:
        raise ConfigError(f"{file}: several fleets in it: name one with --name; {_choice('', fleets)}")
    if not fleets:
        raise ConfigError(f"{file}: no fleet in it; trnfleet info {file} tells its topics")
    return fleets[0]


def _choice(name: str, fleets: Sequence[str]) -> str:
    """Return a clause that names the nearest fleet, or the first of them all."""
    said = nearest(name, fleets[:_MOST_CHOICES])
    return said if len(fleets) <= _MOST_CHOICES else f"{said} and {len(fleets) - _MOST_CHOICES:,} more"


@contextlib.contextmanager
def opened(files: Sequence[str], *, name: str | None = None) -> Iterator[Recording]:
    """Open recordings, or what other programs recorded, as one; say on stderr what had to be recovered.

    Raises:
        ConfigError: a file is no recording; the message names it.
    """
    from trnfleet.cli.convert import open_any  # noqa: PLC0415  --help stays quick

    recording = open_any([Path(file) for file in files], name=name)
    try:
        for recovery in recording.recoveries:
            click.echo(plain(recovery.text(), WIDTH), err=True)
        if recording.damaged:
            chunks = "1 chunk is" if recording.damaged == 1 else f"{recording.damaged:,} chunks are"
            click.echo(f"{plain(files[0], WIDTH)}: {chunks} damaged and left out", err=True)
        yield recording
    finally:
        recording.close()


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
