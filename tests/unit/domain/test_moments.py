from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.moments import find_moment, is_move

BEGIN = parse_rfc3339("2026-01-05T23:30:00Z")
END = parse_rfc3339("2026-01-06T01:00:00Z")
HERE = parse_rfc3339("2026-01-06T00:30:00Z")
DAY_NS = 86_400 * NS_PER_S


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("+90s", "2026-01-05T23:31:30Z"),
        ("+1.5m", "2026-01-05T23:31:30Z"),
        ("-90s", "2026-01-06T00:58:30Z"),
        ("-1h10m", "2026-01-05T23:50:00Z"),
        ("+2d", "2026-01-07T23:30:00Z"),
        ("23:45", "2026-01-05T23:45:00Z"),
        ("00:15", "2026-01-06T00:15:00Z"),
        ("0:15:30.5", "2026-01-06T00:15:30.500Z"),
        ("12:00", "2026-01-05T12:00:00Z"),
        ("2026-01-06T00:15:00", "2026-01-06T00:15:00Z"),
        ("2026-01-06T01:15:00+01:00", "2026-01-06T00:15:00Z"),
        ("2026-01-06", "2026-01-06T00:00:00Z"),
        ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
    ],
)
def test_moments_of_a_stretch(text: str, instant: str) -> None:
    """A moment counts from the start or the end, or is a time of day.

    After midnight if the stretch crosses it.
    """
    assert find_moment(text, BEGIN, END) == parse_rfc3339(instant)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("+90s", "2026-01-06T00:31:30Z"),
        ("- 1 h 30 min", "2026-01-05T23:00:00Z"),
        ("23:45", "2026-01-05T23:45:00Z"),
        ("12:00", "2026-01-06T12:00:00Z"),
    ],
)
def test_moments_from_a_place(text: str, instant: str) -> None:
    """An offset counts from the place.

    A time of day outside is on the place's day.
    """
    assert find_moment(text, BEGIN, END, here_ns=HERE) == parse_rfc3339(instant)


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("14:03", True),
        ("14:03:20", True),
        ("14:03:20.4", True),
        ("14:03:20.45", True),
        ("14:03:19", False),
        ("14:03:20.3", False),
        ("14:02", False),
    ],
)
def test_what_has_begun_before_the_start_means_the_start(text: str, is_there: bool) -> None:
    """A time copied without hidden digits means the start, but never an end."""
    start_ns = parse_rfc3339("2026-01-05T14:03:20.456Z")
    end_ns = start_ns + 3_600 * NS_PER_S
    assert (find_moment(text, start_ns, end_ns) == start_ns) is is_there
    assert find_moment(text, start_ns, end_ns, is_end=True) < start_ns


@given(
    st.integers(0, 5 * DAY_NS),
    st.integers(0, 5 * DAY_NS),
    st.integers(0, 5 * DAY_NS),
    st.integers(0, 1_439),
)
def test_the_nearest_of_several_days(first: int, length: int, after: int, minute: int) -> None:
    """A time of day within the stretch is found, the nearest one on its side."""
    start_ns = BEGIN + first
    end_ns = BEGIN + first + length
    here_ns = min(start_ns + after, end_ns)
    found = find_moment(f"{minute // 60}:{minute % 60:02}", start_ns, end_ns, here_ns=here_ns)
    midnights = range((start_ns // DAY_NS - 1) * DAY_NS, end_ns + DAY_NS, DAY_NS)
    instants = [each + minute * 60 * NS_PER_S for each in midnights]
    there = [max(each, start_ns) for each in instants if start_ns - 60 * NS_PER_S < each <= end_ns]
    if there:
        assert found in there
        nearest = min(abs(each - here_ns) for each in there)
        assert abs(found - here_ns) == nearest or found // DAY_NS == here_ns // DAY_NS
    else:
        assert found // DAY_NS == here_ns // DAY_NS


@pytest.mark.parametrize("sign", ["+", "-"])
@pytest.mark.parametrize("digits", [16, 310, 4_000])
def test_lengths_beyond_all_bounds_lie_outside(sign: str, digits: int) -> None:
    """An unrepresentable number is outside the stretch."""
    found = find_moment(sign + "9" * digits + "d", BEGIN, END)
    assert found > END + DAY_NS if sign == "+" else found < BEGIN - DAY_NS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "'soon' is not a time"),
        ("", "'' is not a time"),
        ("25:00", "25:00 is not a time of day"),
        ("12:60", "12:60 is not a time of day"),
        ("90s", "'90s' is not a time"),
        ("+", "'' is not a duration"),
        ("+1q", "'1q' is not a duration"),
        ("+90", "90 has no unit; write 90s, 90m or 90h"),
        ("2026-13-01", "'2026-13-01' is not a time"),
    ],
)
def test_what_is_no_moment(text: str, said: str) -> None:
    """The error names the problem; the caller adds valid forms."""
    with pytest.raises(ValueError, match=said):
        find_moment(text, BEGIN, END)


def test_moves() -> None:
    """So much back or forth begins with its sign."""
    assert [is_move(text) for text in ("+1", " -1h", "14:03", "")] == [True, True, False, False]
