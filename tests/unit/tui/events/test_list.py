"""What the lines of the list of events say."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event
from trnfleet.tui.events.list import EventList, EventPlan, head, row, texts_of
from trnfleet.tui.events.view import about_text
from trnfleet.tui.widgets.cells import text_of, width_of, wrapped
from trnfleet.tui.widgets.text_filter import TextFilter

CHIP = "uc1/us-0002/trn2u-0002-1/chip05"
EVENT = Event(
    7, 0.0, parse_rfc3339("2026-01-05T14:03:07.250Z"), Severity.CRITICAL, "kernel", "hbm_ue", CHIP, "pretrain-70b",
    1201, "NEURON_HW_ERR on nd5: uncorrectable error in HBM",
)  # fmt: skip  # an event in three lines


@pytest.mark.parametrize("width", [79, 100, 118, 119, 160, 239])
def test_a_line_holds_every_column(width: int) -> None:
    """Time, severity as sign and word, source, where and text stand under their titles; the job from 100 cells on."""
    plan = EventPlan.of(width)
    line, titles = text_of(row(EVENT, plan, selected=False)), text_of(head(width))
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
    """An event without an address names its job where there is no column for it, else the fleet."""
    plan = EventPlan.of(79)
    assert " fleet " in text_of(row(EVENT._replace(path="", job=""), plan, selected=False))
    assert " job pretrain-70b " in text_of(row(EVENT._replace(path=""), plan, selected=False))
    assert " fleet " in text_of(row(EVENT._replace(path=""), EventPlan.of(120), selected=False))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("", True), ("CRIT", True), ("us-0002", True), ("hbm_ue", True), ("PRETRAIN", True), ("Kernel", True),
     ("nd5", True), ("warning", False), ("!warning", True), ("!us-0002", False), ("!", True)],
)  # fmt: skip  # a table
def test_filters(pattern: str, found: bool) -> None:
    """A filter is a part of anything that an event says, in any case; with ! it is turned round."""
    assert TextFilter.of(pattern).keeps(*texts_of(EVENT)) is found


def test_all_of_an_event_in_a_line() -> None:
    """The foot says what the columns have no room for."""
    assert about_text(EVENT) == (
        f"{CHIP}  job pretrain-70b  NRT 1201  kernel hbm_ue  2026-01-05 14:03:07.250Z"
    )


@pytest.mark.parametrize(
    "text", ["[@click=app.quit]x[/]", "\x1b]0;x\x07", "a\u202eb", "\x9b31m", "\uff21\uff22"]
)
def test_remote_text_is_plain(text: str) -> None:
    """Nothing of an event reaches a line raw, and wide characters keep the columns where they are."""
    event = EVENT._replace(source=text, name=text, path=text, job=text, text=text)
    parts = row(event, EventPlan.of(120), selected=False)
    assert text_of(parts).isprintable()
    assert about_text(event).isprintable()
    assert width_of(parts) == 120


def test_texts_are_wrapped() -> None:
    """A text is broken between words, in the middle of one that is too long, and cut at the end."""
    assert [line.rstrip() for line in wrapped("one two three", 8, 2)] == ["one two", "three"]
    assert wrapped("abcdefghij", 4, 2) == ["abcd", "efg…"]
    assert [line.rstrip() for line in wrapped("short", 20, 2)] == ["short", ""]
    assert wrapped("anything", 20, 0) == []
    assert [line.rstrip() for line in wrapped("\uff21\uff22\uff23 \uff24", 6, 2)][1]


@pytest.mark.parametrize(
    ("is_recording", "reason"), [(False, "the broker keeps none"), (True, "of the recording")]
)
def test_an_empty_list_names_its_source(is_recording: bool, reason: str) -> None:
    """A recording has no broker that could have kept events."""
    events = EventList(Feed(ultraservers(1)).monitor, is_recording=is_recording)
    assert reason in "".join(text for text, _ in events.empty_lines())
