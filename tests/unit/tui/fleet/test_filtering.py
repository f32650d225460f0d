"""The texts about a filter of the Fleet view."""

from __future__ import annotations

import pytest

from trnfleet.tui.fleet.filtering import filter_head
from trnfleet.tui.widgets.cells import text_of, width_of

FOUND = "64 chips, 0 problems"


@pytest.mark.parametrize("width", [38, 46, 60, 75, 120])
def test_the_key_that_clears_it_is_told_at_any_width(width: int) -> None:
    """The key to clear it is shown at any width.

    The typed text is cut first, the result stays.
    """
    said = text_of(filter_head("job=serve-70b & power>200", FOUND, width))
    assert width_of(filter_head("job=serve-70b & power>200", FOUND, width)) <= width
    assert said.startswith(" /job=serve-")
    assert said.endswith("Esc shows all" if width >= 75 else "Esc")
    assert FOUND in said or width < 44


def test_a_long_hint_is_cut_before_the_key() -> None:
    """The typed text has some cells beside a long hint.

    A short filter uses no more than it needs.
    """
    said = text_of(filter_head("powr", "no column powr; columns: power temp nc_util throttle", 46))
    assert said.startswith(" /powr  no column powr; ")
    assert said.endswith("…  Esc")
    assert len(said) == 46
