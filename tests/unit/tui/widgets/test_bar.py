from __future__ import annotations

from trnfleet.tui.theme import BASE
from trnfleet.tui.widgets.bar import Item, fitted
from trnfleet.tui.widgets.cells import text_of


def test_items_are_shortened_then_left_out() -> None:
    """Names go short before figures go."""
    items = [Item("first name", "f", "1", 2, 0), Item("second name", "s", "2", 2, 1)]
    assert text_of(fitted(items, 40, BASE, BASE)) == " first name 1    second name 2 "
    assert text_of(fitted(items, 20, BASE, BASE)) == " f 1   s 2 "
    assert text_of(fitted(items, 6, BASE, BASE)) == " f 1 "
