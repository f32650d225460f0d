"""The health map: trouble is the brightest thing on the first screen, calm is dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, SilentSource, standalone, ultraservers
from support.tui.alerts import rule
from support.tui.pilot import FleetPilot, fleet_app, running

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.rules import load_rules
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap_grid import MapGrid
from trnfleet.tui.fleet.heatmap_health import HEALTH, MapHealth, health_of
from trnfleet.tui.fleet.heatmap_style import count_text, health_legend, tile_of
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.theme import Tile
from trnfleet.tui.theme.palettes import contrast
from trnfleet.tui.widgets.bar import Bar
from trnfleet.tui.widgets.cells import Parts, text_of, width_of

if TYPE_CHECKING:
    from rich.color import Color
    from textual.app import App

    from trnfleet.tui.fleet.heatmap import HeatMap


def fed() -> Feed:
    """Return a quiet fleet.

    It has an idle instance, three others without a job, and two UltraServers with a job each.
    """
    feed = Feed(ultraservers(2) + standalone(4))
    feed.scatter()
    feed.set("hbm_used_bytes", 40e9)
    feed.set("nc_util_pct", 0.0, slice(0, 16))
    feed.jobs = {"train": ("uc1/us-0001",), "serve": ("uc1/us-0002",)}
    feed.describe()
    feed.tick()
    return feed


def heat_of(app: App[None]) -> HeatMap:
    page = getattr(app, "page", None)
    assert isinstance(page, FleetView)
    return page.map


def tiles(pilot: FleetPilot) -> list[tuple[MapHealth, str, Color]]:
    """Return health, glyph and background at the middle of every chip on the map.

    They are read from the painted strips.
    """
    heat = heat_of(pilot.app)
    found = []
    for row in range(heat.size.height):
        column = 0
        cells = [
            (letter, segment.style) for segment in heat.render_line(row) for letter in segment.text
        ]
        for column, (letter, style) in enumerate(cells):
            hit = heat.zoom.hit(heat.grid, column, row)
            if hit is None or letter in "[]" or style is None or style.bgcolor is None:
                continue
            chip = heat.grid.chips_at(np.array([hit[0]]), np.array([hit[1]]))[0]
            if chip[0] >= 0 and letter != " ":
                found.append(
                    (MapHealth(int(heat.healths.of_chips(chip)[0])), letter, style.bgcolor)
                )
    return found


def overheat(feed: Feed) -> None:
    feed.set("temperature_c", 96.0, slice(96, 128))
    feed.set("throttle_pct", 20.0, slice(96, 128))


def fail(feed: Feed) -> None:
    feed.states = {"train": "failed"}
    feed.describe()


def split(feed: Feed) -> None:
    links = np.array(feed.columns["links_up"])
    links[64:128] &= 0b001111
    feed.columns["links_up"][:] = links


@pytest.mark.parametrize(
    ("break_it", "chips"), [(fail, 64), (overheat, 32), (split, 64)], ids=["job", "rack", "split"]
)
async def test_trouble_is_the_brightest_thing(break_it: object, chips: int) -> None:
    """Trouble stands out by 3:1 against page and calm chips.

    Calm chips are below 1.3:1. Tested: a failed job, a hot rack and a partitioned UltraServer.
    """
    feed = fed()
    assert callable(break_it)
    break_it(feed)
    feed.tick()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        for size in ((80, 24), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.tick(feed)
            seen = tiles(pilot)
            loud = [color for health, _, color in seen if health >= MapHealth.WARNING]
            calm = [color for health, _, color in seen if health < MapHealth.WARNING]
            assert len(loud) == chips
            assert calm
            brightest = max(contrast(color, theme.BACKGROUND) for color in calm)
            assert brightest < 1.3
            assert min(contrast(color, theme.BACKGROUND) for color in loud) > 3.0
            assert min(contrast(one, other) for one in loud for other in calm) > 3.0
            assert {letter for health, letter, _ in seen if health >= MapHealth.WARNING} <= {
                "▲",
                "✖",
            }


@pytest.mark.parametrize("size", [(80, 24), (200, 55)])
async def test_the_cursor_hides_no_trouble(size: tuple[int, int]) -> None:
    """On a chip with a problem the cursor shows the glyph in its colours.

    On a calm chip of two cells it is all brackets.
    """
    feed = fed()
    overheat(feed)
    feed.tick()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.tick(feed)
        heat = heat_of(pilot.app)
        for chip, is_hot in ((100, True), (0, False)):
            heat.show_place(feed.layout.path(Node(Level.CHIP, chip)))
            await pilot.tick(feed)
            rect = heat.zoom.rect(*heat.cursor.unit(heat.zoom))
            left = rect.left - int(heat.scroll_offset.x)
            row = rect.top // 2 - int(heat.scroll_offset.y)
            cells = [
                (letter, segment.style)
                for segment in heat.render_line(row)
                for letter in segment.text
            ]
            shown = cells[left : left + heat.zoom.width]
            assert shown[0] == ("[", theme.MAP_CURSOR)
            assert (("▲", theme.TILE_STYLE[Tile.WARNING]) in shown) == is_hot


def test_the_key_has_only_what_is_on_the_map() -> None:
    right: Parts = [("cell: 16 chips    ", theme.QUIET)]
    calm = text_of(health_legend(frozenset({Tile.NORMAL, Tile.RESERVED_IDLE}), right, 71))
    assert calm.split("  ")[:3] == [" health", "▅ NC util", "$ reserved, idle"]
    assert text_of(health_legend(frozenset(), right, 71)).split() == [
        "health",
        "cell:",
        "16",
        "chips",
    ]
    assert width_of(health_legend(frozenset(Tile), right, 200)) == 200


async def test_the_cause_is_bright_and_what_it_stopped_is_dull() -> None:
    """Of a failed job only the chip of the crash is critical, and no other job's chip."""
    feed = fed()
    feed.monitor = Monitor(SilentSource(), "demo", clock=feed.clock, rules=load_rules())
    feed.states = {"train": "failed"}
    chip = feed.layout.path(Node(Level.CHIP, 70))
    crash = feed.event(chip, "crashed", name="runtime_crash", job="train", severity="critical")
    feed.monitor.apply([crash])
    feed.describe()
    for _ in range(3):
        await feed.clock.advance(1.0)
        feed.tick()
    found = healths_of(feed, [70, 71, 127, 128])
    assert found == [MapHealth.CRITICAL, MapHealth.VICTIM, MapHealth.VICTIM, MapHealth.NORMAL]


async def test_calm_chips_have_levels_of_their_load() -> None:
    """A busy chip is fuller than an idle one of its instance; without colours both are dots."""
    feed = fed()
    feed.set("nc_util_pct", 90.0, slice(64, 80))
    feed.set("nc_util_pct", 30.0, [65])
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.tick(feed)
        heat = heat_of(pilot.app)
        levels = []
        for chip in (64, 65):
            x, y = heat.grid.place_of(chip)
            rect = heat.zoom.rect(x, y)
            line = "".join(segment.text for segment in heat.render_line(rect.top // 2))
            levels.append(line[rect.left])
        full, low = map("▁▂▃▄▅▆▇".index, levels)
        assert full > low + 2


@pytest.mark.parametrize("name", theme.NAMES)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_states_are_told_apart_by_glyph(name: str, *, ascii_only: bool) -> None:
    """Failed, warned, idle, stale and offline chips differ in glyph.

    In every theme, and in ASCII.
    """
    theme.use(name, ascii_only=ascii_only)
    states = (
        MapHealth.NORMAL,
        MapHealth.IDLE,
        MapHealth.RESERVED_IDLE,
        MapHealth.STALE,
        MapHealth.OFFLINE,
        MapHealth.WARNING,
        MapHealth.CRITICAL,
        MapHealth.MISSING,
    )
    glyphs = [
        theme.to_ascii(tile_of(each)[0]) if ascii_only else tile_of(each)[0] for each in states
    ]
    assert len(set(glyphs)) == len(glyphs)
    assert all(len(each) == 1 for each in glyphs)
    # What is silent keeps its glyph in the colours of a problem.
    assert tile_of(MapHealth.OFFLINE_CRITICAL) == (
        tile_of(MapHealth.OFFLINE)[0],
        tile_of(MapHealth.CRITICAL)[1],
    )


def healths_of(feed: Feed, chips: list[int]) -> list[MapHealth]:
    """Return the health of chips, as the map of an app shows it."""
    app = fleet_app(feed)
    app.context.alerts.refresh(feed.clock.monotonic_s())
    page = FleetView(app.context)
    return [MapHealth(each) for each in page.map.healths.of_chips(np.array(chips)).tolist()]


async def test_what_is_silent_is_said_once() -> None:
    """The note "last known" below the map implies stale: it is not repeated."""
    feed = fed()
    await feed.advance(5)
    feed.monitor.compute()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.pause()
        said = pilot.app.query_one("#selection", Bar).text
        assert "chip00  critical  stale: last known value" in said
        assert said.count("stale") == 1
        loud = [text for line in pilot.styled() for text, style in line if style == theme.BAR_ALERT]
        assert "stale: last known value" in loud


async def test_idle_stale_and_offline_are_not_normal() -> None:
    """Idle, stale and offline are separate states.

    An idle chip has no job or an idle instance. A silent one is stale, then offline.
    """
    feed = fed()
    assert healths_of(feed, [0, 16, 64]) == [MapHealth.IDLE, MapHealth.NORMAL, MapHealth.NORMAL]
    feed.set("nc_util_pct", 0.0, [17, 67])
    feed.tick()
    # An instance with a job that works has a chip that waits for the others.
    assert healths_of(feed, [17, 67]) == [MapHealth.IDLE, MapHealth.NORMAL]
    await feed.advance(5)
    feed.tick([path for path in feed.layout.instances if "us-0001" not in path])
    silent, heard = healths_of(feed, [64, 16])
    assert silent in {MapHealth.STALE, MapHealth.STALE_CRITICAL}
    assert heard is MapHealth.NORMAL
    feed.monitor.apply([feed.publisher_envelope("offline")])
    feed.monitor.compute()
    assert healths_of(feed, [64])[0] in {MapHealth.OFFLINE, MapHealth.OFFLINE_CRITICAL}


async def test_a_rule_marks_its_members_alone() -> None:
    """Of an alert about some chips of an UltraServer only these are marked."""
    feed = Feed(ultraservers(1))
    hot = rule(severity="warning", group="ultraserver")
    feed.monitor = Monitor(SilentSource(), "demo", clock=feed.clock, rules=(hot,))
    feed.scatter()
    feed.set("temperature_c", 96.0, [5, 40])
    feed.describe()
    for _ in range(3):
        await feed.clock.advance(1.0)
        feed.tick()
    found = healths_of(feed, [4, 5, 40, 41])
    assert found == [MapHealth.NORMAL, MapHealth.WARNING, MapHealth.WARNING, MapHealth.NORMAL]


async def test_a_cell_of_several_chips_shows_the_worst() -> None:
    """One critical chip is visible at every zoom level up to UltraServers.

    The legend shows the chips per cell.
    """
    feed = fed()
    feed.set("mem_ecc_uncorrected", 1, [70])
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.tick(feed)
        heat = heat_of(pilot.app)
        assert heat.field is HEALTH
        await pilot.press(*["plus"] * len(heat.zooms))
        said = []
        for _ in heat.zooms:
            said.append(count_text(heat.zoom, heat.field, has_rolled=False))
            x, y = heat.grid.place_of(70)
            side = heat.zoom.chips
            pixel = heat.healths.window(
                heat.grid, side, np.array([x // side]), np.array([y // side])
            )
            assert health_of(int(pixel[0, 0])) is MapHealth.CRITICAL
            await pilot.press("underscore")
        assert "" in said
        assert "cell: 2 chips, worst" in said
        assert "cell: 8 chips, worst" in said
        await pilot.press("m", "0")
        assert "pixel" not in pilot.text()


async def test_pixels_of_any_size_have_the_worst_of_their_chips() -> None:
    """Pixels show their worst chip, regardless of earlier sizes and fleet shapes."""
    feed = fed()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)):
        healths = heat_of(app).healths
        for layout in (feed.layout, Feed(standalone(7)).layout):
            feed.monitor.store.replace_layout(layout)
            feed.monitor.store.chip_state[3] = Freshness.STALE
            grid = MapGrid.build(layout)
            columns = grid.columns * grid.group
            rows = grid.rows * grid.group
            chips = grid.chips_at(np.arange(columns), np.arange(rows))
            each = np.zeros(chips.shape, np.int8)
            each[chips >= 0] = healths.of_chips(chips[chips >= 0])
            for side in (1, 2, 1):
                whole = healths.window(
                    grid, side, np.arange(columns // side), np.arange(rows // side)
                )
                blocks = each.reshape(rows // side, side, columns // side, side)
                shown = np.vectorize(health_of)(whole)
                assert np.array_equal(shown, blocks.max(axis=(1, 3)))


async def test_idle_chips_are_no_lowest_value_of_a_metric() -> None:
    """Among busy chips at 94 to 98 %, an idle chip is marked idle.

    A busy one at 60 % is marked low.
    """
    feed = fed()
    feed.set("nc_util_pct", np.linspace(94.0, 98.0, feed.layout.chips)[:, None])
    feed.set("nc_util_pct", 0.0, [66])
    feed.set("nc_util_pct", 60.0, [69])
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("m")
        rows = [line[:72] for line in pilot.screen()]
        head = next(row for row in rows if "p5-p95 of busy" in row)
        shown = "".join(rows[rows.index(head) + 1 :])
        assert shown.count("◦") == shown.count("↓") == 2
        await pilot.press("F")
        assert "◦" not in "".join(line[:72] for line in pilot.screen()[5:])


async def test_idle_agrees_with_the_mean_beside_it() -> None:
    """Instances without their job are idle at once.

    The mean of 10 s beside the word is still the job's, so the word is "idle now".
    """
    feed = Feed(ultraservers(12))
    feed.set("nc_util_pct", 80.0)
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        for _ in range(12):
            await pilot.telemetry(feed)
        while heat_of(pilot.app).zoom.unit is not Level.ULTRASERVER:
            await pilot.press("underscore")
        feed.set("nc_util_pct", 0.0)
        await pilot.telemetry(feed)
        said = pilot.app.query_one("#selection", Bar).text
        assert "  idle now  " in said, said
        for _ in range(12):
            await pilot.telemetry(feed)
        assert "  idle  " in pilot.app.query_one("#selection", Bar).text
