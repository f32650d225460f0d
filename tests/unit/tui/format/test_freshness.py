from __future__ import annotations

import math

import pytest

from trnfleet.monitor.freshness import Freshness
from trnfleet.tui.format.freshness import describe


@pytest.mark.parametrize(
    ("chips", "age_s", "text"),
    [
        ((16, 0, 0, 0, 0), 0.0, "● live"),
        ((48, 0, 16, 0, 0), 0.0, "◐ 48/64 live"),
        ((999_999, 1, 0, 0, 0), 0.0, "◐ 99.9 % live"),
        ((0, 16, 0, 0, 0), 12.4, "◌ stale 12 s"),
        ((0, 0, 16, 0, 0), 3_000.0, "✖ offline 50 min"),
        ((0, 0, 0, 16, 0), math.inf, "· no data yet"),
        ((0, 0, 0, 0, 16), 4.0, "◌ unseen 4 s"),
    ],
)
def test_states_have_a_sign_and_words(
    chips: tuple[int, int, int, int, int], age_s: float, text: str
) -> None:
    """Other states than live show their age, partly live ones their share."""
    assert describe(chips, age_s).text == text


def test_the_worst_state_is_told_in_a_few_cells() -> None:
    assert describe((0, 3, 0, 1, 0), math.inf).freshness is Freshness.STALE
    ages = (0, 59, 60, 3_600, 1e6, 1e12)
    assert max(len(describe((0, 0, 1, 0, 0), age).text) for age in ages) <= 16
