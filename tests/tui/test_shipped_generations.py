"""The app with the shipped fleets of all hardware generations, at 120x40.

Every view, and a chip of each type.
"""

from __future__ import annotations

import pytest
from support.sim.shipped import reader_of, shipped_run
from support.tui.pilot import running

from trnfleet.domain.fleet import Publishing
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.fleet.view import FleetView
from trnfleet.tui.views import TABS

CHIPS: dict[str, dict[str, tuple[str, ...]]] = {
    "trn3": {
        "uc1/us-0001/trn3-0001-2/chip05": (
            "Trainium3",
            "trn3.48xlarge",
            "LNC=2",
            "144 GiB",
            "port0",
            "switch",
            "uplink1",
            "6/6 up",
        ),
        "uc1/us-0002/trn3e-0002-07/chip02": (
            "Trainium3",
            "trn3e.24xlarge",
            "LNC=1",
            "sled",
            "server",
            "rack",
            "switch",
            "3/3 up",
        ),
    },
    "mixed": {
        "uc1/standalone/inf2-0001/chip11": (
            "Inferentia2",
            "inf2.48xlarge",
            "LNC=1",
            "prev",
            "next",
            "chip00",
            "2/2 up",
        ),
        "uc1/standalone/inf2-0002/chip05": (
            "Inferentia2",
            "inf2.24xlarge",
            "32 GiB",
            "prev",
            "no link",
            "1/1 up",
        ),
        "uc1/standalone/trn1-0002/chip00": (
            "Trainium1",
            "trn1.32xlarge",
            "LNC=1",
            "north",
            "chip12",
            "4/4 up",
        ),
        "uc1/standalone/trn2-0001/chip00": ("Trainium2", "trn2.3xlarge", "LNC=1", "no link"),
        "uc2/us-0001/trn3-0001-0/chip15": ("Trainium3", "trn3.48xlarge", "uplink0", "6/6 up"),
    },
}


@pytest.mark.parametrize("name", CHIPS)
async def test_every_view_and_a_chip_of_each_type(name: str) -> None:
    """Nothing fails, all chips are live, and each has its type's cores, memory and links."""
    run = await shipped_run(name, Publishing(format="cbor", granularity="ultraserver"), 3.0)
    async with running(
        FleetApp(reader_of(run), clock=run.clock, broker_kind="mosquitto 2.0.11"), size=(120, 40)
    ) as pilot:
        for tab in TABS:
            await pilot.press(tab.key)
            await pilot.paint()
            lines = pilot.screen()
            assert pilot.crash is None
            assert f"{run.engine.layout.chips} chips  all live" in lines[0]
            assert len(lines) == 40
            assert f"[{tab.key} {tab.title}" in lines[2]
        await pilot.press("1", *["plus"] * 6)
        for chip, said in CHIPS[name].items():
            await pilot.press("1")
            assert isinstance(pilot.app.page, FleetView)
            pilot.app.page.map.show_place(chip)
            await pilot.press("enter")
            await pilot.paint()
            text = pilot.text()
            for part in (chip, *said):
                assert part in text, (chip, part)
