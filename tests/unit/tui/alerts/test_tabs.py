"""The words of the Alerts view's tabs, without a screen."""

from __future__ import annotations

import pytest
from support.tui.past_app import burning, fed

from trnfleet.tui.alerts.view import (
    ACTIVE,
    ALL,
    HISTORY,
    SILENCES,
    TABS,
    alert_tabs,
    nothing_words,
    with_doubt,
    with_found,
    with_note,
    with_order,
)
from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.tui.widgets.cells import text_of, width_of


async def test_the_shown_tab_is_in_brackets() -> None:
    """Each tab shows its count, in the same cells for every tab shown."""
    snapshot = AlertSnapshot((await burning(3)).monitor)
    snapshot.refresh(0.0)
    assert text_of(alert_tabs(snapshot, ACTIVE)) == " [active 1]  all 1   silences 0   history 1  "
    assert text_of(alert_tabs(snapshot, HISTORY)) == "  active 1   all 1   silences 0  [history 1] "
    assert len({width_of(alert_tabs(snapshot, tab)) for tab in TABS}) == 1


@pytest.mark.parametrize("width", [80, 120, 240])
def test_the_line_fills_its_width(width: int) -> None:
    """A note, a problem, a filter and an order stand at the line's end."""
    tabs = alert_tabs(AlertSnapshot(fed().monitor), ACTIVE)
    lines = [
        with_note(tabs, "done", width),
        with_found(tabs, "x", 5, width),
        with_order(tabs, ALL, "age", width),
        with_order(tabs, SILENCES, "age", width),
        with_order(tabs, ALL, "age", width, "w leads; heard 3 s ago"),
        with_doubt(tabs, "2 watches lead", width),
    ]
    assert {width_of(line) for line in lines} == {width}
    assert [text_of(line).split()[-1] for line in lines[:2]] == ["done", "found"]


def test_where_there_is_little_room() -> None:
    """A long note replaces the tabs.

    The number of matches is dropped before the filter, the order entirely.
    """
    tabs = alert_tabs(AlertSnapshot(fed().monitor), ACTIVE)
    width = width_of(tabs) + 6
    assert text_of(with_note(tabs, "a note " * 20, width)).startswith(" a note")
    assert text_of(with_found(tabs, "abc", 5, width)).endswith("/abc ")
    assert with_order(tabs, ACTIVE, "severity", width) == tabs


async def test_why_a_tab_is_empty() -> None:
    """Without rules, with a filter, without a history, and in a calm fleet."""
    snapshot = AlertSnapshot(fed().monitor)
    snapshot.refresh(0.0)
    assert nothing_words(snapshot, ACTIVE, "") == [
        "No unacknowledged alerts. 1 rules loaded.",
        "",
    ]
    assert nothing_words(snapshot, HISTORY, "") == [
        "No alert has fired since this program started."
    ]
    assert nothing_words(snapshot, HISTORY, "zz") == ["Nothing matches zz. Esc shows everything."]
    snapshot.alerts.rules = ()
    assert nothing_words(snapshot, ACTIVE, "zz") == ["No rules are loaded, so there are no alerts."]


def test_the_watch_that_leads_stands_beside_the_order_where_there_is_room() -> None:
    """A narrow screen shows the order alone.

    Doubts about a watch replace it.
    """
    tabs = alert_tabs(AlertSnapshot(fed().monitor), ACTIVE)
    assert text_of(with_order(tabs, ALL, "age", 120, "w leads; heard 3 s ago")).endswith(
        "w leads; heard 3 s ago  sort: age "
    )
    assert "leads" not in text_of(with_order(tabs, ALL, "age", 60, "w leads; heard 3 s ago"))
    assert "▲ 2 watches lead" in text_of(with_doubt(tabs, "2 watches lead", 120))
