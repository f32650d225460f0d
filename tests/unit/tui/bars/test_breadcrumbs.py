from __future__ import annotations

import pytest

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event
from trnfleet.tui.bars.breadcrumbs import breadcrumbs
from trnfleet.tui.notifications import AlertNotice
from trnfleet.tui.view import ALERTS, EVENTS
from trnfleet.tui.widgets.cells import text_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, target_of

ADDRESS = "uc1/us-0001/trn2u-0001-0/chip05"


def test_breadcrumbs_lose_their_beginning_first() -> None:
    """The last segment always stays."""
    assert text_of(breadcrumbs(ADDRESS, 100)) == " fleet > uc1 > us-0001 > trn2u-0001-0 > chip05"
    narrow = text_of(breadcrumbs(ADDRESS, 40))
    assert narrow == " … > us-0001 > trn2u-0001-0 > chip05"
    assert text_of(breadcrumbs(ADDRESS, 5)).endswith("chip05")


def test_segments_lead_to_what_they_name() -> None:
    """All but the last, where one is; the first one is the fleet."""
    targets = {text: target_of(style) for text, style in breadcrumbs(ADDRESS, 100)}
    assert targets["fleet"] == ClickTarget(TargetKind.PLACE, "")
    assert targets["uc1"] == ClickTarget(TargetKind.PLACE, "uc1")
    assert targets["trn2u-0001-0"] == ClickTarget(TargetKind.PLACE, "uc1/us-0001/trn2u-0001-0")
    assert targets["chip05"] is None


def event(where: str) -> Event:
    text = "uncorrectable HBM error on nd5, the instance must be replaced"
    return Event(1, 0.0, 0, Severity.CRITICAL, "kernel", "x", where, "", None, text)


@pytest.mark.parametrize("width", [80, 120, 240])
def test_news_stand_behind_the_path(width: int) -> None:
    """An event has its sign and place in the line.

    The current path stays on it.
    """
    line = text_of(breadcrumbs(ADDRESS, width, event("uc1/us-0002/trn2u-0002-3/chip11")))
    assert len(line) <= width
    assert "✖ trn2u-0002-3/chip11: uncorr" in line
    assert "chip05" in line
    assert "✖" not in text_of(breadcrumbs(ADDRESS, width))


def test_news_lead_to_their_place_or_list() -> None:
    """An event leads to its place, an alert to the alerts.

    Without a place, an event leads to the events.
    """
    notice = AlertNotice(Severity.WARNING, "llm-70b", "job-slow")
    for news, target in (
        (event("uc1/us-0002"), ClickTarget(TargetKind.PLACE, "uc1/us-0002")),
        (event(""), ClickTarget(TargetKind.VIEW, EVENTS)),
        (notice, ClickTarget(TargetKind.VIEW, ALERTS)),
    ):
        assert target_of(breadcrumbs(ADDRESS, 120, news)[-1][1]) == target


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_what_is_picked_out_stands_behind_the_path(width: int) -> None:
    """The highlight is named in the line within the screen.

    The path loses its beginning for it.
    """
    said = "◆ cb-0123456789abcdef0 (4 instances)  u: clear"
    line = text_of(breadcrumbs("uc1/us-0001", width, None, said))
    assert len(line) <= width
    assert "◆ cb-" in line
    assert (said in line) == (width >= 60)
