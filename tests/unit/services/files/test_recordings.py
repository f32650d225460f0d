from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.errors import ConfigError
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.recordings import choose_fleet, fleet_of, fleets_in, part_of
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


def test_a_part_lies_in_the_recording(recording: Recording) -> None:
    """Without options the part is the whole recording.

    A part outside, or with its end before its begin, is refused with the recording's times.
    """
    assert part_of(recording, None, None) == (BEGIN, END)
    assert part_of(recording, "00:00", "-10m") == (BEGIN + 1_800 * NS_PER_S, END - 600 * NS_PER_S)
    with pytest.raises(
        ConfigError, match=r"--to 03:00: the recording is from 2026-01-05T23:30:00\.000Z"
    ):
        part_of(recording, None, "03:00")
    with pytest.raises(ConfigError, match="--from -1m is after --to \\+1m"):
        part_of(recording, "-1m", "+1m")


def test_a_part_begins_in_the_minute_and_ends_on_a_later_day(tmp_path: Path) -> None:
    """The minute of the recording's begin is valid.

    --to is the next such time of day after --from.
    """
    begin = parse_rfc3339("2026-01-05T14:03:20Z")
    end = parse_rfc3339("2026-01-08T15:00:00Z")
    writer = RecordingWriter(tmp_path / "long.mcap", About(id="test", fleets=("east",)))
    for time_ns in (begin, end):
        writer.write(time_ns, Envelope("trnfleet/v1/east/event/uc1", b"{}"))
    writer.close()
    long = Recording.open([tmp_path / "long.mcap"])
    for from_, to, from_instant, to_instant in (
        ("14:03", None, "2026-01-05T14:03:20Z", "2026-01-08T15:00:00Z"),
        ("14:03", "14:03", "2026-01-05T14:03:20Z", "2026-01-06T14:03:00Z"),
        ("2026-01-07T10:00:00Z", "12:00", "2026-01-07T10:00:00Z", "2026-01-07T12:00:00Z"),
        ("2026-01-07T12:00:00Z", "10:00", "2026-01-07T12:00:00Z", "2026-01-08T10:00:00Z"),
        ("2026-01-07", "+2d1h30m", "2026-01-07T00:00:00Z", "2026-01-07T15:33:20Z"),
        ("-1h30m", "2026-01-08T15:00:00.5", "2026-01-08T13:30:00Z", "2026-01-08T15:00:00Z"),
    ):
        assert part_of(long, from_, to) == (
            parse_rfc3339(from_instant),
            parse_rfc3339(to_instant),
        ), (
            from_,
            to,
        )
    long.close()


def test_one_of_several_fleets_has_to_be_named(recording: Recording) -> None:
    """One of two fleets must be named.

    An unknown name is refused with the nearest.
    """
    assert fleet_of(recording, "west", "a.mcap") == "west"
    with pytest.raises(
        ConfigError, match=r"a\.mcap: several fleets in it: name one with --name; .*east, west"
    ):
        fleet_of(recording, None, "a.mcap")
    with pytest.raises(ConfigError, match="did you mean 'east'"):
        fleet_of(recording, "eats", "a.mcap")


def test_a_fleet_that_came_later_is_one_of_several(tmp_path: Path) -> None:
    """A fleet that began after the first second is not left out silently."""
    path = tmp_path / "later.mcap"
    writer = RecordingWriter(path, About(id="test", fleets=("east",)))
    writer.write(BEGIN, Envelope("trnfleet/v1/east/telemetry/uc1", b"{}"))
    writer.write(END - NS_PER_S, Envelope("trnfleet/v1/west/node/uc1", b"{}", retain=True))
    writer.write(END, Envelope("trnfleet/v1/east/telemetry/uc1", b"{}"))
    writer.close()
    later = Recording.open([path])
    with pytest.raises(
        ConfigError, match=r"several fleets in it: name one with --name; .*east, west"
    ):
        fleet_of(later, None, "later.mcap")
    assert fleet_of(later, "west", "later.mcap") == "west"
    later.close()


def test_distances_beyond_all_bounds_lie_outside(recording: Recording) -> None:
    """A number beyond any machine type lies outside the recording like any other."""
    with pytest.raises(ConfigError, match="the recording is from"):
        part_of(recording, f"+{'9' * 400}d", None)


def test_a_fleet_that_came_later_can_be_named(tmp_path: Path) -> None:
    """A recording names the fleets at its begin.

    Others are found among its topics.
    """
    file = tmp_path / "late.mcap"
    writer = RecordingWriter(file, About(id="test", fleets=("early",)))
    writer.write(BEGIN, Envelope("trnfleet/v1/early/event/uc1", b"{}"))
    writer.write(END, Envelope("trnfleet/v1/late/event/uc1", b"{}"))
    writer.close()
    recording = Recording.open([file])
    assert fleet_of(recording, "late", "late.mcap") == "late"
    with pytest.raises(ConfigError, match=r"late\.mcap: no fleet 'lat' in it: did you mean 'late'"):
        fleet_of(recording, "lat", "late.mcap")
    recording.close()


def test_where_no_fleet_is_none_can_be_named(tmp_path: Path) -> None:
    """Foreign topics belong to no fleet, whatever name is requested."""
    writer = RecordingWriter(tmp_path / "lamp.mcap", About(id="test"))
    writer.write(BEGIN, Envelope("home/lamp", b"on"))
    writer.close()
    recording = Recording.open([tmp_path / "lamp.mcap"])
    for name in (None, "demo"):
        with pytest.raises(
            ConfigError, match=r"lamp\.mcap: no fleet in it; trnfleet info lamp\.mcap lists"
        ):
            fleet_of(recording, name, "lamp.mcap")
    recording.close()


def test_fleets_of_topics() -> None:
    """Each fleet is named once and in order.

    Foreign topics have none.
    """
    topics = [
        "trnfleet/v1/b/event/x",
        "trnfleet/v1/a/job/x",
        "trnfleet/v1/b/job/x",
        "home/lamp",
        "x/v1/c/job/x",
    ]
    assert fleets_in(topics, "trnfleet") == ("a", "b")


def test_a_message_does_not_name_every_fleet() -> None:
    """A million fleets are searched for the nearest, but not listed in the message."""
    many = [f"fleet{number:03}" for number in range(200)]
    with pytest.raises(ConfigError, match=r"fleet000, fleet001, .*, fleet099 and 100 more$"):
        choose_fleet(many, None)
    with pytest.raises(
        ConfigError, match=r"no fleet 'fleet1500' in it: did you mean 'fleet150'\?$"
    ):
        choose_fleet(many, "fleet1500")
