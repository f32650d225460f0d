"""Alerts in other views, the header, the bell and notifications."""

from __future__ import annotations

import pytest
from support.monitor.feed import standalone, ultraservers
from support.tui.alerts_scene import NASTY, alerts_app, alerts_feed, alerts_view, chips_at
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import SIZES, running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.tui import theme
from trnfleet.tui.app.screen import NOTICE_S
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.notifications import notification
from trnfleet.tui.widgets.bar import Bar
from trnfleet.wire.alerts import AckMessage
from trnfleet.wire.messages import encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic


async def test_from_an_alert_to_its_place_and_back() -> None:
    """Enter goes to the chip, the cause of a job's failure, or the reservation.

    A goes from a place to its alerts.
    """
    feed = alerts_feed(ultraservers(2) + standalone(1))
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.set("temperature_c", 95.0, chips_at(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
    feed.jobs = {"llama": ("uc1/us-0002/trn2u-0002-1",)}
    feed.states = {"llama": "failed"}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", "uc1/standalone/trn2-0001")])
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        for key, at in (
            ("chip05", ("Chip", CHIP)),
            ("job-failed", ("Chip", "uc1/us-0002/trn2u-0002-1/chip01")),
            ("ends-soon", ("Reservations", "uc1/standalone/trn2-0001")),
        ):
            app.go("", "Alerts")
            alerts_view(app).filter(key)
            await pilot.press("home")
            await pilot.pause()
            # The kept states of a job are no watts.
            assert "llama power" not in pilot.text()
            await pilot.press("enter")
            await pilot.pause()
            assert (app.entry.title, app.page.place) == at
        # The failure's event opens the cause, too, not the first place of the job.
        await pilot.press("9", "slash", *"job-failed", "enter", "enter")
        assert (app.entry.title, app.place) == ("Chip", "uc1/us-0002/trn2u-0002-1/chip01")
        app.go("", "Alerts")
        alerts_view(app).filter("")
        app.go(CHIP)
        await pilot.pause()
        await pilot.press("A")
        await pilot.pause()
        assert alerts_view(app).pattern == f"at={CHIP}"
        assert [
            row.single.alert.place for row in alerts_view(app).list.rows if row.single is not None
        ] == [CHIP]
        await pilot.press("escape", "escape")
        assert app.entry.title == "Chip"


async def test_other_views_mark_what_has_alerts() -> None:
    """Tree, map, jobs, chip and reservation mark unhandled alerts, not acknowledged ones."""
    feed = alerts_feed(ultraservers(2) + standalone(1))
    feed.jobs = {"llama": ("uc1/us-0001",)}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", INSTANCE)])
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(160, 48)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert "us-0001 ✖" in pilot.text()
        assert "us-0002 ✖" not in pilot.text()
        assert next(line for line in pilot.screen() if "● llama" in line).rstrip().endswith("✖1")
        await pilot.press("2", telemetry=feed)
        marked = [line for line in pilot.screen()[4:-2] if "✖" in line and "live" in line]
        assert [line.split()[1] for line in marked] == ["uc1", "us-0001", "trn2u-0001-2"]
        app.go(CHIP)
        await pilot.telemetry(feed)
        assert "alerts: ✖ overheated" in pilot.text()
        app.go(f"{INSTANCE}/chip06")
        await pilot.telemetry(feed)
        assert "alerts:" not in pilot.text()
        await pilot.press("7", telemetry=feed)
        assert "alerts: ✖ 1 • 1" in pilot.text()
        alert = next(each for each in feed.monitor.alerts.active() if each.name == "overheated")
        now_ns = feed.monitor.moment().time_ns
        message = AckMessage(
            fingerprint=alert.fingerprint,
            owner="bob",
            at=format_rfc3339(now_ns),
            until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
        )
        topic = build_topic("demo", TopicClass.ACK, alert.fingerprint)
        feed.monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])
        await pilot.telemetry(feed)
        await pilot.press("2", telemetry=feed)
        signs = [
            part.style
            for strip in app.screen._compositor.render_strips()[3:-2]
            for part in strip
            if part.text == " ✖"
        ]
        assert len(signs) == 4, "what is acknowledged keeps a quiet sign"
        assert all(style is not None and style.color == theme.QUIET.color for style in signs)


async def test_the_sparklines_of_calm_rows_are_quiet() -> None:
    """Only rows with an alert and the cursor's row have sparklines as bright as charts.

    A column of bright blocks would attract the eye first.
    """
    feed = alerts_feed(ultraservers(2))
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(160, 40)) as pilot:
        await pilot.press("2")
        for _ in range(8):
            await pilot.telemetry(feed)
        assert isinstance(app.page, HierarchyView)
        table = app.page.table
        colors = {
            strip.text.split()[1]: {
                segment.style.color
                for segment in strip
                if segment.style is not None and set(segment.text.strip()) & set("▁▂▃▄▅▆▇")
            }
            for strip in map(table.render_line, range(1, 9))
        }
        bright = {theme.CHART.color}
        quiet = {theme.SPARK.color}
        assert colors["us-0001"] == colors[INSTANCE.rpartition("/")[2]] == bright
        assert colors["us-0002"] == colors["trn2u-0001-0"] == quiet


async def test_a_marked_row_keeps_the_end_of_its_name() -> None:
    """If the sign leaves no room, the beginning of the name is cut.

    Instances of one UltraServer differ in their ends.
    """
    feed = alerts_feed(
        [(f"{path}-of-hall-{end}", kind) for end, (path, kind) in enumerate(ultraservers(1))]
    )
    feed.set("temperature_c", 95.0, slice(16, 17))
    app, _ = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("2", telemetry=feed)
        marked = [line.split()[1] for line in pilot.screen()[4:-2] if "✖" in line]
        assert marked == ["uc1", "us-0001", "…1-of-hall-1"]


@pytest.mark.parametrize("size", SIZES)
async def test_the_header_and_the_notice(size: tuple[int, int]) -> None:
    """The header counts firing alerts by severity.

    A new alert is shown for a while, in preference to an event.
    """
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.telemetry(feed)
        assert "No problems" in pilot.screen()[0]
        feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
        feed.set("throttle_pct", 20.0, slice(0, 5))
        feed.monitor.apply([feed.event("uc1/us-0002", "link down", severity="critical")])
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        head = pilot.screen()[0]
        assert "✖ 1 crit" in head
        assert "▲ 1 warn" in head
        crumbs = app.query_one("#crumbs", Bar)
        assert "overheated" not in crumbs.text, "Fleet lists problems"
        await pilot.press("2", telemetry=feed)
        assert "✖ " in crumbs.text
        assert crumbs.text.count("overheated") == 1
        assert "link down" not in crumbs.text
        await pilot.telemetry(feed, NOTICE_S)
        assert "overheated" not in crumbs.text


async def test_bell_and_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """New alerts ring once in ten seconds, all together; quiet ones and information do not."""
    feed = alerts_feed()
    said: list[str] = []
    monkeypatch.setattr(
        "trnfleet.tui.notifications.send_notification", lambda _app, told: said.append(told)
    )
    app, _ = alerts_app(feed, is_loud=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        assert not said
        feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
        await pilot.telemetry(feed)
        assert len(said) == len(rung) == 1
        assert said[0] == f"1 new alert: critical overheated {CHIP}"
        feed.set("throttle_pct", 20.0, slice(0, 5))
        for _ in range(8):
            await pilot.telemetry(feed)
        assert len(said) == 1
        await pilot.telemetry(feed, 3.0)
        assert len(said) == len(rung) == 2
        assert said[1].startswith("5 new alerts: warning throttled")
        for _ in range(12):
            await pilot.telemetry(feed)
        assert len(said) == 2


async def test_a_quiet_app_does_not_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the options nothing rings."""
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    monkeypatch.setattr(
        "trnfleet.tui.notifications.send_notification", lambda _app, told: rung.append(len(told))
    )
    async with running(app, size=(120, 40)) as pilot:
        feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert not rung


def test_a_notification_holds_no_control_characters() -> None:
    """Whatever an alert's name, only the request's frame contains control characters."""
    made = notification(f"4;1;{NASTY}\u202e\x9c")
    assert made.startswith("\x1b]9;trnfleet: ")
    assert made.endswith("\x07")
    assert made[4:-1].isprintable()
