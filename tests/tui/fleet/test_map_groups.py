"""The groups of the map: one instance type each, with their own name and details."""

from __future__ import annotations

import re

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.alerts_scene import alerts_app, alerts_feed, chips_at
from support.tui.pilot import fleet_app, running

SLEDS = [(f"uc1/us-0002/trn3e-0002-{number:02}", "trn3e.24xlarge") for number in range(36)]
TORUS = [(f"uc1/us-0001/trn3p-0001-{number}", "trn3p.48xlarge") for number in range(4)]


def fed(pairs: list[tuple[str, str]], jobs: dict[str, tuple[str, ...]] | None = None) -> Feed:
    """Return a fleet with 100 W per chip."""
    feed = Feed(pairs)
    feed.set("power_w", 100.0)
    feed.jobs = jobs or {}
    feed.describe()
    feed.tick()
    return feed


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 55)])
async def test_groups_of_one_ultraserver_have_names_of_their_own(size: tuple[int, int]) -> None:
    """Nine groups hold the 36 sleds of an UltraServer of Trainium3 Gen2."""
    feed = fed(TORUS + SLEDS)
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.telemetry(feed)
        text = pilot.text()
        assert [text.count(f"{first:02}..{first + 3:02} ") for first in range(0, 36, 4)] == [1] * 9


@pytest.mark.parametrize(
    ("size", "shown"), [((80, 24), " uc2…0001 "), ((240, 70), " uc2/us-0001 ")]
)
async def test_groups_of_two_clusters_with_one_name_have_their_cluster(
    size: tuple[int, int], shown: str
) -> None:
    feed = fed(
        ultraservers(1) + standalone(1) + ultraservers(1, "uc2"), {"train": ("uc2/us-0001",)}
    )
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.telemetry(feed)
        assert shown in pilot.text()
        assert "…n2-0001 " in pilot.text() or " uc1/trn2-0001 " in pilot.text()
        assert size[0] < 120 or "└ uc2/us-0001" in pilot.text()
        await pilot.press("5", telemetry=feed)
        await pilot.press("end", telemetry=feed)
        assert size[0] < 120 or re.search(r"on +uc2/us-0001", pilot.text())


async def test_names_of_groups_without_room_are_those_of_their_first_instances() -> None:
    """Sleds alone have small groups."""
    feed = fed(SLEDS)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        assert " 00   04   08   12   16   20   24   28   32 " in pilot.text()


async def test_details_of_part_of_an_ultraserver_are_those_of_the_part() -> None:
    """Not the job and the power of the whole UltraServer nine times."""
    feed = fed(
        TORUS + SLEDS,
        {
            "train": ("uc1/us-0002/trn3e-0002-00..trn3e-0002-01",),
            "serve": ("uc1/us-0002/trn3e-0002-02..trn3e-0002-05",),
        },
    )
    async with running(fleet_app(feed), size=(200, 55)) as pilot:
        await pilot.press("1", *["plus"] * 6, "underscore", telemetry=feed)
        text = pilot.text()
        assert "us-0002 00..03 2 jobs 1.60 kW" in text
        assert "us-0002 04..07 1 job 1.60 kW" in text


async def test_an_alert_marks_the_part_of_an_ultraserver_where_it_is() -> None:
    """A hot chip of one sled does not mark the eight other groups of sleds."""
    feed = alerts_feed(TORUS + SLEDS)
    feed.set("temperature_c", 95.0, chips_at(feed, "uc1/us-0002/trn3e-0002-05/chip02"))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        labels = " ".join(line[:72] for line in pilot.screen() if ".." in line)
        assert "04..07 ✖" in labels
        assert labels.count("✖") == 1


async def test_standalone_instances_of_different_types_have_groups_of_their_own() -> None:
    """Each group's label is its first instance's name and the end of its last one's."""
    feed = fed(
        standalone(2, "trn1.32xlarge")
        + standalone(1, "trn2.3xlarge")
        + standalone(2, "inf2.48xlarge")
    )
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        labels = next(line for line in pilot.screen() if "trn2-0001" in line)
        assert labels.split()[:3] == ["inf2-0001..0002", "trn1-0001..0002", "trn2-0001"]
