"""Charts below the details of an alert, if there is room.

They are of the place of its cause and of its job.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from support.tui.alerts_scene import alerts_app, alerts_feed, alerts_view, chips_at
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import running

from trnfleet.tui.alerts.lists import AlertPlan
from trnfleet.tui.alerts.view import DETAILS, AlertSpace
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from support.monitor.feed import Feed

    from trnfleet.tui.app.app import FleetApp


def job(feed: Feed, state: str) -> None:
    message = JobMessage(
        job="llama",
        kind="training",
        state=state,
        ts="2026-01-05T00:00:00Z",
        on=("uc1/us-0001",),
        step_time_s=5.0,
    )
    topic = build_topic(feed.fleet, TopicClass.JOB, "llama")
    feed.monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])


def charted(app: FleetApp) -> list[str]:
    """Return the lines of the charts; none where they have no room."""
    charts = alerts_view(app).charts
    return [charts.render_line(y).text for y in range(charts.size.height)] if charts.display else []


async def test_charts_are_of_the_place_of_what_is_under_the_cursor() -> None:
    """A figure charted in the details has no second chart.

    A reservation's place is the place of its instances.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.set("throttle_pct", 20.0, chips_at(feed, f"{INSTANCE}/chip01"))
    feed.monitor.apply([feed.reservation("cb-1", on="uc1/us-0002", end="2026-01-05T01:00:00Z")])
    app, _ = alerts_app(feed)
    async with running(app, size=(240, 70)) as pilot:
        for _ in range(3):
            await pilot.telemetry(feed)
        await pilot.press("8", telemetry=feed)
        assert charted(app)[0].startswith(f" {CHIP}  chip ─")
        text = "\n".join(charted(app))
        assert " power 300 W now of 500 W " in text
        assert "temp" not in text
        assert "95.0 °C" in pilot.text()
        await pilot.press("down", telemetry=feed)
        assert charted(app)[0].startswith(f" {INSTANCE}/chip01  chip ─")
        assert " temp 50.0 °C now " in "\n".join(charted(app))
        await pilot.press("down", telemetry=feed)
        assert charted(app)[0].startswith(" uc1/us-0002  UltraServer ─")
        # More room for the details is that of the charts.
        await pilot.press("d", telemetry=feed)
        assert not charted(app)
        await pilot.press("d")
        # On a smaller screen they have the rows that the list leaves.
        await pilot.resize_terminal(120, 40)
        await pilot.telemetry(feed)
        assert charted(app)[0].startswith(" uc1/us-0002  UltraServer ─")
        await pilot.resize_terminal(110, 40)
        await pilot.telemetry(feed)
        assert not charted(app)


async def test_a_job_has_its_own_charts_first() -> None:
    feed = alerts_feed()
    job(feed, "running")
    app, _ = alerts_app(feed)
    async with running(app, size=(240, 70)) as pilot:
        for _ in range(3):
            await pilot.telemetry(feed)
        job(feed, "failed")
        await pilot.press("8", telemetry=feed)
        await pilot.telemetry(feed)
        lines = charted(app)
        assert lines[0].startswith(" job llama")
        assert lines[1].startswith(" Step time of the job ")
        assert " Power of the job 19.2 kW " in lines[1]


async def test_the_number_of_affected_chips_is_whole() -> None:
    """It has no noun where both would be cut."""
    plan = AlertPlan.for_width(79, shows_status=False)
    assert plan.amount == 9
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app) as pilot:
        await pilot.press("8", telemetry=feed)
        (row,) = alerts_view(app).list.rows
        assert row.single is not None
        for chips, text in ((12_800, "   12,800 "), (1_000_000, "1,000,000 "), (640, "640 chips ")):
            alert = dataclasses.replace(row.single.alert, chips=chips, members=1)
            held = row._replace(single=row.single._replace(alert=alert))
            parts = alerts_view(app).list.parts_of(held, 79, selected=False)
            assert any(part == text for part, _ in parts), parts


@pytest.mark.parametrize("size", [(240, 70), (120, 40)])
async def test_without_alerts_the_charts_are_of_the_fleet(size: tuple[int, int]) -> None:
    """They use the rows of list and details, and show the limits of rules."""
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.press("8", telemetry=feed)
        lines = charted(app)
        assert lines[0].startswith(" demo  fleet ")
        assert len(lines) >= 0.55 * size[1]
        assert "alert " in "".join(lines)
        await pilot.resize_terminal(80, 24)
        await pilot.telemetry(feed)
        assert not charted(app)


def test_charts_get_what_list_and_details_leave() -> None:
    assert AlertSpace.share(240, 63, 0, is_large=False) == AlertSpace(13, 40)
    assert AlertSpace.share(120, 33, 0, is_large=False) == AlertSpace(0, 23)
    # An empty list needs room for its text.
    assert AlertSpace.share(120, 40, 0, 17, is_large=False).charts < 40 - 17
    for listed in (1, 10, 200):
        space = AlertSpace.share(240, 63, listed, is_large=False)
        assert space.details >= DETAILS
    assert AlertSpace.share(240, 63, 10, is_large=False) == AlertSpace(DETAILS, 31)
    assert AlertSpace.share(240, 63, 10, is_large=True) == AlertSpace(49)
    assert AlertSpace.share(200, 36, 10, is_large=False).charts == 0
    assert AlertSpace.share(120, 33, 10, is_large=False) == AlertSpace(12, 7)
    assert AlertSpace.share(120, 33, 3, is_large=False) == AlertSpace(12, 11)
    assert AlertSpace.share(120, 33, 12, is_large=False) == AlertSpace(12)
    # Without charts, the details have what a short list leaves.
    assert AlertSpace.share(119, 33, 3, is_large=False) == AlertSpace(DETAILS)
    assert AlertSpace.share(119, 33, 30, is_large=False) == AlertSpace(12)
    assert AlertSpace.share(80, 19, 3, is_large=False) == AlertSpace(13)
    assert AlertSpace.share(80, 19, 9, is_large=False) == AlertSpace(7)
    assert AlertSpace.share(120, 33, 3, is_large=True) == AlertSpace(25)
