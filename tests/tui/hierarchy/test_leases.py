"""The app on a top broker: an UltraServer is opened and its chips arrive.

The screen shows the source of the figures.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.monitor.top import BOOT, Top
from support.tui.pilot import FleetPilot, running

from trnfleet.monitor.sources.leases import HOLD_S, Leases
from trnfleet.tui.app.app import FleetApp
from trnfleet.wire.messages import ForwardedBy, ReplyMessage, message_envelope

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

POWERS = (4_000.0, 20_000.0, 10_000.0)
FROM_CHIPS = "from chips under a lease of cell cell-a"


class Viewer:
    """An app on a top broker.

    A relay answers its commands as scripted by the test.
    """

    def __init__(self, why_not: str = "") -> None:
        self.top = Top()
        self.top.frame(POWERS)
        self.top.monitor.compute()
        self.leases = Leases("demo", client="viewer", why_not=why_not)
        self.app = FleetApp(self.top.monitor, clock=self.top.clock, leases=self.leases)
        self.hosts = Feed(ultraservers(1))
        self.hosts.forwarded = ForwardedBy(cell="cell-a", relay="relay-1", boot=BOOT)
        self.hosts.scatter()

    async def second(self, pilot: FleetPilot, *more: Envelope) -> None:
        """Advance one second with roll-ups, and more envelopes."""
        await self.top.clock.advance(1.0)
        self.top.frame(POWERS)
        self.top.monitor.apply(list(more))
        self.top.monitor.compute()
        await pilot.paint()

    def commands(self) -> list[dict[str, object]]:
        """Return target and seconds of the commands sent now."""
        clock = self.top.clock
        sent = self.leases.due(clock.monotonic_s(), clock.wall_ns(), lambda _row: True)
        return [json.loads(each.payload) for each in sent]

    async def open(self, pilot: FleetPilot) -> str:
        """Open the first UltraServer in the tree; return the id of the command."""
        await pilot.press("2", *["down"] * 3)
        assert self.commands() == []
        await pilot.press("enter")
        (asked,) = self.commands()
        assert (asked["target"], asked["args"]) == ("uc1/us-0001", {"lease_s": 60.0})
        return str(asked["id"])

    async def answer(
        self, pilot: FleetPilot, command: str, *, ok: bool = True, reason: str = ""
    ) -> None:
        reply = ReplyMessage(id=command, ok=ok, reason=reason)
        self.leases.take(
            message_envelope(f"trnfleet/v1/demo/reply/viewer/{command}", reply, retain=False)
        )
        await pilot.paint()

    def forwarded(self) -> list[Envelope]:
        """Return the relay's first forwarded messages."""
        return [*self.hosts.announcements(), *self.hosts.telemetry()]


async def test_an_ultraserver_is_opened_and_left_again() -> None:
    """The row's chips appear below it on arrival.

    Some time after the cursor left, they are released.
    """
    viewer = Viewer()
    async with running(viewer.app, size=(130, 40)) as pilot:
        await viewer.second(pilot)
        command = await viewer.open(pilot)
        assert "from roll-ups  chips of cell cell-a are asked for" in pilot.text()
        await viewer.answer(pilot, command)
        assert "chips of cell cell-a are coming" in pilot.text()
        await viewer.second(pilot, *viewer.forwarded())
        shown = pilot.text()
        assert all(f"trn2u-0001-{place}" in shown for place in range(4))
        assert FROM_CHIPS in shown
        assert "80 from roll-ups" in shown
        await pilot.press("down", "enter", "down", "enter")
        assert "under a lease of cell cell-a" in pilot.text()
        assert "chip00" in pilot.screen()[3]
        await viewer.second(pilot)
        await pilot.press("2", "home")
        for _ in range(int(HOLD_S)):
            assert viewer.commands() == []
            await viewer.second(pilot)
        (left,) = viewer.commands()
        assert (left["target"], left["args"]) == ("uc1/us-0001", {"lease_s": 0.0})


@pytest.mark.parametrize("keys", [["enter"], ["down"]])
async def test_chips_that_are_there_for_somebody_else_are_asked_for_as_well(
    keys: list[str],
) -> None:
    """Chips already leased by another viewer are requested, too.

    Otherwise they would vanish with the other lease. Enter on the row or a short stay below it
    requests them.
    """
    viewer = Viewer()
    async with running(viewer.app, size=(130, 40)) as pilot:
        await viewer.second(pilot, *viewer.forwarded())
        await pilot.press("2", *["down"] * 3)
        await viewer.second(pilot)
        assert FROM_CHIPS in pilot.text()
        assert viewer.commands() == []
        await pilot.press(*keys)
        await viewer.second(pilot)
        assert len(viewer.commands()) == (keys == ["enter"]), "the cursor may only pass by"
        await viewer.second(pilot)
        await viewer.second(pilot)
        asked = viewer.leases.of("uc1/us-0001")
        assert asked is not None
        assert len(viewer.commands()) == (keys != ["enter"])


async def test_a_chip_that_an_alert_names_is_asked_for() -> None:
    """The chip's view shows that it waits, and then the chip."""
    viewer = Viewer()
    async with running(viewer.app, size=(130, 40)) as pilot:
        await viewer.second(pilot)
        viewer.app.go("uc1/us-0001/trn2u-0001-2/chip05")
        await pilot.paint()
        (asked,) = viewer.commands()
        assert asked["target"] == "uc1/us-0001"
        assert "uc1/us-0001/trn2u-0001-2/chip05: chips of cell cell-a are asked for" in pilot.text()
        await viewer.second(pilot, *viewer.forwarded())
        assert "NeuronCores" in pilot.text()


async def test_a_refusal_stands_where_the_chips_would_be() -> None:
    """In the tree and in the chip view."""
    viewer = Viewer()
    async with running(viewer.app, size=(130, 40)) as pilot:
        await viewer.second(pilot)
        await viewer.answer(pilot, await viewer.open(pilot), ok=False, reason="over the limit of 8")
        assert "no chips of cell cell-a: over the limit of 8" in pilot.text()
        await pilot.press("4")
        assert "uc1/us-0001: no chips of cell cell-a: over the limit of 8" in pilot.text()


async def test_an_app_that_only_reads_says_what_it_would_need() -> None:
    """It asks for nothing."""
    viewer = Viewer("this app only reads")
    async with running(viewer.app, size=(130, 40)) as pilot:
        await viewer.second(pilot)
        await pilot.press("2", *["down"] * 3)
        assert "from roll-ups  this app only reads" in pilot.text()
        await pilot.press("enter")
        assert viewer.commands() == []
        assert "no chips of cell cell-a: this app only reads" in pilot.text()
