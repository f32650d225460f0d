"""Charts in the app: span, job series with legend, rule thresholds, and the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from support.monitor.feed import Feed, ultraservers
from support.tui.past_app import HOT, made
from support.tui.pilot import fleet_app, running

from trnfleet.domain.alerts.rules import Rule
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.tui.charts.place import ChartPlan, Trend
from trnfleet.tui.fleet import view
from trnfleet.tui.fleet.view import Trends, trend_makers
from trnfleet.tui.state.chart_window import LEAST_ALL_S, ChartWindow
from trnfleet.tui.state.context import UiContext
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


SLOW = Rule.model_validate(
    {
        "name": "job-slow",
        "scope": "job",
        "severity": "warning",
        "figure": "step_time_s",
        "share_of_median_of": "past",
        "past": "30m",
        "above": 1.1,
        "summary": "{target} takes {value}",
    }
)


def steps(feed: Feed, job: str, on: str, step_s: float) -> None:
    message = JobMessage(
        job=job,
        kind="training",
        state="running",
        ts="2026-01-05T00:00:00Z",
        on=(on,),
        step_time_s=step_s,
    )
    topic = build_topic(feed.fleet, TopicClass.JOB, job)
    feed.monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])


async def busy(seconds: int = 40, *, slow_from: int = 10**9) -> Feed:
    """Return a fleet of two jobs, hotter than its limit at the end.

    One job becomes slow.
    """
    feed = Feed(ultraservers(2))
    feed.monitor.ingest.alerts = Alerts("demo", (HOT, SLOW))
    feed.scatter()
    feed.describe()
    for second in range(seconds):
        steps(feed, "pretrain-70b", "uc1/us-0001", 6.0 if second >= slow_from else 5.0)
        steps(feed, "finetune-8b", "uc1/us-0002", 2.0)
        await feed.clock.advance(1.0)
        feed.tick()
    return feed


def fleet_trends(context: UiContext) -> list[Trend]:
    return [make() for make in trend_makers(context)]


async def test_keys_make_the_span_longer_and_shorter_in_every_view() -> None:
    """`v` and `V` step through the spans, up to the whole history.

    They stop at the ends. The span is remembered from view to view.
    """
    feed = await busy()
    async with running(fleet_app(feed), size=(200, 60)) as pilot:
        await pilot.tick(feed)
        assert "5 min, 10 s mean" in pilot.text()
        await pilot.press("v")
        assert "15 min, 10 s mean" in pilot.text()
        assert "charts show 15 min" in pilot.text()
        assert "-10m" in pilot.text()
        for _ in range(9):
            await pilot.press("v")
        assert "all: 1 min" in pilot.text()
        for _ in range(9):
            await pilot.press("V")
        assert "1 min, 10 s mean" in pilot.text()
        await pilot.press("4")
        await pilot.tick(feed)
        assert " now ─" in pilot.text()
        await pilot.press("v")
        assert "5 min, 10 s mean" in pilot.text()


async def test_jobs_have_their_colours_and_a_legend() -> None:
    """Power and step time have a line per job.

    The title names each job in its colour. Figures are means of 10 s.
    """
    feed = await busy(slow_from=25)
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.tick(feed)
        text = pilot.text()
        context = pilot.app.context
        power, distance = fleet_trends(context)[:2]
        named = {each.name: each.style for each in power.chart.series}
        assert named.keys() == {"pretrain-70b", "finetune-8b"}
        assert len(set(map(str, named.values()))) == 2
        assert {each.name: each.style for each in distance.chart.series} == named
        wide = "".join(part for part, _ in distance.title(str, 120))
        assert "finetune-8b 0 %" in wide
        assert "pretrain-70b +20 %" in wide
        # The list of jobs has the same figure.
        (listed,) = (
            line.split(" pretrain-70b ")[1]
            for line in text.splitlines()
            if "pretrain-70b running" in line
        )
        assert " +20 %" in listed
        assert "pretrain" in text
        assert "+10%┤" in text
        # What the title has is what the header has.
        watts = next(word for word in text.splitlines()[1].split("power ")[1].split("  ") if word)
        assert " of " in watts
        assert f"Power {watts.strip()} " in text


async def test_the_only_job_is_named_where_its_name_fits() -> None:
    """In little room the comparison value is dropped before the only job's name.

    A mere count of jobs is not a legend.
    """
    feed = await busy(slow_from=25)
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.tick(feed)
        power = fleet_trends(pilot.app.context)[0]
        (first, *_) = power.chart.series
        alone = power._replace(chart=power.chart._replace(series=[first]), figures=("319 W",))
        for width in (46, 36):
            assert first.name.partition("-")[0] in "".join(
                text for text, _ in alone.title(str, width)
            )


async def test_thresholds_and_alerts_are_on_the_charts_of_what_they_watch() -> None:
    """The chip rule is a line in the chart of the hottest chip.

    Fired alerts are marked below every chart.
    """
    feed = await busy()
    feed.set("temperature_c", 95.0, [5])
    await feed.clock.advance(1.0)
    feed.tick()
    context = UiContext.of(feed.monitor, feed.clock)
    found = {each.key: each for each in fleet_trends(context)}
    assert [limit.value for limit in found["temperature_c"].chart.limits] == [90.0]
    assert found["temperature_c"].name == "temp max"
    assert [limit.name for limit in found["power_w"].chart.limits] == ["cap"]
    assert all(len(each.chart.marks) == 1 for each in found.values())


async def test_a_fleet_without_jobs_or_values_has_charts_too() -> None:
    feed = Feed(ultraservers(1))
    feed.describe()
    context = UiContext.of(feed.monitor, feed.clock)
    assert next(each.name for each in fleet_trends(context)) == "Power"
    feed.tick()
    found = fleet_trends(context)
    assert "Step time, % of base" not in [each.name for each in found]
    assert [limit.value for limit in found[0].chart.limits] == [32_000.0]


async def test_charts_without_a_place_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the fleet charts on screen are made, once per sample."""
    feed = await busy()
    context = UiContext.of(feed.monitor, feed.clock)
    makers, made_of = trend_makers(context), list[int]()

    def counting(number: int) -> Callable[[], Trend]:
        def make() -> Trend:
            made_of.append(number)
            return makers[number]()

        return make

    monkeypatch.setattr(view, "trend_makers", lambda _context: [*map(counting, range(len(makers)))])
    shown = Trends(context)
    for _ in range(2):
        assert len(shown.lines(0, 10, 90)) == 10
    assert made_of == [0, 1]


async def test_the_past_has_times_and_ends_where_it_is() -> None:
    """Ticks of a past are times of the fleet's clock."""
    feed = await busy()
    app, playback = made(feed, is_file=True)
    async with running(app, size=(200, 60)) as pilot:
        playback.show(feed.monitor, playback.start_ns)
        await pilot.paint()
        await pilot.paint()
        line = next(each for each in pilot.screen() if "00:00" in each and "┤" not in each)
        assert "now" not in line


def test_a_window_is_as_long_as_what_is_kept_at_most() -> None:
    window = ChartWindow()
    assert (window.span_s(10), window.title(10)) == (300, "5 min")
    window.step(99)
    assert (window.span_s(7_800), window.title(7_800)) == (7_800, "all: 2 h 10 min")
    assert window.span_s(3) == LEAST_ALL_S
    assert window.span_s(10**9) == 86_400
    window.step(-1)
    assert window.title(0) == "6 h"


def test_space_is_shared_out_among_the_charts() -> None:
    assert ChartPlan.arrange(7, 238, 36) == ChartPlan(3, 2, 78)
    assert ChartPlan.arrange(7, 60, 36)[:2] == (1, 4)
    assert ChartPlan.arrange(2, 238, 36)[:2] == (2, 1)
    assert ChartPlan.arrange(7, 20, 7) == ChartPlan(1, 1, 20)
    # Six fit below each other in pairs, where three beside each other would have no room for their
    # titles' words.
    assert ChartPlan.arrange(6, 162, 39) == ChartPlan(2, 3, 80)
    assert ChartPlan.arrange(6, 162, 18) == ChartPlan(3, 2, 52)
    assert np.isfinite(ChartPlan.arrange(6, 100, 20).width)
