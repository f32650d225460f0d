"""`make pictures`: write the pictures of docs/pictures/, with reproducible bytes.

The app runs headless over recordings of fixtures/, paused at an instant, and over monitors fed by
hand, on a stopped clock. Nothing on the screen depends on this machine or day. ONLY=fleet draws the
pictures with this in their names, and leaves the others unchanged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from support.paths import ROOT
from support.record.fixtures import RECORDINGS, make_fleet
from support.tui.pilot import FleetPilot, running

from lab.pictures.rare import LIVE
from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.domain.site import DEFAULT_SITE
from trnfleet.record.read.recording import Recording
from trnfleet.services.files.recordings import fleet_of
from trnfleet.services.files.rules import load_rules
from trnfleet.services.viewing import view_recording
from trnfleet.tasks import background
from trnfleet.tui import theme
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.snapshots.svg import picture
from trnfleet.tui.theme.glyphs import ERRORS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from rich.style import Style

    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.replay.playback import RecordingPlayback

FOLDER = ROOT / "docs" / "pictures"
MOST_BYTES = 4 * 2**20
"""All pictures together."""
SIZES = ((80, 24), (120, 40), (200, 55), (240, 70))
USUAL = (120, 40)
MOST_STEPS = 2_000


class Look(NamedTuple):
    """How a terminal shows the app."""

    name: str
    theme: str = theme.DEFAULT
    is_ascii: bool = False
    is_without_colors: bool = False


DARK = Look("dark")


class Scene(NamedTuple):
    """An instant of a recording, or a state of the present without a recording.

    Recordings are of a scenario in fixtures/ or of a shipped fleet.
    """

    recording: str
    """Its name, or that of the state."""
    second: float = 0.0
    place: str = ""
    """Address of the views, if they show one."""
    ticks: int = 0
    """Length of a fleet's recording made for the picture; 0 for one of fixtures/."""
    is_live: bool = False


class Stage(NamedTuple):
    """What an app is opened over."""

    state: FleetState
    playback: RecordingPlayback | None
    clock: ManualClock


class Shot(NamedTuple):
    """One picture."""

    name: str
    scene: Scene
    keys: tuple[str, ...]
    size: tuple[int, int]
    title: str
    look: Look = DARK
    place: str = ""


GAME_DAY = Scene("game-day", 400.0)
CHIP = "uc1/us-0001/trn2u-0001-2/chip05"
VIEWS = {
    "fleet": (("1",), "Fleet", ""),
    "hierarchy": (("2",), "Hierarchy", ""),
    "topology": (("3",), "Topology", "uc1/us-0001/trn2u-0001-2"),
    "chip": (("4",), "Chip", CHIP),
    "jobs": (("5",), "Jobs", ""),
    "power": (("6",), "Power", ""),
    "reservations": (("7",), "Reservations", ""),
    "alerts": (("8",), "Alerts", ""),
    "events": (("9",), "Events", ""),
    "publishers": (("9", "t"), "Publishers", ""),
    "help": (("question_mark",), "Help", ""),
}
"""Keys, titles and addresses of views."""
LOOKS = (
    Look("light", "light"),
    Look("no-color", is_without_colors=True),
    Look("ascii", is_ascii=True),
)
GENERATIONS = {"trn3": Scene("trn3", 100.0, ticks=13), "mixed": Scene("mixed", 100.0, ticks=13)}
"""Fleets of other generations than Trainium2."""
TROUBLES = {
    "job-crash": Scene("job-crash", 60.0),
    "rack-overheat": Scene("rack-overheat", 200.0),
    "neuronlink-split": Scene("neuronlink-split", 230.0),
}


def shots() -> Iterator[Shot]:
    """Yield every picture of the documentation."""
    for name, (keys, title, place) in VIEWS.items():
        # Publishers look alike on both large screens, and the folder has a limit.
        for size in SIZES[:3] if name == "publishers" else SIZES:
            yield Shot(
                _named(name, size), GAME_DAY, keys, size, f"{title}, {_by(size)}", place=place
            )
    for look in LOOKS:
        yield Shot(
            _named("fleet", USUAL, look), GAME_DAY, ("1",), USUAL, f"Fleet, {look.name}", look
        )
    for name, scene in TROUBLES.items():
        yield Shot(_named(name, USUAL), scene, ("1",), USUAL, f"Fleet: {name}")
    for name in LIVE:
        yield Shot(_named(name, USUAL), Scene(name, is_live=True), ("1",), USUAL, f"Fleet: {name}")
    for name, scene in GENERATIONS.items():
        for view, key in (("fleet", "1"), ("hierarchy", "2")):
            yield Shot(
                _named(f"{name}-{view}", USUAL), scene, (key,), USUAL, f"{view.title()}: {name}"
            )


def _named(name: str, size: tuple[int, int], look: Look = DARK) -> str:
    return f"{name}-{size[0]}x{size[1]}" + ("" if look is DARK else f"-{look.name}")


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


async def take(wanted: Sequence[Shot], made: Path = RECORDINGS) -> dict[str, str]:
    """Return pictures by name; those of one scene follow each other.

    Args:
        wanted: The pictures.
        made: Folder with the recordings of fleets, where they are of such.
    """
    taken = {}
    for scene in dict.fromkeys(shot.scene for shot in wanted):
        async with _staged(scene, made) as stage:
            for shot in wanted:
                if shot.scene == scene:
                    taken[shot.name] = await _shoot(shot, stage)
    return taken


@contextlib.asynccontextmanager
async def _staged(scene: Scene, made: Path) -> AsyncIterator[Stage]:
    """Produce a state of the present, or play a recording to its instant and pause."""
    if scene.is_live:
        live = await LIVE[scene.recording]()
        yield Stage(live.monitor, None, live.clock)
        return
    clock = ManualClock()
    recording = Recording.open([(made if scene.ticks else RECORDINGS) / f"{scene.recording}.mcap"])
    try:
        viewing = view_recording(
            recording,
            fleet_of(recording, None, scene.recording),
            from_ns=recording.start_ns,
            to_ns=recording.end_ns,
            speed=1.0,
            loops=False,
            rules=load_rules(),
            site=DEFAULT_SITE,
            clock=clock,
        )
        playback = viewing.playback
        assert playback is not None
        async with background(**viewing.running):
            at_ns = recording.start_ns + round(scene.second * NS_PER_S)
            playback.pause()
            playback.seek(at_ns)
            for _ in range(MOST_STEPS):
                await clock.advance(0.05)
                if _stands(playback, at_ns):
                    break
            else:
                raise TimeoutError(f"{scene.recording}: {scene.second:g} s was not reached")
            yield Stage(viewing.state, playback, clock)
    finally:
        recording.close()


def _stands(playback: RecordingPlayback, at_ns: int) -> bool:
    """Return whether a place is shown completely, and the recording is surveyed."""
    seeker = playback.seeker
    is_there = seeker.past is not None and seeker.past.position_ns == at_ns and not playback.seeking
    return (
        is_there
        and seeker.is_exact
        and seeker.is_settled
        and playback.surveyed_ns >= playback.end_ns
    )


async def _shoot(shot: Shot, stage: Stage) -> str:
    """Return a picture of an app of its own."""
    look = shot.look
    with _colors(is_without=look.is_without_colors):
        app = FleetApp(
            stage.state,
            clock=stage.clock,
            playback=stage.playback,
            theme_name=look.theme,
            ascii_only=look.is_ascii,
        )
    try:
        async with running(app, size=shot.size) as pilot:
            app.place = shot.place
            await pilot.press(*shot.keys)
            for _ in range(4):
                await stage.clock.advance(0.6)
                await pilot.paint()
            return picture(_lines(pilot, look), shot.size, f"trnfleet: {shot.title}")
    finally:
        theme.use(theme.DEFAULT, ascii_only=False)


@contextlib.contextmanager
def _colors(*, is_without: bool) -> Iterator[None]:
    """Set up a terminal with all colours, or NO_COLOR, for apps started meanwhile."""
    before = dict(os.environ)
    os.environ["COLORTERM"] = "truecolor"
    os.environ.pop("NO_COLOR", None)
    if is_without:
        os.environ["NO_COLOR"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _lines(pilot: FleetPilot, look: Look) -> list[list[tuple[str, Style | None]]]:
    """Return the screen as a terminal gets it."""
    return [
        [
            (text.encode("ascii", ERRORS).decode() if look.is_ascii else text, style)
            for text, style in line
        ]
        for line in pilot.styled()
    ]


def main() -> None:
    """Write the pictures, and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the pictures to take")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    begun_s = time.monotonic()
    every = list(shots())
    wanted = [shot for shot in every if options.only in shot.name]
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        for scene in {shot.scene for shot in wanted if shot.scene.ticks}:
            make_fleet(scene.recording, scene.ticks, Path(made))
        for name, text in asyncio.run(take(wanted, Path(made))).items():
            (options.folder / f"{name}.svg").write_text(text, encoding="utf-8")
    files = sorted(options.folder.rglob("*.svg"))
    size = sum(file.stat().st_size for file in files)
    sys.stdout.write(
        f"{len(wanted)} pictures in {time.monotonic() - begun_s:.0f} s; {len(files)} in the folder,"
        f" {size / 2**20:.1f} MiB\n"
    )
    if size > MOST_BYTES:
        raise SystemExit(f"pictures: {size:,} bytes are more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()
