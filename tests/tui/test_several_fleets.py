"""Several fleets in one app: one hierarchy, one problem list, keys between fleets.

Nothing of it is shown with one fleet.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from support.memory_bus import MemoryBus
from support.monitor.feed import DEMO, Feed, SilentSource, ultraservers
from support.tui.pilot import FleetPilot, fleet_app, running

from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.state.context import WatchedFleet
from trnfleet.wire.ports import LinkStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trnfleet.clock import ManualClock
    from trnfleet.tui.app.app import FleetApp

SICK = "uc1/us-0001/trn2u-0001-1/chip03"
BROKEN = 64 + 16 + 3
"""Row of that chip."""


class Fleet(Feed):
    """A fleet with the rule about uncorrectable errors, on a shared clock."""

    def __init__(
        self, name: str, instances: list[tuple[str, str]], clock: ManualClock | None = None
    ) -> None:
        super().__init__(instances, fleet=name)
        self.clock = clock or self.clock
        self.source = SilentSource()
        rules = tuple(rule for rule in load_rules() if rule.name == "hbm-uncorrectable")
        self.monitor = Monitor(self.source, name, clock=self.clock, rules=rules)
        self.scatter()
        self.describe()
        self.tick()


def two() -> tuple[Fleet, Fleet]:
    """Return fleet alpha, healthy, and fleet beta, with an error on one chip."""
    alpha = Fleet("alpha", ultraservers(1))
    beta = Fleet("beta", DEMO, alpha.clock)
    return alpha, beta


async def go_wrong(pilot: FleetPilot, alpha: Fleet, beta: Fleet) -> None:
    """Let time pass, then a chip of beta fail."""
    for errors in (0, 1, 1):
        beta.set("mem_ecc_uncorrected", errors, BROKEN)
        await alpha.clock.advance(1.0)
        alpha.tick()
        beta.tick()
        await pilot.paint()


def both(alpha: Fleet, beta: Fleet, operator: OperatorActions | None = None) -> FleetApp:
    return fleet_app(alpha, others=[WatchedFleet(beta.monitor, operator=operator)])


async def test_problems_of_all_fleets_are_one_list() -> None:
    """Each problem has its fleet's name.

    Enter goes to the chip in its fleet, and back returns to the first fleet.
    """
    alpha, beta = two()
    async with running(both(alpha, beta), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        head = pilot.screen()[0]
        assert head.startswith(" alpha  1 of 2 fleets  64 chips  all live")
        assert "all:  ✖ 1 critical" in head
        assert "8 Alerts:1" in pilot.text()
        await pilot.press("8")
        assert "other fleets:  beta 1" in pilot.screen()[4]
        await pilot.press("1")
        line = next(line for line in pilot.screen() if "✖ beta   " in line)
        assert "trn2u-0001-1/chip03" in line
        await pilot.press("w", "enter")
        assert (pilot.app.monitor.fleet_name, pilot.app.place) == ("beta", SICK)
        assert pilot.screen()[0].startswith(" beta  1 of 2 fleets  192 chips")
        assert pilot.screen()[3].startswith(" beta > uc1 > us-0001 > trn2u-0001-1 > chip03")
        await pilot.press("escape")
        assert pilot.app.monitor.fleet_name == "alpha"
        assert pilot.app.entry.title == "Fleet"


async def test_the_hierarchy_has_a_row_for_each_fleet() -> None:
    """The tree of the fleet on screen is open below its row.

    Enter on another row opens that one, left closes it.
    """
    alpha, beta = two()
    async with running(both(alpha, beta), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        await pilot.press("2")
        rows = [line[:48] for line in pilot.screen() if line[1:2] in "▾▸" or line[3:4] in "▾▸"]
        assert [row.split()[:2] for row in rows[:2]] == [["▾", "alpha"], ["▾", "uc1"]]
        assert rows[-1].startswith(" ▸ beta")
        assert "● live  ✖ 1" in rows[-1]
        await pilot.press("end")
        assert "beta  fleet  12 instances  192 chips" in pilot.text()
        await pilot.press("enter")
        assert (pilot.app.monitor.fleet_name, pilot.app.entry.title) == ("beta", "Hierarchy")
        shown = pilot.screen()
        names = [line.split()[:2] for line in shown[6:9]]
        assert names == [["▸", "alpha"], ["▾", "beta"], ["▾", "uc1"]]
        assert any("trn2u-0002-1" in line for line in shown)
        await pilot.press("home", "down", "left")
        names = [line.split()[:2] for line in pilot.screen()[6:9]]
        assert names[:2] == [["▸", "alpha"], ["▸", "beta"]]
        await pilot.press("right", "right")
        assert pilot.app.place == "uc1"


async def test_keys_and_commands_go_between_fleets() -> None:
    """F goes to the next fleet, `:ctx` and `:fleet` to a name.

    Each fleet is at its last place. The palette has them, too.
    """
    alpha, beta = two()
    async with running(both(alpha, beta), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        pilot.app.go(SICK, "Chip", "beta")
        await pilot.pause()
        await pilot.press("f")
        assert (pilot.app.monitor.fleet_name, pilot.app.entry.title) == ("alpha", "Chip")
        await pilot.press("f")
        assert (pilot.app.monitor.fleet_name, pilot.app.place) == ("beta", SICK)
        for command, name in (("ctx alpha", "alpha"), ("fleet beta", "beta")):
            await pilot.press(
                "colon", *("space" if each == " " else each for each in command), "enter"
            )
            assert pilot.app.monitor.fleet_name == name
        await pilot.press("colon", *"ctx", "space", *"gamma", "enter")
        assert "fleet 'gamma'" in pilot.text()
        assert "alpha, beta" in pilot.text()
        await pilot.press("escape", "ctrl+p", *"alph")
        assert "another fleet" in pilot.text()
        await pilot.press("enter")
        assert pilot.app.monitor.fleet_name == "alpha"


async def test_a_problem_of_another_fleet_is_acknowledged_there() -> None:
    """`a` on it opens the form, and the message goes to its own fleet's topic."""
    alpha, beta = two()
    bus = MemoryBus()
    publisher = bus.publisher("desk")
    publisher.connect()
    operator = OperatorActions("beta", publisher=publisher, owner="ann")
    async with running(both(alpha, beta, operator), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        await pilot.press("w", "a")
        assert "Acknowledge hbm-uncorrectable" in pilot.text()
        await pilot.press("enter")
        assert pilot.app.monitor.fleet_name == "alpha"
        assert [topic.split("/")[2:4] for topic in bus.retained] == [["beta", "ack"]]


async def test_a_broker_that_is_away_is_named() -> None:
    """An absent broker is named by the status line of every fleet.

    The banner of the fleet heard there and its row name it, too.
    """
    alpha, beta = two()
    parts = tuple(
        LinkStatus(broker=f"mqtt://b{number}:1883", connected=True, connects=1) for number in (1, 2)
    )
    beta.source.status.parts = parts
    for number, paths in enumerate((beta.layout.instances[:6], beta.layout.instances[6:]), 1):
        beta.monitor.apply([each._replace(link=number) for each in beta.announcements(list(paths))])
    alpha.source.status.broker = "mqtt://b1:1883"
    async with running(both(alpha, beta), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        assert "2 brokers  " in pilot.screen()[-1]
        parts[1].connected, parts[1].changed_s = False, alpha.clock.monotonic_s()
        parts[1].last_error = "connection refused"
        await pilot.tick(alpha, 12.0)
        assert "2 brokers, b2:1883 away 12 s" in pilot.screen()[-1]
        assert "no connection" not in pilot.text()
        await pilot.press("2")
        assert any("▸ beta" in line and "✖ 1 broker away" in line for line in pilot.screen())
        await pilot.press("f")
        said = next(line for line in pilot.screen() if "no connection" in line)
        assert (
            "no connection to mqtt://b2:1883 for 12 s (connection refused); what comes from there"
            " is the last known" in said
        )


async def test_one_fleet_has_none_of_it() -> None:
    """No row, no name beside problems, no key and no command."""
    alpha, _ = two()
    async with running(fleet_app(alpha), size=(120, 40)) as pilot:
        await pilot.telemetry(alpha)
        assert "of 1 fleets" not in pilot.text()
        await pilot.press("f")
        assert "f does nothing here" in pilot.text()
        await pilot.press("colon", *"ctx", "space", *"alpha", "enter")
        assert 'no command "ctx"' in pilot.text()
        await pilot.press("escape", "2")
        assert pilot.screen()[6].startswith(" ▾ uc1")


async def test_a_fleet_that_comes_while_the_app_runs_is_shown() -> None:
    """A second fleet adds its row, the key and the command, and the cursor stays.

    A fleet beyond the room is named.
    """
    alpha, beta = two()
    coming: asyncio.Queue[WatchedFleet | str] = asyncio.Queue()

    async def arrivals() -> AsyncIterator[WatchedFleet | str]:
        while True:
            yield await coming.get()

    async with running(fleet_app(alpha, arrivals=arrivals()), size=(120, 40)) as pilot:
        await pilot.press("2", "down", "down")
        place = pilot.app.place
        assert place
        assert "beta" not in pilot.text()
        coming.put_nowait(WatchedFleet(beta.monitor))
        await pilot.pause()
        assert "fleet beta has come: f goes to the next fleet" in pilot.text()
        await go_wrong(pilot, alpha, beta)
        assert pilot.screen()[0].startswith(" alpha  1 of 2 fleets  64 chips")
        assert pilot.app.place == place
        assert "● live  ✖ 1" in next(line for line in pilot.screen() if " ▸ beta" in line)
        await pilot.press("colon", *"ctx", "space", *"beta", "enter")
        assert pilot.app.monitor.fleet_name == "beta"
        for key in "1345678":
            await pilot.press(key)
            assert pilot.app.monitor.fleet_name == "beta"
        await pilot.press("f", "1", "w")
        assert any("✖ beta   " in line for line in pilot.screen())
        coming.put_nowait("gamma")
        await pilot.pause()
        assert "fleet gamma is not shown, --name shows it: 2 are" in pilot.text()
        assert pilot.screen()[0].startswith(" alpha  1 of 2 fleets, 1 not shown  64 chips")


async def test_a_fleet_that_has_gone_keeps_its_row() -> None:
    """The row shows for how long it is gone, and its last values."""
    alpha, beta = two()
    async with running(both(alpha, beta), size=(120, 40)) as pilot:
        await go_wrong(pilot, alpha, beta)
        beta.monitor.apply([beta.publisher_envelope("offline")])
        beta.monitor.compute()
        await alpha.clock.advance(90.0)
        alpha.tick()
        await pilot.paint()
        await pilot.press("2")
        row = next(line for line in pilot.screen() if " ▸ beta" in line)
        assert "✖ gone 1 min" in row
