"""The Power view: sums, groups, caps, orders, filter and sizes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import SIZES, FleetPilot, fleet_app, running

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.power import KwhPrice
from trnfleet.monitor.power_groups import GROUPS
from trnfleet.tui import theme
from trnfleet.tui.format.power import SORTS
from trnfleet.tui.power.view import PowerView
from trnfleet.tui.state.kept import KeptCaps
from trnfleet.tui.view import HIERARCHY, POWER, RESERVATIONS
from trnfleet.wire.messages import STANDARD_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.tui.app.app import FleetApp

US = "uc1/us-0001"


def fed(servers: int = 2, hosts: int = 2) -> Feed:
    feed = Feed(ultraservers(servers) + standalone(hosts))
    feed.scatter()
    feed.jobs = {"train-70b": (US,), "serve-8b": ("uc1/standalone/trn2-0001",)}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", US, instances=4)])
    feed.tick()
    return feed


def view(app: FleetApp) -> PowerView:
    assert isinstance(app.page, PowerView)
    return app.page


def names(pilot: FleetPilot) -> list[str]:
    """Return the names of the listed rows."""
    shown = view(pilot.app).list
    return [shown.name_of(row) for row in shown.rows]


async def typed(pilot: FleetPilot, text: str) -> None:
    """Type a text, and press Enter."""
    keys = {
        " ": "space",
        "/": "slash",
        "-": "minus",
        "<": "less_than_sign",
        ">": "greater_than_sign",
    }
    await pilot.press(*(keys.get(letter, letter) for letter in text), "enter")


@pytest.mark.parametrize("size", SIZES)
async def test_the_view_at_every_size(size: tuple[int, int]) -> None:
    """Sums are the header's, every rack has a line, and the fleet's row is the last."""
    feed = fed()
    async with running(fleet_app(feed), size=size) as pilot:
        for _ in range(30):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        shown = pilot.screen()
        text = "\n".join(shown)
        assert "[6 Power]" in text
        mean = feed.monitor.summary().mean
        assert mean.power_w is not None
        assert mean.facility_power_w is not None
        assert f"chips {mean.power_w / 1e3:.1f} kW + hosts 20.0 kW = IT " in text
        assert f"x PUE 1.14 = facility {mean.facility_power_w / 1e3:.1f} kW (e)" in text
        rows = [line for line in shown if re.match(r"  (us-|trn2-)", line)]
        assert len(rows) == 6
        last = next(number for number, line in enumerate(shown) if line.startswith("  demo"))
        assert f"{mean.power_w / 1e3:.2f}" in shown[last]
        figures = [float(re.split(r"\s+", line.strip())[1]) for line in rows]
        assert sum(figures) == pytest.approx(mean.power_w / 1e3, abs=0.04)
        assert shown.index(rows[-1]) == last - 1
        assert shown[last + 1].rstrip().endswith((" sets one", " a chip"))
        assert "Power by job" in text
        assert ("Chips by power, W" in text) is (size[0] >= 120)
        assert all(len(line) <= size[0] for line in shown)
        blank = sum(not line.strip() for line in shown)
        assert blank < size[1] / 3


async def test_a_silence_is_of_the_row() -> None:
    """A rack is not its UltraServer, and a job not its first instance."""
    feed = fed()
    expected = (
        {f"{US}/rack-b": f'rack="{US}/rack-b"'},
        {US: f'ultraserver="{US}"'},
        {"serve-8b": 'job="serve-8b"', "no job": ""},
        {"cb-1": 'reservation="cb-1"', "no reservation": ""},
    )
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        page = view(pilot.app)
        for matchers in expected:
            assert page.table is not None
            for place, wanted in matchers.items():
                page.list.point_at(place)
                assert page.subject.matchers == wanted
            await pilot.press("g", telemetry=feed)


async def test_groups_go_round_and_add_up() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        page = view(pilot.app)
        listed = []
        for kind in GROUPS:
            assert page.kind == kind
            assert page.table is not None
            assert page.table.watts[:-1].sum() == pytest.approx(feed.monitor.summary().mean.power_w)
            listed.append(sorted(names(pilot)))
            await pilot.press("g", telemetry=feed)
        assert page.kind == GROUPS[0]
        assert listed[0][:2] == ["trn2-0001", "trn2-0002"]
        assert listed[1:] == [
            ["standalone", "us-0001", "us-0002"],
            ["no job", "serve-8b", "train-70b"],
            ["cb-1", "no reservation"],
        ]


async def test_sums_are_marked_while_instances_are_to_come() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("6", telemetry=feed)
        assert "loading" not in pilot.text()
        more = Feed(standalone(4))
        joining = more.announcements(list(more.layout.instances)[2:])
        feed.monitor.ingest.apply(joining, feed.clock.monotonic_s(), 0)
        pilot.app.context.frame.refresh()
        view(pilot.app).tick()
        await pilot.pause()
        assert re.search(r" chips [\d.]+ kW \(loading\)", pilot.text())


async def test_the_least_headroom_comes_first_and_other_orders() -> None:
    feed = fed()
    feed.set("power_w", 100.0)
    feed.set("power_w", 480.0, slice(64, 96))
    feed.set("temperature_c", 80.0, slice(0, 16))
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(12):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        assert names(pilot)[0] == "us-0001/rack-a" or names(pilot)[0] == "us-0001/rack-b"
        first = names(pilot)[0]
        await pilot.press("P", telemetry=feed)
        assert names(pilot)[0] == first
        await pilot.press("T", telemetry=feed)
        assert names(pilot)[0] == "trn2-0001"
        await pilot.press("N", telemetry=feed)
        assert names(pilot) == sorted(names(pilot))
        for order in (*SORTS, SORTS[0]):
            await pilot.press("s", telemetry=feed)
            if view(pilot.app).sorted_list.order == order:
                break


async def test_a_cap_of_a_person() -> None:
    """`:cap` changes cap, headroom and order, and marks what is above it."""
    feed = fed()
    async with running(fleet_app(feed), size=(160, 48)) as pilot:
        await pilot.press("6", telemetry=feed)
        await pilot.press("colon")
        await typed(pilot, "cap us-0002/rack-b 5kW")
        await pilot.telemetry(feed)
        assert names(pilot)[0] == "us-0002/rack-b"
        line = next(line for line in pilot.screen() if "us-0002/rack-b" in line)
        assert line.startswith("✖")
        assert "5.00*" in line
        assert "above cap" in pilot.text()
        await pilot.press("colon")
        await typed(pilot, "cap us-0002/rack-b off")
        await pilot.telemetry(feed)
        assert "5.00*" not in pilot.text()
        for wrong, answer in (("us-9 5kW", "no place"), ("fleet 5kg", "cap"), ("fleet 0", "above")):
            await pilot.press("colon")
            await typed(pilot, f"cap {wrong}")
            assert answer in pilot.text()
            await pilot.press("escape")


async def test_typed_caps_are_kept(tmp_path: Path) -> None:
    """The next app has them; `off` goes back to the settings' cap; a damaged file is left alone."""
    feed = fed()
    rack = f"{US}/rack-a"
    file = tmp_path / "caps.json"
    feed.monitor.site = feed.monitor.site._replace(power_caps=((rack, 30_000.0),))
    feed.monitor.caps[rack] = 30_000.0
    app = fleet_app(feed)
    app.fleets.caps.open(file, may_save=True)
    async with running(app, size=(160, 48)) as pilot:
        await pilot.press("6", "colon", telemetry=feed)
        await typed(pilot, "cap us-0001/rack-a 9kW")
        assert f"kept in {file}"[:40] in pilot.text()
        assert feed.monitor.caps == {rack: 9_000.0}
        after = KeptCaps()
        after.open(file, may_save=False)
        assert after.caps_of(feed.fleet) == {rack: 9_000.0}
        assert after.put(feed.fleet, rack, 1.0) == "until the app ends"
        assert "1.0" not in file.read_text()
        assert not after.caps_of("another")
        await pilot.press("colon")
        await typed(pilot, "cap us-0001/rack-a off")
        assert feed.monitor.caps == {rack: 30_000.0}
        assert "30.00 kW of --power-cap" in pilot.text()
        assert not json.loads(file.read_text())[feed.fleet]
        file.write_text('{"demo": {"fleet": "much"}}')
        await pilot.press("colon")
        await typed(pilot, "cap fleet 90kW")
        assert "until the app ends" in pilot.text()
        assert feed.monitor.caps["fleet"] == 90_000.0
        app.fleets.caps.open(file, may_save=True)
        assert "demo: fleet: 'much' is not a number above 0" in app.fleets.caps.problem
        await pilot.telemetry(feed)
        assert f"{file}: demo"[:30] in pilot.text()
        assert "much" in file.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "correct or delete it"),
        ("[]", "not watts by place"),
        ('{"demo": 3}', "demo: not watts by place"),
        ('{"demo": {"fleet": NaN}}', "fleet: nan is not"),
        ('{"demo": {"fleet": true}}', "fleet: True is not"),
        ('{"demo": {"fleet": -1}}', "fleet: -1 is not"),
    ],
)
def test_a_damaged_file_of_caps(tmp_path: Path, text: str, problem: str) -> None:
    """It is named, and no cap is known."""
    file = tmp_path / "caps.json"
    file.write_text(text)
    caps = KeptCaps()
    caps.open(file, may_save=True)
    assert str(file) in caps.problem
    assert problem in caps.problem
    assert not caps.caps_of("demo")
    assert "until the app ends" in caps.put("demo", "fleet", 1.0)
    assert file.read_text() == text


async def test_a_place_that_is_not_there_is_named() -> None:
    feed = fed()
    feed.monitor.caps["us-9"] = 1_000.0
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        assert "cap of us-9: not there now" in pilot.text()


async def test_energy_of_jobs_stands_in_their_table() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(5):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        assert "kWh  " not in pilot.text()
        await pilot.press("g", "g", telemetry=feed)
        head = next(line for line in pilot.screen() if line.startswith("  job "))
        assert "kWh   J/tok" in head
        at = head.index("kWh") + 3
        table = [line[at - 8 : at].strip() for line in pilot.screen() if "kWh" not in line]
        report = feed.monitor.goodput.report()
        expected = {f"{time.paid.energy.kwh:,.3g}" for time in (*report.jobs, report.whole)}
        assert expected <= set(table)


async def test_caps_and_a_price_of_the_settings() -> None:
    """Without a price there is no money."""
    feed = fed()
    app = fleet_app(feed)
    feed.monitor.caps[f"{US}/rack-a"] = 20_000.0
    async with running(app, size=(240, 70)) as pilot:
        await pilot.press("6", telemetry=feed)
        assert "20.00*" in pilot.text()
        assert "USD" not in pilot.text()
        app.fleets.kwh_price = KwhPrice(0.08, "USD")
        await pilot.telemetry(feed)
        facility_w = feed.monitor.summary().mean.facility_power_w
        assert facility_w is not None
        cost = f"{facility_w / 1e3 * 0.08:.2f}"
        assert f"{cost} USD/h at 0.08 USD/kWh" in pilot.text()
        rows = re.findall(r"(■|sum) .*[\d.]+ %\s+([\d.]+)\s*$", pilot.text(), re.MULTILINE)
        assert [value for sign, value in rows if sign == "sum"] == [cost]
        own = [float(value) for sign, value in rows if sign == "■"]
        assert sum(own) == pytest.approx(float(cost), abs=0.02)


async def test_a_filter_leaves_matching_rows() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        for text, matches in (
            ("train", 2),
            ("us-0002", 2),
            ("chips<20", 2),
            ("power>1MW", 0),
        ):
            await pilot.press("slash")
            await typed(pilot, text)
            await pilot.telemetry(feed)
            assert len(names(pilot)) == matches, text
            await pilot.press("escape")
        assert len(names(pilot)) == 6


async def test_enter_opens_the_place_or_the_reservation() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", "N", "end", telemetry=feed)
        await pilot.press("enter", telemetry=feed)
        assert pilot.app.entry.title == HIERARCHY
        assert pilot.app.place == "uc1/us-0002"
        await pilot.press("6", "g", "g", "g", "N", "home", telemetry=feed)
        await pilot.press("enter", telemetry=feed)
        assert pilot.app.entry.title == RESERVATIONS


async def test_modelled_watts_are_marked() -> None:
    feed = Feed(standalone(2))
    feed.columns_described = tuple(
        column for column in STANDARD_COLUMNS if column.name not in {"power_w", "host_power_w"}
    )
    feed.scatter()
    feed.describe()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        text = pilot.text()
        assert re.search(r"chips \d\.\d+ kW \(e\)|chips \d+\.\d kW \(e\)", text)
        assert "hosts and facility not known" in text
        assert "kW now (e)" in text


async def test_a_fleet_without_power_says_so() -> None:
    feed = Feed(standalone(2))
    feed.columns_described = STANDARD_COLUMNS[:1]
    feed.describe()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("6", telemetry=feed)
        assert "This fleet does not publish power." in pilot.text()
        await pilot.press("g", "s", "enter", "slash", "escape", telemetry=feed)
        assert pilot.app.entry.title in {POWER, HIERARCHY}


async def test_a_part_of_the_fleet_says_of_how_many_chips() -> None:
    feed = fed()
    feed.columns["power_w"][:32] = BY_NAME["power_w"].top
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(12):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        assert "(128 of 160 chips)" in pilot.text()


async def test_a_large_fleet_lists_some_rows_and_keeps_its_sum() -> None:
    feed = fed(servers=102)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        assert "Racks 200 of 206" in pilot.text()
        assert len(names(pilot)) == 200
        table = view(pilot.app).table
        assert table is not None
        assert table.watts[:-1].sum() == pytest.approx(feed.monitor.summary().mean.power_w)


async def test_all_figures_are_of_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large fleets are read less often than the header."""
    monkeypatch.setattr("trnfleet.tui.power.view._PAUSES", 1e9)
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("6", telemetry=feed)
        feed.set("power_w", 111.0)
        await pilot.telemetry(feed, 15)
        table = view(pilot.app).table
        assert table is not None
        assert f" chips {table.watts[-1] / 1e3:.1f} kW + hosts" in pilot.text()
        assert f"Power by job {table.watts[-1] / 1e3:.1f} kW of" in pilot.text()


async def test_only_what_draws_power_is_in_the_legend() -> None:
    feed = fed(servers=1, hosts=1)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(3):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        assert "■ serve-8b" in pilot.text()
        assert "no job" not in pilot.text()


async def test_layers_without_colour_have_fills_of_their_own() -> None:
    feed = fed()
    async with running(fleet_app(feed, theme_name="monochrome"), size=(120, 40)) as pilot:
        for _ in range(30):
            await pilot.telemetry(feed)
        await pilot.press("6", telemetry=feed)
        for label in ("█ train-70b", "▓ serve-8b", "▒ no job"):
            assert label in pilot.text()
    theme.use(theme.DEFAULT)
