"""What header, status line, banner and breadcrumbs say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.events import Event
from trnfleet.tui.breadcrumbs import breadcrumbs
from trnfleet.tui.fleet.view import end_text
from trnfleet.tui.format.addresses import shortened
from trnfleet.tui.header import header
from trnfleet.tui.help import key_text
from trnfleet.tui.status import banner, status
from trnfleet.tui.theme import BASE
from trnfleet.tui.widgets.bar import Item, fitted
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.summary import Summary

LINK = LinkStatus(broker="mqtt://127.0.0.1:1883", connected=True, connects=1, protocol="5")
HINTS = (("?", "help"), ("q", "quit"))


@pytest.fixture(scope="module")
def summary() -> Summary:
    """Return a fleet with values."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed.monitor.summary()


def said(summary: Summary, link: LinkStatus = LINK, width: int = 200) -> str:
    return "\n".join(text_of(row) for row in header(summary, link, width))


def test_the_header_tells_the_fleet(summary: Summary) -> None:
    """Every figure of the summary stands there with its unit."""
    text = said(summary)
    assert "128 chips  all live  8 instances  2 UltraServers" in text
    assert f"NC util {summary.nc_util_pct:.1f} %" in text
    assert f"{summary.power_w / 1e3:.1f} kW" in text if summary.power_w else False
    assert "TFLOPS/W" in text
    assert "nothing needs a look" in text


def test_what_is_not_known_is_not_zero(summary: Summary) -> None:
    """A figure that nobody measures is n/a."""
    assert "HBM n/a" in said(replace(summary, hbm_traffic_bytes_per_s=None))


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 240])
def test_the_header_fits(summary: Summary, width: int) -> None:
    """From 60 columns on nothing is cut, and utilisation is there at any width."""
    rows = header(replace(summary, stale_chips=16, live_chips=112, findings=12), LINK, width)
    assert any("NC" in text_of(row) for row in rows)
    if width >= 60:
        assert all(width_of(row) <= width for row in rows)


def test_80_columns_hold_every_figure_that_matters(summary: Summary) -> None:
    """Utilisation, MFU, HBM, NeuronLink, power and efficiency stand in one line."""
    line = text_of(header(summary, LINK, 80)[1])
    for part in (" NC ", "MFU ", "HBM ", "link ", "kW", "TFLOPS/W"):
        assert part in line


def test_states_are_told_in_words(summary: Summary) -> None:
    """Live, stale, offline and unheard chips are counted apart."""
    mixed = replace(summary, live_chips=60, stale_chips=48, offline_chips=32, unknown_chips=20)
    assert "60 live, 16 stale, 32 offline, 20 not heard yet" in said(mixed)


def test_waiting_says_for_what(summary: Summary) -> None:
    """Before there is a fleet, the header says what is missing."""
    nothing = replace(summary, chips=0, publishers=0)
    assert "waiting for the fleet" in said(nothing)
    assert "nobody publishes a fleet called 'demo'" in said(nothing)
    assert "publishers are there" in said(replace(nothing, publishers=1))
    down = LinkStatus(broker="mqtt://10.0.0.1:1883", last_error="connection refused")
    assert "not connected to mqtt://10.0.0.1:1883: connection refused" in said(nothing, down)


def test_the_status_line_names_the_broker(summary: Summary) -> None:
    """Broker, protocol, rate, lag, losses and publishers stand there; what is zero is left out."""
    line = text_of(status(replace(summary, lag_s=0.04), LINK, 12.0, "mosquitto 2.0.11", HINTS, 140))
    assert line.startswith(" ● mosquitto 2.0.11 at 127.0.0.1:1883, MQTT 5")
    for part in ("12 msg/s", "lag 40 ms", "lost 0", "publishers 1/1", "? help", "q quit"):
        assert part in line
    assert "dropped" not in line


def test_what_went_wrong_is_counted(summary: Summary) -> None:
    """Losses of every kind show once there are any."""
    bad = replace(summary, lost=3, dropped=5, undecodable=2, misplaced=4, rejected=6, late=1, duplicates=7)
    line = text_of(status(bad, LINK, 1.0, "", (), 200))
    for part in (
        "lost 3",
        "dropped 5",
        "undecodable 2",
        "misplaced 4",
        "rejected 6",
        "late 1",
        "duplicate 7",
    ):
        assert part in line


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_status_line_shortens_the_broker_first(summary: Summary, width: int) -> None:
    """Figures stay when the broker's name has no room."""
    assert "lost 0" in text_of(status(summary, LINK, 1.0, "mosquitto 2.0.11", HINTS, width))


def test_no_connection_is_a_banner(summary: Summary) -> None:
    """It says since when, why, and how old the values are."""
    down = replace(LINK, connected=False, changed_s=100.0, last_error="keepalive timeout")
    shown = banner(summary, down, 112.0, 99.0)
    assert shown is not None
    assert "no connection to mqtt://127.0.0.1:1883 for 12 s" in shown.text
    assert "values are the last known, the newest 13 s old" in shown.text
    assert "keepalive timeout" in shown.text


def test_a_silent_fleet_is_a_banner(summary: Summary) -> None:
    """All stale and all offline are told apart; one live chip is enough for none."""
    stale = replace(summary, live_chips=0, stale_chips=128)
    shown = banner(stale, LINK, 112.0, 99.0)
    assert shown is not None
    assert "all 128 chips are stale" in shown.text
    gone = banner(replace(stale, offline_chips=128), LINK, 112.0, 99.0)
    assert gone is not None
    assert "offline" in gone.text
    assert banner(replace(stale, live_chips=1), LINK, 112.0, 99.0) is None
    assert banner(summary, LINK, 112.0, 112.0) is None


def test_breadcrumbs_lose_their_beginning_first() -> None:
    """The last segment always stays; the active view is in brackets."""
    views = [("1", "Fleet"), ("2", "Hierarchy")]
    address = "uc1/us-0001/trn2u-0001-0/chip05"
    wide = text_of(breadcrumbs(address, views, "Fleet", 100))
    assert wide.startswith(" fleet > uc1 > us-0001 > trn2u-0001-0 > chip05")
    assert wide.endswith("[1 Fleet] 2 Hierarchy ")
    narrow = text_of(breadcrumbs(address, views, "Fleet", 40))
    assert "chip05" in narrow
    assert narrow.startswith(" … > ")


def test_the_time_is_told_where_it_is_not_the_wall_clocks(summary: Summary) -> None:
    """A dated or sped-up fleet shows its time and speed, by the day; at the wall clock there is nothing to tell."""
    fast = replace(summary, is_wall_time=False, monitor_time="2026-01-05T14:00:07.250Z", speed=3_600.0)
    assert "2026-01-05 14:00 x3600" in said(fast, width=120)
    assert "01-05 14:00 x3600" in said(fast, width=80)
    assert "2026-01-05 14:00:07 x1 " in said(replace(fast, speed=1.0), width=120)
    assert "x1" not in said(summary, width=120)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 240])
def test_the_header_fits_with_time_and_power(summary: Summary, width: int) -> None:
    """Neither the time nor the facility's power pushes the chips or the findings off the line."""
    fast = replace(summary, is_wall_time=False, monitor_time="2026-01-05T14:00:07.250Z", speed=3_600.0)
    line = text_of(header(replace(fast, findings=12), LINK, width)[0])
    assert len(line) <= width
    assert "128 chips  all live" in line
    assert "12 findings" in line


def test_it_and_facility_power_with_pue(summary: Summary) -> None:
    """The header says what IT draws, and what the meter reads with which PUE, in as many words as fit."""
    power = replace(summary, it_power_w=61_000.0, facility_power_w=69_540.0, pue=1.14)
    assert "IT 61.0 kW, facility 69.5 kW (PUE 1.14)" in said(power, width=140)
    assert "IT 61.0 kW, facility 69.5 kW " in said(power, width=110)
    assert "facility" not in said(replace(power, facility_power_w=None))


def test_a_wrong_clock_is_told(summary: Summary) -> None:
    """A source whose clock is ahead or behind is named with its error, not with a lag of nothing."""
    for skew_s in (12.0, -12.0):
        line = text_of(status(replace(summary, clock_skew_s=skew_s), LINK, 1.0, "", (), 120))
        assert "clock off by 12 s" in line
    assert "clock" not in text_of(status(summary, LINK, 1.0, "", (), 120))


@pytest.mark.parametrize("width", [80, 120, 240])
def test_news_stand_between_place_and_views(width: int) -> None:
    """An event is told with its sign and place; where one is and every view's key stay on the line."""
    views = [("1", "Fleet"), ("2", "Hierarchy"), ("4", "Chip"), ("9", "Events")]
    text = "uncorrectable HBM error on nd5, the instance must be replaced"
    address = "uc1/us-0001/trn2u-0001-0/chip05"
    where = "uc1/us-0002/trn2u-0002-3/chip11"
    event = Event(1, 0.0, 0, Severity.CRITICAL, "kernel", "x", where, "", None, text)
    line = text_of(breadcrumbs(address, views, "Fleet", width, event))
    assert len(line) == width
    assert "✖ trn2u-0002-3/chip11: uncorr" in line
    assert "chip05" in line
    assert "[1" in line
    assert all(key in line for key, _ in views)
    assert "✖" not in text_of(breadcrumbs(address, views, "Fleet", width))


@pytest.mark.parametrize("text", ["[@click=app.quit]x[/]", "[/nope]", "\x1b]0;x\x07", "a\u202eb"])
def test_remote_strings_are_plain(summary: Summary, text: str) -> None:
    """No text leaves a control character or an override in a line; markup is shown as it is."""
    link = replace(LINK, broker=text, last_error=text, protocol=text)
    down = replace(link, connected=False)
    event = Event(1, 0.0, 0, Severity.WARNING, text, text, text, text, None, text)
    lines = [
        said(replace(summary, fleet=text), link),
        said(replace(summary, fleet=text, chips=0), down),
        text_of(status(summary, link, 1.0, text, HINTS, 200)),
        getattr(banner(summary, down, 2.0, 1.0), "text", ""),
        text_of(breadcrumbs(text.replace("/", "_"), [("1", "Fleet")], "Fleet", 80)),
        text_of(breadcrumbs("", [("1", "Fleet")], "Fleet", 80, event)),
    ]
    for line in "\n".join(lines).split("\n"):
        assert line.isprintable()


def test_items_are_shortened_then_left_out() -> None:
    """Names go short before figures go."""
    items = [Item("first name", "f", "1", 2, 0), Item("second name", "s", "2", 2, 1)]
    assert text_of(fitted(items, 40, BASE, BASE)) == " first name 1    second name 2 "
    assert text_of(fitted(items, 20, BASE, BASE)) == " f 1   s 2 "
    assert text_of(fitted(items, 6, BASE, BASE)) == " f 1 "


def test_small_words() -> None:
    """Ends of scales are round, keys have their names, addresses keep their end."""
    assert (end_text(100.0, "%"), end_text(20.0, "degC"), end_text(0.0, "W")) == ("100 %", "20 °C", "0 W")
    assert (key_text("up,k"), key_text("ctrl+c"), key_text("question_mark")) == ("↑ k", "Ctrl-c", "?")
    assert shortened("uc1/us-0001/trn2u-0001-0/chip05", 20) == "trn2u-0001-0/chip05"
    assert shortened("uc1", 1) == "uc1"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_picked_out_stands_behind_the_way(width: int) -> None:
    """What is picked out in every view is said in the line, which stays within the screen; the way gives way to it."""
    views = [("1", "Fleet"), ("2", "Hierarchy"), ("4", "Chip"), ("7", "Reservations"), ("9", "Events")]
    said = "◆ cb-0123456789abcdef0 (4 instances)  u: show all"
    line = text_of(breadcrumbs("uc1/us-0001", views, "Fleet", width, None, said))
    assert len(line) <= width
    assert "◆ cb-" in line
    assert (said in line) == (width >= 80)
