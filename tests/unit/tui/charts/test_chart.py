"""Charts as lines of text: axes, limits, marks, gaps, legends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.severity import Severity
from trnfleet.monitor.store.gaps import Gap, Reason
from trnfleet.monitor.store.rings.record import Track
from trnfleet.tui import theme
from trnfleet.tui.charts.axes import ChartMark, Limit, Times, axis_text
from trnfleet.tui.charts.chart import Chart, Series, draw, head, legend, value_axis
from trnfleet.tui.charts.place import Trend
from trnfleet.tui.widgets.cells import text_of, width_of

NAN = float("nan")


def chart_of(samples: list[float], *, span_s: int = 60, unit: str = "%", **rest: Any) -> Chart:
    """Return a chart of one series with the newest sample at its end."""
    track = Track.of(np.array(samples, np.float32))
    times = Times(
        span_s, len(samples), **{key: rest.pop(key) for key in ("end_ns", "speed") if key in rest}
    )
    return Chart([Series(track, theme.CHART)], unit, times, **rest)


def drawn(chart: Chart, width: int = 40, height: int = 6) -> list[str]:
    lines = draw(chart, width, height)
    assert [width_of(line) for line in lines] == [width] * height
    return [text_of(line) for line in lines]


def test_figures_stay_while_the_span_has_room_beside_them() -> None:
    """The averaging of a line is dropped before figures; the header shows it, too."""
    base = chart_of([1.0] * 60)
    named = base._replace(
        series=[base.series[0]._replace(name=name) for name in ("NC util", "MFU")]
    )
    trend = Trend("NeuronCores", "", "", named, ("63.7 %", "29.2 %"), "5 min wall, 10 s mean")

    def said(width: int) -> str:
        line = head(trend.title(str, width), trend.note, width)
        assert width_of(line) == width
        return text_of(line).replace("─", "").strip()

    assert said(70).endswith("5 min wall, 10 s mean")
    assert said(60).split("  ") == ["NeuronCores NC util 63.7 %", "MFU 29.2 %", " 5 min wall"]


def test_a_line_below_stands_over_the_time_axis_of_the_values() -> None:
    plain = drawn(chart_of([1.0] * 60), height=5)
    below = chart_of([1.0] * 60, below=lambda grid: (("x" * (grid.columns // 2), theme.BASE),))
    lines = drawn(below, height=6)
    assert [*lines[:4], lines[5]] == plain
    assert lines[4].strip() == "x" * (40 - plain[0].index("┤") - 1)


def test_a_ramp_rises_from_end_to_end() -> None:
    ramp = [float(each) for each in range(60)]
    assert drawn(chart_of(ramp, span_s=60, ceiling=60), 35, 5) == [
        "60%┤                        ⣀⣀⡠⠤⠒⠒⠊",
        "   ┤               ⢀⣀⣀⡠⠤⠒⠒⠊⠉       ",
        "   ┤       ⢀⣀⣀⠤⠔⠒⠒⠉⠁               ",
        " 0%┤⣀⣀⠤⠔⠒⠒⠉⠁                       ",
        "         -45s    -30s    -15s   now",
    ]


def test_all_equal_is_a_line_on_a_scale_from_the_floor() -> None:
    """One value all the time, zero all the time, and one sample."""
    lines = drawn(chart_of([50.0] * 60, ceiling=100))
    assert lines[0].startswith("60%┤")
    assert sum("⠉" in line or "⠤" in line or "⠒" in line or "⣀" in line for line in lines) == 1
    assert drawn(chart_of([0.0] * 60, ceiling=100))[0].startswith("100%┤")
    one = drawn(chart_of([50.0]))
    assert "before start" in one[2]
    assert draw(chart_of([]), 40, 6)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 9), (11, 6), (40, 2), (0, 5), (12, 3)])
def test_a_chart_fits_any_room(width: int, height: int) -> None:
    """Where there is no room for a chart, there is blank."""
    lines = draw(chart_of([1.0, 2.0]), width, height)
    assert len(lines) == (height if width else 0)
    assert {width_of(line) for line in lines} <= {width}


def test_thresholds_are_dashed_lines_with_a_label() -> None:
    """A near limit is on the scale.

    Its name is beside it if there is room.
    """
    limit = Limit(95.0, "alert", theme.CHART_THRESHOLD)
    lines = drawn(chart_of([70.0] * 60, unit="degC", floor=20.0, limits=[limit]))
    (row,) = [line for line in lines if line.startswith("95°C┤")]
    assert row.count("╌") == 35
    assert any(
        line.startswith("alert 95°C┤")
        for line in drawn(chart_of([70.0] * 60, unit="degC", limits=[limit]), 80)
    )
    far = drawn(chart_of([20.0] * 60, unit="W", limits=[Limit(500.0, "cap", theme.CHART_CAP)]))
    assert not any("500W" in line for line in far)


def test_what_is_measured_is_over_the_threshold() -> None:
    """A limit shows only where there is nothing else."""
    lines = draw(chart_of([50.0] * 60, limits=[Limit(50.0, "alert", theme.CHART_THRESHOLD)]), 40, 6)
    assert not [
        text
        for line in lines
        for text, style in line[2:]
        if style == theme.CHART_THRESHOLD and text.strip()
    ]


def area_of(samples: list[float], ramp: str = "busy", **rest: Any) -> Chart:
    chart = chart_of(samples, **rest)
    return chart._replace(series=[chart.series[0]._replace(area=theme.AREAS[ramp])])


def test_an_area_is_coloured_by_value_on_the_shade_of_its_band() -> None:
    """Dots reach the means, the shade the largest samples, and higher rows are brighter."""
    wave = [40.0, 100.0] * 290
    lines = draw(area_of(wave, span_s=580, ceiling=100), 34, 7)[:-1]
    rows = [[part for part in line[2:] if part[0].strip()] for line in lines]
    assert [text_of(row) for row in rows] == ["", "⣀" * 29, *["⣿" * 29] * 4]
    areas = theme.AREAS["busy"]
    assert [row[0][1].color for row in rows[1:]] == [style.color for style in areas[4::-1]]
    assert {style.bgcolor for line in lines for _, style in line[2:]} == {areas[0].bgcolor}
    line = chart_of(wave, span_s=580, ceiling=100)
    bare = {style for row in draw(line, 34, 7)[:-1] for text, style in row[2:] if text.strip()}
    assert bare == {theme.CHART}


def test_an_area_above_its_alert_is_a_warning() -> None:
    """The limit is drawn where the area does not reach it."""
    limit = Limit(50.0, "alert", theme.CHART_THRESHOLD)
    chart = area_of([20.0] * 30 + [90.0] * 30, span_s=60, ceiling=100, limits=[limit])
    lines = draw(chart, 64, 9)[:-1]
    colors = [line[-1][1].color for line in lines]
    warning = theme.CHART_THRESHOLD.color
    assert [color == warning for color in colors[1:]] == [True] * 3 + [False] * 4
    (row,) = [text_of(line) for line in lines if "╌" in text_of(line)]
    assert row.count("╌") == pytest.approx(row.count("⣿"), abs=2)


def test_parts_of_a_sum_are_stacked_up_to_its_value() -> None:
    """Each fills its share of the height, with its name; what is left of the sum is on top."""
    parts = [
        Series(Track.of(np.full(60, watts, np.float32)), theme.JOB_STYLES[at], name, area=(layer,))
        for at, (name, watts, layer) in enumerate(
            zip(("train", "serve"), (40.0, 30.0), theme.LAYERS, strict=False)
        )
    ]
    total = Series(Track.of(np.full(60, 80.0, np.float32)), theme.CHART)
    limit = Limit(100.0, "cap", theme.CHART_CAP)
    chart = chart_of([0.0] * 60, unit="W", limits=[limit])._replace(series=parts, total=total)
    lines = draw(chart, 60, 12)[:-1]
    assert "cap 100W" in text_of(lines[1])
    colors = [line[-1][1].color for line in lines]
    shades = [theme.LAYERS[at].bgcolor for at in (-1, 1, 0)]
    heights = [colors.count(shade) for shade in shades]
    assert heights == [1, 3, 4]
    text = "".join(map(text_of, lines))
    assert " train " in text
    assert " serve " in text
    assert {line[-1][0].strip("╌ ") for line in lines[:2]} == {""}
    for height in range(8, 40):
        capped = [text for line in draw(chart, 60, height) if "╌" in (text := text_of(line))]
        assert ["cap 100W" in text for text in capped] == [True], "the line is beside its name"


def test_gaps_say_why() -> None:
    """Link loss, pause, silence and the time before the start are labelled in place."""
    samples = [50.0] * 40 + [NAN] * 60 + [50.0] * 20 + [NAN] * 60 + [50.0] * 20
    gaps = [Gap(40, 100, Reason.LINK_DOWN)]
    (row,) = [
        line
        for line in drawn(chart_of(samples, span_s=240, ceiling=100, gaps=gaps), 100, 7)
        if "┄" in line
    ]
    words = row.split("┤")[1]
    assert [words.index(each) for each in ("before start", "link down", "no telemetry")] == sorted(
        words.index(each) for each in ("before start", "link down", "no telemetry")
    )
    stepless = "".join(
        drawn(chart_of(samples, span_s=200, gaps=gaps)._replace(lacking=Reason.NO_STEPS), 120)
    )
    assert "no steps" in stepless
    assert "link down" in stepless
    assert "no telemetry" not in stepless
    paused = chart_of(samples, span_s=200, gaps=[Gap(40, 100, Reason.NOT_OBSERVED)])
    assert any("not observed" in line for line in drawn(paused, 100, 7))


def test_a_narrow_gap_says_why_below_its_line() -> None:
    """The reason is stacked word by word below a line too short for it.

    Each word must fit, and the chart must have the rows.
    """
    samples = [50.0] * 220 + [NAN] * 30 + [50.0] * 50
    chart = chart_of(samples, span_s=300, ceiling=100, gaps=[Gap(220, 250, Reason.LINK_DOWN)])
    lines = drawn(chart, 64, 9)
    at = next(number for number, line in enumerate(lines) if "┄" in line)
    assert "link" in lines[at + 1]
    assert lines[at + 1].index("link") == lines[at + 2].index("down")
    # In one line across it where words below each other have no room.
    for width, height in ((64, 4), (40, 9)):
        few = drawn(chart, width, height)
        (said,) = [number for number, line in enumerate(few) if "link down" in line]
        at = next(number for number, line in enumerate(few) if "┄" in line)
        assert abs(said - at) <= 2
        dotted = few[at].index("┄")
        begin = few[said].index("link down")
        assert begin <= dotted < begin + len("link down")


def test_what_is_kept_from_a_look_on_was_not_kept_before() -> None:
    """Before the first view, a node of a large fleet is not recorded.

    Before history's start there is nothing.
    """
    chart = chart_of([50.0] * 20, span_s=240, ceiling=100)
    late = chart._replace(
        before=Reason.NOT_KEPT,
        series=[chart.series[0]._replace(track=chart.series[0].track._replace(total=100, end=100))],
        times=chart.times._replace(end_s=100),
    )
    (row,) = [line for line in drawn(late, 120, 7) if "┄" in line]
    assert row.index("before start") < row.index("not kept")
    assert len(row.split("not kept")[1].strip("┄ ")) == 0
    whole = late._replace(
        times=late.times._replace(end_s=1_000),
        series=[
            late.series[0]._replace(track=late.series[0].track._replace(total=1_000, end=1_000))
        ],
    )
    words = "".join(drawn(whole, 120, 7))
    assert "not kept" in words
    assert "before start" not in words


def test_a_short_gap_has_its_words_where_nothing_is_drawn() -> None:
    """The words are above or below the gap, over no line or other words.

    They are omitted if lines fill the chart.
    """
    flat = [50.0] * 30 + [NAN] * 6 + [50.0] * 24
    lines = drawn(chart_of(flat, ceiling=100), 40, 6)
    (said,) = [line for line in lines if "no telemetry" in line]
    (dotted,) = [line for line in lines if "┄" in line]
    assert said.index("no telemetry") <= dotted.index("┄") < said.index("no telemetry") + 12
    assert said.split("┤")[1].strip() == "no telemetry"
    twice = [50.0] * 26 + [NAN] * 4 + [50.0] * 4 + [NAN] * 4 + [50.0] * 22
    both = drawn(chart_of(twice, ceiling=100), 40, 6)
    assert [line.count("no telemetry") for line in both if "telemetry" in line] == [1, 1]
    wave = [0.0, 100.0] * 20 + [NAN] * 4 + [0.0, 100.0] * 8
    full = drawn(chart_of(wave, ceiling=100), 40, 6)
    assert any("┄" in line for line in full)
    assert not any("telemetry" in line for line in full)


def test_alerts_are_marked_where_they_began_to_fire() -> None:
    """The worst of a cell is shown, and none that fired before the chart begins."""
    marks = [
        ChartMark(30.0, Severity.WARNING),
        ChartMark(30.0, Severity.CRITICAL),
        ChartMark(0.0, Severity.WARNING),
        ChartMark(90.0, Severity.CRITICAL),
    ]
    axis = drawn(chart_of([1.0] * 100, marks=marks), 64, 5)[-1]
    assert axis.count("✖") == 1
    assert axis.count("▲") == 1
    assert axis.index("✖") == pytest.approx(len(axis) - 30, abs=2)
    assert axis.rstrip().endswith("▲")


def test_ticks_say_how_long_ago_or_when() -> None:
    """Live ticks count back from now.

    In the past they are times of the fleet's clock.
    """
    assert (
        drawn(chart_of([1.0] * 400, span_s=300), 64)[-1].split()
        == ["-5m", "-4m", "-3m", "-2m", "-1m", "now"][1:]
    )
    then = 1_767_571_200_000_000_000 + 30 * 10**9
    ticks = drawn(chart_of([1.0] * 400, span_s=300, end_ns=then), 64)[-1].split()
    assert ticks == ["23:56", "23:57", "23:58", "23:59", "00:00"]
    fast = drawn(chart_of([1.0] * 400, span_s=300, end_ns=then, speed=60.0), 64)[-1].split()
    assert fast == ["20:00", "21:00", "22:00", "23:00", "00:00"]


def test_a_tick_gives_way_to_a_mark_beside_it() -> None:
    """A label covered by an alert is moved by some cells.

    It is dropped if that moves it off its instant.
    """
    plain = drawn(chart_of([1.0] * 400, span_s=300), 64)[-1]
    beside = drawn(
        chart_of([1.0] * 400, span_s=300, marks=[ChartMark(123.0, Severity.WARNING)]), 64
    )[-1]
    assert "▲" in beside
    assert abs(beside.index("-2m") - plain.index("-2m")) in {1, 2}
    storm = [ChartMark(back_s, Severity.WARNING) for back_s in range(100, 146, 3)]
    assert "-2m" not in drawn(chart_of([1.0] * 400, span_s=300, marks=storm), 64)[-1]


def series_of(*names: str) -> list[Series]:
    return [
        Series(Track.of(np.ones(9, np.float32)), style, name)
        for name, style in zip(names, theme.JOB_STYLES, strict=False)
    ]


def test_a_legend_gives_up_figures_then_names() -> None:
    series = series_of("pretrain-70b", "finetune-8b", "serve-70b")
    figures = ["26.5 kW", "11.4 kW", "17.6 kW"]
    wide = legend(series, figures, 80)
    assert text_of(wide) == " pretrain-70b 26.5 kW  finetune-8b 11.4 kW  serve-70b 17.6 kW "
    assert [style for _, style in wide] == [each.style for each in series]
    assert text_of(legend(series, figures, 40)) == " pretrain-70b  finetune-8b  serve-70b "
    assert text_of(legend(series, figures, 30)) == " pretrain  finetune  serve "
    assert text_of(legend(series, figures, 18)) == " pretrain  +2"
    long = series_of("a-very-long-name", "another_very_long_name")
    assert text_of(legend(long, figures[:2], 18)) == " a  another_… " or " +1" in text_of(
        legend(long, figures[:2], 18)
    )
    # Two names with the same beginning are told apart by what follows it.
    alike = series_of("pretrain-405b", "pretrain-70b", "serve")
    assert text_of(legend(alike, figures, 30)) == " 405b  70b  serve "
    assert text_of(legend(alike, figures, 15)) == " 405b  70b  +1"
    # An end that another name has, too, would name either.
    shared = series_of("pretrain-70b", "serve-70b", "serve-8b", "finetune-8b")
    assert text_of(legend(shared, ["1", "2", "3", "4"], 36)) == " pretrain  serve-70b  serve-8b  +1"
    # The same holds of names that have no series.
    others = ["pretrain-70b-01", "pretrain-70b-05", "serve-8b"]
    assert text_of(legend(series_of(others[0], others[2]), ["1", "2"], 26)) == " pretrain  serve "
    assert "70b-01" in text_of(legend(series_of(others[0], others[2]), ["1", "2"], 20, others))
    assert legend([], [], 20) == []


def test_charts_below_each_other_share_the_value_axis() -> None:
    """An instant is in the same column for any labels."""
    ramp = [float(each) for each in range(60)]
    stacked = [chart_of(ramp, ceiling=60), chart_of([each * 1e12 for each in ramp], unit="bytes/s")]
    axes = [value_axis(chart, 40, 6).cells for chart in stacked]
    assert axes == [4, 7]
    made = [draw(chart, 40, 6, axis=max(axes)) for chart in stacked]
    assert [text_of(lines[0]).index("┤") for lines in made] == [6, 6]
    assert text_of(made[0][-1]) == text_of(made[1][-1])
    assert {width_of(line) for lines in made for line in lines} == {40}


@pytest.mark.parametrize("width", [10, 24, 40, 80])
def test_a_head_is_as_wide_as_its_chart(width: int) -> None:
    line = head([("Power", theme.STRONG)], "5 min", width)
    assert width_of(line) == width
    assert ("5 min" in text_of(line)) == (width > 12)


@given(
    st.lists(st.one_of(st.just(NAN), st.floats(-1e6, 1e6, width=32)), max_size=80),
    st.integers(0, 130),
    st.integers(0, 20),
    st.integers(1, 4_000),
)
def test_any_samples_fit_any_room(
    samples: list[float], width: int, height: int, span_s: int
) -> None:
    lines = draw(chart_of(samples, span_s=span_s), width, height)
    assert len(lines) == (height if width else 0)
    assert all(width_of(line) == width for line in lines)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (32_000.0, "W", "32kW"),
        (100.0, "%", "100%"),
        (4.1e12, "bytes/s", "4.1TB/s"),
        (0.0, "W", "0W"),
    ],
)
def test_axes_are_short(value: float, unit: str, text: str) -> None:
    assert axis_text(value, unit) == text


def test_the_resolution_of_history_goes_before_the_span() -> None:
    """A long note loses its last part first; the span stays."""
    note = "24 h, 10 s mean, 10 min of history"
    wide, narrow = (text_of(head([("Power", theme.STRONG)], note, width)) for width in (50, 30))
    assert wide.rstrip().endswith("─ 24 h, 10 s mean, 10 min of history")
    assert narrow.rstrip().endswith("─ 24 h, 10 s mean")
    assert len(narrow) == 30
