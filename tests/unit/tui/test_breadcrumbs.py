from __future__ import annotations

import pytest

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event
from trnfleet.tui.breadcrumbs import breadcrumbs
from trnfleet.tui.widgets.cells import text_of


def test_breadcrumbs_lose_their_beginning_first() -> None:
    """The last segment always stays; the active view is in brackets."""
    views = [("1", "Fleet"), ("2", "Hierarchy")]
    address = "uc1/us-0001/trn2u-0001-0/chip05"
    wide = text_of(breadcrumbs(address, views, "Fleet", 100))
    assert wide.startswith(" fleet > uc1 > us-0001 > trn2u-0001-0 > chip05")
    assert wide.endswith("[1 Fleet] 2 Hierarchy ")
    narrow = text_of(breadcrumbs(address, views, "Fleet", 40))
    assert "chip05" in narrow
    assert narrow.startswith(" … > ")


@pytest.mark.parametrize("width", [80, 120, 240])
def test_news_stand_between_place_and_views(width: int) -> None:
    """An event is told with its sign and place; where one is and every view's key stay on the line."""
    views = [("1", "Fleet"), ("2", "Hierarchy"), ("4", "Chip"), ("9", "Events")]
    text = "uncorrectable HBM error on nd5, the instance must be replaced"
    address = "uc1/us-0001/trn2u-0001-0/chip05"
    where = "uc1/us-0002/trn2u-0002-3/chip11"
    event = Event(1, 0.0, 0, Severity.CRITICAL, "kernel", "x", where, "", None, text)
    line = text_of(breadcrumbs(address, views, "Fleet", width, event))
    assert len(line) == width
    assert "✖ trn2u-0002-3/chip11: uncorr" in line
    assert "chip05" in line
    assert "[1" in line
    assert all(key in line for key, _ in views)
    assert "✖" not in text_of(breadcrumbs(address, views, "Fleet", width))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_picked_out_stands_behind_the_way(width: int) -> None:
    """What is picked out in every view is said in the line, which stays within the screen; the way loses its beginning for it."""
    views = [("1", "Fleet"), ("2", "Hierarchy"), ("4", "Chip"), ("7", "Reservations"), ("9", "Events")]
    said = "◆ cb-0123456789abcdef0 (4 instances)  u: show all"
    line = text_of(breadcrumbs("uc1/us-0001", views, "Fleet", width, None, said))
    assert len(line) <= width
    assert "◆ cb-" in line
    assert (said in line) == (width >= 80)
