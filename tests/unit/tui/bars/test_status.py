from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.monitor.feed import Feed, standalone

from trnfleet.domain.alerts.watches import ReceiverError
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.pipeline.health import judge
from trnfleet.tui import theme
from trnfleet.tui.bars.brokers import brokers_text
from trnfleet.tui.bars.status import banner, own_banner, status
from trnfleet.tui.widgets.cells import text_of
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.summary import Summary

LINK = LinkStatus(broker="mqtt://127.0.0.1:1883", connected=True, connects=1, protocol="5")
HINTS = (("?", "help"), ("q", "quit"))


def judged(
    summary: Summary, overloaded_s: float = 0.0, clock_skew_s: float = 0.0, **counts: int
) -> Summary:
    """Return a summary with the problems of a pipeline with some counts."""
    calm = Feed(standalone(1)).monitor.pipeline()
    of = PipelineCounts()
    for name, number in counts.items():
        setattr(of, name, number)
    counted = replace(calm, counts=of, overloaded_s=overloaded_s, clock_skew_s=clock_skew_s)
    return replace(summary, pipeline_problems=judge(counted))


def test_the_status_line_names_the_broker(summary: Summary) -> None:
    """The line shows broker, protocol, rate, lag, losses and publishers.

    Zeros are left out.
    """
    line = text_of(
        status(
            replace(summary, lag_s=0.04, messages_per_s=12.0), LINK, "mosquitto 2.0.11", HINTS, 140
        )
    )
    assert line.startswith(" ● mosquitto 2.0.11 at 127.0.0.1:1883, MQTT 5")
    for part in ("12 msg/s", "lag 40 ms", "lost 0", "publishers 1/1", "? help", "q quit"):
        assert part in line
    assert "dropped" not in line


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_broker_that_is_not_verified_is_marked_at_every_width(
    summary: Summary, width: int
) -> None:
    """An unverified broker is marked, also among several and on a narrow screen.

    Anybody could be the broker.
    """
    unverified = replace(LINK, broker="mqtts://127.0.0.1:8883", is_unverified=True)
    for link in (unverified, replace(LINK, parts=(LINK, unverified))):
        assert "TLS not verified" in text_of(status(summary, link, "", HINTS, width))
    assert "TLS" not in text_of(status(summary, LINK, "", HINTS, width))


def test_where_nothing_is_live_there_is_no_lag(summary: Summary) -> None:
    """No lag is shown for a silent fleet: 0 ms would look healthy."""
    assert "lag -" in text_of(status(replace(summary, lag_s=None), LINK, "", HINTS, 140))


def test_what_went_wrong_is_counted(summary: Summary) -> None:
    """Losses of every kind show once there are any."""
    bad = judged(
        summary, lost=3, dropped=5, undecodable=2, misplaced=4, rejected=6, late=1, duplicates=7
    )
    line = text_of(status(bad, LINK, "", (), 200))
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


def test_the_last_problem_is_named_where_there_is_room(summary: Summary) -> None:
    """The reason follows the counts, plain and cut, with room for keys.

    In a narrow terminal it goes first.
    """
    reason = "t/node/x: over 270000 instances\x1b[2J" + "x" * 300
    bad = replace(judged(summary, rejected=6), last_problem=reason)
    wide, narrow = (text_of(status(bad, LINK, "", HINTS, width)) for width in (160, 80))
    assert ": t/node/x: over 270000 instances" in wide
    assert "\x1b" not in wide
    assert "? help" in wide
    assert len(wide) == 160
    assert "over 270000" not in narrow
    assert "rejected 6" in narrow


def test_what_receivers_do_not_take_is_counted(summary: Summary) -> None:
    """Receiver errors are counted at any width.

    The reason appears if there is room and no message was refused.
    """
    error = ReceiverError("alertmanager", "silence", "s-1", "HTTP 400 'no'\x1b[2J")
    bad = replace(summary, receiver_error_count=2, receiver_errors=(error,))
    wide, narrow = (text_of(status(bad, LINK, "", HINTS, width)) for width in (160, 80))
    assert "receiver errors 2" in wide
    assert ": alertmanager: silence s-1: HTTP 400 'no'" in wide
    assert "\x1b" not in wide
    assert "receiver errors 2" in narrow
    assert "s-1" not in narrow
    both = replace(bad, last_problem="t/node/x: over 270000 instances")
    assert ": t/node/x: over 270000" in text_of(status(both, LINK, "", HINTS, 160))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_status_line_shortens_the_broker_first(summary: Summary, width: int) -> None:
    """Figures stay when the broker's name has no room."""
    assert "lost 0" in text_of(status(summary, LINK, "mosquitto 2.0.11", HINTS, width))


class Child(NamedTuple):
    note: str
    figure: str


def test_processes_of_its_own_are_told(summary: Summary) -> None:
    """Ended processes of the app are named, running ones are not."""
    simulator = Child("the simulator was killed by SIGKILL", "simulator restarted 1")
    told = own_banner((Child("", ""), simulator))
    assert told is not None
    assert told.text == "▲ the simulator was killed by SIGKILL"
    assert own_banner((Child("", ""),)) is None
    line = text_of(status(summary, LINK, "", (), 160, processes=(Child("", ""), simulator)))
    assert line.rstrip().endswith("publishers 1/1  simulator restarted 1")


def test_no_connection_is_a_banner(summary: Summary) -> None:
    """It says since when, why, and how old the values are."""
    down = replace(LINK, connected=False, changed_s=100.0, last_error="keepalive timeout")
    shown = banner(summary, down, 112.0, 99.0)
    assert shown is not None
    assert "no connection to mqtt://127.0.0.1:1883 for 12 s" in shown.text
    assert "values are the last known, the newest 13 s old" in shown.text
    assert "keepalive timeout" in shown.text


def test_a_connection_in_doubt_is_a_banner(summary: Summary) -> None:
    """While a connection stands without messages, the banner blames the network, not the fleet."""
    shown = banner(
        replace(summary, live_chips=0, stale_chips=128, unheard_s=7.0), LINK, 112.0, 105.0
    )
    assert shown is not None
    assert "nothing has come from mqtt://127.0.0.1:1883 for 7 s" in shown.text


def test_overload_is_told(summary: Summary) -> None:
    """Shed messages are counted apart from lost ones.

    Overload shows its duration.
    """
    line = text_of(status(judged(summary, shed=1234, overloaded_s=9.0), LINK, "", (), 160))
    assert "shed 1,234" in line
    assert "overloaded 9 s" in line
    assert "lost 0" in line


def test_without_a_connection_there_is_no_rate(summary: Summary) -> None:
    """Without a connection there are no rate, lag or publishers.

    Losses are still shown.
    """
    fast = judged(replace(summary, messages_per_s=130.0, lag_s=0.02), lost=3)
    line = text_of(status(fast, replace(LINK, connected=False), "", HINTS, 140))
    assert "✖ not connected 127.0.0.1:1883, MQTT 5  lost 3" in line
    for gone in ("msg/s", "lag", "publishers"):
        assert gone not in line


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_that_a_broker_is_away_is_told_at_every_width(summary: Summary, width: int) -> None:
    """A broker that is away is named with the duration.

    On a narrow screen brokers are counted.
    """
    west = LinkStatus(broker="mqtts://west.example.com:8883", connects=1, changed_s=63.0)
    link = replace(LINK, parts=(LINK, west))
    line = text_of(status(summary, link, "", HINTS, width, brokers=brokers_text(link.parts, 100.0)))
    assert (
        "2 brokers, mqtts://west.example.com:8883 away 37 s"
        if width > 80
        else "1 of 2 brokers away"
    ) in line
    assert "lost 0" in line
    both = replace(link, parts=(LINK, LINK))
    assert "away" not in text_of(
        status(summary, both, "", HINTS, width, brokers=brokers_text(both.parts, 100.0))
    )


@pytest.mark.parametrize("width", [70, 80, 200])
def test_why_nothing_is_kept_leaves_figures_their_room(summary: Summary, width: int) -> None:
    """The reason is cut before rate and losses go."""
    kept = ("not recording: No space left on device", True)
    line = text_of(status(replace(summary, messages_per_s=12.0), LINK, "", HINTS, width, kept))
    assert "not recording: No space" in line
    assert ("left on device" in line) is (width > 70)
    assert "12 msg/s" in line
    assert "lost 0" in line


@pytest.mark.parametrize("width", range(60, 160))
def test_figures_and_keys_do_not_touch(summary: Summary, width: int) -> None:
    line = text_of(status(summary, LINK, "mosquitto 2.0.11", (*HINTS, ("Enter", "deeper")), width))
    assert "  ? help  q quit" in line


@pytest.mark.parametrize("width", [80, 120, 200])
def test_what_goes_on_is_louder_than_what_is_over(summary: Summary, width: int) -> None:
    """A current overload is a warning.

    Shed messages are shown beside it, and alone after it.
    """
    counts = {"shed": 1_234, "lost": 3}
    during = status(judged(summary, overloaded_s=9.0, **counts), LINK, "", HINTS, width)
    after = status(judged(summary, **counts), LINK, "", HINTS, width)
    assert (" overloaded 9 s ", theme.BAR_ALERT) in during
    for line in (during, after):
        assert ("shed 1,234", theme.BAR_STRONG) in line
        assert ("lost 3", theme.BAR_STRONG) in line
    assert theme.BAR_ALERT not in {style for _, style in after}


@pytest.mark.parametrize("width", [60, 70, 80, 90, 100, 120, 160])
def test_several_troubles_are_cut_between_figures(summary: Summary, width: int) -> None:
    """Troubles without room are counted.

    Current ones come first, and the rate is dropped before them.
    """
    unverified = replace(LINK, broker="mqtts://broker-1.fleet.example.com:8883", is_unverified=True)
    kept = ("not recording: No space left on device", True)
    bad = judged(replace(summary, messages_per_s=6.0), overloaded_s=14.0, shed=90, lost=48)
    line = text_of(status(bad, unverified, "", HINTS, width, kept))
    assert len(line) <= width
    assert "TLS not verified" in line
    assert "not recording" in line
    words = set(line.split())
    assert ("overloaded" in words) is (width >= 80)
    told = [each for each in ("overloaded 14 s", "shed 90", "lost 48") if each in line]
    left_out = re.search(r" \+(\d)( more)?(?= )", line)
    assert len(told) + (int(left_out[1]) if left_out else 0) == len(bad.pipeline_problems)
    assert (left_out is None) is (width >= 100), line


def test_a_silent_fleet_is_a_banner(summary: Summary) -> None:
    """The banner tells all stale from all offline.

    One live chip suffices for no banner.
    """
    stale = replace(summary, live_chips=0, stale_chips=128)
    shown = banner(stale, LINK, 112.0, 99.0)
    assert shown is not None
    assert "all 128 chips are stale" in shown.text
    gone = banner(replace(stale, stale_chips=0, offline_chips=128), LINK, 112.0, 99.0)
    assert gone is not None
    assert "all 128 chips are offline" in gone.text
    both = banner(replace(stale, stale_chips=100, offline_chips=28), LINK, 112.0, 99.0)
    assert both is not None
    assert "✖ 100 stale, 28 offline; values" in both.text
    assert banner(replace(stale, live_chips=1), LINK, 112.0, 99.0) is None
    assert banner(summary, LINK, 112.0, 112.0) is None


def test_a_wrong_clock_is_told(summary: Summary) -> None:
    """A source with a wrong clock is named with its error, without a lag."""
    for skew_s in (12.0, -12.0):
        line = text_of(status(judged(summary, clock_skew_s=skew_s), LINK, "", (), 120))
        assert "clock off by 12 s" in line
    assert "clock" not in text_of(status(summary, LINK, "", (), 120))
