"""The app through its keys, on a monitor fed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import SIZES, fleet_app, running

from trnfleet.tui.fleet.heatmap import FIELDS
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.help import HelpScreen, HelpText
from trnfleet.tui.metric_display import HEAT_MAP
from trnfleet.tui.widgets.bar import Bar

if TYPE_CHECKING:
    from trnfleet.tui.app import FleetApp


def fed(count: int = 2, alone: int = 4) -> Feed:
    """Return a fleet with values in which one chip is hot and one has lost a link."""
    feed = Feed(ultraservers(count) + standalone(alone))
    feed.scatter()
    feed.set("hbm_used_bytes", 40e9)
    hot = feed.layout.chips - 7
    feed.set("temperature_c", 95.0, [hot])
    feed.jobs = {"llm-70b": ("uc1/us-0001",)}
    feed.describe()
    feed.tick()
    return feed


def fleet(app: FleetApp) -> FleetView:
    assert isinstance(app.page, FleetView)
    return app.page


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_screen_has_real_content(size: tuple[int, int]) -> None:
    """Header, map, problems and status are there and say what the monitor knows."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.pause()
        text = pilot.text()
        summary = feed.monitor.summary()
        assert f"{summary.nc_util_pct:.1f} %" in text
        assert "192 chips" in text
        assert "us-0001" in text
        assert "hot, 95 degC" in text
        assert "▲ 1" in text.splitlines()[0]
        assert ("127.0.0.1:1883, MQTT 5" in text) is (size[0] > 80)
        assert "llm-70b" in text
        assert "[1 Fleet]" in text
        assert all(len(line) <= size[0] for line in text.splitlines())


async def test_figures_follow_the_monitor() -> None:
    """New values reach the header once they have stood for a second, without a key, and are all of its mean after ten."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        feed.set("nc_util_pct", 12.5)
        before = app.query_one("#header", Bar).text
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert app.query_one("#header", Bar).text != before
        for _ in range(9):
            await pilot.telemetry(feed)
        assert "10 s mean" in app.query_one("#header", Bar).text
        assert "12.5 %" in app.query_one("#header", Bar).text


async def test_an_idle_app_paints_nothing() -> None:
    """Without news no line is painted."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed)
        await pilot.tick(feed)
        before = fleet(app).map.lines_painted, fleet(app).problems.lines_painted
        await pilot.tick(feed)
        assert (fleet(app).map.lines_painted, fleet(app).problems.lines_painted) == before


async def test_arrows_move_and_breadcrumbs_follow() -> None:
    """The cursor goes from chip to chip; its name and value are told."""
    feed = fed(1, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("right", "down")
        assert app.place == "uc1/us-0001/trn2u-0001-0/chip05"
        assert "chip05" in app.query_one("#crumbs", Bar).text
        await pilot.press("l", "l", "l")
        assert app.place == "uc1/us-0001/trn2u-0001-1/chip04"
        await pilot.press("j", "j", "j")
        assert app.place == "uc1/us-0001/trn2u-0001-3/chip00"
        await pilot.press("k", "h")
        assert app.place == "uc1/us-0001/trn2u-0001-0/chip15"
        value = feed.monitor.store.columns["nc_util_pct"][15].mean() / 2
        assert f"NC util {value:.1f} %" in app.query_one("#selection", Bar).text


async def test_the_cursor_is_seen_without_colour() -> None:
    """Brackets stand round what is selected."""
    feed = fed(2, 0)
    app = fleet_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.pause()
        row = pilot.text().splitlines()[6]
        assert row.startswith(" []")
        await pilot.press("underscore")
        text = pilot.text().splitlines()
        assert (text[6][0], text[6][5], text[7][0]) == ("┌", "┐", "└")


async def test_zoom_keeps_the_place() -> None:
    """From chip to UltraServer and back, the cursor is where it was."""
    feed = fed(3, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        heat = fleet(app).map
        nearest = heat.level
        await pilot.press("right", "right", "down")
        chip = app.place
        for level in range(nearest + 1, len(heat.zooms)):
            await pilot.press("underscore")
            assert heat.level == level
            assert chip.startswith(heat.place)
        await pilot.press("underscore")
        await pilot.press(*["plus"] * (len(heat.zooms) - 1 - nearest))
        assert app.place == chip
        await pilot.press("underscore", "0")
        assert heat.level == nearest


async def test_from_afar_enter_zooms_in() -> None:
    """A pixel of several UltraServers cannot be opened, so it comes nearer."""
    feed = fed(9, 0)
    app = fleet_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        heat = fleet(app).map
        await pilot.press(*["underscore"] * 8)
        assert heat.zoom.unit is None
        await pilot.press("enter", "enter")
        assert fleet(app).map.zoom.chips == 8
        assert isinstance(app.page, FleetView)


async def test_m_walks_through_the_fields() -> None:
    """The legend names field and scale; M goes back."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.pause()
        legend = app.query_one("#legend", Bar)
        assert legend.text.startswith(" health  ✖ critical  ▲ warning  · normal  ◦ idle")
        await pilot.press("m")
        assert "NC util" in legend.text
        assert "p5-p95 busy" in legend.text
        await pilot.press("F")
        assert "full range" in legend.text
        assert "100 %" in legend.text
        await pilot.press("m")
        assert "power" in legend.text
        assert "500 W" in legend.text
        await pilot.press("M", "M", "M")
        assert fleet(app).map.field is HEAT_MAP[-1]
        for _ in FIELDS:
            await pilot.press("m")
            assert fleet(app).map.field.title in legend.text


async def test_problems_lead_to_their_place() -> None:
    """W goes to the list, the map follows its cursor, Enter opens the place, Esc comes back."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("w")
        hot = feed.monitor.findings.shown[0].path
        assert app.place == hot
        assert fleet(app).map.place == hot
        await pilot.press("enter")
        assert app.entry.title == "Chip"
        assert app.page.place == hot
        assert "chip" in app.query_one("#crumbs", Bar).text
        await pilot.press("escape")
        assert isinstance(app.page, FleetView)
        assert app.place == hot


async def test_places_are_kept_from_view_to_view() -> None:
    """Number keys keep the place; Esc walks back through all of them."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("right")
        place = app.place
        await pilot.press("2")
        assert (app.entry.title, app.page.place) == ("Hierarchy", place)
        await pilot.press("4")
        assert (app.entry.title, app.page.place) == ("Chip", place)
        await pilot.press("1")
        assert (app.entry.title, fleet(app).map.place) == ("Fleet", place)
        titles = []
        for _ in range(3):
            await pilot.press("escape")
            titles.append(app.entry.title)
        assert titles == ["Chip", "Hierarchy", "Fleet"]


async def test_enter_opens_what_is_selected() -> None:
    """A chip opens in the Chip view, an instance in the Hierarchy."""
    feed = fed(1, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("enter")
        assert app.entry.title == "Chip"
        await pilot.press("escape")
        while fleet(app).map.place.count("/") > 2:
            await pilot.press("underscore")
        await pilot.press("enter")
        assert (app.entry.title, app.page.place) == ("Hierarchy", "uc1/us-0001/trn2u-0001-0")


async def test_the_mouse_selects_and_opens() -> None:
    """A click selects the chip under it, a second one opens it."""
    feed = fed(1, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        heat = fleet(app).map
        rect = heat.zoom.rect(2, 1)
        at = (rect.left, rect.top // 2)
        await pilot.click(heat, offset=at)
        assert app.place == "uc1/us-0001/trn2u-0001-0/chip06"
        await pilot.click(heat, offset=at, times=2)
        assert app.entry.title == "Chip"


async def test_help_lists_the_bindings() -> None:
    """? shows keys of every view, Esc closes it."""
    app = fleet_app(fed())
    async with running(app, size=(160, 60)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert app.screen.query_one(HelpText).size.width > 100
        text = pilot.text()
        for part in ("Next metric", "Zoom in", "Hierarchy", "Next chip", "Quit", "Ctrl-c"):
            assert part in text
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c", "ctrl+c"), ("ctrl+q",)])
async def test_quitting_is_a_success(keys: tuple[str, ...]) -> None:
    """Q, and ctrl+c twice, end with 0."""
    app = fleet_app(fed())
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press(*keys)
    assert app.return_code == 0


@pytest.mark.parametrize(("number", "code"), [(15, 143), (1, 129), (2, 0)])
async def test_signals_set_the_exit_status(number: int, code: int) -> None:
    """SIGTERM, SIGHUP and SIGINT end the app with the statuses that shells expect."""
    app = fleet_app(fed())
    async with running(app, size=(80, 24)) as pilot:
        app.end(number)
        await pilot.pause()
    assert app.return_code == code


async def test_silence_is_never_drawn_as_live() -> None:
    """Stale tiles are hatched and counted; when all is silent a banner says so."""
    feed = fed(1, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.pause()
        assert "░" not in pilot.text().replace("░ stale", "")
        await feed.advance(5)
        feed.tick(list(feed.layout.instances[1:]))
        await pilot.tick(feed)
        await pilot.pause()
        assert pilot.text().count("░") >= 15
        assert "48 live, 16 stale" in pilot.text()
        await feed.advance(5)
        await pilot.tick(feed)
        await pilot.pause()
        assert "all 64 chips are stale; values are the last known" in pilot.text()


async def test_a_lost_connection_is_told_with_its_age() -> None:
    """The banner counts the seconds and goes when the connection is back."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        link = feed.monitor.link
        link.connected, link.changed_s, link.last_error = False, feed.clock.monotonic_s(), "broken pipe"
        await feed.advance(12)
        await pilot.tick(feed)
        assert "no connection to mqtt://127.0.0.1:1883 for 12 s" in pilot.text()
        assert "not connected" in app.query_one("#status", Bar).text
        link.connected = True
        feed.tick()
        await pilot.tick(feed)
        await pilot.pause()
        assert "no connection" not in pilot.text()


async def test_before_anything_has_come() -> None:
    """An empty monitor says what it waits for; no key does any harm."""
    feed = Feed(ultraservers(1))
    app = fleet_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        assert "waiting for the fleet" in pilot.text()
        keys = (
            "right",
            "down",
            "enter",
            "plus",
            "underscore",
            "0",
            "m",
            "w",
            "enter",
            "escape",
            "1",
            "2",
            "4",
            "1",
        )
        await pilot.press(*keys)
        await pilot.click("#map", offset=(3, 3))
        await pilot.press("1")
        feed.describe()
        feed.tick()
        await pilot.tick(feed)
        await pilot.pause()
        assert "64 chips" in pilot.text()
        assert "us-0001" in pilot.text()


async def test_the_fleet_may_change_while_one_looks() -> None:
    """A place survives a new layout; one that is gone falls back to what is above it."""
    feed = fed(2, 0)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        app.go("uc1/us-0002/trn2u-0002-3/chip09", "Fleet")
        await pilot.pause()
        bigger = Feed(ultraservers(12) + standalone(3))
        bigger.publisher, bigger.monitor = feed.publisher, feed.monitor
        bigger.clock = feed.clock
        bigger.scatter()
        bigger.describe()
        bigger.tick()
        await pilot.tick(feed)
        assert "uc1/us-0002/trn2u-0002-3/chip09".startswith(fleet(app).map.place)
        assert fleet(app).map.grid.groups == 13
        gone = [path for path in bigger.layout.instances if "us-0002" in path]
        feed.monitor.apply([each._replace(payload=b"") for each in bigger.announcements(gone)[1:]])
        feed.monitor.compute()
        await pilot.tick(feed)
        assert fleet(app).map.place.startswith("uc1/")
        assert "us-0002" not in fleet(app).map.place
        await pilot.press("right", "down", "enter", "escape")


async def test_a_resize_storm_raises_nothing() -> None:
    """Any size from 20x5 to 300x100, at any zoom level, in every view."""
    feed = fed(9, 5)
    app = fleet_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        for number in range(60):
            width, height = 20 + number * 97 % 281, 5 + number * 41 % 96
            await pilot.resize_terminal(width, height)
            if number % 5 == 0:
                await pilot.press(["1", "underscore", "plus", "w", "m", "2", "4", "1"][number // 5 % 8])
            assert pilot.text()
        await pilot.press("1")
        await pilot.resize_terminal(80, 24)
        assert "chips" in pilot.text()


@pytest.mark.parametrize("size", [(79, 24), (80, 19)])
async def test_small_screens_leave_the_lists_out(size: tuple[int, int]) -> None:
    """Below 80 x 20 the map has all the room, and w stays there."""
    app = fleet_app(fed())
    async with running(app, size=size) as pilot:
        assert "Problems" not in pilot.text()
        await pilot.press("w")
        assert fleet(app).map.has_focus


async def test_no_color_is_read_as_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colours the steps of the ramp are digits, and the legend says so."""
    monkeypatch.setenv("NO_COLOR", "1")
    feed = fed(1, 0)
    feed.set("nc_util_pct", 99.0)
    feed.tick()
    app = fleet_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("m", "F")
        text = pilot.text()
        assert "01234567" in text
        assert "77777777 77777777" in text
        assert "▀" not in text


async def test_remote_text_is_shown_plainly() -> None:
    """Markup is no markup, and nothing that a terminal acts upon leaves the app."""
    feed = fed()
    job, usual = feed.monitor.ingest.jobs["llm-70b"], feed.monitor.findings
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for text in ("[@click=app.quit]x[/]", "[/nope]", "\x1b]0;x\x07", "a\u202eb", "\x9b31m"):
            feed.monitor.link.broker = feed.monitor.link.last_error = text
            hostile = job.model_copy(update={"job": text, "kind": text, "state": text, "on": (text,)})
            feed.monitor.ingest.jobs[text] = hostile
            finding = usual.shown[0]._replace(what=text)
            feed.monitor.findings = usual._replace(shown=(finding,), total=1)
            await pilot.tick(feed, 1.0)
            shown = pilot.text()
            assert all(line.isprintable() for line in shown.splitlines())
            if text.isprintable():
                assert text[:6] in shown
            await pilot.press("w", "down", "enter", "escape", "2", "4", "1")
            assert all(line.isprintable() for line in pilot.text().splitlines())
            del feed.monitor.ingest.jobs[text]
    assert app.return_code in {None, 0}


async def test_a_crash_is_not_a_success() -> None:
    """What goes wrong in the app shows in its return code."""
    app = fleet_app(fed())

    def fail(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    async def run() -> None:
        async with running(app, size=(80, 24)) as pilot:
            app.call_later(fail)
            await pilot.pause()

    with pytest.raises(RuntimeError, match="on purpose"):
        await run()
    assert app.return_code == 1


async def test_small_fleets_leave_room_for_trends() -> None:
    """Below the map of a small fleet stand the fleet's last minutes; zooming in takes the room back."""
    feed = fed(2, 4)
    feed.tick()
    app = fleet_app(feed)

    def rows() -> int:
        trends = fleet(app).trends
        return trends.size.height if trends.display else 0

    async with running(app, size=(120, 28)) as pilot:
        await pilot.pause(0.2)
        assert rows() >= 6
        text = pilot.text()
        assert "power" in text.lower()
        before = fleet(app).map.zoom
        await pilot.press("plus")
        await pilot.pause(0.2)
        assert rows() == 0
        await pilot.press("0")
        await pilot.pause(0.2)
        assert rows() >= 6
        assert fleet(app).map.zoom == before


async def test_no_trends_without_history_or_room() -> None:
    """Before the first second, and where the map needs the room, there are no trends."""
    app = fleet_app(fed(2, 4))
    async with running(app, size=(80, 24)) as pilot:
        await pilot.pause(0.2)
        assert not fleet(app).trends.display


async def test_trends_of_a_sped_up_fleet_say_wall() -> None:
    """The trends' seconds are the wall clock's, and are called so where the fleet's time is another."""
    for speed, said in ((1.0, False), (3_600.0, True)):
        feed = Feed(ultraservers(2))
        feed.speed = speed
        feed.scatter()
        feed.describe()
        feed.tick()
        app = fleet_app(feed)
        async with running(app, size=(120, 40)) as pilot:
            await pilot.tick(feed)
            await pilot.pause(0.2)
            assert "5 min" in pilot.text()
            assert ("5 min wall" in pilot.text()) is said


@pytest.mark.parametrize("size", [(120, 40), (240, 70)])
async def test_jobs_are_told_with_their_state(size: tuple[int, int]) -> None:
    """A job that hangs shows its sign and word in the list, under the list's titles, and among the problems."""
    feed = fed()
    feed.states = {"llm-70b": "hung"}
    feed.describe()
    app = fleet_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.tick(feed)
        text = pilot.text()
        assert "‖ llm-70b" in text
        assert "✖ " in text
        assert "job hung" in text
        lines = text.splitlines()
        head, told = next((line, lines[row + 1]) for row, line in enumerate(lines) if " Jobs 1" in line)
        assert told[head.rindex("state") :].startswith("hung ")
        assert told[: head.rindex("MFU") + 3].endswith(" 40.0 %")
