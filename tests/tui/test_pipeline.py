"""Publishers and brokers in the Events view.

The pipeline's figures are the same everywhere.
"""

from __future__ import annotations

import re

import pytest
from support.monitor.hosts import Hosts
from support.tui.pilot import SIZES, fleet_app, running

from trnfleet.cli.status_report import pipeline_facts, pipeline_rows
from trnfleet.wire.ports import LinkStatus


async def troubled(number: int = 6) -> Hosts:
    """Return hosts: one lost 3 messages, one is silent, one is gone."""
    hosts = Hosts(number)
    for second in range(14):
        without = ["host-2"] if second in {4, 5, 6} else []
        without += ["host-4"] if second > 8 else []
        await hosts.tick(without=tuple(without))
    hosts.feed.publisher = "host-5"
    hosts.feed.monitor.apply([hosts.feed.publisher_envelope("offline")])
    await hosts.tick(without=("host-4", "host-5"))
    return hosts


@pytest.mark.parametrize("size", SIZES)
async def test_publishers_are_listed_the_worst_first_at_every_size(size: tuple[int, int]) -> None:
    """T lists publishers, the worst first, below their titles.

    Details and problems are below. Everything is within the screen.
    """
    hosts = await troubled()
    async with running(fleet_app(hosts.feed), size=size) as pilot:
        await pilot.press("9", "t")
        lines = pilot.screen()
        assert "[publishers 6]" in lines[4]
        assert "✖ 1 of 6 publishers is offline: host-5" in lines[4]
        assert lines[5].split()[:3] == ["state", "client", "chips"]
        rows = [
            line.split()[1:3] if line[0] == " " else line[1:].split()[1:3] for line in lines[6:12]
        ]
        assert rows[:3] == [["offline", "host-5"], ["silent", "host-4"], ["online", "host-2"]]
        text = pilot.text()
        assert re.search(r"publisher +host-5: offline", text)
        if size[1] > 30:
            # With room for both it is right below the list.
            assert "host-5: offline" in lines[12]
        assert re.search(r"critical +1 of 6 publishers is offline: host-5. Is the process up", text)
        assert all(len(line.rstrip()) <= size[0] for line in lines)


async def test_what_a_publisher_publishes_is_charted_below_it() -> None:
    """Charts appear if list and facts leave rows.

    Brokers have no place, and a narrow screen has no room.
    """
    hosts = await troubled()
    app = fleet_app(hosts.feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("9", "t", "down", "down")
        await pilot.paint()
        at = next(number for number, line in enumerate(pilot.screen()) if " instance ─" in line)
        assert pilot.screen()[at].startswith(f" {app.place}  instance ─")
        assert at > next(
            number for number, line in enumerate(pilot.screen()) if "publisher   " in line
        )
        assert any(" power " in line for line in pilot.screen()[at:])
        await pilot.press("t")
        await pilot.paint()
        assert " instance ─" not in pilot.text()
        await pilot.press("t", "t")
        await pilot.resize_terminal(110, 40)
        await pilot.paint()
        assert " instance ─" not in pilot.text()


async def test_they_are_filtered_and_sorted_as_any_list() -> None:
    """The filter compares their columns, s changes the order, and no match is reported."""
    hosts = await troubled()
    async with running(fleet_app(hosts.feed)) as pilot:
        await pilot.press("9", "t", "/", *"lost>0 & state=online", "enter")
        assert "/lost>0 & state=online 1 found" in pilot.text()
        assert [line.split()[2] for line in pilot.screen() if "● online" in line] == ["host-2"]
        await pilot.press("escape", "s")
        names = re.findall(r"(?:online|silent|offline) +(host-\d)", pilot.text())
        assert names[:6] == [f"host-{number}" for number in range(1, 7)]
        await pilot.press("/", *"lag>1h", "enter")
        assert "No publisher matches lag>1h" in pilot.text()


async def test_enter_goes_to_what_a_publisher_publishes() -> None:
    """The Hierarchy opens at its instances."""
    hosts = await troubled()
    async with running(fleet_app(hosts.feed)) as pilot:
        await pilot.press("9", "t", "/", *"client=host-3", "enter", "enter")
        await pilot.tick(hosts.feed)
        assert pilot.app.page is not None
        assert pilot.app.page.place == hosts.paths[2]
        assert "[2 " in pilot.screen()[2]


async def test_a_broker_is_shown_beside_what_it_says_of_itself() -> None:
    """A broker's queue adds up, and its own figures are below.

    Messages dropped for slow readers are a problem.
    """
    hosts = await troubled()
    link = hosts.feed.monitor.link
    link.received = 100
    link.waiting = 5
    link.shed = 7
    link.broker_says.update(
        {"version": "mosquitto version 2.0.11", "publish/messages/dropped": "10"}
    )
    await hosts.tick()
    link.broker_says["publish/messages/dropped"] = "822"
    await hosts.tick()
    async with running(fleet_app(hosts.feed), size=(120, 40)) as pilot:
        await pilot.press("9", "T")
        text = pilot.text()
        assert "[brokers 1]" in text
        assert "100 = 88 taken + 5 waiting (0 B) + 7 shed + 0 dropped + 0 too large" in text
        assert "mosquitto version 2.0.11, 822 dropped for slow readers" in text
        assert "mqtt://127.0.0.1:1883 dropped 812 messages for slow readers within 1 min" in text


async def test_brokers_are_filtered_as_any_list() -> None:
    """By state, numbers and text; the tab before has no filter left over from it."""
    hosts = await troubled()
    link = hosts.feed.monitor.link
    link.parts = (
        LinkStatus(broker="mqtt://east:1883", connected=True, protocol="5", received=900, shed=7),
        LinkStatus(broker="mqtt://west:1883", connected=False, last_error="connection refused"),
        LinkStatus(broker="mqtts://north:8883", connected=True, protocol="3.1.1", received=40),
    )
    async with running(fleet_app(hosts.feed)) as pilot:
        await pilot.press("9", "T")
        for typed, left in (
            ("state=away", {"west"}),
            ("state=conn & received>100", {"east"}),
            ("shed>0", {"east"}),
            ("mqtt=3.1.1", {"north"}),
            ("refused", {"west"}),
            ("!north & state=connected", {"east"}),
        ):
            await pilot.press("/", *typed, "enter")
            assert f"{len(left)} found" in pilot.screen()[4]
            rows = [line for line in pilot.screen()[6:] if re.match(r"[ >][●✖] ", line)]
            assert {name for row in rows for name in re.findall(r"//(\w+)", row)} == left
            await pilot.press("escape")
        await pilot.press("/", *"waiting>5", "enter")
        assert "No broker matches waiting>5; Esc shows all" in pilot.text()
        await pilot.press("T")
        assert "[publishers 6]" in pilot.screen()[4]
        assert "found" not in pilot.screen()[4]


async def test_status_line_view_and_status_have_the_same_figures() -> None:
    """One feed, three places: nothing is counted twice, or differently."""
    hosts = await troubled()
    monitor = hosts.feed.monitor
    async with running(fleet_app(hosts.feed), size=(240, 70)) as pilot:
        await pilot.press("9", "t")
        lines = pilot.screen()
        health = monitor.pipeline()
        facts = pipeline_facts(health)
        rows = dict(pipeline_rows(health))
        bar = lines[-1]
        assert f"lost {facts['counts']['lost']}" in bar
        assert (
            f"publishers {6 - facts['publishers']['offline']}/{facts['publishers']['all']}" in bar
        )
        assert f"silent {facts['publishers']['silent']}" in bar
        assert rows["publishers"].startswith("6: 1 offline, 1 silent, 4 online")
        listed = {each["client"]: each for each in facts["publisher_list"]}
        assert sum(each["lost"] for each in listed.values()) == facts["counts"]["lost"] == 3
        assert sum(each["messages"] for each in listed.values()) == facts["counts"]["messages"]
        titles = lines[5].split()
        for line in lines[6:12]:
            cells = line.replace(">", " ", 1).split()
            _, state, client, *values = cells
            shown = dict(zip(titles[2:], values, strict=False))
            assert state == listed[client]["state"]
            assert int(shown["lost"]) == listed[client]["lost"]
            assert int(shown["chips"]) == listed[client]["chips"]
        assert monitor.summary().lost == facts["counts"]["lost"]
        assert [each["name"] for each in facts["problems"]] == [
            each.name for each in monitor.summary().pipeline_problems
        ]
