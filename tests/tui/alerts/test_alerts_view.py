"""The Alerts view: its list, tabs, filter and order."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.alerts_scene import alerts_app, alerts_feed, alerts_view, chips_at
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import SIZES, running
from textual.widgets import Input


@pytest.mark.parametrize("size", SIZES)
async def test_the_view_at_every_size(size: tuple[int, int]) -> None:
    """Key 8 opens the list, worst first: sign, age, rule, place and value.

    The chosen alert has details.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.set("throttle_pct", 20.0, chips_at(feed, f"{INSTANCE}/chip01"))
    app, _ = alerts_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("8", telemetry=feed)
        shown = pilot.screen()
        assert all(len(line) <= size[0] for line in shown)
        assert "[active 2]" in shown[4]
        first = shown[6]
        second = shown[7]
        assert first.startswith(">✖ crit")
        assert "overheated" in first
        assert "95.0 °C" in first
        assert "chip05" in first
        assert second.startswith(" ▲ warn")
        said = pilot.text()
        assert f"{CHIP} is at 95.0 °C" in said
        assert "Look at the fans." in said
        assert "https://wiki.example/fans" in said
        assert "temperature > 90 °C" in said
        assert app.page.place == CHIP
        if size[1] >= 40:
            assert "Heat kills." in said
        if size[0] >= 120:
            assert ("fired " in said and " ago" in said) or "nothing is kept yet" in said


async def test_nothing_fires() -> None:
    """A calm fleet is shown as calm, with its active rules."""
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8", telemetry=feed)
        assert "No unacknowledged alerts. 5 rules loaded." in pilot.text()
        assert "No problems" in pilot.screen()[0]
        for key in ("a", "x", "e", "enter", "d", "d"):
            await pilot.press(key)
        await pilot.press("t", "t", "t", "s", "T")
        assert alerts_view(app).tab == "silences"


async def test_a_storm_is_one_line() -> None:
    """A thousand alerts of a rule are one line with their number.

    Opened, each is listed. Other alerts have lines of their own.
    """
    feed = alerts_feed(ultraservers(16))
    feed.set("throttle_pct", 20.0, slice(0, 1_000))
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        alerts = alerts_view(app).list
        assert len(alerts.rows) == 2
        assert "[active 1,001]" in pilot.screen()[4]
        assert "1,000 alerts" in pilot.screen()[7]
        await pilot.press("down")
        assert "throttled: 1,000 alerts firing" in pilot.text()
        await pilot.press("enter")
        assert len(alerts.rows) == 2 + 1_000
        await pilot.press("end")
        assert "│ throttled" in pilot.text()
        before = alerts.lines_painted
        await pilot.press("up")
        assert alerts.lines_painted - before <= 40
        await pilot.press("e")
        assert len(alerts.rows) == 2
        assert alerts.picked is not None
        assert alerts.picked.group is not None
        await pilot.press("E")
        assert len(alerts.rows) == 2 + 1_000
        await pilot.press("E", "a")
        assert "at most 200 at once" in pilot.text()


async def test_a_short_list_leaves_its_rows_to_the_details() -> None:
    """At 80x24 no rows are blank while facts are cut.

    A long list loses no rows.
    """
    feed = alerts_feed(ultraservers(2))
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8", telemetry=feed)
        assert alerts_view(app).details.size.height > 10
        assert " id " in pilot.text()
        await pilot.press("z")
        assert alerts_view(app).list.size.height == 3
        await pilot.telemetry(feed)
        assert alerts_view(app).details.size.height < 11
        assert alerts_view(app).list.size.height > 3
        await pilot.press("escape")
        feed.set("temperature_c", 95.0, slice(0, None, 3))
        await pilot.telemetry(feed)
        alerts_view(app).action_expand_all()
        await pilot.telemetry(feed)
        assert alerts_view(app).details.size.height < 10


async def test_the_cursor_stays_on_its_alert() -> None:
    """The cursor stays on its alert while others come and go."""
    feed = alerts_feed()
    feed.set("throttle_pct", 20.0, chips_at(feed, f"{INSTANCE}/chip01"))
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("down")
        assert alerts_view(app).place.endswith("chip01")
        feed.set("temperature_c", 95.0, chips_at(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
        await pilot.telemetry(feed)
        assert alerts_view(app).place == f"{INSTANCE}/chip01"
        assert alerts_view(app).list.row == 2


async def test_the_tabs() -> None:
    """T cycles through active, all, silences and history.

    All includes pending alerts; history is newest first.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        feed.set("power_w", 480.0, chips_at(feed, CHIP))
        feed.set("throttle_pct", 20.0, chips_at(feed, CHIP))
        await pilot.telemetry(feed)
        assert "[active 2]" in pilot.text()
        await pilot.press("t")
        assert "[all 3]" in pilot.text()
        assert "pending 0s of 30s" in pilot.text()
        assert "fires in 30 s unless it ends" not in pilot.text()
        await pilot.press("end")
        assert "fires in 30 s unless it ends" in pilot.text()
        feed.set("temperature_c", 50.0)
        await pilot.telemetry(feed)
        await pilot.press("t", "t")
        assert "[history 3]" in pilot.text()
        kinds = [told.transition.kind for told in alerts_view(app).history.rows]
        assert kinds == ["resolved", "firing", "firing"]
        assert "resolved at 2026-01-05" in pilot.text()
        await pilot.press("slash", *"throttled", "enter")
        assert len(alerts_view(app).history.rows) == 1
        feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
        await pilot.telemetry(feed)
        assert len(alerts_view(app).history.rows) == 1
        await pilot.press("escape")
        assert len(alerts_view(app).history.rows) == 4


async def test_the_filter() -> None:
    """/ filters by text, matchers and places.

    Esc shows all before it leaves the view.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.set("throttle_pct", 20.0, chips_at(feed, INSTANCE))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        for pattern, found in (
            ("OVERHEAT", 1),
            ("!overheat", 16),
            ("severity=critical", 1),
            ("severity=~crit.*|warn.*", 17),
            ("alertname!=throttled", 1),
            ("at=uc1/us-0001", 17),
            ("at=uc1/us-0002", 0),
            (f"at={CHIP} throttled", 1),
            ("chip05", 2),
            (
                next(
                    each.fingerprint
                    for each in feed.monitor.alerts.active()
                    if each.name == "overheated"
                )[:6],
                1,
            ),
        ):
            await pilot.press("slash")
            alerts_view(app).prompt.query_one(Input).value = pattern
            await pilot.press("enter")
            await pilot.pause()
            assert alerts_view(app)._match_count() == found, pattern
        # What is found goes on in the prompt, too, while something is typed.
        await pilot.press("slash")
        alerts_view(app).prompt.query_one(Input).value = "overheat"
        await pilot.pause()
        for chips in (CHIP, f"{INSTANCE}/chip06", f"{INSTANCE}/chip07"):
            feed.set("temperature_c", 95.0, chips_at(feed, chips))
            await pilot.telemetry(feed)
        assert "3 found" in pilot.text()
        assert "3 alerts" in pilot.text()
        await pilot.press("escape")
        await pilot.press("slash")
        alerts_view(app).prompt.query_one(Input).value = "severity=~("
        await pilot.pause()
        assert "▲ not a valid regular expression" in pilot.text()
        await pilot.press("escape")
        assert alerts_view(app).pattern == ""
        assert app.entry.title == "Alerts"
        await pilot.press("escape")
        assert app.entry.title == "Fleet"


async def test_the_order() -> None:
    """S goes through severity, age and place."""
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        feed.set("throttle_pct", 20.0, chips_at(feed, CHIP))
        await pilot.telemetry(feed)
        names = []
        for _ in range(3):
            names.append(
                [
                    row.single.alert.name
                    for row in alerts_view(app).list.rows
                    if row.single is not None
                ]
            )
            await pilot.press("s")
        assert names == [
            ["overheated", "throttled"],
            ["throttled", "overheated"],
            ["throttled", "overheated"],
        ]
        assert alerts_view(app).list.order == "severity"


async def test_help_knows_the_view() -> None:
    """? lists the view and its keys."""
    app, _ = alerts_app(alerts_feed())
    async with running(app, size=(160, 70)) as pilot:
        await pilot.press("8", "question_mark")
        for part in (
            "8 ",
            "Acknowledge",
            "Silence (preview of matches)",
            "Alerts here",
        ):
            assert part in pilot.text()


async def test_no_rules() -> None:
    """Without rules the view shows that, and the header counts problems of findings."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.tick()
    app, _ = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8", telemetry=feed)
        assert "No rules are loaded" in pilot.text()
        assert "No problems" in pilot.screen()[0]
