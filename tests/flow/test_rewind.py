"""The demo as a user has it, taken back by five minutes of real time and to the present again."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker

BACK_S = 300
SEEN_S = 40
"""For so long the screen is looked at, in the middle of which the demo is taken back."""
LOOK_S = 0.25
"""Between two looks at the screen while it is still the present that is to be gone back to."""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def figures(terminal: Terminal) -> str:
    """Return the header's figures: they are different in every second."""
    return terminal.lines[1]


def recognised(terminal: Terminal, seen: dict[str, float], *, after_s: float) -> float:
    """Return when the present picture was seen, later than a time; step on where a busy machine has not drawn that second."""
    for _ in range(8):
        until_s = time.monotonic() + 2
        while time.monotonic() < until_s:
            shown = seen.get(figures(terminal), 0.0)
            if shown > after_s:
                return shown
            time.sleep(0.1)
        terminal.send(".")
    raise AssertionError(f"never seen before: {figures(terminal)}\n{terminal.text}")


def test_the_demo_goes_back_by_five_minutes_and_to_the_present_with_nothing_lost(tmp_path: Path) -> None:
    """What was on the screen then is there again, the present goes on meanwhile, and nothing of it is lost."""
    with Terminal(columns=160) as terminal:
        terminal.wait_for("192", "all live", "lost 0", within_s=30)
        seen: dict[str, float] = {}
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < SEEN_S:
            seen[figures(terminal)] = time.monotonic()
            time.sleep(LOOK_S)
        assert len(seen) >= 10
        buffers = list((tmp_path / "cache").rglob("*.mcap"))
        assert buffers
        while time.monotonic() - begun_s < BACK_S + SEEN_S / 2:
            time.sleep(1)
        assert re.search(r"kept 5 min", terminal.text)
        paused_s = time.monotonic()
        terminal.send(" ")
        terminal.wait_for("the present is recorded")
        for _ in range(BACK_S // 60):
            terminal.send("{")
        terminal.wait_for_match(r"(5 min|30\d s) (\d+ s )?ago")
        back_to_s = paused_s - BACK_S
        # The picture is one that was there then, give or take the second in which a key is served.
        shown = recognised(terminal, seen, after_s=0.0)
        assert abs(shown - back_to_s) < 8
        terminal.send(".")
        assert recognised(terminal, seen, after_s=shown) > shown
        terminal.send("\x1b[F")
        terminal.wait_for_no("the present is recorded")
        text = terminal.wait_for("all live", "lost 0")
        assert figures(terminal) not in seen
        assert "dropped" not in text
        assert "undescribed" not in text
        assert terminal.end(keys="q") == 0
        assert terminal.is_restored()
    assert not list((tmp_path / "cache").rglob("*.mcap"))
