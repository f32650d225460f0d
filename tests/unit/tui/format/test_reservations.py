from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from trnfleet.domain.reservations.states import InterconnectStatus, ReservationState
from trnfleet.domain.severity import Severity
from trnfleet.monitor.reservations.table import IDLE_BELOW_PCT, Reservation
from trnfleet.tui.format.reservations import (
    ReservationPlan,
    countdown,
    extension_text,
    head,
    money,
    row,
    severity,
    short_id,
    state_text,
    termination_text,
    until_text,
    used_text,
    what_text,
)
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.reservations import ReservationMessage

NASTY = "\x1b[2J[red]\u202e"


def made(*, message: dict[str, Any] | None = None, **change: Any) -> Reservation:
    told: dict[str, Any] = {
        "id": "cb-0123456789abcdef0",
        "state": ReservationState.ACTIVE,
        "ts": "2026-01-03T11:30:00Z",
        "instance_type": "trn2.48xlarge",
        "zone": "us-east-2b",
        "instances": 2,
        "created": "2026-01-01T11:30:00Z",
        "start": "2026-01-03T11:30:00Z",
        "end": "2026-01-06T11:30:00Z",
        "fee": "7200.00",
    }
    found = Reservation(
        message=ReservationMessage(**(told | (message or {}))),
        rows=(range(2),),
        on=(message or {}).get("on", ()),
        starts_ns=0,
        ends_ns=3 * 86_400 * 10**9,
        terminates_ns=3 * 86_400 * 10**9 - 1_800 * 10**9,
        to_start_s=-86_400.0,
        to_end_s=2 * 86_400.0,
        to_termination_s=2 * 86_400.0 - 1_800.0,
        used=2,
        unknown=0,
        not_launched=0,
        util_pct=80.0,
        mean_util_pct=70.0,
        fee_per_h=Decimal(100),
        idle_per_h=Decimal(0),
        can_extend=True,
        why_not="",
        is_near_end=False,
        is_idle=False,
    )
    return replace(found, **change)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-0.1, "ended"),
        (0.0, "0s"),
        (0.2, "1s"),
        (59.0, "59s"),
        (3_599.0, "59m 59s"),
        (3_600.0, "1h 00m"),
        (86_399.0, "23h 59m"),
        (86_400.0, "1d 00h"),
        (99 * 86_400 + 82_800.0, "99d 23h"),
        (182 * 86_400.0, "182d"),
    ],
)
def test_countdowns(seconds: float, text: str) -> None:
    """A countdown has its two largest units in seven cells, down to the last second."""
    assert countdown(seconds) == text
    assert len(text) <= 7


@pytest.mark.parametrize(
    ("reservation", "text", "found"),
    [
        (made(), "● active", None),
        (made(is_near_end=True), "▲ ending", Severity.WARNING),
        (made(is_idle=True), "▲ idle", Severity.WARNING),
        (made(is_idle=True, is_near_end=True), "▲ ending, idle", Severity.WARNING),
        (made(message={"state": ReservationState.SCHEDULED}), "○ scheduled", None),
        (
            made(message={"state": ReservationState.PAYMENT_PENDING}),
            "▲ payment-pending",
            Severity.WARNING,
        ),
        (made(message={"state": ReservationState.UNAVAILABLE}), "✖ unavailable", Severity.CRITICAL),
        (
            made(message={"interconnect": InterconnectStatus.IMPAIRED}),
            "✖ impaired",
            Severity.CRITICAL,
        ),
        (made(message={"unavailable": 1}), "✖ 1 out", Severity.CRITICAL),
        (made(message={"state": ReservationState.EXPIRED}), "· expired", None),
        (made(is_current=False, is_idle=True), "? active", None),
        (made(is_near_end=True, to_termination_s=1_800.0), "▲ ending", Severity.WARNING),
        (made(is_near_end=True, to_termination_s=1_799.0), "✖ ending", Severity.CRITICAL),
        (made(is_near_end=True, to_termination_s=-1.0), "✖ terminating", Severity.CRITICAL),
        (made(message={"state": ReservationState.DELAYED}), "▲ delayed", Severity.WARNING),
        (made(message={"state": ReservationState.UNSUPPORTED}), "· unsupported", None),
    ],
)
def test_states_have_a_sign_and_a_word(
    reservation: Reservation, text: str, found: Severity | None
) -> None:
    """Each state has its own sign beside its word.

    A needed action replaces `active`.
    """
    assert state_text(reservation) == text
    assert severity(reservation) is found


def test_idle_agrees_with_the_mean_beside_it() -> None:
    """Instances that have just stopped are idle while the 10 s mean is still high.

    The wide column explains it.
    """
    idle = made(is_idle=True, used=0)
    assert state_text(idle, 63.0) == "▲ idle now"
    assert state_text(idle, IDLE_BELOW_PCT) == "▲ idle"
    ending = made(is_idle=True, used=0, is_near_end=True)
    assert state_text(ending, 63.0) == "▲ ending"
    assert state_text(ending, 0.0) == "▲ ending, idle"
    assert "util, 10 s mean" in text_of(head(163))
    assert " util, now " in text_of(head(163, 0.0))
    for width in (103, 144):
        assert " idle, $/h" in text_of(head(width))
    told = text_of(row(idle, ReservationPlan.for_width(163), 63.0, selected=False, picked=False))
    assert "▲ idle now" in told
    assert "63.0%" in told


def test_what_is_next() -> None:
    """A scheduled block shows its start, an active one its end.

    An ended one shows that it is over.
    """
    scheduled = made(message={"state": ReservationState.SCHEDULED}, to_start_s=7_200.0)
    assert until_text(scheduled) == "starts 2h 00m"
    assert termination_text(scheduled) == ""
    assert used_text(scheduled) == "-/2"
    assert until_text(made()) == "ends 2d 00h"
    assert termination_text(made(to_termination_s=-1.0)) == "now"
    assert until_text(made(message={"state": ReservationState.EXPIRED})) == "ended"
    assert until_text(made(to_end_s=None)) == "no end"
    assert used_text(made(used=None)) == "?/2"


def test_extension_and_money() -> None:
    """Eligibility says why not, and money has two decimals or is not known."""
    assert extension_text(made()) == "can be extended"
    assert (
        extension_text(made(can_extend=False, why_not="payment pending")) == "no: payment pending"
    )
    assert money(Decimal("1234.567"), "USD") == "1,234.57 USD"
    assert money(None) == "n/a"


def test_what_a_reservation_holds() -> None:
    """An UltraServer is named as such.

    An instance type is cut to its family if there is little room.
    """
    assert what_text(made(message={"ultraserver_type": "u-trn2x64"})) == "UltraServer"
    assert what_text(made()) == "2 x trn2.48xlarge"
    assert what_text(made(), 11) == "2 x trn2"


def test_ids_keep_their_end() -> None:
    """A long id is cut to its distinctive end."""
    assert short_id("cb-0123456789abcdef0", 9) == "cb-…cdef0"
    assert short_id("cb-1", 9) == "cb-1"


@pytest.mark.parametrize("width", [80, 100, 120, 140, 160, 200, 240])
@pytest.mark.parametrize("selected", [False, True])
def test_lines_fit_and_stand_under_their_titles(width: int, selected: bool) -> None:
    """A line fits the screen at every width, with columns under their titles."""
    plan = ReservationPlan.for_width(width)
    line = text_of(row(made(), plan, jobs="train", selected=selected, picked=False))
    titles = text_of(head(width))
    assert len(line.rstrip()) <= width - 1
    assert len(titles) <= width - 1
    assert line.index("● active") == titles.index("state")
    assert line.index("ends 2d") == titles.index("ends")
    assert line.find(" train ") == titles.find(" job ")
    assert (" job " in titles) == (width >= 119)
    assert " capacity " in titles
    assert line.index("2/2") + 3 == titles.index("used") + 4
    assert ("7,200.00" in line) == ("fee" in titles) == (width >= 132)
    assert ("can be extended" in line) == (width >= 213)


def test_marks() -> None:
    """The highlighted reservation has its own sign, the cursor's line another."""
    plan = ReservationPlan.for_width(120)
    assert text_of(row(made(), plan, selected=True, picked=True)).startswith("◆")
    assert text_of(row(made(), plan, selected=True, picked=False)).startswith(">")
    assert text_of(row(made(), plan, selected=False, picked=False)).startswith(" ")
    marked = row(made(), plan, None, Severity.CRITICAL, selected=False, picked=False)
    assert "● active        ✖ cb-" in text_of(marked)


def test_hostile_words_are_plain() -> None:
    """Data from the wire never reaches a line raw, and fits its column."""
    nasty = made(message={"zone": NASTY}, can_extend=False, why_not=NASTY)
    for width in (80, 240):
        parts = row(nasty, ReservationPlan.for_width(width), selected=False, picked=False)
        assert "\x1b" not in text_of(parts)
        assert width_of(parts) <= width
