"""Lines of the list of events."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.clock import NS_PER_S, parse_rfc3339
from trnfleet.domain.filters.language import parse
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event, Events
from trnfleet.tui.events.list import EVENT_COLUMNS, EventList, EventPlan, EventRow, head, row
from trnfleet.tui.events.view import about_text
from trnfleet.tui.widgets.cells import text_of, width_of, wrapped

CHIP = "uc1/us-0002/trn2u-0002-1/chip05"
EVENT = Event(
    7,
    0.0,
    parse_rfc3339("2026-01-05T14:03:07.250Z"),
    Severity.CRITICAL,
    "kernel",
    "hbm_ue",
    CHIP,
    "pretrain-70b",
    1201,
    "NEURON_HW_ERR on nd5: uncorrectable error in HBM",
)


@pytest.mark.parametrize("width", [79, 100, 118, 119, 160, 239])
def test_a_line_holds_every_column(width: int) -> None:
    """Time, severity, source, place and text stand under their titles.

    Severity is sign and word; the job appears from 100 cells on.
    """
    plan = EventPlan.for_width(width)
    line = text_of(row(EVENT, plan, selected=False))
    titles = text_of(head(width))
    assert width_of(row(EVENT, plan, selected=True)) == len(titles) == width
    for title, value in (
        ("time", "2026-01-05 14:03:07" if width >= 160 else "14:03:07"),
        ("severity", "✖ critical"),
        ("source", "kernel"),
        ("where", CHIP if width >= 118 else "trn2u-0002-1/chip05"),
        ("what", "NEURON_HW_ERR on nd5"),
        *([("job", "pretrain-70b")] if width >= 100 else []),
    ):
        at = titles.index(title)
        assert line[at:].startswith(value), title


def test_what_has_no_address_is_about_the_fleet_or_a_job() -> None:
    """An event without an address names its job, else the fleet.

    The job is named only without a column of its own.
    """
    plan = EventPlan.for_width(79)
    assert " fleet " in text_of(row(EVENT._replace(path="", job=""), plan, selected=False))
    assert " job pretrain-70b " in text_of(row(EVENT._replace(path=""), plan, selected=False))
    assert " fleet " in text_of(
        row(EVENT._replace(path=""), EventPlan.for_width(120), selected=False)
    )
    reserved = EVENT._replace(path="", job="", subject="cb-0200e9313a42945db")
    for width in (79, 120):
        assert " cb-0200e9313a42945db " in text_of(
            row(reserved, EventPlan.for_width(width), selected=False)
        )
    assert EventRow(reserved, 0).has("cb-0200e9313a42945db")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", True),
        ("CRIT", True),
        ("us-0002", True),
        ("hbm_ue", True),
        ("PRETRAIN", True),
        ("Kernel", True),
        ("nd5", True),
        ("warning", False),
        ("!warning", True),
        ("!us-0002", False),
        ("!", True),
        ("sev>=warning & job=~pre.*", True),
        ("age<30s", False),
        ("nrt=1201", True),
        ("at=uc1/us-0002", True),
        ("at=uc1/us-0003", False),
    ],
)
def test_filters(pattern: str, found: bool) -> None:
    """A filter matches any part of an event's texts, in any case.

    A ! inverts it.
    """
    now_ns = EVENT.ts_ns + 60 * NS_PER_S
    assert parse(pattern, EVENT_COLUMNS).keeps(EventRow(EVENT, now_ns)) is found


def test_all_of_an_event_in_a_line() -> None:
    """The foot shows everything without room in the columns."""
    assert (
        about_text(EVENT)
        == f"{CHIP}  job pretrain-70b  NRT 1201  kernel hbm_ue  2026-01-05 14:03:07.250Z"
    )


@pytest.mark.parametrize(
    "text", ["[@click=app.quit]x[/]", "\x1b]0;x\x07", "a\u202eb", "\x9b31m", "\uff21\uff22"]
)
def test_remote_text_is_plain(text: str) -> None:
    """No text of an event reaches a line raw.

    Wide characters leave the columns in place.
    """
    event = EVENT._replace(source=text, name=text, path=text, job=text, text=text)
    parts = row(event, EventPlan.for_width(120), selected=False)
    assert text_of(parts).isprintable()
    assert about_text(event).isprintable()
    assert width_of(parts) == 120


def test_texts_are_wrapped() -> None:
    """A text is broken between words, inside a long word, and cut at the end."""
    assert [line.rstrip() for line in wrapped("one two three", 8, 2)] == ["one two", "three"]
    assert wrapped("abcdefghij", 4, 2) == ["abcd", "efg…"]
    assert [line.rstrip() for line in wrapped("short", 20, 2)] == ["short", ""]
    assert wrapped("anything", 20, 0) == []
    assert [line.rstrip() for line in wrapped("\uff21\uff22\uff23 \uff24", 6, 2)][1]


@pytest.mark.parametrize(
    ("shows_past", "incomplete", "pattern", "wanted"),
    [
        (False, "", "", "No events since 00:00:00 UTC (start); the broker keeps none from before"),
        (True, "", "", "No events before 00:00:00"),
        (True, "loading", "", "Loading events before 00:00:00 …"),
        (True, "since 09:06", "", "No events since 09:06"),
        (True, "", "failed", 'No match for "failed" before 00:00:00 (1 event). Esc clears.'),
        (False, "", "failed", 'No match for "failed" (1 event). Esc clears.'),
        (True, "loading", "failed", "Loading events before 00:00:00 …"),
    ],
)
def test_an_empty_list_says_why(
    shows_past: bool, incomplete: str, pattern: str, wanted: str
) -> None:
    """An empty list names its reason.

    A recording has no broker with retained events, and unknown history makes no claim.
    """
    feed = Feed(ultraservers(1))
    feed.monitor.incomplete = incomplete
    events = EventList(feed.monitor, shows_past=lambda: shows_past)
    if pattern:
        feed.monitor.apply([feed.event(CHIP)])
        events.filter(parse(pattern, EVENT_COLUMNS))
    assert "".join(text for text, _ in events.empty_lines()).strip() == wanted


def test_what_made_room_leaves_the_list() -> None:
    """Evicted events of a busy instance leave the list, even before older ones of others."""
    feed = Feed(ultraservers(1))
    feed.monitor.ingest.events = Events(kept=32)
    shown = EventList(feed.monitor)
    feed.monitor.apply([feed.event("uc1/us-0001/trn2u-0001-1")])
    shown.tick()
    for _ in range(2):
        feed.monitor.apply([feed.event(CHIP) for _ in range(30)])
        shown.tick()
    kept = [event.number for event in feed.monitor.events.newest_first()]
    assert kept == [*range(61, 30, -1), 1]
    assert [shown.row_key(row).number for row in range(shown.count)] == kept
