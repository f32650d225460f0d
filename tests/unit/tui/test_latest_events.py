"""The newest events below the lists of the Fleet view."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event
from trnfleet.tui import theme
from trnfleet.tui.fleet.view import LatestEvents, event_lines
from trnfleet.tui.widgets.cells import text_of, width_of

CHIP = "uc1/us-0001/trn2u-0001-1/chip05"
FIRING = Event(0, 0.0, 0, Severity.WARNING, "rule", "firing", CHIP, "", None, "firing: throttled")


async def test_events_of_publishers_and_alerts_are_in_one_order() -> None:
    """Events are ordered by arrival, newest first.

    An alert's event comes after a simultaneous event that may be its cause.
    """
    feed = Feed(ultraservers(1))
    monitor = feed.monitor
    shown = LatestEvents(feed.monitor)
    assert "no events yet" in shown.lines(0, 3, 60)[0].make().text
    told = 0
    for text in ("first", "second"):
        monitor.apply([feed.event(CHIP, text)])
        monitor.ingest.alert_events._add(
            FIRING._replace(text=f"firing: {text}"), feed.clock.monotonic_s()
        )
        assert shown.received == (told := told + 2)
        await feed.clock.advance(1.0)
    lines = [line.make().text for line in shown.lines(0, 9, 60)]
    assert [line[33:].strip() for line in lines] == [
        "firing: second",
        "second",
        "firing: first",
        "first",
    ]
    assert len(shown.lines(0, 2, 60)) == 2


def test_narrow_events_have_two_lines() -> None:
    """The text has lines of its own if the place leaves no room.

    All events have their rows.
    """
    head, happened = event_lines(FIRING._replace(text="firing: " + "x" * 26), 46, 3)
    assert text_of(head).split() == [
        "00:00:00",
        theme.SEVERITY_GLYPH[Severity.WARNING],
        "trn2u-0001-1/chip05",
    ]
    assert text_of(happened).rstrip() == " " * 12 + "firing: " + "x" * 26
    words = "ends: instances terminated in 1 h 59 min, and their jobs with them"
    _, *cut = event_lines(FIRING._replace(text=words), 46, 3)
    assert " ".join(text_of(line).strip() for line in cut) == words
    *_, last = event_lines(FIRING._replace(text=words), 46, 2)
    assert text_of(last).endswith("…")
    assert len(event_lines(FIRING._replace(text=words), 46, 1)) == 1
    feed = Feed(ultraservers(1))
    shown = LatestEvents(feed.monitor)
    feed.monitor.apply([feed.event(CHIP, f"event {number}") for number in range(4)])
    lines = [line.make().text.strip() for line in shown.lines(0, 5, 46)]
    assert lines[1::2] == ["event 3", "event 2"]
    assert len(lines) == 5
    assert (shown.rows_wanted(60), shown.rows_wanted(46)) == (5, 10)


@pytest.mark.parametrize("width", [1, 12, 46, 60, 74, 120])
@pytest.mark.parametrize(
    "text", ["[@click=app.quit]x[/]", "\x1b]0;x\x07", "a\u202eb", "\uff21" * 200]
)
def test_remote_text_is_plain_and_fits(text: str, width: int) -> None:
    for parts in event_lines(FIRING._replace(path=text, job=text, text=text), width, 3):
        assert text_of(parts).isprintable()
        assert width_of(parts) <= max(width, 13)


def test_what_has_no_address_is_about_its_job_or_the_fleet() -> None:
    assert " train " in text_of(*event_lines(FIRING._replace(path="", job="train"), 60, 3))
    assert " fleet " in text_of(*event_lines(FIRING._replace(path=""), 60, 3))
