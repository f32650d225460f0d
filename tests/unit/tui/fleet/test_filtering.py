"""What is said of a filter of the Fleet view."""

from __future__ import annotations

import pytest

from trnfleet.tui.fleet.filtering import filter_head
from trnfleet.tui.widgets.cells import text_of, width_of

FOUND = "64 chips, 0 problems"


@pytest.mark.parametrize("width", [38, 46, 60, 75, 120])
def test_the_key_that_clears_it_is_told_at_any_width(width: int) -> None:
    """What was typed is cut first, what it leaves stays."""
    said = text_of(filter_head("job=serve-70b & power>200", FOUND, width))
    assert width_of(filter_head("job=serve-70b & power>200", FOUND, width)) <= width
    assert said.startswith(" /job=serve-")
    assert said.endswith("Esc shows all" if width >= 75 else "Esc")
    assert FOUND in said or width < 44


def test_a_long_hint_is_cut_before_the_key() -> None:
    """What was typed keeps some cells beside it, and a short filter takes no more than it has."""
    said = text_of(filter_head("powr", "no column powr; columns: power temp nc_util throttle", 46))
    assert said.startswith(" /powr  no column powr; ")
    assert said.endswith("…  Esc")
    assert len(said) == 46
