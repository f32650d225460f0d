from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from unit.tui.format.test_reservations import NASTY, made

from trnfleet.clock import format_rfc3339
from trnfleet.domain.reservations.states import ExtensionState, InterconnectStatus, ReservationState
from trnfleet.tui.reservations.details import due_words, facts, foot, summary
from trnfleet.tui.state.highlight import Highlight, holders, place_of, places_text
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.reservations import ExtensionSpec

FEED = Feed(ultraservers(1) + standalone(2))
LAYOUT = FEED.layout
ALONE = "uc1/standalone/trn2-0001"


def told(*table: Any, note: str = "", pattern: str = "", width: int = 120) -> str:
    return text_of(summary(list(table), len(table), "id", pattern, note, width))


def test_what_needs_a_look_is_summed_up() -> None:
    """Impaired, ending and idle reservations are counted; ended or outdated ones are not."""
    idle = made(is_idle=True, idle_per_h=Decimal("43.81"))
    gone = made(is_current=False, is_near_end=True, idle_per_h=Decimal(5))
    ended = made(
        message={"state": ReservationState.EXPIRED}, is_near_end=True, idle_per_h=Decimal(5)
    )
    impaired = made(message={"interconnect": InterconnectStatus.IMPAIRED}, is_near_end=True)
    line = told(idle, idle, gone, ended, impaired)
    assert line.startswith(
        " 4 reserved  1 ended  ✖ 1 impaired or out  ▲ 1 ending within 6 h  ▲ 87.62 USD/h idle "
    )
    assert line.endswith("sort: id ")
    # Where there is no room for all, what needs nobody goes.
    narrow = told(
        idle,
        ended,
        made(message={"interconnect": InterconnectStatus.IMPAIRED}, is_near_end=True),
        width=80,
    )
    assert "ended" not in narrow
    assert "USD/h idle" in narrow
    assert "nothing idle, nothing ending soon" in told(made())
    assert "nothing idle" not in told()


def test_currencies_are_not_added_up() -> None:
    """Idle money of two currencies stands side by side."""
    euros = made(message={"currency": "EUR"}, idle_per_h=Decimal(2))
    assert "▲ 2.00 EUR + 1.00 USD/h idle" in told(euros, made(idle_per_h=Decimal(1)))


@pytest.mark.parametrize("width", [20, 40, 80, 240])
def test_the_summary_fits(width: int) -> None:
    """The sort order is dropped before anything urgent at every width.

    A filter is shown.
    """
    line = told(made(is_near_end=True), pattern="us" + NASTY, width=width)
    assert "\x1b" not in line
    if width >= 80:
        assert "1 found" in line
        assert len(line) <= width


def test_a_note_is_said_instead() -> None:
    """The answer to the last request is shown there."""
    assert told(made(), note="no reservation has uc1").startswith(" no reservation has uc1")


def test_what_is_due_is_said_first() -> None:
    """The foot shows due dates before other dates and money, in whole words only."""
    lines = foot(made(to_termination_s=90.0), 80)
    assert text_of(lines[1]).startswith(
        " terminates in 1m 30s  can be extended  1970-01-01 00:00 to 1970-01-04"
    )
    assert all(width_of(line) <= 80 for line in lines)
    assert "…" not in text_of(lines[1])
    assert foot(None, 80) == []


def test_payments_have_their_time() -> None:
    """A pending payment shows its deadline, a refused extension its reason."""
    pays_ns = 86_400 * 10**9 + 3_600 * 10**9
    message = {"state": ReservationState.PAYMENT_PENDING, "pay_by": format_rfc3339(pays_ns)}
    pending = made(
        message=message,
        to_start_s=-86_400.0,
        can_extend=False,
        why_not="payment-pending",
        pays_ns=pays_ns,
    )
    assert due_words(pending) == ["payment due in 1h 00m", "extension no: payment-pending"]
    assert due_words(made()) == ["terminates in 1d 23h", "can be extended"]
    assert due_words(made(to_termination_s=-1.0))[0] == "is being terminated"
    assert due_words(made(message={"state": ReservationState.EXPIRED}, can_extend=False)) == []


def test_every_extension_is_told_of() -> None:
    """The chosen reservation shows each extension, paid or not, without raw characters."""
    times = {"bought": "2026-01-01T00:00:00Z", "start": "2026-01-08T11:30:00Z"}
    extensions = (
        ExtensionSpec(
            id="a",
            state=ExtensionState.PAYMENT_SUCCEEDED,
            end="2026-01-15T11:30:00Z",
            fee="12.5",
            **times,
        ),
        ExtensionSpec(
            id="b",
            state=ExtensionState.PAYMENT_PENDING,
            end="2026-01-22T11:30:00Z",
            fee="1",
            **times,
        ),
    )
    message = {"extensions": extensions, "unavailable": 1, "zone": NASTY, "on": (NASTY,)}
    found = facts(made(message=message, unknown=1), ["i-1"])
    assert (
        next(words for name, words in found if name == "extension")
        == "to 2026-01-15 11:30 UTC, 12.50 USD, payment-succeeded"
    )
    assert [name for name, _ in found][:3] == ["capacity", "term", "ends"]
    assert ("used", "2 of 2 instances, no telemetry of 1: i-1") in found
    assert ("out", "1 instance fails its status check") in found
    assert ("term", "1970-01-01 00:00 to 1970-01-04 00:00 UTC, 3 d") in found
    said = "".join(words for _, words in found)
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert all(len(name) <= 11 for name, _ in found)
    assert ("term", "from 1970-01-01 00:00 UTC until it is cancelled") in facts(made(ends_ns=None))


def test_a_place_is_one_that_there_is() -> None:
    """A published place is used only if the fleet has it.

    Otherwise its known instances are used, else the fleet.
    """
    assert place_of(made(on=(f"{ALONE}..trn2-0002",)), LAYOUT) == ALONE
    assert place_of(made(on=("uc1/us-0001",)), LAYOUT) == "uc1/us-0001"
    first = LAYOUT.instances[0]
    assert place_of(made(on=(NASTY,)), LAYOUT) == first
    assert place_of(made(on=(NASTY,), rows=()), LAYOUT) == ""
    assert places_text(made()) == "its place is not known"
    assert "\x1b" not in places_text(made(on=(NASTY,)))


def test_who_holds_a_place() -> None:
    """A place is held by reservations of any part of it, future ones included.

    Ended and neighbouring ones do not hold it.
    """
    number = LAYOUT.instance_index[ALONE]
    here = (range(number, number + 1),)
    beside = (range(number + 1, number + 2),)
    table = [
        made(message={"id": "cb-beside"}, rows=beside),
        made(message={"id": "cb-here"}, rows=here),
        made(message={"id": "cb-old", "state": ReservationState.EXPIRED}, rows=here),
        made(message={"id": "cb-next", "state": ReservationState.SCHEDULED}, rows=here),
    ]
    assert holders(table, LAYOUT, f"{ALONE}/chip03") == ["cb-here", "cb-next"]
    assert holders(table, LAYOUT, "uc1/standalone") == ["cb-beside", "cb-here", "cb-next"]
    assert holders(table, LAYOUT, "uc9") == []


def test_the_highlight_follows_the_fleet() -> None:
    """The mask marks the reservation's instances.

    There is no mask without one, or once the reservation is gone.
    """
    feed = Feed(ultraservers(1) + standalone(2))
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", ALONE)])
    feed.tick()
    highlight = Highlight(feed.monitor)
    assert highlight.mask() is None
    assert highlight.words() == ""
    highlight.reservation_id = "cb-1"
    mask = highlight.mask()
    assert mask is not None
    assert [path for path, marked in zip(feed.layout.instances, mask, strict=True) if marked] == [
        ALONE
    ]
    assert highlight.words() == "◆ cb-1 (1 instance)  u: clear"
    assert highlight.place() == ALONE
    feed.monitor.apply([feed.reservation("cb-1", "uc1/nowhere", change=2)])
    feed.tick()
    assert "(place not known)" in highlight.words()
    feed.monitor.reservations.remove("cb-1")
    feed.tick()
    assert highlight.mask() is None
    assert highlight.words() == ""
