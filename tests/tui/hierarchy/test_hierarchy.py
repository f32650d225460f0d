from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import ViewHost

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Layout
from trnfleet.domain.quantities import with_unit
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.history import KEPT, History
from trnfleet.tui import theme
from trnfleet.tui.hierarchy.view import HierarchyView
from trnfleet.tui.state.context import UiContext
from trnfleet.wire.messages import (
    Descriptor,
    InstanceSpec,
    JobMessage,
    decode_message,
    encode_message,
    message_envelope,
)
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.pilot import Pilot

    from trnfleet.tui.view import View


class Host(ViewHost):
    """An app that is nothing but the view."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed
        self.asked: list[str] = []
        self.moved: list[str] = []

    def compose(self) -> ComposeResult:
        self.view = HierarchyView(UiContext.of(self.feed.monitor, self.feed.clock))
        yield self.view

    def on_mount(self) -> None:
        self.view.take_focus()

    def on_view_open(self, event: View.Open) -> None:
        self.asked.append(event.address)

    def on_view_moved(self, event: View.Moved) -> None:
        self.moved.append(event.address)

    def shown(self) -> list[str]:
        """Return the rows' texts."""
        table = self.view.table
        return [
            table.render_line(y).text.rstrip()
            for y in range(table.scrollable_content_region.height)
        ]

    def row(self, name: str) -> str:
        """Return the text of the row with this beginning of its name."""
        return next(text for text in self.shown() if text.strip(" ▸▾╭╰│").startswith(name))


def fed(**options: Any) -> Feed:
    feed = Feed(ultraservers(2) + standalone(4), **options)
    feed.jobs = {"llama": ("uc1/us-0001",)}
    feed.describe()
    feed.scatter()
    feed.tick()
    return feed


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await pilot.pause()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (240, 70)])
async def test_rows_show_the_stores_values(width: int, height: int) -> None:
    """At every size, the cells are the roll-ups' and the store's figures."""
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(width, height)) as pilot:
        app.view.show_place("uc1/us-0001/trn2u-0001-2/chip05")
        await pilot.pause()
        store = feed.monitor.store
        layout = feed.monitor.store.layout
        chip = layout.find("uc1/us-0001/trn2u-0001-2/chip05")
        assert chip is not None
        codes = store.columns["nc_util_pct"][chip.number]
        assert f" {codes.mean() / 2:.1f}" in app.row("chip05")
        assert f" {with_unit(float(store.columns['power_w'][chip.number]) / 10, 'W')}" in app.row(
            "chip05"
        )
        instance = feed.monitor.store.columns["power_w"][6 * 16 : 7 * 16].sum() / 10
        assert f" {with_unit(float(instance), 'W')}" in app.row("trn2u-0001-2")
        if width == 240:
            assert "llama" in app.row("trn2u-0001-2")
            assert "64/64" in app.row("us-0001")
        assert all(len(text) <= width for text in app.shown())
        assert app.view.place == "uc1/us-0001/trn2u-0001-2/chip05"
        assert "trn2u.48xlarge" in app.view.foot.render_line(0).text


async def test_keys_open_close_and_go_deeper() -> None:
    """Arrows open, close and go to parent or child.

    Enter on a chip opens its view.
    """
    app = Host(fed())
    async with app.run_test(size=(80, 40)) as pilot:
        await press(pilot, "home", "down", "down")
        assert app.view.place == "uc1/standalone/trn2-0001"
        await press(pilot, "right", "right", "l", "l")
        assert app.view.place == "uc1/standalone/trn2-0001/chip00/nc0"
        await press(pilot, "enter")
        assert app.asked == ["uc1/standalone/trn2-0001/chip00/nc0"]
        await press(pilot, "left", "enter", "h", "left", "left")
        assert app.asked[-1] == "uc1/standalone/trn2-0001/chip00"
        assert app.view.place == "uc1/standalone/trn2-0001"
        rows = app.view.table.index.rows
        await press(pilot, "x", "x")
        assert app.view.table.index.rows == rows
        await press(pilot, "asterisk", "end", "pageup", "k", "j", "pagedown")
        assert app.view.place == "uc1/us-0002/trn2u-0002-3"
        assert app.moved[-1] == app.view.place


async def test_logical_cores_are_bracketed() -> None:
    """Physical cores of a logical core are in a bracket at LNC=2, alone at LNC=1."""
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(80, 40)) as pilot:
        app.view.show_place("uc1/us-0001/trn2u-0001-0/chip00/nc7")
        await pilot.pause()
        cores = [text for text in app.shown() if " nc" in text]
        assert [text.split()[0] for text in cores] == ["╭", "╰"] * 4
        assert [text.split()[3] for text in cores[::2]] == ["0", "1", "2", "3"]
        envelopes = feed.announcements(["uc1/us-0001/trn2u-0001-0"])
        old = decode_message(envelopes[1].payload, Descriptor)
        spec = InstanceSpec(path=old.path, type="trn2u.48xlarge", lnc=1)
        single = msgspec.structs.replace(old, instances=(spec,))
        feed.monitor.apply([envelopes[1]._replace(payload=encode_message(single))])
        feed.monitor.compute()
        app.view.tick()
        assert [text.split()[0] for text in app.shown() if " nc" in text] == [
            f"nc{core}" for core in range(8)
        ]
        job = JobMessage(
            job="a", kind="training", state="running", ts=old.clock.epoch, on=(old.path,), lnc=2
        )
        topic = build_topic("demo", TopicClass.JOB, "a")
        feed.receive([message_envelope(topic, job, retain=True)])
        app.view.tick()
        assert [text.split()[0] for text in app.shown() if " nc" in text] == ["╭", "╰"] * 4


async def test_sorting_stays_within_parents_and_goes_to_the_top() -> None:
    """Only siblings are sorted, cores are not, and the cursor goes to the first row."""
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(80, 60)) as pilot:
        app.view.show_place("uc1/us-0002/trn2u-0002-1/chip03")
        await press(pilot, "s", "s")
        assert app.view.table.sorting == ("nc_util_pct", True)
        assert "↓NC util" in app.view.head.render_line(0).text
        chips = [text.split() for text in app.shown() if " chip" in text]
        assert len(chips) == 16
        values = [float(words[4]) for words in chips]
        assert values == sorted(values, reverse=True)
        assert app.view.place == "uc1"
        await press(pilot, "S")
        values = [float(text.split()[4]) for text in app.shown() if " chip" in text]
        assert values == sorted(values)
        # Where rows change places by themselves, it stays on its entity.
        app.view.show_place("uc1/us-0002/trn2u-0002-1/chip03")
        feed.set("nc_util_pct", 100.0, 5 * 16 + 32 + 3)
        feed.set("nc_util_pct", np.nan, slice(0, 16))
        for _ in range(11):
            await feed.advance(1.0)
            feed.tick()
        app.view.tick()
        assert app.view.place == "uc1/us-0002/trn2u-0002-1/chip03"
        assert "n/a" in [text for text in app.shown() if " trn2-" in text][-1]
        selected = app.view.table.row - app.view.table.top
        assert "chip03" in app.shown()[selected]


async def test_filter_shows_matches_with_what_they_are_in() -> None:
    """Typing filters at once, Enter applies it, Escape clears it first.

    A second Escape is the app's.
    """
    app = Host(fed())
    async with app.run_test(size=(80, 30)) as pilot:
        await press(pilot, "slash", *"0002-1")
        names = [text.split()[1] for text in app.shown() if text.strip()]
        assert names == ["uc1", "us-0002", "trn2u-0002-1"]
        await press(pilot, "enter")
        assert app.view.place == "uc1/us-0002/trn2u-0002-1"
        assert app.focused is app.view.table
        assert "1 found" in app.view.foot.render_line(0).text
        await press(pilot, "escape")
        assert app.view.table.pattern == ""
        assert len([text for text in app.shown() if text.strip()]) > 10
        assert app.view.check_action("clear", ()) is False
        await press(pilot, "slash", *"!us-000", "enter")
        assert [text.split()[1] for text in app.shown() if text.strip()][:2] == [
            "uc1",
            "standalone",
        ]
        assert not any("us-000" in text for text in app.shown())
        await press(pilot, "escape", "slash", *"2/chip07", "enter")
        assert sum("chip07" in text for text in app.shown()) == 3
        await press(pilot, "escape", "slash", *"nothing", "enter")
        assert "Nothing matches nothing" in app.shown()[1]
        app.view.show_place("uc1/us-0001")
        assert app.view.table.pattern == ""


async def test_stale_and_offline_are_said_and_dimmed() -> None:
    """A silent instance is dim and shows its age, its parent the live share.

    Offline is shown in words.
    """
    feed = fed()
    app = Host(feed)
    silent = "uc1/us-0001/trn2u-0001-1"
    async with app.run_test(size=(80, 30)) as pilot:
        for _ in range(12):
            await feed.advance(1.0)
            feed.tick([path for path in feed.layout.instances if path != silent])
        app.view.tick()
        await pilot.pause()
        assert "◌ stale 12 s" in app.row("trn2u-0001-1")
        assert "◐ 48/64 live" in app.row("us-0001")
        line = app.shown().index(app.row("trn2u-0001-1"))
        styles = [
            segment.style for segment in app.view.table.render_line(line) if segment.text.strip()
        ]
        assert set(styles) == {theme.STATE_STYLE[Freshness.STALE]}
        assert theme.STATE_STYLE[Freshness.STALE] != theme.BASE
        feed.monitor.apply([feed.publisher_envelope("offline")])
        feed.monitor.compute()
        app.view.tick()
        assert "✖ offline 0 s" in app.row("us-0002")


async def test_layout_may_change_while_one_looks() -> None:
    """New instances appear; the cursor and open rows stay.

    An empty view shows that nothing is known yet.
    """
    feed = Feed(ultraservers(3))
    app = Host(feed)
    async with app.run_test(size=(80, 60)) as pilot:
        app.view.tick()
        assert "Waiting" in app.shown()[1]
        app.view.show_place("uc1/us-0002/trn2u-0002-1/chip02")
        feed.describe([path for path in feed.layout.instances if "us-0002" in path])
        app.view.tick()
        await pilot.pause()
        assert app.view.place == "uc1/us-0002/trn2u-0002-1/chip02"
        assert "· no data yet" in app.row("trn2u-0002-0")
        feed.describe()
        # The roll-ups are there at once here; a running monitor has them a moment later.
        app.view.tick()
        assert app.row("us-0001")
        assert "chip02" in app.shown()[app.view.table.row - app.view.table.top]
        rollups = feed.monitor.rollups
        feed.monitor.store.replace_layout(Layout.of(ultraservers(4)))
        assert rollups.generation != feed.monitor.store.generation
        painted = app.view.table.lines_painted
        app.view.tick()
        assert app.view.table.lines_painted == painted
        feed.monitor.compute()
        app.view.tick()
        assert app.row("us-0004")


async def test_mouse_selects_toggles_and_sorts() -> None:
    """A click selects, one on the triangle opens or closes, one on a title sorts."""
    app = Host(fed())
    async with app.run_test(size=(80, 30)) as pilot:
        await pilot.click(app.view.table, offset=(12, 2))
        assert app.view.place == "uc1/standalone/trn2-0001"
        await pilot.click(app.view.table, offset=(5, 2))
        assert app.view.table.index.rows == 1 + 3 + 12 + 16
        column = app.view.head.render_line(0).text.index("power")
        await pilot.click(app.view.head, offset=(column, 0))
        assert app.view.table.sorting == ("power_w", True)


async def test_idle_ticks_paint_nothing() -> None:
    """Without a change no line is painted."""
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(80, 30)) as pilot:
        table = app.view.table
        app.view.tick()
        await pilot.pause()
        painted = table.lines_painted
        app.view.tick()
        assert table.lines_painted == painted
        feed.scatter(seed=9)
        feed.tick()
        await feed.advance(1.0)
        app.view.tick()
        assert table.lines_painted > painted
        painted = table.lines_painted
        app.view.tick()
        assert table.lines_painted == painted


async def test_the_sparkline_goes_by_the_wall_clock() -> None:
    """In a sped-up fleet the head labels the sparkline's seconds as wall time."""
    for speed, said in ((1.0, False), (3_600.0, True)):
        feed = Feed(ultraservers(2))
        feed.speed = speed
        feed.scatter()
        feed.describe()
        feed.tick()
        app = Host(feed)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            app.view.tick()
            units = app.view.head.render_line(1).text
            assert re.search(r"last \d+ s", units)
            assert (" s wall" in units) is said


async def test_rows_have_a_sparkline_from_when_they_are_shown_where_levels_are_not_kept() -> None:
    """In a fleet too large for full history, sparklines begin when a row is shown.

    Rows never on screen have none, and cost nothing.
    """
    feed = Feed(ultraservers(30))
    history = feed.monitor.history = History(budget_bytes=2 * 130 * len(KEPT) * 4)
    feed.set("nc_util_pct", 90.0)
    feed.describe()
    feed.tick()
    app = Host(feed)

    async def seconds(number: int) -> None:
        for _ in range(number):
            feed.tick()
            await feed.advance(1.0)
            app.view.tick()

    async with app.run_test(size=(120, 20)) as pilot:
        await pilot.pause()
        await seconds(12)
        assert not history.seconds(Level.ULTRASERVER)
        assert "▇▇" in app.row("us-0002")
        shown = len(history._glances)
        assert 10 < shown < 20
        await pilot.press("end")
        app.view.tick()
        assert "▇" not in app.row("us-0030")
        await seconds(7)
        assert "▇" in app.row("us-0030")
        assert shown < len(history._glances) < 40
        await pilot.press("home")
        app.view.tick()
        assert app.row("us-0002").count("▇") > 2, "what was kept before is still there"
