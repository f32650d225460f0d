from __future__ import annotations

from trnfleet.tui.theme import BASE, STRONG
from trnfleet.tui.widgets.bar import Item, fitted
from trnfleet.tui.widgets.cells import text_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked, target_of


def test_items_are_shortened_then_left_out() -> None:
    """Names go short before figures go."""
    items = [Item("first name", "f", "1", 2, 0), Item("second name", "s", "2", 2, 1)]
    assert (
        text_of(fitted(items, 40, BASE, BASE, optional_from=2)) == " first name 1    second name 2 "
    )
    assert text_of(fitted(items, 20, BASE, BASE, optional_from=2)) == " f 1   s 2 "
    assert text_of(fitted(items, 6, BASE, BASE, optional_from=2)) == " f 1 "


def test_optional_items_go_before_others_are_shortened() -> None:
    """A value may have a short form of its own, too."""
    items = [Item("power", "", "61 W of 96 W", 12, 0, "61 W", 4), Item("second", "s", "2", 2, 1)]
    for width, line in (
        (40, " power 61 W of 96 W   second 2 "),
        (24, " power 61 W of 96 W"),
        (12, " 61 W  s 2 "),
    ):
        assert text_of(fitted(items, width, BASE, BASE, optional_from=1)) == line


def test_a_linked_style_looks_the_same_and_has_its_target() -> None:
    target = ClickTarget(TargetKind.PLACE, "uc1/us-0001")
    style = linked(STRONG, target)
    assert target_of(style) == target
    assert (style.color, style.bgcolor, style.bold) == (STRONG.color, STRONG.bgcolor, STRONG.bold)
    assert target_of(STRONG) is None
