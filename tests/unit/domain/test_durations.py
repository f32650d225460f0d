from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.durations import parse_duration_s


@given(st.integers(0, 10**6), st.sampled_from([("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("", 1.0)]))  # fmt: skip
def test_a_number_with_a_unit_is_that_many_seconds(number: int, unit: tuple[str, float]) -> None:
    """With or without room between them, and whatever is around."""
    name, seconds = unit
    assert parse_duration_s(f"{number}{name}") == number * seconds
    assert parse_duration_s(f" {number} {name} ") == number * seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1y", "1h30m", "1e3"])
def test_what_is_no_duration(text: str) -> None:
    """The error says how one is written."""
    with pytest.raises(ValueError, match="is not a duration; write it as 10s, 500ms, 5m, 2h or 1d"):
        parse_duration_s(text)
