"""The Topology view: drawing, lists, keys along links, sizes and other hardware."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import SIZES, FleetPilot, fleet_app, running

from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.topology.view import TopologyView
from trnfleet.tui.view import ALERTS, CHIP, TOPOLOGY

US = "uc1/us-0001"
THIRD = f"{US}/trn2u-0001-2"


def fed(instances: list[tuple[str, str]] | None = None) -> Feed:
    """Return a fleet with a slow torus link and a Z link down in one UltraServer."""
    feed = Feed(ultraservers(2) + standalone(1) if instances is None else instances)
    feed.scatter()
    feed.monitor.ingest.alerts = Alerts("demo", load_rules())
    if instances is None:
        first = feed.layout.chips_at(US).start
        feed.set("link_tx_bytes_per_s", 20e9, (np.array([first + 38]), np.array([3])))
        feed.columns["links_up"][first + 3] = 0b101111
    feed.describe()
    feed.tick()
    return feed


def view(pilot: FleetPilot) -> TopologyView:
    page = pilot.app.page
    assert isinstance(page, TopologyView)
    return page


@pytest.mark.parametrize("size", [*SIZES, (200, 55)])
async def test_an_ultraserver_at_every_size(size: tuple[int, int]) -> None:
    feed = fed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.press("3", telemetry=feed)
        shown = pilot.text()
        assert "Links of the fleet: 414 of 416 up, 1 down, 1 slow" in shown
        assert shown.index("✖ uc1/us-0001") < shown.index("uc1/us-0002")
        sent = feed.monitor.store.values(BY_NAME["efa_tx_bytes_per_s"], slice(0, 4))
        assert view(pilot).domains.rows[0].efa == pytest.approx(float(sent.sum()))
        blank = sum(not line.strip() for line in pilot.screen())
        assert size[0] < 120 or blank < size[1] / 4, "charts fill what the list leaves"
        await pilot.press("enter", telemetry=feed)
        shown = pilot.text()
        assert view(pilot).charts.display is (size[1] > 40), "drawing and bad links come first"
        assert size[1] <= 40 or re.search(r"/chip03  chip +─.*link tx ", shown, re.DOTALL)
        assert "190 of 192 up, 1 down, 1 slow" in shown
        assert "0001-0 03:z_prev <-> 0001-3 03:z_next  down" in shown
        app = pilot.app
        app.go(f"{THIRD}/chip06:east", TOPOLOGY)
        await pilot.telemetry(feed)
        shown = pilot.text()
        assert app.place == f"{THIRD}/chip06"
        assert "▲20.0▲[07]" in shown.replace("▲▲", "▲")
        assert "0001-2 06:east <-> 07:west  slow  50 % of its peers" in shown
        assert "[00]" in shown
        assert "slow, below 85 %" in shown
        assert shown.count("[12]") == (4 if size[0] >= 240 else 1)
        assert ("Z hop" in shown) is (size[0] >= 120)
        found = [
            re.search(r"instance +links|trn2u-0001-\d +\d+ up", line) for line in pilot.screen()
        ]
        assert len({name.start() for name in found if name}) <= 1, "a head above its column"
        hops = [re.search(r" [0-3] > [0-3] ", line) for line in pilot.screen()]
        assert len({hop.start() for hop in hops if hop}) <= 1, "one column"
        assert all(len(line) <= size[0] for line in pilot.screen())


async def test_arrows_move_along_links_and_enter_opens_the_chip() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        pilot.app.go(f"{THIRD}/chip03", TOPOLOGY)
        await pilot.telemetry(feed)
        places = []
        for key in ("right", "left", "up", "down", "down"):
            await pilot.press(key)
            places.append(pilot.app.place.rpartition("/")[2])
        assert places == ["chip00", "chip03", "chip15", "chip03", "chip07"]
        await pilot.press("left", "b")
        assert pilot.app.place.endswith("chip07")
        assert "06:east <-> 07:west  slow" in pilot.text()
        await pilot.press("n")
        assert pilot.app.place.startswith(f"{US}/trn2u-0001-3/")
        await pilot.press("N", "N")
        assert pilot.app.place.startswith(f"{US}/trn2u-0001-1/")
        await pilot.press("right", "enter")
        assert (pilot.app.entry.title, pilot.app.place) == (CHIP, f"{US}/trn2u-0001-1/chip01")
        await pilot.press("escape", "underscore", telemetry=feed)
        assert "Links of the fleet" in pilot.text()
        await pilot.press("end", "enter", telemetry=feed)
        assert "links of us-0002: 192 of 192 up" in pilot.text()
        await pilot.press("escape", telemetry=feed)
        assert "Links of the fleet" in pilot.text()


async def test_the_list_is_sorted_and_filtered_and_other_tabs_have_the_rings() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        pilot.app.go(US, TOPOLOGY)
        await pilot.press("tab", telemetry=feed)
        text = pilot.text()
        assert "3 > 0   ▪  ▪  ▪  ✖" in text
        assert "trn2u-0001-2 31 up ▲1       32/32" in text
        await pilot.press("tab", telemetry=feed)
        rows = view(pilot).links.rows
        assert [row.state.word for row in rows[:3]] == ["down", "slow", "up"]
        assert len(rows) == 192
        await pilot.press("slash", *"share<90", "enter", telemetry=feed)
        assert [row.text for row in view(pilot).links.rows] == ["0001-2 06:east <-> 07:west"]
        assert view(pilot).links.rows[0].alert == "link-degraded"
        await pilot.press("slash", *"down", "enter", telemetry=feed)
        assert [row.kind for row in view(pilot).links.rows] == ["Z"]
        await pilot.press("escape", "s", "s", "s", telemetry=feed)
        assert view(pilot).sorted_list.order == "place"
        assert view(pilot).links.rows[0].text == "0001-0 00:north <-> 12:south"
        assert len(view(pilot).export().rows) == 192


async def test_listed_links_of_a_job_are_those_of_all_its_instances() -> None:
    """`:list links` counts links by UltraServer; a filter of one list ends with it."""
    feed = fed()
    feed.jobs = {"train": (US,), "serve": ("uc1/us-0002/trn2u-0002-3",)}
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        pilot.app.go("uc1/standalone/trn2-0001", TOPOLOGY)
        await pilot.telemetry(feed)
        for job, place, links in (
            ("train", US, "190 of 192 up, 1 down, 1 slow"),
            ("serve", "uc1/us-0002", "192 of 192 up"),
        ):
            await pilot.press("colon", *f"list links job={job}", "enter", telemetry=feed)
            assert [row.address for row in view(pilot).domains.rows] == [place]
            assert f"Links of /job={job}: 1 listed, {links}" in pilot.text()
        await pilot.press("slash", *"down>0", "enter", "enter", telemetry=feed)
        assert len(view(pilot).links.rows) == 192
        await pilot.press("slash", *"share<90", "enter", "underscore", telemetry=feed)
        assert len(view(pilot).domains.rows) == 3


async def test_problems_and_alerts_of_links_open_here() -> None:
    feed = fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        for _ in range(4):
            await pilot.telemetry(feed)
        await pilot.press("w", "enter", telemetry=feed)
        assert pilot.app.entry.title == TOPOLOGY
        assert "0001-0 03:z_prev <-> 0001-3 03:z_next  down" in pilot.text()
        pilot.app.go("", ALERTS)
        await pilot.telemetry(feed)
        await pilot.press("end", "enter", telemetry=feed)
        assert pilot.app.entry.title == TOPOLOGY


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("trn1.32xlarge", "32 of 32 up"),
        ("inf2.48xlarge", "12 of 12 up"),
        ("trn3.48xlarge", " of "),
        ("trn2.3xlarge", "trn2.3xlarge has no NeuronLink: one chip."),
    ],
)
async def test_other_hardware(kind: str, words: str) -> None:
    pairs = standalone(2, kind)
    if kind == "trn3.48xlarge":
        pairs = [(f"uc1/us-0001/trn3-0001-{number}", kind) for number in range(2)]
    feed = fed(pairs)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        pilot.app.go(f"{pairs[0][0]}/chip00", TOPOLOGY)
        await pilot.press("right", "down", telemetry=feed)
        assert words in pilot.text()
        assert "not known" not in pilot.text() or kind.startswith("trn3")


async def test_a_host_without_traffic_has_thin_lines_and_the_fault_of_its_driver() -> None:
    feed = fed(standalone(1))
    for name in ("link_tx_bytes_per_s", "link_rx_bytes_per_s", "links_up"):
        feed.columns[name][:] = BY_NAME[name].top
    feed.columns_described = tuple(
        column for column in feed.columns_described if not column.name.startswith("link")
    )
    feed.columns["health"][6] = 1 << HEALTH_BITS.index("link_intraserver")
    feed.revision = 1
    feed.describe()
    feed.tick()
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        pilot.app.go(feed.layout.instances[0], TOPOLOGY)
        await pilot.telemetry(feed)
        text = pilot.text()
        assert "0 of 32 up, 32 not known  traffic not known on this host" in text
        assert "[05]┈┈┈┈" in text
        assert "✖06✖" in text


async def test_ascii_and_monochrome() -> None:
    feed = fed()
    async with running(
        fleet_app(feed, theme_name="monochrome", ascii_only=True), size=(80, 24)
    ) as pilot:
        pilot.app.go(f"{THIRD}/chip06:east", TOPOLOGY)
        await pilot.telemetry(feed)
        assert "slow" in pilot.text()
