"""The Reservations view through its keys, and its highlight in other views."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import SIZES, FleetPilot, fleet_app, running

from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.services.files.rules import load_rules
from trnfleet.tui import theme
from trnfleet.tui.fleet.heatmap import HeatMap
from trnfleet.tui.fleet.heatmap_pixels import PixelCode
from trnfleet.tui.reservations.table import SORTS
from trnfleet.tui.reservations.view import ReservationsView
from trnfleet.tui.view import FLEET, HIERARCHY, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.reservations.usage import UsageHour
    from trnfleet.tui.app.app import FleetApp

US = "uc1/us-0001"
ALONE = "uc1/standalone/trn2-0002"
NASTY = "us-\x1b[31m[bold]"


def fed() -> Feed:
    feed = Feed(ultraservers(2) + standalone(2))
    feed.scatter()
    feed.describe()
    later = {"start": "2026-01-08T11:30:00Z", "end": "2026-01-15T11:30:00Z"}
    feed.monitor.apply(
        [
            feed.reservation(
                "cb-ultra",
                US,
                instances=4,
                instance_type="trn2u.48xlarge",
                ultraserver_type="u-trn2x64",
                end="2026-01-05T04:30:00Z",
                terminates="2026-01-05T04:00:00Z",
                interconnect="ok",
            ),
            feed.reservation("cb-alone", ALONE, zone=NASTY),
            feed.reservation("cb-next", ALONE, state="scheduled", **later),
            feed.reservation("cb-old", ALONE, state="expired", end="2026-01-04T11:30:00Z"),
        ]
    )
    chips = feed.layout.chip_range(feed.layout.find(ALONE))  # type: ignore[arg-type]
    feed.set("nc_util_pct", 0.0, slice(chips.start, chips.stop))
    feed.tick()
    return feed


def view(app: FleetApp) -> ReservationsView:
    assert isinstance(app.page, ReservationsView)
    return app.page


def rows(pilot: FleetPilot, word: str) -> list[str]:
    return [line for line in pilot.screen() if word in line]


@pytest.mark.parametrize("size", SIZES)
async def test_the_view_at_every_size(size: tuple[int, int]) -> None:
    """Key 7 opens table and timeline within the screen.

    The first to end comes first, and idle ones are marked.
    """
    feed = fed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.press("7", telemetry=feed)
        shown = pilot.screen()
        text = "\n".join(shown)
        assert re.search(r"\[7 Res\w+", text)
        order = [text.index(word) for word in ("▲ ending", "▲ idle", "○ scheduled", "· expired")]
        assert order == sorted(order)
        assert "ends 4h 29m" in text
        assert "100.00" in text
        assert "▼" in text
        assert "·····" in text
        assert "╌" in text
        assert "\x1b" not in text
        assert all(len(line) <= size[0] for line in shown)


async def test_the_countdown_goes_on() -> None:
    """A minute later there is a minute less."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        await pilot.telemetry(feed, 60)
        assert rows(pilot, "ends 4h 28m")


async def test_a_reservation_is_picked_out_in_every_view() -> None:
    """Enter goes to the heat map and highlights its chips.

    The tree marks them, and u ends the highlight.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(160, 48)) as pilot:
        await pilot.press("7", "enter", telemetry=feed)
        assert pilot.app.entry.title == FLEET
        assert pilot.app.place.startswith(US)
        assert rows(pilot, "◆ cb-ultra")
        heat = pilot.app.query_one(HeatMap)
        codes, _ = heat.codes(*heat.zoom.pixels(heat.grid, 0, 0, *heat.size))
        assert (codes == PixelCode.HEALTH_OUTSIDE).sum() > (codes >= PixelCode.HEALTH).sum() > 0
        await pilot.press("m")
        codes, _ = heat.codes(*heat.zoom.pixels(heat.grid, 0, 0, *heat.size))
        outside = int((codes >= PixelCode.OUTSIDE).sum())
        inside = int((codes < 8).sum())
        assert outside > inside > 0
        await pilot.press("2", telemetry=feed)
        assert len([line for line in pilot.screen() if line.startswith("◆")]) >= 5
        assert not [line for line in rows(pilot, "us-0002") if line.startswith("◆")]
        await pilot.press("u", telemetry=feed)
        assert not rows(pilot, "◆")
        assert pilot.app.context.highlight.reservation_id == ""


async def test_from_a_place_to_its_reservation() -> None:
    """R goes from a chip or instance to its reservation."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        pilot.app.go(f"{ALONE}/chip03")
        await pilot.press("r")
        await pilot.pause()
        assert pilot.app.entry.title == RESERVATIONS
        chosen = view(pilot.app).table.picked
        assert chosen is not None
        assert chosen.message.id == "cb-alone"
        await pilot.press("escape")
        assert pilot.app.entry.title != RESERVATIONS
        pilot.app.go(f"{US}/trn2u-0001-2", HIERARCHY)
        await pilot.press("r")
        await pilot.pause()
        chosen = view(pilot.app).table.picked
        assert chosen is not None
        assert chosen.message.id == "cb-ultra"


async def test_what_is_picked_out_does_not_stand_in_for_another() -> None:
    """With a highlight, r at another reservation's instance goes to that reservation.

    From the fleet it goes to the highlighted one.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        pilot.app.context.highlight.reservation_id = "cb-ultra"
        for place, expected in (
            (ALONE, "cb-alone"),
            ("", "cb-ultra"),
            ("uc1/us-0002", "no reservation"),
        ):
            pilot.app.go(place, HIERARCHY)
            pilot.app.place = place
            await pilot.press("r", telemetry=feed)
            assert rows(
                pilot, f">▲ idle            {expected}" if expected == "cb-alone" else expected
            ), place


async def test_timeline_keys() -> None:
    """Plus and minus zoom, left and right pan, n brings now back."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        assert rows(pilot, "scale 4 h")
        await pilot.press("plus")
        assert rows(pilot, "scale 2 h")
        await pilot.press("underscore", "underscore")
        assert rows(pilot, "scale 8 h")
        before = rows(pilot, "▼")[0].index("▼")
        await pilot.press("right", "right")
        assert rows(pilot, "▼")[0].index("▼") < before
        await pilot.press("n")
        assert rows(pilot, "▼")[0].index("▼") == before


async def test_sorting_goes_to_the_top() -> None:
    """S cycles the orders.

    By idle cost, the highest is first, with the cursor on it.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        await pilot.press("s")
        table = view(pilot.app).table
        assert table.order == "idle cost"
        assert [each.message.id for each in table.rows][:2] == ["cb-alone", "cb-ultra"]
        assert table.picked is not None
        assert table.picked.message.id == "cb-alone"
        assert rows(pilot, "sort: idle cost")
        for key, order in zip("NCUI", SORTS, strict=True):
            await pilot.press(key)
            assert table.order == order


async def test_nothing_is_reserved() -> None:
    """Without reservations the view shows how to publish them."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("7", telemetry=feed)
        assert rows(pilot, "Nothing is reserved")
        assert rows(pilot, "trnfleet bridge")
        assert not view(pilot.app).timeline.display, "an axis without lines"
        assert not rows(pilot, "scale ")
        await pilot.press("enter", "s", "down")
        assert view(pilot.app).table.picked is None
        feed.monitor.apply([feed.reservation("cb-1", US, instances=4)])
        await pilot.telemetry(feed)
        assert view(pilot.app).timeline.display
        assert rows(pilot, "scale 4 h")
        assert len(rows(pilot, "cb-1")) == 3, "table, timeline and foot"
        feed.monitor.reservations.remove("cb-1")
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert not view(pilot.app).timeline.display


async def test_a_publisher_that_is_gone_is_not_drawn_as_live() -> None:
    """When the publisher is gone its reservations are marked as last known."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7")
        feed.monitor.apply([feed.publisher_envelope("offline")])
        await feed.advance(1)
        await pilot.paint()
        assert rows(pilot, "? active")
        assert not rows(pilot, "▲ ending")
        assert re.search(r"as last known", pilot.text())


async def test_the_filter() -> None:
    """A slash filters table and timeline by a part of text.

    Escape shows all again, and r too.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        await pilot.press("slash", *"idle")
        assert [each.message.id for each in view(pilot.app).table.rows] == ["cb-alone"]
        await pilot.press("enter")
        assert rows(pilot, "/idle 1 found")
        assert not rows(pilot, "cb-ultra")
        await pilot.press("escape")
        assert pilot.app.entry.title == RESERVATIONS
        assert len(view(pilot.app).table.rows) == 4
        await pilot.press("slash", *"zzz", "enter")
        assert rows(pilot, "Nothing that is reserved matches")
        assert not rows(pilot, "scale ")
        pilot.app.go(US, HIERARCHY)
        await pilot.press("r")
        await pilot.pause()
        chosen = view(pilot.app).table.picked
        assert chosen is not None
        assert chosen.message.id == "cb-ultra"
        assert view(pilot.app).pattern == ""


async def test_a_place_that_nobody_holds() -> None:
    """R at an instance without a reservation shows a note until the cursor moves.

    It does not show another reservation instead.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        pilot.app.go("uc1/us-0002", HIERARCHY)
        await pilot.press("r", telemetry=feed)
        assert rows(pilot, "no reservation has uc1/us-0002")
        await pilot.press("down", telemetry=feed)
        assert not rows(pilot, "no reservation has")
        assert rows(pilot, "3 reserved  1 ended")


async def test_the_header_says_what_is_picked_out() -> None:
    """Every view names the highlighted reservation, its instances and the key to end it.

    On a small screen too.
    """
    feed = fed()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("7", "enter", telemetry=feed)
        for key in "1249":
            await pilot.press(key, telemetry=feed)
            assert rows(pilot, "◆ cb-ultra (4 instances)"), key


async def test_hostile_places_lead_nowhere() -> None:
    """Names invented by a publisher are plain text everywhere.

    Highlighting such a reservation does not change the place.
    """
    feed = fed()
    feed.monitor.apply(
        [feed.reservation("cb-0nasty", ("uc1/[red]\x1b[2J", "\u202e..x"), zone=NASTY)]
    )
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        view(pilot.app).show_reservation("cb-0nasty")
        await pilot.pause()
        assert rows(pilot, "[red]\\u001b[2J")
        await pilot.press("enter", telemetry=feed)
        assert pilot.app.entry.title == FLEET
        assert pilot.app.place == ""
        assert rows(pilot, "◆ cb-0nasty (place not known)")
        for key in "1247":
            await pilot.press(key, telemetry=feed)
            assert "\x1b" not in pilot.text()
            assert "\u202e" not in pilot.text()


async def test_a_rich_screen_tells_of_the_chosen_one_at_length() -> None:
    """With spare lines the chosen reservation's use and facts are below the timeline.

    On a small screen they are not.
    """
    feed = fed()
    feed.jobs = {"train": (f"{US}/trn2u-0001-0", f"{US}/trn2u-0001-1")}
    feed.describe()
    app = fleet_app(feed)
    async with running(app, size=(240, 70)) as pilot:
        await pilot.press("7")
        for _ in range(3):
            await pilot.telemetry(feed)
        assert rows(pilot, "used")
        assert len(rows(pilot, "  train, 32 no job ")) == 2, "its line, and the details"
        assert rows(pilot, "  no job  ")[0].startswith("  ▲ idle"[1:])
        assert "no job" not in "".join([*rows(pilot, "scheduled"), *rows(pilot, "expired")])
        assert not rows(pilot, "use of cb-ultra")
    # Without an app, which would tick all the while.
    await feed.clock.advance(3_600.0)
    app = fleet_app(feed)
    async with running(app, size=(240, 70)) as pilot:
        # A cell is a quarter of an hour, so an hour's data fills four.
        await pilot.press("7", *"++++")
        for _ in range(3):
            await pilot.telemetry(feed)
        assert rows(pilot, "use of cb-ultra, % of its NeuronCores")
        assert rows(pilot, "█")
        assert any(
            row.split() == ["used", "4", "of", "4", "instances"] for row in rows(pilot, "used")
        )
        await pilot.press("down")
        assert rows(pilot, "use of cb-alone")
        await pilot.resize_terminal(80, 24)
        await pilot.telemetry(feed)
        assert not rows(pilot, "use of cb-alone")
        assert rows(pilot, ">▲ idle")


async def test_what_is_wrong_with_the_chosen_one_has_its_colour() -> None:
    """Problems have their colour in the details as in the table.

    They are alerts with their places, and EC2's report on the links between its instances.
    """
    feed = fed()
    feed.monitor.ingest.alerts = Alerts(feed.fleet, load_rules())
    feed.monitor.apply(
        [feed.reservation("cb-ultra", US, instances=4, interconnect="impaired", change=2)]
    )
    async with running(fleet_app(feed), size=(120, 60)) as pilot:
        await pilot.press("7")
        for _ in range(15):
            await pilot.telemetry(feed)
        view(pilot.app).table.choose("cb-ultra")
        await pilot.telemetry(feed)
        details = view(pilot.app).details
        critical = theme.SEVERITY_STYLE[Severity.CRITICAL]
        drawn = [part for row in range(details.size.height) for part in details.render_line(row)]
        said = {part.text.rstrip() for part in drawn if part.style == critical}
        assert "interconnect impaired" in said
        assert re.search(r"EC2 says +interconnect impaired", pilot.text())
        assert any("NeuronLink impaired" in each for each in said)


async def test_hundreds_of_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only visible reservations are drawn; the timeline follows the table's cursor."""
    feed = fed()
    feed.monitor.apply([feed.reservation(f"cb-{number:03d}", ALONE) for number in range(400)])
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        asked: list[str] = []
        usage = feed.monitor.reservations.usage

        def counted(reservation_id: str) -> Sequence[UsageHour]:
            asked.append(reservation_id)
            return usage(reservation_id)

        monkeypatch.setattr(feed.monitor.reservations, "usage", counted)
        await pilot.press("end")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert 0 < len(set(asked)) <= 40
        assert len(rows(pilot, "cb-old")) >= 2
        assert [line[0] for line in rows(pilot, "cb-old")][:2] == [">", ">"]


async def test_a_click_on_the_timeline_chooses() -> None:
    """A click on the timeline also moves the table's cursor."""
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        await pilot.click(view(pilot.app).timeline, offset=(30, 1))
        await pilot.pause()
        chosen = view(pilot.app).table.picked
        assert chosen is not None
        assert chosen.message.id == "cb-alone"


async def test_the_timeline_keeps_nothing_of_reservations_that_are_gone() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("7", telemetry=feed)
        timeline = view(pilot.app).timeline
        before = timeline.watched("cb-gone")
        assert timeline.watched("cb-gone") is before
        await pilot.telemetry(feed, seconds=2.0)
        assert timeline.watched("cb-gone") is not before
        assert len(timeline._watched) <= len(view(pilot.app).table.rows) + 1


async def test_a_tall_screen_has_charts_of_the_chosen_ones_place() -> None:
    """Charts of its place are below its details.

    Utilisation has the same value as its row. An unknown place has no charts.
    """
    feed = fed()
    feed.set("nc_util_pct", 60.0, slice(0, 64))
    feed.monitor.apply([feed.reservation("cb-a", "uc9/nowhere", end="2026-01-05T01:00:00Z")])
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("7")
        for chosen, head in (
            ("cb-ultra", f" {US}  UltraServer ─"),
            ("cb-alone", f" {ALONE}  instance ─"),
            ("cb-a", ""),
        ):
            view(pilot.app).show_reservation(chosen)
            await pilot.telemetry(feed)
            feed.set("nc_util_pct", 90.0, slice(0, 64))
            await pilot.telemetry(feed)
            charts = view(pilot.app).charts
            lines = [charts.render_line(y).text for y in range(charts.size.height)]
            assert lines[0].strip().startswith(head.strip())
            text = "\n".join(lines)
            assert ("NC util" in text) is bool(head)
            title = re.search(r"NC util +([\d.]+) %", text)
            row = next(line for line in pilot.screen() if line.startswith(">") and chosen in line)
            util = re.search(r"([\d.]+)%", row)
            assert (title and title[1]) == (util[1] if util and head else None), row
            if chosen == "cb-ultra":
                assert title
                assert 61.0 < float(title[1]) < 89.0, "a mean"
        assert not text.strip()
        # They begin where the details end.
        view(pilot.app).show_reservation("cb-ultra")
        await pilot.telemetry(feed)
        details = [
            view(pilot.app).details.render_line(y).text.strip()
            for y in range(view(pilot.app).details.size.height)
        ]
        assert 0 < len(details) - len([line for line in details if line]) <= 5
        await pilot.resize_terminal(240, 40)
        await pilot.telemetry(feed)
        assert not view(pilot.app).charts.display
