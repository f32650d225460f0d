from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.durations import parse_duration_s

UNITS = [
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("w", 604_800.0),
    ("y", 31_536_000.0),
]


@given(st.integers(0, 10**6), st.sampled_from(UNITS))
def test_a_number_with_a_unit_is_that_many_seconds(number: int, unit: tuple[str, float]) -> None:
    """Blanks between number and unit, and around them, are allowed."""
    name, seconds = unit
    assert parse_duration_s(f"{number}{name}") == number * seconds
    assert parse_duration_s(f" {number} {name} ") == number * seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5_400.0),
        ("1d12h", 129_600.0),
        ("1w2d3h4m5s6ms", 788_645.006),
        ("1.5h", 5_400.0),
        ("6 min 40 s", 400.0),
        ("0", 0.0),
    ],
)
def test_parts_add_up(text: str, seconds: float) -> None:
    """As in Prometheus and Alertmanager."""
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "-1s", "30m1h", "1h1h", "1e3", "nan", "5 weeks", "1m30"]
)
def test_what_is_no_duration(text: str) -> None:
    """The error says how to write one."""
    with pytest.raises(
        ValueError, match="is not a duration; write it as 90s, 500ms, 5m, 1h30m, 1d12h or 1w"
    ):
        parse_duration_s(text)


@pytest.mark.parametrize("text", ["90", "1.5"])
def test_a_bare_number_is_refused(text: str) -> None:
    """Nobody's minutes become seconds."""
    with pytest.raises(
        ValueError, match=f"^{text} has no unit; write {text}s, {text}m or {text}h$"
    ):
        parse_duration_s(text)
