"""Types of option values."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from trnfleet.cli.main import cli
from trnfleet.cli.params import TOPIC_FILTER, Duration, Moment, Size


@pytest.mark.parametrize("text", ["#", "a/+/b", "a/#", "a"])
def test_a_topic_filter_is_taken_as_it_is(text: str) -> None:
    assert TOPIC_FILTER.convert(text, None, None) == text


@pytest.mark.parametrize("text", ["", "a/#/b", "a+/b", "a/b#"])
def test_what_is_no_topic_filter_is_refused(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match=f"'{text}' is not a topic filter".replace("+", r"\+")
    ):
        TOPIC_FILTER.convert(text, None, None)


@pytest.mark.parametrize("command", ["simulate", "demo"])
@pytest.mark.parametrize("speed", ["0", "1e-9", "2e6", "nan"])
def test_a_speed_is_one_that_readers_take(command: str, speed: str) -> None:
    """A speed invalid in a descriptor is refused as an option, with the limits."""
    ended = CliRunner().invoke(cli, [command, "--speed", speed])
    assert ended.exit_code == 2
    assert "is not at least 0.001 and at most 1,000,000" in ended.output


@pytest.mark.parametrize("text", ["0s", "367d"])
def test_the_longest_duration_is_named_as_durations_are(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not above zero and at most 366 d"):
        Duration(366 * 86_400).convert(text, None, None)


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


@pytest.mark.parametrize(
    "text", ["+90s", "-1h30m", "0:15:30.5", "2026-01-06", "2026-01-06T01:15:00+01:00"]
)
def test_a_moment_stays_text_until_a_file_is_open(text: str) -> None:
    """What it means depends on the recording."""
    assert Moment().convert(f" {text} ", None, None) == text


@pytest.mark.parametrize("text", ["", "noon", "25:00", "90s", "+", "+1q", "+90", "2026-13-01"])
def test_what_is_no_moment(text: str) -> None:
    """Anything else is refused before a file is opened."""
    with pytest.raises(
        click.BadParameter, match="is not a moment; write it as 2026-01-31T14:03:00Z, 14:03"
    ):
        Moment().convert(text, None, None)
