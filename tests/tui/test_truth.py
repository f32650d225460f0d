"""One truth per paint: no figure has two values on a screen.

Each is that of `status --json` at the same instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.record.fixtures import RECORDINGS
from support.record.memory_recording import KeyframedRecording
from support.tui.figures import contradictions, differences, figures
from support.tui.pilot import FleetPilot, fleet_app, running
from support.tui.replayed import reach, replayed, showing

from trnfleet.cli.files import open_recording
from trnfleet.cli.status_report import KnownFleet
from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.domain.site import DEFAULT_SITE
from trnfleet.services.files.recordings import last_alive_ns, shown_part_of
from trnfleet.services.files.rules import load_rules
from trnfleet.services.viewing import monitors_at
from trnfleet.tui.view import FLEET, JOBS
from trnfleet.tui.views import VIEWS

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.record.read.recording import Recording

SIZES = ((120, 40), (200, 55))
GAME_DAY = RECORDINGS / "game-day.mcap"
MEANS = {"nc_util_pct", "mfu_pct", "power_w"}
"""What every view's header has at any size."""


@pytest.mark.parametrize(
    "size",
    [(120, 40), *(pytest.param(each, marks=pytest.mark.long) for each in ((80, 24), (200, 55)))],
)
async def test_no_figure_has_two_values_on_one_screen(size: tuple[int, int]) -> None:
    """Fed like a live fleet: between passes and samples, and on partial repaints by keys."""
    feed = Feed([*standalone(4), *ultraservers(2)])
    feed.describe()
    feed.tick()
    app = fleet_app(feed)
    keys = ("right", "m", "2", "down", "s", "1", "down", "2")
    async with running(app, size=size) as pilot:
        for step in range(26):
            # Other values each second; some arrive between two passes.
            feed.scatter(seed=step)
            feed.monitor.apply(feed.telemetry())
            if step % 3:
                await feed.advance(0.35)
            else:
                await feed.clock.advance(0.35)
            if step % 3 == 2:
                await pilot.press(keys[step // 3 % len(keys)])
            if step % 2:
                await pilot.paint()
            assert not contradictions(figures(pilot.screen())), (step, pilot.text())
        await pilot.press("2")
        await pilot.paint()
        shown = figures(pilot.screen())
        assert {each.where for each in shown} == {"header", "tree"}
        await pilot.press("1")
        await pilot.paint()
        wanted = {"header"} if size[1] < 40 else {"header", "chart"}
        assert {each.where for each in figures(pilot.screen())} == wanted


def said_by_status(recording: Recording, instants: list[int]) -> list[dict[str, Any]]:
    """Return the JSON of `status --recording --at` at each instant."""
    rules = load_rules()
    return [
        KnownFleet.from_monitor(monitor).facts(healthy=True)
        for monitor in monitors_at(
            recording, "demo", instants, rules=rules, site=DEFAULT_SITE, clock=SystemClock()
        )
    ]


async def compare(
    file: Path, instants_s: list[float], sizes: tuple[tuple[int, int], ...], to: str | None
) -> None:
    """Compare every view at some instants of a recording, paused, with the JSON."""
    with open_recording([str(file)]) as recording:
        begin_ns, end_ns = shown_part_of(recording, "demo", None, to)
        instants = [min(end_ns, begin_ns + round(each * NS_PER_S)) for each in instants_s]
        told = said_by_status(recording, instants)
        async with replayed(recording, "demo", begin_ns, end_ns) as viewing:
            for size in sizes:
                async with showing(viewing, size) as pilot:
                    for instant, status in zip(instants, told, strict=True):
                        await reach(pilot, viewing, instant)
                        await look(pilot, status)


async def look(pilot: FleetPilot, status: dict[str, Any]) -> None:
    """Look at every view at the present instant."""
    for entry in VIEWS:
        await pilot.press(entry.key)
        await pilot.paint()
        lines = pilot.screen()
        text = pilot.text()
        shown = figures(lines, with_charts=entry.title == FLEET)
        assert {each.key for each in shown} >= MEANS - (
            {"power_w"} if pilot.app.size.width < 200 else set()
        )
        assert not (wrong := differences(shown, status["mean"])), (entry.title, wrong, text)
        assert not contradictions(shown)
        assert f" {status['chips']} chips " in lines[0]
        live = (
            "all live"
            if status["live_chips"] == status["chips"]
            else f"{status['live_chips']} live"
        )
        assert live in lines[0], lines[0]
        assert f"{status['mean']['seconds']:g} s " in lines[1]
        for job in status["job_list"]:
            # Charts stand to the left of jobs.
            rows = (line.partition(f" {job['job']} ")[2] for line in lines)
            row = next((each for each in rows if "tok/s" in each), None)
            # In Jobs the unit is in the head.
            if row is not None and "%" in row and job["mfu"] is not None:
                unit = "" if entry.title == JOBS else " %"
                assert f"{100 * job['mfu']:.1f}{unit}" in row, (job, row)
        if (rate := status["messages_per_s"]) and "msg/s" in text:
            assert (f"{rate:.0f} msg/s" if rate >= 9.95 else f"{rate:.2g} msg/s") in text


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
async def test_every_view_of_the_game_day_says_what_status_says(size: tuple[int, int]) -> None:
    """20 instants of the shipped recording, whole seconds and others, there and back."""
    await compare(
        GAME_DAY, [31.0 * each + 0.37 * (each % 4) for each in range(1, 21)], (size,), None
    )


async def test_views_of_a_recording_say_what_status_says() -> None:
    """The short twin: the begin of the shipped game day."""
    await compare(GAME_DAY, [21.4], ((120, 40),), "+45s")


def test_a_farewell_at_the_end_is_not_shown_and_one_amid_it_is() -> None:
    """A farewell at the end is not played.

    It is if the recording or another part of the fleet continues.
    """
    start_ns = 1_767_571_200 * NS_PER_S

    def recorded(goodbye_s: float, last_s: float, others: bool) -> KeyframedRecording:
        feed = Feed(standalone(1))
        recording = KeyframedRecording()
        other = Feed(standalone(1))
        other.publisher = "other"
        recording.put(start_ns, feed.announcements())
        if others:
            recording.put(start_ns, other.announcements())
        for second in range(1, int(last_s) + 1):
            if second < goodbye_s:
                recording.put(start_ns + second * NS_PER_S, feed.telemetry())
            elif second == goodbye_s:
                recording.put(start_ns + second * NS_PER_S, [feed.publisher_envelope("offline")])
            elif others:
                recording.put(start_ns + second * NS_PER_S, other.telemetry())
            else:
                recording.put(start_ns + second * NS_PER_S, [feed.event("", "a word")])
        return recording

    at_end = recorded(20, 20, others=False)
    assert last_alive_ns(at_end, "trnfleet", "demo") == start_ns + 20 * NS_PER_S - 1
    amid = recorded(10, 25, others=False)
    assert last_alive_ns(amid, "trnfleet", "demo") == amid.end_ns
    one_of_two = recorded(20, 20, others=True)
    assert last_alive_ns(one_of_two, "trnfleet", "demo") == one_of_two.end_ns
