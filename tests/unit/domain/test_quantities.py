from __future__ import annotations

import pytest

from trnfleet.domain.quantities import (
    DurationStyle,
    counted,
    duration,
    in_digits,
    signed_percent,
    size_text,
)

MINUTE = 60
HOUR = 3_600
DAY = 86_400


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (-5, ("0 ms", "0s", "0 s", "0s", "0:00")),
        (0.85, ("850 ms", "0s", "0 s", "0s", "0:00")),
        (59.9, ("59 s", "59s", "59 s", "59s", "0:59")),
        (MINUTE, ("1 min 00 s", "1m 00s", "1 min", "1m", "1:00")),
        (3 * MINUTE + 5, ("3 min 05 s", "3m 05s", "3 min", "3m", "3:05")),
        (HOUR - 1, ("59 min 59 s", "59m 59s", "59 min", "59m", "59:59")),
        (HOUR, ("1 h 00 min", "1h 00m", "1 h", "1h00", "1:00:00")),
        (10 * HOUR - 1, ("9 h 59 min", "9h 59m", "9 h", "9h59", "9:59:59")),
        (10 * HOUR, ("10 h 00 min", "10h 00m", "10 h", "10h", "10:00:00")),
        (DAY - 1, ("23 h 59 min", "23h 59m", "23 h", "23h", "23:59:59")),
        (14 * DAY + 3 * HOUR, ("14 d 3 h", "14d 03h", "14 d", "14d", "339:00:00")),
        (182 * DAY, ("182 d 0 h", "182d", "182 d", "182d", "4368:00:00")),
        (1e9, ("11574 d 1 h", "11574d", "999 d", "999d", "277777:46:40")),
    ],
)
def test_durations_have_five_forms(seconds: float, texts: tuple[str, ...]) -> None:
    """A duration is never rounded up.

    A narrow one has at most four cells, a coarse one six.
    """
    assert tuple(duration(seconds, style) for style in DurationStyle) == texts
    assert len(duration(seconds, DurationStyle.NARROW)) <= 4
    assert len(duration(seconds, DurationStyle.COARSE)) <= 6


def test_sizes_have_three_digits() -> None:
    """A size has a binary prefix."""
    shown = [size_text(each) for each in (0, 999, 1_536, 64 * 2**20, 5 * 2**40)]
    assert shown == ["0 B", "999 B", "1.5 KiB", "64 MiB", "5 TiB"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 chips"), (1, "1 chip"), (2, "2 chips"), (1_000_000, "1,000,000 chips")],
)
def test_one_thing_is_in_the_singular(number: int, text: str) -> None:
    assert counted(number, "chip") == text


def test_a_distance_that_rounds_to_nothing_has_no_sign() -> None:
    told = [signed_percent(each) for each in (-0.4, 0.0, 0.4, 0.6, 20.7, -7.2)]
    assert told == ["0 %", "0 %", "0 %", "+1 %", "+21 %", "-7 %"]


def test_large_numbers_have_no_exponent() -> None:
    assert [in_digits(value) for value in (0.07123, 999.4, 999.6, 12_400.0)] == [
        "0.0712",
        "999",
        "1,000",
        "12,400",
    ]
