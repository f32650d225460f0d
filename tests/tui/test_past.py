"""Exchange of the monitor below the app.

Nothing of another moment remains, and nothing is written to the past.
"""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.fake_playback import START_NS
from support.tui.past_app import MIN, burn, burning, fed, made
from support.tui.pilot import SIZES, running

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.monitor.replay.controls import Mode
from trnfleet.tui.alerts.actions import PAST, RECORDED
from trnfleet.tui.alerts.view import AlertsView
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.app.time_keys import AFTER_S
from trnfleet.tui.events.view import EventsView
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.widgets.bar import Bar


@pytest.mark.parametrize(("size", "count"), [*((size, 2) for size in SIZES), (SIZES[1], 5)])
async def test_nothing_of_another_moment_stays(size: tuple[int, int], count: int) -> None:
    """After an exchange each view is as in an app without the other monitor."""
    feed = await burning(3)
    then = fed(ultraservers(count), util=75.0)
    feed.monitor.apply([feed.event("uc1/us-0001", "the present", severity="warning")])
    then.monitor.apply([then.event("uc1/us-0001", "the past", severity="warning")])
    wanted = {}
    fresh, _ = made(then, is_file=True)
    async with running(fresh, size=size) as pilot:
        for view in ("1", "2", "4", "8", "9"):
            await pilot.press(view)
            await pilot.tick(then, 0.0)
            fresh.context.alerts.renew()
            await pilot.tick(then, 0.0)
            wanted[view] = pilot.text()
    app, playback = made(feed, is_file=True)
    async with running(app, size=size) as pilot:
        for view, lines in wanted.items():
            playback.show(feed.monitor, playback.start_ns)
            await pilot.press(view)
            await pilot.tick(feed, 0.6)
            assert pilot.text() != lines
            playback.show(then.monitor, playback.start_ns)
            await pilot.paint()
            await pilot.paint()
            assert pilot.text().splitlines() == lines.splitlines(), view


async def test_a_fleet_of_another_shape() -> None:
    """A moment with half of the fleet is shown, and keys work at once.

    The return works, too.
    """
    feed = fed(ultraservers(3) + standalone(3))
    then = fed(ultraservers(1))
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        for view in ("1", "2", "4", "7", "8", "9"):
            await pilot.press(view, "end", "down", "s")
            for monitor in (then.monitor, feed.monitor, then.monitor):
                playback.show(monitor, START_NS + MIN)
                await pilot.press("down", "right", "up", "s", "left")
                await pilot.paint()
                chips = monitor.store.layout.chips
                assert f"{chips} chips" in app.query_one("#header", Bar).text, view
            await pilot.press("end")
            app.tick()
            assert "240 chips" in app.query_one("#header", Bar).text, view


async def test_the_cursor_stays_where_it_is() -> None:
    """Place, order and filter survive an exchange, even through an empty moment."""
    feed = fed(ultraservers(3))
    then = fed(ultraservers(1))
    app, playback = made(feed)
    address = "uc1/us-0003/trn2u-0003-1"
    async with running(app, size=(120, 40)) as pilot:
        app.go(address, "Hierarchy")
        await pilot.pause()
        page = app.page
        assert isinstance(page, HierarchyView)
        page.table.sort_by("nc_util_pct")
        page.show_place(address)
        playback.show(then.monitor, START_NS + MIN)
        await pilot.tick(feed, 0.6)
        await pilot.press("end")
        await pilot.tick(feed, 0.6)
        assert (page.place, page.table.sorting.key) == (address, "nc_util_pct")
        assert page.table.index.at(page.table.row) == page.table.index.at(
            page.table.index.nearest(address)
        )


async def test_the_cursor_stays_on_its_event() -> None:
    """Other numbers for the same events do not move the cursor.

    Before the event happened, the cursor is on the previous one.
    """
    feed = fed()
    told = [("first", 1), ("second", 2), ("third", 3), ("fourth", 4)]
    stamps = {
        "first": "2026-01-05T00:00:01Z",
        "second": "2026-01-05T00:00:02Z",
        "third": "2026-01-05T00:00:03Z",
        "fourth": "2026-01-05T00:00:04Z",
    }

    def tell(other: Feed, names: list[str]) -> None:
        other.monitor.apply([other.event("uc1/us-0001", name, ts=stamps[name]) for name in names])

    later, earlier = fed(), fed()
    tell(feed, [name for name, _ in told])
    tell(later, ["second", "third", "fourth"])
    tell(earlier, ["first", "second"])
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("9", "down")
        assert isinstance(app.page, EventsView)
        chosen = app.page.list
        assert chosen.picked is not None
        assert chosen.picked.text == "third"
        for monitor, wanted in (
            (later.monitor, "third"),
            (earlier.monitor, "second"),
            (feed.monitor, "third"),
        ):
            playback.show(monitor, START_NS + MIN)
            await pilot.tick(feed, 0.6)
            assert chosen.picked is not None
            assert chosen.picked.text == wanted


async def test_ages_stand_while_the_past_does() -> None:
    """Ages follow the clock of the moment shown, not the real one."""
    feed = fed()
    then = fed()
    then.monitor.apply(then.telemetry())
    await then.clock.advance(40.0)
    then.monitor.compute()
    app, playback = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("2")
        playback.show(then.monitor, START_NS + MIN, Mode.PAUSED)
        await pilot.tick(feed, 0.6)
        assert "stale 40 s" in pilot.text()
        await pilot.tick(feed, 30.0)
        assert "stale 40 s" in pilot.text()


async def test_news_of_the_past_is_looked_for_four_times_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The past is checked for news four times a second.

    Its passes are not the live fleet's, with a tick each, and it can run faster.
    """
    feed, then = fed(), fed()
    app, playback = made(feed)
    ticks: list[float] = []
    async with running(app):
        playback.show(then.monitor, START_NS + MIN, Mode.PAUSED)
        await feed.clock.advance(3.0)
        monkeypatch.setattr(app, "tick", lambda: ticks.append(feed.clock.monotonic_s()))
        await feed.clock.advance(1.0)
        assert len(ticks) == 4


# Alerts


async def test_the_past_is_not_written_to() -> None:
    """Acknowledging and silencing show why they are refused in the past.

    In the present they open their forms.
    """
    feed = await burning(3)
    operator = OperatorActions("demo", publisher=None, owner="ann")
    for is_file, words in ((False, PAST), (True, RECORDED)):
        app, playback = made(feed, is_file=is_file, operator=operator)
        async with running(app, size=(120, 40)) as pilot:
            playback.show(feed.monitor, START_NS + MIN)
            await pilot.press("8")
            for key in ("a", "z", "x"):
                await pilot.press(key)
                assert isinstance(app.page, AlertsView)
                assert words in pilot.text()
                assert not app.page.actions.ack_form.is_open
                app.page.note = ""
                await pilot.press(*["escape"] * (key != "x"))


async def test_the_bell_is_the_present_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alert of the past does not ring.

    One of the present rings once, also while the past is shown.
    """
    feed, then = fed(), await burning(5)
    app, playback = made(feed, bell=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed, 0.6)
        playback.show(then.monitor, START_NS + MIN)
        await pilot.tick(feed, 0.6)
        assert "1 critical" in app.query_one("#header", Bar).text
        assert not rung
        await burn(feed, 3)
        await pilot.tick(feed, 0.6)
        assert rung == [1]
        assert "now firing: ✖ 1" in app.query_one("#past", Bar).text
        await pilot.press("end")
        await pilot.tick(feed, 15.0)
        assert rung == [1]


async def test_a_file_does_not_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fires in a recording fired long ago."""
    feed = fed()
    app, _ = made(feed, is_file=True, bell=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed, 0.6)
        await burn(feed, 3)
        await pilot.press("2")
        await pilot.tick(feed, 0.6)
        assert "1 critical" in app.query_one("#header", Bar).text
        assert "overheated" in app.query_one("#crumbs", Bar).text, (
            "that it fires now is told all the same"
        )
        assert not rung


async def test_from_an_alert_to_its_moment() -> None:
    """`o` pauses where it has just fired, from list and history."""
    feed = await burning(3)
    app, playback = made(feed)
    fired_ns = next(iter(feed.monitor.alerts.active())).fired_ns
    assert fired_ns is not None
    after_ns = round(AFTER_S * NS_PER_S)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed, 0.6)
        await pilot.press("8", "o")
        assert "no history of that moment" in app.query_one("#status", Bar).text
        playback.moments[fired_ns] = START_NS + 5 * MIN
        await pilot.press("o")
        assert playback.wishes == [("seek", START_NS + 5 * MIN + after_ns), ("pause",)]
        assert "paused where it has just happened" in app.query_one("#status", Bar).text
        await pilot.press("space", "T", "o")
        assert playback.wishes[-2:] == [("seek", START_NS + 5 * MIN + after_ns), ("pause",)]


async def test_the_cursor_waits_for_its_alert() -> None:
    """When the alert fires, the cursor moves to it, unless it was moved meanwhile.

    Until then the alert is not listed.
    """
    feed = await burning(3)
    before = fed()
    other = await burning(40)
    fired_ns = next(iter(feed.monitor.alerts.active())).fired_ns
    assert fired_ns is not None
    app, playback = made(feed)
    playback.moments[fired_ns] = START_NS + 5 * MIN
    async with running(app, size=(120, 40)) as pilot:
        await pilot.tick(feed, 0.6)
        await pilot.press("8")
        page = app.page
        assert isinstance(page, AlertsView)
        wanted = page.place
        await pilot.press("o")
        for monitor in (before.monitor, other.monitor):
            playback.show(monitor, START_NS + 5 * MIN)
            await pilot.tick(feed, 0.6)
            assert page.place != wanted
        await burn(other, 3)
        await pilot.tick(feed, 0.6)
        assert len(page.list.rows) == 2
        assert page.place == wanted
        playback.show(before.monitor, START_NS + 5 * MIN)
        await pilot.tick(feed, 0.6)
        playback.show(other.monitor, START_NS + 6 * MIN)
        await pilot.tick(feed, 0.6)
        assert page.place == wanted


async def test_from_an_event_to_its_moment() -> None:
    """`o` goes to just after the event, so that the list contains it."""
    feed = fed()
    feed.monitor.apply([feed.event("uc1/us-0001", "it broke")])
    app, playback = made(feed)
    playback.moments[feed.clock.wall_ns()] = START_NS + NS_PER_S
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("9", "o")
        assert playback.wishes == [("seek", START_NS + 2 * NS_PER_S), ("pause",)]


async def test_without_playback_o_says_so() -> None:
    """Nothing is recorded, so there is nowhere to go."""
    feed = fed()
    feed.monitor.apply([feed.event("uc1/us-0001", "it broke")])
    async with running(FleetApp(feed.monitor, clock=feed.clock), size=(120, 40)) as pilot:
        await pilot.press("9", "o")
        assert "nothing is recorded (--past 0)" in pilot.app.query_one("#status", Bar).text
