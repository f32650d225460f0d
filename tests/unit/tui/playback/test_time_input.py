from __future__ import annotations

import pytest
from support.tui.fake_playback import START_NS
from support.tui.past_app import HOUR, MIN

from trnfleet.clock import NS_PER_S
from trnfleet.tui.playback.time_input import parse_time


class TestParseTime:
    """Times as people type them."""

    START = START_NS + 23 * HOUR
    END = START_NS + 26 * HOUR
    HERE = START_NS + 24 * HOUR + 30 * MIN

    @pytest.mark.parametrize(
        ("text", "after_start_s"),
        [
            ("23:30", 1_800),
            ("00:40:05", 6_005),
            ("1:59", 2 * 3_600 + 59 * 60),
            ("-5m", 5_400 - 300),
            ("- 5 min", 5_400 - 300),
            ("+30s", 5_430),
            ("-1h10m", 5_400 - 4_200),
            ("-9h", 0),
            ("-" + "9" * 310 + "s", 0),
            ("+" + "9" * 310 + "d", 3 * 3_600),
            ("+9h", 3 * 3_600),
            ("2026-01-06T00:00:30Z", 3_630),
            ("2026-01-06T01:00:30+01:00", 3_630),
            ("2026-01-06 00:00:30", 3_630),
            ("2026-01-06", 3_600),
        ],
    )
    def test_understood(self, text: str, after_start_s: float) -> None:
        """A time of day is the recorded one, on either side of midnight."""
        assert parse_time(text, self.HERE, self.START, self.END) == self.START + round(
            after_start_s * NS_PER_S
        )

    def test_the_day_of_the_position_goes_first(self) -> None:
        """A time of day recorded twice is on the position's day."""
        start = START_NS
        end = START_NS + 48 * HOUR
        assert parse_time("12:00", start + 25 * HOUR, start, end) == start + 36 * HOUR
        assert parse_time("12:00", start + 2 * HOUR, start, end) == start + 12 * HOUR

    def test_the_minute_that_has_begun(self) -> None:
        """The time at an end of the bar, as displayed, is a valid input."""
        start = START_NS + 10 * HOUR + 30 * NS_PER_S + 400_000_000
        assert parse_time("10:00:30", start + MIN, start, start + HOUR) == start
        assert parse_time("10:00", start + MIN, start, start + HOUR) == start

    @pytest.mark.parametrize(
        "text", ["soon", "", "24:00", "12:60", "14:03:61", "-5x", "+", "2026-13-01T00:00:00Z"]
    )
    def test_not_understood(self, text: str) -> None:
        """The error shows every form."""
        with pytest.raises(ValueError, match=r"14:03, 14:03:10, -5m|write the jump as -5m"):
            parse_time(text, self.HERE, self.START, self.END)

    @pytest.mark.parametrize("text", ["14:03", "2026-01-07T00:00:00Z"])
    def test_not_in_the_recording(self, text: str) -> None:
        """The error names the recording's ends."""
        with pytest.raises(
            ValueError,
            match=(
                r"is not in the recording; it goes from 2026-01-05 23:00:00 to 2026-01-06"
                r" 02:00:00 UTC"
            ),
        ):
            parse_time(text, self.HERE, self.START, self.END)
