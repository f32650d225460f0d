from __future__ import annotations

import math

from trnfleet.monitor.freshness import Freshness
from trnfleet.tui.format.freshness import describe


def test_states_have_a_sign_and_words() -> None:
    """Other states than live show their age, partly live ones their share."""
    assert describe((16, 0, 0, 0, 0), 0.0).text == "● live"
    assert describe((48, 0, 16, 0, 0), 0.0).text == "◐ 48/64 live"
    assert describe((999_999, 1, 0, 0, 0), 0.0).text == "◐ 99.9 % live"
    assert describe((0, 16, 0, 0, 0), 12.4).text == "◌ stale 12 s"
    assert describe((0, 0, 16, 0, 0), 3_000.0).text == "✖ offline 50 min"
    assert describe((0, 0, 0, 16, 0), math.inf).text == "· no data yet"
    assert describe((0, 0, 0, 0, 16), 4.0).text == "◌ unseen 4 s"
    assert describe((0, 3, 0, 1, 0), math.inf).freshness is Freshness.STALE
    ages = (0, 59, 60, 3_600, 1e6, 1e12)
    assert max(len(describe((0, 0, 1, 0, 0), age).text) for age in ages) <= 16
