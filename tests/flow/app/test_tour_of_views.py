"""Every view at every size in a terminal, and a window that is dragged about."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

from support.processes.terminal import Terminal
from support.record.fixtures import RECORDINGS

from trnfleet.tui.bars.tabs import TabForm, form_for
from trnfleet.tui.views import TABS

if TYPE_CHECKING:
    from pathlib import Path

SIZES = ((120, 40), (80, 24), (200, 55))
RESIZES = 40
STORMS = 12
"""Storms of resizes. Effects of the first vary; each later one begins and ends at the same size."""


def stands(name: str, lines: list[str]) -> bool:
    """Return whether header and tabs are where they belong, one of them with a name."""
    return " chips " in lines[0] and name in lines[2]


def is_whole(lines: list[str]) -> bool:
    """Return whether an app in 80x24 has drawn its top and bottom lines."""
    return stands("[1 Fleet]", lines) and "? help  q quit" in lines[23]


def test_views_at_three_sizes_and_forty_resizes(tmp_path: Path) -> None:
    """Header, tabs, help and quit keep their places, and the log has no failure."""
    log_file = tmp_path / "app.log"
    recording = str(RECORDINGS / "game-day.mcap")
    with Terminal("replay", recording, "--log-file", str(log_file)) as terminal:
        terminal.wait_for("192 chips", "us-0001")
        for columns, rows in SIZES:
            terminal.resize(columns, rows)
            short = form_for(TABS, columns) is TabForm.SHORT
            for tab in TABS:
                name = f"{tab.key} {tab.short if short else tab.title}"
                terminal.send(tab.key)
                terminal.wait_for(f"[{name}")
                # A key may be answered in the size before: until that of the window is drawn, other
                # lines stand at its top.
                terminal.wait_until(partial(stands, name))
                assert len(terminal.lines) == rows
        terminal.send("1")
        for _ in range(STORMS):
            for number in range(RESIZES):
                # Sizes from 20x5 to 219x63, in no order.
                terminal.resize(20 + number * 97 % 200, 5 + number * 41 % 59)
            terminal.resize(80, 24)
            terminal.wait_until(is_whole)
        assert terminal.end(signal.SIGTERM) == 143
        assert terminal.is_restored()
    assert "Traceback" not in log_file.read_text(encoding="utf-8")
