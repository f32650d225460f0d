from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import ready

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.problems.problem import ProblemCounts
from trnfleet.tui import theme
from trnfleet.tui.bars.header import header
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, target_of
from trnfleet.wire.ports import RECORDING, LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.summary import Summary

LINK = LinkStatus(broker="mqtt://127.0.0.1:1883", connected=True, connects=1, protocol="5")


def said(summary: Summary, link: LinkStatus = LINK, width: int = 200) -> str:
    return "\n".join(text_of(row) for row in header(summary, link, width, ProblemCounts()))


def test_the_header_tells_the_fleet(summary: Summary) -> None:
    """Every figure of the summary stands there with its unit."""
    text = said(summary)
    assert "128 chips  all live  8 instances  2 UltraServers" in text
    mean = replace(
        summary.mean, seconds=10.0, nc_util_pct=61.8, power_w=45_040.0, temperature_max_c=76.94
    )
    text = said(replace(summary, nc_util_pct=99.0, power_w=99e3, temperature_c=99.0, mean=mean))
    assert "10 s mean" in text
    assert "NC util 61.8 %" in text
    assert "power 45.0 kW" in text
    assert "hottest 76.9 °C" in text
    assert "99" not in text
    assert "TFLOPS/W" in text
    assert "No problems" in text


@pytest.mark.parametrize("width", [80, 120, 200])
def test_sums_of_a_part_say_of_how_many_chips(summary: Summary, width: int) -> None:
    """Partial sums name their number of live chips.

    A whole or silent fleet has no such words.
    """
    mean = replace(summary.mean, seconds=10.0)
    figures = said(
        replace(summary, chips=1_000_000, live_chips=322_560, mean=mean), width=width
    ).splitlines()[1]
    assert "of 322,560 live" in figures
    assert "live" not in said(replace(summary, live_chips=0), width=width).splitlines()[1]
    assert "live" not in said(summary, width=width).splitlines()[1]
    wide = said(
        replace(summary, chips=1_000_000, live_chips=322_560, mean=mean), width=250
    ).splitlines()[0]
    assert "(PUE 1.14) of 322,560 live" in wide


@pytest.mark.parametrize(
    ("changes", "words", "absent"),
    [
        pytest.param(
            {"chips": 1, "live_chips": 1, "instances": 1, "ultraservers": 0},
            "1 chip  all live  1 instance",
            "instances",
            id="one chip is in the singular",
        ),
        pytest.param(
            {"undescribed_chips": 64, "undescribed_paths": 1},
            "128 chips  128 live, 64 chips and 1 path not described",
            "all live",
            id="a partly undescribed fleet is not called all live",
        ),
        pytest.param(
            {"live_chips": 60, "stale_chips": 16, "offline_chips": 32, "unknown_chips": 20},
            "60 live, 16 stale, 32 offline, 20 not heard yet",
            "all live",
            id="live, stale, offline and unheard chips are counted apart",
        ),
        pytest.param(
            {"live_chips": 0, "stale_chips": 128},
            "last seen   NC util",
            " mean ",
            id="figures without live chips are the last seen, not a mean",
        ),
    ],
)
def test_chips_and_their_states_are_counted(
    summary: Summary, changes: dict[str, Any], words: str, absent: str
) -> None:
    text = said(replace(summary, **changes))
    assert words in text
    assert absent not in text


def test_instances_that_the_layout_has_yet_to_show_are_named(summary: Summary) -> None:
    """Instances described but not yet in the layout count as missing.

    The rest is not called all.
    """
    text = said(replace(summary, joining_instances=1))
    assert "128 chips  128 live  8 instances, 1 more to come  2 UltraServers" in text
    assert "all live" not in text
    assert text.count("instances") == 1


def test_cells_of_which_nobody_evaluates_rules_are_counted(summary: Summary) -> None:
    """Cells without rule evaluation are counted: no known problem means nothing there."""
    rolled = replace(summary, rolled_chips=128)
    assert "from roll-ups  8 instances" in said(rolled)
    text = said(replace(rolled, unwatched_cells=("cell-a",)), width=80)
    assert "128 chips  all live  from roll-ups  1 cell without a watch " in text
    line, _ = header(replace(rolled, unwatched_cells=("cell-a",)), LINK, 120, ProblemCounts())
    assert (" 1 cell without a watch ", theme.BAR_ALERT) in line


def test_what_is_not_known_is_not_zero(summary: Summary) -> None:
    """A figure that nobody measures is n/a."""
    unknown = replace(summary.mean, hbm_traffic_bytes_per_s=None)
    assert "HBM bw n/a" in said(replace(summary, mean=unknown))


def test_what_the_means_are_over_is_said_once(summary: Summary) -> None:
    """The length of means is shown once.

    A new fleet shows a short one; with samples longer than it, values are present ones.
    """
    for seconds, label in ((10.0, "10 s mean"), (3.0, "10 s mean (3 s so far)"), (0.0, "now")):
        line = said(replace(summary, mean=replace(summary.mean, seconds=seconds)))
        assert line.count(f" {label} ") == 1


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 240])
def test_the_header_fits(summary: Summary, width: int) -> None:
    """From 60 columns on nothing is cut, and utilisation is there at any width."""
    problems = ProblemCounts(critical=2, warning=10, acknowledged=1)
    rows = header(replace(summary, stale_chips=16, live_chips=112), LINK, width, problems)
    assert any("NC" in text_of(row) for row in rows)
    if width >= 60:
        assert all(width_of(row) <= width for row in rows)


def test_80_columns_hold_every_figure_that_matters(summary: Summary) -> None:
    """80 columns show utilisation, MFU, power, what is below the cap, and the hottest in one line.

    The length of their means is shown, too.
    """
    mean = replace(
        summary.mean,
        seconds=10.0,
        power_w=61_100.0,
        power_cap_w=96_000.0,
        headroom_w=34_900.0,
        headroom_pct=36.35,
        temperature_max_c=88.1,
        hottest_chip="uc1/us-0001/trn2u-0001-2/chip07",
    )
    summary = replace(summary, mean=mean)
    line = text_of(header(summary, LINK, 80, ProblemCounts())[1])
    for part in ("10 s mean", " NC ", "MFU ", "61.1 kW", "below cap 34.9 kW 36 %", "hot 88.1 °C"):
        assert part in line
    wide = header(summary, LINK, 160, ProblemCounts())[1]
    assert "power 61.1 kW of 96.0 kW   below cap 34.9 kW 36 %" in text_of(wide)
    assert "hottest 88.1 °C" in text_of(wide)
    leads = [
        text
        for text, style in wide
        if target_of(style) == ClickTarget(TargetKind.PLACE, mean.hottest_chip or "")
    ]
    assert [text.strip() for text in leads] == ["88.1 °C", "0001-2/07"]


def test_power_of_a_part_of_the_fleet_says_of_how_many_chips(summary: Summary) -> None:
    mean = replace(summary.mean, power_w=61_100.0, power_cap_w=96_000.0, chips={"power_w": 16})
    told = replace(summary, mean=mean)
    assert "power 61.1 kW of 16 chips" in text_of(header(told, LINK, 160, ProblemCounts())[1])


def test_a_mean_without_late_hosts_says_of_how_many_chips() -> None:
    """A host whose documents are late is live by its other values, and in no mean of these."""
    feed = ready()
    feed.tick()
    feed.set("nc_util_pct", 50.0)
    late = BY_NAME["nc_util_pct"].top
    feed.columns["nc_util_pct"][:16] = late
    feed.tick()
    text = said(feed.monitor.summary())
    assert re.search(r"NC util [0-9.]+ % of 176 chips", text)
    assert text.count("of 176") == 1
    assert "192 chips  all live" in text


def test_what_is_left_below_the_cap_may_be_nothing(summary: Summary) -> None:
    """What is left is negative above the cap, and missing without a known power."""
    mean = replace(
        summary.mean, power_w=97e3, power_cap_w=96e3, headroom_w=-1e3, headroom_pct=-1.04
    )
    assert "below cap -1.00 kW -1 %" in said(replace(summary, mean=mean))
    assert "below cap" not in said(replace(summary, mean=replace(mean, headroom_w=None)))


def test_waiting_says_for_what(summary: Summary) -> None:
    """Before the first fleet, the header names the missing input."""
    nothing = replace(summary, chips=0, publishers=0)
    assert "waiting for the fleet" in said(nothing)
    assert "no publisher of fleet 'demo'" in said(nothing)
    assert "no descriptor has arrived" in said(replace(nothing, publishers=1))
    refused = replace(
        nothing,
        publishers=1,
        refused={"node": 2, "job": 1},
        last_problem="a/node/x: over 5 instances\x1b[2J",
    )
    assert "3 messages refused, the last: a/node/x: over 5 instances" in said(refused)
    assert "\x1b" not in said(refused)
    down = LinkStatus(broker="mqtt://10.0.0.1:1883", last_error="connection refused")
    assert "not connected to mqtt://10.0.0.1:1883: connection refused" in said(nothing, down)


def test_waiting_has_a_length_and_ends_in_what_to_do(summary: Summary) -> None:
    """After some seconds without publishers, commands are named.

    They are not if the reason names the fault, nor for a recording.
    """
    nothing, since = replace(summary, chips=0, publishers=0), replace(LINK, changed_s=100.0)

    def waited(of: Summary, link: LinkStatus, now_s: float) -> str:
        return "\n".join(
            text_of(row) for row in header(of, link, 200, ProblemCounts(), now_s=now_s)
        )

    assert "connected to mqtt://127.0.0.1:1883; no publisher" in waited(nothing, since, 100.5)
    assert "connected to mqtt://127.0.0.1:1883 for 4 s; no publisher" in waited(
        nothing, since, 104.9
    )
    assert "status --all-fleets" not in waited(nothing, since, 104.9)
    assert "connected to mqtt://127.0.0.1:1883 for 23 s; no publisher" in waited(
        nothing, since, 123.4
    )
    assert "status --all-fleets" in waited(nothing, since, 123.4)
    for of, link in (
        (nothing, replace(since, connected=False, last_error="connection refused")),
        (replace(nothing, publishers=1), since),
        (replace(nothing, refused={"node": 1}), since),
        (nothing, replace(since, protocol=RECORDING)),
    ):
        assert "status --all-fleets" not in waited(of, link, 123.4)


def test_a_figure_without_a_name_is_left_out_where_it_is_not_known(summary: Summary) -> None:
    """N/a alone would be of nothing."""
    unknown = said(replace(summary, mean=replace(summary.mean, tflops_per_w=None)))
    assert "TFLOPS/W" not in unknown
    assert "n/a" not in unknown


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80, 120])
def test_problems_keep_their_place_beside_whatever_is_told_of_chips(
    summary: Summary, width: int
) -> None:
    """On a narrow screen texts about chips are cut, never the number of critical problems."""
    mixed = replace(summary, live_chips=60, stale_chips=16, offline_chips=32, unknown_chips=20)
    rolled = replace(summary, rolled_chips=128, unwatched_cells=("cell-a",))
    joining = replace(summary, joining_instances=37, undescribed_chips=64)
    for each in (mixed, rolled, joining):
        line = text_of(header(each, LINK, width, ProblemCounts(critical=12, warning=3))[0])
        assert len(line) <= width
        assert "✖ 12" in line
        assert "▲ 3" in line
    if width >= 60:
        line = text_of(header(rolled, LINK, width, ProblemCounts(critical=1))[0])
        assert "1 cell without a watch" in line


def test_the_time_is_told_where_it_is_not_the_wall_clocks(summary: Summary) -> None:
    """A dated or sped-up fleet shows its time and speed, by the day.

    At the wall clock it shows neither.
    """
    fast = replace(
        summary, is_wall_time=False, monitor_time="2026-01-05T14:00:07.250Z", speed=3_600.0
    )
    assert "2026-01-05 14:00 x3600" in said(fast, width=120)
    assert "01-05 14:00 x3600" in said(fast, width=80)
    assert "2026-01-05 14:00:07 x1 " in said(replace(fast, speed=1.0), width=120)
    assert "x1" not in said(summary, width=120)


def test_local_time_by_option(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands beside UTC where there is room, of wall time and of any other."""
    wall = replace(summary, monitor_time="2026-01-05T23:04:12.250Z")
    fast = replace(wall, is_wall_time=False, speed=3_600.0)
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1")
        time.tzset()
        lines = [
            text_of(header(each, LINK, width, ProblemCounts(), local_time=True)[0])
            for each, width in ((wall, 120), (wall, 60), (fast, 120), (fast, 70))
        ]
    time.tzset()
    assert "  23:04:12 UTC 00:04 CET  " in lines[0]
    assert "UTC" not in lines[1]
    assert "  2026-01-05 23:04 x3600 UTC 00:04 CET  " in lines[2]
    assert "  2026-01-05 23:04 x3600  " in lines[3]
    assert "23:04" not in said(wall, width=120)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 240])
def test_the_header_fits_with_time_and_power(summary: Summary, width: int) -> None:
    """Time and facility power do not push chips or problems off the line."""
    fast = replace(
        summary, is_wall_time=False, monitor_time="2026-01-05T14:00:07.250Z", speed=3_600.0
    )
    line = text_of(header(fast, LINK, width, ProblemCounts(critical=12))[0])
    assert len(line) <= width
    assert "128 chips  all live" in line
    assert "✖ 12" in line


def test_it_and_facility_power_with_pue(summary: Summary) -> None:
    """The header shows IT power, metered power and PUE, in as many words as fit."""
    mean = replace(summary.mean, it_power_w=61_000.0, facility_power_w=69_540.0)
    power = replace(summary, mean=mean, pue=1.14)
    assert "IT 61.0 kW, facility 69.5 kW (PUE 1.14)" in said(power, width=140)
    assert "IT 61.0 kW, facility 69.5 kW " in said(power, width=110)
    assert "facility" not in said(replace(power, mean=replace(mean, facility_power_w=None)))
