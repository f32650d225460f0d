"""Tasks of a night shift by keys from the Fleet view.

Each ends on a screen with the answer, and reports its number of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.tui.alerts_scene import alerts_app, alerts_feed, chips_at
from support.tui.fake_playback import START_NS, FakePlayback
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import SIZES, running

from trnfleet.clock import NS_PER_S
from trnfleet.tui.app.app import FleetApp

if TYPE_CHECKING:
    from support.monitor.feed import Feed


class Task(NamedTuple):
    keys: tuple[str, ...]
    """Keys of one character after another, but for named ones; typed text counts apart."""
    typed: str
    """What of it is typed text."""
    answer: str
    """What must then be on the screen."""
    title: str
    """The view that it is on."""


def typed(*parts: str) -> tuple[str, ...]:
    """Return keys.

    A part in brackets is typed letter by letter.
    """
    keys: list[str] = []
    for part in parts:
        keys.extend(part[1:-1] if part.startswith("[") else [part])
    return tuple(keys)


BELOW_CAP = "i: what is left below the power cap"
TASKS = {
    "a: which chip slows the job": Task(("w", "enter"), "", "throttled", "Chip"),
    "b: the hottest UltraServer": Task(("2", "T"), "", "↓temp", "Hierarchy"),
    "c1: acknowledge with a note": Task(
        typed("8", "a", "[fans]", "enter"), "fans", "acknowledged for 2h00", "Alerts"
    ),
    "c2: silence an instance": Task(
        typed("2", "slash", "[0001-2]", "enter", "z", "[fans]", "enter"),
        "0001-2fans",
        "silenced for 4h00",
        "Hierarchy",
    ),
    "d: what ends, what is idle": Task(("7",), "", "cr-1", "Reservations"),
    "f: a chip by name": Task(
        typed("colon", "[chip 0001-2/05]", "enter"), "chip 0001-2/05", f" {CHIP}", "Chip"
    ),
    BELOW_CAP: Task((), "", "below cap 25.4 kW 40 %", "Fleet"),
    "k: chips above 450 W": Task(
        typed("2", "slash", "[power>450]"), "power>450", "chip05", "Hierarchy"
    ),
    "l: the hottest chips of a job": Task(
        typed("colon", "[top 3 temp job=pretrain]", "enter"),
        "top 3 temp job=pretrain",
        "3 chips of 64",
        "Hierarchy",
    ),
    "m: two instances": Task(
        typed("colon", "[compare 0001-2 0001-3]", "enter"),
        "compare 0001-2 0001-3",
        "difference",
        "Hierarchy",
    ),
}
MEASURED = {
    "a: which chip slows the job": 2,
    "b: the hottest UltraServer": 2,
    "c1: acknowledge with a note": 3,
    "c2: silence an instance": 5,
    "d: what ends, what is idle": 1,
    "e1: when the job crashed": 2,
    "e2: when a job crashed that runs again": 4,
    "f: a chip by name": 2,
    BELOW_CAP: 0,
    "k: chips above 450 W": 2,
    "l: the hottest chips of a job": 2,
    "m: two instances": 2,
}
"""Keys beside typed text, as docs/app.md has them."""


def fleet() -> Feed:
    feed = alerts_feed()
    feed.set("throttle_pct", 20.0, chips_at(feed, CHIP))
    feed.set("power_w", 480.0, chips_at(feed, CHIP))
    feed.set("temperature_c", 80.0, chips_at(feed, INSTANCE))
    feed.jobs = {"pretrain": ("uc1/us-0001",)}
    feed.describe()
    feed.tick()
    feed.monitor.apply([feed.reservation("cr-1", "uc1/us-0001")])
    feed.monitor.compute()
    return feed


def named(*starts: str) -> tuple[str, ...]:
    """Return names of tasks by how they begin."""
    return tuple(name for start in starts for name in TASKS if name.startswith(start))


@pytest.mark.parametrize(
    ("names", "size"),
    [
        (named("i", "a", "d", "f", "b", "k", "l", "m"), SIZES[1]),
        (named("c1"), SIZES[1]),
        (named("c2"), SIZES[1]),
        (named("i"), SIZES[0]),
    ],
    ids=["reading", "acknowledging", "silencing", "below the cap on the least screen"],
)
async def test_a_task_by_its_keys(names: tuple[str, ...], size: tuple[int, int]) -> None:
    """The screen has the answer after its keys.

    The smallest screen has what is left below the cap, too.

    Tasks without side effects follow one another. Changes of order or filter come last.
    """
    feed = fleet()
    app, _ = alerts_app(feed)
    async with running(app, size=size) as pilot:
        for name in names:
            task = TASKS[name]
            app.go("", "Fleet")
            app.clear_note()
            await pilot.telemetry(feed)
            await pilot.press(*task.keys, telemetry=feed)
            await pilot.paint()
            assert app.entry.title == task.title, name
            assert task.answer in pilot.text() + app.note, name
            if name.startswith("b"):
                lines = pilot.screen()
                first = next(line for line in lines if "us-000" in line)
                assert "us-0001" in first
            assert len(task.keys) - len(task.typed) == MEASURED[name]


CRASHES = {
    "e1: when the job crashed": Task(("8", "o"), "", "", "Alerts"),
    "e2: when a job crashed that runs again": Task(
        typed("9", "slash", "[firing: job]", "enter", "o"), "firing: job", "", "Events"
    ),
}


@pytest.mark.parametrize("name", CRASHES)
async def test_the_moment_of_a_crash(name: str) -> None:
    """The fleet is shown as it was just after, and banner and time bar show that."""
    task = CRASHES[name]
    feed = fleet()
    feed.states = {"pretrain": "failed"}
    feed.describe()
    await feed.clock.advance(1.0)
    feed.tick()
    playback = FakePlayback(feed.monitor)
    fired_ns = next(
        each for each in feed.monitor.alerts.active() if each.name == "job-failed"
    ).fired_ns
    assert fired_ns is not None
    playback.moments = {fired_ns: START_NS + 125 * NS_PER_S}
    if name.startswith("e2"):
        feed.states = {}
        feed.describe()
    for _ in range(30):
        await feed.clock.advance(1.0)
        feed.tick()
    async with running(
        FleetApp(playback.state, clock=feed.clock, playback=playback), size=(120, 40)
    ) as pilot:
        await pilot.telemetry(feed)
        await pilot.press(*task.keys, telemetry=feed)
        assert pilot.app.entry.title == task.title
        assert "Viewing 00:02:06" in pilot.text()
        assert "job-failed" in pilot.text()
    assert len(task.keys) - len(task.typed) == MEASURED[name]
