"""The app through its keys, on a monitor fed by hand: common to every view."""

from __future__ import annotations

import re

import msgspec
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.fleet_scene import fleet_view, hot_feed
from support.tui.pilot import SIZES, fleet_app, running
from textual import events

from trnfleet.tui.app import terminal
from trnfleet.tui.help import HelpScreen, HelpText
from trnfleet.tui.keys import key_text
from trnfleet.tui.view import CHIP, JOBS, View
from trnfleet.tui.views import VIEWS
from trnfleet.tui.widgets.bar import Bar


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_screen_has_real_content(size: tuple[int, int]) -> None:
    """Header, map, problems and status are present and show the monitor's state."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.pause()
        text = pilot.text()
        summary = feed.monitor.summary()
        assert f"{summary.nc_util_pct:.1f} %" in text
        assert "192 chips" in text
        assert "us-0001" in text
        assert "hot, 95 °C" in text
        assert "▲ 1" in text.splitlines()[0]
        assert ("127.0.0.1:1883, MQTT 5" in text) is (size[0] > 80)
        assert "llm-70b" in text
        assert "[1 Fleet]" in text
        assert all(len(line) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize("title", [*(entry.title for entry in VIEWS if entry.title != CHIP), ""])
async def test_the_app_begins_with_a_view(title: str) -> None:
    """It is whole at once. An unknown view is passed over, and Chip is not kept."""
    feed = hot_feed()
    app = fleet_app(feed)
    app.first_view = title or "Charts"
    async with running(app, size=(120, 40)) as pilot:
        await pilot.pause()
        assert app.view_title == (title or VIEWS[0].title)
        assert app.last_views == ({feed.fleet: title} if title else {})
        begun = pilot.text()
        await pilot.press(app.entry.key)
        assert pilot.text() == begun
        await pilot.press("5", "4")
        assert app.last_views == {feed.fleet: JOBS}


async def test_figures_follow_the_monitor() -> None:
    """New values reach the header after a second, without a key.

    After ten seconds they are all of its mean.
    """
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        feed.set("nc_util_pct", 12.5)
        before = pilot.app.query_one("#header", Bar).text
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert pilot.app.query_one("#header", Bar).text != before
        for _ in range(9):
            await pilot.telemetry(feed)
        assert "10 s mean" in pilot.app.query_one("#header", Bar).text
        assert "12.5 %" in pilot.app.query_one("#header", Bar).text


async def test_an_idle_app_paints_nothing() -> None:
    """Without news no line is painted."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.tick(feed)
        await pilot.tick(feed)
        before = (
            fleet_view(pilot.app).map.lines_painted,
            fleet_view(pilot.app).problems.lines_painted,
        )
        await pilot.tick(feed)
        assert (
            fleet_view(pilot.app).map.lines_painted,
            fleet_view(pilot.app).problems.lines_painted,
        ) == before


async def test_places_are_kept_from_view_to_view() -> None:
    """Number keys keep the place; Esc walks back through all of them."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("right")
        place = pilot.app.place
        await pilot.press("2")
        assert (pilot.app.entry.title, pilot.app.page.place) == ("Hierarchy", place)
        await pilot.press("4")
        assert (pilot.app.entry.title, pilot.app.page.place) == ("Chip", place)
        await pilot.press("1")
        assert (pilot.app.entry.title, fleet_view(pilot.app).map.place) == ("Fleet", place)
        titles = []
        for _ in range(3):
            await pilot.press("escape")
            titles.append(pilot.app.entry.title)
        assert titles == ["Chip", "Hierarchy", "Fleet"]


async def test_help_lists_the_bindings() -> None:
    """? shows keys of every view, Esc closes it."""
    async with running(fleet_app(hot_feed()), size=(160, 90)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        assert pilot.app.screen.query_one(HelpText).size.width > 100
        text = pilot.text()
        words = ("Next metric", "Zoom in", "Hierarchy", "Next chip", "Quit", "Ctrl-c")
        for part in (*words, ":list ", ":top ", ":bottom ", ":columns "):
            assert part in text, text
        keys = [key_text(key.key) for _, keys in pilot.app.key_parts() for key in keys]
        assert "$" in keys
        assert not [key for key in keys if re.search("[a-z]_", key)], "Textual's names"
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, HelpScreen)


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c", "ctrl+c"), ("ctrl+q",)])
async def test_quitting_is_a_success(keys: tuple[str, ...]) -> None:
    """Q, and ctrl+c twice, end with 0."""
    app = fleet_app(hot_feed())
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press(*keys)
    assert app.return_code == 0


@pytest.mark.parametrize(("number", "code"), [(15, 143), (1, 129), (2, 0)])
async def test_signals_set_the_exit_status(number: int, code: int) -> None:
    """SIGTERM, SIGHUP and SIGINT end the app with the usual exit statuses."""
    app = fleet_app(hot_feed())
    async with running(app, size=(80, 24)) as pilot:
        app.end(number)
        await pilot.pause()
    assert app.return_code == code


async def test_a_lost_connection_is_told_with_its_age() -> None:
    """The banner counts the seconds and goes when the connection is back."""
    feed = hot_feed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        link = feed.monitor.link
        link.connected, link.changed_s, link.last_error = (
            False,
            feed.clock.monotonic_s(),
            "broken pipe",
        )
        await feed.advance(12)
        await pilot.tick(feed)
        assert "no connection to mqtt://127.0.0.1:1883 for 12 s" in pilot.text()
        assert "not connected" in pilot.app.query_one("#status", Bar).text
        link.connected = True
        feed.tick()
        await pilot.tick(feed)
        await pilot.pause()
        assert "no connection" not in pilot.text()


LONG = (
    "the broker's certificate is signed by an authority of its own, which is not in --ca"
    " /etc/trnfleet/certificates/ca.pem; give the authority's with --ca FILE"
)


@pytest.mark.parametrize("is_described", [True, False])
async def test_the_reason_of_a_refused_connection_is_told_to_its_end(is_described: bool) -> None:
    """A long reason gets the lines it needs, because the remedy is at its end.

    Later the view gets them back.
    """
    feed = hot_feed() if is_described else Feed(ultraservers(1))
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        link = feed.monitor.link
        link.connected, link.changed_s, link.last_error = False, feed.clock.monotonic_s(), LONG
        await feed.advance(12)
        await pilot.tick(feed)
        assert LONG in " ".join(pilot.text().split())
        await pilot.resize_terminal(200, 50)
        await pilot.paint()
        assert LONG in " ".join(pilot.text().split())
        link.connected = True
        link.last_error = ""
        await pilot.tick(feed)
        await pilot.pause()
        # Where nothing is described, what to do about that has a line, too.
        assert pilot.app.query_one("#header", Bar).size.height == (2 if is_described else 3)
        assert pilot.app.query_one("#banner", Bar).size.height <= 1


async def test_before_anything_has_come() -> None:
    """An empty monitor shows what it waits for; every key is harmless."""
    feed = Feed(ultraservers(1))
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
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
    """A place survives a new layout; a removed one falls back to its parent."""
    feed = hot_feed(2, 0)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        pilot.app.go("uc1/us-0002/trn2u-0002-3/chip09", "Fleet")
        await pilot.pause()
        bigger = Feed(ultraservers(12) + standalone(3))
        bigger.publisher, bigger.monitor = feed.publisher, feed.monitor
        bigger.clock = feed.clock
        bigger.scatter()
        bigger.describe()
        bigger.tick()
        await pilot.tick(feed)
        assert "uc1/us-0002/trn2u-0002-3/chip09".startswith(fleet_view(pilot.app).map.place)
        assert fleet_view(pilot.app).map.grid.groups == 13
        gone = [path for path in bigger.layout.instances if "us-0002" in path]
        feed.monitor.apply([each._replace(payload=b"") for each in bigger.announcements(gone)[1:]])
        feed.monitor.compute()
        await pilot.tick(feed)
        assert fleet_view(pilot.app).map.place.startswith("uc1/")
        assert "us-0002" not in fleet_view(pilot.app).map.place
        await pilot.press("right", "down", "enter", "escape")


async def test_a_resize_storm_raises_nothing() -> None:
    """Any size from 20x5 to 300x100, at any zoom level, in every view."""
    feed = hot_feed(9, 5)
    keys = ("1", "underscore", "plus", "w", "m", "2", "4", "1")
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        for number in range(24):
            width = 20 + number * 97 % 281
            height = 5 + number * 41 % 96
            await pilot.resize_terminal(width, height)
            if number % 3 == 0:
                await pilot.press(keys[number // 3])
            assert pilot.text()
        await pilot.press("1")
        await pilot.resize_terminal(80, 24)
        assert "chips" in pilot.text()


async def test_an_app_that_ends_right_after_a_resize_ends_quietly() -> None:
    """Work due shortly after the last resize finds no screen and does nothing."""
    app = fleet_app(hot_feed())
    async with running(app, size=(80, 24)):
        pass
    assert not app.screen_stack
    app._draw_again()


async def test_all_is_drawn_again_after_another_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one finds nothing drawn."""
    monkeypatch.setattr(terminal, "_RESIZED_WITHIN_S", 60.0)
    app = fleet_app(hot_feed())
    monkeypatch.setattr(app, "_draw_again", lambda: None)
    async with running(app, size=(80, 24)) as pilot:
        assert app._last_resize is None
        await pilot.resize_terminal(100, 30)
        assert app._last_resize is not None


async def test_remote_text_is_shown_plainly() -> None:
    """Markup is not interpreted, and no terminal control leaves the app."""
    feed = hot_feed()
    job = feed.monitor.ingest.jobs["llm-70b"]
    usual = feed.monitor.findings
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for text in ("[@click=app.quit]x[/]", "[/nope]", "\x1b]0;x\x07", "a\u202eb", "\x9b31m"):
            feed.monitor.link.broker = feed.monitor.link.last_error = text
            hostile = msgspec.structs.replace(job, job=text, kind=text, state=text, on=(text,))
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
    """An exception in the app shows in its return code."""
    app = fleet_app(hot_feed())

    def fail(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    async def run() -> None:
        async with running(app, size=(80, 24)) as pilot:
            app.call_later(fail)
            await pilot.pause()

    with pytest.raises(RuntimeError, match="on purpose"):
        await run()
    assert app.return_code == 1


async def test_a_view_is_made_when_it_is_opened_and_the_help_has_the_keys_of_all() -> None:
    """Keys typed right after go to the new view, and an opened view remains."""
    async with running(fleet_app(hot_feed()), size=(120, 40)) as pilot:
        assert [type(view).__name__ for view in pilot.app.query(View)] == ["FleetView"]
        for char in "2jj":
            pilot.app.post_message(events.Key(char, char))
        await pilot.pause()
        opened = pilot.app.page
        assert opened.place
        assert [type(view).__name__ for view in pilot.app.query(View)] == [
            "FleetView",
            "HierarchyView",
        ]
        await pilot.press("question_mark")
        assert len(pilot.app.screen_stack[0].query(View)) == len(VIEWS)
        await pilot.press("escape", "1", "2")
        assert pilot.app.page is opened


async def test_what_is_typed_behind_the_key_that_closes_the_help_is_not_taken_for_another() -> None:
    """Until the help is gone the field receives the keys, with the closing key first."""
    async with running(fleet_app(hot_feed()), size=(120, 40)) as pilot:
        await pilot.press("question_mark")
        for char in "?zs":
            pilot.app.post_message(events.Key(char, char))
        await pilot.pause()
        assert pilot.crash is None
        assert not isinstance(pilot.app.screen, HelpScreen)


async def test_news_is_looked_for_after_each_pass_and_else_twice_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The app checks for news after each pass, else twice a second.

    Wake-ups are most of an idle app's cost. After news it checks again soon.
    """
    feed = hot_feed()
    app = fleet_app(feed)
    ticks: list[float] = []
    tick = app.tick

    def ticking() -> None:
        ticks.append(feed.clock.monotonic_s())
        tick()

    monkeypatch.setattr(app, "tick", ticking)
    async with running(app):
        await feed.clock.advance(3.0)
        ticks.clear()
        await feed.clock.advance(1.0)
        assert len(ticks) == 2
        feed.tick()
        ticks.clear()
        for number in range(3):
            feed.monitor.compute()
            await feed.clock.advance(0.0)
            assert len(ticks) == number + 1
        ticks.clear()
        for _ in range(10):
            await feed.clock.advance(0.1)
            feed.tick()
            feed.monitor.compute()
        assert len(ticks) >= 8


async def test_a_pass_makes_no_tick_while_ticks_go_on_for_what_is_not_painted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass adds no tick while ticks continue for unpainted lines.

    A slow terminal would have twice as many ticks, each with fewer lines to write.
    """
    feed = hot_feed()
    app = fleet_app(feed)
    ticks: list[float] = []
    async with running(app):
        await feed.clock.advance(1.0)
        monkeypatch.setattr(app, "tick", lambda: ticks.append(feed.clock.monotonic_s()))
        app._is_due = True
        feed.monitor.compute()
        await feed.clock.advance(0.0)
        assert ticks == []
        await feed.clock.advance(1.0)
        assert len(ticks) >= 5
