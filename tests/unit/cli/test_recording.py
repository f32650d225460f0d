from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from trnfleet.cli.recording import Moment, Size, fleet_of, part_of, resolve, size_text
from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.errors import ConfigError
from trnfleet.record.about import About
from trnfleet.record.recording import Recording
from trnfleet.record.writer import RecordingWriter
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEGIN = parse_rfc3339("2026-01-05T23:30:00Z")
END = parse_rfc3339("2026-01-06T01:00:00Z")


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    """Two fleets over an hour and a half, past midnight."""
    writer = RecordingWriter(tmp_path / "a.mcap", About(id="test", fleets=("east", "west")))
    writer.write(BEGIN, Envelope("trnfleet/v1/east/telemetry/uc1", b"{}"))
    writer.write(END, Envelope("trnfleet/v1/west/telemetry/uc1", b"{}"))
    writer.close()
    found = Recording.open([tmp_path / "a.mcap"])
    yield found
    found.close()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("64MiB", 64 * 2**20),
        ("1GiB", 2**30),
        ("500MB", 500_000_000),
        ("1.5 kib", 1_536),
        ("2g", 2 * 10**9),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """A size has a binary or a decimal unit, in any case."""
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "GiB", "1 XB", "-1MiB", "1e3", "0", "9" * 400])
def test_what_is_no_size(text: str) -> None:
    """Anything else is refused, and so is nothing at all."""
    with pytest.raises(click.BadParameter):
        Size().convert(text, None, None)


def test_sizes_are_told_with_three_digits() -> None:
    """Sizes for people have a binary prefix."""
    told = [size_text(each) for each in (0, 999, 1_536, 64 * 2**20, 5 * 2**40)]
    assert told == ["0 B", "999 B", "1.5 KiB", "64 MiB", "5 TiB"]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("+90s", "2026-01-05T23:31:30Z"),
        ("+1.5m", "2026-01-05T23:31:30Z"),
        ("-90s", "2026-01-06T00:58:30Z"),
        ("23:45", "2026-01-05T23:45:00Z"),
        ("00:15", "2026-01-06T00:15:00Z"),
        ("0:15:30.5", "2026-01-06T00:15:30.500Z"),
        ("12:00", "2026-01-05T12:00:00Z"),
        ("2026-01-06T00:15:00", "2026-01-06T00:15:00Z"),
        ("2026-01-06T01:15:00+01:00", "2026-01-06T00:15:00Z"),
    ],
)
def test_moments(text: str, instant: str) -> None:
    """A moment counts from the begin or the end, or is a clock time, after midnight where the recording goes over it."""
    assert resolve(text, BEGIN, END) == parse_rfc3339(instant)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "90s", "+90", "+1y", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    """Anything else is refused before a file is opened; an offset without a unit means seconds."""
    if text == "+90":
        assert resolve(text, 0, 0) == 90 * NS_PER_S
        return
    with pytest.raises(click.BadParameter, match="is not a moment"):
        Moment().convert(text, None, None)


def test_a_part_lies_in_the_recording(recording: Recording) -> None:
    """Without options it is all; what lies outside or ends before it begins is refused with the recording's times."""
    assert part_of(recording, None, None) == (BEGIN, END)
    assert part_of(recording, "00:00", "-10m") == (BEGIN + 1_800 * NS_PER_S, END - 600 * NS_PER_S)
    with pytest.raises(ConfigError, match=r"--to 03:00: the recording is from 2026-01-05T23:30:00\.000Z"):
        part_of(recording, None, "03:00")
    with pytest.raises(ConfigError, match="--from -1m is after --to \\+1m"):
        part_of(recording, "-1m", "+1m")


def test_one_of_several_fleets_has_to_be_named(recording: Recording) -> None:
    """Of two fleets one is named; a name that is none is refused with the nearest."""
    assert fleet_of(recording, "west", "a.mcap") == "west"
    with pytest.raises(
        ConfigError, match=r"a\.mcap: several fleets in it: name one with --name; .*east, west"
    ):
        fleet_of(recording, None, "a.mcap")
    with pytest.raises(ConfigError, match="did you mean 'east'"):
        fleet_of(recording, "eats", "a.mcap")


def test_distances_beyond_all_bounds_lie_outside(recording: Recording) -> None:
    """A number that no machine can hold is beyond the recording like any other."""
    with pytest.raises(ConfigError, match="the recording is from"):
        part_of(recording, f"+{'9' * 400}d", None)


def test_a_message_does_not_name_every_fleet(tmp_path: Path) -> None:
    """A file may hold a million fleets."""
    file = tmp_path / "many.mcap"
    writer = RecordingWriter(file, About(id="test"))
    for number in range(60):
        writer.write(BEGIN + number, Envelope(f"trnfleet/v1/f{number:02}/event/uc1", b"{}"))
    writer.close()
    many = Recording.open([file])
    with pytest.raises(ConfigError, match=r"f00, f01, .*, f49 and 10 more$"):
        fleet_of(many, None, "many.mcap")
    many.close()
