"""The demo rewound by minutes of real time and brought back to the present."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from support.processes.terminal import Terminal

from trnfleet.config import find_file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

NUMBER = r"\d+(?:\.\d+)?"
SEEN_S = 40
"""Seconds of screen reading at the start. The demo is rewound to their middle."""
LOOK_S = 0.1
"""Interval of screen reads of the present."""
STEPS = 10
AROUND_S = 2.0
"""Tolerance in seconds. The present is drawn at the app's next evaluation, up to a second after the
arrival of its messages."""
MOST_OFFSET_S = 10
"""How far the past is moved along the present, to see where they agree best."""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@dataclass(frozen=True)
class Picture:
    """The header's figures as they stood at an instant."""

    at_s: float
    words: str
    figures: tuple[float, ...]


def header(terminal: Terminal, at_s: float) -> Picture:
    """Read the header's figures, without the address of the hottest chip."""
    line = re.sub(r" +", " ", re.sub(r"\S+-\d+/\d+", "", terminal.lines[1]))
    return Picture(
        at_s, re.sub(NUMBER, "#", line), tuple(float(each) for each in re.findall(NUMBER, line))
    )


def looked_at_s(terminal: Terminal) -> float:
    """Return the app's displayed instant."""
    found = re.search(r"Viewing (\d+:\d+:\d+), .* ago", terminal.text)
    assert found, terminal.text
    now = datetime.now(UTC)
    instant = datetime.combine(now.date(), datetime.strptime(found[1], "%H:%M:%S").time(), UTC)  # noqa: DTZ007  a time of day
    return (instant if instant <= now else instant - timedelta(days=1)).timestamp()


def settled(terminal: Terminal, at_s: float) -> Picture:
    """Return the header's figures once the app shows an instant completely.

    A keyframe's first picture has means of fewer seconds, and is marked so. It is not returned.
    """
    until_s = time.monotonic() + 30
    before: Picture | None = None
    while time.monotonic() < until_s:
        time.sleep(0.5)
        picture = header(terminal, at_s)
        is_exact = "≈" not in terminal.text
        if is_exact and picture == before and abs(looked_at_s(terminal) - at_s) < 0.5:
            return picture
        before = picture
    raise AssertionError(f"never at {at_s}: {terminal.text}")


def offset_s(pictures: list[Picture], seen: list[Picture]) -> int:
    """Return the shift in seconds at which present and past pictures fit best.

    A busy app evaluates the present late, and sometimes not at all between two ticks. No picture
    need be the same.
    """
    words = pictures[0].words
    alike = [
        each for each in seen if each.words == words and each.figures[0] == pictures[0].figures[0]
    ]
    spans = [
        max(every) - min(every) or 1.0
        for every in zip(*(each.figures for each in alike), strict=True)
    ]

    def distance(shift_s: int) -> float:
        """Return the mean difference to shifted pictures, as a share of a figure's range."""
        far = 0.0
        for picture in pictures:
            near = min(alike, key=lambda each: abs(each.at_s - picture.at_s - shift_s))
            far += sum(
                abs(then - now) / span
                for then, now, span in zip(picture.figures, near.figures, spans, strict=True)
            )
        return far

    return min(range(-MOST_OFFSET_S, MOST_OFFSET_S + 1), key=distance)


@pytest.mark.parametrize("back_min", [1, pytest.param(5, marks=pytest.mark.long)])
def test_the_demo_goes_back_by_minutes_and_to_the_present_with_nothing_lost(
    tmp_path: Path, back_min: int
) -> None:
    """The past screen is shown again, and the present goes on without loss."""
    back_s = back_min * 60
    fleet = tmp_path / "demo.toml"
    # The demo's own fleet; a message an instance takes a part of the processor time of one a chip.
    shipped = find_file("fleets", "demo").read_text("utf-8")
    for usual, coarse in (
        ('format = "json"', 'format = "cbor"'),
        ('granularity = "chip"', 'granularity = "instance"'),
    ):
        assert usual in shipped
        shipped = shipped.replace(usual, coarse)
    fleet.write_text(shipped, "utf-8")
    with Terminal("demo", "--fleet", str(fleet), columns=240) as terminal:
        terminal.wait_for("192", "all live", "lost 0", within_s=30)
        seen: list[Picture] = []
        begun_s = time.time()
        while time.time() - begun_s < SEEN_S:
            seen.append(header(terminal, time.time()))
            time.sleep(LOOK_S)
        assert len({each.figures for each in seen}) >= 10
        buffers = list((tmp_path / "cache").rglob("*.mcap"))
        assert buffers
        while time.time() - begun_s < back_s + SEEN_S / 2:
            time.sleep(1)
        # With the five minutes from before the start.
        assert re.search(rf"history {back_min + 5} min", terminal.text)
        paused_s = time.time()
        terminal.send(" ")
        terminal.wait_for("LIVE continues")
        for _ in range(back_min):
            terminal.send("{")
        terminal.wait_for_match(rf"({back_min} min|{back_min * 6}\d s) (\d+ s )?ago")
        first_s = looked_at_s(terminal)
        # Give or take the second in which a key is served.
        assert abs(first_s - (paused_s - back_s)) < 4
        pictures = []
        for step in range(STEPS):
            if step:
                terminal.send(".")
            pictures.append(settled(terminal, first_s + step))
        assert {each.words for each in pictures} == {pictures[0].words}
        assert abs(offset_s(pictures, seen)) <= AROUND_S, (pictures, seen)
        assert len({each.figures for each in pictures}) == STEPS
        terminal.send("\x1b[F")
        terminal.wait_for_no("LIVE continues")
        text = terminal.wait_for("all live", "lost 0")
        assert header(terminal, time.time()).figures not in {each.figures for each in seen}
        assert "dropped" not in text
        assert "undescribed" not in text
        assert terminal.end(keys="q") == 0
        assert terminal.is_restored()
    assert not list((tmp_path / "cache").rglob("*.mcap"))
