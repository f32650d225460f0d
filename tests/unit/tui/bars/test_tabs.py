from __future__ import annotations

import pytest

from trnfleet.tui.bars.tabs import TabCount, TabForm, count_text, form_for, tabs_line
from trnfleet.tui.views import TABS
from trnfleet.tui.widgets.cells import text_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, target_of

WIDTHS = [27, 60, 79, 80, 99, 100, 120, 240]


def line(active: str, width: int, **counts: int) -> str:
    return text_of(
        tabs_line(TABS, active, {name: TabCount(number) for name, number in counts.items()}, width)
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view_keeps_its_cells(width: int) -> None:
    """Keys of all views have fixed cells, independent of view and counts."""
    places = set()
    for tab in TABS:
        for number in (0, 7, 129, 12_345, 4_000_000):
            text = line(tab.title, width, Alerts=number, Reservations=number)
            assert len(text.rstrip()) <= width
            frame = text.translate({ord("["): " ", ord("]"): " "})
            places.add(tuple(frame.index(f" {each.key}") for each in TABS))
            assert ("[" + tab.key) in text
    assert len(places) == 1


def test_form_is_a_matter_of_width() -> None:
    """80 columns have short names, fewer have keys."""
    forms = [form_for(TABS, width) for width in (40, 80, 100, 107, 200)]
    assert forms == [TabForm.KEYS, TabForm.SHORT, TabForm.FULL, TabForm.WIDE, TabForm.WIDE]
    assert line("Alerts", 40).endswith("7[8]9  Alerts")
    assert line("Alerts", 80, Alerts=3).endswith("7 Resv    [8 Alert:3]  9 Event ")
    assert line("Alerts", 120).rstrip().endswith("7 Reservations     [8 Alerts]     9 Events")
    assert "[8 Alerts:129] 9 Events" in line("Alerts", 120, Alerts=129)


def test_each_tab_leads_to_its_view() -> None:
    """And so does the number at it."""
    parts = tabs_line(TABS, "Fleet", {"Alerts": TabCount(4)}, 120)
    found = {target_of(style) for _, style in parts} - {None}
    assert found == {ClickTarget(TargetKind.VIEW, tab.title) for tab in TABS}
    assert line("Fleet", 120).count(":") == 0
    assert ":?" in text_of(tabs_line(TABS, "Fleet", {"Alerts": TabCount(None)}, 120))


@pytest.mark.parametrize(
    ("number", "text"), [(7, "7"), (999, "999"), (1_000, "1k"), (99_999, "99k"), (5_000_000, "99k")]
)
def test_counts_have_three_characters_at_most(number: int, text: str) -> None:
    assert count_text(number) == text
