"""Ctrl-s: the screen as files, in every view, on a read-only screen."""

from __future__ import annotations

import asyncio
import csv
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.rules import HOT, rules_of
from support.tui.pilot import FleetPilot, fleet_app, running
from textual import events

from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.slices import finish
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path


CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store state in a folder of the test's own.

    Return the snapshot folder.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "trnfleet" / "snapshots"


async def fed() -> Feed:
    """Return a fleet with a hot chip, its alert, a job, a reservation, an event."""
    feed = Feed(ultraservers(1) + standalone(2))
    feed.monitor.ingest.alerts = Alerts(feed.fleet, rules_of(HOT))
    feed.scatter()
    feed.jobs = {"pretrain-70b": ("uc1/us-0001",)}
    feed.describe()
    node = feed.layout.find(CHIP)
    assert node is not None
    feed.set("temperature_c", 96.0, [node.number])
    feed.monitor.apply(
        [feed.reservation("cr-1", "uc1/us-0001"), feed.event(text="=SUM(A1) \x1b[2J", path=CHIP)]
    )
    for _ in range(30):
        await feed.clock.advance(1.0)
        feed.tick()
        feed.monitor.compute()
    return feed


async def written(pilot: FleetPilot) -> None:
    """Wait until the files are written."""
    for worker in [each for each in pilot.app.workers if each.name == "snapshot"]:
        await worker.wait()
    await pilot.pause()


async def save(pilot: FleetPilot) -> str:
    """Press the key and return the app's note once the files exist."""
    await pilot.press("ctrl+s")
    await written(pilot)
    return pilot.screen()[-1]


def files(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files of a folder."""
    return sorted(folder.glob(pattern))


def put_in_the_way(folder: Path) -> None:
    """Put a file where the folder would be."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("keys", "view", "expected"),
    [
        ("1", "fleet", {"severity": "warning", "place": CHIP, "status": "firing"}),
        ("2xx", "hierarchy", {"address": CHIP, "level": "chip", "temperature_c [degC]": "96"}),
        (
            "4",
            "chip",
            {"address": CHIP, "metric": "temperature_c", "value": "96", "freshness": "live"},
        ),
        ("7", "reservations", {"id": "cr-1", "state": "active"}),
        (
            "8",
            "alerts",
            {
                "severity": "warning",
                "rule": "hot",
                "place": CHIP,
                "target": CHIP,
                "status": "firing",
            },
        ),
        ("9", "events", {"place": CHIP, "source": "kernel"}),
        ("9t", "events", {"client": "feed", "state": "online", "chips": "96"}),
        ("9tt", "events", {"state": "connected"}),
    ],
)
async def test_every_view_is_saved_as_picture_and_table(
    keys: str, view: str, expected: dict[str, str], folder: Path
) -> None:
    """The picture matches the screen, the table has a row of it.

    The status line names the files.
    """
    async with running(fleet_app(await fed()), size=(160, 50)) as pilot:
        pilot.app.place = CHIP
        await pilot.press(*keys)
        await pilot.paint()
        said = await save(pilot)
        (picture,), (table,) = files(folder, "*.svg"), files(folder, "*.csv")
        assert picture.stem == table.stem
        assert picture.stem.startswith(f"demo-{view}-20260105T")
        assert f"saved {picture.name}, .txt, .csv and .md (" in said
        (text,) = files(folder, "*.txt")
        (markdown,) = files(folder, "*.md")
        assert pilot.screen()[2].rstrip() in text.read_text(encoding="utf-8").splitlines()
        head, rule, *lines = markdown.read_text(encoding="utf-8").splitlines()
        assert head.count("|") == rule.count("---") + 1
        assert len(lines) == len(rows_of(table))
        drawing = ET.parse(picture).getroot()  # noqa: S314  written a line above
        drawn = "".join(drawing.itertext())
        for word in ("pretrain-70b", "chips", "Reservations"):
            assert word in drawn or word not in pilot.text()
        assert drawing.get("viewBox") == f"0 0 {160 * 8} {50 * 16}"
        found = rows_of(table)
        assert any(expected.items() <= row.items() for row in found), found[:3]
        assert "\x1b" not in table.read_text(encoding="utf-8") + picture.read_text(encoding="utf-8")
        assert (table.stat().st_mode & 0o077, picture.stat().st_mode & 0o077) == (0, 0)


async def test_what_is_saved_is_a_finished_paint_of_the_view_that_it_names(folder: Path) -> None:
    """A view opened and saved in one burst of keys is painted completely.

    The next view is opened before the files exist.
    """
    async with running(fleet_app(await fed()), size=(160, 50)) as pilot:
        for key in ("8", "ctrl+s", "2", "x", "x", "ctrl+s", "1"):
            pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        await written(pilot)
        assert pilot.app.entry.title == "Fleet"
        alerts, tree = (
            "".join(ET.parse(each).getroot().itertext())  # noqa: S314  written above
            for each in files(folder, "*.svg")
        )
        rows = {row["place"] for row in rows_of(files(folder, "*-alerts-*.csv")[0])}
        assert rows == {CHIP}
        assert "[8 Alerts" in alerts
        assert "value" in alerts
        assert CHIP in alerts
        assert "[2 Hierarchy]" in tree
        assert "LNC 0" in tree


async def test_the_table_has_what_the_filter_leaves_and_no_file_is_overwritten(
    folder: Path,
) -> None:
    """A second one of the same moment gets a number."""
    async with running(fleet_app(await fed()), size=(120, 40)) as pilot:
        await pilot.press("2", "slash", *"temp>95", "enter")
        await save(pilot)
        said = await save(pilot)
        names = [path.name for path in files(folder)]
        assert [name.rpartition("Z")[2] for name in names] == [
            *("-2.csv", "-2.md", "-2.svg", "-2.txt"),
            *(".csv", ".md", ".svg", ".txt"),
        ]
        assert "Z-2.svg" in said
        first = files(folder, "*Z.csv")[0]
        assert [row["address"] for row in rows_of(first) if row["level"] == "chip"] == [CHIP]


async def test_what_cannot_be_written_is_told(folder: Path) -> None:
    """The app goes on, and no half of a snapshot is left."""
    async with running(fleet_app(await fed()), size=(120, 40)) as pilot:
        put_in_the_way(folder)
        said = await save(pilot)
        assert "not saved: " in said
        assert "exists" in said
        await asyncio.to_thread(folder.unlink)
        await pilot.press("colon", *"export", "enter")
        await written(pilot)
        assert len(files(folder)) == 4


async def test_the_help_is_saved_as_a_picture(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help is saved without a table, because it has no rows.

    Its lower border shows the path, or the error: the status line is covered.
    """
    async with running(fleet_app(await fed()), size=(160, 50)) as pilot:
        await pilot.press("question_mark")
        await save(pilot)
        picture, _text = files(folder)
        assert picture.name.startswith("demo-help-20260105T")
        assert picture.suffix == ".svg"
        drawn = "".join(ET.parse(picture).getroot().itertext())  # noqa: S314  written a line above
        assert "Keys and words" in drawn
        assert f"saved {picture.name} and .txt in " in pilot.text()
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "other"))
        put_in_the_way(folder / "other" / "trnfleet" / "snapshots")
        await save(pilot)
        assert "not saved: " in pilot.text()


async def test_a_tree_is_of_the_layout_that_there_is(folder: Path) -> None:
    """A host removed since the last tick has no row.

    Values unknown before the next pass are empty.
    """
    feed = await fed()
    app = fleet_app(feed)
    gone = "uc1/us-0001/trn2u-0001-3"
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("2", "x", "x")
        await pilot.paint()
        feed.monitor.apply([Envelope(build_topic("demo", TopicClass.NODE, gone), b"")])
        finish(feed.monitor.ingest.rebuilding(feed.clock.monotonic_s(), feed.clock.wall_ns()))
        assert feed.monitor.store.layout.find(gone) is None
        await app.run_action("snapshot")
        await written(pilot)
        by_address = {row["address"]: row for row in rows_of(files(folder, "*.csv")[0])}
        assert "uc1/us-0001/trn2u-0001-2" in by_address
        assert gone not in by_address
        assert (by_address[CHIP]["chips"], by_address[CHIP]["temperature_c [degC]"]) == ("1", "96")
        group = by_address["uc1/us-0001"]
        assert (group["chips"], group["live"], group["power_w [W]"]) == ("", "", "")
        await pilot.telemetry(feed)
        await app.run_action("snapshot")
        await written(pilot)
        group = next(
            row for row in rows_of(files(folder, "*.csv")[-1]) if row["address"] == "uc1/us-0001"
        )
        assert group["chips"] == "48"


async def test_a_user_without_a_home_is_told_the_whole_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a home the whole path is shown; with one it begins with the home.

    A container's user may have no entry.
    """
    async with running(fleet_app(await fed()), size=(200, 40)) as pilot:
        monkeypatch.setenv("HOME", str(folder.parent.parent))
        assert "in ~/trnfleet/snapshots" in await save(pilot)
        monkeypatch.delenv("HOME")

        def unknown(uid: int) -> None:
            raise KeyError(uid)

        monkeypatch.setattr("pwd.getpwuid", unknown)
        await pilot.app.run_action("snapshot")
        await written(pilot)
        assert f" in {folder.parent.parent}/"[:60] in pilot.screen()[-1]
        assert pilot.app.is_running
        assert len(files(folder)) == 8


async def test_a_screen_that_saves_nothing(folder: Path) -> None:
    """`monitor --read-only` says so, also over the help, and writes no file."""
    app = fleet_app(await fed())
    app.may_save = False
    async with running(app, size=(100, 30)) as pilot:
        for keys in (["ctrl+s"], ["question_mark", "ctrl+s"]):
            await pilot.press(*keys)
            assert "this screen is read-only: it saves no files" in pilot.text()
    assert not await asyncio.to_thread(folder.exists)
